"""Sequences: an anchor row, and what stands at offsets from it within its group, in the place of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from shlex import quote
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..core import NativeLoader, NativeSequence
from ..errors import SchemaError
from ..format.column import Column
from ..order.selection import Selection
from ..query.columns import scalar_arrays
from ..snapshot.part_set import Empty, Snapshot
from .batch import IS_PAD, SampleReader, StepCounts, WhereFrom, put_steps, split_batch
from .boxes import Crop
from .opened import OpenedData

__all__ = ["Offsets", "Rows", "SequenceData", "SequenceRule"]

Numbers = NDArray[np.int64]
Read = TypeVar("Read")

# Times that are stored as real numbers count seconds, and are compared as whole numbers of these.
REAL_TICKS = 1_000_000_000


@dataclass(frozen=True)
class Offsets:
    """Offsets of a column's values from the anchor: of rows, or in the unit of the order's times."""

    numbers: tuple[int, ...]
    timed: bool = False

    def moved(self, by: int) -> Numbers:
        """The offsets as an array, those of other times than the anchor's so much later."""
        numbers = np.array(self.numbers, np.int64)
        if self.timed:
            numbers[numbers != 0] += by
        return numbers


@dataclass(frozen=True)
class SequenceRule:
    """What stands in a sample: ``at`` says the offsets of columns, all others have the anchor's value alone.

    ``by``: rows of one value are a group, None: all are. ``order``: a column that does not fall within a group.
    ``tolerance``, in units of its times, and ``before`` say which row stands at an offset in time. ``edges``: "pad",
    "drop" or "partial". ``stride``: of the rows of a group that may be anchors, each so many-th is.
    """

    at: Mapping[str, Offsets]
    by: str | None
    order: str | None
    stride: int
    edges: str
    tolerance: int
    before: bool


