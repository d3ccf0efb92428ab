"""``unirecord inspect PATH``: what a dataset is, which rows it has, and what is in them."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from itertools import chain
from typing import Any, Final

import numpy as np

from ..dataset.dataset import UniRecordDataset
from ..errors import ColumnError
from ..format.column import SCALAR_TYPES, Column, shown_type
from ..format.logical import shown
from ..format.schema import Schema
from ..inspect.cells import samples_of
from ..inspect.describe import ColumnDescription, Description, describe
from ..inspect.reports import dataset_page, write_page
from ..inspect.statistics import (
    ColumnStatistics,
    StringGroups,
    ValueCount,
    column_statistics,
    combination_counts,
    count_rows,
    sampled_rows,
    sorted_rows,
)
from ..loading.batch import SampleReader
from ..progress import Tracker
from ..query import Query, compile_query
from ..query.keys import keys_of, only_row
from ..query.query import live_rows, live_rows_that_meet
from ..sizes import format_size, many
from ..snapshot.part_set import PartSet, resolve
from .arguments import (
    CACHE,
    CACHE_BYTES,
    COLUMNS,
    CSV,
    DATASETS,
    EXTRACT,
    HTML,
    JSON,
    KEY,
    LIMIT,
    OUT,
    ROW,
    ROWS,
    SAMPLE,
    SEED,
    SORT,
    STORAGE,
    WHERE,
    Argument,
    UsageError,
    assigned,
    command,
    count,
    names,
    one_of,
    refuse,
    titled,
    wrong_call,
)
from .cells import cell_json, cell_text, extract_cells, print_samples, sample_json
from .terminal import (
    ProgressBar,
    answer,
    clipped,
    fitted_table,
    print_csv,
    print_csv_counts,
    print_json,
    say,
    table,
    to_json,
    warn,
)

__all__ = ["inspect_command", "sparkline"]


_EXAMPLES: Final = """examples:
  unirecord inspect pictures.urec
  unirecord inspect dataset --rows 20
  unirecord inspect 'parts/*.urec' --json | jq .rows
  unirecord inspect pictures.urec --html report.html"""

_SHOWN_ROWS: Final = 5
_SHOWN_PARTS: Final = 8


@command(
    """Show what a dataset is: schema, rows, parts, what each column takes, the span of its scalar columns, and the
    first rows. Pictures are shown by format and size, arrays by shape and range.""",
    """
    unirecord inspect pictures.urec
    unirecord inspect dataset --rows 20
    unirecord inspect 'parts/*.urec' --json | jq .rows
    unirecord inspect pictures.urec --html report.html
    unirecord inspect data --where 'label == 3 and width >= 512' --columns path,width --limit 50
    unirecord inspect data --where 'path like "%cat%"' --count
    unirecord inspect data --group-by label
    unirecord inspect data --group-by label --mean score --sum bytes
    unirecord inspect data --stats --columns score,width
    unirecord inspect data --exact
    unirecord inspect data --sample 10 --seed 1
    unirecord inspect data --sort=-score --limit 20 --csv > best.csv
    unirecord inspect data --key path=img_17.jpg
    unirecord inspect data --where 'label == 3' --extract image --out threes/
    """,
    DATASETS,
    ROWS.but(type=count, metavar="N", help="show the first N rows (default 5)"),
    one_of(JSON, CSV.but(default=None)),
    HTML.but(help="write a page to look at in a browser: columns, pictures, rows"),
    titled(
        "which rows",
        WHERE,
        COLUMNS,
        LIMIT.but(help="at most N rows or groups (default 20; --csv: all)"),
        Argument("--offset", type=count, metavar="N", help="leave out the first N"),
        one_of(
            SORT.but(type=names, metavar="A,-B", help="by columns; -B is descending (--sort=-B)"),
            SAMPLE.but(help="N rows picked at random"),
        ),
        SEED.but(help="another seed picks other rows (default 0)"),
        Argument(
            "--quote-formulas",
            action="store_true",
            default=None,
            help="with --csv: an apostrophe before texts that a spreadsheet would run (=, +, -, @ …)",
        ),
    ),
    titled(
        "what to show of them",
        one_of(
            Argument("--count", action="store_true", default=None, help="how many there are"),
            Argument("--group-by", type=names, metavar="A,B", help="how many there are of each value"),
            Argument(
                "--stats", action="store_true", default=None, help="what the values of each column are like"
            ),
            ROW.but(type=int, metavar="ID", help="one row in full, by its number; −1 is the last"),
            KEY.but(type=None, metavar="A=VALUE", help="the one row whose column A has the value, in full"),
            EXTRACT,
            Argument("--explain", action="store_true", default=None, help="how --where finds its rows"),
        ),
    ),
    Argument(
        "--exact",
        action="store_true",
        default=None,
        help="count all different values, where hashes only tell about how many; with --stats: look at all values, "
        "beyond 4 million too (8 bytes of memory each)",
    ),
    Argument("--mean", type=names, metavar="A,B", help="with --group-by: the means of these columns"),
    Argument("--sum", type=names, metavar="A,B", help="with --group-by: the sums of these columns"),
    OUT,
    Argument("--name", metavar="COLUMN", help="with --extract: add this column's value to file names"),
    STORAGE,
    CACHE,
    CACHE_BYTES,
)
def inspect_command(args: argparse.Namespace) -> int:
    if len(args.path) == 1:
        args.path = args.path[0]
    if args.html is not None:
        return _write_page(args)
    if _is_query(args):
        return _run_query(args)
    with ProgressBar("counting", 0, "{:,} values".format) as bar:
        found = describe(args.path, exact=args.exact is not None, progress=bar.update)
    shown = min(_SHOWN_ROWS if args.rows is None else args.rows, found.rows)
    if args.json:
        samples = _first_rows(args.path, shown, found)
        content = {**found.to_dict(), "metadata": cell_json(found.metadata)}
        content["columns"] = [cell_json(column) for column in content["columns"]]
        content["first_rows"] = [sample_json(sample) for sample in samples]
        print_json(content)
        return 0
    _print_head(found)
    _print_columns(found)
    _print_parts(found)
    samples = _first_rows(args.path, shown, found)  # a row that is damaged is said below what was found
    if samples:
        names = list(samples[0])
        align = ">" + "".join(">" if _is_number(samples, name) else "<" for name in names)
        lines = (({"row": number}, sample) for number, sample in enumerate(samples))
        say("")
        print_samples(args, {}, "", ["row", *names], lines, align)
    return 0


def _write_page(args: argparse.Namespace) -> int:
    if args.json or args.exact or args.rows is not None or _is_query(args):
        raise UsageError("--html FILE is given alone: the page is of the whole dataset")
    size = write_page(dataset_page(args.path), args.html)
    say(f"{args.html}: {format_size(size)}, to be opened in a browser; it needs no network")
    return 0


def _first_rows(path: Any, rows: int, found: Description) -> list[dict[str, Any]]:
    """The rows; without the columns that cannot be read here, and with a word on that."""
    if not rows:
        return []
    with UniRecordDataset(path) as dataset:
        try:
            return [_shown(dataset.schema, dataset[i]) for i in range(rows)]
        except ColumnError as error:
            warn(f"unirecord: {error}")
            schema = dataset.schema
            plain = [c.name for c in found.columns if c.codec is None and schema[c.name].is_known]
            if not plain:
                return []
            with dataset.view(columns=plain) as view:
                return [_shown(schema, view[i]) for i in range(rows)]


def _shown(schema: Schema, sample: dict[str, Any]) -> dict[str, Any]:
    """A sample with text for the values whose logical types have one: times, decimals, classes."""
    return {name: schema[name].shown(value) for name, value in sample.items()}


def _is_number(samples: list[dict[str, Any]], name: str) -> bool:
    return all(isinstance(s[name], np.integer | np.floating | None) for s in samples)


def _print_head(found: Description) -> None:
    parts = f", {many(len(found.parts), 'part')}" if found.kind != "part" else ""
    say(f"{found.path}  ({'one part' if found.kind == 'part' else found.kind})")
    say(
        f"{many(found.rows, 'row')}{parts}, {format_size(found.data_bytes)} data "
        f"+ {format_size(found.index_bytes)} index, id {found.identity}"
    )
    if found.deleted:
        say(found.said_of_deleted)
    if found.metadata is not None:
        text = to_json(cell_json(found.metadata))
        say(f"metadata  {clipped(text, max(40, shutil.get_terminal_size((160, 24)).columns - 10))}")


def _print_columns(found: Description) -> None:
    head = ["column", "type", "codec", "raw", "data", "index", "min", "max", "distinct", "nulls", ""]
    rows = [head, *(_column_row(column) for column in found.columns)]
    kept = [
        i for i in range(len(head)) if i in (0, 1, 4, 5) or any(row[i] not in ("", "0") for row in rows[1:])
    ]
    say("")
    align = "<<<>>><<>><"
    say(*fitted_table([[row[i] for i in kept] for row in rows], "".join(align[i] for i in kept)))
    width = max(40, shutil.get_terminal_size((160, 24)).columns)
    for column in found.columns:
        said = [] if column.logical is None else [f"logical type {shown(column.logical)}"]
        more = ({} if column.chunks is None else {"chunks": column.chunks}) | column.annotations
        for name, value in more.items():
            said.append(f"{name} {value if isinstance(value, str) else to_json(cell_json(value))}")
        for one in said:
            say(clipped(f"{column.name}: {one}", width))
    other_data = found.data_bytes - sum(c.data_bytes for c in found.columns)
    other_index = found.index_bytes - sum(c.index_bytes for c in found.columns)
    about = "" if all(c.exact for c in found.columns) else "about "
    say(
        f"besides: {about}{format_size(max(other_data, 0))} of heads, digests and padding in the data, "
        f"{format_size(max(other_index, 0))} of places and digests in the index"
    )


def _column_row(column: ColumnDescription) -> list[str]:
    shape = (
        "" if column.shape is None else f"[{', '.join('any' if d == -1 else str(d) for d in column.shape)}]"
    )
    about = "" if column.exact else "~"
    type_name = shown_type(column.type)
    scalar = column.shape is None and column.type.removesuffix("?") in SCALAR_TYPES
    about_distinct = "" if column.distinct_exact else "~"
    distinct = (
        "" if not scalar else "many" if column.distinct is None else f"{about_distinct}{column.distinct:,}"
    )
    return [
        column.name,
        type_name + shape,
        column.codec or "",
        about + format_size(column.raw_bytes) if column.codec else "",
        about + format_size(column.data_bytes),
        format_size(column.index_bytes),
        "" if column.min is None else cell_text(column.min, 24),
        "" if column.max is None else cell_text(column.max, 24),
        distinct,
        f"{column.nulls:,}" if column.nullable else "",
        "indexed" if column.indexed else "",
    ]


def _print_parts(found: Description) -> None:
    if found.kind == "part" or not found.parts:
        return
    say("")
    shown = found.parts if len(found.parts) <= _SHOWN_PARTS + 2 else found.parts[:_SHOWN_PARTS]
    rows = [
        [p.name, f"{p.rows:,}", format_size(p.data_bytes), format_size(p.index_bytes), p.id] for p in shown
    ]
    say(*fitted_table([["part", "rows", "data", "index", "id"], *rows], "<>>><"))
    if len(shown) < len(found.parts):
        say(f"… and {len(found.parts) - len(shown):,} more parts")


# What each view takes beside --where and --json.
_VIEWS: Final = {
    "count": (),
    "group_by": ("mean", "sum", "limit", "offset", "sort", "csv", "quote_formulas"),
    "stats": ("columns", "exact"),
    "row": ("columns",),
    "key": ("columns",),
    "extract": ("limit", "offset", "out", "name"),
    "explain": (),
}
_OTHERS: Final = (
    "where",
    "columns",
    "limit",
    "offset",
    "sort",
    "sample",
    "csv",
    "quote_formulas",
    "seed",
    "out",
    "name",
    "mean",
    "sum",
)


def _is_query(args: argparse.Namespace) -> bool:
    """Whether any of the options was given."""
    return any(getattr(args, option) is not None for option in (*_VIEWS, *_OTHERS))


def _run_query(args: argparse.Namespace) -> int:
    """Answers the question."""
    _check(args)
    parts = PartSet(resolve(args.path), io="auto", knows_deletions=True)
    with closing(parts), wrong_call(plain=()):
        query = None if args.where is None else compile_query(args.where, parts.schema)
        _show(args, parts, query)
    return 0


def _check(args: argparse.Namespace) -> None:
    _check_taken(args)
    refuse(
        {
            "--quote-formulas goes with --csv": args.quote_formulas and not args.csv,
            "--extract COLUMN and --out DIR go together": (args.extract is None) != (args.out is None),
            "--name goes with --extract": args.name is not None and args.extract is None,
            "--exact is of a whole dataset, or goes with --stats": args.exact and not args.stats,
            "--mean and --sum go with --group-by": (args.mean or args.sum) and args.group_by is None,
            "--seed goes with --sample": args.seed is not None and args.sample is None,
            "--explain needs --where": args.explain and args.where is None,
        }
    )


def _check_taken(args: argparse.Namespace) -> None:
    """Refuses options that what is asked for would not obey."""
    if args.rows is not None:
        raise UsageError("--rows is for the first rows of a whole dataset; of chosen ones use --limit")
    view = next((view for view in _VIEWS if getattr(args, view) is not None), None)
    if view is None:
        return
    taken = (*_VIEWS[view], *(("where",) if view not in ("row", "key") else ()))
    left = [_flag(option) for option in _OTHERS if getattr(args, option) is not None and option not in taken]
    if left:
        may = f"it takes {', '.join([*map(_flag, taken), '--json'])}"
        raise UsageError(f"{_flag(view)} cannot be given with {', '.join(left)}: {may}")


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _show(args: argparse.Namespace, parts: PartSet, query: Query | None) -> None:
    if args.count:
        found = _count(parts, query)
        answer(args, {"rows": found}, [str(found)])
        return
    if args.explain and query is not None:
        _explain(args, parts, query)
        return
    if args.row is not None:
        show_one(parts, args, _number(parts, args.row))
        return
    if args.key is not None:
        show_one(parts, args, _row_of_key(parts, args.key))
        return
    rows = _rows(parts, query)
    if args.group_by is not None:
        show_groups(parts, rows, args)
    elif args.stats:
        show_statistics(parts, rows, args)
    elif args.extract is not None:
        first = args.offset or 0
        chosen = np.arange(parts.rows, dtype=np.int64) if rows is None else rows
        chosen = chosen[first : None if args.limit is None else first + args.limit]
        extract_cells(args, parts, chosen, args.name)
    else:
        show_rows(parts, rows, args)


def _explain(args: argparse.Namespace, parts: PartSet, query: Query) -> None:
    explanation = query.explain(parts)
    said = str(explanation).split("\n")
    if parts.live is not None:
        left = len(live_rows_that_meet(parts, query))
        said.append(f"this is of rows as they are stored; {left:,} of those found have not been deleted")
    answer(args, explanation, said)


def _count(parts: PartSet, query: Query | None) -> int:
    if query is None:
        return len(live_rows(parts))
    return query.count(parts) if parts.live is None else len(live_rows_that_meet(parts, query))


def _rows(parts: PartSet, query: Query | None) -> Any:
    """The rows that are there and meet the condition; None for all that are stored."""
    if query is None:
        return None if parts.live is None else live_rows(parts).every()
    return live_rows_that_meet(parts, query)


_LIMIT: Final = 20


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
    read = samples_of(SampleReader(parts, columns), shown)
    samples = (({"row": row}, _shown(parts.schema, sample)) for row, sample in read)
    align = ">" + "".join("<" if column.dtype is None or column.is_blob else ">" for _, column in columns)
    if args.csv or args.json or len(shown):
        names = ["row", *(column.name for _, column in columns)]
        print_samples(args, {"matched": matched}, "rows", names, samples, align)
    if not args.csv and not args.json:
        say(many(matched, "row") + ("" if len(shown) == matched else f", {len(shown):,} shown"))


def sort_keys(texts: Sequence[str]) -> list[tuple[str, bool]]:
    """(name, descending) for each of ``a`` and ``-b``."""
    return [(text.removeprefix("-"), text.startswith("-")) for text in texts]


def chosen_columns(parts: PartSet, chosen: Sequence[str] | None) -> list[tuple[int, Column]]:
    """The columns asked for with their ordinals, or all."""
    schema = parts.schema
    ordinals = range(len(schema)) if chosen is None else [schema.ordinal(name) for name in chosen]
    return [(ordinal, schema[ordinal]) for ordinal in ordinals]


def show_one(parts: PartSet, args: argparse.Namespace, number: int) -> None:
    """Prints one row, a line a column, texts and objects whole."""
    columns = chosen_columns(parts, args.columns)
    sample = _shown(parts.schema, SampleReader(parts, columns).one(number))
    path, place = parts.locate(number)
    lines = [[column.name, str(column), cell_text(sample[column.name], 10_000)] for _, column in columns]
    said = [f"row {number:,}: row {place:,} of {path}", *table([["column", "type", "value"], *lines])]
    answer(args, {"row": number, "part": path, "row_in_part": place, "values": sample_json(sample)}, said)


def _row_of_key(parts: PartSet, asked: str) -> int:
    """The row that ``A=VALUE`` asks for; of a column of numbers the value is one."""
    try:
        name, text = assigned(asked)
    except ValueError:
        raise UsageError(
            f"--key takes COLUMN=VALUE, such as --key path=img_17.jpg, and not {asked!r}"
        ) from None
    keys = keys_of(parts, name)
    value = keys.read(text)
    live = live_rows(parts)
    return only_row([row for row in keys.rows(value) if live.holds(np.array([row]))[0]], keys, value)


def _number(parts: PartSet, row: int) -> int:
    """The number of a row as it was asked for: −1 is the last one that is there."""
    live = live_rows(parts)
    there = f"there are {many(len(live), 'row')}, numbered from 0"
    if parts.live is not None:
        there += f" to {parts.rows - 1:,}, without those that have been deleted"
    if not -len(live) <= row < parts.rows:
        raise UsageError(f"there is no row {row}: {there}")
    number = row if row >= 0 else live[row]
    if not live.holds(np.array([number]))[0]:
        raise UsageError(f"row {row} has been deleted; `unirecord log` lists the versions that have it")
    return number


Figures = dict[
    str, tuple[int, str, Column]
]  # by its name: which of a group's totals, mean or sum of it, of what

_GROUPS_LIMIT = 50
_BAR = 30


def show_groups(parts: PartSet, rows: Any, args: argparse.Namespace) -> None:
    """Prints the groups of the rows (None: all) by value, or as ``--sort`` says: by columns, or by ``count``."""
    shown_totals = _asked_totals(args)
    of = list(dict.fromkeys(name for _, name in shown_totals))
    groups = combination_counts(parts, args.group_by, rows, of)
    schema = parts.schema
    figures = {f"{kind} {name}": (of.index(name), kind, schema[name]) for kind, name in shown_totals}
    for name, descending in reversed(sort_keys(args.sort or [])):
        groups = _sorted(groups, args.group_by, figures, name, descending)
    offset = args.offset or 0
    limit = args.limit if args.limit is not None else None if args.csv or args.json else _GROUPS_LIMIT
    stop = len(groups) if limit is None else offset + limit
    head = [*args.group_by, "rows", *figures]
    if args.csv and isinstance(groups, StringGroups) and schema[args.group_by[0]].meaning is None:
        print_csv([head], args.quote_formulas)
        print_csv_counts(groups.pieces(offset, stop), args.quote_formulas)
        return
    chosen = groups if (offset, stop) == (0, len(groups)) else groups[offset:stop]
    shown = (
        group._replace(
            values=tuple(schema[n].shown(v) for n, v in zip(args.group_by, group.values, strict=True))
        )
        for group in chosen
    )
    if args.csv:
        lines = (
            [*(_csv(v) for v in (*group.values, group.rows, *_figures(group, figures)))] for group in shown
        )
        print_csv(chain([head], lines), args.quote_formulas)
    elif args.json:
        listed = [
            {
                "values": [cell_json(v) for v in group.values],
                "rows": group.rows,
                **dict(zip(figures, map(cell_json, _figures(group, figures)), strict=True)),
            }
            for group in shown
        ]
        print_json({"by": args.group_by, "groups": len(groups), "counts": listed})
    else:
        _print(len(groups), count_rows(parts, rows), list(shown), args.group_by, figures)


def _asked_totals(args: argparse.Namespace) -> list[tuple[str, str]]:
    """(mean or sum, column) for each figure that is asked for."""
    return [*(("mean", name) for name in args.mean or []), *(("sum", name) for name in args.sum or [])]


def _figure(group: ValueCount, place: int, kind: str) -> Any:
    return group.totals[place].mean if kind == "mean" else group.totals[place].sum


def _figures(group: ValueCount, figures: Figures) -> list[Any]:
    """The figures for people: of times and dates a mean alone has a meaning, of classes neither; those stay numbers."""
    found = []
    for place, kind, column in figures.values():
        value = _figure(group, place, kind)
        meaning = "" if column.meaning is None else column.meaning.name
        averaged = kind == "mean" and meaning in ("timestamp", "date", "time")
        known = value is not None and (averaged or meaning in ("decimal", "duration"))
        number = float(value) if isinstance(value, Fraction) else value
        found.append(column.shown(round(value)) if known else number)
    return found


def _csv(value: Any) -> Any:
    return "" if value is None else value


def _sorted(
    groups: Sequence[ValueCount], by: list[str], figures: Figures, name: str, descending: bool
) -> Sequence[ValueCount]:
    by_rows = name == "count" and name not in by
    if isinstance(groups, StringGroups) and (by_rows or name in by):
        return groups.sorted(by_rows, descending)
    if by_rows:
        return sorted(groups, key=lambda group: group.rows, reverse=descending)
    if name in by:
        place = by.index(name)
        values = [group.values[place] for group in groups]
    elif name in figures:
        values = [_figure(group, *figures[name][:2]) for group in groups]
    else:
        known = ", ".join([*by, *figures])
        raise UsageError(f"groups can be sorted by {known} or count, not by {name}")
    keyed = list(zip(values, groups, strict=True))
    late = [group for value, group in keyed if value is None or value != value]
    early = [(value, group) for value, group in keyed if value is not None and value == value]
    return [*(group for _, group in sorted(early, key=lambda one: one[0], reverse=descending)), *late]


def _print(groups: int, total: int, shown: list[ValueCount], by: list[str], figures: Figures) -> None:
    most = max((group.rows for group in shown), default=1)
    lines = [
        [
            *(cell_text(value) for value in group.values),
            *(_aggregate(value) for value in _figures(group, figures)),
            f"{group.rows:,}",
            f"{group.rows / total:.1%}",
            "█" * max(1, round(_BAR * group.rows / most)),
        ]
        for group in shown
    ]
    head = [*by, *figures, "rows", "share", ""]
    say(*fitted_table([head, *lines], "<" * len(by) + ">" * len(figures) + ">><"))
    rest = "" if len(shown) == groups else f", {len(shown):,} shown"
    say(f"{many(groups, 'group')} of {many(total, 'row')}{rest}")


def _aggregate(value: Any) -> str:
    if value is None or isinstance(value, str):
        return "null" if value is None else value
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHOWN = ("0.05", "0.5", "0.95")


def show_statistics(parts: PartSet, rows: Any, args: argparse.Namespace) -> None:
    """Prints the statistics of the columns over the rows (None: all)."""
    columns = [column for _, column in chosen_columns(parts, args.columns)]
    with ProgressBar("counting", 0, "{:,} values".format) as bar:
        counted = Tracker(count_rows(parts, rows) * len(columns), bar.update)
        exact = args.exact is not None
        found = [
            column_statistics(parts, column.name, rows, exact=exact, read=counted.advance).shown(column)
            for column in columns
        ]
    answer(args, [cell_json(_plain(column)) for column in found], _statistics(parts, rows, found))


def _statistics(parts: PartSet, rows: Any, found: Sequence[ColumnStatistics]) -> Iterator[str]:
    head = ["column", "type", "min", "5%", "median", "95%", "max", "mean", "nulls", "distinct", "histogram"]
    lines = [_line(column) for column in found]
    kept = [place for place in range(len(head)) if place < 2 or any(line[place] for line in lines)]
    align = "".join("<<>>>>>>>><"[place] for place in kept)
    yield from fitted_table([[row[place] for place in kept] for row in (head, *lines)], align)
    for column in found:
        if column.common:
            listed = ", ".join(f"{cell_text(value, 24)} {count:,}" for value, count in column.common)
            yield f"most frequent {column.name}: {listed}"
    about = "" if all(column.exact for column in found) else "; ~ from evenly spaced rows, --exact for all"
    yield f"{many(parts.rows if rows is None else len(rows), 'row')}{about}"


def _plain(column: ColumnStatistics) -> dict[str, Any]:
    found = column.to_dict()
    found["common"] = [{"value": value, "rows": rows} for value, rows in column.common]
    return found


def _line(column: ColumnStatistics) -> list[str]:
    about = "" if column.exact else "~"
    kind = column.type.rstrip("?")
    blob = kind not in SCALAR_TYPES

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
        shown_type(column.type),
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
