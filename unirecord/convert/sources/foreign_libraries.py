"""Calls of foreign libraries: what they raise, what files claim, and what has to be installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from ...errors import MissingError, SchemaError, UniRecordError

__all__ = [
    "FLOORS",
    "RAISED",
    "foreign_call",
    "foreign_items",
    "needed",
]


# Packages that only some sources and commands need, imported when they do; an error says what to install.


# The oldest versions that are read with, as the extra `convert` has them: an older pyarrow runs code that a file names
# (CVE-2023-47248), and others have defaults that have not been tried here. Before torch 2.6 a checkpoint runs code by
# `weights_only=True`, too (CVE-2025-32434).
FLOORS: Final = {
    "array-record": "0.8", "brotli": "1.2", "h5py": "3.12", "lmdb": "1.6", "pyarrow": "20", "pylance": "7",
    "python-snappy": "0.7", "pyyaml": "6", "tokenizers": "0.21", "torch": "2.6", "zarr": "3.0", "zstandard": "0.23",
}  # fmt: skip


def needed(module: str, what: str, package: str | None = None) -> Any:
    """Return a module that reads ``what``; `MissingError` says which package to install, or is too old."""
    package = package or module.partition(".")[0]
    try:
        found = import_module(module)
    except ImportError as error:
        raise MissingError(
            f"{what} needs {package}, which cannot be imported ({error}): pip install {package}"
        ) from None
    old = _too_old(package)
    if old is not None:
        raise MissingError(
            f"{what} needs {package} {FLOORS[package]} or newer, and {old} is installed: "
            f"pip install '{package}>={FLOORS[package]}'"
        )
    return found


@cache
def _too_old(package: str) -> str | None:
    """The version that is installed, where it is older than is read with."""
    if package not in FLOORS:
        return None
    try:
        found = version(package)
    except PackageNotFoundError:  # built by hand, or part of something larger
        return None
    return found if _numbers(found) < _numbers(FLOORS[package]) else None


def _numbers(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


# Calls of the libraries that read other projects' files: what each raises over a damaged one becomes our
# error.


_LOOKUPS: Final = (KeyError, IndexError, AttributeError)
_VALUES: Final = (ValueError, TypeError, OverflowError, NotImplementedError)
# What the libraries raise over damaged files. The exceptions of pyarrow and lance are all derived from these; those of
# lmdb, PyAV, PyYAML and the codecs of zarr are derived from Exception alone, and tokenizers raises that itself.
RAISED: Final[dict[str, tuple[type[Exception], ...]]] = {
    "av": (Exception,),
    "array_record": (OSError, RuntimeError, *_LOOKUPS, *_VALUES),
    "h5py": (OSError, RuntimeError, *_LOOKUPS, *_VALUES),
    "lance": (OSError, RuntimeError, *_LOOKUPS, *_VALUES),
    "lmdb": (Exception,),
    "pyarrow": (OSError, RuntimeError, *_LOOKUPS, *_VALUES),
    "tokenizers": (Exception,),
    "yaml": (Exception,),
    "zarr": (Exception,),
}


# Is told where each call is, in a process that has to say what it was at when a call ended it.
begun: Callable[[str], None] | None = None


@contextmanager
def foreign_call(library: str, where: str) -> Iterator[None]:
    """Run calls of a library, and nothing else; `SchemaError` names ``where`` when it raises what it does of bad files.

    A panic of Rust, which is no Exception, is such an error, too. A file that has gone stays a FileNotFoundError.
    """
    if begun is not None:
        begun(where)
    try:
        yield
    except (UniRecordError, MemoryError):
        raise
    except FileNotFoundError as error:
        if type(error) is FileNotFoundError:
            raise
        raise _unreadable(where, error) from None  # a library's own, of what it does not find in the file
    except RAISED[library] as error:
        raise _unreadable(where, error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _unreadable(where, error) from None


def foreign_items(library: str, where: str, items: Iterable[Any]) -> Iterator[Any]:
    """Yield what a library yields, each by a `foreign_call`; it yields no None."""
    with foreign_call(library, where):
        left = iter(items)
    while True:
        with foreign_call(library, where):
            item = next(left, None)
        if item is None:
            return
        yield item


def _unreadable(where: str, error: BaseException) -> SchemaError:
    said = " ".join(str(error).split()).rstrip(".")[:500]
    return SchemaError(f"{where} cannot be read: {said or type(error).__name__}")
