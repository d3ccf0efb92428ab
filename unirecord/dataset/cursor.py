"""A plan and the position in it, which a dataset and its loaders share; its state; a pass of a batch sampler."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from ..errors import StaleError
from ..loading.plan import Plan
from ..order.exclusion import ExclusionMask, Exclusions
from ..order.permutation import EpochRun
from ..order.sampling import SampledOrder
from ..order.spec import REMAINDERS, JobSteps, OrderSpec, check_integer, launched_ranks
from ..sizes import many
from .position import Position
from .row_numbers import exclusion, exclusions_of, moved

__all__ = [
    "Cursor",
    "OPTIONAL",
    "ResumeState",
    "SampledCursor",
    "warn_of_ranks",
]


# Where a job stands in an epoch, as a small JSON-able dict that is refused where it does not belong.


VERSION = 1

_STRINGS = ("identity", "selection", "shuffle", "remainder")
# (what a state says of a draw, epoch, position) → what it and the draw here differ in before that; None: nothing.
DrawnDifference = Callable[[dict[str, Any] | None, int, int], "tuple[Any, Any] | None"]
OPTIONAL = ("drawn", "excluded")
# A place in the epoch and what has happened by then, not a condition that must hold for it.
_PLACE = ("epoch", "position", "excluded")


@dataclass(frozen=True)
class ResumeState:
    """All that has to be equal for a position to mean the same samples, and the position.

    ``position`` counts the samples that all ranks together have delivered in ``epoch``: samples of one rank
    times ranks. It says nothing of how many ranks there were, so any number of them can go on from it. ``excluded`` are
    the rows that have been left out on purpose, and since when.
    """

    identity: str
    rows: int
    where: str | None
    selection: str
    seed: int
    shuffle: str
    block_rows: int
    window_blocks: int
    remainder: str
    epoch: int
    position: int
    drawn: dict[str, Any] | None = None
    excluded: list[dict[str, Any]] | None = None

    @classmethod
    def of(
        cls,
        spec: OrderSpec,
        *,
        identity: str,
        rows: int,
        where: str | None,
        selection: str,
        remainder: str,
        position: int,
        drawn: dict[str, Any] | None = None,
        excluded: list[dict[str, Any]] | None = None,
    ) -> ResumeState:
        """The state of an order at a position. Block sizes only count where they decide the order."""
        block = spec.mode == "block"
        return cls(
            identity=identity,
            rows=rows,
            where=where,
            selection=selection,
            seed=spec.seed,
            shuffle=spec.mode,
            block_rows=spec.block_rows if block else 1,
            window_blocks=spec.window_blocks if block else 1,
            remainder=remainder,
            epoch=spec.epoch,
            position=position,
            drawn=drawn,
            excluded=excluded,
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values alone: any JSON library can write it."""
        values = {"version": VERSION, **asdict(self)}
        for name in OPTIONAL:
            if values[name] is None:
                del values[name]
        return values

    @classmethod
    def from_dict(cls, state: object) -> ResumeState:
        """A state from ``to_dict``, perhaps through a file; ``ValueError`` says which field is wrong."""
        if not isinstance(state, Mapping):
            raise ValueError(f"a state is a dict from state_dict(), not {type(state).__name__}")
        if state.get("version") != VERSION:
            raise ValueError(
                f"the state has version {state.get('version')!r}; this unirecord reads version {VERSION}"
            )
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in state and name not in OPTIONAL]
        unknown = sorted(str(name) for name in state if name not in names and name != "version")
        if unknown == ["pipeline"]:
            raise ValueError(
                "the state is of a pipeline that has left samples out, or made several of one, so that its ranks have "
                "come differently far: load it into such a pipeline"
            )
        if missing or unknown:
            raise ValueError(
                f"the state does not come from state_dict(): missing {missing}, unknown {unknown}"
            )
        values: dict[str, Any] = {name: state.get(name) for name in names}
        _check_values(values)
        return cls(**values)

    def check(
        self,
        expected: ResumeState,
        drawn_difference: DrawnDifference | None = None,
        version_with: Callable[[str, str], str | None] | None = None,
    ) -> None:
        """Refuses the state unless it was made with the dataset and the options that ``expected`` describes.

        ``StaleError`` when the data are other data, ``ValueError`` when only options differ; both name every
        field that differs, with both values. The epoch and the position are free. ``drawn_difference`` says what the
        rules of draws differ in as far as the position; ``version_with`` the path of the version that has an
        identity in an order of some kind.
        """
        pairs = {
            name: (getattr(self, name), getattr(expected, name))
            for name in (field.name for field in fields(self))
            if name not in _PLACE and getattr(self, name) != getattr(expected, name)
        }
        # The condition says how the rows were found; which they are, the digest of the selection says.
        if "selection" not in pairs:
            pairs.pop("where", None)
        if drawn_difference is not None:
            drawn = drawn_difference(self.drawn, self.epoch, self.position)
            pairs = (
                {**pairs, "drawn": drawn} if drawn else {n: pair for n, pair in pairs.items() if n != "drawn"}
            )
        differing = [f"{name} is {old!r} in the state and {new!r} here" for name, (old, new) in pairs.items()]
        if not differing:
            return
        text = "; ".join(differing)
        for one, other, way in (
            (
                self,
                expected,
                "it is of windows or packed samples, and this has the rows that they are cut from",
            ),
            (
                expected,
                self,
                "it is of rows, and this has windows or packed samples that are cut from them",
            ),
        ):
            if one.identity.startswith(f"{other.identity}/"):
                rule = one.identity.rpartition("/")[2]
                raise StaleError(
                    f"the state belongs to another dataset: {way} ({rule}); load it into what state_dict() was "
                    "called of; `unirecord trace` knows rows alone"
                )
        if self.identity != expected.identity:
            version = None if version_with is None else version_with(self.identity, self.shuffle)
            raise StaleError(
                f"the state belongs to another dataset, or to this one before it changed: {text}"
                + (
                    ""
                    if version is None
                    else f"; open {version}, which it was taken of, to go on with its epoch"
                )
            )
        raise ValueError(
            f"the state was saved with other options: {text}. "
            "Open the dataset as it was opened then, or start the epoch anew"
        )


