"""Raw data to records: a source reads what a user has, and yields columns ready for `Writer.write_batch`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .input_path import MAX_SPOOL_BYTES, InputPath, open_input
from .source import LeftOut, Misfit, Options, RawBatch, Source, Unit, WrongSourceError

if TYPE_CHECKING:
    from .kinds import KINDS, SOURCES, open_source, refuse_unknown, source_type
    from .several import open_sources

__all__ = [
    "KINDS",
    "MAX_SPOOL_BYTES",
    "SOURCES",
    "InputPath",
    "LeftOut",
    "Misfit",
    "Options",
    "RawBatch",
    "Source",
    "Unit",
    "WrongSourceError",
    "open_input",
    "open_source",
    "open_sources",
    "refuse_unknown",
    "source_type",
]


def __getattr__(name: str) -> Any:
    """What knows all kinds of sources, imported when it is asked for: a worker process needs one kind alone."""
    if name in ("KINDS", "SOURCES", "open_source", "refuse_unknown", "source_type"):
        return getattr(import_module(".kinds", __name__), name)
    if name == "open_sources":
        return import_module(".several", __name__).open_sources
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
