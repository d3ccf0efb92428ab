"""Prints how many rows there are of each value of a column."""

from __future__ import annotations

import argparse
from typing import Any

from ..inspection.group_by import ValueCount, combination_counts
from ..parts.part_set import PartSet
from .cells import cell_json, cell_text
from .inspect_rows import sort_keys
from .table import table
from .terminal import print_csv, print_json, say
from .usage import UsageError

__all__ = ["show_groups"]

_LIMIT = 50
_BAR = 30


def show_groups(parts: PartSet, rows: Any, args: argparse.Namespace) -> None:
    """Prints the groups of the rows (None: all) by value, or as ``--sort`` says: by columns, or by ``count``."""
    groups = combination_counts(parts, args.group_by, rows)
    for name, descending in reversed(sort_keys(args.sort or [])):
        groups = _sorted(groups, args.group_by, name, descending)
    offset = args.offset or 0
    limit = args.limit if args.limit is not None else None if args.csv or args.json else _LIMIT
    shown = groups[offset : None if limit is None else offset + limit]
    if args.csv:
        counts = ([*("" if v is None else v for v in group.values), group.rows] for group in shown)
        print_csv([[*args.group_by, "rows"], *counts], args.quote_formulas)
    elif args.json:
        listed = [{"values": [cell_json(v) for v in group.values], "rows": group.rows} for group in shown]
        print_json({"by": args.group_by, "groups": len(groups), "counts": listed})
    else:
        _print(groups, shown, args.group_by)


def _sorted(groups: list[ValueCount], by: list[str], name: str, descending: bool) -> list[ValueCount]:
    if name == "count" and name not in by:
        return sorted(groups, key=lambda group: group.rows, reverse=descending)
    if name not in by:
        raise UsageError(f"groups can be sorted by {', '.join(by)} or count, not by {name}")
    place = by.index(name)
    late = [group for group in groups if (value := group.values[place]) is None or value != value]
    early = [group for group in groups if (value := group.values[place]) is not None and value == value]
    return [*sorted(early, key=lambda group: group.values[place], reverse=descending), *late]


def _print(groups: list[ValueCount], shown: list[ValueCount], by: list[str]) -> None:
    total = sum(group.rows for group in groups)
    most = max((group.rows for group in shown), default=1)
    lines = [
        [
            *(cell_text(value) for value in group.values),
            f"{group.rows:,}",
            f"{group.rows / total:.1%}",
            "█" * max(1, round(_BAR * group.rows / most)),
        ]
        for group in shown
    ]
    for line in table([[*by, "rows", "share", ""], *lines], "<" * len(by) + ">><"):
        say(line)
    rest = "" if len(shown) == len(groups) else f", {len(shown):,} shown"
    say(f"{len(groups):,} {'group' if len(groups) == 1 else 'groups'} of {total:,} rows{rest}")
