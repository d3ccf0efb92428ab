"""Operators that write into the memory of the batch: one by one, several at a time, kept, left out, used again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipeline_rows import Twice

from unirecord import Pipeline, UniRecordDataset, Writer
from unirecord.pipeline.chunk import Chunk
from unirecord.pipeline.operators import Operator
from unirecord.pipeline.scheduler import StageQueue, Task
from unirecord.pipeline.stage import Stage

ROWS = 400


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("in_place") / "set"
    with Writer(path, {"i": "int64", "blob": "bytes"}, max_part_bytes=12_000) as writer:
        for i in range(ROWS):
            writer.write({"i": i, "blob": bytes([i % 256]) * (i % 7)})
    return path


def opened(path: Path) -> UniRecordDataset:
    return UniRecordDataset(path, shuffle=True, seed=9)


def test_operators_in_place_write_into_the_memory_of_the_batch(path: Path) -> None:
    ds = opened(path)
    alone = {int(sample["i"]): sample["blob"] for sample in ds.pipeline().map(Twice(), columns=["blob"])}
    assert all(array.shape == (3, 2) for array in alone.values())
    ds.set_epoch(0)
    pipeline = ds.pipeline(cpus=3).map(Twice(), columns=["blob"]).map(abs, columns=["i"]).batch(32)
    batches = 0
    for batch in pipeline:
        batches += 1
        assert batch["blob"].shape[1:] == (3, 2)
        assert batch["blob"].base is not None
        for row, value in zip(batch["i"].tolist(), batch["blob"], strict=True):
            assert np.array_equal(value, alone[row])
    assert batches == -(-ROWS // 32)


class TwiceTogether(Twice):
    """The same for several at a time, but for those of six bytes, and of none, which are left to ``into``."""

    def __init__(self, skip: bool = False) -> None:
        super().__init__(skip)
        self.alone: list[int] = []
        self.most = 0

    def into(self, cell: np.ndarray, out: np.ndarray, key: int) -> None:
        self.alone.append(len(cell))
        super().into(cell, out, key)

    def into_each(self, cells: list[np.ndarray], outs: list[np.ndarray], keys: list[int]) -> list[int]:
        self.most = max(self.most, len(cells))
        for cell, out, key in zip(cells, outs, keys, strict=True):
            if len(cell) not in (0, 6):
                super().into(cell, out, key)
        return [number for number, cell in enumerate(cells) if len(cell) in (0, 6)]


@pytest.mark.parametrize("skip", [False, True])
def test_several_in_one_call_are_what_they_are_one_by_one(path: Path, skip: bool) -> None:
    def made(operator: Twice) -> list[tuple[int, list[Any]]]:
        batches = opened(path).pipeline().map(operator, columns=["blob"]).batch(16)
        return [(n, v.tolist()) for b in batches for n, v in zip(b["i"].tolist(), b["blob"], strict=True)]

    together = TwiceTogether(skip)
    assert made(together) == made(Twice(skip))
    assert together.most > 1
    assert set(together.alone) == {0, 6}


@pytest.mark.parametrize(("share", "together"), [(1.0, 16), (0.25, 64), (0.0, 160)])
def test_others_on_the_machine_do_not_make_calls_for_several_smaller(share: float, together: int) -> None:
    stage_queue = StageQueue(
        Stage((Operator("map", "f", TwiceTogether(), ("blob",)),)), lambda chunk, slots: chunk, None
    )
    for _ in range(40):
        stage_queue.note_cpu(
            int(share * 1_000_000), 1_000_000
        )  # a millisecond by the clock, the rest of it others'
    task = Task(Chunk([0], (0,), (1,), (0,), ()))
    stage_queue.finish(task, [task.chunk], 1_000_000, 100)
    assert stage_queue.per_task == pytest.approx(together, rel=0.1)


def test_memory_of_batches_in_place_is_used_again_in_the_next_epoch(path: Path) -> None:
    pipeline = opened(path).pipeline(cpus=1).map(Twice(), columns=["blob"]).batch(2)
    for _ in range(4):
        for batch in pipeline:
            del batch
    assert pipeline._passes.memory.allocations <= 32 < ROWS // 2
    kept = list(pipeline)
    assert pipeline._passes.memory.allocations > 32
    del kept
    assert sum(map(len, pipeline._passes.memory._free.values())) <= 32  # what a user has kept does not stay


def test_batches_in_place_stay_as_they_are_when_kept(path: Path) -> None:
    pipeline = opened(path).pipeline().map(Twice(), columns=["blob"]).batch(16)
    kept = list(pipeline)
    copies = [batch["blob"].copy() for batch in kept]
    list(pipeline)
    for batch, copy in zip(kept, copies, strict=True):
        assert np.array_equal(batch["blob"], copy)


def test_samples_left_out_in_place_are_followed_by_the_next(path: Path) -> None:
    ds = opened(path)
    expected = [row for row in ds.order.row_ids().tolist() if row % 7 != 6]
    batches = list(ds.pipeline().map(Twice(skip=True), columns=["blob"]).batch(16))
    assert [int(i) for batch in batches for i in batch["i"]] == expected
    assert [len(batch["i"]) for batch in batches[:-1]] == [16] * (len(batches) - 1)
    for batch in batches:
        for row, value in zip(batch["i"].tolist(), batch["blob"], strict=True):
            assert value[0, 0] == (row % 256 if row % 7 else 0)


class TwiceFilled(Twice):
    """Fills in for those of six bytes."""

    def into(self, cell: np.ndarray, out: np.ndarray, key: int) -> str | None:
        if len(cell) != 6:
            return super().into(cell, out, key)
        out[...] = 255
        return "six bytes"


@pytest.mark.parametrize("processes", [0, 1])
def test_what_stands_in_for_samples_is_counted_and_named(
    path: Path, processes: int, caplog: pytest.LogCaptureFixture
) -> None:
    ds = opened(path)
    loader = ds.pipeline().map(TwiceFilled(), columns=["blob"], processes=processes).batch(16)
    batches = list(loader)
    assert [int(i) for batch in batches for i in batch["i"]] == ds.order.row_ids().tolist()
    filled = [row for row in range(ROWS) if row % 7 == 6]
    for batch in batches:
        for row, value in zip(batch["i"].tolist(), batch["blob"], strict=True):
            assert (value == 255).all() == (row in filled)
    stats = loader.stats()
    assert (stats.filled, stats.skipped, stats.results) == (len(filled), 0, len(batches))
    assert f"{len(filled)} filled in" in str(stats)
    said = [record.getMessage() for record in caplog.records]
    assert all(text.startswith("filled in for") for text in said)
    assert (
        sorted(int(row) for text in said for row in re.findall(r"row (\d+) \([^)]*\): six bytes", text))
        == filled
    )


def test_pixels_are_the_same_in_processes_and_after_a_resume(path: Path) -> None:
    def built(processes: int) -> Pipeline:
        return opened(path).pipeline().map(Twice(), columns=["blob"], processes=processes).batch(16)

    full = [batch["blob"].tolist() for batch in built(0)]
    assert len({str(batch) for batch in full}) == len(full)
    for place, processes in ((3, 0), (11, 2)):
        loader = built(2 - processes)
        results = iter(loader)
        for _ in range(place):
            next(results)
        state = loader.state_dict()
        results.close()
        again = built(processes)
        again.load_state_dict(state)
        assert [batch["blob"].tolist() for batch in again] == full[place:]
