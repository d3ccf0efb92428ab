"""``unirecord log``, ``restore`` and ``gc``: the versions of a dataset."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

from ..inspect.history import Version, versions
from ..sizes import format_size
from ..snapshot.versions import split_version
from ..writing.garbage import Collected, gc
from ..writing.manifest_changes import restore
from .store_options import add_storage_option, is_elsewhere, refuse_cache
from .terminal import print_json, print_table, say, warn
from .usage import CommandParser, UsageError

__all__ = ["gc_command", "log_command", "restore_command"]

_LOG_DESCRIPTION: Final = """List the versions of a dataset that are kept: each publication of a directory is one. The
newest comes last. PATH@7 is version 7 wherever a path is read. Exit code 1 when the manifest of one
is damaged."""

_LOG_EXAMPLES: Final = """examples:
  unirecord log dataset
  unirecord log dataset --json
  unirecord inspect dataset@7"""


def log_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_LOG_DESCRIPTION, _LOG_EXAMPLES)
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_storage_option(parser)
    refuse_cache(parser, "it reads manifests alone, which no cache keeps")
    parser.set_defaults(run=_run_log)


def _run_log(args: argparse.Namespace) -> int:
    found = versions(args.path)
    damaged = [version for version in found if version.problem is not None]
    if args.json:
        print_json([asdict(version) for version in found], indent=2)
    else:
        head = ["version", "published (UTC)", "by", "rows", "parts", "bytes"]
        print_table([head, *map(_row, found)], "><<>>>")
        for version in damaged:
            warn(f"unirecord: version {version.number} cannot be read: {version.problem}")
    return 1 if damaged else 0


def _row(version: Version) -> list[str]:
    by = version.command if version.of is None else f"{version.command} of {version.of}"
    counts = ["?" if count is None else f"{count:,}" for count in (version.rows, version.parts)]
    size = "?" if version.bytes is None else format_size(version.bytes)
    return [str(version.number), shown_time(version.when), by, *counts, size]


def shown_time(when: float | None) -> str:
    """A moment for people, to the second."""
    if when is None:
        return "?"
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M:%S")


_RESTORE_DESCRIPTION: Final = """\
Publish the content of an earlier version of a dataset as the newest one. Nothing is copied or
removed: what was the newest stays a version, to which restore goes back in the same way."""

_RESTORE_EXAMPLES: Final = """examples:
  unirecord log dataset
  unirecord restore dataset --version 5
  unirecord restore dataset@5                   the same"""


def restore_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_RESTORE_DESCRIPTION, _RESTORE_EXAMPLES)
    parser.add_argument("path", metavar="PATH", help="a directory of parts, or PATH@N")
    parser.add_argument("--version", type=int, metavar="N", help="as `unirecord log` lists it")
    add_storage_option(parser)
    parser.set_defaults(run=_run_restore)


def _run_restore(args: argparse.Namespace) -> int:
    path, version = (args.path, args.version) if args.version is not None else split_version(args.path)
    if version is None:
        raise UsageError(f"which version? {path}@N or --version N, as `unirecord log {path}` lists them")
    try:
        published = restore(path, version)
    except ValueError as error:
        raise UsageError(str(error)) from None
    say(f"{path}: version {published} has the content of version {version}")
    return 0


_GC_DESCRIPTION: Final = """\
Remove versions of a dataset, and the parts that no other version names. What a process on this
machine has open stays. In an object store nobody can see who reads: --older-than says how long
readers and writers may live, and must be given."""

_GC_EXAMPLES: Final = """examples:
  unirecord gc dataset --keep 10 --older-than 7d --dry-run
  unirecord gc dataset --keep 1                  the newest alone
  unirecord gc s3://bucket/dataset --keep 1 --older-than 7d"""

_AGE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def gc_command(parser: CommandParser) -> None:
    """Add the command."""
    parser.describe(_GC_DESCRIPTION, _GC_EXAMPLES)
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
    parser.set_defaults(run=_run_gc)


def _age(text: str) -> float:
    found = _AGE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age; write 7d, 12h, 30m or 45s")
    return float(found[1]) * _SECONDS[found[2]]


def _run_gc(args: argparse.Namespace) -> int:
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
