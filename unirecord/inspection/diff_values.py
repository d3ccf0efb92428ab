"""Rows of two datasets side by side: which columns of which pairs differ, by the bytes of their values."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.threads import usable_cores
from ..format.column import Column
from ..format.schema import Schema
from ..parts.part_set import ColumnResult
from .diff_side import Side

__all__ = ["Pairs", "Shared", "compared", "shared_columns", "values_of"]

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_BLOCK_BYTES = 8 << 20  # of values, on each side of a pair of blocks
_MOST_ROWS = 1 << 16
_MOST_THREADS = 8


@dataclass(frozen=True)
class Shared:
    """The columns that both datasets have with the same type: names, and ordinals on each side."""

    names: tuple[str, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]


@dataclass(frozen=True)
class Pairs:
    """Rows of both that belong together, and ``changed`` bool[n, columns]."""

    first: Numbers
    second: Numbers
    changed: Flags


def shared_columns(first: Schema, second: Schema) -> Shared:
    """Those whose values can be compared: of the same type and shape, whether or not they may be null."""
    names = tuple(c.name for c in first if c.name in second and _alike(c, second[c.name]))
    return Shared(
        names, tuple(first.ordinal(name) for name in names), tuple(second.ordinal(name) for name in names)
    )


def _alike(a: Column, b: Column) -> bool:
    return (a.type, a.shape) == (b.type, b.shape)


def compared(a: Side, b: Side, shared: Shared, pairs: Iterable[tuple[Numbers, Numbers]]) -> Iterator[Pairs]:
    """The pairs in blocks that are small in memory, compared by several threads, in the order given."""
    size = max(a.parts.mean_row_bytes(shared.first), b.parts.mean_row_bytes(shared.second), 1.0)
    rows = int(min(max(_BLOCK_BYTES // size, 1), _MOST_ROWS))

    def work(first: Numbers, second: Numbers) -> Pairs:
        return Pairs(first, second, _changed(a, b, shared, first, second))

    blocks = (
        (first[i : i + rows], second[i : i + rows])
        for first, second in pairs
        for i in range(0, len(first), rows)
    )
    threads = min(usable_cores(), _MOST_THREADS)
    waiting: deque[Future[Pairs]] = deque()
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


def _changed(a: Side, b: Side, shared: Shared, first: Numbers, second: Numbers) -> Flags:
    found = np.zeros((len(first), len(shared.names)), np.bool_)
    if not shared.names:
        return found
    mine, theirs = a.parts.read(first, shared.first), b.parts.read(second, shared.second)
    for i, (x, y) in enumerate(zip(mine, theirs, strict=True)):
        found[:, i] = _differ(x, y, len(first))
    return found


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
