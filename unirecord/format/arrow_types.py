"""Logical types as Arrow's own types, and back, with the values; pyarrow is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError
from .column import Column
from .logical import MOST_DIGITS, WORD_DIGITS
from .nested import nested_of, nested_type
from .schema import Schema
from .values.batch import numbers_of

if TYPE_CHECKING:
    import pyarrow

__all__ = ["FEATURE_KEY", "TYPE_KEY", "arrow_spec", "arrow_type", "as_arrow", "from_arrow"]

TYPE_KEY: Final = (
    b"unirecord"  # of a field's metadata: the column's own type, where the field's does not say it
)
# Of a column's annotations: its feature in Hugging Face datasets, as JSON, where its type does not say it.
FEATURE_KEY: Final = "huggingface"
_NO_CLASS: Final = -1  # Hugging Face's mark for no label
_DAY_MS: Final = 86_400_000


def arrow_type(column: Column) -> pyarrow.DataType | None:
    """The Arrow type of values by their logical type; None where it is that of the stored type.

    Of an array it is that of its elements, but for a decimal of two words, which is one value.
    """
    import pyarrow

    if column.dictionary is not None:
        return pyarrow.dictionary(pyarrow.int32(), pyarrow.string(), column.dictionary == "ordered")
    said = column.known_logical
    if said is None:
        return None
    makers = {
        "timestamp": lambda: pyarrow.timestamp(said["unit"], said.get("zone")),
        "date": pyarrow.date32,
        "time": lambda: (pyarrow.time32 if column.type == "int32" else pyarrow.time64)(said["unit"]),
        "duration": lambda: pyarrow.duration(said["unit"]),
        "decimal": lambda: pyarrow.decimal128(said["precision"], said["scale"]),
        "nested": lambda: nested_type(nested_of(said["of"])),
    }
    return makers[said["type"]]() if said["type"] in makers else None


def as_arrow(column: Column, stored: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Stored values as those of the column's `arrow_type`, which is ``kind``; times share the memory.

    A decimal of two words is given as a list of them. A class of −1 is null; SchemaError for other numbers of none.
    """
    import pyarrow

    if not (pyarrow.types.is_decimal(kind) or pyarrow.types.is_dictionary(kind)):
        return stored.view(kind)
    if column.is_string:
        return stored.dictionary_encode()
    if column.is_array:
        return pyarrow.Array.from_buffers(
            kind, len(stored), [stored.buffers()[0], stored.values.buffers()[1]], stored.null_count
        )
    numbers = numbers_of(stored)
    absent, numbers = np.ma.getmaskarray(numbers), np.ma.getdata(numbers)
    if pyarrow.types.is_decimal(kind):
        words = np.stack([numbers, numbers >> 63], axis=1)
        bits = pyarrow.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
        return pyarrow.Array.from_buffers(kind, len(stored), [bits, pyarrow.py_buffer(words)])
    names = column.classes or ()
    absent |= numbers == _NO_CLASS
    wrong = ~absent & ((numbers < 0) | (numbers >= len(names)))
    if wrong.any():
        raise SchemaError(
            f"column {column.name!r}: {numbers[wrong.argmax()]} is no class, of which there are {len(names)}, from 0; "
            "ds.scalars gives the numbers as they are"
        )
    codes = pyarrow.array(numbers.astype(np.int32), mask=absent if absent.any() else None)
    return pyarrow.DictionaryArray.from_arrays(
        codes, pyarrow.array(names, pyarrow.string()), ordered=kind.ordered
    )


