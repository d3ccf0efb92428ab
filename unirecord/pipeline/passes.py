"""The passes over one pipeline: where the latest stands, what has been found out, and the figures of all."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from ..loading.at_exit import closed_at_exit
from ..loading.delivered import Stage as BatchStage
from .assembly import Graph, graph_of, lanes_of
from .budget import Budget
from .chunk import Note, Place, inner_of, position_of
from .operators import Operator
from .origin import Lend, Origin, OriginPass, PassReceipts
from .pipeline_stats import PipelineStats, StatsOfPasses
from .resuming import extended, place_at, split_state
from .rewriting import Draft, rewritten
from .running import Running
from .slots import SlotMemory
from .steps import Named
from .straight import run_alone
from .tails import through
from .tuning import PipelinePlan, Tuner

__all__ = ["Design", "Passes"]

_LOG = logging.getLogger("unirecord")


@dataclass(frozen=True)
class Design:
    """What a pipeline is: ``operators`` over an origin, within a budget, rewritten by the ``rules`` of these names.

    ``tails`` come behind the operators; ``lend`` gives memory for batches that are read or written in place.
    """

    origin: Origin
    budget: Budget
    plan: PipelinePlan | None
    rules: tuple[str, ...]
    operators: tuple[Operator, ...] = ()
    tails: tuple[BatchStage, ...] = ()
    lend: Lend | None = None

    @property
    def draft(self) -> Draft:
        """As it was built."""
        return Draft(self.operators, self.origin.stored)

    @property
    def rewritten(self) -> Draft:
        """As it runs."""
        return rewritten(self.draft, self.rules)


class Passes:
    """All that changes while a pipeline is iterated; each iteration is a pass."""

    def __init__(self, design: Design) -> None:
        self._design = design
        self._at: tuple[OriginPass, Place] | None = None
        self._resumed: tuple[int, int, list[int]] | None = None
        self._receipts: PassReceipts | None = None
        self.figures: StatsOfPasses = StatsOfPasses()
        self._tuned: PipelinePlan | None = None
        self.tuner: Tuner | None = None
        self.memory: SlotMemory = SlotMemory(design.lend)

    def __getstate__(self) -> dict[str, Any]:
        """A copy stands where this stands, and has figures, threads and receipts of its own."""
        resumed = self._resumed
        if self._at is not None:
            at, place = self._at
            resumed = (at.epoch, position_of(place), list(inner_of(place))) if at.followed else None
        new = {"_at": None, "_resumed": resumed, "_receipts": None, "tuner": None}
        return {**self.__dict__, **new}

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands, by the results handed out."""
        if self._receipts is not None:
            self._receipts.sync()
        state = self._design.origin.state_dict()
        place: Place | None = None
        if self._at is not None and self._at[0].followed:
            place = self._at[1]
        elif self._resumed is not None and self._resumed[:2] == (state["epoch"], state["position"]):
            place = place_at(*self._resumed[1:])
        return extended(state, self._design.operators, place, self._design.origin.shard)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass go on where ``state`` was taken; ValueError when it is of other operators or ranks."""
        rest, inner = split_state(state, self._design.operators, self._design.origin.shard)
        self._design.origin.load_state_dict(rest)
        self._at = None
        self._resumed = (rest["epoch"], rest["position"], inner) if any(inner) else None

    def stats(self) -> PipelineStats:
        """The figures of all passes together."""
        return self.figures.summary(self._graph().names, self._design.budget.cpus)

    def plan(self) -> PipelinePlan:
        """The number of threads that has been chosen so far, and the stages that it is for."""
        names = tuple(name for name, _ in self._graph().names)
        known = self._design.plan or self._tuned
        return PipelinePlan(self._design.budget.cpus if known is None else known.workers, names)

    @closed_at_exit
    def begin(self) -> Generator[Any, None, None]:
        """A pass, which begins when the first result is asked for."""
        graph = self._graph()
        self._plan_for(graph)  # refuses before anything begins
        at = self._design.origin.begin()
        resumed, self._resumed = self._resumed, None
        inner = resumed[2] if resumed is not None and resumed[:2] == (at.epoch, at.start) else []
        while (place := (yield from self._run(graph, at, inner))) is not None:
            at, inner = at.going_on(position_of(place)), inner_of(place)

    def _run(self, graph: Graph, at: OriginPass, inner: Sequence[int]) -> Generator[Any, None, Place | None]:
        """A pass, or what is left of one; the place where it stands when rows are excluded, None when it is over."""
        stats, clock = self.figures, perf_counter_ns
        plan = self._plan_for(graph)
        self._receipts = receipts = at.receipts(graph)
        left_out: dict[int, str | None] = {}
        lanes = lanes_of(graph, at.names, at.start, inner, self.memory, at.worker_key, at.has_holes)
        lanes[0].processes, lanes[0].calls_user = at.processes, at.calls_user
        frozen = self._design.plan is not None
        self.tuner = tuner = Tuner(self._design.budget, plan, frozen=frozen, before=self.tuner)
        stats.begin(lanes, tuner)
        source = at.chunks(graph, self._design.budget, stats.part_times, self._design.lend)
        mark, asked = at.mark, clock()
        running: Any = run_alone(source, lanes[0])
        if len(lanes) > 1 or at.processes is not None:
            running = iter(Running(source, lanes, self._design.budget.memory, tuner))
        if self._design.tails:
            running = through(running, self._design.tails)
        with ExitStack() as open_pass:
            open_pass.callback(stats.end)
            open_pass.callback(lambda: tuner.end(lanes, clock()))
            for chunk in open_pass.enter_context(closing(running)):
                got = clock()
                stats.wait_ns += got - asked
                if chunk.notes:
                    filled = sum(note.kept for note in chunk.notes)
                    stats.filled += filled
                    stats.skipped += len(chunk.notes) - filled
                    _name_odd(at.names, chunk.notes)
                    left_out |= {note.row: note.why for note in chunk.notes if not note.kept}
                values, ends, rows, error = chunk.values, chunk.ends, chunk.rows, chunk.error
                del chunk
                stats.results += len(values)
                for number, end in enumerate(ends):
                    if receipts is not None:
                        receipts.result(position_of(end), rows[number], left_out)
                    mark(end if type(end) is int else position_of(end))
                    self._at = at, end
                    value, values[number] = values[number], None  # the user alone holds it
                    yield value
                    del value
                    if at.is_outdated:
                        stands: Place = end
                        return stands
                if error is not None:
                    raise error
                asked = clock()
                stats.consumer_ns += asked - got
                self._tuned = tuner.plan()
            if not graph.drop_last and not any(lane.dropped for lane in lanes):
                mark(at.end)
                self._at = None
            if receipts is not None:
                receipts.rest(at.end, left_out)
        return None

    def _graph(self) -> Graph:
        return graph_of(self._design.rewritten)

    def _plan_for(self, graph: Graph) -> PipelinePlan | None:
        given = self._design.plan
        if given is None:
            return self._tuned
        names = tuple(name for name, _ in graph.names)
        if given.stages and given.stages != names:
            raise ValueError(
                f"the plan was made for the stages {list(given.stages)}, and these are {list(names)}: make a new one"
            )
        return given


def _name_odd(names: Named, notes: Sequence[Note]) -> None:
    corrupt = [names.locate(note.row)[1] for note in notes if note.why is None]
    skipped, filled = (
        [f"{names.locate(row)[1]}: {why}" for row, why, kept in notes if why is not None and kept is stood_in]
        for stood_in in (False, True)
    )
    for said, done, what in (
        (corrupt, "left out", "corrupt row(s)"),
        (skipped, "left out", "sample(s)"),
        (filled, "filled in for", "sample(s)"),
    ):
        if said:
            _LOG.warning("%s %d %s: %s", done, len(said), what, ", ".join(said))
