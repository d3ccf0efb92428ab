"""Mixtures by tokens of samples that differ in length: each source has its share of elements at every prefix."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import UniRecordDataset, Writer, cli
from unirecord.order.length_turns import TICKS, Lengths, LengthTurns
from unirecord.order.mixture import Stages

SIZES = {"web": 40, "code": 25, "books": 7, "notes": 12}


def written(path: Path, rows: int, longest: int, seed: int) -> UniRecordDataset:
    rng = np.random.default_rng(seed)
    with Writer(path, {"tokens": "uint16[-1]", "n": "int64"}) as writer:
        for i in range(rows):
            length = int(rng.integers(0, longest + 1))
            writer.write({"tokens": np.zeros(length, np.uint16), "n": 1000 * seed + i})
    return UniRecordDataset(path, remainder="uneven")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, UniRecordDataset]:
    folder = tmp_path_factory.mktemp("lengths")
    longest = {"web": 30, "code": 9, "books": 200, "notes": 1}
    return {
        name: written(folder / name, rows, longest[name], seed)
        for seed, (name, rows) in enumerate(SIZES.items())
    }


def expect_shares(samples: list[tuple[str, int]], weights: dict[str, int], longest: dict[str, int]) -> None:
    """At every prefix: half a sample of the source itself at most, and its share of half a one of each other."""
    total = sum(weights.values())
    held = dict.fromkeys(weights, 0)
    for name, length in samples:
        held[name] += length
        for one, weight in weights.items():
            share = Fraction(weight, total)
            others = sum(longest[other] for other in weights if other != one and weights[other])
            most = ((1 - share) * longest[one] + share * others) / 2 + 1
            assert abs(held[one] - share * sum(held.values())) <= most


def epoch_of(mixed: Any, epoch: int) -> list[tuple[str, int, int]]:
    mixed.set_epoch(epoch)
    return [(sample["source"], len(sample["tokens"]), int(sample["n"])) for sample in mixed]


@settings(max_examples=30, deadline=None)
@given(data=st.data(), seed=st.integers(0, 9), shuffle=st.booleans())
def test_shares_of_tokens_are_exact_at_every_prefix(
    corpora: Any, data: Any, seed: int, shuffle: bool
) -> None:
    names = data.draw(st.lists(st.sampled_from(list(SIZES)), min_size=1, max_size=4, unique=True))
    chosen = {name: corpora[name].view(shuffle=data.draw(st.booleans())) for name in names}
    longest = {name: max(len(sample["tokens"]) for sample in corpora[name]) for name in names}
    weights = {name: data.draw(st.integers(1, 20)) for name in names}
    options: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "by": "tokens"}
    options |= data.draw(st.sampled_from([{"stop": "all"}, {"stop": "first"}, {"samples": 50}]))
    mixed = unirecord.mix(chosen, weights, **options)
    epochs = [epoch_of(mixed, epoch) for epoch in range(3)]
    whole = [sample for epoch in epochs for sample in epoch]
    expect_shares([(name, length) for name, length, _ in whole], weights, longest)
    # a source has all of its samples before any comes again; an epoch ends when the first, or all have been read
    for name in names:
        mine = [n for one, _, n in whole if one == name]
        for at in range(0, len(mine), SIZES[name]):
            assert len(set(mine[at : at + SIZES[name]])) == len(mine[at : at + SIZES[name]])
    read = [name for name in names if sum(one == name for one, _, _ in epochs[0]) >= SIZES[name]]
    assert {"all": len(read) == len(names), "first": len(read) >= 1}.get(options.get("stop", ""), True)
    # rows and steps are inverse, and a state goes on with the rest on any ranks
    placed = {
        (step, slot): int(row)
        for step in range(mixed.order.steps_in_epoch(4, num_shards=1))
        for slot, row in enumerate(mixed.order.rows_of(step, 4, epoch=2, rank=0, num_shards=1))
    }
    asked = mixed.order.steps_of(sorted(set(placed.values())), 4, epochs=[2], num_shards=1)
    answers = zip(*(asked[key].tolist() for key in ("step", "slot", "row")), strict=True)
    assert {(step, slot): row for step, slot, row in answers} == placed
    mixed.set_epoch(1)
    loader = mixed.batches(5)
    begun = [int(n) for _, batch in zip(range(2), loader, strict=False) for n in batch["n"]]
    state, rest = json.loads(json.dumps(loader.state_dict())), []
    assert begun == [n for _, _, n in epochs[1][: len(begun)]]
    ranks = data.draw(st.integers(1, 3))
    for rank in range(ranks if len(begun) < len(epochs[1]) else 0):
        again = pickle.loads(pickle.dumps(mixed.view(shard_id=rank, num_shards=ranks)))
        again.load_state_dict(state)
        rest += [int(n) for batch in again.batches(3) for n in batch["n"]]
    assert sorted(rest) == sorted(n for _, _, n in epochs[1][len(begun) :])


LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any)


@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(LENGTHS, min_size=1, max_size=4),
    weights=st.lists(
        st.integers(0, 70_000).map(lambda n: n % 50 if n % 3 else n % 9), min_size=8, max_size=8
    ),
    change=st.integers(1, 60),
)
def test_turns_are_those_of_the_places(lengths: Any, weights: Any, change: int) -> None:
    """Against a plain sort of the places of all draws, in two stages, over many epochs of each source."""
    count = len(lengths)
    stages = [tuple(weights[:count]), tuple(weights[4 : 4 + count])]
    stages = [stage if any(stage) else (1,) * count for stage in stages]
    orders: Any = [
        partial(lambda s, n, epoch: np.random.default_rng([epoch, s]).permutation(n), s, len(own))
        for s, own in enumerate(lengths)
    ]
    sources = [Lengths(np.array(own, np.uint16), order) for own, order in zip(lengths, orders, strict=True)]
    made = Stages.of([(0, stages[0]), (change, stages[1])], partial(LengthTurns, sources))
    wanted: list[tuple[int, int]] = []
    drawn = [0] * count
    for stage, room in ((stages[0], change), (stages[1], 90)):
        scale = TICKS // sum(stage)
        places = []
        for s, own in enumerate(lengths):
            held = 0
            for draw in range(drawn[s], drawn[s] + 400):
                length = own[orders[s](draw // len(own))[draw % len(own)]]
                if stage[s]:
                    places.append(((2 * held + length) * TICKS // (stage[s] * scale), s, draw))
                held += length
        for _, s, draw in sorted(places)[:room]:
            wanted.append((s, draw))
            drawn[s] += 1
    turns = np.arange(len(wanted))
    source, draw = made.at(turns)
    assert list(zip(source.tolist(), draw.tolist(), strict=True)) == wanted
    for s in range(count):
        here = np.flatnonzero(source == s)
        assert made.turns_of(s, draw[here]).tolist() == here.tolist()
        assert [made.split(turn)[s] for turn in (0, change, 50)] == [
            sum(one == s for one, _ in wanted[:turn]) for turn in (0, change, 50)
        ]


def test_far_epochs_are_found_without_those_before(corpora: Any) -> None:
    mixed = unirecord.mix(corpora, dict.fromkeys(SIZES, 1), by="tokens", samples=100)
    far = epoch_of(mixed, 10**9)
    assert len(far) == 100
    rows = mixed.order.row_ids().tolist()
    found = mixed.order.steps_of(rows[:3], 1, epochs=[10**9], num_shards=1)
    assert 0 in found["step"]


def test_a_mixture_by_tokens_is_audited_and_traced(
    corpora: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = unirecord.mix(corpora, {"web": 4, "code": 3, "books": 2, "notes": 1}, by="tokens", samples=60)
    for _ in mixed.batches(6, receipts=tmp_path / "receipts"):
        pass
    named = [f"{name}={ds.path}" for name, ds in corpora.items()]
    assert cli.main(["audit", str(tmp_path / "receipts"), "--dataset", *named]) == 0
    (tmp_path / "state.json").write_text(json.dumps(mixed.state_dict()))
    capsys.readouterr()
    asked = ["--state", str(tmp_path / "state.json"), "--batch", "6", "--step", "2", "--json"]
    assert cli.main(["trace", *named, *asked]) == 0
    traced = json.loads(capsys.readouterr().out)["samples"]
    rows = mixed.order.rows_of(2, 6, epoch=mixed.state_dict()["epoch"])
    names = mixed.read_rows(rows)["source"]
    assert [line["source"] for line in traced] == names
    plain = unirecord.mix(corpora, {"web": 4, "code": 3, "books": 2, "notes": 1}, samples=60)
    with pytest.raises(ValueError, match="other options"):
        mixed.load_state_dict(plain.state_dict())


def test_without_weights_each_source_is_read_whole_at_once(corpora: Any) -> None:
    mixed = unirecord.mix(corpora, by="tokens", stop="all")
    assert len(mixed) == sum(SIZES.values())
    once = unirecord.mix(corpora, by="tokens", stop="all", repeat=1)
    assert sorted(n for _, _, n in epoch_of(once, 3)) == sorted(n for _, _, n in epoch_of(mixed, 0))
    made = {name: unirecord.sequences(ds, at={"tokens": [0, 1]}) for name, ds in corpora.items()}
    with pytest.raises(ValueError, match="at several steps"):
        unirecord.mix(made, by="tokens")
    anchors = {name: unirecord.sequences(ds, at={"n": [0, 1]}) for name, ds in corpora.items()}
    assert unirecord.mix(anchors, by="tokens", samples=20)[0]["n"].shape == (2,)
