"""``unirecord repair PATH``: makes readable again what can be."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..inspection.repair import RepairReport, Salvaged, repair
from ..sizes import format_size
from .left_out import many
from .progress_bar import ProgressBar, duration
from .terminal import print_json, say
from .usage import UsageError, make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Rebuild a lost or bad index from its data file, and salvage the rows of a damaged or unfinished
data file into a new part. Data files are never changed. Exit code 1 when rows were lost."""

_EXAMPLES: Final = """examples:
  unirecord repair pictures.urec
  unirecord repair dataset --output dataset.saved"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "repair",
        help="rebuild a lost index, salvage rows",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a part or a directory of parts")
    parser.add_argument(
        "--output", metavar="DST", help="where salvaged rows go (default: NAME.repaired beside PATH)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    try:
        with ProgressBar("repairing", 0, format_size) as bar:
            report = repair(args.path, output=args.output, progress=bar.update)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if args.json:
        print_json(report.to_dict(), indent=2)
    else:
        _print_report(report)
    return 0 if report.ok else 1


def _print_report(report: RepairReport) -> None:
    for part in report.parts:
        say(_told(part))
        for first, stop in part.lost[:20]:
            say(f"  lost: row {first:,}" if stop == first + 1 else f"  lost: rows {first:,} to {stop - 1:,}")
        if len(part.lost) > 20:
            say(f"  … and {len(part.lost) - 20:,} more ranges")
        for reason in part.reasons[:20]:
            say(f"  because: {reason}")
    if report.corrected:
        say(f"{report.manifest}: the sizes of files in it were wrong, and were corrected")
    elif report.manifest is not None:
        say(
            f"{report.manifest}: was made anew from {many(len(report.parts), 'part')}; "
            "a writer that died may have left some"
        )
    lost = f", {report.lost:,} lost" if report.lost else ""
    say(f"{report.path}: {report.kept:,} rows can be read{lost} (in {duration(report.seconds)})")


def _told(part: Salvaged) -> str:
    of = "" if part.rows is None else f" of {part.rows:,}"
    if part.action == "index":
        return f"{part.path}: the index was rebuilt, {part.kept:,} rows"
    if part.action == "salvaged":
        return f"{part.path}: {part.kept:,}{of} rows were saved to {part.output}"
    copied = f" were copied to {part.output}" if part.output is not None else ""
    return f"{part.path}: is sound, {part.kept:,} rows{copied}"
