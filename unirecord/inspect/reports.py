"""Pages to be kept, each a file that needs nothing else: of a dataset, of what differs in two, of a training job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from ..errors import ExistsError
from ..loading.stats import STATS_SUFFIX, Stats
from ..order.selection import Selection
from ..query.query import live_rows
from ..sizes import format_size, utc_time
from ..snapshot.part_set import PartSet, resolve
from ..storage.schemes import location_of
from ..storage.staged import write_staged
from .audit import AuditReport, ranks_named, said_of_order
from .cells import Example, cells_of_row, cut, example, is_picture
from .describe import ColumnDescription, Description, describe, spelled
from .diff import Diff, DiffExample
from .markup import render, templates
from .statistics import BINS, ColumnStatistics, column_statistics

__all__ = ["SavedStats", "dataset_page", "diff_page", "run_page", "saved_stats", "write_page"]

# A page is written to a file whole or not at all, and only in place of an earlier page.


_BEGINNING: Final = b'<!doctype html>\n<html lang="en" data-made-by="unirecord">'  # of every page


def write_page(content: bytes, target: str) -> int:
    """Writes a page to the file ``target``, whole or not at all; returns its bytes.

    ExistsError where something is that is no page of this package; an earlier one is replaced.
    """
    there = location_of(target)
    if not there.in_file_system or (
        there.is_taken(target) and there.read(target, len(_BEGINNING)) != _BEGINNING
    ):
        raise ExistsError(
            f"{target} is there and is no report, or is no file of this machine; give another name"
        )
    write_staged(target, None, content, durable=True)
    return len(content)


# A dataset: what it is, what its columns are like, and examples of its rows.


_EXAMPLES: Final = 12  # rows that are shown whole
_PICTURES: Final = 48  # of a column of pictures …
_SHEETS: Final = 144  # … and of all of them
_SHEET_BYTES: Final = 900_000  # of the page, in which pictures are drawn on contact sheets …
_EXAMPLE_BYTES: Final = 900_000  # … and rows are shown whole, after the first
_LOOKED_AT: Final = 200  # columns
_TEXTS: Final = 2_000_000  # strings without a dictionary that are looked at, of all columns


def dataset_page(path: Any, links: Sequence[tuple[str, str, bool]] = ()) -> bytes:
    """The page, in UTF-8, with ``links`` at its top: it needs no other file and no network, and has no script.

    All but the examples comes from the indexes. Pictures are shown where Pillow is installed.
    """
    templates()
    found = describe(path)
    names = [column.name for column in found.columns[:_LOOKED_AT]]
    with closing(PartSet(resolve(path), io="auto", knows_deletions=True)) as parts:
        texts = _TEXTS // max(1, len(names))
        statistics = [column_statistics(parts, name, None, texts).shown(parts.schema[name]) for name in names]
        samples = [
            (row, list(cells_of_row(parts, names, row).values()))
            for row in _spaced(live_rows(parts), _EXAMPLES)
        ]
        drawn = [
            name for at, name in enumerate(names) if any(is_picture(values[at]) for _, values in samples)
        ]
        sheets = _sheets(parts, drawn)
    sizes = [part.data_bytes + part.index_bytes for part in found.parts]
    counts, edges = np.histogram(sizes, min(BINS, len(sizes)) or 1)
    return render(
        "dataset.html", title=os.path.basename(found.path.rstrip("/")) or found.path, found=found, links=links,
        facts=_dataset_facts(found), memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        sheets=sheets, undrawn=len(drawn) - len(sheets),
        cards=list(zip(found.columns, statistics, strict=False)), names=names, samples=samples, most=_EXAMPLE_BYTES,
        sizes=sizes, counts=counts.tolist(), ranges=list(pairwise(edges.tolist())),
    ).encode()  # fmt: skip


def _spaced(rows: Selection, most: int) -> list[int]:
    """Evenly spaced ones of these rows, the first one among them."""
    wanted = min(len(rows), most)
    return [rows[place * len(rows) // wanted] for place in range(wanted)]


def _sheets(parts: PartSet, names: Sequence[str]) -> list[tuple[str, list[tuple[int, Example]]]]:
    """A contact sheet of each column of pictures, the smaller the more there are, until the page is long."""
    most, size = max(1, min(_PICTURES, _SHEETS // max(1, len(names)))), 0
    sheets = []
    for name in names:
        if size >= _SHEET_BYTES:
            break
        rows = _spaced(live_rows(parts), most)
        sheets.append((name, [(row, example(cells_of_row(parts, [name], row)[name])) for row in rows]))
        size += sum(len(one.picture.source) for _, one in sheets[-1][1] if one.picture)
    return sheets


def _dataset_facts(found: Description) -> list[tuple[str, str]]:
    size = found.data_bytes + found.index_bytes
    facts = [
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
        facts.append(("metadata", cut(str(found.metadata), 2_000)))
    return facts


# What is not the same in two datasets: counts, columns side by side, rows before and after.


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
    names = list(dict.fromkeys(column.name for column in (*one.columns, *other.columns)))
    with (
        closing(PartSet(resolve(first), io="auto", knows_deletions=True)) as a,
        closing(PartSet(resolve(second), io="auto", knows_deletions=True)) as b,
    ):
        kinds = [
            (title, getattr(found, kind), [(shown, _cells(shown, a, b)) for shown in examples])
            for kind, title in _KINDS.items()
            if (examples := [shown for shown in found.examples if shown.kind == kind])
        ]
        pairs = _values(found, a, b, one, other)
    return render(
        "diff.html", first=first, second=second, found=found, facts=_diff_facts(found),
        columns=_columns(found, one, other, names[:_COLUMNS]), left=len(names) - _COLUMNS, pairs=pairs, kinds=kinds,
    ).encode()  # fmt: skip


def _diff_facts(found: Diff) -> list[tuple[str, str]]:
    return [
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


def _columns(
    found: Diff, one: Description, other: Description, names: Sequence[str]
) -> Iterator[tuple[str, str, str, str, int, str]]:
    """Columns: name, types in both, why it is not compared or in how many rows it differs, and what else does."""
    mine, theirs = ({column.name: spelled(column) for column in side.columns} for side in (one, other))
    retyped = {column.name: column for column in found.columns_retyped}
    for name in names:
        types = mine.get(name, ""), theirs.get(name, "")
        problem = "" if name in mine and name in theirs else "B alone" if name in theirs else "A alone"
        if name in retyped and not retyped[name].compared:
            problem = "another type; not compared"
        other_form = name in retyped and types[0] == types[1]
        note = "another logical type, chunks or annotations" if other_form else ""
        yield name, *types, problem, found.changed_columns.get(name, 0), note


def _values(
    found: Diff, a: PartSet, b: PartSet, one: Description, other: Description
) -> list[list[tuple[str, ColumnStatistics, ColumnDescription]]]:
    """The columns whose values may differ: of A and of B, and what their values are like."""
    theirs = {column.name: column for column in other.columns}
    pairs = [
        (("A", a, mine), ("B", b, theirs[mine.name]))
        for mine in one.columns
        if mine.name in theirs
        and (
            found.added
            or found.gone
            or mine.name in found.changed_columns
            or mine.type != theirs[mine.name].type
        )
    ]
    return [
        [
            (side, column_statistics(parts, column.name).shown(parts.schema[column.name]), column)
            for side, parts, column in pair
        ]
        for pair in pairs[:_CARDS]
    ]


def _cells(one: DiffExample, a: PartSet, b: PartSet) -> list[tuple[str, Any, Any]]:
    """Of a row that changed the columns that did, before and after; of others their values; of one that moved none."""
    names = one.columns if one.kind == "changed" else (b if one.row is None else a).schema.names
    names = names[:_CELLS] if one.kind != "moved" else ()
    before = {} if one.row is None else cells_of_row(a, names, one.row)
    after = {} if one.other_row is None else cells_of_row(b, names, one.other_row)
    return [(name, before.get(name, ""), after.get(name, "")) for name in names or ("",)]


# A training job: its launches, what each epoch delivered, whether that is proven, and figures that loaders and
# pipelines have saved beside their receipts.


_MOST_FILES: Final = 1_000
_MOST_BYTES: Final = 1 << 20


class SavedStats(NamedTuple):
    """One file: whose figures they are by its name, and the figures, or the ``problem`` why it cannot be read."""

    name: str
    stats: Stats | None
    problem: str = ""


def saved_stats(folder: str) -> list[SavedStats]:
    """The figures in a folder, by name; of very many files the first ones."""
    place = location_of(folder)
    names = sorted(name for name in place.names(folder) if name.endswith(STATS_SUFFIX))[:_MOST_FILES]
    return [_read(os.path.join(folder, name), name.removesuffix(STATS_SUFFIX)) for name in names]


def _read(path: str, name: str) -> SavedStats:
    try:
        content = location_of(path).read(path, _MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError("it is too large")
        return SavedStats(name, Stats.from_dict(json.loads(content)))
    except (OSError, ValueError, RecursionError) as error:
        return SavedStats(name, None, f"cannot be read: {error}")


def run_page(found: AuditReport, stats: Sequence[SavedStats] = ()) -> bytes:
    """The page, in UTF-8, with figures that loaders have saved: it needs no other file and no network, and no script.

    Of long lists it shows a part.
    """
    read = [(one.name, one.stats) for one in stats if one.stats is not None]
    parts = [(part, name, one) for name, one in read for part in one.parts]
    return render(
        "run.html", found=found, orders=[(order, said_of_order(order)) for order in found.orders],
        stats=stats, read=read, stages=[(name, stage) for name, one in read for stage in one.stages],
        parts=sorted(parts, key=lambda one: -one[0].seconds), timed=sum(one.parts_timed for _, one in read),
        parts_s=sum(one.parts_s for _, one in read), ranks_named=ranks_named, duration=_duration, utc_time=utc_time,
    ).encode()  # fmt: skip


def _duration(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * 1e3:,.1f} ms"
