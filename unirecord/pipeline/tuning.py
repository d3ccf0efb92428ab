"""How many threads the stages without a number share, found while the pipeline runs, and said why."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..order.spec import check_integer
from .budget import Budget, waited_for_cores
from .lane import Lane

__all__ = ["PipelinePlan", "Tuner"]

_LOOK_NS = 200_000_000
_MOST_WORKERS = 256
_CORES_FULL = 0.97  # of the budget: more threads would only take turns
_STARVED = 0.05  # of the time that the consumer waits: below it, nothing is gained by a change
_GAIN = 1.03  # more threads are kept when they make the rate this much larger
_NO_LOSS = 0.98  # fewer are kept when the rate stays
_UNCLEAR = 0.08  # a rate this near to what is needed is looked at again
_MOST_LOOKS = 4
_LEAST_LOOKS = 2  # before a number is refused
_SOON_NS = (
    3_000_000_000  # a number that was no better is tried again after this: others may have made it look so
)
_AGAIN_NS = 30_000_000_000  # and then after this, twice as long each time


@dataclass
class _Trial:
    """A number of threads that is only being tried: the number before, and the rates of both, look by look."""

    before: int
    rate_before: float
    tried: int
    rates: list[float] = field(default_factory=list)

    @property
    def needed(self) -> float:
        return _GAIN if self.tried > self.before else _NO_LOSS

    @property
    def growth(self) -> float:
        return statistics.median(self.rates) / self.rate_before


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
    disk, a network, a lock): it tries twice as many, or fewer, and keeps them where the rate is better. A budget that
    is smaller than what the process has is never exceeded: it knows what a task needs of a core before it adds one.
    Where it has no more than that, the system sees to it, and a core that tasks leave idle is filled.
    """

    def __init__(
        self,
        budget: Budget,
        plan: PipelinePlan | None = None,
        *,
        frozen: bool = False,
        before: Tuner | None = None,
        waited_for_cores: Callable[[], int] = waited_for_cores,
    ) -> None:
        """Begins with ``plan``, and stays with it where it is ``frozen``.

        It goes on where that of the pass ``before`` was, in the middle of a trial too: epochs may be shorter than one.
        """
        self._cpus, self._whole = budget.cpus, budget.whole
        self._waited_for_cores, self._seen_delay, self._delay = waited_for_cores, 0, 0.0
        self._frozen = frozen
        self.workers = plan.workers if plan is not None else budget.cpus
        self.reasons = [
            f"{self.workers} threads, as " + ("planned" if frozen else "before")
            if plan
            else f"{self.workers} threads: one for each core"
        ]
        self.cores_used = 0.0
        self.wait_ns = 0
        self.settled = frozen
        self._seen_wait = 0
        self._since = 0
        self._before: dict[int, tuple[int, int, int]] = {}
        self._trial: _Trial | None = None
        self._rates: list[float] = []  # of this number of threads, the latest looks
        self._refused: dict[int, tuple[int, int]] = {}  # until when, and for how long
        self._lost: _Trial | None = None  # what has just been refused
        self._weights: list[float] = []
        if before is not None and not frozen:
            self.workers, self.reasons, self.settled = before.workers, list(before.reasons), before.settled
            self._trial, self._rates = before._trial, before._rates
            self._refused, self._lost, self._weights = before._refused, before._lost, before._weights

    def plan(self) -> PipelinePlan:
        """What is known to be good: not what is only being tried."""
        return PipelinePlan(self.workers if self._trial is None else self._trial.before)

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
        self._delay = max(0, self._waited_for_cores() - self._seen_delay) / spent
        starved = (self.wait_ns - self._seen_wait) / spent > _STARVED
        self._begin(lanes, now)
        if not self._frozen:
            self._decide(work / spent, starved and all_busy, now)
            self.settled = self._trial is None and self._lost is None

    def _begin(self, lanes: Sequence[Lane], now: int) -> None:
        self._since, self._seen_wait = now, self.wait_ns
        self._seen_delay = 0 if self._frozen else self._waited_for_cores()
        for lane, weight in zip(lanes, self._weights, strict=False):
            lane.weight = lane.weight or weight
        for lane in lanes:
            self._before[id(lane)] = lane.tasks, lane.cpu_ns, lane.elements
            if not lane.weight and lane.elements:
                lane.weight = (
                    lane.busy_ns / lane.elements
                )  # what an element is worth stays what it was at first
        self._weights = [lane.weight for lane in lanes]

    def _decide(self, rate: float, short: bool, now: int) -> None:
        if self._trial is not None:
            self._trial.rates.append(rate)
            if self._is_unclear(self._trial):
                return
            if not self._kept(self._trial, now):
                return
        else:
            self._reconsider(rate)
            self._rates = [*self._rates[1 - _MOST_LOOKS :], rate]
        if self.cores_used > 1.05 * self._cpus and self.workers > self._cpus:
            self._change(max(self._cpus, int(self.workers * self._cpus / self.cores_used)))
            self.reasons.append(f"{self.workers} threads: more would use over {self._cpus} cores")
            return
        usual = statistics.median(self._rates)
        other = self._other(short, now) if usual > 0 else None
        if other is not None:
            trial = _Trial(self.workers, usual, other)
            self._change(other)
            self._trial = trial

    def _change(self, workers: int) -> None:
        self.workers, self._trial, self._rates = workers, None, []

    def _is_unclear(self, trial: _Trial) -> bool:
        looks, clear = len(trial.rates), abs(trial.growth - trial.needed) >= _UNCLEAR
        if looks < _LEAST_LOOKS and trial.growth < trial.needed:
            return True
        return looks < _MOST_LOOKS and not clear

    def _kept(self, trial: _Trial, now: int) -> bool:
        """Ends a trial: whether what was tried stays."""
        tried, growth, kept = trial.tried, trial.growth, trial.growth >= trial.needed
        self._change(tried if kept else trial.before)
        if not kept:
            self._refuse(tried, now)
            self._lost = trial
            self.reasons.append(
                f"{self.workers} threads again: with {tried} the rate was {growth:.2f} times theirs"
            )
            return False
        self._refuse(trial.before, now)
        self._rates = trial.rates
        self.reasons.append(f"{tried} threads: {growth:.2f} times the rate of {trial.before}")
        return True

    def _reconsider(self, rate: float) -> None:
        """Forgets a refusal where the number before has become slower by itself, so that the trial says nothing."""
        if self._lost is None:
            return
        trial, self._lost = self._lost, None
        if self.workers == trial.before and statistics.median(trial.rates) >= trial.needed * rate:
            self._refused.pop(trial.tried, None)

    def _refuse(self, workers: int, now: int) -> None:
        _, wait = self._refused.get(workers, (0, 0))
        wait = max(_AGAIN_NS, 2 * wait) if wait else _SOON_NS
        self._refused[workers] = now + wait, wait

    def _other(self, short: bool, now: int) -> int | None:
        """Another number of threads that is worth a try."""
        if not short:
            return None
        full = self.cores_used >= _CORES_FULL * self._cpus
        filling = self.workers * self._cpus / max(self.cores_used, 1e-3)
        fitting = math.ceil(filling) if self._whole else int(filling)
        more = min(2 * self.workers, _MOST_WORKERS, fitting)
        fewer = self.workers // 2 if self.workers <= self._cpus else max(self._cpus, self.workers // 2)
        # Fewer cannot do what is computed now, or would be if others did not take the cores.
        too_few = self.cores_used + self._delay > 1.2 * fewer
        numbers = ([] if full else [more]) + ([] if too_few else [fewer])
        for number in numbers:
            if 1 <= number != self.workers and self._refused.get(number, (0, 0))[0] <= now:
                return number
        return None
