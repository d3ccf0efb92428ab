"""shuffle="block" in an object store reads whole runs; what came with a wrong bit is brought anew, a few times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Fault, Request, Server, serving

from unirecord import CorruptionError, UniRecordDataset, UniRecordError, Writer
from unirecord.storage import object_store
from unirecord.storage.pacing import Durations

ROWS = 3_000
SMALL, LARGE = "small", "large.urec"  # parts with digests of several rows, and of each cell


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one bucket, in which there are a directory of several parts and one part of larger rows."""
    root = tmp_path_factory.mktemp("store")
    (root / "bucket").mkdir()
    rng = np.random.default_rng(1)
    with Writer(root / "bucket" / SMALL, {"n": "int64", "x": "bytes"}, max_part_bytes="400kB") as writer:
        for i in range(ROWS):
            writer.write({"n": i, "x": rng.bytes(int(rng.integers(100, 800)))})
    with Writer(root / "bucket" / LARGE, {"x": "uint8[20000]", "y": "bytes?"}) as writer:
        for i in range(300):
            writer.write(
                {"x": rng.integers(0, 256, 20_000, np.uint8), "y": None if i % 3 else rng.bytes(9_001)}
            )
    return root


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(object_store, "_stores", {})
    monkeypatch.setattr(object_store, "RETRIES", {"max_retries": 1})
    monkeypatch.setattr(
        Durations, "long", lambda *_: 3_600.0
    )  # requests are counted: none is made twice for being late
    with serving(root) as server:
        server.set_environment(monkeypatch)
        yield server


def rows_of(ds: UniRecordDataset[Any], size: int = 32) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for batch in ds.batches(size):
        columns = [[None if x is None else bytes(x) for x in batch[name]] for name in ds.schema.names]
        found += zip(*columns, strict=True)
    return found


def data_bytes(root: Path, name: str) -> int:
    path = root / "bucket" / name
    return sum(part.stat().st_size for part in (path.glob("*.urec") if path.is_dir() else [path]))


