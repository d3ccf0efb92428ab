"""The step that keeps one share of a split: rows by a hash of themselves or a key, or by the value of a column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...format.column import Column
from ...format.schema import Schema
from ...format.values import ColumnData, RecordEncoder
from ...order.split import Bounds, Cells, Strata, row_hashes, share_of_each
from ..sources.base import RawBatch, Source, Unit, WrongSourceError
from .base import Change, Places, Step, chosen_rows

__all__ = [
    "Division",
    "KeepShare",
    "KeepValue",
    "RowCells",
    "cells_of",
    "stratified",
    "values_of",
]


# The values of batches as they will be stored, for what tells rows apart by them.


class RowCells:
    """Encodes these columns of a schema."""

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._encoder = RecordEncoder(Schema(schema[name] for name in self._names))

    def __call__(self, batch: RawBatch, first: int) -> list[Cells]:
        """Each column of a batch; `SchemaError` names the row, counted from ``first``, that does not fit."""
        encoded = self._encoder.encode_batch({name: batch.columns[name] for name in self._names}, first)
        return [cells_of(column) for column in encoded.columns]


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


class KeepShare(Step):
    """Keeps the rows of share ``number``."""

    chooses = True

    def __init__(self, division: Division, number: int) -> None:
        self._division, self._number = division, number

    def begin(self, unit: Unit, places: Places) -> Change:
        """The same for all units, but for the number of the row that an error names."""
        division, first = self._division, 0
        of_rows = _Hashes(division)
        strata = Strata({value: number for number, value in enumerate(division.of_value)})
        of_strata = list(division.of_value.values())

        def keep(batch: RawBatch) -> RawBatch:
            nonlocal first
            hashes, values = of_rows(batch, first)
            first += batch.rows
            if values is None:
                share = share_of_each(hashes, [division.bounds])
            else:
                share = share_of_each(hashes, of_strata, strata.codes(values))
            return chosen_rows(batch, np.flatnonzero(share == self._number))

        return keep


class _Hashes:
    """The hashes of rows, and with ``stratify`` the values of that column."""

    def __init__(self, division: Division) -> None:
        self._hashed = RowCells(division.schema, division.columns)
        self._seed = division.seed
        self._strata = None if division.stratify is None else RowCells(division.schema, [division.stratify])

    def __call__(self, batch: RawBatch, first: int) -> tuple[npt.NDArray[np.uint64], Cells | None]:
        hashes = row_hashes(self._hashed(batch, first), self._seed)
        return hashes, None if self._strata is None else self._strata(batch, first)[0]


def stratified(division: Division, shares: Sequence[Fraction], batches: Iterable[RawBatch]) -> Division:
    """The division that gives each value of the column ``stratify`` its shares; ``batches`` are all rows."""
    of_rows, strata = _Hashes(division), Strata()
    for batch in batches:
        if batch.rows:
            hashes, values = of_rows(batch, 0)
            assert values is not None
            strata.add(hashes, values)
    return replace(division, of_value=strata.bounds(shares))


# The step that keeps the rows with one value of a column, where each value is a share of its own.


_MOST: Final = 1_000


class KeepValue(Step):
    """Keeps the rows whose ``column`` is ``value``."""

    chooses = True

    def __init__(self, column: Column, value: str | int) -> None:
        self._column, self._value = column, value

    def begin(self, unit: Unit, places: Places) -> Change:
        """The same for all units, but for the number of the row that an error names."""
        of_rows = _Values(self._column)

        def keep(batch: RawBatch) -> RawBatch:
            rows = [i for i, value in enumerate(of_rows(batch)) if value == self._value]
            return chosen_rows(batch, np.array(rows, np.int64))

        return keep


class _Values:
    """The values of a column as they are stored, batch by batch; None where null."""

    def __init__(self, column: Column) -> None:
        self._column, self._encoder, self._first = column, RecordEncoder(Schema([column])), 0

    def __call__(self, batch: RawBatch) -> list[str | int | None]:
        name = self._column.name
        encoded = self._encoder.encode_batch({name: batch.columns[name]}, self._first).columns[0]
        self._first += batch.rows
        if self._column.is_string:
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
    of_rows = _Values(kind)
    for batch in source.batches():
        for value in of_rows(batch):
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
