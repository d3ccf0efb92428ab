"""What a query used to find its rows, and what it skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from .bound_condition import BoundCondition
from .zone_states import ALL, NONE

SHOWN_PARTS: Final = 20
HOW: Final = {
    "known": "known without reading",
    "values": "values compared",
    "list": "values looked up in the list",
    "dictionary": "strings as codes, the test tried once per distinct string",
    "strings": "every string tried",
    "nulls": "validity bits",
    "row numbers": "row numbers",
    "computed": "worked out row by row",
}


@dataclass(frozen=True)
class ConditionExplanation:
    """One condition: how its rows are tried where its zones leave them open."""

    text: str
    how: str
    skipped: int
    accepted: int


@dataclass(frozen=True)
class PartExplanation:
    """What happened in one part; zones are blocks of 8,192 rows."""

    name: str
    rows: int
    found: int
    seconds: float
    zones: int
    skipped: int
    accepted: int
    lookup: str | None
    hits: int
    conditions: tuple[ConditionExplanation, ...]

    @property
    def way(self) -> str:
        """The way that the rows were found."""
        if self.lookup is not None:
            rest = "; the other conditions are tried on these alone" if len(self.conditions) > 1 else ""
            return f"lookup: {self.lookup} gives {self.hits:,} rows{rest}"
        tried = self.zones - self.skipped - self.accepted
        if tried == 0:
            return f"zones alone: {self.skipped:,} of {self.zones:,} skipped, {self.accepted:,} taken whole"
        return f"scan of {tried:,} zones of {self.zones:,}; {self.skipped:,} skipped, {self.accepted:,} taken whole"


@dataclass(frozen=True)
class Explanation:
    """The answer of `Query.explain`; ``str()`` of it is for people, `to_dict` for programs."""

    text: str
    canonical: str
    parts: tuple[PartExplanation, ...]

    @property
    def found(self) -> int:
        """Rows that meet the condition."""
        return sum(part.found for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        return {
            "query": self.text,
            "canonical": self.canonical,
            "rows": self.found,
            "parts": [asdict(p) for p in self.parts],
        }

    def __str__(self) -> str:
        lines = [f"query: {self.text}", f"as read: {self.canonical}"]
        for part in self.parts[:SHOWN_PARTS]:
            lines.append(f"{part.name}: {part.found:,} of {part.rows:,} rows in {part.seconds * 1e3:.2f} ms")
            lines.append(f"  {part.way}")
            for condition in part.conditions:
                zones = f"zones skipped {condition.skipped:,}, taken whole {condition.accepted:,}"
                lines.append(f"  {condition.text}: {HOW[condition.how]}; {zones}")
        if len(self.parts) > SHOWN_PARTS:
            lines.append(f"… and {len(self.parts) - SHOWN_PARTS:,} parts more")
        return "\n".join(lines)


def leaf_reports(bound: BoundCondition) -> Iterator[ConditionExplanation]:
    """The conditions on columns, each with what its zones say."""
    if bound.terms:
        for term in bound.terms:
            yield from leaf_reports(term)
        return
    skipped, accepted = (int(np.count_nonzero(bound.states == state)) for state in (NONE, ALL))
    text = str(bound.condition)
    yield ConditionExplanation(text if len(text) <= 100 else text[:99] + "…", bound.how, skipped, accepted)
