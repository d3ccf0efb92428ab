"""What every source of raw data is: units, batches of rows, schema, reading ahead, and what it leaves out."""

from __future__ import annotations

import json
import os
import re
import struct
import warnings
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from itertools import accumulate, count
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, Final, Literal, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from ...core import LeavablePool, result_of
from ...errors import CorruptionError, FormatError, LeftOutWarning, SchemaError, StaleError
from ...format.column import name_problem
from ...format.schema import Schema
from ...format.values import Texts
from ...progress import Progress, Tracker
from ...sizes import format_size, many
from ...storage.staged import new_text
from ...writing.journal import left_out_fields
from .folder_walk import utf8_name
from .input_path import InputPath
from .media_types import classes_problem, classes_type
from .overrides import TypesThere, apply_overrides, refuse_split_files
from .text_values import CellEvidence

__all__ = [
    "AskedOption",
    "LeftOut",
    "OnError",
    "Options",
    "Partitions",
    "RawBatch",
    "FileReadahead",
    "Misfit",
    "NoRowsError",
    "RowPlace",
    "Source",
    "TRUST",
    "Unit",
    "WantedColumns",
    "WrongSourceError",
    "add_cells",
    "column_name",
    "column_names",
    "cut_cells",
    "file_sizes",
    "file_units",
    "left_out_from_json",
    "left_out_to_json",
    "made_ahead",
    "ranges",
    "reduced",
    "refuse_claims",
    "refuse_left_out",
    "row_batches",
    "row_bytes",
    "rows_of",
    "said_of_left_out",
    "said_of_unread",
    "taken",
    "taken_ahead",
    "warn_of_left_out",
    "write_report",
]


# What a source has and the dataset has not: files, rows, and parts of rows, said once and listed.


_SHOWN: Final = 20


@dataclass(frozen=True)
class LeftOut:
    """A file or row that is not in the dataset, or, made by `reduced`, a part of rows that is not, or not as it was.

    Attributes:
        name: what it is called.
        reason: why it is not there, or what is there instead.
        expected: whether it was not meant for the dataset; all else could not be read, or did not fit.
        rows: how many rows it would have been, as far as known; 0 where its rows are there.
        count: how many times the source has it.
        column: the one column of the source that it is about, if it is: who does not ask for that is not told.
    """

    name: str
    reason: str
    expected: bool = False
    rows: int = 1
    count: int = 1
    column: str | None = None


def reduced(name: str, reason: str, count: int = 1, column: str | None = None) -> LeftOut:
    """Return what says that rows are in the dataset, but something of them is not, or not as the source has it.

    ``name``: what, by the source's own names. ``reason``: why, or what is there instead, such as ``"left out: …"`` or
    ``"is called 'a_b'"``. Equal ones are listed once, with the sum of their counts.
    """
    return LeftOut(name, reason, expected=True, rows=0, count=count, column=column)


def said_of_left_out(left_out: Iterable[LeftOut]) -> list[str]:
    """A line for each that is `expected`: files by their reason, parts of rows by what they are, with their numbers."""
    counts: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for one in left_out:
        if one.expected and one.rows:
            files[one.reason] += 1
        elif one.expected:
            counts[f"{one.name}: {one.reason}"] += one.count
    lines = [f"{many(number, 'file')}: {text}" for text, number in files.items()]
    lines += [text if number == 1 else f"{text} ({many(number, 'time')})" for text, number in counts.items()]
    more = len(lines) - _SHOWN
    return lines if more <= 0 else [*lines[:_SHOWN], f"… and {more:,} more, which a report lists"]


def said_of_unread(left_out: Iterable[LeftOut], item: str) -> str | None:
    """How many rows, each called ``item``, could not be read or did not fit; None where all could and did."""
    rows = sum(max(one.rows, 1) for one in left_out if not one.expected)
    return f"{many(rows, item)} could not be read or did not fit" if rows else None


def warn_of_left_out(
    left_out: Sequence[LeftOut], source: str, item: str, stacklevel: int, *, broken: bool = True
) -> None:
    """Emit one `LeftOutWarning` if anything is left out; with ``broken`` also of what could not be read."""
    first = next((one for one in left_out if broken and not one.expected), None)
    lines = said_of_left_out(left_out)
    said = []
    if first is not None:
        said.append(
            f"{said_of_unread(left_out, item)}, left out, the first {first.name}: {first.reason}; "
            "on_error='report' lists them, 'skip' says nothing, 'raise' makes it an error"
        )
    if lines:
        said.append("\n  ".join([f"{source}: this is left out, or not as it is there:", *lines]))
    if said:
        warnings.warn(LeftOutWarning("\n".join(said), left_out), stacklevel=stacklevel + 1)


