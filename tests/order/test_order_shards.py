"""Shards and resuming: every rank's share of an epoch, on any number of ranks, and where the job was stopped."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unirecord.core import Order
from unirecord.order.spec import (
    OrderSpec,
    Sharding,
    check_shard_arguments,
    choose_blocks,
    shard_from_environment,
)

REMAINDER = st.sampled_from(["pad", "drop", "uneven"])


def positions(sharding: Sharding) -> list[int]:
    return [sharding.position(i) for i in range(sharding.length)]


def ranks(rows: int, count: int, remainder: str, start: int = 0) -> list[Sharding]:
    return [Sharding(rows, rank, count, remainder, start) for rank in range(count)]


# ---- lengths and positions ----


@pytest.mark.parametrize(("count", "each"), [(1, 10), (4, 3), (5, 2), (9, 2), (10, 1)])
def test_ten_rows_are_padded_to_equal_shards(count: int, each: int) -> None:
    assert [s.length for s in ranks(10, count, "pad")] == [each] * count


def test_shards_of_ten_rows_on_four_ranks() -> None:
    assert [positions(s) for s in ranks(10, 4, "pad")] == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    assert [positions(s) for s in ranks(10, 4, "drop")] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert [positions(s) for s in ranks(10, 4, "uneven")] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]


@given(st.integers(0, 300), st.integers(1, 40), REMAINDER)
def test_ranks_share_every_position(rows: int, count: int, remainder: str) -> None:
    count = min(count, max(rows, 1))
    shards = ranks(rows, count, remainder)
    given_out = sorted(p for s in shards for p in positions(s))
    lengths = {s.length for s in shards}
    if remainder == "uneven":
        assert given_out == list(range(rows))
        assert max(lengths) - min(lengths) <= 1
        assert [s.length for s in shards] == sorted((s.length for s in shards), reverse=True)
    else:
        assert len(lengths) == 1
    if remainder == "pad":
        missing = -rows % count
        assert given_out == sorted([*range(rows), *range(missing)])
    if remainder == "drop":
        assert given_out == list(range(rows - rows % count))


@given(st.integers(1, 2**62), st.integers(1, 2**31), st.integers(0, 2**31), REMAINDER)
def test_huge_shards_stay_in_range(rows: int, count: int, rank: int, remainder: str) -> None:
    count = min(count, rows)
    sharding = Sharding(rows, rank % count, count, remainder)
    if sharding.length:
        assert 0 <= sharding.position(sharding.length - 1) < rows
        assert sharding.first + (sharding.length - 1) * count <= 2**62 + 2**32  # what the C core takes


def test_samples_are_indexed_like_a_list() -> None:
    sharding = Sharding(10, 1, 4)
    assert [sharding.position(i) for i in (-1, -3)] == [9, 1]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"sample {index} .* shard 1 of 4 has 3 samples"):
            sharding.position(index)


@pytest.mark.parametrize("step", [1, 2, 5])
@given(st.integers(1, 200), st.integers(1, 20))
def test_the_first_samples_of_a_job_do_not_depend_on_the_ranks(step: int, rows: int, batch: int) -> None:
    """The first k·B samples are one set for every number of ranks that divides B."""
    total = min(batch * 10 * step, rows - rows % 10)
    for count in (1, 2, 5, 10):
        if count <= rows:
            delivered = [p for s in ranks(rows, count, "pad") for p in positions(s)[: total // count]]
            assert sorted(delivered) == list(range(total))


# ---- resuming ----


@dataclass
class Job:
    """Ranks in step: what they have delivered, as positions, and the state that rank 0 would save."""

    shards: list[Sharding]
    batch: int

    def run(self, batches: int) -> tuple[list[list[int]], int]:
        stop = batches * self.batch
        delivered = [positions(s)[:stop] for s in self.shards]
        return delivered, self.shards[0].delivered(len(delivered[0]))


ROWS, RANKS, BATCH, BATCHES = st.integers(1, 120), st.integers(1, 12), st.integers(1, 9), st.integers(0, 40)


@settings(max_examples=400)
@given(ROWS, RANKS, REMAINDER, BATCH, BATCHES)
def test_resuming_on_as_many_ranks_gives_the_rest_of_the_uninterrupted_run(
    rows: int, before: int, remainder: str, batch: int, batches: int
) -> None:
    before = min(before, rows)
    shards = ranks(rows, before, remainder)
    delivered, place = Job(shards, batch).run(batches)
    for shard, part in zip(shards, delivered, strict=True):
        assert positions(shard.resumed(place)) == positions(shard)[len(part) :]
        own = shard.delivered(len(part))  # a state that the rank has saved itself is as good
        assert positions(shard.resumed(own)) == positions(shard)[len(part) :]


@settings(max_examples=400)
@given(ROWS, RANKS, RANKS, REMAINDER, BATCH, BATCHES)
def test_resuming_on_other_ranks_completes_the_epoch(
    rows: int, before: int, after: int, remainder: str, batch: int, batches: int
) -> None:
    before, after = min(before, rows), min(after, rows)
    delivered, place = Job(ranks(rows, before, remainder), batch).run(batches)
    first = [p for part in delivered for p in part]
    second = [p for shard in ranks(rows, after, remainder, place) for p in positions(shard)]
    finished = len(set(first)) == rows
    extra = np.bincount(first + second, minlength=rows) - 1
    if remainder == "uneven":
        assert np.all(extra == 0)
    elif remainder == "drop":
        assert extra.max(initial=0) == 0
        assert (extra == -1).sum() < after
        assert extra[: rows - after + 1].min(initial=0) == 0  # those left out are the last of the order
    else:
        assert extra.min() == 0
        assert extra.sum() < (before if finished else after)
        assert np.all(np.diff(extra) <= 0)  # those that come again are the first of the order


@settings(max_examples=100)
@given(
    st.integers(1, 90),
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 5)), max_size=6),
    st.integers(0, 99),
)
def test_a_job_that_is_stopped_many_times_repeats_and_skips_nothing(
    rows: int, runs: list[tuple[int, int]], seed: int
) -> None:
    order = Order(rows, OrderSpec("shuffle", seed, 4))
    seen: list[int] = []
    place = 0
    for count, samples in [*runs, (1, rows)]:
        shards = ranks(rows, min(count, rows), "uneven", place)
        for shard in shards:
            count_here = min(samples, shard.length)
            seen += order.range(shard.first, shard.num_shards, count_here).tolist()
        place = shards[0].delivered(min(samples, shards[0].length))
    assert sorted(seen) == list(range(rows))


# ---- wrong arguments ----


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"rows": 5, "num_shards": 6}, "num_shards=6 is more than the 5 rows"),
        ({"rows": 0, "num_shards": 2}, "num_shards=2 is more than the 0 rows"),
        (
            {"rows": 5, "shard_id": 2, "num_shards": 2},
            "shard_id is 2, but with num_shards=2 it must be 0 … 1",
        ),
        ({"rows": 5, "shard_id": 2}, "shard_id is 2, but with num_shards=1"),
        ({"rows": 5, "shard_id": -1, "num_shards": 2}, "shard_id is -1"),
        ({"rows": 5, "num_shards": 0}, "num_shards is 0"),
        ({"rows": 5, "num_shards": 2**31 + 1}, "at most 2\\^31"),
        ({"rows": 5, "remainder": "wrap"}, "remainder is 'wrap'; it must be one of 'pad', 'drop', 'uneven'"),
    ],
)
def test_wrong_shards_are_refused_by_value(arguments: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Sharding(**arguments)


@pytest.mark.parametrize("value", [1.0, "1", True, None])
def test_shards_are_integers(value: object) -> None:
    with pytest.raises(TypeError, match=r"num_shards is .* must be an integer"):
        Sharding(10, 0, value)  # type: ignore[arg-type]


def test_numpy_integers_are_integers() -> None:
    assert Sharding(10, np.int64(1), np.int32(4)).length == 3  # type: ignore[arg-type]
    assert Sharding(2**40, np.int8(1), np.int8(4)).position(2**37) == 2**39 + 1  # type: ignore[arg-type]
    assert json.dumps(asdict(OrderSpec("block", np.int64(7), np.uint8(2))))  # type: ignore[arg-type]


def test_one_shard_argument_without_the_other_is_refused() -> None:
    assert check_shard_arguments(None, None) == (0, 1)
    assert check_shard_arguments(1, 2) == (1, 2)
    with pytest.raises(ValueError, match="num_shards=4 is given without shard_id"):
        check_shard_arguments(None, 4)
    with pytest.raises(ValueError, match="shard_id=3 is given without num_shards"):
        check_shard_arguments(3, None)
    with pytest.raises(ValueError, match="shard_id is 5; it must be between 0 and 1"):
        check_shard_arguments(5, 2)


# ---- ranks from the environment ----


@pytest.mark.parametrize(
    ("rank", "size"),
    [
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ],
)
def test_ranks_come_from_the_launchers_variables(rank: str, size: str) -> None:
    assert shard_from_environment(environ={rank: "3", size: "8"}) == (3, 8)
    assert shard_from_environment(0, 2, environ={rank: "3", size: "8"}) == (0, 2)
    with pytest.raises(ValueError, match=f"{rank}=3 .* no {size}"):
        shard_from_environment(environ={rank: "3"})
    with pytest.raises(ValueError, match=f"{size}=8 .* no {rank}"):
        shard_from_environment(environ={size: "8"})
    with pytest.raises(ValueError, match=f"{rank}=8 .* {size}=8"):
        shard_from_environment(environ={rank: "8", size: "8"})
    with pytest.raises(ValueError, match=f"{rank}='x'"):
        shard_from_environment(environ={rank: "x", size: "8"})


def test_without_a_launcher_there_is_one_rank() -> None:
    assert shard_from_environment(environ={}) == (0, 1)


def test_torchruns_variables_come_before_the_schedulers() -> None:
    both = {"RANK": "5", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
    assert shard_from_environment(environ=both) == (5, 8)


def test_one_explicit_argument_is_not_completed_from_the_environment() -> None:
    with pytest.raises(ValueError, match="num_shards=4 is given without shard_id"):
        shard_from_environment(None, 4, environ={"RANK": "3", "WORLD_SIZE": "8"})


# ---- what the user may ask for ----


@pytest.mark.parametrize(
    ("shuffle", "mode"),
    [
        (True, "shuffle"),
        (False, "sequential"),
        ("block", "block"),
        ("parts", "parts"),
        ("within-parts", "within-parts"),
    ],
)
def test_shuffle_names_a_mode(shuffle: bool | str, mode: str) -> None:
    assert OrderSpec.parse(shuffle, 3, 4) == OrderSpec(mode, 3, 4)
    assert OrderSpec.parse(shuffle, 3).at_epoch(9) == OrderSpec(mode, 3, 9)


@pytest.mark.parametrize("shuffle", ["yes", "shuffle", 1, 0, None, [True]])
def test_other_shuffles_are_refused(shuffle: object) -> None:
    with pytest.raises(ValueError, match=r"shuffle is .* must be True, False"):
        OrderSpec.parse(shuffle)  # type: ignore[arg-type]


def test_seeds_are_64_bits_and_nothing_else() -> None:
    assert OrderSpec(seed=2**64 - 1).seed == 2**64 - 1
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match=f"seed is {seed}"):
            OrderSpec(seed=seed)
    with pytest.raises(TypeError, match=r"seed is 1\.5"):
        OrderSpec(seed=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="block_rows is 0"):
        OrderSpec("block", block_rows=0)


@pytest.mark.parametrize(
    ("rows", "groups", "row_bytes", "expected"),
    [
        (10**6, 8192, 512, (8192, 16)),  # a row group is a block
        (10**6, 64, 512, (2048, 16)),  # small groups: 1 MiB
        (10**6, 65536, 512, (16384, 16)),  # large groups: 8 MiB
        (10**6, 76, 110_000, (76, 54)),  # the window has 4,096 rows at least
        (10**6, 5, 20 << 20, (1, 4096)),  # a row is larger than a block
        (100, 8192, 512, (100, 41)),  # a small dataset is one block
        (0, 1, 0, (1, 4096)),
        (5, 5, 0, (5, 820)),
    ],
)
def test_blocks_are_chosen_from_row_groups(
    rows: int, groups: int, row_bytes: int, expected: tuple[int, int]
) -> None:
    assert choose_blocks(rows, groups, row_bytes) == expected


def test_ranks_within_ray_train_are_its_own_and_not_those_of_the_job_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Context:
        get_world_rank, get_world_size = (lambda self: 1), (lambda self: 3)

    class RayTrain(ModuleType):
        get_context = Context

    def not_a_worker() -> None:
        raise RuntimeError("only within a worker")

    ray_train = RayTrain("ray.train")
    monkeypatch.setitem(sys.modules, "ray.train", ray_train)
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    assert shard_from_environment() == (1, 3)
    assert shard_from_environment(1, 4) == (1, 4)
    monkeypatch.setattr(ray_train, "get_context", not_a_worker)
    assert shard_from_environment() == (0, 2)
