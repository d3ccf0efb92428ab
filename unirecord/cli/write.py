"""``unirecord write SRC DST``: raw data to a dataset; ``unirecord split``: a dataset to several."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from ..convert.conversion import Engine, Standing
from ..convert.row_choice import (
    ON_ERROR,
    RowChoice,
    SplitChoice,
    check_split_target,
)
from ..convert.row_order import RowOrder
from ..convert.sources import (
    KINDS,
    MAX_SPOOL_BYTES,
    SOURCES,
    LeftOut,
    Source,
    WrongSourceError,
    open_input,
)
from ..convert.sources.overrides import parse_overrides
from ..convert.sources.source import (
    AskedOption,
    said_of_left_out,
    said_of_unread,
    write_report,
)
from ..convert.task import keep_freed_memory
from ..convert.tokenizer import Tokenization
from ..convert.write_dataset import WritePlan, WriteRequest
from ..errors import ExistsError
from ..format.column import Column
from ..format.logical import shown
from ..format.schema import Schema
from ..frameworks.ray_data import engine
from ..sizes import format_size, many
from ..snapshot.dataset_path import no_directory
from ..snapshot.part_set import resolve
from ..snapshot.snapshot import classes_of
from ..snapshot.versions import located_version
from ..storage.schemes import location_of, path_on_disk
from ..writing.target import PART_BYTES, check_free, check_path
from .arguments import (
    BY,
    COLUMNS,
    DRY_RUN,
    DUPLICATES_FILE,
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
    unirecord write old.csv new.jsonl 'parts-{000..009}.parquet' all --columns text,label
    unirecord write pictures/ sample.urec --limit 100 --columns image,label
    unirecord write log.jsonl log --codec auto
    unirecord write text.jsonl tokens --tokenizer gpt2/tokenizer.json --append-eos '<|endoftext|>'
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
        Argument(
            "--unique-by",
            type=names,
            metavar="A,B",
            help="of rows with the same values in these columns the first alone, also behind those that --append finds",
        ),
        DUPLICATES_FILE.but(help="list the others, with the rows that they are duplicates of, as JSON Lines"),
        Argument(
            "--tokenizer",
            metavar="FILE",
            help="tokens in the place of text, by this tokenizer.json, or the one in this folder (docs/language.md)",
        ),
        Argument(
            "--text-column", metavar="A", help="the text, if it is not the only one, and not called text"
        ),
        Argument("--append-eos", metavar="TOKEN", help="behind each text, such as '<|endoftext|>'"),
        Argument("--prepend-bos", metavar="TOKEN", help="before each text, such as '<s>'"),
        Argument(
            "--add-special-tokens",
            action="store_true",
            help="put the tokens there that the tokenizer itself says, in place of these",
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
    request = _request(args)
    _check_target(args, request.choice)
    with wrong_call():
        schema = parse_overrides(args.schema) if args.schema else None
    lines = ProgressLines() if args.progress == "json" else None
    with survey_progress("copying", lines) as tell:
        found = [open_input(source, args.max_spool_bytes, tell) for source in args.source]
    with wrong_call(WrongSourceError, plain=()), survey_progress("looking through", lines) as tell:
        plan = request.plan(found, schema=schema, kind=args.kind, tell=tell, **options_of_sources(args))
    _print_plan(plan, args)
    if args.dry_run:
        say_expected(plan.chosen.left_out)
        _say_estimate(plan, args, time.monotonic() - started)
        return 0
    with Stages(lines) as stages, wrong_call(WrongSourceError, plain=()):
        rows, left_out = plan.run(stages)
    seconds = time.monotonic() - started
    if request.choice.split is not None:
        say_shares(args.target, rows, stages, seconds)
    else:
        say_written(args.target, rows[""], stages, seconds)
    return say_left_out(left_out, plan.source.item, args)


def _request(args: argparse.Namespace) -> WriteRequest:
    """What was asked for; `UsageError` for what excludes each other."""
    choice = row_choice(args)
    return WriteRequest(
        args.target,
        choice,
        index=args.index,
        overwrite=args.overwrite,
        append=args.append,
        codec=codec_of(args.codec),
        max_part_bytes=args.max_part_bytes or PART_BYTES,
        id=_identity(args),
        workers=args.workers,
        engine=engine_of(args),
        resume=args.resume,
        limit=args.limit,
        classes_from=args.classes_from,
        max_spool_bytes=args.max_spool_bytes,
        duplicates_file=args.duplicates_file,
    )


def codec_of(text: str | None) -> str | dict[str, str] | None:
    """What ``--codec`` asks for: one of all columns, or ``COLUMN=CODEC,…``."""
    if text is None or "=" not in text:
        return text
    try:
        return pairs(text, "COLUMN=CODEC")
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--codec: {error}") from None


def _check_target(args: argparse.Namespace, choice: RowChoice) -> None:
    """Refuse a target that is in the way before any work is done."""
    if choice.split is not None:
        names = list(choice.split.shares or ())
        try:
            check_split_target(args.target, names, overwrite=args.overwrite, resume=args.resume)
        except ExistsError as error:
            raise ExistsError(_with_options(error, "--overwrite replaces it")) from None
        return
    with wrong_call():
        location = location_of(check_path(args.target))
    if location.in_file_system and located_version(args.target)[1] is not None:
        raise no_directory(args.target)
    parent = os.path.dirname(os.path.abspath(args.target))
    if location.in_file_system and not location.is_directory(parent):
        raise UsageError(f"the folder {parent} does not exist; make it first")
    one_part = args.target.endswith(".urec")
    alone = f"--max-part-bytes: {args.target} is to be one part; for parts choose a DST without .urec"
    refuse(
        {
            alone: one_part and args.max_part_bytes is not None,
            f"{args.target}: a single part cannot grow; append to a directory": one_part and args.append,
        }
    )
    if args.append:
        return
    try:
        check_free(args.target, overwrite=args.overwrite, resume=args.resume)
    except ExistsError as error:
        ways = "--overwrite replaces it" + ("" if one_part else ", --append adds to a directory")
        raise ExistsError(_with_options(error, ways)) from None


def _with_options(error: ExistsError, ways: str) -> str:
    """What the error says, with the options that are those of Python that it names, where it names any."""
    return f"{error} (on the command line: {ways})" if "overwrite=True" in str(error) else str(error)


def _print_plan(plan: WritePlan, args: argparse.Namespace) -> None:
    source, schema = plan.source, plan.schema
    rows = "" if source.rows is None else f", {many(source.rows, 'row')}"
    say(f"{source.path} → {args.target}  ({source.kind}{rows})")
    marks = [[c.name, _shown_type(c, args.index, plan.tried)] for c in schema]
    for line in table(marks):
        say(f"  {line}")
    for note in [
        *source.notes,
        *_index_notes(source, schema, args),
        *_chosen_notes(source, plan.request.choice, args),
    ]:
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
        "--tokenizer",
        "--append-eos",
        "--prepend-bos",
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
    text = str(column) if column.logical is None else f"{column}, {shown(column.logical)}"
    text += ", indexed" if column.name in index else ""
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


def _say_estimate(plan: WritePlan, args: argparse.Namespace, looked: float) -> None:
    """Say how large the dataset would be and how long it would take, as a sample shows."""
    found = plan.estimate()
    if found.rows == 0 and found.bytes == 0:
        say("nothing was written; there are no rows")
    elif found.rows is None or found.bytes is None:
        say("nothing was written; how many rows there are is known when they are read")
    else:
        about = "" if plan.chosen.rows is not None else f"about {many(found.rows, 'row')}, "
        say(
            f"nothing was written; {about}about {format_size(found.bytes)} of values, in about "
            f"{duration(looked + found.seconds)} with {many(args.workers, 'worker')} where the disk keeps up"
        )


class Stages:
    """Shows the stages of a call one after the other, and of a split those of all shares."""

    def __init__(self, lines: ProgressLines | None) -> None:
        self._lines, self._open = lines, ExitStack()
        self._shown: dict[str | None, ConversionProgress] = {}

    def __enter__(self) -> Stages:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """End what is shown."""
        self._open.close()

    def __call__(self, stage: str, rows: int | None, share: str | None) -> Callable[[Standing], None]:
        """Begin a stage; what is returned shows how far it is."""
        if share is None:
            self._open.close()
        shown = self._open.enter_context(ConversionProgress(stage, rows, self._lines, share))
        self._shown[share] = shown
        return shown.show

    @property
    def published(self) -> bool:
        """Whether an earlier run had published all of it."""
        return any(one.published for one in self._shown.values())

    def resumed(self, rows: Mapping[str, int]) -> int:
        """How many of the rows, by the names of shares, an earlier run had written, or published."""
        resumed = sum(one.resumed for one in self._shown.values())
        return resumed + sum(number for name, number in rows.items() if (name or None) not in self._shown)


def say_written(target: str, rows: int, stages: Stages, seconds: float) -> None:
    """Say what is at ``target`` now, and how fast this run was."""
    if stages.published:
        say(f"the run before had finished: {_what_is_at(target, rows)}; there was nothing left to do")
        return
    say(f"wrote {_what_is_at(target, rows)}, {_how_fast(rows, stages.resumed({'': rows}), seconds)}")


def say_shares(target: str, shares: Mapping[str, int], stages: Stages, seconds: float) -> None:
    """Say what the shares in the folder ``target`` are, and how fast this run was."""
    for name, rows in shares.items():
        say(f"{name}: wrote {_what_is_at(os.path.join(target, name), rows)}")
    every = sum(shares.values())
    say(f"in all {many(every, 'row')}, {_how_fast(every, stages.resumed(shares), seconds)}")
    empty = [name for name, rows in shares.items() if not rows]
    if empty and every:
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


def _how_fast(rows: int, resumed: int, seconds: float) -> str:
    """The time, and the rate of the rows of this run where there are enough to tell."""
    rows -= resumed
    rate = f", {rows / seconds:,.0f} rows/s" if seconds > 0 and rows >= 1000 else ""
    before = f" ({many(resumed, 'row')} by the run before)" if resumed else ""
    return f"in {duration(seconds)}{rate}{before}"


def row_choice(args: argparse.Namespace) -> RowChoice:
    """What was asked for; `UsageError` for what excludes each other."""
    shared = args.split is not None or args.split_by is not None
    refuse(
        {
            "--seed says which rows --sample draws or --split parts; there is no --sample and no --split": (
                args.seed is not None and args.sample is None and args.split is None
            ),
            "--duplicates-file lists what --unique-by leaves out; there is no --unique-by": (
                args.duplicates_file is not None and args.unique_by is None
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
            unique_by=args.unique_by,
            tokenization=Tokenization.asked(
                args.tokenizer,
                args.text_column,
                args.append_eos,
                args.prepend_bos,
                args.add_special_tokens,
            ),
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
    return engine(args.target)


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
        done, total, before = _work(standing)
        self.update(done, total, before=before, more=lambda: self._notes(standing))
        if ended and not standing.published:
            rate = self._pace.rate(standing.rows, standing.resumed_rows)
            self.finish(
                f"{_rows_text(standing.rows)} written, {rate:,.0f} rows/s, comparing some of them with the source"
            )

    def values(self, standing: Standing) -> dict[str, Any]:
        """What a line of JSON says."""
        rows, before = standing.rows, standing.resumed_rows
        done, total, done_before = _work(standing)
        left = self._pace.left(done, total, done_before)
        return {
            **self._stage,
            **vars(standing),
            "rows_per_second": round(self._pace.rate(rows, before), 1),
            "bytes_per_second": round(self._pace.rate(standing.bytes, standing.resumed_bytes)),
            "seconds_left": None if left is None else round(left, 1),
        }

    def _notes(self, standing: Standing) -> list[str]:
        notes = []
        if standing.all_rows_read is not None and standing.rows != standing.rows_read:
            notes.append(f"{standing.rows:,} written")
        if standing.bytes:
            rate = self._pace.rate(standing.bytes, standing.resumed_bytes)
            notes.append(f"{format_size(standing.bytes)}, {format_size(int(rate))}/s")
        if standing.all_tasks > 1:
            notes.append(f"{standing.tasks:,} of {many(standing.all_tasks, 'part')} done")
            if standing.parts:
                others = len(standing.parts) - 1
                notes.append(f"at {standing.parts[0]}" + (f" and {others} more" if others else ""))
        return notes


def _work(standing: Standing) -> tuple[int, int | None, int]:
    """Rows done, in all, and by an earlier run: those that are read, or, where it is not known how many, written."""
    if standing.all_rows_read is None:
        return standing.rows, standing.all_rows, standing.resumed_rows
    return standing.rows_read, standing.all_rows_read, standing.resumed_read


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
