"""``unirecord delete PATH``: rows of a directory, by a condition or by their numbers."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..errors import QueryError
from ..writing.deleting import delete
from .storage_option import add_storage_option
from .terminal import print_json, say
from .usage import UsageError, make_parser

__all__ = ["add_parser", "row_numbers"]

_DESCRIPTION: Final = """Delete rows of a dataset: the next version does not have them. The others keep their
numbers, and what is running goes on with what it has opened. The bytes stay on disk, for the
versions before."""

_EXAMPLES: Final = """examples:
  unirecord delete dataset --where 'label == 3 and score < 0.1'
  unirecord delete dataset --rows 17,1000-1999"""

_MOST_ROWS: Final = 1 << 28  # named one by one


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser, "delete", help="delete rows", description=_DESCRIPTION, epilog=_EXAMPLES
    )
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    named = parser.add_mutually_exclusive_group(required=True)
    named.add_argument("--where", metavar="CONDITION", help="the rows that meet it")
    named.add_argument(
        "--rows", type=row_numbers, metavar="ROWS", help="row numbers and ranges, the last one included"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_storage_option(parser)
    parser.set_defaults(run=_run)


def row_numbers(text: str) -> list[int]:
    """The row numbers that ``17,1000-1999`` names, for argparse."""
    rows: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise argparse.ArgumentTypeError(
                f"{piece!r} is no row; write numbers and ranges, as 17,1000-1999"
            )
        begin, end = int(first), int(last) if dash else int(first)
        if end < begin or len(rows) + end - begin >= _MOST_ROWS:
            raise argparse.ArgumentTypeError(
                f"{piece!r} is an empty range, or names too many rows: use --where"
            )
        rows.extend(range(begin, end + 1))
    return rows


def _run(args: argparse.Namespace) -> int:
    try:
        found = delete(args.path, where=args.where, rows=args.rows)
    except QueryError:  # shows the place in the condition
        raise
    except (IndexError, ValueError) as error:
        raise UsageError(str(error)) from None
    if args.json:
        print_json({"rows": found.rows, "version": found.version})
    elif found.rows:
        many = "row is" if found.rows == 1 else "rows are"
        say(f"{args.path}: {found.rows:,} {many} deleted in version {found.version}")
    else:
        say(f"{args.path}: no row meets that; nothing was published")
    return 0