def _check_values(values: Mapping[str, object]) -> None:
    for name in _STRINGS:
        if not isinstance(values[name], str):
            raise ValueError(f"the state's {name} is {values[name]!r}; it must be a string")
    if values["where"] is not None and not isinstance(values["where"], str):
        raise ValueError(f"the state's where is {values['where']!r}; it must be a string or None")
    if values["drawn"] is not None and not isinstance(values["drawn"], dict):
        raise ValueError(f"the state's drawn is {values['drawn']!r}; it must be a dict or None")
    if values["excluded"] is not None and not isinstance(values["excluded"], list):
        raise ValueError(f"the state's excluded is {values['excluded']!r}; it must be a list or None")
    if values["remainder"] not in REMAINDERS:
        raise ValueError(
            f"the state's remainder is {values['remainder']!r}; it must be one of {', '.join(REMAINDERS)}"
        )
    for name, least, most in (
        ("rows", 0, 1 << 62),
        ("seed", 0, (1 << 64) - 1),
        ("block_rows", 1, 1 << 62),
        ("window_blocks", 1, 1 << 62),
        ("epoch", 0, (1 << 63) - 1),
        ("position", 0, 1 << 63),
    ):
        if isinstance(values[name], bool) or not isinstance(values[name], int):
            raise ValueError(f"the state's {name} is {values[name]!r}; it must be an integer")
        check_integer(f"the state's {name}", values[name], least, most)


# A plan and the position in it, which a dataset and its loaders share; and a pass of another's batch
# sampler.


# A plan and the position in it: what a dataset and all loaders made from it share.


_told_of_ranks = False


def warn_of_ranks() -> None:
    """Warns, once in a process, where it is one of several that each read all rows, and nobody has asked for that."""
    global _told_of_ranks
    rank, ranks = launched_ranks()
    if ranks > 1 and not _told_of_ranks:
        _told_of_ranks = True
        warnings.warn(
            f"this process has rank {rank} of {ranks}, and reads all rows of a dataset that was opened without shards, "
            "as each of them does: UniRecordDataset.distributed(path) gives each rank its share; shard_id=0, "
            "num_shards=1 says that each is to have all rows",
            UserWarning,
            stacklevel=5,
        )