class Rows:
    """The rows that offsets step over, in their groups. Pickled, they are found anew in the same data."""

    def __init__(self, data: OpenedData, rule: SequenceRule, selection: Selection) -> None:
        self._data, self.rule = data, rule
        self.places = len(selection)
        self.selection = selection
        self._rows = None if selection.is_all else selection.every()
        if self._rows is not None and (np.diff(self._rows) <= 0).any():
            raise ValueError(
                "rows have been selected in an order of their own, or twice, and sequences are of rows as they are "
                "stored: select anchors of the sequences, with where= or sequences(…).select(…)"
            )
        names = [name for name in (rule.by, rule.order) if name is not None]
        columns = scalar_arrays(data.parts, list(dict.fromkeys(names)), selection)
        where = str(data.path)
        self.starts = _starts(where, rule, columns, selection)
        column = None if rule.order is None else data.snapshot.schema[rule.order]
        self.times, self._rounding = None, 0
        if column is not None:
            self.times = _times(where, rule, column, columns[column.name], self.starts, selection)
            self._rounding = _rounding(columns[column.name])

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self._data, self.rule, self.selection)

    def native(
        self, offsets: Sequence[tuple[Offsets, int]], first_row: int = 0, later: NativeSequence | None = None
    ) -> NativeSequence:
        """What says which rows stand at these offsets, each of so many outputs.

        ``first_row``: the number, where they are read, of the first row of the data; ``later``: of those behind them.
        """
        rows, before = self._rows, self.rule.before
        # What rounding may have made later than it should be is not later; of two that it may have made nearer or
        # farther, the earlier is taken.
        moved = self._rounding if before else -self._rounding
        return NativeSequence(
            self.places,
            first_row,
            rows if rows is None or first_row == 0 else rows + first_row,
            self.starts,
            self.times,
            [(of.moved(moved), of.timed, outputs) for of, outputs in offsets],
            tolerance=self.rule.tolerance + 2 * self._rounding,
            before=before,
            blank=self.is_blank,
            later=later,
        )

    @property
    def is_blank(self) -> bool:
        """Whether what is missing is zero, or None, and no row's."""
        return self.rule.edges == "partial"

    def anchors(self) -> Selection:
        """The rows that may be anchors: those with no step missing, with "drop", and of these by stride."""
        rule = self.rule
        if rule.edges != "drop" and rule.stride == 1:
            return self.selection
        good = self._whole() if rule.edges == "drop" else np.ones(self.places, np.bool_)
        if rule.stride > 1:
            places = np.flatnonzero(good)
            group = np.searchsorted(self.starts, places, side="right") - 1
            first = np.full(len(self.starts) - 1, self.places, np.int64)
            np.minimum.at(first, group, places)
            good[places[(places - first[group]) % rule.stride != 0]] = False
        return self.selection.select(np.flatnonzero(good))

    def _whole(self) -> NDArray[np.bool_]:
        """For each place whether no step from it is missing."""
        by_rows = [number for of in self.rule.at.values() if not of.timed for number in of.numbers]
        good = np.zeros(self.places, np.bool_)
        # what is open within each group: from its start less the least offset up to its end less the greatest
        first = np.minimum(self.starts[:-1] - min(by_rows, default=0), self.starts[1:])
        first = np.maximum(first, self.starts[:-1])
        end = np.maximum(np.minimum(self.starts[1:] - max(by_rows, default=0), self.starts[1:]), first)
        change = np.zeros(self.places + 1, np.int64)
        np.add.at(change, first, 1)
        np.add.at(change, end, -1)
        good[:] = np.cumsum(change[:-1]) > 0
        for of in {of for of in self.rule.at.values() if of.timed}:
            native = self.native([(of, 1)])
            piece = max(1, (1 << 20) // len(of.numbers))
            for start in range(0, self.places, piece):
                places = np.arange(start, min(start + piece, self.places), dtype=np.int64)
                _, missing = native.find(0, self.selection.row_ids(places))
                good[places] &= ~missing.any(axis=1)
        return good


def _starts(where: str, rule: SequenceRule, columns: Mapping[str, Any], selection: Selection) -> Numbers:
    """Where each group begins, and the number of rows."""
    rows = len(selection)
    if rows == 0 or rule.by is None:
        return np.array([0, rows] if rows else [0], np.int64)
    values = columns[rule.by]
    if np.ma.is_masked(values) or (values.dtype == object and any(value is None for value in values)):
        raise SchemaError(
            f"column {rule.by!r} is null in some rows, which are in no group: {_left_out(rule.by, 'is not null')}"
        )
    values = np.asarray(values)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise SchemaError(
            f"column {rule.by!r} is NaN in some rows, which are in no group: {_left_out(rule.by, 'is not nan')}"
        )
    starts = np.append(0, np.flatnonzero(values[1:] != values[:-1]) + 1)
    found, number, count = np.unique(values[starts], return_inverse=True, return_counts=True)
    if len(found) < len(starts):
        torn = int(np.argmax(count > 1))
        first, again = selection.row_ids(starts[np.flatnonzero(number == torn)[:2]]).tolist()
        raise ValueError(
            f"{where}: the rows where {rule.by} is {found[torn]!s} do not lie together: some begin at row {first}, "
            f"others at row {again}. A group is a run of rows: `{_sorting(where, rule)}` brings them together"
        )
    return np.append(starts, rows).astype(np.int64)


def _left_out(name: str, condition: str) -> str:
    """The call by which rows are left out before sequences are made; a condition on anchors leaves none out."""
    from ..query.tree import Field  # of messages alone

    return f"leave them out first, sequences(ds.view(where={f'{Field(name, 0, str())} {condition}'!r}), …)"


def _sorting(where: str, rule: SequenceRule) -> str:
    """The commands that bring the rows into the order in which sequences are made of them."""
    commands = []
    if rule.order is not None:
        commands.append(f"unirecord sort {quote(where)} --by {quote(rule.order)}")
    if rule.by is not None:
        commands.append(f"unirecord sort {quote(where)} --by {quote(rule.by)} --cluster")
    return " && ".join(commands)


def _times(
    where: str, rule: SequenceRule, column: Column, values: Any, starts: Numbers, selection: Selection
) -> Numbers:
    """The times of all rows as whole numbers, which do not fall within a group."""
    if np.ma.is_masked(values):
        raise SchemaError(
            f"column {column.name!r} is null in some rows, which have no order: "
            + _left_out(column.name, "is not null")
        )
    values = np.asarray(values)
    if values.dtype.kind not in "iuf":
        raise SchemaError(
            f"column {column.name!r} is {column.spec!r}: order= takes a column of numbers or times"
        )
    if values.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = np.rint(values.astype(np.float64) * REAL_TICKS)
        if not (np.abs(numbers) < 2.0**63).all():
            raise SchemaError(
                f"column {column.name!r} has values that are no seconds (NaN, or beyond 9.2e9), which have no order: "
                + _left_out(column.name, "between -9e9 and 9e9")
            )
        times: Numbers = numbers.astype(np.int64)
        # two that are nearer than a tick stand as they are stored
        falls = values[1:] < values[:-1]
    else:
        if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
            raise SchemaError(
                f"column {column.name!r} has numbers of 2^63 and more, by which order= cannot count"
            )
        times = np.ascontiguousarray(values, np.int64)
        if column.time_dtype is not None and (times == np.iinfo(np.int64).min).any():
            raise SchemaError(
                f"column {column.name!r} is NaT in some rows, which have no order: leave them out first, with "
                "ds.view(where=…)"
            )
        falls = times[1:] < times[:-1]
    falls[starts[1:-1] - 1] = False
    if falls.any():
        row, lower = selection.row_ids(np.argmax(falls) + np.arange(2)).tolist()
        raise ValueError(
            f"{where}: {column.name} falls from row {row} to row {lower}"
            f"{'' if rule.by is None else f' of one {rule.by}'}, and order={column.name!r} is to ascend: "
            f"`{_sorting(where, rule)}` sorts them"
        )
    return times


def _rounding(values: Any) -> int:
    """By how much two times that are stored as real numbers may differ from what they were rounded from, in ticks.

    That is half the distance of neighbouring numbers for each, half a tick for each, and half a tick for the offset.
    """
    values = np.asarray(values)
    if values.dtype.kind != "f" or not len(values):
        return 0
    return math.ceil(float(np.spacing(np.abs(values).max())) * REAL_TICKS) + 2


class SequenceReader:
    """Reads sequences by their anchors, as ``SampleReader`` reads rows. Thread-safe."""

    def __init__(self, data: SequenceData) -> None:
        self._data = data
        self._readers = [SampleReader(data.parts, columns, times=True) for columns, _ in data.runs]
        self._order = [column.name for _, column in data.columns]

    def one(self, row: int) -> dict[str, Any]:
        """The sequence of one anchor; its arrays are its own."""
        return self.many(np.array([row], np.int64))[0]

    def one_by_one(self) -> Callable[[int], dict[str, Any]]:
        """``one``, for many calls."""
        return self.one

    def many(self, rows: Numbers) -> list[dict[str, Any]]:
        """The sequences of these anchors; their arrays are pieces of one block of memory."""
        return split_batch(self.batch(rows), len(rows))

    def placing(self, rows: Numbers, read: Callable[[], Read]) -> Read:
        """What ``read`` makes of the sequences; a row that cannot be decoded is named where it is read."""
        return read()

    def batch(self, rows: Numbers, empty: Empty = np.empty) -> dict[str, Any]:
        """The sequences of these anchors as one batch, in memory of its own."""
        batch: dict[str, Any] = {}
        for number, ((_, steps), reader) in enumerate(zip(self._data.runs, self._readers, strict=True)):
            found, missing = self._data.native.find(number, rows)
            self._put(batch, found, missing, steps is not None, reader)
        for told in self._data.told:
            told.add(batch, np.asarray(rows, np.int64))
        return batch

    def _put(
        self,
        batch: dict[str, Any],
        found: Numbers,
        missing: NDArray[np.bool_],
        stepped: bool,
        reader: SampleReader,
    ) -> None:
        blank = missing.ravel() & self._data.steps.blank
        wanted, place = np.unique(found.ravel()[~blank], return_inverse=True)
        places = np.full(found.size, -1, np.int64)
        places[~blank] = place.ravel()
        for name, values in reader.batch(wanted).items():
            put_steps(batch, name, _taken(values, places), missing if stepped else None)


def _taken(values: Any, places: Numbers) -> Any:
    """The values at these places, and at −1 what stands for one that is missing."""
    blank = places < 0
    if isinstance(values, np.ndarray):
        shape = len(places), *values.shape[1:]
        made: Any = np.zeros(shape, values.dtype)
        made[~blank] = np.ma.getdata(values)[places[~blank]]
        if not isinstance(values, np.ma.MaskedArray):
            return made
        mask = np.ones(shape, np.bool_)
        mask[~blank] = np.ma.getmaskarray(values)[places[~blank]]
        return np.ma.MaskedArray(made, mask=mask)
    items = values if isinstance(values, list) else values.to_list()
    return [None if place < 0 else items[place] for place in places.tolist()]


class SequenceData(OpenedData):
    """Sequences over opened data: rows are their anchors. Pickled, it is made anew of the same data."""

    native: NativeSequence
    steps: StepCounts

    # neighbouring columns with the same offsets, which are read together, and how many steps; None: the anchor alone
    runs: list[tuple[list[tuple[int, Column]], int | None]]

    def __init__(
        self,
        base: OpenedData,
        pieces: Sequence[tuple[Rows, int]],
        columns: Sequence[str] | None = None,
        where_from: WhereFrom | None = None,
    ) -> None:
        """``pieces``: the rows of sequences, and the number in ``base`` of the first row of their data, ascending."""
        self.base, self.pieces = base, tuple(pieces)
        self._init(base.path, base.parts, base.snapshot, columns, where_from)

    def steps_of(self, name: str) -> int | None:
        """How many steps a column has; None: it has the anchor's value alone."""
        offsets = self.pieces[0][0].rule.at.get(name)
        return None if offsets is None else len(offsets.numbers)

    def _reader(self) -> SampleReader:
        alone = Offsets((0,))
        self.runs, offsets = [], []
        for found, columns in groupby(
            self.columns, lambda column: [rows.rule.at.get(column[1].name) for rows, _ in self.pieces]
        ):
            run = list(columns)
            self.runs.append((run, self.steps_of(run[0][1].name)))
            offsets.append([(of or alone, len(run)) for of in found])
        native = None
        for (rows, first_row), steps in reversed(
            list(zip(self.pieces, zip(*offsets, strict=True), strict=True))
        ):
            native = rows.native(steps, first_row, native)
        assert native is not None
        self.native = native
        counts = [steps for columns, steps in self.runs for _ in columns]
        self.steps = StepCounts(tuple(counts), self.pieces[0][0].is_blank)
        return cast("SampleReader", SequenceReader(self))

    def _mean_bytes(self) -> float:
        """Of a sample, about: what is missing counts as if it were there."""
        return sum(
            (steps or 1) * self.parts.mean_row_bytes([ordinal for ordinal, _ in columns])
            for columns, steps in self.runs
        )

    @property
    def sample_columns(self) -> tuple[Column, ...]:
        """The columns that samples have: those with steps have one dimension more, and a mask behind them."""
        shown: list[Column] = []
        for (_, column), steps in zip(self.columns, self.steps.counts, strict=True):
            if steps is None:
                shown.append(column)
                continue
            shown.append(replace(column, shape=(steps, *column.item_shape)) if column.fixed_bytes else column)
            shown.append(Column(f"{column.name}{IS_PAD}", "bool", (steps,)))
        return (*shown, *(Column(told.column, told.type) for told in self.told))

    def batch_columns(
        self, crops: Mapping[str, Crop] | None = None, return_places: bool = False
    ) -> tuple[Column, ...]:
        """The columns that batches have: ``sample_columns``.

        ValueError where one has steps and no fixed width, of which batches have lists that no type is said of.
        """
        self.cropped(crops, return_places)
        for (_, column), steps in zip(self.columns, self.steps.counts, strict=True):
            if steps is not None and not column.fixed_bytes:
                raise ValueError(
                    f"column {column.name!r} is {column.spec!r}, of no fixed width, and sequences have lists of its "
                    "values, which have no type here: leave it out with view(columns=…)"
                )
        return self.sample_columns

    def cropped(
        self, crops: Mapping[str, Crop] | None, return_places: bool
    ) -> tuple[list[Column], dict[int, Column]]:
        """The columns; crops are refused, each of which would be drawn for a row and not for a step of a sample."""
        if crops:
            raise ValueError(
                f"crops of {', '.join(map(repr, crops))}: crops are drawn for rows, and a row of a sequence stands in "
                "several samples: a function cuts all steps of a sample at one place, pipeline().map(cut, columns=["
                f"{next(iter(crops))!r}], random=True), or view(transform=…)"
            )
        return super().cropped(crops, return_places)

    def open_loader(self, **options: Any) -> NativeLoader:
        """The C loader of the sequences."""
        return super().open_loader(sequence=self.native, **options)

    def with_columns(self, columns: Sequence[str] | None) -> OpenedData:
        """The same sequences with other columns; a mask may be named, and comes with its column."""
        if columns is not None and not isinstance(columns, str):
            masks = {f"{name}{IS_PAD}": name for name in self.pieces[0][0].rule.at}
            columns = [masks.get(name, name) for name in columns if masks.get(name) not in columns]
        return super().with_columns(columns)

    def _over(self, columns: Sequence[str] | None, where_from: WhereFrom | None) -> SequenceData:
        return SequenceData(self.base, self.pieces, columns, where_from)

    def published(self, snapshot: Snapshot) -> NoReturn:
        """Refused: groups are those of the data as they were."""
        raise ValueError("sequences are made of data as they were: refresh these, and make them anew")

    def __reduce__(self) -> tuple[Any, ...]:
        return SequenceData, (self.base, self.pieces, self._names, self.where_from)
