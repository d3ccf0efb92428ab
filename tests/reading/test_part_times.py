"""How long reading took of each part: what is counted, over passes and versions, and which parts are named."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from time import CLOCK_MONOTONIC, clock_gettime_ns

import numpy as np
import pytest
from numpy.typing import NDArray

import unirecord
from unirecord import UniRecordDataset
from unirecord.core import Put, Range
from unirecord.core.fetch import Fetching
from unirecord.core.library import ffi
from unirecord.loading.stats import PartTimes


def timed(*parts: tuple[int, int, int, int]) -> NDArray[np.void]:
    return np.array(
        list(parts), [("part", np.int64), ("batches", np.int64), ("bytes", np.uint64), ("ns", np.uint64)]
    )


def shown(times: PartTimes) -> list[tuple[str, int, int, float]]:
    return [(one.path, one.batches, one.bytes, one.seconds) for one in times.slowest()["parts"]]


def test_times_of_passes_add_up_and_the_slowest_come_first() -> None:
    times, paths = PartTimes(), ("a", "b", "c")
    times.add(paths, timed())
    assert times.slowest() == {"parts": (), "parts_timed": 0, "parts_s": 0.0}
    times.add(paths, timed((2, 1, 10, 10**9), (0, 1, 20, 2 * 10**9)))
    one_pass = PartTimes()
    one_pass.add(paths, timed((2, 3, 5, 4 * 10**9)))
    times.merge(one_pass)
    times.merge(PartTimes())
    assert shown(times) == [("c", 4, 15, 5.0), ("a", 1, 20, 2.0)]
    assert (times.slowest()["parts_timed"], times.slowest()["parts_s"]) == (2, 7.0)


def test_parts_of_another_version_are_found_by_their_paths() -> None:
    times = PartTimes()
    times.add(("a", "b", "c"), timed((0, 1, 1, 3 * 10**9), (1, 1, 1, 10**9)))
    times.add(("c", "b"), timed((0, 1, 1, 2 * 10**9), (1, 1, 1, 10**9)))
    assert shown(times) == [("a", 1, 1, 3.0), ("c", 1, 1, 2.0), ("b", 2, 2, 2.0)]


def test_of_many_parts_the_slowest_are_named() -> None:
    times = PartTimes()
    times.add([f"p{i}" for i in range(1000)], timed(*((i, 1, 1, i) for i in range(1000))))
    found = times.slowest()
    assert (found["parts_timed"], len(found["parts"]), found["parts"][0].path) == (1000, 100, "p999")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with unirecord.Writer(
        tmp_path / "data", {"x": "bytes", "text": "string", "i": "int32"}, max_part_bytes="64KB"
    ) as writer:
        for i in range(60):
            writer.write({"x": bytes(5_000 + i), "text": "t" * i, "i": i})
    return tmp_path / "data"


@pytest.mark.parametrize("io", ["mmap", "pread", "uring", "memory"])
def test_a_loader_names_the_parts_that_it_has_read(data: Path, io: str) -> None:
    ds = UniRecordDataset(data, shuffle=True, seed=3, io=io)
    loader = ds.batches(60)  # the first batch of a pass is timed, however long it takes
    for epochs in (1, 2):
        assert len(list(loader)) == 1
        stats = loader.stats()
        paths = {ds.locate(row)[0] for row in range(60)}
        assert len(paths) > 3
        assert {part.path for part in stats.parts} == paths
        assert {part.batches for part in stats.parts} == {epochs}
        assert sum(part.bytes for part in stats.parts) == stats.bytes
        assert stats.parts_timed == len(paths)
        assert 0 < stats.parts_s <= stats.stages[0].busy_s


def test_a_stream_names_the_parts_of_its_documents(data: Path) -> None:
    ds = unirecord.packed(UniRecordDataset(data), "x", 60 * 6_000)
    loader = ds.batches(1)
    [batch] = loader
    stats = loader.stats()
    assert stats.parts_timed == len({UniRecordDataset(data).locate(row)[0] for row in range(60)})
    assert sum(part.bytes for part in stats.parts) == sum(5_000 + i for i in range(60)) <= batch["x"].nbytes


@pytest.mark.parametrize(
    "way", ["as it is", "batch", "batch first", "threads", "where", "skipped", "left early"]
)
def test_a_pipeline_names_the_parts_that_it_has_read(data: Path, way: str) -> None:
    ds = UniRecordDataset(data, shuffle=True, seed=3)
    if way == "skipped":
        ds.exclude(rows=[5, 7])
    pipeline = ds.pipeline()
    if way == "batch":
        pipeline = pipeline.map(dict).batch(60)
    elif way == "batch first":
        pipeline = pipeline.batch(60).map_batch(dict)
    elif way == "threads":
        pipeline = pipeline.map(dict, threads=2)
    elif way == "where":
        pipeline = pipeline.filter("i >= 10")
    assert pipeline.stats().parts == ()
    for _ in (1, 2):
        results = iter(pipeline)
        next(results)
        if way != "left early":
            list(results)
        results.close()
    stats = pipeline.stats()
    paths = {ds.locate(row)[0] for row in range(60)}
    assert {part.path for part in stats.parts} <= paths
    assert 1 < stats.parts_timed == len(stats.parts)
    assert sum(part.seconds for part in stats.parts) == pytest.approx(stats.parts_s)
    if way in ("batch", "batch first"):
        assert {part.path for part in stats.parts} == paths
        assert stats.to_dict()["parts"][0]["path"] == stats.parts[0].path


def test_a_pipeline_without_files_names_no_parts() -> None:
    pipeline = unirecord.Pipeline.from_generators([lambda: iter(range(5))]).map(str)
    assert list(pipeline) == list("01234")
    assert (pipeline.stats().parts, pipeline.stats().parts_timed) == ((), 0)


def test_passes_that_end_on_several_threads_lose_no_time() -> None:
    times, paths = PartTimes(), [f"p{i}" for i in range(50)]
    ends = [
        threading.Thread(target=lambda: [times.add(paths[i:], timed((0, 1, 1, 1))) for i in range(50)])
        for _ in range(4)
    ]
    for end in ends:
        end.start()
    while any(end.is_alive() for end in ends):
        assert all(one.path.startswith("p") for one in times.slowest()["parts"])
    assert [
        (one.path, one.batches) for one in sorted(times.slowest()["parts"], key=lambda o: int(o.path[1:]))
    ] == [(path, 4) for path in paths]


def test_of_joined_columns_the_parts_of_the_rows_are_named(data: Path) -> None:
    before = UniRecordDataset(data)
    paths = {before.locate(row)[0] for row in range(60)}
    unirecord.add_columns(data, {"twice": "int32"}, lambda batch: {"twice": batch["i"] * 2})
    loader = UniRecordDataset(data).batches(60)
    [batch] = loader
    assert batch["twice"].tolist() == [2 * i for i in range(60)]
    stats = loader.stats()
    assert {part.path for part in stats.parts} == paths
    assert sum(part.bytes for part in stats.parts) == stats.bytes


def test_bytes_that_are_brought_say_when_they_came() -> None:
    def fetch(ranges: Sequence[Range], put: Put) -> None:
        for number in (2, 0, 1):  # as they come
            put(number, bytes(ranges[number].size))

    came, to = ffi.new("uint64_t[3]", [0, 0, 7]), ffi.new("uint8_t[30]")
    ranges = ffi.new("ur_range[3]")
    for i in range(3):
        ranges[i].part, ranges[i].bytes, ranges[i].to = i, 10, to + 10 * i
        ranges[i].came = came + i if i < 2 else ffi.NULL
    before = clock_gettime_ns(CLOCK_MONOTONIC)
    Fetching(fetch).deliver(ranges, 3)
    assert before <= came[0] <= came[1] <= clock_gettime_ns(CLOCK_MONOTONIC)
    assert came[2] == 7  # nobody has asked
