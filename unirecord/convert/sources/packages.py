"""Packages that only some sources and commands need, imported when they do; an error says what to install."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from ...errors import MissingError

__all__ = ["FLOORS", "needed"]

# The oldest versions that are read with, as the extra `convert` has them: an older pyarrow runs code that a file names
# (CVE-2023-47248), and others have defaults that have not been tried here. Before torch 2.6 a checkpoint runs code by
# `weights_only=True`, too (CVE-2025-32434).
FLOORS: Final = {
    "array-record": "0.8", "brotli": "1.2", "h5py": "3.12", "lmdb": "1.6", "pyarrow": "20", "pylance": "7",
    "python-snappy": "0.7", "pyyaml": "6", "torch": "2.6", "zarr": "3.0", "zstandard": "0.23",
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
