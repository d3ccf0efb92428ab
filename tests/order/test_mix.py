"""Mixtures: each source within one of its share at every prefix, through epochs of its own, on any number of ranks."""

from __future__ import annotations

import doctest
import json
import pickle
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_reference import permutation, turns_of_cycle

import unirecord
from unirecord.core import Order, xxh3_64
from unirecord.errors import SchemaError
from unirecord.order.mixture import Mixture, MixtureSource
from unirecord.order.permutation import ShardOrder
from unirecord.order.selection import Selection
from unirecord.order.spec import OrderSpec, Sharding


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, unirecord.UniRecordDataset]:
    folder = tmp_path_factory.mktemp("mix")
    opened = {}
    for number, (name, rows) in enumerate({"web": 50, "code": 23, "books": 4}.items()):
        with unirecord.Writer(folder / f"{name}.urec", {"i": "int64", "text": "string"}) as writer:
            ids = np.arange(rows) + 1000 * number
            writer.write_batch({"i": ids, "text": [f"{name} {i}" for i in ids]})
        opened[name] = unirecord.UniRecordDataset(folder / f"{name}.urec")
    return opened


def ids(samples: Any) -> list[int]:
    return [int(sample["i"]) for sample in samples]


def epochs_of(mixed: Any, count: int) -> list[int]:
    return [i for _ in range(count) for i in ids(mixed)]


