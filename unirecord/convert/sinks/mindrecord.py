"""MindRecord files without MindSpore: pages of scalars (msgpack) and of blobs, and an SQLite index beside each file."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import msgpack
import numpy as np
from numpy.typing import NDArray

from ...dataset.dataset import UniRecordDataset
from ...errors import SchemaError
from ...format.column import Column
from ...format.values.objects import base64_text, object_text
from ...sizes import many
from ...storage.local import located
from ...storage.staged import StagedFile, StagedFolder, staged_file
from .jsonl import float32_of_bfloat16, json_notes
from .sink import Advance, Sink, numbered, refuse, refuse_null

__all__ = [
    "Field",
    "MINDRECORD",
    "fields_of",
    "row_payload",
]


# Values as the fields of a MindRecord row: which of its six types each becomes, and its packed integers.


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


_HEADER_BYTES: Final = 1 << 24  # MindRecord's own sizes; what is not used of a page is a hole in the file
_PAGE_BYTES: Final = 1 << 25
_MOST_FILES: Final = 1_000
_NAME: Final = re.compile(r"[0-9a-zA-Z_]+")
_INDEX_ROWS: Final = 10_000  # kept in memory
_TABLE: Final = (
    "CREATE TABLE INDEXES(ROW_ID INT NOT NULL, PAGE_ID_RAW INT NOT NULL, PAGE_OFFSET_RAW INT NOT NULL, "
    "PAGE_OFFSET_RAW_END INT NOT NULL, ROW_GROUP_ID INT NOT NULL, PAGE_ID_BLOB INT NOT NULL, "
    "PAGE_OFFSET_BLOB INT NOT NULL, PAGE_OFFSET_BLOB_END INT NOT NULL"
)


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return which types are widened; names, shapes and types that MindRecord lacks are refused."""
    refuse(
        columns,
        "mindrecord",
        lambda c: c.type.startswith("complex"),
        "it has no complex numbers; leave them out",
    )
    refuse(
        columns, "mindrecord", lambda c: not _NAME.fullmatch(c.name) or (not c.is_blob and c.name[0].isdigit()),
        "its names are letters of ASCII, digits and _, and those of scalars begin with no digit",
    )  # fmt: skip
    refuse(
        columns, "mindrecord", lambda c: c.is_array and (c.free_dims > 1 or 0 in c.item_shape or not c.item_shape),
        "its arrays have one free dimension at most, and no empty one",
    )  # fmt: skip
    lower = [column.name.lower() for column in columns]
    refuse(
        columns, "mindrecord", lambda c: lower.count(c.name.lower()) > 1, "their names differ in case alone"
    )
    notes = [
        f"{field.name}: {field.column.type} is written as {field.kind}"
        for field in map(Field, columns)
        if field.kind != field.column.type and field.column.type not in ("text", "object")
    ]
    return [*notes, *json_notes([c for c in columns if c.type == "object"])]


def _write_folder(
    rows: UniRecordDataset, folder: StagedFolder, parts: int, advance: Advance
) -> Sequence[str]:
    """Write the files, each with a share of the rows, and their indexes."""
    if parts > _MOST_FILES:
        raise ValueError(f"a set of MindRecord files has at most {_MOST_FILES:,}, got parts={parts:,}")
    fields = fields_of([rows.schema[name] for name in rows.column_names])
    ending = [""] if parts == 1 else [f"{i:0{len(str(parts - 1))}d}" for i in range(parts)]
    names = [f"data.mindrecord{number}" for number in ending]
    for number, name in enumerate(names):
        start, stop = number * len(rows) // parts, (number + 1) * len(rows) // parts
        share = rows.select(range(start, stop))
        with staged_file(folder.place(name)) as staged, _index(folder.place(name + ".db")) as index:
            shard = _Shard(staged, index, fields, names, number)
            for row, sample in numbered(share):
                shard.add(row, sample)
                advance(1)
            shard.finish()
    return ()


# A set of files ``data.mindrecord…`` that ``MindDataset`` reads; the index has all scalars, as is its
# default.
MINDRECORD: Final = Sink(
    kind="mindrecord",
    about="MindRecord",
    takes_parts=True,
    check=_check,
    write_folder=_write_folder,
)


