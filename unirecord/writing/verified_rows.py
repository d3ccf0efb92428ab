"""The rows of a part as its data file stores them, each checked, digest and value, before it is handed out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from shlex import quote

import numpy as np
import numpy.typing as npt

from ..core import digest_ranges
from ..errors import CorruptionError
from ..format import layout
from ..format.page import (
    StoredRows,
    cell_lengths,
    chunk_tables,
    padded,
    padding_places,
    stored_cells,
    wrong_chunks,
)
from ..format.schema import Schema
from ..format.value_rules import BROKEN, NO_TEXT, broken_scalars, no_texts
from ..format.values import ColumnData, PackedStrings
from ..sizes import many
from ..snapshot.data_file import DataFile, DataHead, RowGroup
from ..snapshot.manifest import Manifest, PartEntry, files_of_part, layout_of
from ..snapshot.part_set import CellValues, Decoders, refuse_value

__all__ = [
    "compressed_as",
    "open_verified",
    "row_ends",
    "verified_rows",
]


_AT_ONCE = 64 << 20  # bytes of a blob page: a row group of another writer may be as large as it likes

U64 = npt.NDArray[np.uint64]


def open_verified(data: DataFile, entry: PartEntry) -> DataHead:
    """The head of a part; CorruptionError where the file is not the one that the manifest names."""
    head = data.head()
    try:
        end = data.end_page(head)
    except CorruptionError as error:
        raise data.located(error) from error
    found = (head.header.id, end.rows, end.content_digest.hex(), data.size)
    if found != (entry.id, entry.rows, entry.content, entry.bytes):
        raise CorruptionError(
            f"{data.path}: this is not the part that the manifest names: its id, rows, content or length differ; put "
            "the right file back",
            path=data.path,
        )
    return head


def verified_rows(data: DataFile, head: DataHead) -> Iterator[StoredRows]:
    """All rows, some MiB at a time.

    CorruptionError names the first row whose bytes do not have their digest, or are no value of their column;
    ColumnError a column that cannot be decompressed here, so that nobody could tell.
    """
    decoders = Decoders.of(data, head)
    decoders.check_available(head, data.path)
    for ordinal, why in decoders.lost.items():
        what = f"column {head.schema[ordinal].name!r}: the cells cannot be decompressed: {why}"
        raise CorruptionError(
            f"{data.path}: {what}; run: unirecord repair {quote(data.path)}", path=data.path
        )
    for group in data.groups(head):
        _check_scalars(data, head, group)
        yield from _rows(data, head, group, decoders)


def _check_scalars(data: DataFile, head: DataHead, group: RowGroup) -> None:
    for (_, column), found in zip(head.schema.scalars, group.page.scalars, strict=True):
        texts = [] if found.strings is None else [(NO_TEXT, no_texts(found.values, found.strings))]
        for what, wrong in [*texts, (BROKEN, broken_scalars(column, found.values, found.valid))]:
            if len(wrong):
                raise refuse_value(data.path, group.first_row + int(wrong[0]), column.name, what)


def _check_cells(
    data: DataFile, head: DataHead, rows: StoredRows, first_row: int, decoders: Decoders
) -> None:
    columns = [rows.columns[ordinal] for ordinal, _ in head.schema.blobs]
    sizes = np.stack(cell_lengths(head.schema, rows.rows, rows.lengths), axis=1)
    room = padded(sizes, head.header.shape)
    for padding in padding_places(sizes, head.header.shape):
        rows.payload[padding] = 0  # no digest may cover it, and what is written has zeros there
    places = rows.ends[:-1, None] + np.cumsum(room, axis=1, dtype=np.uint64) - room
    raw = [one.raw_lengths for one in columns if one.raw_lengths is not None]
    tables = {
        ordinal: one.chunk_lengths
        for (ordinal, _), one in zip(head.schema.blobs, columns, strict=True)
        if one.chunk_lengths is not None
    }
    cells = CellValues(head.schema, places, sizes, raw, tables, rows.payload, decoders)
    for j, ((_, column), one) in enumerate(zip(head.schema.blobs, columns, strict=True)):
        for what, wrong in cells.problems(j, one.valid):
            if len(wrong):
                raise refuse_value(data.path, first_row + int(wrong[0]), column.name, what)


def _rows(data: DataFile, head: DataHead, group: RowGroup, decoders: Decoders) -> Iterator[StoredRows]:
    ends = row_ends(data, head, group)
    whole = StoredRows(
        group.page.rows, _columns(head, group), list(group.page.lengths), np.empty(0, np.uint8), ends
    )
    if not head.schema.blobs:
        yield whole
        return
    unit, start = max(head.header.shape.unit_rows, 1), 0
    while start < whole.rows:
        stop = int(np.searchsorted(ends, ends[start] + np.uint64(_AT_ONCE), "right")) - 1
        stop = whole.rows if stop >= whole.rows else max(stop - stop % unit, start + unit)
        stop = min(stop, whole.rows)
        some = _without_payload(whole, start, stop)
        some.payload = np.empty(int(ends[stop] - ends[start]), np.uint8)
        data.read_into(some.payload, group.blob_payload + int(ends[start]))
        _check_units(data, head, some, group.first_row + start, group.page.digests, start)
        _check_chunks(data, head, some, group, start)
        _check_cells(data, head, some, group.first_row + start, decoders)
        yield some
        start = stop


def _without_payload(whole: StoredRows, start: int, stop: int) -> StoredRows:
    ends = whole.ends
    blank = StoredRows(whole.rows, whole.columns, whole.lengths, whole.payload, np.zeros_like(ends))
    some = blank.part(start, stop)
    some.ends = ends[start : stop + 1] - ends[start]
    return some


def row_ends(data: DataFile, head: DataHead, group: RowGroup) -> U64:
    """Where each row starts in the payload, and the end of the last; CorruptionError where that makes no sense."""
    ends = np.zeros(group.page.rows + 1, np.uint64)
    if not head.schema.blobs:
        return ends
    sizes = np.stack(cell_lengths(head.schema, group.page.rows, group.page.lengths), axis=1)
    room = padded(sizes, head.header.shape).sum(axis=1, dtype=np.uint64)
    np.cumsum(room, out=ends[1:])
    absurd = int(sizes.max()) > group.blob_bytes or (ends[1:] < ends[:-1]).any()
    if absurd or int(ends[-1]) != group.blob_bytes:
        raise CorruptionError(
            f"{data.path}: the blob page at {group.blob_offset} has {many(group.blob_bytes, 'byte')}, "
            f"which its rows do not "
            "add up to",
            path=data.path,
            offset=group.blob_offset,
        )
    return ends


def _columns(head: DataHead, group: RowGroup) -> list[ColumnData]:
    page = group.page
    scalars, valid, raw = iter(page.scalars), iter(page.blob_valid), iter(page.raw_lengths)
    tables = chunk_tables(head.schema, page)
    columns = []
    for ordinal, column in enumerate(head.schema):
        if column.is_blob:
            sizes = next(raw) if column.has_raw_lengths else None
            columns.append(ColumnData([], next(valid), sizes, tables.get(ordinal)))
            continue
        found = next(scalars)
        if found.strings is None:
            columns.append(ColumnData(found.values, found.valid))
        else:
            columns.append(ColumnData(PackedStrings.of_sizes(found.strings, found.values), found.valid))
    return columns


def _check_units(
    data: DataFile, head: DataHead, rows: StoredRows, first_row: int, digests: U64, start: int
) -> None:
    shape, blobs = head.header.shape, len(head.schema.blobs)
    if shape.unit_rows:
        first = first_row // shape.unit_rows
        stored = digests[start // shape.unit_rows :]
        edges = np.append(rows.ends[: -1 : shape.unit_rows], rows.ends[-1])
        starts, lengths = edges[:-1], np.diff(edges)
    else:
        first, stored = first_row * blobs, digests[start * blobs :]
        sizes = np.stack(cell_lengths(head.schema, rows.rows, rows.lengths), axis=1)
        room = padded(sizes, shape).ravel()
        starts, lengths = np.cumsum(room, dtype=np.uint64) - room, sizes.ravel()
    seed = layout.seed(head.header.id, layout.DOMAIN_UNITS, first)
    found = digest_ranges(rows.payload, starts, lengths, seed, layout.PHI)
    wrong = np.flatnonzero(found != stored[: len(found)])
    if len(wrong):
        number = first + int(wrong[0])
        row = number * shape.unit_rows if shape.unit_rows else number // blobs
        last = row + max(shape.unit_rows, 1) - 1
        named = f"row {row}" if last == row else f"rows {row} to {min(last, first_row + rows.rows - 1)}"
        raise CorruptionError(
            f"{data.path}: the bytes of {named} of this part do not have the digest stored with them, so nothing was "
            "published: `unirecord repair` keeps the other rows; or delete what `unirecord verify` lists and run "
            "`unirecord compact --drop-deleted`",
            path=data.path,
            row=row,
        )


def _check_chunks(data: DataFile, head: DataHead, some: StoredRows, group: RowGroup, start: int) -> None:
    cells = stored_cells(head.schema, head.header.shape, some.rows, some.lengths, some.payload)
    rows = np.arange(start, start + some.rows)
    for column, wrong in wrong_chunks(
        head.schema, head.header.id, group.first_row, group.page, rows, lambda j, row: cells(j, row - start)
    ):
        if len(wrong):
            what = "its chunks are not as their tables say"
            raise refuse_value(data.path, group.first_row + int(wrong[0]), column.name, what)


# How the columns of a part are stored, wherever its files are: which codec each of them has.


def compressed_as(folder: str, found: Manifest, part: PartEntry) -> Schema:
    """The schema of a manifest with the codecs of the files of one of its parts, each of which is the one it names.

    CorruptionError, FormatError, OSError: a file is another one, or cannot be read.
    """
    layout, stored = layout_of(found, part), []
    for entry in files_of_part(found, part):
        with DataFile(os.path.join(folder, entry.name)) as data:
            stored.append(open_verified(data, entry).schema)
    places = zip(found.schema, layout.columns, strict=True)
    return Schema(
        replace(column, codec=stored[file].columns[place].codec) for column, (file, place) in places
    )
