"""The pages of the viewer: what is asked for, and what is shown."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple
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
from .cells import cells_of_row, cut, described, is_drawn, small_picture
from .markup import render
from .statistics import sorted_rows

__all__ = [
    "BadRequest",
    "ChosenRows",
    "PAGES",
    "POLICY",
    "PageRequest",
    "ViewedDataset",
    "epoch_page",
    "link",
    "links",
    "page",
    "picture_of",
    "pictures_page",
    "row_page",
    "rows_page",
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

    @property
    def named(self) -> str:
        """Where it lies."""
        return self.path if isinstance(self.path, str) else ", ".join(map(str, self.path))

    @property
    def title(self) -> str:
        """What it is called."""
        return os.path.basename(self.named.rstrip("/")) or self.named

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
            found = self._values.many(np.ascontiguousarray(rows, np.int64))
            return [{one.name: one.shown(sample[one.name]) for _, one in self.scalars} for sample in found]
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


# What all pages share: the frame with its links, and rows in tables.


# No script runs, and nothing is loaded but pictures, from this server or in the page.
POLICY: Final = (
    "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'"
)
PAGES: Final = {"rows": "Rows", "pictures": "Pictures", "epoch": "Epoch", "dataset": "Dataset"}
_HERE: Final = "#here"  # where a page begins for whoever comes by a link of it, and goes on by the Tab key
_NAMED: Final = 80  # characters of a condition in a title
_CHOSEN: Final = (
    "where",
    "sort",
    "down",
)  # fields that say which rows, in which order; they go from page to page

Link = tuple[str, str | None, str | None]


def page(
    viewed: ViewedDataset,
    here: str,
    asked: PageRequest,
    template: str = "view.html",
    error: str = "",
    **given: Any,
) -> bytes:
    """A whole page; with an ``error`` it says what cannot be done."""
    return render(
        template, policy=POLICY, viewed=viewed, here=here, asked=asked, links=links(here, asked, viewed),
        named=_named(here, asked), error=error, **given,
    ).encode()  # fmt: skip


def _named(here: str, asked: PageRequest) -> str:
    """What a page is of, for tabs and bookmarks."""
    if here == "row":
        return f"Row {asked.text('row')[:_NAMED] or 0}"
    where = asked.text("where")[:_NAMED]
    return f"{PAGES[here]} where {where}" if where else PAGES[here]


def links(here: str, asked: PageRequest, viewed: ViewedDataset) -> list[tuple[str, str, bool]]:
    """Links to the pages, with the condition and the order, and whether each is this one."""
    chosen = {name: asked.text(name) for name in _CHOSEN}
    names = [name for name in PAGES if name != "pictures" or viewed.pictures]
    return [(PAGES[name], link(name, **chosen), name == here) for name in names]


def _stepping(asked: PageRequest, here: str, field: str, at: int, by: int, last: int) -> list[Link]:
    """Links to the first, the previous, the next and the last place that a field of a page names."""
    targets = (
        ("First", 0, at > 0, None), ("Previous", max(0, at - by), at > 0, "prev"),
        ("Next", at + by, at < last, "next"), ("Last", last, at < last, None),
    )  # fmt: skip
    return [
        (name, asked.link(here, **{field: place}) + _HERE if possible else None, kind)
        for name, place, possible, kind in targets
    ]


def _table(
    viewed: ViewedDataset, rows: Rows, links: Sequence[str], places: Sequence[Sequence[int]] = ()
) -> list[tuple[Any, ...]]:
    """Each row: its number, the address of its page, its scalar columns, its texts, and what ``places`` say of it."""
    values, texts = viewed.values(rows), viewed.beginnings(rows)
    return [
        (
            row,
            links[at],
            [values[at][column.name] for _, column in viewed.scalars],
            [texts[at][column.name] for column in viewed.texts],
            places[at] if places else (),
        )
        for at, row in enumerate(rows.tolist())
    ]


# One row in full.


_MOST_TEXT: Final = 100_000
_MOST_BYTES: Final = 256  # of other bytes, in hexadecimal
_MOST_ELEMENTS: Final = 1_000  # of an array, as numbers
_FEW: Final = 8  # of a list, which stand in a line
_UNFOLDED: Final = 64
_SIDES: Final = (128, 1024)


class _Whole(NamedTuple):
    """A value as whole as a page may hold it: a picture, or its text, or else an example of it and its numbers."""

    text: str | None = None
    said: str = ""
    picture: bool = False
    numbers: str = ""
    unfolded: bool = False


def row_page(viewed: ViewedDataset, asked: PageRequest) -> tuple[int, bytes]:
    """A row: each column, its type and its value."""
    row = _row(viewed, asked)
    part, place = viewed.parts.locate(row)
    found = cells_of_row(viewed.parts, viewed.schema.names, row)
    cells = [(column, found[column.name], _in_full(found[column.name])) for column in viewed.schema]
    return 200, page(
        viewed, "row", asked, "row.html", row=row, part=part, place=place, cells=cells,
        targets=_neighbours(viewed, asked, row),
    )  # fmt: skip


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


def _neighbours(viewed: ViewedDataset, asked: PageRequest, row: int) -> list[Link]:
    """Links to the rows before and after it, of those and in the order that it was opened from; to when it comes."""
    found: list[Link] = [
        (name, None if place is None else asked.link("row", row=place[0], at=place[1]) + _HERE, kind)
        for name, kind, place in zip(
            ("Previous", "Next"), ("prev", "next"), _beside(viewed, asked, row), strict=True
        )
    ]
    found.append(("When it comes in an epoch", link("epoch", row=row), None))
    if any(asked.text(name) for name in _CHOSEN):
        chosen = {name: asked.text(name) for name in _CHOSEN}
        found.append(("The rows that it is among", link("rows", **chosen) + _HERE, None))
    return found


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


def _in_full(value: Any) -> _Whole:
    if isinstance(value, str):
        return _Whole(cut(value, _MOST_TEXT))
    if isinstance(value, bytes) and small_picture(value, _SIDES[0]) is not None:
        return _Whole(said=described(value), picture=True)
    if isinstance(value, bytes):
        more = "" if len(value) <= _MOST_BYTES else " …"
        return _Whole(value[:_MOST_BYTES].hex(" ") + more, described(value))
    if isinstance(value, dict | list):
        return _Whole(cut(object_text(value, lambda blob: format_size(len(blob))), _MOST_TEXT))
    if isinstance(value, np.ndarray) and value.size and (value.ndim > 1 or value.size > _FEW):
        whole = value.size <= _MOST_ELEMENTS
        few = value if whole else value.reshape(-1)[:_MOST_ELEMENTS]
        said = "its values" if whole else f"its first {_MOST_ELEMENTS:,} values"
        numbers = np.array2string(few, threshold=_MOST_ELEMENTS)
        return _Whole(said=said, numbers=numbers, unfolded=value.size <= _UNFOLDED)
    return _Whole()


# Rows in pages: those that meet a condition, in the order of a column, as a table or as pictures.


_ON_A_PAGE: Final = 50
_PICTURES: Final = 120


def _page(viewed: ViewedDataset, asked: PageRequest, here: str, count: int) -> tuple[int, bytes]:
    where, sort, down = asked.text("where"), asked.text("sort"), asked.text("down") == "1"
    names = [(str(ordinal), viewed.schema[ordinal].name) for ordinal in viewed.pictures]
    given: dict[str, Any] = {
        "where": where, "sort": sort, "down": down, "picture_names": names,
        "orders": [("", "row number"), *((column.name, column.name) for _, column in viewed.schema.scalars)],
    }  # fmt: skip
    try:
        chosen = viewed.chosen(where, sort, down, asked.number("from") // count * count, count)
        ordinal = (
            int(asked.one_of("column", [name for name, _ in names])) if here == "pictures" and names else 0
        )
    except (BadRequest, QueryError, SchemaError) as error:
        return 400, page(viewed, here, asked, "rows.html", str(error), **given)
    links, last = _links(asked, chosen), max(0, chosen.count - 1) // count * count
    return 200, page(
        viewed, here, asked, "rows.html", **given, chosen=chosen, ordinal=ordinal,
        total=len(viewed.ds.read_cursor.plan.order.selection),
        targets=_stepping(asked, here, "from", chosen.first, count, last) if last else [],
        table=_table(viewed, chosen.rows, links) if here == "rows" else [],
        sheet=list(zip(chosen.rows.tolist(), links, strict=True)),
    )  # fmt: skip


# A page and its status: of rows as a table, and as a contact sheet.
rows_page: Final = partial(_page, here="rows", count=_ON_A_PAGE)
pictures_page: Final = partial(_page, here="pictures", count=_PICTURES)


def _links(asked: PageRequest, chosen: ChosenRows) -> list[str]:
    """The addresses of the rows' pages, which know what the rows were chosen by."""
    given = {name: asked.text(name) for name in _CHOSEN}
    if not (given["where"] or given["sort"]):
        return [link("row", row=row) for row in chosen.rows.tolist()]
    return [link("row", row=row, at=at, **given) for at, row in enumerate(chosen.rows.tolist(), chosen.first)]


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
    given: dict[str, Any] = {
        "batch": _BATCH, "shuffles": [(name, name) for name in _SHUFFLES],
        "remainders": [(name, name) for name in _REMAINDERS],
    }  # fmt: skip
    try:
        return 200, page(viewed, "epoch", asked, "epoch.html", **given, **_content(viewed, asked))
    except (BadRequest, QueryError) as error:
        return 400, page(viewed, "epoch", asked, "epoch.html", str(error), **given)


