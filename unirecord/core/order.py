"""The C core's order: positions to rows and back."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..sizes import many
from .library import Handle, ffi, lib, raise_refused

_order_one = lib.ur_order_one  # looked up once: samples are read one at a time through it


class OrderParameters(Protocol):
    """What the core needs to know of an order: mode (ur_order_mode), seed, epoch, and the sizes for "block"."""

    @property
    def code(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def block_rows(self) -> int: ...
    @property
    def window_blocks(self) -> int: ...


class Order:
    """Which row stands at each position of an epoch: a permutation of [0, rows) that is computed, not stored.

    Immutable, safe to share between threads. ``part_rows`` is for the modes by parts and sums to ``rows``.
    """

    batched = False  # what stands at a position is a row

    def __init__(self, rows: int, spec: OrderParameters, part_rows: npt.ArrayLike | None = None) -> None:
        parts = np.ascontiguousarray([] if part_rows is None else part_rows, dtype=np.int64)
        out, error = ffi.new("ur_order **"), ffi.new("ur_error *")
        status = lib.ur_order_new(
            rows,
            spec.code,
            spec.seed,
            spec.epoch,
            spec.block_rows,
            spec.window_blocks,
            ffi.from_buffer("int64_t[]", parts),
            len(parts),
            out,
            error,
        )
        if status != lib.UR_OK:
            raise_refused(error)
        self.rows = rows
        self.spec = spec
        self.pointer: Any = out[0]
        self.handle: Handle = Handle(out[0], lib.ur_order_release)

    def range(self, start: int, stride: int, count: int) -> npt.NDArray[np.int64]:
        """The rows at ``count`` positions from ``start`` on, ``stride`` apart; it wraps past the end."""
        rows = np.empty(max(count, 0), np.int64)
        status = lib.ur_order_range(self.pointer, start, stride, count, ffi.from_buffer("int64_t[]", rows))
        if status != lib.UR_OK:
            raise ValueError(
                f"no {many(count, 'position')} {stride} apart from {start} on, in {many(self.rows, 'row')}"
            )
        return rows

    def one(self, position: int) -> int:
        """The row at one position, 0 … rows − 1."""
        row: int = _order_one(self.pointer, position)
        if row < 0:
            raise IndexError(f"position {position} is out of range: there are {self.rows}")
        return row

    def at(self, positions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The rows at these positions."""
        return self._map(lib.ur_order_at, positions, "position")

    def inverse(self, rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The positions at which these rows stand."""
        return self._map(lib.ur_order_inverse, rows, "row")

    def occurrences(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(which of ``rows``, its position) for each time that one of them comes: each comes once."""
        return np.arange(len(rows), dtype=np.int64), self.inverse(rows)

    def _map(self, function: Any, values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
        given = np.ascontiguousarray(values, dtype=np.int64)
        found = np.empty_like(given)
        pointers = (ffi.from_buffer("int64_t[]", array) for array in (given, found))
        if function(self.pointer, next(pointers), given.size, next(pointers)) != lib.UR_OK:
            raise IndexError(f"a {name} is out of range: there are {self.rows}")
        return found
