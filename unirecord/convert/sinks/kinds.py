"""The kinds of sinks there are, and which of them a name asks for."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from ...errors import SchemaError, did_you_mean
from ..plugins import with_installed
from .arrow import ARROW, LANCE, PARQUET
from .csv import CSV
from .images import IMAGES
from .jsonl import JSON_LINES
from .mds import MDS
from .mindrecord import MINDRECORD
from .npz import NPZ
from .sink import Sink
from .tf_example import ARRAY_RECORD, TFRECORD
from .webdataset import WEBDATASET

__all__ = ["SINKS", "SINK_KINDS", "find_sink"]

_OWN: Final[tuple[Sink, ...]] = (
    IMAGES,
    CSV,
    JSON_LINES,
    PARQUET,
    ARROW,
    WEBDATASET,
    TFRECORD,
    ARRAY_RECORD,
    MDS,
    MINDRECORD,
    LANCE,
    NPZ,
)
SINKS: Final[tuple[Sink, ...]] = with_installed(
    _OWN, "unirecord.sinks", lambda found: found.kind if isinstance(found, Sink) else None
)
SINK_KINDS: Final = tuple(sink.kind for sink in SINKS)


def find_sink(target: str, kind: str | None) -> Sink:
    """Return the sink of a kind, or of the ending of ``target``.

    Raises ValueError for a kind that there is not, or a name that says none; SchemaError when its package is missing.
    """
    sink = next((one for one in SINKS if one.kind == kind), None)
    if kind is not None and sink is None:
        raise ValueError(
            f"there is no {kind!r} to export to{did_you_mean(kind, SINK_KINDS)}; there are {', '.join(SINK_KINDS)}"
        )
    if sink is None:
        sink = next((one for one in SINKS if one.suffix and target.endswith(one.suffix)), None)
    if sink is None:
        raise ValueError(
            f"{target}: its name does not say what to write; say so with to=: {', '.join(SINK_KINDS)}"
        )
    try:
        if sink.imports is not None:
            import_module(sink.imports)
    except ImportError as error:
        raise SchemaError(
            f"exporting {sink.kind} needs {sink.requires}: pip install {sink.requires} ({error})"
        ) from None
    return sink
