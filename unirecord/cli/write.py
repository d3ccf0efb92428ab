"""``unirecord write SRC DST``: raw data to a dataset."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..convert.conversion import Conversion, Standing, take_sample
from ..convert.sources import (
    KINDS,
    MAX_SPOOL_BYTES,
    SOURCES,
    Options,
    RawBatch,
    Source,
    WrongSourceError,
    open_input,
    open_source,
    source_type,
)
from ..convert.sources.overrides import parse_overrides
from ..convert.sources.report import write_report
from ..errors import ExistsError, SchemaError
from ..format.metadata import pack_user
from ..format.schema import Column, Schema, near
from ..parts.classes import class_difference, classes_of
from ..parts.part_set import resolve
from ..sizes import format_size
from ..storage.registry import location_of
from ..writing.batch_writer import PART_BYTES
from ..writing.writer import Writer, check_free
from .codec_option import with_codecs
from .progress_bar import ProgressBar, ProgressLines, duration
from .table import table
from .terminal import say, warn
from .usage import UsageError, count, make_parser, names, size

__all__ = ["add_parser"]

_READS: Final = ", or ".join(source.about for source in SOURCES)
_DESCRIPTION: Final = f"""Convert raw data to a dataset: SRC is {_READS}. A DST that ends in .urec becomes one part
(two files: DST and DST.idx); any other DST becomes a directory of parts. Types are inferred and shown. Nothing is
visible at DST until all of it is written."""

_EXAMPLES: Final = """examples:
  unirecord write pictures/ pictures.urec --index label
  unirecord write people.csv people --schema "age=int16?,name=string" --index name
  unirecord write log.jsonl log --schema types.json --max-part-bytes 2GB
  unirecord write more.csv people --append
  unirecord write pictures/ sample.urec --limit 100 --columns image,label
  unirecord write log.jsonl log --codec auto

the short form of --schema writes arrays with their shape: tokens=int32[128],boxes=float32[-1,4]"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = make_parser(
        subparsers.add_parser,
        "write",
        help="convert raw data to a dataset",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("source", metavar="SRC", help=f"{_READS}, by a pipe too, or - for stdin")
    parser.add_argument(
        "target", metavar="DST", help="NAME.urec for one part, any other name for a directory"
    )
    parser.add_argument(
        "--from", dest="kind", choices=KINDS, help="what SRC is, when its name does not say so"
    )
    parser.add_argument(
        "--schema", metavar="TYPES", help="column types: name=type,…, JSON text, or a JSON file"
    )
    parser.add_argument("--columns", type=names, metavar="A,B", help="write these columns only")
    parser.add_argument(
        "--index", type=names, default=[], metavar="A,B", help="columns to be looked up by value"
    )
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument(
        "--overwrite", action="store_true", help="replace DST, once the new one is complete"
    )
    existing.add_argument("--append", action="store_true", help="add parts to the directory DST")
    parser.add_argument(
        "--codec",
        metavar="CODEC",
        help="compress blob columns: zstd, zstd:9, column=zstd,…, or auto (what a sample says)",
    )
    parser.add_argument(
        "--max-part-bytes",
        type=size,
        metavar="SIZE",
        help="of a directory: start a new part at (default 20GB)",
    )
    parser.add_argument("--limit", type=count, metavar="N", help="stop after N rows")
    parser.add_argument(
        "--workers", type=count, default=1, metavar="N", help="processes, each of which writes whole parts"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with what the same command has left when it was stopped"
    )
    parser.add_argument("--id", metavar="HEX", help="32 hex digits: the same rows then make the same bytes")
    parser.add_argument(
        "--dry-run", action="store_true", help="show types, rows, size and time, and write nothing"
    )
    parser.add_argument(
        "--progress", choices=("json",), help="tell how far it is on stderr, one JSON object a line"
    )
    parser.add_argument(
        "--max-spool-bytes",
        type=size,
        default=MAX_SPOOL_BYTES,
        metavar="SIZE",
        help="copy at most this much of a pipe to a temporary file (default 16GB)",
    )
    parser.add_argument(
        "--classes-from", metavar="DATASET", help="number the classes as this dataset does: for val, test"
    )
    parser.add_argument(
        "--skip-bad",
        action="store_true",
        help="exit with 0 even if something that cannot be read was left out",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="list what was left out, and why, in a JSON Lines file"
    )
    _add_options_of_sources(parser)
    parser.set_defaults(run=_run)


