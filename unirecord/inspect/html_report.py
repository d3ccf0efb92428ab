"""A dataset as one page to look at: what it is, what its columns are like, and examples of its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ..format.column import SCALAR_TYPES, shown_type
from ..order.selection import Selection
from ..query.query import live_rows
from ..sizes import format_size
from ..snapshot.part_set import PartSet, resolve
from .cells import cells_of_row, example, is_picture, thumbnail
from .describe import ColumnDescription, Description, describe
from .markup import Markup, element, histogram, join, meter, page, shown, write_page
from .statistics import BINS, ColumnStatistics, column_statistics

__all__ = [
    "card",
    "cards",
    "html_report",
    "spelled",
    "table_of_columns",
    "write_html_report",
]


# Columns as a table, and a card for each with its distribution, for a page to look at.


_LISTED: Final = 1_000  # columns
_MOST_COMMON: Final = 5
_MOST_TEXT: Final = 60


def table_of_columns(found: Description) -> Markup:
    """What each column is, and what it takes."""
    head = ("column", "type", "different", "nulls", "least", "greatest", "data", "index", "share of all")
    total = max(1, found.data_bytes + found.index_bytes)
    rows = []
    for column in found.columns[:_LISTED]:
        takes = column.data_bytes + column.index_bytes
        about = "" if column.exact else "about "
        rows.append(
            element(
                "tr",
                element("th", column.name, scope="row"),
                element("td", _type(column)),
                element("td", "" if column.distinct is None else f"{column.distinct:,}", class_="number"),
                element("td", f"{column.nulls:,}" if column.nullable else "", class_="number"),
                *(element("td", _short(value), class_="wide") for value in (column.min, column.max)),
                element("td", about + format_size(column.data_bytes), class_="number"),
                element("td", format_size(column.index_bytes), class_="number"),
                element("td", meter(takes / total), f"{takes / total:.1%}"),
            )
        )
    header = element("thead", element("tr", *(element("th", name, scope="col") for name in head)))
    body = element("table", header, element("tbody", *rows))
    left = len(found.columns) - len(rows)
    return join(
        element("div", body, class_="scroll", tabindex="0", role="region", aria_label="columns"),
        element("p", f"and {left:,} more columns", class_="soft") if left else "",
    )


def spelled(column: ColumnDescription) -> str:
    """The type of a column with its shape."""
    shape = f"[{', '.join(map(str, column.shape))}]" if column.shape else ""
    return f"{shown_type(column.type.rstrip('?'))}{shape}{'?' if column.nullable else ''}"


def _type(column: ColumnDescription) -> str:
    extra = [word for word in ("indexed" if column.indexed else "", column.codec or "") if word]
    kind = spelled(column)
    return f"{kind} ({', '.join(extra)})" if extra else kind


def _short(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def cards(found: Description, statistics: Sequence[ColumnStatistics]) -> Markup:
    """What the values of each column are like."""
    made = [card(one, column, one.name) for one, column in zip(statistics, found.columns, strict=False)]
    left = len(found.columns) - len(made)
    more = [element("p", f"{left:,} more columns are not looked at here.", class_="soft")] if left else []
    return join(element("div", *made, class_="cards"), *more)


def card(found: ColumnStatistics, column: ColumnDescription, title: str) -> Markup:
    """What the values of a column are like, under a title."""
    kind = column.type.rstrip("?")
    sized = column.shape is not None or kind not in SCALAR_TYPES
    what = "sizes of its cells" if sized else "lengths in characters" if kind == "string" else "values"
    show = (lambda value: format_size(int(value))) if sized else _short
    body: list[object] = [element("h3", title), element("p", _type(column), class_="soft")]
    if len(found.counts) > 1:
        ranges = found.ranges()
        labels = [show(low) if low == high else f"{show(low)} to {show(high)}" for low, high in ranges]
        about = "" if found.exact else "; from evenly spaced rows"
        says = f"{what} from {show(ranges[0][0])} to {show(ranges[-1][1])}{about}"
        body += [histogram(found.counts, labels, f"{title}: {says}"), element("p", says, class_="soft")]
    if found.quantiles and kind not in ("string", "bool"):
        median = show(found.quantiles["0.5"])
        tails = f"5 %: {show(found.quantiles['0.05'])}, 95 %: {show(found.quantiles['0.95'])}"
        mean = "" if found.mean is None else f", mean {show(found.mean)}"
        body.append(element("p", f"median {median}{mean}, {tails}", class_="soft"))
    if found.common:
        body.append(_common(found))
    missing = [f"{found.nulls:,} null"] * bool(found.nulls) + [f"{found.nans:,} NaN"] * bool(found.nans)
    if missing:
        body.append(element("p", f"missing: {', '.join(missing)} of {found.rows:,}", class_="warn"))
    return element("article", *body, class_="card")


def _common(found: ColumnStatistics) -> Markup:
    """The most frequent values, and how much of all they are."""
    rows = [
        element(
            "tr",
            element("td", _short(value), class_="wide"),
            element("td", f"{count:,}", class_="number"),
            element("td", meter(count / max(1, found.rows)), style="width:40%"),
        )
        for value, count in found.common[:_MOST_COMMON]
    ]
    many = f"{found.distinct:,} different values" if found.distinct is not None else "many different values"
    about = "" if found.exact else ", estimated from evenly spaced rows"
    return element(
        "table", element("caption", f"{many}; the most frequent{about}"), *rows, style="width:100%"
    )


_EXAMPLES: Final = 12  # rows that are shown whole
_PICTURES: Final = 48  # of a column of pictures …
_SHEETS: Final = 144  # … and of all of them
_SHEET_BYTES: Final = 900_000  # of the page, in which pictures are drawn on contact sheets …
_EXAMPLE_BYTES: Final = 900_000  # … and rows are shown whole, after the first
_PARTS: Final = 50  # that are listed
_COLUMNS: Final = 200  # that are looked at
_TEXTS: Final = 2_000_000  # strings without a dictionary that are looked at, of all columns


def write_html_report(path: Any, target: str) -> int:
    """Writes the page to the file ``target``, whole or not at all; returns its bytes.

    ExistsError where something is that is no such page; an earlier one is replaced.
    """
    return write_page(html_report(path), target)


def html_report(path: Any, *above: Markup) -> bytes:
    """The page, in UTF-8, with ``above`` at its top: it needs no other file and no network, and has no script.

    All but the examples comes from the indexes. Pictures are shown where Pillow is installed.
    """
    found = describe(path)
    parts = PartSet(resolve(path), io="auto", knows_deletions=True)
    try:
        looked_at = found.columns[:_COLUMNS]
        texts = _TEXTS // max(1, len(looked_at))
        statistics = [column_statistics(parts, column.name, None, texts) for column in looked_at]
        rows = _spaced(live_rows(parts), _EXAMPLES)
        names = [column.name for column in found.columns[:_COLUMNS]]
        samples = [cells_of_row(parts, names, row) for row in rows]
        sheets = _sheets(
            parts, [name for name in names if any(is_picture(sample[name]) for sample in samples)]
        )
    finally:
        parts.close()
    title = os.path.basename(found.path.rstrip("/")) or found.path
    sections = [
        _section("Summary", _summary(found)),
        *([_section("Pictures", *sheets)] if sheets else []),
        _section("Columns", table_of_columns(found), cards(found, statistics)),
        _section("Examples", _examples(found, rows, samples)),
        _section("Parts", _parts(found)),
    ]
    names = ["Summary", *(["Pictures"] if sheets else []), "Columns", "Examples", "Parts"]
    return page(
        f"{title}: UniRecord",
        *above,
        element("header", element("h1", title), element("p", found.path, class_="soft")),
        element(
            "nav", *(element("a", name, href=f"#{name.lower()}") for name in names), aria_label="sections"
        ),
        element("main", *sections),
    )


def _section(name: str, *content: object) -> Markup:
    return element("section", element("h2", name), *content, id=name.lower())


def _spaced(rows: Selection, most: int) -> list[int]:
    """Evenly spaced ones of these rows, the first one among them."""
    wanted = min(len(rows), most)
    return [rows[place * len(rows) // wanted] for place in range(wanted)]


def _sheets(parts: PartSet, names: Sequence[str]) -> list[Markup]:
    """A contact sheet of each column of pictures, the smaller the more there are."""
    sheets: list[Markup] = []
    most = max(1, min(_PICTURES, _SHEETS // max(1, len(names))))
    for place, name in enumerate(names):
        if sum(map(len, sheets)) >= _SHEET_BYTES:
            left = f"Pictures of {len(names) - place:,} more columns are not drawn here."
            return [*sheets, element("p", left, class_="soft")]
        sheets.append(_sheet(parts, name, most))
    return sheets


def _sheet(parts: PartSet, name: str, most: int) -> Markup:
    """A contact sheet of a column of pictures."""
    figures = []
    for row in _spaced(live_rows(parts), most):
        value = cells_of_row(parts, [name], row)[name]
        picture = thumbnail(value) if isinstance(value, bytes) else None
        figures.append(element("figure", picture or "(no picture)", element("figcaption", f"row {row:,}")))
    return join(element("h3", name), element("div", *figures, class_="sheet"))


def _summary(found: Description) -> Markup:
    size = found.data_bytes + found.index_bytes
    facts: list[tuple[str, object]] = [
        ("rows", f"{found.rows:,}"),
        *([("deleted", found.said_of_deleted)] if found.deleted else []),
        ("columns", f"{len(found.columns):,}"),
        ("parts", f"{len(found.parts):,}"),
        (
            "size",
            f"{format_size(size)}: data {format_size(found.data_bytes)}, indexes {format_size(found.index_bytes)}",
        ),
        ("a row", format_size(found.data_bytes // found.rows) if found.rows else "none"),
        ("looked up by value", ", ".join(found.index) or "no column"),
        ("identity", found.identity),
    ]
    if found.metadata is not None:
        facts.append(("metadata", _cut(shown(found.metadata))))
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value, class_="any"))
        for name, value in facts
    ]
    return join(element("div", element("table", *rows), class_="scroll"), _advice(found, size))


def _cut(text: str, most: int = 2_000) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _advice(found: Description, size: int) -> Markup:
    """What the figures mean for where the dataset lies."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    lines = [
        f"It takes {format_size(size)}; the machine that made this page has {format_size(memory)} of memory: "
        + (
            "after the first epoch it is read from memory."
            if size < memory * 0.7
            else "each epoch reads it from the disk; docs/storage.md says what that takes."
        )
    ]
    if len(found.parts) > 1 and found.rows:
        average = size // len(found.parts)
        lines.append(f"A part takes {format_size(average)} on average.")
    return element("ul", *(element("li", line) for line in lines))


