"""Prints rows: as a table, CSV or JSON, or one row in full."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from ..format.column import Column
from ..inspection.sorting import sampled_rows, sorted_rows
from ..loading.samples import SampleReader
from ..parts.part_set import PartSet
from ..query.live_rows import live_rows
from .cells import cell_json, cell_text
from .table import print_table, table
from .terminal import print_csv, print_json, print_json_list, say
from .usage import UsageError

__all__ = ["show_one", "show_rows", "sort_keys"]

_LIMIT: Final = 20
_BATCH: Final = 32


def show_rows(parts: PartSet, rows: Any, args: argparse.Namespace) -> None:
    """Prints the rows (None: all) that sorting, sampling, limit and offset leave."""
    matched = parts.rows if rows is None else len(rows)
    offset = args.offset or 0
    limit = args.limit if args.limit is not None else None if args.csv else _LIMIT
    stop = None if limit is None else offset + limit
    if args.sample is not None:
        rows = sampled_rows(rows, parts.rows, args.sample, args.seed or 0)
        stop = stop if args.limit is not None else None
    elif args.sort is not None:
        rows = sorted_rows(parts, rows, sort_keys(args.sort), stop)
    shown = np.arange(parts.rows, dtype=np.int64)[offset:stop] if rows is None else rows[offset:stop]
    columns = chosen_columns(parts, args.columns)
    samples = _samples(parts, shown, columns)
    if args.csv:
        _print_csv(shown, columns, samples, args.quote_formulas)
    elif args.json:
        _print_json(matched, shown, samples)
    else:
        _print_table(matched, shown, columns, list(samples))


def sort_keys(texts: Sequence[str]) -> list[tuple[str, bool]]:
    """(name, descending) for each of ``a`` and ``-b``."""
    return [(text.removeprefix("-"), text.startswith("-")) for text in texts]


def chosen_columns(parts: PartSet, chosen: Sequence[str] | None) -> list[tuple[int, Column]]:
    """The columns asked for with their ordinals, or all."""
    schema = parts.schema
    ordinals = range(len(schema)) if chosen is None else [schema.ordinal(name) for name in chosen]
    return [(ordinal, schema[ordinal]) for ordinal in ordinals]


def _samples(parts: PartSet, rows: Any, columns: list[tuple[int, Column]]) -> Iterator[dict[str, Any]]:
    reader = SampleReader(parts, columns)
    for start in range(0, len(rows), _BATCH):
        yield from reader.many(np.ascontiguousarray(rows[start : start + _BATCH], np.int64))


def _print_csv(
    rows: Any, columns: list[tuple[int, Column]], samples: Iterator[dict[str, Any]], quote_formulas: bool
) -> None:
    print_csv([["row", *(column.name for _, column in columns)]], quote_formulas)
    lines = (
        [number, *(_csv_cell(sample[column.name]) for _, column in columns)]
        for number, sample in zip(rows.tolist(), samples, strict=True)
    )
    print_csv(lines, quote_formulas)


def _csv_cell(value: Any) -> Any:
    """A scalar exactly, a blob in short; null is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str | np.generic) else cell_text(value)


def _print_json(matched: int, rows: Any, samples: Iterator[dict[str, Any]]) -> None:
    lines = (
        {"row": number, "values": {name: cell_json(value) for name, value in sample.items()}}
        for number, sample in zip(rows.tolist(), samples, strict=True)
    )
    print_json_list({"matched": matched}, "rows", lines)


def _print_table(
    matched: int, rows: Any, columns: list[tuple[int, Column]], samples: list[dict[str, Any]]
) -> None:
    if samples:
        head = ["row", *(column.name for _, column in columns)]
        body = [
            [str(number), *(cell_text(sample[column.name]) for _, column in columns)]
            for number, sample in zip(rows.tolist(), samples, strict=True)
        ]
        align = ">" + "".join("<" if column.dtype is None or column.is_blob else ">" for _, column in columns)
        print_table([head, *body], align)
    rest = "" if len(samples) == matched else f", {len(samples):,} shown"
    say(f"{matched:,} {'row' if matched == 1 else 'rows'}{rest}")


def show_one(parts: PartSet, row: int, chosen: Sequence[str] | None, as_json: bool) -> None:
    """Prints one row, a line a column, texts and objects whole; negative numbers count from the end."""
    number = _number(parts, row)
    columns = chosen_columns(parts, chosen)
    sample = SampleReader(parts, columns).one(number)
    path, place = parts.locate(number)
    if as_json:
        values = {name: cell_json(value) for name, value in sample.items()}
        print_json({"row": number, "part": path, "row_in_part": place, "values": values})
        return
    say(f"row {number:,}: row {place:,} of {path}")
    lines = [[column.name, str(column), cell_text(sample[column.name], 10_000)] for _, column in columns]
    say(*table([["column", "type", "value"], *lines]))


def _number(parts: PartSet, row: int) -> int:
    """The number of a row as it was asked for: −1 is the last one that is there."""
    live = live_rows(parts)
    there = f"there are {len(live):,} rows, numbered from 0"
    if parts.live is not None:
        there += f" to {parts.rows - 1:,}, without those that have been deleted"
    if not -len(live) <= row < parts.rows:
        raise UsageError(f"there is no row {row}: {there}")
    number = row if row >= 0 else live[row]
    if not live.holds(np.array([number]))[0]:
        raise UsageError(f"row {row} has been deleted; `unirecord log` lists the versions that have it")
    return number
