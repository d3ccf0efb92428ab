"""LitData's chunks as records: the items of a folder that `optimize` wrote, also compressed; nothing is unpickled."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from ...writing.inference import ColumnEvidence, text_type
from .foreign_libraries import needed
from .input_path import InputPath
from .jsonl import json_object
from .mds import listed_files, picture_pixels
from .media_types import file_type
from .source import (
    Options,
    RawBatch,
    Source,
    Unit,
    add_cells,
    column_name,
    column_names,
    cut_cells,
    ranges,
    row_batches,
)
from .text_values import parse_json, utf8

__all__ = [
    "LitDataChunks",
    "LitDataLeaf",
    "nested_value",
]


# Nested values of LitData's items: its binary form of lists and dicts, within the bytes that are there; and JSON.


# The tags of litdata.streaming.serializers; those of the cells of a list of dicts are 16 and more.
_JSON, _NESTED_TEXTS, _INTS, _FLOATS, _BOOLS, _DICT, _RECORDS, _TEXT, _INT, _FLOAT, _BOOL, _NONE = range(12)
_CELLS: Final = {0x10: _NONE, 0x11: _TEXT, 0x12: _INT, 0x13: _FLOAT, 0x14: _BOOL}
_LISTS: Final = {_INTS: "<i8", _FLOATS: "<f8", _BOOLS: "?"}
_NESTED_NUMBERS: Final = {_INT: struct.Struct("<q"), _FLOAT: struct.Struct("<d")}
_MOST_NESTED_DEPTH: Final = 64


def nested_value(cell: memoryview) -> Any:
    """Return the value; ``ValueError`` where the bytes are damaged."""
    if not len(cell) or cell[0] > 0x20:
        return parse_json(utf8(cell))
    reader = _Reader(cell)
    found = reader.value(reader.take(1)[0], 0)
    if reader.at != len(cell):
        raise ValueError(f"{many(len(cell) - reader.at, 'byte', 'are')} left over")
    return found


class _Reader:
    """Takes values from bytes, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data, self.at = data, 0

    def take(self, size: int) -> memoryview:
        """The next bytes."""
        if size > len(self._data) - self.at:
            raise ValueError(f"it is cut off: {many(size, 'byte', 'are')} said to follow")
        self.at += size
        return self._data[self.at - size : self.at]

    def _count(self) -> int:
        """A number of things, each of which takes a byte at least."""
        count = int.from_bytes(self.take(4), "little")
        if count > len(self._data):
            raise ValueError(f"{many(count, 'value', 'are')} said to be in {many(len(self._data), 'byte')}")
        return count

    def _text(self) -> str:
        return utf8(self.take(self._count()))

    def value(self, tag: int, depth: int) -> Any:
        """The value that a tag announces."""
        if depth > _MOST_NESTED_DEPTH:
            raise ValueError(f"a value is nested more than {_MOST_NESTED_DEPTH} levels deep")
        if tag == _JSON:
            return parse_json(self._text())
        if tag == _NESTED_TEXTS:
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
        if tag in _NESTED_NUMBERS:
            return _NESTED_NUMBERS[tag].unpack(self.take(8))[0]
        if tag == _BOOL:
            return bool(self.take(1)[0])
        if tag == _NONE:
            return None
        raise ValueError(f"a value has the tag {tag}, which is not known")

    def _records(self, depth: int) -> list[dict[str, Any]]:
        """A list of dicts of one set of keys."""
        rows, items = self._count(), self._count()
        keys = [self._text() for _ in range(items)]
        return [
            {key: self.value(_CELLS.get(self.take(1)[0], -1), depth + 1) for key in keys} for _ in range(rows)
        ]


# The leaves of LitData's items: the column type each makes, and its bytes as values; nothing is unpickled.


# The numbers of types in litdata.constants; bfloat16 (10) has no NumPy type.
_TORCH: Final = (
    "f4", "f4", "f8", "f8", "c8", "c8", "c16", "c16", "f2", "f2", None, "u1", "i1", "i2", "i2", "i4", "i4", "i8", "i8",
    "?", "u2",
)  # fmt: skip
_NUMPY: Final = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?")
_NUMBERS: Final = {"int": "<i8", "float": "<f8", "bool": "?"}
_TEXTS: Final = ("str", "text")
_MOST_DIMS: Final = 32


