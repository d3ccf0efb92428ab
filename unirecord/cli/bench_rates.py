"""Measuring for ``unirecord bench``: one way of reading at a time, and what the figures mean for a job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from ..dataset.dataset import UniRecordDataset
from ..parts.part_set import Io, resolve
from ..storage import local_disk

__all__ = ["WAYS", "Measured", "Need", "advice", "forget_cached", "measure", "step_that_hides"]

WAYS: Final = ("auto", "mmap", "pread", "uring", "uring-direct", "memory")

_ENOUGH = 1.1  # a loader this much faster than the job keeps up with its own jitter


@dataclass(frozen=True)
class Measured:
    """One way of reading: what was asked for, what the reader says it did, and how fast it was."""

    io: str
    used: str
    samples: int
    seconds: float
    samples_per_s: float
    bytes_per_s: float
    p50_ms: float
    p99_ms: float
    first_batch_ms: float

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Need:
    """What a job asks of the loader: a batch of so many samples every ``step_ms``."""

    batch: int
    step_ms: float
    bytes_per_sample: float

    @property
    def samples_per_s(self) -> float:
        return self.batch / self.step_ms * 1e3

    @property
    def bytes_per_s(self) -> float:
        return self.samples_per_s * self.bytes_per_sample

    def met_by(self, one: Measured) -> bool:
        """Whether this way of reading keeps up, with a little to spare."""
        return one.samples_per_s >= _ENOUGH * self.samples_per_s


def measure(
    path: str, io: Io, *, batch: int, threads: int | None, seconds: float, cold: bool, **options: Any
) -> Measured:
    """Read shuffled batches for ``seconds``: after as long a warm-up, or cold, and then one epoch at most."""
    if cold:
        forget_cached(path)
    with UniRecordDataset(path, 0, 1, shuffle=True, io=io, **options) as ds:
        batches = ds.batches(batch, num_threads=threads)
        if not cold:
            _take(batches, seconds, at_most_one=True)
        latencies, samples, size, took = _take(batches, seconds, at_most_one=cold)
        used = ds.io
    p50, p99 = np.percentile(latencies, [50, 99]) * 1e3
    return Measured(
        io, used, samples, took, samples / took, size / took, float(p50), float(p99), latencies[0] * 1e3
    )


def _take(batches: Any, seconds: float, *, at_most_one: bool) -> tuple[list[float], int, int, float]:
    """Latency of each batch, samples, bytes and seconds, over epochs until ``seconds`` are over."""
    before = batches.stats()
    latencies: list[float] = []
    start = last = time.perf_counter()
    while last - start < seconds:
        for batch in batches:
            now = time.perf_counter()
            latencies.append(now - last)
            last = now
            del batch
            if now - start >= seconds:
                break
        if at_most_one:
            break
    after = batches.stats()
    return latencies, after.samples - before.samples, after.bytes - before.bytes, last - start


def forget_cached(path: str) -> None:
    """Ask the kernel to drop the data files from its cache; they were synced when they were published.

    Pages that are mapped somewhere stay.
    """
    for part in resolve(path).parts:
        local_disk.forget_cached(part.path)


def step_that_hides(one: Measured, batch: int) -> float:
    """The shortest training step, in ms, that this way of reading keeps fed."""
    return _ENOUGH * batch / one.samples_per_s * 1e3


def advice(need: Need, measured: Sequence[Measured], *, threads: int, cores: int, cold: bool) -> list[str]:
    """What to change when the automatic choice is short of the need, the most useful first."""
    auto = measured[0]
    found = []
    best = max(measured, key=lambda one: one.samples_per_s)
    if best.samples_per_s > 1.15 * auto.samples_per_s:
        word = "is enough" if need.met_by(best) else "is faster, but not enough by itself"
        found.append(f'io="{best.io}" {word}: {best.samples_per_s:,.0f} samples/s')
    if threads < cores:
        found.append(f"num_threads={cores}: this run used {threads} of {cores} cores to read")
    if cold:
        found.append(
            "more memory, so that the data stays cached after the first epoch, or storage that reads "
            f'{need.bytes_per_s / 1e6:,.0f} MB/s at random; on disks and network file systems shuffle="block"'
        )
    found.append(
        "columns=[...] with what the job uses alone; smaller samples (resize or compress once, when writing)"
    )
    return found
