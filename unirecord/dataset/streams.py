"""Samples for language models: windows over a column's values as one stream, and documents packed whole."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..loading.plan import Plan
from ..loading.streams import StreamData, StreamRule
from ..order.permutation import ShardOrder
from ..order.selection import Selection
from ..order.spec import Sharding, check_integer
from ..order.windows import Windows
from .cursor import Cursor
from .dataset import UniRecordDataset
from .position import Position

__all__ = ["packed", "windows"]


def windows(
    ds: UniRecordDataset[Any],
    column: str,
    length: int,
    stride: int | None = None,
    *,
    boundaries: Literal["document"] | None = None,
    pad: float | None = None,
    documents: str | bool = False,
    positions: str | bool = False,
) -> UniRecordDataset:
    """Windows over the values of a column, which lie one behind the other as one stream (docs/language.md).

    The stream is of the dataset's rows, in the order of ``order.row_ids`` without a shuffle; its shuffle, seed and
    ranks are those of the windows. What is returned is a dataset like any other, without a transform,
    whose rows are windows: arrays [length] of the elements of the column, uint8 for bytes and text.

    Args:
        ds: the dataset.
        column: bytes, text, or arrays of one dimension, such as tokens. Nulls and empty values have no elements.
        length: elements of a window.
        stride: elements from the beginning of one to that of the next; by default ``length``.
        boundaries: "document": each window lies in one value; None: windows reach from one value into the next.
        pad: what is left at the end (of each document, or of all) makes one more window, filled up with this; by
            default it is left out.
        documents: a further column "document", or of this name: the row of each element, int64[length], −1 where
            filled up.
        positions: a further column "position", or of this name: the place of each element in its run of one
            document in the window, int64[length].

    Raises:
        SchemaError: the column is of another kind.
        ValueError, TypeError: another wrong argument, or the dataset is a mixture.
    """
    if boundaries not in (None, "document"):
        raise ValueError(f'boundaries must be "document" or None, got {boundaries!r}')
    check_integer("length", length, 1, 1 << 40)
    step = length if stride is None else check_integer("stride", stride, 1, 1 << 40)
    windows = Windows(length, step, boundaries == "document", pad is not None)
    return _streamed(ds, column, length, windows, pad, documents, positions)


def packed(
    ds: UniRecordDataset[Any],
    column: str,
    length: int,
    *,
    pad: float = 0,
    documents: str | bool = True,
    positions: str | bool = False,
) -> UniRecordDataset:
    """Values of a column packed whole into samples of one length: none is cut that fits (docs/language.md).

    A value of more than ``length`` elements is cut into pieces of ``length`` and a rest. Rests and shorter values
    are put together, 8,192 values at a time, by best fit. ``unirecord.cu_seqlens`` of the column "document" says
    where each begins. Else as for ``windows``.

    Args:
        ds: the dataset.
        column: as for ``windows``.
        length: elements of a sample.
        pad: what the end of a sample is filled up with.
        documents, positions: as for ``windows``.
    """
    check_integer("length", length, 1, 1 << 40)
    return _streamed(ds, column, length, None, pad, documents, positions)


def _streamed(
    ds: UniRecordDataset[Any],
    column: str,
    length: int,
    windows: Windows | None,
    pad: float | None,
    documents: str | bool,
    positions: str | bool,
) -> UniRecordDataset:
    plan = ds.cursor.plan
    if plan.order.rule is not None:
        raise ValueError(f"a {plan.order.rule.name} has no stream: make one of each source")
    if isinstance(plan.data, StreamData):
        raise ValueError(
            "these are windows or packed samples already: make others of the dataset they come from"
        )
    ds.cursor.refuse_exclusions("windows or packed samples")
    names = [
        name if isinstance(name, str) else default if name else None
        for name, default in ((documents, "document"), (positions, "position"))
    ]
    rule = StreamRule(column, length, windows, pad, *names)
    data = StreamData(plan.data, rule, plan.order.selection)
    old = plan.order.sharding
    sharding = Sharding(data.snapshot.rows, old.shard_id, old.num_shards, old.remainder)
    spec = data.with_blocks(plan.order.spec, data.snapshot.rows, plan.blocks)
    starts = np.array([0, data.snapshot.rows], np.int64)
    order = ShardOrder(Selection(data.snapshot.rows), sharding, spec, starts)
    made: UniRecordDataset = object.__new__(UniRecordDataset)
    fresh = Plan(data, order, None, None, False, plan.blocks)
    made._stand(Cursor(fresh, Position(ds.cursor.position.epoch)), None, ds.on_corrupt)
    return made
