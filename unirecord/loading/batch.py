"""Rows as samples and batches: dicts of arrays over C memory, values of different lengths too, or of Python values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ..core import NativeBatch
from ..errors import CorruptionError
from ..format.column import Column
from ..format.meaning import DAYS, as_times
from ..format.values import array_in_cell, decode_cell
from ..sizes import many
from ..snapshot.part_set import Empty, PartSet

if TYPE_CHECKING:
    import torch

    from ..frameworks.torch import RaggedTensor

__all__ = [
    "BatchBuilder",
    "IS_PAD",
    "RaggedArray",
    "RowNumbers",
    "SampleReader",
    "StepCounts",
    "StepsWithNulls",
    "Told",
    "WhereFrom",
    "bytes_of",
    "collate",
    "column_value",
    "items_of",
    "put_steps",
    "split_batch",
    "valid_rows",
]


# One batch as a dict of arrays that look into the C loader's memory, values of different lengths too.


# Values of different lengths in one batch: one buffer and the places where each value starts.


class RaggedArray:
    """The values of a column of variable width for the rows of a batch.

    ``ragged[i]`` is a memoryview for ``bytes``, a str for ``text``, an array that looks into the batch for
    arrays, and the object for ``object``; None where null. Everything stays good as long as it is referenced,
    whatever the loader does next.

    Attributes:
        column: the ``Column`` of the schema.
        data: uint8[total], the values one after the other.
        offsets: int64[n + 1], in bytes: value i is ``data[offsets[i]:offsets[i + 1]]``, which is empty where null.
        valid: bool[n], False where null, or None for a column that is not nullable.
    """

    __slots__ = ("column", "data", "offsets", "valid")

    def __init__(
        self,
        column: Column,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        valid: NDArray[np.bool_] | None = None,
    ) -> None:
        self.column: Column = column
        self.data: NDArray[np.uint8] = data
        self.offsets: NDArray[np.int64] = offsets
        self.valid: NDArray[np.bool_] | None = valid

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each value, int64[n]."""
        lengths: NDArray[np.int64] = np.diff(self.offsets)
        return lengths

    @property
    def values(self) -> NDArray[Any]:
        """The elements of all values, one value after the other, [total, …]; those of bytes are uint8.

        It looks into the batch. TypeError for text, objects, and arrays whose first dimension is not the only free one.
        """
        dtype, inner, _ = self._elements()
        return np.require(self.data, requirements=["A", "W"]).view(dtype).reshape(-1, *inner)

    @property
    def element_offsets(self) -> NDArray[np.int64]:
        """Where each value starts in ``values``, int64[n + 1]: value i is ``values[offsets[i]:offsets[i + 1]]``."""
        _, _, size = self._elements()
        offsets, rest = np.divmod(self.offsets, size)
        if rest.any():
            value = int(np.flatnonzero(rest)[0]) - 1
            raise CorruptionError(
                f"column {self.column.name!r}: value {value} of the batch has "
                f"{many(self.lengths[value], 'byte')}, no whole "
                f"number of {size}-byte entries",
                column=self.column.name,
            )
        return offsets

    @property
    def element_lengths(self) -> NDArray[np.int64]:
        """How many elements each value has along its free dimension, int64[n]; 0 where null."""
        lengths: NDArray[np.int64] = np.diff(self.element_offsets)
        return lengths

    def mask(self, length: int | None = None) -> NDArray[np.bool_]:
        """Which places of ``pad()`` hold an element: bool [n, length], the attention mask of padded tokens.

        Args:
            length: of the free dimension; by default the longest value's. ValueError where a value is longer.
        """
        lengths = self.element_lengths
        longest = int(lengths.max(initial=0))
        if length is not None and length < longest:
            raise ValueError(
                f"column {self.column.name!r}: values of up to {many(longest, 'element', 'do')} not fit {length}"
            )
        within: NDArray[np.bool_] = np.arange(longest if length is None else length) < lengths[:, None]
        return within

    def _elements(self) -> tuple[np.dtype[Any], tuple[int, ...], int]:
        """Type, shape and bytes of what lies along the free dimension."""
        column = self.column
        if not column.is_array and column.type == "bytes":
            return np.dtype(np.uint8), (), 1
        shape, dtype = column.shape or (), column.dtype
        if dtype is None or column.free_dims != 1 or shape[0] != -1:
            raise TypeError(
                f"column {column.name!r} is {column.spec!r}: only bytes, and arrays whose first dimension alone is "
                "free, are one run of elements"
            )
        return dtype, shape[1:], dtype.itemsize * math.prod(shape[1:])

    def to_torch(self, dtype: torch.dtype | None = None) -> RaggedTensor:
        """The values as one tensor with the places where each begins, over the memory of the batch.

        Args:
            dtype: of the elements, such as ``torch.int64`` for tokens stored as ``uint16`` or ``uint32``, which
                embeddings do not take; by default their own. ValueError where a value does not fit.
        """
        from ..frameworks.torch import ragged_tensor

        return ragged_tensor(self, dtype)

    def to(self, device: Any, dtype: torch.dtype | None = None) -> RaggedTensor:
        """``to_torch(dtype)`` on ``device``."""
        return self.to_torch(dtype).to(device)

    def cell(self, i: int) -> memoryview:
        """The stored bytes of value ``i``, as a memoryview, empty where null; IndexError when there is none."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"value {i} of a batch of {len(self)}")
        i %= len(self)
        return memoryview(self.data)[self.offsets[i] : self.offsets[i + 1]]

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> list[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        cell = self.cell(i)
        if self.valid is not None and not self.valid[i]:
            return None
        if self.column.type == "bytes" and not self.column.is_array:
            return cell
        if self.column.is_array:
            return array_in_cell(self.column, cell)
        return decode_cell(self.column, cell)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def to_list(self) -> list[Any]:
        """The values as a list: ``bytes``, ``str``, arrays with memory of their own, or objects; None where null."""
        valid = [True] * len(self) if self.valid is None else self.valid.tolist()
        return [
            decode_cell(self.column, self.cell(i)) if present else None for i, present in enumerate(valid)
        ]

    def pad(self, value: Any = 0, *, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """One array [n, …] of all values, each filled up with ``value``, nulls whole; bytes become uint8[n, length].

        Args:
            value: what stands where a value has ended.
            shape: the shape of each value; by default the greatest size of each free dimension.

        Raises:
            TypeError: text and objects cannot be padded.
            ValueError: a value is larger than ``shape``.
        """
        if not self.column.is_array and self.column.type != "bytes":
            raise TypeError(
                f"column {self.column.name!r} is {self.column.type}: only arrays and bytes can be padded"
            )
        items = [
            (array_in_cell(self.column, cell) if self.column.is_array else np.frombuffer(cell, np.uint8))
            if self.valid is None or self.valid[i]
            else None
            for i, cell in enumerate(map(self.cell, range(len(self))))
        ]
        present = [item for item in items if item is not None]
        declared = self.column.shape or (-1,)
        rank = len(declared)
        largest = tuple(
            max((item.shape[d] for item in present), default=max(size, 0)) for d, size in enumerate(declared)
        )
        target = shape if shape is not None else largest
        if len(target) != rank or any(have > want for have, want in zip(largest, target, strict=True)):
            raise ValueError(f"column {self.column.name!r}: values of up to {largest} do not fit {target}")
        dtype = present[0].dtype if present else (self.column.dtype or np.dtype(np.uint8))
        padded = np.full((len(items), *target), value, dtype)
        for row, item in zip(padded, items, strict=True):
            if item is not None:
                row[tuple(slice(size) for size in item.shape)] = item
        return padded

    def __repr__(self) -> str:
        size = many(len(self.data), "byte")
        return (
            f"RaggedArray({self.column.name!r}: {many(len(self), 'value')} of {self.column.spec!r}, {size})"
        )


# One batch as a dict of arrays that look into the C loader's memory; batches to samples and back.


IS_PAD: Final = ".is_pad"  # behind a column's name: where a sequence has no row at a step

_array = np.ndarray
_NONE = 0xFFFFFFFFFFFFFFFF


class BatchBuilder:
    """Makes the arrays of batches of the given columns.

    Fixed-width columns become arrays [n, …], nullable ones masked arrays in which a null is masked whole; strings
    lists of ``str`` (None where null); blobs of variable width ``RaggedArray``. The arrays are writable views into one
    piece of memory, which stays as long as any of them; masks are copies.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        places: Mapping[int, Column] | None = None,
        steps: StepCounts | None = None,
    ) -> None:
        """``places``: of columns of which crops are taken, by number: the column of batches with their places.

        ``steps``: those of a sequence.
        """
        self._columns = tuple(columns)
        self._places = places or {}
        self._steps = steps
        self._plain = not self._places and all(
            column.fixed_bytes > 0 and not column.nullable and column.time_dtype != DAYS for column in columns
        )
        self._layouts: dict[int, list[tuple[str, tuple[int, ...], np.dtype[Any], int]]] = {}

    @property
    def build(self) -> Callable[[NativeBatch], dict[str, Any]]:
        """What makes a dict of a batch, in the order of the columns; chosen once for a pass.

        It raises UnicodeDecodeError where a string is not UTF-8.
        """
        return self._build_plain if self._plain else self._build_any

    def _build_any(self, native: NativeBatch) -> dict[str, Any]:
        if self._steps is not None:
            return self._build_steps(native, self._steps)
        built = {column.name: self._value(column, native, c) for c, column in enumerate(self._columns)}
        for c, column in self._places.items():
            built[column.name] = native.starts(c, *column.item_shape)
        return built

    def _build_plain(self, native: NativeBatch) -> dict[str, Any]:
        """For columns of fixed width: the places depend on the number of rows alone, and are found once."""
        rows = native.rows
        layout = self._layouts.get(rows)
        if layout is None:
            layout = self._layouts[rows] = self._layout(native, rows)
        built, memory = {}, native.memory
        for name, shape, dtype, at in layout:
            built[name] = _array(shape, dtype, memory, at)
        return built

    def _layout(
        self, native: NativeBatch, rows: int
    ) -> list[tuple[str, tuple[int, ...], np.dtype[Any], int]]:
        """Name, shape, dtype and place of each array."""
        layout: list[tuple[str, tuple[int, ...], np.dtype[Any], int]] = []
        for c, column in enumerate(self._columns):
            count = None if self._steps is None else self._steps.counts[c]
            shape = (rows,) if count is None else (rows, count)
            dtype = column.time_dtype or _dtype(column)
            layout.append((column.name, (*shape, *column.item_shape), dtype, native.view(c)[0]))
            if count is not None:
                layout.append((f"{column.name}{IS_PAD}", shape, np.dtype(np.bool_), native.missing_at(c)))
        return layout

    def _build_steps(self, native: NativeBatch, steps: StepCounts) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for c, (column, count) in enumerate(zip(self._columns, steps.counts, strict=True)):
            missing = None
            if count is not None:
                shape = native.rows, count
                missing = np.ndarray(shape, np.bool_, native.memory, native.missing_at(c))
            present = ~missing.ravel() if missing is not None and steps.blank else None
            put_steps(built, column.name, self._value(column, native, c, count or 1, present), missing)
        return built

    def _value(
        self,
        column: Column,
        native: NativeBatch,
        c: int,
        steps: int = 1,
        present: NDArray[np.bool_] | None = None,
    ) -> Any:
        """A column, of ``steps`` values of each row; of variable width, only those ``present`` are values."""
        data_at, data_bytes, offsets_at, valid_at = native.view(c)
        memory, rows = native.memory, native.rows * steps
        valid = None if valid_at == _NONE else np.ndarray((rows,), np.bool_, memory, valid_at)
        if column.fixed_bytes > 0:
            values = np.ndarray((rows, *column.item_shape), _dtype(column), memory, data_at)
            return column_value(column, as_times(values, column.time_dtype), None, valid)
        data = np.ndarray((data_bytes,), np.uint8, memory, data_at)
        offsets = np.ndarray((rows + 1,), np.int64, memory, offsets_at)
        return column_value(column, data, offsets, present if valid is None else valid)


