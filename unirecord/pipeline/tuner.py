"""How many threads the stages without a number share, found while the pipeline runs, and said why."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..loading.stats import StageTimes
from ..order.spec import check_integer
from ..sizes import many
from .budget import Budget, waited_for_cores

__all__ = [
    "PipelinePlan",
    "Trial",
    "Tuner",
]


# Two numbers of threads in turns, until it is clear which is better: others on the machine slow down both.


_GAIN = 1.05  # more threads are kept when they make the rate this much larger
_NO_LOSS = 0.98  # fewer are kept when the rate stays
_CLEAR = 1.2  # times what is needed: looked at once, between two looks at the other
_DOUBLE = 1.6  # at once, where the looks before say so too
_LEAST_PAIRS, _MOST_PAIRS = 2, 5


class Trial:
    """``tried`` threads beside ``before``: a look at one, a look at the other, from ``rates`` of the latter on.

    A look at ``tried`` is compared with those before and after it. What is gained must be more than by how much these
    ratios differ among themselves.
    """

    before: int
    tried: int

    def __init__(self, before: int, tried: int, rates: Sequence[float]) -> None:
        self.before, self.tried = before, tried
        self._known = max(rates)
        self._rates_before = [statistics.median(rates)]
        self._rates_tried: list[float] = []

    @property
    def workers(self) -> int:
        """The number for the next look."""
        return self.before if len(self._rates_tried) == len(self._rates_before) else self.tried

    def note(self, rate: float) -> bool | None:
        """Takes the rate of that look; whether ``tried`` is to be kept, None as long as it is not known."""
        (self._rates_before if self.workers == self.before else self._rates_tried).append(rate)
        if len(self._rates_tried) == len(self._rates_before):
            at_once = len(self._rates_tried) == 1 and rate >= _DOUBLE * self._known
            return True if at_once else None
        return self._verdict()

    @property
    def needed(self) -> float:
        """What the rate must be multiplied by."""
        return _GAIN if self.tried > self.before else _NO_LOSS

    @property
    def growth(self) -> float:
        """What the rate is multiplied by, about."""
        return statistics.median(self._ratios() or [self._rates_tried[0] / self._rates_before[0]])

    @property
    def rates(self) -> tuple[list[float], list[float]]:
        """Of the looks at the number before, and at the one that is tried."""
        return self._rates_before, self._rates_tried

    def _ratios(self) -> list[float]:
        pairs = zip(self._rates_before, self._rates_before[1:], strict=False)
        around = [(a + b) / 2 for a, b in pairs]
        return [rate / mean for rate, mean in zip(self._rates_tried, around, strict=False) if mean]

    def _verdict(self) -> bool | None:
        ratios, needed = self._ratios(), self.needed
        count = len(ratios)
        if count < _LEAST_PAIRS:
            rate = self._rates_tried[0]
            if rate >= _CLEAR * needed * max(self._rates_before):
                return True
            return False if rate * _CLEAR <= needed * min(self._rates_before) else None
        growth, unsure = self.growth, statistics.stdev(ratios) / count**0.5
        if min(growth, statistics.fmean(ratios)) - unsure >= needed:
            return True
        if growth + unsure < needed or (count >= _MOST_PAIRS and needed > 1.0):
            return False
        return growth >= needed if count >= _MOST_PAIRS else None


_LOOK_NS = 200_000_000
_LEAST_LOOK_NS = 20_000_000  # until it is asked again whether enough has been seen
_MOST_LOOK_NS = 4_000_000_000  # where tasks take so long that few end in the time of a look
_MOST_WORKERS = 256
_CORES_FULL = 0.95  # of the budget: more threads could not gain what is asked of them, and would take turns
_STARVED = 0.05  # of the time that the consumer waits: below it, nothing is gained by a change
_ALL_BUSY = 0.7  # of the threads, on average: below it, more would have nothing to do
_COMPUTING = (
    0.5  # of the time that threads are busy: above it, they take turns rather than wait for something
)
_KNOWN_LOOKS = 3  # the latest of a number, which another is compared with
# A number that was no better is tried again after this: others may have made it look so.
_SOON_NS = 3_000_000_000
_AGAIN_NS = 30_000_000_000  # and then after this, twice as long each time
_NEVER = 1 << 63


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


@dataclass
class _Look:
    """What has been seen since the last decision, over several passes where they are short."""

    spent: int = 0
    wait: int = 0
    tasks: int = 0
    cpu: int = 0
    busy: int = 0
    work: float = 0.0


class Tuner:
    """Changes ``workers``, the number of tasks of shared stages that run at a time; ``reasons`` say why.

    It begins with one for each core. Where the cores are not full although all are busy, tasks wait for something (a
    disk, a network, a lock): it tries twice as many, or fewer, in turns with what it has, and keeps them where the rate
    is better. A budget that is smaller than what the process has is never exceeded: it knows what a task needs of a
    core before it adds one. Where it has no more than that, the system sees to it, and a core that tasks leave idle is
    filled.
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

        It goes on where that of the pass ``before`` was, in the middle of a trial or of a look too: epochs may be
        shorter than one.
        """
        self._cpus, self._whole = budget.cpus, budget.whole
        self._waited_for_cores, self._seen_delay, self._delay = waited_for_cores, 0, 0.0
        self._frozen = frozen
        self.workers: int = plan.workers if plan is not None else budget.cpus
        self.reasons: list[str] = [
            f"{many(self.workers, 'thread')}, as " + ("planned" if frozen else "before")
            if plan
            else f"{many(self.workers, 'thread')}: one for each core"
        ]
        self.cores_used: float = 0.0
        self.counts_reading: bool = (
            False  # as one of the threads: with it, more cores than the budget's would compute
        )
        self.wait_ns: int = 0
        self.settled: bool = frozen
        self._due = 0  # the clock when a look is over
        self._since = self._seen_wait = 0
        self._before: list[tuple[int, ...]] = []
        self._seen = _Look()
        self._trial: Trial | None = None
        self._rates: list[float] = []  # of this number of threads, the latest looks
        # Whether more than a number was tried, or fewer, and is not to be again until when, and for how long.
        self._refused: dict[tuple[int, bool], tuple[int, int]] = {}
        self._weights: dict[int, float] = {}  # what an element of each stage is worth when work is compared
        if before is not None and not frozen:
            self.workers, self.reasons, self.settled = before.workers, list(before.reasons), before.settled
            self._trial, self._rates, self._refused = before._trial, before._rates, before._refused
            self._weights, self._seen = before._weights, before._seen
            self.counts_reading = before.counts_reading

    def plan(self) -> PipelinePlan:
        """What is known to be good: not what is only being tried."""
        return PipelinePlan(self.workers if self._trial is None else self._trial.before)

    def waited(self, start: int, end: int) -> None:
        """Notes when the consumer waited."""
        self.wait_ns += end - start

    def look(self, stages: Sequence[StageTimes], now: int) -> None:
        """Looks at how it goes, after each task; ``now``: the clock."""
        if now < self._due:
            return
        if self._frozen or not any(stage.shared for stage in stages):
            self._due = _NEVER
            return
        if self._due:
            self._see(stages, now)
            look = self._seen
            if look.tasks >= 2 * self.workers or look.spent >= _MOST_LOOK_NS:
                self._seen = _Look()
                self._judge(look, now)
        self._begin(stages, now)

    def end(self, stages: Sequence[StageTimes], now: int) -> None:
        """The pass has ended: what has been seen of it counts for the next one."""
        if 0 < self._due < _NEVER:
            self._see(stages, now)
        self._due = _NEVER

    def _begin(self, stages: Sequence[StageTimes], now: int) -> None:
        if not self._seen.spent:
            self._seen_delay = self._waited_for_cores()
        self._since, self._seen_wait = now, self.wait_ns
        self._due = now + max(_LEAST_LOOK_NS, _LOOK_NS - self._seen.spent)
        self._before = [(stage.tasks, stage.cpu_ns, stage.busy_ns, stage.elements) for stage in stages]

    def _see(self, stages: Sequence[StageTimes], now: int) -> None:
        look = self._seen
        for number, (stage, before) in enumerate(zip(stages, self._before, strict=True)):
            tasks, cpu, busy, elements = before
            if stage.reads and not self._whole:
                look.cpu += stage.cpu_ns - cpu
            if not stage.shared:
                continue
            if stage.elements and number not in self._weights:
                self._weights[number] = stage.busy_ns / stage.elements  # it stays what it was at first
            look.tasks += stage.tasks - tasks
            look.cpu += stage.cpu_ns - cpu
            look.busy += stage.busy_ns - busy
            look.work += (stage.elements - elements) * self._weights.get(number, 0.0)
        look.spent += now - self._since
        look.wait += self.wait_ns - self._seen_wait

    def _judge(self, look: _Look, now: int) -> None:
        self.cores_used = look.cpu / look.spent
        self._delay = max(0, self._waited_for_cores() - self._seen_delay) / look.spent
        rate, seen = look.work / look.spent, self.workers
        too_many = self.cores_used > 1.05 * self._cpus
        self.counts_reading = self.counts_reading or (too_many and not self._whole)
        if too_many and self.workers > self._cpus:
            self._change(max(self._cpus, int(self.workers * self._cpus / self.cores_used)))
            self.reasons.append(
                f"{many(self.workers, 'thread')}: more would use over {many(self._cpus, 'core')}"
            )
        elif self._trial is not None:
            self._go_on(self._trial, rate, now)
        else:
            self._rates = [*self._rates[1 - _KNOWN_LOOKS :], rate]
        if self.workers == seen and self._trial is None and look.wait > _STARVED * look.spent:
            self._try(self._other(look.busy / look.spent, now))
        self.settled = self._trial is None

    def _change(self, workers: int) -> None:
        self.workers, self._trial, self._rates = workers, None, []

    def _try(self, workers: int | None) -> None:
        if workers is None or not max(self._rates):
            return
        self._trial = Trial(self.workers, workers, self._rates)
        self.workers = workers

    def _go_on(self, trial: Trial, rate: float, now: int) -> None:
        kept = trial.note(rate)
        if kept is None:
            self.workers = trial.workers
            return
        growth, (rates_before, rates_tried) = trial.growth, trial.rates
        if kept:
            self._change(trial.tried)
            self._rates = rates_tried[-_KNOWN_LOOKS:]
            self.reasons.append(
                f"{many(trial.tried, 'thread')}: {growth:.2f} times the rate of {trial.before}"
            )
        else:
            self._change(trial.before)
            self._rates = rates_before[-_KNOWN_LOOKS:]
            self.reasons.append(
                f"{many(trial.before, 'thread')} again: with {trial.tried} the rate was "
                f"{growth:.2f} times theirs"
            )
        known = self.workers, (trial.tried > trial.before) is not kept
        _, wait = self._refused.get(known, (0, 0))
        wait = max(_AGAIN_NS, 2 * wait) if wait else _SOON_NS
        self._refused[known] = now + wait, wait

    def _other(self, busy: float, now: int) -> int | None:
        """Another number of threads that is worth a try; ``busy``: those that were, on average."""
        wanted = self.cores_used + self._delay  # or would be computed now if others did not take the cores
        full = max(self.cores_used, wanted if wanted > _COMPUTING * busy else 0.0) >= _CORES_FULL * self._cpus
        filling = self.workers * self._cpus / max(self.cores_used, 1e-3)
        fitting = math.ceil(filling) if self._whole else int(filling)
        more = min(2 * self.workers, _MOST_WORKERS, fitting)
        fewer = self.workers // 2 if self.workers <= self._cpus else max(self._cpus, self.workers // 2)
        numbers = [] if full or busy < _ALL_BUSY * self.workers else [more]
        if wanted <= 1.2 * fewer:  # else they could not do it
            numbers.append(fewer)
        for number in numbers:
            known = self.workers, number > self.workers
            if 1 <= number != self.workers and self._refused.get(known, (0, 0))[0] <= now:
                return number
        return None
