"""Prints what the values of each column are like, with a small histogram."""

from __future__ import annotations

import argparse
from typing import Any

from ..inspection.statistics import ColumnStatistics, column_statistics
from ..parts.part_set import PartSet
from ..sizes import format_size
from .cells import cell_json, cell_text
from .inspect_rows import chosen_columns
from .table import print_table
from .terminal import print_json, say

__all__ = ["show_statistics", "sparkline"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHOWN = ("0.05", "0.5", "0.95")


def show_statistics(parts: PartSet, rows: Any, args: argparse.Namespace) -> None:
    """Prints the statistics of the columns over the rows (None: all)."""
    found = [column_statistics(parts, column.name, rows) for _, column in chosen_columns(parts, args.columns)]
    if args.json:
        print_json([cell_json(_plain(column)) for column in found], indent=2)
        return
    head = ["column", "type", "min", "5%", "median", "95%", "max", "mean", "nulls", "distinct", "histogram"]
    lines = [_line(column) for column in found]
    kept = [place for place in range(len(head)) if place < 2 or any(line[place] for line in lines)]
    align = "<<>>>>>>>><"
    print_table([[row[p] for p in kept] for row in (head, *lines)], "".join(align[p] for p in kept))
    for column in found:
        if column.common:
            listed = ", ".join(f"{cell_text(value, 24)} {count:,}" for value, count in column.common)
            say(f"most frequent {column.name}: {listed}")
    total = parts.rows if rows is None else len(rows)
    about = "" if all(column.exact for column in found) else "; ~ from evenly spaced rows"
    say(f"{total:,} {'row' if total == 1 else 'rows'}{about}")


def _plain(column: ColumnStatistics) -> dict[str, Any]:
    found = column.to_dict()
    found["common"] = [{"value": value, "rows": rows} for value, rows in column.common]
    return found


def _line(column: ColumnStatistics) -> list[str]:
    about = "" if column.exact else "~"
    kind = column.type.rstrip("?")
    blob = "[" in kind or kind in ("bytes", "text", "object")

    def show(value: Any) -> str:
        return format_size(int(value)) if blob else cell_text(value, 20)

    quantiles = ["" if q not in column.quantiles else about + show(column.quantiles[q]) for q in _SHOWN]
    if kind in ("string", "bool"):
        quantiles = [""] * len(_SHOWN)
    mean = "" if column.mean is None or kind == "string" else show(column.mean)
    distinct = "" if blob else "many" if column.distinct is None else f"{column.distinct:,}"
    nulls = " + ".join(
        [*([f"{column.nulls:,}"] if column.nulls else []), *([f"{column.nans:,} NaN"] if column.nans else [])]
    )
    least, most = ("" if value is None else show(value) for value in (column.min, column.max))
    return [
        column.name,
        column.type,
        least,
        *quantiles,
        most,
        mean,
        nulls,
        distinct,
        sparkline(column.counts),
    ]


def sparkline(counts: list[int]) -> str:
    """A histogram as one character a bin; a bin that holds anything is never blank."""
    most = max(counts, default=0)
    if not most or len(counts) < 2:
        return ""
    return "".join(_BLOCKS[0 if not count else max(1, round(8 * count / most))] for count in counts)