class StepCounts(NamedTuple):
    """How many values a sample of a sequence has of each column, None for the anchor's alone.

    ``blank``: what is missing is zero, or None, and no row's.
    """

    counts: tuple[int | None, ...]
    blank: bool


class StepsWithNulls(np.ma.MaskedArray[Any, Any]):
    """The values of a nullable column at the steps of a sequence, [n, steps, …]: each may be null, no row is."""


def put_steps(built: dict[str, Any], name: str, values: Any, missing: NDArray[np.bool_] | None) -> None:
    """Puts values at the steps of a sequence, one row's after the other's, and ``missing`` [n, steps] into a batch.

    Without ``missing`` they are of one step, that of the anchor.
    """
    if missing is None:
        built[name] = values
        return
    rows, steps = missing.shape
    if isinstance(values, np.ndarray):
        shaped = values.reshape(rows, steps, *values.shape[1:])
        built[name] = shaped.view(StepsWithNulls) if isinstance(values, np.ma.MaskedArray) else shaped
    else:
        items = _items(values)
        built[name] = [list(items[i : i + steps]) for i in range(0, rows * steps, steps)]
    built[f"{name}{IS_PAD}"] = missing


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
    """bool [n]: which rows of a masked array of a batch have a value; at the steps of a sequence bool [n, steps]."""
    mask = np.ma.getmaskarray(values)
    of = mask.shape[: 2 if isinstance(values, StepsWithNulls) else 1]
    rows: NDArray[np.bool_] = ~mask.reshape(*of, -1)[..., 0] if mask.size else np.ones(of, np.bool_)
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
    if isinstance(value, StepsWithNulls):
        return [value[i] for i in range(len(value))]
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


