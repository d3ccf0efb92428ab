"""What every step is: a change of batches, unit by unit, that depends on the source alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...format.schema import Schema
from ...format.values import Texts
from ..sources.base import LeftOut, RawBatch, RowPlace, Unit

__all__ = ["Change", "Places", "Step", "chosen_rows", "pieces"]

Change = Callable[[RawBatch], RawBatch]
Places = Callable[[Unit, RawBatch, Sequence[int]], list[RowPlace]]


class Step(ABC):
    """A step: what it makes of the schema, and of the batches of each unit in their order.

    It can be pickled, and makes the same rows in any process, whatever other units were read before.
    """

    chooses: ClassVar[bool] = False  # whether rows are left away that have nothing wrong with them
    rows_at_once: ClassVar[int | None] = None  # where a row costs so much that nobody should wait for many

    def schema(self, before: Schema) -> Schema:
        """The columns that it gives."""
        return before

    @abstractmethod
    def begin(self, unit: Unit, places: Places) -> Change:
        """The change of the batches of one unit, which come in order and have rows; its place is its number.

        ``places``: where rows of such a batch are in the source, to name those that it leaves out.
        """


def pieces(batch: RawBatch, most: int | None) -> Iterator[RawBatch]:
    """The same rows in batches of at most ``most``; what was left out is told with the first."""
    if most is None or batch.rows <= most:
        yield batch
        return
    rows, left_out = replace(batch, left_out=()), batch.left_out
    for start in range(0, batch.rows, most):
        yield chosen_rows(rows, np.arange(start, min(start + most, batch.rows)), left_out)
        left_out = ()


def chosen_rows(
    batch: RawBatch, places: npt.NDArray[np.int64], left_out: tuple[LeftOut, ...] = ()
) -> RawBatch:
    """The rows at ``places``, ascending, of a batch, and what else was left out of it."""
    columns, numbers = batch.columns, batch.numbers
    if len(places) != batch.rows:
        columns = {name: _taken(values, places) for name, values in batch.columns.items()}
        numbers = None if numbers is None else numbers[places]
    left_out = batch.left_out + left_out
    return replace(batch, columns=columns, rows=len(places), left_out=left_out, numbers=numbers)


def _taken(values: Any, places: npt.NDArray[np.int64]) -> Any:
    if isinstance(values, np.ndarray):
        return values[places]
    if isinstance(values, Texts):
        return values.take(places)
    return [values[i] for i in places.tolist()]
