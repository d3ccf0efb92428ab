"""One batch as a dict of arrays that look into the C loader's memory; batches to samples and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import NativeBatch
from ..format.column import Column
from .ragged import RaggedArray

__all__ = ["BatchBuilder", "collate", "column_value", "items_of", "split_batch", "valid_rows"]

_array = np.ndarray
_NONE = 0xFFFFFFFFFFFFFFFF


class BatchBuilder:
    """Makes the arrays of batches of the given columns.

    Fixed-width columns become arrays [n, …], nullable ones masked arrays in which a null is masked whole; strings
    lists of ``str`` (None where null); blobs of variable width ``RaggedArray``. The arrays are writable views into one
    piece of memory, which stays as long as any of them; masks are copies.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)
        self._plain = all(column.fixed_bytes > 0 and not column.nullable for column in columns)
        self._layouts: dict[int, list[tuple[str, tuple[int, ...], np.dtype[Any], int]]] = {}

    @property
    def build(self) -> Callable[[NativeBatch], dict[str, Any]]:
        """What makes a dict of a batch, in the order of the columns; chosen once for a pass.

        It raises UnicodeDecodeError where a string is not UTF-8.
        """
        return self._build_plain if self._plain else self._build_any

    def _build_any(self, native: NativeBatch) -> dict[str, Any]:
        return {column.name: self._value(column, native, c) for c, column in enumerate(self._columns)}

    def _build_plain(self, native: NativeBatch) -> dict[str, Any]:
        """For columns of fixed width: the places depend on the number of rows alone, and are found once."""
        rows = native.rows
        layout = self._layouts.get(rows)
        if layout is None:
            layout = self._layouts[rows] = [
                (column.name, (rows, *column.item_shape), _dtype(column), native.view(c)[0])
                for c, column in enumerate(self._columns)
            ]
        built, memory = {}, native.memory
        for name, shape, dtype, at in layout:
            built[name] = _array(shape, dtype, memory, at)
        return built

    def _value(self, column: Column, native: NativeBatch, c: int) -> Any:
        data_at, data_bytes, offsets_at, valid_at = native.view(c)
        memory, rows = native.memory, native.rows
        valid = None if valid_at == _NONE else np.ndarray((rows,), np.bool_, memory, valid_at)
        if column.fixed_bytes > 0:
            values = np.ndarray((rows, *column.item_shape), _dtype(column), memory, data_at)
            return column_value(column, values, None, valid)
        data = np.ndarray((data_bytes,), np.uint8, memory, data_at)
        offsets = np.ndarray((rows + 1,), np.int64, memory, offsets_at)
        return column_value(column, data, offsets, valid)


def column_value(
    column: Column, data: NDArray[Any], offsets: NDArray[np.int64] | None, valid: NDArray[np.bool_] | None
) -> Any:
    """What a batch shows for a column: an array [n, …], masked if nullable, a list, or a ``RaggedArray``."""
    if offsets is None:
        return data if valid is None else _masked(data, valid)
    if column.is_string:
        return strings(data, offsets, valid)
    return RaggedArray(column, data, offsets, valid)


def _masked(data: NDArray[Any], valid: NDArray[np.bool_]) -> Any:
    mask = ~valid
    if data.ndim > 1:  # a mask of the same shape, as masked arrays have it
        mask = np.repeat(mask, data[0].size if len(data) else 1).reshape(data.shape)
    return np.ma.MaskedArray(data, mask=mask)


def valid_rows(values: Any) -> NDArray[np.bool_]:
    """bool [n]: which rows of a masked array of a batch have a value."""
    mask = np.ma.getmaskarray(values)
    rows: NDArray[np.bool_] = (
        ~mask.reshape(len(mask), -1)[:, 0] if mask.size else np.ones(len(mask), np.bool_)
    )
    return rows


def _dtype(column: Column) -> np.dtype[Any]:
    dtype = column.dtype
    assert dtype is not None, "columns of fixed width have a dtype"
    return dtype


def strings(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], valid: NDArray[np.bool_] | None
) -> list[str | None]:
    """The strings of a column as a list, None where ``valid`` is False."""
    raw = data.tobytes()
    ends = offsets.tolist()
    values: list[str | None] = [raw[a:b].decode() for a, b in pairwise(ends)]
    if valid is not None:
        for i in np.flatnonzero(~valid).tolist():
            values[i] = None
    return values


def split_batch(batch: Mapping[str, Any], rows: int) -> list[dict[str, Any]]:
    """The samples of a batch, as ``ds[i]`` would give them; arrays look into the batch."""
    columns = items_of(batch)
    names = list(columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)] or [
        {} for _ in range(rows)
    ]


def items_of(batch: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """For each column the list of what its samples have."""
    return {name: _items(value) for name, value in batch.items()}


def _items(value: Any) -> Sequence[Any]:
    if type(value) is np.ndarray:  # first, as it is the most frequent, and as numpy.ma takes long to import
        return list(value)
    if isinstance(value, np.ma.MaskedArray):
        valid = valid_rows(value).tolist()
        return [item if present else None for item, present in zip(value.data, valid, strict=True)]
    if isinstance(value, RaggedArray):
        return value.to_list()
    if isinstance(value, list):
        return value
    return list(value)


def collate(samples: Sequence[Any]) -> Any:
    """Samples as one batch: dicts and tuples field by field, arrays and numbers stacked, else lists."""
    first = samples[0]
    if isinstance(first, Mapping):
        return {key: collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple):
        return tuple(collate(list(field)) for field in zip(*samples, strict=True))
    if isinstance(first, np.ndarray):
        if all(isinstance(item, np.ndarray) and item.shape == first.shape for item in samples):
            return np.stack(samples)
        return list(samples)
    if isinstance(first, (bool, int, float, np.generic)) and all(item is not None for item in samples):
        return np.asarray(samples)
    return list(samples)
