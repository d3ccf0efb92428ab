"""Steps of a conversion: what each does to the rows of a source, and the source that they make."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..core import PictureOptions, PicturePlacer, Pixels
from ..errors import MissingError, PictureError, SchemaError, did_you_mean
from ..format.column import Column
from ..format.schema import Schema
from ..format.values import ColumnData, PackedStrings, RecordEncoder
from ..order.randomness import mixed
from ..order.split import Bounds, Cells, Strata, row_hashes, share_of_each
from ..pipeline.pictures import MOST_PIXELS, eight_bits, open_picture, orientation_of, pillow
from ..progress import Progress
from ..query.columns import Dictionary, Strings, Vector, Zones
from ..query.query import Query, compile_query
from ..query.tree import fields_in
from .sources.media_types import file_type
from .sources.source import LeftOut, OnError, Options, RawBatch, RowPlace, Source, Unit, WrongSourceError

__all__ = [
    "BatchColumns",
    "Change",
    "Division",
    "Encoding",
    "FORMATS",
    "PictureChange",
    "Places",
    "RESIZED_BY",
    "Step",
    "SteppedSource",
    "add_nulls",
    "by_batch",
    "cells_of",
    "cells_of_rows",
    "change_pictures",
    "check_columns",
    "chosen_columns",
    "condition_of",
    "drawn_evenly",
    "even_sample",
    "keep",
    "keep_share",
    "keep_value",
    "leave_out_misfits",
    "pieces",
    "stratified",
    "values_of",
    "where",
]


# What every step is: a change of batches, unit by unit, that depends on the source alone.


Change = Callable[[RawBatch], RawBatch]
Places = Callable[[Unit, RawBatch, Sequence[int]], list[RowPlace]]
Changes = Callable[[Unit, Places, Iterator[RawBatch]], Iterator[RawBatch]]


@dataclass(frozen=True)
class Step:
    """A change of the batches of a source, unit by unit, in their order.

    A step can be pickled, and makes the same rows in any process, whatever other units were read before.

    Attributes:
        changes: what it makes of the batches of one unit, as many and in their order, those without rows as they are;
            the unit's place is its number. It is told where rows of a batch are in the source, to name those that it
            leaves out. It may take batches before it has given those ahead of them.
        schema: the columns that it gives, of those before it; None: the same.
        chooses: whether rows are left away that have nothing wrong with them.
        rows_at_once: how many rows it is given at most, where a row costs so much that nobody should wait for many.
    """

    changes: Changes
    schema: Callable[[Schema], Schema] | None = None
    chooses: bool = False
    rows_at_once: int | None = None


def by_batch(begin: Callable[[Unit, Places], Change]) -> Changes:
    """The changes of a step that is asked at each unit what it does to a batch, one after the other."""
    return partial(_by_batch, begin)


def _by_batch(
    begin: Callable[[Unit, Places], Change], unit: Unit, places: Places, batches: Iterator[RawBatch]
) -> Iterator[RawBatch]:
    change = begin(unit, places)
    for batch in batches:
        yield change(batch) if batch.rows else batch


def _each_batch(change: Change, _unit: Unit, _places: Places) -> Change:
    """The change of a step that does the same to all batches."""
    return change


def pieces(batch: RawBatch, most: int | None) -> Iterator[RawBatch]:
    """The same rows in batches of at most ``most``; what was left out, or read besides, is told with the first."""
    if most is None or batch.rows <= most:
        yield batch
        return
    rows, left_out, besides = replace(batch, left_out=()), batch.left_out, batch.read - batch.rows
    for start in range(0, batch.rows, most):
        piece = rows.taken(np.arange(start, min(start + most, batch.rows)), left_out)
        yield replace(piece, read=piece.rows + besides)
        left_out, besides = (), 0


# The steps that keep some columns, and give them other names.


def check_columns(option: str, names: Sequence[str], schema: Schema) -> None:
    """Refuse names that the source has not, and the same one twice."""
    for i, name in enumerate(names):
        if name not in schema:
            raise WrongSourceError(
                f"--{option}: there is no column {name!r}{did_you_mean(name, schema.names)}; "
                f"the columns are {', '.join(schema.names)}"
            )
        if name in names[:i]:
            raise WrongSourceError(f"--{option} names {name!r} twice")


def chosen_columns(names: Sequence[str], before: Schema) -> Schema:
    """These columns of a schema, in this order."""
    return Schema(before[name] for name in names)


def keep(names: Sequence[str], new_names: Mapping[str, str] | None = None) -> Step:
    """The step that keeps these columns, in this order; ``new_names`` maps old names to new ones."""
    old = {name: (new_names or {}).get(name, name) for name in names}
    return Step(by_batch(partial(_each_batch, partial(_kept, old))), partial(_under_new_names, old))


def _kept(names: Mapping[str, str], batch: RawBatch) -> RawBatch:
    return replace(batch, columns={new: batch.columns[old] for old, new in names.items()})


def _under_new_names(names: Mapping[str, str], before: Schema) -> Schema:
    found: dict[str, object] = {}
    for old, new in names.items():
        if new in found:
            raise WrongSourceError(f"--rename: two columns would be called {new!r}")
        found[new] = before[old]
    try:
        return Schema.parse(found)
    except SchemaError as error:
        raise WrongSourceError(f"--rename: {error}") from None


def add_nulls(columns: Sequence[Column], order: Sequence[str]) -> Step:
    """The step that adds columns that are null in every row; ``order`` has the names of all columns."""
    change = partial(_with_nulls, tuple(column.name for column in columns))
    return Step(by_batch(partial(_each_batch, change)), partial(_more_columns, tuple(columns), tuple(order)))


def _more_columns(columns: tuple[Column, ...], order: tuple[str, ...], before: Schema) -> Schema:
    return chosen_columns(order, Schema((*before, *columns)))


def _with_nulls(names: tuple[str, ...], batch: RawBatch) -> RawBatch:
    nulls = {name: [None] * batch.rows for name in names}
    return replace(batch, columns={**batch.columns, **nulls})


# The step by which rows that do not fit are left out.


def leave_out_misfits(schema: Schema) -> Step:
    """The step that leaves out the rows whose values are not of the types of their columns."""
    return Step(by_batch(partial(_fitting, schema)))


def _fitting(schema: Schema, unit: Unit, places: Places) -> Change:
    """Encodes each batch, and where that fails each row."""
    encoder = RecordEncoder(schema)

    def change(batch: RawBatch) -> RawBatch:
        try:
            encoder.encode_batch(batch.columns, 0)
        except SchemaError:
            misfits = _misfits(schema, batch)
        else:
            return batch
        fitting = np.array([i for i in range(batch.rows) if i not in misfits], np.int64)
        found = zip(places(unit, batch, list(misfits)), misfits.values(), strict=True)
        return batch.taken(fitting, (LeftOut(at.name, at.why(why)) for at, why in found))

    return change


def _misfits(schema: Schema, batch: RawBatch) -> dict[int, str]:
    """The rows that do not fit, and what the encoder says of each alone."""
    encoder = RecordEncoder(schema)
    found: dict[int, str] = {}
    for i in range(batch.rows):
        try:
            encoder.add({column: batch.columns[column][i] for column in schema.names}, 0)
        except SchemaError as error:
            found[i] = str(error)
        encoder.clear()
    return found


# The step that keeps so many rows, spread evenly over all of them.


def even_sample(rows: int, seed: int, counts: Sequence[int]) -> Step:
    """The step that keeps ``rows`` of all rows, as `drawn_evenly` says; ``counts`` are the rows of each unit."""
    starts = [0, *accumulate(counts)]
    return Step(by_batch(partial(_drawn_of_unit, rows, seed, starts)), chooses=True)


def _drawn_of_unit(rows: int, seed: int, starts: Sequence[int], unit: Unit, _places: Places) -> Change:
    start = starts[unit.place]

    def change(batch: RawBatch) -> RawBatch:
        nonlocal start
        drawn = drawn_evenly(rows, starts[-1], seed, start, start + batch.rows) - start
        start += batch.rows
        return batch.taken(drawn)

    return change


def drawn_evenly(rows: int, every: int, seed: int, start: int, stop: int) -> npt.NDArray[np.int64]:
    """Those of [start, stop), ascending, among ``rows`` drawn of ``every`` row: one of each of so many equal stretches.

    So each row has about the same chance, and sorted rows (class folders) are drawn from in proportion.
    """
    rows = min(rows, every)
    if not rows:
        return np.empty(0, np.int64)
    first = start * rows // every
    last = min(-(-stop * rows // every), rows)
    numbers = np.arange(first, last + 1, dtype=np.int64)
    whole, rest = divmod(every, rows)
    begins = numbers * whole + numbers * rest // rows  # number * every // rows, within 64 bits
    sizes = (begins[1:] - begins[:-1]).astype(np.uint64)
    drawn = begins[:-1] + (mixed(numbers[:-1], seed) % sizes).astype(np.int64)
    return drawn[(drawn >= start) & (drawn < stop)]


# The values of batches as they will be stored, for what tells rows apart by them.


def cells_of_rows(schema: Schema, names: Sequence[str]) -> Callable[[RawBatch, int], list[Cells]]:
    """What encodes these columns of batches; `SchemaError` counts the rows of a batch from the number given with it."""
    encoder = RecordEncoder(chosen_columns(names, schema))

    def encoded(batch: RawBatch, first: int) -> list[Cells]:
        found = encoder.encode_batch({name: batch.columns[name] for name in names}, first)
        return [cells_of(column) for column in found.columns]

    return encoded


def cells_of(column: ColumnData) -> Cells:
    """The values of an encoded column."""
    values: Any = column.values
    if isinstance(values, np.ndarray):
        return Cells.of_width(values, column.valid)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Cells(np.frombuffer(b"".join(values), np.uint8), ends, column.valid)


# The step that keeps one share of a split: rows by a hash of themselves or a key, so that new rows move no other.


@dataclass(frozen=True)
class Division:
    """How rows are told apart: the hash of ``columns``, below which bound it is.

    ``bounds`` has the upper bound of each share but the last. With ``stratify``, a column, each of its values has
    bounds of its own, in ``of_value``.
    """

    schema: Schema
    columns: tuple[str, ...]
    seed: int
    bounds: Bounds
    stratify: str | None = None
    of_value: Mapping[bytes | None, Bounds] = field(default_factory=dict)


def keep_share(division: Division, number: int) -> Step:
    """The step that keeps the rows of share ``number``."""
    return Step(by_batch(partial(_rows_of_share, division, number)), chooses=True)


def _rows_of_share(division: Division, number: int, _unit: Unit, _places: Places) -> Change:
    first = 0
    hashes_of = _hashes(division)
    strata = Strata({value: number for number, value in enumerate(division.of_value)})
    of_strata = list(division.of_value.values())

    def change(batch: RawBatch) -> RawBatch:
        nonlocal first
        hashes, values = hashes_of(batch, first)
        first += batch.rows
        if values is None:
            share = share_of_each(hashes, [division.bounds])
        else:
            share = share_of_each(hashes, of_strata, strata.codes(values))
        return batch.taken(np.flatnonzero(share == number))

    return change


def _hashes(
    division: Division,
) -> Callable[[RawBatch, int], tuple[npt.NDArray[np.uint64], Cells | None]]:
    """What gives the hashes of the rows of a batch, and with ``stratify`` the values of that column."""
    hashed = cells_of_rows(division.schema, division.columns)
    strata = None if division.stratify is None else cells_of_rows(division.schema, [division.stratify])

    def found(batch: RawBatch, first: int) -> tuple[npt.NDArray[np.uint64], Cells | None]:
        hashes = row_hashes(hashed(batch, first), division.seed)
        return hashes, None if strata is None else strata(batch, first)[0]

    return found


def stratified(division: Division, shares: Sequence[Fraction], batches: Iterable[RawBatch]) -> Division:
    """The division that gives each value of the column ``stratify`` its shares; ``batches`` are all rows."""
    hashes_of, strata = _hashes(division), Strata()
    for batch in batches:
        if batch.rows:
            hashes, values = hashes_of(batch, 0)
            assert values is not None
            strata.add(hashes, values)
    return replace(division, of_value=strata.bounds(shares))


# The step that keeps the rows with one value of a column, where each value is a share of its own.


_MOST: Final = 1_000


def keep_value(column: Column, value: str | int) -> Step:
    """The step that keeps the rows whose ``column`` is ``value``."""
    return Step(by_batch(partial(_rows_of_value, column, value)), chooses=True)


def _rows_of_value(column: Column, value: str | int, _unit: Unit, _places: Places) -> Change:
    first, encoder = 0, RecordEncoder(Schema([column]))

    def change(batch: RawBatch) -> RawBatch:
        nonlocal first
        values = _stored_values(encoder, column, batch, first)
        first += batch.rows
        return batch.taken(np.array([i for i, one in enumerate(values) if one == value], np.int64))

    return change


def _stored_values(
    encoder: RecordEncoder, column: Column, batch: RawBatch, first: int
) -> list[str | int | None]:
    """The values of a column as they are stored, None where null; errors count its rows from ``first``."""
    encoded = encoder.encode_batch({column.name: batch.columns[column.name]}, first).columns[0]
    if column.is_string:
        return [None if cell is None else cell.decode() for cell in cells_of(encoded).each()]
    values: list[str | int | None] = np.asarray(encoded.values).tolist()
    if encoded.valid is None:
        return values
    return [value if there else None for value, there in zip(values, encoded.valid.tolist(), strict=True)]


def values_of(source: Source, column: str, name: re.Pattern[str]) -> dict[str, tuple[str | int, int]]:
    """The values of a column by the names of folders that they make, and how many rows have each; all are read.

    Raises `WrongSourceError` for columns of other types, for values that match no ``name``, and for more than 1,000.
    """
    kind = source.schema[column]
    if kind.is_blob or not (kind.is_string or (kind.dtype is not None and kind.dtype.kind in "iu")):
        raise WrongSourceError(
            f"--split-by {column} without --split makes a dataset of each value: of strings and integers, not of {kind}"
        )
    found: dict[str, tuple[str | int, int]] = {}
    first, encoder = 0, RecordEncoder(Schema([kind]))
    for batch in source.batches():
        values = _stored_values(encoder, kind, batch, first)
        first += batch.rows
        for value in values:
            text = str(value)
            if value is None or not name.fullmatch(text) or text.endswith(".urec"):
                raise WrongSourceError(
                    f"--split-by {column}: each value is to be the name of a folder, of letters, digits, _ - and .; "
                    f"one is {value!r}"
                )
            found[text] = value, found.get(text, (value, 0))[1] + 1
        if len(found) > _MOST:
            raise WrongSourceError(
                f"--split-by {column} without --split makes a dataset of each value: there are more than {_MOST:,}"
            )
    if not found:
        raise WrongSourceError(f"--split-by {column}: there are no rows")
    return found


# The step that keeps the rows that meet a condition: encoded rows in memory as the flat columns that queries read.


class BatchColumns:
    """Columns by their ordinal in the schema; those of which nothing is asked need not be there."""

    def __init__(self, name: str, rows: int, columns: Mapping[int, ColumnData]) -> None:
        self.name, self.rows = name, rows
        self._columns = columns

    def confirm_rows(self) -> None:
        """They are all here."""

    def values(self, column: int) -> Vector:
        """Values of a column of fixed width, zero where null."""
        return Vector(np.asarray(self._columns[column].values))

    def validity(self, column: int) -> Vector | None:
        """Bits, or None when the column is not nullable."""
        valid = self._columns[column].valid
        return None if valid is None else Vector(np.packbits(valid, bitorder="little"))

    def lengths(self, column: int) -> Vector:
        """Bytes of each value."""
        return Vector(_lengths(self._columns[column].values))

    def value_lengths(self, column: int) -> Vector:
        """The same: nothing is compressed."""
        return self.lengths(column)

    def dictionary(self, column: int) -> Dictionary | None:
        """None: strings are plain."""
        return None

    def strings(self, column: int) -> Strings:
        """The strings of a column."""
        values = self._columns[column].values
        assert isinstance(values, PackedStrings)
        return Strings(Vector((values.ends - values.ends[0]).astype(np.uint64)), Vector(values.content))

    def zones(self, column: int) -> Zones | None:
        """None: nothing is known of the values."""
        return None

    def sorted_rows(self, column: int) -> Vector | None:
        """None: nothing is sorted."""
        return None

    def words(self, column: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The two words of each decimal of these rows."""
        cells = self._columns[column].values
        assert isinstance(cells, np.ndarray)
        return cells[rows].view(np.int64)


