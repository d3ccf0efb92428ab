"""``unirecord update``, ``set``, ``add-columns`` and so on: other values, or columns, in a dataset's next version."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

from ..convert.add_columns import ColumnsAdded, add_columns
from ..convert.sources import KINDS, WrongSourceError
from ..convert.sources.overrides import parse_overrides
from ..convert.update import Updated, set_values, update, upsert, value_of_text
from ..sizes import format_size, many
from ..snapshot.dataset_path import resolve
from ..writing.manifest_changes import ColumnsChanged, drop_columns, rename_columns
from .arguments import (
    COLUMNS,
    DIRECTORY,
    DRY_RUN,
    INDEX,
    JSON,
    KEY,
    RESUME,
    ROW_NUMBERS,
    SCHEMA,
    STORAGE,
    WHERE,
    WORKERS,
    Argument,
    UsageError,
    assigned,
    command,
    count,
    imported,
    names,
    one_of,
    pairs,
    wrong_call,
)
from .terminal import ProgressBar, answer
from .write import KIND, OF_SOURCES, options_of_sources

__all__ = [
    "add_columns_command",
    "drop_columns_command",
    "rename_columns_command",
    "set_command",
    "update_command",
    "upsert_command",
]


# ``unirecord update``, ``upsert`` and ``set``: new values in rows that are there.


def _assignment(text: str) -> tuple[str, str]:
    """The column and the text of ``label=5``, for argparse."""
    try:
        return assigned(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; write COLUMN=VALUE") from None


_TABLE_OF_VALUES: Final = (
    DIRECTORY,
    Argument(
        "--from",
        dest="table",
        metavar="TABLE",
        required=True,
        help="the values: anything that `unirecord write` reads",
    ),
    KEY.but(required=True, help="columns by whose values rows go together"),
    COLUMNS.but(help="columns of the table that are taken (default: all but the key)"),
    Argument("--kind", choices=KINDS, help="what TABLE is, when its name does not say so"),
    Argument("--nulls", action="store_true", help="empty cells make values null (default: these stay)"),
)


@command(
    """Give rows of a dataset the values of a table, as the next version: rows with the same key go together. An empty
    cell leaves the value that is there. All else stays as it is, as do the rows' numbers, orders and states.""",
    """
    unirecord update pictures --from fixes.csv --key path
    unirecord update pictures --from fixes.csv --key path --columns label --missing ignore
    """,
    *_TABLE_OF_VALUES,
    Argument(
        "--missing",
        choices=["error", "ignore"],
        default="error",
        help="what becomes of keys that are in no row of the dataset (default: error, which names them)",
    ),
    DRY_RUN,
    JSON,
    STORAGE,
    *OF_SOURCES,
)
def update_command(args: argparse.Namespace) -> int:
    return _updated(args, update, missing=args.missing)


@command(
    """Give rows of a dataset the values of a table, as `unirecord update` does, and append the rows of the table whose
    key is in none, in the same version.""",
    """
    unirecord upsert pictures --from today.csv --key path
    """,
    *_TABLE_OF_VALUES,
    DRY_RUN,
    JSON,
    STORAGE,
    *OF_SOURCES,
)
def upsert_command(args: argparse.Namespace) -> int:
    return _updated(args, upsert)


def _options_of_table(args: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in (options_of_sources(args) | {"kind": args.kind}).items() if value}


def _updated(args: argparse.Namespace, work: Callable[..., Updated], **more: Any) -> int:
    options = _options_of_table(args)
    with ProgressBar("writing values", 0, "{:,} rows".format) as bar, wrong_call(WrongSourceError):
        found = work(
            args.path, args.table, args.key, columns=args.columns, nulls=args.nulls, dry_run=args.dry_run,
            progress=bar.update, **more, **options,
        )  # fmt: skip
    return answer(args, found, _said_of_values(args, found))


@command(
    """Give all rows that meet a condition, or have these numbers, the same values in some columns, as the next version.
    All else stays as it is, as do the rows' numbers, orders and states.""",
    """
    unirecord set pictures --where 'label == 3 and pred == 5' label=5
    unirecord set pictures --rows 17,1000-1999 label=5
    unirecord set pictures --where 'score < 0' score=null checked=true
    """,
    DIRECTORY,
    one_of(WHERE.but(help="the rows that meet it"), ROW_NUMBERS, required=True),
    Argument(
        "values",
        metavar="COLUMN=VALUE",
        type=_assignment,
        nargs="+",
        help="what they get, as in a cell of a CSV file; null, where a column may be null",
    ),
    DRY_RUN,
    JSON,
    STORAGE,
)
def set_command(args: argparse.Namespace) -> int:
    given = [name for name, _ in args.values]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the column {twice!r} gets two values; name it once")
    with ProgressBar("writing values", 0, "{:,} rows".format) as bar, wrong_call():
        schema = resolve(args.path).schema
        values = {name: value_of_text(schema, name, text) for name, text in args.values}
        found = set_values(
            args.path, args.where, values, rows=args.rows, dry_run=args.dry_run, progress=bar.update
        )
    return answer(args, found, _said_of_values(args, found))


def _said_of_values(args: argparse.Namespace, found: Updated) -> Iterator[str]:
    if not found.rows and not found.appended:
        yield f"{args.path}: no row gets another value; nothing was published"
    else:
        where = "would get" if args.dry_run else "got"
        done = (
            [f"{many(found.rows, 'row')} {where} new values in {', '.join(found.columns)}"]
            if found.rows
            else []
        )
        if found.appended and args.dry_run:
            done.append(f"{many(found.appended, 'row')} would be appended")
        elif found.appended:
            done.append(f"{many(found.appended, 'row', 'were')} appended")
        version = "about " if args.dry_run else f"version {found.version}, "
        of = f" ({version}{format_size(found.bytes)} written)"
        yield f"{args.path}: {' and '.join(done)}{of}"
    if found.missing:
        yield f"{many(found.missing, 'row')} of the table left out: their keys are in no row of the dataset"


