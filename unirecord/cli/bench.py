"""``unirecord bench PATH``: how fast this dataset reads on this machine, and whether that feeds the job."""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from shlex import quote
from statistics import median
from typing import Any, Final

import numpy as np

from ..core import usable_cores
from ..dataset.dataset import UniRecordDataset
from ..errors import UniRecordError
from ..loading.stats import Stats
from ..pipeline.pipeline import Pipeline
from ..sizes import format_size, many
from ..snapshot.part_set import Io, resolve
from ..storage import local
from ..storage.schemes import location_of
from .arguments import (
    BATCH,
    CACHE,
    CACHE_BYTES,
    COLUMNS,
    JSON,
    PATH,
    STORAGE,
    WHERE,
    Argument,
    UsageError,
    command,
    imported,
    refuse,
)
from .terminal import answer, table

__all__ = ["Measured", "Need", "StoreLink", "advice", "bench_command", "step_that_hides", "store_advice"]


_BAR: Final = 24


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, 1 or more")
    return int(text)


WAYS: Final = ("auto", "mmap", "pread", "uring", "uring-direct", "memory")


@command(
    """Read shuffled batches in each way of reading and print rates and the time per batch. With --step-ms, the time
    of one training step, say whether reading keeps up: the job needs batch / step samples a second. Of an object
    store, its latency and bandwidth are measured too (up to 64 MiB are read), and say what to shuffle by.""",
    """
    unirecord bench pictures.urec --batch 256
    unirecord bench pictures.urec --batch 256 --step-ms 87     is it enough for this job?
    unirecord bench pictures.urec --io uring-direct --cold     one way, from the disk
    unirecord bench s3://bucket/train --step-ms 87             and does shuffle="block" or a cache help?
    unirecord bench pictures.urec --json
    unirecord bench pictures.urec --pipeline train:pipeline --step-ms 87
    """,
    PATH.but(nargs="?"),
    Argument(
        "--pipeline",
        metavar="M:F",
        help="time the pipeline that function F of module M returns, or makes of PATH",
    ),
    BATCH.but(type=_positive, default=256, help="samples in a batch (256)"),
    Argument("--step-ms", type=float, metavar="T", help="time of one training step on a batch"),
    Argument("--threads", type=_positive, metavar="N", help="reading threads (one per core, up to 4)"),
    Argument("--seconds", type=float, default=1.0, metavar="S", help="timed part of each run (1)"),
    Argument("--io", action="append", choices=WAYS, help="only this way of reading; may be repeated"),
    COLUMNS,
    WHERE,
    Argument(
        "--verify",
        choices=("first", "always", "never"),
        default="first",
        help="when digests are checked, as given to a dataset (default first)",
    ),
    Argument("--cold", action="store_true", help="drop the files from the page cache before each run"),
    JSON,
    STORAGE,
    CACHE,
    CACHE_BYTES,
)
def bench_command(args: argparse.Namespace) -> int:
    if args.step_ms is not None and not args.step_ms > 0:
        raise UsageError(
            f"--step-ms is the time of a step in milliseconds, more than 0, got {args.step_ms:g}"
        )
    if not 0 < args.seconds <= 600:
        raise UsageError(f"--seconds is more than 0 and at most 600, got {args.seconds:g}")
    if args.pipeline is not None:
        return _run_pipeline(args)
    if args.path is None:
        raise UsageError("give the PATH of a dataset, or --pipeline module:function")
    parts = resolve(args.path).parts
    if not any(part.rows for part in parts):
        raise UsageError(f"{args.path} has no rows to read")
    elsewhere = not location_of(parts[0].path).in_file_system
    if elsewhere and args.cold:
        raise UsageError(f"--cold is for files: nothing of {args.path} is kept between two epochs")
    asked = args.io or (() if elsewhere else WAYS)
    measured = [_measured(args, io) for io in dict.fromkeys(["auto", *asked])]
    row_bytes = measured[0].bytes_per_s / measured[0].samples_per_s
    need = None if args.step_ms is None else Need(args.batch, args.step_ms, row_bytes)
    link = None
    whole = args.where is None and not args.columns  # else runs bring what nobody reads
    if elsewhere and whole and args.cache_folder is None:  # what is in a cache is not asked for, here neither
        link = measure_link(parts, row_bytes)
    return answer(args, _report(args, measured, need, link), _said(args, measured, need, link))