class LitDataLeaf:
    """A leaf of the items, called ``name``; ``encoding`` is what the index calls its format."""

    def __init__(self, name: str, encoding: str, *, is_looked_at: bool = True) -> None:
        """``is_looked_at``: whether its values say the type; not of one that nobody wants, or wants as it is."""
        self.name, self.is_looked_at = name, is_looked_at
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
        if not self.is_looked_at:
            return
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
            return text_type(self._longest)
        if self.is_array:
            return self._values.spec() if self.is_looked_at else "bytes"
        if self.kind in ("jpeg_array", "json"):
            return "object"
        media = {"jpeg": "image/jpeg", "image": "image/*"}.get(self.kind)
        return file_type(media) if media else "bytes"

    def value(self, cell: memoryview, column: Column) -> Any:
        """The value for a column; ``ValueError`` where there is none."""
        if self.kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[self.kind])
            if len(cell) != dtype.itemsize:
                raise ValueError(f"{many(len(cell), 'byte', 'are')} no {dtype.name}")
            return np.frombuffer(cell, dtype)[0]
        if column.type == "bytes" and not column.is_array:
            return cell
        if self.is_array:
            return self._array(cell)
        if self.kind == "jpeg_array":
            return listed_files(cell, 0)
        if self.kind == "json" and column.type == "object":
            return nested_value(cell)
        return utf8(cell)

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
                raise ValueError(f"an array is said to have {many(dims, 'dimension')}")
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
            raise ValueError(
                f"{many(len(cell) - at, 'byte', 'are')} no {dtype.name} array of the shape {shape}"
            )
        flat = np.frombuffer(cell, dtype, -1, at)
        return flat if shape is None else flat.reshape(shape)[()]


# LitData's chunks as records: the items of a folder that `optimize` wrote, also compressed.


_INDEX: Final = "index.json"
_LOADERS: Final = (None, "PyTreeLoader", "TokensLoader")
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
# litdata.streaming.framed_zstd: groups of items, each compressed by itself.
_FRAMED: Final = b"LDFZ01\0\0"
_PREFIX: Final = struct.Struct("<8sHHIII")
_FRAME: Final = struct.Struct("<IIQII")
_MOST_FRAME: Final = 1_000_000_000  # bytes of a group, decompressed
_UNIT_BYTES: Final = 32_000_000
_SAMPLE_ITEMS: Final = 500
_MOST_DEPTH: Final = 32


class _Piece(NamedTuple):
    """Some items of a chunk: where their bytes lie, and where each begins in them (the last: ends)."""

    at: int
    size: int
    unpacked: int | None  # bytes when decompressed; None: they are as they are
    ends: Any


