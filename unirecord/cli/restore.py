"""``unirecord restore PATH --version N``, or ``PATH@N``: an earlier version of a directory, published again."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..parts.versions import split_version
from ..writing.republishing import restore
from .storage_option import add_storage_option
from .terminal import say
from .usage import UsageError, make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Publish the content of an earlier version of a dataset as the newest one. Nothing is copied or
removed: what was the newest stays a version, to which restore goes back in the same way."""

_EXAMPLES: Final = """examples:
  unirecord log dataset
  unirecord restore dataset --version 5
  unirecord restore dataset@5                   the same"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser, "restore", help="go back to an earlier version", description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )  # fmt: skip
    parser.add_argument("path", metavar="PATH", help="a directory of parts, or PATH@N")
    parser.add_argument("--version", type=int, metavar="N", help="as `unirecord log` lists it")
    add_storage_option(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    path, version = (args.path, args.version) if args.version is not None else split_version(args.path)
    if version is None:
        raise UsageError(f"which version? {path}@N or --version N, as `unirecord log {path}` lists them")
    try:
        published = restore(path, version)
    except ValueError as error:
        raise UsageError(str(error)) from None
    say(f"{path}: version {published} has the content of version {version}")
    return 0
