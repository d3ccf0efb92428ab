"""Rows of a source that have the key of an earlier one: found before anything is written, left out, and listed."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import ExistsError, StaleError
from ..format.schema import Schema
from ..format.values import RecordEncoder
from ..progress import Progress
from ..query.duplicates import KeyTable, keys_of, stored_keys
from ..query.query import live_rows
from ..snapshot.part_set import PartSet
from ..snapshot.snapshot import Snapshot
from ..storage.schemes import location_of, path_on_disk
from ..storage.staged import new_text
from .sources.source import RawBatch, RowPlace, Unit, WrongSourceError
from .steps import Change, Places, Step, SteppedSource, by_batch, cells_of, chosen_columns
from .task import encoded_batch

__all__ = ["Duplicates", "RowsThere", "find_duplicates"]


Numbers = NDArray[np.int64]

_BITS: Final = 8
_LISTED_AT_ONCE: Final = 1 << 18  # whose places are looked up together


@dataclass(frozen=True)
class RowsThere:
    """The dataset that rows are appended to: which come before those of the source. ``names``: its key columns."""

    path: str
    snapshot: Snapshot
    names: Sequence[str]

    def check(self, columns: Schema) -> None:
        """Refuse columns that are not there, or are of another type there, in the order of ``names``."""
        for name, column in zip(self.names, columns, strict=True):
            known = self.snapshot.schema
            if name not in known:
                raise WrongSourceError(
                    f"--unique-by: {self.path} has no column {name!r} by which rows could be compared with those that "
                    f"are there; it has {', '.join(known.names)}"
                )
            if (known[name].type, known[name].shape) != (column.type, column.shape):
                raise WrongSourceError(
                    f"--unique-by: column {name!r} is {known[name]} in the dataset {self.path}, and {column} here"
                )


@dataclass(frozen=True)
class Duplicates:
    """Which rows of a source have the key of an earlier one.

    Attributes:
        count: how many.
        rows: of how many.
        marks: for each unit a bit for each of its rows, the first in the highest; nothing where there is none.
    """

    count: int
    rows: int
    marks: tuple[bytes, ...]

    @property
    def digest(self) -> str:
        """Another where other rows are left out."""
        return hashlib.sha256(b"".join(hashlib.sha256(one).digest() for one in self.marks)).hexdigest()

    def step(self) -> Step:
        """The step that leaves them out."""
        return Step(by_batch(partial(_without_them, self.marks)), chooses=True)


def _without_them(marks: Sequence[bytes], unit: Unit, _places: Places) -> Change:
    if not marks[unit.place]:
        return lambda batch: batch
    stays = np.unpackbits(np.frombuffer(marks[unit.place], np.uint8)) == 0

    def change(batch: RawBatch) -> RawBatch:
        assert batch.numbers is not None
        if int(batch.numbers[-1]) >= len(stays):
            raise StaleError(
                f"{unit.name} has more rows than when its keys were read; it changes while it is read, so nothing was "
                "published: convert a copy that stays as it is"
            )
        return batch.taken(np.flatnonzero(stays[batch.numbers]))

    return change


def find_duplicates(
    source: SteppedSource,
    key: Sequence[str],
    there: RowsThere | None,
    listed: str | None,
    *,
    overwrite: bool,
    tell: Progress | None = None,
) -> Duplicates:
    """Read the key columns of all rows; of those with the same key the first in the order of ``source`` stays.

    Rows that are ``there`` come before all others. ``listed``: a file of JSON Lines, of a line for each that goes.
    ``tell`` is told how many bytes of keys have been read. Takes 24 bytes a row, of more than 4 Mi rows in a temporary
    folder, and a bit a row in memory.
    """
    if source.read_once:
        raise WrongSourceError(
            f"--unique-by: {source.path} is read once, so that its keys cannot be read before it is written: write it, "
            "and `unirecord delete DST --duplicates-by` the same columns"
        )
    with KeyTable() as table, _lines_to(listed, source, overwrite=overwrite) as put:
        seed = secrets.randbits(64)  # so that nobody can make two values with one digest
        end = 0 if there is None else _add_rows_there(table, there, seed)
        starts, count, rows, done, first = [], 0, 0, 0, end
        encoder = RecordEncoder(chosen_columns(key, source.schema), "error")
        for unit in source.units:
            start = end = -(-end // _BITS) * _BITS  # each unit begins with a byte of its own
            starts.append(start)
            for batch in source.batches_of(unit):
                if batch.rows:
                    assert batch.numbers is not None
                    encoded = encoded_batch(encoder, encoder.schema, source, unit, batch)
                    columns = list(map(cells_of, encoded.columns))
                    table.add(keys_of(columns, start + batch.numbers, seed))
                    end, rows = start + int(batch.numbers[-1]) + 1, rows + batch.rows
                    done += sum(int(one.ends[-1]) for one in columns)
                if tell is not None:
                    tell(done, 0)
        marks = np.zeros(-(-end // _BITS), np.uint8)
        find = partial(_places, source, there, np.array(starts, np.int64))
        for numbers, firsts in table.duplicates():
            is_new = numbers >= first
            numbers, firsts = numbers[is_new], firsts[is_new]
            count += len(numbers)
            np.bitwise_or.at(marks, numbers // _BITS, (128 >> (numbers % _BITS)).astype(np.uint8))
            if put is not None:
                for i in range(0, len(numbers), _LISTED_AT_ONCE):
                    some = slice(i, i + _LISTED_AT_ONCE)
                    put(
                        _line(one, of)
                        for one, of in zip(find(numbers[some]), find(firsts[some]), strict=True)
                    )
    edges = [start // _BITS for start in [*starts, len(marks) * _BITS]]
    of_units = [marks[start:stop] for start, stop in pairwise(edges)]
    return Duplicates(count, rows, tuple(one.tobytes() if one.any() else b"" for one in of_units))


def _add_rows_there(table: KeyTable, there: RowsThere, seed: int) -> int:
    """Add the keys of the rows that are there; where the numbers of others begin."""
    with closing(PartSet(there.snapshot, knows_deletions=True)) as parts:
        numbers = (rows for _, rows in live_rows(parts).pieces())
        for keys in stored_keys(parts, there.names, numbers, seed):
            table.add(keys)
        return parts.rows


# The file that lists them: where each stood, and which row is the first of its key.


@contextmanager
def _lines_to(
    path: str | None, source: SteppedSource, *, overwrite: bool
) -> Iterator[Callable[[Iterable[str]], None] | None]:
    """Give what adds lines to a file, which is published at the end; None without one."""
    if path is None:
        yield None
        return
    if os.path.abspath(path_on_disk(path, "a list of duplicates")) in map(os.path.abspath, source.files()):
        raise WrongSourceError(f"--duplicates-file {path} is what is read; name another file")
    if location_of(path).is_taken(path) and not overwrite:
        raise ExistsError(f"{path} exists already; overwrite=True replaces it (--overwrite)")
    with new_text(path) as add:
        yield add


def _line(place: RowPlace, of: RowPlace) -> str:
    return json.dumps({"file": place.name, "at": place.at, "of": {"file": of.name, "at": of.at}}) + "\n"


def _places(source: SteppedSource, there: RowsThere | None, starts: Numbers, rows: Numbers) -> list[RowPlace]:
    """Where rows stand, by their numbers over all units."""
    units = np.searchsorted(starts, rows, side="right") - 1
    found: list[Any] = [None] * len(rows)
    for unit in np.unique(units).tolist():
        at = np.flatnonzero(units == unit)
        if unit < 0:
            assert there is not None
            named = [RowPlace(there.path, f"row {row}") for row in rows[at].tolist()]
        else:
            named = source.places_as_read(source.units[unit], (rows[at] - starts[unit]).tolist())
        for i, place in zip(at.tolist(), named, strict=True):
            found[i] = place
    return found
