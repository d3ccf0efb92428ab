"""A compiled query: which rows of a dataset meet a condition, how many they are, and how they were found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from ..columns.part_columns import columns_of
from ..columns.source import ColumnSource
from ..errors import QueryError
from ..format.schema import Schema
from . import zone_states
from .bind import bind
from .check import check
from .explain import Explanation, PartExplanation, leaf_reports
from .lookup import Hits, find
from .parallel import in_threads, threads_for
from .parse import parse
from .scan import effort_of, scan_count, scan_rows
from .selection import Chosen, Reader
from .tree import Condition, fields_in

if TYPE_CHECKING:
    from ..parts.part_set import PartSet

FEW = 2 * zone_states.ZONE  # rows that are sooner tried than looked up
MOST_RANGES = 64  # values of a list that are looked up one by one
Rows = npt.NDArray[np.int64]
Result = TypeVar("Result")


def compile_query(text: str, schema: Schema) -> Query:
    """The query that ``text`` describes (docs/query.md), checked against ``schema``; raises `QueryError`."""
    if not isinstance(text, str):
        raise QueryError(f"a query is a string such as 'label == 3', got {type(text).__name__}")
    try:
        return Query(text, check(parse(text), text, schema))
    except RecursionError:
        raise QueryError("the query is nested too deep for the stack that is left") from None


class Query:
    """A checked condition. ``str()`` of it is its canonical text, whichever spelling was used.

    Methods take the parts of a dataset in order: a `PartSet`, or a sequence of `ColumnSource`.
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
        fields = sorted(fields_in(self.condition), key=lambda field: field.position)
        return tuple(field.name for field in fields if field.position >= 0)

    def rows(self, parts: PartSet | Sequence[ColumnSource]) -> Rows:
        """Numbers of the rows that meet the condition, ascending, int64."""
        found = self._in_parts(parts, lambda part, threads: part.rows(threads))
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])

    def count(self, parts: PartSet | Sequence[ColumnSource]) -> int:
        """How many rows meet the condition; they are not written down."""
        return sum(self._in_parts(parts, lambda part, threads: part.count(threads)))

    def _in_parts(
        self, parts: PartSet | Sequence[ColumnSource], ask: Callable[[_Part, int], Result]
    ) -> list[Result]:
        """What is asked of each part: many parts side by side, few one after the other with all threads in each."""
        readers = list(_readers(columns_of(parts)))
        total = sum(source.rows for source, _ in readers)
        threads = threads_for(total)
        aside = len(readers) > 1 and max(source.rows for source, _ in readers) * threads <= 2 * total

        def work(place: tuple[ColumnSource, Reader], _: None) -> Result:
            part = _Part(self.condition, *place)
            return ask(part, 1 if aside else threads_for(effort_of(part.bound)))

        return in_threads(work, lambda: None, readers, threads if aside else 1)

    def explain(self, parts: PartSet | Sequence[ColumnSource]) -> Explanation:
        """Counts the rows, and says what was used for it in each part and what was skipped."""
        found = []
        for source, reader in _readers(columns_of(parts)):
            start = time.perf_counter()
            part = _Part(self.condition, source, reader)
            rows = part.count(threads_for(effort_of(part.bound)))
            found.append(part.explain(rows, time.perf_counter() - start))
        return Explanation(self.text, str(self), tuple(found))


def _readers(sources: Sequence[ColumnSource]) -> Iterator[tuple[ColumnSource, Reader]]:
    base = 0
    for number in range(len(sources)):
        source = sources[number]
        yield source, Reader(source, number, base)
        base += source.rows


class _Part:
    """A condition on one part, and the way chosen to find its rows: the zones alone, an order, or a scan."""

    def __init__(self, condition: Condition, source: ColumnSource, reader: Reader) -> None:
        self.source, self.reader = source, reader
        self.bound = bind(condition, reader)
        self.hits = self._look_up() if source.rows else None

    def _look_up(self) -> Hits | None:
        """The hits of the condition, or of one that all rows must meet, if an order gives few enough of them."""
        effort = effort_of(self.bound)
        if effort <= FEW:
            return None
        candidates = self.bound.parts if self.bound.how == "and" else (self.bound,)
        found = [hits for part in candidates if (hits := find(part, self.reader, MOST_RANGES)) is not None]
        best = min(found, key=lambda hits: hits.count, default=None)
        if best is None:
            return None
        sorting = len(best.slices) > 1 or best.is_range
        return best if best.count * (16 if sorting or best.bound is not self.bound else 2) <= effort else None

    def _rows_of_hits(self, hits: Hits) -> Rows:
        """The hits that meet the other conditions too, numbered within the part."""
        rows = hits.rows(self.source.rows)
        for part in self.bound.parts if hits.bound is not self.bound else ():
            if part is not hits.bound and len(rows):
                rows = rows[part.test(Chosen(0, self.source.rows, rows))]
        return rows

    def rows(self, threads: int) -> Rows:
        if self.hits is not None:
            return self._rows_of_hits(self.hits) + self.reader.base
        return scan_rows(self.bound, self.source.rows, self.reader.base, threads)

    def count(self, threads: int) -> int:
        if self.hits is not None and self.hits.bound is self.bound:
            return self.hits.count
        if self.hits is not None:
            return len(self._rows_of_hits(self.hits))
        return scan_count(self.bound, self.source.rows, threads)

    def explain(self, rows: int, seconds: float) -> PartExplanation:
        states = self.bound.states
        return PartExplanation(
            name=self.source.name,
            rows=self.source.rows,
            found=rows,
            seconds=seconds,
            zones=len(states),
            skipped=int(np.count_nonzero(states == zone_states.NONE)),
            accepted=int(np.count_nonzero(states == zone_states.ALL)),
            order=None if self.hits is None else str(self.hits.bound.condition),
            hits=0 if self.hits is None else self.hits.count,
            conditions=tuple(leaf_reports(self.bound)),
        )
