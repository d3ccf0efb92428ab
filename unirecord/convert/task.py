"""One task of a conversion: some units of a source to finished parts, the same bytes whoever runs it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ..core import LeavablePool, result_of
from ..errors import FormatError, SchemaError, StaleError
from ..format.layout import Shape, check_shape
from ..format.schema import Schema
from ..format.values import ColumnBatch, RecordEncoder
from ..sizes import many
from ..snapshot.manifest import PartEntry
from ..writing.journal import Journal, entry_from_json, entry_to_json
from ..writing.part_writer import Delivery, PartContent, PartSequence, RunSync, at_once, stays
from ..writing.row_groups import slice_batch
from ..writing.target import BatchWriter
from .sources.source import LeftOut, RawBatch, Source, Unit, left_out_from_json, left_out_to_json, taken_ahead

__all__ = [
    "batches_ahead",
    "of_next_task",
    "TaskCheckpoint",
    "Job",
    "RowsWritten",
    "TellOfTask",
    "TellProgress",
    "background_sync",
    "batches_of_tasks",
    "batches_of_units",
    "task_checkpoint",
    "divide",
    "encoded_batch",
    "encoded_batches",
    "finish_task",
    "keep_freed_memory",
    "run_task",
    "write_parts",
    "write_rows",
]


# Which units of a source make which task: from the source alone, so that any number of workers agrees.


_TASKS: Final = 64  # about so many at least, where each has enough to do
_ENOUGH_BYTES: Final = 64 << 20
_FEW_TASKS: Final = 16  # about so many of smaller data, so that a few workers end at about the same time
_LEAST_BYTES: Final = 16 << 20
_LEAST_COMPUTED_BYTES: Final = 2 << 20  # where the time goes into what is made of a row, not into its bytes


def divide(
    units: Sequence[Unit], row_bytes: float, max_part_bytes: int, *, computed: bool = False
) -> list[tuple[int, int]]:
    """Return the tasks as ranges [start, stop) of units; a task makes one part, or several where it grows too large.

    A task has about a 64th of all, at least 64 MB (of less than 1 GB a 16th, at least 16 MB, or 2 MB of rows that are
    ``computed``) and at most ``max_part_bytes``. A unit whose rows are not known counts as a task's worth, since it may
    be anything.
    """
    total = sum((unit.rows or 0) * row_bytes for unit in units)
    few = _LEAST_COMPUTED_BYTES if computed else _LEAST_BYTES
    least = min(max(total / _FEW_TASKS, few), _ENOUGH_BYTES)
    wanted = min(max(total / _TASKS, least), max_part_bytes)
    tasks: list[tuple[int, int]] = []
    start, size = 0, 0.0
    for place, unit in enumerate(units):
        weight = wanted if unit.rows is None else unit.rows * row_bytes
        if place > start and size + weight > wanted:
            tasks.append((start, place))
            start, size = place, 0.0
        size += weight
    if start < len(units):
        tasks.append((start, len(units)))
    return tasks


# Freed memory stays with the process for the next batch, instead of going to the kernel and back.


_M_TRIM_THRESHOLD: Final = -1  # glibc's malloc.h
_M_MMAP_THRESHOLD: Final = -3
_MAPPED_BYTES: Final = (
    32 << 20
)  # the greatest that glibc takes; from here on memory comes from the kernel each time
_KEPT_BYTES: Final = 64 << 20


def keep_freed_memory() -> None:
    """Ask the C library to keep up to 64 MB of freed memory; for processes that do nothing but convert.

    The kernel fills every page with zeros before it is written for the first time. Without glibc nothing happens.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


# What tasks are made of, read while what came before is written: within a task, and from one to the next.


_END: Final = None  # of a task


def batches_of_units(source: Source, start: int, stop: int) -> Iterator[tuple[int, RawBatch]]:
    """Yield the batches of units [start, stop) of a source, each with the number of its unit."""
    for number in range(start, stop):
        for batch in source.batches_of(source.units[number]):
            yield number, batch


TaskBatches = Generator[tuple[int, RawBatch] | None, None, None]


def batches_ahead(source: Source, ranges: Iterable[tuple[int, int]]) -> TaskBatches:
    """Yield the batches of tasks that one process runs one after the other, and None behind each task.

    At most one batch is read before it is asked for: the first one of a task is read while the part before it is
    finished and the rest of it synced. ``ranges``: the units [start, stop) of each task, in the order in which they are
    asked for. To be closed: nobody waits then for what is being read.
    """
    batches = _each(source, ranges)
    return taken_ahead(batches) if source.reads_ahead else batches


