"""A conversion: its plan, its tasks, what an earlier run has left of it, and its publication."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError, ExistsError, SchemaError, StaleError, UniRecordError
from ..format.metadata import CREATED_BY, check_room, pack_user
from ..format.schema import Schema
from ..format.values import ColumnBatch, ColumnData, RecordEncoder
from ..sizes import many
from ..snapshot.manifest import PartEntry, schema_digest
from ..snapshot.part_set import ColumnResult, PartSet, resolve
from ..storage.schemes import location_of, path_on_disk
from ..storage.staged import linked, temporary_folder
from ..storage.storage_options import StorageOptions, current_storage, use_storage
from ..writing.directory_writer import DirectoryWriter
from ..writing.journal import begins_anew, entry_from_json
from ..writing.part_writer import FinishedPart, PartContent, PartSequence, ScalarCodec, check_scalar_codec
from ..writing.row_groups import row_weights, shape_without_rows, slice_batch
from ..writing.single_writer import SinglePartWriter
from ..writing.target import PART_BYTES, BatchWriter, check_id, check_indexable, check_path
from .sources.source import LeftOut, Source, left_out_from_json, rows_of
from .task import (
    Job,
    RowsWritten,
    TaskCheckpoint,
    TellOfTask,
    background_sync,
    batches_ahead,
    batches_of_tasks,
    batches_of_units,
    divide,
    encoded_batches,
    of_next_task,
    run_task,
    task_checkpoint,
    write_rows,
)
from .workers import run_in_workers

__all__ = [
    "Conversion",
    "Engine",
    "SAMPLED_ROWS",
    "Sample",
    "Standing",
    "asked_of",
    "changed_file",
    "check_count",
    "check_samples",
    "compare",
    "difference",
    "some",
    "stamps_of",
    "take_sample",
    "write_part",
    "write_sample",
]


# Whether the files of a source are still those that a stopped conversion has read: by size and time of
# change.


_MOST_STAMPS: Final = 4096  # of any number of files: about 150 KB in the journal


def stamps_of(files: Iterable[str]) -> dict[str, str]:
    """What tells files from changed ones, for `changed_file`: each of at most 4096 stamps is of some of them."""
    found: dict[str, Any] = {}
    for path in sorted(map(os.path.abspath, files)):
        try:
            status = os.stat(path)
        except OSError:  # reading it says what is wrong
            continue
        name = os.fsencode(path)
        stamp = found.setdefault(_place_of(path), hashlib.blake2b(digest_size=12))
        stamp.update(b"%d %d %d %b\n" % (len(name), status.st_size, status.st_mtime_ns, name))
    return {place: stamp.hexdigest() for place, stamp in found.items()}


def changed_file(source: Source, before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """What to say of a file that is another than before, None where all are the same.

    Of files that share a stamp, the one that was changed last is named.
    """
    places = {place for place in {**before, **now} if before.get(place) != now.get(place)}
    if not places:
        return None
    newest, name = -1, None
    for path in map(os.path.abspath, source.files()):
        try:
            changed = os.stat(path).st_mtime_ns if _place_of(path) in places else -1
        except OSError:
            continue
        if changed > newest:
            newest, name = changed, path
    if name is None:
        return f"a file of {source.path} has gone"
    return f"{name} has changed (its size, or when it was written)"


def _place_of(path: str) -> str:
    return f"{zlib.crc32(os.fsencode(path)) % _MOST_STAMPS:x}"


# A few rows of a source: how many bytes a row takes, and how long it takes to write.


_SAMPLED_UNITS: Final = 3


@dataclass(frozen=True)
class Sample:
    """The first batch of a few units: rows, bytes of their values, and how long it took."""

    rows: int
    bytes: int
    seconds: float

    @property
    def row_bytes(self) -> float:
        """Bytes that a row takes, about; 0 without rows."""
        return self.bytes / self.rows if self.rows else 0.0


def take_sample(
    source: Source, schema: Schema, write: Callable[[ColumnBatch], None] = lambda encoded: None
) -> Sample:
    """Read and encode the sample of a source, the same each time but for the seconds; ``write`` is given each batch."""
    started = time.monotonic()
    rows, size = 0, 0
    for encoded in _encoded(source, schema):
        rows += encoded.rows
        size += int(row_weights(schema, encoded).sum())
        write(encoded)
    return Sample(rows, size, time.monotonic() - started)


def write_sample(source: Source, schema: Schema, index: Sequence[str]) -> Sample:
    """The same, and write it as a part to a temporary folder, which is removed."""
    started = time.monotonic()
    with temporary_folder() as folder:
        parts = PartSequence(folder, bytes(16), lambda i: i, PART_BYTES, "")
        try:
            writer = BatchWriter(parts, PartContent(schema, tuple(index), b"\xc0"))
            sample = take_sample(source, schema, partial(writer.add, owned=False))
            writer.finish()
        except BaseException:
            parts.discard()
            raise
        return replace(sample, seconds=time.monotonic() - started)


def _encoded(source: Source, schema: Schema) -> Iterator[ColumnBatch]:
    units = () if source.read_once else source.units
    places = sorted(
        {i * (len(units) - 1) // max(_SAMPLED_UNITS - 1, 1) for i in range(_SAMPLED_UNITS)} if units else ()
    )
    encoder = RecordEncoder(schema, "error")
    for place in places:
        batch = next((one for one in source.batches_of(units[place]) if one.rows), None)
        if batch is None:
            continue
        try:
            encoded = encoder.encode_batch({name: batch.columns[name] for name in schema.names}, 0)
        except UniRecordError:  # said where the rows are written
            continue
        yield encoded


# Whether the conversion that an earlier run has begun is the one that is asked for now.


def asked_of(source: Source, options: Mapping[str, str]) -> dict[str, str]:
    """What a conversion does, by names that messages use: the source, its content, and the options that were given."""
    units = "\n".join(repr((unit.name, unit.place, unit.rows)) for unit in source.units)
    return {
        "the source": f"{source.kind} {os.path.abspath(source.path)}",
        "its content": hashlib.sha256(units.encode("utf-8", "surrogateescape")).hexdigest(),
        **source.asked,
        **options,
    }


def difference(source: Source, plan: dict[str, Any], before: dict[str, Any], *, same_id: bool) -> str | None:
    """What the plan of the earlier run, ``before``, does otherwise than ``plan``; None where both do the same.

    ``same_id``: an id was asked for, which the earlier run must have as well.
    """
    now, then = plan["what"], before.get("what", {})
    differ = [name for name in {**now, **then} if now.get(name) != then.get(name)]
    if same_id and before.get("id") != plan["id"]:
        differ.append("id")
    changed = changed_file(source, before.get("files", {}), plan["files"])
    if changed is not None:
        return (
            f"{changed} since the run that was stopped"
            f"{'; there differ ' + ', '.join(differ) if differ else ''}"
        )
    if differ:
        return (
            f"what is there of an earlier run was another conversion: {', '.join(differ)} "
            f"{'differs' if len(differ) == 1 else 'differ'}"
        )
    return None


# Reads some written rows back and compares them with the source, before anything is published.


_SAMPLES: Final = 3
SAMPLED_ROWS: Final = 100
_COMPARED_BYTES: Final = 1 << 20
_One = TypeVar("_One")


def check_count(
    source: Source, rows: int, stored: int, limit: int | None, left_out: Iterable[LeftOut]
) -> None:
    """StaleError where not as many rows are ``stored`` as were written, or as the source has without those left out."""
    expected = rows
    if limit is None and source.rows is not None:
        expected = source.rows - sum(one.rows for one in left_out)
    if stored != rows or rows != expected:
        raise StaleError(
            f"{source.path}: {many(expected, 'row', 'were')} to be written, and {stored:,} were; nothing was published"
        )


def check_samples(
    source: Source, schema: Schema, written: Sequence[tuple[str, int, int, tuple[int, int]]]
) -> None:
    """Compare the first rows of the first, a middle and the last of what was written; CorruptionError if they differ.

    ``written``: the path of a part, where in it there are how many rows, and of which units [start, stop) these are.
    StaleError where the source has none of them any more.
    """
    for one in () if source.read_once else some(written):
        _check_first(source, schema, *one)


def _check_first(
    source: Source, schema: Schema, path: str, first: int, rows: int, units: tuple[int, int]
) -> None:
    """Compare the first rows of some units; they are in memory no longer than that."""
    read = batches_of_units(source, *units)
    batches = (batch for _, _, batch in encoded_batches(source, schema, read))
    try:
        expected = next((batch for batch in batches if batch is not None and batch.rows), None)
    except SchemaError as error:
        raise StaleError(f"{source.path} has changed since it was written: {error}") from None
    if expected is None:
        raise StaleError(f"{source.units[units[0]].name} has no rows any more; nothing was published")
    compared = slice_batch(expected, 0, min(SAMPLED_ROWS, expected.rows, rows))
    compare(path, first, compared, schema, source.path)


def some(given: Sequence[_One]) -> list[_One]:
    """The first, a middle and the last one, of those that there are."""
    last = len(given) - 1
    return [given[i] for i in sorted({i * last // (_SAMPLES - 1) for i in range(_SAMPLES)})] if given else []


def compare(path: str, first: int, expected: ColumnBatch, schema: Schema, source: str) -> None:
    """Compare the rows of a part from ``first`` on with these; CorruptionError when they differ."""
    with closing(PartSet(resolve(path), verify="always")) as parts:
        found = parts.read(np.arange(first, first + expected.rows, dtype=np.int64), range(len(schema)))
    for column, data, result in zip(schema, expected.columns, found, strict=True):
        if not _same(data, result):
            raise CorruptionError(
                f"{path}: column {column.name!r} of the {many(expected.rows, 'row')} from {first:,} "
                f"on is not what {source} "
                "has: the source has changed since, or memory or disk are faulty; nothing was published",
                path=path,
                column=column.name,
            )


def _same(data: ColumnData, result: ColumnResult) -> bool:
    if data.valid is not None and result.valid is not None and not np.array_equal(data.valid, result.valid):
        return False
    if result.offsets is None:
        return _same_bytes(data.values, result.data)
    ends = result.offsets.tolist()
    return all(
        len(cell) == stop - start and _same_bytes(cell, result.data[start:stop])
        for cell, (start, stop) in zip(data.values, pairwise(ends), strict=True)
    )


def _same_bytes(values: Any, found: npt.NDArray[Any]) -> bool:
    """Whether both are of the same bytes; nothing is made of more than a piece of them."""
    given = values if isinstance(values, np.ndarray) else np.frombuffer(values, np.uint8)
    a, b = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (given, found))
    return len(a) == len(b) and all(
        a[start : start + _COMPARED_BYTES].tobytes() == b[start : start + _COMPARED_BYTES].tobytes()
        for start in range(0, len(a), _COMPARED_BYTES)
    )


# A source to a directory of parts: divided into tasks, run by any number of processes, resumed where it was
# left.


# Runs tasks of a job elsewhere. It tells, by the number of the task, what `run_task` tells, and of each task whose
# parts are in the job's folder.
Engine = Callable[[Job, Sequence[int], TellOfTask, Callable[[int, dict[str, Any]], None]], None]


@dataclass
class Standing:
    """How far a conversion is.

    Attributes:
        rows, all_rows: how many are written, of how many; None where that is not known.
        rows_read, all_rows_read: how many of the source have been read for these, of how many; None where that is not
            known, or where a limit ends it before.
        bytes: of the files so far; those of the index come when a part is finished.
        tasks, all_tasks: how many are finished, of how many. Each makes one part, or several where it grows too large.
        resumed, resumed_rows, resumed_bytes, resumed_read: how many of these tasks, rows, bytes and rows read an
            earlier run has done; of unfinished tasks, too, where parts of them are finished.
        parts: names of the parts that are being written.
        dropped: how many finished parts of an earlier run were given up, since ``resume`` was not asked for.
        published: whether an earlier run had published all of it, so that nothing was left to do.
    """

    rows: int = 0
    all_rows: int | None = None
    bytes: int = 0
    tasks: int = 0
    all_tasks: int = 0
    resumed: int = 0
    resumed_rows: int = 0
    resumed_bytes: int = 0
    parts: list[str] = field(default_factory=list)
    dropped: int = 0
    published: bool = False
    rows_read: int = 0
    all_rows_read: int | None = None
    resumed_read: int = 0

    def said_of_dropped(self) -> str | None:
        """What a user is to be told of parts that were given up."""
        return begins_anew(self.dropped) if self.dropped else None


@dataclass
class Conversion:
    """How to write a source to the directory ``path``; `run` does it.

    Attributes:
        source: what is read; with ``workers`` it is pickled.
        path: the directory.
        schema: the columns to write, of those that the source has.
        index: columns to be looked up by value; None: those of the dataset that is appended to.
        user: the metadata as msgpack.
        max_part_bytes: greatest size of a part.
        overwrite, append: what to do with a dataset that is there.
        id: 16 bytes that make the output reproducible.
        workers: processes; 1 is this one.
        engine: what runs the tasks instead of processes of this machine.
        resume: go on with what an earlier run has left, if it was the same conversion.
        limit: at most so many rows, which one process then writes in order.
        options: what else decides which rows there are, to tell another conversion from this one.
        scalar_codec: as for `Writer`.
        storage: how the store is reached that ``path`` is in, if it is.
    """

    source: Source
    path: str
    schema: Schema
    index: Sequence[str] | None = ()
    user: bytes = b"\xc0"
    max_part_bytes: int = 20_000_000_000
    overwrite: bool = False
    append: bool = False
    id: bytes | None = None
    workers: int = 1
    engine: Engine | None = None
    resume: bool = False
    limit: int | None = None
    options: dict[str, str] = field(default_factory=dict)
    scalar_codec: ScalarCodec = None
    storage: StorageOptions | None = None

    def run(
        self,
        progress: Callable[[Standing], None] | None = None,
        before_publishing: Callable[[], None] | None = None,
    ) -> tuple[int, list[LeftOut]]:
        """Write and publish; the number of rows, and what was left out beyond what the source already knew.

        ``before_publishing`` is called when all is written and compared; when it raises, nothing is published.
        Raises what `Writer` does, StaleError when ``resume`` finds another conversion, and `Interrupted`.
        """
        if self.source.read_once and (self.workers > 1 or self.resume or self.engine is not None):
            raise ValueError(
                f"{self.source.path} is read once, by one process: workers=, engine= and resume= need what can be read "
                "again, such as a dataset with len() and [i]"
            )
        if self.engine is not None:
            path_on_disk(self.path, "what an engine's tasks write")
        with use_storage(self.storage or current_storage()):
            return self._run(progress, before_publishing)

    def _run(
        self, progress: Callable[[Standing], None] | None, before_publishing: Callable[[], None] | None
    ) -> tuple[int, list[LeftOut]]:
        target = DirectoryWriter(
            location_of(self.path).absolute(self.path),
            check_id(self.id, self.path),
            max_part_bytes=self.max_part_bytes,
            overwrite=self.overwrite,
            append=self.append,
            unfinished="resume" if self.resume else "drop",
        )
        target.keep()
        begun = False
        try:
            begun = not self.resume or target.change.journal.plan() is None
            run = _Run(self, target, progress, before_publishing)
            run.take_up()
            begun = True
            return run.run()
        except BaseException as error:
            if begun:
                target.give_up(error)
            else:  # what an earlier run has left is not this one's
                target.suspend()
            raise


class _Run:
    """One run of a conversion into a target that is held."""

    def __init__(
        self,
        spec: Conversion,
        target: DirectoryWriter,
        progress: Callable[[Standing], None] | None,
        before_publishing: Callable[[], None] | None,
    ) -> None:
        self._spec, self._target, self._progress = spec, target, progress
        self._before_publishing = before_publishing
        change = target.change
        index, user, before = spec.index, spec.user, change.before
        if spec.append and before is not None:
            index = before.index if index is None else index
            user = before.metadata or b"\xc0"
        check_indexable(spec.schema, index or ())
        check_room(spec.schema, tuple(index or ()), user)
        check_scalar_codec(spec.scalar_codec)
        content = PartContent(spec.schema, tuple(index or ()), user, scalar_codec=spec.scalar_codec)
        target.check_schema(content)
        row_bytes = take_sample(spec.source, spec.schema).row_bytes * spec.source.share
        tasks = divide(spec.source.units, row_bytes, spec.max_part_bytes, computed=spec.source.computes)
        self.job = Job(
            spec.source, content, tuple(tasks), change.folder, target.id, target.first, spec.max_part_bytes,
            os.path.join(target.path, "manifest.json"), change.place, change.deliver, change.journal,
        )  # fmt: skip
        self._records: dict[int, dict[str, Any]] = {}
        self._at: dict[int, str] = {}  # the part that each task is at
        # Of tasks begun by an earlier run: rows, bytes and rows read.
        self._counted: dict[int, tuple[int, int, int]] = {}
        self._published: dict[str, Any] | None = None  # what an earlier run has published
        known = spec.source.rows
        self._standing = Standing(all_tasks=len(tasks), all_rows=known, dropped=change.dropped)
        if spec.limit is None:
            self._standing.all_rows_read = rows_of(spec.source.units)
        else:
            self._standing.all_rows = spec.limit if known is None else min(spec.limit, known)

    def run(self) -> tuple[int, list[LeftOut]]:
        """Writes what is not done yet, and publishes."""
        if self._published is not None:
            return self._end(self._published)
        waiting = [task for task in range(len(self.job.tasks)) if task not in self._records]
        if self._spec.limit is not None:
            self._run_in_order(self._spec.limit)
        elif self._spec.engine is not None:
            self._spec.engine(self.job, waiting, self._tell, self._done)
        elif self._spec.workers > 1 and len(waiting) > 1:
            run_in_workers(
                self.job,
                waiting,
                self._spec.workers,
                self._target.change.lock_number(),
                self._tell,
                self._done,
            )
        else:
            with background_sync() as run_sync, closing(batches_of_tasks(self.job, waiting)) as ahead:
                for task in waiting:
                    tell = partial(self._tell, task)
                    self._done(task, run_task(self.job, task, tell, run_sync=run_sync, ahead=ahead))
        return self._publish()

    def _run_in_order(self, limit: int) -> None:
        left = limit
        for task in range(len(self.job.tasks)):
            if left > 0 and task not in self._records:
                self._done(task, run_task(self.job, task, partial(self._tell, task), left))
            left -= self._records[task]["rows"] if task in self._records else 0

    def take_up(self) -> None:
        """Begins, or goes on with the tasks whose parts are there and whole."""
        target = self._target
        plan: dict[str, Any] = {"id": target.id.hex(), "first": target.first, "what": self._what()}
        plan["files"] = stamps_of(self._spec.source.files())
        change = target.change
        before = change.earlier(plan["what"]) if self._spec.resume else None
        if before is None:
            self._begin(plan)
            return
        differs = difference(self._spec.source, plan, before, same_id=self._spec.id is not None)
        if "published" in before:
            self._find_published(plan, before, differs)
            return
        if differs is not None:
            raise StaleError(f"{target.path}: {differs}; without resume it begins anew")
        target.go_on(before)
        self.job = replace(
            self.job, dataset_id=target.id, first_part=before["first"], records=change.journal, folder=change.folder,
            place=change.place,
        )  # fmt: skip
        self._take_over_finished()

    def _begin(self, plan: dict[str, Any]) -> None:
        self._target.change.begin(plan)
        self._standing.dropped = self._target.change.dropped
        self._show()

    def _find_published(self, plan: dict[str, Any], before: dict[str, Any], differs: str | None) -> None:
        """An earlier run died when it had published: this conversion, or another one, which is over."""
        if differs is not None and not (self._spec.append or self._spec.overwrite):
            raise ExistsError(
                f"{self._target.path}: a dataset is there already, of another conversion than this one; pass "
                "overwrite=True to replace it, or use unirecord.append() to add to it"
            )
        if differs is not None:
            self._begin(plan)
            return
        self._target.go_on(before)
        self._published, standing = before["published"], self._standing
        standing.published, standing.tasks, standing.resumed = True, standing.all_tasks, standing.all_tasks
        standing.rows = standing.resumed_rows = before["published"]["rows"]
        self._show()

    def _end(self, published: dict[str, Any]) -> tuple[int, list[LeftOut]]:
        if self._before_publishing is not None:
            self._before_publishing()
        self._spec.source.done()
        self._target.change.release()
        return published["rows"], left_out_from_json(published["left_out"])

    def _take_over_finished(self) -> None:
        journal = self._target.change.journal
        tasks, task_checkpoints = journal.tasks(), journal.task_checkpoints()
        records = [*tasks.values(), *task_checkpoints.values()]
        entries = [entry_from_json(part) for record in records for part in record["parts"]]
        whole = self._target.change.whole(entries)
        for task, record in tasks.items():
            if self._is_good(task, record, whole):
                self._records[task] = record
                self._take_over(task, record)
            else:
                journal.forget(task)
        for task, record in task_checkpoints.items():
            begun = task_checkpoint(self.job, task, record) if self._is_good(task, record, whole) else None
            if begun is not None:
                read = self.job.rows_to_read(task, begun.unit)
                self._counted[task] = self._count(begun.rows, record, read)  # it will tell of them again
            else:
                journal.forget_checkpoint(task)
        self._show()

    def _is_good(self, task: int, record: dict[str, Any], whole: set[str]) -> bool:
        schema = schema_digest(self.job.content.schema)
        parts = record["parts"]
        return task < len(self.job.tasks) and all(
            part["name"] in whole and part["schema"] == schema for part in parts
        )

    def _what(self) -> dict[str, str]:
        spec, job = self._spec, self.job
        return {
            **asked_of(spec.source, spec.options),
            "the schema": repr(job.content.schema.columns),
            "index": repr(job.content.index),
            "the metadata": hashlib.sha256(job.content.user).hexdigest(),
            "the parts": repr((job.tasks, job.max_part_bytes)),
            "limit": repr(spec.limit),
            "the codec of the scalars": repr(spec.scalar_codec),
            "the version of unirecord": CREATED_BY,
        }

    def _tell(self, task: int, rows: int, size: int, read: int, part: str) -> None:
        counted, counted_size, counted_read = self._counted.pop(task, (0, 0, 0))
        self._standing.rows += rows - counted
        self._standing.bytes += size - counted_size
        self._standing.rows_read += read - counted_read
        self._at[task] = part
        self._show()

    def _done(self, task: int, record: dict[str, Any]) -> None:
        self._records[task] = record
        self._standing.tasks += 1
        self._at.pop(task, None)
        self._show()

    def _take_over(self, task: int, record: dict[str, Any]) -> None:
        """Counts a task that an earlier run has done."""
        self._standing.tasks += 1
        self._standing.resumed += 1
        self._count(record["rows"], record, self.job.rows_to_read(task))

    def _count(self, rows: int, record: dict[str, Any], read: int) -> tuple[int, int, int]:
        standing, size = self._standing, sum(part["bytes"] + part["index_bytes"] for part in record["parts"])
        standing.rows += rows
        standing.bytes += size
        standing.rows_read += read
        standing.resumed_rows, standing.resumed_bytes = standing.rows, standing.bytes
        standing.resumed_read = standing.rows_read
        return rows, size, read

    def _show(self) -> None:
        if self._progress is not None:
            self._standing.parts = sorted(filter(None, self._at.values()))
            self._progress(self._standing)

    def _publish(self) -> tuple[int, list[LeftOut]]:
        records = [self._records[task] for task in sorted(self._records)]
        entries = [entry_from_json(part) for record in records for part in record["parts"]]
        left_out = [one for record in records for one in left_out_from_json(record["left_out"])]
        rows = sum(record["rows"] for record in records)
        self._check(rows, entries, left_out)
        if self._before_publishing is not None:
            self._before_publishing()
        self._spec.source.done()
        self._target.publish(self.job.content, shape_without_rows(self.job.content.schema), entries)
        return rows, left_out

    def _check(self, rows: int, entries: Sequence[PartEntry], left_out: Sequence[LeftOut]) -> None:
        """Compares what was written with the source: the number of rows, and the content of some."""
        job = self.job
        check_count(job.source, rows, sum(entry.rows for entry in entries), self._spec.limit, left_out)
        parts = [
            (task, record["parts"][0]) for task, record in sorted(self._records.items()) if record["parts"]
        ]
        check_samples(
            job.source,
            job.content.schema,
            [
                (os.path.join(job.place, part["name"]), 0, part["rows"], job.tasks[task])
                for task, part in parts
                if part["rows"]
            ],
        )


# A source to one part, by one process; what was written is compared with the source before it is published.


def write_part(
    source: Source,
    path: str,
    schema: Schema,
    *,
    index: Sequence[str] = (),
    metadata: object = None,
    overwrite: bool = False,
    id: bytes | None = None,
    limit: int | None = None,
    scalar_codec: ScalarCodec = None,
    progress: Callable[[Standing], None] | None = None,
) -> tuple[int, list[LeftOut]]:
    """Write and publish, at most ``limit`` rows; returns the rows, and what was left out beyond what was known.

    ``progress`` is told the task done after the last row, before the index is made. Raises what `Writer` does,
    StaleError and CorruptionError when what was written is not what the source has; nothing is published then.
    """
    check_scalar_codec(scalar_codec)
    content = PartContent(schema, tuple(index), pack_user(metadata), scalar_codec=scalar_codec)
    check_indexable(schema, content.index)
    check_room(schema, content.index, content.user)
    place = location_of(path).absolute(check_path(path))
    target = SinglePartWriter(place, check_id(id), overwrite=overwrite)
    begun = TaskCheckpoint(0)
    done = RowsWritten(begun)
    standing = Standing(all_tasks=1, parts=[os.path.basename(place)])
    standing.all_rows = min((n for n in (limit, source.rows) if n is not None), default=None)
    standing.all_rows_read = rows_of(source.units) if limit is None else None

    def tell(rows: int, read: int) -> None:
        standing.rows, standing.rows_read = standing.rows + rows, standing.rows_read + read
        standing.bytes = target.written
        if progress is not None:
            progress(standing)

    def check(part: FinishedPart) -> None:
        check_count(source, done.rows, part.rows, limit, done.left_out)
        files = {"part.urec": part.data.temporary, "part.urec.idx": part.index.temporary}
        with linked(files) as folder:  # the two have no names in common yet
            new = os.path.join(folder, "part.urec")
            written = [(new, first, rows, (unit, unit + 1)) for first, rows, unit in done.starts()]
            try:
                check_samples(source, schema, written)
            except CorruptionError as error:
                raise CorruptionError(str(error).replace(new, place), path=place) from None
        source.done()

    try:
        target.keep()
        writer = BatchWriter(target, content)
        units = [] if limit == 0 else [(0, len(source.units))]
        with closing(batches_ahead(source, units)) as ahead:
            write_rows(source, of_next_task(ahead), writer, begun, done, limit, tell)
        standing.tasks, standing.parts = 1, []
        tell(0, 0)
        target.before_publishing = check
        writer.finish()
    finally:
        target.abort()
    return done.rows, done.left_out
