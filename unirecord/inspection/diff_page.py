"""What is not the same in two datasets as one page to look at: counts, columns side by side, rows before and after."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from ..parts.part_set import PartSet, resolve
from .describe import Description, describe
from .diff import Diff, DiffExample
from .example_cells import cells_of_row, example
from .html_report import card, spelled
from .markup import Markup, element, join, page
from .statistics import column_statistics

__all__ = ["diff_page"]

_KINDS: Final = {
    "changed": "Rows that changed",
    "added": "Rows that were added",
    "gone": "Rows that are gone",
    "moved": "Rows that moved",
}
_COLUMNS: Final = 200  # that are listed
_CARDS: Final = 50  # columns whose values are drawn
_CELLS: Final = 20  # columns of a row that are shown


def diff_page(first: str, second: str, found: Diff) -> bytes:
    """The page of what `diff` has found in two datasets, in UTF-8: it needs no other file and has no script."""
    one, other = describe(first), describe(second)
    with (
        closing(PartSet(resolve(first), io="auto", knows_deletions=True)) as a,
        closing(PartSet(resolve(second), io="auto", knows_deletions=True)) as b,
    ):
        rows = [
            _section(title, _rows(kind, found, a, b))
            for kind, title in _KINDS.items()
            if any(example.kind == kind for example in found.examples)
        ]
        values = _values(found, a, b, one, other)
    verdict = "They are equal." if found.equal else "They differ."
    return page(
        f"{first} and {second}: UniRecord",
        element(
            "header",
            element("h1", "Difference"),
            element("p", f"{first} (A) and {second} (B)", class_="soft"),
        ),
        element(
            "main",
            _section("Result", element("p", element("strong", verdict)), _counts(found)),
            _section("Columns", _columns(found, one, other), values),
            *rows,
        ),
    )


def _section(title: str, *content: object) -> Markup:
    return element("section", element("h2", title), *content)


def _scrolled(says: str, head: Sequence[str], rows: Sequence[Markup]) -> Markup:
    first = element("tr", *(element("th", name, scope="col") for name in head))
    table = element("table", element("thead", first), element("tbody", *rows))
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=says)


def _counts(found: Diff) -> Markup:
    facts: list[tuple[str, object]] = [
        ("rows of A", f"{found.rows[0]:,}"),
        ("rows of B", f"{found.rows[1]:,}"),
        ("added", f"{found.added:,}"),
        ("gone", f"{found.gone:,}"),
        ("changed", f"{found.changed:,}"),
        *([("moved", f"{found.moved:,}")] if found.key else []),
        ("rows belong together by", ", ".join(found.key) or "their numbers"),
        ("read and compared", f"{found.read:,}"),
        ("metadata", "other" if found.metadata_differs else "the same"),
        ("parts of A alone", f"{len(found.parts_gone):,}"),
        ("parts of B alone", f"{len(found.parts_added):,}"),
    ]
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value, class_="any"))
        for name, value in facts
    ]
    return element(
        "div", element("table", *rows), class_="scroll", tabindex="0", role="region", aria_label="counts"
    )


def _columns(found: Diff, one: Description, other: Description) -> Markup:
    """The columns of both, and in how many rows each differs."""
    mine = {column.name: column for column in one.columns}
    theirs = {column.name: column for column in other.columns}
    names = list(dict.fromkeys([*mine, *theirs]))
    retyped = {column.name: column for column in found.columns_retyped}
    rows = []
    for name in names[:_COLUMNS]:
        if name not in mine or name not in theirs:
            changed: object = element("span", "B alone" if name in theirs else "A alone", class_="warn")
        elif name in retyped and not retyped[name].compared:
            changed = element("span", "another type; not compared", class_="warn")
        else:
            changed = f"{found.changed_columns.get(name, 0):,}"
        types = [spelled(side[name]) if name in side else "" for side in (mine, theirs)]
        note = "other annotations" if name in retyped and types[0] == types[1] else ""
        cells = [*types, changed, note]
        rows.append(element("tr", element("th", name, scope="row"), *(element("td", cell) for cell in cells)))
    left = len(names) - len(rows)
    more = element("p", f"and {left:,} more columns", class_="soft") if left > 0 else ""
    return join(_scrolled("columns", ("column", "in A", "in B", "rows that changed", ""), rows), more)


def _values(found: Diff, a: PartSet, b: PartSet, one: Description, other: Description) -> Markup:
    """Cards of the columns whose values may differ, A and B beside each other."""
    rows_differ = found.added or found.gone
    compared = [
        (mine, theirs)
        for mine in one.columns
        for theirs in other.columns
        if mine.name == theirs.name
        and (rows_differ or mine.name in found.changed_columns or mine.type != theirs.type)
    ]
    pairs = [
        [
            card(column_statistics(parts, column.name), column, f"{column.name} in {side}")
            for parts, column, side in zip((a, b), pair, ("A", "B"), strict=True)
        ]
        for pair in compared[:_CARDS]
    ]
    return join(*(element("div", *pair, class_="cards") for pair in pairs))


def _rows(kind: str, found: Diff, a: PartSet, b: PartSet) -> Markup:
    """Examples: of rows that changed the columns that did, before and after; of others their values."""
    shown = [one for one in found.examples if one.kind == kind]
    rows = [line for one in shown for line in _lines(one, found, a, b)]
    many = getattr(found, kind)
    says = f"{many:,} in all; the first {len(shown):,}" if many > len(shown) else f"{many:,} in all"
    head = ["row of A", "row of B", *found.key, "column", "in A", "in B"]
    return join(element("p", says, class_="soft"), _scrolled(_KINDS[kind], head, rows))


def _lines(one: DiffExample, found: Diff, a: PartSet, b: PartSet) -> list[Markup]:
    if one.kind == "changed":
        names: Sequence[str] = one.columns[:_CELLS]
    else:
        names = (b if one.row is None else a).schema.names[:_CELLS] if one.kind != "moved" else ()
    before = {} if one.row is None else cells_of_row(a, names, one.row)
    after = {} if one.other_row is None else cells_of_row(b, names, one.other_row)
    numbers = ["" if row is None else f"{row:,}" for row in (one.row, one.other_row)]
    places = [*numbers, *(str(value) for value in one.key)]
    return [
        element(
            "tr",
            *(element("td", text if at == 0 else "", class_="number") for text in places),
            element("th", name, scope="row"),
            *(element("td", _cell(side, name), class_="wide") for side in (before, after)),
        )
        for at, name in enumerate(names or ("",))
    ]


def _cell(side: dict[str, Any], name: str) -> Markup:
    return example(side[name]) if name in side else join()
