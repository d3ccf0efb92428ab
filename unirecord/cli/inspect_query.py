"""``unirecord inspect`` with a question: which rows, how many, of which kinds, and what is in them."""

from __future__ import annotations

import argparse
from typing import Any, Final

import numpy as np

from ..errors import ExistsError, SchemaError
from ..inspection.extract import extract
from ..parts.part_set import PartSet, resolve
from ..query import Query, compile_query
from ..query.live_rows import live_rows, live_rows_that_meet
from ..sizes import format_size
from .inspect_groups import show_groups
from .inspect_rows import show_one, show_rows
from .inspect_statistics import show_statistics
from .terminal import print_json, say
from .usage import UsageError, count, names

__all__ = ["EXAMPLES", "add_arguments", "run", "wanted"]

EXAMPLES: Final = """  unirecord inspect data --where 'label == 3 and width >= 512' --columns path,width --limit 50
  unirecord inspect data --where 'path like "%cat%"' --count
  unirecord inspect data --group-by label
  unirecord inspect data --group-by label --mean score --sum bytes
  unirecord inspect data --stats --columns score,width
  unirecord inspect data --sample 10 --seed 1
  unirecord inspect data --sort=-score --limit 20 --csv > best.csv
  unirecord inspect data --where 'label == 3' --extract image --out threes/"""

