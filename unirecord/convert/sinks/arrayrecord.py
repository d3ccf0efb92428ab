"""ArrayRecord files of ``tf.train.Example``, by array_record: what TFDS writes and Grain reads."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any, Final

from ...dataset.dataset import UniRecordDataset
from ...format.column import Column
from .base import Advance, Sink, samples
from .tfrecord import check_example, example

__all__ = ["ARRAY_RECORD"]


def _check(columns: Sequence[Column], metadata: Any) -> list[str]:
    """Return what becomes of float64, shapes and objects; complex numbers are refused."""
    return check_example(columns, "arrayrecord")


def _write_path(rows: UniRecordDataset, path: str, advance: Advance) -> None:
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
    check=_check,
    write_path=_write_path,
)
