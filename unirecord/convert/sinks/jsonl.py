"""JSON Lines: one object a row, of values that text written of them reads back as."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ...dataset.dataset import UniRecordDataset
from ...format.column import Column
from ...format.values.objects import base64_text, json_object
from ...loading.batch import items_of
from .sink import Advance, Sink, batches

__all__ = [
    "BASE64",
    "JSON_LINES",
    "float32_of_bfloat16",
    "is_said_as_text",
    "json_line",
    "json_notes",
    "json_value",
    "json_values",
    "said_values",
]


# Values of a batch as JSON can hold them, so that text written of them reads back as the same values.


BASE64: Final = "base64 text"
_SHORT: Final = ("float16", "float32", "bfloat16")


def json_values(column: Column, values: Any) -> Sequence[Any]:
    """The values of a column of a batch: numbers, text, None, lists; bytes as base64.

    Floats below float64 become the double with the fewest digits that means the same number; complex numbers pairs.
    """
    if not column.is_array and column.type in _SHORT:
        data = np.ma.getdata(values)
        hidden = np.ma.getmaskarray(values).tolist() if column.nullable else None
        found = _shortest(data).tolist()
        return found if hidden is None else [None if no else x for x, no in zip(found, hidden, strict=True)]
    if isinstance(values, np.ma.MaskedArray) and not column.is_array:
        return values.tolist()  # type: ignore[no-any-return]
    if isinstance(values, np.ndarray) and not column.is_array:
        return values.tolist()  # type: ignore[no-any-return]
    items = items_of({"": values})[""]
    if column.is_array:
        return [None if item is None else _list(column, item) for item in items]
    if column.type == "bytes":
        return [None if item is None else base64_text(item) for item in items]
    if column.type == "object":
        return [json_object(item, base64_text) for item in items]  # None, null or not, is null
    return items


def json_value(column: Column, value: Any) -> Any:
    """One value of a column of scalars, as `json_values` gives it."""
    if value is None or column.dtype is None:
        return value
    return json_values(column, np.array([value]))[0]


def said_values(column: Column, values: Any) -> Sequence[Any]:
    """The same for people: times, decimals and names of classes as text."""
    if not is_said_as_text(column):
        return json_values(column, values)
    return [column.shown(value) for value in items_of({"": values})[""]]


def is_said_as_text(column: Column) -> bool:
    """Whether values are written as the text of what they stand for; arrays of them are numbers."""
    meaning = column.meaning
    return meaning is not None and (not column.is_array or meaning.name == "decimal")


def _list(column: Column, array: NDArray[Any]) -> Any:
    if column.type == "bfloat16":
        array = float32_of_bfloat16(array)
    if column.type.startswith("complex"):
        half = np.float32 if column.type == "complex64" else np.float64
        array = np.stack([array.real, array.imag], axis=-1).astype(half)
    return (_shortest(array) if array.dtype in (np.float16, np.float32) else array).tolist()


def float32_of_bfloat16(bits: NDArray[Any]) -> NDArray[np.float32]:
    """The numbers of which these uint16 are the bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _shortest(array: NDArray[Any]) -> NDArray[np.float64]:
    """As float64 whose shortest text is that of the shorter float; the same number where that would be another one."""
    with np.errstate(all="ignore"):
        short = array.astype("U32").astype(np.float64).reshape(array.shape)
        same = short.astype(array.dtype).view(np.uint8) == array.view(np.uint8)
        if same.all():
            return short
        exact = array.astype(np.float64)
        return np.where(short.astype(array.dtype) == array, short, exact)


def json_notes(columns: Sequence[Column]) -> list[str]:
    """What becomes of values that JSON has no type for."""
    notes = []
    for column in columns:
        if column.type == "bytes" and not column.is_array:
            notes.append(f"{column.name}: bytes are written as {BASE64}")
        elif column.type == "object":
            notes.append(f"{column.name}: bytes inside objects are written as {BASE64}, NaN as text")
        elif column.type.startswith("complex"):
            notes.append(f"{column.name}: complex numbers are written as [real, imaginary]")
    return notes


# JSON Lines: one object a row.


_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode


def json_line(row: dict[str, Any]) -> str:
    """One line, with its end."""
    return _ENCODE(row) + "\n"


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return what becomes of bytes, objects and complex numbers."""
    return json_notes(columns)


def _write_rows(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the rows."""
    names = rows.column_names
    columns = [rows.schema[name] for name in names]
    for batch in batches(rows):
        values = [said_values(column, batch[column.name]) for column in columns]
        lines = [_ENCODE(dict(zip(names, row, strict=True))) for row in zip(*values, strict=True)]
        out.write(("\n".join(lines) + "\n").encode())
        advance(len(lines))


# Each row as a JSON object on a line of its own; null for null, ``NaN`` and ``Infinity`` as Python writes
# them.
JSON_LINES: Final = Sink(
    kind="jsonl",
    about="JSON Lines",
    suffix=".jsonl",
    check=_check,
    write=_write_rows,
)
