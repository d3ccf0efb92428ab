"""The rules of balanced and bucketed batches: as the formulas have them, and frozen."""

from __future__ import annotations

from math import lcm
from typing import Any

import numpy as np
import pytest
from drawing_data import VECTORS
from hypothesis import given, settings
from hypothesis import strategies as st
from order_reference import permutation

from unirecord.core import xxh3_64
from unirecord.order.sampling import Balanced, Bucketed
from unirecord.order.spec import OrderSpec


def seed_of(seed: int, group: int) -> int:
    return xxh3_64(group.to_bytes(8, "little", signed=True), seed)


def reference_balanced(labels: list[int], classes: int, per_class: int, batch: int, seed: int) -> list[int]:
    """One batch as docs/spec/order.md has it, row by row."""
    rows_of = [[i for i, label in enumerate(labels) if label == c] for c in sorted(set(labels))]
    made = []
    for slot in range(batch * classes, (batch + 1) * classes):
        turn, place = divmod(slot, lcm(len(rows_of), classes))
        c = permutation(len(rows_of), seed_of(seed, -1), turn, 1)(place % len(rows_of))
        visit = turn * (lcm(len(rows_of), classes) // len(rows_of)) + place // len(rows_of)
        epoch, number = divmod(visit, max(len(rows_of[c]) // per_class, 1))
        order = permutation(len(rows_of[c]), seed_of(seed, c), epoch, 1)
        made += [rows_of[c][order((number * per_class + j) % len(rows_of[c]))] for j in range(per_class)]
    return made


def reference_bucketed(
    lengths: list[int], edges: list[int], size: int | None, most: int | None, epoch: int, seed: int
) -> list[list[int]]:
    """All batches of an epoch as docs/spec/order.md has them, row by row."""
    buckets: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for row, length in enumerate(lengths):
        buckets[sum(edge < length for edge in edges)].append(row)
    batches = []
    for number, rows in enumerate(buckets):
        order = permutation(len(rows), seed_of(seed, number), epoch, 1)
        shuffled = [rows[order(place)] for place in range(len(rows))]
        rows_of_batch = size or (most or 0) // max(max((lengths[row] for row in rows), default=1), 1)
        batches += [shuffled[first : first + rows_of_batch] for first in range(0, len(rows), rows_of_batch)]
    order = permutation(len(batches), seed_of(seed, -1), epoch, 1)
    return [batches[order(position)] for position in range(len(batches))]


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_balanced_batches_are_those_of_the_formula(data: Any) -> None:
    labels = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=40))
    _, labels = np.unique(labels, return_inverse=True)
    classes = data.draw(st.integers(1, int(labels.max()) + 1))
    per_class, batches, epoch = (
        data.draw(st.integers(1, 6)),
        data.draw(st.integers(1, 9)),
        data.draw(st.integers(0, 40)),
    )
    order = Balanced(labels.astype(np.int64), classes, per_class, batches).order(
        OrderSpec("shuffle", 5, epoch)
    )
    rows, ends = order.batches(np.arange(batches))
    expected = [
        reference_balanced(labels.tolist(), classes, per_class, epoch * batches + b, 5)
        for b in range(batches)
    ]
    assert [part.tolist() for part in np.split(rows, ends[:-1])] == expected


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_bucketed_batches_are_those_of_the_formula(data: Any) -> None:
    lengths = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=60))
    edges = sorted(data.draw(st.sets(st.integers(0, 30), max_size=4)))
    size = data.draw(st.none() | st.integers(1, 9))
    most = None if size else data.draw(st.integers(max(*lengths, 1), 99))
    epoch = data.draw(st.integers(0, 5))
    rule = Bucketed(np.array(lengths), edges, size, most, False)
    rows, ends = rule.order(OrderSpec("shuffle", 3, epoch)).batches(np.arange(rule.samples))
    expected = reference_bucketed(lengths, edges, size, most, epoch, 3)
    assert [part.tolist() for part in np.split(rows, ends[:-1])] == expected


@pytest.mark.parametrize("vector", [v for v in VECTORS if "batches" in v], ids=lambda v: v["rule"])
def test_frozen_batches_are_reproduced(vector: dict[str, Any]) -> None:
    rule: Any
    if vector["rule"] == "balanced":
        rule = Balanced(np.array(vector["labels"]), vector["classes"], vector["per_class"], 10)
    else:
        rule = Bucketed(np.array(vector["lengths"]), vector["edges"], None, vector["max_length"], False)
    rows, ends = rule.order(OrderSpec("shuffle", vector["seed"], vector["epoch"])).batches(
        np.arange(rule.samples)
    )
    assert [part.tolist() for part in np.split(rows, ends[:-1])] == vector["batches"]
