"""``unirecord write SRC DST``: raw data to a dataset; ``unirecord split``: a dataset to several."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from ..convert.conversion import Conversion, Engine, Standing, write_part, write_sample
from ..convert.row_choice import (
    ON_ERROR,
    RowChoice,
    SplitChoice,
    check_split_target,
    share_id,
    with_nulls,
    write_shares,
)
from ..convert.row_order import RowOrder, check_sort, in_order
from ..convert.sources import (
    KINDS,
    MAX_SPOOL_BYTES,
    SOURCES,
    LeftOut,
    Options,
    Source,
    WrongSourceError,
    open_input,
    open_sources,
    source_type,
)
from ..convert.sources.overrides import TypesThere, parse_overrides
from ..convert.sources.source import (
    AskedOption,
    WantedColumns,
    said_of_left_out,
    said_of_unread,
    write_report,
)
from ..convert.task import keep_freed_memory
from ..core import check_codec
from ..errors import ExistsError, SchemaError, did_you_mean
from ..format.column import Codec, Column
from ..format.logical import other_logical, shown
from ..format.metadata import pack_user
from ..format.schema import Schema
from ..format.values import ColumnBatch, RecordEncoder
from ..frameworks.ray_data import ray_engine
from ..sizes import format_size, many
from ..snapshot.dataset_path import no_directory
from ..snapshot.part_set import PartSet, Snapshot, resolve
from ..snapshot.snapshot import class_difference, classes_of
from ..snapshot.versions import located_version
from ..storage.schemes import location_of, path_on_disk
from ..writing.part_writer import CodecChoice, ScalarCodec, choose_codecs
from ..writing.target import PART_BYTES, check_free, check_path
from .arguments import (
    BY,
    COLUMNS,
    DRY_RUN,
    INDEX,
    LIMIT,
    OVERWRITE,
    PATH,
    RESUME,
    SAMPLE,
    SCHEMA,
    SEED,
    SORT,
    STORAGE,
    STRATIFY,
    TARGET,
    WHERE,
    WORKERS,
    Argument,
    UsageError,
    cache_refused,
    command,
    count,
    names,
    one_of,
    pairs,
    refuse,
    size,
    target,
    titled,
    wrong_call,
)
from .terminal import ProgressBar, ProgressLines, duration, say, table, warn

__all__ = ["ConversionProgress", "split_command", "survey_progress", "write_command"]

_READS: Final = ", or ".join(source.about for source in SOURCES)


KIND: Final = Argument(
    "--from", dest="kind", choices=KINDS, help="what SRC is, when its name does not say so"
)


def _argument(option: AskedOption) -> Argument:
    """An option of sources as the command line has it."""
    takes: dict[str, Any] = (
        {"action": "store_true"} if option.metavar is None else {"metavar": option.metavar}
    )
    return Argument(f"--{option.name.replace('_', '-')}", help=option.help, **takes)


# What only some sources obey; several may obey the same option, which help shows below the first of them.
_FIRST: Final = {option.name: source for source in reversed(SOURCES) for option in source.options}
OF_SOURCES: Final = tuple(
    titled(f"of {source.kind}", *(_argument(one) for one in source.options if _FIRST[one.name] is source))
    for source in SOURCES
    if source in _FIRST.values()
)


def options_of_sources(args: argparse.Namespace) -> dict[str, Any]:
    """What was asked of the kind of source that is read; None or False where it was not."""
    return {option.name: getattr(args, option.name) for one in SOURCES for option in one.options}


@command(
    f"""Convert raw data to a dataset: SRC is {_READS}. A DST that ends in .urec becomes one part (two files: DST and
    DST.idx); any other DST becomes a directory of parts. Types are inferred and shown. Nothing is visible at DST
    until all of it is written.""",
    """
    unirecord write pictures/ pictures.urec --index label
    unirecord write people.csv people --schema "age=int16?,name=string" --index name
    unirecord write log.jsonl log --schema types.json --max-part-bytes 2GB
    unirecord write more.csv people --append
    unirecord write old.csv new.jsonl 'shards-{000..009}.tar' all --columns text,label
    unirecord write pictures/ sample.urec --limit 100 --columns image,label
    unirecord write log.jsonl log --codec auto
    """,
    Argument(
        "source",
        metavar="SRC",
        nargs="+",
        help=f"{_READS}, by a pipe too, or - for stdin; of several, each is read as what it is",
    ),
    TARGET.but(type=target, help="NAME.urec for one part, any other name for a directory"),
    KIND,
    SCHEMA,
    INDEX,
    one_of(
        OVERWRITE.but(help="replace DST, once the new one is complete"),
        Argument("--append", action="store_true", help="add parts to the directory DST"),
    ),
    Argument(
        "--codec",
        metavar="CODEC",
        help="compress blob columns: zstd, zstd:9, column=zstd,…, or auto (what a sample says); none: no column, "
        "also not the scalars of the data file",
    ),
    Argument(
        "--max-part-bytes",
        type=size,
        metavar="SIZE",
        help="of a directory: start a new part at (default 20GB)",
    ),
    WORKERS.but(help="processes, each of which writes whole parts"),
    Argument("--engine", choices=("ray",), help="run the tasks on a Ray cluster instead (docs/ray.md)"),
    RESUME,
    Argument("--id", metavar="HEX", help="32 hex digits: the same rows then make the same bytes"),
    DRY_RUN.but(help="show types, rows, size and time, and write nothing"),
    Argument("--progress", choices=("json",), help="tell how far it is on stderr, one JSON object a line"),
    Argument(
        "--max-spool-bytes",
        type=size,
        default=MAX_SPOOL_BYTES,
        metavar="SIZE",
        help="copy at most this much of pipes and compressed files to temporary files at a time, in each of --workers; "
        "what --sort writes beside DST is not counted (default 16GB)",
    ),
    Argument(
        "--classes-from", metavar="DATASET", help="number the classes as this dataset does: for val, test"
    ),
    Argument("--report", metavar="FILE", help="list what was left out, and why, in a JSON Lines file"),
    titled(
        "which rows and columns (names as SRC has them)",
        COLUMNS.but(help="write these columns only, in this order"),
        Argument("--rename", type=pairs, default={}, metavar="OLD=NEW,…", help="give columns other names"),
        WHERE.but(help="only rows that meet it, such as \"age >= 18 and name like 'A%%'\""),
        LIMIT.but(help="stop after N rows"),
        SAMPLE.but(help="N rows, evenly from all; --limit of class folders is one class"),
        Argument(
            "--split",
            metavar="NAME=SHARE,…",
            help="datasets DST/train, … of train=0.9,val=0.1, by a hash of each row",
        ),
        Argument(
            "--split-by",
            metavar="A",
            help="by a hash of this column: its equal values stay together; without --split: a dataset of each value",
        ),
        STRATIFY,
        SEED.but(type=count, help="which rows --sample draws, and which share has which (default 0)"),
        SORT.but(help="in the order of a scalar column (its new name); --limit counts then"),
        Argument(
            "--shuffle-seed", type=count, metavar="S", help="in a random order, so that reading needs none"
        ),
        Argument("--resize", type=count, metavar="N", help="pictures: shorter side of N pixels, if larger"),
        Argument("--max-side", type=count, metavar="N", help="pictures: longer side of N pixels, if larger"),
        Argument(
            "--reencode",
            metavar="FORMAT",
            help="pictures: as jpeg:90, webp:80, png, or raw (arrays of pixels)",
        ),
        Argument(
            "--picture-columns", type=names, metavar="A,B", help="where the pictures are, if that is not seen"
        ),
        Argument(
            "--on-error",
            choices=ON_ERROR,
            help="what cannot be read or does not fit ends it, is left out, or is left out and listed in a file "
            "(--report, else DST.left-out.jsonl); without it, broken pictures are left out and the exit code is 1",
        ),
    ),
    STORAGE,
    *cache_refused("each row is read once; to read them again, `unirecord fetch` fills a cache"),
    *OF_SOURCES,
    gathers=("source", "target"),
)
def write_command(args: argparse.Namespace) -> int:
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
    with wrong_call(WrongSourceError, plain=()):
        chosen = choice.of(source)
        if before is not None:
            chosen = with_nulls(chosen, before.schema)
        if choice.order is not None:
            check_sort(choice.order, chosen.schema)
    schema = chosen.schema
    if before is not None:
        source.notes += _other_media_types(schema, before.schema)
        _check_logical_types(schema, before.schema)
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
    with wrong_call():
        location = location_of(check_path(args.target))
    if location.in_file_system and located_version(args.target)[1] is not None:
        raise no_directory(args.target)
    parent = os.path.dirname(os.path.abspath(args.target))
    if location.in_file_system and not location.is_directory(parent):
        raise UsageError(f"the folder {parent} does not exist; make it first")
    there = location.find(args.target) is not None
    one_part = args.target.endswith(".urec")
    alone = f"--max-part-bytes: {args.target} is to be one part; for parts choose a DST without .urec"
    refuse(
        {
            alone: one_part and args.max_part_bytes is not None,
            f"{args.target}: a single part cannot grow; append to a directory": one_part and args.append,
        }
    )
    if args.append:
        return resolve(args.target) if there else None
    try:
        check_free(args.target, overwrite=args.overwrite, resume=args.resume)
    except ExistsError as error:
        ways = "--overwrite replaces it" + ("" if one_part else ", --append adds to a directory")
        raise ExistsError(_with_options(error, ways)) from None
    return None


def _with_options(error: ExistsError, ways: str) -> str:
    """What the error says, with the options that are those of Python that it names, where it names any."""
    return f"{error} (on the command line: {ways})" if "overwrite=True" in str(error) else str(error)


def _check_logical_types(schema: Schema, before: Schema) -> None:
    """Refuse values of another logical type than those that are there; a source that says none is taken at its word."""
    for column in schema:
        there = before[column.name].logical if column.name in before else None
        if column.name in before and column.logical is not None and other_logical(there, column.logical):
            raise UsageError(
                f"column {column.name!r} has the logical type {shown(there)} in the dataset, and "
                f"{shown(column.logical)} here: convert it first, or leave it out"
            )


def _other_media_types(schema: Schema, before: Schema) -> list[str]:
    """What to say of columns that hold another kind of files than the dataset says of them."""
    notes = []
    for column in schema:
        new = column.media_type
        old = before[column.name].media_type if column.name in before else None
        if new is not None and old not in (None, new, "image/*"):
            notes.append(f"column {column.name!r} is said to hold {old} there; this is {new}")
    return notes


def _look_through(args: argparse.Namespace, before: Any, wanted: WantedColumns | None) -> Source:
    with wrong_call():
        overrides: Mapping[str, Any] = parse_overrides(args.schema) if args.schema else {}
    if before is not None:  # new rows take the types of those that are there
        old = {new: name for name, new in args.rename.items()}
        there = before.schema.with_annotations_of(Schema(())).to_spec()
        overrides = TypesThere({old.get(name, name): spec for name, spec in there.items()}, overrides)
    lines = lines_of(args)
    with survey_progress("copying", lines) as tell:
        found = [open_input(source, args.max_spool_bytes, tell) for source in args.source]
    asked = options_of_sources(args)
    with wrong_call(WrongSourceError, plain=()):
        takes_classes = any(source_type(one, args.kind).takes_classes for one in found)
        if args.classes_from and not takes_classes:
            named = ", ".join(one.name for one in found)
            raise UsageError(f"--classes-from: there are no classes to number in {named}")
        classes = _classes(args, before) if takes_classes else None
        options = Options(overrides, classes, max(args.workers, 1), args.on_error, wanted, **asked)
        with survey_progress("looking through", lines) as tell:
            return open_sources(found, args.kind, options, tell)


def _numbered(dataset: Any) -> Sequence[str] | None:
    """The classes by number that a dataset names: by its column ``label``, else in its metadata."""
    label = dataset.schema["label"].class_names if "label" in dataset.schema else None
    return label or classes_of(dataset.metadata)


def _classes(args: argparse.Namespace, before: Any) -> Sequence[str] | None:
    """The classes by number of the dataset that is appended to, or of ``--classes-from``."""
    known = None if before is None else _numbered(before)
    if args.classes_from is None:
        return known
    asked = _numbered(resolve(args.classes_from))
    if asked is None:
        raise UsageError(
            f"--classes-from: {args.classes_from} has no list of classes, of its label or in its metadata"
        )
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
    known = None if before is None else _numbered(before)
    if new is not None and known is not None and list(new) != list(known):
        raise UsageError(
            f"{source.path} numbers its classes otherwise than {args.target}, to which is appended: "
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
    if column.chunks is not None:
        text += f", in chunks of {list(column.chunks) if column.is_array else column.chunks[0]}"
    if column.codec is not None:
        text += f", {column.codec.spec_for(column.element_bytes)}"
    return text + (f" ({tried[column.name]})" if column.name in tried else "")


def _identity(args: argparse.Namespace) -> bytes | None:
    """The id asked for, once what one part and several processes exclude has been refused."""
    one_part = args.target.endswith(".urec")
    said = f"is for a directory of parts; {args.target} is one part"
    refuse(
        {
            f"--workers {said}": one_part and args.workers > 1,
            f"--resume {said}": one_part and args.resume,
            "--workers is 1 or more": args.workers < 1,
            f"--id is 32 hex digits, got {args.id!r}": args.id
            and not re.fullmatch("[0-9a-fA-F]{32}", args.id),
        }
    )
    return None if args.id is None else bytes.fromhex(args.id)


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


@dataclass(frozen=True)
class Writing:
    """What a call of ``unirecord write`` comes to, once all of it has been checked.

    ``before``: the dataset that is appended to, if any.
    """

    args: argparse.Namespace
    choice: RowChoice
    schema: Schema
    identity: bytes | None
    before: Any = None


@dataclass(frozen=True)
class Written:
    """How many rows there are now, how many of them an earlier run had written, and what was left out.

    ``published``: that run had published them too.
    """

    rows: int
    resumed: int
    left_out: list[LeftOut]
    published: bool = False


def convert(asked: Writing, source: Source) -> Written:
    """Write what is chosen, and show how far it is."""
    args, choice = asked.args, asked.choice
    tell = lines_of(args)
    if choice.order is None:
        return _write(asked, source, tell)
    with ExitStack() as open_rows:
        with ConversionProgress("reading", source.rows, tell) as progress:
            rows = open_rows.enter_context(
                in_order(
                    source,
                    choice.order,
                    args.target,
                    workers=args.workers,
                    resume=args.resume,
                    options=choice.options(),
                    progress=progress.show,
                )
            )
        return _write(asked, rows, tell)


def _write(asked: Writing, source: Source, tell: ProgressLines | None) -> Written:
    args = asked.args
    known = source.rows if args.limit is None else args.limit
    with ConversionProgress("writing", known, tell) as progress:
        if args.target.endswith(".urec"):
            rows, left_out = _write_part(asked, source, progress)
        else:
            rows, left_out = _write_directory(asked, source, progress)
    return Written(rows, progress.resumed, left_out, progress.published)


def _write_directory(
    asked: Writing, source: Source, progress: ConversionProgress
) -> tuple[int, list[LeftOut]]:
    args = asked.args
    spec = _conversion(asked, source, args.target, asked.identity)
    spec.append = asked.before is not None
    spec.index = (args.index or None) if spec.append else args.index
    rows, left_out = spec.run(progress.show)
    return rows, [*source.left_out, *left_out]


def _conversion(asked: Writing, source: Source, path: str, identity: bytes | None) -> Conversion:
    args = asked.args
    return Conversion(
        source,
        path,
        asked.schema,
        index=args.index,
        user=pack_user(source.metadata),
        max_part_bytes=args.max_part_bytes or PART_BYTES,
        overwrite=args.overwrite,
        id=identity,
        workers=args.workers,
        engine=engine_of(args),
        resume=args.resume,
        limit=args.limit,
        options=asked.choice.options(),
        scalar_codec=_scalar_codec(args),
    )


def _scalar_codec(args: argparse.Namespace) -> ScalarCodec:
    return "none" if args.codec == _NONE else None


def convert_shares(asked: Writing, source: Source) -> tuple[dict[str, int], Written]:
    """Write the shares of a split; the rows of each, and of all."""
    args = asked.args
    with wrong_call(WrongSourceError, plain=()):
        shares = asked.choice.shares(source)
    specs = {
        name: _conversion(asked, share, os.path.join(args.target, name), share_id(asked.identity, name))
        for name, share in shares.items()
    }
    lines, stages = lines_of(args), dict[str, ConversionProgress]()

    def show(name: str, standing: Standing) -> None:
        if name not in stages:
            stages[name] = ConversionProgress("writing", None, lines, share=name)
        stages[name].show(standing)

    try:
        rows, left_out = write_shares(args.target, specs, show)
    finally:
        for stage in stages.values():
            stage.close()
    resumed = sum(stage.resumed for stage in stages.values())
    resumed += sum(
        number for name, number in rows.items() if name not in stages
    )  # published by the run before
    return rows, Written(sum(rows.values()), resumed, left_out)


def _write_part(asked: Writing, source: Source, progress: ConversionProgress) -> tuple[int, list[LeftOut]]:
    args = asked.args
    return write_part(
        source,
        args.target,
        asked.schema,
        index=args.index,
        metadata=source.metadata,
        overwrite=args.overwrite,
        id=asked.identity,
        limit=args.limit,
        scalar_codec=_scalar_codec(args),
        progress=progress.show,
    )


def say_written(target: str, written: Written, seconds: float) -> None:
    """Say what is at ``target`` now, and how fast this run was."""
    if written.published:
        say(f"the run before had finished: {_what_is_at(target, written.rows)}; there was nothing left to do")
        return
    say(f"wrote {_what_is_at(target, written.rows)}, {_how_fast(written, seconds)}")


def say_shares(target: str, shares: Mapping[str, int], written: Written, seconds: float) -> None:
    """Say what the shares in the folder ``target`` are, and how fast this run was."""
    for name, rows in shares.items():
        say(f"{name}: wrote {_what_is_at(os.path.join(target, name), rows)}")
    say(f"in all {many(written.rows, 'row')}, {_how_fast(written, seconds)}")
    empty = [name for name, rows in shares.items() if not rows]
    if empty and written.rows:
        warn(
            f"unirecord: no row has gone to {', '.join(empty)}: there are few rows, or few values of the column that "
            "decides; --stratify COLUMN takes shares of the rows of each value"
        )


def _what_is_at(target: str, rows: int) -> str:
    found = resolve(target)
    parts = len(found.parts)
    total = sum(
        location_of(file).size(file) for part in found.parts for file in (part.path, part.path + ".idx")
    )
    more = f" (now {found.rows:,})" if found.rows != rows else ""
    return f"{many(rows, 'row')}{more} in {many(parts, 'part')}, {format_size(total)}"


def _how_fast(written: Written, seconds: float) -> str:
    """The time, and the rate of the rows of this run where there are enough to tell."""
    rows = written.rows - written.resumed
    rate = f", {rows / seconds:,.0f} rows/s" if seconds > 0 and rows >= 1000 else ""
    before = f" ({many(written.resumed, 'row')} by the run before)" if written.resumed else ""
    return f"in {duration(seconds)}{rate}{before}"


def row_choice(args: argparse.Namespace) -> RowChoice:
    """What was asked for; `UsageError` for what excludes each other."""
    shared = args.split is not None or args.split_by is not None
    refuse(
        {
            "--seed says which rows --sample draws or --split parts; there is no --sample and no --split": (
                args.seed is not None and args.sample is None and args.split is None
            ),
            "--stratify says how --split is made; there is no --split": (
                args.stratify is not None and args.split is None
            ),
            "--split excludes --limit (--sample takes rows of all) and --append (write the new rows to another DST: "
            "with the same --seed each row goes to the same share)": (
                shared and (args.limit is not None or args.append)
            ),
            "--sample and --limit both say how many rows; choose one": (
                args.sample is not None and args.limit is not None
            ),
        }
    )
    with wrong_call():
        return RowChoice(
            columns=args.columns,
            rename=args.rename,
            where=args.where,
            sample=args.sample,
            seed=args.seed or 0,
            on_error=args.on_error,
            resize=args.resize,
            max_side=args.max_side,
            reencode=args.reencode,
            picture_columns=args.picture_columns,
            split=_split_choice(args),
            order=_order(args),
        )


def _order(args: argparse.Namespace) -> RowOrder | None:
    if args.sort is None and args.shuffle_seed is None:
        return None
    return RowOrder(args.sort, args.shuffle_seed)


def _split_choice(args: argparse.Namespace) -> SplitChoice | None:
    if args.split is None:
        return None if args.split_by is None else SplitChoice(None, args.split_by)
    try:
        shares = pairs(args.split, "NAME=SHARE")
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--split: {error}; an example is train=0.9,val=0.1") from None
    return SplitChoice(shares, args.split_by, args.stratify)


_AUTO = "auto"
_NONE = "none"
_THERE_IS_NONE = (
    "no column holds bytes, text, arrays or objects, which alone are compressed; --schema NAME=text stores a column "
    "of strings so"
)


def with_codecs(
    schema: Schema, text: str | None, source: Source, before: Snapshot | None
) -> tuple[Schema, Mapping[str, str]]:
    """The schema with the codecs that ``text`` asks for, and what is to be said of each column that was tried.

    ``text``: ``auto``, ``none``, a codec for all blob columns, or ``COLUMN=CODEC,…``, where auto and none may stand
    too; None: as the last part of the dataset ``before`` has them, to which rows are appended, if any.
    """
    if text is None:
        return (schema if before is None else _like_last_part(schema, before)), {}
    asked = _asked(schema, text)
    tried = [name for name, codec in asked.items() if codec == _AUTO]
    choices: Mapping[str, CodecChoice] = {}
    if tried:
        check_codec(Codec.parse("zstd").code)
        choices = choose_codecs(schema, _sample(schema, source))
    columns = []
    for column in schema:
        codec = asked.get(column.name)
        if codec == _AUTO:
            columns.append(replace(column, codec=choices[column.name].codec))
        elif codec == _NONE:
            columns.append(replace(column, codec=None))
        elif codec is not None:
            columns.append(_compressed(schema, column.name, codec))
        else:
            columns.append(column)
    return Schema(columns), {name: choices[name].why for name in tried}


def _like_last_part(schema: Schema, before: Snapshot) -> Schema:
    if not before.parts:
        return schema
    opened = PartSet(before, knows_deletions=True)  # reads no rows
    try:
        last = opened.part(len(opened) - 1).stored_schema
    finally:
        opened.close()
    return Schema(replace(c, codec=last[c.name].codec if c.name in last else None) for c in schema)


def _asked(schema: Schema, text: str) -> dict[str, str]:
    """The codec asked for by name of column."""
    blobs = [column.name for _, column in schema.blobs]
    if "=" not in text:
        if text not in (_AUTO, _NONE) and not blobs:
            raise UsageError(f"--codec {text!r}: {_THERE_IS_NONE}")
        return dict.fromkeys(blobs, text)
    try:
        asked = pairs(text, "COLUMN=CODEC")
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--codec: {error}") from None
    for name in asked:
        if name not in blobs:
            others = f"those that can be compressed are {', '.join(blobs)}" if blobs else _THERE_IS_NONE
            raise UsageError(f"--codec: {name!r} is no blob column; {others}")
    return asked


def _compressed(schema: Schema, name: str, codec: str) -> Column:
    spec = schema[name].spec
    plain = {"type": spec} if isinstance(spec, str) else spec
    try:
        return Schema.parse({name: {**plain, "codec": codec}})[0]
    except SchemaError as error:
        raise UsageError(f"--codec: {error}") from None


def _sample(schema: Schema, source: Source) -> ColumnBatch:
    """The first batch of the source, as it would be stored."""
    encoder = RecordEncoder(schema, "ignore")
    first = next(source.batches(), None)
    return encoder.encode_batch(first.columns, 0) if first is not None else encoder.take()


def engine_of(args: argparse.Namespace) -> Engine | None:
    """Return the engine asked for; UsageError for options that it cannot obey, SchemaError when it is missing."""
    if args.engine is None:
        return None
    excluded = {
        "a DST of one part": args.target.endswith(".urec"),
        "--workers": args.workers > 1,
        "--limit": args.limit is not None,
        "--split": args.split is not None,
        "--split-by": args.split_by is not None,
    }
    said = f"--engine {args.engine} writes parts as the cluster has room; leave out"
    refuse({f"{said} {name}": given for name, given in excluded.items()})
    return ray_engine(args.target)


_SHOWN = 20


def check_report(args: argparse.Namespace) -> None:
    """Settle where the file is to be, and refuse a place that is in use, before any work is done."""
    if args.on_error == "report" and args.report is None:
        args.report = f"{args.target.rstrip('/')}.left-out.jsonl"
    if args.report is None:
        return
    location = location_of(path_on_disk(args.report, "a report"))
    there = location.find(args.report)
    if there is not None and not (args.overwrite and there.kind == "file"):
        raise ExistsError(f"{args.report} exists already; with --overwrite the report replaces it")
    if os.path.abspath(args.report) in {os.path.abspath(path) for path in (*args.source, args.target)}:
        raise UsageError(f"--report {args.report} is what is read or written; name another file")
    if not location.is_directory(os.path.dirname(os.path.abspath(args.report))):
        raise UsageError(f"--report: the folder of {args.report} does not exist; make it first")


def say_expected(left_out: Sequence[LeftOut]) -> None:
    """Say what of the source was left out or changed on purpose, each once, with its number."""
    lines = said_of_left_out(left_out)
    if lines:
        say("left out, or not as in the source:", *(f"  {line}" for line in lines))


def say_left_out(left_out: Sequence[LeftOut], item: str, args: argparse.Namespace) -> int:
    """Say and list it; the exit code is 1 where something was left out without having been asked for."""
    say_expected(left_out)
    if args.report is not None:
        write_report(args.report, left_out)
    bad = [one for one in left_out if not one.expected]
    if not bad:
        return 0
    lines = [f"  {one.name}: {one.reason}" for one in bad[:_SHOWN]]
    warn(f"unirecord: {said_of_unread(left_out, item)}, left out:", *lines)
    if len(bad) > _SHOWN:
        whole = f"are in {args.report}" if args.report else "are listed with --report FILE"
        warn(f"  … and {len(bad) - _SHOWN:,} more; all {whole}")
    elif args.report is not None:
        warn(f"  listed in {args.report}")
    return 0 if args.on_error is not None else 1


def lines_of(args: argparse.Namespace) -> ProgressLines | None:
    """What tells lines of JSON, where ``--progress json`` asks for them; then there is no bar."""
    return ProgressLines() if args.progress == "json" else None


@contextmanager
def survey_progress(stage: str, lines: ProgressLines | None) -> Iterator[Callable[[int, int], None]]:
    """Within, what is given shows bytes that are read before anything is written; of 0 in all, if that is not known."""
    with ProgressBar(stage, 0, format_size) as bar:

        def tell(done: int, total: int = 0) -> None:
            if lines is None:
                bar.update(done, total)
            else:
                lines.update(lambda: {"stage": stage, "bytes_read": done, "all_bytes": total or None})

        yield tell


class ConversionProgress(ProgressBar):
    """Shows how far one stage is; each stage has rates of its own, of what this run has done.

    ``resumed``: rows that an earlier run had written, once the stage has said so; ``published``: and published.
    """

    def __init__(
        self, stage: str, known: int | None, lines: ProgressLines | None, share: str | None = None
    ) -> None:
        self._stage = {"stage": stage} if share is None else {"stage": stage, "share": share}
        self._lines, self.resumed, self.published = lines, 0, False
        self._told = False
        super().__init__(" ".join(self._stage.values()), known or 0, _rows_text)

    def show(self, standing: Standing) -> None:
        """Show it, if it is time."""
        self.resumed, self.published = standing.resumed_rows, standing.published
        said = standing.said_of_dropped()
        if said is not None and not self._told:
            self._told = True
            warn(f"unirecord: {said.replace('resume', '--resume')}")
        ended = 0 < standing.all_tasks == standing.tasks
        if self._lines is not None:
            self._lines.update(lambda: self.values(standing), last=ended)
            return
        self.update(
            standing.rows,
            standing.all_rows,
            before=standing.resumed_rows,
            more=lambda: self._notes(standing),
        )
        if ended and not standing.published:
            rate = self._pace.rate(standing.rows, standing.resumed_rows)
            self.finish(
                f"{_rows_text(standing.rows)} written, {rate:,.0f} rows/s, comparing some of them with the source"
            )

    def values(self, standing: Standing) -> dict[str, Any]:
        """What a line of JSON says."""
        rows, before = standing.rows, standing.resumed_rows
        left = self._pace.left(rows, standing.all_rows, before)
        return {
            **self._stage,
            **vars(standing),
            "rows_per_second": round(self._pace.rate(rows, before), 1),
            "bytes_per_second": round(self._pace.rate(standing.bytes, standing.resumed_bytes)),
            "seconds_left": None if left is None else round(left, 1),
        }

    def _notes(self, standing: Standing) -> list[str]:
        notes = []
        if standing.bytes:
            rate = self._pace.rate(standing.bytes, standing.resumed_bytes)
            notes.append(f"{format_size(standing.bytes)}, {format_size(int(rate))}/s")
        if standing.all_tasks > 1:
            notes.append(f"{standing.tasks:,} of {many(standing.all_tasks, 'part')} done")
            if standing.parts:
                others = len(standing.parts) - 1
                notes.append(f"at {standing.parts[0]}" + (f" and {others} more" if others else ""))
        return notes


def _rows_text(rows: int) -> str:
    return many(rows, "row")


@command(
    """Split a dataset into several: each row goes where a hash of it, or of a column, says, so that rows that are
    added later move no other. The same as `unirecord write PATH DST --split …`, with the index of PATH.""",
    """
    unirecord split dataset shares train=0.9,val=0.1
    unirecord split dataset shares train=0.9,val=0.1 --by patient
    unirecord split dataset by-country --by country     a dataset of each value
    """,
    PATH.but(help="a dataset"),
    TARGET.but(help="a folder for the shares"),
    Argument("shares", metavar="NAME=SHARE,…", nargs="?", help="as train=0.9,val=0.1"),
    BY.but(help="the column that decides: its equal values stay together"),
    STRATIFY,
    SEED.but(type=count, help="of the hash (default 0)"),
    WORKERS.but(default=None),
    DRY_RUN,
)
def split_command(args: argparse.Namespace) -> int:
    from .main import main  # which has this command too

    given = {
        "--split": args.shares,
        "--split-by": args.by,
        "--stratify": args.stratify,
        "--seed": args.seed,
        "--workers": args.workers,
        "--index": ",".join(resolve(args.path).index) or None,
    }
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return main(["write", args.path, args.target, *options, *["--dry-run"] * args.dry_run])
