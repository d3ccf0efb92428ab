"""``unirecord reshard PATH N``: the rows of a directory in so many parts, as its next version."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..writing.compacting import reshard
from .compact import add_layout_options, run_layout
from .usage import make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Lay the rows of a dataset out in N parts of equal numbers of rows. The rows keep their numbers
and their order, so that jobs go on where they stand. Each row is checked on the way. The parts that
were there stay, for the versions before, until `unirecord gc`."""

_EXAMPLES: Final = """examples:
  unirecord reshard dataset 64"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "reshard",
        help="make N equal parts",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    add_layout_options(parser)
    parser.add_argument("parts", type=int, metavar="N", help="how many parts")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return run_layout(
        args,
        "laying out",
        lambda progress: reshard(
            args.path, args.parts, drop_deleted=args.drop_deleted, dry_run=args.dry_run, progress=progress
        ),
    )
