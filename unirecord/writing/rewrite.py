"""Rows that lie there written anew: in parts of other sizes, in another order, joined with those of other datasets."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..core import Locked, usable_cores, xxh3_128
from ..errors import ExistsError, SchemaError, StaleError, UniRecordError
from ..format.layout import Shape
from ..format.metadata import CREATED_BY, pack_user, say_the_same
from ..format.page import StoredRows
from ..format.schema import Schema
from ..progress import Progress, Tracker
from ..query.ordered import rows_in_order
from ..sizes import many, parse_size
from ..snapshot import manifest
from ..snapshot.data_file import DataFile, DataHead
from ..snapshot.dataset_path import deletion_of, no_directory
from ..snapshot.deletions import deletion_name, encode_deletion, rows_deleted
from ..snapshot.layouts import ColumnFile, Layout, PartColumns
from ..snapshot.manifest import DeletedRows, Manifest, PartEntry, pruned, state_of_entry
from ..snapshot.part_set import PartRef, PartSet, Snapshot, Verify, resolve
from ..snapshot.snapshot import join_snapshots
from ..snapshot.versions import begun_by, files_of, publication_of, published_as
from ..storage import local as store
from ..storage.schemes import location_of, path_of_dataset, read_file
from ..storage.staged import staged_file
from ..storage.storage_options import current_storage, storage_of, use_storage
from .change import Change, OvertakenError, PartTasks, begin_change, changing, opened
from .journal import OWN_PARTS
from .manifest_changes import with_same_blocks
from .part_writer import (
    Compressor,
    Dictionaries,
    PartContent,
    PartSequence,
    ScalarCodec,
    padded_anew,
    rows_as_batch,
    stored_as,
    values_of_part,
)
from .row_groups import TARGET_BYTES, StoredGrouper, shape_without_rows, stored_shape
from .target import PART_BYTES, BatchWriter, check_path, storage_to_write_to
from .verified_rows import compressed_as, open_verified, verified_rows

__all__ = [
    "Merged",
    "NewPart",
    "Rewritten",
    "Rewrite",
    "Span",
    "bare_deletions",
    "compact",
    "cut_evenly",
    "deleted_rows",
    "joined_small",
    "merge",
    "rewrite_parts",
    "reshard",
    "sort",
    "without_bare",
]


# Parts of other parts' rows: which rows go into which new part, and how they get there, checked on the way.


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


class Rewrite:
    """Writes the new parts of a directory; those that are complete are ``made``, in their order.

    The rows are those of the data files: their digests are checked, and then new ones computed of the same memory.
    Cells stay compressed as they are where the parts that come together have the same dictionaries.
    """

    def __init__(
        self,
        folder: str,
        parts: PartSequence,
        snapshot: Snapshot,
        before: Manifest,
        advance: Callable[[int], None] = lambda _: None,
        dropped: Callable[[PartEntry], Numbers] = lambda _: np.empty(0, np.int64),
        bare: Collection[str] = (),
    ) -> None:
        """``parts`` takes the new ones; the rows are those of the ``snapshot``, of the version ``before``.

        ``dropped``: the rows of a part in whose place blank ones are written.

        ``bare``: names of parts whose dictionaries stay behind as well.
        """
        self._folder, self._parts, self._before, self._advance = folder, parts, before, advance
        self._dropped, self._without_dictionaries = dropped, bare
        self._snapshot = snapshot
        self._source: _Source | None = None

    @property
    def made(self) -> list[PartEntry]:
        """The parts that are complete."""
        return self._parts.entries

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
                f"{self._folder}: {many(entry.rows, 'row', 'were')} written where {new.rows} belong, so "
                f"nothing was published"
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
        best: tuple[int, Schema, Dictionaries, ScalarCodec] | None = None
        for span in new.spans:
            with DataFile(os.path.join(self._folder, span.entry.name)) as data:
                head = open_verified(data, span.entry)
                rows = span.stop - span.first
                found.append((rows, span.entry.bytes * rows // span.entry.rows, head.header.shape))
                if best is not None and rows <= best[0]:
                    continue
                scalars: ScalarCodec = "none" if data.has_plain_scalars(head) else None
                if span.entry.columns is None:
                    best = rows, head.schema, _dictionaries(data, head), scalars
                else:  # its columns are compressed anew
                    best = rows, compressed_as(self._folder, self._before, span.entry), (), scalars
        assert best is not None
        _, stored, dictionaries, scalar_codec = best
        names = self._without_dictionaries
        if any(span.entry.name in names or len(self._dropped(span.entry)) for span in new.spans):
            dictionaries = ()  # they were trained on rows that go
        schema = Schema(replace(column, codec=stored[column.name].codec) for column in self._before.schema)
        user = self._before.metadata or b"\xc0"
        content = PartContent(schema, self._before.index, user, dictionaries, scalar_codec)
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


# Lays the rows of a directory out anew, in fewer parts or more: one publication, the same rows in their
# order.


_MOST_THREADS: Final = 8  # each with some row groups in memory

NewLayout = Callable[[Sequence[PartEntry]], "list[NewPart]"]


@dataclass(frozen=True)
class Rewritten:
    """What `unirecord.compact`, `unirecord.reshard` or `unirecord.sort` has done, or would do.

    Attributes:
        version: the version with the new parts; the one that was there where nothing was to be done.
        parts_before, parts_after: how many parts there were, and are.
        written: how many of them are new; the others stay as they are.
        rows, bytes: of the data files that were copied from.
        resumed: how many of the new parts a run that was stopped had finished.
    """

    version: int
    parts_before: int
    parts_after: int
    written: int
    rows: int
    bytes: int
    resumed: int = 0


def compact(
    path: str | os.PathLike[str],
    *,
    part_bytes: int | str | None = None,
    rows_per_part: int | None = None,
    drop_deleted: bool = False,
    join_columns: bool = False,
    resume: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Rewritten:
    """Puts small parts of the directory at ``path`` together, as the next version (docs/growing.md).

    Rows keep their numbers and their order, so that jobs go on where they stand. Each row is checked against its digest
    on the way. What was there stays, for the versions before, until `unirecord.gc`.

    Args:
        path: a directory of parts, also in an object store.
        part_bytes: neighbours are put together up to this size: a number, or text like ``"2GiB"``; 20 GB by default.
        rows_per_part: in place of it: parts of so many rows each, the last one of what is left.
        drop_deleted: leave out the bytes of rows that have been deleted: blank rows keep their numbers, deleted. Parts
            that have such rows are written anew whatever their size, their cells without compression dictionaries.
        join_columns: parts whose columns lie in column parts, or have other names than in their files, or which have
            patches, are written anew whatever their size, with all columns in one file; without it those that are
            written anyway are.
        resume: go on with what a run that was stopped has left: new parts of the same rows that it had finished are not
            written again. Without it they are given up.
        dry_run: change nothing, and say what would be done.
        progress: called with (bytes done, bytes in all).
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        BusyError: with ``resume``, another run that lays parts out anew is at work.
        CorruptionError: a part is damaged: the error names it and the row, and nothing is published.
        MissingError: there is no directory of parts.
        StaleError: another dataset has taken its place meanwhile, or others have changed what was written time and
            again; nothing is published.
        UniRecordError: the directory is in storage that is only read.
        ValueError: a wrong argument, or ``storage_options`` for a disk.
    """
    if part_bytes is not None and rows_per_part is not None:
        raise ValueError("give part_bytes or rows_per_part, not both")
    if rows_per_part is not None:
        step = _count("rows_per_part", rows_per_part)
        return rewrite_parts(
            path,
            lambda parts: cut_evenly(parts, _every(parts, step)),
            "compact",
            dry_run,
            progress,
            drop_deleted,
            join_columns=join_columns,
            resume=resume,
            storage_options=storage_options,
        )
    size = PART_BYTES if part_bytes is None else parse_size(part_bytes)
    if size < 1:
        raise ValueError(f"part_bytes is at least 1, got {part_bytes!r}")
    return rewrite_parts(
        path,
        lambda parts: joined_small(parts, size),
        "compact",
        dry_run,
        progress,
        drop_deleted,
        join_columns=join_columns,
        resume=resume,
        storage_options=storage_options,
    )


def reshard(
    path: str | os.PathLike[str],
    parts: int,
    *,
    drop_deleted: bool = False,
    resume: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Rewritten:
    """Lays the rows of the directory at ``path`` out in so many parts, of equal numbers of rows to within one.

    All else is as for `compact`.

    Args:
        path: as for `compact`.
        parts: how many; no more than there are rows.
        drop_deleted, resume, dry_run, progress, storage_options: as for `compact`.
    """
    wanted = _count("parts", parts)

    def layout(entries: Sequence[PartEntry]) -> list[NewPart]:
        rows = sum(entry.rows for entry in entries)
        if wanted > max(rows, 1):
            raise ValueError(f"{many(wanted, 'part')} of {many(rows, 'row')}: a part has one row at least")
        return cut_evenly(entries, [rows * (i + 1) // wanted for i in range(wanted)])

    return rewrite_parts(
        path,
        layout,
        "reshard",
        dry_run,
        progress,
        drop_deleted,
        resume=resume,
        storage_options=storage_options,
    )


def _count(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} is {value!r}; expected a number from 1")
    return value


def _every(parts: Sequence[PartEntry], step: int) -> list[int]:
    rows = sum(entry.rows for entry in parts)
    return [min(first + step, rows) for first in range(0, rows, step)]


def rewrite_parts(
    path: str | os.PathLike[str],
    layout: NewLayout,
    command: str,
    dry_run: bool,
    progress: Progress | None,
    drop: bool = False,
    without_dictionaries: Callable[[Manifest], Collection[str]] = lambda _: (),
    join_columns: bool = False,
    resume: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Rewritten:
    """Publishes the rows of the directory at ``path`` in the parts that ``layout`` makes of those that are there.

    With ``drop``, the bytes of deleted rows stay behind, and so do the dictionaries of the parts that are named of what
    is there; with ``join_columns``, all parts with a layout are written anew; with ``resume``, those that a stopped run
    has finished of the same rows are not.
    """
    folder = path_of_dataset(os.fspath(path))
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(folder, ", and only of those can parts be put together")

        def laid_out(change: Change, parts: PartSet, begin: Begin, again: bool) -> Rewritten:
            return _laid_out(
                folder,
                change,
                parts,
                begin,
                again,
                layout,
                command,
                dry_run,
                progress,
                drop,
                without_dictionaries,
                join_columns,
                resume,
            )

        return _rewritten(folder, laid_out, resume=resume)


Begin = Callable[[bool], PartTasks]
Work = Callable[[Change, PartSet, Begin, bool], "Rewritten"]
_MOST_TIMES: Final = 8  # that it is done: what is finished is taken over, so that less is left each time


def _rewritten(folder: str, work: Work, *, resume: bool, verify: Verify = "first") -> Rewritten:
    """What ``work`` does with the rows that are there; done again, of what they have become, where others were faster.

    It is given what begins its tasks, journalled or not, and whether it is done again. It raises OvertakenError where
    it does not fit what is there any more; its tasks stay then, with the parts that are finished.
    """
    while True:
        own = secrets.token_bytes(16)
        with suppress(OvertakenError), changing(folder, own, resume=resume) as change:
            return _until_it_fits(folder, change, own, work, resume=resume, verify=verify)


def _until_it_fits(
    folder: str,
    change: Change,
    own: bytes,
    work: Work,
    *,
    resume: bool,
    verify: Verify,
) -> Rewritten:
    begun: list[PartTasks] = []

    def begin(journalled: bool) -> PartTasks:
        if not begun:
            begun.append(_begun(change, own, resume=resume, journalled=journalled))
        return begun[0]

    left = _MOST_TIMES
    while True:
        try:
            if begun:
                change.renew()
            with opened(folder, change, verify=verify) as parts:
                return work(change, parts, begin, bool(begun))
        except BaseException as error:
            left -= 1
            overtaken = isinstance(error, OvertakenError)
            if change.published or not begun:
                raise
            if overtaken and left:
                continue
            kept = begun[0].give_up(error)
            if overtaken:
                raise StaleError(
                    f"{folder}: other writers have changed what was written {_MOST_TIMES} times over, each time before "
                    f"it could be published; {kept or 'nothing was published: run the same when they rest'}"
                ) from None
            raise


def _say_again(folder: str, now: Manifest, what: str) -> None:
    """A line on stderr, where others have published what was written, and ``what`` is done for it."""
    command = publication_of(now, os.path.join(folder, manifest.NAME)).command
    if sys.stderr is not None:
        print(
            f"unirecord: {folder}: version {now.generation} ({command}) has come meanwhile: {what}",
            file=sys.stderr,
        )


def _laid_out(
    folder: str,
    change: Change,
    parts: PartSet,
    begin: Begin,
    again: bool,
    layout: NewLayout,
    command: str,
    dry_run: bool,
    progress: Progress | None,
    drop: bool,
    without_dictionaries: Callable[[Manifest], Collection[str]],
    join_columns: bool,
    resume: bool,
) -> Rewritten:
    before = change.before
    assert before is not None
    plan, without = layout(before.parts), without_dictionaries(before)
    bare = bare_deletions(before)
    layered = [entry.name for entry in before.parts if entry.columns is not None and join_columns]
    staying = [_stays(new, bare, drop, [*without, *layered]) for new in plan]
    moving = [new for new, entry in zip(plan, staying, strict=True) if entry is None]
    spans = [span for new in moving for span in new.spans]
    rows = sum(new.rows for new in moving)
    size = sum(span.entry.bytes * (span.stop - span.first) // span.entry.rows for span in spans)
    counts = (len(before.parts), len(plan), len(moving), rows, size)
    if not moving:
        counts = (len(before.parts), len(before.parts), 0, 0, 0)
    if dry_run:
        return Rewritten(before.generation + bool(moving), *counts)
    # What is over before a part is finished has nothing to go on with; what drops rows begins anew what had them.
    journalled = resume or drop or len(moving) > 1
    tasks = begin(journalled)
    of = _Digests(before, drop=drop, without=without)
    tasks.drop_others(map(of.part, moving))
    if not moving:
        tasks.end()
        return Rewritten(before.generation, *counts)
    for new in moving:
        tasks.number(of.part(new))
        tasks.check_rows(of.part(new), new.rows)
    dropped = (lambda entry: deleted_rows(folder, entry)) if drop else (lambda _: np.empty(0, np.int64))
    tracker, stops, telling = Tracker(size, progress), threading.Event(), Locked()
    made: list[str] = []
    after = before

    def advance(done: int) -> None:
        if stops.is_set():
            raise _StoppedError
        with telling.lock:
            tracker.advance(done)

    def write(chain: Sequence[NewPart]) -> None:
        left = [(new, of.part(new)) for new in chain if of.part(new) not in tasks.entries]
        sequence = new_parts(folder, change, tasks.id, lambda i: tasks.part_number(left[i][1]), 1 << 62)
        work = Rewrite(folder, sequence, parts.snapshot, before, advance, dropped, without)
        try:
            for new, text in left:
                tasks.finish(text, work.write(new))
        finally:
            work.close()
            made.extend(sequence.named)

    def laid_out(now: Manifest | None) -> Manifest:
        nonlocal after
        assert now is not None
        here = {entry.name: entry for entry in seen_parts(now, before)}
        entries, blank = [], []
        for new, stays in zip(plan, staying, strict=True):
            entry = stays or tasks.entries[of.part(new)]
            old = [here[span.entry.name] for span in new.spans]
            if (
                drop
                and not stays
                and any(_has_back(folder, span.entry, now) for span, now in zip(new.spans, old, strict=True))
            ):
                raise OvertakenError
            gone = old[0] if stays else _with_deleted(folder, change, now, new, old, entry, made)
            entries.append(gone)
            if old == [span.entry for span in new.spans] and _is_bare(new, bare, drop):
                blank.append(gone)
        rest = now.parts[len(before.parts) :]
        known = bare_deletions(now)
        blank += [entry for entry in rest if entry.deleted is not None and entry.deleted.digest in known]
        next_part = max(now.next_part, tasks.next_part)
        after = published_as(replace(now, parts=(*entries, *rest), next_part=next_part), now, command, folder)
        after = _marked(with_same_blocks(after, now, folder), blank)
        return after

    finished = [new for new in moving if of.part(new) in tasks.entries]
    if again:
        left = len(moving) - len(finished)
        all_of_it = rows - sum(new.rows for new in finished)
        _say_again(
            folder,
            before,
            f"{left:,} of {many(len(moving), 'part')} are written again, of {many(all_of_it, 'row')}",
        )
    advance(
        sum(
            span.entry.bytes * (span.stop - span.first) // span.entry.rows
            for new in finished
            for span in new.spans
        )
    )
    try:
        tasks.check_resumed()
        _on_threads(write, _chains(moving), stops)
        change.publish(laid_out)
    except BaseException:
        if not change.published:
            change.clear([name for name in made if not tasks.keeps(name)])
        raise
    finally:
        if change.published:
            # A publication that was tried again has written deletions for the version that came between.
            named = files_of(after)
            change.clear([name for name in made if name not in named])
    return Rewritten(after.generation, *counts, sum(of.part(new) in tasks.resumed for new in moving))


def _begun(change: Change, own: bytes, *, resume: bool, journalled: bool) -> PartTasks:
    """The tasks of a rewrite; OvertakenError where a stopped run had been published, which was not known."""
    what = {"the source": OWN_PARTS}
    tasks = PartTasks(change, own, what, resume=resume and journalled, journalled=journalled)
    if tasks.goes_on and change.published_before():
        change.abandon()
        raise OvertakenError
    return tasks


class _Digests:
    """Texts that tell new parts from others, by all that goes into them: as long as one is the same, so is the part."""

    def __init__(self, before: Manifest, *, drop: bool, without: Collection[str]) -> None:
        self._before, self._drop, self._without = before, drop, without
        said = repr((CREATED_BY, before.schema.columns, before.index)).encode()
        self._said = xxh3_128(said + (before.metadata or b""))
        self._known: dict[NewPart, str] = {}

    def part(self, new: NewPart) -> str:
        """Of a new part."""
        if new not in self._known:
            self._known[new] = self._digest([self._span(span) for span in new.spans])
        return self._known[new]

    def all_rows(self, how: object) -> str:
        """Of all parts together, written in a way that ``how`` tells."""
        return self._digest([[self._span(Span(entry, 0, entry.rows)) for entry in self._before.parts], how])

    def _span(self, span: Span) -> tuple[object, ...]:
        entry = span.entry
        deleted = None if entry.deleted is None or not self._drop else entry.deleted.digest
        state = state_of_entry(self._before, entry)
        return state, entry.content, span.first, span.stop, deleted, entry.name in self._without

    def _digest(self, what: object) -> str:
        return xxh3_128(self._said + repr(what).encode()).hex()


class _StoppedError(Exception):
    """Another thread has failed, or Ctrl-C has come."""


def _chains(moving: Sequence[NewPart]) -> list[list[NewPart]]:
    """New parts in their order, those together of which one begins within the part that the one before ends in."""
    chains: list[list[NewPart]] = []
    for new in moving:
        if not chains or new.spans[0].first == 0:
            chains.append([])
        chains[-1].append(new)
    return chains


def _on_threads(
    write: Callable[[Sequence[NewPart]], None], chains: Sequence[Sequence[NewPart]], stops: threading.Event
) -> None:
    """Has ``write`` do all chains; what it raises ends all."""
    if len(chains) == 1:
        write(chains[0])
        return
    with ThreadPoolExecutor(min(len(chains), usable_cores(), _MOST_THREADS), "unirecord-rewrite") as pool:
        try:
            each = [pool.submit(copy_context().run, write, chain) for chain in chains]
            for failed in wait(each, return_when=FIRST_EXCEPTION).done:
                failed.result()
        finally:
            stops.set()
            pool.shutdown(cancel_futures=True)


def new_parts(
    folder: str, change: Change, own: bytes, number: Callable[[int], int], part_bytes: int, **options: Any
) -> PartSequence:
    """What takes the rows of new parts, of at most so many bytes each, under names that nobody else has.

    ``number``: of the i-th part; ``options`` are those of a `PartSequence`.
    """
    like = os.path.join(folder, manifest.NAME)
    return PartSequence(change.folder, own, number, part_bytes, like, change.deliver, **options)


def seen_parts(now: Manifest, seen: Manifest) -> Sequence[PartEntry]:
    """Those parts that were ``seen``, as they are now, be it without some more rows: others may follow them.

    OvertakenError where others have changed columns or values, or have laid the parts out anew, meanwhile.
    """
    parts = now.parts[: len(seen.parts)]
    same = (now.schema, now.index, now.layouts, now.metadata) == (
        seen.schema,
        seen.index,
        seen.layouts,
        seen.metadata,
    )
    if not same or [part._replace(deleted=None) for part in parts] != [
        part._replace(deleted=None) for part in seen.parts
    ]:
        raise OvertakenError
    return parts


def deleted_rows(folder: str, entry: PartEntry) -> NDArray[np.int64]:
    return rows_deleted(deletion_of(folder, entry), entry.id, entry.rows)


def _has_back(folder: str, was: PartEntry, now: PartEntry) -> bool:
    """Whether rows of a part that were deleted are there again, restored."""
    if now.deleted == was.deleted:
        return False
    return bool(len(np.setdiff1d(deleted_rows(folder, was), deleted_rows(folder, now))))


def bare_deletions(found: Manifest) -> set[str]:
    """The digests of the deletion files whose rows have left no bytes in their part."""
    return {digest for digest in found.rows_dropped or () if type(digest) is str}


def _is_bare(new: NewPart, bare: set[str], drop: bool) -> bool:
    return drop or all(span.entry.deleted is None or span.entry.deleted.digest in bare for span in new.spans)


def _stays(new: NewPart, bare: set[str], drop: bool, never: Collection[str] = ()) -> PartEntry | None:
    """The part that it is already, and may stay."""
    if new.kept is not None and new.kept.name in never:
        return None
    return new.kept if not drop or _is_bare(new, bare, False) else None


def _marked(after: Manifest, bare: Sequence[PartEntry]) -> Manifest:
    digests = [entry.deleted.digest for entry in bare if entry.deleted is not None]
    return replace(after, rows_dropped=digests or None)


def without_bare(after: Manifest) -> Manifest:
    """The manifest of a dataset of which no row has been deleted."""
    return _marked(after, [])


def _with_deleted(
    folder: str,
    change: Change,
    now: Manifest,
    new: NewPart,
    parts: Sequence[PartEntry],
    entry: PartEntry,
    made: list[str],
) -> PartEntry:
    """The new part, of which the same rows have been deleted as are now of the ``parts`` that its spans are of."""
    found, start = [], 0
    for span, old in zip(new.spans, parts, strict=True):
        rows = deleted_rows(folder, old)
        found.append(rows[(rows >= span.first) & (rows < span.stop)] - span.first + start)
        start += span.stop - span.first
    gone = np.concatenate(found)
    if not len(gone):
        return entry
    content = encode_deletion(entry.id, entry.rows, gone)
    name = change.put_file(entry.name, now.generation + 1, content, made)
    return entry._replace(deleted=DeletedRows(name, len(gone), len(content), xxh3_128(content).hex()))


# Brings the rows of a directory into the order of a column: one publication, other numbers for the rows.


_AT_ONCE: Final = 8 << 20  # bytes that are read for one batch
_MOST_ROWS: Final = 1 << 16

Rows = NDArray[np.int64]


def sort(
    path: str | os.PathLike[str],
    by: str,
    *,
    descending: bool = False,
    cluster: bool = False,
    part_bytes: int | str | None = None,
    resume: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Rewritten:
    """Brings the rows of the directory at ``path`` into the order of a column, as the next version (docs/growing.md).

    Rows get other numbers, and those that have been deleted stay behind: a state that was taken before is refused, and
    goes on with the version that it is of. Each row is checked against its digest on the way. What was there stays, for
    the versions before, until `unirecord.gc`. Needs 8 bytes of memory a row, and for a moment 16 more and the values of
    the column; cells are compressed anew.

    Args:
        path: a directory of parts, also in an object store.
        by: a scalar column, or decimals of any number of digits: NaN after numbers, null last; equal ones in their
            order.
        descending: the greatest first; NaN and null are last all the same.
        cluster: rows with the same value side by side, and the values in the order in which they first come.
        part_bytes: greatest size of a part: a number, or text like ``"2GiB"``; 20 GB by default.
        resume: go on with what a run that was stopped has left, where the rows and the order are the same.
        dry_run: change nothing, and say what would be done.
        progress: called with (bytes done, bytes in all).
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Returns:
        What was done; nothing is ``written`` where the rows lie so already and none is deleted. With ``dry_run``,
        ``parts_after`` and ``written`` are what their sizes now let expect.

    Raises:
        BusyError: with ``resume``, another run that lays parts out anew is at work.
        CorruptionError: a part is damaged: the error names it and the row, and nothing is published.
        SchemaError: there is no such column, or it has no order.
        MissingError: there is no directory of parts.
        StaleError: as for `compact`.
        UniRecordError: the directory is in storage that is only read.
        ValueError: a wrong argument, or ``storage_options`` for a disk.
    """
    folder, most = (
        path_of_dataset(os.fspath(path)),
        PART_BYTES if part_bytes is None else parse_size(part_bytes),
    )
    if most < 1:
        raise ValueError(f"part_bytes is at least 1, got {part_bytes!r}")
    if descending and cluster:
        raise ValueError("descending and cluster exclude each other: clusters come as their first rows do")
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(folder, ", and only those have versions")

        def in_order(change: Change, parts: PartSet, begin: Begin, again: bool) -> Rewritten:
            order = _order(parts, by, descending=descending, cluster=cluster)
            how = by, descending, cluster, most
            return _sorted(folder, change, parts, begin, again, order, how, resume, dry_run, progress)

        return _rewritten(folder, in_order, resume=resume, verify="always")


def _sorted(
    folder: str,
    change: Change,
    parts: PartSet,
    begin: Begin,
    again: bool,
    order: Rows,
    how: tuple[str, bool, bool, int],
    resume: bool,
    dry_run: bool,
    progress: Progress | None,
) -> Rewritten:
    """``how``: by which column, descending or in clusters, into parts of how many bytes."""
    before, part_bytes = change.before, how[-1]
    assert before is not None
    count, size = len(before.parts), sum(entry.bytes for entry in before.parts)
    is_sorted = len(order) == parts.rows and bool((np.diff(order) == 1).all())
    as_it_is = Rewritten(before.generation, count, count, 0, 0, 0)
    if dry_run:
        made = max(-(-size // part_bytes), 1)
        done = Rewritten(before.generation + 1, count, made, made, len(order), size)
        return as_it_is if is_sorted else done
    journalled = resume or size > part_bytes
    tasks = begin(journalled)
    digest = _Digests(before, drop=True, without=()).all_rows(how)

    def part(number: int) -> str:
        return f"{digest} {number}"

    finished: list[str] = []
    while not is_sorted and part(len(finished)) in tasks.entries:
        finished.append(part(len(finished)))
    tasks.drop_others(finished)
    if is_sorted:
        tasks.end()
        return as_it_is

    def finish(*_: object) -> None:
        tasks.finish(part(len(sequence.entries) - 1), sequence.entries[-1])

    entries = [tasks.entries[one] for one in finished]
    if again:
        left = len(order) - sum(entry.rows for entry in entries)
        _say_again(folder, before, f"{many(left, 'row')} are sorted again")
    sequence: PartSequence = new_parts(
        folder,
        change,
        tasks.id,
        lambda i: tasks.part_number(part(i)),
        part_bytes,
        finished=entries,
        on_part=finish,
    )
    after = before

    def in_order(now: Manifest | None) -> Manifest:
        nonlocal after
        assert now is not None
        if list(seen_parts(now, before)) != list(before.parts):
            raise OvertakenError
        parts = (*sequence.entries, *now.parts[count:])
        next_part = max(now.next_part, tasks.next_part)
        after = without_bare(
            published_as(replace(now, parts=parts, next_part=next_part), now, "sort", folder)
        )
        return after

    try:
        tasks.check_resumed()
        _write_in_order(folder, before, parts, sequence, order, Tracker(size, progress).advance)
        change.publish(in_order)
    except BaseException:
        sequence.discard()
        if not change.published:
            change.clear([name for name in sequence.named if not tasks.keeps(name)])
        raise
    made = len(sequence.entries)
    return Rewritten(after.generation, count, made, made, len(order), size, len(tasks.resumed))


def _order(parts: PartSet, by: str, *, descending: bool, cluster: bool) -> Rows:
    live = parts.live
    among = None if live is None else live.range(0, live.ones)
    return rows_in_order(parts, by, descending=descending, cluster=cluster, among=among)


def _write_in_order(
    folder: str,
    before: Manifest,
    rows: PartSet,
    sequence: PartSequence,
    order: Rows,
    advance: Callable[[int], None],
) -> None:
    """Writes rows of opened parts into new ones, as the part with the most rows stores them."""
    sizes = [entry.rows for entry in before.parts]
    largest = int(np.argmax(sizes))
    scalars: ScalarCodec = None
    for number, entry in enumerate(before.parts):
        with DataFile(os.path.join(folder, entry.name)) as data:
            head = open_verified(data, entry)
            if number == largest:
                scalars = "none" if data.has_plain_scalars(head) else None
    stored = rows.part(largest).stored_schema
    schema = Schema(replace(column, codec=stored[column.name].codec) for column in before.schema)
    content = PartContent(schema, before.index, before.metadata or b"\xc0", scalar_codec=scalars)
    writer = BatchWriter(sequence, content)
    row_bytes = sum(entry.bytes for entry in before.parts) / max(len(order), 1)
    step = min(max(int(_AT_ONCE / max(rows.mean_row_bytes(), 1.0)), 1), _MOST_ROWS)
    # Behind the parts that an earlier run has finished.
    written = sum(entry.rows for entry in sequence.entries)
    advance(int(row_bytes * written))
    for start in range(written, len(order), step):
        some = order[start : start + step]
        writer.add(rows_as_batch(rows, some, range(len(rows.schema))), owned=True)
        advance(int(row_bytes * len(some)))
    writer.finish()
    if not sequence.entries:
        sequence.write_empty(writer.content, shape_without_rows(content.schema))


# Several datasets as one: their parts under one manifest, by link where the file system can, so that
# nothing moves.


Path = str | os.PathLike[str]
_COPIED_BYTES: Final = 8 << 20  # at once
_RANDOM_NUMBERS: Final = 10**11  # of 10^12 that parts may have


@dataclass(frozen=True)
class Merged:
    """What `unirecord.merge` has made, or would.

    Attributes:
        rows: of the dataset, those that have been deleted too.
        parts: how many it has.
        linked: how many of them are links, which take no room; the others were copied.
        bytes: of their data files and indexes.
    """

    rows: int
    parts: int
    linked: int
    bytes: int


def merge(
    paths: Sequence[Path],
    dst: Path,
    *,
    link: bool = True,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Merged:
    """Makes one dataset at ``dst`` of several, whose rows follow each other in the order of ``paths``.

    Parts stay as they are, byte for byte, and what is damaged in them stays found out. They are linked where the file
    system can, so that nothing is copied, and later changes of either dataset do not touch the other; from and to an
    object store they are copied through this machine, one part after the other. Rows are numbered anew: those of the
    first as they were, then those of the second. Rows that have been deleted stay so.

    Args:
        paths: directories of parts and single parts; ``data@7`` is a version.
        dst: where the new directory is to be.
        link: False: copy all files.
        dry_run: change nothing, and say what would be done.
        progress: called with (bytes done, bytes in all).
        storage_options: how object stores are reached, as for `UniRecordDataset`.

    Raises:
        SchemaError: schemas, annotations, index columns or metadata differ; the error names the first difference.
        ExistsError: there is something at ``dst``, or the same part is in two of the datasets.
        MissingError, FormatError, CorruptionError: of what is at ``paths``.
        BusyError: a live writer is at work at ``dst``.
        StaleError: in an object store, another writer has published a dataset at ``dst`` meanwhile.
        UniRecordError: ``dst`` is in storage that is only read.
        ValueError: ``paths`` is empty.
    """
    given = [os.fspath(path) for path in paths]
    if isinstance(paths, (str, bytes)) or not given:
        raise ValueError("paths is a list of one dataset or more")
    folder = check_path(dst)
    with use_storage(storage_of(storage_options) or current_storage()):
        return _merged(given, folder, link=link, dry_run=dry_run, progress=progress)


def _merged(
    given: Sequence[str], folder: str, *, link: bool, dry_run: bool, progress: Progress | None
) -> Merged:
    if folder.endswith(".urec"):
        raise ValueError(f"{folder}: what is merged is a directory of parts; choose a name without .urec")
    location = location_of(folder)
    if location.is_directory(folder) and manifest.NAME in location.names(folder):
        raise ExistsError(
            f"{folder}: a dataset is there already; merge replaces nothing: choose another name"
        )
    with ExitStack() as stack:
        found: list[tuple[str, Snapshot]] = []
        refs: list[PartRef] = []
        layouts: list[Layout] = []
        for path in given:  # open, so that `gc` leaves them
            parts = PartSet(resolve(path), knows_deletions=True)
            stack.callback(parts.close)
            found.append((path, parts.snapshot))
            refs += [_known(parts, number, len(layouts)) for number in range(len(parts))]
            layouts += parts.snapshot.layouts
        _check_alike(found)
        _check_different(refs)
        size = sum(file.bytes + file.index_bytes for ref in refs for file in (ref, *ref.files))
        counts = sum(ref.rows for ref in refs), max(len(refs), 1)
        link = link and all(location_of(path).in_file_system for path in (*given, folder))
        if dry_run:
            return Merged(*counts, len(refs) if link else 0, size)
        linked = _publish(folder, found[0][1], refs, layouts, link, Tracker(size, progress).advance)
        return Merged(*counts, linked, size)


def _known(parts: PartSet, number: int, layouts: int) -> PartRef:
    """A part with its content digest, which only a manifest names, and its layout behind so many others."""
    ref = parts.snapshot.parts[number]
    ref = replace(ref, layout=ref.layout + layouts) if ref.layout else ref
    return ref if ref.content is not None else replace(ref, content=parts.part(number).content_digest)


def _check_alike(found: Sequence[tuple[str, Snapshot]]) -> None:
    first_path, first = found[0]
    for path, other in found[1:]:
        why = _difference(first, other)
        if why is not None:
            raise SchemaError(
                f"{path} and {first_path}: {why}; all parts of a dataset have the same: write one of them anew with "
                f"what the other has (unirecord write){_or_opened(first, other)}"
            )


def _or_opened(first: Snapshot, other: Snapshot) -> str:
    """The other way where there is one: what may differ in datasets that are opened together."""
    try:
        join_snapshots([first, other])
    except SchemaError:
        return ""
    return ", or open both as a list of paths"


def _difference(first: Snapshot, other: Snapshot) -> str | None:
    for one, two in zip(first.schema, other.schema, strict=False):
        if one != two:
            return f"one has the column {two.name!r} ({two}), the other {one.name!r} ({one})"
        if one.packed_annotations != two.packed_annotations:
            return f"the annotations of column {one.name!r} are {two.wire_annotations} and {one.wire_annotations}"
    if len(first.schema) != len(other.schema):
        return f"one has {many(len(other.schema), 'column')}, the other {len(first.schema)}"
    if first.index != other.index:
        return f"one has the index columns {list(other.index)}, the other {list(first.index)}"
    if not say_the_same(first.metadata, other.metadata):
        return "their metadata differ"
    return None


def _check_different(refs: Sequence[PartRef]) -> None:
    seen: dict[bytes, str] = {}
    for ref in refs:
        assert ref.id is not None
        if ref.id in seen:
            raise ExistsError(
                f"{ref.path} and {seen[ref.id]} are the same part, which a dataset has once: leave one of the two out"
            )
        seen[ref.id] = ref.path


def _publish(
    folder: str,
    first: Snapshot,
    refs: Sequence[PartRef],
    layouts: Sequence[Layout],
    link: bool,
    advance: Callable[[int], None],
) -> int:
    new_id = secrets.token_bytes(16)
    claim = begin_change(folder, new_id, overwrite=False, append=False, unfinished="refuse")
    # Parts are named by their numbers and ids, and two merges may have the same parts: on a disk each has the directory
    # to itself, in a store each takes numbers that no other one has.
    first_part = 0 if location_of(folder).in_file_system else secrets.randbelow(_RANDOM_NUMBERS)
    made: list[str] = []
    try:
        claim.keep()
        entries, linked, next_part = [], 0, first_part + len(refs)
        for number, ref in enumerate(refs, first_part):
            named = [(ref, _name_of(ref, number))]
            for file in ref.files:
                named.append((file, _name_of(file, next_part)))
                next_part += 1
            by_link = []
            for file, name in named:
                made.append(name)
                by_link += [
                    _given_again(old, os.path.join(claim.folder, new), link=link)
                    for old, new in _files(file, name)
                ]
                claim.deliver(name)
                if file.deletion is not None:
                    claim.put_file(name, 1, read_file(file.deletion.path, file.deletion.bytes), made)
            linked += all(by_link)
            entries.append(_entry(named, first.schema, layouts))
            advance(sum(file.bytes + file.index_bytes for file, _ in named))
        store.sync_folder(claim.folder)
        user = None if first.metadata is None else pack_user(first.metadata)
        listing = Manifest(
            new_id, claim.last_kept + 1, next_part, first.schema, first.index, user, tuple(entries),
            layouts=tuple(layouts),
        )  # fmt: skip
        claim.publish(lambda _: pruned(begun_by(listing, "merge")))
    except BaseException:
        claim.abort(made)
        raise
    claim.release()
    return linked


def _files(ref: PartRef, name: str) -> Iterator[tuple[str, str]]:
    """The files of a part, and what they are called in the new directory."""
    index = ref.path + ".idx"
    yield ref.path, name
    yield (index if location_of(index).is_taken(index) else index + ".new"), name + ".idx"


def _given_again(there: str, name: str, *, link: bool) -> bool:
    """Has ``name`` be the file ``there`` too: True as a link, False as a copy; durable once the folder is synced."""
    if link and store.give_second_name(there, name):
        return True
    with staged_file(name, there, durable=False) as staged, location_of(there).open(there) as file:
        while piece := file.read_at(staged.size, _COPIED_BYTES):
            staged.append([piece])
    return False


def _name_of(ref: PartRef, number: int) -> str:
    assert ref.id is not None
    return manifest.part_name(number, ref.id)


def _entry(named: Sequence[tuple[PartRef, str]], schema: Schema, layouts: Sequence[Layout]) -> PartEntry:
    """A part with its column parts, by the names that they have now."""
    [(ref, name), *more] = named
    assert ref.id is not None
    assert ref.content is not None
    columns = None
    if ref.layout:
        schema = layouts[ref.layout - 1].files[0]
        files = [
            ColumnFile(new, file.id or b"", file.bytes, file.index_bytes, (file.content or b"").hex())
            for file, new in more
        ]
        columns = PartColumns(ref.layout - 1, tuple(files), ref.patch)
    gone = ref.deletion
    deleted = (
        None if gone is None else DeletedRows(deletion_name(name, 1), gone.rows, gone.bytes, gone.digest)
    )
    return PartEntry(
        name, ref.id, ref.rows, ref.bytes, ref.index_bytes, manifest.schema_digest(schema), ref.content.hex(),
        deleted, columns,
    )  # fmt: skip
