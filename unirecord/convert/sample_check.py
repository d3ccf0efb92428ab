"""Reads some written rows back and compares them with the source, before anything is published."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np

from ..errors import CorruptionError
from ..format.schema import Schema
from ..format.values import ColumnBatch, ColumnData
from ..parts.part_set import ColumnResult, PartSet, resolve
from ..sizes import many
from ..writing.row_groups import slice_batch
from .task import Job, encoded_batches

__all__ = ["SAMPLED_ROWS", "check_samples", "compare", "some"]

_SAMPLES: Final = 3
SAMPLED_ROWS: Final = 100


def check_samples(job: Job, records: Mapping[int, Mapping[str, Any]]) -> None:
    """Compare the first rows of the first, a middle and the last task; CorruptionError when they differ."""
    for task in some([task for task in sorted(records) if records[task]["parts"]]):
        part = records[task]["parts"][0]
        batches = (batch for _, batch, _ in encoded_batches(job, *job.tasks[task]))
        first = next((batch for batch in batches if batch is not None and batch.rows), None)
        if first is not None:
            rows = min(SAMPLED_ROWS, first.rows, part["rows"])
            path = os.path.join(job.place, part["name"])
            compare(path, 0, slice_batch(first, 0, rows), job.content.schema, job.source.path)


def some(places: Sequence[int]) -> list[int]:
    """The first, a middle and the last one, of those that there are."""
    last = len(places) - 1
    return sorted({places[i * last // (_SAMPLES - 1)] for i in range(_SAMPLES)} if places else ())


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
        return np.asarray(data.values).tobytes() == result.data.tobytes()
    cells = [bytes(cell) for cell in data.values]
    lengths = np.diff(result.offsets).tolist()
    return lengths == list(map(len, cells)) and b"".join(cells) == result.data.tobytes()
