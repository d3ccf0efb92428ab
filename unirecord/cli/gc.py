"""``unirecord gc PATH``: versions that are not to be kept any longer."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from ..sizes import format_size
from ..writing.collected import Collected
from ..writing.collecting import gc
from .storage_option import add_storage_option, is_elsewhere
from .terminal import print_json, say
from .usage import UsageError, make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Remove versions of a dataset, and the parts that no other version names. What a process on this
machine has open stays. In an object store nobody can see who reads: --older-than says how long
readers and writers may live, and must be given."""

_EXAMPLES: Final = """examples:
  unirecord gc dataset --keep 10 --older-than 7d --dry-run
  unirecord gc dataset --keep 1                  the newest alone
  unirecord gc s3://bucket/dataset --keep 1 --older-than 7d"""

_AGE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser, "gc", help="remove old versions", description=_DESCRIPTION, epilog=_EXAMPLES
    )
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument(
        "--keep",
        type=int,
        default=10,
        metavar="N",
        help="versions that stay, the newest among them (default 10)",
    )
    parser.add_argument(
        "--older-than",
        type=_age,
        metavar="AGE",
        help="as 7d, 12h or 30m: younger versions stay too, and what an --append that was stopped has left (without it "
        "7d); in an object store, those that were the newest since, and files that no version names",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be removed, and remove nothing"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_storage_option(parser)
    parser.set_defaults(run=_run)


def _age(text: str) -> float:
    found = _AGE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age; write 7d, 12h, 30m or 45s")
    return float(found[1]) * _SECONDS[found[2]]


def _run(args: argparse.Namespace) -> int:
    if args.keep < 1:
        raise UsageError("--keep is at least 1: the newest version always stays")
    if args.older_than is None and is_elsewhere(args):
        raise UsageError(
            "who reads an object store cannot be seen: give --older-than, such as 7d, which no job reaches"
        )
    found = gc(args.path, keep=args.keep, older_than=args.older_than, dry_run=args.dry_run)
    if args.json:
        print_json(asdict(found), indent=2)
    else:
        _print(args, found)
    return 0


def _print(args: argparse.Namespace, found: Collected) -> None:
    what = "would be removed" if args.dry_run else "removed"
    parts = f"{found.parts:,} {'part or file' if found.parts == 1 else 'parts and files'} of deleted rows"
    say(f"{args.path}: {_named(found.removed)} {what}, with {parts}, {format_size(found.bytes)}")
    if found.in_use:
        say(f"  {_named(found.in_use)} stay: somebody reads them")
    if found.unknown:
        say(f"  {_named(found.unknown)} stay: this file system has no locks that tell who reads them")


def _named(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no version"
    shown = ", ".join(map(str, numbers[:12])) + (
        f" and {len(numbers) - 12:,} more" if len(numbers) > 12 else ""
    )
    return f"version {shown}" if len(numbers) == 1 else f"versions {shown}"
