"""Freed memory stays with the process for the next batch, instead of going to the kernel and back."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD: Final = -1  # glibc's malloc.h
_M_MMAP_THRESHOLD: Final = -3
_MAPPED_BYTES: Final = (
    32 << 20
)  # the greatest that glibc takes; from here on memory comes from the kernel each time
_KEPT_BYTES: Final = 64 << 20


def keep_freed_memory() -> None:
    """Ask the C library to keep up to 64 MB of freed memory; for processes that do nothing but convert.

    The kernel fills every page with zeros before it is written for the first time. Without glibc nothing happens.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
