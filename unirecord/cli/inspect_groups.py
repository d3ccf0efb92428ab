"""Prints how many rows there are of each value of a column, and means and sums of other columns in each."""

from __future__ import annotations

import argparse
from typing import Any

from ..inspection.group_by import ValueCount, combination_counts
from ..parts.part_set import PartSet
from .cells import cell_json, cell_text
from .inspect_rows import sort_keys
from .table import print_table
from .terminal import print_csv, print_json, say
from .usage import UsageError

__all__ = ["show_groups"]

Figures = dict[str, tuple[int, str]]  # by its name: which of a group's totals, and mean or sum of it

_LIMIT = 50
_BAR = 30


def show_groups(parts: PartSet, rows: Any, args: argparse.Namespace) -> None:
    """Prints the groups of the rows (None: all) by value, or as ``--sort`` says: by columns, or by ``count``."""
    shown_totals = _asked_totals(args)
    of = list(dict.fromkeys(name for _, name in shown_totals))
    groups = combination_counts(parts, args.group_by, rows, of)
    figures = {f"{kind} {name}": (of.index(name), kind) for kind, name in shown_totals}
    for name, descending in reversed(sort_keys(args.sort or [])):
        groups = _sorted(groups, args.group_by, figures, name, descending)
    offset = args.offset or 0
    limit = args.limit if args.limit is not None else None if args.csv or args.json else _LIMIT
    shown = groups[offset : None if limit is None else offset + limit]
    if args.csv:
        lines = (
            [*(_csv(v) for v in (*group.values, group.rows, *_figures(group, figures)))] for group in shown
        )
        print_csv([[*args.group_by, "rows", *figures], *lines], args.quote_formulas)
    elif args.json:
        listed = [
            {
                "values": [cell_json(v) for v in group.values],
                "rows": group.rows,
                **{name: cell_json(_figure(group, *figure)) for name, figure in figures.items()},
            }
            for group in shown
        ]
        print_json({"by": args.group_by, "groups": len(groups), "counts": listed})
    else:
        _print(groups, shown, args.group_by, figures)


def _asked_totals(args: argparse.Namespace) -> list[tuple[str, str]]:
    """(mean or sum, column) for each figure that is asked for."""
    return [*(("mean", name) for name in args.mean or []), *(("sum", name) for name in args.sum or [])]


def _figure(group: ValueCount, place: int, kind: str) -> Any:
    return group.totals[place].mean if kind == "mean" else group.totals[place].sum


def _figures(group: ValueCount, figures: Figures) -> list[Any]:
    return [_figure(group, *figure) for figure in figures.values()]


def _csv(value: Any) -> Any:
    return "" if value is None else value


def _sorted(
    groups: list[ValueCount], by: list[str], figures: Figures, name: str, descending: bool
) -> list[ValueCount]:
    if name == "count" and name not in by:
        return sorted(groups, key=lambda group: group.rows, reverse=descending)
    if name in by:
        place = by.index(name)
        values = [group.values[place] for group in groups]
    elif name in figures:
        values = [_figure(group, *figures[name]) for group in groups]
    else:
        known = ", ".join([*by, *figures])
        raise UsageError(f"groups can be sorted by {known} or count, not by {name}")
    keyed = list(zip(values, groups, strict=True))
    late = [group for value, group in keyed if value is None or value != value]
    early = [(value, group) for value, group in keyed if value is not None and value == value]
    return [*(group for _, group in sorted(early, key=lambda one: one[0], reverse=descending)), *late]


def _print(groups: list[ValueCount], shown: list[ValueCount], by: list[str], figures: Figures) -> None:
    total = sum(group.rows for group in groups)
    most = max((group.rows for group in shown), default=1)
    lines = [
        [
            *(cell_text(value) for value in group.values),
            *(_number(value) for value in _figures(group, figures)),
            f"{group.rows:,}",
            f"{group.rows / total:.1%}",
            "█" * max(1, round(_BAR * group.rows / most)),
        ]
        for group in shown
    ]
    head = [*by, *figures, "rows", "share", ""]
    print_table([head, *lines], "<" * len(by) + ">" * len(figures) + ">><")
    rest = "" if len(shown) == len(groups) else f", {len(shown):,} shown"
    say(f"{len(groups):,} {'group' if len(groups) == 1 else 'groups'} of {total:,} rows{rest}")


def _number(value: Any) -> str:
    return "null" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
