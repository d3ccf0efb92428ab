"""``unirecord delete``, ``evict`` and ``purge``: rows that leave a dataset."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from ..errors import QueryError
from ..sizes import format_size, many
from ..writing.deletion import Evicted, Purged, delete, evict, purge
from .store_options import add_storage_option
from .terminal import ProgressBar, print_json, say
from .usage import CommandParser, UsageError, size

__all__ = ["delete_command", "evict_command", "purge_command"]

_DELETE_DESCRIPTION: Final = """Delete rows of a dataset: the next version does not have them. The others keep their
numbers, and what is running goes on with what it has opened. The bytes stay on disk, for the
versions before."""

_DELETE_EXAMPLES: Final = """examples:
  unirecord delete dataset --where 'label == 3 and score < 0.1'
  unirecord delete dataset --rows 17,1000-1999"""

_MOST_ROWS: Final = 1 << 28  # named one by one


def delete_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_DELETE_DESCRIPTION, _DELETE_EXAMPLES)
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    named = parser.add_mutually_exclusive_group(required=True)
    named.add_argument("--where", metavar="CONDITION", help="the rows that meet it")
    named.add_argument(
        "--rows", type=row_numbers, metavar="ROWS", help="row numbers and ranges, the last one included"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_storage_option(parser)
    parser.set_defaults(run=_run_delete)


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


def _run_delete(args: argparse.Namespace) -> int:
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


_EVICT_DESCRIPTION: Final = """\
Remove the oldest parts of a dataset until the others are within a limit: the next version does
not have them, and the numbers of the rows that stay go down. Earlier versions keep the bytes on disk until gc removes
them."""

_EVICT_EXAMPLES: Final = """examples:
  unirecord evict events --max-bytes 200GB --dry-run
  unirecord evict events --max-bytes 200GB --gc      and all earlier versions"""


def evict_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_EVICT_DESCRIPTION, _EVICT_EXAMPLES)
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument(
        "--max-bytes", type=size, required=True, metavar="SIZE", help="of the parts that stay, as 200GB"
    )
    parser.add_argument("--gc", action="store_true", help="remove all earlier versions that nobody reads too")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be removed, and remove nothing"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=_run_evict)


def _run_evict(args: argparse.Namespace) -> int:
    found = evict(args.path, args.max_bytes, collect=args.gc, dry_run=args.dry_run)
    if args.json:
        print_json(asdict(found), indent=2)
    else:
        _print_evicted(args, found)
    return 0


def _print_evicted(args: argparse.Namespace, found: Evicted) -> None:
    if not found.parts:
        say(f"{args.path}: {format_size(found.left)}, which is within the limit; nothing was published")
    else:
        what = "would go" if args.dry_run else f"gone in version {found.version}"
        say(
            f"{args.path}: {many(found.parts, 'part')} with {many(found.rows, 'row')}, "
            f"{format_size(found.bytes)}, {what}; "
            f"{format_size(found.left)} stay"
        )
    if found.collected is not None:
        say(
            f"  gc removed {many(len(found.collected.removed), 'version')} and {format_size(found.collected.bytes)}"
        )
        if found.collected.in_use or found.collected.unknown:
            say("  others stay: somebody reads them, or no lock could tell")
    elif found.kept_by:
        say(
            f"  the bytes stay on disk for {len(found.kept_by):,} earlier versions, until unirecord gc, or --gc"
        )


_PURGE_DESCRIPTION: Final = """Erase rows for good, as a privacy law may ask: the rows are deleted, the parts that
have deleted rows are written anew without their bytes, and all earlier versions are removed. Then every
file of the directory is searched for bytes of the erased rows. What had been deleted before is erased with
them. The other rows keep their numbers. It is refused while somebody reads the dataset."""

_PURGE_EXAMPLES: Final = """examples:
  unirecord purge dataset --where 'user == 4711' --dry-run
  unirecord purge dataset --where 'user == 4711' --yes
  unirecord purge dataset --yes                  what has been deleted already"""


def purge_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_PURGE_DESCRIPTION, _PURGE_EXAMPLES)
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
    parser.set_defaults(run=_run_purge)


def _run_purge(args: argparse.Namespace) -> int:
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
        _print_purged(args, found)
    return 0


def _print_purged(args: argparse.Namespace, found: Purged) -> None:
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
        f"  looked for {many(found.looked_for, 'digest')} and pieces of values in all {many(found.files, 'file')}, "
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
