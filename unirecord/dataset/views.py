"""The same data seen otherwise: views, selections and splits, each a dataset of its own over what is open already."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypedDict, overload

from ..loading.options import OnCorrupt, check_callable, check_on_corrupt
from ..loading.plan import Plan
from ..order.selection import Selection
from ..order.spec import Remainder, Shuffle, check_shard_arguments
from .cursor import Cursor
from .samples import Samples
from .split import split_by_hash

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import TypeVar
else:
    from typing import TypeVar

__all__ = ["UNCHANGED", "DatasetViews", "Given", "Sample", "Unchanged", "ViewOptions"]

Sample = dict[str, Any]

# What a dataset gives for a sample: what its transform returns, without one a `Sample`.
if TYPE_CHECKING:
    Given = TypeVar("Given", covariant=True, default=Sample)
else:
    Given = TypeVar("Given", covariant=True)


class Unchanged(Enum):
    UNCHANGED = "as it is"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED


class ViewOptions(TypedDict, total=False):
    """The options of a view that say nothing about what a sample is."""

    columns: Sequence[str] | Unchanged | None
    where: str | None
    shuffle: Shuffle | Unchanged
    seed: int | None
    shard_id: int | None
    num_shards: int | None
    remainder: Remainder | None
    on_corrupt: OnCorrupt | None
    block_rows: int | None
    window_blocks: int | None


class DatasetViews(Generic[Given]):
    """What a dataset stands on (a plan with its position, a transform), and the datasets that are made of that."""

    _cursor: Cursor
    _transform: Callable[[Sample], Any] | None
    _on_corrupt: OnCorrupt
    _samples: Samples

    def _stand(
        self, cursor: Cursor, transform: Callable[[Sample], Any] | None, on_corrupt: OnCorrupt
    ) -> None:
        self._cursor = cursor
        self._transform = transform
        self._on_corrupt = on_corrupt
        self._samples = Samples(cursor, transform, on_corrupt)

    def view(
        self,
        *,
        columns: Sequence[str] | Unchanged | None = UNCHANGED,
        where: str | None = None,
        shuffle: Shuffle | Unchanged = UNCHANGED,
        seed: int | None = None,
        shard_id: int | None = None,
        num_shards: int | None = None,
        remainder: Remainder | None = None,
        transform: Callable[[Sample], Any] | Unchanged | None = UNCHANGED,
        on_corrupt: OnCorrupt | None = None,
        block_rows: int | None = None,
        window_blocks: int | None = None,
    ) -> Self:
        """The same data with other options, without opening it again; what is not named stays as it is here.

        ``where`` narrows: the rows of this dataset that meet it as well. The rest is as if the dataset had been opened
        so: which rows meet ``where``, which of them are selected, their order, and this rank's share are always taken
        in that order. The view has an epoch and a position of its own, and begins in the current epoch.

        Args:
            columns: as for the class.
            where: a further condition.
            shuffle, seed, shard_id, num_shards, remainder: as for the class.
            transform, on_corrupt, block_rows, window_blocks: as for the class.
        """
        plan = self._cursor.plan
        if not isinstance(columns, Unchanged):
            plan = plan.with_columns(columns)
        if where is not None:
            plan = plan.where_also(where)
        asked = None if isinstance(shuffle, Unchanged) else shuffle
        spec = plan.order.spec.changed(asked, seed, block_rows, window_blocks)
        spec.check_blocks_given((block_rows, window_blocks))
        own_rows, own_window = plan.blocks
        given = (
            own_rows if block_rows is None else block_rows,
            own_window if window_blocks is None else window_blocks,
        )
        chosen = given == plan.blocks and spec.mode == plan.order.spec.mode
        plan = plan.seeded(spec) if chosen else plan.ordered(spec, given)
        shard, old = (plan.order.sharding.shard_id, plan.order.sharding.num_shards), plan.order.sharding
        if shard_id is not None or num_shards is not None:
            shard = check_shard_arguments(shard_id, num_shards)
        plan = plan.sharded(*shard, old.remainder if remainder is None else remainder)
        if not isinstance(transform, Unchanged):
            check_callable("transform", transform)
        if on_corrupt is not None:
            check_on_corrupt(on_corrupt)
        other = self._over(plan, transform, on_corrupt)
        other._cursor.shared |= shard_id is not None
        return other

    def _over(
        self,
        plan: Plan,
        transform: Callable[[Sample], Any] | Unchanged | None = UNCHANGED,
        on_corrupt: OnCorrupt | None = None,
    ) -> Self:
        other: Self = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        own = self._transform if isinstance(transform, Unchanged) else transform
        other._stand(self._cursor.over(plan), own, on_corrupt or self._on_corrupt)
        return other

    def select(self, rows: Any) -> Self:
        """Only some of the ``num_rows`` rows here, before sharding and shuffling, in the order given.

        ``rows`` is a slice, a range, integers (negative ones count from the end), or a mask of one bool per row.
        """
        return self._narrowed(self._cursor.plan.order.selection.select(rows))

    def take(self, n: int) -> Self:
        """Only the first ``n`` rows as stored, before sharding and shuffling.

        Of a shuffled dataset these are not its first ``n`` samples, but the first ``n`` rows, shuffled.
        """
        return self._narrowed(self._cursor.plan.order.selection.take(n))

    def skip(self, n: int) -> Self:
        """All but the first ``n`` rows as stored, before sharding and shuffling."""
        return self._narrowed(self._cursor.plan.order.selection.skip(n))

    @overload
    def split(
        self, sizes: Mapping[str, float], seed: int = ..., *, by: str | None = ..., stratify: str | None = ...
    ) -> dict[str, Self]: ...
    @overload
    def split(self, sizes: float | Sequence[float], seed: int | None = ...) -> list[Self]: ...
    def split(
        self,
        sizes: float | Sequence[float] | Mapping[str, float],
        seed: int | None = 0,
        *,
        by: str | None = None,
        stratify: str | None = None,
    ) -> Any:
        """Disjoint datasets that together are this one (docs/order.md).

        With names, such as ``{"train": 0.9, "val": 0.1}``, a row's share hangs on a hash of the row alone, and is the
        one that ``unirecord write --split`` gives it: rows that are added later move no other, and equal rows stay
        together. What comes back has the same names. Without ``by`` the whole row is hashed, so all is read once.

        Args:
            sizes: fractions that sum to 1 by name; or without names fractions, or counts that sum to ``num_rows``; one
                size alone: that, and the rest.
            seed: rows are assigned at random, always in the same way for the same seed; None, without names, cuts runs
                of neighbours.
            by: with names: the column whose value alone is hashed, so that rows with one value stay together.
            stratify: with names: the rows with each value of this column have these shares, to within half a row. New
                rows move few others then. 12 bytes a row are kept meanwhile.

        Raises:
            SchemaError: there is no such column.
            ValueError, TypeError: another wrong argument.
        """
        if isinstance(seed, float) and isinstance(sizes, (int, float)):
            raise TypeError(f"split takes its sizes as one list: split([{sizes}, {seed}])")
        if isinstance(sizes, Mapping):
            if seed is None:
                raise ValueError("split: rows of named shares are told apart by a hash, which takes a seed")
            shares = split_by_hash(self._cursor.plan, sizes, seed, by, stratify)
            return {name: self._narrowed(selection) for name, selection in shares.items()}
        if by is not None or stratify is not None:
            raise ValueError(
                'split: by and stratify are for named shares, such as split({"train": 0.9, "val": 0.1}, by="user")'
            )
        return [self._narrowed(part) for part in self._cursor.plan.order.selection.split(sizes, seed)]

    def _narrowed(self, selection: Selection) -> Self:
        return self._over(self._cursor.plan.selected(selection))

    def __copy__(self) -> Self:
        """A copy goes its own ways from here: two that shared a position would move each other's."""
        return copy.deepcopy(self)
