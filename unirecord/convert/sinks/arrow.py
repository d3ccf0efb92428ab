"""Parquet and Arrow files, by pyarrow: record batches as `UniRecordDataset.to_batches` makes them."""

from __future__ import annotations

from typing import BinaryIO, Final

from ...dataset.dataset import UniRecordDataset
from .base import Advance, Sink

__all__ = ["ARROW", "PARQUET"]

_GROUP_BYTES: Final = 64 << 20  # of values in a row group, about
_GROUP_ROWS: Final = 1 << 20


def _write_parquet(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the rows in row groups of about 64 MB."""
    import pyarrow
    import pyarrow.parquet

    with rows.to_batches() as reader, pyarrow.parquet.ParquetWriter(out, reader.schema) as writer:
        waiting: list[pyarrow.RecordBatch] = []
        for batch in reader:
            waiting.append(batch)
            count = sum(len(one) for one in waiting)
            if sum(one.nbytes for one in waiting) >= _GROUP_BYTES or count >= _GROUP_ROWS:
                writer.write_table(pyarrow.Table.from_batches(waiting), row_group_size=count)
                waiting.clear()
            advance(len(batch))
        if waiting:
            writer.write_table(pyarrow.Table.from_batches(waiting), row_group_size=_GROUP_ROWS)


# Parquet: arrays are lists, a level for each dimension; the Arrow schema is kept in the file.
PARQUET: Final = Sink(
    kind="parquet",
    about="Parquet",
    suffix=".parquet",
    requires="pyarrow",
    imports="pyarrow.parquet",
    write=_write_parquet,
)


def _write_arrow(rows: UniRecordDataset, out: BinaryIO, advance: Advance) -> None:
    """Write the rows, a record batch of about 8 MB at a time."""
    import pyarrow

    with rows.to_batches() as reader, pyarrow.ipc.new_file(out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            advance(len(batch))


# The Arrow file format, also called Feather 2, uncompressed: it can be mapped.
ARROW: Final = Sink(
    kind="arrow",
    about="Arrow (Feather)",
    suffix=".arrow",
    requires="pyarrow",
    imports="pyarrow",
    write=_write_arrow,
)
