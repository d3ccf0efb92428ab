"""Writes parts: head, row groups and end page of the data file, and then its index; one after the other in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..format import layout, metadata
from ..format.layout import Shape
from ..format.page import (
    GroupPlace,
    StoredRows,
    encode_dictionary,
    encode_end,
    encode_group,
    encode_stored_group,
)
from ..format.schema import Schema
from ..format.values import ColumnBatch
from ..parts import manifest
from ..parts.manifest import PartEntry
from ..storage.staged import StagedFile
from .index_file import build_index
from .row_groups import group_size

__all__ = [
    "Delivery",
    "PartSequence",
    "Settle",
    "at_once",
    "stays",
]


# Writes one part: head, row groups and end page of the data file, and then its index.


@dataclass(frozen=True)
class PartContent:
    """What every part of a dataset has in common: schema, names of index columns, the user's metadata as msgpack.

    ``dictionaries``: (ordinal of the column, content) for compressed columns, known with the first rows.
    """

    schema: Schema
    index: tuple[str, ...]
    user: bytes
    dictionaries: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True)
class FinishedPart:
    """A part whose two files are complete under their temporary names."""

    data: StagedFile
    index: StagedFile
    id: bytes
    rows: int
    content_digest: int

    def sync(self) -> None:
        """Makes both files durable."""
        self.data.sync()
        self.index.sync()

    def discard(self) -> None:
        self.data.discard()
        self.index.discard()


class PartWriter:
    """Appends row groups to a staged data file, which it owns from then on."""

    def __init__(self, data: StagedFile, part_id: bytes, content: PartContent, shape: Shape) -> None:
        self.data = data
        self.id = part_id
        self.shape = shape
        self.content = content
        self.rows: int = 0
        self.groups: int = 0
        self._digests = bytearray()  # of dictionaries and scalar pages
        head, _ = layout.pack_file_head(
            part_id,
            len(content.schema),
            content.schema.column_table(),
            metadata.encode(content.schema, content.index, content.user),
            shape,
        )
        data.append([head])
        for column, dictionary in content.dictionaries:
            page, digest = encode_dictionary(part_id, data.size, column, dictionary)
            self._digests += digest.to_bytes(8, "little")
            data.append([page])

    def size_with(self, pieces: Sequence[ColumnBatch]) -> int:
        """How long the finished file would be, about and at most, with these rows."""
        if isinstance(pieces[0], StoredRows):
            more = sum(piece.nbytes for piece in pieces if isinstance(piece, StoredRows))
            return self.data.size + more + 8 * layout.PAGE_HEADER_BYTES + layout.MAX_GAP
        return self.data.size + group_size(self.content.schema, self.shape, pieces) + layout.PAGE_HEADER_BYTES

    def add(self, pieces: Sequence[ColumnBatch]) -> None:
        """Writes the rows as one row group."""
        place = GroupPlace(self.groups, self.rows, self.data.size)
        encode = encode_stored_group if isinstance(pieces[0], StoredRows) else encode_group
        encoded = encode(self.content.schema, self.shape, self.id, place, pieces)  # type: ignore[arg-type]
        if encoded.blobs:
            self.data.append([bytes(encoded.scalar_bytes), *encoded.blobs])
            page, digest = encoded.scalar_page()
            self.data.write_at(place.offset, b"".join(page))
        else:
            page, digest = encoded.scalar_page()
            self.data.append(page)
        self._digests += digest.to_bytes(8, "little")
        self.groups += 1
        self.rows += sum(piece.rows for piece in pieces)

    def finish(self, index_path: str) -> FinishedPart:
        """Completes both files; the index is the one to be published at ``index_path``."""
        content = layout.content_digest(self.id, self._digests)
        self.data.append([encode_end(self.id, self.data.size, self.groups, self.rows, content)])
        index = StagedFile(index_path, like=self.data.temporary)
        try:
            build_index(self.data.temporary, index)
        except BaseException:
            index.discard()
            raise
        return FinishedPart(self.data, index, self.id, self.rows, content)


# Row groups -> parts of a folder, one after the other, each of at most a greatest size.


Delivery = Callable[[str], None]  # of a part, by name, whose files are complete in their folder
Settle = Callable[[Callable[[], None]], None]  # of work that makes a part complete

_GROUPS_PER_PART = 4  # at least about so many, so that parts come close to their greatest size
_SMALLEST_TARGET = 4_096


def stays(name: str) -> None:
    """The delivery of parts that are where they belong."""


def at_once(work: Callable[[], None]) -> None:
    """The settling of parts that nothing else goes on beside."""
    work()


class PartSequence:
    """Writes parts under their own names; ``entries`` are those that are complete, and on disk once they are settled.

    Args:
        folder: where the parts are written.
        dataset_id: 16 bytes, of which their ids are made.
        number: the number of the i-th part.
        max_part_bytes: greatest size of a data file, if its first row group allows.
        like: a file whose owner and mode new ones get, if it is there.
        deliver: is told of each part that is complete.
        finished: parts of an earlier run, after which this one goes on.
        on_part: told of each part that is complete when others follow it.
        settle: what has a part synced and given its name: at once, or later, one after the other.
    """

    def __init__(
        self,
        folder: str,
        dataset_id: bytes,
        number: Callable[[int], int],
        max_part_bytes: int,
        like: str,
        deliver: Delivery = stays,
        finished: Sequence[PartEntry] = (),
        on_part: Callable[[PartContent, Shape], None] | None = None,
        settle: Settle = at_once,
    ) -> None:
        self.folder = folder
        self.target_bytes: int | None = max(max_part_bytes // _GROUPS_PER_PART, _SMALLEST_TARGET)
        self.entries: list[PartEntry] = list(finished)
        self.named: list[str] = []  # names of parts that may have been given
        self.dataset_id = dataset_id
        self._number = number
        self._max_part_bytes = max_part_bytes
        self._like = like
        self._on_part = on_part
        self._deliver = deliver
        self._settle = settle
        self._part: PartWriter | None = None
        self._staged: StagedFile | None = None

    @property
    def written(self) -> int:
        """Bytes on their way to disk: of the parts that are complete, and of the data file at hand."""
        at_hand = 0 if self._staged is None else self._staged.size
        return sum(entry.bytes + entry.index_bytes for entry in self.entries) + at_hand

    @property
    def current(self) -> str:
        """Name of the part that rows go into now."""
        number = self._number(len(self.entries))
        return manifest.part_name(number, manifest.part_id(self.dataset_id, number))

    def add(self, content: PartContent, shape: Shape, pieces: Sequence[ColumnBatch]) -> None:
        """Writes a row group, into a new part when this one would grow beyond its greatest size."""
        if self._part is not None and self._part.rows and self._part.size_with(pieces) > self._max_part_bytes:
            self._finish_part()
            if self._on_part is not None:
                self._on_part(content, shape)
        self._writer(content, shape).add(pieces)

    def _writer(self, content: PartContent, shape: Shape) -> PartWriter:
        if self._part is None:
            number = self._number(len(self.entries))
            part_id = manifest.part_id(self.dataset_id, number)
            path = os.path.join(self.folder, manifest.part_name(number, part_id))
            self._staged = StagedFile(path, like=self._like)
            self._part = PartWriter(self._staged, part_id, content, shape)
        return self._part

    def _finish_part(self) -> None:
        assert self._part is not None
        assert self._staged is not None
        writer = self._part
        name = os.path.basename(self._staged.path)
        part = writer.finish(self._staged.path + ".idx")
        self.named.append(name)
        sizes = part.data.size, part.index.size
        self._settle(lambda: self._give_names(part, name))
        schema = manifest.schema_digest(writer.content.schema)
        digest = f"{part.content_digest:016x}"
        self.entries.append(PartEntry(name, part.id, part.rows, *sizes, schema=schema, content=digest))
        self._part = self._staged = None

    def finish(self, content: PartContent, shape: Shape) -> None:
        """Completes the last part."""
        if self._part is not None:
            self._finish_part()

    def write_empty(self, content: PartContent, shape: Shape) -> None:
        """Writes a part without rows: a dataset has one at least."""
        self._writer(content, shape)
        self._finish_part()

    def discard(self) -> None:
        """Removes the part that is not complete."""
        if self._staged is not None:
            self._staged.discard()

    def _give_names(self, part: FinishedPart, name: str) -> None:
        try:
            part.sync()
            part.index.publish(durable=False)
            part.data.publish()
        finally:
            part.discard()
        self._deliver(name)
