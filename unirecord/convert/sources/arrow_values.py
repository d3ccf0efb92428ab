"""The values of Arrow columns as what `Writer.write_batch` takes, viewed where the memory is laid out alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...format.values.batch import numbers_of, texts_of
from .arrow_types import is_bytes, is_file, is_list, is_text, is_time, plain_storage
from .packages import needed

__all__ = ["arrow_values"]


def arrow_values(array: Any, column: Column, read_file: Callable[[str], bytes] | None = None) -> Any:
    """Return the values of an Arrow array for a column; ``read_file`` reads files that are only named.

    Raises `SchemaError` without the row where values do not fit.
    """
    pa = needed("pyarrow", "Arrow data")
    if (
        isinstance(array.type, pa.BaseExtensionType)
        and hasattr(array, "to_numpy_ndarray")
        and column.is_array
    ) and not array.null_count:
        return array.to_numpy_ndarray()
    array = plain_storage(array)
    kind = array.type
    if column.is_array:
        return _arrays(pa, array, column)
    if column.type == "object":
        return _plain_leaves(pa, array).to_pylist()
    if is_file(pa, kind, None):
        return _files(array, read_file)
    if is_bytes(pa, kind):
        return _cells(pa, array)
    if is_text(pa, kind):
        texts = texts_of(array) if column.type == "string" else None
        if texts is not None:
            return texts
        values = array.to_pylist()
        return [None if v is None else v.encode() for v in values] if column.type == "bytes" else values
    if pa.types.is_decimal(kind):
        return array.cast(pa.string()).to_pylist()
    if is_time(pa, kind):
        array = _nanoseconds(pa, array)
    return _scalars(array)


def _scalars(array: Any) -> Any:
    numbers = numbers_of(array)
    return array.to_pylist() if numbers is None else numbers


def _nanoseconds(pa: Any, array: Any) -> Any:
    """Points in time as nanoseconds since 1970, times of day since midnight, durations as they are."""
    kind = array.type
    try:
        if pa.types.is_timestamp(kind):
            return array.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
        if pa.types.is_date(kind):
            return array.cast(pa.timestamp("ns")).cast(pa.int64())
        if pa.types.is_time(kind):
            return array.cast(pa.time64("ns")).cast(pa.int64())
        return array.cast(pa.duration("ns")).cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise SchemaError(f"{kind} is no whole number of nanoseconds of 64 bits ({error})") from None


def _plain_leaves(pa: Any, array: Any) -> Any:
    """Nested values whose times are nanoseconds and whose decimals are text, as those of columns are."""
    counted, plain = _nested(pa, array.type, last=False), _nested(pa, array.type, last=True)
    if plain == array.type:
        return array
    try:
        return array.cast(counted).cast(plain)
    except pa.ArrowException as error:
        raise SchemaError(f"a value inside {array.type} has no plain form ({error})") from None


def _nested(pa: Any, kind: Any, *, last: bool) -> Any:
    """The type in which leaves are plain; before the ``last`` step times are still those of nanoseconds."""
    types = pa.types
    if types.is_timestamp(kind) or types.is_date(kind):
        return pa.int64() if last else pa.timestamp("ns", getattr(kind, "tz", None))
    if types.is_time(kind) or types.is_duration(kind):
        return pa.int64() if last else pa.time64("ns") if types.is_time(kind) else pa.duration("ns")
    if types.is_decimal(kind):
        return pa.string()
    if types.is_interval(kind):
        raise SchemaError(f"{kind} is no number of nanoseconds, since months differ; convert it")
    if types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([field.with_type(_nested(pa, field.type, last=last)) for field in fields])
    if types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_nested(pa, kind.item_type, last=last)))
    if is_list(pa, kind):
        inner = kind.value_field.with_type(_nested(pa, kind.value_type, last=last))
        if types.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        return pa.large_list(inner) if types.is_large_list(kind) else pa.list_(inner)
    return kind


def _cells(pa: Any, array: Any) -> list[Any]:
    """Bytes as views of the array's memory."""
    if pa.types.is_binary_view(array.type) or pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    wide = pa.types.is_large_binary(array.type)
    _, places, data = array.buffers()
    places = np.frombuffer(
        places, np.int64 if wide else np.int32, len(array) + 1, array.offset * (8 if wide else 4)
    )
    view = memoryview(data) if data is not None else memoryview(b"")
    ends = places.tolist()
    cells: list[Any] = [view[a:b] for a, b in itertools.pairwise(ends)]
    if array.null_count:
        for i in np.flatnonzero(numbers_of(array.is_null())):
            cells[i] = None
    return cells


