"""CSV text looked through: how many records it has, and what the cells of each column can be read as: csrc/csv.c."""

from __future__ import annotations

from typing import Any, NamedTuple

from .library import buffer_of, ffi, lib

__all__ = ["ColumnLook", "look_through_csv"]


class ColumnLook(NamedTuple):
    """What the cells of a column can all be read as, as ``ur_csv_column`` has it."""

    whole: bool
    real: bool
    logical: bool
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
        column.whole = column.real = column.logical = 1
    rows = ffi.new("uint64_t *")
    if not lib.ur_csv_look(
        ffi.from_buffer("uint8_t[]", buffer_of(data)), len(data), ord(delimiter), columns, found, rows
    ):
        return None
    looks = [
        ColumnLook(
            bool(c.whole), bool(c.real), bool(c.logical), bool(c.empty), bool(c.filled), bool(c.negative),
            bool(c.beyond_low), bool(c.beyond_high), bool(c.inexact), int(c.high), int(c.longest),
        )
        for c in found
    ]  # fmt: skip
    return int(rows[0]), looks
