"""Writes one part: head, row groups and end page of the data file, and then its index."""

from __future__ import annotations

from collections.abc import Sequence
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
from ..storage.staged import StagedFile
from .index_file import build_index
from .row_groups import group_size


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
