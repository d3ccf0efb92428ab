"""How long reading took of each part: the slowest ones by name, of any number of passes and parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..core import Locked

__all__ = ["PartTime", "PartTimes"]

_SLOWEST: Final = 100  # that are named
_FIGURES: Final = ("batches", "bytes", "ns")


@dataclass(frozen=True)
class PartTime:
    """How long reading rows of a part took, in those batches that were timed.

    Attributes:
        path: of the part's data file.
        batches: timed, with rows of it.
        bytes: of its values in these.
        seconds: until they were there, summed over the reading threads.
    """

    path: str
    batches: int
    bytes: int
    seconds: float


class PartTimes:
    """Adds up what loaders have timed; 24 bytes for each part of the data. Thread-safe: any thread may end a pass."""

    def __init__(self) -> None:
        self._paths: Sequence[str] = ()
        self._of: NDArray[np.int64] = np.zeros((3, 0), np.int64)
        self._lock = Locked()

    def add(self, paths: Sequence[str], times: NDArray[np.void]) -> None:
        """Adds what ``NativeLoader.part_times`` gives, of parts at these paths."""
        if len(times) == 0:
            return
        with self._lock.lock:
            if paths is not self._paths:
                self._move_to(paths)
            self._of[:, times["part"]] += np.stack([times[name].astype(np.int64) for name in _FIGURES])

    def merge(self, other: PartTimes) -> None:
        """Adds all that another one has."""
        parts = np.flatnonzero(other._of[0])
        times = np.zeros(len(parts), [(name, np.int64) for name in ("part", *_FIGURES)])
        times["part"] = parts
        for name, figures in zip(_FIGURES, other._of[:, parts], strict=True):
            times[name] = figures
        self.add(other._paths, times)

    def _move_to(self, paths: Sequence[str]) -> None:
        """Goes on with other parts: those that have been timed and are not among them stay behind them."""
        before, of = self._paths, self._of
        if not before:
            self._paths, self._of = paths, np.zeros((3, len(paths)), np.int64)
            return
        place = {path: i for i, path in enumerate(paths)}
        gone = [i for i in np.flatnonzero(of[0]).tolist() if before[i] not in place]
        moved = np.zeros((3, len(paths) + len(gone)), np.int64)
        for i in np.flatnonzero(of[0]).tolist():
            if before[i] in place:
                moved[:, place[before[i]]] += of[:, i]
        moved[:, len(paths) :] = of[:, gone]
        self._paths, self._of = [*paths, *(before[i] for i in gone)], moved

    def slowest(self) -> dict[str, Any]:
        """The fields of ``LoaderStats`` and ``PipelineStats`` about parts."""
        with self._lock.lock:
            paths, (batches, sizes, ns) = self._paths, self._of.copy()
        count = int(np.count_nonzero(batches))
        order = np.argsort(-ns, kind="stable")[: min(count, _SLOWEST)].tolist()
        return {
            "parts": tuple(
                PartTime(paths[i], int(batches[i]), int(sizes[i]), int(ns[i]) / 1e9)
                for i in order
                if batches[i]
            ),
            "parts_timed": count,
            "parts_s": int(ns.sum()) / 1e9,
        }
