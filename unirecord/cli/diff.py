"""``unirecord diff A B``: what is not the same in two datasets, or in two versions of one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from ..errors import UniRecordError
from ..inspect.diff import Diff, DiffExample, diff
from ..inspect.markup import templates
from ..inspect.reports import diff_page, write_page
from ..sizes import format_size, many
from .arguments import (
    CACHE,
    CACHE_BYTES,
    HTML,
    JSON,
    KEY,
    LIMIT,
    PATHS,
    STORAGE,
    Argument,
    UsageError,
    command,
    one_of,
)
from .terminal import ProgressBar, answer, say

__all__ = ["diff_command"]


_KINDS: Final = ("gone", "added", "changed", "moved")


@command(
    """Compare two datasets by content, whatever wrote them: rows that are added, gone, changed or moved, and
    columns. Rows belong together by their numbers, or by the columns of --key. Parts that both have, as two
    versions of a dataset do, are not read. Exit code 0 when they are equal, 1 when they differ, 2 when they could
    not be compared.""",
    """
    unirecord diff events@5 events@7              two versions
    unirecord diff events copy/events             the rows of equal numbers
    unirecord diff old.urec new --key name        the rows of equal names, wherever they stand
    unirecord diff events@5 events@7 --html diff.html   as a page to look at
    """,
    PATHS.but(nargs=2, help="parts, directories of parts, or versions: PATH@7"),
    KEY,
    Argument("--any-order", action="store_true", help="rows that only moved are no difference (with --key)"),
    LIMIT.but(default=10, help="examples of each kind that are shown (default 10)"),
    one_of(JSON, HTML),
    STORAGE,
    CACHE,
    CACHE_BYTES,
)
def diff_command(args: argparse.Namespace) -> int:
    first, second = args.paths
    if args.html is not None:
        # What is lacking is said before the work, not after it.
        templates()
    try:
        with ProgressBar("comparing", 0) as bar:
            found = diff(
                first, second, key=args.key, any_order=args.any_order, limit=args.limit, progress=bar.update
            )
        size = 0 if args.html is None else write_page(diff_page(first, second, found), args.html)
    except (UniRecordError, ValueError) as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error
    if args.html is None:
        report = {"equal": found.equal, **asdict(found)}
        return answer(args, report, _differences(first, second, found), found.equal)
    result = "equal" if found.equal else "they differ"
    say(f"{args.html}: {format_size(size)}, to be opened in a browser; it needs no network ({result})")
    return 0 if found.equal else 1


def _differences(first: str, second: str, found: Diff) -> Iterator[str]:
    for name in found.columns_gone:
        yield (f"column {name!r} is in {first} alone")
    for name in found.columns_added:
        yield (f"column {name!r} is in {second} alone")
    for column in found.columns_retyped:
        if column.type == column.other_type:
            yield (f"column {column.name!r} has another logical type, chunks or annotations")
        else:
            more = "" if column.compared else "; its values were not compared"
            yield (
                f"column {column.name!r} is {column.type} in {first} and {column.other_type} in {second}{more}"
            )
    if found.metadata_differs:
        yield ("the metadata differ")
    for what, parts in (("gone", found.parts_gone), ("added", found.parts_added)):
        if parts and found.read < max(found.rows):
            yield (f"parts {what}: {_listed(parts)}")
    for kind in _KINDS:
        number = getattr(found, kind)
        shown = [one for one in found.examples if one.kind == kind]
        if number:
            yield (f"{many(number, 'row')} {kind}{_columns(found) if kind == 'changed' else ''}")
        for one in shown:
            yield (f"  {_example(found, one)}")
        if shown and number > len(shown):
            yield (f"  and {number - len(shown):,} more")
    mine, theirs = found.rows
    said = "equal" if found.equal else "they differ"
    yield (f"{said}: {mine:,} and {many(theirs, 'row')}, {found.read:,} of them read and compared")


def _columns(found: Diff) -> str:
    counts = ", ".join(f"{name} in {many:,}" for name, many in found.changed_columns.items())
    return f": {counts}"


def _example(found: Diff, one: DiffExample) -> str:
    row = one.row if one.row is not None else one.other_row
    said = f"row {row:,}"
    if one.row is not None and one.other_row is not None and one.row != one.other_row:
        said += f", now {one.other_row:,}"
    if found.key:
        said += ": " + ", ".join(
            f"{name} = {_cut(value)}" for name, value in zip(found.key, one.key, strict=True)
        )
    return said + (f" ({', '.join(one.columns)})" if one.columns else "")


def _cut(value: object, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else text[:most] + "…"


def _listed(parts: tuple[str, ...], most: int = 3) -> str:
    return ", ".join(parts[:most]) + (f" and {len(parts) - most:,} more" if len(parts) > most else "")
