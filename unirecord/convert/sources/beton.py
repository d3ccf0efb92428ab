"""FFCV's .beton files as records: numbers, bytes, JSON, arrays and pictures as written; FFCV is not needed."""

from __future__ import annotations

import json
import math
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from .media_types import file_type
from .source import (
    Options,
    RawBatch,
    Source,
    Unit,
    column_name,
    column_names,
    row_batches,
)
from .text_values import parse_json, utf8

__all__ = ["BetonFile"]

# ffcv.types and ffcv.fields, version 2 of the format.
_HEADER: Final = struct.Struct("<HHIQQ")
_FIELD: Final = np.dtype([("kind", "<u1"), ("name", ("<u1", 16)), ("arguments", ("<u1", 1024))])
_ALLOCATED: Final = np.dtype([("row", "<u8"), ("at", "<u8"), ("size", "<u8")])
_BLOB: Final = np.dtype([("at", "<u8"), ("size", "<u8")])
_PICTURE: Final = np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("at", "<u8")])
_FLOAT, _INT, _IMAGE, _BYTES, _ARRAY, _JSON, _TENSOR = range(7)
_PLACES: Final[dict[int, np.dtype[Any]]] = {
    _FLOAT: np.dtype("<f8"), _INT: np.dtype("<i8"), _IMAGE: _PICTURE, _BYTES: _BLOB, _ARRAY: np.dtype("<u8"),
    _JSON: _BLOB, _TENSOR: np.dtype("<u8"),
}  # fmt: skip
_JPEG, _RAW = 0, 1
_VERSION: Final = 2
_SHAPE_BYTES: Final = 256
_UNIT_ROWS: Final = 1_024
_LOOK_ROWS: Final = 1 << 16


@dataclass(frozen=True)
class _Field:
    """A field of the file; arrays have a dtype and a shape."""

    name: str
    kind: int
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()


