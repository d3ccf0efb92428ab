"""Random ways to open a dataset: columns, condition, selections, order, shards; and which rows they leave, as known
without the package."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from query_oracle import Generator

from conformance.oracle import default_blocks, epoch_order, shard
from conformance.records import Written
from unirecord import UniRecordDataset

Narrow = Callable[[UniRecordDataset], UniRecordDataset]


@dataclass(frozen=True)
class Step:
    """One selection: how it is asked for, what it does to a dataset, and what to a list of rows."""

    text: str
    narrow: Narrow
    rows: Callable[[list[int]], list[int]] | None = None  # None: dealt at random, held to the law of a split
    stepped: bool = False
    least: int | None = None  # rows of the smallest dataset that it makes on its way


@dataclass(frozen=True)
class View:
    """How a dataset is opened and narrowed; ``rows`` are those that are left, in their order."""

    written: Written
    columns: list[str] | None
    where: str | None
    steps: tuple[Step, ...]
    rows: list[int]
    opened_rows: int  # before the steps
    shuffle: Any
    seed: int
    blocks: tuple[int, int] | None
    remainder: str
    rank: int
    ranks: int
    most_ranks: int
    io: str
    verify: str

    def __str__(self) -> str:
        steps = "".join(f".{step.text}" for step in self.steps)
        return (
            f"UniRecordDataset({self.written.path!r}, {self.rank}, {self.ranks}, columns={self.columns}, "
            f"where={self.where!r}, shuffle={self.shuffle!r}, seed={self.seed}, blocks={self.blocks}, "
            f"remainder={self.remainder!r}, io={self.io!r}, verify={self.verify!r}){steps}  # rows {self.rows}"
        )

    def open(self, **more: Any) -> UniRecordDataset:
        """The dataset."""
        if self.blocks is not None:
            more.update(zip(("block_rows", "window_blocks"), self.blocks, strict=True))
        ds = UniRecordDataset(
            self.written.path,
            self.rank,
            self.ranks,
            columns=self.columns,
            where=self.where,
            shuffle=self.shuffle,
            seed=self.seed,
            remainder=self.remainder,
            io=self.io,
            verify=self.verify,
            **more,
        )
        for step in self.steps:
            ds = step.narrow(ds)
        return ds

    def delivered(self, epoch: int, start: int = 0) -> list[int]:
        """The rows that this rank gets in an epoch, from a global position on."""
        parts = self.written.parts
        blocks = self.blocks or default_blocks(self.opened_rows, self.written)
        order = epoch_order(self.rows, parts, self.shuffle, blocks, self.seed, epoch)
        return shard(order, self.rank, self.ranks, self.remainder, start)

    def on(self, rank: int, ranks: int) -> View:
        """The same for another rank of another job."""
        return replace(self, rank=rank, ranks=ranks)

    @property
    def names(self) -> list[str]:
        """The columns of a sample."""
        return [field.name for field in self.written.fields] if self.columns is None else self.columns


def draw(written: Written, pick: random.Random) -> View:
    """A random view of what was written."""
    names = [field.name for field in written.fields]
    columns = pick.sample(names, pick.randint(1, len(names))) if pick.random() < 0.4 else None
    rows, where = list(range(len(written.records))), None
    if pick.random() < 0.35:
        condition = _condition(written, pick)
        where = condition.text()
        rows = [row for row, values in enumerate(_values(written)) if condition.of(values) is True]
    steps: list[Step] = []
    least = opened_rows = len(rows)
    for _ in range(pick.choice([0, 0, 1, 1, 2])):
        step = _step(len(rows), pick)
        rows = step.rows(rows) if step.rows else _dealt(written, where, [*steps, step], rows)
        steps.append(step)
        least = min(least, len(rows), *([] if step.least is None else [step.least]))
    most = max(1, min(least, 6))
    ranks = pick.randint(1, most) if pick.random() < 0.6 else 1
    shuffle = pick.choice([False, True, True, "block", "parts", "within-parts"])
    chosen = pick.random() < (0.5 if len(written.records) > 1000 else 0.8)
    blocks = (pick.choice([1, 2, 5, 64]), pick.choice([1, 2, 7])) if shuffle == "block" and chosen else None
    return View(
        written,
        columns,
        where,
        tuple(steps),
        rows,
        opened_rows,
        shuffle,
        pick.choice([0, 1, 42, 2**64 - 1]),
        blocks,
        pick.choice(["pad", "drop", "uneven"]),
        pick.randrange(ranks),
        ranks,
        most,
        pick.choice(["auto", "auto", "mmap", "pread", "memory"]),
        pick.choice(["first", "always", "never"]),
    )


def _values(written: Written) -> list[dict[str, Any]]:
    """The records with Python's numbers, which compare exactly."""
    return [
        {name: value.item() if isinstance(value, np.generic) else value for name, value in record.items()}
        for record in written.records
    ]


