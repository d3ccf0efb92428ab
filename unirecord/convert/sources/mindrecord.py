"""MindRecord files as records: the pages of the data files alone, so that no index can be missing or stale."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Final

import msgpack
import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from .input_path import InputPath
from .source import Options, RawBatch, Source, Unit

__all__ = [
    "DecodeError",
    "MindRecordFiles",
    "blob_cells",
    "decoder",
]


# The blob fields of a MindRecord row: how they are laid out, and the packed integers of their arrays.


_CELL_SIZE: Final = struct.Struct(">Q")
_COUNT: Final = struct.Struct(">I")
# Codes of four elements by the byte that holds them, first element in the highest bits.
_CODES: Final = np.array(
    [[byte >> 6, byte >> 4 & 3, byte >> 2 & 3, byte & 3] for byte in range(256)], np.uint8
)


class DecodeError(ValueError):
    """The bytes of a row are damaged."""


def blob_cells(payload: memoryview, fields: int) -> list[memoryview]:
    """Cut a row's blobs into its fields: one alone takes all, several have their lengths before them."""
    if fields == 1:
        return [payload]
    cells, at = [], 0
    for _ in range(fields):
        if at + 8 > len(payload):
            raise DecodeError("the length of a field is cut off")
        (size,) = _CELL_SIZE.unpack_from(payload, at)
        at += 8
        if size > len(payload) - at:
            raise DecodeError(f"a field is said to have {many(size, 'byte')}, more than the row holds")
        cells.append(payload[at : at + size])
        at += size
    if at != len(payload) and fields:
        raise DecodeError(f"{many(len(payload) - at, 'byte', 'are')} left over after the last field")
    return cells


def decoder(column: Column, version: str) -> Callable[[memoryview], Any]:
    """Return the function that makes a value of the bytes of a field."""
    if not column.is_array:
        return lambda cell: cell
    dtype = column.dtype
    assert dtype is not None
    packed = version != "2.0" and dtype.kind == "i"
    shape = column.shape or ()

    def decode(cell: memoryview) -> Any:
        if packed:
            flat = _unpacked(cell, dtype)
        elif len(cell) % dtype.itemsize:
            raise DecodeError(f"{many(len(cell), 'byte', 'are')} no whole number of {dtype} values")
        else:
            flat = np.frombuffer(cell, dtype)
        if not flat.size and -1 in shape:
            return flat.reshape([0 if d == -1 else d for d in shape])
        try:
            return flat.reshape(shape)
        except ValueError:
            raise DecodeError(
                f"column {column.name!r}: {many(flat.size, 'value', 'do')} not make {list(shape)}"
            ) from None

    return decode


def _unpacked(cell: memoryview, dtype: Any) -> Any:
    """Integers, each of 1, 2, 4 or 8 bytes as a code of two bits says, after a count and the codes of all."""
    if not len(cell):
        return np.zeros(0, dtype)
    if len(cell) < 4:
        raise DecodeError("the number of values is cut off")
    (count,) = _COUNT.unpack_from(cell)
    start = 4 + (count + 3) // 4
    if start > len(cell):
        raise DecodeError(f"{many(count, 'value', 'are')} said to be in {many(len(cell), 'byte')}")
    codes = _CODES[np.frombuffer(cell, np.uint8, start - 4, 4)].reshape(-1)[:count]
    widths = np.left_shift(1, codes, dtype=np.int64)
    ends = start + np.cumsum(widths)
    if (int(ends[-1]) if count else start) != len(cell):
        raise DecodeError("the values of an array take more or fewer bytes than are there")
    if not count:
        return np.zeros(0, dtype)
    if (codes == codes[0]).all():
        found = np.frombuffer(cell, f"<i{widths[0]}", count, start)
        return found.astype(dtype)
    raw = np.frombuffer(cell, np.uint8)
    values = np.zeros(count, np.int64)
    for code in range(4):
        chosen = np.flatnonzero(codes == code)
        if len(chosen):
            width = 1 << code
            at = (ends[chosen] - width)[:, None] + np.arange(width)
            values[chosen] = np.ascontiguousarray(raw[at]).view(f"<i{width}")[:, 0]
    return values.astype(dtype)