class BetonFile(Source):
    """A .beton file. Pictures that were kept as JPEG stay such; those kept as pixels are arrays, or PNG beside JPEG."""

    kind: ClassVar[str] = "ffcv"
    about: ClassVar[str] = "an FFCV file (.beton)"
    handles: ClassVar[tuple[str, ...]] = ("_allocations",)
    reads: ClassVar[str] = "a file"
    suffixes: ClassVar[tuple[str, ...]] = (".beton",)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the header, and where the values of all rows lie."""
        with self.input.open() as file:
            self._size = file.seek(0, 2)
            self._read_header(file, options)
            names, changed = column_names([field.name for field in self._fields], self.path, options)
            self.left_out.extend(changed)
            self._by_column = dict(zip(names, range(len(names)), strict=True))
            self._allocations: tuple[Any, Any] | None = None
            modes, shapes = self._look(file, options, progress)
        self._modes = modes
        found = {
            name: self._spec(i, modes.get(i, set()), shapes.get(i, set()))
            for name, i in self._by_column.items()
            if self._fields[i].dtype is not None or self._fields[i].kind not in (_ARRAY, _TENSOR)
        }
        self.schema: Schema = options.schema(found)
        self.units: Sequence[Unit] = [
            Unit(f"{self.path}, rows from {i}", i, min(_UNIT_ROWS, self._rows - i))
            for i in range(0, self._rows, _UNIT_ROWS)
        ]

    def _read_header(self, file: BinaryIO, options: Options) -> None:
        file.seek(0)
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise SchemaError(f"{self.path} is no .beton file: it has {many(len(head), 'byte')}")
        version, fields, _, self._rows, self._table = _HEADER.unpack(head)
        if version != _VERSION:
            raise SchemaError(
                f"{self.path} is no .beton file of version {_VERSION}, or was never finished (version {version})"
            )
        self._start = _HEADER.size + fields * _FIELD.itemsize
        if not fields or self._start > self._size:
            raise SchemaError(f"{self.path} is cut off in the list of its fields")
        said = np.frombuffer(file.read(fields * _FIELD.itemsize), _FIELD)
        self._fields = [self._field(one, i, options) for i, one in enumerate(said)]
        self._layout = np.dtype([("", _PLACES[field.kind]) for field in self._fields], align=True)
        end = self._start + self._rows * self._layout.itemsize
        if (
            not self._rows
            or not end <= self._table <= self._size
            or (self._size - self._table) % _ALLOCATED.itemsize
        ):
            raise SchemaError(
                f"{self.path} is cut off or damaged: {many(self._rows, 'row')} and the list of "
                f"their places do not fit "
                f"into {many(self._size, 'byte')}"
            )

    def _field(self, said: Any, number: int, options: Options) -> _Field:
        name = bytes(said["name"]).partition(b"\0")[0].decode("utf-8", "backslashreplace")
        kind = int(said["kind"])
        if kind not in _PLACES:
            what = "a field type of the program's own" if kind == 255 else f"field type {kind}"
            raise SchemaError(
                f"{self.path}: field {name!r} is of {what}, which only the program that wrote it can read; write from "
                f"that with unirecord.write_dataset"
            )
        if kind not in (_ARRAY, _TENSOR) or not options.wants(column_name(name, number)):
            return _Field(name, kind)
        arguments = bytes(said["arguments"])
        try:
            (length,) = struct.unpack_from("<Q", arguments, _SHAPE_BYTES)
            ((_, text, *inner),) = json.loads(arguments[_SHAPE_BYTES + 8 :][:length])
            dtype = np.dtype(str(text))
        except (ValueError, TypeError, RecursionError, SyntaxError) as error:
            raise SchemaError(f"{self.path}: field {name!r} does not say its type ({error})") from None
        shape = list(struct.unpack_from("<32Q", arguments))
        while shape and not shape[-1]:
            shape.pop()
        if dtype.kind not in "?biufc" or inner or not all(shape):
            raise SchemaError(f"{self.path}: field {name!r} is {dtype} {shape}, which no column type holds")
        if math.prod(shape) * dtype.itemsize > self._size:
            raise SchemaError(f"{self.path}: field {name!r} is larger than the file: {dtype} {shape}")
        return _Field(name, kind, dtype, tuple(shape))

    def _places(self, file: BinaryIO, first: int, rows: int) -> Any:
        """What stands of some rows in the table: numbers, and where the other values lie."""
        file.seek(self._start + first * self._layout.itemsize)
        data = file.read(rows * self._layout.itemsize)
        if len(data) < rows * self._layout.itemsize:
            raise SchemaError(f"{self.path} has become shorter")
        return np.frombuffer(data, self._layout)

    def _look(
        self, file: BinaryIO, options: Options, progress: Progress | None
    ) -> tuple[dict[int, set[int]], dict[int, set[Any]]]:
        """The ways pictures are kept, and their sizes in pixels (three of many)."""
        modes: dict[int, set[int]] = {}
        shapes: dict[int, set[Any]] = {}
        pictures = [i for i, field in enumerate(self._fields) if field.kind == _IMAGE]
        for first in range(0, self._rows if pictures else 0, _LOOK_ROWS):
            rows = min(_LOOK_ROWS, self._rows - first)
            places = self._places(file, first, rows)
            for i in pictures:
                one = places[f"f{i}"]
                modes.setdefault(i, set()).update(np.unique(one["mode"]).tolist())
                sizes = np.unique(one["height"].astype(np.int64) << 16 | one["width"])[:3].tolist()
                seen = shapes.setdefault(i, set())
                seen.update((size >> 16, size & 0xFFFF) for size in sizes if len(seen) < 3)
                if not modes[i] <= {_JPEG, _RAW} and options.wants(column_name(self._fields[i].name, i)):
                    raise SchemaError(f"{self.path}: pictures of the field {self._fields[i].name!r} are kept in a way "
                                      f"that is not known: {sorted(modes[i])}")  # fmt: skip
            if progress is not None:
                progress(first + rows, self._rows)
        return modes, shapes

    def _spec(self, number: int, modes: set[int], shapes: set[Any]) -> Any:
        field = self._fields[number]
        if field.kind == _IMAGE:
            if modes == {_RAW}:
                height, width = next(iter(shapes)) if len(shapes) == 1 else (-1, -1)
                return {"type": "uint8", "shape": [height or -1, width or -1, 3]}
            media = "image/jpeg" if modes == {_JPEG} else "image/*"
            if len(modes) > 1:
                self.notes.append(
                    f"{field.name}: pictures kept as pixels are written as PNG, beside those in JPEG"
                )
            return file_type(media)
        if field.dtype is not None:
            name = field.dtype.newbyteorder("<").name
            return {"type": name, "shape": list(field.shape)} if field.shape else name
        return {_FLOAT: "float64", _INT: "int64", _BYTES: "bytes", _JSON: "object"}[field.kind]

    def _allocated(self, file: BinaryIO, at: int) -> int:
        """How many bytes were set aside at a place; 0 where none were."""
        if self._allocations is None:
            file.seek(self._table)
            table = np.frombuffer(file.read(), _ALLOCATED)
            order = np.argsort(table["at"], kind="stable")
            self._allocations = table["at"][order], table["size"][order]
        places, sizes = self._allocations
        i = int(np.searchsorted(places, np.uint64(at)))
        return int(sizes[i]) if i < len(places) and places[i] == at else 0

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows."""
        with self.input.open() as file:
            yield from row_batches(self.schema.names, self._rows_of(file, unit))

    def _rows_of(self, file: BinaryIO, unit: Unit) -> Iterator[tuple[list[Any], int]]:
        for row, places in enumerate(self._places(file, unit.place, unit.rows or 0), unit.place):
            size, values = 0, []
            for column in self.schema:
                i = self._by_column[column.name]
                try:
                    value, taken = self._value(file, i, places[i], column.type == "bytes")
                except ValueError as error:
                    where = f"{self.path}, row {row}, field {self._fields[i].name!r}"
                    raise SchemaError(f"{where}: {error}") from None
                values.append(value)
                size += taken
            yield values, size

    def _value(self, file: BinaryIO, number: int, place: Any, as_bytes: bool) -> tuple[Any, int]:
        """The value of a field, and the bytes it took."""
        field = self._fields[number]
        if field.kind in (_FLOAT, _INT):
            return place, 8
        if field.kind == _IMAGE:
            return self._picture(file, number, place, as_bytes)
        if field.dtype is not None:
            size = math.prod(field.shape) * field.dtype.itemsize
            found = np.frombuffer(self._bytes(file, int(place), size), field.dtype).reshape(field.shape)
            return found.astype(field.dtype.newbyteorder("<"), copy=False)[()], size
        data = self._bytes(file, int(place["at"]), int(place["size"]))
        if field.kind == _JSON and not as_bytes:
            return parse_json(utf8(data.rstrip(b"\0"))), len(data)
        return data, len(data)

    def _picture(self, file: BinaryIO, number: int, place: Any, as_bytes: bool) -> tuple[Any, int]:
        height, width, at = int(place["height"]), int(place["width"]), int(place["at"])
        if place["mode"] == _JPEG:
            data = self._bytes(file, at, self._allocated(file, at))
            if data[:2] != b"\xff\xd8":
                raise ValueError("no JPEG picture is at its place")
            return data, len(data)
        data = self._bytes(file, at, height * width * 3)
        pixels = np.frombuffer(data, np.uint8).reshape(height, width, 3)
        return (_png(pixels) if as_bytes else pixels), len(data)

    def _bytes(self, file: BinaryIO, at: int, size: int) -> bytes:
        if at + size > self._size:
            raise ValueError(
                f"{many(size, 'byte')} at {at:,} beyond the end of the file ({many(self._size, 'byte')})"
            )
        return os.pread(file.fileno(), size, at)


def _png(pixels: Any) -> bytes:
    """A picture [height, width, 3] as PNG: three chunks, rows without a filter."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + width * 3), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    out = b"\x89PNG\r\n\x1a\n"
    for kind, data in (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 6)),
        (b"IEND", b""),
    ):
        out += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return out