def _add_options_of_sources(parser: argparse.ArgumentParser) -> None:
    """Add what only some sources obey; several may obey the same option."""
    seen: set[str] = set()
    for source in SOURCES:
        new = [option for option in source.options if option.name not in seen]
        seen.update(option.name for option in new)
        group = parser.add_argument_group(f"of {source.kind}") if new else parser
        for option in new:
            name = f"--{option.name.replace('_', '-')}"
            if option.metavar is None:
                group.add_argument(name, action="store_true", help=option.help)
            else:
                group.add_argument(name, metavar=option.metavar, help=option.help)


def _run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    _check_report(args)
    identity = _identity(args)
    before = _existing(args)
    source = _look_through(args, before)
    schema = _chosen_columns(source.schema, args.columns)
    if before is not None:
        source.notes += _other_media_types(source.schema, before.schema)
        schema = schema.with_annotations_of(before.schema)
    _check_index(args.index, schema)
    schema, tried = with_codecs(schema, args.codec, source, before)
    _print_plan(source, schema, tried, args)
    if args.dry_run:
        return _estimate(source, schema, args)
    rows = _convert(args, source, schema, before, identity)
    return _summary(args, source, rows, time.monotonic() - started)


def _existing(args: argparse.Namespace) -> Any:
    """Return the dataset to append to, if any; refuse a target that is in the way before any work is done."""
    parent = os.path.dirname(os.path.abspath(args.target))
    location = location_of(args.target)
    if not location.is_directory(parent):
        raise UsageError(f"the folder {parent} does not exist; make it first")
    there = location.find(args.target) is not None
    if args.max_part_bytes is not None and args.target.endswith(".urec"):
        raise UsageError(
            f"--max-part-bytes: {args.target} is to be one part; for parts choose a DST without .urec"
        )
    if args.append:
        if args.target.endswith(".urec"):
            raise UsageError(f"{args.target}: a single part cannot grow; append to a directory")
        return resolve(args.target) if there else None
    try:
        check_free(args.target, overwrite=args.overwrite)
    except ExistsError as error:
        raise ExistsError(
            f"{args.target} exists already; --overwrite replaces it, --append adds to a directory ({error})"
        ) from None
    return None


def _other_media_types(schema: Schema, before: Schema) -> list[str]:
    """What to say of columns that hold another kind of files than the dataset says of them."""
    notes = []
    for column in schema:
        new = column.annotations.get("media_type")
        old = before[column.name].annotations.get("media_type") if column.name in before else None
        if new is not None and old not in (None, new, "image/*"):
            notes.append(f"column {column.name!r} is said to hold {old} there; this is {new}")
    return notes


def _look_through(args: argparse.Namespace, before: Any) -> Source:
    try:
        overrides: Mapping[str, Any] = parse_overrides(args.schema) if args.schema else {}
    except SchemaError as error:
        raise UsageError(str(error)) from None
    if before is not None:  # new rows take the types of those that are there
        overrides = {**before.schema.with_annotations_of(Schema(())).to_spec(), **overrides}
    with ProgressBar("copying", 0, format_size) as bar:
        found = open_input(args.source, args.max_spool_bytes, bar.update)
    asked = {option.name: getattr(args, option.name) for one in SOURCES for option in one.options}
    try:
        takes_classes = source_type(found, args.kind).takes_classes
        if args.classes_from and not takes_classes:
            raise UsageError(f"--classes-from: there are no classes to number in {found.name}")
        options = Options(overrides, _classes(args, before) if takes_classes else None, **asked)
        with ProgressBar("looking through", 0, format_size) as bar:
            return open_source(found, args.kind, options, bar.update)
    except WrongSourceError as error:
        raise UsageError(str(error)) from None


