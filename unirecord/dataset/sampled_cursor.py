"""A pass in batches of somebody else's sampler: its epochs, and states that are proven when they are gone on from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import replace
from typing import Any

from ..loading.plan import Plan
from ..order.permutation import EpochRun
from ..order.sampling import SampledOrder
from ..sizes import many
from .cursor import Cursor
from .position import Position
from .state import ResumeState

__all__ = ["SampledCursor"]

_RULE = "batch sampler"


class SampledCursor(Cursor):
    """Positions count batches of this process; ranks are the sampler's own matter."""

    def __init__(self, cursor: Cursor, sampler: Iterable[object]) -> None:
        """Over the rows of a dataset whose ``cursor`` this is, as stored and not shared out: ValueError else."""
        _check_plain(cursor)
        if not isinstance(sampler, Iterable):
            raise TypeError(f"batch_sampler= takes an iterable of lists of places, not {sampler!r}")
        if iter(sampler) is sampler:
            raise TypeError(
                f"{sampler!r} can be gone through once, and each epoch begins a sampler anew: give a list, or an "
                "object whose __iter__ makes an iterator"
            )
        super().__init__(cursor.plan, _LettingGo(cursor.position.epoch))
        self._sampler = sampler
        self._order: SampledOrder | None = None
        self._loaded = 0  # the digest that a loaded state has for its position

    def begin(self, plan: Plan) -> EpochRun:
        """Starts a pass: over the current epoch if none has been started in it, else over the next.

        ValueError where a state has been loaded, and the sampler's lists are not those that were delivered before.
        """
        plan.data.parts.check_open()
        order: Any = self
        return self.position.begin(order)

    def run(self, epoch: int, start: int) -> EpochRun:
        """A pass from the sampler's list ``start`` on."""
        spec, places = self.plan.order.spec.at_epoch(epoch), len(self.plan.order.selection)
        order = SampledOrder(spec, self._sampler, places, start)
        if start and (order.taken, order.digests[order.taken]) != (start, self._loaded):
            order.raise_failure()
            raise ValueError(
                f"the state was taken after {many(start, 'batch')}, and the batch sampler's first "
                f"{order.taken} are others "
                "now: seed it, and set its epoch, as it was then"
            )
        self._order = order
        return EpochRun(epoch, order, start, 1, order.rows, start)

    def samples_left(self) -> int:
        """How many batches the next pass will deliver; TypeError where the sampler has no length."""
        if not isinstance(self._sampler, Sized):
            raise TypeError(f"the batch sampler has no length: {self._sampler!r}")
        return max(0, len(self._sampler) - self.position.next_start)

    def batches_left(self, size: int, drop_last: bool) -> int:
        """The same."""
        return self.samples_left()

    def check_repeatable(self) -> None:
        """Raises ValueError: only the sampler knows its steps."""
        raise ValueError(
            "what a step of a batch sampler was, it alone knows: ds.read_rows(its list) reads a batch again"
        )

    def exclude(self, named: Mapping[str, Any], fill: bool) -> int:
        """Raises ValueError: only the sampler knows which rows come."""
        raise ValueError("exclude: a batch sampler says which rows come: leave them out of its lists")

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands, and a digest of the lists that it has delivered."""
        epoch, position = self.position.place()
        return self._sampled_state(epoch, position, self._digest(position)).to_dict()

    def state_at_front(self) -> dict[str, Any]:
        """The state of epoch 0 before its first batch."""
        return self._sampled_state(0, 0, 0).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass go on where ``state`` was taken; that the sampler does so is seen when it begins."""
        loaded = ResumeState.from_dict(state)
        digest = (loaded.drawn or {}).get("digest")
        told = digest if isinstance(digest, int) and not isinstance(digest, bool) else 0
        loaded.check(self._sampled_state(0, 0, told), version_with=self.plan.version_with)
        if loaded.excluded:
            raise ValueError(
                "the state says that rows are left out, and a batch sampler alone says which rows come"
            )
        self._loaded, self._order = told, None
        self.position.resume(loaded.epoch, loaded.position)

    def _digest(self, position: int) -> int:
        if not position:
            return 0
        return self._loaded if self._order is None else self._order.digests[position]

    def _sampled_state(self, epoch: int, position: int, digest: int) -> ResumeState:
        return replace(self._state(epoch, position), drawn={"rule": _RULE, "digest": digest})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_order": None, "_loaded": self._digest(self.position.place()[1])}


class _LettingGo(Position):
    """Tells the order of a pass what has been delivered."""

    def mark(self, run: EpochRun, end: int) -> None:
        super().mark(run, end)
        if isinstance(run.order, SampledOrder):
            run.order.delivered(end)


def _check_plain(cursor: Cursor) -> None:
    order = cursor.plan.order
    cursor.refuse_exclusions("a batch sampler")
    if order.sharding.num_shards > 1:
        raise ValueError(
            f"a batch sampler says which rows this process gets, and so does shard {order.sharding.shard_id} of "
            f"{order.sharding.num_shards}: open the dataset without shards, and let the sampler know of ranks"
        )
    if order.shuffled:
        made = "shuffled" if order.rule is None else order.rule.name
        raise ValueError(
            f"a batch sampler says the order, and this dataset is {made} with a seed of its own: open it with "
            "shuffle=False"
        )
    if cursor.position.next_start:
        raise ValueError(
            "a state has been loaded into the dataset, whose position counts samples: load one into this loader"
        )
