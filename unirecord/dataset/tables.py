"""The rows of a dataset as columns and tables: arrays of scalars from the index, Arrow and pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..columns.scalars import scalar_arrays
from ..order.selection import Selection
from .row_numbers import in_own_order
from .streams import DatasetStreams
from .views import UNCHANGED, Given

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = ["DatasetTables"]


class DatasetTables(DatasetStreams[Given]):
    """Rows of a dataset by column, before it is iterated over."""

    def scalars(self, columns: Sequence[str] | None = None, *, order: str = "rows") -> dict[str, Any]:
        """Scalar columns as a dict of arrays, from the index alone: no blob is read, and no transform called.

        ``columns``: by default the scalar ones of the dataset's columns; any of the data can be named.
        ``order="rows"``: of all selected rows, before sharding and shuffling, [num_rows]; views of the mapped index
        where a single part is selected whole (read-only), copies otherwise. ``order="samples"``: of the samples of this
        shard in this epoch, [len(ds)], so that value i belongs to ``ds[i]`` and to ``row_ids()[i]``. Nullable columns
        are masked arrays, strings arrays of ``str`` objects. Where value i is not that of row i of the data, the array
        refuses to be indexed with what ``row_ids`` gives (IndexError).

        ValueError where rows have been left out by ``exclude``, which an array would have again.
        """
        self._cursor.refuse_exclusions("an array of a column")
        plan = self._cursor.plan
        if order not in ("rows", "samples"):
            raise ValueError(f'order must be "rows" or "samples", got {order!r}')
        selection = plan.order.selection
        if order == "rows":
            self._check_rows_are_samples("scalars")
        if order == "samples" and (plan.order.shuffled or plan.order.sharding.num_shards > 1):
            selection = Selection(
                selection.rows, array=plan.order.row_ids(0, None, self._cursor.position.epoch)
            )
        found = scalar_arrays(plan.data.parts, self._column_names(columns), selection)
        if selection.is_range and (selection.start, selection.step) == (0, 1):
            return found
        return {name: in_own_order(column) for name, column in found.items()}

    def _check_rows_are_samples(self, asked: str) -> None:
        rule = self._cursor.plan.order.rule
        if rule is not None:
            raise ValueError(
                f"{asked} is of rows as they are stored, and this is a {rule.name}: ask what it is made of, or "
                'scalars(order="samples") for the samples of this shard in this epoch'
            )

    def _column_names(self, columns: Sequence[str] | None) -> list[str]:
        schema = self._cursor.plan.data.snapshot.schema
        if columns is None:
            return self._scalar_names()
        if isinstance(columns, str):
            raise ValueError(
                f"columns must be a list of names, got the string {columns!r}: write [{columns!r}], "
                f"or ds[{columns!r}] for one column in the order of the samples"
            )
        return [schema.columns[schema.ordinal(name)].name for name in columns]

    def _scalar_names(self) -> list[str]:
        """The scalar ones of the dataset's columns; ValueError where only others have been chosen."""
        plan = self._cursor.plan
        names = [column.name for _, column in plan.columns if not column.is_blob]
        if (
            not names
            and len(plan.columns) < len(plan.data.snapshot.schema)
            and plan.data.snapshot.schema.scalars
        ):
            chosen = [column.name for _, column in plan.columns]
            raise ValueError(
                f"the dataset's columns are {chosen}, none of them scalar: name those that are wanted"
            )
        return names

    def to_arrow(self, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """All selected rows as a ``pyarrow.Table``, before sharding and shuffling: the scalar columns, or those named.

        Scalar columns come from the index alone; DuckDB and Polars query the table as it is. With blob columns among
        ``columns`` it takes the memory of all their values: ``to_batches`` does not.

        Args:
            columns: names of the columns; by default the scalar ones of the dataset's columns.

        Values are as they are stored: a transform is not called. ValueError where rows have been left out by
        ``exclude``, which a table would have again.
        """
        from ..frameworks.arrow import to_arrow

        self._check_rows_are_samples("to_arrow")
        self._cursor.refuse_exclusions("a table")
        plan, names = self._cursor.plan, self._column_names(columns)
        if any(plan.data.snapshot.schema[name].is_blob for name in names):
            return self.to_batches(names).read_all()
        return to_arrow(plan.data.parts, plan.order.selection, names)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """The same as ``to_arrow``, with the same ``columns``, as a ``pandas.DataFrame``."""
        return self.to_arrow(columns).to_pandas()

    def to_batches(
        self, columns: Sequence[str] | None = None, *, batch_size: int | None = None
    ) -> pyarrow.RecordBatchReader:
        """All selected rows as a ``pyarrow.RecordBatchReader``, before sharding and shuffling; DuckDB queries it.

        Blobs and arrays are read ahead by C threads, a few batches at a time (docs/query.md has the types).

        Args:
            columns: names of the columns; by default those of the dataset.
            batch_size: rows in a batch; by default about 8 MB.

        Values are as they are stored: a transform is not called. ValueError where rows have been left out by
        ``exclude``, as of ``to_arrow``.
        """
        from ..frameworks.arrow import to_batches

        self._check_rows_are_samples("to_batches")
        self._cursor.refuse_exclusions("a table")
        names = UNCHANGED if columns is None else self._column_names(columns)
        rows: Any = self.view(columns=names, shuffle=False, shard_id=0, num_shards=1, transform=None)
        return to_batches(rows, batch_size, rows._cursor.plan.row_bytes)