def _classes(args: argparse.Namespace, before: Any) -> Sequence[str] | None:
    """The classes by number of the dataset that is appended to, or of ``--classes-from``."""
    known = None if before is None else classes_of(before.metadata)
    if args.classes_from is None:
        return known
    asked = classes_of(resolve(args.classes_from).metadata)
    if asked is None:
        raise UsageError(f"--classes-from: {args.classes_from} has no list of classes in its metadata")
    if known is not None and list(known) != list(asked):
        raise UsageError(
            f"--classes-from: {args.classes_from} numbers its classes otherwise than {args.target}, "
            f"to which is appended: {class_difference(known, asked)}"
        )
    return asked


def _check_report(args: argparse.Namespace) -> None:
    if args.report is None:
        return
    location = location_of(args.report)
    there = location.find(args.report)
    if there is not None and not (args.overwrite and there.kind == "file"):
        raise ExistsError(f"{args.report} exists already; with --overwrite the report replaces it")
    if os.path.abspath(args.report) in {os.path.abspath(path) for path in (args.source, args.target)}:
        raise UsageError(f"--report {args.report} is what is read or written; name another file")
    if not location.is_directory(os.path.dirname(os.path.abspath(args.report))):
        raise UsageError(f"--report: the folder of {args.report} does not exist; make it first")


def _chosen_columns(schema: Schema, columns: list[str] | None) -> Schema:
    if columns is None:
        return schema
    try:
        return Schema.parse({name: schema[name].spec for name in columns})
    except SchemaError as error:
        raise UsageError(f"--columns: {error}") from None


def _check_index(index: list[str], schema: Schema) -> None:
    for name in index:
        if name not in schema:
            raise UsageError(
                f"--index: there is no column {name!r}{near(name, schema.names)}; "
                f"the columns are {', '.join(schema.names)}"
            )
        if schema[name].is_blob:
            raise UsageError(
                f"--index: column {name!r} is {schema[name]}; only numbers, bool and strings are looked up"
            )


def _print_plan(source: Source, schema: Schema, tried: Mapping[str, str], args: argparse.Namespace) -> None:
    rows = "" if source.rows is None else f", {_many(source.rows, 'row')}"
    say(f"{source.path} → {args.target}  ({source.kind}{rows})")
    marks = [[c.name, _shown_type(c, args.index, tried)] for c in schema]
    for line in table(marks):
        say(f"  {line}")
    for note in source.notes:
        say(f"  {note}")
    sys.stdout.flush()


def _shown_type(column: Column, index: Sequence[str], tried: Mapping[str, str]) -> str:
    text = str(column) + (", indexed" if column.name in index else "")
    if column.codec is not None:
        text += f", {column.codec.spec}"
    return text + (f" ({tried[column.name]})" if column.name in tried else "")


def _identity(args: argparse.Namespace) -> bytes | None:
    """The id asked for, once what one part and several processes exclude has been refused."""
    if args.target.endswith(".urec") and (args.workers > 1 or args.resume):
        name = "--workers" if args.workers > 1 else "--resume"
        raise UsageError(f"{name} is for a directory of parts; {args.target} is one part")
    if args.workers < 1:
        raise UsageError("--workers is 1 or more")
    if args.id is None:
        return None
    if not re.fullmatch(r"[0-9a-fA-F]{32}", args.id):
        raise UsageError(f"--id is 32 hex digits, got {args.id!r}")
    return bytes.fromhex(args.id)


def _estimate(source: Source, schema: Schema, args: argparse.Namespace) -> int:
    """Say how large the dataset would be and how long it would take, as a sample shows."""
    found = take_sample(source, schema)
    if source.rows is None or not found.rows:
        say("nothing was written; how many rows there are is known when they are read")
        return 0
    rows = source.rows if args.limit is None else min(args.limit, source.rows)
    seconds = found.seconds / found.rows * rows / args.workers
    say(
        f"nothing was written; about {format_size(int(found.row_bytes * rows))} of values, "
        f"in about {duration(seconds)} with {_many(args.workers, 'worker')} where the disk keeps up"
    )
    return 0


