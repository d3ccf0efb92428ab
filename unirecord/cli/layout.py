"""``unirecord compact``, ``reshard``, ``sort`` and ``merge``: the same rows in other parts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from ..progress import Progress
from ..sizes import format_size, many, parse_size
from ..writing.rewrite import Rewritten, compact, merge, reshard, sort
from .terminal import ProgressBar, print_json, say
from .usage import CommandParser, UsageError

__all__ = ["compact_command", "merge_command", "reshard_command", "sort_command"]

_COMPACT_DESCRIPTION: Final = """\
Put small parts of a dataset together: the next version has the same rows, with the same
numbers and in the same order, so that jobs go on where they stand. Each row is checked on the way. The
parts that were there stay, for the versions before, until `unirecord gc`."""

_COMPACT_EXAMPLES: Final = """examples:
  unirecord compact dataset --dry-run
  unirecord compact dataset --part-bytes 4GB
  unirecord compact dataset --rows-per-part 1000000"""


def compact_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_COMPACT_DESCRIPTION, _COMPACT_EXAMPLES)
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
    parser.set_defaults(run=_run_compact)


def add_layout_options(parser: argparse.ArgumentParser) -> None:
    """Add what all commands have that lay out parts anew."""
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument(
        "--drop-deleted", action="store_true", help="leave out the bytes of rows that have been deleted"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def _run_compact(args: argparse.Namespace) -> int:
    def work(progress: Progress) -> Rewritten:
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


def run_layout(args: argparse.Namespace, label: str, work: Callable[[Progress], Rewritten]) -> int:
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
        copied = f"{_parts(found.written)} of {many(found.rows, 'row')}, {format_size(found.bytes)}"
        say(
            f"{args.path}: version {found.version} {would} {_parts(found.parts_after)} in place of "
            f"{found.parts_before:,}; {copied}, {'would be' if args.dry_run else 'are'} new"
        )
    return 0


def _parts(count: int) -> str:
    return many(count, "part")


_RESHARD_DESCRIPTION: Final = """\
Lay the rows of a dataset out in N parts of equal numbers of rows. The rows keep their numbers
and their order, so that jobs go on where they stand. Each row is checked on the way. The parts that
were there stay, for the versions before, until `unirecord gc`."""

_RESHARD_EXAMPLES: Final = """examples:
  unirecord reshard dataset 64"""


def reshard_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_RESHARD_DESCRIPTION, _RESHARD_EXAMPLES)
    add_layout_options(parser)
    parser.add_argument("parts", type=int, metavar="N", help="how many parts")
    parser.set_defaults(run=_run_reshard)


def _run_reshard(args: argparse.Namespace) -> int:
    return run_layout(
        args,
        "laying out",
        lambda progress: reshard(
            args.path, args.parts, drop_deleted=args.drop_deleted, dry_run=args.dry_run, progress=progress
        ),
    )


_SORT_DESCRIPTION: Final = """\
Bring the rows of a dataset into the order of a scalar column. The rows get other numbers, and
deleted ones stay behind: a job that was stopped before goes on with the version that it began with.
Each row is checked on the way. The parts that were there stay, for the versions before, until
`unirecord gc`."""

_SORT_EXAMPLES: Final = """examples:
  unirecord sort dataset --by timestamp --dry-run
  unirecord sort dataset --by score --descending
  unirecord sort dataset --by label --cluster     rows of a label side by side"""


def sort_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_SORT_DESCRIPTION, _SORT_EXAMPLES)
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
    parser.set_defaults(run=_run_sort)


def _run_sort(args: argparse.Namespace) -> int:
    def work(progress: Progress) -> Rewritten:
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


_MERGE_DESCRIPTION: Final = """Make one dataset of several: the rows of the first, then those of the second. Parts are
linked where the file system can, so that nothing is copied; all must have the same columns, index
and metadata."""

_MERGE_EXAMPLES: Final = """examples:
  unirecord merge all day1 day2 day3@4
  unirecord merge all day1 day2 --copy"""


def merge_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_MERGE_DESCRIPTION, _MERGE_EXAMPLES)
    parser.add_argument("target", metavar="DST", help="the directory to be made")
    parser.add_argument("paths", metavar="PATH", nargs="+", help="datasets, in the order of their rows")
    parser.add_argument("--copy", action="store_true", help="copy the parts, link none")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=_run_merge)


def _run_merge(args: argparse.Namespace) -> int:
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
    parts = many(found.parts, "part")
    say(f"{args.target}: {many(found.rows, 'row')} in {parts} ({how}), {size}")
    return 0
