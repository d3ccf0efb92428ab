"""diff: what has changed between two datasets."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import cached_property
from ..core.process import usable_cores
from ..errors import SchemaError, UniRecordError
from ..format.column import Column
from ..format.patch import decode_patch, encode_patch
from ..format.schema import Schema
from ..query.duplicates import KEY, KEYS_AT_ONCE, stored_keys
from ..snapshot.dataset_path import use_snapshot
from ..snapshot.layouts import same_values
from ..snapshot.part_set import ColumnResult, PartSet
from ..storage.staged import Buckets, temporary_folder

__all__ = [
    "Diff",
    "DiffExample",
    "RetypedColumn",
    "Side",
    "by_key",
    "by_number",
    "compared",
    "diff",
    "opened_sides",
    "shared_columns",
    "values_of",
]


# One of two datasets that are compared: its parts, which of its rows are there, and which parts both have.


Numbers = NDArray[np.int64]
_AT_ONCE = 1 << 20  # row numbers


Identity = tuple[Any, ...]  # of a part


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        name: its path, as it was given.
        parts: its rows.
        twins: for each of its parts, the number of the part of the other that is the same, or -1.
    """

    name: str
    parts: PartSet
    twins: NDArray[np.int64]

    @cached_property
    def count(self) -> int:
        """How many rows there are."""
        return self.parts.rows if self.parts.live is None else self.parts.live.ones

    def has(self, first: int, last: int) -> NDArray[np.bool_]:
        """Whether there is a row of each number in [first, last)."""
        found = np.zeros(last - first, np.bool_)
        stop = min(last, self.parts.rows)
        if stop > first:
            live = self.parts.live
            found[: stop - first] = (
                True if live is None else live.contains(np.arange(first, stop, dtype=np.int64))
            )
        return found

    def numbers(self) -> Iterator[Numbers]:
        """The numbers of all rows that are there, ascending, some at a time."""
        for first in range(0, self.parts.rows, _AT_ONCE):
            last = min(first + _AT_ONCE, self.parts.rows)
            yield np.flatnonzero(self.has(first, last)).astype(np.int64) + first

    def same_row(self, rows: Numbers, other: Side, others: Numbers) -> NDArray[np.bool_]:
        """Whether rows are stored in a part that the other has as well, and are that row of it: equal, unread."""
        mine = np.searchsorted(self.parts.starts, rows, side="right") - 1
        theirs = np.searchsorted(other.parts.starts, others, side="right") - 1
        within = (rows - self.parts.starts[mine]) == (others - other.parts.starts[theirs])
        result: NDArray[np.bool_] = (self.twins[mine] == theirs) & within
        return result


def opened_sides(first: str, second: str, opened: ExitStack) -> tuple[Side, Side]:
    """Both datasets, open as long as ``opened``."""
    a, b = (opened.enter_context(closing(_opened(path))) for path in (first, second))
    names = [one.name for one in a.schema if one.name in b.schema and same_values(one, b.schema[one.name])]
    mine, theirs = [[_identity(parts, i, names) for i in range(len(parts))] for parts in (a, b)]
    return Side(first, a, _twins(mine, theirs)), Side(second, b, _twins(theirs, mine))


def _opened(path: str) -> PartSet:
    return use_snapshot(path, lambda snapshot: PartSet(snapshot, knows_deletions=True))


def _identity(parts: PartSet, number: int, names: Sequence[str]) -> Identity:
    """What is equal of two parts only where all of their stored rows are, in the columns of these names.

    How many, and for each column the id and content digest of the file that it lies in, and which column of it it is.
    """
    ref, layouts = parts.snapshot.parts[number], parts.snapshot.layouts
    if ref.content is None:  # a part that was named by its own path
        ref = replace(ref, content=parts.part(number).content_digest)
    files, ordinals = (ref, *ref.files), [parts.schema.ordinal(name) for name in names]
    places = [layouts[ref.layout - 1].columns[i] if ref.layout else (0, i) for i in ordinals]
    patch = decode_patch(ref.patch)
    tables = [encode_patch({(0, 0): patch[place]} if place in patch else {}) for place in places]
    of_files = [(files[file].id, files[file].content, column) for file, column in places]
    return ref.rows, *zip(of_files or [(ref.id, ref.content, -1)], tables or [b""], strict=True)


def _twins(mine: list[Identity], theirs: list[Identity]) -> NDArray[np.int64]:
    there: dict[Identity, int] = {}
    for number, part in enumerate(theirs):
        there.setdefault(part, number)
    return np.array([there.get(part, -1) for part in mine], np.int64)


# Rows of two datasets side by side: which columns of which pairs differ, by the bytes of their values.


