"""TFRecord files of ``tf.train.Example``: length, its CRC, the message, its CRC."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, BinaryIO

from ...core import crc32c
from ...dataset.dataset import UniRecordDataset
from ...format.column import Column
from .base import Advance, FileSink, samples
from .tf_example import check_example, example

__all__ = ["TfRecordSink"]


class TfRecordSink(FileSink):
    """Each row as a ``tf.train.Example``: bytes and text as bytes, integers as int64, floats as float32."""

    kind = "tfrecord"
    about = "TFRecord (tf.train.Example)"
    suffix = ".tfrecord"

    def check(self, columns: Sequence[Column], metadata: Any) -> list[str]:
        """Return what becomes of float64, shapes and objects; complex numbers are refused."""
        return check_example(columns, self.kind)

    def write(self, rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
        """Write the rows."""
        columns = [rows.schema[name] for name in rows.column_names]
        for sample in samples(rows):
            message = example(columns, sample)
            length = struct.pack("<Q", len(message))
            out.write(length + _masked(length) + message + _masked(message))
            advance(1)


def _masked(data: bytes) -> bytes:
    """The CRC as TFRecord stores it: rotated, with a constant added (tensorflow/core/lib/hash/crc32c.h)."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
