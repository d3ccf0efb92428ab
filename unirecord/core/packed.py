"""Numbers as sections of an index hold them: of a few bits each (csrc/base/packed.c), or in a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from ..sizes import many
from .library import ffi, lib

Array = npt.NDArray[Any]


class PackedArray:
    """Numbers of ``bits`` bits each from ``base`` on, read like an array of them, a part or some places at a time.

    ``content``: uint8, as many as `packed_bytes` says.
    """

    __slots__ = ("_c", "_content", "base", "bits", "count", "dtype")

    def __init__(
        self, content: npt.NDArray[np.uint8], dtype: npt.DTypeLike, count: int, bits: int, base: int
    ) -> None:
        if len(content) != packed_bytes(count, bits):
            raise ValueError(f"{count} numbers of {bits} bits are not {many(len(content), 'byte')}")
        self._content, self.dtype, self.count, self.bits = content, np.dtype(dtype), count, bits
        self.base = base & 0xFFFF_FFFF_FFFF_FFFF
        self._c: Any = ffi.new("ur_packed_numbers *")
        self._c.data, self._c.bytes = ffi.from_buffer("uint8_t[]", content), len(content)
        self._c.base, self._c.bits = self.base, bits

    @property
    def pointer(self) -> Any:
        """The ur_packed_numbers, which this object keeps."""
        return self._c

    @property
    def nbytes(self) -> int:
        """Bytes as they are packed."""
        return len(self._content)

    def __len__(self) -> int:
        return self.count

    def can_have(self, number: int) -> bool:
        """Whether its bits have room for this number, of its type."""
        return (number - self.base) & 0xFFFF_FFFF_FFFF_FFFF < 1 << self.bits

    def span(self, start: int, stop: int) -> Array:
        """Numbers [start, stop), cut at the ends as a slice of an array is."""
        first, last, _ = slice(start, stop).indices(self.count)
        out = np.empty(max(last - first, 0), self.dtype)
        if len(out):
            to = ffi.from_buffer("uint8_t[]", out)
            lib.ur_packed_range(self._c, first, len(out), self.dtype.itemsize, to)
        return out

    def one(self, place: int) -> int:
        """The number at this place; IndexError where it is not there."""
        if not 0 <= place < self.count:
            raise IndexError(f"there is no number {place}: there are {self.count}")
        found: int = lib.ur_packed_one(self._c, place)
        return found - (1 << 64) if found >> 63 and self.dtype.kind == "i" else found

    def at(self, places: npt.NDArray[np.integer[Any]]) -> Array:
        """The numbers at these places; IndexError for places that are not there."""
        given = np.ascontiguousarray(places, np.int64)
        if given.size and not 0 <= int(given.min()) <= int(given.max()) < self.count:
            raise IndexError(f"a place is out of range: there are {self.count} numbers")
        out = np.empty(given.shape, self.dtype)
        if given.size:
            to, of = ffi.from_buffer("uint8_t[]", out), ffi.from_buffer("int64_t[]", given)
            lib.ur_packed_places(self._c, of, given.size, self.dtype.itemsize, to)
        return out

    def view(self, dtype: npt.DTypeLike) -> PackedArray:
        """The same numbers as others of the same width."""
        return PackedArray(self._content, dtype, self.count, self.bits, self.base)


class CodedArray:
    """Numbers of which each is an entry of a dictionary, by its code; read like an array of them.

    CorruptionError, which names the index ``path``, for a code that has no entry.
    """

    __slots__ = ("_path", "codes", "entries")

    def __init__(self, codes: Array | PackedArray, entries: Array, path: str) -> None:
        self.codes, self.entries, self._path = codes, entries, path

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return self.entries.dtype

    @property
    def bits(self) -> int:
        """Of a code."""
        return self.codes.bits if isinstance(self.codes, PackedArray) else 8 * self.codes.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of codes and dictionary."""
        return self.codes.nbytes + self.entries.nbytes

    def __len__(self) -> int:
        return len(self.codes)

    def span(self, start: int, stop: int) -> Array:
        """Numbers [start, stop), cut at the ends as a slice of an array is."""
        codes = self.codes
        return self._entries(codes[start:stop] if isinstance(codes, np.ndarray) else codes.span(start, stop))

    def one(self, place: int) -> Any:
        """The number at this place, as Python's own; IndexError where it is not there."""
        codes = self.codes
        code = codes[place] if isinstance(codes, np.ndarray) else codes.one(place)
        return self._entries(np.array([code])).item()

    def at(self, places: npt.NDArray[np.integer[Any]]) -> Array:
        """The numbers at these places; IndexError for places that are not there."""
        codes = self.codes
        return self._entries(codes[places] if isinstance(codes, np.ndarray) else codes.at(places))

    def _entries(self, codes: Array) -> Array:
        try:
            return self.entries.take(codes)
        except IndexError:
            raise CorruptionError(
                f"{self._path}: a code has no entry in the dictionary of its column", path=self._path
            ) from None


def packed_bytes(count: int, bits: int) -> int:
    """Bytes of so many numbers of so many bits: whole words of 8, and one more."""
    return (-(-count * bits // 64) + 1) * 8


def pack_numbers(numbers: Array, bits: int, base: int) -> npt.NDArray[np.uint8]:
    """The numbers, of 1, 2, 4 or 8 bytes, packed; what they are less ``base`` has at most ``bits`` bits."""
    given = np.ascontiguousarray(numbers)
    out = np.empty(packed_bytes(len(given), bits), np.uint8)
    raw = ffi.from_buffer("uint8_t[]", given.view(np.uint8)) if len(given) else ffi.NULL
    lib.ur_packed_make(
        raw,
        given.dtype.itemsize,
        len(given),
        base & 0xFFFF_FFFF_FFFF_FFFF,
        bits,
        ffi.from_buffer("uint8_t[]", out),
    )
    return out
