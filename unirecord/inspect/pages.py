"""The pages of the viewer: what is asked for, and what is shown."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

import numpy as np
from numpy.typing import NDArray

from ..dataset.dataset import UniRecordDataset
from ..errors import CorruptionError, QueryError, SchemaError
from ..format.column import Column
from ..format.schema import Schema
from ..format.values.objects import object_text
from ..loading.batch import SampleReader
from ..order.spec import Remainder, Shuffle
from ..sizes import format_size, many
from ..snapshot.part_set import PartSet
from .cells import cells_of_row, described, example, is_drawn, small_picture
from .markup import Markup, element, join, page, points
from .statistics import sorted_rows

__all__ = [
    "PageRequest",
    "BadRequest",
    "ChosenRows",
    "HERE",
    "ViewedDataset",
    "PAGES",
    "POLICY",
    "epoch_page",
    "failed",
    "field",
    "form",
    "framed",
    "link",
    "links",
    "picture",
    "picture_of",
    "pictures_page",
    "row_page",
    "row_table",
    "rows_page",
    "select",
]


# What a request asks, as typed values: a field that is wrong is refused, and said.


_MOST_FIELDS: Final = 50


class BadRequest(Exception):
    """The request cannot be answered; ``str()`` of it says why, for whoever looks at the page."""


@dataclass(frozen=True)
class PageRequest:
    """The fields of a request by name, each once and not empty."""

    fields: Mapping[str, str]

    @classmethod
    def of(cls, query: str) -> PageRequest:
        """The fields of a URL's query; BadRequest for more than a page has."""
        try:
            found = parse_qs(query, errors="replace", max_num_fields=_MOST_FIELDS)
        except ValueError:
            raise BadRequest(f"a request has at most {_MOST_FIELDS} fields") from None
        return cls({name: values[-1] for name, values in found.items()})

    def text(self, name: str) -> str:
        """A text; empty where there is none."""
        return self.fields.get(name, "").strip()

    def number(self, name: str, default: int = 0, most: int = (1 << 63) - 1, least: int = 0) -> int:
        """A whole number, ``least`` to ``most``."""
        given = self.text(name).replace(",", "").replace("_", "")
        if not given:
            return default
        value = int(given) if given.isdecimal() and given.isascii() and len(given) <= 20 else -1
        if not least <= value <= most:
            raise BadRequest(f"{name}: {given[:40]!r} is no whole number of {least:,} to {most:,}")
        return value

    def one_of(self, name: str, options: Sequence[str]) -> str:
        """One of these; the first where there is none."""
        given = self.text(name) or options[0]
        if given not in options:
            raise BadRequest(f"{name}: {given[:40]!r} is none of {', '.join(options)}")
        return given

    def link(self, page: str, /, **changes: object) -> str:
        """The address of a page with these fields, but for ``changes``; None leaves one out."""
        return link(page, **{**self.fields, **changes})


def link(page: str, /, **fields: object) -> str:
    """The address of a page, as the pages beside it name it."""
    given = {name: str(value) for name, value in fields.items() if value not in (None, "")}
    return f"{page}?{urlencode(given, errors='replace')}" if given else page


# The dataset that is looked at: which rows a condition leaves, in which order, and what its columns are to the eye.


_MOST_DRAWN: Final = 1 << 24  # bytes of an array that is read to be drawn
_TRIED: Final = 12  # rows that are looked at for pictures
_KEPT: Final = 4  # answers to conditions
_SORTED: Final = 2  # orders that are kept
_FIRST_SORTED: Final = (
    10_000  # rows that are put in order at first; sixteen times as many whenever that is too few
)
_TABLE_COLUMNS: Final = 40
_TABLE_TEXTS: Final = 4  # columns of text and objects, whose cells are read one by one
_TEXT_CHARACTERS: Final = 4_000_000  # that are read for a page of rows, and a row more

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class ChosenRows:
    """Rows that meet a condition: how many, and the numbers of those on a page."""

    count: int
    first: int
    rows: Rows


