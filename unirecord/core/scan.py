"""Conditions on columns, and bitmaps of rows, by the C core."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from ..sizes import many
from .library import ffi, lib
from .packed import PackedArray

# The C core's bitmaps: selected rows, one bit each, with rank and select.


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
            raise IndexError(
                f"a number is out of range: of {many(self.bits, 'row')}, {self.ones} are selected"
            )
        return found


def _unpacked(packed: bytes, bits: int) -> Bitmap:
    return Bitmap(np.frombuffer(bytearray(zlib.decompress(packed)), np.uint64), bits)


def _i64(array: Rows) -> Any:
    return ffi.from_buffer("int64_t[]", array)


def _u64(array: Words) -> Any:
    return ffi.from_buffer("uint64_t[]", array)


# Scans over flat arrays, and tests of strings: csrc/scan/.


TYPE_CODES: Final = {
    "b1": 1,
    "i1": 2,
    "u1": 3,
    "i2": 4,
    "u2": 5,
    "i4": 6,
    "u4": 7,
    "i8": 8,
    "u8": 9,
    "f2": 10,
    "f4": 11,
    "f8": 12,
}
Int64s = npt.NDArray[np.int64]
RANGE: Final[int] = lib.UR_SCAN_RANGE
TABLE: Final[int] = lib.UR_SCAN_TABLE
BITS: Final[int] = lib.UR_SCAN_BITS
BYTES: Final[int] = lib.UR_SCAN_BYTES
ROWS: Final[int] = lib.UR_SCAN_ROWS
MASK: Final[int] = lib.UR_SCAN_MASK
NUMBERS: Final[int] = lib.UR_SCAN_NUMBERS
SET: Final[int] = lib.UR_SCAN_SET
AND: Final[int] = lib.UR_SCAN_AND
OR: Final[int] = lib.UR_SCAN_OR
MASKS: Final[int] = lib.UR_SCAN_MASKS
NUMBER_DEPTH: Final[int] = lib.UR_NUMBER_DEPTH


class NumberOp(IntEnum):
    """``ur_number_op``."""

    LOAD = lib.UR_NUMBER_LOAD
    CONSTANT = lib.UR_NUMBER_CONSTANT
    MINUS = lib.UR_NUMBER_MINUS
    ADD = lib.UR_NUMBER_ADD
    SUBTRACT = lib.UR_NUMBER_SUBTRACT
    MULTIPLY = lib.UR_NUMBER_MULTIPLY
    WITHIN = lib.UR_NUMBER_WITHIN
    EQUAL = lib.UR_NUMBER_EQUAL
    LESS = lib.UR_NUMBER_LESS
    AT_MOST = lib.UR_NUMBER_AT_MOST


@dataclass
class NumberStep:
    """One operation on a stack of whole numbers, as ``ur_scan_number``; ``data`` starts at row 0."""

    op: NumberOp
    data: npt.NDArray[Any] | PackedArray | None = None
    value: int = 0


@dataclass
class Step:
    """One condition of a scan, as ``ur_scan_step``; ``data`` starts at row ``first``.

    ``numbers`` are worked out in ``dtype``, int32 or int64.
    """

    op: int
    combine: int
    target: int
    negated: bool = False
    mask: int = 0
    data: npt.NDArray[Any] | PackedArray | None = None
    first: int = 0
    low: int | float = 0
    high: int | float = 0
    table: npt.NDArray[np.uint8] | None = None
    dtype: np.dtype[Any] | None = None
    numbers: Sequence[NumberStep] = ()


class Program:
    """Steps made ready for C; immutable but for what `point` sets, so each thread has its own."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps: list[Step] = list(steps)
        self._c = ffi.new("ur_scan_step[]", len(self.steps))
        self._kept: list[Any] = [None] * len(self.steps)
        for place, step in enumerate(self.steps):
            c = self._c[place]
            c.op, c.combine, c.target, c.mask, c.negated = (
                step.op,
                step.combine,
                step.target,
                step.mask,
                step.negated,
            )
            if step.table is not None:
                c.table, c.table_entries = ffi.from_buffer("uint8_t[]", step.table), len(step.table)
            dtype = np.dtype(np.int64) if step.data is None else step.data.dtype
            if step.dtype is not None:
                self._point_numbers(place, step, step.dtype)
            if step.op in (RANGE, ROWS, NUMBERS):
                c.low, c.high = bits_of(dtype, step.low), bits_of(dtype, step.high)
            if step.data is not None:
                c.type = TYPE_CODES[dtype.str[1:]]
                self.point(place, step.data, step.first)

    def _point_numbers(self, place: int, step: Step, dtype: np.dtype[Any]) -> None:
        numbers = ffi.new("ur_scan_number[]", len(step.numbers))
        kept: list[Any] = [numbers]
        for c, number in zip(numbers, step.numbers, strict=True):
            c.op, c.value = number.op, number.value
            if number.data is None or not len(number.data):
                continue
            kept.append(number.data)
            c.type = TYPE_CODES[number.data.dtype.str[1:]]
            if isinstance(number.data, PackedArray):
                c.packed = number.data.pointer
            else:
                kept.append(ffi.from_buffer(number.data))
                c.data = kept[-1]
        self._kept[place] = kept
        self._c[place].type = TYPE_CODES[dtype.str[1:]]
        self._c[place].numbers, self._c[place].number_count = numbers, len(numbers)

    def point(self, place: int, data: npt.NDArray[Any] | PackedArray, first: int) -> None:
        """Sets the data of a step."""
        c = self._c[place]
        c.first = first
        if isinstance(data, PackedArray):
            self._kept[place], c.packed = data, data.pointer
        else:
            self._kept[place] = ffi.from_buffer(data) if len(data) else ffi.NULL
            c.data = self._kept[place]

    def mark(
        self, runs: Int64s, following: Int64s, marks: npt.NDArray[np.uint64] | None, counts: Int64s
    ) -> None:
        """Tries the runs [n, 4] from number ``following[0]`` on, as ``ur_scan_mark`` does; only counts if no marks."""
        broken = ffi.new("int64_t *")
        status = lib.ur_scan_mark(
            self._c,
            len(self.steps),
            ffi.from_buffer("ur_scan_run[]", runs),
            len(runs),
            ffi.from_buffer("int64_t[]", following),
            ffi.NULL if marks is None else ffi.from_buffer("uint64_t[]", marks),
            ffi.from_buffer("int64_t[]", counts),
            broken,
        )
        if status == lib.UR_CORRUPT:
            raise CorruptionError("a code has no entry in the dictionary of its column", row=int(broken[0]))
        if status != lib.UR_OK:
            raise AssertionError(f"ur_scan_mark refused its arguments: status {status}")


