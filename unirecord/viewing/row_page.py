"""One row in full."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..errors import QueryError, SchemaError
from ..format.column import Column
from ..format.values.objects import object_text
from ..inspection.cells_of_row import cells_of_row
from ..inspection.example_cells import described, example, small_picture
from ..inspection.markup import Markup, element, join
from ..sizes import format_size
from .asked import Asked, AskedWrongly, link
from .frame import HERE, framed, picture
from .looking import Looking

__all__ = ["picture_of", "row_page"]

_MOST_TEXT: Final = 100_000
_MOST_BYTES: Final = 256  # of other bytes, in hexadecimal
_MOST_ELEMENTS: Final = 1_000  # of an array, as numbers
_FEW: Final = 8  # of a list, which stand in a line
_UNFOLDED: Final = 64
_SIDES: Final = (128, 1024)
_CHOSEN: Final = ("where", "sort", "down")  # what says which rows, and in which order, a row was opened from


def row_page(looking: Looking, asked: Asked) -> tuple[int, bytes]:
    """A row: each column, its type and its value."""
    row = _row(looking, asked)
    part, place = looking.parts.locate(row)
    cells = cells_of_row(looking.parts, looking.schema.names, row)
    listed = [
        element(
            "tr",
            element("th", column.name, scope="row"),
            element("td", str(column), class_="soft"),
            element("td", _in_full(row, ordinal, column, cells[column.name]), class_="any large"),
        )
        for ordinal, column in enumerate(looking.schema)
    ]
    head = element("tr", *(element("th", name, scope="col") for name in ("column", "type", "value")))
    table = element("table", element("thead", head), element("tbody", *listed))
    return 200, framed(
        looking,
        "row",
        asked,
        element("h2", f"Row {row:,}", id=HERE),
        element("p", f"row {place:,} of {part}", class_="soft"),
        _neighbours(looking, asked, row),
        element("div", table, class_="scroll", tabindex="0", role="region", aria_label="values"),
    )


def picture_of(looking: Looking, asked: Asked) -> bytes | None:
    """A picture of a row as a JPEG that is at most so wide and high; None where there is none."""
    row = _row(looking, asked)
    column = looking.schema[asked.number("column", most=len(looking.schema) - 1)]
    side = int(asked.one_of("side", [str(side) for side in _SIDES]))
    value = cells_of_row(looking.parts, [column.name], row)[column.name]
    small = small_picture(value, side) if isinstance(value, bytes) else None
    return None if small is None else small[0]


def _row(looking: Looking, asked: Asked) -> int:
    row = asked.number("row")
    if not looking.is_there(row):
        raise AskedWrongly(f"there is no row {row:,}: rows are numbered from 0 to {looking.parts.rows - 1:,}")
    return row


def _neighbours(looking: Looking, asked: Asked, row: int) -> Markup:
    """Links to the rows before and after it, of those and in the order that it was opened from; to when it comes."""
    links = [
        element("span", name, class_="soft")
        if place is None
        else element("a", name, href=asked.link("row", row=place[0], at=place[1]) + f"#{HERE}", rel=kind)
        for name, kind, place in zip(
            ("Previous", "Next"), ("prev", "next"), _beside(looking, asked, row), strict=True
        )
    ]
    when = element("a", "When it comes in an epoch", href=link("epoch", row=row))
    back = []
    if any(asked.text(name) for name in _CHOSEN):
        chosen = {name: asked.text(name) for name in _CHOSEN}
        back = [element("a", "The rows that it is among", href=link("rows", **chosen) + f"#{HERE}")]
    return element("nav", *links, when, *back, class_="pager", aria_label="other rows")


def _beside(looking: Looking, asked: Asked, row: int) -> list[tuple[int, int | None] | None]:
    """The rows before and after it, each with its place among the chosen ones; None where there is none.

    Without a place that fits (a row that was typed in), its neighbours are by number.
    """
    where, sort, down = asked.text("where"), asked.text("sort"), asked.text("down") == "1"
    if asked.text("at") and (where or sort):
        at = asked.number("at")
        try:
            found = [looking.place(where, sort, down, place) for place in (at - 1, at, at + 1)]
        except (QueryError, SchemaError) as error:
            raise AskedWrongly(str(error)) from None
        if found[1] == row:
            return [
                None if other is None else (other, place)
                for other, place in zip((found[0], found[2]), (at - 1, at + 1), strict=True)
            ]
    return [(other, None) if looking.is_there(other) else None for other in (row - 1, row + 1)]


def _in_full(row: int, ordinal: int, column: Column, value: Any) -> Markup:
    """A value as whole as a page may hold it."""
    if isinstance(value, str):
        return element("pre", _cut(value))
    if isinstance(value, bytes):
        return _bytes(row, ordinal, column, value)
    if isinstance(value, dict | list):
        return element("pre", _cut(object_text(value, lambda blob: format_size(len(blob)))))
    if isinstance(value, np.ndarray) and value.size and (value.ndim > 1 or value.size > _FEW):
        return join(example(value), _numbers(value))
    return example(value)


def _numbers(value: np.ndarray[Any, Any]) -> Markup:
    """The elements of an array, unfolded where they are few."""
    whole = value.size <= _MOST_ELEMENTS
    listed = np.array2string(value if whole else value.reshape(-1)[:_MOST_ELEMENTS], threshold=_MOST_ELEMENTS)
    says = element("summary", "its values" if whole else f"its first {_MOST_ELEMENTS:,} values")
    return element("details", says, element("pre", listed), open="" if value.size <= _UNFOLDED else None)


def _bytes(row: int, ordinal: int, column: Column, value: bytes) -> Markup:
    if small_picture(value, _SIDES[0]) is not None:
        says = element("div", described(value), class_="soft")
        return join(picture(row, ordinal, column, _SIDES[1]), says)
    more = "" if len(value) <= _MOST_BYTES else " …"
    return join(
        element("div", described(value), class_="soft"), element("pre", value[:_MOST_BYTES].hex(" ") + more)
    )


def _cut(text: str) -> str:
    more = f"… ({len(text):,} characters)"
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + more
