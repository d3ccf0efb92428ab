"""What loaders and pipelines have delivered, and where the time went: by stage, by part, and as a file."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from time import perf_counter_ns
from typing import Any, ClassVar, Final, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ..core import Locked
from ..figures import Figures, MetricName
from ..storage.staged import write_staged

__all__ = ["STATS_SUFFIX", "PartTime", "PartTimes", "Recorder", "StageStats", "Stats", "StageTimes", "pace"]


# How long reading took of each part: the slowest ones by name, of any number of passes and parts.


Bound = Literal["consumer", "read", "transform"]  # what limits the rate of a loader or a pipeline
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
        """The fields of ``Stats`` about parts."""
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


# What is handed out of all this: one snapshot of a loader's or a pipeline's figures.


@dataclass(frozen=True)
class StageStats(Figures):
    """One stage of a loader or a pipeline, all passes together.

    Attributes:
        name: its operators; "read" is the first stage of all, and "transform" a loader's functions.
        limit: tasks that may run at a time: "auto", or the number asked for.
        elements: what the stage has worked on.
        busy_s: seconds of work, summed over its workers.
        workers: tasks that ran at a time, on average.
        rate: elements a second that one worker does.
        share: of all work.
        cores: cores that the stage used, on average; None where that is not measured, as in a loader.
        wait_in: share of the time in which the stage had nothing to work on; None likewise.
        wait_out: share of the time in which its results were not taken; None likewise.
    """

    METRICS: ClassVar[Mapping[str, MetricName]] = {
        "elements": MetricName("stage_elements_total", "counter"),
        "busy_s": MetricName("stage_busy_seconds_total", "counter"),
        "cores": MetricName("stage_cores", "gauge"),
    }

    name: str
    limit: str
    elements: int
    busy_s: float
    workers: float
    rate: float
    share: float
    cores: float | None = None
    wait_in: float | None = None
    wait_out: float | None = None


def _stage_stats(
    name: str, limit: int, elements: int, busy_ns: int, elapsed_ns: int, all_ns: int
) -> StageStats:
    """A stage that was busy so long of all stages' ``all_ns``; ``limit`` 0: "auto"."""
    return StageStats(
        name=name,
        limit=str(limit) if limit else "auto",
        elements=elements,
        busy_s=busy_ns / 1e9,
        workers=busy_ns / max(1, elapsed_ns),
        rate=elements / busy_ns * 1e9 if busy_ns else 0.0,
        share=busy_ns / max(1, all_ns),
    )


STATS_SUFFIX: Final = ".stats.json"


