"""``unirecord purge PATH``: rows of a directory erased for good, with all earlier versions, and looked for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from ..errors import QueryError
from ..sizes import format_size
from ..writing.purging import Purged, purge
from .delete import row_numbers
from .left_out import many
from .progress_bar import ProgressBar
from .terminal import print_json, say
from .usage import UsageError, make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Erase rows for good, as a privacy law may ask: the rows are deleted, the parts that
have deleted rows are written anew without their bytes, and all earlier versions are removed. Then every
file of the directory is searched for bytes of the erased rows. What had been deleted before is erased with
them. The other rows keep their numbers. It is refused while somebody reads the dataset."""

_EXAMPLES: Final = """examples:
  unirecord purge dataset --where 'user == 4711' --dry-run
  unirecord purge dataset --where 'user == 4711' --yes
  unirecord purge dataset --yes                  what has been deleted already"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "purge",
        help="erase rows for good",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a directory of parts on a disk")
    named = parser.add_mutually_exclusive_group()
    named.add_argument("--where", metavar="CONDITION", help="the rows that meet it")
    named.add_argument(
        "--rows", type=row_numbers, metavar="ROWS", help="row numbers and ranges, the last one included"
    )
    sure = parser.add_mutually_exclusive_group(required=True)
    sure.add_argument("--yes", action="store_true", help="do it: nothing of it can be restored")
    sure.add_argument("--dry-run", action="store_true", help="say what would be erased, and change nothing")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    try:
        with ProgressBar("purging", 0, format_size) as bar:
            found = purge(
                args.path, where=args.where, rows=args.rows, dry_run=args.dry_run, progress=bar.update
            )
    except QueryError:  # shows the place in the condition
        raise
    except (IndexError, ValueError) as error:
        raise UsageError(str(error)) from None
    if args.json:
        print_json(asdict(found), indent=2)
    else:
        _print(args, found)
    return 0


def _print(args: argparse.Namespace, found: Purged) -> None:
    if not found.rows and not found.lost:
        say(f"{args.path}: there is nothing to erase")
        return
    would = "would be " if args.dry_run else ""
    say(
        f"{args.path}: {many(found.rows, 'row')} {would}erased, {many(found.parts, 'part')} {would}written anew; "
        f"{_versions(found.lost)} {'would be' if args.dry_run else 'are'} lost, with all that nothing else names"
    )
    if args.dry_run:
        return
    say(
        f"  looked for {found.looked_for:,} digests and pieces of values in all {many(found.files, 'file')}, "
        f"{format_size(found.bytes)}: none is left of the erased rows"
    )
    if found.shared:
        say(f"  {found.shared:,} of them are values that other rows have as well, which stay")
    if found.too_plain:
        say(f"  {many(found.too_plain, 'value')} too short or too even to be looked for")
    if found.unread:
        say(f"  {many(found.unread, 'row')} too damaged for values to be looked for; the digests were")
    for name in found.elsewhere:
        say(f"  {name} had another name on this disk, as merge gives: its bytes are still there")


def _versions(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no version"
    shown = ", ".join(map(str, numbers[:12])) + (
        f" and {len(numbers) - 12:,} more" if len(numbers) > 12 else ""
    )
    return f"version {shown}" if len(numbers) == 1 else f"versions {shown}"
