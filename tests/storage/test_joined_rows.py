"""The gap up to which neighbouring rows are joined, by requests and bytes counted; the link of the tests' server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from objectstore import Link, Server, serving

from unirecord import UniRecordDataset, Writer
from unirecord.core import Range, Ranges
from unirecord.snapshot.prefetch import RUN_BYTES, join
from unirecord.storage import object_store

LARGE, FAR, NEAR = 300_000, 33_500, 32_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """With rows that are large and smaller in turn, and with small ones alone."""
    monkeypatch.setattr(object_store, "_stores", {})
    (tmp_path / "bucket").mkdir()
    for name, sizes in (("far", [LARGE, FAR] * 8), ("near", [LARGE, NEAR] * 8), ("small", [1_000] * 400)):
        with Writer(tmp_path / "bucket" / f"{name}.urec", {"x": "bytes"}) as writer:
            for number, size in enumerate(sizes):
                writer.write({"x": bytes([number % 256]) * size})
    with serving(tmp_path) as server:
        server.set_environment(monkeypatch)
        yield server


def asked_for(server: Server, name: str, rows: range) -> tuple[int, int]:
    """Requests for rows, and their bytes."""
    with UniRecordDataset(f"s3://bucket/{name}.urec") as ds:
        ds[0]
        server.requests.clear()
        found = ds[rows]
        assert [row["x"][0] for row in found] == [row % 256 for row in rows]
        of_rows = [request for request in server.requests if not request.key.endswith(".idx")]
        return len(of_rows), sum(np.subtract(request.stop, request.start) for request in of_rows)


def test_rows_are_joined_over_gaps_of_32_kib_and_no_more(server: Server) -> None:
    rows = range(2, 16, 2)  # large ones
    requests, sent = asked_for(server, "near", rows)
    assert requests == 1
    assert sent < 7 * LARGE + 6 * NEAR + 7 * 2 * 64
    requests, sent = asked_for(server, "far", rows)
    assert requests == 7
    assert sent < 7 * LARGE + 7 * 64


def test_small_rows_are_joined_over_32_kib_at_most(server: Server) -> None:
    assert asked_for(server, "small", range(20, 200, 20))[0] == 1
    assert asked_for(server, "small", range(40, 400, 40))[0] == 9


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.floats(0, 0.1)), min_size=1, max_size=50))
def test_a_link_of_the_server_lets_no_more_through_than_its_bandwidth(asked: list[tuple[int, float]]) -> None:
    link, now, through, sent = Link(1e6), 0.0, 0.0, 0
    for size, pause in asked:
        now += pause
        sent += size
        ends = now + link.wait(now, size)
        assert ends >= through + size / 1e6 - 1e-9, "after what came before it"
        assert ends >= sent / 1e6 - 1e-9
        through = ends


def test_an_epoch_through_a_link_has_every_value(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    rows = [{"x": np.full(20_000, i, np.uint8)} for i in range(40)]
    with Writer(tmp_path / "bucket" / "a.urec", {"x": "uint8[20000]"}) as writer:
        for row in rows:
            writer.write(row)
    with (
        serving(tmp_path, bandwidth=20e6) as server,
        UniRecordDataset(f"{server.url}/bucket/a.urec", shuffle=True, seed=1) as ds,
    ):
        seen = sorted(int(x[0]) for batch in ds.batches(8) for x in batch["x"])
        assert server.link.wait(0.0, 0) > 0, "what came went over it"
    assert seen == list(range(40))


BLOCK = 1 << 16


@given(st.sets(st.integers(0, 400)), st.booleans())
def test_what_lies_between_blocks_of_an_index_is_an_eighth_of_what_comes_at_most(
    here: set[int], in_index: bool
) -> None:
    wanted = [Range(0, in_index, n * BLOCK, BLOCK) for n in range(401) if n not in here]
    if not wanted:
        return
    runs, first, places = join(Ranges.of(wanted))
    fetched = sum(run.stop - run.start for run in runs)
    assert fetched <= len(wanted) * BLOCK * (9 / 8 if in_index else 1)
    assert all(run.stop - run.start <= RUN_BYTES for run in runs)
    for number, run in enumerate(runs):
        for one in range(first[number], first[number + 1]):
            assert run.start + places[one] == wanted[one].offset
            assert wanted[one].offset + BLOCK <= run.stop


def test_the_rest_of_an_index_comes_by_about_as_many_requests_as_all_of_it() -> None:
    blocks = 64 * 14
    for every in (1, 40, 20):
        here = set(range(7, blocks, every)) if every > 1 else set()
        wanted = [Range(0, True, n * BLOCK, BLOCK) for n in range(blocks) if n not in here]
        assert len(join(Ranges.of(wanted))[0]) <= 15
