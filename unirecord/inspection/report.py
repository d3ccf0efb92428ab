"""What verify and repair found: plain values, and the same as dicts for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Problem", "Progress", "RepairReport", "Report", "Salvaged"]

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all), from any thread, never from two at once."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. ``row`` counts within the part; None where it does not apply."""

    path: str
    what: str
    lost: str
    advice: str
    part: int | None = None
    row: int | None = None
    column: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = [f"row {self.row}"] if self.row is not None else []
        place += [f"column {self.column!r}"] if self.column is not None else []
        place += [f"offset {self.offset}"] if self.offset is not None else []
        at = f" ({', '.join(place)})" if place else ""
        return f"{self.path}: {self.what}{at}. Lost: {self.lost}. {self.advice}"


@dataclass
class Report:
    """The outcome of a verification."""

    path: str
    quick: bool = False
    parts: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        return {"ok": self.ok, **asdict(self)}


@dataclass
class Salvaged:
    """What became of one part."""

    path: str
    output: str | None = None
    action: str = (
        "none"  # "none": it was sound, "index": the index was rebuilt, "salvaged": rows went to a new part
    )
    rows: int | None = None  # rows the part had, None when nobody knows
    kept: int = 0
    lost: list[tuple[int, int]] = field(
        default_factory=list
    )  # ranges [first, stop) of lost rows, in the original
    reasons: list[str] = field(default_factory=list)


@dataclass
class RepairReport:
    """The outcome of a repair."""

    path: str
    manifest: str | None = None  # the one that was made anew
    parts: list[Salvaged] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether no row was lost."""
        return not any(part.lost or part.rows is None for part in self.parts)

    @property
    def kept(self) -> int:
        """Rows that can be read now."""
        return sum(part.kept for part in self.parts)

    @property
    def lost(self) -> int:
        """Rows that are known to be gone."""
        return sum(stop - first for part in self.parts for first, stop in part.lost)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        return {"ok": self.ok, "kept": self.kept, "lost": self.lost, **asdict(self)}
