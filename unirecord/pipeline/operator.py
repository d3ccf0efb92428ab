"""What an operator of a pipeline may be beside a plain function: one that writes in place, or leaves samples out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import UniRecordError

__all__ = ["InPlace", "InPlaceTogether", "SkipSample"]


class SkipSample(UniRecordError):
    """Raised by an operator: leave this sample out. It is counted, and named with the message in the log."""


@runtime_checkable
class InPlace(Protocol):
    """An operator on one column whose results all have one dtype and shape, and which writes each into given memory.

    ``pipeline.map(operator, columns=[name])`` followed by ``batch`` gives it the sample's slot of the batch, so that
    nothing is copied; else the slot is an array of the sample's own. ``into`` is called by several threads at once, and
    should release the GIL for most of its time.

    Attributes:
        dtype, shape: of one result.
        random: whether results depend on ``key``.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    random: bool

    def into(self, cell: NDArray[np.uint8], out: NDArray[Any], key: int) -> str | None:
        """Writes the result for one sample; a text says that it only stands in for it, and why: it goes to the log.

        Args:
            cell: the stored bytes, uint8[n], read-only or not; good until the call returns.
            out: the slot, C-contiguous, of ``dtype`` and ``shape``; it holds what an earlier batch left there.
            key: 64 bits mixed from seed, epoch, row, draw and the operator's number; the same for a sample wherever and
                whenever it is made. 0 where ``random`` is False.

        Raises:
            SkipSample: leave the sample out.
            UniRecordError: the cell is broken; the error reaches the user with the row and its part.
        """


@runtime_checkable
class InPlaceTogether(InPlace, Protocol):
    """One that writes several results in one call, so that no Python runs between them."""

    def into_each(
        self, cells: Sequence[NDArray[np.uint8]], outs: Sequence[NDArray[Any]], keys: Sequence[int]
    ) -> Sequence[int]:
        """Does what ``into`` does for each of several samples.

        Args:
            cells: the stored bytes of each.
            outs: the slot of each.
            keys: 64 bits for each.

        Returns:
            The numbers of those for which ``into`` is called after all. It raises nothing: what is wrong with one of
            them is for ``into`` to say.
        """