def _run_pipeline(args: argparse.Namespace) -> int:
    given = {
        "--batch": args.batch != 256,
        "--threads": args.threads,
        "--io": args.io,
        "--columns": args.columns,
        "--where": args.where,
        "--verify": args.verify != "first",
        "--cold": args.cold,
    }
    said = "is for reading alone: with --pipeline, the function decides"
    refuse({f"{name} {said}": value for name, value in given.items()})
    return bench_pipeline(args)


def _advice(
    args: argparse.Namespace, measured: list[Measured], need: Need, link: StoreLink | None
) -> list[str]:
    cores = usable_cores()
    found = advice(need, measured, threads=args.threads or min(4, cores), cores=cores, cold=args.cold)
    return found if link is None else store_advice(link, need, measured[0]) + found


def _report(
    args: argparse.Namespace, measured: list[Measured], need: Need | None, link: StoreLink | None
) -> dict[str, Any]:
    report: dict[str, Any] = {"path": args.path, "batch": args.batch, "cold": args.cold}
    report["ways"] = measured
    report["shortest_step_ms"] = step_that_hides(measured[0], args.batch)
    if need is not None:
        met = need.met_by(measured[0])
        report["need"] = {
            "samples_per_s": need.samples_per_s,
            "reads_per_s": need.samples_per_s,
            "bytes_per_s": need.bytes_per_s,
            "met": met,
        }
        report["advice"] = [] if met else _advice(args, measured, need, link)
    if link is not None:
        report["store"] = link.to_dict(measured[0].samples_per_s)
    return report


def _said(
    args: argparse.Namespace, measured: list[Measured], need: Need | None, link: StoreLink | None
) -> Iterator[str]:
    fastest = max(one.samples_per_s for one in measured)
    rows = [("io", "samples/s", "MB/s", "p50 ms", "p99 ms", "first ms", "")]
    for one in measured:
        bar = "█" * max(1, round(_BAR * one.samples_per_s / fastest))
        arrow = "" if one.used == one.io else f" {'=' if one.io == 'auto' else '→'} {one.used}"
        times = (f"{one.p50_ms:.3f}", f"{one.p99_ms:.3f}", f"{one.first_batch_ms:.3f}")
        rates = (f"{one.samples_per_s:,.0f}", f"{one.bytes_per_s / 1e6:,.0f}")
        rows.append((one.io + arrow, *rates, *times, bar))
    state = "dropped from the page cache before each run" if args.cold else "after a warm-up"
    yield from (f"{args.path}: shuffled batches of {args.batch:,}, {state}", "", *table(rows, "<>>>>><"), "")
    if link is not None:
        yield from (*link.lines(measured[0].samples_per_s), "")
    auto = measured[0]
    shortest = step_that_hides(auto, args.batch)
    if need is None:
        yield f"Reading keeps up with steps of {shortest:,.3g} ms or more. --step-ms T judges your job's."
        return
    asked = f"{need.samples_per_s:,.0f} samples/s, as many reads/s, {need.bytes_per_s / 1e6:,.0f} MB/s"
    yield f"The job needs   {asked}   ({many(args.batch, 'sample')} every {args.step_ms:g} ms)"
    rate = f"{auto.samples_per_s:,.0f} samples/s, {auto.bytes_per_s / 1e6:,.0f} MB/s"
    yield f"Reading gives   {rate}   (io {auto.used})"
    if need.met_by(auto):
        times_needed = auto.samples_per_s / need.samples_per_s
        yield f"Enough: {times_needed:,.1f} times what is needed. The step sets the pace."
        return
    yield f"Short: the step waits; reading keeps up with steps of {shortest:,.3g} ms or more. What would change that:"
    yield from (f"  - {line}" for line in _advice(args, measured, need, link))


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


def _measured(args: argparse.Namespace, io: Io) -> Measured:
    """Read shuffled batches for a while: after as long a warm-up, or cold, and then one epoch at most."""
    if args.cold:
        forget_cached(args.path)
    chosen = {"columns": args.columns, "where": args.where, "verify": args.verify}
    with UniRecordDataset(args.path, 0, 1, shuffle=True, io=io, **chosen) as ds:
        batches = ds.batches(args.batch, num_threads=args.threads)
        if not args.cold:
            _take(batches, args.seconds, at_most_one=True)
        latencies, samples, size, took = _take(batches, args.seconds, at_most_one=args.cold)
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
        local.forget_cached(part.path)


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
        found.append(
            f"ds.batches(…, num_threads={cores}): this run used {threads} of {many(cores, 'core')} to read"
        )
    if cold:
        found.append(
            "more memory, so that the data stays cached after the first epoch, or storage that reads "
            f'{need.bytes_per_s / 1e6:,.0f} MB/s at random; on disks and network file systems shuffle="block"'
        )
    found.append(
        "columns=[...] with what the job uses alone; smaller samples (resize or compress once, when writing)"
    )
    return found


