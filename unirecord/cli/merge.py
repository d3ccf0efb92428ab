"""``unirecord merge DST PATH …``: several datasets as one, by link where the file system can."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from ..sizes import format_size
from ..writing.merging import merge
from .progress_bar import ProgressBar
from .terminal import print_json, say
from .usage import UsageError, make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Make one dataset of several: the rows of the first, then those of the second. Parts are
linked where the file system can, so that nothing is copied; all must have the same columns, index
and metadata."""

_EXAMPLES: Final = """examples:
  unirecord merge all day1 day2 day3@4
  unirecord merge all day1 day2 --copy"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "merge",
        help="one dataset of several",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("target", metavar="DST", help="the directory to be made")
    parser.add_argument("paths", metavar="PATH", nargs="+", help="datasets, in the order of their rows")
    parser.add_argument("--copy", action="store_true", help="copy the parts, link none")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    try:
        with ProgressBar("merging", 0, format_size) as bar:
            found = merge(
                args.paths, args.target, link=not args.copy, dry_run=args.dry_run, progress=bar.update
            )
    except ValueError as error:
        raise UsageError(str(error)) from None
    if args.json:
        print_json(asdict(found))
        return 0
    size = format_size(found.bytes)
    how = (
        f"{found.linked:,} linked, {found.parts - found.linked:,} copied" if not args.dry_run else "not made"
    )
    parts = "1 part" if found.parts == 1 else f"{found.parts:,} parts"
    say(f"{args.target}: {found.rows:,} rows in {parts} ({how}), {size}")
    return 0
