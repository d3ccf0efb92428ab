"""Rows as Arrow: scalar columns as a table from the index alone, any columns as a stream of record batches."""

from __future__ import annotations

import json
from _thread import interrupt_main
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from threading import Timer
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError, MissingError, SchemaError
from ..format.arrow_types import TYPE_KEY, arrow_type, as_arrow
from ..format.column import ARROW_KEY, LOGICAL_KEY, Column
from ..format.meaning import as_stored
from ..format.nested import nested_array
from ..format.values.objects import base64_text, object_text
from ..loading.batch import RaggedArray, valid_rows
from ..order.selection import Selection
from ..query.columns import scalar_arrays
from ..snapshot.part_set import PartSet

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "arrow_array",
    "arrow_schema",
    "rows_of_a_batch",
    "scalar_batches",
    "schema_capsule",
    "shared_columns",
    "stored_array",
    "stream_capsule",
    "to_arrow",
    "to_batches",
]


# Columns of a batch as Arrow arrays: their types, nulls, and arrays as lists, one level for each dimension.


# By which Polars knows an Enum: the length of each name in UTF-8, and the name.
_ENUM_KEY: Final = b"_PL_ENUM_VALUES2"
_COMPLEX: Final = {"complex64": "float32", "complex128": "float64"}  # as pairs: real, imaginary


def arrow_schema(columns: Sequence[Column]) -> pyarrow.Schema:
    """The Arrow schema of columns; the fields' metadata have types that Arrow has not, and what was said of columns."""
    import pyarrow

    return pyarrow.schema([_field(column) for column in columns])


def _field(column: Column) -> pyarrow.Field:
    import pyarrow

    kind, said, own = _type(column), column.wire_annotations, arrow_type(column)
    # The names of classes stay: files have of a dictionary what occurs, in the order in which it does.
    if own is not None and column.dictionary is None:
        said.pop(LOGICAL_KEY, None)
    plain = kind == own if own is not None else not column.is_array and column.type != "object"
    metadata = {} if plain and column.dictionary is None else {TYPE_KEY: str(column).encode()}
    if column.classes is not None and column.dictionary is not None:
        metadata[_ENUM_KEY] = "".join(f"{len(name.encode())};{name}" for name in column.classes).encode()
    if said:
        metadata[ARROW_KEY] = json.dumps(said, ensure_ascii=False).encode()
    nested = column.nested
    is_class = column.dictionary is not None and not column.is_string
    nullable = column.nullable or is_class or (nested is not None and nested.nullable)
    return pyarrow.field(column.name, kind, nullable=nullable, metadata=metadata or None)


def _type(column: Column) -> pyarrow.DataType:
    import pyarrow

    column.check_known()
    kind = arrow_type(column)
    if kind is not None and (not column.is_array or pyarrow.types.is_decimal(kind)):
        return kind
    if not column.is_array:
        named = {
            "string": pyarrow.string(),
            "text": pyarrow.large_string(),
            "bytes": pyarrow.large_binary(),
            "object": pyarrow.large_string(),
        }
        return named.get(column.type) or pyarrow.from_numpy_dtype(column.dtype)
    found = _element(column)
    for size in reversed(_dims(column)):
        found = pyarrow.large_list(found) if size == -1 else pyarrow.list_(found, size)
    return found


def _element(column: Column) -> pyarrow.DataType:
    import pyarrow

    return arrow_type(column) or pyarrow.from_numpy_dtype(np.dtype(_COMPLEX.get(column.type) or column.dtype))


def _dims(column: Column) -> tuple[int, ...]:
    return (*column.item_shape, 2) if column.type in _COMPLEX else column.item_shape


def arrow_array(column: Column, values: Any) -> pyarrow.Array:
    """The values of a batch as an Arrow array; numbers, times, bytes and text share the batch's memory."""
    import pyarrow

    kind, stored = arrow_type(column), stored_array(column, values)
    if kind is None or column.nested is not None or (column.is_array and not pyarrow.types.is_decimal(kind)):
        return stored
    return as_arrow(column, stored, kind)


def stored_array(column: Column, values: Any) -> pyarrow.Array:
    """The same of the stored type, but for times in arrays."""
    import pyarrow

    values = as_stored(values)
    if isinstance(values, RaggedArray):
        return _with_nulls(_ragged(column, values), values.valid)
    if column.is_array:
        valid = valid_rows(values) if isinstance(values, np.ma.MaskedArray) else None
        return _with_nulls(_lists(column, np.ma.getdata(values).reshape(-1), {}), valid)
    if column.is_string:
        return pyarrow.array(values, pyarrow.string())
    if isinstance(values, np.ma.MaskedArray):
        return pyarrow.array(values.data, mask=np.ma.getmaskarray(values))
    return pyarrow.array(values)


