"""``unirecord bench PATH``: how fast this dataset reads on this machine, and whether that feeds the job."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..core import usable_cores
from ..parts.part_set import Io, resolve
from ..storage.registry import location_of
from .bench_rates import WAYS, Measured, Need, advice, measure, step_that_hides
from .bench_store import StoreLink, measure_link, store_advice
from .cache_option import add_cache_options
from .storage_option import add_storage_option
from .table import table
from .terminal import print_json, say
from .usage import UsageError, make_parser, names

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Read shuffled batches in each way of reading and print rates and the time per batch. With
--step-ms, the time of one training step, say whether reading keeps up: the job needs batch / step samples a second.
Of an object store, its latency and bandwidth are measured too (up to 64 MiB are read), and say what to shuffle by."""

_EXAMPLES: Final = """examples:
  unirecord bench pictures.urec --batch 256
  unirecord bench pictures.urec --batch 256 --step-ms 87     is it enough for this job?
  unirecord bench pictures.urec --io uring-direct --cold     one way, from the disk
  unirecord bench s3://bucket/train --step-ms 87             and does shuffle="block" or a cache help?
  unirecord bench pictures.urec --json
  unirecord bench pictures.urec --pipeline train:pipeline --step-ms 87"""

_BAR: Final = 24


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "bench",
        help="how fast this dataset reads here",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", nargs="?", help="a part or a directory of parts")
    parser.add_argument(
        "--pipeline",
        metavar="M:F",
        help="time the pipeline that function F of module M returns, or makes of PATH",
    )
    parser.add_argument("--batch", type=_positive, default=256, metavar="N", help="samples in a batch (256)")
    parser.add_argument("--step-ms", type=float, metavar="T", help="time of one training step on a batch")
    parser.add_argument(
        "--threads", type=_positive, metavar="N", help="reading threads (one per core, up to 4)"
    )
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="timed part of each run (1)")
    parser.add_argument(
        "--io", action="append", choices=WAYS, help="only this way of reading; may be repeated"
    )
    parser.add_argument("--columns", type=names, metavar="A,B", help="read these columns alone")
    parser.add_argument("--where", metavar="TEXT", help="read the rows that meet a condition alone")
    parser.add_argument("--verify", choices=("first", "always", "never"), default="first")
    parser.add_argument(
        "--cold", action="store_true", help="drop the files from the page cache before each run"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_storage_option(parser)
    add_cache_options(parser)
    parser.set_defaults(run=_run)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, 1 or more")
    return int(text)


def _run(args: argparse.Namespace) -> int:
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
    ways = list(dict.fromkeys(["auto", *args.io] if args.io else WAYS))
    elsewhere = not location_of(parts[0].path).in_file_system
    if elsewhere:
        if args.cold:
            raise UsageError(f"--cold is for files: nothing of {args.path} is kept between two epochs")
        ways = ["auto", *args.io] if args.io else ["auto"]
    measured = [_measure(args, io) for io in ways]
    need = _need(args, measured[0])
    link = None
    whole = args.where is None and not args.columns  # else runs bring what nobody reads
    if elsewhere and whole and args.cache_folder is None:  # what is in a cache is not asked for, here neither
        link = measure_link(parts, measured[0].bytes_per_s / measured[0].samples_per_s)
    if args.json:
        print_json(_report(args, measured, need, link), indent=2)
    else:
        _print(args, measured, need, link)
    return 0


def _run_pipeline(args: argparse.Namespace) -> int:
    from .bench_pipeline import bench_pipeline

    given = {
        "--batch": args.batch != 256,
        "--threads": args.threads,
        "--io": args.io,
        "--columns": args.columns,
    }
    given |= {"--where": args.where, "--verify": args.verify != "first", "--cold": args.cold}
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise UsageError(f"{wrong[0]} is for reading alone: with --pipeline, the function decides")
    return bench_pipeline(
        args.pipeline, args.path, seconds=args.seconds, step_ms=args.step_ms, as_json=args.json
    )


def _measure(args: argparse.Namespace, io: Io) -> Measured:
    return measure(
        args.path,
        io,
        batch=args.batch,
        threads=args.threads,
        seconds=args.seconds,
        cold=args.cold,
        columns=args.columns,
        where=args.where,
        verify=args.verify,
    )


def _need(args: argparse.Namespace, auto: Measured) -> Need | None:
    return (
        None
        if args.step_ms is None
        else Need(args.batch, args.step_ms, auto.bytes_per_s / auto.samples_per_s)
    )


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
    report["ways"] = [one.to_dict() for one in measured]
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


def _print(
    args: argparse.Namespace, measured: list[Measured], need: Need | None, link: StoreLink | None
) -> None:
    fastest = max(one.samples_per_s for one in measured)
    rows = [("io", "samples/s", "MB/s", "p50 ms", "p99 ms", "first ms", "")]
    for one in measured:
        bar = "█" * max(1, round(_BAR * one.samples_per_s / fastest))
        name = (
            f"auto = {one.used}"
            if one.io == "auto"
            else one.io
            if one.used == one.io
            else f"{one.io} → {one.used}"
        )
        times = (f"{one.p50_ms:.3f}", f"{one.p99_ms:.3f}", f"{one.first_batch_ms:.3f}")
        rows.append((name, f"{one.samples_per_s:,.0f}", f"{one.bytes_per_s / 1e6:,.0f}", *times, bar))
    state = "dropped from the page cache before each run" if args.cold else "after a warm-up"
    say(f"{args.path}: shuffled batches of {args.batch:,}, {state}", "")
    say(*table(rows, "<>>>>><"), "")
    if link is not None:
        say(*link.lines(measured[0].samples_per_s), "")
    _print_verdict(args, measured, need, link)


def _print_verdict(
    args: argparse.Namespace, measured: list[Measured], need: Need | None, link: StoreLink | None
) -> None:
    auto = measured[0]
    shortest = step_that_hides(auto, args.batch)
    if need is None:
        say(f"Reading keeps up with steps of {shortest:,.3g} ms or more. --step-ms T judges your job's.")
        return
    asked = f"{need.samples_per_s:,.0f} samples/s, as many reads/s, {need.bytes_per_s / 1e6:,.0f} MB/s"
    say(f"The job needs   {asked}   ({args.batch:,} samples every {args.step_ms:g} ms)")
    say(
        f"Reading gives   {auto.samples_per_s:,.0f} samples/s, {auto.bytes_per_s / 1e6:,.0f} MB/s   (io {auto.used})"
    )
    if need.met_by(auto):
        say(
            f"Enough: {auto.samples_per_s / need.samples_per_s:,.1f} times what is needed. The step sets the pace."
        )
        return
    say(
        f"Short: the step waits; reading keeps up with steps of {shortest:,.3g} ms or more. What would change that:"
    )
    for line in _advice(args, measured, need, link):
        say(f"  - {line}")
