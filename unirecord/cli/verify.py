"""``unirecord verify PATH …``: every byte against its digest."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..inspection.verify import Report, verify
from ..sizes import format_size
from .cache_option import refuse_cache
from .progress_bar import ProgressBar, duration
from .storage_option import add_storage_option
from .terminal import print_json, say, warn
from .usage import make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Check a dataset whole: headers, identities, every digest, every byte that should be zero, and
that each index says what its data file does. Files are only read. Exit code 1 when anything is wrong."""

_EXAMPLES: Final = """examples:
  unirecord verify pictures.urec
  unirecord verify train val            several at once
  unirecord verify dataset --quick      headers, identities and sizes alone
  unirecord verify dataset --json"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "verify",
        aliases=["check"],
        help="check every byte",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="parts and directories of parts")
    parser.add_argument("--quick", action="store_true", help="look at headers, identities and sizes alone")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_storage_option(parser)
    refuse_cache(parser, "it checks what the store has, and nothing that was kept of it")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    with ProgressBar("verifying", 0, format_size) as bar:
        report = verify(args.paths, quick=args.quick, progress=bar.update)
    if args.json:
        print_json(report.to_dict(), indent=2)
    else:
        _print_report(report)
    return 0 if report.ok else 1


def _print_report(report: Report) -> None:
    parts = f"{report.parts:,} {'part' if report.parts == 1 else 'parts'}"
    if report.column_parts:
        parts += f", {report.column_parts:,} column {'part' if report.column_parts == 1 else 'parts'}"
    looked = f"{parts}, {report.rows:,} rows, {format_size(report.bytes)}, in {duration(report.seconds)}"
    if report.ok:
        say(
            f"{report.path}: {'headers and sizes are' if report.quick else 'every byte is'} as written ({looked})"
        )
        return
    many = "1 problem" if len(report.problems) == 1 else f"{len(report.problems):,} problems"
    warn(f"unirecord: {report.path}: {many} ({looked})", *(f"  {problem}" for problem in report.problems))
