"""When rows come, as a table: an entry for every delivery of a row that was asked for, and one where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..order.selection import Selection, row_numbers
from ..order.spec import check_integer

__all__ = ["delivery_table"]

Numbers = NDArray[np.int64]
# (epoch, places in the selection) → which of these, and step, rank and slot of every time that one comes.
Deliveries = Callable[[int, Numbers], tuple[Numbers, Numbers, Numbers, Numbers]]

_NAMES = ("row", "epoch", "step", "rank", "slot")


def delivery_table(
    rows: int | Sequence[int] | Numbers, selection: Selection, epochs: Iterable[int], deliveries: Deliveries
) -> dict[str, Numbers]:
    """A dict of int64 arrays ``row``, ``epoch``, ``step``, ``rank``, ``slot``; −1 where a row does not come.

    By epoch, and as the rows were given within one. TypeError and IndexError for what are no rows of the dataset.
    """
    asked = row_numbers(rows, selection.rows)
    selected, places = selection.places(asked)
    wanted = list(epochs)
    for epoch in wanted:
        check_integer("epoch", epoch, 0, (1 << 63) - 1)
    found = [
        _of_epoch(asked, selected, epoch, [np.asarray(one) for one in deliveries(epoch, places)])
        for epoch in wanted
    ]
    table = np.concatenate(found, axis=1) if found else np.empty((len(_NAMES), 0), np.int64)
    return dict(zip(_NAMES, table, strict=True))


def _of_epoch(asked: Numbers, selected: Numbers, epoch: int, came: list[Any]) -> NDArray[np.int64]:
    """row, epoch, step, rank, slot of one epoch: [5, entries]."""
    which, *when = came
    given = selected[which]
    absent = np.setdiff1d(np.arange(len(asked)), given)
    nothing = np.full(len(absent), -1)
    step, rank, slot = (np.concatenate([values, nothing]) for values in when)
    given = np.concatenate([given, absent])
    in_turn = np.lexsort((slot, rank, step, given))
    entries = np.stack([asked[given], np.full(len(given), epoch), step, rank, slot])
    return np.asarray(entries[:, in_turn], np.int64)
