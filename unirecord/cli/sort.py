"""``unirecord sort PATH --by COLUMN``: the rows of a directory in the order of a column, as its next version."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..progress import Progress
from ..writing.compacting import Relaid
from ..writing.reordering import sort
from .compact import run_layout
from .usage import make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Bring the rows of a dataset into the order of a scalar column. The rows get other numbers, and
deleted ones stay behind: a job that was stopped before goes on with the version that it began with.
Each row is checked on the way. The parts that were there stay, for the versions before, until
`unirecord gc`."""

_EXAMPLES: Final = """examples:
  unirecord sort dataset --by timestamp --dry-run
  unirecord sort dataset --by score --descending
  unirecord sort dataset --by label --cluster     rows of a label side by side"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "sort",
        help="order the rows by a column",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument(
        "--by", required=True, metavar="COLUMN", help="a scalar column; NaN after numbers, null last"
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--descending", action="store_true", help="the greatest first")
    way.add_argument(
        "--cluster",
        action="store_true",
        help="equal values side by side, in the order in which they first come",
    )
    parser.add_argument("--part-bytes", metavar="SIZE", help="greatest size of a part (default 20GB)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    def work(progress: Progress) -> Relaid:
        return sort(
            args.path,
            args.by,
            descending=args.descending,
            cluster=args.cluster,
            part_bytes=args.part_bytes,
            dry_run=args.dry_run,
            progress=progress,
        )

    return run_layout(args, "sorting", work)
