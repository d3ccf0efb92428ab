"""Order through UniRecordDataset: what MindRecord's tests ask of shards, samplers and resuming, and more strictly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from order_datasets import MODES, PARTS, Make, maker, values

from unirecord import UniRecordDataset


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return maker(tmp_path_factory)


def all_ranks(path: Any, count: int, epoch: int = 0, **options: Any) -> list[list[int]]:
    found = []
    for rank in range(count):
        ds = UniRecordDataset(path, rank, count, **options)
        ds.set_epoch(epoch)
        found.append(values(ds))
    return found


def ten(make: Make, *shard: int, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(make([10])[0], *shard, **options)


# ---- shards (D1, D2, D3, D7, D8, D17, G1) ----


@pytest.mark.parametrize(("count", "each"), [(4, 3), (5, 2), (9, 2)])
def test_every_shard_of_ten_rows_has_as_many(make: Make, count: int, each: int) -> None:
    """D1, G1: the padding is what fills the last round, and consists of rows of the front of the epoch."""
    for shuffle in (False, True):
        for epoch in range(5):
            shards = all_ranks(make([10]), count, epoch, shuffle=shuffle)
            assert [len(shard) for shard in shards] == [each] * count
            every = Counter(row for shard in shards for row in shard)
            assert set(every) == set(range(10))
            assert sum(every.values()) - 10 == -10 % count
            front = [shards[rank][0] for rank in range(-10 % count)]
            assert sorted(row for row, times in every.items() if times == 2) == sorted(front)


def test_a_number_of_samples_is_a_slice(make: Make) -> None:
    """D2."""
    for samples, expected in ((1, [1, 1, 1]), (2, [2, 2, 2]), (3, [3, 2, 2])):
        assert [len(ten(make, 0, count)[:samples]) for count in (4, 5, 9)] == expected
    assert len(ten(make).take(5)) == len(values(ten(make).take(5))) == 5


def test_shards_are_strided_and_runs_are_to_be_had(make: Make) -> None:
    """D3."""
    twelve = make([12])
    assert values(UniRecordDataset(twelve, 1, 3)) == [1, 4, 7, 10]
    assert values(UniRecordDataset(twelve).split([4, 4, 4], seed=None)[1]) == [4, 5, 6, 7]
    assert values(UniRecordDataset(twelve, 3, 5)) == [3, 8, 1]


def test_lengths_agree_with_what_comes(make: Make) -> None:
    """D7."""
    assert len(ten(make)) == 10
    ds = ten(make)
    assert len(values(ds) + values(ds)) == 20
    assert len(ten(make, 3, 4)) == len(values(ten(make, 3, 4))) == 3
    assert len(list(ten(make).batches(32, drop_last=True))) == 0
    assert len(list(ten(make).batches(32))) == 1


def test_several_parts_are_one_row_space(make: Make) -> None:
    """D8."""
    a, b = make([10])[0], make([20])[0]
    assert len(UniRecordDataset([a, b])) == 30
    assert values(UniRecordDataset([b, a])) == [*range(20), *range(10)]
    assert len(UniRecordDataset(make(PARTS)[0])) == 7
    shards = all_ranks([a, b], 4, shuffle=True, remainder="uneven")
    assert Counter(row for shard in shards for row in shard) == Counter([*range(10), *range(20)])


@pytest.mark.parametrize("columns", [None, ["i"], ["data", "i"]])
def test_columns_do_not_change_the_order(make: Make, columns: list[str] | None) -> None:
    """D9: all columns or some, five epochs, with and without batches."""
    whole, some = (ten(make, shuffle=True, columns=c) for c in (None, columns))
    for _ in range(5):
        rows = values(whole)
        assert [int(sample["i"]) for sample in some] == rows
    batched = ten(make, shuffle=True, columns=columns)
    for epoch in range(5):
        expected = ten(make, shuffle=True)
        expected.set_epoch(epoch)
        assert [int(i) for batch in batched.batches(3) for i in batch["i"]] == values(expected)
        batched.set_epoch(epoch + 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((None, 4), "num_shards=4 is given without shard_id"),
        ((3, None), "shard_id=3 is given without num_shards"),
        ((2, 1), "shard_id is 2; it must be between 0 and 0"),
        ((5, 2), "shard_id is 5; it must be between 0 and 1"),
        ((0, 11), "num_shards=11 is more than the 10 rows"),
    ],
)
def test_wrong_shards_are_refused(make: Make, arguments: tuple[int, int], text: str) -> None:
    """D17."""
    with pytest.raises(ValueError, match=text):
        ten(make, *arguments)


def test_wrong_counts_are_refused(make: Make) -> None:
    """D17, D18: numbers of samples; a selection with a shuffle is no conflict."""
    with pytest.raises(ValueError, match="n is -1"):
        ten(make).take(-1)
    assert sorted(values(ten(make, shuffle=True).select([5, 1, 7]))) == [1, 5, 7]


def test_ranks_come_from_the_environment(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_PROCID", "SLURM_NTASKS", "PMI_RANK", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert values(UniRecordDataset.distributed(make([12]))) == [1, 4, 7, 10]
    assert values(UniRecordDataset.distributed(make([12]), 0, 2)) == [0, 2, 4, 6, 8, 10]
    assert len(UniRecordDataset(make([12]))) == 12  # only distributed() looks
    monkeypatch.delenv("RANK")
    with pytest.raises(ValueError, match="WORLD_SIZE=3"):
        UniRecordDataset.distributed(make([12]))


# ---- epochs (D5, D6, S2) ----


def test_ranks_get_other_rows_in_other_orders_each_epoch(make: Make) -> None:
    """D5: and all of them together every row, once or as often as the padding says."""
    rows = make([40])
    seen = []
    for epoch in range(3):
        shards = all_ranks(rows, 3, epoch, shuffle=True, seed=5)
        every = Counter(row for shard in shards for row in shard)
        assert set(every) == set(range(40))
        assert sum(every.values()) == 42
        seen.append(shards[1])
    assert len({tuple(shard) for shard in seen}) == len({frozenset(shard) for shard in seen}) == 3


def test_a_seed_repeats_all_its_epochs_and_another_seed_none(make: Make) -> None:
    """D6, S2."""

    def epochs(seed: int) -> list[tuple[int, ...]]:
        ds = UniRecordDataset(make([40]), shuffle=True, seed=seed)
        return [tuple(values(ds)) for _ in range(3)]

    assert epochs(54321) == epochs(54321)
    assert len(set(epochs(54321) + epochs(12345) + [tuple(range(40))])) == 7


def test_iterating_advances_the_epoch_and_set_epoch_chooses_it(make: Make) -> None:
    ds, fresh = (ten(make, shuffle=True) for _ in range(2))
    first, second = values(ds), values(ds)
    assert first != second
    fresh.set_epoch(1)
    assert values(fresh) == second
    fresh.set_epoch(0)
    assert [int(fresh[i]["i"]) for i in range(10)] == first
    assert values(fresh) == first
    assert values(fresh) == second


def test_iterators_are_independent_of_one_another_and_of_indexing(make: Make) -> None:
    ds = UniRecordDataset(make([50]), shuffle=True)
    expected = UniRecordDataset(make([50]), shuffle=True)
    epochs = [values(expected) for _ in range(3)]
    one, two = iter(ds), iter(ds)
    taken: tuple[list[int], list[int]] = ([], [])
    for i in range(50):
        taken[0].append(int(next(one)["i"]))
        assert int(ds[i]["i"]) in range(50)
        if i % 2:
            taken[1].append(int(next(two)["i"]))
        if i == 20:
            ds.set_epoch(7)
    taken[1].extend(int(sample["i"]) for sample in two)
    assert list(taken) == epochs[:2]
    ds.set_epoch(2)
    assert values(ds) == epochs[2]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", [None, "odd", "i >= 7 and i < 19", "i < 0"])
def test_every_mode_is_a_permutation_in_every_epoch_on_any_ranks(
    make: Make, mode: Any, where: str | None
) -> None:
    rows = [
        i
        for i in range(50)
        if where is None or (i % 2 if where == "odd" else 7 <= i < 19 and where[:4] == "i >=")
    ]
    options = {"shuffle": mode, "where": where, "remainder": "uneven"}
    if mode == "block":
        options |= {"block_rows": 4, "window_blocks": 3}
    for count in (1, 2, 3, 7):
        for epoch in range(3):
            if count <= max(len(rows), 1):
                shards = all_ranks(make(PARTS), count, epoch, **options)
                assert sorted(row for shard in shards for row in shard) == rows


def test_parts_keep_their_order_and_their_rows_in_every_epoch(make: Make) -> None:
    """D11."""
    sizes = [8, 9, 10, 11]
    ends = np.cumsum(sizes)
    chunks = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    whole, parts, within = (
        UniRecordDataset(make(sizes), shuffle=mode, seed=3) for mode in (True, "parts", "within-parts")
    )
    orders = set()
    for _ in range(6):
        shuffled = values(whole)
        assert all(shuffled[c[0] : c[-1] + 1] != c for c in chunks)
        by_part, inside = values(parts), values(within)
        starts = sorted(by_part.index(c[0]) for c in chunks)
        pieces = [by_part[a:b] for a, b in zip(starts, [*starts[1:], 38], strict=True)]
        assert sorted(pieces) == chunks
        orders.add(tuple(by_part))
        for chunk in chunks:
            assert sorted(inside[chunk[0] : chunk[-1] + 1]) == chunk
            assert inside[chunk[0] : chunk[-1] + 1] != chunk
    assert len(orders) > 3


def test_blocks_are_chosen_the_same_by_every_rank(make: Make) -> None:
    shards = all_ranks(make([50]), 4, shuffle="block", remainder="uneven")
    assert sorted(row for shard in shards for row in shard) == list(range(50))


# ---- random access, samplers, selections (S1, S2, S3, S5, S7) ----


def test_rows_are_selected_by_number(make: Make) -> None:
    """S1."""
    ds = ten(make)
    for rows in ([1, 2, 3, 5, 7], [1, 2, 2, 5, 7, 9], [], np.array([9, 0])):
        assert values(ds.select(rows)) == list(rows)
    assert values(ds.select([1, 2, 4, -1, -2])) == [1, 2, 4, 9, 8]
    for rows in ([1, 2, 4, 11, 13], [-11]):
        with pytest.raises(
            IndexError, match=f"row {next(r for r in rows if not -10 <= r < 10)} is out of range"
        ):
            ds.select(rows)
    assert [int(s["i"]) for s in ds.__getitems__([3, 3, -1])] == [3, 3, 9]
    with pytest.raises(IndexError, match="10"):
        ds[10]
    assert [int(s["i"]) for s in ds[::-3]] == [9, 6, 3, 0]


def test_random_samples_are_taken_without_replacement(make: Make) -> None:
    """S2."""
    ds = ten(make, shuffle=True)
    for count in (2, 10, 20):
        for _ in range(3):
            rows = [int(i) for i in ds.order.row_ids(0, count)]
            assert len(rows) == len(set(rows)) == min(count, 10)
    replaced = ten(make).select(np.random.default_rng(1).integers(0, 10, 5))
    assert len(values(replaced)) == 5


def test_sequential_ranges(make: Make) -> None:
    """S3."""
    ds = ten(make)
    assert values(ds.skip(1).take(4)) == [1, 2, 3, 4]
    assert values(ds.skip(2).take(10)) == values(ds.skip(2).take(20)) == [*range(2, 10)]
    assert values(ds.skip(10)) == values(ds.skip(12).take(2)) == []


def test_splits(make: Make) -> None:
    """S5."""
    ds = ten(make)
    for sizes, expected in (([8, 2], [8, 2]), ([0.8, 0.2], [8, 2]), ([0.41, 0.59], [4, 6])):
        assert [len(part) for part in ds.split(sizes, seed=1)] == expected
        plain = ds.split(sizes, seed=None)
        assert [values(part) for part in plain] == [list(range(expected[0])), list(range(expected[0], 10))]
    first, second = (ds.split([0.5, 0.5], seed=9) for _ in range(2))
    assert [values(part) for part in first] == [values(part) for part in second]
    assert sorted(values(first[0]) + values(second[1])) == list(range(10))
    train = [
        UniRecordDataset(make([40]), rank, 3, shuffle=True).split([0.8, 0.2], seed=1)[0] for rank in range(3)
    ]
    assert [len(part) for part in train] == [11, 11, 11]
    assert len({row for part in train for row in values(part)}) == 32


def test_selections_compose_with_where_shards_and_every_mode(make: Make) -> None:
    """S7: no chain of them is a conflict."""
    for mode in MODES:
        expected = list(range(1, 50, 2))[3:][:15][::-2]
        shards = [
            UniRecordDataset(make(PARTS), rank, 2, where="odd", shuffle=mode, remainder="uneven")
            .skip(3)
            .take(15)
            .select(slice(None, None, -2))
            for rank in range(2)
        ]
        found = [values(ds) for ds in shards]
        assert sorted(found[0] + found[1]) == sorted(expected)
        assert [ds.num_rows for ds in shards] == [len(expected)] * 2
        if mode is False:
            assert found == [expected[0::2], expected[1::2]]
