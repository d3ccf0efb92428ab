"""Rows drawn by weight, with and without replacement: by formula and law, on any number of ranks, resumed."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from math import frexp
from typing import Any

import numpy as np
import pytest
from drawing_data import LABELS, LENGTHS, ROWS, VECTORS, dataset, ids
from hypothesis import given, settings
from hypothesis import strategies as st
from order_reference import derive

import unirecord
from unirecord.order import sampling
from unirecord.order.sampling import Weighted, WeightedOnce
from unirecord.order.spec import OrderSpec


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> unirecord.UniRecordDataset:
    return dataset(tmp_path_factory.mktemp("drawing") / "d.urec")


def test_weighted_draws_are_those_of_the_formula(ds: Any) -> None:
    weights = np.arange(ROWS) % 7 * 0.25
    drawn = unirecord.weighted(ds, weights, samples=50)
    for epoch in range(3):
        generator = derive(11, epoch, 7, 0, 0)
        expected = []
        for position in range(50):
            z = (generator + (position + 1) * 0x9E3779B97F4A7C15) % 2**64
            z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
            u = ((z ^ z >> 31) >> 11) * 2.0**-53
            expected.append(int(np.searchsorted(np.cumsum(weights), u * weights.sum(), side="right")))
        assert drawn.order.row_ids().tolist() == expected
        assert [int(sample["i"]) for sample in drawn] == expected
        drawn.set_epoch(epoch + 1)


def test_rows_come_in_proportion_to_their_weights(ds: Any) -> None:
    drawn = unirecord.weighted(ds.view(where="label < 3"), "label", samples=90_000)
    rows = drawn.order.row_ids()
    assert len(drawn) == 90_000
    counts = np.bincount(LABELS[rows], minlength=3)
    there = np.bincount(LABELS, minlength=3)
    share = 2 * there[2] / (there[1] + 2 * there[2])
    assert counts[0] == 0
    assert abs(counts[2] - 90_000 * share) < 5 * np.sqrt(90_000 * share * (1 - share))
    each = np.bincount(rows, minlength=ROWS)[LABELS == 2]
    assert abs(each - each.mean()).max() < 5 * np.sqrt(each.mean())


def test_a_weighted_dataset_is_shared_out_resumed_and_asked(ds: Any) -> None:
    whole = [int(sample["i"]) for sample in unirecord.weighted(ds, "size")]
    ranks = [
        unirecord.weighted(ds.view(shard_id=r, num_shards=4, remainder="drop"), "size") for r in range(4)
    ]
    got = [np.concatenate(ids(rank.batches(16))).tolist() for rank in ranks]
    assert [got[p % 4][p // 4] for p in range(ROWS)] == whole
    batches = iter(loader := unirecord.weighted(ds, "size").batches(32))
    before = next(batches)["i"].tolist()
    resumed = unirecord.weighted(ds, "size")
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert before + [int(sample["i"]) for sample in resumed] == whole
    with pytest.raises(ValueError, match="drawn"):
        unirecord.weighted(ds, "label").load_state_dict(loader.state_dict())
    found = unirecord.weighted(ds, "size").order.steps_of(range(ROWS), 8, epochs=[0])
    came = found["step"] >= 0
    at = found["step"][came] * 8 + found["slot"][came]
    assert sorted(at.tolist()) == list(range(ROWS))
    assert found["row"][came].tolist() == [whole[p] for p in at]


def reference_once(weights: list[float], samples: int, epoch: int, seed: int) -> list[int]:
    """The rows of an epoch as docs/spec/order.md has them, row by row."""
    keys = []
    for i, weight in enumerate(weights):
        if not weight:
            continue
        z = (derive(seed, epoch, 8, 0, 0) + (i + 1) * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        m, k = frexp(((z ^ z >> 31) // 2**12 + 0.5) * 2.0**-52)
        m, k = (2 * m, k - 1) if m < 0.7071067811865476 else (m, k)
        s = (m - 1) / (m + 1)
        series = 1 / 25
        for j in range(11, -1, -1):
            series = series * (s * s) + 1 / (2 * j + 1)
        keys.append((-(k * 0.6931471805599453 + 2 * s * series) / weight, i))
    return [i for _, i in sorted(keys)[:samples]]


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_draws_without_replacement_are_those_of_the_formula(data: Any) -> None:
    weights = data.draw(
        st.lists(st.sampled_from([0.0, 1e-300, 0.3, 1.0, 2.5, 1e300]), min_size=1, max_size=60)
    )
    most = sum(weight > 0 for weight in weights)
    if not most:
        return
    samples, epoch = data.draw(st.integers(1, most)), data.draw(st.integers(0, 9))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sampling, "_ONCE_CHUNK", data.draw(st.integers(1, 30)))
        order = WeightedOnce(np.array(weights), samples).order(OrderSpec("shuffle", 4, epoch))
    expected = reference_once(weights, samples, epoch, 4)
    assert order.range(0, 1, samples).tolist() == expected
    which, positions = order.occurrences(np.arange(len(weights)))
    assert {int(p): int(r) for r, p in zip(which, positions, strict=True)} == dict(enumerate(expected))


def test_each_row_that_is_left_comes_with_the_probability_of_its_weight() -> None:
    weights, epochs = [1.0, 2.0, 5.0, 0.0], 20_000
    rule = WeightedOnce(np.array(weights), 3)
    came: Counter[tuple[int, ...]] = Counter(
        tuple(rule.order(OrderSpec("shuffle", 1, epoch)).range(0, 1, 3).tolist()) for epoch in range(epochs)
    )
    assert sum(came.values()) == epochs
    for order in permutations(range(3)):
        share, left = 1.0, 8.0
        for row in order:
            share *= weights[row] / left
            left -= weights[row]
        assert abs(came[order] - epochs * share) < 5 * np.sqrt(epochs * share)


def test_without_replacement_no_row_comes_twice_and_a_job_goes_on_with_other_ranks(ds: Any) -> None:
    drawn = unirecord.weighted(ds, "size", replacement=False)
    whole = [int(sample["i"]) for sample in drawn]
    assert sorted(whole) == np.flatnonzero(LENGTHS).tolist()
    assert (
        whole[:40] == unirecord.weighted(ds, "size", replacement=False, samples=40).order.row_ids().tolist()
    )
    assert np.mean(LENGTHS[whole[:60]]) > np.mean(LENGTHS) * 1.2
    ranks = [
        unirecord.weighted(ds.view(shard_id=r, num_shards=3, remainder="drop"), "size", replacement=False)
        for r in range(3)
    ]
    loaders = [rank.batches(8) for rank in ranks]
    first = [next(iter(own))["i"].tolist() for own in loaders]
    assert [first[p % 3][p // 3] for p in range(24)] == whole[:24]
    resumed = unirecord.weighted(ds.view(remainder="drop"), "size", replacement=False)
    resumed.load_state_dict(json.loads(json.dumps(loaders[0].state_dict())))
    assert [int(sample["i"]) for sample in resumed] == whole[24:]
    with pytest.raises(ValueError, match="drawn"):
        unirecord.weighted(ds, "size").load_state_dict(loaders[0].state_dict())
    found = unirecord.weighted(ds, "size", replacement=False).order.steps_of(whole[7], 4, epochs=[0])
    assert (found["step"].tolist(), found["slot"].tolist()) == ([1], [3])


@pytest.mark.parametrize("vector", [v for v in VECTORS if "once" in v], ids=lambda v: v["seed"])
def test_frozen_draws_without_replacement_are_reproduced(vector: dict[str, Any]) -> None:
    rule = WeightedOnce(np.array(vector["weights"], np.float64), len(vector["once"]))
    order = rule.order(OrderSpec("shuffle", vector["seed"], vector["epoch"]))
    assert order.range(0, 1, rule.samples).tolist() == vector["once"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if "rows" in v], ids=lambda v: v["seed"])
def test_frozen_weighted_draws_are_reproduced(vector: dict[str, Any]) -> None:
    rule = Weighted(np.array(vector["weights"], np.float64), 1 << 62)
    order = rule.order(OrderSpec("shuffle", vector["seed"], vector["epoch"]))
    assert order.at(np.array(vector["positions"])).tolist() == vector["rows"]
    assert [order.one(position) for position in vector["positions"]] == vector["rows"]
    assert rule.digest == vector["digest"]
