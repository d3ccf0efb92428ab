"""Patches: values that some rows of a part have in place of those that its files store; bytes <-> tables, checked."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from ..errors import FormatError
from ..sizes import many
from .column import Column
from .schema import Schema

__all__ = [
    "MOST_BYTES",
    "Patch",
    "PatchTable",
    "can_be_patched",
    "check_patch",
    "decode_patch",
    "encode_patch",
    "merged",
]


MOST_BYTES: Final = 65_536

_HEAD: Final = struct.Struct("<4I")

Place = tuple[int, int]
"""Which file of the part, and which column of it, as layouts have them."""


@dataclass(frozen=True)
class PatchTable:
    """What a column of a file has: the bytes of its value for some rows, None for null; ``width``: 0 of strings."""

    width: int
    cells: Mapping[int, bytes | None]


Patch = Mapping[Place, PatchTable]


def can_be_patched(column: Column) -> bool:
    """Whether values of such a column may stand in a patch."""
    return column.is_ordered and column.fixed_bytes <= 8


def encode_patch(patch: Patch) -> bytes:
    """The bytes of a patch; b"" of an empty one."""
    return b"".join(_encode(place, patch[place]) for place in sorted(patch))


def _encode(place: Place, table: PatchTable) -> bytes:
    rows = sorted(table.cells)
    cells = [table.cells[row] for row in rows]
    found = [_HEAD.pack(*place, len(rows), table.width), np.array(rows, "<u8").tobytes()]
    found.append(bytes(cell is not None for cell in cells))
    if not table.width:
        found.append(np.array([len(cell or b"") for cell in cells], "<u4").tobytes())
    return b"".join([*found, *(bytes(table.width) if cell is None else cell for cell in cells)])


class _Bytes:
    """Bytes that are taken from front to back; FormatError where there are fewer."""

    def __init__(self, content: bytes) -> None:
        self._content, self.at = content, 0

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self._content):
            raise FormatError("a patch is cut off")
        return self._content[self.at - size : self.at]


def decode_patch(content: bytes) -> Patch:
    """The tables of a patch; FormatError where it is none."""
    left, patch, last = _Bytes(content), dict[Place, PatchTable](), (-1, -1)
    while left.at < len(content):
        file, column, count, width = _HEAD.unpack(left.take(_HEAD.size))
        if not count or (file, column) <= last:
            raise FormatError("a patch has a table without rows, or tables that are not in order")
        last = file, column
        rows = np.frombuffer(left.take(8 * count), "<u8").tolist()
        valid = left.take(count)
        sizes = [width] * count if width else np.frombuffer(left.take(4 * count), "<u4").tolist()
        if max(valid) > 1 or any(a >= b for a, b in pairwise(rows)):
            raise FormatError("a patch has rows that do not ascend, or a flag that is neither 0 nor 1")
        cells = [left.take(size) for size in sizes]
        if any(cell.strip(b"\0") for cell, there in zip(cells, valid, strict=True) if not there):
            raise FormatError("a patch has a null with a value")
        patch[last] = PatchTable(
            width,
            {row: cell if there else None for row, cell, there in zip(rows, cells, valid, strict=True)},
        )
    return patch


def check_patch(patch: Patch, files: tuple[Schema, ...], places: Collection[Place], rows: int) -> None:
    """FormatError unless a part of so many rows can have it, with files of these schemas, columns at these places."""
    for (file, ordinal), table in patch.items():
        if (file, ordinal) not in places:
            raise FormatError(
                f"a patch has values of column {ordinal} of file {file}, which is no column's place"
            )
        column = files[file][ordinal]
        if not can_be_patched(column) or table.width != (0 if column.is_string else column.fixed_bytes):
            raise FormatError(
                f"a patch has values of {many(table.width, 'byte')} for column {column.name!r} ({column.spec})"
            )
        if max(table.cells) >= rows:
            raise FormatError(
                f"a patch has a value of row {max(table.cells)} of a part of {many(rows, 'row')}"
            )
        if not column.nullable and None in table.cells.values():
            raise FormatError(
                f"a patch has a null in column {column.name!r} ({column.spec}), which cannot be null"
            )


def merged(first: Patch, then: Patch) -> Patch:
    """One patch that does what the two do, one after the other."""
    found = dict(first)
    for place, table in then.items():
        before = found[place].cells if place in found else {}
        found[place] = PatchTable(table.width, {**before, **table.cells})
    return found
