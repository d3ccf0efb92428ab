"""Columns as a table, and a card for each with its distribution, for a page to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..sizes import format_size
from .charts import histogram, meter
from .describe import ColumnDescription, Description
from .markup import Markup, element, join
from .statistics import ColumnStatistics

__all__ = ["card", "cards", "table_of_columns", "spelled"]

_LISTED: Final = 1_000  # columns
_MOST_COMMON: Final = 5
_MOST_TEXT: Final = 60
_SIZED: Final = ("bytes", "text", "object")


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
    return f"{column.type.rstrip('?')}{shape}{'?' if column.nullable else ''}"


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
    sized = column.shape is not None or kind in _SIZED
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
