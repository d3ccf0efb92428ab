"""The gap up to which neighbouring rows are joined: by numbers, and by requests and bytes counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from objectstore import Link, Server, serving

from unirecord import UniRecordDataset, Writer
from unirecord.storage import object_store
from unirecord.storage.pacing import GAP_BYTES, LinkSpeed


def speed_of(latency: float, bytes_a_second: float, size: int = 100_000, answers: int = 64) -> LinkSpeed:
    speed = LinkSpeed()
    for _ in range(answers):
        speed.note(size, latency, size / bytes_a_second)
    return speed


def test_the_gap_is_latency_times_bandwidth() -> None:
    assert speed_of(0.025, 10e6).gap == pytest.approx(250_000, abs=2)
    assert speed_of(0.001, 100e6).gap == pytest.approx(100_000, abs=2)


def test_one_slow_answer_changes_little() -> None:
    speed = speed_of(0.025, 10e6, answers=63)
    speed.note(100_000, 3.0, 0.01)
    assert speed.gap == pytest.approx(250_000, abs=2)


def test_few_answers_say_nothing() -> None:
    assert speed_of(0.025, 1e9, answers=15).gap == GAP_BYTES
    assert speed_of(0.025, 1e9, answers=16).gap > GAP_BYTES


def test_what_changes_is_followed() -> None:
    speed = speed_of(0.025, 10e6)
    for _ in range(64):
        speed.note(100_000, 0.001, 0.01)
    assert speed.gap == pytest.approx(10_000, abs=2)


@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 33), st.floats(0, 1e4), st.floats(0, 1e4)), min_size=1, max_size=200
    )
)
def test_the_gap_is_bounded_whatever_is_measured(answers: list[tuple[int, float, float]]) -> None:
    speed = LinkSpeed()
    for answer in answers:
        speed.note(*answer)
        assert 4 << 10 <= speed.gap <= 1 << 20


LARGE, SMALL = 300_000, 60_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """With rows that are large and small in turn, and with small ones alone."""
    monkeypatch.setattr(object_store, "_stores", {})
    (tmp_path / "bucket").mkdir()
    for name, sizes in (("turns", [LARGE, SMALL] * 8), ("small", [1_000] * 400)):
        with Writer(tmp_path / "bucket" / f"{name}.urec", {"x": "bytes"}) as writer:
            for number, size in enumerate(sizes):
                writer.write({"x": bytes([number % 256]) * size})
    with serving(tmp_path) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield server


def asked_for(server: Server, name: str, rows: range, gap: int) -> tuple[int, int]:
    """Requests for rows, and their bytes, where so much has been measured."""
    url = f"s3://bucket/{name}.urec"
    with UniRecordDataset(url) as ds:
        ds[0]
        store, _ = object_store.store_and_key(url, None)
        store.speed.gap = gap
        server.requests.clear()
        found = ds[rows]
        assert [row["x"][0] for row in found] == [row % 256 for row in rows]
        of_rows = [request for request in server.requests if not request.key.endswith(".idx")]
        return len(of_rows), sum(np.subtract(request.stop, request.start) for request in of_rows)


def test_rows_are_joined_over_gaps_that_cost_less_than_a_request(server: Server) -> None:
    rows = range(2, 16, 2)  # large ones
    requests, sent = asked_for(server, "turns", rows, SMALL + 5_000)
    assert requests == 1
    assert sent < 7 * LARGE + 6 * SMALL + 7 * 2 * 64
    requests, sent = asked_for(server, "turns", rows, SMALL - 5_000)
    assert requests == 7
    assert sent < 7 * LARGE + 7 * 64


def test_no_gap_is_joined_that_is_more_than_half_of_its_neighbours(server: Server) -> None:
    """Or an epoch in random order would bring far more bytes than it has."""
    requests, sent = asked_for(server, "turns", range(3, 16, 2), 1 << 20)  # small ones, large ones between
    assert requests == 7
    assert sent < 7 * SMALL + 7 * 64


def test_small_rows_are_joined_over_32_kib_at_most_and_less_where_requests_are_quick(server: Server) -> None:
    rows = range(20, 200, 20)
    assert asked_for(server, "small", rows, 1 << 20)[0] == 1
    assert asked_for(server, "small", rows, 4 << 10)[0] == 9
    assert asked_for(server, "small", range(40, 400, 40), 1 << 20)[0] == 9


def test_answers_of_the_store_are_measured(server: Server) -> None:
    with UniRecordDataset("s3://bucket/turns.urec") as ds:
        store, _ = object_store.store_and_key("s3://bucket/turns.urec", None)
        for row in range(16):
            ds[row]
        assert store.speed._noted >= 16
        assert {size for size, _ in store.speed._bodies} >= {LARGE, SMALL}
        assert all(latency > 0 for latency in store.speed._latencies)


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
