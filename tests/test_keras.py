"""unirecord.keras under fit, and what it refuses."""

from __future__ import annotations

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
        orders += ds.row_ids().tolist()
    ds.set_epoch(1)
    seen.clear()
    model.fit(data, epochs=3, shuffle=mixed, verbose=0)
    found = seen[looked:]
    assert [sorted(found[i : i + ROWS]) for i in range(0, 3 * ROWS, ROWS)] == [list(range(ROWS))] * 3
    assert (found == orders) == (not mixed)
    assert ds.epoch == 4


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
