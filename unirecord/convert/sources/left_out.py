"""What a source has and the dataset has not: files, rows, and parts of rows, said once and listed."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

from ...errors import LeftOutWarning
from ...sizes import many
from ...storage.staged import StagedFile
from ...writing.journal import left_out_fields

__all__ = [
    "LeftOut",
    "left_out_from_json",
    "left_out_to_json",
    "reduced",
    "said_of_left_out",
    "said_of_unread",
    "warn_of_left_out",
    "write_report",
]

_SHOWN: Final = 20


@dataclass(frozen=True)
class LeftOut:
    """A file or row that is not in the dataset, or, made by `reduced`, a part of rows that is not, or not as it was.

    Attributes:
        name: what it is called.
        reason: why it is not there, or what is there instead.
        expected: whether it was not meant for the dataset; all else could not be read, or did not fit.
        rows: how many rows it would have been, as far as known; 0 where its rows are there.
        count: how many times the source has it.
        column: the one column of the source that it is about, if it is: who does not ask for that is not told.
    """

    name: str
    reason: str
    expected: bool = False
    rows: int = 1
    count: int = 1
    column: str | None = None


def reduced(name: str, reason: str, count: int = 1, column: str | None = None) -> LeftOut:
    """Return what says that rows are in the dataset, but something of them is not, or not as the source has it.

    ``name``: what, by the source's own names. ``reason``: why, or what is there instead, such as ``"left out: …"`` or
    ``"is called 'a_b'"``. Equal ones are listed once, with the sum of their counts.
    """
    return LeftOut(name, reason, expected=True, rows=0, count=count, column=column)


def said_of_left_out(left_out: Iterable[LeftOut]) -> list[str]:
    """A line for each that is `expected`: files by their reason, parts of rows by what they are, with their numbers."""
    counts: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for one in left_out:
        if one.expected and one.rows:
            files[one.reason] += 1
        elif one.expected:
            counts[f"{one.name}: {one.reason}"] += one.count
    lines = [f"{many(number, 'file')}: {text}" for text, number in files.items()]
    lines += [text if number == 1 else f"{text} ({many(number, 'time')})" for text, number in counts.items()]
    more = len(lines) - _SHOWN
    return lines if more <= 0 else [*lines[:_SHOWN], f"… and {more:,} more, which a report lists"]


def said_of_unread(left_out: Iterable[LeftOut], item: str) -> str | None:
    """How many rows, each called ``item``, could not be read or did not fit; None where all could and did."""
    rows = sum(max(one.rows, 1) for one in left_out if not one.expected)
    return f"{many(rows, item)} could not be read or did not fit" if rows else None


def warn_of_left_out(
    left_out: Sequence[LeftOut], source: str, item: str, stacklevel: int, *, broken: bool = True
) -> None:
    """Emit one `LeftOutWarning` if anything is left out; with ``broken`` also of what could not be read."""
    first = next((one for one in left_out if broken and not one.expected), None)
    lines = said_of_left_out(left_out)
    said = []
    if first is not None:
        said.append(
            f"{said_of_unread(left_out, item)}, left out, the first {first.name}: {first.reason}; "
            "on_error='report' lists them, 'skip' says nothing, 'raise' makes it an error"
        )
    if lines:
        said.append("\n  ".join([f"{source}: this is left out, or not as it is there:", *lines]))
    if said:
        warnings.warn(LeftOutWarning("\n".join(said), left_out), stacklevel=stacklevel + 1)


def write_report(path: str, left_out: Iterable[LeftOut]) -> None:
    """Write one object a line, ``{"file": …, "reason": …}``, into a file that appears whole, in place of what is there.

    ``rows`` is added where it is not one row, ``count`` where it is not one time.
    """
    lines = (
        json.dumps(
            {
                "file": one.name,
                "reason": one.reason,
                **({} if one.rows == 1 else {"rows": one.rows}),
                **({} if one.count == 1 else {"count": one.count}),
            }
        )
        + "\n"
        for one in _counted(left_out)
    )
    staged = StagedFile(path)
    try:
        staged.append(["".join(lines).encode()])
        staged.sync()
        staged.publish()
    finally:
        staged.discard()


def _counted(left_out: Iterable[LeftOut]) -> list[LeftOut]:
    """The same, with equal parts of rows as one."""
    counts: Counter[tuple[str, str]] = Counter()
    found: list[LeftOut] = []
    for one in left_out:
        if one.rows or not one.expected:
            found.append(one)
        else:
            counts[one.name, one.reason] += one.count
    return [*found, *(reduced(name, reason, count) for (name, reason), count in counts.items())]


def left_out_to_json(left_out: Iterable[LeftOut]) -> list[list[Any]]:
    """What was left out as plain values."""
    return [list(astuple(one)) for one in left_out]


def left_out_from_json(value: Any) -> list[LeftOut]:
    """The same back; ValueError for what `left_out_to_json` does not give."""
    return [LeftOut(*one) for one in left_out_fields(value)]
