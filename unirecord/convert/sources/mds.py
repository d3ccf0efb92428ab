"""MosaicML's MDS shards as records: by the index of a folder or by the shards' own headers; compressed ones too."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from shlex import quote
from typing import Any, BinaryIO, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from ...writing.inference import ColumnEvidence, text_type
from .array_attributes import wanted_types
from .input_path import InputPath
from .jsonl import json_object
from .media_types import file_type
from .source import (
    Options,
    RawBatch,
    Source,
    Unit,
    WrongSourceError,
    add_cells,
    column_name,
    column_names,
    cut_cells,
    ranges,
    reduced,
)
from .text_values import parse_json, utf8

__all__ = [
    "MdsField",
    "MdsShards",
    "encoded_size",
    "is_encoding",
    "listed_files",
    "picture_pixels",
]


# The encodings of MosaicML's MDS shards: the column type each makes, and its bytes as values; nothing is unpickled.


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

    def __init__(self, name: str, encoding: str, *, is_wanted: bool = True) -> None:
        self.name, self.encoding, self.is_wanted = name, encoding, is_wanted
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
        return (self.is_wanted and kind in ("str", "str_int", "pil")) or (
            kind == "ndarray" and self._shape is None
        )

    def add(self, cell: memoryview, row: int) -> None:
        """Take one value into account; ``ValueError`` where it is damaged."""
        if not self.is_wanted:
            return
        if self.encoding == "str":
            self._longest = max(self._longest, len(cell))
        elif self.encoding == "str_int":
            self._whole = self._whole and -(1 << 63) <= int(utf8(cell)) < 1 << 63
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
            return file_type(_MEDIA_TYPES[kind])
        if kind in _BYTES:
            return "bytes"
        if kind in _TEXTS:
            return text_type(self._longest)
        if kind in _LISTS or kind == "json":
            return "object"
        if self._shape is not None:
            return {"type": self._dtype, "shape": list(self._shape)}
        if kind == "str_int":
            return "int64" if self._whole else "string"
        if kind in ("int", "str_float"):
            return "int64" if kind == "int" else "float64"
        if not is_encoding(kind):
            raise SchemaError(f"column {self.name!r} has the encoding {kind!r}, which is none of MDS's")
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
            return utf8
        if kind in _BYTES or (column.type == "bytes" and not column.is_array):
            return lambda cell: cell
        if kind in _TEXTS:
            return utf8
        if kind == "json":
            return lambda cell: parse_json(utf8(cell))
        if kind in ("str_int", "str_float"):
            return lambda cell: (int if kind == "str_int" else float)(utf8(cell))
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
            raise ValueError(
                f"{many(len(cell) - at, 'byte', 'are')} no {dtype} array of the shape {list(shape)}"
            )
        return np.frombuffer(cell, kind, -1, at).reshape(shape)


def listed_files(cell: memoryview, at: int) -> list[bytes]:
    """Files one after the other, behind their number, which is at ``at``, and their sizes."""
    if at + 4 > len(cell):
        raise ValueError("a list is cut off")
    count = int.from_bytes(cell[at : at + 4], "little")
    at += 4
    if at + 4 * count > len(cell):
        raise ValueError(f"a list of {count:,} is said to be in {many(len(cell), 'byte')}")
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
        raise ValueError(f"{many(len(pixels), 'byte', 'are')} no {mode} picture of {width} x {height}")
    found = np.frombuffer(pixels, kind).reshape(shape)
    return np.unpackbits(found, axis=1)[:, :width].astype(bool) if mode == "1" else found


_INDEX: Final = "index.json"
_COUNT: Final = struct.Struct("<I")
_UNIT_BYTES: Final = 32_000_000
_BATCH_BYTES: Final = 8_000_000
_BATCH_ROWS: Final = 4_096
_SAMPLE_ROWS: Final = 500
_MOST_COLUMNS: Final = 10_000
_PIECE: Final = 1 << 20

Columns = list[tuple[str, str, int | None]]  # name, encoding, bytes of each value where all have as many


@dataclass
class _Shard:
    """A shard: its file, and what the index says of it."""

    file: InputPath
    columns: Columns | None = None
    rows: int | None = None
    hashes: dict[str, str] | None = None


class MdsShards(Source):
    """A folder that MosaicML's `MDSWriter` wrote, or shards alone. Pickles stay bytes."""

    kind: ClassVar[str] = "mds"
    reads_ahead = True
    about: ClassVar[str] = "MosaicML MDS shards"
    suffixes: ClassVar[tuple[str, ...]] = (".mds",)
    takes_folders: ClassVar[bool] = True

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Shards, and folders of them."""
        return source.is_file or source.holds((*cls.suffixes, _INDEX))

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read where the samples of all shards lie, and the first of each."""
        self._shards = (
            self._indexed() if self.input.is_folder else self._alone(self.input.files(self.suffixes))
        )
        columns: Columns | None = None
        self.units: Sequence[Unit] = []
        row = looked = 0
        for number, _ in self.each_file([shard.file for shard in self._shards], progress):
            shard = self._shards[number]
            _check_hash(shard)
            with shard.file.open() as stream:
                ends, found = _header(stream, shard)
                if columns is None:
                    columns = found
                    self._fields = [
                        MdsField(name, encoding, is_wanted=options.wants(column_name(name, i)))
                        for i, (name, encoding, _) in enumerate(found)
                    ]
                    _refuse_unknown(shard.file.name, self._fields)
                    self._sizes = [size for _, _, size in found]
                elif columns != found:
                    raise SchemaError(
                        f"{shard.file.name} has the columns {_shown(found)}, but {self._shards[0].file.name} has "
                        f"{_shown(columns)}"
                    )
                looked += self._look(number, stream, ends, row)
            self.units += [
                Unit(f"{shard.file.name}, samples from {first}", (number, first, stop), stop - first)
                for first, stop in ranges(ends, _UNIT_BYTES)
            ]
            row += len(ends) - 1
        if not row:
            raise SchemaError(f"{self.path} holds no samples")
        names, changed = column_names([field.name for field in self._fields], self.path, options)
        self.left_out.extend(changed)
        self._by_column = {name: i for i, name in enumerate(names)}
        if looked < row and any(field.is_open for field in self._fields):
            self.notes.append(f"the types are those of {many(looked, 'sample')}; --schema replaces them")
        kept = [field.name for field in self._fields if field.encoding == "pkl"]
        if kept:
            self.notes.append(f"{', '.join(kept)}: pickles, written as they are")
        self.left_out.extend(
            [
                reduced(
                    f"field {field.name!r}", "a list of pictures is written as the bytes that it is kept as"
                )
                for field in self._fields
                if field.encoding == "list[pil]"
            ]
        )
        found_types = wanted_types(names, lambda name: self._fields[self._by_column[name]].spec(), options)
        self.schema: Schema = options.schema(found_types)

    def _indexed(self) -> list[_Shard]:
        """The shards that the folder's index lists; without one, those that lie there."""
        index = InputPath(os.path.join(self.path, _INDEX), os.path.join(self.input.path, _INDEX))
        if not os.path.isfile(index.path):
            files = self.input.files(self.suffixes)
            folders = {os.path.dirname(file.name) for file in files}
            if len(folders) > 1:
                steps = " and ".join(
                    f"`unirecord write {quote(f)} {quote(os.path.basename(f))}`" for f in sorted(folders)
                )
                raise SchemaError(
                    f"{self.path} has no {_INDEX}, and its folders hold shards; write each to a dataset of its own: "
                    f"{steps}"
                )
            if not files or any(os.path.isfile(os.path.join(f, _INDEX)) for f in folders):
                folder = next(iter(folders), self.path)
                raise WrongSourceError(f"{self.path} has no {_INDEX}: give {folder} as SRC")
            self.notes.append(f"there is no {_INDEX}: all shards of the folder are read")
            return self._alone(files)
        listed = json_object(index)
        shards = listed.get("shards")
        if not isinstance(shards, list) or not all(isinstance(one, dict) for one in shards):
            raise SchemaError(f'{index.name} is no index of MDS shards: it has no list "shards"')
        return [self._listed(index.name, i, one) for i, one in enumerate(shards)]

    def _alone(self, files: Sequence[InputPath]) -> list[_Shard]:
        return [_Shard(file) for file in files]

    def _listed(self, index: str, number: int, said: dict[str, Any]) -> _Shard:
        where = f"{index}, shard {number}"
        if said.get("version") != 2 or said.get("format") != "mds":
            raise SchemaError(
                f"{where}: format {said.get('format')!r} of version {said.get('version')!r}; MDS shards of version 2 "
                f"are read"
            )
        raw, packed = said.get("raw_data"), said.get("zip_data")
        for one in (raw, packed):
            if one is not None and not _is_file_entry(one):
                raise SchemaError(f"{where}: it does not say which file it is")
        rows = said.get("samples")
        if not isinstance(rows, int) or rows < 0 or raw is None:
            raise SchemaError(f"{where}: it does not say its file and its number of samples")
        columns = _columns(where, *(said.get(f"column_{key}") for key in ("names", "encodings", "sizes")))
        for one in (raw, packed):
            path = os.path.join(self.input.path, one["basename"]) if one is not None else ""
            if one is not None and os.path.isfile(path):
                file = InputPath(os.path.join(self.path, one["basename"]), path)
                return _Shard(file, columns, rows, raw.get("hashes"))
        missing = os.path.join(self.path, raw["basename"])
        raise SchemaError(f"{missing} is missing, which {_INDEX} lists")

    def _look(self, number: int, stream: BinaryIO, ends: Any, row: int) -> int:
        """Take the first samples of a shard into account, and return how many."""
        seen = size = 0
        if not any(field.is_open for field in self._fields):
            return len(ends) - 1
        for sample in range(min(_SAMPLE_ROWS, len(ends) - 1)):
            stream.seek(int(ends[sample]))
            data = memoryview(stream.read(int(ends[sample + 1] - ends[sample])))
            where = f"{self._shards[number].file.name}, sample {sample}"
            add_cells(
                [(one.name, one.add) for one in self._fields],
                cut_cells(data, self._sizes, where),
                row + sample,
                where,
            )
            seen, size = seen + 1, size + len(data)
            if size >= _BATCH_BYTES:
                break
        return seen

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of the samples of a shard."""
        number, first, stop = unit.place
        shard = self._shards[number]
        with shard.file.open() as stream:
            ends, _ = _header(stream, shard)
            for start, end in ranges(ends, _BATCH_BYTES, first, stop, _BATCH_ROWS):
                stream.seek(int(ends[start]))
                data = memoryview(stream.read(int(ends[end] - ends[start])))
                yield self._batch(shard.file.name, data, ends[start : end + 1] - ends[start], start)

    def _batch(self, name: str, data: memoryview, ends: Any, first: int) -> RawBatch:
        places = ends.tolist()
        rows = [
            cut_cells(data[a:b], self._sizes, f"{name}, sample {i}")
            for i, (a, b) in enumerate(pairwise(places), first)
        ]
        columns: dict[str, Any] = {}
        for column in self.schema:
            i = self._by_column[column.name]
            field, cells = self._fields[i], [row[i] for row in rows]
            try:
                columns[column.name] = field.values(cells, column)
            except ValueError:
                for sample, cell in enumerate(cells, first):
                    try:
                        field.values([cell], column)
                    except ValueError as error:
                        raise SchemaError(
                            f"{name}, sample {sample}, column {field.name!r}: {error}"
                        ) from None
                raise
        return RawBatch(columns, len(rows))


def _is_file_entry(said: Any) -> bool:
    name = said.get("basename") if isinstance(said, dict) else None
    if not isinstance(name, str) or not name or "\0" in name or os.path.isabs(name):
        return False
    pieces = name.split("/")  # of a merged index, folders stand before it
    return all(pieces) and not {".", ".."} & set(pieces)


def _columns(where: str, names: Any, encodings: Any, sizes: Any) -> Columns:
    """What an index or a header says of the columns, checked."""
    lists = names, encodings, sizes
    if not all(isinstance(one, list) for one in lists) or not 0 < len(names) <= _MOST_COLUMNS:
        raise SchemaError(f"{where}: it does not list its columns")
    if len({len(one) for one in lists}) > 1 or len(set(map(str, names))) < len(names):
        raise SchemaError(f"{where}: the lists of its columns do not fit together")
    found: Columns = []
    for name, encoding, size in zip(*lists, strict=True):
        if not isinstance(name, str) or not isinstance(encoding, str):
            raise SchemaError(
                f"{where}: column {name!r} has the encoding {encoding!r}, which is none of MDS's"
            )
        if not is_encoding(encoding):
            if size is not None and (type(size) is not int or size < 0):
                raise SchemaError(f"{where}: column {name!r}, {encoding}, is said to have {size!r} bytes")
        elif size != encoded_size(encoding):
            raise SchemaError(f"{where}: column {name!r}, {encoding}, is said to have {size!r} bytes")
        found.append((name, encoding, size))
    return found


def _refuse_unknown(name: str, fields: Sequence[MdsField]) -> None:
    for field in fields:
        if field.is_wanted and not is_encoding(field.encoding):
            raise SchemaError(
                f"{name}: column {field.name!r} has the encoding {field.encoding!r}, which is none of MDS's; --columns "
                f"chooses others"
            )


def _shown(columns: Columns) -> str:
    return ", ".join(f"{name} ({encoding})" for name, encoding, _ in columns)


def _header(stream: BinaryIO, shard: _Shard) -> tuple[Any, Columns]:
    """Where each sample of a shard begins, and where the last ends (int64); and its columns."""
    name = shard.file.name
    size = stream.seek(0, 2)
    stream.seek(0)
    head = stream.read(4)
    rows = _COUNT.unpack(head)[0] if len(head) == 4 else 0
    if len(head) < 4 or 4 * (rows + 2) > size:
        raise SchemaError(f"{name} is no MDS shard, or is cut off: {many(size, 'byte')}")
    if shard.rows is not None and rows != shard.rows:
        raise SchemaError(f"{name} holds {many(rows, 'sample')}, but its index says {shard.rows:,}")
    ends = np.frombuffer(stream.read(4 * (rows + 1)), "<u4").astype(np.int64)
    start = 4 * (rows + 2)
    if ends[0] < start or (np.diff(ends) < 0).any():
        raise SchemaError(f"{name} is damaged: its samples do not follow each other")
    if ends[-1] != size:
        raise SchemaError(
            f"{name} is cut off or damaged: {many(size, 'byte')}, and its samples end at {ends[-1]:,}"
        )
    text = stream.read(int(ends[0]) - start)
    try:
        said = json.loads(text)
        lists = [said[f"column_{key}"] for key in ("names", "encodings", "sizes")]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise SchemaError(f"{name} is no MDS shard: its header is damaged ({error!r})") from None
    columns = _columns(name, *lists)
    if shard.columns is not None and columns != shard.columns:
        raise SchemaError(
            f"{name} has the columns {_shown(columns)}, but its index says {_shown(shard.columns)}"
        )
    return ends, columns


def _check_hash(shard: _Shard) -> None:
    """Refuse a shard that is not what the index says, where it says one of the sums that Python knows."""
    hashes = shard.hashes if isinstance(shard.hashes, dict) else {}
    for algorithm, wanted in hashes.items():
        if algorithm not in hashlib.algorithms_available or algorithm.startswith("shake"):
            continue
        digest = hashlib.new(algorithm, usedforsecurity=False)
        with shard.file.open() as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
        if digest.hexdigest() != wanted:
            raise SchemaError(f"{shard.file.name} is damaged: its {algorithm} is not the one in {_INDEX}")
        return
