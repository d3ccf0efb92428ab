"""The type of a column of text cells: what all its cells can be read as."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from ...core import ColumnLook

__all__ = ["NUMBER", "CellEvidence", "is_rounded"]

_LONG_TEXT: Final = 4096
_BEYOND: Final = 1 << 64  # stands for whole numbers that no 64 bits hold
# Cells are tested joined by a character that cannot be part of a number: one match per column and chunk.
_JOIN: Final = "\x1f"
_WHOLE: Final = r"[-+]?(?:0|[1-9][0-9]*)"  # no leading zeros: 007 is a name
_REAL: Final = (
    rf"{_WHOLE}(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|[-+]?\.[0-9]+(?:e[-+]?[0-9]+)?|[-+]?inf(?:inity)?|nan"
)
# One way only to match blanks, or a long run of them that is no number takes quadratic time.
_ANY_CASE: Final = re.IGNORECASE | re.ASCII  # or a Turkish dotless i were an i
_INTS: Final = re.compile(rf"(?:(?: *(?:{_WHOLE}) *)?{_JOIN})*")
_REALS: Final = re.compile(rf"(?:(?: *(?:{_REAL}) *)?{_JOIN})*", _ANY_CASE)
_BOOLS: Final = re.compile(rf"(?:(?:true|false)?{_JOIN})*", _ANY_CASE)
NUMBER: Final = re.compile(rf" *(?:{_REAL}) *", _ANY_CASE)
_WHOLE_CELL: Final = re.compile(_WHOLE)
_EXACT_DIGITS: Final = 15
_NEGATIVE: Final = re.compile(r"-[1-9]")
_BIG: Final = re.compile(r"[0-9]{19}")
_LONG: Final = re.compile(r"[0-9]{16}")
_MAX_DIGITS: Final = 30  # a whole number that is written longer is beyond 64 bits


@dataclass
class CellEvidence:
    """What the cells of one column seen so far allow.

    ``low`` and ``high`` bound its whole numbers, but may be nearer to 0 where that decides nothing.
    """

    whole: bool = True
    real: bool = True
    logical: bool = True
    empty: bool = False
    filled: bool = False
    low: int = 0
    high: int = 0
    longest: int = 0
    inexact: bool = False  # a whole number may be none that float64 holds

    def add(self, cells: Sequence[str]) -> None:
        """Take more cells into account."""
        self.empty = self.empty or "" in cells
        self.filled = self.filled or any(cells)
        if self.whole or self.real or self.logical:
            joined = _JOIN.join(cells) + _JOIN
            if joined.count(_JOIN) != len(cells):  # a cell holds it, which no number does
                joined = "x"
            self.whole = self.whole and _INTS.fullmatch(joined) is not None
            self.real = self.real and (self.whole or _REALS.fullmatch(joined) is not None)
            self.logical = self.logical and _BOOLS.fullmatch(joined) is not None
            if self.whole and _NEGATIVE.search(joined):
                self.low = min(self.low, -1)
            self.inexact = self.inexact or (self.real and _LONG.search(joined) is not None)
            if self.whole and _BIG.search(joined):
                values = [_whole(cell) for cell in cells if cell.strip()]
                self.low, self.high = min(self.low, *values), max(self.high, *values)
        self.longest = max(self.longest, max(map(len, cells)))

    def take(self, look: ColumnLook) -> None:
        """Take cells into account that were looked through in C, as `add` does."""
        self.whole = self.whole and look.whole
        self.real = self.real and look.real
        self.logical = self.logical and look.logical
        self.empty = self.empty or look.empty
        self.filled = self.filled or look.filled
        self.low = min(self.low, -_BEYOND if look.beyond_low else -look.negative)
        self.high = max(self.high, _BEYOND if look.beyond_high else look.high)
        self.longest = max(self.longest, look.longest)
        self.inexact = self.inexact or look.inexact

    def type(self) -> str:
        """Return the type's name, with ``?`` when a cell was empty."""
        name = self._base() if self.filled else "string"
        if name == "string" and self.longest > _LONG_TEXT and not self.empty:
            return "text"
        return name + "?" if self.empty else name

    def _base(self) -> str:
        if self.whole:
            if self.high < 1 << 63 and self.low >= -(1 << 63):
                return "int64"
            return "uint64" if self.low >= 0 and self.high < 1 << 64 else "string"
        if self.real:
            return "float64"
        return "bool" if self.logical else "string"


def is_rounded(cell: str) -> bool:
    """Whether the cell of a column of float64 is a whole number that float64 does not hold."""
    text = cell.strip(" ")
    if len(text) <= _EXACT_DIGITS or _WHOLE_CELL.fullmatch(text) is None:
        return False
    value = float(text)
    return value in (float("inf"), float("-inf")) or Decimal(text) != Decimal(value)


def _whole(cell: str) -> int:
    """Return the number, or one that is as far beyond 64 bits."""
    text = cell.strip()
    if len(text) <= _MAX_DIGITS:
        return int(text)
    return -_BEYOND if text.startswith("-") else _BEYOND
