"""``unirecord inspect PATH``: what a dataset is and what its first rows are."""

from __future__ import annotations

import argparse
import shutil
from typing import Any, Final

import numpy as np

from ..dataset.dataset import UniRecordDataset
from ..errors import CodecError
from ..inspection.describe import ColumnDescription, Description, describe
from ..inspection.html_report import write_html_report
from ..sizes import format_size
from . import inspect_query
from .cache_option import add_cache_options
from .cells import cell_json, cell_text
from .storage_option import add_storage_option
from .table import clipped, print_table
from .terminal import print_json, say, to_json, warn
from .usage import UsageError, count, make_parser

__all__ = ["add_parser", "print_rows", "sample_json"]

_DESCRIPTION: Final = """Show what a dataset is: schema, rows, parts, what each column takes, the span of its scalar
columns, and the first rows. Pictures are shown by format and size, arrays by shape and range."""

_EXAMPLES: Final = """examples:
  unirecord inspect pictures.urec
  unirecord inspect dataset --rows 20
  unirecord inspect 'parts/*.urec' --json | jq .rows
  unirecord inspect pictures.urec --html report.html"""

_SHOWN_ROWS: Final = 5
_SHOWN_PARTS: Final = 8


def add_parser(subparsers: Any) -> None:
    """Add the command, with the options of the views that `inspect_query` has."""
    parser = make_parser(
        subparsers.add_parser,
        "inspect",
        aliases=["info", "head", "ls"],
        help="look inside a dataset",
        description=_DESCRIPTION,
        epilog=f"{_EXAMPLES}\n{inspect_query.EXAMPLES}",
    )
    parser.add_argument(
        "path", metavar="PATH", nargs="+", help="a part, a directory of parts, a glob, or several"
    )
    parser.add_argument("--rows", type=count, metavar="N", help="show the first N rows (default 5)")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page to look at in a browser: columns, pictures, rows"
    )
    inspect_query.add_arguments(parser)
    add_storage_option(parser)
    add_cache_options(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if len(args.path) == 1:
        args.path = args.path[0]
    if args.html is not None:
        return _write_page(args)
    if inspect_query.wanted(args):
        return inspect_query.run(args)
    found = describe(args.path)
    shown = min(_SHOWN_ROWS if args.rows is None else args.rows, found.rows)
    if args.json:
        samples = _first_rows(args.path, shown, found)
        content = {**found.to_dict(), "metadata": cell_json(found.metadata)}
        content["columns"] = [cell_json(column) for column in content["columns"]]
        content["first_rows"] = [sample_json(sample) for sample in samples]
        print_json(content, indent=2)
        return 0
    _print_head(found)
    _print_columns(found)
    _print_parts(found)
    samples = _first_rows(args.path, shown, found)  # a row that is damaged is said below what was found
    if samples:
        say("")
        print_rows(range(len(samples)), samples)
    return 0


def _write_page(args: argparse.Namespace) -> int:
    if args.json or args.rows is not None or inspect_query.wanted(args):
        raise UsageError("--html FILE is given alone: the page is of the whole dataset")
    size = write_html_report(args.path, args.html)
    say(f"{args.html}: {format_size(size)}, to be opened in a browser; it needs no network")
    return 0


def _first_rows(path: Any, rows: int, found: Description) -> list[dict[str, Any]]:
    """The rows; without the compressed columns, and with a word on that, where these cannot be read here."""
    if not rows:
        return []
    with UniRecordDataset(path) as dataset:
        try:
            return [dataset[i] for i in range(rows)]
        except CodecError as error:
            warn(f"unirecord: {error}")
            plain = [column.name for column in found.columns if column.codec is None]
            if not plain:
                return []
            with dataset.view(columns=plain) as view:
                return [view[i] for i in range(rows)]


def sample_json(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample as JSON can hold it."""
    return {name: cell_json(value) for name, value in sample.items()}


def print_rows(numbers: Any, samples: list[dict[str, Any]]) -> None:
    """Print samples as a table, one line each, cut at the terminal's width; ``numbers`` are their row ids."""
    names = list(samples[0])
    body = [[str(n), *(cell_text(s[name]) for name in names)] for n, s in zip(numbers, samples, strict=True)]
    align = ">" + "".join(">" if _is_number(samples, name) else "<" for name in names)
    print_table([["row", *names], *body], align)


def _is_number(samples: list[dict[str, Any]], name: str) -> bool:
    return all(isinstance(s[name], np.integer | np.floating | None) for s in samples)


def _print_head(found: Description) -> None:
    many = (
        f", {len(found.parts):,} {'part' if len(found.parts) == 1 else 'parts'}"
        if found.kind != "part"
        else ""
    )
    say(f"{found.path}  ({'one part' if found.kind == 'part' else found.kind})")
    say(
        f"{found.rows:,} {'row' if found.rows == 1 else 'rows'}{many}, {format_size(found.data_bytes)} data "
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
    print_table([[row[i] for i in kept] for row in rows], "".join(align[i] for i in kept))
    for column in found.columns:
        for name, value in column.annotations.items():
            said = f"{column.name}: {name} {value if isinstance(value, str) else to_json(cell_json(value))}"
            say(clipped(said, max(40, shutil.get_terminal_size((160, 24)).columns)))
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
    scalar = column.shape is None and column.type not in ("bytes", "text", "object")
    distinct = "" if not scalar else "many" if column.distinct is None else f"{column.distinct:,}"
    return [
        column.name,
        column.type + shape,
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
    print_table([["part", "rows", "data", "index", "id"], *rows], "<>>><")
    if len(shown) < len(found.parts):
        say(f"… and {len(found.parts) - len(shown):,} more parts")
