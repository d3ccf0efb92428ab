"""NumPy .npz: an array for each column, written a column at a time in bounded memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ...dataset.dataset import UniRecordDataset
from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...format.values.objects import base64_text, object_text
from ...loading.batch import RaggedArray, valid_rows
from ..sources.npy_files import array_names, comment_of, has_shapes
from .sink import Advance, Sink, batches, refuse_names

__all__ = ["NPZ"]

_WRITE: Final = "w"  # a member of the archive, which is a stream here
_EPOCH: Final = (
    1980,
    1,
    1,
    0,
    0,
    0,
)  # the earliest time that a zip file knows: the same rows make the same bytes


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return how nulls, text, bytes and ragged arrays are kept."""
    refuse_names(columns, "npz", lambda c: [f"{name}.npy" for name in array_names(c)])
    made = [name for column in columns for name in array_names(column)]
    twice = sorted({name for name in made if made.count(name) > 1})
    if twice:
        raise SchemaError(
            f"npz: the array {twice[0]!r} would be made of two columns; rename one, or leave it out"
        )
    notes = []
    for column in columns:
        name = column.name
        if column.type == "bfloat16":
            notes.append(f"{name}: bfloat16 is kept as its bits, uint16")
        if not column.fixed_bytes:
            what = (
                "JSON in UTF-8"
                if column.type == "object"
                else "UTF-8"
                if column.dtype is None
                else "elements"
            )
            what = "bytes" if column.type == "bytes" and not column.is_array else what
            notes.append(f"{name}: the {what} of row i are {name}[{name}_offsets[i]:{name}_offsets[i + 1]]")
        if has_shapes(column):
            notes.append(f"{name}: flat; the shape of each row is in {name}_shape")
        if column.nullable:
            notes.append(f"{name}: {name}_valid is False where it is null")
    if columns and not comment_of(Schema(columns)):
        notes.append("the types of so many columns do not fit into the file: it reads back as plain arrays")
    return notes


def _write_rows(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the arrays; a column is read once or twice, and ``advance`` is told of rows with the last one."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.comment = comment_of(Schema(rows.schema[name] for name in rows.column_names))
        for name in rows.column_names:
            column, one = rows.schema[name], rows.view(columns=[name])
            tell = advance if name == rows.column_names[-1] else _nothing
            if column.fixed_bytes:
                _fixed(archive, column, one, tell)
            else:
                _variable(archive, column, one, tell)


def _fixed(archive: zipfile.ZipFile, column: Column, rows: UniRecordDataset, advance: Advance) -> None:
    dtype = column.dtype
    assert dtype is not None
    valid = []
    with _member(archive, column.name, dtype, (len(rows), *column.item_shape)) as file:
        for batch in batches(rows):
            values = batch[column.name]
            if column.nullable:
                valid.append(valid_rows(values))
            file.write(memoryview(np.ascontiguousarray(np.ma.getdata(values))).cast("B"))
            advance(len(values))
    if column.nullable:
        _whole(archive, f"{column.name}_valid", np.concatenate([np.zeros(0, np.bool_), *valid]))


def _variable(archive: zipfile.ZipFile, column: Column, rows: UniRecordDataset, advance: Advance) -> None:
    dtype = column.dtype or np.dtype(np.uint8)
    lengths, shapes, valid = [np.zeros(1, np.int64)], [], []
    for batch in batches(rows):  # once for the sizes, which come first in the file
        cells = [_elements(column, value) for value in _values(batch[column.name])]
        lengths.append(np.array([0 if cell is None else cell.size for cell in cells], np.int64))
        valid.append(np.array([cell is not None for cell in cells], np.bool_))
        if has_shapes(column):
            rank = len(column.item_shape)
            shapes.append(
                np.array([(0,) * rank if c is None else c.shape for c in cells], np.int64).reshape(-1, rank)
            )
    offsets = np.cumsum(np.concatenate(lengths))
    with _member(archive, column.name, dtype, (int(offsets[-1]),)) as file:
        for batch in batches(rows):
            for value in _values(batch[column.name]):
                cell = _elements(column, value)
                if cell is not None and cell.size:
                    file.write(memoryview(np.ascontiguousarray(cell)).cast("B"))
            advance(len(batch[column.name]))
    _whole(archive, f"{column.name}_offsets", offsets)
    if has_shapes(column):
        rank = len(column.item_shape)
        _whole(archive, f"{column.name}_shape", np.concatenate([np.zeros((0, rank), np.int64), *shapes]))
    if column.nullable:
        _whole(archive, f"{column.name}_valid", np.concatenate([np.zeros(0, np.bool_), *valid]))


# Columns of fixed width as arrays [rows, …]; others as their bytes or elements and where each row's begin.
# The types of the columns are in the comment of the archive.
NPZ: Final = Sink(
    kind="npz",
    about="NumPy .npz",
    suffix=".npz",
    check=_check,
    write=_write_rows,
)


def _nothing(rows: int) -> None:
    """Rows of a column that is not the last are not told."""


def _values(values: Any) -> Any:
    return values.to_list() if isinstance(values, RaggedArray) else values


def _elements(column: Column, value: Any) -> NDArray[Any] | None:
    """What is kept of one value: its elements, or its bytes."""
    if value is None and column.nullable:
        return None
    if column.is_array:
        return np.asarray(value)
    if column.type == "object":
        value = object_text(value, base64_text)
    return np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)


def _member(archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """A .npy file inside the archive, its head written."""
    file = archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), _WRITE, force_zip64=True)
    head = io.BytesIO()
    np.lib.format.write_array_header_2_0(
        head, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )
    file.write(head.getvalue())
    return file


def _whole(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with _member(archive, name, array.dtype, array.shape) as file:
        file.write(memoryview(np.ascontiguousarray(array)).cast("B"))
