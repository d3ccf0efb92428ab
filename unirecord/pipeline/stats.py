"""Where the time of a pipeline goes: the work and the waits of each stage, what sets the pace, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..loading.stats import Metric, PartTime, PartTimes, add_scalars, exposition, save_stats
from .scheduler import StageQueue
from .tuner import Tuner

__all__ = [
    "PipelineStats",
    "StageStats",
    "StatsOfPasses",
]


_FULL = 0.8  # of the cores; in what is left, threads change places
_WAITING_SHARE = 0.05  # below this share of waiting, the consumer sets the pace


@dataclass(frozen=True)
class StageStats:
    """One stage, all passes together.

    Attributes:
        name: its operators.
        limit: tasks that may run at a time: "auto", or the number asked for.
        workers: tasks that ran at a time, on average.
        elements: what it has worked on.
        rate: elements a second that one worker does.
        cores: cores that it used, on average.
        wait_in: share of the time in which it had nothing to work on.
        wait_out: share of the time in which its results were not taken.
        share: of all work.
    """

    name: str
    limit: str
    workers: float
    elements: int
    rate: float
    cores: float
    wait_in: float
    wait_out: float
    share: float


@dataclass(frozen=True)
class PipelineStats:
    """What a pipeline has delivered, and where the time went.

    Attributes:
        results: delivered so far, all epochs together.
        seconds: waiting and consuming together.
        rate: results a second.
        wait_s: seconds in which the consumer waited for a result: the time in which a GPU would have starved.
        consumer_s: seconds in which the consumer kept them.
        skipped: samples left out: corrupt rows, and what operators left out.
        filled: samples that something stands in for, such as broken pictures.
        threads: that stages without a number of their own share.
        stages: one for reading, and one for each stage.
        bottleneck: "consumer", or the name of the stage that sets the pace.
        one_more_core: results a second that one more core would give, about.
        reasons: what was chosen while it ran, and why.
        settled: whether no other number of threads is being tried out, nor has still to be.
        parts: the parts that reading took the longest of, at most 100, the slowest first, as of a loader
            (``LoaderStats``). Counted when a pass ends.
        parts_timed: how many parts have been timed.
        parts_s: seconds of all of them.
    """

    results: int
    seconds: float
    rate: float
    wait_s: float
    consumer_s: float
    skipped: int
    filled: int
    threads: int
    stages: tuple[StageStats, ...]
    bottleneck: str
    one_more_core: float
    reasons: tuple[str, ...]
    settled: bool
    parts: tuple[PartTime, ...] = ()
    parts_timed: int = 0
    parts_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that JSON can hold."""
        return asdict(self)

    def to_prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """The figures in Prometheus' text format 0.0.4, to be served or written to a file that is collected.

        Args:
            labels: stand at every value, such as ``{"rank": "0"}``; their values are escaped.

        Raises:
            ValueError: a label has a name that Prometheus does not allow, or "stage".
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
        save_stats("pipeline", self.to_dict(), path)

    def _metrics(self) -> list[Metric]:
        one = {
            "results_total": ("counter", "Results delivered.", self.results),
            "skipped_total": ("counter", "Samples left out.", self.skipped),
            "filled_total": ("counter", "Samples that something stands in for.", self.filled),
            "wait_seconds_total": ("counter", "Time in which the consumer waited for a result.", self.wait_s),
            "consumer_seconds_total": (
                "counter",
                "Time in which the consumer kept results.",
                self.consumer_s,
            ),
            "threads": ("gauge", "Threads that stages share.", self.threads),
        }
        metrics = [Metric(name, kind, says, (({}, value),)) for name, (kind, says, value) in one.items()]
        each = [(f"{number} {stage.name}", stage) for number, stage in enumerate(self.stages)]
        elements = tuple(({"stage": name}, stage.elements) for name, stage in each)
        cores = tuple(({"stage": name}, stage.cores) for name, stage in each)
        return [
            *metrics,
            Metric("stage_elements_total", "counter", "Elements that a stage has worked on.", elements),
            Metric("stage_cores", "gauge", "Cores that a stage used, on average.", cores),
        ]

    def __str__(self) -> str:
        waited = f"waited {self.wait_s:.2f} of {self.seconds:.2f} s"
        head = f"{self.rate:,.1f} results/s, {waited}, bound by {self.bottleneck}"
        head += "".join(
            f", {count:,} {what}"
            for count, what in ((self.skipped, "left out"), (self.filled, "filled in"))
            if count
        )
        rows = [("stage", "workers", "rate each", "cores", "wait in", "wait out", "share")]
        rows += [
            (
                stage.name,
                f"{stage.workers:.1f} of {stage.limit}",
                f"{stage.rate:,.0f}/s",
                f"{stage.cores:.2f}",
                f"{stage.wait_in:.0%}",
                f"{stage.wait_out:.0%}",
                f"{stage.share:.0%}",
            )
            for stage in self.stages
        ]
        widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
        table = [
            "  ".join(
                [
                    row[0].ljust(widths[0]),
                    *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
                ]
            )
            for row in rows
        ]
        more = f"one more core: about {self.one_more_core:,.1f} results/s"
        return "\n".join([head, *table, more, *self.reasons])


class StatsOfPasses:
    """Collects the figures of a pipeline's passes."""

    results: int
    skipped: int
    filled: int
    wait_ns: int
    consumer_ns: int
    part_times: PartTimes

    def __init__(self) -> None:
        self.results = self.skipped = self.filled = 0
        self.wait_ns = self.consumer_ns = 0
        self.part_times = PartTimes()
        self._ended: dict[int, list[int]] = {}
        self._stage_queues: Sequence[StageQueue] = ()
        self._tuner: Tuner | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return StatsOfPasses, ()  # figures of other passes are no figures of a copy's

    def begin(self, stage_queues: Sequence[StageQueue], tuner: Tuner) -> None:
        """A pass begins."""
        self.end()
        self._stage_queues, self._tuner = stage_queues, tuner

    def end(self) -> None:
        """The pass has ended: only its figures are kept."""
        for number, stage_queue in enumerate(self._stage_queues):
            self._ended[number] = self._figures(number, stage_queue)
        self._stage_queues = ()

    def forget(self) -> None:
        """From now on only what comes is counted, in the middle of a pass too; of parts, passes that begin."""
        self.results = self.skipped = self.filled = self.wait_ns = self.consumer_ns = 0
        self.part_times = PartTimes()
        self._ended = {
            n: [-value for value in _so_far(stage_queue)] for n, stage_queue in enumerate(self._stage_queues)
        }

    def _figures(self, number: int, stage_queue: StageQueue) -> list[int]:
        return [a + b for a, b in zip(_so_far(stage_queue), self._ended.get(number, [0] * 5), strict=True)]

    def summary(self, names: Sequence[tuple[str, int]], cpus: int) -> PipelineStats:
        """The figures so far, of stages with these names and numbers of workers (0: shared), on so many cores."""
        figures = [self._figures(n, stage_queue) for n, stage_queue in enumerate(self._stage_queues)] or [
            self._ended.get(n, [0] * 5) for n in range(len(names))
        ]
        elapsed = max(1, self.wait_ns + self.consumer_ns)
        total = max(1, sum(busy for busy, *_ in figures))
        stages = tuple(
            StageStats(
                name,
                str(limit) if limit else "auto",
                busy / elapsed,
                elements,
                elements / busy * 1e9 if busy else 0.0,
                cpu / elapsed,
                min(1.0, wait_in / elapsed),
                min(1.0, wait_out / elapsed),
                busy / total,
            )
            for (name, limit), (busy, cpu, elements, wait_in, wait_out) in zip(names, figures, strict=True)
        )
        tuner = self._tuner
        threads = cpus if tuner is None else tuner.workers
        limits = [limit for _, limit in names]
        rate = self.results / elapsed * 1e9 if self.results else 0.0
        bottleneck, more = _pace(stages, limits, (threads, cpus), rate, self.wait_ns / elapsed)
        return PipelineStats(
            self.results,
            (self.wait_ns + self.consumer_ns) / 1e9,
            rate,
            self.wait_ns / 1e9,
            self.consumer_ns / 1e9,
            self.skipped,
            self.filled,
            threads,
            stages,
            bottleneck,
            more,
            tuple(tuner.reasons) if tuner is not None else (),
            tuner is not None and (tuner.settled or all(limits)),
            **self.part_times.slowest(),
        )


def _so_far(stage_queue: StageQueue) -> list[int]:
    return [
        stage_queue.busy_ns,
        stage_queue.cpu_ns,
        stage_queue.elements,
        stage_queue.wait_in_ns,
        stage_queue.wait_out_ns,
    ]


def _pace(
    stages: Sequence[StageStats],
    limits: Sequence[int],
    pool: tuple[int, int],
    rate: float,
    waiting: float,
) -> tuple[str, float]:
    """What sets the pace, and the rate with one more core; ``pool``: shared threads, and cores for them."""
    if waiting <= _WAITING_SHARE or not rate:
        return "consumer", rate
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
    cores = sum(stages[n].cores for n in shared)
    computing = min(threads, cpus)
    if cores < _FULL * computing:
        return stages[slowest].name, rate  # they wait, for a lock or for others: a core would not help
    return stages[slowest].name, min(rate * (computing + 1) / computing, rate / max(own[fullest], 1e-9))
