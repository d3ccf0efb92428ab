"""What docs/spec says beside the orders themselves: splits, the sizes of blocks, and the keys of a state."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from order_reference import default_blocks, selection_digest, split_labels
from reference import read_part
from reference_directory import read_directory

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.order.selection import Selection
from unirecord.order.spec import choose_blocks


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=5).filter(sum), st.integers(0, 2**64 - 1))
def test_a_split_into_counts_is_that_of_the_page(counts: list[int], seed: int) -> None:
    n, ends = sum(counts), list(accumulate(counts))
    labels = split_labels(n, ends, seed)
    for k, part in enumerate(Selection(n).split(counts, seed)):
        assert [part[i] for i in range(len(part))] == [row for row in range(n) if labels[row] == k]


@pytest.mark.parametrize(
    ("n", "sizes", "ends"),
    [
        (10, [0.41, 0.59], [4, 10]),
        (10, [0.25, 0.25, 0.5], [3, 5, 10]),
        (7, [1 / 3] * 3, [2, 5, 7]),
        (5, 0.5, [3, 5]),
    ],
)
def test_the_ends_of_fractions_are_rounded_halves_upwards(n: int, sizes: Any, ends: list[int]) -> None:
    parts = Selection(n).split(sizes, None)
    assert list(accumulate(map(len, parts))) == ends


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 10**8), st.integers(1, 70_000))
def test_blocks_and_windows_follow_the_formula(n: int, row_bytes: int, group_rows: int) -> None:
    assert choose_blocks(n, group_rows, row_bytes + 0.5) == default_blocks(n, row_bytes, group_rows)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), max_size=5)))
)
def test_a_selection_has_the_digest_of_the_page(given_: tuple[int, list[int]]) -> None:
    n, rows = given_
    assert Selection(n).select(rows).digest() == selection_digest(n, rows)


def h(content: bytes) -> str:
    return "".join(f"{xxhash.xxh3_64_intdigest(content, seed=seed):016x}" for seed in (0, 1))


def test_a_state_has_the_keys_of_the_page_and_those_alone(tmp_path: Path) -> None:
    for name in ("a.urec", "set"):
        with Writer(
            tmp_path / name, {"x": "int32"}, max_part_bytes=None if name.endswith(".urec") else 2_000
        ) as writer:
            writer.write_batch({"x": list(range(3_000))})
    part = read_part(tmp_path / "a.urec")
    one = f"{part.head.id.hex()}-{part.content_digest.hex()}"
    parts = read_directory(tmp_path / "set")
    assert len(parts) > 1
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())
    many = h(bytes.fromhex(manifest["id"]) + b"".join(p.head.id for p in parts))
    for path, identity, rows in (
        (tmp_path / "a.urec", one, 3_000),
        (tmp_path / "set", many, 3_000),
        ([tmp_path / "a.urec", tmp_path / "set"], h((one + many).encode()), 6_000),
    ):
        ds = UniRecordDataset(path, 0, 2, where="x >= 1", shuffle="block", seed=9, remainder="uneven")
        ds.set_epoch(3)
        state = ds.select(range(0, 100, 3)).state_dict()
        blocks = {key: state.pop(key) for key in ("block_rows", "window_blocks")}
        assert min(blocks.values()) >= 1
        chosen = [row for row in range(rows) if row % 3_000]
        assert state == {
            "version": 1,
            "identity": identity,
            "rows": rows,
            "where": "1 <= x",
            "selection": selection_digest(rows, chosen[0:100:3]),
            "seed": 9,
            "shuffle": "block",
            "remainder": "uneven",
            "epoch": 3,
            "position": 0,
        }


def test_blocks_are_chosen_from_the_first_part_that_has_rows(tmp_path: Path) -> None:
    with Writer(tmp_path / "empty.urec", {"x": "int32"}):
        pass
    with Writer(tmp_path / "full.urec", {"x": "int32"}) as writer:
        writer.write_batch({"x": list(range(5_000))})
    paths = [tmp_path / "empty.urec", tmp_path / "full.urec"]
    group_rows = read_part(paths[1]).head.group_rows
    size = sum(path.stat().st_size for path in paths)
    state = UniRecordDataset(paths, shuffle="block").state_dict()
    assert (state["block_rows"], state["window_blocks"]) == default_blocks(5_000, size // 5_000, group_rows)


def test_blocks_keep_the_sizes_that_were_chosen_until_another_shuffle_or_size_is_asked_for(
    tmp_path: Path,
) -> None:
    with Writer(tmp_path / "d.urec", {"i": "int64"}) as writer:
        writer.write_batch({"i": range(1000)})
    ds = UniRecordDataset(tmp_path / "d.urec", shuffle="block")

    def block_rows(some: UniRecordDataset[Any]) -> int:
        return int(some.state_dict()["block_rows"])

    assert block_rows(ds) == 1000
    assert block_rows(UniRecordDataset(tmp_path / "d.urec", where="i < 100", shuffle="block")) == 100
    narrowed = (ds.take(10), ds.skip(10), ds.select([3, 1]), *ds.split(0.5), ds.take(10).view(seed=3))
    assert [block_rows(some) for some in narrowed] == [1000] * 6
    assert block_rows(ds.view(where="i < 100")) == 100
    assert block_rows(ds.take(10).view(window_blocks=3)) == 10
    assert block_rows(ds.take(10).view(shuffle=True).view(shuffle="block")) == 10


def test_blocks_of_a_mixture_are_chosen_from_all_its_sources(tmp_path: Path) -> None:
    for name, rows in (("a", 300), ("b", 500)):
        with Writer(tmp_path / f"{name}.urec", {"i": "int64"}) as writer:
            writer.write_batch({"i": range(rows)})
    paths = [tmp_path / "a.urec", tmp_path / "b.urec"]
    first, second = (UniRecordDataset(path) for path in paths)
    sources = {"a": first.take(7), "b": second.view(shuffle="block", block_rows=5)}
    state = unirecord.mix(sources, seed=1, shuffle="block").state_dict()
    row_bytes = sum(path.stat().st_size for path in paths) // 800
    assert (state["block_rows"], state["window_blocks"]) == default_blocks(800, row_bytes, 300)
    assert [source["block_rows"] for source in state["drawn"]["sources"]] == [state["block_rows"], 5]
