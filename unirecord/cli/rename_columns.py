"""``unirecord rename-columns PATH OLD=NEW,…``: other names from the next version on."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..writing.changing_columns import rename_columns
from .drop_columns import change_columns
from .storage_option import add_storage_option
from .usage import make_parser, pairs

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Give columns of a dataset other names, from the next version on. No file is written but the
manifest; the versions before have the names of before."""

_EXAMPLES: Final = """examples:
  unirecord rename-columns pictures img=image,lbl=label"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "rename-columns",
        help="give columns other names",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument("names", type=pairs, metavar="OLD=NEW,…", help="which, and what they are called then")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_storage_option(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return change_columns(args, lambda: rename_columns(args.path, args.names))
