"""Takes the rows that are whole out of a part whose data file is damaged, unfinished or cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError, UniRecordError
from ..format import layout
from ..format.column import Column
from ..format.page import ScalarColumn, ScalarPage, cell_lengths, padded, unit_count
from ..format.values import ColumnBatch, ColumnData, PackedStrings
from ..parts.data_file import DataFile, DataHead, DictionaryPage, RowGroup, checked_head
from ..parts.part_set import CellValues, Decoders, pieces_of
from ..storage.location import Readable
from ..storage.registry import location_of
from .content import check_group, lost_rows, read_payload
from .index_check import NONSENSE, IndexFile, check_blocks, find_index, strings, validity
from .walk import Ancillary, Damage, End, Recovered, cell_places, walk

__all__ = [
    "IndexedGroups",
    "Survey",
    "head_from_index",
    "opened_index",
    "sound_batches",
    "survey",
]


# What a sound index knows of a damaged data file: its head, and row groups whose scalar page or headers are bad.


def head_from_index(path: str, data: DataFile) -> DataHead | None:
    """The head of the data file as its index repeats it; None unless it comes out with the digest that it had."""
    for name in (f"{path}.idx", f"{path}.idx.new"):
        try:
            with location_of(name).open(name) as file:
                index = IndexFile(name, file)
            known = index.header
            head, digest = layout.pack_file_head(
                known.id, known.columns, index.table, index.packed_metadata, known.shape, known.writer_version
            )
            if digest == known.data_header_digest and known.data_bytes == data.size:
                header = layout.unpack_file_header(head[: layout.HEADER_BYTES])
                found = checked_head(header, index.table, index.packed_metadata)
                data.end_page(found)  # whose digest is bound to the id: the file is this part
                return found
        except (OSError, UniRecordError):
            continue
    return None


@contextmanager
def opened_index(path: str, data: DataFile, head: DataHead) -> Iterator[IndexedGroups]:
    """What the part's index knows, while this lasts; it is read only when something is asked for."""
    name, _ = find_index(path, head.header.id, data.content_digest(head))
    if name is None:
        yield IndexedGroups("", None, head, data.size)
        return
    with location_of(name).open(name) as file:
        yield IndexedGroups(name, file, head, data.size)


class IndexedGroups:
    """What an index knows of the row groups of its data file: nothing when it is not sound, or there is none (None)."""

    name: str
    file: Readable | None
    head: DataHead
    size: int

    def __init__(self, name: str, file: Readable | None, head: DataHead, size: int) -> None:
        self.name, self.file, self.head, self.size = name, file, head, size
        self.index: IndexFile | None = None
        self.asked: bool = False

    def _open(self) -> IndexFile | None:
        """The index, if every digest in it holds and it was made for this data file."""
        if not self.asked and self.file is not None:
            self.asked = True
            try:
                index = IndexFile(self.name, self.file)
                mine = index.header.data_header_digest == self.head.header.header_digest
                mine = mine and index.header.data_bytes == self.size
                if mine and index.table == self.head.table and not list(check_blocks(index)):
                    self.index = index
            except UniRecordError:
                pass
        return self.index

    def dictionaries(self) -> dict[int, bytes] | None:
        """The dictionaries of compressed columns, by ordinal; None when the index is not sound."""
        index = self._open()
        if index is None:
            return None
        kind = layout.SECTION_CODEC_DICTIONARY
        return {s.column: index.read(s.offset, s.bytes) for s in index.sections.values() if s.kind == kind}

    def group(self, number: int, first_row: int) -> Recovered | None:
        """Row group ``number``, which starts at row ``first_row``; None when the index does not make sense there."""
        try:
            return self._group(number, first_row)
        except (UniRecordError, *NONSENSE):
            return None  # right digests over numbers that no writer has written

    def _group(self, number: int, first_row: int) -> Recovered | None:
        index = self._open()
        if index is None or number >= index.header.groups:
            return None
        key = (layout.SECTION_GROUPS, layout.NO_COLUMN)
        table = index.elements(key, "<u8", 4 * number, 4 * number + 4).tolist()
        last = number + 1 == index.header.groups
        after = (
            index.header.rows if last else int(index.elements(key, "<u8", 4 * number + 4, 4 * number + 5)[0])
        )
        if table[0] != first_row or after <= first_row:
            return None
        page = self._page(index, first_row, after)
        _, offset, blob, payload = table
        size = self._blob_bytes(page)
        if payload + size > index.header.data_bytes:
            return None
        end = (
            layout.align(payload + size, layout.PAGE_ALIGN) if blob else self._scalar_end(index, number, last)
        )
        return Recovered(first_row, offset, blob, payload, size, end, page, None)

    def _scalar_end(self, index: IndexFile, number: int, last: bool) -> int:
        """Where a row group without blobs ends: where the next one, or the end page, starts."""
        if last:
            return index.header.data_bytes - layout.PAGE_HEADER_BYTES
        start = 4 * number + 5
        return int(index.elements((layout.SECTION_GROUPS, layout.NO_COLUMN), "<u8", start, start + 1)[0])

    def _page(self, index: IndexFile, start: int, stop: int) -> ScalarPage:
        schema, shape = self.head.schema, self.head.header.shape
        scalars = [
            _scalar_from_index(index, ordinal, column, start, stop) for ordinal, column in schema.scalars
        ]
        lengths, raw_lengths, blob_valid = [], [], []
        for ordinal, column in schema.blobs:
            blob_valid.append(validity(index, ordinal, start, stop))
            if not column.stored_bytes:
                lengths.append(_lengths(index, layout.SECTION_LENGTHS, ordinal, start, stop))
            if column.has_raw_lengths:
                raw_lengths.append(_lengths(index, layout.SECTION_RAW_LENGTHS, ordinal, start, stop))
        digests = np.zeros(0, np.uint64)
        if schema.blobs:
            first = start // shape.unit_rows if shape.unit_rows else start * len(schema.blobs)
            count = unit_count(schema, shape, stop - start)
            key = (layout.SECTION_DIGESTS, layout.NO_COLUMN)
            digests = index.elements(key, "<u8", first, first + count)
        return ScalarPage(stop - start, scalars, lengths, raw_lengths, blob_valid, digests)

    def _blob_bytes(self, page: ScalarPage) -> int:
        shape = self.head.header.shape
        if shape.row_bytes:
            return page.rows * shape.row_bytes
        cells = cell_lengths(self.head.schema, page.rows, page.lengths)
        return sum(int(padded(lengths, shape).sum()) for lengths in cells)