def _convert(
    args: argparse.Namespace, source: Source, schema: Schema, before: Any, identity: bytes | None
) -> int:
    if args.target.endswith(".urec"):
        return _write_part(args, source, schema, identity)
    wish = Conversion(
        source,
        args.target,
        schema,
        index=(args.index or None) if before is not None else args.index,
        user=pack_user(source.metadata),
        max_part_bytes=args.max_part_bytes or PART_BYTES,
        overwrite=args.overwrite,
        append=before is not None,
        id=identity,
        workers=args.workers,
        resume=args.resume,
        limit=args.limit,
    )
    known = source.rows if args.limit is None else args.limit
    with ProgressBar("writing", known or 0, _rows_text) as bar:
        tell = ProgressLines() if args.progress == "json" else None
        rows, left_out = wish.run(lambda standing: _show(standing, bar, tell))
    source.left_out = [*source.left_out, *left_out]
    return rows


def _show(standing: Standing, bar: ProgressBar, lines: ProgressLines | None) -> None:
    bar.update(standing.rows, standing.all_rows)
    if standing.all_tasks and standing.tasks == standing.all_tasks:
        bar.finish(f"{_rows_text(standing.rows)} written, comparing some of them with the source")
    if lines is not None:
        lines.update(vars(standing), last=standing.tasks == standing.all_tasks)


def _write_part(args: argparse.Namespace, source: Source, schema: Schema, identity: bytes | None) -> int:
    writer = Writer(
        args.target,
        schema,
        index=args.index,
        metadata=source.metadata,
        overwrite=args.overwrite,
        id=identity,
    )
    limit = args.limit
    most = min((n for n in (limit, source.rows) if n is not None), default=0)
    with ProgressBar("writing", most, _rows_text) as bar, writer:
        for batch in source.batches() if limit != 0 else ():
            left = batch.rows if limit is None else limit - writer.rows
            writer.write_batch(_cut(batch, schema, left))
            bar.update(writer.rows)
            if writer.rows == limit:
                break
        bar.finish(f"{_rows_text(writer.rows)} written, making the index")
    return writer.rows


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _rows_text(rows: int) -> str:
    return f"{rows:,} rows"


def _cut(batch: RawBatch, schema: Schema, rows: int) -> dict[str, Any]:
    return {
        name: batch.columns[name][:rows] if rows < batch.rows else batch.columns[name]
        for name in schema.names
    }


def _summary(args: argparse.Namespace, source: Source, rows: int, seconds: float) -> int:
    found = resolve(args.target)
    parts = len(found.parts)
    total = sum(
        location_of(file).size(file) for part in found.parts for file in (part.path, part.path + ".idx")
    )
    rate = f", {rows / seconds:,.0f} rows/s" if seconds > 0.5 and rows >= 1000 else ""
    more = f" (now {found.rows:,})" if found.rows != rows else ""
    size_text = f"{_many(parts, 'part')}, {format_size(total)}"
    say(f"wrote {_many(rows, 'row')}{more} in {size_text}, in {duration(seconds)}{rate}")
    others = sum(one.expected for one in source.left_out)
    if others:
        say(f"left out {_many(others, 'file')} that by name are no {source.item}s")
    if args.report is not None:
        write_report(args.report, source.left_out)
    return _say_unreadable(source, args)


def _say_unreadable(source: Source, args: argparse.Namespace) -> int:
    bad = [f"  {one.name}: {one.reason}" for one in source.left_out if not one.expected]
    if not bad:
        return 0
    warn(f"unirecord: {_many(len(bad), source.item)} could not be read, left out:", *bad[:20])
    if len(bad) > 20:
        whole = f"are in {args.report}" if args.report else "are listed with --report FILE"
        warn(f"  … and {len(bad) - 20:,} more; all {whole}")
    return 0 if args.skip_bad else 1
