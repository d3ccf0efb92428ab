"""The opened data of a dataset: its parts, and the columns that are read of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import BatchPool, NativeLoader
from ..errors import SchemaError, StaleError
from ..format.column import Column
from ..format.schema import Schema
from ..order.selection import FoundRows, Selection
from ..order.spec import OrderSpec, choose_blocks
from ..snapshot.cache import CacheOptions
from ..snapshot.layouts import same_values
from ..snapshot.part_set import Io, PartSet, Snapshot, Verify, resolve, resolve_again
from ..storage.storage_options import StorageOptions, use_storage
from .batch import RowNumbers, SampleReader, StepCounts, Told, WhereFrom
from .boxes import Crop, cropped_columns, place_columns

if TYPE_CHECKING:
    from ..query import Query

__all__ = ["OpenedData", "PathLike"]

PathLike = str | os.PathLike[str]


class OpenedData:
    """Parts and chosen columns of them; thread-safe. Pickled, it is opened anew, and must then be the same data.

    ``where_from`` names the source of each row, where there are several. ``told``: what samples have beside the columns
    that are read: their row's number, if it is among the names and no column is called so, and that source.
    """

    columns: tuple[tuple[int, Column], ...]
    reader: SampleReader
    row_bytes: float

    # of sequences alone
    steps: StepCounts | None = None

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        parts: PartSet,
        columns: Sequence[str] | None,
        where_from: WhereFrom | None = None,
    ) -> None:
        self._init(path, parts, parts.snapshot, columns, where_from)

    def _init(
        self,
        path: PathLike | Sequence[PathLike],
        parts: PartSet,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        where_from: WhereFrom | None = None,
    ) -> None:
        self.path = path
        self.parts = parts
        self.snapshot = snapshot
        asked = columns is not None and not isinstance(columns, str) and self._tells_row(columns)
        self.columns = _chosen_columns(self.snapshot.schema, columns, without=("row",) if asked else ())
        self.where_from = where_from
        self.told: tuple[Told, ...] = (
            *([RowNumbers()] if asked else []),
            *([where_from] if where_from else []),
        )
        self.reader = self._reader()
        self.row_bytes = self._mean_bytes()
        self._names = None if columns is None else list(columns)
        self._pool: BatchPool | None = None

    def _tells_row(self, columns: Sequence[str]) -> bool:
        return "row" in columns and "row" not in self.snapshot.schema

    def _reader(self) -> SampleReader:
        return SampleReader(self.parts, self.columns, self.told, times=True)

    def _mean_bytes(self) -> float:
        return self.parts.mean_row_bytes([ordinal for ordinal, _ in self.columns])

    @classmethod
    def open(
        cls,
        path: PathLike | Sequence[PathLike],
        columns: Sequence[str] | None,
        io: Io,
        verify: Verify,
        snapshot: Snapshot | None = None,
        cache: CacheOptions | None = None,
    ) -> OpenedData:
        """Opens what is at ``path``, which has been resolved to ``snapshot`` or is now."""
        return cls(
            path,
            PartSet(snapshot or resolve(path), io=io, verify=verify, cache=cache, knows_deletions=True),
            columns,
        )

    @property
    def tells_row(self) -> bool:
        """Whether samples have the number of their row."""
        return any(isinstance(one, RowNumbers) for one in self.told)

    def stored_names(self) -> list[str]:
        """The columns, for a table, which has stored ones; ValueError where the number of the row is asked for too."""
        if self.tells_row:
            raise ValueError(
                'samples and batches have the number of their row, tables do not: name their columns, without "row"; '
                "order.row_ids() has the numbers"
            )
        return [column.name for _, column in self.columns]

    @property
    def sample_columns(self) -> tuple[Column, ...]:
        """The columns that samples have: those that are read, and what is told beside them."""
        read = tuple(column for _, column in self.columns)
        return (*read, *(Column(told.column, told.type) for told in self.told))

    def cropped(
        self, crops: Mapping[str, Crop] | None, return_places: bool
    ) -> tuple[list[Column], dict[int, Column]]:
        """The columns that are read, as batches of crops have them, and by number those that say where crops begin.

        Raises:
            SchemaError, ValueError, TypeError: as `cropped_columns` and `place_columns` say.
        """
        shown = cropped_columns([column for _, column in self.columns], crops or {})
        if not crops or not return_places:
            return shown, {}
        return shown, place_columns(shown, crops, {column.name for column in self.sample_columns})

    def batch_columns(
        self, crops: Mapping[str, Crop] | None = None, return_places: bool = False
    ) -> tuple[Column, ...]:
        """The columns that batches have: ``sample_columns``, where crops are taken as ``cropped`` says."""
        shown, places = self.cropped(crops, return_places)
        told = self.sample_columns[len(shown) :]
        return (*shown, *places.values(), *told)

    def row_bytes_with(self, crops: Mapping[str, Crop] | None) -> float:
        """Bytes of an average row in batches of crops, about."""
        if not crops:
            return self.row_bytes
        shown, _ = self.cropped(crops, False)
        whole = [ordinal for ordinal, column in self.columns if column.name not in crops]
        cut = sum(column.fixed_bytes for column in shown if column.name in crops)
        return self.parts.mean_row_bytes(whole) + cut

    @property
    def are_chosen(self) -> bool:
        """Whether the columns are those that somebody has named, and not all there are."""
        return self._names is not None

    def with_columns(self, columns: Sequence[str] | None) -> OpenedData:
        """The same parts with other columns; nothing is opened again."""
        return self._over(columns, self.where_from)

    def _over(self, columns: Sequence[str] | None, where_from: WhereFrom | None) -> OpenedData:
        return OpenedData(self.path, self.parts, columns, where_from)

    def telling(self, where_from: WhereFrom) -> OpenedData:
        """The same parts and columns, with the name of each row's source."""
        if any(column.name == where_from.column for column in self.sample_columns):
            raise SchemaError(
                f"there is a column {where_from.column!r} already: give the one that names the source another name, "
                "or None"
            )
        return self._over(self._names, where_from)

    def published(self, snapshot: Snapshot) -> OpenedData | None:
        """What is at the path now, opened; None when it is still this data. StaleError when the schema has changed."""
        if snapshot.identity == self.snapshot.identity:
            return None
        names, parts = self._names, self.parts
        if snapshot.schema != self.snapshot.schema:  # columns that came are for who opens it anew
            names = [column.name for column in self.sample_columns]
            for _, column in self.columns:
                if column.name not in snapshot.schema or not same_values(
                    column, snapshot.schema[column.name]
                ):
                    raise StaleError(
                        f"{self.path}: the schema has changed, column {column.name!r} is not there as it was; open the "
                        "dataset anew"
                    )
        return OpenedData.open(self.path, names, parts.io, parts.verify, snapshot, parts.cache_options)

    def live_rows(self) -> Selection:
        """The rows that have not been deleted."""
        live = self.parts.live
        return Selection(self.snapshot.rows) if live is None else Selection(self.snapshot.rows, bitmap=live)

    def check_live(self, rows: NDArray[np.int64]) -> None:
        """IndexError when one of the rows has been deleted; numbers that no row has are left to the reader."""
        live = self.parts.live
        if live is None:
            return
        there = rows[(rows >= 0) & (rows < self.snapshot.rows)]
        gone = there[~live.contains(there)]
        if len(gone):
            raise IndexError(f"row {gone[0]} has been deleted; a version before that still has it")

    def where_rows(self, selection: Selection, where: str) -> tuple[Selection, Query]:
        """The rows of a selection that meet a condition, and the condition, in which ``now()`` is a moment.

        Whoever keeps it keeps its own text, or its one form: states must not depend on its spelling.
        """
        from ..query import compile_query  # worker processes of most jobs need not import it

        query = compile_query(where, self.snapshot.schema)
        found = FoundRows(selection.rows)
        query.find(self.parts, found.add)
        return selection.where_rows(found.all()), query

    def with_blocks(self, spec: OrderSpec, rows: int, given: tuple[int | None, int | None]) -> OrderSpec:
        """The order with the sizes of its blocks, where it has any: as given, else chosen from the row groups."""
        if spec.mode != "block":
            return spec
        facts = self.snapshot.block_facts
        if facts is None:
            sizes = self.parts.group_rows(), self.parts.mean_block_row_bytes
        else:
            sizes = facts.group_rows, facts.mean_row_bytes
        block_rows, window = choose_blocks(rows, *sizes)
        given_rows, given_window = given
        return OrderSpec(
            spec.mode,
            spec.seed,
            spec.epoch,
            block_rows if given_rows is None else given_rows,
            window if given_window is None else given_window,
        )

    def open_loader(self, **options: Any) -> NativeLoader:
        """The C loader of the columns that are read."""
        return self.parts.open_loader(columns=[ordinal for ordinal, _ in self.columns], **options)

    def pool(self, pieces: int) -> BatchPool:
        """Memory for batches that all loaders share, ``pieces`` of it kept when not in use."""
        if self._pool is None or not self._pool.is_own:
            self._pool = BatchPool(pieces)
        self._pool.keep(pieces)
        return self._pool

    def __reduce__(self) -> tuple[Any, ...]:
        opening = (self.path, self._names, self.parts.io, self.parts.verify, self.parts.cache_options)
        return _opened_again, (
            self.snapshot.identity,
            *opening,
            self.where_from,
            self.snapshot.storage,
            self.snapshot.common,
        )


