"""unirecord.grain under Grain's own operators, samplers, checks and checkpoint handlers."""

from __future__ import annotations

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grain
import pytest
from absl import flags
from etils import epath

import unirecord.grain
from unirecord import UniRecordDataset, Writer


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("grain") / "a.urec"
    with Writer(found, {"n": "int64"}) as writer:
        writer.write_batch({"n": list(range(50))})
    return found


def opened(path: Path, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, shuffle=True, seed=3, **options)


def orders(ds: UniRecordDataset, epochs: int) -> list[int]:
    found = []
    for epoch in range(epochs):
        ds.set_epoch(epoch)
        found += ds.order.row_ids().tolist()
    ds.set_epoch(0)
    return found


def values(batches: Any) -> list[int]:
    return [int(n) for batch in batches for n in batch["n"]]


def test_every_repetition_is_an_epoch_in_its_order(path: Path) -> None:
    ds = opened(path)
    data = unirecord.grain.dataset(ds).repeat(3).batch(7)
    assert values(data.to_iter_dataset()) == orders(ds, 3)
    assert values(data[1::2]) == [n for first in range(7, 150, 14) for n in orders(ds, 3)[first : first + 7]]


def test_grain_reads_shuffles_and_shards_the_source(path: Path) -> None:
    ds = opened(path)
    source = unirecord.grain.Source(ds, epochs=2)
    assert isinstance(source, grain.sources.RandomAccessDataSource)
    assert [int(source[i]["n"]) for i in range(len(source))] == orders(ds, 2)
    for wrong in (-1, 100):
        with pytest.raises(IndexError):
            source[wrong]
    whole = grain.MapDataset.source(unirecord.grain.Source(ds.view(shuffle=False))).seed(1).shuffle()
    found = [int(sample["n"]) for sample in whole]
    assert sorted(found) == list(range(50)) != found
    assert pickle.loads(pickle.dumps(source))[3] == source[3]


def test_its_name_tells_other_data_and_other_orders_apart(path: Path, tmp_path: Path) -> None:
    """Grain's DataLoader refuses a checkpoint of a source with another name."""

    def loader(ds: UniRecordDataset) -> Any:
        source = unirecord.grain.Source(ds)
        sampler = grain.samplers.SequentialSampler(len(source), grain.sharding.NoSharding())
        return grain.DataLoader(data_source=source, sampler=sampler, worker_count=0)

    state = iter(loader(opened(path))).get_state()
    with pytest.raises(ValueError, match="Source"):
        iter(loader(opened(path).view(seed=4))).set_state(state)
    iter(loader(opened(path))).set_state(state)


def test_grains_own_checks_of_checkpoints_pass(path: Path) -> None:
    grain.experimental.assert_equal_output_after_checkpoint(
        unirecord.grain.batches(opened(path), 7, epochs=2)
    )


@pytest.mark.parametrize("taken", [0, 3, 8, 11])
def test_grains_handler_saves_and_restores_an_iterator(path: Path, tmp_path: Path, taken: int) -> None:
    data = unirecord.grain.batches(opened(path), 7, epochs=2).map(lambda batch: batch)
    iterator = iter(data)
    first = values(itertools.islice(iterator, taken))
    handler = grain.checkpoint.CheckpointHandler()
    handler.save(epath.Path(tmp_path), iterator)
    again = handler.restore(epath.Path(tmp_path), iter(data))
    assert first + values(again) == orders(opened(path), 2)


def test_worker_processes_give_the_same_sequence_and_resume_in_it(path: Path) -> None:
    """Grain spawns them for its DataLoader by mp_prefetch, whatever the start method of the job is."""
    flags.FLAGS.mark_as_parsed()  # Grain's workers ask for its flags
    ds = opened(path)
    source = unirecord.grain.Source(ds, epochs=2)
    sampler = grain.samplers.SequentialSampler(len(source), grain.sharding.NoSharding())
    iterator = iter(grain.DataLoader(data_source=source, sampler=sampler, worker_count=2))
    first = [int(sample["n"]) for sample in itertools.islice(iterator, 17)]
    state = iterator.get_state()
    beyond = [int(sample["n"]) for sample in itertools.islice(iterator, 20)]
    assert first + beyond == orders(ds, 2)[:37]
    iterator.set_state(state)
    assert first + [int(sample["n"]) for sample in iterator] == orders(ds, 2)


def test_epochs_without_end_end_where_there_is_no_batch(path: Path) -> None:
    endless = iter(unirecord.grain.batches(opened(path), 20, epochs=None, drop_last=True))
    assert len(list(itertools.islice(endless, 7))) == 7
    endless.close()
    with pytest.raises(ValueError, match="closed"):
        next(endless)
    assert list(unirecord.grain.batches(opened(path), 51, epochs=None, drop_last=True)) == []


def test_a_state_of_another_epoch_is_refused(path: Path) -> None:
    ds = opened(path)
    ds.set_epoch(5)
    state = ds.state_dict()
    with pytest.raises(ValueError, match="epoch 5"):
        iter(unirecord.grain.batches(opened(path), 7, epochs=2)).set_state(state)
    iterator = iter(unirecord.grain.batches(opened(path), 7))
    iterator.set_state(state)
    assert values(iterator) == ds.order.row_ids().tolist()


EPOCHS = 5
WAYS = {
    "batches": lambda ds: unirecord.grain.batches(ds, 7, epochs=EPOCHS),
    "MapDataset": lambda ds: unirecord.grain.dataset(ds).repeat(EPOCHS).batch(7).to_iter_dataset(),
    "Source": lambda ds: (
        grain.MapDataset.source(unirecord.grain.Source(ds, epochs=EPOCHS)).batch(7).to_iter_dataset()
    ),
    "DataLoader": lambda ds: grain.DataLoader(
        data_source=unirecord.grain.Source(ds, epochs=EPOCHS),
        sampler=grain.samplers.SequentialSampler(50 * EPOCHS, grain.sharding.NoSharding()),
        operations=[grain.transforms.Batch(7)],
        worker_count=0,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_resumed_within_and_between_epochs_is_as_if_never_stopped(path: Path, way: str) -> None:
    """Twice in an epoch, and at the end of two, each time in a job that begins anew; then two more epochs follow."""
    expected = orders(opened(path), EPOCHS)
    found: list[int] = []
    state = None
    for batches in (2, 3, 3, 8, None):  # of 7 rows, of which an epoch of `batches` has eight
        running = iter(WAYS[way](opened(path)))
        if state is not None:
            running.set_state(state)
        found += values(itertools.islice(running, batches))
        state = running.get_state()
    assert found == expected


@pytest.mark.parametrize("way", WAYS)
def test_iterators_that_are_broken_off_or_in_other_threads_leave_each_other_alone(
    path: Path, way: str
) -> None:
    expected = orders(opened(path), EPOCHS)
    data = WAYS[way](opened(path))
    assert values(itertools.islice(iter(data), 3)) == expected[:21]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(values, [iter(data), iter(data)])) == [expected, expected]
