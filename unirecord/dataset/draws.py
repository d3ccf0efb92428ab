"""The ways to draw from a dataset: by classes, by length, by weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..columns.scalars import row_lengths, scalar_arrays
from ..errors import SchemaError
from ..loading.plan import Plan
from ..loading.streams import StreamData
from ..order.permutation import BatchRule
from ..order.sampling import Balanced, Bucketed, Weighted, WeightedOnce, edges_of
from ..order.spec import check_integer
from ..sizes import many
from .cursor import Cursor
from .drawn_batches import DrawnBatches
from .loaders import DatasetLoaders
from .position import Position
from .views import Given

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "DatasetDrawing",
]


class DatasetDrawing(DatasetLoaders[Given]):
    """Batches and samples that are drawn by a rule, in place of every row once in a random order."""

    def weighted(
        self,
        weights: str | Sequence[float] | NDArray[Any],
        *,
        samples: int | None = None,
        replacement: bool = True,
    ) -> Self:
        """A dataset whose samples are drawn by weight (docs/drawing.md).

        With replacement, each position of each epoch is a draw of its own. Without, a row comes once an epoch at most:
        at each position, each row that is left with the probability of its weight among theirs. It is a dataset like
        any other, whatever the ranks and the shuffle, but that ``where``, ``select``, ``take``, ``skip`` and ``split``
        come before.

        Args:
            weights: of each of the ``num_rows`` rows here, as stored; or the name of a scalar column that has them.
                Finite, 0 or more; their proportions count. 8 bytes a row are kept; without replacement, 8 more for each
                sample of the epoch, and 40 while it is drawn.
            samples: an epoch has so many, of all ranks; by default ``num_rows``, without replacement the rows with a
                weight of more than 0, which are the most then.
            replacement: whether a row that has been drawn may be drawn again.
        """
        plan: Any = self._cursor.plan
        _check_plain(plan, "weighted")
        given: Any = weights
        if isinstance(weights, str):
            given = scalar_arrays(plan.data.parts, [weights], plan.order.selection)[weights]
            if np.ma.is_masked(given):
                raise SchemaError(f"column {weights!r} is null in some rows, which have no weight")
        given = np.asarray(given)
        if given.dtype.kind not in "iufb" or given.shape != (self._cursor.plan.order.rows_in_play,):
            raise ValueError(
                f"weights are {given.dtype} of shape {given.shape}; they must be numbers, one for each of the "
                f"{many(self._cursor.plan.order.rows_in_play, 'row')}"
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
            return self._over(plan.drawn(Weighted(numbers, draws)))
        if draws > most:
            raise ValueError(
                f"samples={draws}: without replacement, {most} rows can be drawn, which have a weight"
            )
        return self._over(plan.drawn(WeightedOnce(numbers, draws)))

    def balanced(
        self, column: str, *, classes: int, per_class: int, batches: int | None = None
    ) -> DrawnBatches:
        """Batches of ``per_class`` rows of each of ``classes`` classes, which differ (docs/drawing.md).

        Every class comes as often as any other, and goes through epochs of its own, over all epochs: with
        ``shuffle=True`` in new orders, else as stored. No row comes twice in a batch but of a class of fewer than
        ``per_class`` rows, which is gone through again from its front.

        Args:
            column: a scalar column; each of its values is a class.
            classes: how many classes a batch has.
            per_class: how many rows of each.
            batches: batches of an epoch, of all ranks; by default as many as hold ``num_rows`` rows.

        Raises:
            SchemaError: the column is not scalar, or is null somewhere.
            ValueError: there are fewer classes, or the dataset is shuffled in another way.
        """
        _check_plain(self._cursor.plan, "balanced")
        check_integer("classes", classes, 1)
        check_integer("per_class", per_class, 1)
        plan = self._cursor.plan
        values = scalar_arrays(plan.data.parts, [column], plan.order.selection)[column]
        if np.ma.is_masked(values) or (values.dtype == object and any(value is None for value in values)):
            raise SchemaError(
                f"column {column!r} is null in some rows, which have no class: leave them out with where="
            )
        found, class_of = np.unique(np.asarray(values), return_inverse=True)
        if len(found) < classes:
            raise ValueError(
                f"column {column!r} has {many(len(found), 'class')} in these rows, and a batch is "
                f"to have {classes}"
            )
        if batches is None:
            batches = -(-len(class_of) // (classes * per_class))
        check_integer("batches", batches, 1)
        return self._drawn(Balanced(class_of.astype(np.int64), classes, per_class, batches))

    def bucketed(
        self,
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
        _check_plain(self._cursor.plan, "bucketed")
        if (batch_size is None) == (max_length is None):
            raise ValueError("give one of batch_size and max_length")
        if batch_size is not None:
            check_integer("batch_size", batch_size, 1)
        plan = self._cursor.plan
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
        return self._drawn(Bucketed(lengths, chosen, batch_size, max_length, drop_last))

    def _drawn(self, rule: BatchRule) -> DrawnBatches:
        plan: Any = self._cursor.plan
        self._cursor.refuse_exclusions(f"{rule.name} batches")
        if plan.order.spec.mode not in ("sequential", "shuffle"):
            raise ValueError(
                f"the dataset is shuffled by {plan.order.spec.mode!r}, and {rule.name} batches have an order of their "
                "own: give it shuffle=True or shuffle=False"
            )
        return DrawnBatches(self, Cursor(plan.drawn(rule), Position(self._cursor.position.epoch)))


def _check_plain(plan: Plan, draw: str) -> None:
    """Refuses to draw from what has no rows of its own."""
    if plan.order.rule is not None:
        raise ValueError(f"this is {plan.order.rule.name} already: draw from what it is made of")
    if isinstance(plan.data, StreamData):
        raise ValueError(f"{draw} draws rows, and these are windows or packed samples, which have no columns")
