"""Foreign bytes that the C core takes apart: CSV, JSON Lines and TFRecord."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .library import buffer_of, ffi, lib

__all__ = [
    "BAD_CONTENT",
    "BAD_LENGTH",
    "ColumnLook",
    "FoundRecords",
    "JsonKind",
    "JsonRows",
    "find_records",
    "look_through_csv",
    "read_json_lines",
]


# CSV text looked through: how many records it has, and what the cells of each column can be read as:
# csrc/foreign/csv.c.


class ColumnLook(NamedTuple):
    """What the cells of a column can all be read as, as ``ur_csv_column`` has it."""

    whole: bool
    real: bool
    logical: bool
    date: bool
    moment: bool
    zoned: bool
    unzoned: bool
    digits: int
    far: bool
    empty: bool
    filled: bool
    negative: bool
    beyond_low: bool
    beyond_high: bool
    inexact: bool
    high: int
    longest: int


def look_through_csv(data: bytes, delimiter: str, columns: int) -> tuple[int, list[ColumnLook]] | None:
    """Return how many records there are, and what they say of each column; None where the text is not RFC 4180.

    ``data``: whole records, in UTF-8. ``delimiter``: an ASCII character.
    """
    found: Any = ffi.new("ur_csv_column[]", columns)
    for column in found:
        column.whole = column.real = column.logical = column.date = column.moment = 1
    rows = ffi.new("uint64_t *")
    if not lib.ur_csv_look(
        ffi.from_buffer("uint8_t[]", buffer_of(data)), len(data), ord(delimiter), columns, found, rows
    ):
        return None
    looks = [
        ColumnLook(
            bool(c.whole), bool(c.real), bool(c.logical), bool(c.date), bool(c.moment), bool(c.zoned), bool(c.unzoned),
            int(c.digits), bool(c.far), bool(c.empty), bool(c.filled), bool(c.negative),
            bool(c.beyond_low), bool(c.beyond_high), bool(c.inexact), int(c.high), int(c.longest),
        )
        for c in found
    ]  # fmt: skip
    return int(rows[0]), looks


# JSON Lines taken apart, scalars as they are and all else as msgpack: csrc/foreign/json_lines.c.


class JsonKind(IntEnum):
    """What the value of a key in a row is, as ``ur_line_kind`` has it; beyond `TEXT` it is msgpack."""

    ABSENT = lib.UR_LINE_ABSENT
    NULL = lib.UR_LINE_NULL
    FALSE = lib.UR_LINE_FALSE
    TRUE = lib.UR_LINE_TRUE
    INTEGER = lib.UR_LINE_INTEGER
    NATURAL = lib.UR_LINE_NATURAL
    REAL = lib.UR_LINE_REAL
    TEXT = lib.UR_LINE_TEXT
    NUMBERS = lib.UR_LINE_NUMBERS
    OBJECT = lib.UR_LINE_OBJECT


_CELL: Final = np.dtype([("value", np.int64), ("bytes", np.uint32), ("kind", np.uint32)])  # ur_line_cell
_MOST_KEYS: Final = 1024
_FEW_CELLS: Final = 65_536  # of all keys, beside as many as there are bytes: most keys may be in few rows


@dataclass(frozen=True)
class JsonRows:
    """Some lines, each an object.

    Attributes:
        rows: how many there are.
        numbers: which line each is, from 0 on; blank ones are none.
        cells: of each key, as ``ur_line_cell`` has them: ``value`` is a number's bits, or else where ``bytes`` of
            ``content`` begin.
        content: text, and msgpack.
    """

    rows: int
    numbers: npt.NDArray[np.uint32]
    cells: dict[str, npt.NDArray[np.void]]
    content: bytes

    @property
    def nbytes(self) -> int:
        """Return how much memory it takes."""
        return len(self.content) + self.numbers.nbytes + sum(cells.nbytes for cells in self.cells.values())

    def texts(self, key: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the texts of a key, one behind the other, and their sizes, 0 for what is none; they are UTF-8."""
        cells = self.cells[key]
        sizes = np.where(cells["kind"] == JsonKind.TEXT, cells["bytes"], np.uint32(0)).astype(np.int64)
        joined = np.empty(int(sizes.sum()), np.uint8)
        lib.ur_line_texts(
            ffi.from_buffer("ur_line_cell[]", cells), self.rows, ffi.from_buffer("uint8_t[]", self.content),
            ffi.from_buffer("uint8_t[]", joined),
        )  # fmt: skip
        return joined, sizes


