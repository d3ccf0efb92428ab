"""A compiled query: which rows of a dataset meet a condition, how many they are, and how they were found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..errors import CorruptionError, QueryError
from ..format.schema import Schema
from ..order.selection import FoundRows, Selection
from ..sizes import many
from ..snapshot.part_set import PartSet
from . import zones
from .bind import BoundCondition, bind
from .check import check
from .columns import Array, FlatColumns, PartFields, RowsAt, Vector, part_fields
from .parse import parse, with_moment
from .scan import effort_of, in_threads, scan_count, scan_into, scan_rows, threads_for, threads_to_scan
from .tree import Condition, fields_in
from .zones import ALL, NONE

__all__ = [
    "live_rows",
    "live_rows_that_meet",
]


# Finds rows by the sorted rows of a column: a binary search, and the hits are read off.


class SortedValues:
    """The values of a column in the order of its sorted rows, read one by one; what is null, or NaN, is last.

    ``read`` gives the value of a row; ``keeps``: about so many of the values with which searches begin are kept.
    """

    def __init__(
        self, rows: Vector, read: Callable[[int], Any], validity: Vector | None = None, keeps: int = 0
    ) -> None:
        self.rows = rows
        self._read = read
        self._validity = validity
        self._kept: dict[int, Any] = {}
        self._least = len(rows) / keeps if keeps else math.inf  # places that are left where a value is kept

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, place: int) -> int:
        """The row there."""
        row = int(self.rows.one(place))
        if not 0 <= row < len(self.rows):
            raise CorruptionError("the sorted rows of a column name a row that does not exist")
        return row

    def value(self, place: int) -> Any:
        """The value there; None for null."""
        row, validity = self.row(place), self._validity
        there = validity is None or validity.one(row // 8) >> (row % 8) & 1
        return self._read(row) if there else None

    def first(self, value: Any, beyond: bool = False, start: int = 0) -> tuple[int, Any]:
        """The first place at which there is no smaller value, or with ``beyond`` a greater one, from ``start`` on.

        And the value there; None where there is no such place.
        """
        low, high, kept, least = start, len(self.rows), self._kept, self._least
        last = None
        while low < high:
            middle = (low + high) >> 1
            if middle in kept:
                there = kept[middle]
            else:
                there = self.value(middle)
                if high - low >= least:
                    kept[middle] = there
            if there is not None and (there <= value if beyond else there < value):
                low = middle + 1
            else:
                high, last = middle, there
        return low, last

    def rows_of(self, value: Any) -> list[int]:
        """The rows that have a value, ascending."""
        found: list[int] = []
        place, there = self.first(value)
        while there == value:
            found.append(self.row(place))
            place += 1
            there = self.value(place) if place < len(self.rows) else None
        return found

    def slice(self, low: Any, high: Any) -> tuple[int, int]:
        """The places at which ``low <= value <= high``."""
        start, _ = self.first(low)
        return start, self.first(high, beyond=True, start=start)[0]


@dataclass(frozen=True)
class Hits:
    """Slices of the sorted rows that hold the rows of a condition, and how many rows that is."""

    bound: BoundCondition
    sorted_rows: Vector
    slices: tuple[tuple[int, int], ...]
    count: int

    def rows(self, total: int) -> npt.NDArray[np.int64]:
        """The rows, ascending; ``total`` is the number of rows in the part."""
        pieces: list[Array] = [self.sorted_rows.span(start, stop) for start, stop in self.slices]
        rows = np.concatenate(pieces).astype(np.int64) if pieces else np.empty(0, np.int64)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < total:
            raise CorruptionError("the sorted rows of a column name a row that does not exist")
        if len(pieces) > 1 or self.is_range:
            rows.sort()
        return rows

    @property
    def is_range(self) -> bool:
        """Whether several values are in one slice, so that the rows in it do not ascend."""
        return any(low != high for low, high in self.bound.search)


def find(bound: BoundCondition, fields: PartFields, most_ranges: int) -> Hits | None:
    """Where the rows of a condition stand in the sorted rows of its column; None when these cannot tell."""
    if not bound.search or len(bound.search) > most_ranges:
        return None
    columns = fields.columns
    rows = columns.sorted_rows(bound.column)
    if rows is None or len(rows) != fields.rows:
        return None
    read = (
        columns.strings(bound.column).__getitem__ if bound.how == "strings" else _numbers(bound, columns).one
    )
    values = SortedValues(rows, read, columns.validity(bound.column))
    slices = [values.slice(low, high) for low, high in bound.search]
    slices = [(start, stop) for start, stop in slices if start < stop]
    return Hits(bound, rows, tuple(slices), sum(stop - start for start, stop in slices))


def _numbers(bound: BoundCondition, columns: FlatColumns) -> Vector:
    dictionary = columns.dictionary(bound.column) if bound.how == "dictionary" else None
    return columns.values(bound.column) if dictionary is None else dictionary.codes


# What a query used to find its rows, and what it skipped.


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
    "words": "decimals of more than 18 digits, read from the data file and compared",
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
            return f"lookup: {self.lookup} gives {many(self.hits, 'row')}{rest}"
        tried = self.zones - self.skipped - self.accepted
        if tried == 0:
            return f"zones alone: {self.skipped:,} of {self.zones:,} skipped, {self.accepted:,} taken whole"
        rest = f"{self.skipped:,} skipped, {self.accepted:,} taken whole"
        return f"scan of {tried:,} of {many(self.zones, 'zone')}; {rest}"


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
            lines.append(
                f"{part.name}: {part.found:,} of {many(part.rows, 'row')} in {part.seconds * 1e3:.2f} ms"
            )
            lines.append(f"  {part.way}")
            for condition in part.conditions:
                zones = f"zones skipped {condition.skipped:,}, taken whole {condition.accepted:,}"
                lines.append(f"  {condition.text}: {HOW[condition.how]}; {zones}")
        if len(self.parts) > SHOWN_PARTS:
            lines.append(f"… and {many(len(self.parts) - SHOWN_PARTS, 'part')} more")
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


FEW = 2 * zones.ZONE  # rows that are sooner tried than looked up
MOST_RANGES = 64  # values of a list that are looked up one by one
Rows = npt.NDArray[np.int64]
Result = TypeVar("Result")


def compile_query(text: str, schema: Schema) -> Query:
    """The query that ``text`` describes (docs/query.md), checked against ``schema``; raises `QueryError`.

    Its text says the moment that it is now in place of ``now()``.
    """
    if not isinstance(text, str):
        raise QueryError(f"a query is a string such as 'label == 3', got {type(text).__name__}")
    try:
        text = with_moment(text)
        return Query(text, check(parse(text), text, schema))
    except RecursionError:
        raise QueryError("the query is nested too deep for the stack that is left") from None


class Query:
    """A checked condition. ``str()`` of it is its canonical text, whichever spelling was used.

    Methods take the parts of a dataset in order: a `PartSet`, or a sequence of `FlatColumns`.
    """

    def __init__(self, text: str, condition: Condition) -> None:
        self.text = text
        self.condition = condition

    def __str__(self) -> str:
        return str(self.condition)

    def __repr__(self) -> str:
        return f"Query({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.condition == other.condition

    def __hash__(self) -> int:
        return hash(self.condition)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns it reads, in the order of the schema."""
        fields = sorted(fields_in(self.condition), key=lambda field: field.ordinal)
        return tuple(field.name for field in fields if field.ordinal >= 0)

    def rows(self, parts: PartSet | Sequence[FlatColumns]) -> Rows:
        """Numbers of the rows that meet the condition, ascending, int64."""
        found = self._in_parts(parts, lambda search, threads: search.rows(threads))
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])

    def find(self, parts: PartSet | Sequence[FlatColumns], take: Callable[[Rows], None]) -> None:
        """Hands the rows that meet the condition to ``take``, piece by piece: each ascending, in no order.

        They come from several threads; a piece is good until ``take`` returns. So memory is bounded, however many there
        are.
        """
        self._in_parts(parts, lambda search, threads: search.find(threads, take))

    def count(self, parts: PartSet | Sequence[FlatColumns]) -> int:
        """How many rows meet the condition; they are not written down."""
        return sum(self._in_parts(parts, lambda search, threads: search.count(threads)))

    def _in_parts(
        self, parts: PartSet | Sequence[FlatColumns], ask: Callable[[_Search, int], Result]
    ) -> list[Result]:
        """What is asked of each part: many parts side by side, few one after the other with all threads in each."""
        every = list(part_fields(parts))
        total = sum(fields.rows for fields in every)
        threads = threads_for(total)
        aside = len(every) > 1 and max(fields.rows for fields in every) * threads <= 2 * total

        def work(fields: PartFields, _: None) -> Result:
            search = _Search(self.condition, fields)
            return ask(search, 1 if aside else threads_to_scan(search.bound))

        return in_threads(work, lambda: None, every, threads if aside else 1)

    def explain(self, parts: PartSet | Sequence[FlatColumns]) -> Explanation:
        """Counts the rows, and says what was used for it in each part and what was skipped."""
        found = []
        for fields in part_fields(parts):
            start = time.perf_counter()
            search = _Search(self.condition, fields)
            rows = search.count(threads_to_scan(search.bound))
            found.append(search.explain(rows, time.perf_counter() - start))
        return Explanation(self.text, str(self), tuple(found))


