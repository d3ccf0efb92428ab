"""What is not the same in two datasets, by their content: rows added, gone, changed and moved, and columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError, UniRecordError
from ..format.schema import Schema
from .diff_keys import KeyMatch
from .diff_numbers import by_number
from .diff_side import Side, opened_sides
from .diff_values import Pairs, Shared, compared, shared_columns, values_of

__all__ = ["Diff", "DiffExample", "RetypedColumn", "diff"]

PathLike = str | os.PathLike[str]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class DiffExample:
    """One row that is not the same.

    Attributes:
        kind: "added", "gone", "changed" or "moved".
        row: its number in the first dataset; None for one that was added.
        other_row: its number in the second one; None for one that is gone.
        key: values of the key columns; bytes as hexadecimal digits; empty without a key.
        columns: the columns that changed.
    """

    kind: str
    row: int | None
    other_row: int | None
    key: tuple[object, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class RetypedColumn:
    """A column that both have with another type, nullability or annotations.

    ``compared``: whether its values were compared all the same, since the types are equal.
    """

    name: str
    type: str
    other_type: str
    compared: bool


@dataclass
class Diff:
    """What `unirecord.diff` has found.

    Attributes:
        key: the key columns; empty where rows were compared by their numbers.
        rows: rows of both datasets.
        added: rows that only the second one has.
        gone: rows that only the first one has.
        changed: rows of both in which a value differs.
        moved: rows of both that have another number; 0 without a key.
        read: rows that were read and compared; the others lie in parts that both have.
        changed_columns: in how many rows each column differs, for those in which any does.
        columns_added: columns that only the second one has.
        columns_gone: columns that only the first one has.
        columns_retyped: columns whose type, nullability or annotations differ.
        metadata_differs: whether the user's metadata of the datasets differ.
        parts_added: file names of parts that only the second one has.
        parts_gone: file names of parts that only the first one has.
        examples: the first rows of each kind, at most ``limit`` of each.
        counts_moved: whether rows that have only moved make the datasets differ.
    """

    key: tuple[str, ...]
    rows: tuple[int, int]
    added: int = 0
    gone: int = 0
    changed: int = 0
    moved: int = 0
    read: int = 0
    changed_columns: dict[str, int] = field(default_factory=dict)
    columns_added: tuple[str, ...] = ()
    columns_gone: tuple[str, ...] = ()
    columns_retyped: tuple[RetypedColumn, ...] = ()
    metadata_differs: bool = False
    parts_added: tuple[str, ...] = ()
    parts_gone: tuple[str, ...] = ()
    examples: list[DiffExample] = field(default_factory=list)
    counts_moved: bool = True

    @property
    def equal(self) -> bool:
        """Whether both have the same rows, with the same values, under the same numbers, columns and metadata.

        How they are laid out in parts, and compressed, makes no difference.
        """
        rows = self.added or self.gone or self.changed or (self.counts_moved and self.moved)
        columns = self.columns_added or self.columns_gone or self.columns_retyped
        return not (rows or columns or self.metadata_differs)


def diff(
    a: PathLike,
    b: PathLike,
    *,
    key: str | Sequence[str] | None = None,
    any_order: bool = False,
    limit: int = 10,
    progress: Callable[[int, int], None] | None = None,
) -> Diff:
    """Compares two datasets, or two versions of one (``PATH@5``), by content, whatever wrote them (docs/growing.md).

    Values are equal where their bytes are: a NaN equals one with the same bits, and -0.0 is not 0.0. Parts that both
    have, as two versions do, are equal by their ids and content digests and are not read; what is damaged in them is
    found by `verify`. All else is read, by several threads, in blocks of about 8 MiB on each side. Keys take 24 bytes a
    row: of more than 4 Mi rows they lie in files of a temporary folder (TMPDIR).

    Args:
        a: a part, a directory of parts or a version of one, also in an object store.
        b: the other one.
        key: a column, or several, that tell all rows apart: rows of the same key belong together. Without it rows of
            the same number do.
        any_order: rows that have another number only are no difference; needs ``key``.
        limit: how many examples of each kind are given.
        progress: is told how many rows of both have been compared, and how many there are.

    Raises:
        MissingError: there is no such dataset.
        CorruptionError: what had to be read is damaged.
        SchemaError: a key column is not there, or is of another type in the other one.
        UniRecordError: two rows of one dataset have the same key.
        ValueError: ``any_order`` without ``key``, no key column at all, or a negative ``limit``.
    """
    names = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    if key is not None and not names:
        raise ValueError("key names no column; leave it out to compare rows by their numbers")
    if any_order and not names:
        raise ValueError("any_order needs a key: rows are compared by their numbers without one")
    if limit < 0:
        raise ValueError(f"limit is {limit}; expected a number from 0")
    first, second = opened_sides(os.fspath(a), os.fspath(b))
    try:
        return _Comparison(first, second, names, any_order, limit, progress).done()
    finally:
        first.parts.close()
        second.parts.close()


class _Comparison:
    """Both datasets, and what has been found so far."""

    def __init__(
        self,
        a: Side,
        b: Side,
        key: tuple[str, ...],
        any_order: bool,
        limit: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.a, self.b, self.key = a, b, key
        self.shared: Shared = shared_columns(a.parts.schema, b.parts.schema)
        self._limit, self._progress = limit, progress
        for name in key:
            self._check_key(name)
        self._examples: dict[str, list[DiffExample]] = {
            kind: [] for kind in ("gone", "added", "changed", "moved")
        }
        self._changed = np.zeros(len(self.shared.names), np.int64)
        self.found = Diff(key, (a.count, b.count), counts_moved=not any_order)

    def _check_key(self, name: str) -> None:
        for side in (self.a, self.b):
            if name not in side.parts.schema:
                raise SchemaError(
                    f"{side.name}: there is no key column {name!r}; it has {list(side.parts.schema.names)}"
                )
        if name not in self.shared.names:
            one, other = self.a.parts.schema[name], self.b.parts.schema[name]
            raise SchemaError(f"key column {name!r} is {one} in {self.a.name} and {other} in {self.b.name}")

    def done(self) -> Diff:
        """Compares all."""
        _compare_columns(self.found, self.a.parts.schema, self.b.parts.schema, self.shared)
        mine, theirs = self.a.parts.snapshot, self.b.parts.snapshot
        self.found.metadata_differs = mine.metadata != theirs.metadata
        self.found.parts_gone = _names_without_twins(self.a)
        self.found.parts_added = _names_without_twins(self.b)
        for pairs in compared(self.a, self.b, self.shared, self._by_key() if self.key else self._by_number()):
            self._take(pairs)
        changed = zip(self.shared.names, self._changed.tolist(), strict=True)
        self.found.changed_columns = {name: count for name, count in changed if count}
        self.found.examples = [one for kind in self._examples.values() for one in kind]
        return self.found

    def _by_number(self) -> Iterator[tuple[Numbers, Numbers]]:
        for stretch in by_number(self.a, self.b):
            self._alone(stretch.gone, stretch.added)
            if len(stretch.both):
                yield stretch.both, stretch.both

    def _by_key(self) -> Iterator[tuple[Numbers, Numbers]]:
        for some in KeyMatch(self.a, self.b, self.key).matched():
            self._alone(some.gone, some.added)
            moved = np.flatnonzero(some.first != some.second)
            self.found.moved += len(moved)
            for i in moved[: self._room("moved")].tolist():
                self._example("moved", int(some.first[i]), int(some.second[i]))
            unread = ~self.a.same_row(some.first, self.b, some.second)
            yield some.first[unread], some.second[unread]

    def _alone(self, gone: Numbers, added: Numbers) -> None:
        self.found.gone += len(gone)
        self.found.added += len(added)
        for row in gone[: self._room("gone")].tolist():
            self._example("gone", row, None)
        for row in added[: self._room("added")].tolist():
            self._example("added", None, row)

    def _take(self, pairs: Pairs) -> None:
        self.found.read += len(pairs.first)
        rows = np.flatnonzero(pairs.changed.any(axis=1))
        self.found.changed += len(rows)
        self._changed += pairs.changed.sum(axis=0)
        for name in self.key:
            if pairs.changed[:, self.shared.names.index(name)].any():
                raise UniRecordError(
                    f"two keys have the same digest of 128 bits ({self.a.name}, {self.b.name})"
                )
        for i in rows[: self._room("changed")].tolist():
            columns = tuple(
                name for name, flag in zip(self.shared.names, pairs.changed[i].tolist(), strict=True) if flag
            )
            self._example("changed", int(pairs.first[i]), int(pairs.second[i]), columns)
        if self._progress is not None:
            self._progress(self.found.read, min(self.found.rows))

    def _room(self, kind: str) -> int:
        return self._limit - len(self._examples[kind])

    def _example(self, kind: str, row: int | None, other: int | None, columns: tuple[str, ...] = ()) -> None:
        side, at = (self.a, row) if row is not None else (self.b, other)
        assert at is not None
        key = values_of(side, at, self.key) if self.key else ()
        self._examples[kind].append(DiffExample(kind, row, other, key, columns))


def _compare_columns(found: Diff, first: Schema, second: Schema, shared: Shared) -> None:
    found.columns_gone = tuple(name for name in first.names if name not in second)
    found.columns_added = tuple(name for name in second.names if name not in first)
    both = [(one, second[one.name]) for one in first if one.name in second]
    found.columns_retyped = tuple(
        RetypedColumn(one.name, str(one), str(other), one.name in shared.names)
        for one, other in both
        if one != other or one.packed_annotations != other.packed_annotations
    )


def _names_without_twins(side: Side) -> tuple[str, ...]:
    parts = side.parts.snapshot.parts
    return tuple(os.path.basename(parts[i].path) for i in np.flatnonzero(side.twins < 0).tolist())
