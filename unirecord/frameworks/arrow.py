"""Rows as a dataset of pyarrow's, of which DuckDB and others ask only the columns and rows that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow
import pyarrow.dataset

from ..dataset.dataset import UniRecordDataset
from .arguments import check_dataset

__all__ = ["dataset"]


def dataset(ds: UniRecordDataset) -> ArrowDataset:
    """Rows as a ``pyarrow.dataset.Dataset``: DuckDB, Polars and pyarrow then read the columns alone that a query is of.

    ``rows = unirecord.arrow.dataset(ds)``, and ``duckdb.sql("select a from rows where b > 3")`` reads ``a`` and ``b``.
    Rows that do not meet the condition are read, and left out by pyarrow; ``ds.view(where=…)`` does not read them.
    They are those of ``ds.to_batches()``.

    Args:
        ds: the dataset; its columns are those of the result.

    Raises:
        TypeError: it is no dataset.
    """
    check_dataset(ds, "unirecord.arrow.dataset(drawn.dataset) has the rows that they have been drawn from")
    return ArrowDataset(ds)


# What stands in the place of files: whoever reads past `scanner` is told so by pyarrow's own error.
_NO_FILE: Final = "unirecord.arrow.dataset(ds) is read by scanner(), to_table() and queries alone"


class ArrowDataset(pyarrow.dataset.FileSystemDataset):  # type: ignore[misc]
    """A dataset whose rows come from `scanner` alone, which pyarrow's ways to read rows ask, and other libraries."""

    def __init__(self, ds: UniRecordDataset, condition: pyarrow.dataset.Expression | None = None) -> None:
        self._ds, self._condition = ds, condition
        files = pyarrow.dataset.IpcFileFormat()
        local = pyarrow.fs.LocalFileSystem()
        super().__init__([files.make_fragment(_NO_FILE, local)], pyarrow.schema(ds), files, local)

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowDataset, (self._ds, self._condition)

    def filter(self, expression: pyarrow.dataset.Expression) -> ArrowDataset:
        """The rows of this one that meet a condition as well."""
        return ArrowDataset(self._ds, expression if self._condition is None else self._condition & expression)

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pyarrow.dataset.Expression | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> ArrowScanner:
        """The rows that meet ``filter``, of these columns; only what both name is read.

        Args:
            columns: names, by default all.
            filter: a condition.
            batch_size: rows that are read at a time; by default about 8 MB.
            **options: what pyarrow's own scanners take beside these, which says how files are read: there are none.

        Raises:
            TypeError: ``columns`` are expressions, which are for a query of the result.
        """
        if isinstance(columns, dict):
            raise TypeError("columns are names here: compute on the table that they give")
        rows = self if filter is None else self.filter(filter)
        return ArrowScanner(
            rows._ds, rows._condition, self.schema.names if columns is None else columns, batch_size
        )


class ArrowScanner:
    """What is read of an `ArrowDataset`, as pyarrow's scanner has it.

    One of pyarrow's own would go on reading on threads of its own once it is left, beyond the end of Python.
    """

    def __init__(
        self,
        ds: UniRecordDataset,
        condition: pyarrow.dataset.Expression | None,
        columns: Sequence[str],
        batch_size: int | None,
    ) -> None:
        self._ds, self._condition, self._batch_size = ds, condition, batch_size
        self.dataset_schema = pyarrow.schema(ds)
        self.projected_schema = pyarrow.schema([self.dataset_schema.field(name) for name in columns])

    def to_reader(self) -> pyarrow.RecordBatchReader:
        """The rows, read as they are asked for."""
        return pyarrow.RecordBatchReader.from_batches(self.projected_schema, self._rows())

    def to_batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The same as record batches."""
        return iter(self.to_reader())

    def to_table(self) -> pyarrow.Table:
        """All rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pyarrow.Table:
        """The first rows."""
        found: list[pyarrow.RecordBatch] = []
        for batch in self._rows():
            found.append(batch.slice(0, num_rows - sum(map(len, found))))
            if sum(map(len, found)) == num_rows:
                break
        return pyarrow.Table.from_batches(found, self.projected_schema)

    def count_rows(self) -> int:
        """How many rows there are."""
        if self._condition is None:
            return self._ds.num_rows
        return sum(map(len, self._rows()))

    def _rows(self) -> Iterator[pyarrow.RecordBatch]:
        names, condition = self.projected_schema.names, self._condition
        read = [name for name in self.dataset_schema.names if name in names or self._asks_for(name)]
        # of no column at all the rows are still counted
        for batch in self._ds.to_batches(read or self.dataset_schema.names[:1], batch_size=self._batch_size):
            found = pyarrow.Table.from_batches([batch])
            if condition is not None:
                found = found.filter(condition)
            yield from found.select(names).combine_chunks().to_batches()

    def _asks_for(self, name: str) -> bool:
        """Whether the condition names a column: it cannot be evaluated without it then."""
        if self._condition is None:
            return False
        try:
            self.dataset_schema.empty_table().drop_columns([name]).filter(self._condition)
        except pyarrow.ArrowInvalid:
            return True
        return False
