"""XXH3-64 of one piece of memory and of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .core import ffi, lib


def xxh3_64(data: Any, seed: int = 0) -> int:
    """XXH3-64 of a bytes-like object or C-contiguous array."""
    view = memoryview(data).cast("B")
    return int(lib.ur_xxh3_64(ffi.from_buffer(view), len(view), seed))


def digest_ranges(
    data: Any,
    starts: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
    first_seed: int,
    step: int,
) -> npt.NDArray[np.uint64]:
    """Digest of each ``data[start : start + length]``, seeded ``first_seed + i * step``; others run meanwhile."""
    view = memoryview(data).cast("B")
    starts, lengths = np.ascontiguousarray(starts, np.uint64), np.ascontiguousarray(lengths, np.uint64)
    if len(starts) and int((starts + lengths).max()) > len(view):
        raise ValueError("a range ends beyond the data")
    found = np.empty(len(starts), np.uint64)
    arrays = [ffi.from_buffer("uint64_t[]", a) for a in (starts, lengths, found)]
    lib.ur_digest_ranges(ffi.from_buffer(view), *arrays[:2], len(starts), first_seed, step, arrays[2])
    return found