def _with_nulls(found: pyarrow.Array, valid: NDArray[np.bool_] | None) -> pyarrow.Array:
    """The same array, null where ``valid`` is False; what stands there is not looked at any more."""
    import pyarrow

    if valid is None or valid.all() or found.null_count:
        return found
    bits = pyarrow.py_buffer(np.packbits(valid, bitorder="little"))
    kind = found.type
    lists = pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)
    own = 1 if pyarrow.types.is_fixed_size_list(kind) else 2 if lists else 3  # buffers of the array itself
    children = [found.values] if lists else None
    return pyarrow.Array.from_buffers(
        kind, len(found), [bits, *found.buffers()[1:own]], int((~valid).sum()), 0, children
    )


def _ragged(column: Column, values: RaggedArray) -> pyarrow.Array:
    import pyarrow

    if column.is_array:
        return _ragged_lists(column, values)
    nested = column.nested
    if nested is not None:
        return nested_array(column.name, nested, values.to_list(), column.nullable)
    if column.type == "object":
        texts = [
            None if item is None and column.nullable else object_text(item, base64_text)
            for item in values.to_list()
        ]
        return pyarrow.array(texts, pyarrow.large_string())
    kind = pyarrow.large_string() if column.type == "text" else pyarrow.large_binary()
    buffers = [None, pyarrow.py_buffer(values.offsets), pyarrow.py_buffer(values.data)]
    found = pyarrow.LargeBinaryArray.from_buffers(kind, len(values), buffers)
    if column.type == "text":
        try:
            found.validate(full=True)
        except pyarrow.ArrowInvalid as error:
            raise CorruptionError(
                f"column {column.name!r}: a text is not valid UTF-8 ({error})", column=column.name
            ) from None
    return found


def _ragged_lists(column: Column, values: RaggedArray) -> pyarrow.Array:
    """Arrays with free dimensions: by arithmetic where only the first is free, else value by value."""
    dtype, shape = column.dtype, column.item_shape
    assert dtype is not None
    if column.free_dims == 1 and shape[0] == -1:
        return _lists(column, values.values.reshape(-1), {0: values.element_offsets})
    nothing = np.zeros([max(size, 0) for size in shape], dtype)
    items = [nothing if item is None else item for item in values]
    flat = np.concatenate([np.zeros(0, dtype), *(item.reshape(-1) for item in items)])
    return _lists(column, flat, _list_offsets(shape, items))


def _list_offsets(shape: tuple[int, ...], items: Sequence[NDArray[Any]]) -> dict[int, NDArray[np.int64]]:
    """For each free dimension the places at which its lists begin."""
    shapes = np.array([item.shape for item in items], np.int64).reshape(len(items), len(shape))
    lists = np.ones(len(items), np.int64)  # how many lists of this dimension a value has
    offsets = {}
    for level, size in enumerate(shape):
        if size == -1:
            lengths = np.repeat(shapes[:, level], lists)
            offsets[level] = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        lists = lists * shapes[:, level]
    return offsets


def _lists(column: Column, flat: NDArray[Any], offsets: dict[int, NDArray[np.int64]]) -> pyarrow.Array:
    """Nested lists over flat elements; ``offsets``: for each free dimension, where its lists begin."""
    import pyarrow

    if column.type in _COMPLEX:
        flat = np.ascontiguousarray(flat).view(_COMPLEX[column.type])
    found, kind = pyarrow.array(flat), arrow_type(column)
    if kind is not None and not pyarrow.types.is_decimal(kind):
        found = found.view(kind)
    for level, size in reversed(list(enumerate(_dims(column)))):
        if size == -1:
            found = pyarrow.LargeListArray.from_arrays(pyarrow.array(offsets[level]), found)
        else:
            found = pyarrow.FixedSizeListArray.from_arrays(found, size)
    return found


_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 1 << 16


def to_arrow(parts: PartSet, selection: Selection, names: Sequence[str]) -> pyarrow.Table:
    """The columns as a table; arrays are shared with the mapped index, strings and bools are copied."""
    check_pyarrow("A table")
    import pyarrow

    found = scalar_arrays(parts, names, selection)
    columns = [parts.schema[name] for name in found]
    arrays = [arrow_array(column, found[column.name]) for column in columns]
    return pyarrow.Table.from_arrays(arrays, schema=arrow_schema(columns))


