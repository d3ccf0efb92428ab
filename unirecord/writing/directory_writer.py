"""Writes parts into a directory that it holds, and publishes them by the manifest at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ..errors import SchemaError, UniRecordError
from ..format.layout import Shape
from ..format.schema import Schema
from ..format.values import ColumnBatch
from ..parts import manifest
from ..parts.data_file import DataFile
from ..parts.manifest import Manifest, PartEntry
from ..storage.staged import StagedFile
from .directory_claim import DirectoryClaim
from .part_writer import PartContent, PartWriter
from .single_writer import check_target_folder

_GROUPS_PER_PART = 4  # at least about so many, so that parts come close to their greatest size
_SMALLEST_TARGET = 4_096


class DirectoryWriter:
    """The target of a Writer whose path is a directory. Holds the directory's lock until close or abort."""

    def __init__(
        self, path: str, dataset_id: bytes, *, max_part_bytes: int, overwrite: bool, append: bool
    ) -> None:
        self.path = path
        self.id = dataset_id
        self.max_part_bytes = max_part_bytes
        self.target_bytes: int | None = max(max_part_bytes // _GROUPS_PER_PART, _SMALLEST_TARGET)
        self._append = append
        self._entries: list[PartEntry] = []
        self._new: list[str] = []  # names of parts that may have been given
        self._part: PartWriter | None = None
        self._staged: StagedFile | None = None
        check_target_folder(path)
        self._claim = DirectoryClaim(path, overwrite=overwrite, append=append)
        numbers = [int(name.split("-")[1]) for name in self._claim.parts]
        self._first = self.before.next_part if self.before else max(numbers, default=-1) + 1

    @property
    def before(self) -> Manifest | None:
        """The manifest that was there."""
        return self._claim.before

    @property
    def published(self) -> bool:
        """Whether the new manifest is where readers find it, as the disk says."""
        return self._claim.published

    @property
    def next_part(self) -> int:
        """The number of the next new part; a number is never used again."""
        return self._first + len(self._entries)

    @property
    def schema(self) -> Schema | None:
        """The schema that was there, compressed as its last part is, if that can be read."""
        before = self._claim.before
        if before is None or not before.parts:
            return None if before is None else before.schema
        try:
            with DataFile(os.path.join(self.path, before.parts[-1].name)) as data:
                found = data.head().schema
        except (OSError, UniRecordError):
            return before.schema
        return found if found == before.schema else before.schema

    def keep(self) -> None:
        """Says that a writer has been made that will close or abort it."""
        self._claim.manifest.keep()

    def add(self, content: PartContent, shape: Shape, pieces: Sequence[ColumnBatch]) -> None:
        """Writes a row group, into a new part when this one would grow beyond its greatest size."""
        if self._part is not None and self._part.rows and self._part.size_with(pieces) > self.max_part_bytes:
            self._finish_part()
        self._writer(content, shape).add(pieces)

    def _writer(self, content: PartContent, shape: Shape) -> PartWriter:
        if self._part is None:
            part_id = manifest.part_id(self.id, self.next_part)
            path = os.path.join(self._claim.folder, manifest.part_name(self.next_part, part_id))
            self._staged = StagedFile(path, like=os.path.join(self.path, manifest.NAME))
            self._part = PartWriter(self._staged, part_id, content, shape)
        return self._part

    def _finish_part(self) -> None:
        assert self._part is not None
        assert self._staged is not None
        writer = self._part
        name = os.path.basename(self._staged.path)
        part = writer.finish(self._staged.path + ".idx")
        try:
            self._new.append(name)
            part.index.publish()
            part.data.publish()
        finally:
            sizes = part.data.size, part.index.size
            part.discard()
        schema = manifest.schema_digest(writer.content.schema)
        digest = f"{part.content_digest:016x}"
        self._entries.append(PartEntry(name, part.id, part.rows, *sizes, schema=schema, content=digest))
        self._part = self._staged = None

    def finish(self, content: PartContent, shape: Shape) -> None:
        """Completes the last part and publishes all new parts by one rename of the manifest."""
        if self._part is None and not self._entries and not self._append:
            self._writer(content, shape)
        if self._part is not None:
            self._finish_part()
        if self._append and not self._entries:
            self._claim.release()
            return
        staged = self._claim.manifest
        staged.append([manifest.encode(self._after(content))])
        staged.sync()
        self._claim.publish()
        named = {entry.name for entry in self._entries}
        if self._append and self.before is not None:
            named |= {entry.name for entry in self.before.parts}
        self._claim.clear(part for part in self._claim.parts if part not in named)
        self._claim.release()

    def _after(self, content: PartContent) -> Manifest:
        before = self.before
        user = None if content.user == b"\xc0" else content.user
        generation = before.generation + 1 if before else 1
        after = Manifest(
            self.id, generation, self.next_part, content.schema, content.index, user, tuple(self._entries)
        )
        if self._append and before is not None:
            after = replace(
                after, id=before.id, metadata=before.metadata, parts=before.parts + after.parts,
                optional=before.optional,
            )  # fmt: skip
        return after

    def check_schema(self, content: PartContent) -> None:
        """Refuses to append rows of another schema."""
        if not self._append or self.before is None:
            return
        if content.schema != self.before.schema:
            raise SchemaError(
                f"{self.path}: {_difference(self.before, content)}; appended rows must have the dataset's schema"
            )
        for old, new in zip(self.before.schema, content.schema, strict=True):
            if old.packed_annotations != new.packed_annotations:
                raise SchemaError(
                    f"{self.path}: the annotations of column {old.name!r} are {old.annotations} in the dataset and "
                    f"{new.annotations} here; appended rows keep the dataset's: leave annotations out"
                )
        if content.index != self.before.index:
            raise SchemaError(
                f"{self.path}: the dataset's index columns are {list(self.before.index)}, "
                f"got {list(content.index)}; leave index out"
            )

    def abort(self) -> None:
        """Removes what has been written so far; what was published stays, before or by this writer."""
        try:
            if self._staged is not None:
                self._staged.discard()
        finally:
            self._claim.abort(self._new)


def _difference(before: Manifest, content: PartContent) -> str:
    old, new = before.schema, content.schema
    for column in old:
        if column.name not in new:
            return f"the schema lacks column {column.name!r} ({column})"
        if new[column.name] != column:
            return f"column {column.name!r} is {column} in the dataset and {new[column.name]} here"
    for column in new:
        if column.name not in old:
            return f"the dataset has no column {column.name!r}"
    return f"the columns are {list(old.names)} in the dataset and {list(new.names)} here, in another order"