class LitDataChunks(Source):
    """A folder with ``index.json`` and chunks. The leaves of an item are columns, called by where they are in it."""

    kind: ClassVar[str] = "litdata"
    about: ClassVar[str] = "LitData chunks"
    reads: ClassVar[str] = "a folder"
    reads_files: ClassVar[bool] = False

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By its index."""
        path = os.path.join(source.path, _INDEX)
        if not source.is_folder or not os.path.isfile(path):
            return False
        return InputPath(path, path).head(64).replace(b" ", b"").lstrip().startswith(b'{"chunks":')

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the index, where the items of all chunks lie, and the first of each."""
        name = os.path.join(self.path, _INDEX)
        said = json_object(InputPath(name, os.path.join(self.input.path, _INDEX)))
        config, chunks = said.get("config"), said.get("chunks")
        if not isinstance(config, dict) or not isinstance(chunks, list) or not chunks:
            raise SchemaError(f"{name} is no index of LitData chunks: it lists none")
        self._read_config(name, config, options)
        self._files = [self._file(name, one) for one in chunks]
        self.units: Sequence[Unit] = []
        row = looked = 0
        for number, file in self.each_file(self._files, progress):
            one = chunks[number]
            file.packed = file.head(4) == _ZSTD
            with file.open() as stream:
                pieces = self._pieces(stream, file.name)
                items = sum(len(piece.ends) - 1 for piece in pieces)
                if not self._bare and items != one.get("chunk_size"):
                    raise SchemaError(
                        f"{file.name} holds {many(items, 'item')}, but its index says {one.get('chunk_size')}"
                    )
                looked += self._look(stream, file.name, pieces, row)
            first = 0
            for i, piece in enumerate(pieces):
                rows = len(piece.ends) - 1
                self.units.append(Unit(f"{file.name}, items from {first}", (number, i, first), rows))
                first += rows
            row += items
        names, changed = column_names([leaf.name for leaf in self._leaves], self.path, options)
        self.left_out.extend(changed)
        self._by_column = {column: i for i, column in enumerate(names)}
        if looked < row and any(leaf.is_array and leaf.is_looked_at for leaf in self._leaves):
            self.notes.append(f"the types are those of {many(looked, 'item')}; --schema replaces them")
        kept = [leaf.name for leaf in self._leaves if leaf.kind in ("pickle", "graph")]
        if kept:
            self.notes.append(f"{', '.join(kept)}: pickles, written as they are")
        types = {column: self._leaves[i].spec() for column, i in self._by_column.items()}
        self.schema: Schema = options.schema(types)

    def _read_config(self, name: str, config: dict[str, Any], options: Options) -> None:
        loader, formats = config.get("item_loader"), config.get("data_format")
        if config.get("encryption"):
            raise SchemaError(f"{self.path} is encrypted, which is not read")
        if loader not in _LOADERS or config.get("compression") not in (None, "zstd"):
            raise SchemaError(
                f"{name}: chunks of {loader}, compressed by {config.get('compression')}; those of PyTreeLoader and "
                f"TokensLoader are read, as they are or by zstd"
            )
        if not isinstance(formats, list) or not formats or not all(isinstance(one, str) for one in formats):
            raise SchemaError(f"{name} does not say of what the items are made")
        self._bare = loader == "TokensLoader"  # an item is its only leaf, without its size
        paths = _leaf_names(config.get("data_spec"))
        if len(paths) != len(formats):
            paths = [f"column_{i}" for i in range(len(formats))] if len(formats) > 1 else ["value"]
        self._leaves = [
            LitDataLeaf(leaf, form, is_looked_at=_is_looked_at(column_name(leaf, i), options))
            for i, (leaf, form) in enumerate(zip(paths, formats, strict=True))
        ]
        if self._bare and len(formats) > 1:
            raise SchemaError(f"{name}: items of tokens have one part, not {len(formats)}")

    def _file(self, index: str, said: Any) -> InputPath:
        name = said.get("filename") if isinstance(said, dict) else None
        if not isinstance(name, str) or not name or os.path.basename(name) != name:
            raise SchemaError(f"{index}: a chunk is called {name!r}, which is no file of the folder")
        path = os.path.join(self.input.path, name)
        if not os.path.isfile(path):
            raise SchemaError(f"{os.path.join(self.path, name)} is missing, which {_INDEX} lists")
        return InputPath(os.path.join(self.path, name), path)

    def _pieces(self, stream: BinaryIO, name: str) -> list[_Piece]:
        """The pieces of a chunk that are read at once."""
        size = stream.seek(0, 2)
        stream.seek(0)
        head = stream.read(_PREFIX.size)
        if head[:8] == _FRAMED and len(head) == _PREFIX.size:
            return self._frames(stream, name, size, *_PREFIX.unpack(head)[3:])
        items = int.from_bytes(head[:4], "little")
        if len(head) < 8 or 4 * (items + 2) > size:
            raise SchemaError(f"{name} is no LitData chunk, or is cut off: {many(size, 'byte')}")
        stream.seek(4)
        ends = np.frombuffer(stream.read(4 * (items + 1)), "<u4").astype(np.int64)
        if ends[0] < 4 * (items + 2) or (np.diff(ends) < 0).any() or ends[-1] > size:
            raise SchemaError(
                f"{name} is damaged or cut off: its items do not follow each other in {many(size, 'byte')}"
            )
        pieces = []
        for first, stop in ranges(ends, _UNIT_BYTES):
            start, end = int(ends[first]), int(ends[stop])
            pieces.append(_Piece(start, end - start, None, ends[first : stop + 1] - start))
        return pieces

    def _frames(
        self, stream: BinaryIO, name: str, size: int, items: int, _rows: int, frames: int
    ) -> list[_Piece]:
        tables = 4 * (items + 1) + _FRAME.size * frames
        if _PREFIX.size + tables > size:
            raise SchemaError(f"{name} is cut off in the list of its items")
        data = stream.read(tables)
        ends = np.frombuffer(data, "<u4", items + 1).astype(np.int64)
        pieces, row = [], 0
        for first, rows, at, packed, unpacked in _FRAME.iter_unpack(data[4 * (items + 1) :]):
            own = ends[first : first + rows + 1] - ends[min(first, items)]
            fits = first == row and len(own) == rows + 1 and at + packed <= size and unpacked <= _MOST_FRAME
            if not fits or (np.diff(own) < 0).any() or own[-1] != unpacked:
                raise SchemaError(f"{name} is damaged or cut off: its items do not follow each other")
            pieces.append(_Piece(at, packed, unpacked, own))
            row += rows
        if row != items:
            raise SchemaError(f"{name} is damaged: {row:,} of {many(items, 'item', 'have')} a place")
        return pieces

    def _items(self, stream: BinaryIO, name: str, piece: _Piece) -> Iterator[memoryview]:
        stream.seek(piece.at)
        data = stream.read(piece.size)
        if piece.unpacked is not None:
            zstd = needed("zstandard", "a compressed LitData chunk")
            try:
                if zstd.frame_content_size(data) not in (-1, piece.unpacked):  # which it would believe
                    raise SchemaError(f"{name} is damaged: a group of items says another size than its list")
                data = zstd.ZstdDecompressor().decompress(data, max_output_size=max(piece.unpacked, 1))
            except zstd.ZstdError as error:
                raise SchemaError(f"{name} is damaged: {error}") from None
        if len(data) != int(piece.ends[-1]):
            raise SchemaError(
                f"{name} is damaged: {many(len(data), 'byte')} where {piece.ends[-1]:,} were said"
            )
        view = memoryview(data)
        for start, end in pairwise(piece.ends.tolist()):
            yield view[start:end]

    def _cells(self, item: memoryview, where: str) -> list[memoryview]:
        """The leaves of an item, behind the sizes of all."""
        if self._bare:
            return [item]
        return cut_cells(item, [None] * len(self._leaves), where)

    def _look(self, stream: BinaryIO, name: str, pieces: list[_Piece], row: int) -> int:
        """Take the first items of a chunk into account, and return how items."""
        for i, item in enumerate(self._items(stream, name, pieces[0]) if pieces else ()):
            if i >= _SAMPLE_ITEMS:
                return i
            where = f"{name}, item {i}"
            add_cells([(one.name, one.add) for one in self._leaves], self._cells(item, where), row + i, where)
        return len(pieces[0].ends) - 1 if pieces else 0

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the items of a piece of a chunk."""
        number, i, first = unit.place
        file = self._files[number]
        with file.open() as stream:
            items = self._items(stream, file.name, self._pieces(stream, file.name)[i])
            rows = (self._row(item, f"{file.name}, item {row}") for row, item in enumerate(items, first))
            yield from row_batches(self.schema.names, rows)

    def _row(self, item: memoryview, where: str) -> tuple[list[Any], int]:
        cells, values = self._cells(item, where), []
        for column in self.schema:
            leaf = self._by_column[column.name]
            try:
                values.append(self._leaves[leaf].value(cells[leaf], column))
            except ValueError as error:
                raise SchemaError(f"{where}, column {self._leaves[leaf].name!r}: {error}") from None
        return values, len(item)


def _is_looked_at(column: str, options: Options) -> bool:
    asked = options.overrides.get(column)
    kind = asked.get("type") if isinstance(asked, Mapping) else asked
    return options.wants(column) and kind not in ("bytes", "bytes?")


def _leaf_names(text: Any) -> list[str]:
    """The place of each leaf in an item, from what PyTorch's pytree writes of it; none where it says something else."""

    def names(spec: Any, path: tuple[str, ...]) -> Iterator[str]:
        kind, children = spec["type"], spec["children_spec"]
        if kind is None:
            yield "_".join(path) or "value"
            return
        if len(path) > _MOST_DEPTH:
            raise ValueError
        keys = json.loads(spec["context"]) if "Dict" in kind or kind == "builtins.dict" else None
        if not isinstance(keys, list):
            keys = [f"{'' if path else 'column_'}{i}" for i in range(len(children))]
        for key, child in zip(keys, children, strict=True):
            yield from names(child, (*path, str(key)))

    try:
        version, spec = json.loads(text)
        return list(names(spec, ())) if version == 1 else []
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
