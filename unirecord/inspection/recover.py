"""What a sound index knows of a damaged data file: its head, and row groups whose scalar page or headers are bad."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError, UniRecordError
from ..format import layout
from ..format.column import Column
from ..format.page import ScalarColumn, ScalarPage, cell_lengths, padded, unit_count
from ..parts.data_file import DataFile, DataHead, checked_head
from ..storage.location import Readable
from ..storage.registry import location_of
from .index_check import NONSENSE, IndexFile, check_blocks, find_index, strings, validity
from .walk import Recovered

__all__ = ["IndexedGroups", "head_from_index", "opened_index"]


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
        scalars = [_scalar(index, ordinal, column, start, stop) for ordinal, column in schema.scalars]
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


def _scalar(index: IndexFile, ordinal: int, column: Column, start: int, stop: int) -> ScalarColumn:
    valid = validity(index, ordinal, start, stop)
    if column.is_string:
        cells = strings(index, ordinal, start, stop)
        if sum(map(len, cells)) > index.header.data_bytes:
            raise CorruptionError("the strings of a row group take more bytes than the data file has")
        lengths = np.array([len(cell) for cell in cells], np.uint32)
        return ScalarColumn(lengths, valid, memoryview(b"".join(cells)))
    values = index.elements((layout.SECTION_VALUES, ordinal), column.dtype, start, stop)
    return ScalarColumn(values, valid)
