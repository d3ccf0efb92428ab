"""What ``unirecord write`` has left out: said on stderr, and listed in a file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from ..convert.sources import LeftOut
from ..convert.sources.left_out import said_of_left_out, write_report
from ..errors import ExistsError
from ..storage.registry import location_of, path_on_disk
from .terminal import say, warn
from .usage import UsageError

__all__ = ["check_report", "many", "say_expected", "say_left_out"]

_SHOWN = 20


def many(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def check_report(args: argparse.Namespace) -> None:
    """Settle where the file is to be, and refuse a place that is in use, before any work is done."""
    if args.on_error == "report" and args.report is None:
        args.report = f"{args.target.rstrip('/')}.left-out.jsonl"
    if args.report is None:
        return
    location = location_of(path_on_disk(args.report, "a report"))
    there = location.find(args.report)
    if there is not None and not (args.overwrite and there.kind == "file"):
        raise ExistsError(f"{args.report} exists already; with --overwrite the report replaces it")
    if os.path.abspath(args.report) in {os.path.abspath(path) for path in (args.source, args.target)}:
        raise UsageError(f"--report {args.report} is what is read or written; name another file")
    if not location.is_directory(os.path.dirname(os.path.abspath(args.report))):
        raise UsageError(f"--report: the folder of {args.report} does not exist; make it first")


def say_expected(left_out: Sequence[LeftOut]) -> None:
    """Say what of the source was left out or changed on purpose, each once, with its number."""
    lines = said_of_left_out(left_out)
    if lines:
        say("left out, or not as in the source:", *(f"  {line}" for line in lines))


def say_left_out(left_out: Sequence[LeftOut], item: str, args: argparse.Namespace) -> int:
    """Say and list it; the exit code is 1 where something was left out without having been asked for."""
    say_expected(left_out)
    if args.report is not None:
        write_report(args.report, left_out)
    bad = [one for one in left_out if not one.expected]
    if not bad:
        return 0
    lines = [f"  {one.name}: {one.reason}" for one in bad[:_SHOWN]]
    rows = sum(max(one.rows, 1) for one in bad)
    warn(f"unirecord: {many(rows, item)} could not be read or did not fit, left out:", *lines)
    if len(bad) > _SHOWN:
        whole = f"are in {args.report}" if args.report else "are listed with --report FILE"
        warn(f"  … and {len(bad) - _SHOWN:,} more; all {whole}")
    elif args.report is not None:
        warn(f"  listed in {args.report}")
    return 0 if args.on_error is not None else 1
