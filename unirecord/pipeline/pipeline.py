"""Pipeline: operators behind each other, built left to right, iterated like a loader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter_ns
from typing import Any

from ..loading.loader import BatchTransform, TrackedBatch, check_callable, close_after, closed_at_exit, staged
from ..loading.loader import BatchTransform as BatchStage
from ..loading.stats import Recorder, Stats
from ..order.spec import check_integer
from ..sizes import many
from .budget import Budget
from .chunk import (
    Chunk,
    ElementPlace,
    Note,
    position_of,
)
from .graph import RULES, Draft, Graph, graph_of, rewritten, stage_queues_of
from .operators import (
    InPlace,
    Kind,
    Operator,
    Threads,
    check_columns,
    check_order,
    check_workers,
    function_name,
)
from .scheduler import Running
from .source import DatasetOrigin, Lend, Origin, OriginPass, ResultReceipts
from .stage import Named, SlotMemory
from .state import Standing, keeps_count, loaded
from .tuner import PipelinePlan, Tuner

__all__ = [
    "Design",
    "Passes",
    "Pipeline",
    "replayed",
    "through",
]


# What stands between the stages and the consumer, on its thread: copies to a device that are begun ahead.


def through(chunks: Iterator[Chunk], stages: Sequence[BatchTransform]) -> Iterator[Chunk]:
    """Chunks of one batch each, behind stages that take and give delivered batches."""
    trailing: list[Note] = []
    with ExitStack() as open_stages:
        open_stages.enter_context(close_after(chunks))
        for delivered in staged(_delivered(chunks, trailing), stages, open_stages):
            place, notes = delivered.end, delivered.left_out
            chunk = Chunk([delivered.batch], (place,), (place,), [delivered.rows], (), notes)  # type: ignore[arg-type]
            del delivered
            yield chunk
            del chunk
        if trailing:
            yield Chunk([], (), (), (), (), tuple(trailing))


def _delivered(chunks: Iterator[Chunk], trailing: list[Note]) -> Iterator[TrackedBatch[Any]]:
    """The elements of chunks with the places where they end; ``trailing`` has what was left out behind the last."""
    for chunk in chunks:
        trailing += chunk.notes
        values, ends, rows, error = chunk.values, chunk.ends, chunk.rows, chunk.error
        del chunk
        for number, end in enumerate(ends):
            notes: Any = tuple(trailing)
            trailing.clear()
            value, values[number] = values[number], None
            place: Any = end
            yield TrackedBatch(value, 0, place, notes, 1, 0, 0, rows[number])
            del value
        if error is not None:
            raise error


# The passes over one pipeline: where the latest stands, what has been found out, and the figures of all.


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
    batch_stages: tuple[BatchStage, ...] = ()
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
        # the latest pass, how it was begun, where it is, its results
        self._at: tuple[OriginPass, Standing, ElementPlace, int] | None = None
        self._resumed: tuple[int, Standing] | None = None  # the epoch of the next pass, and where it begins
        self._receipts: ResultReceipts | None = None
        self.recorder: Recorder = Recorder()
        self._tuned: PipelinePlan | None = None
        self.tuner: Tuner | None = None
        self.memory: SlotMemory = SlotMemory(design.lend)

    def __getstate__(self) -> dict[str, Any]:
        """A copy stands where this stands, and has figures, threads and receipts of its own."""
        resumed = self._resumed
        if self._at is not None:
            at = self._at[0]
            resumed = (at.epoch, self._standing(at.epoch, at.start)) if at.followed else None
        new = {"_at": None, "_resumed": resumed, "_receipts": None, "tuner": None}
        return {**self.__dict__, **new}

    def _standing(self, epoch: int, position: int) -> Standing:
        """How far the latest pass has come, or where the next begins, which the origin says to be there."""
        if self._at is not None and self._at[0].followed:
            _, begun, place, results = self._at
            return replace(begun, place=place, results=begun.results + results)
        if self._resumed is not None:
            resumed_epoch, standing = self._resumed
            if (resumed_epoch, position_of(standing.place)) == (epoch, position):
                return standing
        return Standing.at(position)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands, by the results handed out."""
        if self._receipts is not None:
            self._receipts.sync()
        origin = self._design.origin
        state = origin.state_dict()
        standing = self._standing(state["epoch"], state["position"])
        return standing.extend(state, self._design.operators, origin.shard)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Makes the next pass go on where ``state`` was taken; ValueError when it is of other operators or ranks."""
        origin = self._design.origin
        of_dataset, standing = loaded(state, self._design.operators, origin)
        if len(standing.rest.left) and getattr(origin, "writes_receipts", False):
            raise ValueError(
                "these ranks have come differently far, and receipts are of positions that all have come to: go on "
                "with as many ranks, each from its own state, or leave out receipts="
            )
        origin.load_state_dict(of_dataset)
        self._at, self._resumed = None, (of_dataset["epoch"], standing)

    def stats(self) -> Stats:
        """The figures of all passes together."""
        cpus, tuner = self._design.budget.cpus, self.tuner
        return self.recorder.of_pipeline(
            self._graph().names,
            cpus,
            self.memory.allocations,
            threads=cpus if tuner is None else tuner.workers,
            reasons=() if tuner is None else tuple(tuner.reasons),
            settled=tuner is not None and tuner.settled,
        )

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
        self._at = None
        standing = self._standing(at.epoch, at.start)
        self._resumed = None
        if len(standing.rest.left):
            at = at.over(standing.rest)
        while (stands := (yield from self._run(graph, at, standing))) is not None:
            standing = stands
            at = at.going_on(position_of(standing.place))

    def _run(self, graph: Graph, at: OriginPass, begun: Standing) -> Generator[Any, None, Standing | None]:
        """A pass, or what is left of one; how it stands when rows are excluded, None when it is over."""
        recorder, clock = self.recorder, perf_counter_ns
        plan = self._plan_for(graph)
        self._receipts = receipts = at.receipts(graph)
        left_out: dict[int, str | None] = {}
        bounds = at.bounds(graph)
        self._at = at, begun, begun.place, 0
        partly = begun.begun(self._design.origin.shard)
        stage_queues = stage_queues_of(graph, at.names, partly, self.memory, at.worker_key, bounds)
        stage_queues[0].processes, stage_queues[0].calls_user = at.processes, at.calls_user
        frozen = self._design.plan is not None
        self.tuner = tuner = Tuner(self._design.budget, plan, frozen=frozen, before=self.tuner)
        source = at.chunks(graph, self._design.budget, recorder.part_times, self._design.lend)
        mark, asked, results = at.mark, clock(), 0
        running: Any = iter(Running(source, stage_queues, self._design.budget.memory, tuner, recorder))
        if self._design.batch_stages:
            running = through(running, self._design.batch_stages)
        with closing(running):
            for chunk in running:
                got = clock()
                recorder.waited(got - asked)
                filled = sum(note.kept for note in chunk.notes)
                recorder.delivered(
                    len(chunk), _samples(chunk.rows), chunk.size, len(chunk.notes) - filled, filled
                )
                if chunk.notes:
                    _name_odd(at.names, chunk.notes)
                    left_out |= {note.row: note.why for note in chunk.notes if not note.kept}
                    if bounds is None and any(_moves_others(note, graph) for note in chunk.notes):
                        begun = replace(begun, uneven=True)
                values, ends, rows, error = chunk.values, chunk.ends, chunk.rows, chunk.error
                del chunk
                for number, end in enumerate(ends):
                    if receipts is not None:
                        receipts.result(position_of(end), rows[number], left_out)
                    mark(end if type(end) is int else position_of(end))
                    results += 1
                    self._at = at, begun, end, results
                    value, values[number] = values[number], None  # the user alone holds it
                    yield value
                    del value
                    if at.is_outdated:
                        return replace(begun, place=end, results=begun.results + results)
                if error is not None:
                    raise error
                asked = clock()
                recorder.consumed(asked - got)
                self._tuned = tuner.plan()
            end = at.end(graph)
            if bounds is not None or not any(stage_queue.dropped for stage_queue in stage_queues):
                mark(end)
                self._at = at, begun, end, results
            if receipts is not None:
                receipts.rest(end, left_out)
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


def _samples(rows: Sequence[Any]) -> int:
    """How many rows results are of; of a batch they are listed."""
    if not rows or not isinstance(rows[0], Sized):
        return len(rows)
    return sum(map(len, rows))


def _moves_others(note: Note, graph: Graph) -> bool:
    """Whether later samples take the place of a row left out; of corrupt rows of batches that are read none do."""
    return not note.kept and not (note.why is None and graph.batch)


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


# One result of a pipeline again, with its random numbers: found by its position, or counted from the front.


def replayed(design: Design, step: int, epoch: int | None, start: int) -> Any:
    """The result of a step of an epoch that was taken up at ``start``; IndexError where there is none."""
    origin = design.origin
    if not isinstance(origin, DatasetOrigin):
        raise ValueError("generators make the elements of this pipeline: only they could give them again")
    check_integer("step", step, 0)
    sizes = [operator for operator in design.operators if operator.kind == "batch"]
    size, drop_last = (sizes[0].size, sizes[0].drop_last) if sizes else (1, False)
    by_position = keeps_count(design.operators) and not origin.skips
    if epoch is None and not keeps_count(design.operators):
        raise ValueError(
            "how many steps an epoch has is not known here, so give the epoch in which steps count"
        )
    steps = origin.steps(start, size, drop_last)
    epoch, step = steps.located(step, epoch)
    front, skipped = start, step
    if by_position:
        stride = origin.shard[1]
        if not 0 <= step < len(steps) or not len(steps.unwrapped(step, origin.shard[0])):
            raise IndexError(f"rank {origin.shard[0]} has no step {step} in epoch {epoch}")
        if not origin.gives(step, epoch, steps, bool(sizes)):
            raise IndexError(f"step {step} of epoch {epoch} has been left out")
        front, skipped = start + step * size * stride, 0
    again = Passes(replace(design, origin=origin.standing_at(epoch, front)))
    with closing(again.begin()) as results:
        for result in islice(results, skipped, None):
            return result
    raise IndexError(f"rank {origin.shard[0]} has no step {step} in epoch {epoch}")


class Pipeline:
    """Operators over the samples of a dataset's shard; ``UniRecordDataset.pipeline`` makes one (docs/pipeline.md).

    Each method gives a new pipeline with one more operator; the pipeline itself stays as it is. Each iteration is one
    epoch, and the next one the next epoch. Results come in the order of the samples, whatever runs in parallel.
    Nothing begins before the first result is asked for; leaving an iteration early, or dropping it, ends its threads
    and processes.
    """

    def __init__(
        self,
        origin: Origin,
        budget: Budget,
        plan: PipelinePlan | None = None,
        rules: Collection[str] = tuple(RULES),
    ) -> None:
        """Over an origin, without an operator yet; ``rules`` are the names of those that rewrite it."""
        if plan is not None and not isinstance(plan, PipelinePlan):
            raise TypeError(f"plan must be what plan() of a pipeline has given, got {plan!r:.100}")
        self._is(Design(origin, budget, plan, tuple(rules)), origin.columns)

    def _is(self, design: Design, columns: tuple[str, ...] | None) -> None:
        self._design = design
        self._columns = columns  # of its samples, where they are known
        self._passes = Passes(design)

    @classmethod
    def from_generators(
        cls,
        makes: Sequence[Callable[[], Iterable[Any]]],
        *,
        processes: int = 0,
        ordered: bool = True,
        prefetch: int = 2,
        seed: int = 0,
        cpus: int | None = None,
        memory: int | str | None = None,
    ) -> Pipeline:
        """A pipeline of what generators make, each anew for every iteration.

        Args:
            makes: functions without arguments that give iterables, for example generator functions.
            processes: 0, or one for each of ``makes``: it then runs in a process of its own, and its arrays come
                through shared memory that is used again, without being pickled.
            ordered: one element of each in turn, until all have ended; else as they come, without states.
            prefetch: elements that each process makes before they are asked for; fewer where they take more than a
                quarter of ``memory``, all processes together, but each one.
            seed: for operators with ``random=True``, which are keyed by the element's number.
            cpus, memory: as for ``UniRecordDataset.pipeline``.
        """
        from .producers import GeneratorOrigin

        makes = tuple(makes)
        if not makes or not all(callable(make) for make in makes):
            raise TypeError(f"makes must be a list of functions that give iterables, got {makes!r:.100}")
        if check_integer("processes", processes, 0) not in (0, len(makes)):
            raise ValueError(
                f"processes is 0, or one for each of the {many(len(makes), 'generator')}; got {processes}"
            )
        if not isinstance(ordered, bool):
            raise TypeError(f"ordered must be True or False, got {ordered!r}")
        ahead, seed = check_integer("prefetch", prefetch, 1), check_integer("seed", seed, 0, (1 << 64) - 1)
        budget = Budget.of(cpus, memory)
        return cls(GeneratorOrigin(makes, processes > 0, ordered, ahead, budget.memory // 4, seed), budget)

    # ---- operators ---------------------------------------------------------------------------------------

    def map(
        self,
        fn: Callable[..., Any] | InPlace,
        *,
        columns: Sequence[str] | None = None,
        threads: Threads = "auto",
        processes: int = 0,
        random: bool = False,
        vectorised: bool = False,
    ) -> Pipeline:
        """What ``fn`` makes of each sample.

        Args:
            fn: called with the sample, a dict; or an operator that writes in place, such as ``images.Decode``.
            columns: ``fn`` gets the values of these instead, and returns what stands in their place: one value, or a
                tuple of as many as there are columns. The other columns stay as they are.
            threads: how many threads call it at a time; "auto" shares the cores with the other operators.
            processes: so many processes call it instead, for functions that hold the GIL.
            random: ``fn`` gets a ``numpy.random.Generator`` as its last argument, keyed by seed, epoch, row and
                operator: the same for a sample on any number of threads, processes or ranks, and after any resume. Each
                draw of a row that may come again in an epoch has one of its own.
            vectorised: ``fn`` does with arrays [n, …] what it does with single values, so that it may be called with
                whole columns of a batch.
        """
        check_callable("fn", getattr(fn, "into", fn), needed=True)
        return self._with("map", fn, columns, threads, processes, random, vectorised=vectorised)

    def filter(
        self,
        keep: Callable[..., Any] | str,
        *,
        columns: Sequence[str] | None = None,
        threads: Threads = "auto",
        processes: int = 0,
        random: bool = False,
    ) -> Pipeline:
        """Only those samples for which ``keep`` says so: a function, or a condition on stored scalar columns.

        A condition (docs/query.md) is a text such as ``"label < 10"``; it is met or not by the row that a sample
        comes from, whatever operators have made of it. ``columns``, ``threads``, ``processes`` and ``random`` are for
        functions, as for ``map``.
        """
        if isinstance(keep, str):
            if columns is not None or random or processes or threads != "auto":
                raise ValueError(
                    "a condition is looked up in the index: it has no columns=, threads=, processes=, random="
                )
            return self._behind(Operator("where", "filter", condition=self._design.origin.condition(keep)))
        check_callable("keep", keep, needed=True)
        return self._with("filter", keep, columns, threads, processes, random)

    def flat_map(
        self,
        fn: Callable[..., Any],
        *,
        threads: Threads = "auto",
        processes: int = 0,
        random: bool = False,
    ) -> Pipeline:
        """All samples of the iterables that ``fn`` makes, one of each sample.

        ``threads``, ``processes`` and ``random`` are as for ``map``. A generator of a sample that is one of several is
        keyed by its number as well.
        """
        check_callable("fn", fn, needed=True)
        return self._with("flat_map", fn, None, threads, processes, random)

    def select(self, columns: Sequence[str]) -> Pipeline:
        """Samples with these columns alone, in this order."""
        chosen = check_columns(columns, self._columns, "select")
        return self._behind(Operator("select", "select", columns=chosen), chosen)

    def batch(
        self, size: int, *, drop_last: bool = False, collate_fn: Callable[[list[Any]], Any] | None = None
    ) -> Pipeline:
        """Batches of ``size`` samples.

        Samples as they are stored become what ``UniRecordDataset.batches`` gives. Others are put together field by
        field: arrays and numbers are stacked, all else becomes lists.

        Args:
            size: samples in a batch.
            drop_last: leave out a last batch that is smaller.
            collate_fn: makes a batch of a list of samples instead.
        """
        size = check_integer("size", size, 1)
        check_callable("collate_fn", collate_fn)
        if not isinstance(drop_last, bool):
            raise TypeError(f"drop_last must be True or False, got {drop_last!r}")
        gathered = collate_fn is None and all(
            operator.kind == "prefetch" for operator in self._design.operators
        )
        operator = Operator("batch", "batch", collate_fn, size=size, drop_last=drop_last, gathered=gathered)
        return self._behind(operator, self._columns if collate_fn is None else None)

    def unbatch(self) -> Pipeline:
        """The samples of each batch again."""
        return self._behind(Operator("unbatch", "unbatch"))

    def map_batch(
        self,
        fn: Callable[..., Any],
        *,
        columns: Sequence[str] | None = None,
        threads: Threads = "auto",
        processes: int = 0,
        random: bool = False,
    ) -> Pipeline:
        """What ``fn`` makes of each batch, or of columns of it.

        ``columns``, ``threads``, ``processes`` and ``random`` are as for ``map``; the generator is that of the batch's
        first sample.
        """
        check_callable("fn", fn, needed=True)
        return self._with("map_batch", fn, columns, threads, processes, random)

    def prefetch(self, count: int) -> Pipeline:
        """Keeps at most ``count`` results of the operators before ready; by default as many as are useful."""
        return self._behind(Operator("prefetch", "prefetch", size=check_integer("count", count, 1)))

    def to_torch(self, device: Any = None, *, pin_memory: bool = False) -> Pipeline:
        """Batches with tensors in place of arrays, the last operator; they share memory where they can.

        Args:
            device: where the tensors are to be; to a CUDA device they are copied from pinned memory on a stream of
                their own, beside the step.
            pin_memory: let tensors lie in pinned memory; nothing where there is no CUDA device.
        """
        from ..frameworks.torch import on_the_way

        way = on_the_way(device, pin_memory, self._bfloat16)

        def to_torch(batch: Any) -> Any:
            return way.change(batch)

        other = self._behind(Operator("device", "to_torch", to_torch))
        other._is(replace(other._design, batch_stages=way.stages, lend=way.memory), other._columns)
        return other

    def to_jax(self, device: Any = None) -> Pipeline:
        """Batches with JAX arrays in place of numeric arrays, on ``device`` or JAX's own choice; the last operator.

        int64 that does not fit int32 is refused where JAX's 64-bit numbers are off.
        """
        from ..frameworks.jax import to_arrays

        bfloat16 = self._bfloat16

        def to_jax(batch: Any) -> Any:
            return to_arrays(batch, device, bfloat16)

        return self._behind(Operator("device", "to_jax", to_jax))

    @property
    def _bfloat16(self) -> frozenset[str]:
        return frozenset(column.name for column in self._design.origin.stored if column.type == "bfloat16")

    def apply(self, build: Callable[[Pipeline], Pipeline]) -> Pipeline:
        """What ``build`` makes of this pipeline: for operators that belong together."""
        built = build(self)
        if not isinstance(built, Pipeline):
            raise TypeError(
                f"apply() takes a function from a pipeline to a pipeline; it returned {built!r:.100}"
            )
        return built

    def _with(
        self,
        kind: Kind,
        fn: Any,
        columns: Sequence[str] | None,
        threads: Threads,
        processes: int,
        random: bool,
        vectorised: bool = False,
    ) -> Pipeline:
        name = function_name(fn)
        chosen = check_columns(columns, self._columns, name)
        for flag, given in (("random", random), ("vectorised", vectorised)):
            if not isinstance(given, bool):
                raise TypeError(f"{flag} must be True or False, got {given!r}")
        threads, processes = check_workers(threads, processes)
        if isinstance(fn, InPlace) and kind == "map":
            if chosen is None or len(chosen) != 1:
                raise ValueError(f"{name} works on one column: map({name}, columns=[...])")
            random = bool(fn.random)
        if vectorised and (random or chosen is None):
            raise ValueError(
                "vectorised=True needs columns=[...], and cannot be random: one call is for many samples"
            )
        ordinal = 1 + sum(operator.random > 0 for operator in self._design.operators) if random else 0
        operator = Operator(kind, name, fn, chosen, threads, processes, ordinal, vectorised)
        keeps_columns = kind == "filter" or chosen is not None
        return self._behind(operator, self._columns if keeps_columns else None)

    def _behind(self, operator: Operator, columns: tuple[str, ...] | None = None) -> Pipeline:
        check_order(self._design.operators, operator)
        if not operator.keeps_count and getattr(self._design.origin, "writes_receipts", False):
            raise ValueError(
                f"{operator} decides how many samples there are, and receipts are of positions: choose rows with "
                "where= before the pipeline is made, or leave out receipts="
            )
        if operator.kind in ("where", "unbatch", "prefetch"):
            columns = self._columns
        other: Pipeline = object.__new__(type(self))
        other._is(replace(self._design, operators=(*self._design.operators, operator)), columns)
        return other

    # ---- a loader ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Results of the next iteration; TypeError where it is not known, as behind a filter."""
        samples = self._design.origin.samples_left()
        if samples is None:
            raise TypeError("the length is not known: generators do not say how much they make")
        count, size, dropping, unbatched = samples, 0, False, False
        for operator in self._design.operators:
            if operator.kind == "batch":
                size, dropping = operator.size, operator.drop_last
            elif operator.kind == "unbatch" and size:
                count, size, unbatched = (count // size * size if dropping else count), 0, True
            elif not operator.keeps_count:
                raise TypeError(f"the length is not known: {operator} decides how many samples there are")
        if not size:
            return count
        known = None if unbatched else self._design.origin.batches_left(size, dropping)
        if known is not None:
            return known
        return count // size if dropping else -(-count // size)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration that of ``epoch``."""
        self._design.origin.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands, by the results handed out; what has been made ahead is not counted."""
        return self._passes.state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Makes the next iteration go on where ``state`` was taken, on any number of threads and processes.

        Where each sample gives one result, or conditions alone leave samples out, also on any number of ranks. Where
        functions leave samples out or make several of one, ranks come differently far: each goes on from its own state,
        or any number of ranks from the states of all.

        Args:
            state: what ``state_dict()`` has given; or a list of what it has given on each rank, in their order, all
                within one epoch: every rank is then given the same list.

        Raises:
            StaleError: the state is of other data.
            ValueError: it is of other options or operators, or does not say how far all ranks have come.
        """
        self._passes.load_state_dict(state)

    def replay(self, step: int, *, epoch: int | None = None, start: int = 0) -> Any:
        """The result of a step again, as this rank's iteration gives it, with the same random numbers; nothing moves.

        A step is a result: what the last operator hands out. Where each sample gives one, or a batch of so many, only
        its samples are read. Behind ``filter``, ``flat_map`` and ``unbatch``, or with ``on_corrupt="skip"``, the pass
        is run from its beginning up to there, so that results are counted as they came. (What an operator leaves out by
        ``SkipSample`` is seen then, and not where only the step's samples are read.)

        Args:
            step: counted from 0 in ``epoch``; without an epoch, over all epochs, where each sample gives one result.
            epoch: which epoch.
            start: the position at which the epoch was taken up, with ``epoch``.

        Raises:
            IndexError: this rank has no such step.
            ValueError: generators make the elements, or an epoch is needed.
        """

        return replayed(self._design, step, epoch, start)

    def stats(self) -> Stats:
        """Rates and times of each stage since the pipeline was made, what sets the pace, and what was chosen."""
        return self._passes.stats()

    def plan(self) -> PipelinePlan:
        """What has been chosen so far, for ``ds.pipeline(plan=...)``: nothing is then tried out."""
        return self._passes.plan()

    def __repr__(self) -> str:
        steps = " → ".join(line.strip() for line in str(self._design.draft).splitlines())
        return f"{type(self).__name__}({steps})"

    def __str__(self) -> str:
        before, after = self._design.draft, self._design.rewritten
        return f"{before}\n\nas it runs:\n{after}" if after != before else str(before)

    def __iter__(self) -> Generator[Any, None, None]:
        return self._passes.begin()
