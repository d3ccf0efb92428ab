"""Whole columns at a time, from the caller's arrays, lists, tables or rows, to what a page stores."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

import numpy as np

from ...errors import SchemaError, did_you_mean
from ...sizes import many
from ..column import Column
from ..schema import Schema
from .cell import (
    MAX_STRING_BYTES,
    UNITS,
    Encode,
    Refused,
    array_view,
    counted,
    encoder_for,
    expected,
    flat_bytes,
    free_dims_suffix,
    is_time,
    nullable_encoder,
    refusal,
    scalar_format,
    shown,
    time_unit,
)
from .strings import PackedStrings, Texts, UnicodeRefused, unicode_list
from .tensors import array_of

__all__ = [
    "ColumnBatch",
    "ColumnData",
    "RecordEncoder",
    "as_columns",
    "column_from_cells",
    "column_length",
    "encode_column",
    "first_values",
    "numbers_of",
    "texts_of",
    "without_foreign_nulls",
]


# Tables of other libraries (pandas, polars, Arrow) as columns, told by what they have, so that none is imported.


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


# Whole columns at a time, from the caller's arrays and lists or from rows, to what a page stores.


Array = np.ndarray[Any, Any]
Cells = list[bytes | memoryview]


@dataclass
class ColumnData:
    """The values of one column.

    Attributes:
        values: scalars of fixed width, an array [B] of the column's dtype (zero where null); blobs of fixed
            width, uint8 [B, fixed_bytes] in C order; strings, empty where null, as `PackedStrings`; blobs of variable
            width, a list of bytes-like cells. Of compressed columns, a list of the cells as they are stored.
        valid: bool [B] for nullable columns, else None.
        raw_lengths: uint64 [B], bytes of each value before it was compressed; None until it is.
        chunk_lengths: of columns that are cut into chunks and compressed, for each row uint64, the bytes that the
            chunks of its cell take, none where it is one; None until it is.
    """

    values: Array | PackedStrings | Cells
    valid: Array | None = None
    raw_lengths: Array | None = None
    chunk_lengths: list[Array] | None = None

    def part(self, start: int, stop: int) -> ColumnData:
        """Rows [start, stop), as views."""
        return ColumnData(
            self.values[start:stop],
            None if self.valid is None else self.valid[start:stop],
            None if self.raw_lengths is None else self.raw_lengths[start:stop],
            None if self.chunk_lengths is None else self.chunk_lengths[start:stop],
        )


@dataclass
class ColumnBatch:
    """Rows as columns, one `ColumnData` per column of the schema."""

    rows: int
    columns: list[ColumnData]


def column_from_cells(column: Column, cells: Sequence[bytes | memoryview | None]) -> ColumnData:
    """Return a column of these cells, None for null."""
    valid = None
    if column.nullable:
        valid = np.fromiter((cell is not None for cell in cells), np.bool_, len(cells))
        null = bytes(column.fixed_bytes)
        filled: Cells = [null if cell is None else cell for cell in cells]
    else:
        filled = list(cells)  # type: ignore[arg-type]  # only nullable columns have None
    if column.is_string:
        return ColumnData(PackedStrings.of(filled), valid)
    if not column.fixed_bytes:
        return ColumnData(filled, valid)
    joined = b"".join(filled)
    if column.is_blob:
        return ColumnData(np.frombuffer(joined, np.uint8).reshape(len(cells), column.fixed_bytes), valid)
    return ColumnData(np.frombuffer(joined, column.dtype), valid)


def column_length(name: str, values: Any) -> int:
    """Return how many rows a column given to write_batch has."""
    if isinstance(values, str | bytes | bytearray | dict | set) or not hasattr(values, "__len__"):
        raise SchemaError(
            f"column {name!r}: a batch holds a list or array of values per column, got {shown(values)}"
        )
    try:
        return len(values)
    except TypeError:  # an array without dimensions
        raise SchemaError(f"column {name!r}: a batch holds one value per row, got {shown(values)}") from None


def encode_column(column: Column, encode: Encode, values: Any, first_row: int) -> ColumnData:
    """Return a column given as array or list, checked; `SchemaError` names the first row that does not fit."""
    if column.is_string or column.type == "text":
        found = _from_texts(column, _texts(column, values, first_row))
        if found is not None:
            return found
    values = without_foreign_nulls(values)
    if not isinstance(values, list | tuple) and hasattr(values, "__array__"):
        array = _as_array(column, values)
        if is_time(array) and (unit := time_unit(column, array)) is not None:
            array = _times(column, array, unit, first_row)
        if array.dtype != object:
            return _from_array(column, encode, array, first_row)
        values = array.tolist() if array.ndim == 1 else list(array)
    elif not isinstance(values, list | tuple):
        values = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    packed = _pack_texts(column, values) if column.type in ("string", "text") else _pack_plain(column, values)
    if packed is not None:
        return packed
    viewing = _viewing_encoder(column, encode) if column.is_blob and not column.fixed_bytes else encode
    return column_from_cells(column, _encode_each(column, viewing, values, first_row))


def _as_array(column: Column, values: Any) -> Array:
    if isinstance(values, np.ndarray):
        return values
    try:
        array, name = array_of(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SchemaError(
            f"column {column.name!r}: numpy cannot read the {type(values).__name__} ({error})"
        ) from None
    if name == "bfloat16" != column.type:
        raise SchemaError(
            f"column {column.name!r}: expected values of {expected(column)}, got an array of bfloat16; convert it first"
        )
    return array


def _encode_each(
    column: Column, encode: Callable[[Any], Any], values: Sequence[Any], first_row: int
) -> list[Any]:
    encode = nullable_encoder(column, encode)
    cells: list[Any] = []
    value: Any = None
    try:
        for value in values:
            cells.append(encode(value))
    except Refused as refused:
        raise SchemaError(
            f"row {first_row + len(cells)}, column {column.name!r}: {refusal(column, refused, value)}"
        ) from None
    return cells


def _times(column: Column, values: Array, unit: str, first_row: int) -> Array:
    """Return points in time as whole numbers of a unit, NaT masked."""
    numbers, exact = counted(np.ma.getdata(values), unit)
    exact |= np.ma.getmaskarray(values)
    if not exact.all():
        row = int((~exact).argmax())
        raise SchemaError(
            f"row {first_row + row}, column {column.name!r}: {values.dtype} {values.flat[row]} is no whole number of "
            f"{UNITS[unit]} of 64 bits"
        )
    missing = np.isnat(np.ma.getdata(values)) | np.ma.getmaskarray(values)
    return np.ma.MaskedArray(numbers, mask=missing) if missing.any() else numbers


def _pack_plain(column: Column, values: Sequence[Any]) -> ColumnData | None:
    """Pack a list of only Python ints (or floats, or bools) and None; None when it is not one or does not fit."""
    letter = scalar_format(column) or ("?" if column.type == "bool" and column.shape is None else None)
    wanted = float if letter in ("e", "f", "d") else bool if letter == "?" else int
    kinds = set(map(type, values))
    if letter is None or not kinds or not kinds <= ({wanted, type(None)} if column.nullable else {wanted}):
        return None
    valid = None
    if column.nullable:
        valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
        values = values if valid.all() else [wanted() if value is None else value for value in values]
    try:
        packed = struct.pack(f"<{len(values)}{letter}", *values)
    except (struct.error, OverflowError):
        return None  # the slow path finds the row
    return ColumnData(np.frombuffer(packed, column.dtype), valid)


def _pack_texts(column: Column, values: Sequence[Any]) -> ColumnData | None:
    """Pack a list of only str (and None) without a look at each; None when it is not one or does not fit."""
    if column.is_string:
        return _from_texts(column, Texts.of(values, nullable=column.nullable))
    if column.shape is not None or column.nullable or set(map(type, values)) != {str}:
        return None
    try:
        return ColumnData(list(map(str.encode, values)))
    except UnicodeEncodeError:
        return None  # the slow path finds the row


def _texts(column: Column, values: Any, first_row: int) -> Texts | None:
    try:
        return texts_of(values)
    except ValueError as error:  # also what is no UTF-8
        raise SchemaError(f"batch at row {first_row}, column {column.name!r}: {error}") from None


def _from_texts(column: Column, texts: Texts | None) -> ColumnData | None:
    if texts is None or (texts.valid is not None and not column.nullable):
        return None
    if len(texts) and int(texts.strings.sizes.max()) > MAX_STRING_BYTES:
        return None
    valid = texts.valid
    if column.nullable and valid is None:
        valid = np.ones(len(texts), np.bool_)
    return ColumnData(texts.strings if column.is_string else list(texts.strings), valid)


def _viewing_encoder(column: Column, encode: Encode) -> Callable[[Any], bytes | memoryview]:
    """Return an encoder for blobs of variable width that views the caller's memory where it can."""
    if column.type == "bytes" and column.shape is None:
        return flat_bytes
    if column.shape is None or column.free_dims > 1:
        return encode
    shape = column.shape

    def view(value: Any) -> memoryview:
        array = array_view(column, value)
        free_dims_suffix(shape, array.shape)
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data

    return view


