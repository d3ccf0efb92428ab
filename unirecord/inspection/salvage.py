"""Takes the rows that are whole out of a part whose data file is damaged, unfinished or cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import UniRecordError
from ..format.column import Column
from ..format.page import ScalarColumn
from ..format.values import ColumnBatch, ColumnData, PackedStrings
from ..parts.data_file import DataFile, DataHead, DictionaryPage, RowGroup
from ..parts.part_set import CellValues, Decoders, pieces_of
from .content import check_group, read_payload
from .finding import lost_rows
from .recover import head_from_index, opened_index
from .walk import Ancillary, Damage, End, cell_places, walk

__all__ = ["Survey", "sound_batches", "survey"]


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
