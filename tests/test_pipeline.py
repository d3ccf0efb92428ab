"""ds.pipeline(): contents and order, filters, several of one, batches, states, errors, randomness, ends of threads."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pipeline_in_place import Twice

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.errors import CorruptionError, TransformError
from unirecord.pipeline.operator import SkipSample
from unirecord.pipeline.pipeline import Pipeline

ROWS = 400


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pipeline") / "set"
    schema = {
        "x": {"type": "float32", "shape": [4]},
        "i": "int64",
        "name": "string",
        "blob": "bytes",
        "weight": "float32?",
    }
    with Writer(path, schema, max_part_bytes=12_000) as writer:
        for i in range(ROWS):
            writer.write(
                {
                    "x": np.full(4, i, np.float32),
                    "i": i,
                    "name": f"n{i}",
                    "blob": bytes([i % 256]) * (i % 7),
                    "weight": None if i % 5 == 0 else i,
                }
            )
    assert len(list(path.glob("*.urec"))) > 1
    return path


def opened(path: Path, rank: int = 0, ranks: int = 1, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, rank, ranks, shuffle=True, seed=9, **options)


def number(sample: Any) -> int:
    return int(sample["i"])


def numbers(results: Any) -> list[int]:
    """The rows of samples, or of batches of them."""
    found: list[int] = []
    for result in results:
        values = result["i"] if isinstance(result, dict) else result
        found += [int(i) for i in values] if np.ndim(values) else [int(values)]
    return found


def later(sample: dict[str, Any]) -> dict[str, Any]:
    """Takes longer for some samples, so that threads overtake each other."""
    time.sleep(0.003 if number(sample) % 7 == 0 else 0)
    return sample


def test_samples_come_in_the_order_of_the_dataset(path: Path) -> None:
    ds = opened(path)
    for build in (
        lambda p: p,
        lambda p: p.map(later, threads=5),
        lambda p: p.map(later, threads=4).map(later).map(later, threads=3),
        lambda p: p.map(later).batch(7).unbatch().map(later, threads=2),
        lambda p: p.batch(16).map_batch(lambda batch: batch, threads=3),
    ):
        ds.set_epoch(0)
        assert numbers(build(ds.pipeline())) == ds.row_ids().tolist()


def test_stored_samples_and_batches_are_what_the_dataset_gives(path: Path) -> None:
    ds = opened(path)
    ds.set_epoch(0)
    for sample, row in zip(ds.pipeline(), ds.row_ids().tolist(), strict=True):
        assert number(sample) == row
        assert sample["name"] == f"n{row}"
        assert sample["blob"] == bytes([row % 256]) * (row % 7)
        assert sample["weight"] == (None if row % 5 == 0 else row)
    ds.set_epoch(0)
    expected = list(ds.batches(32))
    ds.set_epoch(0)
    for batch, want in zip(ds.pipeline().batch(32), expected, strict=True):
        assert np.array_equal(batch["x"], want["x"])
        assert np.ma.allequal(batch["weight"], want["weight"])
        assert batch["blob"].to_list() == want["blob"].to_list()


def test_epochs_follow_each_other_and_lengths_are_known(path: Path) -> None:
    ds = opened(path)
    loader = ds.pipeline().map(lambda sample: sample).batch(64, drop_last=True)
    assert len(loader) == ROWS // 64
    assert len(ds.pipeline().batch(64)) == -(-ROWS // 64)
    assert len(ds.pipeline().batch(64, drop_last=True).unbatch()) == ROWS // 64 * 64
    epochs = [numbers(loader) for _ in range(2)]
    assert epochs[0] != epochs[1]
    for epoch, found in enumerate(epochs):
        ds.set_epoch(epoch)
        assert found == ds.row_ids().tolist()[: ROWS // 64 * 64]
    with pytest.raises(TypeError, match="length is not known"):
        len(ds.pipeline().filter(lambda sample: True))


def test_operators_on_columns_leave_the_others_alone(path: Path) -> None:
    ds = opened(path)
    pipeline = (
        ds.pipeline().map(lambda x, i: (x + 1, -i), columns=["x", "i"]).map(str.upper, columns=["name"])
    )
    for sample, row in zip(pipeline, ds.row_ids().tolist(), strict=True):
        assert sample["x"].tolist() == [row + 1] * 4
        assert (int(sample["i"]), sample["name"]) == (-row, f"N{row}")
    with pytest.raises(ValueError, match="no column 'y'"):
        ds.pipeline().map(abs, columns=["y"])
    ds.set_epoch(0)
    with pytest.raises(TransformError, match="tuple of 2"):
        list(ds.pipeline().map(lambda x, i: x, columns=["x", "i"]))


def thrice(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**sample, "copy": k} for k in range(number(sample) % 4)]


BUILDS: dict[str, Callable[[Pipeline], Pipeline]] = {
    "map": lambda p: p.map(later),
    "batch": lambda p: p.batch(9),
    "map, batch": lambda p: p.map(later, threads=3).batch(9).map_batch(lambda batch: batch),
    "filter": lambda p: p.filter(lambda sample: number(sample) % 3 > 0),
    "filter, batch": lambda p: p.filter(lambda sample: number(sample) % 3 > 0).batch(7),
    "where, batch": lambda p: p.filter("i < 250 and i != 7").batch(7, drop_last=True),
    "flat_map": lambda p: p.flat_map(thrice),
    "flat_map, batch": lambda p: p.flat_map(thrice, threads=2).batch(5),
    "flat_map twice": lambda p: p.flat_map(thrice).flat_map(thrice),
    "filter, flat_map, batch, unbatch, filter": lambda p: (
        p.filter(lambda s: number(s) % 2 == 0)
        .flat_map(thrice)
        .batch(4)
        .unbatch()
        .filter(lambda s: s["copy"] != 1)
    ),
    "batch, unbatch, batch": lambda p: p.batch(6).unbatch().filter(lambda s: number(s) % 5 > 0).batch(4),
    "prefetch": lambda p: p.batch(9).prefetch(3).map_batch(lambda batch: batch).prefetch(1),
}


def plain(result: Any) -> Any:
    """A result with Python's values, to be compared."""
    if isinstance(result, (np.ma.MaskedArray, np.ndarray, np.generic)):
        return result.tolist()
    if isinstance(result, dict):
        return {name: plain(value) for name, value in result.items()}
    if hasattr(result, "to_list"):
        return [bytes(item) for item in result.to_list()]
    return [plain(item) for item in result] if isinstance(result, list) else result


