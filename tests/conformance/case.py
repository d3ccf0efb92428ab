"""One random configuration, drawn from its number: how a dataset is opened and read, stopped and resumed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance import views
from conformance.consumers import CONSUMERS, Consumer, Options
from conformance.records import Written
from conformance.views import View

CASES_A_DATASET = 25
TRANSFORMS = ("dataset_transform", "transform")
MOVES = ("pickled", "copied")


@dataclass(frozen=True)
class Pass:
    """One pass: the epoch that is set before it, whether an iterator is made and dropped first, where it is left."""

    set_epoch: int | None = None
    dropped: bool = False
    stop: float | None = None  # as a fraction of the batches
    disturbed: str | None = None  # what happens to the dataset in the middle


@dataclass(frozen=True)
class Resume:
    """Where the last pass goes on: on which rank, with which loader, and how the position gets there."""

    view: View
    consumer: Consumer
    options: Options
    through_dataset: bool
    moved: str | None


@dataclass(frozen=True)
class Case:
    """A configuration."""

    number: int
    view: View
    consumer: Consumer
    options: Options
    passes: tuple[Pass, ...]
    resume: Resume | None
    features: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        lines = [
            f"case {self.number}: {self.consumer.name}, {self.options}",
            str(self.view),
            *map(str, self.passes),
        ]
        if self.resume:
            resume = self.resume
            lines.append(
                f"resume with {resume.consumer.name}, {resume.options}, "
                f"rank {resume.view.rank} of {resume.view.ranks}, "
                f"through_dataset={resume.through_dataset}, moved={resume.moved}"
            )
        return "\n".join(lines)


def draw(number: int, written: Written) -> Case:
    """Case ``number`` over a dataset."""
    pick = random.Random(f"conformance case {number}")
    view = views.draw(written, pick)
    consumer = pick.choices(CONSUMERS, [each.weight for each in CONSUMERS])[0]
    options = _options(consumer, pick, len(view.rows) // view.ranks)
    view = _carried(view, [(consumer, options)])
    passes = [_pass(consumer, pick) for _ in range(pick.choice([1, 1, 2, 3]))]
    resume = None
    if consumer.saves and pick.random() < 0.5:
        passes[-1] = Pass(passes[-1].set_epoch, passes[-1].dropped, pick.choice([0.01, 0.3, 0.6, 1.0]))
        if view.remainder == "uneven":
            view = view.on(0, view.ranks)  # in the last step, only rank 0 is sure to have a sample
        resume, view = _resume(view, consumer, options, pick)
        if pick.random() < 0.2:
            passes[-1] = Pass(passes[-1].set_epoch, passes[-1].dropped)  # its end is asked for
    case = Case(number, view, consumer, options, tuple(passes), resume)
    return Case(number, view, consumer, options, tuple(passes), resume, frozenset(_features(case)))


def _options(consumer: Consumer, pick: random.Random, samples: int) -> Options:
    chosen: dict[str, Any] = {
        "batch_size": pick.choice([1, 2, 3, 7, max(1, samples), samples + 2]),
        "drop_last": pick.random() < 0.3,
        "prefetch": pick.choice([None, 1, 3]),
        "num_threads": pick.choice([None, 1, 3]),
        "num_workers": pick.choice([None, 1, 3]),
        "batch_transform": pick.random() < 0.2,
        "collate": pick.random() < 0.2,
        **{name: pick.random() < 0.25 for name in TRANSFORMS},
    }
    if samples > 500:
        chosen["batch_size"] = max(chosen["batch_size"], 64)
    return Options(**{name: value for name, value in chosen.items() if name in consumer.takes})


def _carried(view: View, users: Sequence[tuple[Consumer, Options]]) -> View:
    """The view without the columns that one of its consumers has no form for."""
    names = view.names
    for consumer, options in users:
        if not (options.dataset_transform or options.transform or options.collate):
            fields = {each.name: each for each in view.written.fields}
            names = [name for name in names if consumer.can_carry(fields[name])]
    if names == view.names:
        return view
    return views.replace(view, columns=names or ["n"])


def _pass(consumer: Consumer, pick: random.Random) -> Pass:
    epoch = pick.choice([0, 1, 5, 2**40]) if not consumer.advances or pick.random() < 0.3 else None
    if not consumer.advances:
        return Pass(epoch)
    return Pass(
        epoch,
        pick.random() < 0.1,
        pick.choice([None, None, 0.4]),
        pick.choice([None] * 6 + ["another pass", "set_epoch"]),
    )


def _resume(view: View, consumer: Consumer, options: Options, pick: random.Random) -> tuple[Resume, View]:
    others = [each for each in CONSUMERS if each.loads and not each.own_states]
    other = consumer if consumer.own_states else pick.choices(others, [each.weight for each in others])[0]
    changed = options if consumer.own_states else _options(other, pick, len(view.rows))
    view = _carried(view, [(consumer, options), (other, changed)])
    elsewhere = view
    if not consumer.own_states:
        ranks = pick.randint(1, view.most_ranks)
        elsewhere = view.on(pick.randrange(ranks), ranks)
    through = not consumer.own_states and (pick.random() < 0.5 or not other.late_states)
    moved = pick.choice([None, None, *MOVES]) if through else None
    return Resume(elsewhere, other, changed, through, moved), view


def _features(case: Case) -> Iterator[str]:
    """What a known failure may be about."""
    view, options = case.view, case.options
    if any(step.stepped for step in view.steps):
        yield "stepped"
    if "bfloat16" in {each.type for each in view.written.fields if each.name in view.names}:
        yield "bfloat16"
    if any(_mixes_keys(value) for record in view.written.records for value in record.values()):
        yield "maps with mixed keys"
    if any(each.dropped for each in case.passes):
        yield "dropped iterator"
    if any(each.disturbed for each in case.passes):
        yield "disturbed"
    for given in (options, *([case.resume.options] if case.resume else [])):
        if given.batch_transform:
            yield "batch_transform"
    if case.resume:
        yield "resume"
        yield f"resume in {case.resume.consumer.name}"
        if case.resume.moved:
            yield "moved position"


def _mixes_keys(value: object) -> bool:
    return isinstance(value, dict) and len({type(key) for key in value}) > 1
