"""Writes parts of a directory, and publishes them by the manifest at the end."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import SchemaError, UniRecordError
from ..format.layout import Shape
from ..format.schema import Schema
from ..format.values import ColumnBatch
from ..snapshot import manifest
from ..snapshot.data_file import DataFile
from ..snapshot.manifest import Manifest, PartEntry
from ..snapshot.part_list import appended
from ..snapshot.readable import check_readable
from ..snapshot.versions import published_as
from .change import begin_change, check_columns, give_up
from .directory_claim import Unfinished
from .journal import begins_anew
from .part_writer import PartContent, PartSequence, ScalarCodec
from .verified_rows import compressed_as


class DirectoryWriter:
    """The target of a Writer whose path is a directory; its ``change`` says what it saw and how it is published."""

    def __init__(
        self,
        path: str,
        dataset_id: bytes,
        *,
        max_part_bytes: int,
        overwrite: bool,
        append: bool,
        unfinished: Unfinished = "refuse",
    ) -> None:
        self.path = path
        self.id: bytes = dataset_id
        self._append = append
        self.change = begin_change(
            path, dataset_id, overwrite=overwrite, append=append, unfinished=unfinished
        )
        self._seen = self.change.before
        if self.change.dropped and unfinished == "refuse":
            warnings.warn(f"{path} {begins_anew(self.change.dropped)}", stacklevel=2)
        numbers = [int(name.split("-")[1]) for name in self.change.parts if name.startswith("part-")]
        self.first: int = self.change.before.next_part if self.change.before else max(numbers, default=-1) + 1
        like = os.path.join(path, manifest.NAME)
        self._parts = PartSequence(
            self.change.folder,
            dataset_id,
            lambda i: self.first + i,
            max_part_bytes,
            like,
            self.change.deliver,
        )
        self.target_bytes: int | None = self._parts.target_bytes

    @property
    def published(self) -> bool:
        """Whether the new manifest is where readers find it, as the disk says."""
        return self.change.published

    @property
    def schema(self) -> Schema | None:
        """The schema that was there, compressed as its last part is, if that can be read."""
        before = self.change.before
        if before is None or not before.parts:
            return None if before is None else before.schema
        try:
            return compressed_as(self.path, before, before.parts[-1])
        except (OSError, UniRecordError, IndexError):
            return before.schema

    @property
    def scalar_codec(self) -> ScalarCodec:
        """How the last part that was there stores scalar pages, if that can be read."""
        before = self.change.before
        if before is None or not before.parts:
            return None
        try:
            with DataFile(os.path.join(self.path, before.parts[-1].name)) as data:
                return "none" if data.has_plain_scalars(data.head()) else None
        except (OSError, UniRecordError):
            return None

    def keep(self) -> None:
        """Says that a writer has been made that will close or abort it."""
        self.change.keep()

    def add(self, content: PartContent, shape: Shape, pieces: Sequence[ColumnBatch]) -> None:
        """Writes a row group, into a new part when this one would grow beyond its greatest size."""
        self._parts.add(content, shape, pieces)

    def finish(self, content: PartContent, shape: Shape) -> None:
        """Completes the last part and publishes all new parts at once by the manifest."""
        self._parts.finish(content, shape)
        if not self._parts.entries and not self._append:
            self._parts.write_empty(content, shape)
        self._publish(content, self._parts.entries)

    def _publish(self, content: PartContent, entries: Sequence[PartEntry], *, checked: bool = False) -> None:
        if self._append and not entries:
            self.change.release()
            return

        def after(before: Manifest | None) -> Manifest:
            found = self._after(before, content, entries)
            if checked:
                manifest.check(found, os.path.join(self.path, manifest.NAME))
            return found

        self.change.publish(after)
        self.change.release()

    def _after(self, before: Manifest | None, content: PartContent, entries: Sequence[PartEntry]) -> Manifest:
        numbers = [int(entry.name.split("-")[1]) for entry in entries]
        first = self.first if before is None else max(self.first, before.next_part)
        next_part = max([first, *(number + 1 for number in numbers)])  # a number is never used again
        user = None if content.user == b"\xc0" else content.user
        generation = max(self.change.last_kept, before.generation if before else 0) + 1
        after = Manifest(self.id, generation, next_part, content.schema, content.index, user, tuple(entries))
        if self._append and before is not None:
            assert self._seen is not None
            check_columns(self.path, before, self._seen)
            after = replace(
                before, generation=generation, next_part=next_part, created_by=after.created_by,
                parts=appended(before.parts, entries),
            )  # fmt: skip
            return published_as(after, before, "append", self.path)
        return after

    def check_schema(self, content: PartContent) -> None:
        """Refuses to append rows of another schema."""
        if not self._append or self.change.before is None:
            return
        if content.schema != self.change.before.schema:
            raise SchemaError(
                f"{self.path}: {_difference(self.change.before, content)}; appended rows must have the dataset's schema"
            )
        for old, new in zip(self.change.before.schema, content.schema, strict=True):
            if old.packed_annotations != new.packed_annotations:
                raise SchemaError(
                    f"{self.path}: the annotations of column {old.name!r} are {old.wire_annotations} in the dataset "
                    f"and {new.wire_annotations} here; appended rows keep the dataset's: leave annotations out"
                )
        if content.index != self.change.before.index:
            raise SchemaError(
                f"{self.path}: the dataset's index columns are {list(self.change.before.index)}, "
                f"got {list(content.index)}; leave index out"
            )

    def go_on(self, plan: dict[str, Any]) -> None:
        """Takes that conversion over: ``id`` and ``journal`` are its own from then on."""
        self.change.go_on(plan)
        self.id = self._parts.dataset_id = bytes.fromhex(plan["id"])
        self._parts.folder = self.change.folder

    def publish(self, content: PartContent, shape: Shape, entries: Sequence[PartEntry]) -> None:
        """Publishes parts that others have written into ``folder`` and delivered, in this order, at once.

        They are opened as a reader does before, by what is said of them, and so is the manifest: what a journal says
        may be wrong. Errors of reading, and nothing is published then.
        """
        if not entries and not self._append:
            self._parts.write_empty(content, shape)
            entries = self._parts.entries
        check_readable(self.change.place, content.schema, self.change.not_opened(entries))
        self._publish(content, entries, checked=True)

    def abandon(self) -> None:
        """Removes what this and other processes have written for `publish`."""
        self._parts.discard()
        self.change.abandon()

    def give_up(self, error: BaseException) -> None:
        """Leaves what this and other processes have written for `publish` to a later run, where that can go on."""
        self._parts.discard()
        give_up(self.change, error)

    def suspend(self) -> None:
        """Gives the directory up, and leaves the parts that the journal names there for who goes on."""
        self._parts.discard()
        self.change.suspend()

    def abort(self) -> None:
        """Removes what has been written so far; what was published stays, before or by this writer."""
        try:
            self._parts.discard()
        finally:
            self.change.abort(self._parts.named)


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