def bytes_of(value: Any, depth: int = 3) -> int:
    """Bytes of the arrays and strings of one element, about."""
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(value, (bytes, str)):
        return len(value)
    data = getattr(value, "data", None)  # of a RaggedArray
    if data is not None:
        return bytes_of(data, 0)
    if depth:
        if isinstance(value, Mapping):
            return sum(bytes_of(item, depth - 1) for item in value.values())
        if isinstance(value, (list, tuple)) and value:
            return bytes_of(value[0], depth - 1) * len(value)
    return 8


# Rows of parts as samples: dicts of Python and numpy values, one, many, or a batch of arrays.


# Columns that are made of the numbers of rows, and not stored: the number itself, and which source of a mixture a row
# is of.


class RowNumbers:
    """The column ``row``: for each row its number in the dataset, as conditions know it."""

    column: Final = "row"
    type: Final = "int64"

    def add_one(self, sample: dict[str, Any], row: int) -> None:
        """Puts a row's number into its sample."""
        sample[self.column] = np.int64(row)

    def add(self, batch: dict[str, Any], rows: NDArray[np.int64]) -> None:
        """Puts the numbers of these rows into their batch."""
        batch[self.column] = rows.copy()


class WhereFrom:
    """The column ``column``: for each row the name of its source. Source i has the rows from ``first_rows[i]`` on."""

    type: Final = "string"

    def __init__(self, column: str, names: Sequence[str], first_rows: Sequence[int]) -> None:
        self.column = column
        self.names: tuple[str, ...] = tuple(names)
        self._names = np.array(names, object)
        self._first_rows = np.array(first_rows, np.int64)

    def ranges(self) -> Iterator[tuple[str, int]]:
        """The name of each source, and its first row."""
        return zip(self.names, self._first_rows.tolist(), strict=True)

    def add_one(self, sample: dict[str, Any], row: int) -> None:
        """Puts the name of a row's source into its sample."""
        sample[self.column] = self.names[int(np.searchsorted(self._first_rows, row, side="right")) - 1]

    def add(self, batch: dict[str, Any], rows: NDArray[np.int64]) -> None:
        """Puts the names of the sources of these rows into their batch, as a list."""
        batch[self.column] = self._names[np.searchsorted(self._first_rows, rows, side="right") - 1].tolist()


