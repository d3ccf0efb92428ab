"""Draws: functions of datasets that give samples by weight, batches of balanced classes, batches of like lengths."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..columns.scalars import row_lengths, scalar_arrays
from ..elsewhere import OF_DRAWS, no_attribute
from ..errors import SchemaError
from ..format.schema import Schema
from ..loading.options import UNCHANGED, LoaderOptions, ReadAhead, Unchanged, check_callable
from ..loading.plan import Plan
from ..loading.streams import StreamData
from ..order.permutation import BatchRule
from ..order.sampling import Balanced, Bucketed, Weighted, WeightedOnce, edges_of
from ..order.spec import check_integer
from ..sizes import many
from .batch_loader import BatchLoader
from .cursor import Cursor
from .dataset import UniRecordDataset
from .order_queries import OrderQueries
from .position import Position

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..loading.options import (
        OnCorrupt,
    )  # completion in notebooks fails at properties it finds to be a Literal

__all__ = ["DrawnBatches", "balanced", "bucketed", "weighted"]

Given = TypeVar("Given")


def weighted(
    ds: UniRecordDataset[Given],
    weights: str | Sequence[float] | NDArray[Any],
    *,
    samples: int | None = None,
    replacement: bool = True,
) -> UniRecordDataset[Given]:
    """A dataset whose samples are drawn by weight (docs/drawing.md).

    With replacement, each position of each epoch is a draw of its own. Without, a row comes once an epoch at most:
    at each position, each row that is left with the probability of its weight among theirs. It is a dataset like
    any other, whatever the ranks and the shuffle, but that ``where``, ``select``, ``take``, ``skip`` and ``split``
    come before.

    Args:
        ds: the dataset.
        weights: of each of its ``num_rows`` rows, as stored; or the name of a scalar column that has them.
            Finite, 0 or more; their proportions count. 8 bytes a row are kept; without replacement, 8 more for each
            sample of the epoch, and 40 while it is drawn.
        samples: an epoch has so many, of all ranks; by default ``num_rows``, without replacement the rows with a
            weight of more than 0, which are the most then.
        replacement: whether a row that has been drawn may be drawn again.
    """
    plan: Any = ds._cursor.plan
    _check_plain(plan, "weighted")
    given: Any = weights
    if isinstance(weights, str):
        given = scalar_arrays(plan.data.parts, [weights], plan.order.selection)[weights]
        if np.ma.is_masked(given):
            raise SchemaError(f"column {weights!r} is null in some rows, which have no weight")
    given = np.asarray(given)
    if given.dtype.kind not in "iufb" or given.shape != (ds._cursor.plan.order.rows_in_play,):
        raise ValueError(
            f"weights are {given.dtype} of shape {given.shape}; they must be numbers, one for each of the "
            f"{many(ds._cursor.plan.order.rows_in_play, 'row')}"
        )
    numbers = given.astype(np.float64)
    total = float(numbers.sum())
    if not np.isfinite(total) or not len(numbers) or numbers.min() < 0 or total <= 0:
        raise ValueError("weights must be finite, 0 or more, and not all 0")
    if not isinstance(replacement, bool):
        raise TypeError(f"replacement must be True or False, got {replacement!r}")
    most = len(numbers) if replacement else int(np.count_nonzero(numbers))
    draws = most if samples is None else check_integer("samples", samples, 1, 1 << 62)
    if replacement:
        return ds._over(plan.drawn(Weighted(numbers, draws)))
    if draws > most:
        raise ValueError(
            f"samples={draws}: without replacement, {most} rows can be drawn, which have a weight"
        )
    return ds._over(plan.drawn(WeightedOnce(numbers, draws)))


def balanced(
    ds: UniRecordDataset[Any], column: str, *, classes: int, per_class: int, batches: int | None = None
) -> DrawnBatches:
    """Batches of ``per_class`` rows of each of ``classes`` classes, which differ (docs/drawing.md).

    Every class comes as often as any other, and goes through epochs of its own, over all epochs: with
    ``shuffle=True`` in new orders, else as stored. No row comes twice in a batch but of a class of fewer than
    ``per_class`` rows, which is gone through again from its front.

    Args:
        ds: the dataset.
        column: a scalar column; each of its values is a class.
        classes: how many classes a batch has.
        per_class: how many rows of each.
        batches: batches of an epoch, of all ranks; by default as many as hold ``num_rows`` rows.

    Raises:
        SchemaError: the column is not scalar, or is null somewhere.
        ValueError: there are fewer classes, or the dataset is shuffled in another way.
    """
    _check_plain(ds._cursor.plan, "balanced")
    check_integer("classes", classes, 1)
    check_integer("per_class", per_class, 1)
    plan = ds._cursor.plan
    values = scalar_arrays(plan.data.parts, [column], plan.order.selection)[column]
    if np.ma.is_masked(values) or (values.dtype == object and any(value is None for value in values)):
        raise SchemaError(
            f"column {column!r} is null in some rows, which have no class: leave them out with where="
        )
    found, class_of = np.unique(np.asarray(values), return_inverse=True)
    if len(found) < classes:
        raise ValueError(
            f"column {column!r} has {many(len(found), 'class')} in these rows, and a batch is to have {classes}"
        )
    if batches is None:
        batches = -(-len(class_of) // (classes * per_class))
    check_integer("batches", batches, 1)
    return _drawn(ds, Balanced(class_of.astype(np.int64), classes, per_class, batches))


def bucketed(
    ds: UniRecordDataset[Any],
    column: str,
    *,
    batch_size: int | None = None,
    max_length: int | None = None,
    edges: Sequence[int] | None = None,
    drop_last: bool = False,
) -> DrawnBatches:
    """Batches of rows of like length, or of bounded size: every row once an epoch (docs/drawing.md).

    Rows are divided into buckets by length, which the index alone says. With ``shuffle=True`` each bucket is
    shuffled anew for each epoch, and cut into batches, which come in a random order; else all as stored.

    Args:
        ds: the dataset.
        column: whose values' lengths count: entries of arrays along their free first dimension (tokens), bytes of
            others; or a column of integers, which are the lengths.
        batch_size: rows in a batch.
        max_length: in place of it, what a padded batch may hold: its rows times its longest one at most.
        edges: ascending lengths; a bucket has those up to its edge, the last one all above. By default from the
            shortest, or a sixteenth of the longest, up to it, each about an eighth above the one before.
        drop_last: leave out the last batch of a bucket where it is smaller than the others.

    Raises:
        SchemaError: the column has no lengths.
        ValueError: a row is longer than ``max_length``, or another wrong argument.
    """
    _check_plain(ds._cursor.plan, "bucketed")
    if (batch_size is None) == (max_length is None):
        raise ValueError("give one of batch_size and max_length")
    if batch_size is not None:
        check_integer("batch_size", batch_size, 1)
    plan = ds._cursor.plan
    lengths = row_lengths(plan.data.parts, column, plan.order.selection)
    if max_length is not None:
        check_integer("max_length", max_length, 1)
        longer = np.flatnonzero(lengths > max_length)
        if len(longer):
            row = int(plan.order.selection.row_ids(longer[:1])[0])
            raise ValueError(
                f"{len(longer)} rows are longer than max_length={max_length}; row {row} has {lengths[longer[0]]}: "
                "leave them out with select, or allow more"
            )
    chosen = edges_of(lengths) if edges is None else [check_integer("an edge", edge, 0) for edge in edges]
    if sorted(set(chosen)) != chosen:
        raise ValueError(f"edges are {chosen}; they must ascend")
    if not isinstance(drop_last, bool):
        raise TypeError(f"drop_last must be True or False, got {drop_last!r}")
    return _drawn(ds, Bucketed(lengths, chosen, batch_size, max_length, drop_last))


def _drawn(ds: UniRecordDataset[Any], rule: BatchRule) -> DrawnBatches:
    plan: Any = ds._cursor.plan
    ds._cursor.refuse_exclusions(f"{rule.name} batches")
    if plan.order.spec.mode not in ("sequential", "shuffle"):
        raise ValueError(
            f"the dataset is shuffled by {plan.order.spec.mode!r}, and {rule.name} batches have an order of their "
            "own: give it shuffle=True or shuffle=False"
        )
    return DrawnBatches(ds, Cursor(plan.drawn(rule), Position(ds._cursor.position.epoch)))


def _check_plain(plan: Plan, draw: str) -> None:
    """Refuses to draw from what has no rows of its own."""
    if plan.order.rule is not None:
        raise ValueError(f"this is {plan.order.rule.name} already: draw from what it is made of")
    if isinstance(plan.data, StreamData):
        raise ValueError(f"{draw} draws rows, and these are windows or packed samples, which have no columns")


class DrawnBatches:
    """What ``balanced`` and ``bucketed`` give: batches with a length, epochs and a state (docs/drawing.md).

    ``batches()`` and ``unirecord.torch.loader`` read them ahead. Iterated over, it is a batch sampler as PyTorch knows
    them: lists of places in ``dataset``, for ``DataLoader(drawn.dataset, batch_sampler=drawn)``. Ranks share batches:
    rank r of N has the batches r, r + N, …, and ``remainder`` says what becomes of the last ones. A position in a state
    counts batches of all ranks.
    """

    def __init__(self, source: Any, cursor: Cursor) -> None:
        self._source = source
        self._cursor = cursor

    @property
    def dataset(self) -> Any:
        """The rows that batches are drawn from, in the order stored, on one rank: what the lists of places are of."""
        return self._source.view(shuffle=False, shard_id=0, num_shards=1)

    @property
    def transform(self) -> Callable[[dict[str, Any]], Any] | None:
        """What is called with every sample: the dataset's."""
        transform: Callable[[dict[str, Any]], Any] | None = self._source.transform
        return transform

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What becomes of corrupt rows: as the dataset says."""
        found: OnCorrupt = self._source.on_corrupt
        return found

    @property
    def schema(self) -> Schema:
        """The schema of the data."""
        return self._cursor.plan.data.snapshot.schema

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""
        return tuple(column.name for _, column in self._cursor.plan.columns)

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._cursor.position.epoch

    def __len__(self) -> int:
        return self._cursor.samples_left()

    def __repr__(self) -> str:
        rule = self._cursor.plan.order.rule
        assert rule is not None
        return f"DrawnBatches({rule.name}, {many(rule.samples, 'batch')} of {many(rule.rows, 'row')}: {self._source!r})"

    def batches(
        self,
        *,
        transform: Callable[[Any], Any] | Unchanged | None = UNCHANGED,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[Any]:
        """The batches of this rank, read ahead by C threads, as ``UniRecordDataset.batches`` gives its own.

        Args:
            transform, collate_fn, batch_transform: as for ``UniRecordDataset.batches``.
            **read_ahead: ``prefetch``, ``num_threads`` and ``num_workers``, likewise.
        """
        own = self.transform if isinstance(transform, Unchanged) else transform
        check_callable("transform", own)
        return BatchLoader(self, self._loader_options(own, collate_fn, batch_transform, **read_ahead))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(no_attribute(type(self).__name__, name, OF_DRAWS), name=name, obj=self)

    def _loader_options(
        self,
        transform: Callable[[Any], Any] | None,
        collate_fn: Callable[[list[Any]], Any] | None,
        batch_transform: Callable[[Any], Any] | None,
        **read_ahead: Unpack[ReadAhead],
    ) -> LoaderOptions:
        """The options of a loader of these batches; ValueError for ``drop_last`` and ``receipts``, which are none."""
        if read_ahead.pop("drop_last", False):
            raise ValueError(
                "drop_last: batches have been drawn already; bucketed(drop_last=True) leaves small ones out"
            )
        if read_ahead.get("receipts") is not None:
            raise ValueError(
                "receipts count samples, and ranks share batches here: there are none for drawn batches"
            )
        largest = self._cursor.plan.order.order(0).largest
        return LoaderOptions(
            largest,
            transform=transform,
            collate_fn=collate_fn,
            batch_transform=batch_transform,
            on_corrupt=self.on_corrupt,
            **read_ahead,
        )

    @property
    def order(self) -> OrderQueries:
        """The order, to be asked: which rows a step of the job gets, and when a row comes (docs/order.md)."""
        return OrderQueries(self, self._cursor)

    def __iter__(self) -> Generator[list[int], None, None]:
        # A generator: the pass begins when the first batch is asked for.
        run, position = self._cursor.begin(self._cursor.plan), self._cursor.position
        for number in range(run.samples):
            places: list[int] = run.positions(number, number + 1).tolist()
            position.mark(run, run.after(number + 1))
            yield places

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of ``epoch``."""
        self._cursor.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands; of a ``DataLoader``, which asks ahead, by the batches that it has asked for."""
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass go on where ``state`` was taken, on any number of ranks."""
        self._cursor.load_state_dict(state)