def arrow_spec(kind: pyarrow.DataType) -> dict[str, Any] | None:
    """The type of a column, in the user's form, for Arrow's times and decimals; None for all else.

    So it is for a decimal that needs more digits than 38 with all its places before and behind the point. A zone that
    the format has no name for is UTC, which says the same points in time.
    """
    import pyarrow

    types = pyarrow.types
    if types.is_timestamp(kind):
        stored, logical = "int64", {"type": "timestamp", "unit": kind.unit}
        if kind.tz is not None:
            logical["zone"] = (
                kind.tz if _is_known({"type": "int64", "logical": {**logical, "zone": kind.tz}}) else "UTC"
            )
    elif types.is_date(kind):
        stored, logical = "int32", {"type": "date"}
    elif types.is_time(kind):
        stored, logical = f"int{kind.bit_width}", {"type": "time", "unit": kind.unit}
    elif types.is_duration(kind):
        stored, logical = "int64", {"type": "duration", "unit": kind.unit}
    elif types.is_decimal(kind):
        scale = max(kind.scale, 0)
        precision = max(kind.precision - min(kind.scale, 0), scale)
        if precision > MOST_DIGITS:
            return None
        logical = {"type": "decimal", "precision": precision, "scale": scale}
        if precision > WORD_DIGITS:
            return {"type": "int64", "shape": [2], "logical": logical}
        stored = "int64"
    else:
        return None
    return {"type": stored, "logical": logical}


def _is_known(spec: dict[str, Any]) -> bool:
    try:
        Schema.parse({"x": spec})
    except SchemaError:
        return False
    return True


def from_arrow(column: Column, array: pyarrow.Array) -> Any:
    """The stored values of Arrow's times, decimals and texts for a column whose logical type is of such; else None.

    An array of numbers, masked where there are nulls, or a list. SchemaError for what the column cannot hold exactly.
    """
    import pyarrow

    kind = array.type
    types, wanted = pyarrow.types, arrow_type(column)
    if wanted is None or types.is_nested(wanted) or column.is_string:
        return None
    if types.is_dictionary(wanted):
        is_text = types.is_string(kind) or types.is_large_string(kind)
        return _classes(column, array) if is_text else None
    if types.is_decimal(wanted):
        return _words(column, array, wanted) if types.is_decimal(kind) else None
    if kind != wanted:
        if not types.is_temporal(kind):
            return None
        array = _cast_time(array, wanted)
    return numbers_of(array.view(pyarrow.int32() if column.type == "int32" else pyarrow.int64()))


def _cast_time(array: pyarrow.Array, wanted: pyarrow.DataType) -> pyarrow.Array:
    import pyarrow

    kind, types = array.type, pyarrow.types
    if types.is_timestamp(kind) and types.is_timestamp(wanted) and (kind.tz is None) != (wanted.tz is None):
        raise SchemaError(f"{kind} and {wanted}: only one of them has a time zone; convert it first")
    try:
        if types.is_date64(kind):
            inexact = numbers_of(array.view(pyarrow.int64()).fill_null(0)) % _DAY_MS != 0
            if inexact.any():
                raise pyarrow.ArrowInvalid(f"{array[int(inexact.argmax())]} is no whole day")
        return array.cast(wanted)
    except pyarrow.ArrowException as error:
        raise SchemaError(f"{kind} does not fit {wanted} exactly ({error})") from None


def _words(column: Column, array: pyarrow.Array, wanted: pyarrow.DataType) -> Any:
    import pyarrow

    try:
        array = array.cast(wanted)
        array.validate(full=True)  # of as many digits
    except pyarrow.ArrowException as error:
        raise SchemaError(f"{array.type} does not fit {wanted} ({error})") from None
    words: NDArray[np.int64] = np.frombuffer(
        array.buffers()[1] or b"", "<i8", 2 * len(array), 16 * array.offset
    ).reshape(-1, 2)
    absent = numbers_of(array.is_null()) if array.null_count else None
    if not column.is_array:
        return words[:, 0].copy() if absent is None else np.ma.MaskedArray(words[:, 0], absent)
    if absent is None:
        return words
    return [None if null else pair for null, pair in zip(absent.tolist(), words, strict=True)]


def _classes(column: Column, array: pyarrow.Array) -> Any:
    import pyarrow.compute

    names = pyarrow.array(column.classes, array.type)
    codes = pyarrow.compute.index_in(array, names)
    wrong = numbers_of(codes.is_null()) & numbers_of(array.is_valid())
    if wrong.any():
        row = int(wrong.argmax())
        raise SchemaError(
            f"{array[row].as_py()!r:.60} (value {row} of its batch) is no class of the column; "
            f"--schema {column.name}=string takes any"
        )
    return numbers_of(codes)