def _from_array(column: Column, encode: Encode, values: Array, first_row: int) -> ColumnData:
    if column.shape is not None:
        return _array_rows(column, values, first_row)
    if column.is_blob or column.is_string:
        rows = _rows_of(column, values, first_row)
        return column_from_cells(column, _encode_each(column, encode, rows, first_row))
    return _scalar_values(column, encode, values, first_row)


def _rows_of(column: Column, values: Array, first_row: int) -> list[Any]:
    """Split an array into the values of a string, bytes, text or object column."""
    if values.dtype.kind == "U":
        try:
            found = unicode_list(values.filled("") if isinstance(values, np.ma.MaskedArray) else values)
            return list(values.tolist()) if isinstance(values, np.ma.MaskedArray) else found
        except UnicodeRefused as refused:
            raise SchemaError(f"row {first_row + refused.row}, column {column.name!r}: {refused}") from None
    if isinstance(values, np.ma.MaskedArray):
        return list(values.tolist())  # masked values become None
    if column.type == "bytes" and values.dtype.kind == "S":
        raise SchemaError(
            f"column {column.name!r}: a numpy {values.dtype} array drops zero bytes at the end of values; "
            f"pass a list of bytes"
        )
    return list(values) if column.type == "bytes" else list(values.tolist())


def _array_rows(column: Column, values: Array, first_row: int) -> ColumnData:
    """Return [B, …] as its rows, viewed where the memory is contiguous; a row that is masked whole is null."""
    shape = column.shape or ()
    valid = np.ones(len(values), np.bool_) if column.nullable else None
    if column.nullable and isinstance(values, np.ma.MaskedArray):
        values, valid = _masked_rows(column, values, first_row)
    try:
        array = array_view(column, values)
        suffix = free_dims_suffix(shape, array.shape[1:])
    except Refused as refused:
        raise SchemaError(
            f"batch at row {first_row}, column {column.name!r}: expected rows of "
            f"{expected(column)}, {refused}"
        ) from None
    rows = len(array)
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if column.fixed_bytes:
        return ColumnData(flat.reshape(rows, column.fixed_bytes), valid)
    width = flat.nbytes // rows if rows else 0
    view = flat.data
    cells: Cells = [view[i * width : (i + 1) * width] for i in range(rows)]
    if suffix:
        cells = [b"".join((cell, suffix)) for cell in cells]
    if valid is not None:
        cells = [cell if present else b"" for cell, present in zip(cells, valid.tolist(), strict=True)]
    return ColumnData(cells, valid)


