"""Nested values of LitData's items: its binary form of lists and dicts, within the bytes that are there; and JSON."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from .json_text import parse_json

__all__ = ["nested_value"]

# The tags of litdata.streaming.serializers; those of the cells of a list of dicts are 16 and more.
_JSON, _TEXTS, _INTS, _FLOATS, _BOOLS, _DICT, _RECORDS, _TEXT, _INT, _FLOAT, _BOOL, _NONE = range(12)
_CELLS: Final = {0x10: _NONE, 0x11: _TEXT, 0x12: _INT, 0x13: _FLOAT, 0x14: _BOOL}
_LISTS: Final = {_INTS: "<i8", _FLOATS: "<f8", _BOOLS: "?"}
_NUMBERS: Final = {_INT: struct.Struct("<q"), _FLOAT: struct.Struct("<d")}
_MOST_DEPTH: Final = 64


def nested_value(cell: memoryview) -> Any:
    """Return the value; ``ValueError`` where the bytes are damaged."""
    if not len(cell) or cell[0] > 0x20:
        return parse_json(_utf8(cell))
    reader = _Reader(cell)
    found = reader.value(reader.take(1)[0], 0)
    if reader.at != len(cell):
        raise ValueError(f"{len(cell) - reader.at:,} bytes are left over")
    return found


class _Reader:
    """Takes values from bytes, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data, self.at = data, 0

    def take(self, size: int) -> memoryview:
        """The next bytes."""
        if size > len(self._data) - self.at:
            raise ValueError(f"it is cut off: {size:,} bytes are said to follow")
        self.at += size
        return self._data[self.at - size : self.at]

    def _count(self) -> int:
        """A number of things, each of which takes a byte at least."""
        count = int.from_bytes(self.take(4), "little")
        if count > len(self._data):
            raise ValueError(f"{count:,} values are said to be in {len(self._data):,} bytes")
        return count

    def _text(self) -> str:
        return _utf8(self.take(self._count()))

    def value(self, tag: int, depth: int) -> Any:
        """The value that a tag announces."""
        if depth > _MOST_DEPTH:
            raise ValueError(f"a value is nested more than {_MOST_DEPTH} levels deep")
        if tag == _JSON:
            return parse_json(self._text())
        if tag == _TEXTS:
            return [self._text() for _ in range(self._count())]
        if tag in _LISTS:
            dtype = np.dtype(_LISTS[tag])
            return np.frombuffer(self.take(self._count() * dtype.itemsize), dtype).tolist()
        if tag == _DICT:
            return {self._text(): self.value(self.take(1)[0], depth + 1) for _ in range(self._count())}
        if tag == _RECORDS:
            return self._records(depth)
        if tag == _TEXT:
            return self._text()
        if tag in _NUMBERS:
            return _NUMBERS[tag].unpack(self.take(8))[0]
        if tag == _BOOL:
            return bool(self.take(1)[0])
        if tag == _NONE:
            return None
        raise ValueError(f"a value has the tag {tag}, which is not known")

    def _records(self, depth: int) -> list[dict[str, Any]]:
        """A list of dicts of one set of keys."""
        rows, many = self._count(), self._count()
        keys = [self._text() for _ in range(many)]
        return [
            {key: self.value(_CELLS.get(self.take(1)[0], -1), depth + 1) for key in keys} for _ in range(rows)
        ]


def _utf8(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None
