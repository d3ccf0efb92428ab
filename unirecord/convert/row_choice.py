"""Which rows and columns of a source are written, into which share of a split, and what cannot be."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

from ..errors import ExistsError, MissingError, UniRecordError
from ..format.schema import Schema
from ..order.split import bounds_of, exact_shares
from ..pipeline.pictures import pillow
from ..progress import Progress
from ..query.parse import with_moment
from ..sizes import many
from ..snapshot import manifest
from ..snapshot.snapshot import Snapshot
from ..snapshot.versions import read_newest
from ..storage import local
from ..storage.schemes import location_of, path_of_dataset
from ..writing.directory_claim import check_directory_free
from ..writing.journal import Journal
from .conversion import Conversion, Standing
from .row_order import RowOrder
from .sources.media_types import NotAnImageError, read_image_header
from .sources.source import LeftOut, OnError, Source, WantedColumns, WrongSourceError, refuse_left_out
from .steps import (
    RESIZED_BY,
    Division,
    Encoding,
    PictureChange,
    Step,
    SteppedSource,
    add_nulls,
    change_pictures,
    check_columns,
    chosen_columns,
    condition_of,
    even_sample,
    keep,
    keep_share,
    keep_value,
    leave_out_misfits,
    stratified,
    values_of,
    where,
)
from .tokenizer import TOKENS, Tokenization
from .unique_rows import Duplicates, RowsThere, find_duplicates

__all__ = [
    "ON_ERROR",
    "RowChoice",
    "SplitChoice",
    "check_split_target",
    "picture_step",
    "share_id",
    "with_nulls",
    "write_shares",
]


# What is asked of a split: names and shares, or the values of a column, and by what rows are told apart.


_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class SplitChoice:
    """Shares by name, such as ``{"train": 0.9, "val": 0.1}``, of rows told apart by a hash.

    Attributes:
        shares: they add up to 1; None: each value of the column ``by`` is a share, and its name.
        by: the column whose value decides, so that rows with one value stay together; None: all of the row.
        stratify: the column of which each value is split in these shares, not all rows as a whole; not with ``by``.
    """

    shares: Mapping[str, float | str] | None
    by: str | None = None
    stratify: str | None = None

    def __post_init__(self) -> None:
        if self.shares is None and self.by is not None and self.stratify is None:
            return
        if not isinstance(self.shares, Mapping) or len(self.shares) < 2:
            raise ValueError(f"split has two shares or more, such as train=0.9,val=0.1, got {self.shares!r}")
        for name in self.shares:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name.endswith(".urec"):
                raise ValueError(
                    f"split: {name!r} is to be a folder; letters of a to z, digits, _ - and . make its name"
                )
        exact_shares(self.shares.values())
        if self.by is not None and self.stratify is not None:
            raise ValueError("split_by and stratify exclude each other: rows with one key stay together")

    def fractions(self) -> tuple[Fraction, ...]:
        """The shares, exactly as they are written."""
        assert self.shares is not None
        return exact_shares(self.shares.values())

    def options(self) -> dict[str, str]:
        """What was asked for, by its name on the command line."""
        found = {}
        if self.shares is not None:
            found["--split"] = ",".join(f"{name}={share}" for name, share in self.shares.items())
        given = {"--split-by": self.by, "--stratify": self.stratify}
        return found | {name: value for name, value in given.items() if value is not None}

    def columns(self, source: Source) -> list[str]:
        """The columns that are looked at."""
        check_columns("split-by", [] if self.by is None else [self.by], source.schema)
        check_columns("stratify", [] if self.stratify is None else [self.stratify], source.schema)
        return list(source.schema.names) if self.by is None else [self.by]

    def steps(self, source: Source, chosen: Source, seed: int) -> Iterator[tuple[str, Step, float]]:
        """For each share its name, what keeps its rows of ``chosen``, and how many of them that are, about."""
        if self.shares is None:
            assert self.by is not None
            found = values_of(chosen, self.by, _NAME)
            for name, (value, rows) in found.items():
                yield (
                    name,
                    keep_value(source.schema[self.by], value),
                    rows / sum(n for _, n in found.values()),
                )
            return
        division = self._division(source, chosen, seed)
        for number, (name, fraction) in enumerate(zip(self.shares, self.fractions(), strict=True)):
            yield name, keep_share(division, number), float(fraction)

    def _division(self, source: Source, chosen: Source, seed: int) -> Division:
        """How the rows of ``chosen`` are told apart; with ``stratify`` they are all read for it."""
        division = Division(
            source.schema,
            tuple(self.columns(source)),
            seed,
            bounds_of(self.fractions()),
            self.stratify,
        )
        return division if self.stratify is None else stratified(division, self.fractions(), chosen.batches())


# Several conversions that are published together: the shares of a split.


def share_id(id: bytes | None, name: str) -> bytes | None:
    """The id of a share, made of that of the whole; None for None."""
    return None if id is None else hashlib.sha256(id + name.encode()).digest()[:16]


def check_split_target(path: str, names: Sequence[str], *, overwrite: bool, resume: bool) -> None:
    """Refuse a folder that is in the way of the shares, before any work is done."""
    if path.endswith(".urec"):
        raise ExistsError(
            f"{path}: a split makes several datasets; choose a name without .urec for their folder"
        )
    location = location_of(path_of_dataset(path))
    if resume and not location.in_file_system:
        raise UniRecordError(
            f"{path}: the shares of a split are not gone on with in an object store: begin anew, without --resume "
            "(resume=True in Python)"
        )
    if not location.is_directory(path):
        if not location.in_file_system:
            return
        if location.is_taken(path):
            raise ExistsError(f"{path}: a file is in the way of the folder for the shares")
        if not location.is_directory(os.path.dirname(os.path.abspath(path))):
            raise MissingError(f"{path}: the folder above does not exist; make it first")
        return
    if manifest.NAME in location.names(path):
        raise ExistsError(f"{path} is a dataset; the shares need a folder of their own")
    published = [name for name in names if location.is_directory(os.path.join(path, name))]
    if resume and len(published) < len(names):
        return
    for name in names:
        check_directory_free(os.path.join(path, name), overwrite=overwrite)


def write_shares(
    path: str, shares: Mapping[str, Conversion], progress: Callable[[str, Standing], None] | None = None
) -> tuple[dict[str, int], list[LeftOut]]:
    """Write all shares, and then publish all; the rows of each, and what was left out of any.

    Nothing is published before the last one is written. ``resume`` of the conversions goes on with any of them, and
    takes one for done that was published when the others were not yet, which its id tells.
    """
    location = location_of(path)
    made = location.in_file_system and not location.is_directory(path)
    if made:
        local.make_directory(path)
    try:
        rows = _published_before(shares)
        left_out: Counter[LeftOut] = Counter()  # each share reads all rows, and tells of the same once more
        waiting = [name for name in shares if name not in rows]

        def write(place: int) -> None:
            if place == len(waiting):
                return
            name = waiting[place]
            tell = None if progress is None else lambda standing: progress(name, standing)
            spec = shares[name]
            written, without = spec.run(tell, before_publishing=lambda: write(place + 1))
            rows[name] = written
            nonlocal left_out
            left_out |= Counter([*spec.source.left_out, *without])

        write(0)
        for name in set(shares) - set(waiting):
            Journal(shares[name].path).clear()  # its run died before it could
        return {name: rows[name] for name in shares}, list(left_out.elements())
    except BaseException:
        with suppress(OSError):
            if made and not location.names(path):
                local.remove_directory(path)
        raise


def _published_before(shares: Mapping[str, Conversion]) -> dict[str, int]:
    """The rows of shares that a run had published when it died before it could publish the others.

    Raises `ExistsError` for what is there and cannot be told to be such a share, before anything is touched.
    """
    begun = any(
        Journal(folder).plan() is not None
        for spec in shares.values()
        for folder in (spec.path, local.temporary_name(spec.path))
    )
    found = {}
    for name, spec in shares.items():
        rows = _rows_published(spec) if spec.resume and begun else None
        if rows is not None:
            found[name] = rows
        else:
            check_directory_free(spec.path, overwrite=spec.overwrite)
    return found


def _rows_published(spec: Conversion) -> int | None:
    """The rows of what an earlier run of the same conversion has published; None where there is no such thing."""
    try:
        there = read_newest(spec.path)
    except (OSError, UniRecordError):
        return None
    journal = Journal(spec.path)
    finished = {part["name"] for record in journal.tasks().values() for part in record["parts"]}
    replaced = spec.overwrite and journal.plan() is not None  # then the manifest may be the one before
    if there.id != spec.id or (replaced and not {part.name for part in there.parts} <= finished):
        return None
    return sum(part.rows for part in there.parts)


# Which columns of a source hold pictures, and the step that changes them.


_PICTURES_LOOKED_AT = 3  # pictures that tell whether a column holds any


def picture_step(
    source: Source,
    names: Sequence[str],
    change: PictureChange,
    columns: Sequence[str] | None,
    *,
    refuses: bool,
) -> Step:
    """The step for the pictures in ``columns``, by default in all of ``names`` that hold some.

    Raises `WrongSourceError` where there are none, or where other columns to be written tell places in their pixels.
    """
    pillow()
    if columns is None:
        drawn = [
            name for name in names if name not in source.pixel_columns
        ]  # a mask is no picture of colours
        columns = [name for name in drawn if _is_said_to_hold_pictures(source, name)] or _found(source, drawn)
        if not columns:
            raise WrongSourceError(
                f"{source.path}: no column holds files of pictures that could be changed; "
                "--picture-columns names those that do"
            )
    check_columns("picture-columns", columns, source.schema)
    for name in columns:
        column = source.schema[name]
        if name not in names or column.type != "bytes" or column.is_array:
            what = str(column) if name in names else "not written"
            raise WrongSourceError(f"--picture-columns: {name!r} is {what}, not a column of files")
    turned = change.encoding is not None and change.encoding.format == "raw"
    told = (*source.pixel_columns, *(source.relative_columns if turned else ()))
    placed = [name for name in told if name in names]
    if placed and (change.resize or change.max_side or turned):
        raise WrongSourceError(
            f"{', '.join(placed)} tell places in the pixels of the pictures as they are: leave those out with "
            "--columns, or the pictures in their size"
        )
    return change_pictures(change, columns, source.picture_sizes, refuses=refuses)


def _is_said_to_hold_pictures(source: Source, name: str) -> bool:
    return (source.schema[name].media_type or "").startswith("image/")


def _found(source: Source, names: Sequence[str]) -> list[str]:
    """The columns whose first values are pictures."""
    if source.read_once:
        return []
    first = next((batch for batch in source.batches() if batch.rows), None)
    if first is None:
        return []
    files = [n for n in names if source.schema[n].type == "bytes" and not source.schema[n].is_array]
    return [name for name in files if _are_pictures(list(first.columns[name][:_PICTURES_LOOKED_AT]))]


def _are_pictures(values: Sequence[object]) -> bool:
    files = [value for value in values if isinstance(value, bytes | bytearray | memoryview)]
    try:
        for file in files:
            read_image_header(bytes(file))
    except NotAnImageError:
        return False
    return bool(files)


ON_ERROR: Final = ("raise", "skip", "report")
_LOOKED_AT: Final = 3  # units whose first batch tells how many rows meet a condition


@dataclass(frozen=True)
class RowChoice:
    """What is taken of a source; names are those that the source has.

    Attributes:
        columns: the columns to write, in this order; None for all.
        rename: new names of columns by their old ones.
        where: only rows that meet this condition (docs/query.md).
        sample: so many rows, evenly from all that meet it.
        seed: which ones those are, and which row is in which share.
        on_error: ``"raise"``, ``"skip"`` or ``"report"`` for what cannot be read or does not fit; None: as the kind of
            source does, which is to leave broken pictures out, and to end for all else.
        resize, max_side: pixels of the shorter and of the longer side of pictures, at most; none is made larger.
        reencode: what pictures become: ``"jpeg:90"``, ``"webp:80"``, ``"png"``, or ``"raw"``, arrays of pixels.
        picture_columns: the columns with pictures; None: those that are seen to hold some.
        split: the shares that `shares` gives.
        order: the order in which the rows are written, which `in_order` gives.
        tokenization: what makes tokens of a column of text.
        unique_by: of rows with the same values in these columns the first alone.

    Raises ValueError and TypeError for values that are none of these.
    """

    columns: Sequence[str] | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    sample: int | None = None
    seed: int = 0
    on_error: OnError = None
    resize: int | None = None
    max_side: int | None = None
    reencode: str | None = None
    picture_columns: Sequence[str] | None = None
    split: SplitChoice | None = None
    order: RowOrder | None = None
    tokenization: Tokenization | None = None
    unique_by: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise TypeError(f"columns is a list of names, got {self.columns!r}")
        if self.columns is not None and not self.columns:
            raise ValueError("columns names none; a dataset has one at least")
        if isinstance(
            self.where, str
        ):  # one moment for all rows: a conversion that goes on later has another one
            object.__setattr__(self, "where", with_moment(self.where))
        if isinstance(self.unique_by, str):
            raise TypeError(f"unique_by is a list of names, got {self.unique_by!r}")
        if self.unique_by is not None and not self.unique_by:
            raise ValueError("unique_by names no column")
        if not isinstance(self.rename, Mapping):
            raise TypeError(f"rename is a dict of old and new names, got {self.rename!r}")
        if self.sample is not None and (type(self.sample) is not int or self.sample < 0):
            raise ValueError(f"sample is a number of rows, 0 or more, got {self.sample!r}")
        if type(self.seed) is not int or not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed is a number of 64 bits, 0 or more, got {self.seed!r}")
        if self.on_error not in (None, *ON_ERROR):
            raise ValueError(f"on_error is one of {', '.join(map(repr, ON_ERROR))}, got {self.on_error!r}")
        if self.order is not None and self.split is not None:
            raise ValueError(
                "split, and sort or shuffle_seed, exclude each other; split first, and order each share"
            )
        if self._pictures() is None and self.picture_columns is not None:
            raise ValueError(
                "picture_columns says what resize, max_side and reencode change; none of them is given"
            )

    def _pictures(self) -> PictureChange | None:
        """What is done to pictures, if anything."""
        if self.resize is None and self.max_side is None and self.reencode is None:
            return None
        encoding = None if self.reencode is None else Encoding.parse(self.reencode)
        return PictureChange(self.resize, self.max_side, encoding)

    def options(self) -> dict[str, str]:
        """What was asked for, by its name on the command line: another conversion where one of them differs."""
        given = {
            "columns": self.columns, "rename": self.rename or None, "where": self.where, "sample": self.sample,
            "resize": self.resize, "max-side": self.max_side, "reencode": self.reencode,
            "picture-columns": self.picture_columns, "unique-by": self.unique_by,
        }  # fmt: skip
        found = {f"--{name}": repr(value) for name, value in given.items() if value is not None}
        if self.split is not None:
            found |= self.split.options()
        if self.order is not None and self.order.sort is not None:
            found["--sort"] = self.order.sort
        if self.order is not None and self.order.shuffle_seed is not None:
            found["--shuffle-seed"] = repr(self.order.shuffle_seed)
        if self.sample is not None or self.split is not None:
            found["--seed"] = repr(self.seed)
        if self.on_error is not None:
            found["--on-error"] = "raise" if self.on_error == "raise" else "skip"
        if self._pictures() is not None:
            found["the version of Pillow"] = str(import_module("PIL").__version__)
            found["the filter of pictures"] = RESIZED_BY
        if self.tokenization is not None:
            found |= self.tokenization.options()
        return found

    @property
    def wanted(self) -> WantedColumns | None:
        """The columns that `columns` names, and those that say which rows are taken; None for all columns.

        Of a condition all words are taken for names: the schema, which tells them apart, is not known yet.
        """
        if self.columns is None:
            return None
        others = [] if self.split is None else [self.split.by, self.split.stratify]
        others += [] if self.tokenization is None else [self.tokenization.text_column]
        others += self.unique_by or ()
        names = frozenset((*self.columns, *self.rename, *(self.picture_columns or ()), *filter(None, others)))
        words = (
            word or quoted.replace("``", "`")
            for quoted, word in re.findall(r"`((?:[^`]|``)+)`|(\w+)", self.where or "")
        )
        return WantedColumns(names, frozenset(words))

    def duplicates(
        self,
        source: Source,
        before: Snapshot | None,
        target: str,
        listed: str | None,
        *,
        overwrite: bool,
        tell: Progress | None = None,
    ) -> Duplicates | None:
        """The rows that `unique_by` leaves out, for which all are read; None without it.

        ``before``: the dataset at ``target`` to which rows are appended. ``listed``, ``tell``: see `find_duplicates`.
        """
        if self.unique_by is None:
            return None
        check_columns("unique-by", self.unique_by, source.schema)
        there = None
        if before is not None:
            there = RowsThere(target, before, [self.rename.get(name, name) for name in self.unique_by])
            there.check(chosen_columns(self.unique_by, source.schema))
        chosen = self._stepped(source, self._meeting(source, self._names(source))[0], 1.0)
        found = find_duplicates(chosen, self.unique_by, there, listed, overwrite=overwrite, tell=tell)
        source.notes.append(
            f"--unique-by {','.join(self.unique_by)}: {many(found.count, 'row')} of {found.rows:,} left out, as an "
            "earlier one has the same"
        )
        return found

    def of(self, source: Source, duplicates: Duplicates | None = None) -> Source:
        """The source with what is chosen of it; where rows have to be counted first, they are read for that.

        Raises `WrongSourceError` and `QueryError` where it does not fit the source, `SchemaError` for what was left out
        already where that is an error.
        """
        names = self._names(source)
        if not self.options():
            return source
        return self._finished(source, names, duplicates, *self._choosing(source, names, duplicates))

    def shares(self, source: Source, duplicates: Duplicates | None = None) -> dict[str, Source]:
        """What is chosen of a source, as the shares of ``split`` by name; raises like `of`."""
        assert self.split is not None
        if source.read_once:
            raise WrongSourceError(f"a split: {source.path} is read once, but each share is read by itself")
        names = self._names(source)
        steps, share = self._choosing(source, names, duplicates)
        chosen = self._stepped(source, steps, 1.0)
        return {
            name: self._finished(source, names, duplicates, [*steps, step], share * part)
            for name, step, part in self.split.steps(source, chosen, self.seed)
        }

    def _names(self, source: Source) -> list[str]:
        """The columns to write; refuses what the source has not."""
        names = list(source.schema.names if self.columns is None else self.columns)
        check_columns("columns", names, source.schema)
        check_columns("rename", list(self.rename), source.schema)
        for name in self.rename:
            if name not in names:
                raise WrongSourceError(f"--rename: column {name!r} is not among --columns {','.join(names)}")
        if self.on_error == "raise":
            refuse_left_out(source.left_out)
        return names

    def _finished(
        self,
        source: Source,
        names: list[str],
        duplicates: Duplicates | None,
        steps: list[Step],
        share: float,
    ) -> Source:
        """The source after ``steps``, with its pictures and columns as they are to be."""
        steps, change = list(steps), self._pictures()
        if change is not None:
            refuses = self.on_error == "raise"
            steps.append(picture_step(source, names, change, self.picture_columns, refuses=refuses))
        new_names = dict(self.rename)
        if self.tokenization is not None:
            text = self.tokenization.column_of(source, names)
            refuses = self.on_error in (None, "raise")
            steps.append(self.tokenization.step(source, text, refuses=refuses))
            new_names.setdefault(text, TOKENS)
        if new_names or names != list(source.schema.names):
            steps.append(keep(names, new_names))
        made = self._stepped(source, steps, share)
        if duplicates is not None:
            made.duplicates = duplicates.count
            made.asked = {**made.asked, "the rows that --unique-by leaves out": duplicates.digest}
        return made

    def _stepped(self, source: Source, steps: Sequence[Step], share: float) -> SteppedSource:
        made = SteppedSource(source, steps, share=share, on_error=self.on_error, columns=self.columns)
        made.metadata = _renamed_classes(source.metadata, self.rename)
        return made

    def _meeting(self, source: Source, names: Sequence[str]) -> tuple[list[Step], float]:
        """The steps that keep the rows that fit and meet the condition, and how many that are, about."""
        steps: list[Step] = []
        condition = None if self.where is None else condition_of(self.where, source.schema)
        asked = {*names, *(condition.columns if condition is not None else ()), *(self.unique_by or ())}
        if self.split is not None:
            asked |= {*self.split.columns(source), *((self.split.stratify,) if self.split.stratify else ())}
        needed = [name for name in source.schema.names if name in asked]
        if len(needed) < len(source.schema):
            steps.append(keep(needed))
        if self.on_error in ("skip", "report"):
            steps.append(leave_out_misfits(chosen_columns(needed, source.schema)))
        share = 1.0
        if condition is not None:
            steps.append(where(condition, source.schema))
            share = _share(self._stepped(source, [], 1.0), self._stepped(source, steps, 1.0))
        return steps, share

    def _choosing(
        self, source: Source, names: Sequence[str], duplicates: Duplicates | None
    ) -> tuple[list[Step], float]:
        """The steps that choose rows, and how many they keep, about."""
        steps, share = self._meeting(source, names)
        if duplicates is not None:
            steps.append(duplicates.step())
            share *= 1 - duplicates.count / max(duplicates.rows, 1)
        if self.sample is not None:
            counts = _counts(self._stepped(source, steps, 1.0))
            steps.append(even_sample(self.sample, self.seed, counts))
            share *= min(self.sample / sum(counts), 1.0) if any(counts) else 1.0
        return steps, share


_NAMED: Final = 8  # columns that a message names


def with_nulls(source: Source, there: Schema) -> Source:
    """The source with the columns of a dataset that it is appended to, in their order; what it lacks is null.

    Raises `WrongSourceError` where one of these cannot be null, or where the dataset lacks columns of the source.
    """
    more = [name for name in source.schema.names if name not in there]
    if more:
        common = ",".join(name for name in source.schema.names if name in there)
        shown = ", ".join([*more[:_NAMED], *(["…"] if len(more) > _NAMED else [])])
        without = f"--columns {shlex.quote(common)} leaves them out, " if common else ""
        raise WrongSourceError(
            f"{source.path} has columns that the dataset has not ({shown}): {without}"
            "`unirecord add-columns` adds some to a dataset"
        )
    lacking = [column for column in there if column.name not in source.schema]
    if source.schema.names == there.names:
        return source
    for column in lacking:
        if not column.nullable:
            raise WrongSourceError(
                f"{source.path} has no column {column.name!r}, which the dataset has and which cannot be null there "
                f"({column}); it has {', '.join(source.schema.names)}: add it to the source, or write to another DST"
            )
    if lacking:
        source.notes.append(
            f"{', '.join(column.name for column in lacking)}: null, as the source has no such column"
        )
    return SteppedSource(source, [add_nulls(lacking, there.names)])


def _share(source: Source, chosen: SteppedSource) -> float:
    """How many rows meet the condition, in the first batches of some units."""
    if source.read_once or not source.units:
        return 1.0
    seen, kept = 1, 1
    for place in {i * (len(source.units) - 1) // (_LOOKED_AT - 1) for i in range(_LOOKED_AT)}:
        seen += next((batch.rows for batch in source.batches_of(source.units[place])), 0)
        kept += next((batch.rows for batch in chosen.batches_of(chosen.units[place])), 0)
    return min(kept / seen, 1.0)


def _counts(source: SteppedSource) -> list[int]:
    """The rows of each unit; where they are not known, by reading them."""
    known = [unit.rows for unit in source.units if unit.rows is not None]
    if not source.chooses and len(known) == len(source.units):
        return known
    if source.read_once:
        raise WrongSourceError(
            f"--sample: {source.path} is read once, so its rows cannot be counted before they are written"
        )
    return [sum(batch.rows for batch in source.batches_of(unit)) for unit in source.units]


def _renamed_classes(metadata: Any, names: Mapping[str, str]) -> Any:
    """The metadata, with the lists of classes that are told by column under the new names."""
    lists = metadata.get("class_names") if isinstance(metadata, dict) else None
    if not isinstance(lists, Mapping):
        return metadata
    return {**metadata, "class_names": {names.get(name, name): value for name, value in lists.items()}}
