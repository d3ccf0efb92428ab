"""A compiled query: which rows of a dataset meet a condition, how many they are, and how they were found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from ..columns.flat import FlatColumns
from ..columns.part_columns import columns_of
from ..errors import QueryError
from ..format.schema import Schema
from . import zone_states
from .bind import bind
from .check import check
from .explain import Explanation, PartExplanation, leaf_reports
from .lookup import Hits, find
from .parallel import in_threads, threads_for
from .parse import parse
from .part_fields import PartFields, RowsAt
from .scan import effort_of, scan_count, scan_into, scan_rows, threads_to_scan
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
        every = list(_fields_of(columns_of(parts)))
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
        for fields in _fields_of(columns_of(parts)):
            start = time.perf_counter()
            search = _Search(self.condition, fields)
            rows = search.count(threads_to_scan(search.bound))
            found.append(search.explain(rows, time.perf_counter() - start))
        return Explanation(self.text, str(self), tuple(found))


def _fields_of(parts: Sequence[FlatColumns]) -> Iterator[PartFields]:
    base = 0
    for number in range(len(parts)):
        columns = parts[number]
        yield PartFields(columns, number, base)
        base += columns.rows


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
            skipped=int(np.count_nonzero(states == zone_states.NONE)),
            accepted=int(np.count_nonzero(states == zone_states.ALL)),
            lookup=None if self.hits is None else str(self.hits.bound.condition),
            hits=0 if self.hits is None else self.hits.count,
            conditions=tuple(leaf_reports(self.bound)),
        )