def test_samples_are_those_of_the_formula(sources: Any) -> None:
    chosen = {"web": sources["web"], "code": sources["code"].view(shuffle=True, seed=7)}
    mixed = unirecord.mix(chosen, {"web": 0.7, "code": 0.3}, seed=5)
    assert len(mixed) == min(50 * 10 // 7, 23 * 10 // 3)
    seeds, rows = [xxh3_64(b"web", 5), 7], [50, 23]
    cycles = -(-4096 // 10)
    drawn, expected = [0, 0], []
    for turn in range(3 * len(mixed)):
        source = turns_of_cycle([7, 3], 5, turn // 10 % cycles)[turn % 10]
        epoch, place = divmod(drawn[source], rows[source])
        expected.append(1000 * source + permutation(rows[source], seeds[source], epoch, 1)(place))
        drawn[source] += 1
    assert epochs_of(mixed, 3) == expected


def test_no_row_comes_again_before_all_of_its_source_over_all_epochs(sources: Any) -> None:
    mixed = unirecord.mix(sources, {"web": 5, "code": 3, "books": 2}, samples=61, seed=1)
    seen = epochs_of(mixed, 12)
    for number, source in enumerate(sources.values()):
        own = [i for i in seen if i // 1000 == number]
        for first in range(0, len(own), source.num_rows):
            epoch = own[first : first + source.num_rows]
            assert len(set(epoch)) == len(epoch)
    books = [i for i in seen if i >= 2000]
    assert len({tuple(books[k : k + 4]) for k in range(0, len(books) - 3, 4)}) > 5  # in new orders


@pytest.mark.parametrize("stop", ["first", "all"])
def test_an_epoch_ends_when_sources_have_been_read_whole(sources: Any, stop: Any) -> None:
    for seed in range(20):
        mixed = unirecord.mix(sources, {"web": 3, "code": 2, "books": 1}, stop=stop, seed=seed)
        seen = ids(mixed)
        whole = [
            len({i for i in seen if i // 1000 == n}) == ds.num_rows for n, ds in enumerate(sources.values())
        ]
        assert all(whole) if stop == "all" else any(whole)
        if stop == "first":
            assert len(set(seen)) == len(seen)


def test_weights_are_the_rows_of_the_sources_by_default(sources: Any) -> None:
    mixed = unirecord.mix(sources, seed=3)
    assert len(mixed) == 77
    assert len(set(ids(mixed))) == 77


@pytest.mark.parametrize("remainder", ["pad", "drop", "uneven"])
@pytest.mark.parametrize("batch_size", [1, 7, 40])
def test_ranks_share_one_mixture_and_a_job_goes_on_with_others(
    sources: Any, remainder: Any, batch_size: int
) -> None:
    def mixed(rank: int = 0, ranks: int = 1) -> Any:
        return unirecord.mix(sources, samples=90, seed=8).view(
            shard_id=rank, num_shards=ranks, remainder=remainder
        )

    whole = ids(mixed())
    for ranks in (1, 3, 4):
        shares = [np.concatenate([b["i"] for b in mixed(r, ranks).batches(batch_size)]) for r in range(ranks)]
        for rank, share in enumerate(shares):
            assert share.tolist() == [whole[(rank + i * ranks) % 90] for i in range(len(share))]
    loader = mixed(1, 3).batches(5)
    batches = iter(loader)
    for _ in range(2):
        next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    rest: list[int] = []
    for rank in range(2):
        resumed = mixed(rank, 2).batches(batch_size)
        resumed.load_state_dict(state)
        rest += np.concatenate([b["i"] for b in resumed]).tolist()
    assert sorted(rest) == sorted(whole[30:])


def test_every_way_to_read_gives_the_same_samples(sources: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.loading.plan._STRETCH", 16)  # several loaders of the core in a pass
    mixed = unirecord.mix(sources, samples=90, seed=8)
    expected = [mixed[i] for i in range(90)]
    assert list(mixed) == expected
    assert mixed[np.arange(90)] == expected
    mixed.set_epoch(0)
    assert mixed.order.row_ids().tolist() == [mixed.order.rows_of(k, 1, epoch=0)[0] for k in range(90)]
    assert [s for b in mixed.batches(8, transform=lambda s: s, collate_fn=list) for s in b] == expected
    mixed.set_epoch(0)
    assert list(mixed.pipeline()) == expected
    mixed.set_epoch(0)
    names = [name for batch in mixed.batches(32) for name in batch["source"]]
    assert names == [sample["source"] for sample in expected]
    assert names == [sample["text"].split()[0] for sample in expected]
    assert pickle.loads(pickle.dumps(mixed))[17] == expected[17]
    mixed.set_epoch(0)
    kept = list(mixed.pipeline().filter("i >= 1000"))
    assert kept == [sample for sample in expected if sample["i"] >= 1000]


def test_pytorch_gets_the_same_samples(sources: Any) -> None:
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    mixed = unirecord.mix(sources, samples=90, seed=8)
    expected = [(int(sample["i"]), sample["source"]) for sample in (mixed[i] for i in range(90))]
    for loader in (unirecord.torch.loader(mixed, 32), DataLoader(mixed, 32)):
        mixed.set_epoch(0)
        batches = [zip(batch["i"].tolist(), batch["source"], strict=True) for batch in loader]
        assert [pair for batch in batches for pair in batch] == expected


@given(st.integers(0, 3), st.integers(1, 3), st.integers(1, 9), st.booleans())
@settings(max_examples=15, deadline=None)
def test_steps_and_rows_are_inverse(sources: Any, epoch: int, ranks: int, size: int, drop: bool) -> None:
    some = {"web": sources["web"].select([3, 5, 5, 9]), "code": sources["code"].view(where="i < 1007")}
    mixed = unirecord.mix(some, {"web": 3, "code": 2}, samples=25, seed=2)
    expected: dict[tuple[int, int, int], int] = {}
    for step in range(mixed.order.steps_in_epoch(size, num_shards=ranks, drop_last=drop)):
        for rank in range(ranks):
            rows = mixed.order.rows_of(step, size, epoch=epoch, rank=rank, num_shards=ranks, drop_last=drop)
            expected |= {(step, rank, slot): int(row) for slot, row in enumerate(rows)}
    asked = sorted(set(expected.values()))
    found = mixed.order.steps_of(asked, size, epochs=[epoch], num_shards=ranks, drop_last=drop)
    places = zip(*(found[name].tolist() for name in ("step", "rank", "slot", "row")), strict=True)
    assert {(s, r, k): row for s, r, k, row in places} == expected


def test_a_mixture_of_10_to_the_12_rows_is_asked_by_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"web": 10**12 - 5, "code": 10**11 + 3}
    starts = np.array([0, 1])
    first, made = 0, []
    for name, count in rows.items():
        order = ShardOrder(Selection(count), Sharding(count), OrderSpec("shuffle", 3), starts)
        made.append(MixtureSource(name, order, first, None, name))
        first += count
    mixture = Mixture(made, [(0, (7, 3)), (10**11, (1, 4))], 10**12)
    order = mixture.order(OrderSpec("shuffle", 9, 2))
    looked_at = 0

    def counted(self: Any, values: Any, *, original: Any) -> Any:
        nonlocal looked_at
        looked_at += len(values)
        return original(self, values)

    for name in ("at", "inverse"):
        monkeypatch.setattr(Order, name, partialmethod(counted, original=getattr(Order, name)))
    positions = np.array([0, 1, 4711, 10**12 - 1, *range(5 * 10**11, 5 * 10**11 + 256)])
    found = order.at(positions)
    which, at = order.occurrences(found)
    come = {(int(found[k]), int(p)) for k, p in zip(which, at, strict=True)}
    assert come >= set(zip(found.tolist(), positions.tolist(), strict=True))
    assert all(order.one(p) == row for row, p in come)
    assert looked_at < 40 * len(positions)  # a few epochs of the smaller source lie in one of the mixture


def test_weights_change_at_a_sample_without_loss_or_repetition(sources: Any) -> None:
    schedule = {33: {"web": 1, "code": 1, "books": 0}, 75: {"web": 0, "code": 1, "books": 3}}
    weights = {"web": 5, "code": 0, "books": 0}
    mixed = unirecord.mix(sources, weights, schedule=schedule, samples=50, seed=4)
    seen = epochs_of(mixed, 3)
    assert all(i < 1000 for i in seen[:33])
    assert sum(i < 1000 for i in seen[33:75]) == 21
    assert [i // 1000 for i in seen[75:]].count(2) in (56, 57)
    for number, source in enumerate(sources.values()):
        own = [i for i in seen if i // 1000 == number]
        for first in range(0, len(own), source.num_rows):
            assert len(set(own[first : first + source.num_rows])) == len(own[first : first + source.num_rows])
    found = mixed.order.steps_of(mixed.order.rows_of(0, 50, epoch=1), 50, epochs=[1])
    assert set(found["slot"].tolist()) == set(range(50))


def test_a_state_takes_new_weights_from_its_position_on_and_no_others(sources: Any) -> None:
    even = dict.fromkeys(sources, 1)
    mixed = unirecord.mix(sources, samples=60, seed=4)
    before = [int(sample["i"]) for sample, _ in zip(mixed, range(60 + 21), strict=False)]
    batches = iter(loader := mixed.batches(7))
    for _ in range(3):
        before += next(batches)["i"].tolist()
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (1, 21)
    changed = unirecord.mix(sources, schedule={81: even}, samples=60, seed=4)
    changed.load_state_dict(state)
    after = ids(changed)
    assert len(after) == 39
    for number, source in enumerate(sources.values()):
        own = [i for i in before + after if i // 1000 == number]
        for first in range(0, len(own), source.num_rows):
            assert len(set(own[first : first + source.num_rows])) == len(own[first : first + source.num_rows])
    assert [sum(i // 1000 == n for i in after) for n in range(3)] == [13, 13, 13]
    for other in ({80: even}, {1: even}):
        with pytest.raises(ValueError, match="weights"):
            unirecord.mix(sources, schedule=other, samples=60, seed=4).load_state_dict(state)
    with pytest.raises(ValueError, match="drawn"):
        unirecord.mix(sources, {"web": 1, "code": 2, "books": 3}, samples=60, seed=4).load_state_dict(state)
    plain = unirecord.UniRecordDataset(mixed.path, shuffle=True, seed=4)
    with pytest.raises(ValueError, match="drawn"):
        plain.load_state_dict(state)
    with pytest.raises(ValueError, match="drawn"):
        mixed.load_state_dict(plain.state_dict())


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "drawing.md"
    outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 10


# ---- what does not go together ----------------------------------------------------------------------------------


def test_columns_are_those_that_all_sources_read(sources: Any) -> None:
    mixed = unirecord.mix(
        {"a": sources["web"], "b": sources["code"].view(columns=["i"])}, source_column="from"
    )
    assert list(mixed[0]) == ["i", "from"]
    assert unirecord.mix(sources, source_column=None)[0].keys() == {"i", "text"}
    with pytest.raises(SchemaError, match="no column in common"):
        unirecord.mix({"a": sources["web"].view(columns=["text"]), "b": sources["code"].view(columns=["i"])})
    with pytest.raises(SchemaError, match="'text' already"):
        unirecord.mix(sources, source_column="text")


def test_sources_may_store_other_columns(sources: Any, tmp_path: Path) -> None:
    """In another order, among others, in columns parts: what a mixture has is the columns of its sources."""
    with unirecord.Writer(
        tmp_path / "a", {"text": "string", "x": "bytes?", "i": "int64"}, index=["i"]
    ) as writer:
        for i in range(2000, 2030):
            writer.write({"text": f"é {i}", "x": None if i % 2 else b"x" * (i % 9), "i": i})
    with unirecord.Writer(tmp_path / "b.urec", {"x": "bytes?", "text": "string", "y": "int8"}) as writer:
        for i in range(20):
            writer.write({"x": b"b" * i, "text": str(i), "y": i})
    with unirecord.Writer(tmp_path / "c.urec", {"z": "float32?", "text": "string"}) as writer:
        writer.write_batch({"z": [1.5, None], "text": ["c", "d"]})
    unirecord.add_columns(tmp_path / "a", {"z": "float32?"}, {"i": [2003], "z": [0.5]}, key="i")
    a, b, c = (unirecord.UniRecordDataset(tmp_path / name) for name in ("a", "b.urec", "c.urec"))
    mixed = unirecord.mix({"web": sources["web"], "a": a.view(shuffle=True, seed=3)}, stop="all", seed=2)
    assert mixed.schema.names == ("i", "text")
    own = {int(s["i"]): s["text"] for ds in (sources["web"], a) for s in ds}
    found = {int(s["i"]): s["text"] for s in pickle.loads(pickle.dumps(mixed))}
    assert found == own
    batches = list(mixed.batches(7, num_threads=2))
    assert {
        int(i): text for batch in batches for i, text in zip(batch["i"], batch["text"], strict=True)
    } == own
    other = unirecord.mix({"a": a, "b": b}, stop="all", samples=100)
    assert other.schema.names == ("text", "x")
    blobs = {s["text"]: None if s["x"] is None else bytes(s["x"]) for ds in (a, b) for s in ds}
    assert {s["text"]: None if s["x"] is None else bytes(s["x"]) for s in other} == blobs
    third = unirecord.mix({"a": a, "c": c}, stop="all", samples=100)  # text and z, in two files of a
    assert {s["text"]: s["z"] for s in third} == {s["text"]: s["z"] for ds in (a, c) for s in ds}


def test_a_column_of_two_types_is_named(sources: Any, tmp_path: Path) -> None:
    for spec in ("int32", "int64?"):
        with unirecord.Writer(
            tmp_path / "other.urec", {"i": spec, "text": "string"}, overwrite=True
        ) as writer:
            writer.write({"i": 1, "text": "x"})
        other = unirecord.UniRecordDataset(tmp_path / "other.urec")
        with pytest.raises(SchemaError, match=rf"'i' is 'int64' in source 'web' and '{spec[:5]}.*ds\.view"):
            unirecord.mix({"web": sources["web"], "other": other})
        mixed = unirecord.mix({"web": sources["web"].view(columns=["text"]), "other": other})
        assert mixed.schema.names == ("text",)


def test_a_state_goes_on_when_a_source_has_another_column(sources: Any, tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "a", {"i": "int64", "text": "string"}) as writer:
        writer.write_batch({"i": np.arange(9), "text": [str(i) for i in range(9)]})

    def mixed() -> Any:
        return unirecord.mix({"web": sources["web"], "a": unirecord.UniRecordDataset(tmp_path / "a")}, seed=1)

    expected = ids(mixed())
    before = iter(job := mixed())
    begun = ids([next(before) for _ in range(5)])
    state = job.state_dict()
    unirecord.add_columns(tmp_path / "a", {"more": "int8"}, {"more": [1] * 9})
    after = mixed()
    after.load_state_dict(state)
    assert begun + ids(after) == expected


def test_what_a_mixture_cannot_be_asked_says_what_can(sources: Any) -> None:
    mixed = unirecord.mix(sources)
    for narrow in (lambda: mixed.take(3), lambda: mixed.view(where="i > 3"), lambda: mixed.split(0.5)):
        with pytest.raises(ValueError, match="before a mixture is made"):
            narrow()
    for ask in (mixed.refresh, mixed.scalars):
        with pytest.raises(ValueError, match="made"):
            ask()
    assert mixed.scalars(["i"], order="samples")["i"].tolist() == ids(mixed)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"weights": {"web": 1}}, "one for each of"),
        ({"weights": {"web": 1, "code": 0, "books": 1}}, "'code' has the weight 0"),
        ({"stop": "last"}, "stop must be"),
        ({"schedule": {5: {"web": 1, "code": 1, "books": 1}}}, "samples="),
        ({"schedule": {0: {"web": 1, "code": 1, "books": 1}}, "samples": 9}, "schedule"),
        ({"samples": 0}, "samples"),
        ({"shuffle": "random"}, "shuffle"),
        ({"num_shards": 2}, "without shard_id"),
    ],
)
def test_wrong_arguments_are_refused(sources: Any, change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        unirecord.mix(sources, **change)


@pytest.mark.parametrize(
    "option",
    [{"transform": str}, {"on_corrupt": "skip"}, {"remainder": "drop"}, {"shard_id": 0, "num_shards": 2}],
)
def test_sources_that_disagree_are_named(sources: Any, option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"in source 'web' and .* in 'code'"):
        unirecord.mix({"web": sources["web"], "code": sources["code"].view(**option)})


def test_sources_that_are_none_are_refused(sources: Any) -> None:
    for wrong in ({}, [sources["web"]], {"web": 3}, {3: sources["web"]}):
        with pytest.raises(TypeError, match="source"):
            unirecord.mix(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'none' has no rows.* leave it out"):
        unirecord.mix({"none": sources["web"].take(0)})


def test_mixtures_follow_the_ranks_of_their_sources(sources: Any) -> None:
    second = {name: ds.view(shard_id=1, num_shards=2) for name, ds in sources.items()}
    mixed = unirecord.mix(second, samples=10)
    assert (mixed.shard_id, mixed.num_shards, len(mixed)) == (1, 2, 5)
    assert len(unirecord.mix(second, samples=10, shard_id=0, num_shards=5)) == 2
