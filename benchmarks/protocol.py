"""What every driver does alike: open, warm, check a sample, time batches, report one line of JSON."""

from __future__ import annotations

import json
import resource
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from workloads import Raw

BATCH = 256
AGREE = 0.05  # two warm-up passes agree when the slower one has at least 0.95 of the faster one's pace
MOST_PASSES = 8
PASS = 4  # a warm-up pass lasts at most this many times the timed part


class Unsuitable(Exception):
    """This peer can't take part in this measurement; the text says why."""


class Reader(ABC):
    """One peer's data, opened for shuffled reading; `epoch` yields batches as that peer's users get them."""

    @abstractmethod
    def epoch(self, number: int) -> Iterator[Any]:
        """Batches of 256 samples in a new random order."""

    @abstractmethod
    def size(self, batch: Any) -> int:
        """Samples in `batch`."""

    @abstractmethod
    def first(self, batch: Any) -> bytes:
        """The bytes of the batch's first sample, for the check."""

    def close(self) -> None:  # noqa: B027  (most readers hold nothing that must be released)
        """Releases what the reader holds."""


class Gather(Reader):
    """Peers that answer "these rows, please": batches of shuffled ids, on threads of ours if more than one is asked."""

    def __init__(self, raw: Raw, threads: int) -> None:
        self.rows = raw.rows
        self.threads = threads

    @abstractmethod
    def fetch(self, ids: list[int]) -> Any:
        """The samples of `ids`."""

    def epoch(self, number: int) -> Iterator[Any]:
        order = np.random.default_rng(number).permutation(self.rows).tolist()
        batches = [order[start : start + BATCH] for start in range(0, self.rows, BATCH)]
        if self.threads == 1:
            yield from map(self.fetch, batches)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            waiting: list[Future[Any]] = []
            for batch in batches:
                waiting.append(pool.submit(self.fetch, batch))
                if len(waiting) > self.threads:
                    yield waiting.pop(0).result()
            yield from (future.result() for future in waiting)

    def size(self, batch: Any) -> int:
        return len(batch)

    def first(self, batch: Any) -> bytes:
        return bytes(batch[0])


class Timing:
    """Batches timed one by one."""

    def __init__(self, bytes_per_sample: float) -> None:
        self.bytes_per_sample = bytes_per_sample
        self.samples = 0
        self.latencies: list[float] = []
        self.begin(time.perf_counter())

    def begin(self, at: float) -> None:
        self.start = self.last = at
        self.processor_start = time.process_time()

    @property
    def seconds(self) -> float:
        return self.last - self.start

    def run(self, reader: Reader, batches: Iterator[Any], seconds: float) -> None:
        """Takes batches until there are no more, or `seconds` since the beginning are over."""
        for batch in batches:
            self.samples += reader.size(batch)
            now = time.perf_counter()
            self.latencies.append(now - self.last)
            self.last = now
            del batch
            if now - self.start >= seconds:
                break

    def report(self) -> dict[str, float]:
        p50, p99 = np.percentile(self.latencies, [50, 99])
        rate = self.samples / self.seconds
        return {
            "samples": self.samples,
            "seconds": round(self.seconds, 6),
            "samples_per_s": round(rate, 1),
            "bytes_per_s": round(rate * self.bytes_per_sample),
            "processor_s": round(time.process_time() - self.processor_start, 4),
            "p50_ms": round(1e3 * float(p50), 4),
            "p99_ms": round(1e3 * float(p99), 4),
            "peak_resident_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        }


def check(raw: Raw, reader: Reader, batch: Any) -> None:
    """A peer that delivers other bytes than were written must not get a figure."""
    sample = bytes(reader.first(batch))
    number = int.from_bytes(sample[:8], "little")
    if number >= raw.rows or sample != raw.row(number).tobytes():
        raise AssertionError(f"the driver delivered bytes that were not written (row number read: {number})")


@dataclass
class WarmUp:
    """Passes before the clock starts: the samples a second of each, and when the first batch of all was there."""

    paces: list[float] = field(default_factory=list)
    started: float = 0.0

    @property
    def settled(self) -> bool:
        """Whether the last two passes agree."""
        return len(self.paces) > 1 and abs(self.paces[-1] - self.paces[-2]) <= AGREE * max(self.paces[-2:])


def warm(raw: Raw, reader: Reader, seconds: float) -> WarmUp:
    """Passes until two in a row agree.

    Some peers compile, start threads and fault memory in for more than an epoch. A pass is an epoch, or what `seconds`
    hold of it; after MOST_PASSES the peer is timed as it is.
    """
    done = WarmUp()
    while len(done.paces) < MOST_PASSES and not done.settled:
        start, samples = time.perf_counter(), 0
        for batch in reader.epoch(len(done.paces)):
            if not done.paces and not samples:
                done.started = time.perf_counter()
                check(raw, reader, batch)
            samples += reader.size(batch)
            del batch
            if time.perf_counter() - start > seconds:
                break
        done.paces.append(samples / (time.perf_counter() - start))
    return done


def measure(raw: Raw, reader: Reader, seconds: float, cold: bool, opened: float) -> dict[str, float]:
    """Samples a second through the peer's own loop: epochs until `seconds` are over; when cold, one epoch at most.

    Cached, the clock starts at the first batch of the first timed epoch: some peers take seconds to begin an epoch,
    which a run shorter than their epoch would exaggerate. Uncached, it starts before it. What a peer takes to start,
    from ``opened`` (when it was told to open the data) to its very first batch, is a figure of its own.
    """
    done = WarmUp() if cold else warm(raw, reader, PASS * seconds)
    timing = Timing(raw.total_bytes / raw.rows)
    asked = time.perf_counter()
    number = len(done.paces)  # the epochs so far
    batches = reader.epoch(number)
    if not cold:
        next(batches)
    begun = time.perf_counter()
    timing.begin(asked if cold else begun)
    timing.run(reader, batches, seconds)
    while not cold and timing.seconds < seconds:
        number += 1
        timing.run(reader, reader.epoch(number), seconds)
    reader.close()
    first = timing.latencies[0] if cold else begun - asked
    result = {**timing.report(), "first_batch_ms": round(1e3 * first, 3)}
    if cold:
        return result
    start = round(1e3 * (done.started - opened), 3)
    return {**result, "start_ms": start, "warm_epochs": len(done.paces), "settled": float(done.settled)}


def answer(result: dict[str, Any]) -> None:
    """The driver's only line on standard output that counts: the last one."""
    print(json.dumps(result), flush=True)


def marker(directory: Path) -> Path:
    """The file that says that a peer's data is complete."""
    return directory / ".complete"