def write_report(path: str, left_out: Iterable[LeftOut]) -> None:
    """Write one object a line, ``{"file": …, "reason": …}``, into a file that appears whole, in place of what is there.

    ``rows`` is added where it is not one row, ``count`` where it is not one time.
    """
    lines = (
        json.dumps(
            {
                "file": one.name,
                "reason": one.reason,
                **({} if one.rows == 1 else {"rows": one.rows}),
                **({} if one.count == 1 else {"count": one.count}),
            }
        )
        + "\n"
        for one in _counted(left_out)
    )
    with new_text(path) as add:
        add(lines)


def _counted(left_out: Iterable[LeftOut]) -> list[LeftOut]:
    """The same, with equal parts of rows as one."""
    counts: Counter[tuple[str, str]] = Counter()
    found: list[LeftOut] = []
    for one in left_out:
        if one.rows or not one.expected:
            found.append(one)
        else:
            counts[one.name, one.reason] += one.count
    return [*found, *(reduced(name, reason, count) for (name, reason), count in counts.items())]


def refuse_left_out(left_out: Iterable[LeftOut]) -> None:
    """Raise `SchemaError` about the first that was meant to be in the dataset."""
    for one in left_out:
        if not one.expected:
            raise SchemaError(f"{one.name}: {one.reason}; --on-error skip leaves it out")


def left_out_to_json(left_out: Iterable[LeftOut]) -> list[list[Any]]:
    """What was left out as plain values."""
    return [list(astuple(one)) for one in left_out]


def left_out_from_json(value: Any) -> list[LeftOut]:
    """The same back; ValueError for what `left_out_to_json` does not give."""
    return [LeftOut(*one) for one in left_out_fields(value)]


# Rows that lie one behind another: ranges of them by where each ends, and the cells of one by their sizes.


