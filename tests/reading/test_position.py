"""Epochs and positions: whose epoch moves when, what `iter` alone does, and what copies keep."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unirecord import UniRecordDataset, Writer

ROWS = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("position") / "a.urec"
    with Writer(path, {"i": "int64"}) as writer:
        writer.write_batch({"i": list(range(ROWS))})
    return path


def opened(path: Path, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, shuffle=True, seed=2, **options)


def epochs(path: Path, count: int) -> list[list[int]]:
    ds = opened(path)
    orders = []
    for epoch in range(count):
        ds.set_epoch(epoch)
        orders.append(ds.order.row_ids().tolist())
    return orders


def values(ds: Any) -> list[int]:
    return [int(sample["i"]) for sample in ds]


def batched(loader: Any) -> list[int]:
    return [int(i) for batch in loader for i in batch["i"]]


def forked(run: Callable[[], Any]) -> Any:
    """What ``run`` returns in a forked child."""
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.write(write, json.dumps(run()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def three_passes(ds: UniRecordDataset, answers: Any) -> None:
    answers.put([values(ds) for _ in range(3)])


def named_by_itself(ds: UniRecordDataset, epoch: int, answers: Any, turn: Any) -> None:
    turn.wait()  # all have been started, and go on together
    ds.set_epoch(epoch)
    turn.wait()  # all have named theirs
    answers.put((epoch, ds.epoch, ds.order.row_ids().tolist()))


def what_it_follows(ds: UniRecordDataset, asked: Any, answers: Any) -> None:
    while asked.get():
        answers.put((ds.epoch, values(ds)))


# ---- whose epoch it is -------------------------------------------------------------------------------------


def test_a_forked_child_that_iterates_leaves_its_parents_epoch_alone(path: Path) -> None:
    ds = opened(path)
    orders = epochs(path, 4)
    assert forked(lambda: [values(ds) for _ in range(3)]) == orders[:3]
    assert ds.epoch == 0
    assert values(ds) == orders[0]


def test_a_child_that_names_an_epoch_leaves_its_parents_alone(path: Path) -> None:
    ds = opened(path)

    def name() -> list[int]:
        ds.set_epoch(3)
        return ds.order.row_ids().tolist()

    assert forked(name) == epochs(path, 4)[3]
    assert ds.epoch == 0


def test_a_child_sees_what_its_parent_names_and_so_does_a_grandchild(path: Path) -> None:
    ds = opened(path)
    ready, go = os.pipe()

    def child() -> list[int]:
        def grandchild() -> int:
            os.read(ready, 1)
            return ds.epoch

        values(ds)
        return [forked(grandchild), ds.epoch]

    def parent_names() -> None:
        ds.set_epoch(3)
        os.write(go, b"x")

    import threading

    timer = threading.Timer(0.3, parent_names)
    timer.start()
    assert forked(child) == [3, 3]
    timer.join()


def test_spawned_siblings_each_have_their_own_epoch(path: Path) -> None:
    ds = opened(path)
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    workers = [context.Process(target=three_passes, args=(ds, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    seen = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    assert seen == [epochs(path, 3)] * 2
    assert ds.epoch == 0


def test_an_epoch_that_a_sibling_names_is_not_seen(path: Path) -> None:
    ds = opened(path)
    context = multiprocessing.get_context("spawn")
    answers, turn = context.SimpleQueue(), context.Barrier(2)
    workers = [context.Process(target=named_by_itself, args=(ds, epoch, answers, turn)) for epoch in (1, 2)]
    for worker in workers:
        worker.start()
    seen = sorted(answers.get() for _ in workers)
    for worker in workers:
        worker.join()
    orders = epochs(path, 3)
    assert seen == [(1, 1, orders[1]), (2, 2, orders[2])]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_stay_iterate_the_epoch_that_is_named(path: Path, method: str) -> None:
    """Also when it is the one that they have been through already."""
    ds = opened(path)
    context = multiprocessing.get_context(method)
    asked, answers = context.SimpleQueue(), context.SimpleQueue()
    worker = context.Process(target=what_it_follows, args=(ds, asked, answers))
    worker.start()
    orders = epochs(path, 4)
    for epoch in (0, 3, 3, 1, 0):
        ds.set_epoch(epoch)
        asked.put(True)
        assert answers.get() == (epoch, orders[epoch])
    asked.put(True)
    assert answers.get() == (0, orders[1]), "unasked it goes on by itself"
    asked.put(False)
    worker.join()


# ---- nothing begins before the first next ------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda ds: ds, lambda ds: ds.batches(7)], ids=["dataset", "batches"])
def test_an_iterator_that_is_dropped_unused_uses_up_nothing(path: Path, make: Callable[[Any], Any]) -> None:
    orders = epochs(path, 3)
    ds = opened(path)
    read = values if make(ds) is ds else batched
    for epoch in range(3):
        iter(make(ds))
        iterator = iter(make(ds))
        del iterator
        assert read(make(ds)) == orders[epoch]


def stopped(path: Path) -> tuple[dict[str, Any], list[int]]:
    """A state, and what is left of its epoch."""
    ds = opened(path)
    ds.set_epoch(2)
    batches = iter(ds.batches(10))
    next(batches), next(batches)
    return ds.state_dict(), ds.order.row_ids().tolist()[20:]


def test_an_unused_iterator_keeps_a_loaded_position(path: Path) -> None:
    state, rest = stopped(path)
    ds = opened(path)
    ds.load_state_dict(state)
    loader = ds.batches(10)
    iter(loader)
    assert len(loader) == 4
    assert loader.state_dict() == state
    assert batched(loader) == rest
    assert batched(loader) == epochs(path, 4)[3]


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda ds: pickle.loads(pickle.dumps(ds)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "take all": lambda ds: ds.take(10**6),
    "view": lambda ds: ds.view(columns=["i"]),
    "shards": lambda ds: ds.view(shard_id=0, num_shards=1),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_loaded_position_is_kept_in_copies(path: Path, copied: Callable[[Any], Any]) -> None:
    state, rest = stopped(path)
    ds = opened(path)
    ds.load_state_dict(state)
    other = copied(ds)
    assert other.state_dict() == state
    assert values(other) == rest
    assert ds.state_dict() == state, "they go their own ways"
    assert values(ds) == rest


def test_a_loaded_position_reaches_a_new_process(path: Path) -> None:
    state, rest = stopped(path)
    ds = opened(path)
    ds.load_state_dict(state)
    orders = epochs(path, 5)
    assert forked(lambda: values(ds)) == rest
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    worker = context.Process(target=three_passes, args=(ds, answers))
    worker.start()
    assert answers.get() == [rest, orders[3], orders[4]]
    worker.join()


def test_a_loaded_position_is_not_carried_over_to_other_samples(path: Path) -> None:
    ds = opened(path)
    ds.load_state_dict(stopped(path)[0])
    for narrower in (lambda: ds.take(5), lambda: ds.view(seed=9), lambda: ds.split([0.5, 0.5])):
        with pytest.raises(ValueError, match="load the state into the dataset that is iterated"):
            narrower()


def test_a_copied_dataset_stands_where_the_original_stood(path: Path) -> None:
    ds = opened(path)
    samples = iter(ds)
    for _ in range(7):
        next(samples)
    for copied in (copy.deepcopy(ds), pickle.loads(pickle.dumps(ds))):
        assert copied.state_dict() == ds.state_dict()
        assert values(copied) == epochs(path, 2)[1]
    assert ds.state_dict()["position"] == 7


@pytest.mark.parametrize("used", [False, True])
def test_loaders_can_be_copied_and_pickled(path: Path, used: bool) -> None:
    loader = opened(path).batches(10, transform=None)
    if used:
        batched(loader)
    orders = epochs(path, 2)
    for copied in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert batched(copied) == orders[used]
        assert copied.stats().results == 6
    assert loader.dataset.epoch == 0


@pytest.mark.parametrize("taken", [1, 2, 30, 59, 60])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda ds: pickle.loads(pickle.dumps(ds))])
def test_a_state_taken_in_the_middle_of_an_iteration_names_the_next_sample(
    path: Path, taken: int, copied: Callable[[Any], Any]
) -> None:
    ds = opened(path)
    samples = iter(ds)
    seen = [int(next(samples)["i"]) for _ in range(taken)]
    state, copied_state = ds.state_dict(), copied(ds).state_dict()
    assert state["position"] == taken
    assert state == copied_state
    assert [int(sample["i"]) for sample in samples] == epochs(path, 1)[0][taken:]  # a state stops nothing
    resumed = opened(path)
    resumed.load_state_dict(state)
    assert seen + values(resumed) == epochs(path, 1)[0]


def test_an_iteration_that_another_has_overtaken_moves_nothing(path: Path) -> None:
    ds = opened(path)
    first, second = iter(ds), iter(ds)
    for _ in range(7):
        next(first)
    for _ in range(3):
        next(second)
    for _ in range(9):
        next(first)
    assert (ds.state_dict()["epoch"], ds.state_dict()["position"]) == (1, 3)


def test_an_iteration_makes_no_call_for_each_sample(path: Path) -> None:
    calls = []
    samples = iter(opened(path))
    next(samples)
    sys.setprofile(
        lambda frame, event, argument: calls.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        count = sum(1 for _ in samples)
    finally:
        sys.setprofile(None)
    # Going on with a generator is a "call" of it.
    others = [name for name in calls if name not in ("epoch", "<genexpr>")]
    assert count == ROWS - 1
    assert len(others) < 10, others
