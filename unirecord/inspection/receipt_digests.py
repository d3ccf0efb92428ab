"""Whether the rows of receipts are those that the order of a dataset gives for their positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core import xxh3_64
from ..dataset.dataset import UniRecordDataset
from ..dataset.receipts import BATCH, BEGIN, LEFT_OUT
from ..dataset.state import ResumeState
from ..order.permutation import EpochRun
from .receipt_files import RankFile, records_of

__all__ = ["rows_that_differ"]


def rows_that_differ(file: RankFile, dataset: UniRecordDataset[Any]) -> Iterator[str]:
    """Says which batches had other rows; StaleError or ValueError where the dataset is another one."""
    head, cursor = file.head, dataset._cursor
    ResumeState.from_dict({**head.order, "epoch": 0, "position": 0}).check(
        ResumeState.from_dict(cursor.state_at_front()), cursor.plan.order.drawn_difference
    )
    order = cursor.plan.order
    run: EpochRun | None = None
    taken, skipped = 0, []
    for number, record in records_of(file):
        if record.kind == BEGIN:
            sharding = head.sharding(record.first)
            run = EpochRun(
                record.epoch, order.order(record.epoch), sharding.first, head.ranks, sharding.length, record.first
            )  # fmt: skip
            taken = 0
        elif record.kind == LEFT_OUT:
            skipped.append(record.digest)
        elif record.kind == BATCH and run is not None:
            rows = order.selection.row_ids(run.positions(taken, taken + record.samples))
            if skipped:
                rows = rows[~np.isin(rows, skipped)]
                skipped.clear()
            if xxh3_64(np.ascontiguousarray(rows, "<i8")) != record.digest:
                yield (
                    f"{file.path}: record {number:,}: the batch from position {record.first:,} of epoch {record.epoch} "
                    "on had other rows than the dataset gives there"
                )
            taken += record.samples
