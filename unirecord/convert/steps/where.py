"""The step that keeps the rows that meet a condition of the query language."""

from __future__ import annotations

from ...format.schema import Schema
from ...format.values import RecordEncoder
from ...query.query import Query, compile_query
from ...query.tree import fields_in
from ..sources.base import RawBatch, Unit, WrongSourceError
from .base import Change, Step, chosen_rows
from .batch_columns import BatchColumns

__all__ = ["Where"]


class Where(Step):
    """Keeps the rows that meet ``text`` (docs/query.md), which names columns as the source has them.

    Raises `QueryError`, and `WrongSourceError` where the number of a row or part is asked for.
    """

    chooses = True

    def __init__(self, text: str, schema: Schema) -> None:
        self.query: Query = compile_query(text, schema)
        if any(field.ordinal < 0 for field in fields_in(self.query.condition)):
            raise WrongSourceError(
                "--where: row and part are numbers in a dataset, which raw data have not; --limit takes the first rows"
            )
        self.columns: tuple[str, ...] = self.query.columns
        self._schema = Schema(schema[name] for name in self.columns)
        self._places = [schema.names.index(name) for name in self.columns]

    def begin(self, unit: Unit) -> Change:
        """The same for all units, but for the number of the row that an error names."""
        encoder = RecordEncoder(self._schema)
        first = 0

        def keep(batch: RawBatch) -> RawBatch:
            nonlocal first
            encoded = encoder.encode_batch({name: batch.columns[name] for name in self.columns}, first)
            first += batch.rows
            columns = dict(zip(self._places, encoded.columns, strict=True))
            return chosen_rows(batch, self.query.rows([BatchColumns("the rows", batch.rows, columns)]))

        return keep if self.columns else self._all_or_none

    def _all_or_none(self, batch: RawBatch) -> RawBatch:
        return chosen_rows(batch, self.query.rows([BatchColumns("the rows", batch.rows, {})]))