def of_next_task(batches: TaskBatches) -> Iterator[tuple[int, RawBatch]]:
    """Yield what is left of the next task; all of it is to be taken before the one behind it is asked for."""
    while (found := next(batches, _END)) is not _END:
        yield found


def _each(source: Source, ranges: Iterable[tuple[int, int]]) -> TaskBatches:
    for start, stop in ranges:
        yield from batches_of_units(source, start, stop)
        yield _END


# A batch of a source as what pages store; a value that does not fit is named by its place in the source.


def encoded_batch(
    encoder: RecordEncoder, schema: Schema, source: Source, unit: Unit, batch: RawBatch
) -> ColumnBatch:
    """Return the columns of ``schema`` of a batch with rows.

    Raises `SchemaError` that names file and line, or unit and row, of the first row that does not fit.
    """
    columns = {name: batch.columns[name] for name in schema.names}
    assert batch.numbers is not None
    try:
        return encoder.encode_batch(columns, int(batch.numbers[0]))
    except SchemaError as error:
        row, text = _refused(encoder, RawBatch(columns, batch.rows)) or (None, str(error))
    if row is None:
        raise SchemaError(f"{unit.name}: {text}")
    (at,) = source.places_of(unit, [int(batch.numbers[row])])
    raise SchemaError(f"{at.name}, {at.why(text)}")


def _refused(encoder: RecordEncoder, batch: RawBatch) -> tuple[int, str] | None:
    """The first row that is refused by itself, and why; None where only all together are."""
    start, stop = 0, batch.rows
    while start < stop:
        middle = (start + stop) // 2 if stop - start > 1 else stop
        try:
            encoder.encode_batch(batch.taken(np.arange(start, middle)).columns, 0)
        except SchemaError as error:
            if middle - start == 1:
                return start, str(error)
            stop = middle
        else:
            start = middle
    return None


# Finished parts are synced by a thread, one after the other, while the next is being made.


@contextmanager
def background_sync() -> Iterator[RunSync]:
    """Give what runs things in order, one behind the caller at most; their errors are raised by its next call.

    At the end all has been run; an error is raised then unless there is another one.
    """
    pool = LeavablePool(1, "unirecord-sync")
    running: list[Future[None]] = []

    def wait() -> None:
        if running:
            result_of(running.pop())

    def run(work: Callable[[], None]) -> None:
        wait()
        running.append(pool.submit(work))

    try:
        yield run
    except BaseException:
        with suppress(Exception):
            wait()
        raise
    else:
        wait()
    finally:
        pool.leave()


# A task of several parts that is not finished: which of them are, and where the next one goes on.


@dataclass(frozen=True)
class TaskCheckpoint:
    """How far a task is.

    Attributes:
        unit: the unit of the source to go on with.
        skip: how many of its rows are written.
        entries: the finished parts.
        left_out: what was left out of the units before it.
        shape, dictionaries: what the rows to come are laid out and compressed by, as those before them.
    """

    unit: int
    skip: int = 0
    entries: tuple[PartEntry, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    shape: Shape | None = None
    dictionaries: tuple[tuple[int, bytes], ...] = ()

    @property
    def rows(self) -> int:
        """How many rows are written."""
        return sum(entry.rows for entry in self.entries)

    def content(self, content: PartContent) -> PartContent:
        """What the parts to come have in common with those that are finished."""
        return replace(content, dictionaries=self.dictionaries)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "unit": self.unit,
            "skip": self.skip,
            "parts": [entry_to_json(entry) for entry in self.entries],
            "left_out": left_out_to_json(self.left_out),
            "shape": None if self.shape is None else vars(self.shape),
            "dictionaries": [[column, content.hex()] for column, content in self.dictionaries],
        }

    @classmethod
    def from_json(
        cls, value: dict[str, Any], units: tuple[int, int], schema: Schema
    ) -> TaskCheckpoint | None:
        """The same back, of a task of these units [start, stop); None where it does not go with them, or the schema."""
        found = cls(
            value["unit"],
            value["skip"],
            tuple(entry_from_json(entry) for entry in value["parts"]),
            tuple(left_out_from_json(value["left_out"])),
            Shape(**value["shape"]),
            tuple((column, bytes.fromhex(content)) for column, content in value["dictionaries"]),
        )
        assert found.shape is not None
        try:
            check_shape(found.shape, blobs=bool(schema.blobs))
        except FormatError:
            return None
        is_of_columns = all(column < len(schema) for column, _ in found.dictionaries)
        return found if units[0] <= found.unit < units[1] and is_of_columns else None


