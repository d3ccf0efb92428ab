"""A source whose rows go through steps: to whoever reads it, a source like any other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...errors import CorruptionError, FormatError, SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from ..sources.base import LeftOut, Options, RawBatch, RowPlace, Source, Unit, WrongSourceError
from .base import Step, pieces, refuse_left_out

__all__ = ["SteppedSource"]


class SteppedSource(Source):
    """The rows of ``inner`` after ``steps``.

    Args:
        inner: the source.
        steps: what its batches go through, in this order.
        share: how much of all rows is kept, about.
        on_error: ``"raise"``: what the source leaves out is an error. ``"skip"``: what is an error in a unit is left
            out, with the rest of the unit. None: as the source does.
        columns: those of the source that were asked for; of others it is not told what is left out. None: all.
    """

    metadata: dict[str, Any] | None
    asked: Mapping[str, str]

    share: float
    path: str
    notes: list[str]
    read_once: bool

    inner: Source
    steps: tuple[Step, ...]

    kind: ClassVar[str] = "chosen rows"
    about: ClassVar[str] = "rows of another source"

    def __init__(
        self,
        inner: Source,
        steps: Sequence[Step],
        *,
        share: float = 1.0,
        on_error: str | None = None,
        columns: Collection[str] | None = None,
    ) -> None:
        self.inner, self.steps, self.share = inner, tuple(steps), share
        self._on_error, self._columns = on_error, columns
        inner.keeps_misfits = on_error == "skip"
        self.path, self.metadata, self.notes = inner.path, inner.metadata, inner.notes
        self.read_once, self.asked = inner.read_once, inner.asked
        self.left_out: list[LeftOut] = list(self._asked_for(inner.left_out))
        self._left_out_at_first = tuple(self.left_out)
        self.units: Sequence[Unit] = [
            Unit(unit.name, number, unit.rows) for number, unit in enumerate(inner.units)
        ]
        self.computes: bool = inner.computes or any(step.rows_at_once for step in self.steps)
        self.schema: Schema = inner.schema
        for step in self.steps:
            self.schema = step.schema(self.schema)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Nothing: ``inner`` has been looked through."""

    def places_of(self, unit: Unit, rows: Sequence[int]) -> list[RowPlace]:
        """Those of ``inner``."""
        return self.inner.places_of(self.inner.units[unit.place], rows)

    def files(self) -> Iterable[str]:
        """Those of ``inner``."""
        return self.inner.files()

    @property
    def chooses(self) -> bool:
        """Whether a step leaves rows away."""
        return any(step.chooses for step in self.steps)

    @property
    def rows(self) -> int | None:
        """How many rows there are; None where a step chooses among them."""
        return None if self.chooses else self.inner.rows

    def batches_of(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the batches of a unit; `inner` holds their number against what it has seen before."""
        return self.read(unit)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield what the steps make of each batch of a unit."""
        changes = [step.begin(unit, self._places) for step in self.steps]
        most = min((step.rows_at_once for step in self.steps if step.rows_at_once), default=None)
        first = 0
        for batch in self._read_inner(self.inner.units[unit.place]):
            if batch.numbers is None:
                batch = replace(batch, numbers=np.arange(first, first + batch.rows))
            first += batch.rows
            if self._on_error == "raise":
                refuse_left_out(batch.left_out)
            if batch.left_out:
                batch = replace(batch, left_out=self._asked_for(batch.left_out))
            for piece in pieces(batch, most):
                for change in changes:
                    if piece.rows:
                        piece = change(piece)
                yield piece

    def _places(self, unit: Unit, batch: RawBatch, rows: Sequence[int]) -> list[RowPlace]:
        column = self.inner.path_column
        if column is not None and column in batch.columns:
            return [RowPlace(str(batch.columns[column][i]), "") for i in rows]
        assert batch.numbers is not None
        return self.places_of(unit, [int(batch.numbers[i]) for i in rows])

    def _asked_for(self, left_out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
        """Those that are not about a column that nobody asked for."""
        if self._columns is None:
            return tuple(left_out)
        return tuple(one for one in left_out if one.column is None or one.column in self._columns)

    def _read_inner(self, unit: Unit) -> Iterator[RawBatch]:
        seen = 0
        try:
            for batch in self.inner.batches_of(unit):
                seen += batch.rows + sum(one.rows for one in batch.left_out)
                yield batch
        except WrongSourceError:
            raise
        except (SchemaError, CorruptionError, FormatError) as error:
            if self._on_error != "skip":
                raise
            missing = None if unit.rows is None else unit.rows - seen
            which = "what follows" if missing is None else many(missing, "row")
            lost = LeftOut(unit.name, f"{which} after its row {seen}: {error}", rows=missing or 0)
            yield RawBatch({}, 0, (lost,))
