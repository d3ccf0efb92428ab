"""Runs the conversions of ``unirecord write``, shows how far they are, and says what was written."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ..convert.conversion import Conversion, Standing
from ..convert.ordering import in_order
from ..convert.part_conversion import write_part
from ..convert.row_choice import RowChoice
from ..convert.sources import LeftOut, Source, WrongSourceError
from ..convert.split_conversion import share_id, write_shares
from ..format.metadata import pack_user
from ..format.schema import Schema
from ..parts.part_set import resolve
from ..sizes import format_size
from ..storage.registry import location_of
from ..writing.batch_writer import PART_BYTES
from .engine_option import engine_of
from .left_out import many
from .progress_bar import ProgressBar, ProgressLines, duration
from .terminal import say
from .usage import UsageError

__all__ = ["Writing", "convert", "convert_shares", "say_written"]


@dataclass(frozen=True)
class Writing:
    """What a call of ``unirecord write`` comes to, once all of it has been checked.

    ``before``: the dataset that is appended to, if any.
    """

    args: argparse.Namespace
    choice: RowChoice
    schema: Schema
    identity: bytes | None
    before: Any = None


def convert(asked: Writing, source: Source) -> tuple[int, list[LeftOut]]:
    """Write what is chosen, and show how far it is; the rows, and what was left out."""
    args, choice = asked.args, asked.choice
    tell = ProgressLines() if args.progress == "json" else None
    if choice.order is None:
        return _write(asked, source, tell)
    with ExitStack() as open_rows:
        with ProgressBar("reading", source.rows or 0, _rows_text) as bar:
            rows = open_rows.enter_context(
                in_order(
                    source,
                    choice.order,
                    args.target,
                    workers=args.workers,
                    resume=args.resume,
                    options=choice.options(),
                    progress=lambda standing: _show(standing, bar, tell),
                )
            )
        return _write(asked, rows, tell)


def _write(asked: Writing, source: Source, tell: ProgressLines | None) -> tuple[int, list[LeftOut]]:
    args = asked.args
    if args.target.endswith(".urec"):
        return _write_part(asked, source)
    wish = _conversion(asked, source, args.target, asked.identity)
    wish.append = asked.before is not None
    wish.index = (args.index or None) if wish.append else args.index
    known = source.rows if args.limit is None else args.limit
    with ProgressBar("writing", known or 0, _rows_text) as bar:
        rows, left_out = wish.run(lambda standing: _show(standing, bar, tell))
    return rows, [*source.left_out, *left_out]


def _conversion(asked: Writing, source: Source, path: str, identity: bytes | None) -> Conversion:
    args = asked.args
    return Conversion(
        source,
        path,
        asked.schema,
        index=args.index,
        user=pack_user(source.metadata),
        max_part_bytes=args.max_part_bytes or PART_BYTES,
        overwrite=args.overwrite,
        id=identity,
        workers=args.workers,
        engine=engine_of(args),
        resume=args.resume,
        limit=args.limit,
        options=asked.choice.options(),
    )


def convert_shares(asked: Writing, source: Source) -> tuple[dict[str, int], list[LeftOut]]:
    """Write the shares of a split; the rows of each, and what was left out."""
    args = asked.args
    try:
        shares = asked.choice.shares(source)
    except WrongSourceError as error:
        raise UsageError(str(error)) from None
    wishes = {
        name: _conversion(asked, share, os.path.join(args.target, name), share_id(asked.identity, name))
        for name, share in shares.items()
    }
    tell = ProgressLines() if args.progress == "json" else None
    with ProgressBar("writing", 0, _rows_text) as bar:
        return write_shares(args.target, wishes, lambda _, standing: _show(standing, bar, tell))


def _show(standing: Standing, bar: ProgressBar, lines: ProgressLines | None) -> None:
    bar.update(standing.rows, standing.all_rows)
    if standing.all_tasks and standing.tasks == standing.all_tasks:
        bar.finish(f"{_rows_text(standing.rows)} written, comparing some of them with the source")
    if lines is not None:
        lines.update(vars(standing), last=standing.tasks == standing.all_tasks)


def _write_part(asked: Writing, source: Source) -> tuple[int, list[LeftOut]]:
    args = asked.args
    most = min((n for n in (args.limit, source.rows) if n is not None), default=0)
    with ProgressBar("writing", most, _rows_text) as bar:
        return write_part(
            source,
            args.target,
            asked.schema,
            index=args.index,
            metadata=source.metadata,
            overwrite=args.overwrite,
            id=asked.identity,
            limit=args.limit,
            tell=bar.update,
        )


def _rows_text(rows: int) -> str:
    return f"{rows:,} rows"


def say_written(target: str, rows: int, seconds: float, name: str = "") -> None:
    """Say what is at ``target`` now."""
    found = resolve(target)
    parts = len(found.parts)
    total = sum(
        location_of(file).size(file) for part in found.parts for file in (part.path, part.path + ".idx")
    )
    rate = f", {rows / seconds:,.0f} rows/s" if seconds > 0 and rows >= 1000 else ""
    more = f" (now {found.rows:,})" if found.rows != rows else ""
    size_text = f"{many(parts, 'part')}, {format_size(total)}"
    say(f"{name}wrote {many(rows, 'row')}{more} in {size_text}, in {duration(seconds)}{rate}")
