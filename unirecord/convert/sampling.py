"""A few rows of a source: how many bytes a row takes, and how long it takes to write."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import UniRecordError
from ..format.schema import Schema
from ..format.values import ColumnBatch, RecordEncoder
from ..storage.staged import temporary_folder
from ..writing.batch_writer import PART_BYTES, BatchWriter
from ..writing.part_writer import PartContent, PartSequence
from ..writing.row_groups import row_weights
from .sources.base import Source

__all__ = ["Sample", "take_sample", "write_sample"]

_SAMPLED_UNITS: Final = 3


@dataclass(frozen=True)
class Sample:
    """The first batch of a few units: rows, bytes of their values, and how long it took."""

    rows: int
    bytes: int
    seconds: float

    @property
    def row_bytes(self) -> float:
        """Bytes that a row takes, about; 0 without rows."""
        return self.bytes / self.rows if self.rows else 0.0


def take_sample(source: Source, schema: Schema) -> Sample:
    """Read and encode the sample of a source, the same each time but for the seconds."""
    started = time.monotonic()
    rows, size = 0, 0
    for encoded in _encoded(source, schema):
        rows += encoded.rows
        size += int(row_weights(schema, encoded).sum())
    return Sample(rows, size, time.monotonic() - started)


def write_sample(source: Source, schema: Schema, index: Sequence[str]) -> Sample:
    """The same, and write it as a part to a temporary folder, which is removed."""
    started = time.monotonic()
    rows, size = 0, 0
    with temporary_folder() as folder:
        parts = PartSequence(folder, bytes(16), lambda i: i, PART_BYTES, "")
        try:
            writer = BatchWriter(parts, PartContent(schema, tuple(index), b"\xc0"))
            for encoded in _encoded(source, schema):
                rows += encoded.rows
                size += int(row_weights(schema, encoded).sum())
                writer.add(encoded, owned=False)
            writer.finish()
        except BaseException:
            parts.discard()
            raise
        return Sample(rows, size, time.monotonic() - started)


def _encoded(source: Source, schema: Schema) -> Iterator[ColumnBatch]:
    units = () if source.read_once else source.units
    places = sorted(
        {i * (len(units) - 1) // max(_SAMPLED_UNITS - 1, 1) for i in range(_SAMPLED_UNITS)} if units else ()
    )
    encoder = RecordEncoder(schema, "error")
    for place in places:
        batch = next((one for one in source.batches_of(units[place]) if one.rows), None)
        if batch is None:
            continue
        try:
            encoded = encoder.encode_batch({name: batch.columns[name] for name in schema.names}, 0)
        except UniRecordError:  # said where the rows are written
            continue
        yield encoded
