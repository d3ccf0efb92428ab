"""Reads some written rows back and compares them with the source, before anything is published."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

import numpy as np

from ..errors import CorruptionError
from ..format.values import ColumnBatch, ColumnData
from ..parts.part_set import ColumnResult, PartSet, resolve
from ..writing.row_groups import slice_batch
from .task import Job, encoded_batches

__all__ = ["check_samples"]

_TASKS: Final = 3
_ROWS: Final = 100


def check_samples(job: Job, records: Mapping[int, Mapping[str, Any]]) -> None:
    """Compare the first rows of the first, a middle and the last task; CorruptionError when they differ."""
    tasks = [task for task in sorted(records) if records[task]["parts"]]
    chosen = sorted({tasks[i * (len(tasks) - 1) // (_TASKS - 1)] for i in range(_TASKS)} if tasks else ())
    for task in chosen:
        part = records[task]["parts"][0]
        first = next(
            (batch for batch, _ in encoded_batches(job, task) if batch is not None and batch.rows), None
        )
        if first is not None:
            rows = min(_ROWS, first.rows, part["rows"])
            _compare(job, os.path.join(job.folder, part["name"]), slice_batch(first, 0, rows))


def _compare(job: Job, path: str, expected: ColumnBatch) -> None:
    with closing(PartSet(resolve(path), verify="always")) as parts:
        columns = range(len(job.content.schema))
        found = parts.read(np.arange(expected.rows, dtype=np.int64), columns)
    for column, data, result in zip(job.content.schema, expected.columns, found, strict=True):
        if not _same(data, result):
            raise CorruptionError(
                f"{path}: column {column.name!r} of the first {expected.rows} rows is not what {job.source.path} has: "
                "the source has changed since, or memory or disk are faulty; nothing was published",
                path=path,
                column=column.name,
            )


def _same(data: ColumnData, result: ColumnResult) -> bool:
    if data.valid is not None and result.valid is not None and not np.array_equal(data.valid, result.valid):
        return False
    if result.offsets is None:
        return np.asarray(data.values).tobytes() == result.data.tobytes()
    cells = [bytes(cell) for cell in data.values]
    lengths = np.diff(result.offsets).tolist()
    return lengths == list(map(len, cells)) and b"".join(cells) == result.data.tobytes()
