"""Where the time of a loader goes: rates, waiting, latencies, by part, and the same as text, scalars and a file."""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core import Locked
from ..storage.staged import StagedFile

__all__ = [
    "LoaderStats",
    "Metric",
    "PartTime",
    "PartTimes",
    "STATS_SUFFIX",
    "StatsRecorder",
    "add_scalars",
    "exposition",
    "save_stats",
]


# Figures of a loader for what watches a job: text as Prometheus scrapes it, and scalars as TensorBoard draws them.


class Metric(NamedTuple):
    """One figure: its name without ``unirecord_``, "counter" or "gauge", what it is, its values by labels."""

    name: str
    kind: str
    says: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def exposition(metrics: Iterable[Metric], labels: Mapping[str, str] | None) -> str:
    """Prometheus' text format 0.0.4; ``labels`` stand at every value. ValueError for a name that no label can have."""
    common = dict(labels or {})
    for name in common:
        _check(name)
    lines: list[str] = []
    for metric in metrics:
        name = f"unirecord_{metric.name}"
        lines += [f"# HELP {name} {metric.says}", f"# TYPE {name} {metric.kind}"]
        for own, value in metric.samples:
            if twice := common.keys() & own.keys():
                raise ValueError(f"label {min(twice)!r} is one of {name} itself; give yours another name")
            found = ",".join(f'{key}="{_escaped(str(text))}"' for key, text in {**common, **own}.items())
            lines.append(f"{name}{{{found}}} {_number(value)}" if found else f"{name} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def add_scalars(metrics: Iterable[Metric], writer: Any, step: int) -> None:
    """Calls ``writer.add_scalar(tag, value, step)`` for each figure; what labels say stands behind a slash."""
    for metric in metrics:
        for own, value in metric.samples:
            writer.add_scalar("/".join(["unirecord", metric.name, *own.values()]), float(value), step)


def _check(name: str) -> None:
    plain = name.replace("_", "a")
    if not (plain.isascii() and plain.isalnum()) or plain[0].isdigit() or name.startswith("__"):
        raise ValueError(
            f"label {name!r}: expected ASCII letters, digits and _, no digit first, and not two _ first"
        )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isinstance(value, int) or math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


# How long reading took of each part: the slowest ones by name, of any number of passes and parts.


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


# Figures of a loader or a pipeline as a file, which `unirecord report` finds beside the receipts.


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


# Where the time of a loader goes: rates, waiting, latencies, and which side is the slower one.


_KEPT = 4096  # latencies kept for the percentiles: the latest ones
_WAITING_SHARE = 0.05  # below this share of waiting, the consumer is what limits the rate


@dataclass(frozen=True)
class LoaderStats:
    """What a loader has delivered so far, and how long each side took.

    Attributes:
        batches, samples: delivered so far, all epochs together.
        skipped: corrupt rows left out (``on_corrupt="skip"``).
        bytes: of the values delivered.
        seconds: waiting and consuming together; the rates are over these.
        samples_per_s, bytes_per_s: samples and bytes over ``seconds``.
        wait_s: seconds in which the consumer waited for a batch: the time in which a GPU would have starved.
        consumer_s: seconds in which the consumer kept the batches.
        read_s: seconds of work, summed over the reading threads.
        transform_s: seconds of work, summed over the transforming threads.
        p50_ms, p99_ms: milliseconds of waiting for one batch, over the latest 4,096.
        bound: what limits the rate: ``"consumer"``, ``"reading"`` or ``"transform"``.
        buffers: pieces of memory for batches that have been allocated.
        parts: the parts that reading took the longest of, at most 100, the slowest first. Counted when a pass ends.
            Batches are timed part by part where they take so long that this costs nothing (5 µs for each look at the
            clock), as from disks, networks and object stores.
        parts_timed: how many parts have been timed.
        parts_s: seconds of all of them, a part of ``read_s``.
    """

    batches: int
    samples: int
    skipped: int
    bytes: int
    seconds: float
    samples_per_s: float
    bytes_per_s: float
    wait_s: float
    consumer_s: float
    read_s: float
    transform_s: float
    p50_ms: float
    p99_ms: float
    bound: str
    buffers: int
    parts: tuple[PartTime, ...]
    parts_timed: int
    parts_s: float

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that JSON can hold."""
        return asdict(self)

    def to_prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """The figures in Prometheus' text format 0.0.4, to be served or written to a file that is collected.

        Args:
            labels: stand at every value, such as ``{"rank": "0"}``; their values are escaped.

        Raises:
            ValueError: a label has a name that Prometheus does not allow.
        """
        return exposition(self._metrics(), labels)

    def to_tensorboard(self, writer: Any, step: int) -> None:
        """Calls ``writer.add_scalar(tag, value, step)`` for each figure, as a ``SummaryWriter`` has it."""
        add_scalars(self._metrics(), writer, step)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figures to a file ``NAME.stats.json``: `unirecord report` shows those beside the receipts.

        Args:
            path: such as ``run1/receipts/rank-0.stats.json``, a name for each rank; an earlier file is replaced.

        Raises:
            ValueError: the name does not end in ``.stats.json``.
            OSError: it cannot be written.
        """
        save_stats("loader", self.to_dict(), path)

    def _metrics(self) -> list[Metric]:
        one = {
            "batches_total": ("counter", "Batches delivered.", self.batches),
            "samples_total": ("counter", "Samples delivered.", self.samples),
            "skipped_total": ("counter", "Corrupt rows left out.", self.skipped),
            "bytes_total": ("counter", "Bytes of the values delivered.", self.bytes),
            "wait_seconds_total": ("counter", "Time in which the consumer waited for a batch.", self.wait_s),
            "consumer_seconds_total": (
                "counter",
                "Time in which the consumer kept the batches.",
                self.consumer_s,
            ),
            "read_seconds_total": ("counter", "Work of all reading threads.", self.read_s),
            "transform_seconds_total": ("counter", "Work of all transforming threads.", self.transform_s),
            "buffers": ("gauge", "Pieces of memory for batches that have been allocated.", self.buffers),
        }
        metrics = [Metric(name, kind, says, (({}, value),)) for name, (kind, says, value) in one.items()]
        waits = (({"quantile": "0.5"}, self.p50_ms / 1e3), ({"quantile": "0.99"}, self.p99_ms / 1e3))
        return [
            *metrics,
            Metric("batch_wait_seconds", "gauge", "Wait for one batch, of the latest 4,096.", waits),
        ]

    def __str__(self) -> str:
        return (
            f"{self.samples_per_s:,.0f} samples/s, {self.bytes_per_s / 1e6:,.0f} MB/s, "
            f"batch wait p50 {self.p50_ms:.3f} ms p99 {self.p99_ms:.3f} ms, bound by {self.bound}"
        )


class StatsRecorder(Locked):
    """Collects the times of one loader, all epochs together; nanoseconds inside. Threads may count at once."""

    def __init__(self) -> None:
        super().__init__()
        self._waits = array("q", bytes(8 * _KEPT))
        self._count = 0
        self.samples: int = 0
        self.skipped: int = 0
        self.bytes: int = 0
        self.wait_ns: int = 0
        self.wait_transform_ns: int = 0
        self.consumer_ns = 0
        self.transform_ns: int = 0
        self.read_ns = 0
        self.part_times: PartTimes = PartTimes()

    def delivered(self, samples: int, skipped: int, size: int, waited_ns: int) -> None:
        """Counts a batch for which the consumer waited ``waited_ns``."""
        with self.lock:
            self._waits[self._count % _KEPT] = waited_ns
            self._count += 1
            self.samples += samples
            self.skipped += skipped
            self.bytes += size
            self.wait_ns += waited_ns

    def consumed(self, ns: int) -> None:
        """Counts the time for which the consumer kept a batch."""
        with self.lock:
            self.consumer_ns += ns

    def ended(self, skipped: int) -> None:
        """Counts the corrupt rows behind the last batch of a pass."""
        with self.lock:
            self.skipped += skipped

    def read(self, ns: int, part_times: PartTimes) -> None:
        """Counts what a pass took to read."""
        with self.lock:
            self.read_ns += ns
        self.part_times.merge(part_times)

    def transformed(self, ns: int) -> None:
        """Counts the time of a thread that transformed a batch."""
        with self.lock:
            self.transform_ns += ns

    def waited_for_transform(self, ns: int) -> None:
        """Counts the time in which a transform had to be waited for."""
        with self.lock:
            self.wait_transform_ns += ns

    def __reduce__(self) -> tuple[Any, ...]:
        return StatsRecorder, ()  # a copy of a loader counts its own

    def _bound(self) -> str:
        if self.wait_ns <= _WAITING_SHARE * (self.wait_ns + self.consumer_ns):
            return "consumer"
        return "transform" if self.wait_transform_ns * 2 > self.wait_ns else "reading"

    def summary(self, buffers: int) -> LoaderStats:
        """The figures so far."""
        waits = np.frombuffer(self._waits, np.int64, min(self._count, _KEPT))
        p50, p99 = np.percentile(waits, [50, 99]) if len(waits) else (0.0, 0.0)
        seconds = (self.wait_ns + self.consumer_ns) / 1e9
        return LoaderStats(
            batches=self._count,
            samples=self.samples,
            skipped=self.skipped,
            bytes=self.bytes,
            seconds=seconds,
            samples_per_s=self.samples / seconds if seconds else 0.0,
            bytes_per_s=self.bytes / seconds if seconds else 0.0,
            wait_s=self.wait_ns / 1e9,
            consumer_s=self.consumer_ns / 1e9,
            read_s=self.read_ns / 1e9,
            transform_s=self.transform_ns / 1e9,
            p50_ms=float(p50) / 1e6,
            p99_ms=float(p99) / 1e6,
            bound=self._bound(),
            buffers=buffers,
            **self.part_times.slowest(),
        )
