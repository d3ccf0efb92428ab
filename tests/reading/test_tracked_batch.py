"""Whatever reads ahead behind a loader, a state counts what was handed out, and a job goes on with exactly the rest."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from process_counts import POOLS, assert_nothing_more, held

from unirecord import UniRecordDataset, Writer
from unirecord.dataset.batch_loader import BatchLoader
from unirecord.loading.loader import LoaderOptions, TrackedBatch

DEPTH = 7
ROWS = 103
BATCH = 5


class Ahead:
    """A stage with a thread of its own that takes ``DEPTH`` batches before the first is asked for."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        ready: queue.Queue[TrackedBatch[Any] | None] = queue.Queue(DEPTH)
        ended = threading.Event()

        def put(delivered: TrackedBatch[Any] | None) -> None:
            while not ended.is_set():
                try:
                    ready.put(delivered, timeout=0.02)
                except queue.Full:
                    continue
                return

        def take() -> None:
            for delivered in batches:
                self.taken += 1
                put(delivered)
                if ended.is_set():
                    return
            put(None)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            while (delivered := ready.get()) is not None:
                yield delivered
        finally:
            ended.set()
            thread.join()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("delivered") / "a.urec"
    with Writer(path, {"i": "int64"}) as writer:
        writer.write_batch({"i": list(range(ROWS))})
    return path


def opened(path: Path, rank: int = 0, ranks: int = 1) -> UniRecordDataset:
    return UniRecordDataset(path, rank, ranks, shuffle=True, seed=4, remainder="uneven")


def ahead(ds: UniRecordDataset, *stages: Any, **options: Any) -> BatchLoader[dict[str, Any]]:
    return BatchLoader(ds, LoaderOptions(BATCH, **options), stages=stages)


def rows(batch: dict[str, Any]) -> list[int]:
    return [int(i) for i in batch["i"]]


def same(sample: dict[str, Any]) -> dict[str, Any]:
    return sample


@pytest.mark.parametrize("options", [{}, {"transform": same, "num_workers": 3}])
def test_stopped_at_any_batch_seven_deep_the_rest_follows(path: Path, options: dict[str, Any]) -> None:
    order = opened(path).order.row_ids().tolist()
    for stop in range(ROWS // BATCH + 2):
        ds, stage = opened(path), Ahead()
        loader = ahead(ds, stage, Ahead(), **options)
        seen: list[int] = []
        batches = iter(loader)
        for _ in range(stop):
            seen += rows(next(batches, {"i": []}))
        while 0 < stop < 5 and stage.taken <= stop + DEPTH:  # it is read ahead
            time.sleep(0.001)
        state = json.loads(json.dumps(ds.state_dict()))
        assert state == loader.state_dict()
        assert state["position"] == len(seen) == min(stop * BATCH, ROWS)
        batches.close()
        again = opened(path)
        again.load_state_dict(state)
        rest = [i for batch in ahead(again, Ahead(), **options) for i in rows(batch)]
        assert seen + rest == order


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5), (4, 3)])
def test_stopped_seven_deep_other_ranks_go_on_with_the_rest(path: Path, before: int, after: int) -> None:
    for stop in range(1, ROWS // BATCH // before):
        seen: list[int] = []
        states = []
        for rank in range(before):
            ds = opened(path, rank, before)
            batches = iter(ahead(ds, Ahead()))
            for _ in range(stop):
                seen += rows(next(batches))
            states.append(ds.state_dict())
            batches.close()
        assert all(state == states[0] for state in states)
        for rank in range(after):
            ds = opened(path, rank, after)
            ds.load_state_dict(states[0])
            seen += [i for batch in ahead(ds, Ahead()) for i in rows(batch)]
        assert Counter(seen) == Counter(range(ROWS))


def test_batches_and_samples_alike_end_an_epoch_at_its_end(path: Path) -> None:
    for ds, ended in ((opened(path), lambda ds: list(ds.batches(BATCH))), (opened(path), list)):
        ended(ds)
        assert (ds.state_dict()["epoch"], ds.state_dict()["position"]) == (0, ROWS)


def test_an_error_behind_a_loader_ends_its_threads(path: Path) -> None:
    def failing(batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        yield next(batches)
        raise RuntimeError("a stage fails")

    def fails() -> None:
        loader = ahead(opened(path), Ahead(), failing, transform=same, num_workers=2)
        with pytest.raises(RuntimeError, match="a stage fails"):
            list(loader)

    fails()
    before = held()
    fails()
    assert_nothing_more(before, POOLS)