@pytest.mark.parametrize("name", BUILDS)
def test_a_state_from_any_place_gives_exactly_the_rest(path: Path, name: str) -> None:
    build = BUILDS[name]
    full = [plain(result) for result in build(opened(path).take(60).pipeline())]
    assert len(full) > 3
    loader = build(opened(path).take(60).pipeline())
    states = []
    for _ in loader:
        states.append(json.loads(json.dumps(loader.state_dict())))  # noqa: PERF401
    for place in {0, 1, len(full) // 2, len(full) - 2, len(full) - 1}:
        again = build(opened(path).take(60).pipeline(cpus=1 + place % 3))
        again.load_state_dict(states[place])
        assert again.state_dict() == states[place]
        assert [plain(result) for result in again] == full[place + 1 :], f"after {place + 1} results"


@settings(max_examples=25)
@given(data=st.data())
def test_any_pipeline_goes_on_where_its_state_was_taken(path: Path, data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.sampled_from(["map", "filter", "flat", "batch"]), min_size=1, max_size=5))

    def build(pipeline: Pipeline, threads: Any) -> Pipeline:
        for step in steps:
            if step == "map":
                pipeline = pipeline.map(lambda sample: sample, threads=threads)
            elif step == "filter":
                pipeline = pipeline.filter(lambda sample: number(sample) % 3 != 1)
            elif step == "flat":
                pipeline = pipeline.flat_map(thrice, threads=threads)
            else:
                pipeline = pipeline.batch(4).unbatch()
        return pipeline

    def samples() -> UniRecordDataset:
        return opened(path, columns=["i"]).take(25)

    full = [plain(result) for result in build(samples().pipeline(), "auto")]
    place = data.draw(st.integers(0, len(full)))
    loader = build(samples().pipeline(), data.draw(st.sampled_from([1, 2, "auto"])))
    results = iter(loader)
    for _ in range(place):
        next(results)
    state = loader.state_dict()
    results.close()
    again = build(samples().pipeline(), data.draw(st.sampled_from([1, 3, "auto"])))
    again.load_state_dict(state)
    rest = [plain(result) for result in again]
    assert rest == (full[place:] if place else full)


