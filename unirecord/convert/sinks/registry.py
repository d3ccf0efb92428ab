"""The kinds of sinks there are, and which of them a name asks for."""

from __future__ import annotations

from typing import Final

from ...errors import SchemaError, did_you_mean
from .arrayrecord import ArrayRecordSink
from .arrow import ArrowSink, ParquetSink
from .base import Sink
from .csv import CsvSink
from .images import ImagesSink
from .jsonl import JsonLinesSink
from .lance import LanceSink
from .mds import MdsSink
from .mindrecord import MindRecordSink
from .npz import NpzSink
from .tfrecord import TfRecordSink
from .webdataset import WebDatasetSink

__all__ = ["SINKS", "SINK_KINDS", "find_sink"]

SINKS: Final[tuple[type[Sink], ...]] = (
    ImagesSink,
    CsvSink,
    JsonLinesSink,
    ParquetSink,
    ArrowSink,
    WebDatasetSink,
    TfRecordSink,
    ArrayRecordSink,
    MdsSink,
    MindRecordSink,
    LanceSink,
    NpzSink,
)
SINK_KINDS: Final = tuple(sink.kind for sink in SINKS)


def find_sink(target: str, kind: str | None) -> Sink:
    """Return the sink of a kind, or of the ending of ``target``.

    Raises ValueError for a kind that there is not, or a name that says none; SchemaError when its package is missing.
    """
    make = next((one for one in SINKS if one.kind == kind), None)
    if kind is not None and make is None:
        raise ValueError(
            f"there is no {kind!r} to export to{did_you_mean(kind, SINK_KINDS)}; there are {', '.join(SINK_KINDS)}"
        )
    if make is None:
        make = next((one for one in SINKS if one.suffix and target.endswith(one.suffix)), None)
    if make is None:
        raise ValueError(
            f"{target}: its name does not say what to write; say so with to=: {', '.join(SINK_KINDS)}"
        )
    sink = make()
    try:
        sink.load()
    except ImportError as error:
        raise SchemaError(
            f"exporting {make.kind} needs {make.requires}: pip install {make.requires} ({error})"
        ) from None
    return sink