class _Search:
    """A condition on one part, and the way chosen to find its rows: the zones alone, a lookup, or a scan."""

    def __init__(self, condition: Condition, fields: PartFields) -> None:
        fields.columns.confirm_rows()
        self.fields = fields
        self.bound = bind(condition, fields)
        self.hits = self._look_up() if fields.rows else None

    def _look_up(self) -> Hits | None:
        """The hits of the condition, or of one that all rows must meet, if a lookup gives few enough of them."""
        effort = effort_of(self.bound)
        if effort <= FEW:
            return None
        candidates = self.bound.terms if self.bound.how == "and" else (self.bound,)
        found = [hits for term in candidates if (hits := find(term, self.fields, MOST_RANGES)) is not None]
        best = min(found, key=lambda hits: hits.count, default=None)
        if best is None:
            return None
        sorting = len(best.slices) > 1 or best.is_range
        return best if best.count * (16 if sorting or best.bound is not self.bound else 2) <= effort else None

    def _rows_of_hits(self, hits: Hits) -> Rows:
        """The hits that meet the other conditions too, numbered within the part."""
        rows = hits.rows(self.fields.rows)
        for term in self.bound.terms if hits.bound is not self.bound else ():
            if term is not hits.bound and len(rows):
                rows = rows[term.test(RowsAt(0, self.fields.rows, rows))]
        return rows

    def rows(self, threads: int) -> Rows:
        if self.hits is not None:
            return self._rows_of_hits(self.hits) + self.fields.base
        return scan_rows(self.bound, self.fields.rows, self.fields.base, threads)

    def find(self, threads: int, take: Callable[[Rows], None]) -> None:
        if self.hits is not None:
            take(self._rows_of_hits(self.hits) + self.fields.base)
        else:
            scan_into(self.bound, self.fields.rows, self.fields.base, threads, take)

    def count(self, threads: int) -> int:
        if self.hits is not None and self.hits.bound is self.bound:
            return self.hits.count
        if self.hits is not None:
            return len(self._rows_of_hits(self.hits))
        return scan_count(self.bound, self.fields.rows, threads)

    def explain(self, rows: int, seconds: float) -> PartExplanation:
        states = self.bound.states
        return PartExplanation(
            name=self.fields.name,
            rows=self.fields.rows,
            found=rows,
            seconds=seconds,
            zones=len(states),
            skipped=int(np.count_nonzero(states == zones.NONE)),
            accepted=int(np.count_nonzero(states == zones.ALL)),
            lookup=None if self.hits is None else str(self.hits.bound.condition),
            hits=0 if self.hits is None else self.hits.count,
            conditions=tuple(leaf_reports(self.bound)),
        )


# The rows of a set of parts that are there, of all or of those that meet a condition: deleted ones are not.


def live_rows(parts: PartSet) -> Selection:
    """All rows that have not been deleted."""
    return Selection(parts.rows) if parts.live is None else Selection(parts.rows, bitmap=parts.live)


def live_rows_that_meet(parts: PartSet, query: Query) -> NDArray[np.int64]:
    """The numbers of those that meet a condition, ascending."""
    if parts.live is None:
        return query.rows(parts)
    meeting = FoundRows(parts.rows)
    query.find(parts, meeting.add)
    return live_rows(parts).where_rows(meeting.all()).every()
