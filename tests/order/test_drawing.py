"""Batches drawn by classes and by length: by the formula, on any number of ranks, resumed, in PyTorch."""

from __future__ import annotations

import json
from collections import Counter
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawing_data import LABELS, LENGTHS, ROWS, dataset, ids, joined
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord.errors import SchemaError
from unirecord.order.sampling import edges_of


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> unirecord.UniRecordDataset:
    return dataset(tmp_path_factory.mktemp("drawing") / "d.urec")


# ---- by classes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "per_class"), [(3, 2), (8, 4), (9, 1), (1, 7)])
def test_each_batch_has_as_many_rows_of_as_many_classes(ds: Any, classes: int, per_class: int) -> None:
    drawn = unirecord.balanced(ds, "name", classes=classes, per_class=per_class)
    came: Counter[str] = Counter()
    for batch in drawn.batches():
        counts = Counter(batch["name"])
        assert len(counts) == classes
        assert set(counts.values()) == {per_class}
        for name in counts:
            rows = [i for i, other in zip(batch["i"].tolist(), batch["name"], strict=True) if other == name]
            assert len(set(rows)) == min(per_class, Counter(LABELS.tolist())[int(name[6:])])
        came.update(counts.keys())
    assert max(came.values()) - min(came.get(f"class {c}", 0) for c in range(9)) <= lcm(9, classes) // 9


