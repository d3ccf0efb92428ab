"""How many threads the stages without a number share, found while the pipeline runs, and said why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..order.spec import check_integer
from .budget import Budget
from .lane import Lane

__all__ = ["PipelinePlan", "Tuner"]

_LOOK_NS = 200_000_000
_MOST_WORKERS = 64
_CORES_FULL = 0.85  # of the budget: more threads would only take turns
_GAIN = 1.1  # a change is kept when it makes the rate this much larger
_NO_LOSS = 0.98  # fewer threads are kept when the rate stays


@dataclass(frozen=True)
class PipelinePlan:
    """What was chosen, to be used as it is: ``ds.pipeline(plan=plan)``.

    ``workers`` is the number of threads that stages without a number of their own share; ``stages`` are the names of
    the stages that it was found for.
    """

    workers: int
    stages: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that JSON can hold."""
        return {**asdict(self), "stages": list(self.stages)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> PipelinePlan:
        """A plan from its ``fields`` as ``to_dict`` gives them, perhaps through a file."""
        return cls(check_integer("workers", fields["workers"], 1), tuple(fields.get("stages", ())))


class Tuner:
    """Changes ``workers``, the number of tasks of shared stages that run at a time; ``reasons`` say why.

    It begins with one for each core. Where the cores are not full although all are busy, tasks wait for something (a
    disk, a network, a lock): it tries twice as many, and keeps them where the rate grows. What it needs of cores never
    exceeds the budget: it knows what a task needs before it adds one.
    """

    def __init__(
        self,
        budget: Budget,
        plan: PipelinePlan | None = None,
        *,
        frozen: bool = False,
        before: Tuner | None = None,
    ) -> None:
        """Begins with ``plan``, and stays with it where it is ``frozen``.

        It goes on where that of the pass ``before`` was, in the middle of a trial too: epochs may be shorter than one.
        """
        self._cpus = budget.cpus
        self._frozen = frozen
        self.workers = plan.workers if plan is not None else budget.cpus
        self.reasons = [
            f"{self.workers} threads, as " + ("planned" if frozen else "before")
            if plan
            else f"{self.workers} threads: one for each core"
        ]
        self.cores_used = 0.0
        self.wait_ns = 0
        self._seen_wait = 0
        self._since = 0
        self._before: dict[int, tuple[int, int, int]] = {}
        self._trial: tuple[int, float] | None = None  # the number before, and its rate
        self._refused: set[int] = set()
        self._weights: list[float] = []
        if before is not None and not frozen:
            self.workers, self.reasons = before.workers, list(before.reasons)
            self._trial, self._refused = before._trial, set(before._refused)
            self._weights = list(before._weights)

    def plan(self) -> PipelinePlan:
        """What is known to be good: not what is only being tried."""
        return PipelinePlan(self.workers if self._trial is None else self._trial[0])

    def waited(self, start: int, end: int) -> None:
        """Notes when the consumer waited."""
        self.wait_ns += end - start

    def look(self, lanes: Sequence[Lane], all_busy: bool, now: int) -> None:
        """Looks at how it goes, after each task; ``all_busy``: as many run as may; ``now``: the clock."""
        if not self._since:
            self._begin(lanes, now)
        if now - self._since < _LOOK_NS:
            return
        shared = [lane for lane in lanes if lane.upstream is not None and not lane.fixed]
        done = [lane.tasks - self._before.get(id(lane), (0, 0, 0))[0] for lane in shared]
        if sum(done) < 2 * self.workers and now - self._since < 20 * _LOOK_NS:
            return
        spent = now - self._since
        cpu = sum(lane.cpu_ns - self._before[id(lane)][1] for lane in shared)
        work = sum((lane.elements - self._before[id(lane)][2]) * lane.weight for lane in shared)
        self.cores_used = cpu / spent
        starved = (self.wait_ns - self._seen_wait) / spent > 0.1
        self._begin(lanes, now)
        if not self._frozen:
            self._decide(work / spent, starved and all_busy)

    def _begin(self, lanes: Sequence[Lane], now: int) -> None:
        self._since, self._seen_wait = now, self.wait_ns
        for lane, weight in zip(lanes, self._weights, strict=False):
            lane.weight = lane.weight or weight
        for lane in lanes:
            self._before[id(lane)] = lane.tasks, lane.cpu_ns, lane.elements
            if not lane.weight and lane.elements:
                lane.weight = (
                    lane.busy_ns / lane.elements
                )  # what an element is worth stays what it was at first
        self._weights = [lane.weight for lane in lanes]

    def _decide(self, rate: float, short: bool) -> None:
        if self._trial is not None:
            before, rate_before = self._trial
            self._trial = None
            kept = _GAIN if self.workers > before else _NO_LOSS
            if rate >= kept * rate_before:
                self.reasons.append(
                    f"{self.workers} threads: {rate / rate_before:.2f} times the rate of {before}"
                )
            else:
                self._refused.add(self.workers)
                self.reasons.append(
                    f"{before} threads again: with {self.workers} the rate was {rate / rate_before:.2f} times theirs"
                )
                self.workers = before
                return
        if self.cores_used > 1.05 * self._cpus and self.workers > self._cpus:
            self.workers = max(self._cpus, int(self.workers * self._cpus / self.cores_used))
            self.reasons.append(f"{self.workers} threads: more would use over {self._cpus} cores")
            return
        other = self._other(short) if rate > 0 else None
        if other is not None and other not in self._refused:
            self._trial, self.workers = (self.workers, rate), other

    def _other(self, short: bool) -> int | None:
        """Another number of threads that is worth a try."""
        if not short or self.cores_used >= _CORES_FULL * self._cpus:
            return None
        fitting = int(self.workers * self._cpus / max(self.cores_used, 1e-3))
        more = min(2 * self.workers, _MOST_WORKERS, fitting)
        if more > self.workers and more not in self._refused:
            return more
        fewer = self.workers // 2
        return fewer if 1 <= fewer < self.workers == self._cpus else None
