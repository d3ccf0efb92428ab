"""Which blob columns are worth compressing, and how: tried on a sample of their values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ..core import CODEC_SHUFFLE_ZSTD, CODEC_ZSTD
from ..format.column import Codec, Column
from ..format.file_kinds import file_kind
from ..format.schema import Schema
from ..format.values import ColumnBatch
from .compressing import Cells, cells_of, choose_dictionary, encoder_of

__all__ = ["CodecChoice", "choose_codecs"]

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
