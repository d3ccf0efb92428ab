"""Figures that loaders and pipelines have saved beside their receipts, read as what anybody may have written."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Final

from ..loading.stats import STATS_SUFFIX
from ..storage.registry import location_of

__all__ = ["SavedPart", "SavedStage", "SavedStats", "saved_stats"]

_MOST_FILES: Final = 1_000
_MOST_BYTES: Final = 1 << 20
_MOST_STAGES: Final = 1_000
_MOST_PARTS: Final = 100
_LONGEST_PATH: Final = 1_000
_MOST: Final = 1e18  # of any figure


@dataclass(frozen=True)
class SavedStage:
    """One stage of a pipeline: shares of its time without input and without takers, and of all work."""

    name: str
    elements: float
    workers: float
    wait_in: float
    wait_out: float
    share: float


@dataclass(frozen=True)
class SavedPart:
    """Reading one part: batches that were timed, bytes of its values in these, and how long that took."""

    path: str
    batches: float
    bytes: float
    seconds: float


@dataclass(frozen=True)
class SavedStats:
    """One file: whose figures they are by its name; ``problem`` where it cannot be read, and nothing else is known."""

    name: str
    problem: str = ""
    delivered: float = 0
    seconds: float = 0.0
    wait_s: float = 0.0
    read_s: float = 0.0
    transform_s: float = 0.0
    bound: str = ""
    stages: tuple[SavedStage, ...] = ()
    parts: tuple[SavedPart, ...] = ()
    parts_timed: float = 0
    parts_s: float = 0.0


def saved_stats(folder: str) -> list[SavedStats]:
    """The figures in a folder, by name; of very many files the first ones."""
    place = location_of(folder)
    names = sorted(name for name in place.names(folder) if name.endswith(STATS_SUFFIX))[:_MOST_FILES]
    return [_read(os.path.join(folder, name), name.removesuffix(STATS_SUFFIX)) for name in names]


def _read(path: str, name: str) -> SavedStats:
    try:
        content = location_of(path).read(path, _MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError("it is too large")
        return _taken(name, json.loads(content))
    except (OSError, ValueError, RecursionError) as error:
        return SavedStats(name, problem=f"cannot be read: {error}")


def _taken(name: str, found: Any) -> SavedStats:
    """The figures of a file; ValueError for what no loader writes."""
    if not isinstance(found, dict) or found.get("of") not in ("loader", "pipeline"):
        raise ValueError("it holds no figures of a loader or a pipeline")
    if found["of"] == "loader":
        return SavedStats(
            name,
            delivered=_number(found, "batches"),
            bound=_text(found, "bound"),
            seconds=_number(found, "seconds"),
            wait_s=_number(found, "wait_s"),
            read_s=_number(found, "read_s"),
            transform_s=_number(found, "transform_s"),
            **_parts(found),
        )
    stages = found.get("stages")
    if not isinstance(stages, list):
        raise ValueError("it has no stages")
    return SavedStats(
        name,
        delivered=_number(found, "results"),
        seconds=_number(found, "seconds"),
        wait_s=_number(found, "wait_s"),
        bound=_text(found, "bottleneck"),
        stages=tuple(map(_stage, stages[:_MOST_STAGES])),
        **_parts(found),
    )


def _parts(found: Any) -> dict[str, Any]:
    """What a file says of parts; nothing where an earlier version has written it."""
    if "parts" not in found:
        return {}
    parts = found["parts"]
    if not isinstance(parts, list):
        raise ValueError("parts are no list")
    return {
        "parts": tuple(map(_part, parts[:_MOST_PARTS])),
        "parts_timed": _number(found, "parts_timed"),
        "parts_s": _number(found, "parts_s"),
    }


def _part(found: Any) -> SavedPart:
    figures = {field: _number(found, field) for field in ("batches", "bytes", "seconds")}
    return SavedPart(_text(found, "path", _LONGEST_PATH), **figures)


def _stage(found: Any) -> SavedStage:
    fields = ("elements", "workers", "wait_in", "wait_out", "share")
    return SavedStage(_text(found, "name"), **{field: _number(found, field) for field in fields})


def _number(found: Any, name: str) -> float:
    value = found.get(name) if isinstance(found, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
        raise ValueError(f"{name} is no figure")
    return float(value)


def _text(found: Any, name: str, most: int = 200) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value[:most]
