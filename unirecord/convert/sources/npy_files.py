"""NumPy files as records: the arrays of .npy files or of a .npz side by side, a row per entry of their first axis.

The columns of a .npz that says their types, as `export` writes it, are what they were before.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...format.values.strings import UnicodeRefused, unicode_list
from ...progress import Progress
from ...sizes import format_size, many
from .array_attributes import equally_long, shown_types, wanted_types
from .input_path import InputPath
from .overrides import refuse_split_files
from .source import TRUST, AskedOption, Options, RawBatch, Source, Unit, column_names, refuse_claims
from .text_values import parse_json

__all__ = [
    "NpyFiles",
    "NpyHeader",
    "array_names",
    "comment_of",
    "has_shapes",
    "npy_array",
    "npy_header",
]


# The content of a .npy file as an array, of plain numbers only: nothing is unpickled, no size is believed.


_KINDS = "?biufc"


class NpyHeader(NamedTuple):
    """What a .npy file holds, and where."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self.dtype.itemsize * math.prod(self.shape)


def npy_header(head: bytes) -> NpyHeader:
    """Return what the first bytes say; ``ValueError`` when they are no header, or one of Python objects."""
    file = io.BytesIO(head)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            elif version in ((2, 0), (3, 0)):
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
            else:
                raise ValueError(f"version {version} of .npy is not known")
    except (ValueError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"no .npy header: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from None
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which are not unpickled")
    if any(type(d) is not int or d < 0 for d in shape) or len(shape) > 32:
        raise ValueError(f"the shape {shape}")
    return NpyHeader(dtype, tuple(shape), bool(fortran), file.tell())


def npy_array(data: bytes | memoryview) -> Any:
    """Return the array of a whole .npy file; ``ValueError`` says what is wrong with it."""
    header = npy_header(bytes(data[:65_536]))
    if header.dtype.kind not in _KINDS:
        raise ValueError(f"an array of {header.dtype}, not of numbers")
    if header.nbytes != len(data) - header.offset:
        raise ValueError(f"{many(len(data) - header.offset, 'byte')} where the header says {header.nbytes:,}")
    flat = np.frombuffer(data, header.dtype, math.prod(header.shape), header.offset)
    array = flat.reshape(header.shape, order="F" if header.fortran else "C")
    return array.astype(header.dtype.newbyteorder("<"), order="C", copy=False)


# How the columns of a dataset lie in a .npz: arrays by their names, and the types in the comment of the archive.


# What the comment begins with; JSON follows, as `Schema.to_spec` has it.
_TYPES_MARK: Final = b"unirecord columns "
_MOST_BYTES: Final = 65_535  # of the comment of a zip archive


def has_shapes(column: Column) -> bool:
    """Whether the shape of each row is in an array of its own: elements and where they begin do not tell it."""
    return column.free_dims > 0 and column.shape != (-1,)


def array_names(column: Column) -> list[str]:
    """The names of the arrays of a column: its values, where each row's begin, their shapes, and which are there."""
    endings = [""]
    if not column.fixed_bytes:
        endings.append("_offsets")
    if has_shapes(column):
        endings.append("_shape")
    if column.nullable:
        endings.append("_valid")
    return [column.name + ending for ending in endings]


def comment_of(schema: Schema) -> bytes:
    """Return the comment that says the types, without annotations where these do not fit; empty where none fits."""
    for one in (schema, schema.with_annotations_of(Schema(()))):
        comment = _TYPES_MARK + json.dumps(one.to_spec()).encode()
        if len(comment) <= _MOST_BYTES:
            return comment
    return b""


# NumPy files as records.


_UNIT_BYTES: Final = 16_000_000
_HEADER_BYTES: Final = 65_536
_PIECE: Final = 1 << 20
_APART: Final = "write them to datasets of their own"
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")


@dataclass
class _Array:
    """One array: the file that holds it, and where; a row per entry of its first axis."""

    name: str
    file: InputPath
    start: int
    size: int
    header: NpyHeader

    @property
    def length(self) -> int:
        """How many rows there are."""
        return self.header.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.header.nbytes // max(self.length, 1)

    def types(self, column: str) -> list[tuple[str, tuple[str, ...], Any]]:
        """The columns that it makes: their names, the fields they are, and what gives their types or refuses them."""
        dtype, shape = self.header.dtype, self.header.shape[1:]
        if dtype.fields is None:
            return [(column, (), lambda: _spec(self.name, dtype, shape))]
        return [(name, path, self._type_of(name, inner)) for name, path, inner in _fields(dtype)]

    def _type_of(self, field: str, dtype: np.dtype[Any]) -> Callable[[], Any]:
        shape = (*self.header.shape[1:], *dtype.shape)
        return lambda: _spec(f"{self.name}: {field}", dtype.base, shape)

    def sizes(self, first: int, count: int) -> Any:
        """Bytes of each of some rows."""
        return np.full(count, self.row_bytes, np.int64)

    def rows(self, first: int, count: int) -> Any:
        """Some entries of the first axis."""
        dtype, shape = self.header.dtype, self.header.shape
        with self.file.open() as file:
            if self.header.fortran and len(shape) > 1:
                file.seek(self.start + self.header.offset)
                whole = np.frombuffer(file.read(self.header.nbytes), dtype).reshape(shape, order="F")
                return np.ascontiguousarray(whole[first : first + count])
            file.seek(self.start + self.header.offset + first * self.row_bytes)
            data = file.read(count * self.row_bytes)
        if len(data) < count * self.row_bytes:
            raise SchemaError(f"{self.name} has become shorter")
        return np.frombuffer(data, dtype).reshape(count, *shape[1:])


@dataclass
class _StoredColumn:
    """A column of a .npz that says its type: its values, where each row's begin, their shapes, and which are there."""

    name: str
    column: Column
    values: _Array
    offsets: _Array | None
    shapes: _Array | None
    valid: _Array | None

    def __post_init__(self) -> None:
        """Raises `SchemaError` where the arrays are not those of such a column."""
        dtype = self.column.dtype or np.dtype(np.uint8)
        parts = [
            (self.values, dtype, self.column.item_shape if self.offsets is None else ()),
            (self.offsets, np.dtype(np.int64), ()),
            (self.shapes, np.dtype(np.int64), (len(self.column.item_shape),)),
            (self.valid, np.dtype(np.bool_), ()),
        ]
        for array, kind, shape in parts:
            if array is None:
                continue
            found = array.header
            if found.dtype != kind or found.shape[1:] != tuple(shape) or (found.fortran and shape):
                raise SchemaError(
                    f"{array.name} is no array of a column {self.column}, as the archive calls it"
                )
            if array not in (self.values, self.offsets) and array.length != self.length:
                raise SchemaError(
                    f"{array.name} has {many(array.length, 'entry')} for {many(self.length, 'row')}"
                )

    @property
    def length(self) -> int:
        """How many rows there are."""
        return self.values.length if self.offsets is None else max(self.offsets.length - 1, 0)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, about."""
        arrays = (self.values, self.offsets, self.shapes, self.valid)
        return sum(one.header.nbytes for one in arrays if one is not None) // max(self.length, 1)

    def types(self, column: str) -> list[tuple[str, tuple[str, ...], Any]]:
        """Its own name and type."""
        return [(column, (), lambda: self.column.spec)]

    def sizes(self, first: int, count: int) -> Any:
        """Bytes of each of some rows."""
        if self.offsets is None:
            return np.full(count, self.row_bytes, np.int64)
        return np.diff(self._ends(first, count)) * self.values.header.dtype.itemsize

    def rows(self, first: int, count: int) -> Any:
        """Some rows, as a writer takes them."""
        there = None if self.valid is None else self.valid.rows(first, count)
        if self.offsets is None:
            data = self.values.rows(first, count)
            if there is None:
                return data
            if not self.column.is_blob:
                return np.ma.MaskedArray(data, mask=~there)
            return [value if one else None for value, one in zip(data, there.tolist(), strict=True)]
        ends = self._ends(first, count)
        data = self.values.rows(int(ends[0]), int(ends[-1] - ends[0]))
        shapes = None if self.shapes is None else self.shapes.rows(first, count).tolist()
        found: list[Any] = []
        for row in range(count):
            if there is not None and not there[row]:
                found.append(None)
                continue
            cell = data[ends[row] - ends[0] : ends[row + 1] - ends[0]]
            try:
                found.append(self._value(cell, None if shapes is None else shapes[row]))
            except ValueError as error:
                raise SchemaError(
                    f"{self.name}, row {first + row}, column {self.column.name!r}: {error}"
                ) from None
        return found

    def _ends(self, first: int, count: int) -> Any:
        """Where some rows begin and end in the values; `SchemaError` where that is outside of them."""
        assert self.offsets is not None
        ends = self.offsets.rows(first, count + 1)
        if ends[0] < 0 or ends[-1] > self.values.length or (np.diff(ends) < 0).any():
            raise SchemaError(f"{self.offsets.name}: rows from {first} lie outside of the values")
        return ends

    def _value(self, cell: Any, shape: list[int] | None) -> Any:
        """The value that elements or bytes are."""
        if self.column.is_array:
            return cell if shape is None else cell.reshape([max(d, 0) for d in shape])
        data = cell.tobytes()
        if self.column.type == "bytes":
            return data
        return parse_json(data.decode()) if self.column.type == "object" else data.decode()


# Arrays of one length; and of each column which of them it is, and which field of it.
_Arrays = list[_Array | _StoredColumn]
_Places = dict[str, tuple[int, tuple[str, ...]]]


class NpyFiles(Source):
    """Arrays of one length. A structured array has a column per field. Nothing is unpickled."""

    kind: ClassVar[str] = "npy"
    about: ClassVar[str] = "NumPy files (.npy, .npz)"
    handles: ClassVar[tuple[str, ...]] = ("_spool",)
    suffixes: ClassVar[tuple[str, ...]] = (".npy", ".npz")
    first_bytes: ClassVar[bytes] = b"\x93NUMPY"
    takes_folders: ClassVar[bool] = True
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the headers of the arrays."""
        self._spool: BinaryIO | None = None
        self._spooled = 0
        beside: dict[str, _Array | _StoredColumn] = {}
        tables: list[tuple[str, dict[str, _Array | _StoredColumn]]] = []
        for file in self.input.files(self.suffixes):
            if file.suffix == ".npz" or file.head(2) == b"PK":
                tables.append((file.name, self._of_archive(file, options)))
            else:
                column = os.path.splitext(os.path.basename(file.name))[0]
                place = (file.name, file, 0, file.size())
                self._add(beside, column, self._array(column, place, file.head(_HEADER_BYTES), options))
        if beside or not tables:
            tables.append((self.path, beside))
        if not any(arrays for _, arrays in tables):
            raise SchemaError(f"{self.path} holds no arrays")
        if len(tables) > 1 and not _overlap([arrays for _, arrays in tables]):
            tables = [(self.path, {name: one for _, arrays in tables for name, one in arrays.items()})]
        if len(tables) > 1:
            refuse_split_files(self.path, [name for name, _ in tables])
        self._tables: list[tuple[_Arrays, _Places]] = []
        self.units: Sequence[Unit] = []
        rows = claimed = 0
        for name, arrays in tables:
            types, length, width = self._take(name, arrays, options)
            if len(self._tables) == 1:
                first, found = name, types
                self.schema: Schema = options.schema(types)
            elif types != found:
                raise SchemaError(
                    f"{name} has {shown_types(types)}, but {first} has {shown_types(found)}; {_APART}"
                )
            rows, claimed = rows + length, max(claimed, width)
            refuse_claims(self.input, options, rows, claimed)
            step = max(1, _UNIT_BYTES // max(1, width))
            number = len(self._tables) - 1
            self.units += [
                Unit(f"{name}, rows from {start}", (number, start), min(step, length - start))
                for start in range(0, length, step)
            ]

    def _take(
        self, name: str, arrays: dict[str, _Array | _StoredColumn], options: Options
    ) -> tuple[dict[str, Any], int, int]:
        """Add the columns of arrays that lie side by side; return their types, rows, and bytes of a row."""
        kept = equally_long({column: one.length for column, one in arrays.items()}, options, name)
        fields = [(i, *one) for i, column in enumerate(kept) for one in arrays[column].types(column)]
        names, changed = column_names([field[1] for field in fields], name, options)
        self.left_out.extend(changed if not self._tables else [])
        named = dict(zip(names, fields, strict=True))
        types = wanted_types(names, lambda column: named[column][3](), options)
        places = {column: (named[column][0], named[column][2]) for column in types}
        self._tables.append(([arrays[column] for column in kept], places))
        width = sum(arrays[column].row_bytes for column in kept)
        return types, arrays[kept[0]].length, width

    def _add(
        self, arrays: dict[str, _Array | _StoredColumn], column: str, found: _Array | _StoredColumn | None
    ) -> None:
        if column in arrays:
            raise SchemaError(
                f"{self.path} holds two arrays {column!r}, which both make a column: rename one"
            )
        if found is not None:
            arrays[column] = found

    def _array(
        self, column: str, place: tuple[str, InputPath, int, int], head: bytes, options: Options
    ) -> _Array | None:
        """The array at a place (name, file, start, size); None where it can be no column, and is not wanted as one."""
        name, file, start, size = place
        try:
            header = _header(name, head, size)
        except SchemaError:
            if options.wants(column):
                raise
            return None
        return _Array(name, file, start, size, header)

    def _of_archive(self, file: InputPath, options: Options) -> dict[str, _Array | _StoredColumn]:
        """The arrays of a .npz file, or its columns where it says their types."""
        try:
            with file.open() as stream, zipfile.ZipFile(stream) as archive:
                members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                if archive.comment.startswith(_TYPES_MARK):
                    return self._stored(file, archive, stream, members, options)
                found: dict[str, _Array | _StoredColumn] = {}
                for info in archive.infolist():
                    column = info.filename.removesuffix(".npy")
                    self._add(found, column, self._member(column, file, archive, stream, info, options))
                return found
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            struct.error,
            NotImplementedError,
            OSError,
        ) as error:
            raise SchemaError(f"{file.name} is damaged: {error}") from None

    def _stored(
        self,
        file: InputPath,
        archive: zipfile.ZipFile,
        stream: BinaryIO,
        members: dict[str, zipfile.ZipInfo],
        options: Options,
    ) -> dict[str, _Array | _StoredColumn]:
        """The columns that were asked for, of an archive that says their types."""
        try:
            schema = Schema.parse(parse_json(archive.comment[len(_TYPES_MARK) :].decode()))
        except (SchemaError, ValueError) as error:
            raise SchemaError(f"{file.name} is damaged: the types in its comment: {error}") from None
        found: dict[str, _Array | _StoredColumn] = {}
        for column in schema:
            if not options.wants(column.name):
                continue
            arrays: dict[str, _Array | None] = {}
            for name in array_names(column):
                if name not in members:
                    raise SchemaError(
                        f"{file.name} has no array {name!r}, which its column {column.name!r} is made of"
                    )
                arrays[name] = self._member(column.name, file, archive, stream, members[name], options)
            values = arrays[column.name]
            assert values is not None  # it is wanted, and would have been refused
            parts = [arrays.get(f"{column.name}{ending}") for ending in ("_offsets", "_shape", "_valid")]
            found[column.name] = _StoredColumn(file.name, column, values, *parts)
        return found

    def _member(
        self,
        column: str,
        file: InputPath,
        archive: zipfile.ZipFile,
        stream: BinaryIO,
        info: zipfile.ZipInfo,
        options: Options,
    ) -> _Array | None:
        """An array of a .npz file; a compressed one is copied to an unnamed temporary file first."""
        name = f"{file.name}, {info.filename}"
        if info.flag_bits & 1:
            raise SchemaError(f"{name} is encrypted")
        if info.compress_type == zipfile.ZIP_STORED:
            stream.seek(info.header_offset)
            mark, names, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
            if mark != b"PK\x03\x04":
                raise SchemaError(f"{name}: its header is damaged")
            start = info.header_offset + _LOCAL_HEADER.size + names + extra
            stream.seek(start)
            head = stream.read(min(_HEADER_BYTES, info.file_size))
            return self._array(column, (name, file, start, info.file_size), head, options)
        if self._spooled + info.file_size > file.spool_bytes:
            raise SchemaError(
                f"{self.path} decompresses to more than {format_size(file.spool_bytes)}, which is more than is copied "
                "to a temporary file (--max-spool-bytes)"
            )
        copy, start, head = self._copied(archive, info, name)
        return self._array(column, (name, copy, start, info.file_size), head, options)

    def _copied(
        self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str
    ) -> tuple[InputPath, int, bytes]:
        """The copy of a member behind those before it, in one file; where it begins there; its first bytes."""
        if self._spool is None:
            self._spool = tempfile.TemporaryFile(prefix="unirecord-")  # noqa: SIM115 (kept by the source)
        start = self._spooled
        self._spool.seek(start)
        size, head = 0, b""
        with archive.open(info) as member:
            while piece := member.read(_PIECE):
                head = head or piece[:_HEADER_BYTES]
                size += len(piece)
                if size > info.file_size:
                    break
                self._spool.write(piece)
        self._spool.flush()
        if size != info.file_size:
            raise SchemaError(f"{name} is said to have {many(info.file_size, 'byte')}, but has others")
        self._spooled += size
        return (
            InputPath(name.replace(".", "_"), f"/proc/{os.getpid()}/fd/{self._spool.fileno()}"),
            start,
            head,
        )

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield a range of rows, in pieces where rows of different lengths make them large."""
        number, start = unit.place
        rows = unit.rows or 0
        arrays, places = self._tables[number]
        sizes = np.zeros(rows, np.int64)
        for array in arrays:
            sizes += array.sizes(start, rows)
        piece = np.cumsum(sizes) // (2 * _UNIT_BYTES)
        cuts = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), rows]
        for first, stop in pairwise(cuts):
            yield self._batch(arrays, places, start + first, stop - first)

    def _batch(self, arrays: _Arrays, places: _Places, start: int, rows: int) -> RawBatch:
        used = {places[name][0] for name in self.schema.names}
        parts: dict[int, Any] = {i: arrays[i].rows(start, rows) for i in used}
        columns = {}
        for name in self.schema.names:
            number, path = places[name]
            values = parts[number]
            for field in path:
                values = values[field]
            if isinstance(values, list):
                columns[name] = values
                continue
            if values.dtype.kind in "SV":
                raw = np.ascontiguousarray(values)
                values = [
                    bytes(value).rstrip(b"\0") if values.dtype.kind == "S" else bytes(value) for value in raw
                ]
            elif values.dtype.kind == "U":
                try:
                    values = unicode_list(values)
                except UnicodeRefused as refused:
                    where = f"{arrays[number].name}, row {start + refused.row}"
                    raise SchemaError(f"{where}, column {name!r}: {refused}") from None
            elif values.dtype.byteorder == ">":
                values = values.astype(values.dtype.newbyteorder("<"))
            columns[name] = values
        return RawBatch(columns, rows)


def _fields(
    dtype: np.dtype[Any], before: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...], np.dtype[Any]]]:
    """The fields of a structure, those of structures in it too: the column's name, the way to it, and its type."""
    for name in dtype.names or ():
        inner, path = dtype[name], (*before, name)
        if inner.fields is None:
            yield "_".join(path), path, inner
        else:
            yield from _fields(inner, path)


def _overlap(tables: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a name is in more than one of them, so that they are pieces of the same, and not columns of their own."""
    return len({name for arrays in tables for name in arrays}) < sum(map(len, tables))


def _header(name: str, head: bytes, size: int) -> NpyHeader:
    try:
        header = npy_header(head)
    except ValueError as error:
        raise SchemaError(f"{name}: {error}") from None
    if not header.dtype.itemsize:
        raise SchemaError(f"{name}: its items ({header.dtype}) have no bytes, so that it holds none")
    if not header.shape:
        raise SchemaError(f"{name} holds a single value, not one a row; --columns chooses the others")
    if header.nbytes != size - header.offset:
        raise SchemaError(
            f"{name} holds {many(size - header.offset, 'byte')}, but its header says {header.nbytes:,}"
        )
    return header


def _spec(where: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if dtype.kind in "?biufc" and dtype.itemsize <= 16:
        name = dtype.newbyteorder("<").name
        if not shape:
            return name
        if all(shape):
            return {"type": name, "shape": list(shape)}
        return {"type": name, "shape": [d or -1 for d in shape]}
    if not shape and dtype.kind in "USVMm":
        return {"U": "string", "S": "bytes", "V": "bytes"}.get(dtype.kind, "int64")
    raise SchemaError(f"{where} is {dtype} of shape {list(shape)}, which no column type holds")