def _lengths(index: IndexFile, kind: int, ordinal: int, start: int, stop: int) -> npt.NDArray[np.uint64]:
    width = index.sections[kind, ordinal].width
    return index.elements((kind, ordinal), f"<u{width}", start, stop).astype(np.uint64)


def _scalar_from_index(index: IndexFile, ordinal: int, column: Column, start: int, stop: int) -> ScalarColumn:
    valid = validity(index, ordinal, start, stop)
    if column.is_string:
        cells = strings(index, ordinal, start, stop)
        if sum(map(len, cells)) > index.header.data_bytes:
            raise CorruptionError("the strings of a row group take more bytes than the data file has")
        lengths = np.array([len(cell) for cell in cells], np.uint32)
        return ScalarColumn(lengths, valid, memoryview(b"".join(cells)))
    values = index.elements((layout.SECTION_VALUES, ordinal), column.dtype, start, stop)
    return ScalarColumn(values, valid)


@dataclass
class Survey:
    """What a data file still holds. ``rows`` None: nobody knows how many there were."""

    head: DataHead | None
    rows: int | None = None
    lost: list[tuple[int, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    finished: bool = True  # every page is there, the end page included

    @property
    def sound(self) -> bool:
        """Whether the file is finished and every row can be read."""
        return self.head is not None and self.rows is not None and self.finished and not self.lost

    def lose(self, first: int, stop: int, reason: str) -> None:
        """Notes that rows [first, stop) are gone."""
        self.reasons.append(reason)
        if self.lost and self.lost[-1][1] == first:
            first = self.lost.pop()[0]
        if stop > first:
            self.lost.append((first, stop))


def survey(path: str, known_rows: int | None, advance: Callable[[int], None]) -> Survey:
    """Reads the whole file and says what is whole; ``known_rows``: what manifest or index say of the number of rows."""
    with ExitStack() as stack:
        data = stack.enter_context(DataFile(path))
        head, problem = _head(path, data)
        result = Survey(head, finished=problem is None)
        if head is None:
            result.rows = known_rows
            result.lose(0, known_rows or 0, problem or "")
            return result
        if problem is not None:
            result.reasons.append(f"{problem}; the head was made again from the index")
        known = stack.enter_context(opened_index(path, data, head))
        decoders = Decoders.of(data, head, known.dictionaries)
        for found in walk(data, head, known.group):
            if isinstance(found, End):
                result.rows = found.rows
            elif isinstance(found, Damage):
                result.finished = False
                end = found.next_row if found.next_row is not None else known_rows
                result.lose(found.first_row, end or found.first_row, f"{found.what} (offset {found.offset})")
                result.rows = known_rows
            elif isinstance(found, Ancillary):
                if found.what is not None:
                    result.finished = False
                    result.reasons.append(f"{found.what}; pages of kind {found.kind} are left out")
                advance(found.end - found.offset)
            elif isinstance(found, DictionaryPage):
                advance(found.end - found.offset)
            else:
                findings = check_group(data, head, found, decoders)
                result.reasons += map(str, findings)
                lost = lost_rows(findings, found.first_row, found.page.rows)
                for row in (np.flatnonzero(lost) + found.first_row).tolist():
                    result.lose(row, row + 1, "")
                advance(found.end - found.offset)
        result.reasons = [reason for reason in result.reasons if reason]
        if result.lost and result.rows is None:
            result.rows = known_rows
    return result


def _head(path: str, data: DataFile) -> tuple[DataHead | None, str | None]:
    """The head of the data file, or the one that its index repeats, and what is wrong with its own."""
    try:
        return data.head(), None
    except UniRecordError as error:
        return head_from_index(path, data), str(error)


def sound_batches(path: str) -> Iterator[ColumnBatch]:
    """The rows whose digests hold, a row group at a time; their memory belongs to the batch."""
    with ExitStack() as stack:
        data = stack.enter_context(DataFile(path))
        head, _ = _head(path, data)
        if head is None:
            return
        known = stack.enter_context(opened_index(path, data, head))
        decoders = Decoders.of(data, head, known.dictionaries)
        decoders.check_available(head, path)
        for found in walk(data, head, known.group):
            if isinstance(found, RowGroup):
                findings = check_group(data, head, found, decoders)
                keep = np.flatnonzero(~lost_rows(findings, found.first_row, found.page.rows))
                payload = read_payload(data, found) if head.schema.blobs else np.empty(0, np.uint8)
                for some in pieces_of(head, found, keep):
                    yield _batch(head, found, payload, some, decoders)


def _batch(
    head: DataHead,
    group: RowGroup,
    payload: npt.NDArray[np.uint8],
    keep: npt.NDArray[np.intp],
    decoders: Decoders,
) -> ColumnBatch:
    scalars = iter(group.page.scalars)
    blobs = _blobs(head, group, payload, keep, decoders)
    columns = [
        next(blobs) if column.is_blob else _scalar(column, next(scalars), keep) for column in head.schema
    ]
    return ColumnBatch(len(keep), columns)


def _scalar(column: Column, found: ScalarColumn, keep: npt.NDArray[np.intp]) -> ColumnData:
    valid = None if found.valid is None else found.valid[keep]
    if found.strings is None:
        return ColumnData(found.values[keep], valid)
    ends = np.cumsum(found.values, dtype=np.int64)
    starts = ends - found.values
    cells: list[bytes | memoryview] = [
        bytes(found.strings[a:b]) for a, b in zip(starts[keep].tolist(), ends[keep].tolist(), strict=True)
    ]
    if valid is not None:
        cells = [cell if ok else b"" for cell, ok in zip(cells, valid.tolist(), strict=True)]
    return ColumnData(PackedStrings.of(cells), valid)


def _blobs(
    head: DataHead,
    group: RowGroup,
    payload: npt.NDArray[np.uint8],
    keep: npt.NDArray[np.intp],
    decoders: Decoders,
) -> Iterator[ColumnData]:
    places = cell_places(head, group)
    found = CellValues(head.schema, *places, group.page.raw_lengths, payload, decoders)
    for j, (_, column) in enumerate(head.schema.blobs):
        present = group.page.blob_valid[j]
        valid = None if present is None else present[keep]
        every = list(found.of(j, keep))
        if column.fixed_bytes:
            width = np.arange(column.fixed_bytes)
            yield ColumnData(np.concatenate([v.data[v.starts[:, None] + width] for v in every]), valid)
            continue
        cells: list[bytes | memoryview] = []
        for values in every:
            view = memoryview(values.data)
            bounds = zip(values.starts.tolist(), (values.starts + values.sizes).tolist(), strict=True)
            cells += [view[a:b] for a, b in bounds]
        yield ColumnData(cells, valid)