def ranges(
    ends: Any, most_bytes: int, first: int = 0, stop: int | None = None, most_rows: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield (first row, row after the last) of ranges of at most ``most_bytes`` and ``most_rows``, but a row at least.

    ``ends``: where each row begins, then where the last ends (int64, ascending); the ranges cover ``first`` to
    ``stop``, by default all.
    """
    end = len(ends) - 1 if stop is None else stop
    while first < end:
        last = int(np.searchsorted(ends, ends[first] + most_bytes, "right")) - 1
        last = min(max(last, first + 1), end)
        if most_rows is not None:
            last = min(last, first + most_rows)
        yield first, last
        first = last


def cut_cells(row: memoryview, sizes: Sequence[int | None], where: str) -> list[memoryview]:
    """Return the cells of a row: it begins with the sizes (uint32) of those whose ``sizes`` is None, then come all."""
    at = 4 * sum(size is None for size in sizes)
    if at > len(row):
        raise SchemaError(f"{where} is damaged: the sizes of its cells are cut off")
    given = iter(struct.unpack_from(f"<{at // 4}I", row))
    found = []
    for size in sizes:
        length = next(given) if size is None else size
        found.append(row[at : at + length])
        at += length
    if at != len(row):
        raise SchemaError(f"{where} is damaged: {many(len(row), 'byte')} where its cells say {at:,}")
    return found


def add_cells(
    fields: Iterable[tuple[str, Callable[[memoryview, int], None]]],
    cells: Sequence[memoryview],
    row: int,
    where: str,
) -> None:
    """Take the cells of a row into account, by the name of each field and what takes its cells, which show its type.

    That raises `ValueError` over one that cannot be such a cell, and this a `SchemaError` that names it.
    """
    for (name, add), cell in zip(fields, cells, strict=True):
        try:
            add(cell, row)
        except ValueError as error:
            raise SchemaError(f"{where}, column {name!r}: {error}") from None


# What is made of one thing after the other, by threads that are ahead of whoever asks.


_Thing = TypeVar("_Thing")
_Made = TypeVar("_Made")
_END: Final = object()


def made_ahead(
    make: Callable[[_Thing], _Made], things: Iterable[_Thing], threads: int
) -> Generator[tuple[_Thing, _Made], None, None]:
    """Yield each thing with what ``make`` makes of it, in order; with one thread no other is started.

    ``things`` are taken by the caller's thread, at most ``threads`` more than have been yielded.
    """
    if threads == 1:
        for thing in things:
            yield thing, make(thing)
        return
    pool = LeavablePool(threads, "unirecord-look")
    waiting: deque[tuple[_Thing, Future[_Made]]] = deque()
    try:
        for thing in things:
            waiting.append((thing, pool.submit(make, thing)))
            if len(waiting) > threads:
                first, made = waiting.popleft()
                yield first, result_of(made)
        for first, made in waiting:
            yield first, result_of(made)
    finally:
        pool.leave()


def taken_ahead(things: Iterator[_Thing]) -> Generator[_Thing, None, None]:
    """Yield the same things; while one is in use, a thread takes the next, so that reading and writing overlap."""
    pool = LeavablePool(1, "unirecord-read")
    try:
        coming: Future[Any] = pool.submit(next, things, _END)
        while (thing := result_of(coming)) is not _END:
            coming = pool.submit(next, things, _END)
            yield thing
    finally:
        pool.leave()


# A file read at rising places: what is asked for is a view of a larger piece that was read at once.


class FileReadahead:
    """Views of a file; ``stop``: what is read ahead ends there, by default at the end of the file."""

    def __init__(self, file: BinaryIO, ahead: int, stop: int | None = None) -> None:
        """``ahead``: bytes of a piece, which stays in memory as long as a view of it."""
        self._file, self._ahead = file, ahead
        self.size: int = file.seek(0, 2)
        self._stop = self.size if stop is None else stop
        self._start, self._piece = 0, memoryview(b"")

    def at(self, offset: int, size: int) -> memoryview:
        """These bytes, or as many as there are before the end of the file."""
        begin = offset - self._start
        if begin < 0 or begin + size > len(self._piece):
            self._file.seek(offset)
            self._piece = memoryview(self._file.read(max(size, min(self._ahead, self._stop - offset))))
            self._start, begin = offset, 0
        return self._piece[begin : begin + size]


# What every source is: a schema, and units that are read by themselves, in order, as batches of columns.


class WrongSourceError(SchemaError):
    """The path is not what this kind of source is read from, or an option is not for it: the call is wrong."""


class NoRowsError(SchemaError):
    """A source holds nothing, not even names of columns: alone it is refused, among several it has no rows."""


class Misfit(NamedTuple):
    """Something that was read and is no row of the types found; who asked for the rows decides what becomes of it.

    Attributes:
        name: its file or unit.
        reason: why it is none, behind its line or record.
        row: which row of its batch it is, whose values count for nothing; None: it is none of them.
    """

    name: str
    reason: str
    row: int | None = None


OnError = (
    Literal["raise", "skip", "report"] | None
)  # None: broken pictures are left out, and all else ends it


@dataclass(frozen=True)
class RawBatch:
    """Some rows: column name → list or array, all of one length.

    ``left_out``: rows in between that could not be read, and what of these rows is not in ``columns`` (`reduced`).
    ``misfits``: what does not fit; there is none any more in what `Source.batches_of` gives.
    ``numbers``: which rows of their unit they are, and ``read``: how many were read for it, which
    `Source.batches_of` says.
    """

    columns: dict[str, Any]
    rows: int
    left_out: tuple[LeftOut, ...] = ()
    misfits: tuple[Misfit, ...] = ()
    numbers: npt.NDArray[np.int64] | None = None
    read: int = 0

    def taken(self, places: npt.NDArray[np.int64], left_out: Iterable[LeftOut] = ()) -> RawBatch:
        """The rows at ``places``, ascending, and what else is left out."""
        columns, numbers = self.columns, self.numbers
        if len(places) != self.rows:
            columns = {name: taken(values, places) for name, values in columns.items()}
            numbers = None if numbers is None else numbers[places]
        return RawBatch(columns, len(places), (*self.left_out, *left_out), (), numbers, self.read)

    def settled(self, on_error: OnError) -> RawBatch:
        """The rows that fit; raises `SchemaError` about what does not, unless that is left out."""
        _refuse(self.misfits, on_error)
        if on_error == "raise":
            refuse_left_out(self.left_out)
        if not self.misfits:
            return self
        fits = np.ones(self.rows, np.bool_)
        fits[[one.row for one in self.misfits if one.row is not None]] = False
        return self.taken(np.flatnonzero(fits), (LeftOut(one.name, one.reason) for one in self.misfits))


def _refuse(misfits: Iterable[Misfit], on_error: OnError) -> None:
    if on_error in (None, "raise"):
        for one in misfits:
            raise SchemaError(f"{one.name}, {one.reason}")


def taken(values: Any, places: npt.NDArray[np.int64]) -> Any:
    """The values at these places of a column of a batch."""
    if isinstance(values, np.ndarray):
        return values[places]
    if isinstance(values, Texts):
        return values.take(places)
    return [values[i] for i in places.tolist()]


_MOST_BYTES: Final = 8_000_000  # of a batch


def row_batches(
    names: Sequence[str],
    rows: Iterable[tuple[Sequence[Any], int] | LeftOut | Misfit],
    most_bytes: int = _MOST_BYTES,
    most_rows: int | None = None,
) -> Iterator[RawBatch]:
    """Yield rows as batches, each of which ends with the row that makes it as large as is allowed.

    ``rows``: the values of each in the order of ``names`` and the bytes that they take, or what is left out there, or
    does not fit.
    """
    waiting: list[Sequence[Any]] = []
    left_out: list[LeftOut] = []
    misfits: list[Misfit] = []
    size = 0
    for row in rows:
        if isinstance(row, LeftOut):
            left_out.append(row)
            continue
        if isinstance(row, Misfit):
            misfits.append(row._replace(row=len(waiting)))
            row = [None] * len(names), 0
        waiting.append(row[0])
        size += row[1]
        if size >= most_bytes or len(waiting) == most_rows:
            yield _of_rows(names, waiting, left_out, misfits)
            waiting, left_out, misfits, size = [], [], [], 0
    if waiting or left_out:
        yield _of_rows(names, waiting, left_out, misfits)


def _of_rows(
    names: Sequence[str], rows: list[Sequence[Any]], left_out: list[LeftOut], misfits: list[Misfit]
) -> RawBatch:
    values = map(list, zip(*rows, strict=True)) if rows else ([] for _ in names)
    return RawBatch(dict(zip(names, values, strict=True)), len(rows), tuple(left_out), tuple(misfits))


_ROW_0: Final = re.compile(
    r"(?:batch at )?row 0(?:, |: )"
)  # how an encoder begins what it says of a lone row


class RowPlace(NamedTuple):
    """Where a row of a source is: its file or unit, and the line or row there, empty where a row is a whole file."""

    name: str
    at: str

    def __str__(self) -> str:
        """Both."""
        return f"{self.name}, {self.at}" if self.at else self.name

    def why(self, text: str) -> str:
        """What the encoder says of the row by itself, behind the line or row."""
        text = _ROW_0.sub("", text, count=1)
        return f"{self.at}, {text}" if self.at else text


@dataclass(frozen=True)
class Unit:
    """A piece of a source that is read by itself, in any process: a file, a row group, a range of lines.

    Attributes:
        name: what messages call it.
        place: what the source needs to find it again; it can be pickled.
        rows: how many rows it has, with those that will be left out; None where only reading it tells.
    """

    name: str
    place: Any
    rows: int | None


def file_units(folder: str, files: Sequence[str], most: int) -> list[Unit]:
    """Files below a folder, a row each, in ranges; the place of a unit is the number of its first file."""
    return [
        Unit(f"{folder}/{utf8_name(files[i])}", i, min(most, len(files) - i))
        for i in range(0, len(files), most)
    ]


def rows_of(units: Iterable[Unit]) -> int | None:
    """How many rows are in all of them; None where only reading tells."""
    rows = [unit.rows for unit in units]
    return None if None in rows else sum(filter(None, rows))


@dataclass(frozen=True)
class AskedOption:
    """Something a user may ask of some sources, as the command line offers it.

    ``metavar`` stands for its value; without one it is on or off.
    """

    name: str
    help: str
    metavar: str | None = None


class WantedColumns(NamedTuple):
    """The columns that are to be written, and the words of a condition, of which some may be columns, too."""

    names: frozenset[str]
    words: frozenset[str] = frozenset()


class Options:
    """What a user asks of a source. All obey ``overrides``; each names in ``takes`` what else it obeys.

    ``threads``: how many may look through it at a time; what is found is the same for any number.
    ``on_error``: what becomes of what does not fit, which a source gives to `refuse` as it looks through its files.
    ``wanted``: the columns that are to be written, or that say which rows are; None for all. The others are not read,
    and nothing about them refuses a conversion.
    ``recognised``: what kind of source it is was found by what lies there, and not asked for by its name.
    """

    recognised: bool = False

    def __init__(
        self,
        overrides: Mapping[str, Any] | None = None,
        classes: Sequence[str] | None = None,
        threads: int = 1,
        on_error: OnError = None,
        wanted: WantedColumns | None = None,
        **asked: Any,
    ) -> None:
        """``asked``: the values of `AskedOption`; None and False are the same as not asked."""
        self.overrides: Mapping[str, Any] = overrides or {}
        self.classes = classes
        self.threads = threads
        self.on_error = on_error
        self.wanted = wanted
        self._asked = {name: value for name, value in asked.items() if value not in (None, False)}

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option, or ``default`` where it was not asked for."""
        return self._asked.get(name, default)

    def wants(self, column: str) -> bool:
        """Whether a column is needed: one that is not, and cannot be read, is left out rather than refused."""
        return self.wanted is None or column in self.wanted.names or column in self.wanted.words

    def needed(self, names: Collection[str]) -> list[str]:
        """Those of the columns that there are that are to be read.

        Where one that is wanted is not among them it is all, so that an error can say which there are.
        """
        if self.wanted is None or not self.wanted.names <= set(names):
            return list(names)
        asked = self.overrides.asked if isinstance(self.overrides, TypesThere) else self.overrides
        return [name for name in names if self.wants(name) or name in asked]

    def schema(self, found: Mapping[str, Any]) -> Schema:
        """The schema of the columns found that are needed, with the types that were asked for."""
        return apply_overrides({name: found[name] for name in self.needed(found)}, self.overrides)

    def refuse(self, misfits: Iterable[Misfit]) -> None:
        """Raise `SchemaError` about the first, unless what does not fit is left out."""
        _refuse(misfits, self.on_error)

    def given(self) -> list[str]:
        """The names of the options that were asked for, without ``overrides``."""
        return [*(["classes"] if self.classes is not None else []), *self._asked]

    def told(self) -> dict[str, str]:
        """The same by their names on the command line, with their values as text."""
        found = {f"--{name.replace('_', '-')}": repr(value) for name, value in self._asked.items()}
        return found if self.classes is None else {**found, "--classes-from": repr(list(self.classes))}


class Source(ABC):
    """Raw data that has been looked through: its schema is known, its values are not yet in memory.

    A kind of source is one subclass in one file, and one entry in `kinds.py`. It can be pickled once it has been
    looked through, so that processes share one look.

    Attributes:
        schema: the types found, or those that were asked for.
        units: the pieces it is read in, in the order of the rows.
        metadata: what the dataset's metadata is to hold.
        notes: what a user should know about how the data was taken.
        indexed: the columns that were looked up by value where it comes from; what is written has ``index`` as asked.
        asked: the options that were asked for, by their names on the command line, as text.
        left_out: what is not in the dataset, as far as it is known: files, rows, and parts of rows (`reduced`);
            `batches` adds to it. It is said once, at the end, on the command line and by a warning in Python.
    """

    kind: ClassVar[str]
    about: ClassVar[str]  # what it reads, in the help
    item: ClassVar[str] = "row"  # what one row is made of, in messages
    reads: ClassVar[str] = "a file or a folder"  # what messages call its input
    suffixes: ClassVar[tuple[str, ...]] = ()  # of the names of files of this kind
    reads_files: ClassVar[bool] = True
    any_folder: ClassVar[bool] = False  # asked for by its kind, it reads any folder
    first_bytes: ClassVar[bytes] = b""  # of a file that is recognised whatever it is called
    takes_folders: ClassVar[bool] = False  # it reads folders and patterns of files that are called so, too
    also_named: ClassVar[tuple[str, ...]] = ()  # other endings, or whole names, that tell such a folder
    options: ClassVar[tuple[AskedOption, ...]] = ()
    takes_classes: ClassVar[bool] = False
    values_are_text: ClassVar[bool] = False  # so that a column of any type can be asked for as strings
    picture_sizes: ClassVar[
        Mapping[str, tuple[str, str]]
    ] = {}  # where the width and height of a column's pictures are
    pixel_columns: ClassVar[
        tuple[str, ...]
    ] = ()  # columns that tell places or sizes in the pixels of its pictures
    relative_columns: ClassVar[
        tuple[str, ...]
    ] = ()  # columns that tell them as parts of width and height: right in any size, wrong where pictures are turned
    schema: Schema
    units: Sequence[Unit]
    metadata: dict[str, Any] | None = None
    indexed: Sequence[str] = ()
    asked: Mapping[str, str] = MappingProxyType({})
    read_once: bool = False  # its rows come once, to this process
    handles: ClassVar[tuple[str, ...]] = ()  # its attributes that are this process's, such as open files
    # Asked for by its kind, it reads a folder or pattern of files without suffix.
    any_names: ClassVar[bool] = False
    path_column: ClassVar[str | None] = None  # that names the file that a row is made of, where each has one
    # The modules that read it, where these have ended processes over damaged files: a child process imports them, and
    # looks through it and reads it.
    libraries: ClassVar[tuple[str, ...]] = ()
    reads_ahead: bool = (
        False  # its time goes to calls that let other threads run: it is read while rows are written
    )
    computes: bool = False  # its time goes into what is made of a row: tasks of fewer bytes
    share: float = 1.0  # how many of the rows in its units it gives, about
    duplicates: int = 0  # rows that it does not give, since an earlier one has the same key

    def __init__(self, source: InputPath, options: Options, progress: Progress | None = None) -> None:
        """Look through ``source``; ``progress`` is told how far it is. Raises `SchemaError` about its content."""
        self.input = source
        self.path: str = source.name
        self.asked = options.told()
        self.left_out: list[LeftOut] = []
        self.notes: list[str] = list(source.notes)
        self.look_through(options, progress)
        self._left_out_at_first = tuple(self.left_out)

    def classes_type(self, column: str, spec: Any, names: Sequence[str]) -> Any:
        """The type of a column of labels with the names of their classes; what cannot be their names is said."""
        if not names:
            return spec
        problem = classes_problem(spec, names)
        if problem is None:
            return classes_type(spec, names)
        self.left_out.append(
            reduced(f"the names of the values of {column}", f"left out: {problem}", column=column)
        )
        return spec

    @classmethod
    def takes(cls) -> frozenset[str]:
        """The names of the options it obeys, beside ``overrides``."""
        names = {option.name for option in cls.options}
        return frozenset(names | {"classes"} if cls.takes_classes else names)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """Whether what lies at the path is of this kind: by default by its name, or by its first bytes."""
        if cls.takes_folders and source.holds((*cls.suffixes, *cls.also_named)):
            return True
        named = source.is_file and source.suffix in cls.suffixes
        return named or (bool(cls.first_bytes) and source.head(len(cls.first_bytes)) == cls.first_bytes)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Whether this kind can be read from there when asked for by name: by default any file, and what it knows."""
        there = cls.reads_files if source.is_file else cls.any_folder and source.is_folder
        holds_some = cls.takes_folders and source.holds(cls.suffixes)
        return there or holds_some or cls.recognises(source)

    @abstractmethod
    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Set ``schema``, ``units``, ``metadata``, ``notes``, and add to ``left_out``."""

    @abstractmethod
    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a unit, a few MB at a time, the same batches each time it is read.

        What does not fit is a `Misfit` in the batch, or `SchemaError` where nothing can be read behind it.
        """

    def files_to_read(self) -> list[InputPath]:
        """The files of its kind by their names; where none is called so, all there are."""
        return self.input.files(self.suffixes) or self.input.all_files()

    def each_file(
        self, files: Sequence[InputPath], progress: Progress | None
    ) -> Iterator[tuple[int, InputPath]]:
        """Yield files with their numbers; what they are read of is told, and each is given back after it.

        Raises `SchemaError` where they are parts of a split by their names.
        """
        refuse_split_files(self.path, [file.name for file in files])
        sizes = [0 if progress is None else file.stored_size() for file in files]
        tracker = Tracker(sum(sizes), progress)
        for number, (file, end) in enumerate(zip(files, accumulate(sizes), strict=True)):
            if (
                progress is not None and not self.libraries
            ):  # which read it by themselves, on threads of theirs
                file.watched_by = partial(_reach, tracker, end - sizes[number], sizes[number])
            yield number, file
            file.watched_by = None
            if len(files) > 1:
                file.release()
            tracker.reach(end)

    def places_of(self, unit: Unit, rows: Sequence[int]) -> list[RowPlace]:
        """Where rows of a unit are, counted from 0 over its batches: their lines in a file, where they have some."""
        return [RowPlace(unit.name, f"row {row}") for row in rows]

    def files(self) -> Iterable[str]:
        """Yield the path of each file that its rows are made of; by default those that are called like its kind.

        Of a folder without such files, all. What was copied from a pipe is no file.
        """
        return self.input.files_called(self.suffixes)

    def __getstate__(self) -> dict[str, Any]:
        """All but ``handles``, which are None in another process."""
        return {**self.__dict__, **dict.fromkeys(self.handles)}

    @property
    def rows(self) -> int | None:
        """How many rows there are, with those that will be left out; None where only reading tells."""
        return rows_of(self.units)

    def done(self) -> None:
        """Told when all has been written and compared, before it is published: it will not be read again."""
        return

    def batches_of(self, unit: Unit, on_error: OnError = None) -> Iterator[RawBatch]:
        """Yield the batches of one unit, with the numbers of their rows; what a worker process calls.

        What does not fit is left out by ``"skip"`` and ``"report"``, with the rest of a unit that is damaged; else it
        raises `SchemaError`, as what could not be read does by ``"raise"``. Raises `StaleError` at its end when there
        were other rows than when the source was looked through.
        """
        seen = first = 0
        try:
            for batch in self.read(unit):
                read = batch.rows + sum(one.row is None for one in batch.misfits)
                read += sum(one.rows for one in batch.left_out)
                numbers = np.arange(first, first + batch.rows)
                seen, first = seen + read, first + batch.rows
                yield replace(batch, numbers=numbers, read=read).settled(on_error)
        except WrongSourceError:
            raise
        except (SchemaError, CorruptionError, FormatError) as error:
            if on_error in (None, "raise"):
                raise
            missing = None if unit.rows is None else unit.rows - seen
            which = "what follows" if missing is None else many(missing, "row")
            lost = LeftOut(unit.name, f"{which} after its row {seen}: {error}", rows=missing or 0)
            yield RawBatch({}, 0, (lost,), read=missing or 0)
            return
        if unit.rows is not None and seen != unit.rows:
            raise StaleError(
                f"{unit.name}: {many(seen, 'row', 'were')} read, but {unit.rows:,} were there when it was "
                f"looked through; "
                f"it changes while it is read, so nothing was published: convert a copy that stays as it is"
            )

    def batches(self) -> Iterator[RawBatch]:
        """Yield every row once, in the same order each time, a few MB at a time.

        Raises `StaleError` when there were other rows than when the source was looked through.
        """
        self.left_out = list(self._left_out_at_first)
        for unit in self.units:
            for batch in self.batches_of(unit):
                self.left_out += batch.left_out
                if batch.rows:
                    yield batch


def _reach(tracker: Tracker, start: int, size: int, share: float) -> None:
    """Say which share has been read of a file among several."""
    tracker.reach(start + int(size * share))


def column_name(field_name: str, number: int) -> str:
    """Return the name of the column that a file's own field makes, the same where it can be."""
    if name_problem(field_name) is None:
        return field_name
    name = _NO_TEXT.sub("_", field_name).strip("_")
    return name if name_problem(name) is None else f"column_{number}"


# What stands in no column's name: control characters, halves of surrogate pairs.
_NO_TEXT: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def column_names(given: Sequence[str], where: str, options: Options) -> tuple[list[str], list[LeftOut]]:
    """Return column names made from a file's own field names, and what to say of each that had to change.

    They are the same but for what no name can hold. Raises `SchemaError` when two fields end up with one name that is
    wanted; of one that is not, the second gets another.
    """
    names: dict[str, str] = {}
    changed: list[LeftOut] = []
    for i, field_name in enumerate(given):
        name = column_name(field_name, i)
        if name != field_name:
            changed.append(reduced(f"field {field_name!r}", f"is called {name!r}", column=name))
        if name in names and not options.wants(name):
            name = next(one for n in count(i) if (one := f"{name}_{n}") not in names)
        if name in names:
            raise SchemaError(
                f"{where}: the fields {names[name]!r} and {field_name!r} both make the column name {name!r}; "
                f"rename one"
            )
        names[name] = field_name
    return list(names), changed


# Columns that folders say: ``year=2024/cls=cat/part-0.parquet``, as Hive, Spark and pandas write them.


_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


class Partitions:
    """What the folders between a source and its files say of the rows of each file.

    Attributes:
        types: the columns: int64 where all values are whole numbers, else string; null by Hive's name for it.
        own_names: the names of the columns of the files' own fields.
        changed: what to say of the names, of either, that had to change.
    """

    def __init__(
        self, source: InputPath, files: Sequence[InputPath], own: Sequence[str], options: Options
    ) -> None:
        """``own``: fields that the files have themselves, which count. Raises `SchemaError` where folders differ."""
        above = source.fixed_folder
        said = [_pairs_of(os.path.relpath(file.path, above)) if above is not None else {} for file in files]
        names = list(said[0]) if said else []
        for file, pairs in zip(files, said, strict=True):
            if list(pairs) != names:
                raise SchemaError(
                    f"{file.name}: its folders say {', '.join(pairs) or 'no column'}, and those of {files[0].name} "
                    f"{', '.join(names) or 'none'}; write them to datasets of their own"
                )
        names = [name for name in names if name not in own]
        every, self.changed = column_names([*own, *names], source.name, options)
        self.own_names: list[str] = every[: len(own)]
        self.types: dict[str, str] = {}
        self._values: dict[str, list[Any]] = {}
        for column, name in zip(every[len(own) :], names, strict=True):
            evidence = CellEvidence()
            evidence.add([pairs[name] or "" for pairs in said])
            kind = evidence.type()
            is_whole = kind.rstrip("?") == "int64" and "" not in [pairs[name] for pairs in said]
            self.types[column] = ("int64" if is_whole else "string") + "?" * (None in [p[name] for p in said])
            self._values[column] = [
                int(value) if is_whole and value is not None else value
                for value in (pairs[name] for pairs in said)
            ]

    def columns(self, number: int, rows: int) -> dict[str, list[Any]]:
        """The columns of rows of a file."""
        return {column: [values[number]] * rows for column, values in self._values.items()}


def _pairs_of(path: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for piece in path.split(os.sep)[:-1]:
        name, equals, value = piece.partition("=")
        if equals and name:
            text = unquote(value)
            found[unquote(name)] = None if text == _NO_VALUE else text
    return found


# What files claim to hold, against the bytes that they have.


TRUST: Final = AskedOption(
    "trust_sizes", "believe files that claim many more rows or bytes than they hold, or take long to read"
)
_ROWS: Final = 1_000_000
_BYTES: Final = 1_000_000_000
_RATIO: Final = 1_000  # of rows, and of bytes of their values, to bytes of files


def file_sizes(source: InputPath) -> Iterator[int]:
    """Yield the bytes of each file that the path stands for; of a copy of a pipe those that were copied."""
    for path in source.files_called(()) or ([] if source.is_folder else [source.path]):
        with suppress(OSError):
            yield os.stat(path).st_size


def row_bytes(schema: Schema) -> int:
    """Bytes that the values of a row take which are all of one size."""
    return sum(column.fixed_bytes for column in schema)


def refuse_claims(source: InputPath, options: Options, rows: int, width: int) -> None:
    """Refuse rows of ``width`` bytes that are far more than its files could hold, however they are compressed.

    A fill value, a run or a null takes no room in a file, so that a few bytes can claim any number of rows.
    """
    if (rows <= _ROWS and rows * width <= _BYTES) or options.get(TRUST.name):
        return
    held = sum(file_sizes(source))
    if rows > _ROWS + _RATIO * held or rows * width > _BYTES + _RATIO * held:
        of = f" of {many(width, 'byte')}" if width else ""
        raise SchemaError(
            f"{source.name} claims {many(rows, 'row')}{of}, and has "
            f"{format_size(held)}; --trust-sizes (trust_sizes=True) converts it all the same"
        )
