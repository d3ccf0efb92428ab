"""Compresses the cells of columns that have a codec: which are worth it, by what dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import CODEC_SHUFFLE_ZSTD, CODEC_ZSTD, Encoder, check_codec, train_dictionary
from ..errors import SchemaError
from ..format.column import Codec, Column
from ..format.file_kinds import file_kind
from ..format.schema import Schema
from ..format.values import ColumnBatch, ColumnData
from .row_groups import own_batch

__all__ = [
    "CodecChoice",
    "Compressor",
    "choose_codecs",
    "choose_dictionary",
]


# Compresses the cells of columns that have a codec, with dictionaries trained on the first rows.


_FIRST_BYTES: Final = (
    8 << 20
)  # values of compressed columns that wait for dictionaries to be trained on them …
_FIRST_ROWS: Final = 65_536  # … unless they are so many before
_TRAINED_BYTES: Final = 16 << 20  # of a column, evenly spaced over what waits
_LONGEST: Final = 32_768  # mean bytes of a value from which on a dictionary has nothing to add
_MOST_DICTIONARY: Final = 256 << 10  # docs/performance/compression.md: what more and less gave
_LEAST_CELLS: Final = 16
_MOST_VALUE: Final = 1 << 32
_WORTH: Final = 0.97  # what a dictionary must leave of the bytes that it compresses

Cells = list[bytes | memoryview]
Dictionaries = tuple[tuple[int, bytes], ...]


class Compressor:
    """Holds the first batches back until dictionaries have been trained on them; later ones it compresses at once.

    ``dictionaries``: (ordinal of the column, content) for those columns that have one, once the first batch is out.
    """

    def __init__(self, schema: Schema, dictionaries: Dictionaries | None = None) -> None:
        """``dictionaries``: those that an earlier run has trained; nothing is held back then."""
        self._columns = [(i, column) for i, column in schema.blobs if column.codec is not None]
        for _, column in self._columns:
            assert column.codec is not None
            check_codec(column.codec.code)
        self._encoders: dict[int, Encoder] | None = None
        self._waiting: list[ColumnBatch] = []
        self._rows = self._bytes = 0
        self.dictionaries: Dictionaries = dictionaries or ()
        if dictionaries is not None:
            known = dict(dictionaries)
            self._encoders = {i: encoder_of(column, known.get(i, b"")) for i, column in self._columns}

    def add(self, batch: ColumnBatch, *, owned: bool) -> list[tuple[ColumnBatch, bool]]:
        """Batches that are compressed, and whether their memory is the writer's own."""
        if not self._columns or self._encoders is not None:
            return [(self._compress(batch), owned)]
        self._waiting.append(batch if owned else own_batch(batch))
        self._rows += batch.rows
        self._bytes += sum(_value_bytes(batch.columns[i]) for i, _ in self._columns)
        return self.finish() if self._bytes >= _FIRST_BYTES or self._rows >= _FIRST_ROWS else []

    def finish(self) -> list[tuple[ColumnBatch, bool]]:
        """What still waits, compressed."""
        if self._encoders is None:
            self._train()
        waiting, self._waiting = self._waiting, []
        return [(self._compress(batch), True) for batch in waiting]

    def _train(self) -> None:
        dictionaries, self._encoders = [], {}
        for i, column in self._columns:
            cells = [cell for batch in self._waiting for cell in cells_of(column, batch.columns[i])]
            dictionary = choose_dictionary(column, cells)
            self._encoders[i] = encoder_of(column, dictionary)
            if dictionary:
                dictionaries.append((i, dictionary))
        self.dictionaries = tuple(dictionaries)

    def _compress(self, batch: ColumnBatch) -> ColumnBatch:
        if not self._encoders:
            return batch
        columns = list(batch.columns)
        for i, column in self._columns:
            data = columns[i]
            cells = cells_of(column, data)
            joined, stored, raw = self._encoders[i].encode(cells)
            if len(raw) and int(raw.max()) >= _MOST_VALUE:
                raise SchemaError(
                    f"column {column.name!r}: a value has {int(raw.max()):,} bytes; those of a compressed column have "
                    f"less than 4 GiB: leave its codec out"
                )
            ends = np.cumsum(stored).tolist()
            starts = [0, *ends[:-1]]
            packed: Cells = [joined[a:b] for a, b in zip(starts, ends, strict=True)] if cells else []
            columns[i] = ColumnData(packed, data.valid, raw)
        return ColumnBatch(batch.rows, columns)


