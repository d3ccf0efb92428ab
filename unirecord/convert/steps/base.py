"""Steps of a conversion: what each does to the rows of a source, and the source that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...errors import SchemaError, did_you_mean
from ...format.column import Column
from ...format.schema import Schema
from ...format.values import RecordEncoder, Texts
from ...order.randomness import mixed
from ..sources.base import LeftOut, RawBatch, RowPlace, Unit, WrongSourceError
from ..sources.convert import Misfit

__all__ = [
    "AddNulls",
    "Change",
    "EvenSample",
    "Keep",
    "LeaveOutMisfits",
    "Places",
    "Rename",
    "Step",
    "check_columns",
    "chosen_rows",
    "pieces",
    "refuse_left_out",
]


# What every step is: a change of batches, unit by unit, that depends on the source alone.


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


# The steps that keep some columns, and give them other names.


def check_columns(option: str, names: Sequence[str], schema: Schema) -> None:
    """Refuse names that the source has not, and the same one twice."""
    for i, name in enumerate(names):
        if name not in schema:
            raise WrongSourceError(
                f"--{option}: there is no column {name!r}{did_you_mean(name, schema.names)}; "
                f"the columns are {', '.join(schema.names)}"
            )
        if name in names[:i]:
            raise WrongSourceError(f"--{option} names {name!r} twice")


class Keep(Step):
    """Keeps these columns, in this order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def schema(self, before: Schema) -> Schema:
        """Those columns."""
        return Schema(before[name] for name in self._names)

    def begin(self, unit: Unit, places: Places) -> Change:
        """The same for all units."""
        return self._keep

    def _keep(self, batch: RawBatch) -> RawBatch:
        return replace(batch, columns={name: batch.columns[name] for name in self._names})


class AddNulls(Step):
    """Adds columns that are null in every row."""

    def __init__(self, columns: Sequence[Column], order: Sequence[str]) -> None:
        self._columns, self._order = tuple(columns), tuple(order)

    def schema(self, before: Schema) -> Schema:
        """The columns of both, in the order of ``order``."""
        every = {column.name: column for column in (*before, *self._columns)}
        return Schema(every[name] for name in self._order)

    def begin(self, unit: Unit, places: Places) -> Change:
        """The same for all units."""
        return self._add

    def _add(self, batch: RawBatch) -> RawBatch:
        nulls = {column.name: [None] * batch.rows for column in self._columns}
        return replace(batch, columns={**batch.columns, **nulls})


class Rename(Step):
    """Gives columns other names; ``names`` maps old ones to new ones."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)

    def schema(self, before: Schema) -> Schema:
        """The same columns under their new names; `WrongSourceError` when two get the same."""
        found: dict[str, object] = {}
        for column in before:
            name = self._names.get(column.name, column.name)
            if name in found:
                raise WrongSourceError(f"--rename: two columns would be called {name!r}")
            found[name] = column.spec
        try:
            return Schema.parse(found)
        except SchemaError as error:
            raise WrongSourceError(f"--rename: {error}") from None

    def begin(self, unit: Unit, places: Places) -> Change:
        """The same for all units."""
        return self._rename

    def _rename(self, batch: RawBatch) -> RawBatch:
        return replace(
            batch, columns={self._names.get(name, name): values for name, values in batch.columns.items()}
        )


# The step by which rows that do not fit are left out; and what a source leaves out as an error.


class LeaveOutMisfits(Step):
    """Leaves out the rows whose values are not of the types of their columns."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def begin(self, unit: Unit, places: Places) -> Change:
        """Encodes each batch, and where that fails each row."""
        encoder = RecordEncoder(self._schema)

        def keep(batch: RawBatch) -> RawBatch:
            try:
                encoder.encode_batch(batch.columns, 0)
            except SchemaError:
                misfits = self._misfits(batch)
            else:
                return batch
            fitting = np.array([i for i in range(batch.rows) if i not in misfits], np.int64)
            found = zip(places(unit, batch, list(misfits)), misfits.values(), strict=True)
            left_out = (
                LeftOut(at.name, why.reason if isinstance(why, Misfit) else at.why(why)) for at, why in found
            )
            return chosen_rows(batch, fitting, tuple(left_out))

        return keep

    def _misfits(self, batch: RawBatch) -> dict[int, Misfit | str]:
        """The rows that do not fit, and why: what the source has noticed, or what the encoder says of each alone."""
        encoder = RecordEncoder(self._schema)
        found: dict[int, Misfit | str] = {}
        for i in range(batch.rows):
            record = {column: batch.columns[column][i] for column in self._schema.names}
            misfit = next((value for value in record.values() if isinstance(value, Misfit)), None)
            if misfit is not None:
                found[i] = misfit
                continue
            try:
                encoder.add(record, 0)
            except SchemaError as error:
                found[i] = str(error)
            encoder.clear()
        return found


def refuse_left_out(left_out: Iterable[LeftOut]) -> None:
    """Raise `SchemaError` about the first that was meant to be in the dataset."""
    for one in left_out:
        if not one.expected:
            raise SchemaError(f"{one.name}: {one.reason}; --on-error skip leaves it out")


# The step that keeps so many rows, spread evenly over all of them.


class EvenSample(Step):
    """Keeps ``rows`` of all rows: one, drawn by ``seed``, of each of so many stretches of equal length.

    So every row has about the same chance, and sorted rows (class folders) are drawn from in proportion. ``counts``
    are the rows of each unit.
    """

    chooses = True

    def __init__(self, rows: int, seed: int, counts: Sequence[int]) -> None:
        self._starts = [0, *accumulate(counts)]
        self._all = self._starts[-1]
        self._rows = min(rows, self._all)
        self._seed = seed

    @property
    def share(self) -> float:
        """How much of all rows is kept."""
        return self._rows / self._all if self._all else 1.0

    def begin(self, unit: Unit, places: Places) -> Change:
        """Keeps what is drawn of one unit."""
        start = self._starts[unit.place]

        def keep(batch: RawBatch) -> RawBatch:
            nonlocal start
            places = self._drawn(start, start + batch.rows) - start
            start += batch.rows
            return chosen_rows(batch, places)

        return keep

    def _drawn(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The rows drawn of [start, stop), ascending."""
        if not self._rows:
            return np.empty(0, np.int64)
        first = start * self._rows // self._all
        last = min(-(-stop * self._rows // self._all), self._rows)
        numbers = np.arange(first, last + 1, dtype=np.int64)
        begins = self._begin(numbers)
        sizes = (begins[1:] - begins[:-1]).astype(np.uint64)
        drawn = begins[:-1] + (mixed(numbers[:-1], self._seed) % sizes).astype(np.int64)
        return drawn[(drawn >= start) & (drawn < stop)]

    def _begin(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where stretches begin, number * all // rows, without leaving 64 bits."""
        whole, rest = divmod(self._all, self._rows)
        return numbers * whole + numbers * rest // self._rows
