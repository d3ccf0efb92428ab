"""Rows in pages: those that meet a condition, in the order of a column, as a table or as pictures."""

from __future__ import annotations

from typing import Final

from ..errors import QueryError, SchemaError
from ..inspection.markup import Markup, element, join
from .asked import Asked, AskedWrongly, link
from .frame import HERE, failed, field, form, framed, picture, row_table, select
from .looking import ChosenRows, Looking

__all__ = ["pictures_page", "rows_page"]

_ON_A_PAGE: Final = 50
_PICTURES: Final = 120
_SIDE: Final = 128


def rows_page(looking: Looking, asked: Asked) -> tuple[int, bytes]:
    """A page of rows as a table, and its status."""
    return _page(looking, asked, "rows", _ON_A_PAGE)


def pictures_page(looking: Looking, asked: Asked) -> tuple[int, bytes]:
    """A page of rows as a contact sheet."""
    return _page(looking, asked, "pictures", _PICTURES)


def _page(looking: Looking, asked: Asked, here: str, count: int) -> tuple[int, bytes]:
    where, sort, down = asked.text("where"), asked.text("sort"), asked.text("down") == "1"
    fields = _fields(looking, asked, here, sort, down)
    try:
        chosen = looking.chosen(where, sort, down, asked.number("from") // count * count, count)
    except (AskedWrongly, QueryError, SchemaError) as error:
        return 400, failed(looking, here, asked, str(error), fields)
    says = f"{chosen.count:,} {'row' if chosen.count == 1 else 'rows'}"
    if where:
        says += f" of {len(looking.ds._cursor.plan.order.selection):,} meet the condition"
    pager = _pager(asked, here, chosen, count)
    shown = (
        _sheet(looking, asked, chosen) if here == "pictures" else _table(looking, asked, chosen, sort, down)
    )
    content = [element("p", says, role="status", id=HERE), pager, shown if len(chosen.rows) else "", pager]
    return 200, framed(looking, here, asked, fields, *content)


def _fields(looking: Looking, asked: Asked, here: str, sort: str, down: bool) -> Markup:
    columns = {"": "row number"} | {column.name: column.name for _, column in looking.schema.scalars}
    more = []
    if here == "pictures" and len(looking.pictures) > 1:
        names = {str(ordinal): looking.schema[ordinal].name for ordinal in looking.pictures}
        more.append(select("Pictures of", "column", names, asked.text("column")))
    return form(
        here,
        field("Rows that meet a condition, such as label == 3", "where", asked.text("where"), wide=True),
        select("In the order of", "sort", columns, sort),
        select("Direction", "down", {"": "least first", "1": "greatest first"}, "1" if down else ""),
        field("From the", "from", asked.text("from"), inputmode="numeric", placeholder="0"),
        *more,
    )


def _pager(asked: Asked, here: str, chosen: ChosenRows, count: int) -> Markup:
    if chosen.count <= count:
        return join()
    last = (chosen.count - 1) // count * count
    before, after = max(0, chosen.first - count), chosen.first + count
    targets = [
        ("First", 0, chosen.first > 0, None),
        ("Previous", before, chosen.first > 0, "prev"),
        ("Next", after, after <= last, "next"),
        ("Last", last, chosen.first < last, None),
    ]
    links = [
        element("a", name, href=asked.link(here, **{"from": at}) + f"#{HERE}", rel=kind)
        if possible
        else element("span", name, class_="soft")
        for name, at, possible, kind in targets
    ]
    says = f"{chosen.first:,} to {chosen.first + len(chosen.rows) - 1:,} of {chosen.count:,}, counted from 0"
    return element(
        "nav", *links, element("span", says, class_="soft"), class_="pager", aria_label="pages of rows"
    )


def _table(looking: Looking, asked: Asked, chosen: ChosenRows, sort: str, down: bool) -> Markup:
    heads = []
    for _, column in looking.scalars:
        by_this = column.name == sort
        turned = "1" if by_this and not down else None
        mark = (" ▼" if down else " ▲") if by_this else ""
        target = asked.link("rows", sort=column.name, down=turned, **{"from": None}) + f"#{HERE}"
        order = ("descending" if down else "ascending") if by_this else None
        heads.append(
            element(
                "th", element("a", column.name + mark, href=target), scope="col", aria_sort=order,
                class_=None if column.is_string else "number",
            )
        )  # fmt: skip
    return row_table(looking, chosen.rows, heads=heads, links=_links(asked, chosen))


def _links(asked: Asked, chosen: ChosenRows) -> list[str]:
    """The addresses of the rows' pages, which know what the rows were chosen by."""
    given = {name: asked.text(name) for name in ("where", "sort", "down")}
    if not (given["where"] or given["sort"]):
        return [link("row", row=row) for row in chosen.rows.tolist()]
    return [link("row", row=row, at=at, **given) for at, row in enumerate(chosen.rows.tolist(), chosen.first)]


def _sheet(looking: Looking, asked: Asked, chosen: ChosenRows) -> Markup:
    if not looking.pictures:
        return element("p", "No column of this dataset holds pictures.", class_="soft")
    names = [str(ordinal) for ordinal in looking.pictures]
    ordinal = int(asked.one_of("column", names))
    figures = [
        element(
            "figure",
            element("a", picture(row, ordinal, looking.schema[ordinal], _SIDE), href=target),
            element("figcaption", f"row {row:,}"),
        )
        for row, target in zip(chosen.rows.tolist(), _links(asked, chosen), strict=True)
    ]
    return element("div", *figures, class_="sheet")
