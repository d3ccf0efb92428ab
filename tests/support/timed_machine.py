"""A machine whose steps take a stated time."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from types import SimpleNamespace
from typing import Any

from unirecord.pipeline.tuner import Tuner as _Tuner

MS = 1_000_000
STEP = 50 * MS


class Machine:
    """A stage whose elements wait and compute for so long, on so many cores, with a clock of its own.

    With ``lock``, only one computes at a time, and others that want to cost it a little each. Its consumer always
    waits. ``noise`` is what others take of the cores, at most.
    """

    def __init__(
        self, waits_ms: float, computes_ms: float, cores: int, lock: bool = False, noise: float = 0.0
    ) -> None:
        self.waits, self.computes, self.cores, self.lock = waits_ms * MS, computes_ms * MS, cores, lock
        self.others: Any = Random(7)
        self.noise = noise
        self.now = 1
        self.stage_queue = SimpleNamespace(reads=False, shared=True, tasks=0, elements=0, busy_ns=0, cpu_ns=0)

    def rate(self, workers: int) -> float:
        """Elements in a nanosecond."""
        fastest = workers / (self.waits + self.computes)
        if not self.computes:
            return fastest
        most = (
            1 / (1 + 0.05 * (workers - 1)) if self.lock and not self.waits else 1 if self.lock else self.cores
        )
        return min(fastest, most / self.computes)

    def best(self, numbers: Iterable[int]) -> float:
        """The highest rate of some numbers of workers."""
        return max(map(self.rate, numbers))

    def run(self, tuner: _Tuner, seconds: float) -> list[int]:
        """Runs for so long; the numbers of workers that were used."""
        used = []
        for _ in range(int(seconds * 20)):
            count = self.rate(tuner.workers) * STEP * (1 - self.others.uniform(0, self.noise))
            self.now += STEP
            self.stage_queue.tasks += count
            self.stage_queue.elements += count
            self.stage_queue.cpu_ns += count * self.computes
            self.stage_queue.busy_ns += tuner.workers * STEP
            tuner.waited(0, STEP)
            tuner.look([self.stage_queue], self.now)  # type: ignore[list-item]
            used.append(tuner.workers)
        return used
