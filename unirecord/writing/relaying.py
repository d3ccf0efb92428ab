"""Parts of other parts' rows: which rows go into which new part, and how they get there, checked on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..errors import UniRecordError
from ..format.layout import Shape
from ..format.page import StoredRows
from ..format.schema import Schema
from ..parts import manifest
from ..parts.data_file import DataFile, DataHead
from ..parts.manifest import Manifest, PartEntry
from ..parts.part_set import Snapshot, resolve
from .compressing import Compressor, Dictionaries
from .encoded_rows import padded_anew, stored_as, values_of_part
from .part_writer import PartContent, PartSequence
from .row_groups import TARGET_BYTES, StoredGrouper, stored_shape
from .stored_columns import compressed_as
from .verified_rows import open_verified, verified_rows

__all__ = ["NewPart", "Relaying", "Span", "cut_evenly", "joined_small"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """Rows [first, stop) of a part."""

    entry: PartEntry
    first: int
    stop: int

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the part."""
        return (self.first, self.stop) == (0, self.entry.rows)


@dataclass(frozen=True)
class NewPart:
    """What becomes one part: the rows of spans, one after the other."""

    spans: tuple[Span, ...]

    @property
    def kept(self) -> PartEntry | None:
        """The part that it is already; None where rows move."""
        return self.spans[0].entry if len(self.spans) == 1 and self.spans[0].is_whole else None

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(span.stop - span.first for span in self.spans)


def joined_small(parts: Sequence[PartEntry], part_bytes: int) -> list[NewPart]:
    """Neighbours put together as long as they have at most so many bytes; parts without rows vanish."""
    made: list[list[Span]] = []
    size = 0
    for entry in parts:
        if not entry.rows:
            continue
        more = entry.bytes + sum(file.bytes for file in (entry.columns.files if entry.columns else ()))
        if not made or size + more > part_bytes:
            made.append([])
            size = 0
        made[-1].append(Span(entry, 0, entry.rows))
        size += more
    return [NewPart(tuple(spans)) for spans in made]


def cut_evenly(parts: Sequence[PartEntry], bounds: Sequence[int]) -> list[NewPart]:
    """Parts that end at these row numbers, ascending, the last of which is the number of all rows."""
    spans = iter([(entry, entry.rows) for entry in parts if entry.rows])
    entry, left = next(spans, (None, 0))
    made, place = [], 0
    for bound in bounds:
        mine: list[Span] = []
        while place < bound and entry is not None:
            count = min(left, bound - place)
            first = entry.rows - left
            mine.append(Span(entry, first, first + count))
            place, left = place + count, left - count
            if not left:
                entry, left = next(spans, (None, 0))
        if mine:
            made.append(NewPart(tuple(mine)))
    return made