def rows_of_a_batch(batch_size: int | None, row_bytes: float) -> int:
    """As many rows as asked for, or as are about 8 MB where an average row has ``row_bytes``."""
    if batch_size is not None:
        return batch_size
    return max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / max(row_bytes, 1.0))))


def shared_columns(columns: Sequence[Column], parts: PartSet, selection: Selection) -> list[str]:
    """Which of these columns are taken from the index as they lie: those of fixed width, of rows that are a run."""
    if not selection.is_range or selection.step != 1 or parts.is_fetched:
        return []
    return [column.name for column in columns if not column.is_blob and not column.is_string]


def scalar_batches(
    parts: PartSet, names: Sequence[str], selection: Selection, size: int
) -> Iterator[dict[str, Any]]:
    """Scalar columns of so many rows at a time, from the index alone."""
    for first in range(0, len(selection), size):
        yield scalar_arrays(parts, names, selection.slice(slice(first, first + size)))


def to_batches(columns: Sequence[Column], *batches: Iterable[dict[str, Any]]) -> pyarrow.RecordBatchReader:
    """Batches of the same rows, side by side, as record batches; docs/exporting.md has the types."""
    check_pyarrow("Record batches")
    import pyarrow

    schema = arrow_schema(columns)

    def record_batches() -> Iterator[pyarrow.RecordBatch]:
        for beside in zip(*batches, strict=True):
            batch = {name: values for one in beside for name, values in one.items()}
            arrays = [arrow_array(column, batch[column.name]) for column in columns]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)

    return pyarrow.RecordBatchReader.from_batches(schema, record_batches())


# What other libraries ask of whatever gives Arrow's columns: PyCapsules (Arrow's C data interface).


_UNTIL_RAISED: Final = 0.1  # seconds


def schema_capsule(columns: Sequence[Column]) -> object:
    """The types of columns, as ``__arrow_c_schema__`` gives them."""
    check_pyarrow("The Arrow schema of a dataset")
    return arrow_schema(columns).__arrow_c_schema__()


def stream_capsule(reader: pyarrow.RecordBatchReader, requested_schema: object | None) -> object:
    """What a reader gives, as ``__arrow_c_stream__`` gives it: read as it is asked for.

    ``requested_schema``: the capsule of a schema of the same names; types that values have no way to stay ours.
    SchemaError for other names.
    """
    import pyarrow

    own = schema = reader.schema
    if requested_schema is not None:
        schema = _as_requested(own, pyarrow.Schema._import_from_c_capsule(requested_schema))

    def record_batches() -> Iterator[pyarrow.RecordBatch]:
        try:
            for batch in reader:
                yield batch if schema is own else _cast(batch, schema)
        except KeyboardInterrupt:
            # Of an error the interface hands on the text alone, so Ctrl-C would be another library's error, and be
            # lost. It comes again once that has been raised; while it is put into words, an interrupt is lost as well.
            again = Timer(_UNTIL_RAISED, interrupt_main)
            again.daemon = True
            again.start()
            raise KeyboardInterrupt("reading was interrupted") from None

    return pyarrow.RecordBatchReader.from_batches(schema, record_batches()).__arrow_c_stream__()


def _as_requested(schema: pyarrow.Schema, requested: pyarrow.Schema) -> pyarrow.Schema:
    import pyarrow

    if requested.names != schema.names:
        raise SchemaError(
            f"the columns are {schema.names}, and the requested schema names {requested.names}: a request chooses "
            "types, and columns are chosen by ds.view(columns=[…])"
        )

    def nearest(own: pyarrow.Field, asked: pyarrow.Field) -> pyarrow.Field:
        with suppress(pyarrow.ArrowException):
            return own.with_type(pyarrow.nulls(0, own.type).cast(asked.type).type)
        return own

    fields = [nearest(own, asked) for own, asked in zip(schema, requested, strict=True)]
    return pyarrow.schema(fields, schema.metadata)


def _cast(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    import pyarrow

    arrays = []
    for field, array in zip(schema, batch.columns, strict=True):
        try:
            arrays.append(array.cast(field.type))
        except pyarrow.ArrowInvalid as error:
            raise SchemaError(
                f"column {field.name!r} was requested as {field.type}, and a value does not fit ({error})"
            ) from None
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def check_pyarrow(what: str) -> None:
    """MissingError, which says what to install, where pyarrow cannot be imported."""
    try:
        import_module("pyarrow")
    except ImportError as error:
        raise MissingError(
            f"{what} needs pyarrow, which cannot be imported ({error}): pip install 'unirecord[arrow]'"
        ) from None