def read_json_lines(data: bytes) -> JsonRows | None:
    """Return the rows; None where a line is no object, or may be one that Python reads otherwise, or has many keys."""
    most = int(np.count_nonzero(np.frombuffer(data, np.uint8) == 10)) + 1
    out = np.empty(5 * len(data) // 2 + 64, np.uint8)
    numbers = np.empty(most, np.uint32)
    lines = ffi.new("ur_json_lines *")
    keys: Any = ffi.new("ur_line_key[]", _MOST_KEYS)
    held = [ffi.from_buffer("uint8_t[]", data), ffi.from_buffer("uint8_t[]", out)]
    lines.data, lines.bytes, lines.out, lines.room = held[0], len(data), held[1], len(out)
    lines.most_rows, lines.numbers = most, ffi.from_buffer("uint32_t[]", numbers)
    cells: dict[str, Any] = {}
    while (stop := lib.ur_json_lines_read(lines, keys, len(cells))) == lib.UR_LINE_NEW_KEY:
        if len(cells) == _MOST_KEYS or (len(cells) + 1) * most > len(data) + _FEW_CELLS:
            return None
        name = out[lines.name : lines.name + lines.name_bytes].tobytes()
        array = np.zeros(most, _CELL)
        key = keys[len(cells)]
        held += [ffi.from_buffer("uint8_t[]", name), ffi.from_buffer("ur_line_cell[]", array)]
        key.name, key.bytes, key.cells = held[-2], len(name), held[-1]
        key.is_plain = not any(c < 0x20 or c in b'"\\' for c in name)
        cells[name.decode()] = array
    if stop != lib.UR_LINE_ALL:
        return None
    rows = int(lines.rows)
    return JsonRows(
        rows,
        numbers[:rows],
        {name: array[:rows] for name, array in cells.items()},
        out[: lines.used].tobytes(),
    )


# The records in a piece of a TFRecord file, found and checked in one call: csrc/foreign/tfrecord.c.


BAD_LENGTH: Final = int(lib.UR_TFRECORD_BAD_LENGTH)
BAD_CONTENT: Final = int(lib.UR_TFRECORD_BAD_CONTENT)
_MOST: Final = 65_536  # records of one call


class FoundRecords(NamedTuple):
    """Where the contents of records start, and how long they are; the bytes of these records with their checksums.

    ``stop`` may say of the next one, which begins at ``used``, `BAD_LENGTH` or `BAD_CONTENT`. When it is not whole in
    the data, it has ``wanted`` bytes at least; else that is 0.
    """

    starts: list[int]
    lengths: list[int]
    used: int
    wanted: int
    stop: int


def find_records(data: Any) -> FoundRecords:
    """Find and check the records from the beginning of ``data`` on; others run meanwhile."""
    view = memoryview(data).cast("B")
    room = min(_MOST, len(view) // 16)
    starts, lengths = ffi.new("uint64_t[]", room + 1), ffi.new("uint64_t[]", room + 1)
    numbers = ffi.new("uint64_t[3]")
    stop = lib.ur_tfrecord_find(
        ffi.from_buffer("uint8_t[]", buffer_of(view)), len(view), room + 1, starts, lengths,
        numbers, numbers + 1, numbers + 2,
    )  # fmt: skip
    count, used, wanted = map(int, numbers)
    return FoundRecords(ffi.unpack(starts, count), ffi.unpack(lengths, count), used, wanted, int(stop))
