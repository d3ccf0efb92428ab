"""``unirecord evict PATH --max-bytes 200GB``: the oldest parts go until a directory is small enough."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from ..sizes import format_size
from ..writing.evicting import Evicted, evict
from .terminal import print_json, say
from .usage import make_parser, size

__all__ = ["add_parser"]

_DESCRIPTION: Final = """Remove the oldest parts of a dataset until the others are within a limit: the next version does
not have them, and the numbers of the rows that stay go down. Earlier versions keep the bytes on disk until gc removes
them."""

_EXAMPLES: Final = """examples:
  unirecord evict events --max-bytes 200GB --dry-run
  unirecord evict events --max-bytes 200GB --gc      and all earlier versions"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "evict",
        help="remove the oldest parts",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument(
        "--max-bytes", type=size, required=True, metavar="SIZE", help="of the parts that stay, as 200GB"
    )
    parser.add_argument("--gc", action="store_true", help="remove all earlier versions that nobody reads too")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be removed, and remove nothing"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    found = evict(args.path, args.max_bytes, collect=args.gc, dry_run=args.dry_run)
    if args.json:
        print_json(asdict(found), indent=2)
    else:
        _print(args, found)
    return 0


def _print(args: argparse.Namespace, found: Evicted) -> None:
    if not found.parts:
        say(f"{args.path}: {format_size(found.left)}, which is within the limit; nothing was published")
    else:
        many = "1 part" if found.parts == 1 else f"{found.parts:,} parts"
        what = "would go" if args.dry_run else f"gone in version {found.version}"
        say(
            f"{args.path}: {many} with {found.rows:,} rows, {format_size(found.bytes)}, {what}; "
            f"{format_size(found.left)} stay"
        )
    if found.collected is not None:
        say(
            f"  gc removed {len(found.collected.removed):,} versions and {format_size(found.collected.bytes)}"
        )
        if found.collected.in_use or found.collected.unknown:
            say("  others stay: somebody reads them, or no lock could tell")
    elif found.kept_by:
        say(
            f"  the bytes stay on disk for {len(found.kept_by):,} earlier versions, until unirecord gc, or --gc"
        )