@contextmanager
def _index(path: str) -> Iterator[sqlite3.Connection]:
    """A new file of SQLite; OSError names it where the disk does not take what SQLite writes."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as index:
            yield index
    except sqlite3.OperationalError as error:
        full = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL
        said = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else OSError(errno.EIO, str(error))
        raise located(said, path) from error


class _Page:
    """A page being filled: its number in the file and among those of its kind, and its rows as they are stored."""

    def __init__(self, page: int, number: int, first_row: int) -> None:
        self.page, self.number, self.first_row = page, number, first_row
        self.rows: list[bytes] = []
        self.size = 0
        self.groups: list[dict[str, int]] = []

    def add(self, data: bytes) -> tuple[int, int]:
        """Take a row; where it begins and ends in the page."""
        start, self.size = self.size, self.size + 8 + len(data)
        self.rows.append(struct.pack("<Q", len(data)) + data)
        return start, self.size


class _Shard:
    """One file of a set and its index."""

    def __init__(
        self,
        file: StagedFile,
        index: sqlite3.Connection,
        fields: Sequence[Field],
        names: list[str],
        number: int,
    ) -> None:
        self._file, self._index, self._names, self._number = file, index, names, number
        self._fields = fields
        self._scalars = [field for field in fields if not field.is_blob]
        self._blobs = [field for field in fields if field.is_blob]
        self._rows = self._pages = 0
        self._counts = {"RAW_DATA": 0, "BLOB_DATA": 0}
        self._page_entries: list[dict[str, Any]] = []
        self._open: dict[str, _Page] = {}
        self._index_rows: list[tuple[Any, ...]] = []
        index.execute("PRAGMA synchronous=OFF")  # the folder is synced before it is published
        index.execute("BEGIN")
        columns = [f", INC_{i} INT, {field.name}_0 {field.sql}" for i, field in enumerate(self._scalars)]
        key = "".join(f",INC_{i}" for i in range(len(self._scalars)))
        index.execute(f"{_TABLE}{''.join(columns)}, PRIMARY KEY(ROW_ID{key}))")
        index.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL, PRIMARY KEY(NAME))")
        index.execute("INSERT INTO SHARD_NAME VALUES(?)", (names[number],))

    def add(self, row: int, sample: dict[str, Any]) -> None:
        """Write a row to both of its pages, and where it is to the index."""
        for field in self._fields:
            refuse_null("mindrecord", field.column, sample[field.name], row)
        scalars = {field.name: field.scalar(sample[field.name]) for field in self._scalars}
        payload = row_payload([field.cell(sample[field.name]) for field in self._blobs])
        cells = msgpack.packb(scalars or {"id": 0})
        for data in (payload, cells):
            if len(data) + 8 > _PAGE_BYTES:
                raise SchemaError(
                    f"row {row} takes {many(len(data), 'byte')}; a page of MindRecord has {_PAGE_BYTES:,}"
                )
        blob = self._page("BLOB_DATA", len(payload))
        raw = self._page("RAW_DATA", len(cells))
        if not raw.groups or raw.groups[-1]["id"] != blob.number:
            raw.groups.append({"id": blob.number, "offset": raw.size})
        places = (raw.page, *raw.add(cells), blob.number, blob.page, *blob.add(payload))
        values = (value for field in self._scalars for value in (0, scalars[field.name]))
        self._index_rows.append((self._rows, *places, *values))
        self._rows += 1
        if len(self._index_rows) >= _INDEX_ROWS:
            self._write_index()

    def _page(self, kind: str, size: int) -> _Page:
        """The page that a row of this size goes to: the open one, if it has room."""
        page = self._open.get(kind)
        if page is not None and page.size + 8 + size > _PAGE_BYTES:
            self._close(kind)
            page = None
        if page is None:
            page = self._open[kind] = _Page(self._pages, self._counts[kind], self._rows)
            self._pages += 1
            self._counts[kind] += 1
        return page

    def _close(self, kind: str) -> None:
        page = self._open.pop(kind)
        self._file.write_at(_HEADER_BYTES + page.page * _PAGE_BYTES, b"".join(page.rows))
        is_blob = kind == "BLOB_DATA"
        self._page_entries.append({
            "page_id": page.page, "shard_id": self._number, "page_type": kind, "page_type_id": page.number,
            "start_row_id": page.first_row if is_blob else 0,
            "end_row_id": page.first_row + len(page.rows) if is_blob else 0,
            "row_group_ids": [{"id": 0, "offset": 0}] if is_blob else page.groups, "page_size": page.size,
        })  # fmt: skip

    def _write_index(self) -> None:
        marks = ",".join("?" * (8 + 2 * len(self._scalars)))
        self._index.executemany(f"INSERT INTO INDEXES VALUES({marks})", self._index_rows)
        self._index_rows.clear()

    def finish(self) -> None:
        """Write the pages that are open, the header and the rest of the index."""
        for kind in list(self._open):
            self._close(kind)
        self._page_entries.sort(key=lambda entry: entry["page_id"])
        header = json.dumps(self._header(), sort_keys=True, separators=(",", ":")).encode()
        if len(header) + 8 > _HEADER_BYTES:
            raise SchemaError(
                f"a header of {many(len(header), 'byte')}, of {_HEADER_BYTES:,} that there are; write more parts"
            )
        self._file.write_at(0, struct.pack("<Q", len(header)) + header)
        if self._file.size < _HEADER_BYTES:
            self._file.truncate(_HEADER_BYTES)
        self._write_index()
        self._index.execute("COMMIT")

    def _header(self) -> dict[str, Any]:
        schema = {field.name: field.entry for field in self._fields}
        return {
            "header_size": _HEADER_BYTES, "page_size": _PAGE_BYTES, "compression_size": 0, "version": "3.0",
            "index_fields": [{"schema_id": 0, "index_field": field.name} for field in self._scalars],
            "page": self._page_entries, "shard_addresses": self._names, "shard_id": self._number,
            "schema": [{"desc": "", "schema": schema, "blob_fields": [field.name for field in self._blobs]}],
            "statistics": None,
        }  # fmt: skip