def take_marked(
    runs: Int64s, following: Int64s, marks: npt.NDArray[np.uint64], places: Int64s, base: int, rows: Int64s
) -> None:
    """Writes the rows marked in the runs from number ``following[0]`` on, ``base`` added, to their places."""
    lib.ur_scan_take(
        ffi.from_buffer("ur_scan_run[]", runs),
        len(runs),
        ffi.from_buffer("int64_t[]", following),
        ffi.from_buffer("uint64_t[]", marks),
        ffi.from_buffer("int64_t[]", places),
        base,
        ffi.from_buffer("int64_t[]", rows),
    )


def bits_of(dtype: np.dtype[Any], value: int | float) -> int:
    """A value as the C side takes bounds: integers as 64 bits, floats as their own."""
    if dtype.kind == "f":
        return int.from_bytes(np.array(value, dtype).tobytes(), "little")
    return int(value) & 0xFFFF_FFFF_FFFF_FFFF


def match_between(
    offsets: npt.NDArray[Any], data: npt.NDArray[Any], low: bytes, high: bytes | None
) -> npt.NDArray[np.uint8]:
    """1 for each string with low <= string < high (no upper bound when None), else 0."""
    return _match(offsets, data, lib.UR_TEXT_BETWEEN, low, high or b"", high is None)


def match_pattern(
    offsets: npt.NDArray[Any], data: npt.NDArray[Any], letters: bytes, kinds: bytes
) -> npt.NDArray[np.uint8]:
    """1 for each string that is like the pattern, one byte of ``kinds`` for each of ``letters``; else 0."""
    return _match(offsets, data, lib.UR_TEXT_LIKE, letters, kinds, False)


def _match(
    offsets: npt.NDArray[Any], data: npt.NDArray[Any], op: int, low: bytes, high: bytes, is_open: bool
) -> npt.NDArray[np.uint8]:
    mask = np.empty(max(len(offsets) - 1, 0), np.uint8)
    test = ffi.new("ur_text_test *")
    kept = ffi.from_buffer("uint8_t[]", low), ffi.from_buffer("uint8_t[]", high)
    test.op, test.open = op, is_open
    test.low, test.low_bytes, test.high, test.high_bytes = kept[0], len(low), kept[1], len(high)
    starts = np.ascontiguousarray(offsets, np.uint64)
    status = lib.ur_scan_text(
        ffi.from_buffer("uint64_t[]", starts),
        ffi.from_buffer("uint8_t[]", data),
        len(data),
        len(mask),
        test,
        ffi.from_buffer("uint8_t[]", mask),
    )
    if status != lib.UR_OK:
        raise CorruptionError("the offsets of a string column do not ascend")
    return mask