_ASKED: Final = 9  # small requests, one after the other
_SMALL: Final = 1 << 10
_RUN: Final = 4 << 20  # as `shuffle="block"` and passes in order ask for their rows
_RUNS: Final = 16  # at once
_LEAST: Final = 8 << 20  # bytes; what is less comes too soon to be timed
_WORTH: Final = 1.25  # times as fast, for which an order is exchanged for another


@dataclass(frozen=True)
class StoreLink:
    """A store as it answered: seconds until a small answer was there, bytes a second of long ranges; 0 if unknown."""

    latency_s: float
    bytes_per_s: float
    row_bytes: float
    data_bytes: int

    @property
    def rows_in_runs(self) -> float:
        """Rows a second that come in runs of neighbours, modelled: the bandwidth divided by the size of a row."""
        return self.bytes_per_s / self.row_bytes

    def shuffle(self, random_rows: float) -> str | None:
        """By what to shuffle where ``random_rows`` a second come one by one: ``"rows"``, ``"block"``; None: unknown."""
        if not self.bytes_per_s:
            return None
        return "block" if self.rows_in_runs > _WORTH * random_rows else "rows"

    def to_dict(self, random_rows: float) -> dict[str, Any]:
        """The figures, and what they say, as JSON can hold them."""
        return {
            **asdict(self),
            "rows_in_runs_per_s": self.rows_in_runs or None,
            "shuffle": self.shuffle(random_rows),
        }

    def lines(self, random_rows: float) -> list[str]:
        """The same for people."""
        said = f"A request takes {self.latency_s * 1e3:,.3g} ms"
        if not self.bytes_per_s:
            return [f"{said}; the data are too few to measure the bandwidth."]
        said += (
            f", {_RUNS} of {format_size(_RUN)} at once bring {self.bytes_per_s / 1e6:,.0f} MB/s, "
            f"a row has {format_size(round(self.row_bytes))}."
        )
        runs = f"{self.rows_in_runs:,.0f} samples/s"
        if self.shuffle(random_rows) == "rows":
            return [
                said,
                f'shuffle=True is right here: in runs, as by shuffle="block", no more than {runs} come.',
            ]
        return [said, f'shuffle="block" reads runs: at that bandwidth up to {runs}, where a core keeps up.']