class RowsWritten:
    """Which rows of a task come from which unit, and what was left out before it: where a later run can go on."""

    def __init__(self, begun: TaskCheckpoint) -> None:
        self.rows: int = begun.rows
        self.left_out: list[LeftOut] = list(begun.left_out)
        self._starts = [(begun.rows - begun.skip, begun.unit, len(self.left_out))]

    def begin(self, unit: int) -> None:
        """Say that the rows to come are of this unit."""
        if unit != self._starts[-1][1]:
            self._starts.append((self.rows, unit, len(self.left_out)))

    def starts(self) -> list[tuple[int, int, int]]:
        """Of each unit that rows are written of: the first of them, how many, and the unit."""
        ends = [*(row for row, _, _ in self._starts[1:]), self.rows]
        units = zip(self._starts, ends, strict=True)
        return [(row, end - row, unit) for (row, unit, _), end in units if end > row]

    def at(self, entries: Sequence[PartEntry], content: PartContent, shape: Shape) -> TaskCheckpoint:
        """Where to go on behind these parts; nobody asks for a place before it again."""
        rows = sum(entry.rows for entry in entries)
        before = [start for start in self._starts if start[0] <= rows]
        first, unit, left_out = before[-1]
        self._starts = self._starts[len(before) - 1 :]
        return TaskCheckpoint(
            unit, rows - first, tuple(entries), tuple(self.left_out[:left_out]), shape, content.dictionaries
        )


# Rows and bytes that were written more, rows of the source that were read for that, and the name of the part.
TellProgress = Callable[[int, int, int, str], None]
TellOfTask = Callable[[int, int, int, int, str], None]  # the same, behind the number of the task


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know, the same for every task.

    Attributes:
        source: what is read.
        content: schema, index columns and metadata of the parts; columns are those of the source by name.
        tasks: ranges [start, stop) of the source's units.
        folder: where parts and their records go.
        place: where the parts are once ``deliver`` has been told of them.
        dataset_id, first_part: what names and ids of parts are made of.
        max_part_bytes: greatest size of a part.
        like: a file whose owner and mode new files get, if it is there.
        records: the journal, where that is not in ``folder``.
        of: by the number of a task, what tells the part that it makes from others; its record says so.
    """

    source: Source
    content: PartContent
    tasks: tuple[tuple[int, int], ...]
    folder: str
    dataset_id: bytes
    first_part: int
    max_part_bytes: int
    like: str
    place: str
    deliver: Delivery = stays
    records: Journal | None = None
    of: Mapping[int, str] = field(default_factory=dict)

    @property
    def journal(self) -> Journal:
        """Where it is recorded which tasks are done."""
        return Journal(self.folder) if self.records is None else self.records

    def rows_to_read(self, task: int, unit: int | None = None) -> int:
        """The rows of the source in a task, or in its units before one, as far as they are known."""
        start, stop = self.tasks[task]
        return sum(one.rows or 0 for one in self.source.units[start : stop if unit is None else unit])

    def part_number(self, task: int, i: int) -> int:
        """The number of the i-th part of a task; few tasks have more than one."""
        return self.first_part + i * len(self.tasks) + task


def run_task(
    job: Job,
    task: int,
    tell: TellProgress,
    most: int | None = None,
    run_sync: RunSync = at_once,
    ahead: TaskBatches | None = None,
) -> dict[str, Any]:
    """Write the parts of a task, and then its record, which is returned; at most ``most`` rows.

    Goes on behind the parts that an earlier run has finished. ``run_sync``: see `PartSequence`; the record is written
    so, too, behind the parts. ``ahead``: `batches_of_tasks` of this and others, where all are run to their ends.
    """
    journal = job.journal
    record = write_parts(job, task, job.folder, tell, most, journal, job.deliver, run_sync, ahead)
    run_sync(lambda: journal.record(task, record))
    return record


def batches_of_tasks(job: Job, tasks: Sequence[int]) -> TaskBatches:
    """Return what is left of the tasks, for `run_task` in this order; to be closed at the end."""
    journal = job.journal
    return batches_ahead(
        job.source, ((_begun(job, task, journal).unit, job.tasks[task][1]) for task in tasks)
    )


def finish_task(job: Job, task: int, record: dict[str, Any]) -> None:
    """Say that the parts of a task are complete, on disk and in the job's folder."""
    job.journal.record(task, record)


