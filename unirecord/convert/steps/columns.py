"""The steps that keep some columns, and give them other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...errors import SchemaError, did_you_mean
from ...format.column import Column
from ...format.schema import Schema
from ..sources.base import RawBatch, Unit, WrongSourceError
from .base import Change, Places, Step

__all__ = ["AddNulls", "Keep", "Rename", "check_columns"]


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
