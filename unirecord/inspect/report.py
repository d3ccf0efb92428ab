"""What verify and repair found: plain values, and the same as dicts for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Problem", "RepairReport", "Report", "Salvaged"]

"""Called with (bytes done, bytes in all), from any thread, never from two at once."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong; ``str()`` of it is one line.

    Attributes:
        path: the file.
        what: what is wrong with it.
        lost: what is lost by it.
        advice: what to do.
        part: number of the part in the dataset; this and the following are None where they do not apply.
        row: number of the row in the part.
        column: name of the column.
        offset: place in the file, in bytes.
    """

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
    """The outcome of a verification.

    Attributes:
        path: what was verified.
        quick: whether only headers, identities, sizes and the manifest were looked at.
        parts, rows, bytes: how much was looked at.
        column_parts: how many files beside the parts have columns of them.
        seconds: how long it took.
        problems: a list of ``Problem``; empty when all is good.
    """

    path: str
    quick: bool = False
    parts: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    column_parts: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        return {"ok": self.ok, **asdict(self)}


@dataclass
class Salvaged:
    """What became of one part in a repair.

    Attributes:
        path: the part.
        output: what was written for it, if anything.
        action: ``"none"``: it was sound, ``"index"``: the index was rebuilt, ``"salvaged"``: rows were written anew.
        rows: how many rows the part had, None when nobody knows.
        kept: how many rows can be read now.
        lost: ranges [first, stop) of lost rows, by their numbers in the part.
        reasons: why, in sentences.
    """

    path: str
    output: str | None = None
    action: str = "none"
    rows: int | None = None
    kept: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


@dataclass
class RepairReport:
    """The outcome of a repair.

    Attributes:
        path: what was repaired.
        manifest: the manifest that was made anew or corrected, if one was.
        corrected: whether it was only corrected: it gave wrong sizes of files.
        parts: a list of ``Salvaged``, one for each part.
        seconds: how long it took.
    """

    path: str
    manifest: str | None = None
    corrected: bool = False
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