def _condition(written: Written, pick: random.Random) -> Any:
    types = {field.name: field.type for field in written.fields if field.kind in ("number", "bool", "string")}
    samples: dict[str, list[Any]] = {}
    for name, type_ in types.items():
        found = [record[name] for record in _values(written)[:50] if record[name] is not None]
        finite = [value for value in found if not isinstance(value, float) or np.isfinite(value)]
        samples[name] = finite or ["a" if type_ == "string" else 1]
    return Generator(pick.getrandbits(32), types, samples, ()).condition(2)


def _step(n: int, pick: random.Random) -> Step:
    kind = pick.choice(["take", "skip", "list", "mask", "range", "slice", "stepped", "split", "cut"])
    if kind in ("take", "skip"):
        count = pick.choice([int, np.int32, np.uint64])(pick.choice([1, n // 2, n - n // 8, n + 3]))
        if kind == "take":
            return Step(f"take({count})", lambda ds: ds.take(count), lambda rows: rows[: int(count)])
        few = pick.choice([int, np.int16])(n // 3)
        return Step(f"skip({few})", lambda ds: ds.skip(few), lambda rows: rows[int(few) :])
    if kind in ("split", "cut"):
        return _split(n, pick, pick.choice([0, 7]) if kind == "split" else None)
    if kind == "list":
        wanted: Any = [pick.randrange(-n, n) for _ in range(pick.randint(1, 2 * n))] if n else []
        given = np.array(wanted, np.int64) if pick.random() < 0.5 else wanted
        return Step(f"select({wanted})", lambda ds: ds.select(given), lambda rows: [rows[i] for i in wanted])
    if kind == "mask":
        mask = [pick.random() < 0.7 for _ in range(n)]
        return Step(
            f"select(np.array({mask}))",
            lambda ds: ds.select(np.array(mask, np.bool_)),
            lambda rows: [row for row, kept in zip(rows, mask, strict=True) if kept],
        )
    if kind == "range":
        chosen = range(pick.randint(0, n), n, pick.choice([1, 2, 3]))
        return Step(f"select({chosen})", lambda ds: ds.select(chosen), lambda rows: [rows[i] for i in chosen])
    step = pick.choice([2, -1, -3]) if kind == "stepped" else None
    cut = (
        slice(pick.choice([None, n // 4]), pick.choice([None, n]), step)
        if step != -1
        else slice(None, None, -1)
    )
    return Step(f"select({cut})", lambda ds: ds.select(cut), lambda rows: rows[cut], stepped=step is not None)


def _split(n: int, pick: random.Random, seed: int | None) -> Step:
    sizes = [n // 3, n - n // 3] if pick.random() < 0.5 else [n // 2, 0, n - n // 2]
    which = pick.choice([0, len(sizes) - 1])
    text = f"split({sizes}, seed={seed})[{which}]"
    bounds = list(pairwise(accumulate(sizes, initial=0)))

    def narrow(ds: UniRecordDataset) -> UniRecordDataset:
        return ds.split(sizes, seed=seed)[which]

    cut = (lambda rows: rows[slice(*bounds[which])]) if seed is None else None
    return Step(text, narrow, cut, least=min(sizes))


def _dealt(written: Written, where: str | None, steps: list[Step], rows: list[int]) -> list[int]:
    """The rows of a random split, which the page leaves open, once they are seen to keep its promises."""
    with UniRecordDataset(written.path, where=where) as ds:
        narrowed = ds
        for step in steps[:-1]:
            narrowed = step.narrow(narrowed)
        dealt: list[int] = steps[-1].narrow(narrowed).order.row_ids().tolist()
    rest = iter(rows)
    assert all(row in rest for row in dealt), (
        f"{steps[-1].text} has {dealt}, which is not in the order of {rows}"
    )
    assert not Counter(dealt) - Counter(rows)
    return dealt