def _lengths(values: Any) -> npt.NDArray[np.uint64]:
    if isinstance(values, np.ndarray):
        return np.full(len(values), values.shape[-1], np.uint64)
    if isinstance(values, PackedStrings):
        return values.sizes.astype(np.uint64)
    return np.fromiter(map(len, values), np.uint64, len(values))


def condition_of(text: str, schema: Schema) -> Query:
    """The condition ``text`` (docs/query.md) on rows of a source, which names its columns.

    Raises `QueryError`, and `WrongSourceError` where the number of a row or part is asked for.
    """
    query = compile_query(text, schema)
    if any(field.ordinal < 0 for field in fields_in(query.condition)):
        raise WrongSourceError(
            "--where: row and part are numbers in a dataset, which raw data have not; --limit takes the first rows"
        )
    return query


def where(query: Query, schema: Schema) -> Step:
    """The step that keeps the rows that meet a condition on the columns of ``schema``."""
    return Step(by_batch(partial(_meeting, query, schema)), chooses=True)


def _meeting(query: Query, schema: Schema, _unit: Unit, _places: Places) -> Change:
    encoder = RecordEncoder(chosen_columns(query.columns, schema)) if query.columns else None
    ordinals = [schema.names.index(name) for name in query.columns]
    first = 0

    def change(batch: RawBatch) -> RawBatch:
        nonlocal first
        columns = {}
        if encoder is not None:
            encoded = encoder.encode_batch({name: batch.columns[name] for name in query.columns}, first)
            columns = dict(zip(ordinals, encoded.columns, strict=True))
        first += batch.rows
        return batch.taken(query.rows([BatchColumns("the rows", batch.rows, columns)]))

    return change