def test_a_state_goes_on_with_other_ranks_where_each_sample_gives_one(path: Path) -> None:
    loaders = [opened(path, rank, 2).pipeline().map(later).batch(10) for rank in range(2)]
    first: list[int] = []
    for loader in loaders:
        results = iter(loader)
        first += numbers([next(results), next(results)])
        results.close()
    rest: list[int] = []
    for rank in range(4):
        again = opened(path, rank, 4).pipeline().map(later).batch(10)
        again.load_state_dict(loaders[0].state_dict())
        rest += numbers(again)
    assert sorted(first + rest) == list(range(ROWS))


def test_a_state_of_uneven_ranks_is_refused_by_another_rank(path: Path) -> None:
    loader = opened(path, 1, 2).pipeline().filter(lambda sample: number(sample) % 3 > 0).batch(8)
    next(iter(loader))
    state = loader.state_dict()
    own = opened(path, 1, 2).pipeline().filter(lambda sample: number(sample) % 3 > 0).batch(8)
    own.load_state_dict(state)
    for rank, ranks in ((0, 2), (1, 3), (0, 1)):
        other = opened(path, rank, ranks).pipeline().filter(lambda sample: number(sample) % 3 > 0).batch(8)
        with pytest.raises(ValueError, match="rank 1 of 2"):
            other.load_state_dict(state)


def test_a_state_in_the_middle_of_a_sample_is_refused_by_other_operators(path: Path) -> None:
    loader = opened(path).pipeline().flat_map(lambda sample: [sample] * 3)
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(ValueError, match="flat_map"):
        opened(path).pipeline().batch(3).unbatch().load_state_dict(state)
    with pytest.raises(ValueError, match="pipeline"):
        opened(path).load_state_dict(state)


def test_states_are_those_of_the_dataset_where_each_sample_gives_one(path: Path) -> None:
    loader = opened(path).pipeline().map(later, threads=3).batch(32)
    results = iter(loader)
    next(results)
    state = loader.state_dict()
    plain_loader = opened(path).batches(32)
    next(iter(plain_loader))
    assert state == plain_loader.state_dict()
    again = opened(path).batches(32)
    again.load_state_dict(state)
    assert numbers(again) == opened(path).row_ids().tolist()[32:]


def test_random_operators_give_a_sample_the_same_on_any_number_of_threads_and_ranks(path: Path) -> None:
    def noise(sample: Any, rng: np.random.Generator) -> dict[str, Any]:
        return {"i": sample["i"], "noise": rng.random(), "whole": int(rng.integers(1 << 40))}

    def more(noise: float, rng: np.random.Generator) -> float:
        return noise + rng.random()

    def of(ds: UniRecordDataset, threads: Any, epoch: int) -> dict[int, Any]:
        ds.set_epoch(epoch)
        pipeline = ds.pipeline().map(noise, random=True, threads=threads)
        pipeline = pipeline.map(more, columns=["noise"], random=True)
        return {number(sample): (sample["noise"], sample["whole"]) for sample in pipeline}

    whole = of(opened(path), "auto", 3)
    assert len(set(whole.values())) == ROWS
    assert of(opened(path), 4, 3) == whole
    assert {**of(opened(path, 0, 2), 1, 3), **of(opened(path, 1, 2), 3, 3)} == whole
    assert of(UniRecordDataset(path, seed=9), 2, 3) == whole  # in another order
    assert not set(of(opened(path), 1, 4).values()) & set(whole.values())
    other_seed = of(UniRecordDataset(path, seed=10), 2, 3)
    assert not set(other_seed.values()) & set(whole.values())