def _content(viewed: ViewedDataset, asked: PageRequest) -> dict[str, Any]:
    job = _Job.of(asked)
    ds = viewed.view(job.where).view(
        shuffle=_SHUFFLES[job.shuffle], seed=job.seed, remainder=_REMAINDERS[job.remainder],
    )  # fmt: skip
    steps = ds.order.steps_in_epoch(job.batch, num_shards=job.ranks)
    found: dict[str, Any] = {"job": job, "samples": len(ds), "steps": steps, "asked_row": None}
    if asked.text("row"):
        row = _row(viewed, asked)
        when = ds.order.steps_of([row], job.batch, epochs=[job.epoch], num_shards=job.ranks)
        places = zip(*(when[name].tolist() for name in ("step", "rank", "slot")), strict=True)
        found |= {"asked_row": row, "comes": [place for place in places if place[0] >= 0]}
    if steps:
        if job.step >= steps:
            raise BadRequest(f"step: the epoch has the steps 0 to {steps - 1:,}")
        found |= {
            **_step(viewed, ds, job), "places": _places(viewed, ds, job),
            "targets": _stepping(asked, "epoch", "step", job.step, 1, steps - 1),
        }  # fmt: skip
    return found


def _step(viewed: ViewedDataset, ds: UniRecordDataset[Any], job: _Job) -> dict[str, Any]:
    """The rows of a step, rank by rank, and whether there are more than are shown."""
    rows: list[Rows] = []
    places: list[tuple[int, int]] = []
    total = 0
    for rank in range(job.ranks):
        batch = ds.order.rows_of(job.step, job.batch, epoch=job.epoch, rank=rank, num_shards=job.ranks)
        rows.append(batch[: max(0, _ROWS - total)])
        places += [(rank, slot) for slot in range(len(rows[-1]))]
        total += len(batch)
        if total > _ROWS:  # the others are not shown
            break
    numbers = np.concatenate(rows)
    links = [link("row", row=row) for row in numbers.tolist()]
    return {"table": _table(viewed, numbers, links, places), "cut": total > _ROWS}


def _places(viewed: ViewedDataset, ds: UniRecordDataset[Any], job: _Job) -> list[tuple[float, float]]:
    """Which row comes where, as points: evenly spaced positions of the epoch."""
    order = ds.read_cursor.plan.order
    count = min(len(ds), _POINTS)
    positions = np.array([place * len(ds) // count for place in range(count)], np.int64)
    rows = order.selection.row_ids(order.order(job.epoch).at(positions))
    across, up = max(1, len(ds) - 1), max(1, viewed.parts.rows - 1)
    return [(p / across, row / up) for p, row in zip(positions.tolist(), rows.tolist(), strict=True)]