@dataclass(frozen=True)
class Stats(Figures):
    """What a loader or a pipeline has delivered so far, all epochs together, and where the time went.

    Attributes:
        results: batches delivered; of a pipeline that makes none, samples.
        samples: rows in these.
        skipped: samples left out: corrupt rows, and what operators left out.
        filled: samples that something stands in for, such as broken pictures.
        bytes: memory of the values delivered.
        seconds: waiting and consuming together; the rates are over these.
        rate, samples_per_s, bytes_per_s: results, samples and bytes over ``seconds``.
        wait_s: seconds in which the consumer waited for a result: the time in which a GPU would have starved.
        consumer_s: seconds in which the consumer kept the results.
        p50_ms, p99_ms: the wait for a result, of the latest 4,096 waits. In milliseconds.
        bound: what limits the rate: "consumer", or that it waits for "read" or "transform", any stage behind reading.
        bound_stage: the name of the stage that limits the rate; nothing where the consumer does.
        one_more_core: results a second that one more core would give, about; None in a loader, which does not know.
        threads: threads that stages without a number of their own share; in a loader, those that read.
        buffers: pieces of memory for batches that have been allocated.
        stages: one for reading, and one for each stage behind it.
        reasons: what was chosen while it ran, and why.
        settled: whether no other number of threads is being tried out, nor has still to be.
        parts: the parts that reading took the longest of, at most 100, the slowest first. Counted when a pass ends.
            Batches are timed part by part where they take so long that this costs nothing (5 µs for each look at the
            clock), as from disks, networks and object stores.
        parts_timed: how many parts have been timed.
        parts_s: seconds of all of them, a part of the reading stage's.
    """

    METRICS: ClassVar[Mapping[str, MetricName]] = {
        "results": MetricName("results_total", "counter"),
        "samples": MetricName("samples_total", "counter"),
        "skipped": MetricName("skipped_total", "counter"),
        "filled": MetricName("filled_total", "counter"),
        "bytes": MetricName("bytes_total", "counter"),
        "wait_s": MetricName("wait_seconds_total", "counter"),
        "consumer_s": MetricName("consumer_seconds_total", "counter"),
        "p50_ms": MetricName("result_wait_seconds", "gauge", {"quantile": "0.5"}, 1e3),
        "p99_ms": MetricName("result_wait_seconds", "gauge", {"quantile": "0.99"}, 1e3),
        "threads": MetricName("threads", "gauge"),
        "buffers": MetricName("buffers", "gauge"),
        "stages": MetricName("stage", "each"),
    }

    results: int
    samples: int
    skipped: int
    filled: int
    bytes: int
    seconds: float
    rate: float
    samples_per_s: float
    bytes_per_s: float
    wait_s: float
    consumer_s: float
    p50_ms: float
    p99_ms: float
    bound: Bound
    bound_stage: str
    one_more_core: float | None
    threads: int
    buffers: int
    stages: tuple[StageStats, ...]
    reasons: tuple[str, ...]
    settled: bool
    parts: tuple[PartTime, ...]
    parts_timed: int
    parts_s: float

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figures to a file ``NAME.stats.json``: `unirecord report` shows those beside the receipts.

        Args:
            path: such as ``run1/receipts/rank-0.stats.json``, a name for each rank; an earlier file is replaced.

        Raises:
            ValueError: the name does not end in ``.stats.json``.
            OSError: it cannot be written.
        """
        name = os.fspath(path)
        if "://" in name or not name.endswith(STATS_SUFFIX):
            raise ValueError(
                f"{name}: figures are saved to a file on a disk whose name ends in {STATS_SUFFIX}"
            )
        write_staged(name, None, json.dumps(self.to_dict(), indent=1).encode(), durable=True)

    @classmethod
    def from_dict(cls, fields: Any) -> Stats:
        """The figures of which ``to_dict`` gave these ``fields``, perhaps through a file.

        Args:
            fields: what JSON made of the file; anybody may have written it.

        Raises:
            ValueError: a field is not there, or is none that a loader or a pipeline writes.
        """
        return _taken(cls, fields)

    def __str__(self) -> str:
        batches = f", {self.samples_per_s:,.0f} samples/s" if self.samples != self.results else ""
        lines = [
            f"{self.rate:,.1f} results/s{batches}, {self.bytes_per_s / 1e6:,.0f} MB/s, waited {self.wait_s:.2f} of "
            f"{self.seconds:.2f} s (p50 {self.p50_ms:.3f} ms, p99 {self.p99_ms:.3f} ms), "
            f"bound by {self.bound_stage or self.bound}"
        ]
        left = ((self.skipped, "left out"), (self.filled, "filled in"))
        lines[0] += "".join(f", {count:,} {what}" for count, what in left if count)
        rows: list[tuple[str, ...]] = [
            ("stage", "workers", "rate each", "cores", "wait in", "wait out", "share")
        ]
        rows += [
            (
                stage.name,
                f"{stage.workers:.1f} of {stage.limit}",
                f"{stage.rate:,.0f}/s",
                "-" if stage.cores is None else f"{stage.cores:.2f}",
                *("-" if share is None else f"{share:.0%}" for share in (stage.wait_in, stage.wait_out)),
                f"{stage.share:.0%}",
            )
            for stage in self.stages
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *others in rows:
            cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
            lines.append("  ".join([first.ljust(widths[0]), *cells]))
        if self.one_more_core is not None:
            lines.append(f"one more core: about {self.one_more_core:,.1f} results/s")
        return "\n".join([*lines, *self.reasons])


# Figures that are read from a file are taken as what anybody may have written.


_Dataclass = TypeVar("_Dataclass")
_MOST: Final = 1e18  # of any figure
_MOST_STAGES: Final = 1_000
_LONGEST: Final = 1_000  # text


def _taken(cls: type[_Dataclass], found: Any) -> _Dataclass:
    """The dataclass with these fields; of long lists and texts, the beginning."""
    if not isinstance(found, dict):
        raise ValueError("it holds no figures of a loader or a pipeline")
    return cls(**{field.name: _value(str(field.type), field.name, found) for field in fields(cls)})  # type: ignore[arg-type]


def _value(kind: str, name: str, found: Mapping[str, Any]) -> Any:
    value = found.get(name)
    if kind.endswith(" | None"):
        if value is None and name in found:
            return None
        kind = kind.removesuffix(" | None")
    if kind.startswith("tuple["):
        if not isinstance(value, list):
            raise ValueError(f"{name} is no list")
        return tuple(_ITEMS[kind](item) for item in value[:_MOST_STAGES])
    if kind == "bool":
        if not isinstance(value, bool):
            raise ValueError(f"{name} is not true or false")
        return value
    if kind == "str":
        return _text(value, name)
    if kind == "Bound":
        if value not in get_args(Bound):
            raise ValueError(f"{name} is none of {', '.join(get_args(Bound))}")
        return value
    numbers = (int, float) if kind == "float" else (int,)
    if isinstance(value, bool) or not isinstance(value, numbers) or not 0 <= value < _MOST:
        raise ValueError(f"{name} is no figure")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value[:_LONGEST]


_ITEMS: Final[Mapping[str, Any]] = {
    "tuple[StageStats, ...]": lambda item: _taken(StageStats, item),
    "tuple[PartTime, ...]": lambda item: _taken(PartTime, item),
    "tuple[str, ...]": lambda item: _text(item, "a reason"),
}


# Where the time of one stage in a pass goes: what its tasks take, of a processor too, and what it waits for.


_CPU_SAMPLE_NS = 2_000_000  # of work between two looks at the processor's time
_FEW = 8  # tasks, of which each counts much for what an element takes
_MUCH_LONGER = 4.0  # times what was known; more is believed when it comes again


class StageTimes:
    """Nanoseconds, and counts of tasks and elements; changed under the lock of the pass.

    ``reads``: it is the one that reads. ``shared``: it has no number of workers of its own.
    """

    _SUMMED: ClassVar[tuple[str, ...]] = ("busy_ns", "cpu_ns", "elements", "wait_in_ns", "wait_out_ns")

    reads: bool
    shared: bool
    busy_ns: int
    cpu_ns: int
    elements: int
    tasks: int
    wait_in_ns: int
    wait_out_ns: int
    cpu_share: float

    def __init__(self, reads: bool = False, shared: bool = False) -> None:
        self.reads, self.shared = reads, shared
        self.element_ns: float = 0.0  # what an element takes, about
        self.busy_ns = self.cpu_ns = self.elements = self.tasks = 0
        self.wait_in_ns = self.wait_out_ns = 0
        self.cpu_share, self._sampled_at = 1.0, -_CPU_SAMPLE_NS
        self._state, self._since = "in", perf_counter_ns()

    def plus(self, other: StageTimes, sign: int = 1) -> StageTimes:
        """Both together, or what this one has more than the other."""
        both = StageTimes()
        for name in self._SUMMED:
            setattr(both, name, getattr(self, name) + sign * getattr(other, name))
        return both

    @property
    def samples_cpu(self) -> bool:
        """Whether the processor's time of the next task is to be looked at."""
        return self.busy_ns - self._sampled_at >= _CPU_SAMPLE_NS

    def note_cpu(self, cpu_ns: int, wall_ns: int) -> None:
        """Notes how much of a task's time was a processor's: about that much of the next ones' will be."""
        self._sampled_at = self.busy_ns
        self.cpu_share += 0.3 * (min(1.0, cpu_ns / max(1, wall_ns)) - self.cpu_share)

    def note_task(self, took_ns: int, worked_on: int, elements: int) -> None:
        """Notes a task that worked on so many elements; ``elements``: those that are counted as the stage's work."""
        self.busy_ns += took_ns
        self.cpu_ns += int(took_ns * self.cpu_share)
        self.elements += elements
        self.tasks += 1
        self._note_each(took_ns / worked_on)

    def passed(self, count: int, begun: int, now: int) -> None:
        """Notes that ``count`` elements went through the stage without a task, while the clock went on."""
        self._account(begun)
        self._since = now
        self.note_task(now - begun, count, count)

    def turn(self, state: str, now: int) -> None:
        """Notes what the stage does from now on: "work", or waits for what comes "in" or goes "out"."""
        if state != self._state:
            self._account(now)
            self._state = state

    def _account(self, now: int) -> None:
        now = max(now, self._since)  # a thread that has waited for the lock comes with a time that is over
        spent, self._since = now - self._since, now
        if self._state == "in":
            self.wait_in_ns += spent
        elif self._state == "out":
            self.wait_out_ns += spent

    def _note_each(self, each: float) -> None:
        if self.tasks < _FEW:
            self.element_ns += (each - self.element_ns) * (1.0 if self.tasks == 1 else 0.5)
        else:  # a thread may be held up by others: one task that took long says little
            self.element_ns += 0.1 * (min(each, _MUCH_LONGER * self.element_ns) - self.element_ns)


