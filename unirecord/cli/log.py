"""``unirecord log PATH``: the versions of a directory of parts."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from ..inspection.history import Version, versions
from ..sizes import format_size
from .cache_option import refuse_cache
from .storage_option import add_storage_option
from .table import print_table
from .terminal import print_json, warn
from .usage import make_parser

__all__ = ["add_parser"]

_DESCRIPTION: Final = """List the versions of a dataset that are kept: each publication of a directory is one. The
newest comes last. PATH@7 is version 7 wherever a path is read. Exit code 1 when the manifest of one
is damaged."""

_EXAMPLES: Final = """examples:
  unirecord log dataset
  unirecord log dataset --json
  unirecord inspect dataset@7"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser, "log", help="list the versions of a dataset", description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )  # fmt: skip
    parser.add_argument("path", metavar="PATH", help="a directory of parts")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_storage_option(parser)
    refuse_cache(parser, "it reads manifests alone, which no cache keeps")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
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
