"""Tables of other libraries (pandas, polars, Arrow) as columns, told by what they have, so that none is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import SchemaError
from .strings import Texts

__all__ = ["as_columns", "first_values", "numbers_of", "texts_of", "without_foreign_nulls"]

_ARROW_NUMBERS = {
    "halffloat": np.float16, "float": np.float32, "double": np.float64,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip


def as_columns(batch: Any) -> Any:
    """Return a DataFrame or table as a dict of its columns, anything else as it is.

    The index of a pandas DataFrame is no column; ``df.reset_index()`` makes it one.
    """
    if isinstance(batch, Mapping):
        return batch
    if hasattr(batch, "column_names") and hasattr(batch, "column"):  # pyarrow.Table, RecordBatch
        names, column = list(batch.column_names), batch.column
    elif hasattr(batch, "columns") and (hasattr(batch, "iloc") or hasattr(batch, "get_columns")):
        names, column = list(batch.columns), batch.__getitem__  # pandas, polars
    else:
        return batch
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"the table's column {name!r} is not named by a str; rename it")
        if names.count(name) > 1:
            raise SchemaError(f"the table has several columns called {name!r}; rename them")
    return {name: column(name) for name in names}


def without_foreign_nulls(values: Any) -> Any:
    """Return a column of another library that holds nulls as one of objects; its own array turns those into NaN.

    That is so for Arrow, polars, and the nullable types of pandas. Anything else is returned as it is.
    """
    if hasattr(values, "isna") and not isinstance(getattr(values, "dtype", None), np.dtype | type(None)):
        return np.asarray(values.astype(object)) if values.isna().any() else values
    nulls = getattr(values, "null_count", 0)
    if not (nulls() if callable(nulls) else nulls):
        return values
    for to_list in ("to_pylist", "to_list"):
        if hasattr(values, to_list):
            return getattr(values, to_list)()
    return values


def texts_of(values: Any) -> Texts | None:
    """Return the strings of an Arrow array where they lie, and `Texts` as they are; None for anything else.

    Raises `ValueError` where they are no UTF-8, or lie outside of the array.
    """
    if isinstance(values, Texts):
        return values
    if type(values).__module__.partition(".")[0] != "pyarrow":
        return None
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
    kind = str(getattr(values, "type", ""))
    if kind not in ("string", "large_string") or not hasattr(values, "buffers"):
        return None
    valid = None
    if values.null_count:
        values.validate(full=True)
        valid = numbers_of(values.is_valid())
        values = values.fill_null("")
    _, places, data = values.buffers()
    ends = np.zeros(1, np.int64)
    if len(values):
        dtype = np.dtype(np.int32 if kind == "string" else np.int64)
        ends = np.frombuffer(places, dtype, len(values) + 1, values.offset * dtype.itemsize)
    return Texts.of_memory(b"" if data is None else data, ends, valid)


def numbers_of(values: Any) -> Any:
    """Return an Arrow array of numbers or booleans [n] where it lies, read-only; None for any other type.

    With nulls it is a masked copy with 0 in their place. pyarrow's own `to_numpy`, and whatever makes a scalar of
    Arrow, imports pandas where that is installed, which takes a quarter of a second in every process.
    Raises `ValueError` where values lie outside of the array's memory.
    """
    kind, count = str(values.type), len(values)
    dtype = _ARROW_NUMBERS.get(kind)
    if dtype is None and kind != "bool":
        return None
    valid, data = values.buffers()
    if not count:
        return np.zeros(0, dtype or np.bool_)
    if dtype is None:
        numbers = _bits(data, values.offset, count)
    else:
        numbers = np.frombuffer(data, dtype, count, values.offset * np.dtype(dtype).itemsize)
    if not values.null_count:
        numbers.flags.writeable = False
        return numbers
    absent = ~_bits(valid, values.offset, count)
    return np.ma.MaskedArray(np.where(absent, numbers.dtype.type(0), numbers), absent)


def _bits(bitmap: Any, first: int, count: int) -> Any:
    """Bits of an Arrow bitmap, the least significant of a byte first."""
    start, skipped = divmod(first, 8)
    held = np.frombuffer(bitmap, np.uint8, (skipped + count + 7) // 8, start)
    return np.unpackbits(held, count=skipped + count, bitorder="little")[skipped:].view(np.bool_)


def first_values(values: Any, rows: int) -> list[Any]:
    """Return the first values of a column, numpy's where the column has a dtype."""
    head = values.iloc[:rows] if hasattr(values, "iloc") else values[:rows]
    head = without_foreign_nulls(head)
    if hasattr(head, "to_pylist"):
        return list(head.to_pylist())
    if hasattr(head, "to_numpy"):  # a pandas or polars Series
        head = np.asarray(head)
    return list(head)
