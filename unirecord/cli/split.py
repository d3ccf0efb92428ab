"""``unirecord split PATH DST``: a dataset as several, by what `unirecord write --split` does, with the index it has."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..parts.part_set import resolve
from .usage import make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Split a dataset into several: each row goes where a hash of it, or of a column, says, so
that rows that are added later move no other. The same as `unirecord write PATH DST --split …`, with
the index of PATH."""

_EXAMPLES: Final = """examples:
  unirecord split dataset shares train=0.9,val=0.1
  unirecord split dataset shares train=0.9,val=0.1 --by patient
  unirecord split dataset by-country --by country     a dataset of each value"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "split",
        help="several datasets of one",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a dataset")
    parser.add_argument("target", metavar="DST", help="a folder for the shares")
    parser.add_argument("shares", metavar="NAME=SHARE,…", nargs="?", help="as train=0.9,val=0.1")
    parser.add_argument("--by", metavar="A", help="the column that decides: its equal values stay together")
    parser.add_argument("--stratify", metavar="A", help="these shares of the rows with each value of it")
    parser.add_argument("--seed", metavar="N", help="of the hash (default 0)")
    parser.add_argument("--workers", metavar="N", help="processes that write")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from .main import main  # which has this command too

    given = {
        "--split": args.shares,
        "--split-by": args.by,
        "--stratify": args.stratify,
        "--seed": args.seed,
        "--workers": args.workers,
        "--index": ",".join(resolve(args.path).index) or None,
    }
    options = [word for name, value in given.items() if value is not None for word in (name, value)]
    return main(["write", args.path, args.target, *options, *["--dry-run"] * args.dry_run])
