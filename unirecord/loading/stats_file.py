"""Figures of a loader or a pipeline as a file, which `unirecord report` finds beside the receipts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from ..storage.staged import StagedFile

__all__ = ["STATS_SUFFIX", "save_stats"]

STATS_SUFFIX: Final = ".stats.json"


def save_stats(of: str, figures: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes figures ``of`` a "loader" or "pipeline" to a file, whole or not at all; an earlier one is replaced.

    ValueError where the name does not end in ``.stats.json``; OSError where it cannot be written.
    """
    name = os.fspath(path)
    if "://" in name or not name.endswith(STATS_SUFFIX):
        raise ValueError(f"{name}: figures are saved to a file on a disk whose name ends in {STATS_SUFFIX}")
    file = StagedFile(name)
    try:
        file.append([json.dumps({"of": of, **figures}, indent=1).encode()])
        file.sync()
        file.publish()
    finally:
        file.discard()
