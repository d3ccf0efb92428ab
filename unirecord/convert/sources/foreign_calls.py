"""Calls of the libraries that read other projects' files: what each raises over a damaged one becomes our error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from ...errors import SchemaError, UniRecordError

__all__ = ["RAISED", "ForeignCalls", "foreign_call"]

_LOOKUPS: Final = (KeyError, IndexError, AttributeError)
_VALUES: Final = (ValueError, TypeError, OverflowError, NotImplementedError)
# What the libraries raise over damaged files. The exceptions of pyarrow and lance are all derived from these; those of
# lmdb, PyYAML and the codecs of zarr are derived from Exception alone.
RAISED: Final[dict[str, tuple[type[Exception], ...]]] = {
    "array_record": (OSError, RuntimeError, *_LOOKUPS, *_VALUES),
    "h5py": (OSError, RuntimeError, *_LOOKUPS, *_VALUES),
    "lance": (OSError, RuntimeError, *_LOOKUPS, *_VALUES),
    "lmdb": (Exception,),
    "pyarrow": (OSError, RuntimeError, *_LOOKUPS, *_VALUES),
    "yaml": (Exception,),
    "zarr": (Exception,),
}


class ForeignCalls:
    """``begun`` is told where each call is, in a process that has to say what it was at when a call ended it."""

    begun: ClassVar[Callable[[str], None] | None] = None


@contextmanager
def foreign_call(library: str, where: str) -> Iterator[None]:
    """Run calls of a library, and nothing else; `SchemaError` names ``where`` when it raises what it does of bad files.

    A panic of Rust, which is no Exception, is such an error, too. A file that has gone stays a FileNotFoundError.
    """
    if ForeignCalls.begun is not None:
        ForeignCalls.begun(where)
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


def _unreadable(where: str, error: BaseException) -> SchemaError:
    said = " ".join(str(error).split()).rstrip(".")[:500]
    return SchemaError(f"{where} cannot be read: {said or type(error).__name__}")
