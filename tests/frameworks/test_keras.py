"""unirecord.keras under fit, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import unirecord.keras
from unirecord import SchemaError, UniRecordDataset, Writer

ROWS, SIZE = 50, 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("keras") / "a.urec"
    with Writer(found, {"n": "int64", "x": {"type": "float32", "shape": [4]}, "name": "string"}) as writer:
        for n in range(ROWS):
            writer.write({"n": n, "x": np.full(4, n, np.float32), "name": str(n)})
    return found


def opened(path: Path) -> UniRecordDataset:
    return UniRecordDataset(path, columns=["n", "x"], shuffle=True, seed=2)


@pytest.mark.parametrize("mixed", [False, True])
def test_fit_gets_every_row_of_each_epoch(path: Path, mixed: bool) -> None:
    seen: list[int] = []

    def pair(batch: dict[str, Any]) -> Any:
        seen.extend(batch["n"].tolist())
        return batch["x"], batch["n"]

    ds = opened(path)
    data = unirecord.keras.dataset(ds, SIZE, batch_transform=pair, num_workers=0, prefetch=1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.evaluate(data, verbose=0)  # an epoch as well
    looked = len(seen) - ROWS  # batches whose types TensorFlow has looked at before
    orders = []
    for epoch in range(1, 4):
        ds.set_epoch(epoch)
        orders += ds.order.row_ids().tolist()
    ds.set_epoch(1)
    seen.clear()
    model.fit(data, epochs=3, shuffle=mixed, verbose=0)
    found = seen[looked:]
    assert [sorted(found[i : i + ROWS]) for i in range(0, 3 * ROWS, ROWS)] == [list(range(ROWS))] * 3
    assert (found == orders) == (not mixed)
    assert ds.epoch == 3


class Recorder(keras.Model):
    """Notes the rows that it is trained with."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.compile("sgd", run_eagerly=True)

    def train_step(self, data: Any) -> dict[str, float]:
        self.seen += keras.ops.convert_to_numpy(data[1]).tolist()
        return {"loss": 0.0}

    def trained(self, data: Any, **options: Any) -> list[int]:
        """The rows of a fit, in their order."""
        before = len(self.seen)
        self.fit(data, shuffle=False, verbose=0, **options)
        return self.seen[before:]


def dataset_of(ds: UniRecordDataset, **options: Any) -> Any:
    return unirecord.keras.dataset(ds, SIZE, batch_transform=lambda b: (b["x"], b["n"]), **options)


def orders(path: Path, epochs: Iterable[int]) -> list[int]:
    """The rows of these epochs, one behind the other."""
    ds, found = opened(path), []
    for epoch in epochs:
        ds.set_epoch(epoch)
        found += ds.order.row_ids().tolist()
    return found


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_a_pass_is_one_order_however_many_epochs_keras_makes_of_it(path: Path, steps: int) -> None:
    """Seven batches in epochs of so many, and what is left of the pass is not read."""
    ds = opened(path)
    data, model = dataset_of(ds), Recorder()
    for epoch in range(3):
        whole = 7 // steps
        expected = orders(path, [epoch])[: whole * steps * SIZE]
        assert model.trained(data, epochs=whole, steps_per_epoch=steps) == expected
        assert ds.epoch == epoch


def test_what_is_looked_at_before_a_fit_is_no_pass(path: Path) -> None:
    """Batches that are asked for by hand, and the one by which Keras builds a model with other backends."""
    ds = opened(path)
    data = dataset_of(ds)
    assert data[3][1].tolist() == data[3][1].tolist() == orders(path, [0])[3 * SIZE : 4 * SIZE]
    data.on_epoch_begin()
    assert data[0][1].tolist() == orders(path, [0])[:SIZE]
    data.on_epoch_end()  # reset, after the model has been built
    found: list[int] = []
    for _ in range(2):
        data.on_epoch_begin()
        found += [row for number in range(7) for row in data[number][1].tolist()]
        data.on_epoch_end()
    assert found == orders(path, [0, 1])
    assert Recorder().trained(data) == orders(path, [2])
    assert data[0][1].tolist() == orders(path, [3])[:SIZE]
    assert ds.epoch == 2


def test_a_fit_that_an_error_has_left_begins_its_epoch_again(path: Path) -> None:
    data, model = dataset_of(opened(path)), Recorder()

    class Stopping(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.trained(data, callbacks=[Stopping()])
    assert model.trained(data, epochs=2) == orders(path, [0, 1])


def test_resumed_twice_between_epochs_and_two_further_is_as_if_never_stopped(path: Path) -> None:
    """By the state of the dataset, and by set_epoch with initial_epoch."""
    found: list[int] = []
    state = None
    for epochs in (1, 2, 2):
        ds = opened(path)
        if state is not None:
            ds.load_state_dict(state)
        found += Recorder().trained(dataset_of(ds), epochs=epochs)
        state = ds.state_dict()
    assert found == orders(path, range(5))
    ds = opened(path)
    ds.set_epoch(3)
    assert Recorder().trained(dataset_of(ds), epochs=5, initial_epoch=3) == orders(path, [3, 4])


def test_an_epoch_that_is_set_holds_for_the_next_fit(path: Path) -> None:
    ds = opened(path)
    data, model = dataset_of(ds), Recorder()
    for epoch in (2, 2, 0):
        ds.set_epoch(epoch)
        assert model.trained(data, epochs=2) == orders(path, [epoch, epoch + 1])


def test_batches_are_those_of_their_numbers_in_any_order(path: Path) -> None:
    ds = opened(path)
    data = unirecord.keras.dataset(ds, SIZE)
    whole = [batch["n"].tolist() for batch in ds.view().batches(SIZE)]
    for number in (3, 3, 4, 5, 0, 6, 1, 2, 3):
        assert data[number]["n"].tolist() == whole[number]
    with pytest.raises(IndexError):
        data[len(data)]


def test_what_has_no_form_and_a_place_within_an_epoch_are_refused(path: Path) -> None:
    with pytest.raises(SchemaError, match="'name'"):
        unirecord.keras.dataset(UniRecordDataset(path), SIZE)
    ds = opened(path)
    ds.load_state_dict({**ds.state_dict(), "position": 8})
    with pytest.raises(ValueError, match="position 8"):
        unirecord.keras.dataset(ds, SIZE)[0]
