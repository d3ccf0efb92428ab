"""Whole columns at a time, from the caller's arrays and lists or from rows, to what a page stores."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import SchemaError
from ..column import Column
from .cell import (
    MAX_STRING_BYTES,
    Encode,
    Refused,
    array_view,
    expected,
    flat_bytes,
    free_dims_suffix,
    nullable_encoder,
    refusal,
    scalar_format,
    shown,
)
from .strings import PackedStrings, Texts, UnicodeRefused, unicode_list
from .tables import texts_of, without_foreign_nulls
from .tensors import array_of
from .times import is_time, nanoseconds

__all__ = ["ColumnBatch", "ColumnData", "column_from_cells", "column_length", "encode_column"]

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
    """

    values: Array | PackedStrings | Cells
    valid: Array | None = None
    raw_lengths: Array | None = None


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
    if column.is_string:
        found = _from_texts(column, _texts(column, values, first_row))
        if found is not None:
            return found
    values = without_foreign_nulls(values)
    if not isinstance(values, list | tuple) and hasattr(values, "__array__"):
        array = _as_array(column, values)
        if is_time(array) and column.type == "int64" and column.shape is None:
            array = _times(column, array, first_row)
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


def _times(column: Column, values: Array, first_row: int) -> Array:
    """Return points in time as nanoseconds, NaT masked."""
    numbers, exact = nanoseconds(values)
    if not exact.all():
        row = int((~exact).argmax())
        raise SchemaError(
            f"row {first_row + row}, column {column.name!r}: {values.dtype} {values.flat[row]} is no whole number of "
            f"nanoseconds of 64 bits"
        )
    missing = np.isnat(values)
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
    return ColumnData(texts.strings, valid)


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
