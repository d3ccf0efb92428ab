"""``unirecord compact PATH``: small parts of a directory put together, as its next version."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from ..progress import Progress
from ..sizes import format_size, parse_size
from ..writing.compacting import Relaid, compact
from .progress_bar import ProgressBar
from .terminal import print_json, say
from .usage import UsageError, make_parser

__all__ = ["add_layout_options", "add_parser", "run_layout"]

_DESCRIPTION: Final = """Put small parts of a dataset together: the next version has the same rows, with the same
numbers and in the same order, so that jobs go on where they stand. Each row is checked on the way. The
parts that were there stay, for the versions before, until `unirecord gc`."""

_EXAMPLES: Final = """examples:
  unirecord compact dataset --dry-run
  unirecord compact dataset --part-bytes 4GB
  unirecord compact dataset --rows-per-part 1000000"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "compact",
        help="put small parts together",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--part-bytes", metavar="SIZE", help="neighbours are put together up to this (default 20GB)"
    )
    size.add_argument("--rows-per-part", type=int, metavar="N", help="parts of so many rows in place of it")
    parser.add_argument(
        "--join-columns",
        action="store_true",
        help="write parts anew whose columns lie in column parts, or have other names in their files",
    )
    add_layout_options(parser)
    parser.set_defaults(run=_run)


def add_layout_options(parser: argparse.ArgumentParser) -> None:
    """Add what all commands have that lay out parts anew."""
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument(
        "--drop-deleted", action="store_true", help="leave out the bytes of rows that have been deleted"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def _run(args: argparse.Namespace) -> int:
    def work(progress: Progress) -> Relaid:
        size = None if args.part_bytes is None else parse_size(args.part_bytes)
        return compact(
            args.path,
            part_bytes=size,
            rows_per_part=args.rows_per_part,
            drop_deleted=args.drop_deleted,
            join_columns=args.join_columns,
            dry_run=args.dry_run,
            progress=progress,
        )

    return run_layout(args, "compacting", work)


def run_layout(args: argparse.Namespace, label: str, work: Callable[[Progress], Relaid]) -> int:
    """Do the work under a bar, and say what has been done."""
    try:
        with ProgressBar(label, 0, format_size) as bar:
            found = work(bar.update)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if args.json:
        print_json(asdict(found))
    elif not found.written:
        say(f"{args.path}: its {_parts(found.parts_before)} stay as they are; nothing was published")
    else:
        would = "would have" if args.dry_run else "has"
        copied = f"{_parts(found.written)} of {found.rows:,} rows, {format_size(found.bytes)}"
        say(
            f"{args.path}: version {found.version} {would} {_parts(found.parts_after)} in place of "
            f"{found.parts_before:,}; {copied}, {'would be' if args.dry_run else 'are'} new"
        )
    return 0


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count:,} parts"
