"""A batch on its way to the user, with the place in the epoch where it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Delivered", "Stage", "close_after"]

T = TypeVar("T")
New = TypeVar("New")


class Delivered(Generic[T]):
    """What readers yield and every stage takes and gives; whoever hands ``batch`` to the user last marks ``end``.

    ``end`` is the global position after the batch in ``epoch`` (docs/order.md): a state taken when it has been handed
    out. ``left_out`` names the rows of the dataset that were left out before that, because they are corrupt;
    ``samples`` and ``size`` are the samples in it and their bytes; ``digest`` is XXH3-64 of their rows, where receipts
    are asked for, else 0. ``rows`` are those that were asked for, where they are not the ones of the positions just
    before ``end``, and ``draws`` what tells samples of one row apart then (``ShardOrder.draws_at``).
    """

    __slots__ = ("batch", "digest", "draws", "end", "epoch", "left_out", "rows", "samples", "size")

    def __init__(
        self,
        batch: T,
        epoch: int,
        end: int,
        left_out: tuple[int, ...],
        samples: int,
        size: int,
        digest: int = 0,
        rows: NDArray[np.int64] | None = None,
        draws: NDArray[np.int64] | None = None,
    ) -> None:
        self.batch: T = batch
        self.epoch: int = epoch
        self.end: int = end
        self.left_out: tuple[int, ...] = left_out
        self.samples: int = samples
        self.size: int = size
        self.digest: int = digest
        self.rows: NDArray[np.int64] | None = rows
        self.draws: NDArray[np.int64] | None = draws

    def map(self, change: Callable[[T], New]) -> Delivered[New]:
        """The same place with what ``change`` makes of the batch."""
        return self.with_batch(change(self.batch))

    def with_batch(self, batch: New) -> Delivered[New]:
        """The same place with another batch."""
        return Delivered(
            batch,
            self.epoch,
            self.end,
            self.left_out,
            self.samples,
            self.size,
            self.digest,
            self.rows,
            self.draws,
        )


Stage = Callable[[Iterator[Delivered[Any]]], Iterator[Delivered[Any]]]


@contextmanager
def close_after(batches: Iterator[Any]) -> Iterator[None]:
    """At the end an iterator that can be closed is, with what it holds; one that a thread is in closes itself."""
    try:
        yield
    finally:
        if hasattr(batches, "close"):
            with suppress(ValueError):
                batches.close()