class Cursor:
    """``plan`` is replaced by ``refresh`` alone, ``position`` moves, and ``exclusions`` grow: rows left out by now."""

    def __init__(
        self, plan: Plan, position: Position, exclusions: Exclusions | None = None, shared: bool = True
    ) -> None:
        """``shared``: whether somebody has said which rows this process gets; else each process has all of them."""
        self.plan = plan
        self.shared = shared
        self.position = position
        self.exclusions: Exclusions = Exclusions() if exclusions is None else exclusions

    def begin(self, plan: Plan) -> EpochRun:
        """Starts a pass: over the current epoch if none has been started in it, else over the next.

        ``plan`` is what the caller reads: another thread may put another in its place meanwhile.
        """
        plan.data.parts.check_open()
        if not self.shared:
            warn_of_ranks()
        return self.position.begin(plan.order)

    def standing_at(self, epoch: int, position: int) -> Cursor:
        """The same plan and exclusions, of which the next pass begins at a place."""
        return Cursor(self.plan, Position(epoch, position), self.exclusions)

    def steps(self, start: int, batch_size: int, drop_last: bool) -> JobSteps:
        """The steps of a pass from a position on, of batches of this size."""
        return JobSteps(self.plan.order.sharding.resumed(start), batch_size, drop_last)

    def exclusion_mask(self, epoch: int, steps: JobSteps | None = None) -> ExclusionMask:
        """Which rows come in a pass, and in which slots none does."""
        return ExclusionMask(self.exclusions, self.plan.order, epoch, steps)

    def exclude(self, named: Mapping[str, Any], fill: bool) -> int:
        """Leaves rows out from where the latest pass stands on; how many there are.

        ValueError where batches are drawn, where a DataLoader counts, or where nothing would be left.
        """
        if self.plan.order.batched:
            raise ValueError(
                "exclude: these batches have been drawn, and each row has its place in them: leave rows out of the "
                "dataset with where= or select(), and draw anew"
            )
        if not isinstance(fill, bool):
            raise TypeError(f"fill must be True or False, got {fill!r}")
        new = exclusion(self.plan, named, self.position.place(), fill)
        exclusions = Exclusions((*self.exclusions.entries, new))
        selection = self.plan.order.selection
        kept = len(selection)
        for _, rows in selection.pieces() if kept else ():
            out, _ = exclusions.skipped((1 << 63) - 1, rows, rows)
            if not out.all():
                break
        else:
            raise ValueError("exclude: no row would be left")
        self.exclusions = exclusions
        return len(new.rows)

    def samples_left(self) -> int:
        """How many samples the next pass will deliver."""
        return self.plan.order.samples_from(self.position.next_start)

    def skipped_left(self) -> int:
        """How many of them have been left out, with no others in their place."""
        if not self.exclusions:
            return 0
        epoch, start = self.position.next_pass
        return self.exclusion_mask(epoch, self.steps(start, 1, False)).open_slots()

    def batches_left(self, size: int, drop_last: bool) -> int:
        """How many batches of ``size`` samples the next pass will deliver."""
        return self._batches(*self.position.next_pass, size, drop_last)

    def batches_of_epoch(self, size: int, drop_last: bool) -> int:
        """The same, were its epoch not taken up behind its front."""
        return self._batches(self.position.next_pass[0], 0, size, drop_last)

    def _batches(self, epoch: int, start: int, size: int, drop_last: bool) -> int:
        samples = self.plan.order.samples_from(start)
        if self.plan.order.batched:
            return samples  # they are batches
        batches = samples // size if drop_last else -(-samples // size)
        if self.exclusions:
            exclusion_mask = self.exclusion_mask(epoch, self.steps(start, size, drop_last))
            batches -= int(np.searchsorted(exclusion_mask.empty_steps(), batches))
        return batches

    def check_repeatable(self) -> None:
        """Raises ValueError where the batches of a step cannot be given again."""

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands, as plain values."""
        return self.state_at(*self.position.place())

    def state_at(self, epoch: int, position: int) -> dict[str, Any]:
        """The state of a pass that stands at a position of an epoch."""
        return self._state(epoch, position, self.exclusions).to_dict()

    def state_at_front(self) -> dict[str, Any]:
        """The state of epoch 0 before its first sample: what of a state is not a place."""
        return self._state(0, 0).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass go on where ``state`` was taken."""
        loaded = ResumeState.from_dict(state)
        loaded.check(self._state(0, 0), self.plan.order.drawn_difference, self.plan.version_with)
        exclusions = exclusions_of(self.plan, loaded.excluded)
        if exclusions and self.plan.order.batched:
            raise ValueError(
                "the state's excluded are rows, and these batches have been drawn with all of them"
            )
        known = [entry.to_dict() for entry in exclusions.entries]
        undone = [entry for entry in self.exclusions.entries if entry.to_dict() not in known]
        if undone:
            rows = sum(len(entry.rows) for entry in undone)
            warnings.warn(
                f"a state has been loaded that does not know of {rows:,} row(s) which have been excluded here: they "
                "come again; load the state first, and exclude then",
                UserWarning,
                stacklevel=3,
            )
        self.position.resume(loaded.epoch, loaded.position)
        self.exclusions = exclusions

    def over(self, plan: Plan) -> Cursor:
        """Another plan, in the same epoch; a position that a loaded state has set is kept where it means the same.

        ValueError where it does not: its samples would be others.
        """
        epoch, start = self.position.epoch, self.position.next_start
        other = Cursor(plan, Position(epoch, start), shared=self.shared)
        if start and other._state(0, 0) != self._state(0, 0):
            raise ValueError(
                "a state has been loaded, and its position counts the samples of this dataset: select, split or view "
                "first, and load the state into the dataset that is iterated"
            )
        if self.exclusions:
            same = other._state(0, 0) == self._state(0, 0)
            other.exclusions = self.exclusions if same else moved(plan, self.exclusions, everywhere=True)
        return other

    def refreshed(self, plan: Plan) -> Exclusions:
        """What has been left out, for a plan over data that have grown."""
        return moved(plan, self.exclusions, everywhere=False) if self.exclusions else self.exclusions

    def refuse_exclusions(self, made: str) -> None:
        """ValueError where rows have been left out, which ``made`` would not know."""
        if self.exclusions:
            raise ValueError(
                f"rows have been excluded here, and {made} would have them again: leave them out with where= or "
                "select() first"
            )

    def refuse_later_exclusions(self, given: Cursor, made: str) -> None:
        """ValueError where other rows have been left out of ``given`` since ``made`` has taken this cursor of it."""
        mine, others = self.exclusions, given.exclusions
        if mine is not others and [e.to_dict() for e in mine.entries] != [
            e.to_dict() for e in others.entries
        ]:
            raise ValueError(
                f"rows have been excluded from the dataset since {made} was made of it, which would not know: make it "
                "anew"
            )

    def refuse_skipped_slots(self, who: str) -> None:
        """ValueError where rows have been left out and no others are in their place."""
        if not all(entry.fill for entry in self.exclusions.entries):
            raise ValueError(
                f"rows have been excluded, so that batches are smaller and perhaps fewer, and {who} counts on all of "
                "them: use exclude(..., fill=True), which puts other rows in their place, or ds.batches()"
            )

    def _state(self, epoch: int, position: int, exclusions: Exclusions | None = None) -> ResumeState:
        order, snapshot = self.plan.order, self.plan.data.snapshot
        return ResumeState.of(
            order.spec.at_epoch(epoch),
            identity=self.plan.identity,
            rows=snapshot.rows,
            where=self.plan.condition,
            selection=order.selection.digest(),
            remainder=order.sharding.remainder,
            position=position,
            drawn=order.drawn_state(),
            excluded=[entry.to_dict() for entry in exclusions.entries] if exclusions else None,
        )


# A pass in batches of somebody else's sampler: its epochs, and states that are proven when they are gone on
# from.


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