# ``unirecord add-columns``, ``drop-columns`` and ``rename-columns``: other columns.


@command(
    """Add columns to a dataset: beside each part a column part is written, and the next version names both. The
    files that are there stay as they are, rows keep their numbers and every order stays the same. Values come
    from a table, or from a function of Python that is called with batches of rows.""",
    """
    unirecord add-columns pictures captions.parquet --key name
    unirecord add-columns pictures labels.csv --key name --columns label --replace
    unirecord add-columns pictures corrected.csv --key name --replace --keep
    unirecord add-columns speech metadata.csv --key id --delimiter '|' --names id,text --quoting none
    unirecord add-columns pictures --function describing:describe --schema caption=text --workers 8
    """,
    DIRECTORY,
    Argument("table", metavar="TABLE", nargs="?", help="the values: anything that `unirecord write` reads"),
    Argument(
        "--function", metavar="MODULE:NAME", help="in place of a table: called with batches, dicts of columns"
    ),
    KEY.but(help="columns by whose values rows go together (default: by their order)"),
    COLUMNS.but(help="columns of the table (default: all but the key)"),
    SCHEMA,
    KIND.but(help="what TABLE is, when its name does not say so"),
    Argument("--reads", type=names, metavar="A,B", help="columns that the function is given"),
    Argument("--batch-size", type=count, metavar="N", help="rows that it is called with at a time"),
    INDEX.but(help="new columns to be looked up by value"),
    Argument("--replace", action="store_true", help="give columns that are there the new values"),
    Argument(
        "--keep",
        action="store_true",
        help="with --key and --replace: rows that TABLE has no row for keep their values",
    ),
    WORKERS.but(help="processes that write column parts"),
    RESUME,
    JSON,
    STORAGE,
    *OF_SOURCES,
)
def add_columns_command(args: argparse.Namespace) -> int:
    if (args.table is None) == (args.function is None):
        raise UsageError("name a TABLE, or --function MODULE:NAME")
    types = dict(parse_overrides(args.schema)) if args.schema else None
    options = _options_of_table(args)
    with (
        ProgressBar("adding columns", 0, "{:,} rows".format) as bar,
        warnings.catch_warnings(),
        wrong_call(WrongSourceError),
    ):
        # What it says is printed below; warnings of the function itself are shown.
        warnings.filterwarnings("ignore", module=__name__)
        columns, values = _asked(args, types)
        found = add_columns(
            args.path, columns, values, key=args.key, reads=args.reads, index=args.index, replace=args.replace,
            keep=args.keep, batch_size=args.batch_size, workers=args.workers, resume=args.resume,
            progress=bar.update, **options,
        )  # fmt: skip
    return answer(args, found, _added(args, found))


def _asked(args: argparse.Namespace, types: dict[str, Any] | None) -> tuple[Any, Any]:
    """Which columns, and where their values come from."""
    if args.function is None:
        if args.columns is None or types is None:
            return (args.columns if types is None else types), args.table
        lacking = [name for name in args.columns if name not in types]
        if lacking:
            raise UsageError(
                f"--schema has no type for {lacking[0]!r}; name types of all of --columns, or of none"
            )
        return {name: types[name] for name in args.columns}, args.table
    if types is None or args.columns is not None:
        raise UsageError("--function needs --schema with the columns that it makes: --schema caption=text")
    return types, imported("--function", args.function)


def _added(args: argparse.Namespace, found: ColumnsAdded) -> Iterator[str]:
    parts = many(found.parts, "column part")
    resumed = f", {found.resumed:,} of them by an earlier run" if found.resumed else ""
    yield f"{args.path}: version {found.version} has the columns {', '.join(found.columns)}"
    yield f"{many(found.rows, 'row')} in {parts}{resumed}"
    if found.without:
        lacking = many(found.without, "row", "keep" if args.keep else "are")
        what = ("its values" if found.without == 1 else "their values") if args.keep else "null"
        way = "; --keep leaves them their values" if args.replace and not args.keep else ""
        yield f"{lacking} {what}, which the table has no row for{way}"
    if found.unused:
        unused = f"{many(found.unused, 'row')} of the table"
        yield f"{unused} {'goes' if found.unused == 1 else 'go'} with no row of the dataset"
    yield from found.said


@command(
    """Drop columns of a dataset: the next version does not have them. No file is written but the manifest; the bytes
    stay on disk, for the versions before, until `unirecord compact --join-columns` and gc.""",
    """
    unirecord drop-columns pictures path thumbnail
    """,
    DIRECTORY,
    Argument("columns", metavar="COLUMN", nargs="+", help="their names"),
    JSON,
    STORAGE,
)
def drop_columns_command(args: argparse.Namespace) -> int:
    with wrong_call():
        return _changed(args, drop_columns(args.path, args.columns))


def _changed(args: argparse.Namespace, found: ColumnsChanged) -> int:
    return answer(
        args, found, [f"{args.path}: version {found.version} has the columns {', '.join(found.columns)}"]
    )


@command(
    """Give columns of a dataset other names, from the next version on. No file is written but the manifest; the
    versions before have the names of before.""",
    """
    unirecord rename-columns pictures img=image,lbl=label
    """,
    DIRECTORY,
    Argument("names", type=pairs, metavar="OLD=NEW,…", help="which, and what they are called then"),
    JSON,
    STORAGE,
)
def rename_columns_command(args: argparse.Namespace) -> int:
    with wrong_call():
        return _changed(args, rename_columns(args.path, args.names))