class Relaying:
    """Writes the new parts of a directory; those that are complete are ``made``, in their order.

    The rows are those of the data files: their digests are checked, and then new ones computed of the same memory.
    Cells stay compressed as they are where the parts that come together have the same dictionaries.
    """

    def __init__(
        self,
        folder: str,
        before: Manifest,
        new_id: bytes,
        advance: Callable[[int], None] = lambda _: None,
        dropped: Callable[[PartEntry], Numbers] = lambda _: np.empty(0, np.int64),
        bare: Collection[str] = (),
    ) -> None:
        """``dropped``: the rows of a part in whose place blank ones are written.

        ``bare``: names of parts whose dictionaries stay behind as well.
        """
        self._folder, self._before, self._advance = folder, before, advance
        self._dropped, self._without_dictionaries = dropped, bare
        like = os.path.join(folder, manifest.NAME)
        self._parts = PartSequence(folder, new_id, lambda i: before.next_part + i, 1 << 62, like)
        self._source: _Source | None = None
        self._snapshot: Snapshot | None = None

    @property
    def made(self) -> list[PartEntry]:
        """The parts that are complete."""
        return self._parts.entries

    @property
    def named(self) -> list[str]:
        """The names that may have been given."""
        return self._parts.named

    def write(self, new: NewPart) -> PartEntry:
        """Writes one part; those of a dataset in its order."""
        content, dictionaries, shape = self._settled(new)
        grouper = StoredGrouper(shape, TARGET_BYTES)
        for span in new.spans:
            for rows in self._rows_of(span, content.schema, dictionaries, shape):
                for pieces in grouper.add(rows):
                    self._parts.add(content, shape, pieces)
        for pieces in grouper.finish():
            self._parts.add(content, shape, pieces)
        self._parts.finish(content, shape)
        entry = self.made[-1]
        if entry.rows != new.rows:
            raise UniRecordError(
                f"{self._folder}: {entry.rows} rows were written where {new.rows} belong, so nothing was published"
            )
        return entry

    def close(self) -> None:
        """Removes the part that is not complete, and closes what is read."""
        self._parts.discard()
        if self._source is not None:
            self._source.close()
            self._source = None

    def _settled(self, new: NewPart) -> tuple[PartContent, Dictionaries, Shape]:
        """How the part is written: compressed as most of its rows are."""
        found: list[tuple[int, int, Shape]] = []
        best: tuple[int, Schema, Dictionaries] | None = None
        for span in new.spans:
            with DataFile(os.path.join(self._folder, span.entry.name)) as data:
                head = open_verified(data, span.entry)
                rows = span.stop - span.first
                found.append((rows, span.entry.bytes * rows // span.entry.rows, head.header.shape))
                if best is not None and rows <= best[0]:
                    continue
                if span.entry.columns is None:
                    best = rows, head.schema, _dictionaries(data, head)
                else:  # its columns are compressed anew
                    best = rows, compressed_as(self._folder, self._before, span.entry), ()
        assert best is not None
        _, stored, dictionaries = best
        names = self._without_dictionaries
        if any(span.entry.name in names or len(self._dropped(span.entry)) for span in new.spans):
            dictionaries = ()  # they were trained on rows that go
        schema = Schema(replace(column, codec=stored[column.name].codec) for column in self._before.schema)
        user = self._before.metadata or b"\xc0"
        content = PartContent(schema, self._before.index, user, dictionaries)
        return content, dictionaries, stored_shape(schema, found, TARGET_BYTES)

    def _rows_of(
        self, span: Span, schema: Schema, dictionaries: Dictionaries, shape: Shape
    ) -> Iterator[StoredRows]:
        path = os.path.join(self._folder, span.entry.name)
        source = self._source
        if source is None or not source.goes_on(path, span.first, schema, dictionaries, shape):
            if source is not None:
                source.close()
            dropped = self._dropped(span.entry)
            source = self._source = _Source(
                path, span.entry, schema, dictionaries, shape, dropped, partial(self._snapshot_of, span.entry)
            )
        for rows in source.take(span.first, span.stop):
            yield rows
            self._advance(rows.rows * span.entry.bytes // span.entry.rows)

    def _snapshot_of(self, entry: PartEntry) -> Snapshot:
        """The dataset as if it were this part alone, with all of its rows."""
        if self._snapshot is None:
            self._snapshot = resolve(self._folder)
        [ref] = [ref for ref in self._snapshot.parts if ref.id == entry.id]
        return replace(self._snapshot, parts=(replace(ref, deletion=None),), listings=())


def _dictionaries(data: DataFile, head: DataHead) -> Dictionaries:
    return tuple((page.column, page.content) for page in data.dictionaries(head))


class _Source:
    """A part that is read from front to back, as the new part stores its rows."""

    def __init__(
        self,
        path: str,
        entry: PartEntry,
        schema: Schema,
        dictionaries: Dictionaries,
        shape: Shape,
        dropped: Numbers,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        self._key = (path, [(column.codec, column.name) for column in schema], dictionaries, shape.blob_align)
        self._files = ExitStack()
        data = self._files.enter_context(DataFile(path))
        self._rows = self._restored(data, entry, schema, dictionaries, shape, dropped, snapshot)
        self._piece: StoredRows | None = None
        self._place = 0  # of the piece

    def goes_on(
        self, path: str, first: int, schema: Schema, dictionaries: Dictionaries, shape: Shape
    ) -> bool:
        """Whether rows from ``first`` on are still to come, in this form."""
        key = (path, [(column.codec, column.name) for column in schema], dictionaries, shape.blob_align)
        return key == self._key and first >= self._place

    def take(self, first: int, stop: int) -> Iterator[StoredRows]:
        """Rows [first, stop) of the part; none of them have been passed."""
        while True:
            piece = self._piece
            if piece is not None:
                end = self._place + piece.rows
                if end > first:
                    yield piece.part(max(first - self._place, 0), min(stop, end) - self._place)
                if end >= stop:
                    return
                self._place = end
            self._piece = next(self._rows, None)
            if self._piece is None:
                return

    def close(self) -> None:
        """Closes the file."""
        self._files.close()

    @staticmethod
    def _restored(
        data: DataFile,
        entry: PartEntry,
        schema: Schema,
        dictionaries: Dictionaries,
        shape: Shape,
        dropped: Numbers,
        snapshot: Callable[[], Snapshot],
    ) -> Iterator[StoredRows]:
        head = open_verified(data, entry)
        same = entry.columns is None and [column.codec and column.codec.code for column in head.schema] == [
            column.codec and column.codec.code for column in schema
        ]
        if same and not len(dropped) and _dictionaries(data, head) == dictionaries:
            for rows in verified_rows(data, head):
                yield padded_anew(schema, rows, head.header.shape, shape)
            return
        compressor = Compressor(schema, dictionaries)
        for batch in values_of_part(snapshot(), dropped):
            for compressed, _ in compressor.add(batch, owned=True):
                yield stored_as(schema, compressed, shape)