def test_errors_name_the_operator_the_row_and_its_part(path: Path) -> None:
    ds = opened(path)

    def fail(sample: dict[str, Any]) -> dict[str, Any]:
        if number(sample) == 123:
            raise ZeroDivisionError("here")
        return sample

    place = ds.row_ids().tolist().index(123)
    for threads in (1, 4, "auto"):
        ds.set_epoch(0)
        found = []
        results = ds.pipeline().map(later, threads=2).map(fail, threads=threads)
        message = r"map\(.*fail.*\) failed on row 123 \(row \d+ of .*urec\)"
        with pytest.raises(TransformError, match=message) as caught:
            found.extend(map(number, results))
        assert found == ds.row_ids().tolist()[:place]  # all that came before it
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert (caught.value.row, caught.value.path) == (123, ds.locate(123)[0])
    ds.set_epoch(0)
    with pytest.raises(TransformError, match="batch of 64 samples that begins with row"):
        list(ds.pipeline().batch(64).map_batch(lambda batch: 1 // 0))


@pytest.mark.parametrize("error", [StopIteration, KeyError, SystemExit, KeyboardInterrupt])
def test_no_error_of_an_operator_ends_the_epoch_without_a_word(
    path: Path, error: type[BaseException]
) -> None:
    def fail(sample: Any) -> Any:
        raise error

    expected = TransformError if issubclass(error, Exception) else error
    with pytest.raises(expected):
        list(opened(path).pipeline().map(fail))


def test_samples_can_be_left_out_by_name(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def keep(sample: Any) -> Any:
        if number(sample) % 100 == 7:
            raise SkipSample("no use")
        return sample

    found = numbers(opened(path).pipeline().map(keep, threads=2).batch(8))
    assert found == [row for row in opened(path).row_ids().tolist() if row % 100 != 7]
    for row in (7, 107, 207, 307):
        assert f"row {row} (" in caplog.text
    assert "no use" in caplog.text


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def are_gone(before: int) -> bool:
    """A thread that has been joined may stay listed for a moment."""
    deadline = time.monotonic() + 5
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    return threads() <= before


def test_no_thread_outlives_its_iterator(path: Path) -> None:
    ds = opened(path)
    before = threads()

    def fail(sample: Any) -> Any:
        raise ValueError

    pipeline = ds.pipeline().map(later, threads=4).batch(8).map_batch(lambda batch: batch, threads=2)
    list(pipeline)
    assert are_gone(before)
    results = iter(pipeline)
    next(results)
    assert threads() > before
    results.close()
    assert are_gone(before)
    results = iter(pipeline)
    next(results)
    del results
    assert are_gone(before)
    with pytest.raises(TransformError):
        list(ds.pipeline().map(fail, threads=4))
    assert are_gone(before)
    iter(pipeline)
    assert threads() <= before  # nothing begins before the first result is asked for


def test_operators_run_at_the_same_time_on_as_many_threads_as_they_ask_for(path: Path) -> None:
    for count in (1, 3, 8):
        meet = threading.Barrier(count, timeout=10)

        def together(sample: Any, meet: threading.Barrier = meet) -> Any:
            meet.wait()
            time.sleep(0.002)  # so that one is worth a thread
            return sample

        ds = opened(path).take(8 * 3)
        found = numbers(ds.pipeline(cpus=1).map(together, threads=count))
        assert found == ds.row_ids().tolist()


def test_no_more_threads_call_an_operator_than_it_asks_for(path: Path) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def counted(sample: Any) -> Any:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.001)
        with lock:
            now -= 1
        return sample

    list(opened(path).take(80).pipeline(cpus=4).map(counted, threads=2))
    assert most == 2


def test_what_is_made_ahead_is_bounded(path: Path) -> None:
    made = 0

    def counted(batch: Any) -> Any:
        nonlocal made
        made += 1
        return batch

    results = iter(opened(path).pipeline().batch(1).map_batch(counted, threads=2).prefetch(3))
    next(results)
    time.sleep(0.2)
    assert made <= 1 + 3
    results.close()


def test_corrupt_rows_are_left_out_or_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Writer(tmp_path / "a.urec", {"i": "int64", "blob": "bytes"}) as writer:
        for i in range(100):
            writer.write({"i": i, "blob": bytes([i]) * 5000})
    data = bytearray((tmp_path / "a.urec").read_bytes())
    data[data.index(bytes([77]) * 5000) + 20] ^= 1
    (tmp_path / "a.urec").write_bytes(data)
    with pytest.raises(CorruptionError):
        list(UniRecordDataset(tmp_path / "a.urec").pipeline().map(lambda s: s))
    ds = UniRecordDataset(tmp_path / "a.urec", on_corrupt="skip")
    pipeline = ds.pipeline().map(lambda s: s).batch(9)
    assert numbers(pipeline) == [i for i in range(100) if i != 77]
    assert "row 77" in caplog.text
    loader = ds.pipeline().map(lambda s: s)
    results = iter(loader)
    for _ in range(77):
        next(results)
    again = UniRecordDataset(tmp_path / "a.urec", on_corrupt="skip").pipeline().map(lambda s: s)
    again.load_state_dict(loader.state_dict())
    assert numbers(again) == list(range(78, 100))


def test_what_cannot_be_is_refused_when_it_is_asked_for(path: Path) -> None:
    pipeline = opened(path).pipeline()
    for wrong, error in (
        (lambda: pipeline.map(3), TypeError),
        (lambda: pipeline.map(abs, threads=0), ValueError),
        (lambda: pipeline.map(abs, threads=2, processes=2), ValueError),
        (lambda: pipeline.map(abs, columns="x"), ValueError),
        (lambda: pipeline.map(abs, random=1), TypeError),
        (lambda: pipeline.map(Twice()), ValueError),
        (lambda: pipeline.map(abs, vectorised=True), ValueError),
        (lambda: pipeline.map_batch(abs), ValueError),
        (lambda: pipeline.unbatch(), ValueError),
        (lambda: pipeline.batch(0), ValueError),
        (lambda: pipeline.batch(8).map(abs), ValueError),
        (lambda: pipeline.batch(8).batch(8), ValueError),
        (lambda: pipeline.filter("nothing < 3"), unirecord.QueryError),
        (lambda: pipeline.prefetch(0), ValueError),
        (lambda: pipeline.apply(lambda p: None), TypeError),
        (lambda: opened(path).pipeline(cpus=0), ValueError),
        (lambda: opened(path).pipeline(memory="much"), ValueError),
    ):
        with pytest.raises(error):
            wrong()


def test_a_pipeline_stays_as_it_is(path: Path) -> None:
    ds = opened(path)
    pipeline = ds.pipeline().map(lambda sample: {**sample, "i": 1})
    other = pipeline.filter(lambda sample: False)
    assert numbers(pipeline) == [1] * ROWS
    assert numbers(other) == []
    assert numbers(pipeline.apply(lambda p: p.batch(50))) == [1] * ROWS


def test_a_forked_child_does_not_use_the_iterator_of_its_parent(path: Path) -> None:
    results = iter(opened(path).pipeline().map(later, threads=2))
    next(results)
    child = os.fork()
    if child == 0:
        try:
            next(results)
        except ValueError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    next(results)
    results.close()


def test_an_interrupt_ends_everything(path: Path) -> None:
    before = threads()

    def iterate() -> Iterator[Any]:
        for sample in opened(path).pipeline().map(later, threads=3):
            yield sample
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(iterate())
    assert are_gone(before)