class ViewedDataset:
    """A dataset, and what has been asked of it lately. Thread-safe."""

    def __init__(self, path: Any) -> None:
        self.path = path
        self.ds: UniRecordDataset[Any] = UniRecordDataset(path)
        self.parts: PartSet = self.ds.read_cursor.plan.data.parts
        self.schema: Schema = self.ds.schema
        self.scalars: list[tuple[int, Column]] = list(self.schema.scalars)[:_TABLE_COLUMNS]
        blobs = [column for column in self.schema if column.type in ("text", "object") and not column.shape]
        room = max(_TABLE_COLUMNS - len(self.scalars), 1)
        self.texts: list[Column] = blobs[: min(room, _TABLE_TEXTS)]
        self.more_scalars: int = (
            len(list(self.schema.scalars)) - len(self.scalars) + len(blobs) - len(self.texts)
        )
        self._values = SampleReader(self.parts, self.scalars)
        self._lock = threading.Lock()
        self._views: OrderedDict[str, UniRecordDataset[Any]] = OrderedDict()
        self._orders: OrderedDict[tuple[str, str, bool], Rows] = OrderedDict()
        self.pictures: list[int] = self._picture_columns()

    def close(self) -> None:
        """Close the dataset; nothing may be asked afterwards."""
        self.ds.close()

    def _picture_columns(self) -> list[int]:
        """Ordinals of the columns with a picture in one of some evenly spaced rows."""
        names = [
            column.name
            for column in self.schema
            if (column.type == "bytes" and not column.shape)
            or (len(column.shape or ()) in (2, 3) and column.fixed_bytes <= _MOST_DRAWN)
        ]
        there = self.ds.read_cursor.plan.order.selection
        wanted = min(len(there), _TRIED)
        rows = there.row_ids(np.array([place * len(there) // wanted for place in range(wanted)], np.int64))
        found = [cells_of_row(self.parts, names, row) for row in rows.tolist()]
        return [self.schema.ordinal(name) for name in names if any(is_drawn(cells[name]) for cells in found)]

    def view(self, where: str) -> UniRecordDataset[Any]:
        """The rows that meet a condition, as a dataset; QueryError for a wrong condition."""
        with self._lock:
            return self._view(where)

    def _view(self, where: str) -> UniRecordDataset[Any]:
        if not where:
            return self.ds
        if where not in self._views:
            self._views[where] = self.ds.view(where=where)
        self._views.move_to_end(where)
        while len(self._views) > _KEPT:
            self._views.popitem(last=False)
        return self._views[where]

    def chosen(self, where: str, sort: str, down: bool, first: int, count: int) -> ChosenRows:
        """``count`` rows from the ``first`` on, of those that meet the condition, by a column or by their numbers."""
        with self._lock:
            selection = self._view(where).read_cursor.plan.order.selection
            total = len(selection)
            first = min(first, (max(0, total - 1) // count) * count)
            stop = min(first + count, total)
            if not sort:
                return ChosenRows(total, first, selection.row_ids(np.arange(first, stop, dtype=np.int64)))
            return ChosenRows(total, first, self._ordered(where, sort, down, stop)[first:stop])

    def place(self, where: str, sort: str, down: bool, at: int) -> int | None:
        """The row at a place among those that `chosen` gives; None where there is no such place."""
        with self._lock:
            selection = self._view(where).read_cursor.plan.order.selection
            if not 0 <= at < len(selection):
                return None
            if not sort:
                return int(selection.row_ids(np.array([at], np.int64))[0])
            return int(self._ordered(where, sort, down, at + 1)[at])

    def _ordered(self, where: str, sort: str, down: bool, stop: int) -> Rows:
        """The rows by a column, at least the first ``stop`` of them."""
        key = (where, sort, down)
        selection = self._view(where).read_cursor.plan.order.selection
        ready = self._orders.get(key)
        if ready is None or len(ready) < stop:
            most = _FIRST_SORTED
            while most < stop:
                most *= 16
            rows = None if selection.is_all else selection.every()
            self._orders[key] = sorted_rows(self.parts, rows, [(sort, down)], min(most, len(selection)))
        self._orders.move_to_end(key)
        while len(self._orders) > _SORTED:
            self._orders.popitem(last=False)
        return self._orders[key]

    def values(self, rows: Rows) -> list[dict[str, Any]]:
        """The scalar columns of rows, from the index; of damaged ones what is said in place of their values."""
        if not self.scalars:
            return [{} for _ in rows]
        try:
            return self._values.many(np.ascontiguousarray(rows, np.int64))
        except CorruptionError:
            names = [column.name for _, column in self.scalars]
            return [cells_of_row(self.parts, names, row) for row in rows.tolist()]

    def beginnings(self, rows: Rows) -> list[dict[str, Any]]:
        """The columns of text and objects of rows; of damaged ones what is said in place of their values."""
        names = [column.name for column in self.texts]
        found: list[dict[str, Any]] = []
        left = _TEXT_CHARACTERS
        for row in rows.tolist():
            if not names or left <= 0:
                found.append(dict.fromkeys(names, "(open the row to see it)"))
                continue
            found.append(cells_of_row(self.parts, names, row))
            left -= sum(len(value) if isinstance(value, str) else 1_000 for value in found[-1].values())
        return found

    def is_there(self, row: int) -> bool:
        """Whether there is a row of this number, which has not been deleted."""
        there = self.ds.read_cursor.plan.order.selection
        return 0 <= row < self.parts.rows and bool(there.holds(np.array([row], np.int64))[0])


# What all pages share: the frame with its links, forms, tables of rows.


# No script runs, and nothing is loaded but pictures, from this server or in the page.
POLICY: Final = (
    "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'"
)
PAGES: Final = {"rows": "Rows", "pictures": "Pictures", "epoch": "Epoch", "dataset": "Dataset"}
HERE: Final = "here"  # where a page begins for whoever comes by one of its links, and goes on by the Tab key
_NAMED: Final = 80  # characters of a condition in a title
_SHARED: Final = ("where", "sort", "down")  # fields that go from page to page


def framed(viewed: ViewedDataset, here: str, asked: PageRequest, *content: object) -> bytes:
    """A whole page."""
    main = element("main", *content, id="main")
    title = f"{_named(here, asked)}, {_title(viewed)}: UniRecord"
    return page(title, *_top(viewed, here, asked), main, policy=POLICY)


def _named(here: str, asked: PageRequest) -> str:
    """What a page is of, for tabs and bookmarks."""
    if here == "row":
        return f"Row {asked.text('row')[:_NAMED] or 0}"
    where = asked.text("where")[:_NAMED]
    return f"{PAGES[here]} where {where}" if where else PAGES[here]


def _top(viewed: ViewedDataset, here: str, asked: PageRequest) -> list[Markup]:
    return [
        element("a", "Skip to the content", href="#main", class_="skip"),
        element("header", element("h1", _title(viewed)), element("p", _where(viewed), class_="soft")),
        links(here, asked, viewed),
    ]


def links(here: str, asked: PageRequest, viewed: ViewedDataset) -> Markup:
    """Links to the pages; a condition and an order go with them."""
    names = [name for name in PAGES if name != "pictures" or viewed.pictures]
    shared = {name: asked.text(name) for name in _SHARED}
    found = [
        element("a", PAGES[name], href=link(name, **shared), aria_current="page" if name == here else None)
        for name in names
    ]
    return element("nav", *found, aria_label="pages")


def _where(viewed: ViewedDataset) -> str:
    return viewed.path if isinstance(viewed.path, str) else ", ".join(map(str, viewed.path))


def _title(viewed: ViewedDataset) -> str:
    path = _where(viewed)
    return os.path.basename(path.rstrip("/")) or path


def failed(viewed: ViewedDataset, here: str, asked: PageRequest, why: str, *before: object) -> bytes:
    """A page that says what cannot be done."""
    return framed(viewed, here, asked, *before, element("pre", why, class_="warn", role="alert"))


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
    viewed: ViewedDataset,
    rows: Rows,
    places: Sequence[Sequence[object]] = (),
    place_names: Sequence[str] = (),
    heads: Sequence[Markup] | None = None,
    links: Sequence[str] | None = None,
) -> Markup:
    """Rows by their scalar columns, pictures small, and the beginnings of texts.

    ``places`` says more of each, ``heads`` are other column heads, ``links`` other addresses of the rows' pages.
    """
    numbers, values, texts = rows.tolist(), viewed.values(rows), viewed.beginnings(rows)
    shown = [(ordinal, viewed.schema[ordinal]) for ordinal in viewed.pictures[:1]]
    if links is None:
        links = [link("row", row=row) for row in numbers]
    if heads is None:
        heads = [
            element("th", column.name, scope="col", class_=_kind(column)) for _, column in viewed.scalars
        ]
    head = element(
        "tr",
        *(element("th", name, scope="col", class_="number") for name in place_names),
        element("th", "row", scope="col", class_="number"),
        *(element("th", column.name, scope="col") for _, column in shown),
        *heads,
        *(element("th", column.name, scope="col") for column in viewed.texts),
    )
    body = [
        element(
            "tr",
            *(element("td", text, class_="number") for text in (places[at] if places else ())),
            element("th", element("a", f"{row:,}", href=links[at]), scope="row", class_="number"),
            *(element("td", picture(row, ordinal, column, 128), class_="small") for ordinal, column in shown),
            *(
                element("td", example(sample[column.name]), class_=_kind(column) or "wide")
                for _, column in viewed.scalars
            ),
            *(element("td", example(texts[at][column.name]), class_="wide") for column in viewed.texts),
        )
        for at, (row, sample) in enumerate(zip(numbers, values, strict=True))
    ]
    table = element("table", element("thead", head), element("tbody", *body))
    more = f"and {viewed.more_scalars:,} more columns: open a row to see them"
    return join(
        element("div", table, class_="scroll", tabindex="0", role="region", aria_label="rows"),
        element("p", more, class_="soft") if viewed.more_scalars else "",
    )


def _kind(column: Column) -> str | None:
    return None if column.is_string else "number"


# One row in full.


_MOST_TEXT: Final = 100_000
_MOST_BYTES: Final = 256  # of other bytes, in hexadecimal
_MOST_ELEMENTS: Final = 1_000  # of an array, as numbers
_FEW: Final = 8  # of a list, which stand in a line
_UNFOLDED: Final = 64
_SIDES: Final = (128, 1024)
_CHOSEN: Final = ("where", "sort", "down")  # what says which rows, and in which order, a row was opened from


def row_page(viewed: ViewedDataset, asked: PageRequest) -> tuple[int, bytes]:
    """A row: each column, its type and its value."""
    row = _row(viewed, asked)
    part, place = viewed.parts.locate(row)
    cells = cells_of_row(viewed.parts, viewed.schema.names, row)
    listed = [
        element(
            "tr",
            element("th", column.name, scope="row"),
            element("td", str(column), class_="soft"),
            element("td", _in_full(row, ordinal, column, cells[column.name]), class_="any large"),
        )
        for ordinal, column in enumerate(viewed.schema)
    ]
    head = element("tr", *(element("th", name, scope="col") for name in ("column", "type", "value")))
    table = element("table", element("thead", head), element("tbody", *listed))
    return 200, framed(
        viewed,
        "row",
        asked,
        element("h2", f"Row {row:,}", id=HERE),
        element("p", f"row {place:,} of {part}", class_="soft"),
        _neighbours(viewed, asked, row),
        element("div", table, class_="scroll", tabindex="0", role="region", aria_label="values"),
    )


def picture_of(viewed: ViewedDataset, asked: PageRequest) -> bytes | None:
    """A picture of a row as a JPEG that is at most so wide and high; None where there is none."""
    row = _row(viewed, asked)
    column = viewed.schema[asked.number("column", most=len(viewed.schema) - 1)]
    side = int(asked.one_of("side", [str(side) for side in _SIDES]))
    value = cells_of_row(viewed.parts, [column.name], row)[column.name]
    small = small_picture(value, side)
    return None if small is None else small[0]


def _row(viewed: ViewedDataset, asked: PageRequest) -> int:
    row = asked.number("row")
    if not viewed.is_there(row):
        raise BadRequest(f"there is no row {row:,}: rows are numbered from 0 to {viewed.parts.rows - 1:,}")
    return row


def _neighbours(viewed: ViewedDataset, asked: PageRequest, row: int) -> Markup:
    """Links to the rows before and after it, of those and in the order that it was opened from; to when it comes."""
    links = [
        element("span", name, class_="soft")
        if place is None
        else element("a", name, href=asked.link("row", row=place[0], at=place[1]) + f"#{HERE}", rel=kind)
        for name, kind, place in zip(
            ("Previous", "Next"), ("prev", "next"), _beside(viewed, asked, row), strict=True
        )
    ]
    when = element("a", "When it comes in an epoch", href=link("epoch", row=row))
    back = []
    if any(asked.text(name) for name in _CHOSEN):
        chosen = {name: asked.text(name) for name in _CHOSEN}
        back = [element("a", "The rows that it is among", href=link("rows", **chosen) + f"#{HERE}")]
    return element("nav", *links, when, *back, class_="pager", aria_label="other rows")


def _beside(viewed: ViewedDataset, asked: PageRequest, row: int) -> list[tuple[int, int | None] | None]:
    """The rows before and after it, each with its place among the chosen ones; None where there is none.

    Without a place that fits (a row that was typed in), its neighbours are by number.
    """
    where, sort, down = asked.text("where"), asked.text("sort"), asked.text("down") == "1"
    if asked.text("at") and (where or sort):
        at = asked.number("at")
        try:
            found = [viewed.place(where, sort, down, place) for place in (at - 1, at, at + 1)]
        except (QueryError, SchemaError) as error:
            raise BadRequest(str(error)) from None
        if found[1] == row:
            return [
                None if other is None else (other, place)
                for other, place in zip((found[0], found[2]), (at - 1, at + 1), strict=True)
            ]
    return [(other, None) if viewed.is_there(other) else None for other in (row - 1, row + 1)]


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


# Rows in pages: those that meet a condition, in the order of a column, as a table or as pictures.


_ON_A_PAGE: Final = 50
_PICTURES: Final = 120
_SIDE: Final = 128


def rows_page(viewed: ViewedDataset, asked: PageRequest) -> tuple[int, bytes]:
    """A page of rows as a table, and its status."""
    return _page(viewed, asked, "rows", _ON_A_PAGE)


def pictures_page(viewed: ViewedDataset, asked: PageRequest) -> tuple[int, bytes]:
    """A page of rows as a contact sheet."""
    return _page(viewed, asked, "pictures", _PICTURES)


def _page(viewed: ViewedDataset, asked: PageRequest, here: str, count: int) -> tuple[int, bytes]:
    where, sort, down = asked.text("where"), asked.text("sort"), asked.text("down") == "1"
    fields = _fields(viewed, asked, here, sort, down)
    try:
        chosen = viewed.chosen(where, sort, down, asked.number("from") // count * count, count)
    except (BadRequest, QueryError, SchemaError) as error:
        return 400, failed(viewed, here, asked, str(error), fields)
    says = f"{chosen.count:,} {'row' if chosen.count == 1 else 'rows'}"
    if where:
        says += f" of {len(viewed.ds.read_cursor.plan.order.selection):,} meet the condition"
    pager = _pager(asked, here, chosen, count)
    shown = _sheet(viewed, asked, chosen) if here == "pictures" else _table(viewed, asked, chosen, sort, down)
    content = [element("p", says, role="status", id=HERE), pager, shown if len(chosen.rows) else "", pager]
    return 200, framed(viewed, here, asked, fields, *content)


def _fields(viewed: ViewedDataset, asked: PageRequest, here: str, sort: str, down: bool) -> Markup:
    columns = {"": "row number"} | {column.name: column.name for _, column in viewed.schema.scalars}
    more = []
    if here == "pictures" and len(viewed.pictures) > 1:
        names = {str(ordinal): viewed.schema[ordinal].name for ordinal in viewed.pictures}
        more.append(select("Pictures of", "column", names, asked.text("column")))
    return form(
        here,
        field("Rows that meet a condition, such as label == 3", "where", asked.text("where"), wide=True),
        select("In the order of", "sort", columns, sort),
        select("Direction", "down", {"": "least first", "1": "greatest first"}, "1" if down else ""),
        field("From the", "from", asked.text("from"), inputmode="numeric", placeholder="0"),
        *more,
    )


def _pager(asked: PageRequest, here: str, chosen: ChosenRows, count: int) -> Markup:
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


def _table(viewed: ViewedDataset, asked: PageRequest, chosen: ChosenRows, sort: str, down: bool) -> Markup:
    heads = []
    for _, column in viewed.scalars:
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
    return row_table(viewed, chosen.rows, heads=heads, links=_links(asked, chosen))


def _links(asked: PageRequest, chosen: ChosenRows) -> list[str]:
    """The addresses of the rows' pages, which know what the rows were chosen by."""
    given = {name: asked.text(name) for name in ("where", "sort", "down")}
    if not (given["where"] or given["sort"]):
        return [link("row", row=row) for row in chosen.rows.tolist()]
    return [link("row", row=row, at=at, **given) for at, row in enumerate(chosen.rows.tolist(), chosen.first)]


def _sheet(viewed: ViewedDataset, asked: PageRequest, chosen: ChosenRows) -> Markup:
    if not viewed.pictures:
        return element("p", "No column of this dataset holds pictures.", class_="soft")
    names = [str(ordinal) for ordinal in viewed.pictures]
    ordinal = int(asked.one_of("column", names))
    figures = [
        element(
            "figure",
            element("a", picture(row, ordinal, viewed.schema[ordinal], _SIDE), href=target),
            element("figcaption", f"row {row:,}"),
        )
        for row, target in zip(chosen.rows.tolist(), _links(asked, chosen), strict=True)
    ]
    return element("div", *figures, class_="sheet")


# The order of an epoch, what one of its steps contains, and when a row comes.


_POINTS: Final = 300  # of the picture of an order
_ROWS: Final = 256  # of a step that are shown
_BATCH: Final = 32
_MOST: Final = 1 << 20  # samples of a batch, ranks
_MOST_STEP: Final = 1 << 24  # rows of a step
_REMAINDERS: Final[dict[str, Remainder]] = {"pad": "pad", "drop": "drop", "uneven": "uneven"}
_SHUFFLES: Final[dict[str, Shuffle]] = {
    "yes": True, "no": False, "block": "block", "parts": "parts", "within-parts": "within-parts",
}  # fmt: skip


@dataclass(frozen=True)
class _Job:
    """The training job whose order is looked at."""

    where: str
    seed: int
    shuffle: str
    batch: int
    ranks: int
    remainder: str
    epoch: int
    step: int

    @classmethod
    def of(cls, asked: PageRequest) -> _Job:
        found = cls(
            where=asked.text("where"),
            seed=asked.number("seed", most=(1 << 64) - 1),
            shuffle=asked.one_of("shuffle", list(_SHUFFLES)),
            batch=asked.number("batch", _BATCH, _MOST, 1),
            ranks=asked.number("ranks", 1, _MOST, 1),
            remainder=asked.one_of("remainder", list(_REMAINDERS)),
            epoch=asked.number("epoch", most=(1 << 32) - 1),
            step=asked.number("step"),
        )
        if found.batch * found.ranks > _MOST_STEP:
            raise BadRequest(
                f"a step of {many(found.batch * found.ranks, 'row')} is more than a page looks at"
            )
        return found


def epoch_page(viewed: ViewedDataset, asked: PageRequest) -> tuple[int, bytes]:
    """An epoch as a job has it, one of its steps, and when a row comes if one is asked for."""
    fields = _epoch_fields(asked)
    try:
        return 200, framed(viewed, "epoch", asked, fields, *_content(viewed, asked))
    except (BadRequest, QueryError) as error:
        return 400, failed(viewed, "epoch", asked, str(error), fields)


def _content(viewed: ViewedDataset, asked: PageRequest) -> list[Markup]:
    job = _Job.of(asked)
    ds = viewed.view(job.where).view(
        shuffle=_SHUFFLES[job.shuffle], seed=job.seed, remainder=_REMAINDERS[job.remainder],
    )  # fmt: skip
    steps = ds.order.steps_in_epoch(job.batch, num_shards=job.ranks)
    says = f"Epoch {job.epoch:,}: {many(len(ds), 'sample')} in {many(steps, 'step')}"
    content = [element("p", says, role="status")]
    if asked.text("row"):
        content.append(_when(viewed, ds, job, asked))
    if steps:
        if job.step >= steps:
            raise BadRequest(f"step: the epoch has the steps 0 to {steps - 1:,}")
        content += [_step(viewed, ds, job, asked, steps), _order(viewed, ds, job)]
    return content


def _epoch_fields(asked: PageRequest) -> Markup:
    """The fields as they were filled in, so that what is wrong can be corrected."""

    def number(says: str, name: str, default: object = 0) -> Markup:
        return field(says, name, asked.text(name) or default, inputmode="numeric")

    return form(
        "epoch",
        field("Rows that meet a condition", "where", asked.text("where"), wide=True),
        select("Shuffle", "shuffle", {name: name for name in _SHUFFLES}, asked.text("shuffle")),
        number("Seed", "seed"),
        number("Samples in a rank's batch", "batch", _BATCH),
        number("Ranks", "ranks", 1),
        select("Remainder", "remainder", {name: name for name in _REMAINDERS}, asked.text("remainder")),
        number("Epoch", "epoch"),
        number("Step", "step"),
        number("When does this row come", "row", ""),
    )


def _when(viewed: ViewedDataset, ds: UniRecordDataset[Any], job: _Job, asked: PageRequest) -> Markup:
    row = asked.number("row")
    if not viewed.is_there(row):
        raise BadRequest(f"there is no row {row:,}: rows are numbered from 0 to {viewed.parts.rows - 1:,}")
    found = ds.order.steps_of([row], job.batch, epochs=[job.epoch], num_shards=job.ranks)
    places = zip(found["step"].tolist(), found["rank"].tolist(), found["slot"].tolist(), strict=True)
    comes = [
        element(
            "li",
            element("a", f"step {step:,}", href=asked.link("epoch", step=step) + f"#{HERE}"),
            f", rank {rank:,}, place {slot:,} of its batch",
        )
        for step, rank, slot in places
        if step >= 0
    ]
    named = element("a", f"Row {row:,}", href=link("row", row=row))
    if not comes:
        return element("p", named, " is not delivered in this epoch.")
    return join(element("p", named, " comes at:"), element("ul", *comes))


def _step(
    viewed: ViewedDataset, ds: UniRecordDataset[Any], job: _Job, asked: PageRequest, steps: int
) -> Markup:
    """The rows of a step, rank by rank."""
    ranks: list[int] = []
    slots: list[int] = []
    rows: list[Rows] = []
    total = 0
    for rank in range(job.ranks):
        batch = ds.order.rows_of(job.step, job.batch, epoch=job.epoch, rank=rank, num_shards=job.ranks)
        shown = batch[: max(0, _ROWS - total)]
        total += len(batch)
        rows.append(shown)
        ranks += [rank] * len(shown)
        slots += range(len(shown))
        if total > _ROWS:  # the others are not shown
            break
    numbers = np.concatenate(rows)
    places = [(f"{rank:,}", f"{slot:,}") for rank, slot in zip(ranks, slots, strict=True)]
    targets = [
        ("First", 0, job.step > 0), ("Previous", job.step - 1, job.step > 0),
        ("Next", job.step + 1, job.step + 1 < steps), ("Last", steps - 1, job.step + 1 < steps),
    ]  # fmt: skip
    links = [
        element("a", name, href=asked.link("epoch", step=step) + f"#{HERE}")
        if possible
        else element("span", name, class_="soft")
        for name, step, possible in targets
    ]
    more = (
        ""
        if total <= _ROWS
        else element("p", f"The first {_ROWS:,} rows of the step are shown.", class_="soft")
    )
    return join(
        element("h2", f"Step {job.step:,} of {steps:,}", id=HERE),
        element("nav", *links, class_="pager", aria_label="steps"),
        row_table(viewed, numbers, places, ("rank", "place")),
        more,
    )


def _order(viewed: ViewedDataset, ds: UniRecordDataset[Any], job: _Job) -> Markup:
    """Which row comes where, as points: evenly spaced positions of the epoch."""
    order = ds.read_cursor.plan.order
    count = min(len(ds), _POINTS)
    positions = np.array([place * len(ds) // count for place in range(count)], np.int64)
    rows = order.selection.row_ids(order.order(job.epoch).at(positions))
    across, up = max(1, len(ds) - 1), max(1, viewed.parts.rows - 1)
    places = [(p / across, row / up) for p, row in zip(positions.tolist(), rows.tolist(), strict=True)]
    says = (
        f"{many(count, 'position')} of the epoch, from left to right, and their rows, the first row "
        f"at the bottom"
    )
    chart = element("div", points(places, says), element("p", says, class_="soft"), class_="card")
    return join(element("h2", "Order"), element("div", chart, class_="cards"))
