"""Values as the fields of a MindRecord row: which of its six types each becomes, and its packed integers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...errors import SchemaError
from ...format.column import Column
from ...format.values.objects import base64_text, object_text
from .json_values import float32_of_bfloat16

__all__ = ["Field", "fields_of", "row_payload"]

_WIDENED: Final = {
    "bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
    "uint32": "int64", "uint64": "int64", "float16": "float32", "bfloat16": "float32",
    "text": "string", "object": "string",
}  # fmt: skip
_SHIFTS: Final = np.array([6, 4, 2, 0], np.uint8)  # the first of four codes has the highest bits


class Field:
    """A column as a field: ``kind`` is MindRecord's type, ``is_blob`` says whether it lies in the blob pages."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.name: str = column.name
        self.kind: str = _WIDENED.get(column.type, column.type)
        self.is_blob: bool = column.is_array or self.kind == "bytes"
        self.sql: str = {"string": "TEXT", "float32": "NUMERIC", "float64": "NUMERIC"}.get(
            self.kind, "INTEGER"
        )
        self.cell: Callable[[Any], bytes] = self._array if column.is_array else bytes

    @property
    def entry(self) -> dict[str, Any]:
        """What the header's schema says of it."""
        shape = {"shape": list(self.column.item_shape)} if self.column.is_array else {}
        return {"type": self.kind, **shape}

    def scalar(self, value: Any) -> Any:
        """The value as msgpack and SQLite take it."""
        if self.column.type == "object":
            return object_text(value, base64_text)
        if self.column.dtype is None:
            return value
        return self._numbers(np.asarray(value)).item()

    def _array(self, value: NDArray[Any]) -> bytes:
        found = self._numbers(np.ascontiguousarray(value).reshape(-1))
        return _packed(found) if found.dtype.kind == "i" else found.tobytes()

    def _numbers(self, array: NDArray[Any]) -> NDArray[Any]:
        if self.column.type == "bfloat16":
            return float32_of_bfloat16(array)
        if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
            raise SchemaError(
                f"column {self.name!r}: {int(array.max())} is beyond int64, all that MindRecord holds"
            )
        return array.astype(np.dtype(self.kind).newbyteorder("<"))


def fields_of(columns: Sequence[Column]) -> list[Field]:
    """The fields, in the order of their names, in which MindRecord keeps them."""
    return sorted((Field(column) for column in columns), key=lambda field: field.name)


def row_payload(cells: Sequence[bytes]) -> bytes:
    """The blobs of a row: one alone takes all, several have their lengths before them, none is four zero bytes."""
    if len(cells) == 1:
        return cells[0]
    return b"".join(struct.pack(">Q", len(cell)) + cell for cell in cells) or bytes(4)


def _packed(numbers: NDArray[Any]) -> bytes:
    """Integers of 1, 2, 4 or 8 bytes, after their count and a code of two bits each (ShardColumn::CompressInt)."""
    wide = numbers.astype(np.int64)
    codes = np.zeros(len(wide), np.uint8)
    for code, bits in ((1, 7), (2, 15), (3, 31)):
        codes[(wide >= 1 << bits) | (wide < -(1 << bits))] = code
    fours = np.zeros((len(wide) + 3) // 4 * 4, np.uint8)
    fours[: len(wide)] = codes
    head: bytes = (
        struct.pack(">I", len(wide)) + np.bitwise_or.reduce(fours.reshape(-1, 4) << _SHIFTS, axis=1).tobytes()
    )
    if len(wide) and (codes == codes[0]).all():
        return head + wide.astype(f"<i{1 << codes[0]}").tobytes()
    raw = wide.astype("<i8").view(np.uint8).reshape(-1, 8)
    return head + bytes(raw[np.arange(8) < (1 << codes)[:, None]].tobytes())