Told = RowNumbers | WhereFrom
Decode = Callable[[Any], Any]
Read = TypeVar("Read")


class SampleReader:
    """Reads chosen columns of a set of parts, and adds what is told of a row by its number. Thread-safe."""

    def __init__(
        self,
        parts: PartSet,
        columns: Sequence[tuple[int, Column]],
        told: Sequence[Told] = (),
        times: bool = False,
    ) -> None:
        """``times``: columns have their `Column.time_dtype`; else all values are as they are stored."""
        self._parts = parts
        self._told = told
        self._reader = parts.reader([ordinal for ordinal, _ in columns])
        self._columns = [column for _, column in columns]
        self._times = [column.time_dtype if times else None for column in self._columns]
        decoders = [
            (column.name, _decoder(column) if time is None else partial(as_times, dtype=time))
            for column, time in zip(self._columns, self._times, strict=True)
        ]
        self._decoders = [(name, decode) for name, decode in decoders if decode is not None]

    def one_by_one(self) -> Callable[[int], dict[str, Any]]:
        """What reads the sample of one row as `one` does, past what these columns have no need of."""
        return self.one if self._decoders or self._told else self._reader.read_one

    def one(self, row: int) -> dict[str, Any]:
        """The sample of one row."""
        sample = self._reader.read_one(row)
        for name, decode in self._decoders:
            stored = sample[name]
            if stored is None:
                continue
            try:
                sample[name] = decode(stored)
            except (CorruptionError, UnicodeDecodeError) as error:
                raise self._placed(error, row, name) from error
        for told in self._told:
            told.add_one(sample, row)
        return sample

    def many(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        """The samples of these rows, read with one call; their arrays are pieces of one block of memory."""
        return split_batch(self.batch(rows), len(rows))

    def placing(self, rows: NDArray[np.int64], read: Callable[[], Read]) -> Read:
        """What ``read`` makes of the rows; one that cannot be decoded is named."""
        try:
            return read()
        except (CorruptionError, UnicodeDecodeError) as error:
            if isinstance(error, CorruptionError) and error.path is not None:
                raise
            for row in rows.tolist():  # finds the row that cannot be decoded
                self.one(row)
            raise

    def batch(self, rows: NDArray[np.int64], empty: Empty = np.empty) -> dict[str, Any]:
        """These rows as a dict of arrays, as ``UniRecordDataset.batches`` gives them; ``empty`` makes their memory.

        One that cannot be decoded is named.
        """
        return self.placing(rows, lambda: self._batch(rows, empty))

    def _batch(self, rows: NDArray[np.int64], empty: Empty) -> dict[str, Any]:
        results = self._reader.read(rows, empty)
        batch = {
            column.name: column_value(column, as_times(result.data, time), result.offsets, result.valid)
            for column, time, result in zip(self._columns, self._times, results, strict=True)
        }
        for told in self._told:
            told.add(batch, rows)
        return batch

    def _placed(self, error: Exception, row: int, column: str) -> CorruptionError:
        """The error for a row whose digests hold but whose bytes no writer of ours would have written."""
        path, row_in_part = self._parts.locate(row)
        message = f"{path}: row {row_in_part}, column {column!r}: {error}"
        return CorruptionError(message, path=path, row=row_in_part, column=column)


def _decoder(column: Column) -> Decode | None:
    """Stored bytes of one value to the value; None: they are the value."""
    if column.fixed_bytes:
        return None
    if column.is_array:
        return lambda cell: decode_cell(column, cell)
    if column.is_string or column.type == "text":
        return bytes.decode
    if column.type == "bytes":
        return None
    return lambda cell: decode_cell(column, cell)  # an object