# What collects the figures.


_KEPT: Final = 4096  # waits kept for the percentiles: the latest ones
_WAITING_SHARE: Final = 0.05  # below this share of waiting, the consumer is what limits the rate
_FULL: Final = 0.8  # of the cores; in what is left, threads change places


class Recorder(Locked):
    """Collects the figures of a loader or a pipeline, all epochs together; nanoseconds inside. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.part_times: PartTimes = PartTimes()
        self._stages: Sequence[StageTimes] = ()  # of the latest pass, as long as it lasts
        self.forget()

    def forget(self) -> None:
        """From now on only what comes is counted; of parts, passes that begin."""
        self._waits = array("q", bytes(8 * _KEPT))
        self._waited = 0
        self.results: int = 0
        self.samples: int = 0
        self.skipped: int = 0
        self.filled: int = 0
        self.bytes: int = 0
        self.wait_ns: int = 0
        self.consumer_ns: int = 0
        self.read_ns: int = 0  # of a loader's reading threads
        self._ended: list[StageTimes] = [StageTimes().plus(stage, -1) for stage in self._stages]
        self.part_times = PartTimes()

    def __reduce__(self) -> tuple[Any, ...]:
        return Recorder, ()  # a copy of a loader counts its own

    def waited(self, ns: int) -> None:
        """Counts a wait of the consumer, for the results that come next."""
        with self.lock:
            self._waits[self._waited % _KEPT] = ns
            self._waited += 1
            self.wait_ns += ns

    def delivered(self, results: int, samples: int, size: int, skipped: int = 0, filled: int = 0) -> None:
        """Counts results, of so many samples and bytes, and the samples left out before them."""
        with self.lock:
            self.results += results
            self.samples += samples
            self.bytes += size
            self.skipped += skipped
            self.filled += filled

    def consumed(self, ns: int) -> None:
        """Counts the time for which the consumer kept a result."""
        with self.lock:
            self.consumer_ns += ns

    def read(self, ns: int, part_times: PartTimes) -> None:
        """Counts what a pass of a loader took to read."""
        with self.lock:
            self.read_ns += ns
        self.part_times.merge(part_times)

    def begin(self, stages: Sequence[StageTimes]) -> None:
        """A pass of these stages begins."""
        self.end(self._stages)
        self._stages = stages

    def end(self, stages: Sequence[StageTimes]) -> None:
        """Their pass has ended: only its figures are kept."""
        if self._stages is stages:
            self._ended, self._stages = self.stage_times(), ()

    def stage_times(self) -> list[StageTimes]:
        """What each stage has done, all passes together; of a loader, whose first one waits for the reading threads."""
        each = zip_longest(self._ended, self._stages, fillvalue=StageTimes())
        return [before.plus(now) for before, now in each]

    @property
    def elapsed_ns(self) -> int:
        """Waiting and consuming together."""
        return self.wait_ns + self.consumer_ns

    @property
    def is_waited_for(self) -> bool:
        """Whether the consumer waits so much that a stage limits the rate."""
        return self.wait_ns > _WAITING_SHARE * self.elapsed_ns

    def of_loader(self, threads: int, workers: int | None, buffers: int) -> Stats:
        """The figures of a loader with so many reading and transforming threads; None: nothing is transformed."""
        work, bound = [("read", threads, self.read_ns)], "read"
        if workers is not None:
            # Its own first stage is the wait for the reading threads.
            waiting, transforming = self.stage_times() or (StageTimes(), StageTimes())
            work.append(("transform", workers, transforming.busy_ns))
            if transforming.busy_ns > waiting.busy_ns * max(1, workers):
                bound = "transform"
        all_ns = sum(ns for *_, ns in work)
        stages = tuple(
            _stage_stats(name, limit, self.results, ns, self.elapsed_ns, all_ns) for name, limit, ns in work
        )
        return self.summary(stages, bound if self.is_waited_for else None, threads=threads, buffers=buffers)

    def of_pipeline(
        self,
        names: Sequence[tuple[str, int]],
        cpus: int,
        buffers: int,
        *,
        threads: int,
        reasons: tuple[str, ...] = (),
        settled: bool = False,
    ) -> Stats:
        """The figures of stages with these names and numbers of workers (0: shared), on so many cores."""
        elapsed, limits = max(1, self.elapsed_ns), [limit for _, limit in names]
        work = self.stage_times() or [StageTimes() for _ in names]
        all_ns = sum(one.busy_ns for one in work)
        stages = tuple(
            replace(
                _stage_stats(name, limit, one.elements, one.busy_ns, elapsed, all_ns),
                cores=one.cpu_ns / elapsed,
                wait_in=min(1.0, one.wait_in_ns / elapsed),
                wait_out=min(1.0, one.wait_out_ns / elapsed),
            )
            for (name, limit), one in zip(names, work, strict=True)
        )
        rate = self.results / (elapsed / 1e9)
        bound, more = None, rate
        if self.is_waited_for and rate:
            bound, more = pace(stages, limits, (threads, cpus), rate)
        settled = settled or (bool(reasons) and all(limits))
        return self.summary(
            stages,
            bound,
            threads=threads,
            buffers=buffers,
            one_more_core=more,
            reasons=reasons,
            settled=settled,
        )

    def summary(
        self,
        stages: tuple[StageStats, ...],
        slowest: str | None,
        *,
        threads: int,
        buffers: int,
        one_more_core: float | None = None,
        reasons: tuple[str, ...] = (),
        settled: bool = True,
    ) -> Stats:
        """The figures so far, with what is known of stages; ``slowest``: the one that is waited for, if one is."""
        waits = np.frombuffer(self._waits, np.int64, min(self._waited, _KEPT))
        p50, p99 = np.percentile(waits, [50, 99]) if len(waits) else (0.0, 0.0)
        seconds = self.elapsed_ns / 1e9
        rates = [count / seconds if seconds else 0.0 for count in (self.results, self.samples, self.bytes)]
        return Stats(
            results=self.results,
            samples=self.samples,
            skipped=self.skipped,
            filled=self.filled,
            bytes=self.bytes,
            seconds=seconds,
            rate=rates[0],
            samples_per_s=rates[1],
            bytes_per_s=rates[2],
            wait_s=self.wait_ns / 1e9,
            consumer_s=self.consumer_ns / 1e9,
            p50_ms=float(p50) / 1e6,
            p99_ms=float(p99) / 1e6,
            bound="consumer" if slowest is None else "read" if slowest == stages[0].name else "transform",
            bound_stage=slowest or "",
            one_more_core=one_more_core,
            threads=threads,
            buffers=buffers,
            stages=stages,
            reasons=reasons,
            settled=settled,
            **self.part_times.slowest(),
        )


def pace(
    stages: Sequence[StageStats],
    limits: Sequence[int],
    pool: tuple[int, int],
    rate: float,
) -> tuple[str, float]:
    """The stage that sets the pace, and the rate with one more core; ``pool``: shared threads, and cores for them."""
    own = {
        n: stage.workers / limit for n, (stage, limit) in enumerate(zip(stages, limits, strict=True)) if limit
    }
    shared = [n for n, limit in enumerate(limits) if not limit]
    threads, cpus = pool
    in_use = sum(stages[n].workers for n in shared) / max(1, threads)
    fullest = max(own, key=lambda n: own[n])
    if own[fullest] >= in_use:
        return stages[fullest].name, rate
    slowest = max(shared, key=lambda n: stages[n].workers)
    cores = sum(stages[n].cores or 0.0 for n in shared)
    computing = min(threads, cpus)
    if cores < _FULL * computing:
        return stages[slowest].name, rate  # they wait, for a lock or for others: a core would not help
    return stages[slowest].name, min(rate * (computing + 1) / computing, rate / max(own[fullest], 1e-9))
