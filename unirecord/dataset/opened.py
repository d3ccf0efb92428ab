"""The opened data of a dataset: its parts, the columns that are read of them, and the rows that a condition leaves."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import BatchPool
from ..format.schema import Column, Schema
from ..loading.samples import SampleReader
from ..order.selection import Selection
from ..order.spec import OrderSpec, choose_blocks
from ..parts.part_set import PartSet, Source

__all__ = ["OpenedData"]


class OpenedData:
    """What a dataset and all that are derived from it share. Thread-safe."""

    def __init__(self, source: Source, columns: Sequence[str] | None, io: str, verify: str) -> None:
        self.columns = chosen_columns(source.schema, columns)
        self.source = source
        self.parts = PartSet(source, io=io, verify=verify)
        self.reader = SampleReader(self.parts, self.columns)
        self._pool: BatchPool | None = None

    def select(self, where: str | None) -> tuple[Selection, str | None]:
        """The rows that meet a condition, and its one form: a state must not depend on how it was spelled."""
        everything = Selection(self.source.rows)
        if where is None:
            return everything, None
        from ..query import compile_query  # worker processes of most jobs need not import it

        query = compile_query(where, self.source.schema)
        return everything.where_rows(query.rows(self.parts)), str(query)

    def with_blocks(self, spec: OrderSpec, rows: int, given: tuple[int | None, int | None]) -> OrderSpec:
        """The order with the sizes of its blocks, where it has any: as given, else chosen from the row groups."""
        if spec.mode != "block":
            return spec
        block_rows, window = choose_blocks(rows, self.parts.group_rows(), self.parts.mean_row_bytes())
        given_rows, given_window = given
        return OrderSpec(
            spec.mode,
            spec.seed,
            spec.epoch,
            block_rows if given_rows is None else given_rows,
            window if given_window is None else given_window,
        )

    def pool(self, pieces: int) -> BatchPool:
        """Memory for batches that all loaders share, ``pieces`` of it kept when not in use."""
        if self._pool is None or not self._pool.is_own:
            self._pool = BatchPool(pieces)
        self._pool.keep(pieces)
        return self._pool


def chosen_columns(schema: Schema, names: Sequence[str] | None) -> tuple[tuple[int, Column], ...]:
    """Schema position and column of each name, or of all columns; ValueError, SchemaError for wrong names."""
    if names is None:
        return tuple(enumerate(schema.columns))
    if isinstance(names, str) or not names:
        raise ValueError(f"columns must be a list of one name or more, got {names!r}")
    if len(set(names)) != len(names):
        raise ValueError(f"columns names a column twice: {list(names)}")
    positions = [schema.position(name) for name in names]
    return tuple((position, schema.columns[position]) for position in positions)