# A source whose rows go through steps: to whoever reads it, a source like any other.


class SteppedSource(Source):
    """The rows of ``inner`` after ``steps``.

    Args:
        inner: the source.
        steps: what its batches go through, in this order.
        share: how much of all rows is kept, about.
        on_error: what becomes of what does not fit or cannot be read, as `Source.batches_of` has it.
        columns: those of the source that were asked for; of others it is not told what is left out. None: all.
    """

    kind: ClassVar[str] = "chosen rows"
    about: ClassVar[str] = "rows of another source"

    def __init__(
        self,
        inner: Source,
        steps: Sequence[Step],
        *,
        share: float = 1.0,
        on_error: OnError = None,
        columns: Collection[str] | None = None,
    ) -> None:
        self.inner, self.steps, self.share = inner, tuple(steps), share
        self._on_error, self._columns = on_error, columns
        self.path, self.metadata, self.notes = inner.path, inner.metadata, inner.notes
        self.read_once, self.asked, self.duplicates = inner.read_once, inner.asked, inner.duplicates
        self.left_out: list[LeftOut] = list(self._asked_for(inner.left_out))
        self._left_out_at_first = tuple(self.left_out)
        self.units: Sequence[Unit] = [
            Unit(unit.name, number, unit.rows) for number, unit in enumerate(inner.units)
        ]
        computes = any(step.rows_at_once for step in self.steps)
        self.computes: bool = inner.computes or computes
        # Libraries that make pictures and tokens let other threads run: rows are written meanwhile.
        self.reads_ahead: bool = inner.reads_ahead or computes
        self.schema: Schema = inner.schema
        for step in self.steps:
            if step.schema is not None:
                self.schema = step.schema(self.schema)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Nothing: ``inner`` has been looked through."""

    def places_of(self, unit: Unit, rows: Sequence[int]) -> list[RowPlace]:
        """Those of ``inner``."""
        return self.inner.places_of(self.inner.units[unit.place], rows)

    def files(self) -> Iterable[str]:
        """Those of ``inner``."""
        return self.inner.files()

    @property
    def chooses(self) -> bool:
        """Whether a step leaves rows away."""
        return any(step.chooses for step in self.steps)

    @property
    def rows(self) -> int | None:
        """How many rows there are; None where a step chooses among them."""
        return None if self.chooses else self.inner.rows

    def batches_of(self, unit: Unit, on_error: OnError = None) -> Iterator[RawBatch]:
        """Yield the batches of a unit; `inner` holds their number against what it has seen before."""
        return self.read(unit)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield what the steps make of each batch of a unit."""
        batches = self._pieces(unit)
        for step in self.steps:
            batches = step.changes(unit, self._places, batches)
        return batches

    def _pieces(self, unit: Unit) -> Iterator[RawBatch]:
        most = min((step.rows_at_once for step in self.steps if step.rows_at_once), default=None)
        for batch in self.inner.batches_of(self.inner.units[unit.place], self._on_error):
            if batch.left_out:
                batch = replace(batch, left_out=self._asked_for(batch.left_out))
            yield from pieces(batch, most)

    def _places(self, unit: Unit, batch: RawBatch, rows: Sequence[int]) -> list[RowPlace]:
        column = self.inner.path_column
        if column is not None and column in batch.columns:
            return [RowPlace(str(batch.columns[column][i]), "") for i in rows]
        assert batch.numbers is not None
        return self.places_of(unit, [int(batch.numbers[i]) for i in rows])

    def places_as_read(self, unit: Unit, rows: Sequence[int]) -> list[RowPlace]:
        """Where rows of a unit are, by the file that each is made of where it is; the unit is read again for that."""
        column = self.inner.path_column
        if column is None or column not in self.inner.schema:
            return self.places_of(unit, rows)
        found: dict[int, str] = {}
        wanted = frozenset(rows)
        for batch in self.inner.batches_of(self.inner.units[unit.place], self._on_error):
            numbers = [] if batch.numbers is None else batch.numbers.tolist()
            found |= {n: str(batch.columns[column][i]) for i, n in enumerate(numbers) if n in wanted}
        return [RowPlace(found[row], "") for row in rows]

    def _asked_for(self, left_out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
        """Those that are not about a column that nobody asked for."""
        if self._columns is None:
            return tuple(left_out)
        return tuple(one for one in left_out if one.column is None or one.column in self._columns)


# One stored picture to another: smaller, of another format, or its pixels; with rules for what it loses.


RESIZED_BY: Final = (
    "bicubic, in the core"  # another text where other pixels come out: nobody goes on with those
)

_QUALITY: Final = {"jpeg": 90, "webp": 80}  # where none is asked for
FORMATS: Final = ("jpeg", "webp", "png", "raw")
_KEPT: Final = {"JPEG": "jpeg", "MPO": "jpeg", "PNG": "png", "WEBP": "webp"}  # all else becomes PNG
_WITH_ALPHA: Final = ("webp", "png")
_ORIENTATION: Final = 274  # the EXIF tag
_GAP: Final = 2  # JPEG is decoded at a scale that leaves twice the size; Pillow's thumbnail does the same
_MOST_SIDE: Final = 65_535  # that the core writes
_SPECIAL: Final = ("CMYK", "LAB", "YCbCr", "HSV")  # whose colour profile is not that of the RGB made of them
_TURNS: Final = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270", 7: "TRANSVERSE",
    8: "ROTATE_90",
}  # fmt: skip


