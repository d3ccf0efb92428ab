"""``unirecord write SRC DST``: raw data to a dataset."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..convert.freed_memory import keep_freed_memory
from ..convert.ordering import check_sort
from ..convert.row_choice import RowChoice, with_nulls
from ..convert.sampling import write_sample
from ..convert.sources import (
    KINDS,
    MAX_SPOOL_BYTES,
    SOURCES,
    Options,
    Source,
    WrongSourceError,
    open_input,
    open_source,
    source_type,
)
from ..convert.sources.overrides import TypesThere, parse_overrides
from ..convert.split_conversion import check_split_target
from ..errors import ExistsError, SchemaError, did_you_mean
from ..format.column import Column
from ..format.schema import Schema
from ..parts.classes import class_difference, classes_of
from ..parts.part_set import resolve
from ..parts.versions import located_version, no_directory
from ..sizes import format_size
from ..storage.registry import location_of
from ..writing.arguments import check_free, check_path
from .cache_option import refuse_cache
from .codec_option import with_codecs
from .conversion_progress import Looking, lines_of
from .engine_option import add_engine_option, engine_of
from .left_out import check_report, many, say_expected, say_left_out
from .progress_bar import duration
from .row_options import add_row_options, row_choice
from .storage_option import add_storage_option
from .table import table
from .terminal import say
from .usage import UsageError, count, make_parser, names, size, target
from .write_run import Writing, convert, convert_shares, say_shares, say_written

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
        aliases=["convert"],
        help="convert raw data to a dataset",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("source", metavar="SRC", help=f"{_READS}, by a pipe too, or - for stdin")
    parser.add_argument(
        "target", metavar="DST", type=target, help="NAME.urec for one part, any other name for a directory"
    )
    parser.add_argument(
        "--from", dest="kind", choices=KINDS, help="what SRC is, when its name does not say so"
    )
    parser.add_argument(
        "--schema", metavar="TYPES", help="column types: name=type,…, JSON text, or a JSON file"
    )
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
    parser.add_argument(
        "--workers", type=count, default=1, metavar="N", help="processes, each of which writes whole parts"
    )
    add_engine_option(parser)
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
        "--report", metavar="FILE", help="list what was left out, and why, in a JSON Lines file"
    )
    add_row_options(parser)
    add_storage_option(parser)
    refuse_cache(
        parser,
        "each row is read once; to read them again, `unirecord fetch` fills a cache",
    )
    _add_options_of_sources(parser)
    too_many = "it takes one SRC and one DST: a pattern in quotes names several files, such as 'folder/*.csv'"
    parser.set_defaults(run=_run, too_many=too_many)


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
    keep_freed_memory()
    check_report(args)
    choice = row_choice(args)
    identity = _identity(args)
    engine_of(args)  # is refused before any work is done
    before = _existing(args, choice)
    source = _look_through(args, before, choice.wanted)
    _check_classes(source, before, args)
    looked = time.monotonic() - started
    try:
        chosen = choice.of(source)
        if before is not None:
            chosen = with_nulls(chosen, before.schema)
        if choice.order is not None:
            check_sort(choice.order, chosen.schema)
    except WrongSourceError as error:
        raise UsageError(str(error)) from None
    schema = chosen.schema
    if before is not None:
        source.notes += _other_media_types(schema, before.schema)
        schema = schema.with_annotations_of(before.schema)
    _check_index(args.index, schema)
    schema, tried = with_codecs(schema, args.codec, chosen, before)
    _print_plan(source, schema, tried, choice, args)
    if args.dry_run:
        say_expected(chosen.left_out)
        return _estimate(chosen, schema, args, looked)
    if choice.split is not None:
        shares, written = convert_shares(Writing(args, choice, schema, identity), source)
        say_shares(args.target, shares, written, time.monotonic() - started)
    else:
        written = convert(Writing(args, choice, schema, identity, before), chosen)
        say_written(args.target, written, time.monotonic() - started)
    return say_left_out(written.left_out, source.item, args)


def _existing(args: argparse.Namespace, choice: RowChoice) -> Any:
    """Return the dataset to append to, if any; refuse a target that is in the way before any work is done."""
    if choice.split is not None:
        names = list(choice.split.shares or ())
        try:
            check_split_target(args.target, names, overwrite=args.overwrite, resume=args.resume)
        except ExistsError as error:
            raise ExistsError(_with_options(error, "--overwrite replaces it")) from None
        return None
    try:
        location = location_of(check_path(args.target))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if location.in_file_system and located_version(args.target)[1] is not None:
        raise no_directory(args.target)
    parent = os.path.dirname(os.path.abspath(args.target))
    if location.in_file_system and not location.is_directory(parent):
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
        check_free(args.target, overwrite=args.overwrite, resume=args.resume)
    except ExistsError as error:
        ways = "--overwrite replaces it"
        if not args.target.endswith(".urec"):
            ways += ", --append adds to a directory"
        raise ExistsError(_with_options(error, ways)) from None
    return None


def _with_options(error: ExistsError, ways: str) -> str:
    """What the error says, with the options that are those of Python that it names, where it names any."""
    return f"{error} (on the command line: {ways})" if "overwrite=True" in str(error) else str(error)


def _other_media_types(schema: Schema, before: Schema) -> list[str]:
    """What to say of columns that hold another kind of files than the dataset says of them."""
    notes = []
    for column in schema:
        new = column.annotations.get("media_type")
        old = before[column.name].annotations.get("media_type") if column.name in before else None
        if new is not None and old not in (None, new, "image/*"):
            notes.append(f"column {column.name!r} is said to hold {old} there; this is {new}")
    return notes


def _look_through(args: argparse.Namespace, before: Any, wanted: frozenset[str] | None) -> Source:
    try:
        overrides: Mapping[str, Any] = parse_overrides(args.schema) if args.schema else {}
    except SchemaError as error:
        raise UsageError(str(error)) from None
    if before is not None:  # new rows take the types of those that are there
        old = {new: name for name, new in args.rename.items()}
        there = before.schema.with_annotations_of(Schema(())).to_spec()
        overrides = TypesThere({old.get(name, name): spec for name, spec in there.items()}, overrides)
    lines = lines_of(args)
    with Looking("copying", lines) as tell:
        found = open_input(args.source, args.max_spool_bytes, tell)
    asked = {option.name: getattr(args, option.name) for one in SOURCES for option in one.options}
    try:
        takes_classes = source_type(found, args.kind).takes_classes
        if args.classes_from and not takes_classes:
            raise UsageError(f"--classes-from: there are no classes to number in {found.name}")
        classes = _classes(args, before) if takes_classes else None
        leaves_out = args.on_error in ("skip", "report")
        options = Options(overrides, classes, max(args.workers, 1), leaves_out, wanted, **asked)
        with Looking("looking through", lines) as tell:
            return open_source(found, args.kind, options, tell)
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


def _check_classes(source: Source, before: Any, args: argparse.Namespace) -> None:
    """Refuse to append rows whose numbers of classes mean others."""
    new = (
        None if source.takes_classes or not isinstance(source.metadata, dict) else classes_of(source.metadata)
    )
    known = None if before is None else classes_of(before.metadata)
    if new is not None and known is not None and list(new) != list(known):
        raise UsageError(
            f"{args.source} numbers its classes otherwise than {args.target}, to which is appended: "
            f"{class_difference(known, new)}"
        )


def _check_index(index: list[str], schema: Schema) -> None:
    for name in index:
        if name not in schema:
            raise UsageError(
                f"--index: there is no column {name!r}{did_you_mean(name, schema.names)}; "
                f"the columns are {', '.join(schema.names)}"
            )
        if schema[name].is_blob:
            raise UsageError(
                f"--index: column {name!r} is {schema[name]}; only numbers, bool and strings are looked up"
            )


def _print_plan(
    source: Source, schema: Schema, tried: Mapping[str, str], choice: RowChoice, args: argparse.Namespace
) -> None:
    rows = "" if source.rows is None else f", {many(source.rows, 'row')}"
    say(f"{source.path} → {args.target}  ({source.kind}{rows})")
    marks = [[c.name, _shown_type(c, args.index, tried)] for c in schema]
    for line in table(marks):
        say(f"  {line}")
    for note in [*source.notes, *_index_notes(source, schema, args), *_chosen_notes(source, choice, args)]:
        say(f"  {note}")
    sys.stdout.flush()


def _index_notes(source: Source, schema: Schema, args: argparse.Namespace) -> list[str]:
    """Which columns were looked up by value and will not be, by the names that they get."""
    if args.append or args.index:
        return []
    names = [args.rename.get(name, name) for name in source.indexed]
    lost = ",".join(name for name in names if name in schema)
    return [f"its index was on {lost.replace(',', ', ')}: --index {lost}"] if lost else []


def _chosen_notes(source: Source, choice: RowChoice, args: argparse.Namespace) -> list[str]:
    """What is chosen, and that the first rows of classes in order are of few classes."""
    asked = choice.options()
    shown = (
        "--where",
        "--sample",
        "--split",
        "--split-by",
        "--stratify",
        "--sort",
        "--shuffle-seed",
        "--seed",
        "--resize",
        "--max-side",
        "--reencode",
        "--on-error",
    )
    notes = [f"{name} {asked[name]}" for name in shown if name in asked]
    classes = classes_of(source.metadata)
    if args.limit is not None and classes and (source.rows is None or args.limit < source.rows):
        notes.append(
            f"--limit {args.limit:,} takes the first rows, which may all be of one class; "
            f"--sample {args.limit:,} takes them evenly from all"
        )
    return notes


def _shown_type(column: Column, index: Sequence[str], tried: Mapping[str, str]) -> str:
    text = str(column) + (", indexed" if column.name in index else "")
    if column.codec is not None:
        text += f", {column.codec.spec_for(column.element_bytes)}"
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


def _estimate(source: Source, schema: Schema, args: argparse.Namespace, looked: float) -> int:
    """Say how large the dataset would be and how long it would take, as a sample shows."""
    found = write_sample(source, schema, args.index)
    known = [unit.rows for unit in source.units if unit.rows is not None]
    if len(known) == len(source.units) and not sum(known):
        say("nothing was written; there are no rows")
        return 0
    if len(known) < len(source.units) or not found.rows:
        say("nothing was written; how many rows there are is known when they are read")
        return 0
    every = round(sum(known) * source.share)
    rows = every if args.limit is None else min(args.limit, every)
    seconds = looked + found.seconds / found.rows * rows / args.workers
    about = "" if source.rows is not None else f"about {many(rows, 'row')}, "
    say(
        f"nothing was written; {about}about {format_size(int(found.row_bytes * rows))} of values, "
        f"in about {duration(seconds)} with {many(args.workers, 'worker')} where the disk keeps up"
    )
    return 0
