"""Writes raw data as a dataset: what a call or the command asks for, its plan, and the writing; and splits datasets."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple

from ..core import check_codec
from ..errors import ExistsError, SchemaError, did_you_mean
from ..format.column import Codec, Column, differing_annotation
from ..format.logical import other_logical, shown
from ..format.metadata import pack_user
from ..format.schema import Schema
from ..format.values import ColumnBatch, RecordEncoder
from ..progress import Progress
from ..sizes import parse_size
from ..snapshot.dataset_path import resolve
from ..snapshot.part_set import PartSet
from ..snapshot.snapshot import Snapshot, class_difference, classes_of
from ..storage.schemes import location_of, path_on_disk
from ..storage.storage_options import current_storage, storage_of, use_storage
from ..writing.part_writer import CodecChoice, ScalarCodec, choose_codecs
from ..writing.target import (
    PART_BYTES,
    check_beside,
    check_free,
    check_id,
    check_part_bytes,
    check_path,
    storage_to_write_to,
)
from .conversion import Conversion, Engine, Standing, write_part, write_sample
from .row_choice import RowChoice, SplitChoice, check_split_target, share_id, with_nulls, write_shares
from .row_order import RowOrder, check_sort, in_order
from .sources import (
    MAX_SPOOL_BYTES,
    InputPath,
    LeftOut,
    Options,
    Source,
    WrongSourceError,
    open_input,
    open_sources,
    refuse_unknown,
    source_type,
)
from .sources.given import OF_TUPLES, GivenColumns, GivenRecords, GivenTable, is_table
from .sources.overrides import TypesThere
from .sources.source import OnError, WantedColumns, warn_of_left_out, write_report
from .sources.stored_dataset import with_codecs_of
from .tokenizer import Tokenization
from .unique_rows import Duplicates

__all__ = [
    "Expected",
    "WritePlan",
    "WriteRequest",
    "WrittenRows",
    "source_of",
    "split",
    "write_dataset",
]


# What is to be written, as `unirecord write` and `write_dataset` both ask for it, and what that comes to.


Stage = Callable[[str, int | None, str | None], Callable[[Standing], None]]

_AUTO: Final = "auto"
_NONE: Final = "none"
_THERE_IS_NONE: Final = (
    "no column holds bytes, text, arrays or objects, which alone are compressed; --schema NAME=text stores a column "
    "of strings so"
)


@dataclass(frozen=True)
class WriteRequest:
    """What is to be written, where and how; each under the name that `write_dataset` has for it.

    Attributes:
        target: where the dataset is to be.
        choice: what is taken of the source.
    """

    target: str
    choice: RowChoice
    index: Sequence[str] = ()
    metadata: object = None
    overwrite: bool = False
    append: bool = False
    codec: str | Mapping[str, str] | None = None
    max_part_bytes: int = PART_BYTES
    id: bytes | None = None
    workers: int = 1
    engine: Engine | None = None
    resume: bool = False
    limit: int | None = None
    classes_from: str | os.PathLike[str] | None = None
    max_spool_bytes: int = MAX_SPOOL_BYTES
    duplicates_file: str | None = None

    def __post_init__(self) -> None:
        if self.duplicates_file is not None and self.choice.unique_by is None:
            raise ValueError("duplicates_file lists what unique_by leaves out, which is not given")
        if self.duplicates_file is not None:
            check_beside("duplicates_file", self.duplicates_file, self.target)

    def before(self) -> Snapshot | None:
        """The dataset that rows are appended to, if any."""
        if not self.append or not location_of(self.target).is_taken(self.target):
            return None
        return resolve(self.target)

    def plan(
        self,
        given: Any,
        *,
        schema: Mapping[str, Any] | Schema | None = None,
        names: Sequence[str] | None = None,
        kind: str | None = None,
        tell: Progress | None = None,
        **options: Any,
    ) -> WritePlan:
        """Look through what is given, and check all that can be checked before anything is written.

        Raises `WrongSourceError` where the call is wrong, and `SchemaError` about the data.
        """
        before = self.before()
        source = self._look_through(given, before, schema, names, kind, tell, options)
        _check_classes(source, before, self.target)
        # A run that goes on finds the list of the one before.
        again = self.overwrite or self.resume
        duplicates = self.choice.duplicates(
            source, before, self.target, self.duplicates_file, overwrite=again, tell=tell
        )
        chosen = self.choice.of(source, duplicates)
        if before is not None:
            chosen = with_nulls(chosen, before.schema)
        if self.choice.order is not None:
            check_sort(self.choice.order, chosen.schema)
        found = chosen.schema
        if before is not None:
            source.notes += _other_media_types(found, before.schema)
            _check_meanings(found, before.schema)
            found = found.with_annotations_of(before.schema)
        _check_index(self.index, found)
        found, tried = with_codecs(found, self.codec, chosen, before)
        return WritePlan(self, source, chosen, found, tried, before, duplicates)

    def _look_through(
        self,
        given: Any,
        before: Snapshot | None,
        schema: Mapping[str, Any] | Schema | None,
        names: Sequence[str] | None,
        kind: str | None,
        tell: Progress | None,
        options: dict[str, Any],
    ) -> Source:
        inputs = _inputs(given, self.max_spool_bytes)
        if before is not None:  # new rows take the types of those that are there
            old = {new: name for name, new in self.choice.rename.items()}
            # Text is read by what values stand for: 5 is 5.00 in decimals. Others say of themselves what theirs are.
            is_text = bool(inputs) and all(source_type(one, kind).values_are_text for one in inputs or ())
            known = before.schema if is_text else before.schema.with_annotations_of(Schema(()))
            # Tokens are made of what the source has under their name.
            made = {one.name for one in before.schema if "tokenizer" in one.annotations}
            no_types = made if self.choice.tokenization is not None else set()
            there = {name: spec for name, spec in known.to_spec().items() if name not in no_types}
            asked = schema.to_spec() if isinstance(schema, Schema) else schema or {}
            schema = TypesThere({old.get(name, name): spec for name, spec in there.items()}, asked)
        takes_classes = any(source_type(one, kind).takes_classes for one in inputs or ())
        if self.classes_from is not None and not takes_classes:
            raise WrongSourceError(
                "--classes-from: there are no classes to number in "
                + (", ".join(one.name for one in inputs) if inputs else f"a {type(given).__name__}")
            )
        classes = _classes(self.classes_from, before, self.target) if takes_classes else None
        return source_of(
            given if inputs is None else inputs, schema=schema, names=names, kind=kind, threads=max(self.workers, 1),
            on_error=self.choice.on_error, wanted=self.choice.wanted, classes=classes,
            tell=tell, **options,
        )  # fmt: skip


class Expected(NamedTuple):
    """What would be written: how many rows and bytes of values, None where that is not known; and seconds."""

    rows: int | None
    bytes: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class WritePlan:
    """What a request comes to, once all of it has been checked.

    Attributes:
        request: what was asked for.
        source: what is read, as it was looked through.
        chosen: the rows and columns that are taken of it.
        schema: the columns to write.
        tried: what there is to say of columns whose codec a sample has chosen.
        before: the dataset that is appended to, if any.
        duplicates: the rows that are left out since an earlier one has the same key, where that was asked for.
    """

    request: WriteRequest
    source: Source
    chosen: Source
    schema: Schema
    tried: Mapping[str, str]
    before: Snapshot | None
    duplicates: Duplicates | None

    def estimate(self) -> Expected:
        """What would be written, as a sample of the rows shows."""
        known = [unit.rows for unit in self.chosen.units if unit.rows is not None]
        if len(known) < len(self.chosen.units):
            return Expected(None)
        if not sum(known):
            return Expected(0, 0)
        found = write_sample(self.chosen, self.schema, self.request.index)
        if not found.rows:
            return Expected(None)
        every = round(sum(known) * self.chosen.share)
        rows = every if self.request.limit is None else min(self.request.limit, every)
        return Expected(
            rows, int(found.row_bytes * rows), found.seconds / found.rows * rows / self.request.workers
        )

    def run(self, stage: Stage) -> tuple[dict[str, int], list[LeftOut]]:
        """Write and publish; how many rows there are by the names of shares, "" without these, and what was left out.

        ``stage`` is given the name of a stage, how many rows it has, and of which share, and gives what is told how
        far it is.
        """
        request, choice = self.request, self.request.choice
        if choice.split is not None:
            return self._write_shares(stage)
        if choice.order is None:
            rows, left_out = self._write(self.chosen, stage)
            return {"": rows}, left_out
        with in_order(
            self.chosen,
            choice.order,
            request.target,
            workers=request.workers,
            resume=request.resume,
            options=choice.options(),
            progress=stage("reading", self.chosen.rows, None),
        ) as ordered:
            rows, left_out = self._write(ordered, stage)
        return {"": rows}, left_out

    def _write(self, source: Source, stage: Stage) -> tuple[int, list[LeftOut]]:
        request = self.request
        show = stage("writing", source.rows if request.limit is None else request.limit, None)
        if request.target.endswith(".urec"):
            rows, left_out = write_part(
                source, request.target, self.schema, index=request.index, metadata=self._metadata(source),
                overwrite=request.overwrite, id=request.id, limit=request.limit, scalar_codec=self._scalar_codec(),
                progress=show,
            )  # fmt: skip
        else:
            spec = self._conversion(source, request.target, request.id)
            spec.append = self.before is not None
            spec.index = (request.index or None) if spec.append else request.index
            rows, left_out = spec.run(show)
        return rows, [*source.left_out, *left_out]

    def _write_shares(self, stage: Stage) -> tuple[dict[str, int], list[LeftOut]]:
        specs = {
            name: self._conversion(
                share, os.path.join(self.request.target, name), share_id(self.request.id, name)
            )
            for name, share in self.request.choice.shares(self.source, self.duplicates).items()
        }
        shows: dict[str, Callable[[Standing], None]] = {}

        def show(name: str, standing: Standing) -> None:
            if name not in shows:
                shows[name] = stage("writing", None, name)
            shows[name](standing)

        return write_shares(self.request.target, specs, show)

    def _conversion(self, source: Source, path: str, identity: bytes | None) -> Conversion:
        request = self.request
        return Conversion(
            source, path, self.schema, index=request.index, user=pack_user(self._metadata(source)),
            max_part_bytes=request.max_part_bytes, overwrite=request.overwrite, id=identity, workers=request.workers,
            engine=request.engine, resume=request.resume, limit=request.limit, options=request.choice.options(),
            scalar_codec=self._scalar_codec(),
        )  # fmt: skip

    def _metadata(self, source: Source) -> object:
        return source.metadata if self.request.metadata is None else self.request.metadata

    def _scalar_codec(self) -> ScalarCodec:
        return "none" if self.request.codec == _NONE else None


def _numbered(dataset: Snapshot) -> Sequence[str] | None:
    """The classes by number that a dataset names: by its column ``label``, else in its metadata."""
    label = dataset.schema["label"].classes if "label" in dataset.schema else None
    return list(label) if label else classes_of(dataset.metadata)


def _classes(
    classes_from: str | os.PathLike[str] | None, before: Snapshot | None, target: str
) -> Sequence[str] | None:
    """The classes by number of the dataset that is appended to, or of ``classes_from``."""
    known = None if before is None else _numbered(before)
    if classes_from is None:
        return known
    asked = _numbered(resolve(classes_from))
    if asked is None:
        raise WrongSourceError(
            f"--classes-from: {os.fspath(classes_from)} has no list of classes, of its label or in its metadata"
        )
    if known is not None and list(known) != list(asked):
        raise WrongSourceError(
            f"--classes-from: {os.fspath(classes_from)} numbers its classes otherwise than {target}, "
            f"to which is appended: {class_difference(known, asked)}"
        )
    return asked


def _check_classes(source: Source, before: Snapshot | None, target: str) -> None:
    """Refuse to append rows whose numbers of classes mean others."""
    new = (
        None if source.takes_classes or not isinstance(source.metadata, dict) else classes_of(source.metadata)
    )
    known = None if before is None else _numbered(before)
    if new is not None and known is not None and list(new) != list(known):
        raise WrongSourceError(
            f"{source.path} numbers its classes otherwise than {target}, to which is appended: "
            f"{class_difference(known, new)}"
        )


def _check_meanings(schema: Schema, before: Schema) -> None:
    """Refuse values that mean another thing than those that are there; a source that says none is taken at its word."""
    for column in schema:
        if column.name not in before:
            continue
        there = before[column.name]
        if column.logical is not None and other_logical(there.logical, column.logical):
            raise WrongSourceError(
                f"column {column.name!r} has the logical type {shown(there.logical)} in the dataset, and "
                f"{shown(column.logical)} here: convert it first, or leave it out"
            )
        difference = differing_annotation(there, column)
        if difference is not None:
            raise WrongSourceError(
                f"column {column.name!r} means another thing here than in the dataset: {difference}; write it to "
                "another DST"
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


def _check_index(index: Sequence[str], schema: Schema) -> None:
    for name in index:
        if name not in schema:
            raise WrongSourceError(
                f"--index: there is no column {name!r}{did_you_mean(name, schema.names)}; "
                f"the columns are {', '.join(schema.names)}"
            )
        if schema[name].is_blob:
            raise WrongSourceError(
                f"--index: column {name!r} is {schema[name]}; only numbers, bool and strings are looked up"
            )


def with_codecs(
    schema: Schema, codec: str | Mapping[str, str] | None, source: Source, before: Snapshot | None
) -> tuple[Schema, Mapping[str, str]]:
    """The schema with the codecs that are asked for, and what is to be said of each column that was tried.

    ``codec``: ``auto``, ``none``, a codec for all blob columns, or one of these by column; None: as the last part of
    the dataset ``before`` has them, to which rows are appended, if any.
    """
    if codec is None:
        if before is None:
            return schema, {}
        with closing(PartSet(before, knows_deletions=True)) as parts:  # reads no rows
            return with_codecs_of(schema, parts), {}
    asked = _asked(schema, codec)
    tried = [name for name, codec in asked.items() if codec == _AUTO]
    choices: Mapping[str, CodecChoice] = {}
    if tried:
        check_codec(Codec.parse("zstd").code)
        choices = choose_codecs(schema, _sample(schema, source))
    columns = []
    for column in schema:
        chosen = asked.get(column.name)
        if chosen == _AUTO:
            columns.append(replace(column, codec=choices[column.name].codec))
        elif chosen == _NONE:
            columns.append(replace(column, codec=None))
        elif chosen is not None:
            columns.append(_compressed(schema, column.name, chosen))
        else:
            columns.append(column)
    return Schema(columns), {name: choices[name].why for name in tried}


def _asked(schema: Schema, codec: str | Mapping[str, str]) -> dict[str, str]:
    """The codec asked for by name of column."""
    blobs = [column.name for _, column in schema.blobs]
    if isinstance(codec, str):
        if codec not in (_AUTO, _NONE) and not blobs:
            raise WrongSourceError(f"--codec {codec!r}: {_THERE_IS_NONE}")
        return dict.fromkeys(blobs, codec)
    for name in codec:
        if name not in blobs:
            others = f"those that can be compressed are {', '.join(blobs)}" if blobs else _THERE_IS_NONE
            raise WrongSourceError(f"--codec: {name!r} is no blob column; {others}")
    return dict(codec)


def _compressed(schema: Schema, name: str, codec: str) -> Column:
    spec = schema[name].spec
    plain = {"type": spec} if isinstance(spec, str) else spec
    try:
        return Schema.parse({name: {**plain, "codec": codec}})[0]
    except SchemaError as error:
        raise WrongSourceError(f"--codec: {error}") from None


def _sample(schema: Schema, source: Source) -> ColumnBatch:
    """The first batch of the source, as it would be stored."""
    encoder = RecordEncoder(schema, "ignore")
    first = next(source.batches(), None)
    return encoder.encode_batch(first.columns, 0) if first is not None else encoder.take()


# `write_dataset`: whatever a program or a path gives, written as a dataset in one call.


def source_of(
    given: Any,
    *,
    schema: Mapping[str, Any] | Schema | None = None,
    names: Sequence[str] | None = None,
    kind: str | None = None,
    threads: int = 1,
    on_error: OnError = None,
    wanted: WantedColumns | None = None,
    classes: Sequence[str] | None = None,
    tell: Progress | None = None,
    **options: Any,
) -> Source:
    """Return what a path, or several, or an object gives as a source."""
    overrides = schema.to_spec() if isinstance(schema, Schema) else schema or {}
    inputs = _inputs(given)
    is_path = inputs is not None
    if names is not None and (is_table(given) or isinstance(given, Mapping)):
        raise TypeError(OF_TUPLES)
    if names is not None and is_path:
        options["names"] = names
    asked = Options(overrides, classes, threads, on_error, wanted, **options)
    if inputs is not None:
        return open_sources(inputs, kind, asked, tell)
    if refused := [*asked.given(), *(["kind"] if kind is not None else [])]:
        refuse_unknown(asked)
        raise TypeError(f"{refused[0]}= is for paths; the source is a {type(given).__name__}")
    if isinstance(given, Source):
        return given
    if is_table(given):
        return GivenTable(given, asked)
    name = f"the {type(given).__name__}"
    if callable(given) and not hasattr(given, "__getitem__") and not hasattr(given, "__iter__"):
        given = given()
    if isinstance(given, Mapping):
        return GivenColumns(given, asked)
    first, given = _first(given)
    if is_table(first):
        return GivenTable(first, asked, name, islice(given, 1, None))
    return GivenRecords(given, asked, names=names)


def _inputs(given: Any, spool_bytes: int = MAX_SPOOL_BYTES) -> list[InputPath] | None:
    """What is at the path or the paths that are given, None for all else."""
    if isinstance(given, str | os.PathLike):
        given = [given]
    if not isinstance(given, list | tuple) or not given:
        return None
    if not all(isinstance(one, str | os.PathLike | InputPath) for one in given):
        return None
    return [one if isinstance(one, InputPath) else open_input(os.fspath(one), spool_bytes) for one in given]


def _first(given: Any) -> tuple[Any, Any]:
    """The first item of an iterable or a sequence, if it has one, and the same with that item."""
    if not isinstance(given, Iterable):
        return None, given
    if isinstance(given, Sequence):
        return (given[0] if len(given) else None), given
    if not isinstance(given, Iterator):
        return None, given
    items = list(islice(given, 1))
    return (items[0] if items else None), chain(items, given)


def write_dataset(
    source: Any,
    path: str | os.PathLike[str],
    *,
    schema: Mapping[str, Any] | Schema | None = None,
    names: Sequence[str] | None = None,
    kind: str | None = None,
    index: Sequence[str] = (),
    metadata: object = None,
    max_part_bytes: int | str | None = None,
    overwrite: bool = False,
    id: bytes | None = None,
    codec: str | Mapping[str, str] | None = None,
    append: bool = False,
    workers: int = 1,
    engine: Engine | None = None,
    resume: bool = False,
    dry_run: bool = False,
    progress: Callable[[Standing], None] | None = None,
    max_spool_bytes: int | str | None = None,
    classes_from: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    resize: int | None = None,
    max_side: int | None = None,
    reencode: str | None = None,
    picture_columns: Sequence[str] | None = None,
    split: Mapping[str, float | str] | None = None,
    split_by: str | None = None,
    stratify: str | None = None,
    sort: str | None = None,
    shuffle_seed: int | None = None,
    unique_by: Sequence[str] | None = None,
    duplicates_file: str | os.PathLike[str] | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    text_column: str | None = None,
    append_eos: str | None = None,
    prepend_bos: str | None = None,
    add_special_tokens: bool = False,
    on_error: Literal["raise", "skip", "report"] | None = None,
    report: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> WrittenRows:
    """Writes whatever ``source`` gives as a dataset, and returns how many rows there are.

    What the source has and the dataset has not, or in another form, is in ``left_out`` of what is returned, and in one
    `LeftOutWarning`.

    Args:
        source: the path of raw data of any kind that ``unirecord write`` reads, or a list of several, each read as what
            it is; a pandas or polars DataFrame, a pyarrow Table, a Hugging Face dataset; a dict of columns, each an
            array or a list; a map-style dataset (``len`` and ``[i]``), an iterable or a generator function, of dicts or
            tuples.
        path: where the dataset is to be, as for `Writer`.
        schema: types that replace those that are found.
        names: of the values, where items are tuples; of the columns of CSV files without a header line.
        kind: what a path is, when its name does not say so: a name of ``unirecord write --from``.
        index, metadata, max_part_bytes, overwrite, id: as for `Writer`; the metadata of the source is the default.
        codec: how blob columns are compressed: ``"zstd"``, ``"zstd:9"``, ``"auto"`` (what a sample says), one of these
            by column, or ``"none"``: no column, also not the scalars of the data file.
        append: add parts to the directory that is at ``path``, if there is one; rows get its types.
        workers: processes, each of which writes whole parts of a directory; the bytes are the same for any number.
        engine: what runs the tasks in their place: ``unirecord.ray.engine(path)``.
        resume: go on with what the same call has left when it was stopped (docs/writing.md).
        dry_run: write nothing, and return the number of rows that there would be as far as that is known, else 0, with
            their schema.
        progress: told how far it is, several times a second, by an object whose ``rows`` and ``all_rows``, ``bytes``,
            ``tasks`` and ``all_tasks`` are so far and in all.
        max_spool_bytes: of pipes and compressed files that are copied to temporary files at a time; 16 GB by default.
        classes_from: a dataset whose numbers of classes the classes of folders get.
        columns, rename, where: which columns, with which new names, of rows that meet which condition; names are those
            of the source.
        limit, sample, seed: the first so many of those rows; or so many of them, drawn evenly from all by ``seed``.
        resize, max_side, reencode, picture_columns: what becomes of pictures (docs/converting.md).
        split, split_by, stratify: shares such as ``{"train": 0.9, "val": 0.1}``, each a dataset in the folder ``path``,
            by a hash of the row or of one column, or in these shares of each value of a column; ``split_by`` alone
            makes a dataset of each value of the column (docs/converting.md).
        sort, shuffle_seed: the order of the rows: by a scalar column (its new name), or random; ``limit`` counts then.
        unique_by: of rows with the same values in these columns the first alone, in the order of the source, and behind
            those that are there with ``append``; all is read once before.
        duplicates_file: where the others are listed, JSON Lines, each with the row that it is a duplicate of.
        tokenizer: a file ``tokenizer.json``, or a folder with one: the column ``tokens`` takes the place of the text
            (docs/language.md).
        text_column, append_eos, prepend_bos, add_special_tokens: which column is text, if not the only one or
            ``text``; the tokens behind and before each text, or those that the tokenizer itself says.
        on_error: whether what cannot be read or does not fit ends it (``"raise"``), is left out (``"skip"``), or is
            left out and listed in a file (``"report"``). By default broken pictures are left out, with a warning, and
            all else ends it.
        report: where that list is to be, JSON Lines; by default ``path`` with ``.left-out.jsonl`` behind it.
        storage_options: how an object store is reached that ``path`` or ``source`` is in, as for `UniRecordDataset`.
        **options: what a kind of source obeys, by the names of ``unirecord write --help``.

    Raises:
        SchemaError: a value does not fit, or the data cannot be read; nothing is published.
        MissingError: there is nothing at the path, or a package is needed that is not installed.
        ExistsError, BusyError, OSError: as for `Writer`.
    """
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is a number of processes, 1 or more, got {workers!r}")
    choice = RowChoice(
        columns=columns, rename=rename or {}, where=where, sample=sample, seed=seed, resize=resize, max_side=max_side,
        reencode=reencode, picture_columns=picture_columns, on_error=on_error,
        split=_split(split, split_by, stratify),
        order=None if sort is None and shuffle_seed is None else RowOrder(sort, shuffle_seed),
        unique_by=unique_by,
        tokenization=Tokenization.asked(tokenizer, text_column, append_eos, prepend_bos, add_special_tokens),
    )  # fmt: skip
    if limit is not None and (type(limit) is not int or limit < 0 or sample is not None):
        raise ValueError("limit is a number of rows, 0 or more, and excludes sample")
    place = check_path(path)
    one_part = place.endswith(".urec")
    if one_part and (workers > 1 or resume or engine is not None):
        raise ValueError(
            f"{place} is one part, which one process writes: workers=, engine= and resume= are for a directory"
        )
    if append and (overwrite or one_part or split is not None):
        raise ValueError("append= adds to the directory path, and excludes overwrite= and split=")
    if split is not None and limit is not None:
        raise ValueError("limit= and split= exclude each other; sample= takes rows of all")
    is_read_there = isinstance(source, str) and "://" in source and not location_of(source).in_file_system
    storage = storage_of(storage_options) if is_read_there else storage_to_write_to(path, storage_options)
    listed = _report_path(report, place, on_error, overwrite=overwrite)
    asked = WriteRequest(
        place, choice, index=index, metadata=metadata, overwrite=overwrite, append=append, codec=codec,
        max_part_bytes=check_part_bytes(max_part_bytes, place), id=None if id is None else check_id(id, place),
        workers=workers, engine=engine, resume=resume, limit=limit, classes_from=classes_from,
        max_spool_bytes=MAX_SPOOL_BYTES if max_spool_bytes is None else parse_size(max_spool_bytes),
        duplicates_file=None if duplicates_file is None else os.fspath(duplicates_file),
    )  # fmt: skip
    with use_storage(storage or current_storage()):
        if choice.split is not None:
            check_split_target(place, list(split or ()), overwrite=overwrite, resume=resume)
        elif choice.order is not None and not append:
            check_free(place, overwrite=overwrite)
        plan = asked.plan(source, schema=schema, names=names, kind=kind, **options)
        if dry_run:
            expected = plan.estimate()
            left_out = plan.chosen.left_out
            return WrittenRows(
                expected.rows or 0, left_out, plan.schema, plan.chosen.duplicates, expected.bytes
            )
        rows, left_out = plan.run(lambda _stage, _rows, _share: _told(progress))
    if listed is not None:
        write_report(listed, left_out)
    warn_of_left_out(
        left_out, plan.source.path, plan.source.item, 2, broken=listed is None and on_error is None
    )
    return WrittenRows(sum(rows.values()), left_out, plan.schema, plan.chosen.duplicates)


class WrittenRows(int):
    """The number of rows that are there, or would be, and what else there is to say of them.

    Attributes:
        left_out: what of the source is not there, as `LeftOutWarning` has it.
        schema: the columns.
        duplicates: how many rows ``unique_by`` has left out.
        bytes: of a dry run, about how many bytes of values it would be; None where that is not known.
    """

    left_out: tuple[LeftOut, ...]
    schema: Schema
    duplicates: int
    bytes: int | None

    def __new__(
        cls,
        rows: int,
        left_out: Iterable[LeftOut],
        schema: Schema,
        duplicates: int = 0,
        bytes: int | None = None,
    ) -> WrittenRows:
        """``rows`` as any other number."""
        made = super().__new__(cls, rows)
        made.left_out, made.schema = tuple(left_out), schema
        made.duplicates, made.bytes = duplicates, bytes
        return made


def _told(progress: Callable[[Standing], None] | None) -> Callable[[Standing], None]:
    """What is told how far a stage is: ``progress``, and a warning where finished parts of an earlier run go."""
    warned = False

    def tell(standing: Standing) -> None:
        nonlocal warned
        said = standing.said_of_dropped()
        if said is not None and not warned:
            warned = True
            warnings.warn(said, stacklevel=2)
        if progress is not None:
            progress(standing)

    return tell


def _split(
    split: Mapping[str, float | str] | None, split_by: str | None, stratify: str | None
) -> SplitChoice | None:
    if split is None:
        if stratify is not None:
            raise ValueError("stratify= says how split= is made, which is not given")
        return None if split_by is None else SplitChoice(None, split_by)
    return SplitChoice(split, split_by, stratify)


def _report_path(
    report: str | os.PathLike[str] | None, path: str, on_error: str | None, *, overwrite: bool
) -> str | None:
    if report is None and on_error != "report":
        return None
    place = f"{path.rstrip('/')}.left-out.jsonl" if report is None else os.fspath(report)
    if location_of(path_on_disk(place, "a report")).is_taken(place) and not overwrite:
        raise ExistsError(f"{place} exists already; overwrite=True replaces it")
    return place


# Splits a dataset into several: each row goes where a hash of it, or the value of a column, says.


Path = str | os.PathLike[str]


def split(
    path: Path,
    dst: Path,
    shares: Mapping[str, float | str] | None = None,
    *,
    by: str | None = None,
    stratify: str | None = None,
    seed: int = 0,
    workers: int = 1,
    overwrite: bool = False,
) -> int:
    """Writes the shares of a dataset, each a dataset of its own in the folder ``dst``; the rows of all together.

    A row goes by its values alone, to the share that ``ds.split(shares, seed)`` has it in: rows that are added later
    move no other (docs/order.md). All shares appear when the last of them is written.

    Args:
        path: any dataset; ``data@7`` is a version.
        dst: a folder for the shares.
        shares: as ``{"train": 0.9, "val": 0.1}``; without them ``by`` alone makes a dataset of each of its values.
        by: the column whose value decides, so that rows with one value stay together; None: the whole row.
        stratify: the column of which each value is split in these shares.
        seed: of the hash.
        workers: processes that write.
        overwrite: replace what is there.

    Raises:
        ExistsError: there is something at ``dst``.
        SchemaError: there is no such column.
        ValueError: the shares do not add up to 1, or exclude each other.
    """
    index = resolve(path).index
    return write_dataset(
        os.fspath(path),
        dst,
        kind="unirecord",
        index=index,
        split=shares,
        split_by=by,
        stratify=stratify,
        seed=seed,
        workers=workers,
        overwrite=overwrite,
    )
