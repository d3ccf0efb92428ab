"""Files of ``tf.train.Example``: TFRecord, without TensorFlow, and ArrayRecord, by array_record."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ...dataset.dataset import UniRecordDataset
from ...errors import SchemaError
from ...format.column import Column
from ...format.values.objects import base64_text, object_text
from ...sizes import many
from ..sources.tfrecord import masked_crc32c
from .jsonl import float32_of_bfloat16
from .sink import Advance, Sink, refuse, samples

__all__ = [
    "ARRAY_RECORD",
    "TFRECORD",
    "check_example",
    "example",
]


# TFRecord files of ``tf.train.Example``, without TensorFlow: length, its CRC, the message, its CRC.


# A row as a serialized ``tf.train.Example``, without TensorFlow: protocol buffers written by hand.
#
# Features is a map of name to Feature (tensorflow/core/example/feature.proto): lists of bytes, floats or
# int64.


_BYTES, _FLOATS, _INTEGERS = b"\x0a", b"\x12", b"\x1a"  # fields 1, 2, 3 of Feature, of variable length
_MOST: Final = (1 << 31) - 1  # bytes of a message that readers take


def check_example(kind: str, columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return what becomes of values that the three lists hold otherwise; SchemaError for complex numbers."""
    refuse(columns, kind, lambda c: c.type.startswith("complex"), "it has no complex numbers; leave them out")
    notes = []
    names = {column.name for column in columns}
    for column in columns:
        if column.type == "float64":
            notes.append(f"{column.name}: float64 is rounded to float32, which is all that an Example holds")
        if _says_shape(column):
            if f"{column.name}_shape" in names:
                raise SchemaError(f"{kind}: the shape of {column.name!r} takes the name of another column")
            notes.append(f"{column.name}: flat, its shape in {column.name}_shape")
        if column.type == "object":
            notes.append(f"{column.name}: written as JSON text, with bytes as base64")
    return notes


def _says_shape(column: Column) -> bool:
    return column.is_array and column.free_dims > 0 and column.shape != (-1,)


def example(columns: Sequence[Column], sample: dict[str, Any]) -> bytes:
    """The message of one row; a null has no feature. SchemaError for an integer beyond int64."""
    entries = []
    for column in columns:
        value = sample[column.name]
        if value is None:
            continue
        entries.append(_entry(column.name, _feature(column, value)))
        if _says_shape(column):
            entries.append(_entry(f"{column.name}_shape", _integers(np.array(value.shape))))
    message = _field(b"\x0a", b"".join(entries))
    if len(message) > _MOST:
        raise SchemaError(
            f"a row takes {many(len(message), 'byte')}; a tf.train.Example has at most {_MOST:,}"
        )
    return message


def _entry(name: str, feature: bytes) -> bytes:
    return _field(b"\x0a", _field(b"\x0a", name.encode()) + _field(b"\x12", feature))


def _feature(column: Column, value: Any) -> bytes:
    if column.dtype is None:
        if column.type == "object":
            value = object_text(value, base64_text)
        data = value.encode() if isinstance(value, str) else bytes(value)
        return _field(_BYTES, _field(b"\x0a", data))
    array = np.asarray(value)
    if column.type == "bfloat16":
        array = float32_of_bfloat16(array)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return _field(_FLOATS, _field(b"\x0a", array.astype("<f4").tobytes()))
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        raise SchemaError(
            f"column {column.name!r}: {int(array.max())} is beyond int64, all that an Example holds"
        )
    return _integers(array)


def _integers(array: NDArray[Any]) -> bytes:
    return _field(_INTEGERS, _field(b"\x0a", _varints(array.reshape(-1).astype(np.int64))))


def _varints(numbers: NDArray[np.int64]) -> bytes:
    """Base-128 varints, one after the other; a negative number takes ten bytes."""
    if len(numbers) == 1:
        return _varint(int(numbers[0]) & 0xFFFFFFFFFFFFFFFF)
    values = numbers.view(np.uint64)
    shifts = np.arange(0, 70, 7, dtype=np.uint64)
    groups = (values[:, None] >> shifts) & np.uint64(0x7F)
    lengths = np.maximum(1, 10 - (groups[:, ::-1] != 0).argmax(axis=1) * (values != 0))
    lengths = np.where(values == 0, 1, lengths)
    place = np.arange(10)
    groups |= np.where(place < lengths[:, None] - 1, 0x80, 0).astype(np.uint64)
    return groups[place < lengths[:, None]].astype(np.uint8).tobytes()


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


# TFRecord files of ``tf.train.Example``: length, its CRC, the message, its CRC.


def _write_rows(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the rows."""
    columns = [rows.schema[name] for name in rows.column_names]
    for sample in samples(rows):
        message = example(columns, sample)
        length = struct.pack("<Q", len(message))
        checks = [struct.pack("<I", masked_crc32c(data)) for data in (length, message)]
        out.write(length + checks[0] + message + checks[1])
        advance(1)


# Each row as a ``tf.train.Example``: bytes and text as bytes, integers as int64, floats as float32.
TFRECORD: Final = Sink(
    kind="tfrecord",
    about="TFRecord (tf.train.Example)",
    suffix=".tfrecord",
    check=partial(check_example, "tfrecord"),
    write=_write_rows,
)


# ArrayRecord files of ``tf.train.Example``, by array_record: what TFDS writes and Grain reads.


def _write_array_record(rows: UniRecordDataset, path: str, advance: Advance) -> None:
    """Write the rows."""
    from array_record.python import array_record_module

    columns = [rows.schema[name] for name in rows.column_names]
    try:
        writer = array_record_module.ArrayRecordWriter(path, "group_size:1")
        for sample in samples(rows):
            writer.write(example(columns, sample))
            advance(1)
        writer.close()
    except RuntimeError as error:  # all that it raises, such as of a full disk
        raise OSError(errno.EIO, str(error), path) from error


# Each row as a ``tf.train.Example``, and alone in its group, so that any row is read by itself.
ARRAY_RECORD: Final = Sink(
    kind="arrayrecord",
    about="ArrayRecord (tf.train.Example)",
    suffix=".arrayrecord",
    requires="array_record",
    imports="array_record.python.array_record_module",
    check=partial(check_example, "arrayrecord"),
    write_path=_write_array_record,
)