def test_a_class_is_gone_through_before_its_rows_come_again(ds: Any) -> None:
    drawn = unirecord.balanced(ds, "label", classes=9, per_class=1, batches=7)
    rare = [int(i) for _ in range(20) for batch in drawn.batches() for i in batch["i"] if LABELS[i] == 8]
    rows = int(np.sum(LABELS == 8))
    assert 1 < rows < 60
    epochs = [rare[k : k + rows] for k in range(0, len(rare) - rows + 1, rows)]
    assert all(len(set(epoch)) == rows for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1


# ---- by length --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["tokens", "size"])
def test_every_row_comes_once_in_batches_of_bounded_size(ds: Any, column: str) -> None:
    drawn = unirecord.bucketed(ds, column, max_length=400)
    orders = []
    for _ in range(3):
        batches = list(drawn.batches())
        assert len(batches) == len(drawn)
        assert sorted(joined(ids(batches))) == list(range(ROWS))
        for batch in batches:
            assert len(batch["i"]) * int(batch["size"].max()) <= 400
        orders.append(ids(batches))
    assert len({str(order) for order in orders}) == 3
    wasted = sum(len(b) * int(LENGTHS[b].max()) - int(LENGTHS[b].sum()) for b in orders[0])
    assert wasted < 0.1 * LENGTHS.sum()  # a third where rows are taken at random


def test_edges_and_small_batches(ds: Any) -> None:
    drawn = unirecord.bucketed(ds, "tokens", batch_size=16, edges=[20, 50], drop_last=True)
    for batch in ids(drawn.batches()):
        assert len(batch) == 16
        assert len({int(np.searchsorted([20, 50], LENGTHS[i])) for i in batch}) == 1
    counts = np.bincount(np.searchsorted([20, 50], LENGTHS))
    assert len(drawn) == sum(counts // 16)
    expected = "6 7 8 9 10 11 12 13 14 15 16 18 20 22 24 27 30 33 37 41 46 51 57 64 72 81 91 102"
    assert edges_of(np.array([3, 100])) == [int(edge) for edge in expected.split()]


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_drop_last_leaves_out_every_batch_that_is_smaller(ds: Any, data: Any) -> None:
    """Those of buckets that have less than one batch, too."""
    edges = sorted(data.draw(st.sets(st.integers(1, 90), max_size=6)))
    sizes = [{"batch_size": data.draw(st.integers(1, 150))}, {"max_length": data.draw(st.integers(90, 4000))}]
    size, plain = data.draw(st.sampled_from(sizes)), ds.take(data.draw(st.integers(1, ROWS)))
    kept = unirecord.bucketed(plain, "tokens", edges=edges, drop_last=True, **size)
    lengths = LENGTHS[: len(plain)]
    bucket = np.searchsorted(edges, lengths)
    whole = {}
    for number in np.unique(bucket).tolist():
        longest = max(1, int(lengths[bucket == number].max()))
        whole[number] = size.get("batch_size") or size["max_length"] // longest
    batches = [kept.order.rows_of(step, epoch=0).tolist() for step in range(kept.order.steps_in_epoch())]
    assert all(len(batch) == whole[bucket[batch[0]]] for batch in batches)
    assert len(batches) == sum(np.count_nonzero(bucket == number) // whole[number] for number in whole)
    assert ids(kept.batches()) == batches


@pytest.mark.parametrize(
    "chosen",
    [range(200), range(199, -1, -3), np.flatnonzero(LENGTHS[:200] % 3), [7, 150, 3, 3, 60, 199]],
    ids=["all", "backwards", "most", "picked"],
)
def test_buckets_are_those_of_any_selection_over_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Any
) -> None:
    monkeypatch.setattr("unirecord.order.selection.CHUNK", 32)  # lengths are found in several pieces
    schema = {"i": "int32", "tokens": {"type": "uint16", "shape": [-1, 2]}}
    with unirecord.Writer(tmp_path / "d", schema, max_part_bytes=4096) as writer:
        for i in range(200):
            writer.write({"i": i, "tokens": np.zeros((LENGTHS[i], 2), np.uint16)})
    whole = unirecord.UniRecordDataset(tmp_path / "d", shuffle=True, columns=["i"])
    batches = ids(unirecord.bucketed(whole.select(chosen), "tokens", batch_size=6, edges=[10, 40]).batches())
    assert sorted(joined(batches)) == sorted(np.asarray(chosen).tolist())
    for batch in batches:
        assert len({int(np.searchsorted([10, 40], LENGTHS[i])) for i in batch}) == 1


def test_an_unshuffled_dataset_is_drawn_as_stored(ds: Any) -> None:
    plain = ds.view(shuffle=False)
    batches = ids(unirecord.bucketed(plain, "tokens", batch_size=50, edges=[]).batches())
    assert joined(batches) == list(range(ROWS))
    assert ids(unirecord.balanced(plain, "label", classes=1, per_class=3, batches=1).batches()) == [
        np.flatnonzero(LABELS == 0)[:3].tolist()
    ]


# ---- both -------------------------------------------------------------------------------------------------------

FRAMEWORKS_OF_SAMPLES = [
    unirecord.hf.dataset,
    unirecord.hf.table,
    unirecord.keras.dataset,
    unirecord.grain.batches,
    unirecord.mindspore.dataset,
]

DRAWS = {
    "balanced": lambda ds: unirecord.balanced(ds, "label", classes=4, per_class=3),
    "bucketed": lambda ds: unirecord.bucketed(ds, "tokens", max_length=300),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("remainder", ["pad", "drop", "uneven"])
def test_ranks_share_batches_and_a_job_goes_on_with_others(ds: Any, draw: Any, remainder: Any) -> None:
    whole = ids(draw(ds).batches())
    counts = []
    for rank in range(4):
        drawn = draw(ds.view(shard_id=rank, num_shards=4, remainder=remainder))
        got = ids(drawn.batches())
        counts.append(len(got))
        assert got == [whole[(rank + 4 * k) % len(whole)] for k in range(len(got))]
        assert drawn.order.rows_of(2, epoch=0, rank=3).tolist() == whole[11]
    assert len(set(counts)) == 1 or remainder == "uneven"
    loader = draw(ds.view(shard_id=1, num_shards=4, remainder=remainder)).batches()
    batches = iter(loader)
    before = [next(batches)["i"].tolist() for _ in range(3)]
    state = json.loads(json.dumps(loader.state_dict()))
    assert (before, state["position"]) == ([whole[1], whole[5], whole[9]], 12)
    resumed = draw(ds.view(shard_id=0, num_shards=2, remainder=remainder)).batches()
    resumed.load_state_dict(state)
    rest = ids(resumed)
    assert rest == [whole[(12 + 2 * k) % len(whole)] for k in range(len(rest))]
    with pytest.raises(ValueError, match="drawn"):
        ds.load_state_dict(state)
    with pytest.raises(ValueError, match="drawn"):
        unirecord.bucketed(ds, "tokens", max_length=301).load_state_dict(state)


@pytest.mark.parametrize("version", [0, 2, None, "1"])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_state_by_another_version_of_the_rules_is_refused(ds: Any, draw: Any, version: Any) -> None:
    state = json.loads(json.dumps(draw(ds).batches().state_dict()))
    assert state["drawn"]["version"] == 1
    draw(ds).batches().load_state_dict(state)
    state["drawn"]["version"] = version
    with pytest.raises(
        ValueError, match=f"rule of draws '{state['drawn']['rule']}' has version {version!r}.*version 1"
    ):
        draw(ds).batches().load_state_dict(state)


ASKED = DRAWS | {
    "scarce": lambda ds: unirecord.balanced(ds, "label", classes=5, per_class=7, batches=40),
    "short": lambda ds: unirecord.bucketed(ds, "tokens", batch_size=16, edges=[20, 50], drop_last=True),
    "few": lambda ds: unirecord.balanced(ds, "label", classes=2, per_class=2, batches=5),
}


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_steps_and_rows_of_drawn_batches_are_inverse(ds: Any, data: Any) -> None:
    draw = ASKED[data.draw(st.sampled_from(sorted(ASKED)))]
    ranks, epoch = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3))
    remainder, start = data.draw(st.sampled_from(["pad", "drop", "uneven"])), data.draw(st.integers(0, 5))
    plain = ds.view(shuffle=data.draw(st.booleans()), remainder=remainder).select(range(ROWS - 1, 20, -1))
    drawn = draw(plain)
    asked = {"num_shards": ranks, "start": start}
    steps = drawn.order.steps_in_epoch(**asked)
    expected = set()
    for step in range(steps):
        together = []
        for rank in range(ranks):
            rows = drawn.order.rows_of(step, epoch=epoch, rank=rank, **asked).tolist()
            together += rows
            expected |= {(row, epoch, step, rank, slot) for slot, row in enumerate(rows)}
        assert drawn.order.rows_of(step, epoch=epoch, **asked).tolist() == together
    found = drawn.order.steps_of(range(ROWS), epochs=[epoch], **asked)
    table = list(
        zip(*(found[name].tolist() for name in ("row", "epoch", "step", "rank", "slot")), strict=True)
    )
    came = [entry for entry in table if entry[2] >= 0]
    assert set(came) == expected
    assert len(came) == len(expected)
    never = {entry[0] for entry in table if entry[2] < 0}
    assert never == set(range(ROWS)) - {entry[0] for entry in expected}
    if not start and steps:
        rows = drawn.order.rows_of(0, epoch=epoch, **asked).tolist()
        assert drawn.order.rows_of(epoch * steps, **asked).tolist() == rows
    with pytest.raises(IndexError, match="there is no step"):
        drawn.order.rows_of(steps, epoch=epoch, **asked)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_rows_of_drawn_batches_are_what_loaders_deliver(ds: Any, draw: Any) -> None:
    ranks = [draw(ds.view(shard_id=rank, num_shards=3, remainder="uneven")) for rank in range(3)]
    for epoch in range(2):
        for rank, drawn in enumerate(ranks):
            for step, batch in enumerate(drawn.batches()):
                assert ranks[0].order.rows_of(step, epoch=epoch, rank=rank).tolist() == batch["i"].tolist()
    read = draw(ds).order.rows_of(1, epoch=0, read=True)
    assert read["i"].tolist() == draw(ds).order.rows_of(1, epoch=0).tolist()
    with pytest.raises(ValueError, match="give the epoch"):
        draw(ds).order.rows_of(1, start=4)


def test_when_a_row_comes_in_too_many_draws_is_refused(ds: Any) -> None:
    drawn = unirecord.weighted(ds, "size", samples=10**12)
    assert len(drawn.order.rows_of(10**9, 64, epoch=3)) == 64
    with pytest.raises(ValueError, match="ask for the rows of steps"):
        drawn.order.steps_of([5], 64)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_every_way_to_read_gives_the_same_batches(
    ds: Any, draw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    monkeypatch.setattr("unirecord.loading.plan._STRETCH", 64)  # several loaders of the core in a pass
    drawn = draw(ds.view(columns=["i", "label"]))
    whole = ids(drawn.batches())
    for batches in (
        drawn.batches(transform=lambda sample: {"i": sample["i"]}),
        unirecord.torch.loader(drawn),
        DataLoader(drawn.dataset, batch_sampler=drawn),
    ):
        drawn.set_epoch(0)
        assert len(batches) == len(whole)
        assert ids(batches) == whole
    assert list(drawn) != whole  # it is the next epoch
    with pytest.raises(ValueError, match="batch_size=3"):
        unirecord.torch.loader(drawn, 3)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_tensorflow_and_jax_get_the_same_batches(ds: Any, draw: Any) -> None:
    pytest.importorskip("jax")
    drawn = draw(ds.view(columns=["i", "label"], shard_id=1, num_shards=2))
    whole = ids(drawn.batches())
    drawn.set_epoch(0)
    loader = unirecord.jax.loader(drawn)
    assert ids(loader) == whole
    again = draw(ds.view(columns=["i", "label"], shard_id=0, num_shards=1))
    again.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="batch_size=3"):
        unirecord.jax.loader(drawn, 3)
    with pytest.raises(ValueError, match="global array"):
        unirecord.jax.loader(drawn, sharding=object())
    pytest.importorskip("tensorflow")
    drawn.set_epoch(0)
    data = unirecord.tf.dataset(drawn)
    assert int(data.cardinality()) == len(whole)
    assert [batch["i"].numpy().tolist() for batch in data] == whole
    assert [batch["i"].numpy().tolist() for batch in data] != whole  # another epoch


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pipeline", "drawn.batches"),
        ("row_ids", "rows_of"),
    ],
)
def test_what_drawn_batches_are_not_names_the_way(ds: Any, name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        getattr(DRAWS["bucketed"](ds), name)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_the_order_of_drawn_batches_gives_a_batch_again_and_refuses_what_they_have_not(
    ds: Any, draw: Any
) -> None:
    drawn = draw(ds.view(shard_id=1, num_shards=2))
    whole = [batch["i"].tolist() for batch in drawn.batches()]
    for step in (0, len(whole) - 1):
        assert drawn.order.replay(step, epoch=0)["i"].tolist() == whole[step]
        doubled = drawn.order.replay(step, epoch=0, batch_transform=lambda batch: batch["i"] * 2)
        assert doubled.tolist() == [2 * i for i in whole[step]]
    with pytest.raises(IndexError, match="no step"):
        drawn.order.replay(len(whole) + 1, epoch=0)
    with pytest.raises(ValueError, match="replay of another rank"):
        drawn.order.replay(0, epoch=0, rank=0)
    for asked in (drawn.order.rows_of, drawn.order.replay):
        with pytest.raises(ValueError, match="leave out batch_size"):
            asked(0, 8, epoch=0)
    with pytest.raises(ValueError, match=r"order\.rows_of\(step\)"):
        drawn.order.row_ids()
    with pytest.raises(TypeError, match="batch_size"):
        ds.order.rows_of(0)


@pytest.mark.parametrize("give", FRAMEWORKS_OF_SAMPLES, ids=lambda give: give.__module__.rpartition(".")[2])
def test_frameworks_that_take_samples_say_what_to_do_with_drawn_batches(ds: Any, give: Any) -> None:
    with pytest.raises(TypeError, match=r"these batches have been drawn: .*drawn\b"):
        give(DRAWS["bucketed"](ds), *([] if give in (unirecord.hf.dataset, unirecord.hf.table) else [4]))


TAKE_DRAWN_BATCHES = [unirecord.torch.loader, unirecord.tf.dataset, unirecord.jax.loader]


@pytest.mark.parametrize("give", TAKE_DRAWN_BATCHES, ids=lambda give: give.__module__.rpartition(".")[2])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 4}, "have the size that they have"),
        ({"drop_last": True}, "batches have been drawn already"),
    ],
    ids=str,
)
def test_frameworks_that_take_drawn_batches_refuse_what_says_otherwise(
    ds: Any, give: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        give(DRAWS["bucketed"](ds), **options)


@pytest.mark.parametrize("give", TAKE_DRAWN_BATCHES, ids=lambda give: give.__module__.rpartition(".")[2])
def test_frameworks_that_take_drawn_batches_take_nothing_else_but_datasets(ds: Any, give: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a UniRecordDataset, not 'train\.urec'"):
        give("train.urec", 4)


def test_a_row_on_which_a_transform_fails_is_named(ds: Any) -> None:
    drawn = unirecord.bucketed(ds, "tokens", batch_size=8)
    whole = ids(drawn.batches())

    def fail(sample: Any) -> Any:
        if sample["i"] == whole[3][-1]:
            raise ValueError("no")
        return sample

    drawn.set_epoch(0)
    with pytest.raises(unirecord.TransformError, match=f"row {whole[3][-1]} "):
        list(drawn.batches(transform=fail))


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (lambda ds: unirecord.balanced(ds, "label", classes=10, per_class=1), "has 9 classes"),
        (lambda ds: unirecord.weighted(ds, [1.0, 2.0]), "one for each of the 300 rows"),
        (lambda ds: unirecord.weighted(ds, np.zeros(ROWS)), "not all 0"),
        (lambda ds: unirecord.weighted(ds, np.full(ROWS, np.inf)), "finite"),
        (lambda ds: unirecord.weighted(ds, LABELS - 1), "0 or more"),
        (lambda ds: unirecord.weighted(ds, "size", samples=301, replacement=False), "rows can be drawn"),
        (lambda ds: unirecord.weighted(unirecord.weighted(ds, "label"), "label"), "this is weighted already"),
        (lambda ds: unirecord.weighted(ds, "label").take(3), "before a weighted draw is made"),
        (
            lambda ds: unirecord.balanced(unirecord.windows(ds, "tokens", 5), "x", classes=1, per_class=1),
            "windows or packed samples",
        ),
        (
            lambda ds: unirecord.mix({"a": unirecord.windows(ds, "tokens", 5), "b": ds}),
            "windows or packed samples, and 'b' of rows",
        ),
        (lambda ds: unirecord.balanced(ds, "label", classes=0, per_class=1), "classes"),
        (lambda ds: unirecord.bucketed(ds, "tokens"), "one of batch_size and max_length"),
        (
            lambda ds: unirecord.bucketed(ds, "tokens", batch_size=2, max_length=9),
            "one of batch_size and max_length",
        ),
        (
            lambda ds: unirecord.bucketed(ds, "tokens", max_length=80),
            "rows are longer than max_length=80; row",
        ),
        (lambda ds: unirecord.bucketed(ds, "tokens", batch_size=2, edges=[3, 3]), "must ascend"),
        (
            lambda ds: unirecord.bucketed(ds.view(shuffle="block"), "tokens", batch_size=2),
            "shuffled by 'block'",
        ),
        (lambda ds: unirecord.bucketed(ds, "tokens", batch_size=2).batches(drop_last=True), "drop_last"),
        (lambda ds: unirecord.bucketed(ds, "tokens", batch_size=2).batches(receipts="r"), "receipts"),
    ],
)
def test_wrong_draws_are_refused(ds: Any, draw: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        draw(ds)


def test_columns_without_classes_or_lengths_are_refused(ds: Any) -> None:
    with pytest.raises(SchemaError, match="'x' is float32"):
        unirecord.bucketed(ds, "x", batch_size=2)
    with pytest.raises(SchemaError, match="not scalar"):
        unirecord.balanced(ds, "tokens", classes=1, per_class=1)


@pytest.mark.parametrize(
    "draw",
    [
        lambda path: unirecord.weighted(path, "i"),
        lambda path: unirecord.balanced(path, "i", classes=1, per_class=1),
        lambda path: unirecord.bucketed(path, "i", batch_size=1),
        lambda path: unirecord.windows(path, "i", 2),
        lambda path: unirecord.packed(path, "i", 2),
    ],
    ids=["weighted", "balanced", "bucketed", "windows", "packed"],
)
def test_a_path_is_no_dataset_to_draw_from(draw: Any) -> None:
    with pytest.raises(
        TypeError, match=r"expected a UniRecordDataset, got 'data': open one with UniRecordDataset\("
    ):
        draw("data")
