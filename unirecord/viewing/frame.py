"""What all pages share: the frame with its links, forms, tables of rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from ..format.column import Column
from ..inspection.example_cells import example
from ..inspection.markup import Markup, element, join, page
from .asked import Asked, link
from .looking import Looking, Rows

__all__ = [
    "HERE",
    "PAGES",
    "POLICY",
    "failed",
    "field",
    "form",
    "framed",
    "links",
    "picture",
    "row_table",
    "select",
]

# No script runs, and nothing is loaded but pictures, from this server or in the page.
POLICY: Final = (
    "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'"
)
PAGES: Final = {"rows": "Rows", "pictures": "Pictures", "epoch": "Epoch", "dataset": "Dataset"}
HERE: Final = "here"  # where a page begins for whoever comes by one of its links, and goes on by the Tab key
_NAMED: Final = 80  # characters of a condition in a title
_SHARED: Final = ("where", "sort", "down")  # fields that go from page to page


def framed(looking: Looking, here: str, asked: Asked, *content: object) -> bytes:
    """A whole page."""
    main = element("main", *content, id="main")
    title = f"{_named(here, asked)}, {_title(looking)}: UniRecord"
    return page(title, *_top(looking, here, asked), main, policy=POLICY)


def _named(here: str, asked: Asked) -> str:
    """What a page is of, for tabs and bookmarks."""
    if here == "row":
        return f"Row {asked.text('row')[:_NAMED] or 0}"
    where = asked.text("where")[:_NAMED]
    return f"{PAGES[here]} where {where}" if where else PAGES[here]


def _top(looking: Looking, here: str, asked: Asked) -> list[Markup]:
    return [
        element("a", "Skip to the content", href="#main", class_="skip"),
        element("header", element("h1", _title(looking)), element("p", _where(looking), class_="soft")),
        links(here, asked, looking),
    ]


def links(here: str, asked: Asked, looking: Looking) -> Markup:
    """Links to the pages; a condition and an order go with them."""
    names = [name for name in PAGES if name != "pictures" or looking.pictures]
    shared = {name: asked.text(name) for name in _SHARED}
    found = [
        element("a", PAGES[name], href=link(name, **shared), aria_current="page" if name == here else None)
        for name in names
    ]
    return element("nav", *found, aria_label="pages")


def _where(looking: Looking) -> str:
    return looking.path if isinstance(looking.path, str) else ", ".join(map(str, looking.path))


def _title(looking: Looking) -> str:
    path = _where(looking)
    return os.path.basename(path.rstrip("/")) or path


def failed(looking: Looking, here: str, asked: Asked, why: str, *before: object) -> bytes:
    """A page that says what cannot be done."""
    return framed(looking, here, asked, *before, element("pre", why, class_="warn", role="alert"))


def form(page_name: str, *fields: object, button: str = "Show") -> Markup:
    """Fields that are sent as the address of a page."""
    return element("form", *fields, element("button", button, type="submit"), action=page_name, method="get")


def field(says: str, name: str, value: object, wide: bool = False, **attributes: object) -> Markup:
    """A field for text or a number, under what it says."""
    entry = element(
        "input", name=name, value=value, autocomplete="off", spellcheck="false",
        class_=None if wide else "short", **attributes,
    )  # fmt: skip
    return element("label", says, entry, class_="wide" if wide else None)


def select(says: str, name: str, options: Mapping[str, str], chosen: str) -> Markup:
    """A choice of one."""
    entries = [
        element("option", text, value=value, selected="" if value == chosen else None)
        for value, text in options.items()
    ]
    return element("label", says, element("select", *entries, name=name))


def picture(row: int, ordinal: int, column: Column, side: int) -> Markup:
    """A picture of a row, which is made when it comes into sight."""
    says = f"{column.name} of row {row:,}"
    return element(
        "img", src=link("picture", row=row, column=ordinal, side=side), alt=says, title=says, loading="lazy"
    )


def row_table(
    looking: Looking,
    rows: Rows,
    places: Sequence[Sequence[object]] = (),
    place_names: Sequence[str] = (),
    heads: Sequence[Markup] | None = None,
    links: Sequence[str] | None = None,
) -> Markup:
    """Rows by their scalar columns, pictures small, and the beginnings of texts.

    ``places`` says more of each, ``heads`` are other column heads, ``links`` other addresses of the rows' pages.
    """
    numbers, values, texts = rows.tolist(), looking.values(rows), looking.beginnings(rows)
    shown = [(ordinal, looking.schema[ordinal]) for ordinal in looking.pictures[:1]]
    if links is None:
        links = [link("row", row=row) for row in numbers]
    if heads is None:
        heads = [
            element("th", column.name, scope="col", class_=_kind(column)) for _, column in looking.scalars
        ]
    head = element(
        "tr",
        *(element("th", name, scope="col", class_="number") for name in place_names),
        element("th", "row", scope="col", class_="number"),
        *(element("th", column.name, scope="col") for _, column in shown),
        *heads,
        *(element("th", column.name, scope="col") for column in looking.texts),
    )
    body = [
        element(
            "tr",
            *(element("td", text, class_="number") for text in (places[at] if places else ())),
            element("th", element("a", f"{row:,}", href=links[at]), scope="row", class_="number"),
            *(element("td", picture(row, ordinal, column, 128), class_="small") for ordinal, column in shown),
            *(
                element("td", example(sample[column.name]), class_=_kind(column) or "wide")
                for _, column in looking.scalars
            ),
            *(element("td", example(texts[at][column.name]), class_="wide") for column in looking.texts),
        )
        for at, (row, sample) in enumerate(zip(numbers, values, strict=True))
    ]
    table = element("table", element("thead", head), element("tbody", *body))
    more = f"and {looking.more_scalars:,} more columns: open a row to see them"
    return join(
        element("div", table, class_="scroll", tabindex="0", role="region", aria_label="rows"),
        element("p", more, class_="soft") if looking.more_scalars else "",
    )


def _kind(column: Column) -> str | None:
    return None if column.is_string else "number"
