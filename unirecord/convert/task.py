"""One task of a conversion: some units of a source to finished parts, the same bytes whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import StaleError
from ..format.layout import Shape
from ..format.values import ColumnBatch, RecordEncoder
from ..writing.batch_writer import BatchWriter
from ..writing.conversion_journal import Journal, entry_to_json
from ..writing.part_writer import Delivery, PartContent, PartSequence, Settle, at_once, stays
from ..writing.row_groups import slice_batch
from .batches_ahead import BatchesAhead, batches_of_units
from .begun_task import BegunTask, RowsWritten
from .encoded_batch import encoded_batch
from .sources.base import RawBatch, Source
from .sources.left_out import LeftOut, left_out_to_json

__all__ = [
    "Job",
    "Told",
    "batches_of_tasks",
    "begun_task",
    "encoded_batches",
    "finish_task",
    "run_task",
    "write_parts",
]

Told = Callable[[int, int, str], None]  # rows and bytes more, and the name of the part they go into


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

    @property
    def journal(self) -> Journal:
        """Where it is recorded which tasks are done."""
        return Journal(self.folder) if self.records is None else self.records

    def part_number(self, task: int, i: int) -> int:
        """The number of the i-th part of a task; few tasks have more than one."""
        return self.first_part + i * len(self.tasks) + task


def run_task(
    job: Job,
    task: int,
    tell: Told,
    most: int | None = None,
    settle: Settle = at_once,
    ahead: BatchesAhead | None = None,
) -> dict[str, Any]:
    """Write the parts of a task, and then its record, which is returned; at most ``most`` rows.

    Goes on behind the parts that an earlier run has finished. ``settle``: see `PartSequence`; the record is written so,
    too, behind the parts. ``ahead``: `batches_of_tasks` of this and others, where all of those are run to their ends.
    """
    journal = job.journal
    record = write_parts(job, task, job.folder, tell, most, journal, job.deliver, settle, ahead)
    settle(lambda: journal.record(task, record))
    return record


def batches_of_tasks(job: Job, tasks: Sequence[int]) -> BatchesAhead:
    """Return what is left of the tasks, for `run_task` in this order; to be left as a ``with`` block."""
    journal = job.journal
    return BatchesAhead(job.source, ((_begun(job, task, journal).unit, job.tasks[task][1]) for task in tasks))


def finish_task(job: Job, task: int, record: dict[str, Any]) -> None:
    """Say that the parts of a task are complete, on disk and in the job's folder."""
    job.journal.record(task, record)


def write_parts(
    job: Job,
    task: int,
    folder: str,
    tell: Told,
    most: int | None = None,
    journal: Journal | None = None,
    deliver: Delivery = stays,
    settle: Settle = at_once,
    ahead: BatchesAhead | None = None,
) -> dict[str, Any]:
    """Write the parts of a task into a folder, under the names they have in the job's; their record.

    ``journal``: where each part is noted that others follow, and what tells those that are there.
    """
    begun = _begun(job, task, journal)
    done = RowsWritten(begun)

    def note(content: PartContent, shape: Shape) -> None:
        if journal is not None:
            at = done.at(parts.entries, content, shape).to_json()
            settle(lambda: journal.record_begun(task, at))

    parts = PartSequence(
        folder, job.dataset_id, lambda i: job.part_number(task, i), job.max_part_bytes, job.like, deliver,
        finished=begun.entries, on_part=note, settle=settle,
    )  # fmt: skip
    told = parts.written
    if begun.rows:
        tell(begun.rows, told, parts.current)
    batches = ahead or BatchesAhead(job.source, [(begun.unit, job.tasks[task][1])])
    try:
        writer = BatchWriter(parts, begun.content(job.content), begun.shape)
        for batch in _rest(job, begun, done, batches.of_next_task()):
            if most is not None and done.rows + batch.rows > most:
                batch = slice_batch(batch, 0, most - done.rows)
            writer.add(batch, owned=False)
            done.rows += batch.rows
            written = parts.written
            tell(batch.rows, written - told, parts.current)
            told = written
            if done.rows == most:
                break
        writer.finish()
    except BaseException:
        parts.discard()
        raise
    record = {
        "rows": done.rows,
        "parts": [entry_to_json(entry) for entry in parts.entries],
        "left_out": left_out_to_json(done.left_out),
    }
    tell(0, parts.written - told, parts.entries[-1].name if parts.entries else "")
    return record


def begun_task(job: Job, task: int, record: dict[str, Any]) -> BegunTask | None:
    """What the journal's record of a task says, where that goes with the job."""
    return BegunTask.from_json(record, job.tasks[task], job.content.schema)


def _begun(job: Job, task: int, journal: Journal | None) -> BegunTask:
    record = None if journal is None else journal.begun(task)
    found = None if record is None else begun_task(job, task, record)
    return BegunTask(job.tasks[task][0]) if found is None else found


def _rest(
    job: Job, begun: BegunTask, done: RowsWritten, batches: Iterator[tuple[int, RawBatch]]
) -> Iterator[ColumnBatch]:
    """The rows of a task that are not written yet; what is left out among them is added to ``done``."""
    skip = begun.skip
    for unit, batch, left_out in _encoded(job, batches):
        done.begin(unit)
        done.left_out += left_out
        if batch is None:
            continue
        if skip and unit != begun.unit:
            break
        if skip < batch.rows:
            yield slice_batch(batch, skip, batch.rows)
        skip = max(skip - batch.rows, 0)
    if skip:
        raise StaleError(
            f"{job.source.units[begun.unit].name} has {skip:,} rows fewer than when its first parts were written; "
            "without resume it begins anew"
        )


def encoded_batches(
    job: Job, start: int, stop: int
) -> Iterator[tuple[int, ColumnBatch | None, tuple[LeftOut, ...]]]:
    """The rows of units [start, stop) as what a page stores, each with its unit and what was left out among them."""
    return _encoded(job, batches_of_units(job.source, start, stop))


def _encoded(
    job: Job, batches: Iterator[tuple[int, RawBatch]]
) -> Iterator[tuple[int, ColumnBatch | None, tuple[LeftOut, ...]]]:
    encoder = RecordEncoder(job.content.schema, "error")
    row = at = 0
    for number, batch in batches:
        row, at = row if number == at else 0, number
        schema, unit = job.content.schema, job.source.units[number]
        encoded = encoded_batch(encoder, schema, job.source, unit, batch, row) if batch.rows else None
        yield number, encoded, batch.left_out
        row += batch.rows