def measure_link(parts: Sequence[Any], row_bytes: float) -> StoreLink:
    """Asks the store for small ranges one by one, and for long ones at once: 64 MiB at most."""
    location = location_of(parts[0].path)
    paths = [part.path for part in islice(parts, _RUNS)]
    sizes = [0 if entry is None else entry.size for entry in location.find_each(paths)]
    largest = max(sizes)
    path = paths[sizes.index(largest)]
    small = min(_SMALL, largest)
    asked = [
        _seconds(location, [(path, place * (largest - small) // _ASKED, small)]) for place in range(_ASKED)
    ]
    runs = [
        (path, start, min(_RUN, size - start))
        for path, size in zip(paths, sizes, strict=True)
        for start in range(0, size, _RUN)
    ][:_RUNS]
    latency, total = median(asked), sum(size for _, _, size in runs)
    rate = total / _seconds(location, runs) if total >= _LEAST else 0.0
    return StoreLink(latency, rate, row_bytes, sum(sizes) * len(parts) // len(paths))


def _seconds(location: Any, ranges: list[tuple[str, int, int]]) -> float:
    start = time.perf_counter()
    for found in location.read_ranges(ranges):
        if isinstance(found, BaseException):
            raise found
    return time.perf_counter() - start


def store_advice(link: StoreLink, need: Need, auto: Measured) -> list[str]:
    """What to change where an object store is short of the need, the most useful first."""
    found = []
    if link.shuffle(auto.samples_per_s) == "block":
        word = "is enough" if link.rows_in_runs >= need.samples_per_s else "is not enough by itself"
        found.append(f'shuffle="block", which {word} at the bandwidth that was measured')
    share = 1 - auto.samples_per_s / need.samples_per_s
    if share > 0:
        found.append(
            f'cache="DIR", cache_bytes="{format_size(int(share * link.data_bytes))}" on a local disk, {share:.0%} of '
            "the data (modelled): from the second epoch on, the store has to give the rest alone"
        )
    return found


_PIPELINE_ENOUGH: Final = 1.1  # a pipeline this much faster than the job keeps up with its own jitter
_WARM_UP: Final = 0.5  # of the timed part: threads and processes start
_MOST_WARM_UP: Final = 5.0  # of the timed part, while numbers of threads are still tried out
_MOST_WARM_UP_S: Final = 10.0
_LOOK_S: Final = 0.1


def bench_pipeline(args: argparse.Namespace) -> int:
    """Times the pipeline that ``--pipeline`` names, and says whether it feeds steps of ``--step-ms``."""
    pipeline, step_ms = _made(args.pipeline, args.path), args.step_ms
    results, took = _timed(pipeline, args.seconds)
    if not results:
        raise UsageError(f"{args.pipeline} gives no results")
    rate, stats = results / took, pipeline.stats()
    shortest = _PIPELINE_ENOUGH * 1e3 / rate
    report = {"pipeline": args.pipeline, "results_per_s": rate, "shortest_step_ms": shortest}
    said = [
        f"The pipeline gives {rate:,.1f} results/s: it keeps up with steps of {shortest:,.3g} ms or more."
    ]
    if step_ms is not None:
        met = rate >= _PIPELINE_ENOUGH * 1e3 / step_ms
        report["need"] = {"results_per_s": 1e3 / step_ms, "met": met}
        needed = f"The job needs {1e3 / step_ms:,.1f} results/s (one every {step_ms:g} ms)"
        said.append(f"{needed}: enough." if met else f"{needed}: short. {_what_to_change(stats)}")
    report |= {"stats": stats, "plan": pipeline.plan()}
    return answer(args, report, [*str(pipeline).splitlines(), "", *str(stats).splitlines(), "", *said])


def _what_to_change(stats: Stats) -> str:
    if stats.bound == "consumer":
        return "No stage sets the pace, but the thread that takes the results: make larger batches."
    slowest = next(stage for stage in stats.stages if stage.name == stats.bound_stage)
    advice = f"{slowest.name} sets the pace"
    if slowest.limit != "auto":
        return f"{advice}, with {slowest.limit} worker(s)."
    if (stats.one_more_core or 0.0) <= stats.rate:
        return f"{advice}, and leaves cores idle: it waits, or holds the GIL (then give it processes=)."
    return f"{advice}, and the cores are full: one more gives about {stats.one_more_core:,.1f} results/s."


def _made(name: str, path: str | None) -> Pipeline:
    function = imported("--pipeline", name)
    takes_path = bool(inspect.signature(function).parameters)
    if takes_path and path is None:
        raise UsageError(f"{name} takes a path: unirecord bench PATH --pipeline {quote(name)}")
    try:
        pipeline = function(path) if takes_path else function()
    except UniRecordError:
        raise
    except Exception as error:
        raise UsageError(f"{name} failed: {error!r} (--debug shows where)") from error
    if not isinstance(pipeline, Pipeline):
        raise UsageError(f"{name} must return a pipeline, not {pipeline!r:.100}")
    return pipeline


def _timed(pipeline: Pipeline, seconds: float) -> tuple[int, float]:
    """Results and seconds, epoch after epoch, from when the numbers of threads have been found."""
    clock, least = time.perf_counter, _WARM_UP * seconds
    most = max(least, min(_MOST_WARM_UP * seconds, _MOST_WARM_UP_S))
    asked, begun = clock(), 0.0
    look, results, seen = asked + least, 0, -1
    while seen:
        seen = 0
        for result in pipeline:
            del result
            now, seen = clock(), seen + 1
            if begun:
                results += 1
                if now - begun >= seconds:
                    return results, now - begun
            elif now >= look:  # not after each result: this thread is to wait for the pipeline
                look = now + _LOOK_S
                if now - asked >= most or pipeline.stats().settled:
                    begun = now
                    pipeline._passes.recorder.forget()
    return 0, 1.0
