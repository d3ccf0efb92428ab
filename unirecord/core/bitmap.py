"""The C core's bitmaps: rows in play, one bit each, with rank and select."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..sizes import many
from .library import ffi, lib

Rows = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def empty_words(bits: int) -> Words:
    """Words of a bitmap without a one."""
    return np.zeros(-(-bits // 64), np.uint64)


def add_rows(words: Words, bits: int, rows: Rows) -> None:
    """Sets the bits of ``rows``; several threads may at once. IndexError for rows that are not there."""
    given = np.ascontiguousarray(rows, np.int64)
    if lib.ur_bitmap_add(_u64(words), bits, _i64(given), len(given)) != lib.UR_OK:
        wrong = given[(given < 0) | (given >= bits)][0]
        raise IndexError(f"there is no row {wrong}: there are {bits}")


def bitmap_bytes(bits: int, ones: int) -> int:
    """Bytes of a bitmap, its directory included: about 1.27 bits for each of ``bits``."""
    return 8 * (-(-bits // 64) + int(lib.ur_bitmap_directory(bits, ones)))


class Bitmap:
    """Some of ``bits`` rows, in their order; immutable, and pickled compressed.

    Rank9 and select of Vigna (2008), in memory that nothing is written to: forks share it.
    """

    bits: int

    __slots__ = ("_directory", "_words", "bits", "ones", "pointer")

    def __init__(self, words: Words, bits: int) -> None:
        """Takes the words over: bit r mod 64 of word r / 64 says whether row r is in it."""
        self._words, self.bits = words, bits
        self.ones: int = int(lib.ur_bitmap_ones(_u64(words), bits))
        self._directory = np.empty(int(lib.ur_bitmap_directory(bits, self.ones)), np.uint64)
        if lib.ur_bitmap_index(_u64(words), bits, self.ones, _u64(self._directory)) != lib.UR_OK:
            raise ValueError(f"a bitmap of {bits} bits has bits beyond the last one")
        self._words.flags.writeable = self._directory.flags.writeable = False
        self.pointer: Any = ffi.new("ur_bitmap *")
        self.pointer.words, self.pointer.directory = _u64(words), _u64(self._directory)
        self.pointer.bits, self.pointer.ones = bits, self.ones

    def __len__(self) -> int:
        return self.ones

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._words.nbytes + self._directory.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (zlib.compress(self._words.tobytes(), 1), self.bits)

    def one(self, rank: int) -> int:
        """The row of one number ``rank``, 0 … ones − 1."""
        row: int = lib.ur_bitmap_one(self.pointer, rank)
        if row < 0:
            raise IndexError(f"there is no row {rank}: {self.ones} are selected")
        return row

    def select(self, ranks: Rows) -> Rows:
        """The rows of the ones of these numbers, of the same shape."""
        return self._asked(lib.ur_bitmap_select, ranks)

    def rank(self, rows: Rows) -> Rows:
        """How many ones there are before each of these rows, 0 … bits."""
        return self._asked(lib.ur_bitmap_rank, rows)

    def range(self, start: int, count: int) -> Rows:
        """The rows of ``count`` ones from number ``start`` on."""
        rows = np.empty(max(count, 0), np.int64)
        if lib.ur_bitmap_range(self.pointer, start, count, _i64(rows)) != lib.UR_OK:
            raise IndexError(f"there are no {many(count, 'row')} from {start} on: {self.ones} are selected")
        return rows

    def contains(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """For each of these rows, 0 … bits − 1, whether it is in it."""
        shift = (rows & 63).astype(np.uint64)
        return np.asarray((self._words[rows >> 6] >> shift) & np.uint64(1), np.bool_)

    def digest(self, start: int, step: int, count: int, seed: int) -> int:
        """XXH3-64 of the rows of ones start, start + step, …, as int64: of an array of them, without the array."""
        out = ffi.new("uint64_t *")
        if lib.ur_bitmap_digest(self.pointer, start, step, count, seed, out) != lib.UR_OK:
            raise IndexError(
                f"there are no {many(count, 'row')} {step} apart from {start} on: {self.ones} are selected"
            )
        return int(out[0])

    def _asked(self, function: Any, numbers: Rows) -> Rows:
        given = np.ascontiguousarray(numbers, np.int64)
        found = np.empty_like(given)
        if function(self.pointer, _i64(given), given.size, _i64(found)) != lib.UR_OK:
            raise IndexError(f"a number is out of range: {self.ones} of {self.bits} rows are selected")
        return found


def _unpacked(packed: bytes, bits: int) -> Bitmap:
    return Bitmap(np.frombuffer(bytearray(zlib.decompress(packed)), np.uint64), bits)


def _i64(array: Rows) -> Any:
    return ffi.from_buffer("int64_t[]", array)


def _u64(array: Words) -> Any:
    return ffi.from_buffer("uint64_t[]", array)
