"""The order of an epoch, what one of its steps contains, and when a row comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..dataset.dataset import UniRecordDataset
from ..errors import QueryError
from ..inspection.charts import points
from ..inspection.markup import Markup, element, join
from ..order.spec import Remainder, Shuffle
from .asked import Asked, AskedWrongly, link
from .frame import HERE, failed, field, form, framed, row_table, select
from .looking import Looking, Rows

__all__ = ["epoch_page"]

_POINTS: Final = 300  # of the picture of an order
_ROWS: Final = 256  # of a step that are shown
_BATCH: Final = 32
_MOST: Final = 1 << 20  # samples of a batch, ranks
_MOST_STEP: Final = 1 << 24  # rows of a step
_REMAINDERS: Final[dict[str, Remainder]] = {"pad": "pad", "drop": "drop", "uneven": "uneven"}
_SHUFFLES: Final[dict[str, Shuffle]] = {
    "yes": True, "no": False, "block": "block", "parts": "parts", "within-parts": "within-parts",
}  # fmt: skip


@dataclass(frozen=True)
class _Job:
    """The training job whose order is looked at."""

    where: str
    seed: int
    shuffle: str
    batch: int
    ranks: int
    remainder: str
    epoch: int
    step: int

    @classmethod
    def of(cls, asked: Asked) -> _Job:
        found = cls(
            where=asked.text("where"),
            seed=asked.number("seed", most=(1 << 64) - 1),
            shuffle=asked.one_of("shuffle", list(_SHUFFLES)),
            batch=asked.number("batch", _BATCH, _MOST, 1),
            ranks=asked.number("ranks", 1, _MOST, 1),
            remainder=asked.one_of("remainder", list(_REMAINDERS)),
            epoch=asked.number("epoch", most=(1 << 32) - 1),
            step=asked.number("step"),
        )
        if found.batch * found.ranks > _MOST_STEP:
            raise AskedWrongly(f"a step of {found.batch * found.ranks:,} rows is more than a page looks at")
        return found


def epoch_page(looking: Looking, asked: Asked) -> tuple[int, bytes]:
    """An epoch as a job has it, one of its steps, and when a row comes if one is asked for."""
    fields = _fields(asked)
    try:
        return 200, framed(looking, "epoch", asked, fields, *_content(looking, asked))
    except (AskedWrongly, QueryError) as error:
        return 400, failed(looking, "epoch", asked, str(error), fields)


def _content(looking: Looking, asked: Asked) -> list[Markup]:
    job = _Job.of(asked)
    ds = looking.view(job.where).view(
        shuffle=_SHUFFLES[job.shuffle], seed=job.seed, remainder=_REMAINDERS[job.remainder],
    )  # fmt: skip
    steps = ds.steps_in_epoch(job.batch, num_shards=job.ranks)
    says = f"Epoch {job.epoch:,}: {len(ds):,} samples in {steps:,} {'step' if steps == 1 else 'steps'}"
    content = [element("p", says, role="status")]
    if asked.text("row"):
        content.append(_when(looking, ds, job, asked))
    if steps:
        if job.step >= steps:
            raise AskedWrongly(f"step: the epoch has the steps 0 to {steps - 1:,}")
        content += [_step(looking, ds, job, asked, steps), _order(looking, ds, job)]
    return content


def _fields(asked: Asked) -> Markup:
    """The fields as they were filled in, so that what is wrong can be mended."""

    def number(says: str, name: str, default: object = 0) -> Markup:
        return field(says, name, asked.text(name) or default, inputmode="numeric")

    return form(
        "epoch",
        field("Rows that meet a condition", "where", asked.text("where"), wide=True),
        select("Shuffle", "shuffle", {name: name for name in _SHUFFLES}, asked.text("shuffle")),
        number("Seed", "seed"),
        number("Samples in a rank's batch", "batch", _BATCH),
        number("Ranks", "ranks", 1),
        select("Remainder", "remainder", {name: name for name in _REMAINDERS}, asked.text("remainder")),
        number("Epoch", "epoch"),
        number("Step", "step"),
        number("When does this row come", "row", ""),
    )


def _when(looking: Looking, ds: UniRecordDataset[Any], job: _Job, asked: Asked) -> Markup:
    row = asked.number("row")
    if not looking.is_there(row):
        raise AskedWrongly(f"there is no row {row:,}: rows are numbered from 0 to {looking.parts.rows - 1:,}")
    found = ds.steps_of([row], job.batch, epochs=[job.epoch], num_shards=job.ranks)
    places = zip(found["step"].tolist(), found["rank"].tolist(), found["slot"].tolist(), strict=True)
    comes = [
        element(
            "li",
            element("a", f"step {step:,}", href=asked.link("epoch", step=step) + f"#{HERE}"),
            f", rank {rank:,}, place {slot:,} of its batch",
        )
        for step, rank, slot in places
        if step >= 0
    ]
    named = element("a", f"Row {row:,}", href=link("row", row=row))
    if not comes:
        return element("p", named, " is not delivered in this epoch.")
    return join(element("p", named, " comes at:"), element("ul", *comes))


def _step(looking: Looking, ds: UniRecordDataset[Any], job: _Job, asked: Asked, steps: int) -> Markup:
    """The rows of a step, rank by rank."""
    ranks: list[int] = []
    slots: list[int] = []
    rows: list[Rows] = []
    total = 0
    for rank in range(job.ranks):
        batch = ds.rows_of(job.step, job.batch, epoch=job.epoch, rank=rank, num_shards=job.ranks)
        shown = batch[: max(0, _ROWS - total)]
        total += len(batch)
        rows.append(shown)
        ranks += [rank] * len(shown)
        slots += range(len(shown))
        if total > _ROWS:  # the others are not shown
            break
    numbers = np.concatenate(rows)
    places = [(f"{rank:,}", f"{slot:,}") for rank, slot in zip(ranks, slots, strict=True)]
    targets = [
        ("First", 0, job.step > 0), ("Previous", job.step - 1, job.step > 0),
        ("Next", job.step + 1, job.step + 1 < steps), ("Last", steps - 1, job.step + 1 < steps),
    ]  # fmt: skip
    links = [
        element("a", name, href=asked.link("epoch", step=step) + f"#{HERE}")
        if possible
        else element("span", name, class_="soft")
        for name, step, possible in targets
    ]
    more = (
        ""
        if total <= _ROWS
        else element("p", f"The first {_ROWS:,} rows of the step are shown.", class_="soft")
    )
    return join(
        element("h2", f"Step {job.step:,} of {steps:,}", id=HERE),
        element("nav", *links, class_="pager", aria_label="steps"),
        row_table(looking, numbers, places, ("rank", "place")),
        more,
    )


def _order(looking: Looking, ds: UniRecordDataset[Any], job: _Job) -> Markup:
    """Which row comes where, as points: evenly spaced positions of the epoch."""
    order = ds._cursor.plan.order
    count = min(len(ds), _POINTS)
    positions = np.array([place * len(ds) // count for place in range(count)], np.int64)
    rows = order.selection.row_ids(order.order(job.epoch).at(positions))
    across, up = max(1, len(ds) - 1), max(1, looking.parts.rows - 1)
    places = [(p / across, row / up) for p, row in zip(positions.tolist(), rows.tolist(), strict=True)]
    says = (
        f"{count:,} positions of the epoch, from left to right, and their rows, the first row at the bottom"
    )
    chart = element("div", points(places, says), element("p", says, class_="soft"), class_="card")
    return join(element("h2", "Order"), element("div", chart, class_="cards"))