Flags = NDArray[np.bool_]
_BLOCK_BYTES = 8 << 20  # of values, on each side of a pair of blocks
_MOST_ROWS = 1 << 16
_MOST_THREADS = 8


def shared_columns(first: Schema, second: Schema) -> tuple[str, ...]:
    """Those whose values can be compared: of the same type and shape, whether or not they may be null."""
    pairs = [(column, second[column.name]) for column in first if column.name in second]
    return tuple(a.name for a, b in pairs if (a.type, a.shape) == (b.type, b.shape))


def compared(
    a: Side, b: Side, names: Sequence[str], pairs: Iterable[tuple[Numbers, Numbers]]
) -> Iterator[tuple[Numbers, Numbers, Flags]]:
    """The pairs in blocks that are small in memory, compared by several threads, in the order given.

    Yields the rows of both that belong together, and what of them has changed, bool[n, columns].
    """
    mine, theirs = ([side.parts.schema.ordinal(name) for name in names] for side in (a, b))
    size = max(a.parts.mean_row_bytes(mine), b.parts.mean_row_bytes(theirs), 1.0)
    rows = int(min(max(_BLOCK_BYTES // size, 1), _MOST_ROWS))

    def work(first: Numbers, second: Numbers) -> tuple[Numbers, Numbers, Flags]:
        changed = np.zeros((len(first), len(names)), np.bool_)
        if names:
            results = zip(a.parts.read(first, mine), b.parts.read(second, theirs), strict=True)
            for i, (x, y) in enumerate(results):
                changed[:, i] = _differ(x, y, len(first))
        return first, second, changed

    blocks = (
        (first[i : i + rows], second[i : i + rows])
        for first, second in pairs
        for i in range(0, len(first), rows)
    )
    threads = min(usable_cores(), _MOST_THREADS)
    waiting: deque[Future[tuple[Numbers, Numbers, Flags]]] = deque()
    with ThreadPoolExecutor(threads, "unirecord-diff") as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(work, *block))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _differ(x: ColumnResult, y: ColumnResult, rows: int) -> Flags:
    """Whether the values of a row are not the same bytes; null is null, whatever bytes stand there."""
    differ: Callable[[ColumnResult, ColumnResult], Flags] = _fixed if x.offsets is None else _variable
    found = differ(x, y)
    if x.valid is None and y.valid is None:
        return found
    every = np.ones(rows, np.bool_)
    mine, theirs = every if x.valid is None else x.valid, every if y.valid is None else y.valid
    result: Flags = (mine != theirs) | (mine & theirs & found)
    return result


def _fixed(x: ColumnResult, y: ColumnResult) -> Flags:
    rows = len(x.data)
    mine, theirs = (np.ascontiguousarray(one.data).reshape(rows, -1) for one in (x, y))
    if not mine.size:
        return np.zeros(rows, np.bool_)
    mine, theirs = mine.view(np.uint8), theirs.view(np.uint8)
    if np.array_equal(mine, theirs):
        return np.zeros(rows, np.bool_)
    result: Flags = (mine != theirs).any(axis=1)
    return result


def _variable(x: ColumnResult, y: ColumnResult) -> Flags:
    assert x.offsets is not None
    assert y.offsets is not None
    lengths = np.diff(x.offsets)
    found: Flags = lengths != np.diff(y.offsets)
    if not found.any():
        wrong = np.flatnonzero(x.data != y.data)
        found[np.searchsorted(x.offsets, wrong, side="right") - 1] = True
        return found
    mine, theirs = memoryview(x.data), memoryview(y.data)
    for i in np.flatnonzero(~found & (lengths > 0)).tolist():
        at, of = int(x.offsets[i]), int(y.offsets[i])
        size = int(lengths[i])
        found[i] = mine[at : at + size] != theirs[of : of + size]
    return found


def values_of(side: Side, row: int, names: Sequence[str]) -> tuple[object, ...]:
    """The values of some columns of a row, to be shown."""
    columns = [side.parts.schema[name] for name in names]
    results = side.parts.read(np.array([row], np.int64), [side.parts.schema.ordinal(name) for name in names])
    return tuple(_value(column, result) for column, result in zip(columns, results, strict=True))


def _value(column: Column, result: ColumnResult) -> object:
    if result.valid is not None and not result.valid[0]:
        return None
    if result.offsets is None:
        return result.data[0].item() if not column.is_array else result.data[0].tolist()
    raw = result.data.tobytes()
    return raw.decode("utf-8", "backslashreplace") if column.type in ("string", "text") else raw.hex()


# Rows of two datasets by their numbers: which only one of them has, and which both have, read only where need be.


def by_number(a: Side, b: Side) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Rows that the first alone has, that the second alone has, and that both have, ascending, some at a time.

    What lies in a part that both have, at the same place, is not given: it is equal.
    """
    most = max(a.parts.rows, b.parts.rows)
    shared = _shared(a, b)
    edges = sorted({0, a.parts.rows, b.parts.rows, most, *(edge for one in shared for edge in one)})
    begins = {first for first, _ in shared}
    whole = a.parts.live is None and b.parts.live is None
    for first, last in pairwise(edges):
        is_shared = first in begins
        if is_shared and whole:
            continue
        for at in range(first, last, _AT_ONCE):
            yield _stretch(a, b, at, min(at + _AT_ONCE, last), is_shared)


def _stretch(a: Side, b: Side, first: int, last: int, is_shared: bool) -> tuple[Numbers, Numbers, Numbers]:
    mine, theirs = a.has(first, last), b.has(first, last)
    both = np.zeros(0, np.bool_) if is_shared else mine & theirs
    rows = [np.flatnonzero(one).astype(np.int64) + first for one in (mine & ~theirs, theirs & ~mine, both)]
    return rows[0], rows[1], rows[2]


def _shared(a: Side, b: Side) -> list[tuple[int, int]]:
    """Numbers [first, last) of the parts that both have at the same place."""
    found = []
    for number, twin in enumerate(a.twins.tolist()):
        first, last = int(a.parts.starts[number]), int(a.parts.starts[number + 1])
        if twin >= 0 and last > first and int(b.parts.starts[twin]) == first:
            found.append((first, last))
    return found


# Rows of two datasets by the values of key columns: who belongs to whom, in bounded memory by parting the keys.


_SEED = 1
_PAIR = np.dtype([("first", "<i8"), ("second", "<i8")])


def by_key(a: Side, b: Side, key: tuple[str, ...]) -> Iterator[tuple[Numbers, Numbers, Numbers, Numbers]]:
    """Rows of both with the same key, those of the first ascending, and the rows of each that have no other.

    Keys are compared by 128 bits of XXH3; whoever reads the pairs compares the key columns too. With more than
    `KEYS_AT_ONCE` rows, keys and then pairs are put aside in a temporary folder: 24 bytes a row, 16 a pair.
    UniRecordError names a key that two rows of one have.
    """
    count = max(1, -(-(a.count + b.count) // KEYS_AT_ONCE))
    with temporary_folder() if count > 1 else nullcontext() as folder:
        keys = [Buckets(folder, name, KEY) for name in ("a", "b")]
        for side, buckets in zip((a, b), keys, strict=True):
            for records in stored_keys(side.parts, key, side.numbers(), _SEED):
                buckets.add((records["high"] % np.uint64(count)).astype(np.int64), records)
        pairs, gone, added = (
            Buckets(folder, name, dtype)
            for name, dtype in (("pairs", _PAIR), ("gone", np.dtype("<i8")), ("added", np.dtype("<i8")))
        )
        for bucket in range(count):
            first, second = (
                _sorted(side, key, one.take(bucket)) for side, one in zip((a, b), keys, strict=True)
            )
            both, left, right = _joined(first, second)
            pairs.add(_bucket(a, both["first"], count), both)
            gone.add(_bucket(a, left, count), left)
            added.add(_bucket(b, right, count), right)
        for bucket in range(count):
            found = np.sort(pairs.take(bucket), order="first")
            yield (
                found["first"].copy(),
                found["second"].copy(),
                np.sort(gone.take(bucket)),
                np.sort(added.take(bucket)),
            )


def _bucket(side: Side, rows: Numbers, count: int) -> Numbers:
    """The bucket of rows by their numbers: of ``count`` equal stretches of them."""
    result: Numbers = rows // max(1, -(-side.parts.rows // count))
    return result


def _sorted(side: Side, key: tuple[str, ...], records: NDArray[Any]) -> NDArray[Any]:
    found = records[np.lexsort((records["row"], records["low"], records["high"]))]
    same = np.flatnonzero((found["low"][1:] == found["low"][:-1]) & (found["high"][1:] == found["high"][:-1]))
    if len(same):
        rows = found["row"][same[0] : same[0] + 2].tolist()
        shown = ", ".join(
            f"{name} = {value!r}" for name, value in zip(key, values_of(side, rows[0], key), strict=True)
        )
        raise UniRecordError(
            f"{side.name}: rows {rows[0]} and {rows[1]} have the same key, {shown}; choose key columns that tell "
            "all rows apart, or compare by row number, without a key"
        )
    return found


def _joined(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], Numbers, Numbers]:
    """Pairs of the same key, and the rows that have none; each side has a key once."""
    both = np.concatenate([first, second])
    of_second = np.arange(len(both)) >= len(first)
    order = np.lexsort((of_second, both["low"], both["high"]))
    both, of_second = both[order], of_second[order]
    meets = (both["low"][1:] == both["low"][:-1]) & (both["high"][1:] == both["high"][:-1])
    at = np.flatnonzero(meets)
    pairs = np.empty(len(at), _PAIR)
    pairs["first"], pairs["second"] = both["row"][at], both["row"][at + 1]
    alone = np.ones(len(both), np.bool_)
    alone[at] = alone[at + 1] = False
    return pairs, both["row"][alone & ~of_second].copy(), both["row"][alone & of_second].copy()


PathLike = str | os.PathLike[str]


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
    """A column that both have with another type, nullability, logical type, chunks or annotations.

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
        columns_retyped: columns whose type, nullability, logical type, chunks or annotations differ.
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
    with ExitStack() as opened:
        first, second = opened_sides(os.fspath(a), os.fspath(b), opened)
        return _Comparison(first, second, names, any_order, limit, progress).done()


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
        self.shared: tuple[str, ...] = shared_columns(a.parts.schema, b.parts.schema)
        self._limit, self._progress = limit, progress
        for name in key:
            self._check_key(name)
        self._examples: dict[str, list[DiffExample]] = {
            kind: [] for kind in ("gone", "added", "changed", "moved")
        }
        self._changed = np.zeros(len(self.shared), np.int64)
        self.found = Diff(key, (a.count, b.count), counts_moved=not any_order)

    def _check_key(self, name: str) -> None:
        for side in (self.a, self.b):
            if name not in side.parts.schema:
                raise SchemaError(
                    f"{side.name}: there is no key column {name!r}; it has {list(side.parts.schema.names)}"
                )
        if name not in self.shared:
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
            self._take(*pairs)
        changed = zip(self.shared, self._changed.tolist(), strict=True)
        self.found.changed_columns = {name: count for name, count in changed if count}
        self.found.examples = [one for kind in self._examples.values() for one in kind]
        return self.found

    def _by_number(self) -> Iterator[tuple[Numbers, Numbers]]:
        for gone, added, both in by_number(self.a, self.b):
            self._alone(gone, added)
            if len(both):
                yield both, both

    def _by_key(self) -> Iterator[tuple[Numbers, Numbers]]:
        for first, second, gone, added in by_key(self.a, self.b, self.key):
            self._alone(gone, added)
            moved = np.flatnonzero(first != second)
            self.found.moved += len(moved)
            for i in moved[: self._room("moved")].tolist():
                self._example("moved", int(first[i]), int(second[i]))
            unread = ~self.a.same_row(first, self.b, second)
            yield first[unread], second[unread]

    def _alone(self, gone: Numbers, added: Numbers) -> None:
        self.found.gone += len(gone)
        self.found.added += len(added)
        for row in gone[: self._room("gone")].tolist():
            self._example("gone", row, None)
        for row in added[: self._room("added")].tolist():
            self._example("added", None, row)

    def _take(self, first: Numbers, second: Numbers, changed: Flags) -> None:
        self.found.read += len(first)
        rows = np.flatnonzero(changed.any(axis=1))
        self.found.changed += len(rows)
        self._changed += changed.sum(axis=0)
        for name in self.key:
            if changed[:, self.shared.index(name)].any():
                raise UniRecordError(
                    f"two keys have the same digest of 128 bits ({self.a.name}, {self.b.name})"
                )
        for i in rows[: self._room("changed")].tolist():
            columns = tuple(name for name, flag in zip(self.shared, changed[i].tolist(), strict=True) if flag)
            self._example("changed", int(first[i]), int(second[i]), columns)
        if self._progress is not None:
            self._progress(self.found.read, min(self.found.rows))

    def _room(self, kind: str) -> int:
        return self._limit - len(self._examples[kind])

    def _example(self, kind: str, row: int | None, other: int | None, columns: tuple[str, ...] = ()) -> None:
        side, at = (self.a, row) if row is not None else (self.b, other)
        assert at is not None
        key = values_of(side, at, self.key) if self.key else ()
        self._examples[kind].append(DiffExample(kind, row, other, key, columns))


def _compare_columns(found: Diff, first: Schema, second: Schema, shared: tuple[str, ...]) -> None:
    found.columns_gone = tuple(name for name in first.names if name not in second)
    found.columns_added = tuple(name for name in second.names if name not in first)
    both = [(one, second[one.name]) for one in first if one.name in second]
    found.columns_retyped = tuple(
        RetypedColumn(one.name, str(one), str(other), one.name in shared)
        for one, other in both
        if one != other or one.packed_annotations != other.packed_annotations
    )


def _names_without_twins(side: Side) -> tuple[str, ...]:
    parts = side.parts.snapshot.parts
    return tuple(os.path.basename(parts[i].path) for i in np.flatnonzero(side.twins < 0).tolist())