def _files(array: Any, read_file: Callable[[str], bytes] | None) -> list[Any]:
    cells = _cells(needed("pyarrow", "Arrow data"), array.field("bytes"))
    absent = numbers_of(array.is_null())
    paths: list[str | None] | None = None
    for i, cell in enumerate(cells):
        if absent[i]:
            cells[i] = None
        elif cell is None:
            paths = array.field("path").to_pylist() if paths is None else paths
            path = paths[i]
            if path is not None:
                if read_file is None:
                    raise SchemaError(
                        f"the file {path!r} is named, but its bytes are not there; save the dataset with its files"
                    )
                cells[i] = read_file(path)
    return cells


def _arrays(pa: Any, array: Any, column: Column) -> Any:
    if not is_list(pa, array.type):
        return array.to_pylist()
    if array.null_count and column.nullable:
        found: list[Any] = [None] * len(array)
        present = np.flatnonzero(numbers_of(array.is_valid())).tolist()
        for row, value in zip(present, _arrays(pa, array.drop_null(), column), strict=True):
            found[row] = value
        return found
    if array.null_count:
        row = int(np.flatnonzero(numbers_of(array.is_null()))[0])
        raise SchemaError(
            f"a list is null (the {row + 1}th of its batch); --schema {column.name}=object takes it, "
            f"and so does {column}?"
        )
    sizes, inner = _parts(pa, array)
    flat = _dense(pa, inner)
    if flat is None:
        return [_ragged(row, column) for row in array.to_pylist()]
    if len(sizes) and (sizes == sizes[0]).all():
        return flat.reshape(len(sizes), int(sizes[0]), *flat.shape[1:])
    ends = np.concatenate(([0], np.cumsum(sizes))).tolist()
    return [flat[a:b] for a, b in itertools.pairwise(ends)]


def _parts(pa: Any, array: Any) -> tuple[Any, Any]:
    """The lengths of the lists, and all they hold one after the other."""
    if pa.types.is_fixed_size_list(array.type):
        sizes = np.full(len(array), array.type.list_size, np.int64)
    else:
        sizes = np.diff(numbers_of(array.offsets)).astype(np.int64)
    return sizes, array.flatten()


def _dense(pa: Any, array: Any) -> Any:
    """What lists hold as one array [n, …]; None where inner lists differ in length or a value is null."""
    if array.null_count:
        return None
    if not is_list(pa, array.type):
        numbers = numbers_of(array)
        return array.to_numpy(zero_copy_only=False) if numbers is None else numbers
    sizes, inner = _parts(pa, array)
    flat = _dense(pa, inner)
    if flat is None or (len(sizes) and (sizes != sizes[0]).any()):
        return None
    return flat.reshape(len(sizes), int(sizes[0]) if len(sizes) else 0, *flat.shape[1:])


def _ragged(row: Any, column: Column) -> Any:
    """One row whose inner lists may differ from those of other rows, but not among each other."""
    try:
        found = np.array(row, dtype=column.dtype)
    except (ValueError, TypeError) as error:
        raise SchemaError(
            f"lists of differing lengths, or a null in one; --schema {column.name}=object takes them"
        ) from error
    shape = column.shape or ()
    return found.reshape([0] * len(shape)) if not found.size and found.ndim != len(shape) else found
