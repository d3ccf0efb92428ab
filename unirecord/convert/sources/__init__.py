"""Raw data to records: a source reads what a user has, and yields columns ready for `Writer.write_batch`."""

from __future__ import annotations

from .base import LeftOut, Options, RawBatch, Source, Unit, WrongSourceError
from .input_path import MAX_SPOOL_BYTES, InputPath, open_input
from .registry import KINDS, SOURCES, open_source, source_type

__all__ = [
    "KINDS",
    "MAX_SPOOL_BYTES",
    "SOURCES",
    "InputPath",
    "LeftOut",
    "Options",
    "RawBatch",
    "Source",
    "Unit",
    "WrongSourceError",
    "open_input",
    "open_source",
    "source_type",
]