# MindRecord files as records: the pages of the data files alone, so that no index can be missing, stale or renamed.


_SIZE: Final = struct.Struct("<Q")
_HEADER_SIZES: Final = range(16 << 10, (128 << 20) + 1)
_PAGE_SIZES: Final = range(32 << 10, (256 << 20) + 1)
_MOST_SHARDS: Final = 1_000
_VERSIONS: Final = ("2.0", "3.0")
_ENCRYPTED: Final = (
    b"ENCRYPT"  # the last bytes of a file that MindSpore has encrypted, after the name of the cipher
)
_TYPES: Final = ("int32", "int64", "float32", "float64", "string", "bytes")


class MindRecordFiles(Source):
    """A set of MindRecord files, in the order of its shards; given one file, the whole set that it names."""

    kind: ClassVar[str] = "mindrecord"
    reads_ahead = True
    about: ClassVar[str] = "MindRecord files"
    suffixes: ClassVar[tuple[str, ...]] = (".mindrecord",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the names (``x.mindrecord``, ``x.mindrecord0``), or by the header."""
        return any(map(_is_name, source.peek)) or _looks_like_header(source.head(256))

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the headers of all files."""
        given = [f for f in self.input.files(("",)) if self.input.is_file or _is_name(f.name.lower())]
        self._files = self._whole_set(given[0]) if self.input.is_file else given
        self._headers = [_read_header(file) for file in self._files]
        first = self._headers[0]
        self.units: Sequence[Unit] = []
        row = 0
        for number, (file, header) in enumerate(zip(self._files, self._headers, strict=True)):
            for what, mine, its in (
                ("schema", header.fields, first.fields),
                ("blob fields", header.blob_fields, first.blob_fields),
                ("version", header.version, first.version),
            ):
                if mine != its:
                    raise SchemaError(
                        f"{file.name}: its {what} is {mine}, but that of {self._files[0].name} is {its}; "
                        "convert them apart, each by its name or a pattern in quotes"
                    )
            for group in header.groups:
                name = f"{file.name}, row group {group.number}"
                self.units.append(Unit(name, (number, group, row), group.rows))
                row += group.rows
        self._first = first
        self.indexed: Sequence[str] = first.indexed
        if len(self._files) > 1 and self.input.is_file:
            self.notes.append(f"all {many(len(self._files), 'file')} of the set are read")
        self.schema: Schema = options.schema(first.types)

    def _whole_set(self, file: InputPath) -> list[InputPath]:
        """The files that the header lists, when this one is among them; else it alone, which was renamed."""
        header = _read_header(file)
        here = os.path.basename(file.path)
        if here not in header.shards:
            if header.shards != [os.path.basename(file.name)]:
                self.notes.append(
                    f"it was written as {header.shards[header.shard]!r} and renamed; it alone is read"
                )
            return [file]
        folder = os.path.dirname(file.path)
        found = []
        for name in header.shards:
            path = os.path.join(folder, name)
            if not os.path.isfile(path):
                raise SchemaError(
                    f"{os.path.join(os.path.dirname(file.name), name)} is missing, which belongs to the set of "
                    f"{file.name}; to read only some files of it, name them by a pattern"
                )
            found.append(
                file if name == here else InputPath(os.path.join(os.path.dirname(file.name), name), path)
            )
        return found

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a row group."""
        number, group, _ = unit.place
        file, header = self._files[number], self._headers[number]
        with file.open() as stream:
            pages = _Pages(stream, header, unit.name)
            scalars = pages.scalar_rows(group)
            blobs = pages.blob_rows(group)
        yield RawBatch(self._columns(header, scalars, blobs, unit.name), group.rows)

    def _columns(
        self, header: _Header, scalars: list[dict[str, Any]], blobs: list[memoryview], where: str
    ) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        stored = Schema.parse(header.types)
        for column in self.schema:
            if column.name in header.blob_fields:
                continue
            try:
                columns[column.name] = [record[column.name] for record in scalars]
            except (KeyError, TypeError):
                raise SchemaError(f"{where}: a row lacks the field {column.name!r}") from None
        decoders = [(name, decoder(stored[name], header.version)) for name in header.blob_fields]
        for name, _ in decoders:
            columns[name] = []
        for row, payload in enumerate(blobs):
            try:
                cells = blob_cells(payload, len(decoders))
                for (name, decode), cell in zip(decoders, cells, strict=True):
                    columns[name].append(decode(cell))
            except DecodeError as error:
                raise SchemaError(f"{where}, row {row} of it: {error}") from None
        return {name: columns[name] for name in self.schema.names}


def _is_name(name: str) -> bool:
    base = os.path.basename(name)
    return (
        ".mindrecord" in base
        and not base.endswith((".db", ".json"))
        and base.rpartition(".mindrecord")[2].isdigit() | base.endswith(".mindrecord")
    )


def _looks_like_header(head: bytes) -> bool:
    if len(head) < 64:
        return False
    (length,) = _SIZE.unpack_from(head)
    return (2 <= length < _HEADER_SIZES.stop and head[8:9] == b"{" and b'"header_size"' in head) or (
        head[8:9] == b"{" and b'"compression_size"' in head
    )


@dataclass(frozen=True)
class _Group:
    """A row group: its rows, its blob page, and where its scalars begin."""

    number: int
    rows: int
    blob_page: int
    raw_page: int  # among the raw pages, in order
    raw_offset: int


@dataclass(frozen=True)
class _Header:
    """What the header of a file says, checked."""

    header_size: int
    page_size: int
    version: str
    fields: dict[str, Any]
    blob_fields: list[str]
    types: dict[str, Any]
    shards: list[str]
    shard: int
    indexed: list[str]
    raw_pages: list[tuple[int, int]]  # page number and bytes used
    blob_used: dict[int, int]
    groups: list[_Group]


def _read_header(file: InputPath) -> _Header:
    with file.open() as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        head = stream.read(8)
        length = _SIZE.unpack(head)[0] if len(head) == 8 else 0
        stream.seek(max(size - len(_ENCRYPTED), 0))
        if stream.read() == _ENCRYPTED:
            raise SchemaError(
                f"{file.name} is encrypted, by set_enc_key of MindSpore, which alone reads it: write it anew without"
            )
        stream.seek(_SIZE.size)
        if not 2 <= length < min(_HEADER_SIZES.stop, size):
            raise SchemaError(f"{file.name} is no MindRecord file, or was never finished: it has no header")
        text = stream.read(length)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(
            f"{file.name} is no MindRecord file, or was never finished: its header is damaged ({error})"
        ) from None
    try:
        return _checked(found, size)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise SchemaError(f"{file.name}: its header is damaged ({type(error).__name__}: {error})") from None


def _checked(found: dict[str, Any], size: int) -> _Header:
    version = found["version"]
    if version not in _VERSIONS:
        raise ValueError(f"version {version!r} is not known; {' and '.join(_VERSIONS)} are")
    header_size, page_size = int(found["header_size"]), int(found["page_size"])
    if header_size not in _HEADER_SIZES or page_size not in _PAGE_SIZES:
        raise ValueError(f"a header of {many(header_size, 'byte')} and pages of {many(page_size, 'byte')}")
    (schema,) = found["schema"]
    fields, blob_fields = schema["schema"], sorted(schema["blob_fields"])
    types = {name: _type(name, entry) for name, entry in fields.items()}
    kinds = Schema.parse(types)
    if blob_fields != sorted(column.name for column in kinds if column.is_blob):
        raise ValueError(f"blob_fields {blob_fields} are not those of the schema")
    shards = [str(name) for name in found["shard_addresses"]]
    if not 1 <= len(shards) <= _MOST_SHARDS or any(
        os.path.basename(name) != name or not name for name in shards
    ):
        raise ValueError("the list of files of the set is damaged")
    indexed = [
        str(one["index_field"]) for one in found.get("index_fields") or [] if one["index_field"] in types
    ]
    pages = sorted(found["page"] or [], key=lambda page: int(page["page_type_id"]))
    raw = [page for page in pages if page["page_type"] == "RAW_DATA"]
    blobs = [page for page in pages if page["page_type"] == "BLOB_DATA"]
    for page in pages:
        used, end = int(page["page_size"]), header_size + int(page["page_id"]) * page_size
        if not 0 <= used <= page_size or int(page["page_id"]) < 0:
            raise ValueError(f"page {page['page_id']} holds {many(used, 'byte')} of {page_size}")
        if end + used > size:
            raise ValueError(
                f"page {page['page_id']} lies beyond the end: the file is cut off by {many(end + used - size, 'byte')}"
            )
    starts = {
        int(one["id"]): (i, int(one["offset"]))
        for i, page in reversed(list(enumerate(raw)))
        for one in page["row_group_ids"]
    }
    return _Header(
        header_size, page_size, version, fields, blob_fields, types, shards, int(found.get("shard_id", 0)), indexed,
        [(int(page["page_id"]), int(page["page_size"])) for page in raw],
        {int(page["page_id"]): int(page["page_size"]) for page in blobs},
        list(_groups(blobs, starts)),
    )  # fmt: skip


def _groups(blobs: list[dict[str, Any]], starts: dict[int, tuple[int, int]]) -> Iterator[_Group]:
    row = 0
    for page in blobs:
        first, end = int(page["start_row_id"]), int(page["end_row_id"])
        number = int(page["page_type_id"])
        if first != row or end < first:
            raise ValueError(f"blob page {number} holds the rows {first} to {end}, after row {row}")
        if end > first:
            raw_page, offset = starts[number]
            yield _Group(number, end - first, int(page["page_id"]), raw_page, offset)
        row = end


def _type(name: str, entry: dict[str, Any]) -> Any:
    kind = entry["type"]
    if kind not in _TYPES:
        raise ValueError(f"field {name!r} has the type {kind!r}, which MindRecord has not")
    shape = entry.get("shape")
    return kind if shape is None else {"type": kind, "shape": [int(d) for d in shape]}


class _Pages:
    """The rows of a file's pages: each ``[u64 length][bytes]``."""

    def __init__(self, stream: BinaryIO, header: _Header, where: str) -> None:
        self._stream, self._header, self._where = stream, header, where

    def _page(self, page: int, used: int) -> memoryview:
        self._stream.seek(self._header.header_size + page * self._header.page_size)
        data = self._stream.read(used)
        if len(data) < used:
            raise SchemaError(f"{self._where}: page {page} is cut off")
        return memoryview(data)

    def _rows(self, data: memoryview, at: int, most: int) -> Iterator[memoryview]:
        for _ in range(most):
            if at == len(data):
                return
            if at + 8 > len(data):
                raise SchemaError(f"{self._where}: a row's length is cut off by the end of its page")
            (size,) = _SIZE.unpack_from(data, at)
            at += 8
            if size > len(data) - at:
                raise SchemaError(
                    f"{self._where}: a row is said to have {many(size, 'byte')}, more than its page holds"
                )
            yield data[at : at + size]
            at += size

    def blob_rows(self, group: _Group) -> list[memoryview]:
        """What the blob page of a row group holds, row by row."""
        data = self._page(group.blob_page, self._header.blob_used[group.blob_page])
        return self._all_there(list(self._rows(data, 0, group.rows)), group.rows, "blobs")

    def scalar_rows(self, group: _Group) -> list[dict[str, Any]]:
        """The scalar fields of a row group's rows, which may go on in the next page."""
        found: list[dict[str, Any]] = []
        at = group.raw_offset
        for page, used in self._header.raw_pages[group.raw_page :]:
            data = self._page(page, used)
            if at > len(data):
                raise SchemaError(f"{self._where}: its scalars begin beyond their page")
            for cell in self._rows(data, at, group.rows - len(found)):
                try:
                    record = msgpack.unpackb(cell)
                except (ValueError, msgpack.UnpackException, UnicodeDecodeError) as error:
                    raise SchemaError(
                        f"{self._where}: the scalars of row {len(found)} of it are damaged ({error})"
                    ) from None
                if not isinstance(record, dict):
                    raise SchemaError(f"{self._where}: the scalars of row {len(found)} of it are no map")
                found.append(record)
            at = 0
            if len(found) == group.rows:
                break
        return self._all_there(found, group.rows, "scalars")

    def _all_there(self, found: list[Any], rows: int, what: str) -> list[Any]:
        if len(found) != rows:
            raise SchemaError(f"{self._where}: {len(found):,} {what} for {many(rows, 'row')}")
        return found
