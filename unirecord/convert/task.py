"""One task of a conversion: some units of a source to finished parts, the same bytes whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import SchemaError
from ..format.values import ColumnBatch, RecordEncoder
from ..writing.batch_writer import BatchWriter
from ..writing.conversion_journal import Journal, entry_to_json
from ..writing.part_sequence import PartSequence
from ..writing.part_writer import PartContent
from ..writing.row_groups import slice_batch
from .sources.base import LeftOut, Source

__all__ = ["Job", "Told", "encoded_batches", "finish_task", "run_task", "write_parts"]

Told = Callable[[int, int, str], None]  # rows and bytes more, and the name of the part they go into


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know, the same for every task.

    Attributes:
        source: what is read.
        content: schema, index columns and metadata of the parts; columns are those of the source by name.
        tasks: ranges [start, stop) of the source's units.
        folder: where parts and their records go.
        dataset_id, first_part: what names and ids of parts are made of.
        max_part_bytes: greatest size of a part.
        like: a file whose owner and mode new files get, if it is there.
    """

    source: Source
    content: PartContent
    tasks: tuple[tuple[int, int], ...]
    folder: str
    dataset_id: bytes
    first_part: int
    max_part_bytes: int
    like: str

    def part_number(self, task: int, i: int) -> int:
        """The number of the i-th part of a task; few tasks have more than one."""
        return self.first_part + i * len(self.tasks) + task


def run_task(job: Job, task: int, tell: Told, most: int | None = None) -> dict[str, Any]:
    """Write the parts of a task, and then its record, which is returned; at most ``most`` rows."""
    record = write_parts(job, task, job.folder, tell, most)
    finish_task(job, task, record)
    return record


def finish_task(job: Job, task: int, record: dict[str, Any]) -> None:
    """Say that the parts of a task are complete, on disk and in the job's folder."""
    Journal(job.folder).record(task, record)


def write_parts(job: Job, task: int, folder: str, tell: Told, most: int | None = None) -> dict[str, Any]:
    """Write the parts of a task into a folder, under the names they have in the job's; their record."""
    parts = PartSequence(
        folder, job.dataset_id, lambda i: job.part_number(task, i), job.max_part_bytes, job.like
    )
    try:
        writer = BatchWriter(parts, job.content)
        rows, told, left_out = 0, 0, list[LeftOut]()
        for batch, without in encoded_batches(job, task):
            left_out += without
            if most is not None and batch is not None and rows + batch.rows > most:
                batch = slice_batch(batch, 0, most - rows)
            if batch is not None:
                writer.add(batch, owned=False)
                rows += batch.rows
                written = parts.written
                tell(batch.rows, written - told, parts.current)
                told = written
            if rows == most:
                break
        writer.finish()
    except BaseException:
        parts.discard()
        raise
    record = {
        "rows": rows,
        "parts": [entry_to_json(entry) for entry in parts.entries],
        "left_out": [[one.name, one.reason, one.expected, one.rows] for one in left_out],
    }
    tell(0, parts.written - told, parts.entries[-1].name if parts.entries else "")
    return record


def encoded_batches(job: Job, task: int) -> Iterator[tuple[ColumnBatch | None, tuple[LeftOut, ...]]]:
    """The rows of a task as what a page stores, and what was left out among them."""
    encoder = RecordEncoder(job.content.schema, "error")
    start, stop = job.tasks[task]
    for number in range(start, stop):
        unit = job.source.units[number]
        row = 0
        for batch in job.source.batches_of(unit):
            columns = {name: batch.columns[name] for name in job.content.schema.names} if batch.rows else {}
            try:
                encoded = encoder.encode_batch(columns, row) if batch.rows else None
            except SchemaError as error:
                raise SchemaError(f"{unit.name}: {error}") from None
            yield encoded, batch.left_out
            row += batch.rows