@dataclass(frozen=True)
class Encoding:
    """How pictures are encoded: a name of `FORMATS`, and the quality, 1 to 100, of those that lose some."""

    format: str
    quality: int | None = None

    @classmethod
    def parse(cls, text: str) -> Encoding:
        """``"jpeg:90"``, ``"webp"``, ``"png"`` or ``"raw"``; ValueError for anything else."""
        found = re.fullmatch(r"([a-z]+)(?::([0-9]{1,3}))?", text) if isinstance(text, str) else None
        name = found[1] if found else None
        quality = int(found[2]) if found and found[2] else _QUALITY.get(name or "")
        lossless = name not in _QUALITY
        if (
            name not in FORMATS
            or (lossless and quality is not None)
            or not (lossless or 1 <= (quality or 0) <= 100)
        ):
            raise ValueError(f"reencode is jpeg:QUALITY, webp:QUALITY (1 to 100), png or raw, got {text!r}")
        return cls(name, quality)


@dataclass(frozen=True)
class PictureChange:
    """What is done to a picture.

    Attributes:
        resize: pixels of the shorter side, at most.
        max_side: pixels of the longer side, at most.
        encoding: what it becomes; None: JPEG, PNG and WebP stay what they are, with the usual quality, and all else
            becomes PNG.
    """

    resize: int | None = None
    max_side: int | None = None
    encoding: Encoding | None = None

    def __post_init__(self) -> None:
        for name, side in (("resize", self.resize), ("max_side", self.max_side)):
            if side is not None and (type(side) is not int or side < 1):
                raise ValueError(f"{name} is a number of pixels, 1 or more, got {side!r}")

    def __call__(self, data: bytes) -> tuple[Any, int, int]:
        """The picture's new bytes, or uint8[height, width, 3] for raw, and its width and height.

        Aspect and EXIF orientation are kept: a tag says it, as before, but raw pixels are turned. What is small enough
        and is not re-encoded stays byte for byte. Raises `PictureError` when it cannot be decoded.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with open_picture(data) as image:
                    return self._changed(image, data)
        except (MemoryError, MissingError, PictureError):
            raise
        except Exception as error:  # decoders raise whatever they like
            raise PictureError(f"it cannot be decoded: {error}") from None

    def size(self, width: int, height: int) -> tuple[int, int]:
        """The size that a picture of this size gets: never larger, and of the same aspect."""
        scale = min(
            1.0, (self.resize or width) / min(width, height) if self.resize else 1.0,
            (self.max_side or width) / max(width, height) if self.max_side else 1.0,
        )  # fmt: skip
        return max(round(width * scale), 1), max(round(height * scale), 1)

    def _changed(self, image: Any, data: bytes) -> tuple[Any, int, int]:
        if image.width * image.height > MOST_PIXELS:
            raise PictureError(f"it has {image.width} × {image.height} pixels, more than {MOST_PIXELS:,}")
        size = self.size(*image.size)
        if self.encoding is None and size == image.size:
            return data, *size
        encoding = self.encoding or _usual(image.format)
        orientation, profile = orientation_of(image), image.info.get("icc_profile")
        if image.mode in _SPECIAL:
            profile = None
        stored, reduction = image.size, _draft(image, size)
        pixels = _pixels(image, encoding.format)
        if pixels.size != size:
            pixels = _resized(pixels, stored, reduction, size)
        if encoding.format == "raw":
            turned = (
                pixels.transpose(getattr(pillow().Transpose, _TURNS[orientation]))
                if orientation > 1
                else pixels
            )
            array: NDArray[np.uint8] = np.asarray(turned)
            return array, turned.width, turned.height
        return _encoded(pixels, encoding, orientation, profile), *size


def _usual(name: str) -> Encoding:
    return Encoding(_KEPT.get(name, "png"), _QUALITY.get(_KEPT.get(name, "png")))


def _draft(image: Any, size: tuple[int, int]) -> int:
    """Has a JPEG decoded only as far as the size needs; at which part of its own: one half, a fourth, an eighth."""
    if image.format not in ("JPEG", "MPO") or image.mode not in ("L", "RGB") or size == image.size:
        return 1
    width = image.width
    found = image.draft(image.mode, (size[0] * _GAP, size[1] * _GAP))
    return round(width / found[1][2]) if found else 1


def _pixels(image: Any, target: str) -> Any:
    """The first frame in a mode that the format can hold: 16 bits in grey PNG alone, alpha in PNG and WebP."""
    if target == "png" and image.mode.startswith("I;16"):
        return image.convert("I")
    if image.mode.startswith("I") or image.mode == "F":
        return (
            pillow()
            .fromarray(eight_bits(image, 3 if target == "raw" else 1))
            .convert("RGB" if target == "raw" else "L")
        )
    alpha = image.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info
    if alpha and target in _WITH_ALPHA:
        return image.convert("RGBA")
    grey = image.mode in ("1", "L", "LA", "La") and target != "raw"
    return image.convert("L" if grey else "RGB")


def _resized(pixels: Any, stored: tuple[int, int], reduction: int, size: tuple[int, int]) -> Any:
    """Bicubic and antialiased: 8 bits of grey or of three colours by the core, depth and alpha by Pillow."""
    if pixels.mode == "I":
        wide = np.asarray(pixels.convert("F").resize(size, pillow().Resampling.BICUBIC))
        return pillow().fromarray(np.clip(np.rint(wide), 0, 65_535).astype(np.int32))
    if pixels.mode not in ("L", "RGB") or max(size) > _MOST_SIDE:
        box = tuple(side / reduction for side in (0, 0, *stored))
        return pixels.resize(size, pillow().Resampling.BICUBIC, box=box, reducing_gap=float(_GAP))
    out = np.empty((size[1], size[0], len(pixels.mode)), np.uint8)
    placer = _placer(*out.shape)
    placer.place(placer.crop(*stored, orientation=1, key=0), Pixels(np.asarray(pixels), reduction), out)
    return pillow().fromarray(out[..., 0] if pixels.mode == "L" else out)


@lru_cache(32)
def _placer(height: int, width: int, channels: int) -> PicturePlacer:
    return PicturePlacer(
        PictureOptions(
            (height, width, channels), channels_first=False, crop=None, orient=False, reduce=False, truncated=False,
            fraction=1.0, flip=0.0, area=(1.0, 1.0), ratio=(1.0, 1.0), most_pixels=MOST_PIXELS, values=None,
            filter="bicubic",
        )
    )  # fmt: skip


def _encoded(pixels: Any, encoding: Encoding, orientation: int, profile: Any) -> bytes:
    if pixels.mode == "I":
        pixels = pillow().fromarray(np.asarray(pixels).astype(np.uint16))
    options: dict[str, Any] = {} if encoding.quality is None else {"quality": encoding.quality}
    if orientation > 1:
        exif = pillow().Exif()
        exif[_ORIENTATION] = orientation
        options["exif"] = exif.tobytes()
    if profile and not (encoding.format == "webp" and pixels.mode == "L"):
        options["icc_profile"] = profile
    pixels.info = {}  # what the file said beside its pixels, but for these two, is not carried over
    out = io.BytesIO()
    pixels.save(out, encoding.format.upper(), **options)
    return out.getvalue()


# The step that changes the pictures in columns, and the columns that tell their size.


_MEDIA: Final = {"jpeg": "image/jpeg", "webp": "image/webp", "png": "image/png"}


# The first ones of some units are made again, to compare what was written.
_ROWS_AT_ONCE: Final = 8


def change_pictures(
    change: PictureChange,
    columns: Sequence[str],
    sizes: Mapping[str, tuple[str, str]],
    *,
    refuses: bool = False,
) -> Step:
    """The step that changes the pictures of ``columns``.

    ``sizes`` names the columns that hold a picture's width and height. Of a picture that cannot be decoded, the row is
    left out, or with ``refuses`` that is an error.
    """
    return Step(
        by_batch(partial(_changed_batches, change, tuple(columns), dict(sizes), refuses)),
        partial(_types_after, change.encoding, tuple(columns)),
        rows_at_once=_ROWS_AT_ONCE,
    )


def _types_after(encoding: Encoding | None, columns: tuple[str, ...], before: Schema) -> Schema:
    """The same columns, but for the media type; raw pixels are arrays."""
    found: dict[str, object] = {}
    for column in before:
        found[column.name] = column.spec
        if column.name not in columns:
            continue
        null = "?" if column.nullable else ""
        if encoding is not None and encoding.format == "raw":
            found[column.name] = {"type": f"uint8{null}", "shape": [-1, -1, 3]}
            continue
        known = column.media_type if column.media_type in _MEDIA.values() else None
        media = known or "image/*" if encoding is None else _MEDIA[encoding.format]
        chunks = None if column.chunks is None else column.chunks[0]
        found[column.name] = {
            **file_type(media, column.wire_type), "chunks": chunks, "annotations": column.annotations
        }  # fmt: skip
    return Schema.parse(found)


def _changed_batches(
    change: PictureChange,
    names: tuple[str, ...],
    sizes: Mapping[str, tuple[str, str]],
    refuses: bool,
    unit: Unit,
    places: Places,
) -> Change:
    told = [name for column in names for name in sizes.get(column, ())]

    def changed_batch(batch: RawBatch) -> RawBatch:
        there = [*names, *(name for name in told if name in batch.columns)]
        columns = {one: list(batch.columns[one]) for one in there}
        broken: dict[int, str] = {}
        for i in range(batch.rows):
            try:
                _change_row(change, names, sizes, columns, i)
            except PictureError as error:
                if refuses:
                    (at,) = places(unit, batch, [i])
                    raise SchemaError(f"{at}: {error}; --on-error skip leaves it out") from None
                broken[i] = str(error)
        changed = replace(batch, columns={**batch.columns, **columns})
        if not broken:
            return changed
        sound = np.array([i for i in range(batch.rows) if i not in broken], np.int64)
        found = zip(places(unit, batch, list(broken)), broken.values(), strict=True)
        return changed.taken(sound, tuple(LeftOut(str(at), why) for at, why in found))

    return changed_batch


def _change_row(
    change: PictureChange,
    names: tuple[str, ...],
    sizes: Mapping[str, tuple[str, str]],
    columns: dict[str, list[Any]],
    i: int,
) -> None:
    for column in names:
        data = columns[column][i]
        if data is None:
            continue
        columns[column][i], *size = change(bytes(data))
        for name, pixels in zip(sizes.get(column, ()), size, strict=False):
            if name in columns:
                columns[name][i] = pixels
