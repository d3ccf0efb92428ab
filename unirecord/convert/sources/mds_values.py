"""The encodings of MosaicML's MDS shards: the column type each makes, and its bytes as values; nothing is unpickled."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...writing.inference import ColumnEvidence
from .json_text import parse_json

__all__ = ["MdsField", "encoded_size", "is_encoding", "listed_files", "picture_pixels"]

_SCALARS: Final = (
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
)  # fmt: skip
# The numbers of types in arrays that say their own (streaming.base.format.mds.encodings.NDArray).
_NUMBERED: Final = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
    64: "uint64", 65: "int64", 66: "float64",
}  # fmt: skip
_MODES: Final = {
    "L": 1,
    "P": 1,
    "LA": 2,
    "RGB": 3,
    "YCbCr": 3,
    "LAB": 3,
    "HSV": 3,
    "RGBA": 4,
    "CMYK": 4,
    "RGBX": 4,
}
_WIDE_MODES: Final = {"I": "<i4", "F": "<f4", "I;16": "<u2"}
_MEDIA_TYPES: Final = {"jpeg": "image/jpeg", "png": "image/png"}
_LISTS: Final = ("list[jpeg]", "list[png]", "jpeg_array", "jpegarray")
_BYTES: Final = ("bytes", "pkl", "list[pil]", *_MEDIA_TYPES)
_TEXTS: Final = ("str", "str_decimal")
_OTHERS: Final = ("int", "str_int", "str_float", "pil", "json")
_LONG_TEXT: Final = 4096
_SIZES: Final = struct.Struct("<3I")


def is_encoding(name: str) -> bool:
    """Whether it is an encoding of MDS."""
    if name == "ndarray" or name.startswith("ndarray:"):
        return _array_type(name) is not None
    return name in (*_SCALARS, *_LISTS, *_BYTES, *_TEXTS, *_OTHERS)


def encoded_size(name: str) -> int | None:
    """The bytes of each value, where all values of the encoding have as many."""
    if name == "int" or name in _SCALARS:
        return np.dtype("int64" if name == "int" else name).itemsize
    dtype, shape = (_array_type(name) or (None, None)) if name.startswith("ndarray") else (None, None)
    return None if shape is None else math.prod(shape) * np.dtype(dtype).itemsize


def _array_type(name: str) -> tuple[str | None, tuple[int, ...] | None] | None:
    """The dtype and shape that ``ndarray:float32:3,4`` says, None for what each array says; None for other names."""
    _, dtype, shape, *more = [*name.split(":"), "", ""]
    if (dtype and dtype not in _SCALARS) or any(more) or (shape and not dtype):
        return None
    try:
        dims = tuple(map(int, shape.split(","))) if shape else None
    except ValueError:
        return None
    return None if dims is not None and min(dims) < 1 else (dtype or None, dims)


class MdsField:
    """A column of the shards: how its bytes are read, and what those seen so far say of its type."""

    name: str
    encoding: str

    def __init__(self, name: str, encoding: str) -> None:
        self.name, self.encoding = name, encoding
        self._longest = 0
        self._whole = True  # whether all integers seen fit 64 bits
        self._values = ColumnEvidence(name)
        self._dtype, self._shape = (
            _array_type(encoding) or (None, None) if encoding.startswith("ndarray") else (None, None)
        )

    @property
    def is_open(self) -> bool:
        """Whether values say more of the type than the encoding does."""
        kind = self.encoding.partition(":")[0]
        return kind in ("str", "str_int", "pil") or (kind == "ndarray" and self._shape is None)

    def add(self, cell: memoryview, row: int) -> None:
        """Take one value into account; ``ValueError`` where it is damaged."""
        if self.encoding == "str":
            self._longest = max(self._longest, len(cell))
        elif self.encoding == "str_int":
            self._whole = self._whole and -(1 << 63) <= int(_text(cell)) < 1 << 63
        elif self.encoding == "pil" or self.encoding.startswith("ndarray"):
            try:
                self._values.add(self._array(cell), row)
            except SchemaError as error:
                raise ValueError(str(error)) from None

    def spec(self) -> Any:
        """The column's type in the user's form."""
        kind = self.encoding
        if kind in _SCALARS:
            return kind
        if kind in _MEDIA_TYPES:
            return {"type": "bytes", "annotations": {"media_type": _MEDIA_TYPES[kind]}}
        if kind in _BYTES:
            return "bytes"
        if kind in _TEXTS:
            return "text" if self._longest > _LONG_TEXT else "string"
        if kind in _LISTS or kind == "json":
            return "object"
        if self._shape is not None:
            return {"type": self._dtype, "shape": list(self._shape)}
        if kind == "str_int":
            return "int64" if self._whole else "string"
        if kind in ("int", "str_float"):
            return "int64" if kind == "int" else "float64"
        return self._values.spec()

    def values(self, cells: Sequence[memoryview], column: Column) -> Any:
        """The values of a column; ``ValueError`` where one is damaged."""
        dtype = "int64" if self.encoding == "int" else self.encoding
        if dtype in _SCALARS:
            return np.frombuffer(b"".join(cells), np.dtype(dtype).newbyteorder("<"))
        if self._shape is not None and column.is_array:
            flat = np.frombuffer(b"".join(cells), np.dtype(self._dtype).newbyteorder("<"))
            return flat.reshape(len(cells), *self._shape)
        return list(map(self._decoder(column), cells))

    def _decoder(self, column: Column) -> Callable[[memoryview], Any]:
        kind = self.encoding
        if column.type in ("string", "text") and kind in (*_TEXTS, "str_int", "str_float", "json"):
            return _text
        if kind in _BYTES or (column.type == "bytes" and not column.is_array):
            return lambda cell: cell
        if kind in _TEXTS:
            return _text
        if kind == "json":
            return lambda cell: parse_json(_text(cell))
        if kind in ("str_int", "str_float"):
            return lambda cell: (int if kind == "str_int" else float)(_text(cell))
        if kind in _LISTS:
            return lambda cell: listed_files(cell, 4 if kind.startswith("list") else 0)
        return self._array

    def _array(self, cell: memoryview) -> Any:
        if self.encoding == "pil":
            return picture_pixels(cell)
        at, dtype, shape = 0, self._dtype, self._shape
        if dtype is None:
            if not len(cell) or cell[0] not in _NUMBERED:
                raise ValueError("an array does not say its type")
            dtype, at = _NUMBERED[cell[0]], 1
        if shape is None:
            if at >= len(cell):
                raise ValueError("an array is cut off in its shape")
            dims, width = cell[at] >> 2, 1 << (cell[at] & 3)
            if at + 1 + dims * width > len(cell):
                raise ValueError("an array is cut off in its shape")
            shape = tuple(np.frombuffer(cell, f"<u{width}", dims, at + 1).tolist())
            at += 1 + dims * width
        kind = np.dtype(dtype).newbyteorder("<")
        if math.prod(shape) * kind.itemsize != len(cell) - at:
            raise ValueError(f"{len(cell) - at:,} bytes are no {dtype} array of the shape {list(shape)}")
        return np.frombuffer(cell, kind, -1, at).reshape(shape)


def _text(cell: memoryview) -> str:
    try:
        return str(cell, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None


def listed_files(cell: memoryview, at: int) -> list[bytes]:
    """Files one after the other, behind their number, which is at ``at``, and their sizes."""
    if at + 4 > len(cell):
        raise ValueError("a list is cut off")
    count = int.from_bytes(cell[at : at + 4], "little")
    at += 4
    if at + 4 * count > len(cell):
        raise ValueError(f"a list of {count:,} is said to be in {len(cell):,} bytes")
    sizes = np.frombuffer(cell, "<u4", count, at).tolist()
    at += 4 * count
    if at + sum(sizes) != len(cell):
        raise ValueError("a list takes more or fewer bytes than are there")
    found = []
    for size in sizes:
        found.append(bytes(cell[at : at + size]))
        at += size
    return found


def picture_pixels(cell: memoryview) -> Any:
    """The pixels that PIL's ``tobytes`` gave, behind width, height and mode."""
    if len(cell) < _SIZES.size:
        raise ValueError("a picture is cut off")
    width, height, length = _SIZES.unpack_from(cell)
    mode = str(cell[_SIZES.size : _SIZES.size + length], "utf-8", "replace") if length < 16 else ""
    pixels = cell[_SIZES.size + length :]
    if mode == "1":  # eight pixels a byte, rows of whole bytes
        wide, kind, shape = -(-width // 8), "u1", [height, -(-width // 8)]
        expected = wide * height
    elif mode in _WIDE_MODES:
        kind, shape, expected = _WIDE_MODES[mode], [height, width], width * height * int(_WIDE_MODES[mode][2])
    elif mode in _MODES:
        bands = _MODES[mode]
        kind, shape, expected = "u1", [height, width, bands][: 2 + (bands > 1)], width * height * bands
    else:
        raise ValueError(f"a picture of the mode {mode[:20]!r}, which no column type holds")
    if expected != len(pixels):
        raise ValueError(f"{len(pixels):,} bytes are no {mode} picture of {width} x {height}")
    found = np.frombuffer(pixels, kind).reshape(shape)
    return np.unpackbits(found, axis=1)[:, :width].astype(bool) if mode == "1" else found
