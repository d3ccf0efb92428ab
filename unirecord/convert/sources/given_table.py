"""Tables in memory as records: pandas and polars DataFrames, Arrow tables, and Hugging Face datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...progress import Progress
from .arrow_table import ArrowSource
from .arrow_types import features_of
from .base import Options, RawBatch, Unit
from .folder_walk import UnreadableError, read_regular_file
from .input_path import InputPath
from .packages import needed

__all__ = ["GivenTable", "is_table"]

_UNIT_ROWS: Final = 16_384
_NEEDS: Final = "a table"


def is_table(given: Any) -> bool:
    """Whether it is a DataFrame, an Arrow table or record batch, or a Hugging Face dataset; none is imported for it."""
    return _is_arrow(given) or _is_frame(given) or _is_hugging_face(given)


def _is_arrow(given: Any) -> bool:
    return hasattr(given, "schema") and hasattr(given, "num_rows") and hasattr(given, "slice")


def _is_frame(given: Any) -> bool:
    return hasattr(given, "columns") and (hasattr(given, "iloc") or hasattr(given, "get_columns"))


def _is_hugging_face(given: Any) -> bool:
    return hasattr(given, "features") and hasattr(given, "with_format") and hasattr(given, "num_rows")


class GivenTable(ArrowSource):
    """A table that a program holds. A pandas index is no column; a float NaN stays NaN and is no null."""

    read_file: Callable[[str], bytes] | None
    units: Sequence[Unit]

    kind: ClassVar[str] = "table"
    about: ClassVar[str] = "a DataFrame, an Arrow table or a Hugging Face dataset"

    def __init__(self, given: Any, options: Options, name: str | None = None) -> None:
        """``given``: the table."""
        self._given = given
        super().__init__(InputPath(name or f"the {type(given).__name__}", ""), options)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Bring the columns into Arrow's form, a Hugging Face dataset's when they are read."""
        self._rows_as_arrow = None
        if _is_hugging_face(self._given):
            self._rows_as_arrow = self._given.with_format("arrow")
            self.read_file = _read_file
            rows = self._given.num_rows
            sample = self._piece(0, min(1000, rows))
            fields = sample.schema
            nulls = {name: self._has_nulls(name) for name in fields.names}
        else:
            self._table = _arrow_table(self._given)
            sample, fields, rows = self._table, self._table.schema, self._table.num_rows
            nulls = {name: bool(self._table.column(name).null_count) for name in fields.names}
        self.units = [
            Unit(
                f"{self.path}, rows from {start}",
                (start, min(_UNIT_ROWS, rows - start)),
                min(_UNIT_ROWS, rows - start),
            )
            for start in range(0, rows, _UNIT_ROWS)
        ]
        self.settle(fields, sample, nulls, options.overrides)

    def _has_nulls(self, name: str) -> bool | None:
        """Of the whole table below a Hugging Face dataset, from which rows may have been chosen."""
        try:
            return bool(self._given.data.column(name).null_count)
        except (AttributeError, KeyError):
            return None

    def said_of_columns(self) -> Mapping[str, Any]:
        """The features of a Hugging Face dataset."""
        if self._rows_as_arrow is None:
            return {}
        return {
            **features_of(getattr(self._given.data, "schema", None) and self._given.data.schema.metadata),
            **_said(self._given.features),
        }

    def _piece(self, start: int, rows: int) -> Any:
        if self._rows_as_arrow is not None:
            return self._rows_as_arrow[start : start + rows]
        return self._table.slice(start, rows)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a range."""
        start, rows = unit.place
        yield from self.raw_batches(self._piece(start, rows), self.path, start)


def _said(features: Any) -> dict[str, Any]:
    try:
        return dict(features.to_dict())
    except AttributeError:
        return {}


def _read_file(path: str) -> bytes:
    try:
        return read_regular_file(path)
    except (UnreadableError, FileNotFoundError) as error:
        raise SchemaError(f"{path} cannot be read: {error}") from None


def _arrow_table(given: Any) -> Any:
    """The table as a `pyarrow.Table`."""
    pa = needed("pyarrow", _NEEDS)
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return given
    names = list(given.columns)
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"the table's column {name!r} is not named by a str; rename it")
        if names.count(name) > 1:
            raise SchemaError(f"the table has several columns called {name!r}; rename them")
    if hasattr(given, "to_arrow"):  # polars
        return given.to_arrow()
    return pa.table({name: _series(pa, name, given[name]) for name in names})


def _series(pa: Any, name: str, series: Any) -> Any:
    values = series.to_numpy() if isinstance(series.dtype, np.dtype) else series
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind != "O":
            return pa.array(values, from_pandas=values.dtype.kind in "mM")
        if isinstance(values, np.ndarray) and any(getattr(v, "ndim", 0) > 1 for v in values):
            values = [v.tolist() if hasattr(v, "tolist") else v for v in values]
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(f"column {name!r}: its values have no common type ({error})") from None
