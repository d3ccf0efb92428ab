"""``unirecord drop-columns PATH COLUMN …``: columns that the next version does not have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from ..errors import SchemaError
from ..writing.changing_columns import ColumnsChanged, drop_columns
from .storage_option import add_storage_option
from .terminal import print_json, say
from .usage import UsageError, make_parser

__all__ = ["add_parser", "change_columns"]

_DESCRIPTION: Final = """Drop columns of a dataset: the next version does not have them. No file is written but the
manifest; the bytes stay on disk, for the versions before, until `unirecord compact --join-columns` and gc."""

_EXAMPLES: Final = """examples:
  unirecord drop-columns pictures path thumbnail"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser, "drop-columns", help="drop columns", description=_DESCRIPTION, epilog=_EXAMPLES
    )
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument("columns", metavar="COLUMN", nargs="+", help="their names")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_storage_option(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return change_columns(args, lambda: drop_columns(args.path, args.columns))


def change_columns(args: argparse.Namespace, change: Callable[[], ColumnsChanged]) -> int:
    """Change the columns and say which there are now; UsageError for a name that cannot be."""
    try:
        found = change()
    except SchemaError as error:
        raise UsageError(str(error)) from None
    if args.json:
        print_json(asdict(found))
    else:
        say(f"{args.path}: version {found.version} has the columns {', '.join(found.columns)}")
    return 0
