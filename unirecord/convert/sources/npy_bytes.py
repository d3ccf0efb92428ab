"""The content of a .npy file as an array, of plain numbers only: nothing is unpickled, no size is believed."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any, NamedTuple

import numpy as np

__all__ = ["NpyHeader", "npy_array", "npy_header"]

_KINDS = "?biufc"


class NpyHeader(NamedTuple):
    """What a .npy file holds, and where."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self.dtype.itemsize * math.prod(self.shape)


def npy_header(head: bytes) -> NpyHeader:
    """Return what the first bytes say; ``ValueError`` when they are no header, or one of Python objects."""
    file = io.BytesIO(head)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            elif version in ((2, 0), (3, 0)):
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
            else:
                raise ValueError(f"version {version} of .npy is not known")
    except (ValueError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"no .npy header: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from None
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which are not unpickled")
    if any(type(d) is not int or d < 0 for d in shape) or len(shape) > 32:
        raise ValueError(f"the shape {shape}")
    return NpyHeader(dtype, tuple(shape), bool(fortran), file.tell())


def npy_array(data: bytes | memoryview) -> Any:
    """Return the array of a whole .npy file; ``ValueError`` says what is wrong with it."""
    header = npy_header(bytes(data[:65_536]))
    if header.dtype.kind not in _KINDS:
        raise ValueError(f"an array of {header.dtype}, not of numbers")
    if header.nbytes != len(data) - header.offset:
        raise ValueError(f"{len(data) - header.offset:,} bytes where the header says {header.nbytes:,}")
    flat = np.frombuffer(data, header.dtype, math.prod(header.shape), header.offset)
    array = flat.reshape(header.shape, order="F" if header.fortran else "C")
    return array.astype(header.dtype.newbyteorder("<"), order="C", copy=False)
