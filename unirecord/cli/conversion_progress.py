"""How far ``unirecord write`` is: a bar on a terminal, or lines of JSON for a program that watches."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..convert.conversion import Standing
from ..sizes import format_size
from .left_out import many
from .pace import Pace
from .progress_bar import ProgressBar, ProgressLines
from .terminal import warn

__all__ = ["ConversionProgress", "Looking", "lines_of"]


def lines_of(args: argparse.Namespace) -> ProgressLines | None:
    """What tells lines of JSON, where ``--progress json`` asks for them; then there is no bar."""
    return ProgressLines() if args.progress == "json" else None


class Looking:
    """Shows bytes that are read before anything is written."""

    def __init__(self, stage: str, lines: ProgressLines | None) -> None:
        self._stage, self._lines = stage, lines
        self._bar = ProgressBar(stage, 0, format_size)

    def update(self, done: int, total: int = 0) -> None:
        """Say how many bytes are read; ``total`` 0: of how many is not known."""
        if self._lines is None:
            self._bar.update(done, total)
        else:
            self._lines.update(lambda: {"stage": self._stage, "bytes_read": done, "all_bytes": total or None})

    def __enter__(self) -> Callable[[int, int], None]:
        """Return `update`."""
        return self.update

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the line."""
        self._bar.close()


class ConversionProgress:
    """Shows how far one stage is; each stage has rates of its own, of what this run has done.

    ``resumed``: rows that an earlier run had written, once the stage has said so; ``published``: and published.
    """

    resumed: int
    published: bool

    def __init__(
        self, stage: str, known: int | None, lines: ProgressLines | None, share: str | None = None
    ) -> None:
        self._stage = {"stage": stage} if share is None else {"stage": stage, "share": share}
        self._lines, self.resumed, self.published = lines, 0, False
        self._told = False
        self._bar = ProgressBar(" ".join(self._stage.values()), known or 0, _rows_text)
        self._pace = Pace()

    def show(self, standing: Standing) -> None:
        """Show it, if it is time."""
        self.resumed, self.published = standing.resumed_rows, standing.published
        said = standing.said_of_dropped()
        if said is not None and not self._told:
            self._told = True
            warn(f"unirecord: {said.replace('resume', '--resume')}")
        ended = 0 < standing.all_tasks == standing.tasks
        if self._lines is not None:
            self._lines.update(lambda: self.values(standing), last=ended)
            return
        self._bar.update(
            standing.rows,
            standing.all_rows,
            before=standing.resumed_rows,
            more=lambda: self._notes(standing),
        )
        if ended and not standing.published:
            rate = self._pace.rate(standing.rows, standing.resumed_rows)
            self._bar.finish(
                f"{_rows_text(standing.rows)} written, {rate:,.0f} rows/s, comparing some of them with the source"
            )

    def values(self, standing: Standing) -> dict[str, Any]:
        """What a line of JSON says."""
        rows, before = standing.rows, standing.resumed_rows
        left = self._pace.left(rows, standing.all_rows, before)
        return {
            **self._stage,
            **vars(standing),
            "rows_per_second": round(self._pace.rate(rows, before), 1),
            "bytes_per_second": round(self._pace.rate(standing.bytes, standing.resumed_bytes)),
            "seconds_left": None if left is None else round(left, 1),
        }

    def _notes(self, standing: Standing) -> list[str]:
        notes = []
        if standing.bytes:
            rate = self._pace.rate(standing.bytes, standing.resumed_bytes)
            notes.append(f"{format_size(standing.bytes)}, {format_size(int(rate))}/s")
        if standing.all_tasks > 1:
            notes.append(f"{standing.tasks:,} of {standing.all_tasks:,} parts done")
            if standing.parts:
                others = len(standing.parts) - 1
                notes.append(f"at {standing.parts[0]}" + (f" and {others} more" if others else ""))
        return notes

    def close(self) -> None:
        """Clear the line."""
        self._bar.close()

    def __enter__(self) -> ConversionProgress:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the line."""
        self.close()


def _rows_text(rows: int) -> str:
    return many(rows, "row")