def _value_bytes(data: ColumnData) -> int:
    return data.values.nbytes if isinstance(data.values, np.ndarray) else sum(map(len, data.values))


def cells_of(column: Column, data: ColumnData) -> Cells:
    """The values of a blob column, one by one."""
    if not isinstance(data.values, np.ndarray):
        return list(data.values)
    values: npt.NDArray[Any] = np.ascontiguousarray(data.values)
    flat = memoryview(values.reshape(-1).view(np.uint8))
    width = column.fixed_bytes
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def encoder_of(column: Column, dictionary: bytes) -> Encoder:
    """What compresses the cells of the column."""
    assert column.codec is not None
    return Encoder(column.codec.code, column.element_bytes, column.codec.level, dictionary)


def choose_dictionary(column: Column, cells: Cells) -> bytes:
    """A dictionary for cells like these, trained on every other one of them; empty where the rest gains too little."""
    assert column.codec is not None
    total = sum(map(len, cells))
    if len(cells) < _LEAST_CELLS or total // len(cells) >= _LONGEST:
        return b""
    step = max(1, -(-total // _TRAINED_BYTES))
    chosen = cells[::step]
    size = min(_MOST_DICTIONARY, sum(map(len, chosen)) // 32)
    if size < 1024:
        return b""
    dictionary = train_dictionary(column.codec.code, column.element_bytes, chosen[::2], size)
    if not dictionary:
        return b""
    with_it, without = (
        int(encoder_of(column, each).encode(chosen[1::2])[1].sum()) for each in (dictionary, b"")
    )
    saved = (without - with_it) * 2 * step  # of all these cells
    return dictionary if with_it <= _WORTH * without and saved > 2 * len(dictionary) else b""


# Which blob columns are worth compressing, and how: tried on a sample of their values.


_SAMPLE_BYTES: Final = 4 << 20  # of a column
_LEAST_SAVED: Final = 0.1
_COMPRESSED: Final = {".jpg", ".png", ".gif", ".webp", ".avi", ".gz", ".zip", ".zst", ".flac", ".ogg", ".mp3"}


@dataclass(frozen=True)
class CodecChoice:
    """What is best for a column; ``codec`` None: to leave it as it is.

    ``saved``: the part of the sample's bytes that ``codec`` saves, or that the best one would have saved.
    """

    codec: Codec | None
    saved: float
    why: str


def choose_codecs(schema: Schema, sample: ColumnBatch) -> dict[str, CodecChoice]:
    """The choice for each blob column, by its name, from the values of a few rows."""
    return {
        column.name: _choose(column, _evenly(cells_of(column, sample.columns[i])))
        for i, column in schema.blobs
    }


def _evenly(cells: Cells) -> Cells:
    return cells[:: max(1, -(-sum(map(len, cells)) // _SAMPLE_BYTES))]


def _choose(column: Column, cells: Cells) -> CodecChoice:
    total = sum(map(len, cells))
    if not total:
        return CodecChoice(None, 0.0, "there is nothing to try it on")
    kinds = [kind for cell in cells if (kind := file_kind(bytes(cell[:16]))) and kind.suffix in _COMPRESSED]
    if 2 * len(kinds) > len(cells):
        return CodecChoice(None, 0.0, f"it is compressed already ({kinds[0].name})")
    codes = [CODEC_ZSTD] + ([CODEC_SHUFFLE_ZSTD] if column.element_bytes > 1 else [])
    saved, codec = max(
        ((_saved(column, Codec(code), cells, total), code) for code in codes), key=lambda c: c[0]
    )
    if saved < _LEAST_SAVED:
        return CodecChoice(None, saved, f"{Codec(codec).name} would save {max(saved, 0.0):.0%}")
    return CodecChoice(Codec(codec), saved, f"saves {saved:.0%}")


def _saved(column: Column, codec: Codec, cells: Cells, total: int) -> float:
    compressed = replace(column, codec=codec)
    encoder = encoder_of(compressed, choose_dictionary(compressed, cells))
    return 1.0 - int(encoder.encode(cells)[1].sum()) / total
