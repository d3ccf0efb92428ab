"""A plan and the position in it: what a dataset and all loaders made from it share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..loading.plan import Plan
from ..order.batch_rule import BatchRule
from ..order.shard_order import EpochRun
from .position import Position
from .state import ResumeState

__all__ = ["Cursor"]


class Cursor:
    """``plan`` is replaced by ``refresh`` alone, ``position`` moves."""

    def __init__(self, plan: Plan, position: Position) -> None:
        self.plan = plan
        self.position = position

    def begin(self) -> EpochRun:
        """Starts a pass: over the current epoch if none has been started in it, else over the next."""
        self.plan.data.parts.check_open()
        return self.position.begin(self.plan.order)

    def samples_left(self) -> int:
        """How many samples the next pass will deliver."""
        return self.plan.order.samples_from(self.position.next_start)

    def batches_left(self, size: int, drop_last: bool) -> int:
        """How many batches of ``size`` samples the next pass will deliver."""
        samples = self.samples_left()
        if isinstance(self.plan.order.rule, BatchRule):
            return samples  # they are batches
        return samples // size if drop_last else -(-samples // size)

    def check_repeatable(self) -> None:
        """Raises ValueError where the batches of a step cannot be given again."""

    def state_dict(self, counted_outside: bool = False) -> dict[str, Any]:
        """Where the latest pass stands, as plain values; its front, for those who count it themselves."""
        place = self.position.place_outside() if counted_outside else self.position.place()
        return self._state(*place).to_dict()

    def state_at_front(self) -> dict[str, Any]:
        """The state of epoch 0 before its first sample: what of a state is not a place."""
        return self._state(0, 0).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass go on where ``state`` was taken."""
        loaded = ResumeState.from_dict(state)
        loaded.check(self._state(0, 0), self.plan.order.drawn_difference)
        self.position.resume(loaded.epoch, loaded.position)

    def over(self, plan: Plan) -> Cursor:
        """Another plan, in the same epoch; a position that a loaded state has set is kept where it means the same.

        ValueError where it does not: its samples would be others.
        """
        epoch, start = self.position.epoch, self.position.next_start
        other = Cursor(plan, Position(epoch, start))
        if start and other._state(0, 0) != self._state(0, 0):
            raise ValueError(
                "a state has been loaded, and its position counts the samples of this dataset: select, split or view "
                "first, and load the state into the dataset that is iterated"
            )
        return other

    def _state(self, epoch: int, position: int) -> ResumeState:
        order, snapshot = self.plan.order, self.plan.data.snapshot
        return ResumeState.of(
            order.spec.at_epoch(epoch),
            identity=snapshot.identity,
            rows=snapshot.rows,
            where=self.plan.condition,
            selection=order.selection.digest(),
            remainder=order.sharding.remainder,
            position=position,
            drawn=order.drawn_state(),
        )