# What each view takes beside --where and --json.
_VIEWS: Final = {
    "count": (),
    "group_by": ("mean", "sum", "limit", "offset", "sort", "csv", "quote_formulas"),
    "stats": ("columns",),
    "row": ("columns",),
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the questions."""
    rows = parser.add_argument_group("which rows")
    rows.add_argument("--where", metavar="CONDITION", help="only rows that meet it, such as 'label == 3'")
    rows.add_argument("--columns", type=names, metavar="A,B", help="only these columns")
    rows.add_argument(
        "--limit", type=count, metavar="N", help="at most N rows or groups (default 20; --csv: all)"
    )
    rows.add_argument("--offset", type=count, default=None, metavar="N", help="leave out the first N")
    rows.add_argument("--sort", type=names, metavar="A,-B", help="by columns; -B is descending (--sort=-B)")
    rows.add_argument("--sample", type=count, metavar="N", help="N rows picked at random")
    rows.add_argument("--seed", type=int, default=None, help="another seed picks other rows (default 0)")
    rows.add_argument("--csv", action="store_true", default=None, help="print as CSV")
    rows.add_argument(
        "--quote-formulas",
        action="store_true",
        default=None,
        help="with --csv: an apostrophe before texts that a spreadsheet would run (=, +, -, @ …)",
    )
    views = parser.add_argument_group("what to show of them").add_mutually_exclusive_group()
    views.add_argument("--count", action="store_true", default=None, help="how many there are")
    views.add_argument("--group-by", type=names, metavar="A,B", help="how many there are of each value")
    views.add_argument(
        "--stats", action="store_true", default=None, help="what the values of each column are like"
    )
    views.add_argument("--row", type=int, metavar="ID", help="one row in full, by its number; −1 is the last")
    views.add_argument("--extract", metavar="COLUMN", help="write this column's blobs to files in --out")
    views.add_argument("--explain", action="store_true", default=None, help="how --where finds its rows")
    parser.add_argument(
        "--mean", type=names, metavar="A,B", help="with --group-by: the means of these columns"
    )
    parser.add_argument("--sum", type=names, metavar="A,B", help="with --group-by: the sums of these columns")
    parser.add_argument("--out", metavar="DIR", help="folder for --extract, made if need be")
    parser.add_argument(
        "--name", metavar="COLUMN", help="with --extract: add this column's value to file names"
    )


def wanted(args: argparse.Namespace) -> bool:
    """Whether any of the options was given."""
    return any(getattr(args, option) is not None for option in (*_VIEWS, *_OTHERS))


def run(args: argparse.Namespace) -> int:
    """Answers the question."""
    _check(args)
    parts = PartSet(resolve(args.path), io="auto", knows_deletions=True)
    try:
        query = None if args.where is None else compile_query(args.where, parts.schema)
        _show(args, parts, query)
    except (SchemaError, ExistsError) as error:
        raise UsageError(str(error)) from error
    finally:
        parts.close()
    return 0


def _check(args: argparse.Namespace) -> None:
    _check_taken(args)
    if args.csv and args.json:
        raise UsageError("--csv and --json cannot both be given")
    if args.quote_formulas and not args.csv:
        raise UsageError("--quote-formulas goes with --csv")
    if (args.extract is None) != (args.out is None):
        raise UsageError("--extract COLUMN and --out DIR go together")
    if args.name is not None and args.extract is None:
        raise UsageError("--name goes with --extract")
    if (args.mean is not None or args.sum is not None) and args.group_by is None:
        raise UsageError("--mean and --sum go with --group-by")
    if args.seed is not None and args.sample is None:
        raise UsageError("--seed goes with --sample")
    if args.sample is not None and args.sort is not None:
        raise UsageError("--sample and --sort cannot both be given")
    if args.explain and args.where is None:
        raise UsageError("--explain needs --where")


def _check_taken(args: argparse.Namespace) -> None:
    """Refuses options that what is asked for would not obey."""
    if args.rows is not None:
        raise UsageError("--rows is for the first rows of a whole dataset; of chosen ones use --limit")
    view = next((view for view in _VIEWS if getattr(args, view) is not None), None)
    if view is None:
        return
    taken = (*_VIEWS[view], *(("where",) if view != "row" else ()))
    left = [_flag(option) for option in _OTHERS if getattr(args, option) is not None and option not in taken]
    if left:
        may = f"it takes {', '.join([*map(_flag, taken), '--json'])}"
        raise UsageError(f"{_flag(view)} cannot be given with {', '.join(left)}: {may}")


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _show(args: argparse.Namespace, parts: PartSet, query: Query | None) -> None:
    if args.count:
        found = _count(parts, query)
        if args.json:
            print_json({"rows": found})
        else:
            say(str(found))
        return
    if args.explain and query is not None:
        _explain(args, parts, query)
        return
    if args.row is not None:
        show_one(parts, args.row, args.columns, args.json)
        return
    rows = _rows(parts, query)
    if args.group_by is not None:
        show_groups(parts, rows, args)
    elif args.stats:
        show_statistics(parts, rows, args)
    elif args.extract is not None:
        _extract(args, parts, rows)
    else:
        show_rows(parts, rows, args)


def _explain(args: argparse.Namespace, parts: PartSet, query: Query) -> None:
    explanation = query.explain(parts)
    if args.json:
        print_json(explanation.to_dict(), indent=2)
        return
    say(*str(explanation).split("\n"))
    if parts.live is not None:
        left = len(live_rows_that_meet(parts, query))
        say(f"this is of rows as they are stored; {left:,} of those found have not been deleted")


def _count(parts: PartSet, query: Query | None) -> int:
    if query is None:
        return len(live_rows(parts))
    return query.count(parts) if parts.live is None else len(live_rows_that_meet(parts, query))


def _rows(parts: PartSet, query: Query | None) -> Any:
    """The rows that are there and meet the condition; None for all that are stored."""
    if query is None:
        return None if parts.live is None else live_rows(parts).every()
    return live_rows_that_meet(parts, query)


def _extract(args: argparse.Namespace, parts: PartSet, rows: Any) -> None:
    first = args.offset or 0
    stop = None if args.limit is None else first + args.limit
    chosen = (np.arange(parts.rows, dtype=np.int64) if rows is None else rows)[first:stop]
    done = extract(parts, chosen, args.extract, args.out, args.name)
    if args.json:
        print_json({"folder": done.folder, "files": done.files, "bytes": done.bytes, "nulls": done.nulls})
    else:
        files = f"{done.files:,} {'file' if done.files == 1 else 'files'}"
        left_out = (
            f"; {done.nulls:,} {'null' if done.nulls == 1 else 'nulls'} without a file" if done.nulls else ""
        )
        say(f"{files}, {format_size(done.bytes)}, in {done.folder}{left_out}")