@pytest.mark.parametrize("name", [SMALL, LARGE])
@pytest.mark.parametrize("blocks", [{}, {"block_rows": 70, "window_blocks": 3}], ids=["chosen", "given"])
def test_a_window_comes_in_runs_and_no_byte_twice(
    root: Path, server: Server, name: str, blocks: dict[str, int]
) -> None:
    order = {"shuffle": "block", "seed": 4, **blocks}
    with UniRecordDataset(root / "bucket" / name, **order) as here:
        expected = [rows_of(here.set_epoch(epoch) or here) for epoch in (0, 1)]
    with UniRecordDataset(f"s3://bucket/{name}", **order) as there:
        rows = len(there)
        for epoch in (0, 1):
            there.set_epoch(epoch)
            server.requests.clear()
            sent = server.bytes
            assert rows_of(there) == expected[epoch]
            asked = [request for request in server.requests if request.key.endswith(".urec")]
            # a block may lie in two parts or runs; heads and ends of parts come once
            assert len(asked) <= 3 * -(-rows // 70) + 2 * 8
            assert server.bytes - sent <= 1.25 * data_bytes(root, name)
        assert not there.read_cursor.plan.data.parts._ahead[0]._all


def test_rows_that_share_a_digest_count_once(
    root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read with all rows that the digest covers: of eight, a window's bytes are taken eight times."""
    path = root / "bucket" / "units.urec"
    rng = np.random.default_rng(3)
    with Writer(path, {"x": "uint8[1000]"}) as writer:
        writer.write_batch({"x": rng.integers(0, 256, (ROWS, 1000), np.uint8)})
    order = {"shuffle": "block", "seed": 4, "block_rows": 64, "window_blocks": 16}
    monkeypatch.setattr("unirecord.snapshot.prefetch.MOST_AHEAD_BYTES", 3 << 19)
    monkeypatch.setattr("unirecord.loading.loader.MOST_AHEAD_BYTES", 3 << 19)
    monkeypatch.setattr("unirecord.loading.loader.MOST_WINDOW_BYTES", 1 << 20 | 1 << 18)
    with (
        UniRecordDataset(path, **order) as here,
        UniRecordDataset("s3://bucket/units.urec", **order) as there,
    ):
        sent, before = server.bytes, len(server.requests)
        found = [bytes(x) for batch in there.batches(32, prefetch=2, num_threads=2) for x in batch["x"]]
        assert found == [x for (x,) in rows_of(here)]
        assert server.bytes - sent <= 1.25 * path.stat().st_size
        assert len(server.requests) - before <= 2 * -(-ROWS // 64)
        assert there.read_cursor.plan.data.parts._ahead[0].bytes == 0


def test_small_rows_in_order_come_in_runs_and_a_look_at_the_first_asks_for_few(
    root: Path, server: Server
) -> None:
    path = root / "bucket" / "in order.urec"
    rng = np.random.default_rng(3)
    with Writer(path, {"n": "int32", "x": "uint8[1000]"}) as writer:
        x = rng.integers(0, 256, (20_000, 1000), np.uint8)
        writer.write_batch({"n": np.arange(20_000, dtype=np.int32), "x": x})
    with UniRecordDataset("s3://bucket/in order.urec") as ds:
        next(iter(ds.batches(16)))
        assert server.bytes < 4 << 20
        sent, before = server.bytes, len(server.requests)
        found = list(ds.batches(16))
        assert np.array_equal(np.concatenate([batch["x"] for batch in found]), x)
        assert server.bytes - sent <= 1.05 * path.stat().st_size
        assert len(server.requests) - before <= 40  # of 1,250 batches
    with UniRecordDataset("s3://bucket/in order.urec") as ds:
        batches = iter(ds.batches(16))
        for _ in range(100):
            next(batches)
        state = ds.state_dict()
        batches.close()
        assert not ds.read_cursor.plan.data.parts._ahead[0]._all
        ds.load_state_dict(state)
        assert np.array_equal(
            np.concatenate([batch["n"] for batch in ds.batches(16)]), np.arange(1600, 20_000)
        )


def test_what_is_asked_for_ahead_is_bounded_and_given_up_with_the_pass(
    root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = {"shuffle": "block", "seed": 4, "block_rows": 70, "window_blocks": 3}
    with UniRecordDataset(f"s3://bucket/{LARGE}", **order) as ds:
        ahead = ds.read_cursor.plan.data.parts._ahead[0]
        batches = iter(ds.batches(4))
        next(batches)
        assert 0 < ahead._bytes <= 2 * 210 * 29_008
        batches.close()
        assert ahead._bytes == 0
        assert not ahead._all
        state = ds.state_dict()
    monkeypatch.setattr("unirecord.loading.loader.MOST_WINDOW_BYTES", 100_000)
    with (
        UniRecordDataset(f"s3://bucket/{LARGE}", **order) as ds,
        UniRecordDataset(root / "bucket" / LARGE, **order) as here,
    ):
        ds.load_state_dict(state)
        here.load_state_dict(state)
        assert rows_of(ds) == rows_of(here)
        assert (
            ds.read_cursor.plan.data.parts._ahead[0]._turn == 0
        )  # a window that does not fit is not asked for


def test_the_next_window_comes_as_far_as_there_is_room(
    root: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = 70 * 29_008  # about
    monkeypatch.setattr("unirecord.loading.loader.MOST_AHEAD_BYTES", 3 * window // 2)
    monkeypatch.setattr("unirecord.loading.loader._LEAST_BYTES", window // 10)
    order = {"shuffle": "block", "seed": 4, "block_rows": 35, "window_blocks": 2}
    with (
        UniRecordDataset(f"s3://bucket/{LARGE}", **order) as ds,
        UniRecordDataset(root / "bucket" / LARGE, **order) as here,
    ):
        ahead, held, found = ds.read_cursor.plan.data.parts._ahead[0], [], []
        sent = server.bytes
        for batch in ds.batches(4, prefetch=1, num_threads=1):
            held.append(ahead.bytes)
            found += [bytes(x) for x in batch["x"]]
        assert found == [x for x, _ in rows_of(here)]
        assert server.bytes - sent <= 1.25 * data_bytes(root, LARGE)
    assert max(held) <= 1.7 * window  # a mean row is not each row
    before_the_second = held[: 70 // 4 - 5]
    assert (
        min(before_the_second) > window // 2
    )  # what has been taken of the first was asked for of the second


@pytest.mark.parametrize(
    "fault", [Fault(status=404), Fault(hang_up=True), Fault(cut=40), Fault(flip=-1)], ids=str
)
def test_a_run_that_fails_once_changes_no_value(root: Path, server: Server, fault: Fault) -> None:
    """A wrong bit of a row is said; all else is asked for again."""
    order = {"shuffle": "block", "seed": 4}
    failed: list[Request] = []

    def fail(request: Request) -> Fault | None:
        if failed or (request.stop or 0) - request.start < 100_000:
            return None
        failed.append(request)
        return fault

    with UniRecordDataset(root / "bucket" / LARGE, **order) as here:
        expected = rows_of(here)
    wrong = pytest.raises(CorruptionError, match=LARGE) if fault.flip is not None else nullcontext()
    with UniRecordDataset(f"s3://bucket/{LARGE}", **order) as ds:
        server.fault = fail
        with wrong:
            assert rows_of(ds) == expected
    assert failed
    with UniRecordDataset(f"s3://bucket/{LARGE}", **order) as ds:
        assert rows_of(ds) == expected


@pytest.mark.parametrize("name", [SMALL, LARGE])
def test_heads_and_indexes_with_a_wrong_bit_are_brought_again(root: Path, server: Server, name: str) -> None:
    """Each request of opening and of the first row with a wrong bit: the value is right, and only cells are refused."""

    def read() -> Any:
        with UniRecordDataset(f"s3://bucket/{name}") as ds:
            return bytes(ds[5]["x"])

    expected = read()
    places = {(request.key, request.start, request.stop) for request in server.requests}
    refused = 0
    for place in sorted(places, key=str):
        for times in (1, 10_000):
            done: list[Request] = []

            def flip(
                request: Request, place: Any = place, times: int = times, done: list[Request] = done
            ) -> Fault | None:
                if (request.key, request.start, request.stop) != place or len(done) >= times:
                    return None
                done.append(request)
                return Fault(flip=-1)

            server.fault = flip
            try:
                assert read() == expected
            except CorruptionError:
                refused += times == 1
            except UniRecordError:
                assert times > 1 or place[0].endswith("manifest.json")
            assert len(done) <= 12  # and then it is an error
    assert refused <= 2  # the cells of the row, and what the manifest says