def _examples(found: Description, rows: Sequence[int], samples: Sequence[dict[str, Any]]) -> Markup:
    if not rows:
        return element("p", "There are no rows.", class_="soft")
    names = [column.name for column in found.columns[:_COLUMNS]]
    head = element(
        "tr", element("th", "row", scope="col"), *(element("th", name, scope="col") for name in names)
    )
    body: list[Markup] = []
    size = 0
    for row, sample in zip(rows, samples, strict=True):
        if size >= _EXAMPLE_BYTES:
            break
        cells: list[Markup] = []
        for name in names:
            cells.append(element("td", example(sample[name], drawn=size < _EXAMPLE_BYTES), class_="wide"))
            size += len(cells[-1])
        body.append(element("tr", element("th", f"{row:,}", scope="row"), *cells))
    shown_rows = element("table", element("thead", head), element("tbody", *body))
    left = len(found.columns) - len(names)
    return join(
        element(
            "div", shown_rows, class_="scroll", tabindex="0", role="region", aria_label="examples of rows"
        ),
        element("p", f"{left:,} more columns are not shown here.", class_="soft") if left else "",
    )


def _parts(found: Description) -> Markup:
    sizes = [part.data_bytes + part.index_bytes for part in found.parts]
    content: list[object] = []
    if len(sizes) > 2:
        counts, edges = np.histogram(sizes, min(BINS, len(sizes)))
        labels = [f"{format_size(int(a))} to {format_size(int(b))}" for a, b in pairwise(edges)]
        says = f"sizes of parts, {format_size(min(sizes))} to {format_size(max(sizes))}"
        chart = element("div", histogram(counts.tolist(), labels, says), element("p", says, class_="soft"))
        content.append(element("div", element("div", chart, class_="card"), class_="cards"))
    head = element("tr", *(element("th", name, scope="col") for name in ("part", "rows", "data", "index")))
    rows = [
        element(
            "tr",
            element("th", part.name, scope="row"),
            *(
                element("td", text, class_="number")
                for text in (f"{part.rows:,}", format_size(part.data_bytes), format_size(part.index_bytes))
            ),
        )
        for part in found.parts[:_PARTS]
    ]
    listed = element("table", element("thead", head), element("tbody", *rows))
    content.append(element("div", listed, class_="scroll", tabindex="0", role="region", aria_label="parts"))
    if len(found.parts) > _PARTS:
        content.append(element("p", f"and {len(found.parts) - _PARTS:,} more", class_="soft"))
    return join(*content)
