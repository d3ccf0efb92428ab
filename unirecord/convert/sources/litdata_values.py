"""The leaves of LitData's items: the column type each makes, and its bytes as values; nothing is unpickled."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...writing.inference import ColumnEvidence
from .litdata_nested import nested_value
from .mds_values import listed_files, picture_pixels

__all__ = ["LitDataLeaf"]

# The numbers of types in litdata.constants; bfloat16 (10) has no NumPy type.
_TORCH: Final = (
    "f4", "f4", "f8", "f8", "c8", "c8", "c16", "c16", "f2", "f2", None, "u1", "i1", "i2", "i2", "i4", "i4", "i8", "i8",
    "?", "u2",
)  # fmt: skip
_NUMPY: Final = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?")
_NUMBERS: Final = {"int": "<i8", "float": "<f8", "bool": "?"}
_TEXTS: Final = ("str", "text")
_LONG_TEXT: Final = 4096
_MOST_DIMS: Final = 32


class LitDataLeaf:
    """A leaf of the items, called ``name``; ``encoding`` is what the index calls its format."""

    kind: str

    def __init__(self, name: str, encoding: str) -> None:
        self.name = name
        self.kind, _, argument = encoding.partition(":")
        self._argument = int(argument) if len(argument) < 20 and argument.isdecimal() else -1
        self._longest = 0
        self._values = ColumnEvidence(name)

    @property
    def is_array(self) -> bool:
        """Whether its values are arrays, whose shapes only they say."""
        return self.kind.endswith(("numpy", "tensor")) or self.kind == "pil"

    def add(self, cell: memoryview, row: int) -> None:
        """Take one value into account; ``ValueError`` where it is damaged."""
        if self.kind in _TEXTS:
            self._longest = max(self._longest, len(cell))
        elif self.is_array:
            try:
                self._values.add(self._array(cell), row)
            except SchemaError as error:
                raise ValueError(str(error)) from None

    def spec(self) -> Any:
        """The column's type in the user's form."""
        if self.kind in _NUMBERS:
            return np.dtype(_NUMBERS[self.kind]).name
        if self.kind in _TEXTS:
            return "text" if self._longest > _LONG_TEXT else "string"
        if self.is_array:
            return self._values.spec()
        if self.kind in ("jpeg_array", "json"):
            return "object"
        media = {"jpeg": "image/jpeg", "image": "image/*"}.get(self.kind)
        return {"type": "bytes", "annotations": {"media_type": media}} if media else "bytes"

    def value(self, cell: memoryview, column: Column) -> Any:
        """The value for a column; ``ValueError`` where there is none."""
        if self.kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[self.kind])
            if len(cell) != dtype.itemsize:
                raise ValueError(f"{len(cell)} bytes are no {dtype.name}")
            return np.frombuffer(cell, dtype)[0]
        if column.type == "bytes" and not column.is_array:
            return cell
        if self.is_array:
            return self._array(cell)
        if self.kind == "jpeg_array":
            return listed_files(cell, 0)
        if self.kind == "json" and column.type == "object":
            return nested_value(cell)
        try:
            return str(cell, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None

    def _array(self, cell: memoryview) -> Any:
        if self.kind == "pil":
            return picture_pixels(cell)
        types = _NUMPY if self.kind.endswith("numpy") else _TORCH
        number, at = self._argument, 0
        shape: tuple[int, ...] | None = None
        if not self.kind.startswith("no_header"):
            order = "<" if types is _NUMPY else ">"
            if len(cell) < 8:
                raise ValueError("an array is cut off in its shape")
            number, dims = struct.unpack_from(f"{order}2I", cell)
            if dims > _MOST_DIMS or 8 + 4 * dims > len(cell):
                raise ValueError(f"an array is said to have {dims:,} dimensions")
            shape = struct.unpack_from(f"{order}{dims}I", cell, 8)
            at = 8 + 4 * dims
        name = types[number] if 0 <= number < len(types) else None
        if name is None:
            raise ValueError(
                f"an array of type number {number}, which is not read; --schema {self.name}=bytes keeps it"
            )
        dtype = np.dtype(name).newbyteorder("<")
        if (math.prod(shape) * dtype.itemsize if shape is not None else -1) not in (-1, len(cell) - at) or (
            (len(cell) - at) % dtype.itemsize
        ):
            raise ValueError(f"{len(cell) - at:,} bytes are no {dtype.name} array of the shape {shape}")
        flat = np.frombuffer(cell, dtype, -1, at)
        return flat if shape is None else flat.reshape(shape)[()]