def _masked_rows(column: Column, values: Any, first_row: int) -> tuple[Array, Array]:
    """Return [B, …] with zeros where a row is masked whole, and bool [B]: which rows are not."""
    mask = np.ma.getmaskarray(values)
    inner = tuple(range(1, mask.ndim))
    null: Array = np.any(mask, axis=inner)
    in_part = null & ~mask.all(axis=inner)
    if in_part.any():
        raise SchemaError(
            f"row {first_row + int(in_part.argmax())}, column {column.name!r}: some elements of the array are masked, "
            f"others are not; a value is null as a whole: fill what is masked"
        )
    array = np.array(values.data)
    array[null] = 0
    return array, np.logical_not(null)


def _scalar_values(column: Column, encode: Encode, values: Array, first_row: int) -> ColumnData:
    dtype = column.dtype
    assert dtype is not None
    valid = None
    if isinstance(values, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(values)
        if not column.nullable and masked.any():
            row = first_row + int(masked.argmax())
            raise SchemaError(
                f"row {row}, column {column.name!r}: expected {expected(column)}, got a masked value (null); "
                f'the type "{column.type}?" takes it'
            )
        values, valid = np.where(masked, values.dtype.type(0), values.data), ~masked
    if values.ndim != 1:
        raise SchemaError(
            f"batch at row {first_row}, column {column.name!r}: expected one {column} a row, "
            f"got {shown(values)}"
        )
    if column.nullable and valid is None:
        valid = np.ones(len(values), np.bool_)
    if values.dtype == dtype and column.type != "bool":
        return ColumnData(np.ascontiguousarray(values), valid)
    cast = _cast(column, values)
    if cast is None:  # something does not fit: find the row that says why
        cells = _encode_each(column, encode, list(values), first_row)
        return ColumnData(column_from_cells(column, cells).values, valid)
    return ColumnData(cast, valid)


def _cast(column: Column, values: Array) -> Array | None:
    """Return the values in the column's dtype by the rules for single values, or None if one may not fit."""
    dtype = column.dtype
    assert dtype is not None
    if column.type == "bool":
        # Also turns a byte other than 0 and 1, which a view can smuggle into a bool array, into 1.
        return (values.view(np.uint8) != 0) if values.dtype == np.bool_ else None
    if values.dtype.newbyteorder("<") == dtype:
        return values.astype(dtype)
    kinds = values.dtype.kind + dtype.kind
    if kinds in ("ii", "iu", "ui", "uu"):
        limits = np.iinfo(dtype.name)
        if len(values) and not limits.min <= int(values.min()) <= int(values.max()) <= limits.max:
            return None
        return values.astype(dtype)
    if kinds == "ff":
        with np.errstate(over="ignore"):
            cast = values.astype(dtype)
        return cast if (np.isinf(cast) == np.isinf(values)).all() else None
    if kinds in ("if", "uf"):
        with np.errstate(over="ignore"):
            cast = values.astype(dtype)
        exact = np.isfinite(cast).all() and (cast.astype(np.longdouble) == values.astype(np.longdouble)).all()
        return cast if exact else None
    return None


# Records, one by one or as whole columns, to checked cells; a misfit is named by row and column.


_OBJECT_BYTES: Final = 40  # what Python needs for a cell beside its bytes


class RecordEncoder:
    """Turns records into a schema's columns: collected one by one, or given as whole columns at once.

    Records are collected in one list per column and not in a list each: Python's garbage collector would go through
    those again and again.
    """

    def __init__(
        self, schema: Schema, extra: Literal["error", "ignore"] = "error", *, adds_nulls: bool = False
    ) -> None:
        """``extra`` says what to do with fields that the schema does not have.

        ``adds_nulls``: columns that can be null, and that a record or batch lacks, are null there.
        """
        if extra not in ("error", "ignore"):
            raise ValueError(f'extra is "error" or "ignore", got {extra!r}')
        self.schema = schema
        self._strict = extra == "error"
        self._nulls = dict.fromkeys(c.name for c in schema if c.nullable) if adds_nulls else {}
        self._encoders = [encoder_for(c) for c in schema]
        self._cells: list[list[bytes | None]] = [[] for _ in schema]
        self._bytes = 0
        self._row_bytes = _OBJECT_BYTES * len(self._cells)
        self._plan = tuple(
            (c.name, bytes if c.type == "bytes" else None, nullable_encoder(c, e), cells.append)
            for c, e, cells in zip(schema, self._encoders, self._cells, strict=True)
        )

    @property
    def rows(self) -> int:
        """How many records have been added and not yet taken; the last column says which are complete."""
        return len(self._cells[-1])

    def add(self, record: Mapping[str, Any], first_row: int) -> int:
        """Add a record, and return how much memory those not yet taken hold, about.

        Nothing that is kept shares memory with the record that the caller could change. Raises `SchemaError` naming
        the row (``first_row`` + records not yet taken) and column; a record that is refused leaves nothing.
        """
        size = self._bytes + self._row_bytes
        try:
            extra = self._strict and len(record) != len(self._plan)
            for name, kept, encode, append in self._plan:
                cell = record[name]
                if type(cell) is not kept:  # those of this type are kept as they are
                    cell = encode(cell)
                append(cell)
                if cell is not None:
                    size += len(cell)
        except BaseException as error:
            self._cut(self.rows)
            if isinstance(error, KeyError):
                lacking = [name for name in self.schema.names if name not in record]
                if lacking and all(name in self._nulls for name in lacking):
                    return self.add({**self._nulls, **record}, first_row)
            if isinstance(error, Exception):
                self._explain(record, first_row + self.rows, error)
            raise
        if extra:
            self._cut(self.rows - 1)
            self._refuse_extra(record, f"row {first_row + self.rows}")
        self._bytes = size
        return size

    def take(self) -> ColumnBatch:
        """Return the records added since the last time, as columns."""
        rows = self.rows
        assert all(len(cells) == rows for cells in self._cells)
        columns = [column_from_cells(c, cells) for c, cells in zip(self.schema, self._cells, strict=True)]
        self.clear()
        return ColumnBatch(rows, columns)

    def clear(self) -> None:
        """Forget the records that have not been taken."""
        self._cut(0)
        self._bytes = 0

    def _cut(self, rows: int) -> None:
        for cells in self._cells:
            del cells[rows:]

    def encode_batch(self, batch: Mapping[str, Any], first_row: int) -> ColumnBatch:
        """Return whole columns, given as arrays or lists of one length, ready to store.

        Arrays of fixed width in the column's dtype are checked and passed on without a copy: the result
        **views the caller's memory** and must be used up before control returns to the caller. Nulls are None
        in a list, or masked in a numpy masked array. A DataFrame or table is a batch, too. Raises `SchemaError` naming
        the row (``first_row`` + its place in the batch).
        """
        batch = as_columns(batch)
        if not isinstance(batch, Mapping):
            raise SchemaError(f"a batch is a dict of columns or a DataFrame, got {shown(batch)}")
        names = self.schema.names
        lacking = [name for name in names if name not in batch]
        if lacking and batch and all(name in self._nulls for name in lacking):
            rows = column_length(*next(iter(batch.items())))
            batch = {**batch, **{name: [None] * rows for name in lacking}}
        elif lacking:
            self._refuse_missing(batch, lacking[0], f"batch at row {first_row}")
        if self._strict and len(batch) != len(names):
            self._refuse_extra(batch, f"batch at row {first_row}")
        lengths = {name: column_length(name, batch[name]) for name in names}
        rows = lengths[names[0]]
        for name, length in lengths.items():
            if length != rows:
                raise SchemaError(
                    f"batch at row {first_row}: column {name!r} has {many(length, 'value')}, "
                    f"{names[0]!r} has {rows}"
                )
        columns = [
            encode_column(c, e, batch[c.name], first_row)
            for c, e in zip(self.schema, self._encoders, strict=True)
        ]
        return ColumnBatch(rows, columns)

    def _explain(self, record: Mapping[str, Any], row: int, error: Exception) -> NoReturn:
        """Find which column of a refused record is at fault, and say so."""
        if not isinstance(record, Mapping):
            raise SchemaError(
                f"row {row}: a record is a dict of column names and values, got {shown(record)}"
            ) from None
        for column, (name, _, encode, _) in zip(self.schema, self._plan, strict=True):
            if name not in record:
                self._refuse_missing(record, name, f"row {row}")
            try:
                encode(record[name])
            except Refused as refused:
                raise SchemaError(
                    f"row {row}, column {name!r}: {refusal(column, refused, record[name])}"
                ) from None
        raise error

    def _refuse_missing(self, record: Mapping[str, Any], name: str, place: str) -> NoReturn:
        others = [str(k) for k in record if k not in self.schema]
        hint = did_you_mean(name, others)
        listed = "" if hint else f"; it has {', '.join(repr(k) for k in list(record)[:20]) or 'no columns'}"
        raise SchemaError(f"{place}: column {name!r} is missing{listed}{hint}")

    def _refuse_extra(self, record: Mapping[str, Any], place: str) -> NoReturn:
        extra = next(k for k in record if k not in self.schema)
        raise SchemaError(
            f"{place}: field {extra!r} is not a column{did_you_mean(str(extra), self.schema.names)}; "
            f'remove it, add it to the schema, or pass extra="ignore"'
        )