def write_parts(
    job: Job,
    task: int,
    folder: str,
    tell: TellProgress,
    most: int | None = None,
    journal: Journal | None = None,
    deliver: Delivery = stays,
    run_sync: RunSync = at_once,
    ahead: TaskBatches | None = None,
) -> dict[str, Any]:
    """Write the parts of a task into a folder, under the names they have in the job's; their record.

    ``journal``: where each part is noted that others follow, and what tells those that are there.
    """
    begun = _begun(job, task, journal)
    done = RowsWritten(begun)
    told = 0

    def note(content: PartContent, shape: Shape) -> None:
        if journal is not None:
            at = done.at(parts.entries, content, shape).to_json()
            run_sync(lambda: journal.record_checkpoint(task, at))

    def tell_more(rows: int, read: int) -> None:
        nonlocal told
        written = parts.written
        tell(rows, written - told, read, parts.current)
        told = written

    parts = PartSequence(
        folder, job.dataset_id, lambda i: job.part_number(task, i), job.max_part_bytes, job.like, deliver,
        finished=begun.entries, on_part=note, run_sync=run_sync,
    )  # fmt: skip
    if begun.rows:
        tell_more(begun.rows, job.rows_to_read(task, begun.unit))
    batches = of_next_task(ahead or batches_ahead(job.source, [(begun.unit, job.tasks[task][1])]))
    try:
        writer = BatchWriter(parts, begun.content(job.content), begun.shape)
        write_rows(job.source, batches, writer, begun, done, most, tell_more)
        writer.finish()
    except BaseException:
        parts.discard()
        raise
    record = {
        "rows": done.rows,
        "parts": [entry_to_json(entry) for entry in parts.entries],
        "left_out": left_out_to_json(done.left_out),
        **({"of": job.of[task]} if task in job.of else {}),
    }
    tell(0, parts.written - told, 0, parts.entries[-1].name if parts.entries else "")
    return record


def write_rows(
    source: Source,
    batches: Iterator[tuple[int, RawBatch]],
    writer: BatchWriter,
    begun: TaskCheckpoint,
    done: RowsWritten,
    most: int | None,
    tell: Callable[[int, int], None],
) -> None:
    """Write what is behind ``begun`` of the batches of a task, until ``most`` rows are written; the end is not.

    ``done`` has the rows, ``tell`` is told of each batch how many of its rows are written, and were read for that.
    """
    for batch, read in _rest(source, writer.content.schema, begun, done, batches):
        before = done.rows
        if batch is not None:
            if most is not None and done.rows + batch.rows > most:
                batch = slice_batch(batch, 0, most - done.rows)
            writer.add(batch, owned=False)
            done.rows += batch.rows
        tell(done.rows - before, read)
        if done.rows == most:
            break


def task_checkpoint(job: Job, task: int, record: dict[str, Any]) -> TaskCheckpoint | None:
    """What the journal's record of a task says, where that goes with the job."""
    return TaskCheckpoint.from_json(record, job.tasks[task], job.content.schema)


def _begun(job: Job, task: int, journal: Journal | None) -> TaskCheckpoint:
    record = None if journal is None else journal.begun(task)
    found = None if record is None else task_checkpoint(job, task, record)
    return TaskCheckpoint(job.tasks[task][0]) if found is None else found


def _rest(
    source: Source,
    schema: Schema,
    begun: TaskCheckpoint,
    done: RowsWritten,
    batches: Iterator[tuple[int, RawBatch]],
) -> Iterator[tuple[ColumnBatch | None, int]]:
    """The rows of a task that are not written yet, and how many were read for them.

    What is left out among them is added to ``done``.
    """
    skip = begun.skip
    for unit, given, batch in encoded_batches(source, schema, batches):
        done.begin(unit)
        done.left_out += given.left_out
        rows = 0 if batch is None else batch.rows
        if skip and rows and unit != begun.unit:
            break
        yield None if batch is None or skip >= rows else slice_batch(batch, skip, rows), given.read
        skip = max(skip - rows, 0)
    if skip:
        raise StaleError(
            f"{source.units[begun.unit].name} has {many(skip, 'row')} fewer than when its first "
            f"parts were written; "
            "without resume it begins anew"
        )


def encoded_batches(
    source: Source, schema: Schema, batches: Iterator[tuple[int, RawBatch]]
) -> Iterator[tuple[int, RawBatch, ColumnBatch | None]]:
    """The batches, each behind the number of its unit, and its rows as what a page stores."""
    encoder = RecordEncoder(schema, "error")
    for number, batch in batches:
        encoded = encoded_batch(encoder, schema, source, source.units[number], batch) if batch.rows else None
        yield number, batch, encoded
