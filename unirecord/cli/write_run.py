"""Runs the conversions of ``unirecord write``, shows how far they are, and says what was written."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
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
from .conversion_progress import ConversionProgress, lines_of
from .engine_option import engine_of
from .left_out import many
from .progress_bar import ProgressLines, duration
from .terminal import say, warn
from .usage import UsageError

__all__ = ["Writing", "Written", "convert", "convert_shares", "say_shares", "say_written"]


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


@dataclass(frozen=True)
class Written:
    """How many rows there are now, how many of them an earlier run had written, and what was left out.

    ``published``: that run had published them too.
    """

    rows: int
    resumed: int
    left_out: list[LeftOut]
    published: bool = False


def convert(asked: Writing, source: Source) -> Written:
    """Write what is chosen, and show how far it is."""
    args, choice = asked.args, asked.choice
    tell = lines_of(args)
    if choice.order is None:
        return _write(asked, source, tell)
    with ExitStack() as open_rows:
        with ConversionProgress("reading", source.rows, tell) as progress:
            rows = open_rows.enter_context(
                in_order(
                    source,
                    choice.order,
                    args.target,
                    workers=args.workers,
                    resume=args.resume,
                    options=choice.options(),
                    progress=progress.show,
                )
            )
        return _write(asked, rows, tell)


def _write(asked: Writing, source: Source, tell: ProgressLines | None) -> Written:
    args = asked.args
    known = source.rows if args.limit is None else args.limit
    with ConversionProgress("writing", known, tell) as progress:
        if args.target.endswith(".urec"):
            rows, left_out = _write_part(asked, source, progress)
        else:
            rows, left_out = _write_directory(asked, source, progress)
    return Written(rows, progress.resumed, left_out, progress.published)


def _write_directory(
    asked: Writing, source: Source, progress: ConversionProgress
) -> tuple[int, list[LeftOut]]:
    args = asked.args
    wish = _conversion(asked, source, args.target, asked.identity)
    wish.append = asked.before is not None
    wish.index = (args.index or None) if wish.append else args.index
    rows, left_out = wish.run(progress.show)
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


def convert_shares(asked: Writing, source: Source) -> tuple[dict[str, int], Written]:
    """Write the shares of a split; the rows of each, and of all."""
    args = asked.args
    try:
        shares = asked.choice.shares(source)
    except WrongSourceError as error:
        raise UsageError(str(error)) from None
    wishes = {
        name: _conversion(asked, share, os.path.join(args.target, name), share_id(asked.identity, name))
        for name, share in shares.items()
    }
    lines, stages = lines_of(args), dict[str, ConversionProgress]()

    def show(name: str, standing: Standing) -> None:
        if name not in stages:
            stages[name] = ConversionProgress("writing", None, lines, share=name)
        stages[name].show(standing)

    try:
        rows, left_out = write_shares(args.target, wishes, show)
    finally:
        for stage in stages.values():
            stage.close()
    resumed = sum(stage.resumed for stage in stages.values())
    resumed += sum(
        number for name, number in rows.items() if name not in stages
    )  # published by the run before
    return rows, Written(sum(rows.values()), resumed, left_out)


def _write_part(asked: Writing, source: Source, progress: ConversionProgress) -> tuple[int, list[LeftOut]]:
    args = asked.args
    return write_part(
        source,
        args.target,
        asked.schema,
        index=args.index,
        metadata=source.metadata,
        overwrite=args.overwrite,
        id=asked.identity,
        limit=args.limit,
        progress=progress.show,
    )


def say_written(target: str, written: Written, seconds: float) -> None:
    """Say what is at ``target`` now, and how fast this run was."""
    if written.published:
        say(f"the run before had finished: {_what_is_at(target, written.rows)}; there was nothing left to do")
        return
    say(f"wrote {_what_is_at(target, written.rows)}, {_how_fast(written, seconds)}")


def say_shares(target: str, shares: Mapping[str, int], written: Written, seconds: float) -> None:
    """Say what the shares in the folder ``target`` are, and how fast this run was."""
    for name, rows in shares.items():
        say(f"{name}: wrote {_what_is_at(os.path.join(target, name), rows)}")
    say(f"in all {many(written.rows, 'row')}, {_how_fast(written, seconds)}")
    empty = [name for name, rows in shares.items() if not rows]
    if empty and written.rows:
        warn(
            f"unirecord: no row has gone to {', '.join(empty)}: there are few rows, or few values of the column that "
            "decides; --stratify COLUMN takes shares of the rows of each value"
        )


def _what_is_at(target: str, rows: int) -> str:
    found = resolve(target)
    parts = len(found.parts)
    total = sum(
        location_of(file).size(file) for part in found.parts for file in (part.path, part.path + ".idx")
    )
    more = f" (now {found.rows:,})" if found.rows != rows else ""
    return f"{many(rows, 'row')}{more} in {many(parts, 'part')}, {format_size(total)}"


def _how_fast(written: Written, seconds: float) -> str:
    """The time, and the rate of the rows of this run where there are enough to tell."""
    rows = written.rows - written.resumed
    rate = f", {rows / seconds:,.0f} rows/s" if seconds > 0 and rows >= 1000 else ""
    before = f" ({many(written.resumed, 'row')} by the run before)" if written.resumed else ""
    return f"in {duration(seconds)}{rate}{before}"
