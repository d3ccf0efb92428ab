"""Writes parts into a directory: claims it, clears what dead writers left, publishes by the manifest at the end."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ..errors import ExistsError, MissingError, SchemaError, UniRecordError
from ..format.layout import Shape
from ..format.values import ColumnBatch
from ..parts import manifest
from ..parts.manifest import Manifest, PartEntry
from ..storage import local as store
from ..storage.local import LockedFolder, StagedFile
from .part_writer import PartContent, PartWriter
from .single_writer import check_target_folder

_TEMPORARY = re.compile(r"\.(part-[0-9]{6,12}-[0-9a-f]{8}\.urec(\.idx)?|manifest\.json)\.tmp")
_PART_FILE = re.compile(r"(part-[0-9]{6,12}-[0-9a-f]{8}\.urec)(\.idx)?")
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
        self.before: Manifest | None = None
        self._append = append
        self._entries: list[PartEntry] = []
        self._part: PartWriter | None = None
        self._staged: StagedFile | None = None
        self._published = False
        check_target_folder(path)
        self._lock: LockedFolder | None = None
        while self._lock is None:
            self._made = _make(path, append)
            with suppress(FileNotFoundError):  # its maker has given up, and has removed it at this moment
                self._lock = LockedFolder(path)
        try:
            self._claim(overwrite)
            store.probe(os.path.join(path, ".manifest.json.tmp"))
        except BaseException:
            self.abort()
            raise

    def _claim(self, overwrite: bool) -> None:
        names = os.listdir(self.path)
        if manifest.NAME in names:
            if not overwrite and not self._append:
                raise ExistsError(
                    f"{self.path}: a dataset is there already; pass overwrite=True to replace it, "
                    f"or use unirecord.append() to add to it"
                )
            self.before = self._read_manifest(damaged_is_fine=overwrite)
        elif self._append:
            raise MissingError(
                f"{self.path}: there is no {manifest.NAME}, so no dataset to append to; use Writer to make one"
            )
        ours = [name for name in names if _TEMPORARY.fullmatch(name) or _PART_FILE.fullmatch(name)]
        others = sorted(set(names) - set(ours) - {manifest.NAME})
        if others and manifest.NAME not in names:
            raise ExistsError(
                f"{self.path}: the directory holds other files, such as {others[0]!r}; choose an empty or new one"
            )
        self._numbers = [int(name.split("-")[1]) for name in ours if name.startswith("part-")]
        if self.before is not None or manifest.NAME not in names:
            self._clear(ours)

    def _read_manifest(self, *, damaged_is_fine: bool) -> Manifest | None:
        path = os.path.join(self.path, manifest.NAME)
        try:
            return manifest.read(path)
        except UniRecordError:
            if not damaged_is_fine:
                raise
            return None

    def _clear(self, names: Sequence[str]) -> None:
        """Removes temporary files, and parts that were never published or no longer are."""
        listed = {entry.name for entry in self.before.parts} if self.before else set()
        for name in names:
            part = _PART_FILE.fullmatch(name)
            if part is None or part[1] not in listed:
                store.clear(os.path.join(self.path, name))

    @property
    def next_part(self) -> int:
        if self.before is not None:
            return self.before.next_part + len(self._entries)
        return max(self._numbers, default=-1) + 1 + len(self._entries)

    def add(self, content: PartContent, shape: Shape, pieces: Sequence[ColumnBatch]) -> None:
        """Writes a row group, into a new part when this one would grow beyond its greatest size."""
        if self._part is not None and self._part.rows and self._part.size_with(pieces) > self.max_part_bytes:
            self._finish_part()
        self._writer(content, shape).add(pieces)

    def _writer(self, content: PartContent, shape: Shape) -> PartWriter:
        if self._part is None:
            part_id = manifest.part_id(self.id, self.next_part)
            path = os.path.join(self.path, manifest.part_name(self.next_part, part_id))
            self._staged = StagedFile(path)
            self._part = PartWriter(self._staged, part_id, content, shape)
        return self._part

    def _finish_part(self) -> None:
        assert self._part is not None
        assert self._staged is not None
        writer = self._part
        name = os.path.basename(self._staged.path)
        part = writer.finish(self._staged.path + ".idx")
        try:
            part.index.publish()
            part.data.publish()
        except BaseException:
            self._clear_part(name)
            raise
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
        before = self.before
        if self._append and not self._entries:
            self._release()
            return
        user = None if content.user == b"\xc0" else content.user
        generation = before.generation + 1 if before else 1
        after = Manifest(
            self.id, generation, self.next_part, content.schema, content.index, user, tuple(self._entries)
        )
        if self._append:
            assert before is not None
            after = replace(
                after, id=before.id, metadata=before.metadata, parts=before.parts + after.parts,
                optional=before.optional,
            )  # fmt: skip
        path = os.path.join(self.path, manifest.NAME)
        staged = StagedFile(path)
        try:
            staged.append([manifest.encode(after)])
            staged.sync()
            staged.publish()
        finally:
            self._published = staged.published
            staged.discard()
        self._remove_old(after)
        self._release()

    def _remove_old(self, after: Manifest) -> None:
        """Removes the parts that the manifest just published no longer names; the next writer would do it as well."""
        listed = {entry.name for entry in after.parts}
        for name in os.listdir(self.path):
            part = _PART_FILE.fullmatch(name)
            if part is not None and part[1] not in listed:
                store.clear(os.path.join(self.path, name))

    def check_schema(self, content: PartContent) -> None:
        """Refuses to append rows of another schema."""
        if not self._append or self.before is None:
            return
        if content.schema != self.before.schema:
            raise SchemaError(
                f"{self.path}: {_difference(self.before, content)}; appended rows must have the dataset's schema"
            )
        if content.index != self.before.index:
            raise SchemaError(
                f"{self.path}: the dataset's index columns are {list(self.before.index)}, "
                f"got {list(content.index)}; leave index out"
            )

    def abort(self) -> None:
        """Removes what has been written so far; what was published before stays."""
        if self._lock is None:
            return
        if self._staged is not None:
            self._staged.discard()
        if not self._published:
            for entry in self._entries:
                self._clear_part(entry.name)
            if self._made:
                store.remove_directory(self.path)
        self._release()

    def _clear_part(self, name: str) -> None:
        for file in (name, name + ".idx"):
            store.clear(os.path.join(self.path, file))

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def forget(self) -> None:
        """In a forked child: closes, and touches nothing."""
        if self._staged is not None:
            self._staged.close()
        self._release()


def _make(path: str, append: bool) -> bool:
    if append:
        if not os.path.isdir(path):
            raise MissingError(f"{path}: there is no such dataset; use Writer to make it")
        return False
    if os.path.lexists(path) and not os.path.isdir(path):
        raise ExistsError(
            f"{path}: a file is in the way; a path that does not end in .urec is a directory of parts"
        )
    return store.make_directory(path)


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