def _opened_again(
    identity: str,
    path: PathLike | Sequence[PathLike],
    columns: list[str] | None,
    io: Io,
    verify: Verify,
    cache: CacheOptions | None,
    where_from: WhereFrom | None,
    storage: StorageOptions | None = None,
    common: Sequence[str] = (),
) -> OpenedData:
    with use_storage(storage):
        snapshot = resolve_again(path, common)
    if snapshot.identity != identity:
        raise StaleError(
            f"{path}: the dataset has changed since it was pickled "
            f"(it was {identity}, it is {snapshot.identity}); open it anew"
        )
    opened = OpenedData.open(path, columns, io, verify, snapshot, cache)
    return opened if where_from is None else opened.telling(where_from)


def _chosen_columns(
    schema: Schema, names: Sequence[str] | None, without: Sequence[str] = ()
) -> tuple[tuple[int, Column], ...]:
    """Ordinal and column of each name, or of all columns; ValueError, SchemaError for wrong names.

    ``without``: names that no column is read for.
    """
    if names is None:
        return tuple(enumerate(schema.columns))
    if isinstance(names, str):
        raise ValueError(
            f"columns must be a list of names, got the string {names!r}: write columns=[{names!r}]"
        )
    if not names:
        raise ValueError(f"columns must be a list of one name or more, got {names!r}")
    if len(set(names)) != len(names):
        raise ValueError(f"columns names a column twice: {list(names)}")
    ordinals = [schema.ordinal(name) for name in names if name not in without]
    return tuple((ordinal, schema.columns[ordinal]) for ordinal in ordinals)
