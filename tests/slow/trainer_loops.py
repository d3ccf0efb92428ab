"""`make trainers`: Lightning, Accelerate, torchdata's nodes and Hugging Face's Trainer over UniRecord, as they are.

Apart from `make test`, since importing them takes longer than each run can spare.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import unirecord.lightning
from unirecord import UniRecordDataset, Writer
from unirecord.torch import EpochSampler, loader

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROWS, SIZE = 60, 8
STEPS = -(-ROWS // SIZE)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("trainers") / "a.urec"
    with Writer(found, {"n": "int64", "x": {"type": "float32", "shape": [4]}, "labels": "int64"}) as writer:
        for n in range(ROWS):
            writer.write({"n": n, "x": np.full(4, n, np.float32), "labels": n % 2})
    return found


def opened(path: Path, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, shuffle=True, seed=5, **options)


def orders(path: Path, epochs: int) -> list[int]:
    ds, found = opened(path), []
    for epoch in range(epochs):
        ds.set_epoch(epoch)
        found += ds.order.row_ids().tolist()
    return found


class Interrupted(Exception):
    pass


def numbers(batches: Any) -> list[int]:
    return [n for batch in batches for n in batch["n"].tolist()]


def stock(ds: UniRecordDataset, **options: Any) -> DataLoader[Any]:
    return DataLoader(ds, batch_size=SIZE, sampler=EpochSampler(ds), **options)


def assert_resumed_twice(path: Path, made: Any) -> None:
    """Within an epoch and between epochs, each time by a loader of its own, and then two more epochs."""
    for steps in ((2, 3), (1, 6), (STEPS, 2)):
        ds = opened(path)
        ready, found = made(ds), []
        for count in steps:
            found += numbers(itertools.islice(ready, count))
            state = json.loads(json.dumps(ready.state_dict()))
            ready = made(opened(path))
            ready.load_state_dict(state)
            if count == STEPS:
                assert numbers(ready) == []
        while len(found) < 4 * ROWS:
            found += numbers(ready)
        assert found == orders(path, 4)


def lightning_fit(
    path: Path,
    folder: Path,
    stop: int | None,
    checkpoint: Path | None,
    epochs: int = 2,
    make: Any = unirecord.lightning.loader,
    **more: Any,
) -> list[int]:
    """The rows that a model is trained on in so many epochs, or up to a step after which a checkpoint is written."""
    lightning = pytest.importorskip("lightning.pytorch")

    class Data(lightning.LightningDataModule):
        def train_dataloader(self) -> Any:
            return make(opened(path), SIZE)

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.seen: list[int] = []

        def training_step(self, batch: Any, number: int) -> Any:
            self.seen += batch["n"].tolist()
            return self.layer(batch["x"]).mean()

        def on_train_batch_end(self, *_: Any) -> None:
            if self.trainer.global_step == stop:
                self.trainer.save_checkpoint(folder / "saved.ckpt")
                raise Interrupted

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.0)

    model = Model()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        **{"enable_checkpointing": False, **more},
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    with contextlib.suppress(Interrupted):
        trainer.fit(model, datamodule=Data(), ckpt_path=checkpoint)
    return model.seen


@pytest.mark.parametrize("stop", [3, 10])
def test_lightning_goes_on_in_the_middle_of_an_epoch(path: Path, tmp_path: Path, stop: int) -> None:
    assert lightning_fit(path, tmp_path, None, None) == orders(path, 2)
    first = lightning_fit(path, tmp_path, stop, None)
    assert first == orders(path, 2)[: len(first)]
    rest = lightning_fit(path, tmp_path, None, tmp_path / "saved.ckpt")
    assert first + rest == orders(path, 2)


def test_lightning_is_resumed_twice_and_goes_on(path: Path, tmp_path: Path) -> None:
    found: list[int] = []
    for stop in (3, 5, 11, None):
        checkpoint = tmp_path / "saved.ckpt" if found else None
        found += lightning_fit(path, tmp_path, stop, checkpoint, epochs=4)
    assert found == orders(path, 4)


def test_lightning_goes_on_from_the_end_of_an_epoch(path: Path, tmp_path: Path) -> None:
    """As its own checkpoints are, by default; twice, and two epochs further."""
    callbacks = pytest.importorskip("lightning.pytorch.callbacks")
    found: list[int] = []
    for epochs in (1, 2, 4):
        last = callbacks.ModelCheckpoint(dirpath=tmp_path, save_last=True)
        checkpoint = tmp_path / "last.ckpt" if found else None
        found += lightning_fit(
            path, tmp_path, None, checkpoint, epochs=epochs, enable_checkpointing=True, callbacks=[last]
        )
    assert found == orders(path, 4)


@pytest.mark.parametrize(
    "make",
    [unirecord.lightning.loader, lambda ds, size: stock(ds), lambda ds, size: stock(ds, num_workers=2)],
)
def test_lightning_that_loads_its_data_anew_has_the_next_epoch(path: Path, tmp_path: Path, make: Any) -> None:
    for anew in (0, 1):
        found = lightning_fit(
            path, tmp_path, None, None, epochs=3, make=make, reload_dataloaders_every_n_epochs=anew
        )
        assert found == orders(path, 3)


def test_fabric_takes_the_loader_as_it_is(path: Path) -> None:
    fabric = pytest.importorskip("lightning.fabric").Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    ready = loader(opened(path), SIZE)
    assert [n for batch in ready for n in fabric.to_device(batch)["n"].tolist()] == orders(path, 1)
    assert_resumed_twice(path, lambda ds: loader(ds, SIZE, device=fabric.device))
    prepared = fabric.setup_dataloaders(stock(opened(path)))
    assert [n for _ in range(3) for n in numbers(prepared)] == orders(path, 3)


def test_accelerate_takes_the_loader_and_a_stock_one(path: Path) -> None:
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    assert_resumed_twice(path, lambda ds: loader(ds, SIZE, device=accelerator.device))
    for workers in (0, 2):
        prepared = accelerator.prepare(stock(opened(path), num_workers=workers))
        assert [n for _ in range(3) for n in numbers(prepared)] == orders(path, 3)


def test_accelerate_passes_over_the_first_batches_twice_and_goes_on(path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    whole = [orders(path, 4)[ROWS * epoch :][:ROWS] for epoch in range(4)]
    for done in (2, 5):
        prepared = accelerator.prepare(stock(opened(path)))
        prepared.set_epoch(1)
        skipped = accelerate.skip_first_batches(prepared, done)
        skipped.set_epoch(1)
        assert numbers(skipped) == whole[1][done * SIZE :]
        for epoch in (2, 3):
            prepared.set_epoch(epoch)
            assert numbers(prepared) == whole[epoch]
    with pytest.raises(AttributeError, match=r"load_state_dict\(state\) goes on at the very sample"):
        accelerate.skip_first_batches(loader(opened(path), SIZE), 2)


def test_accelerate_that_undoes_an_epoch_is_named(path: Path) -> None:
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    for made in (stock, lambda ds: DataLoader(ds, batch_size=SIZE)):
        ds = opened(path)
        prepared = accelerator.prepare(made(ds))
        ds.set_epoch(3)
        with pytest.warns(UserWarning, match=r"set_epoch\(0\) undoes set_epoch\(3\)"):
            assert numbers(prepared) == orders(path, 1)
        prepared.set_epoch(3)
        assert numbers(prepared) == orders(path, 4)[3 * ROWS :]


@pytest.mark.parametrize("taken", range(1, 9))
def test_a_node_of_torchdata_goes_on_after_every_batch(path: Path, taken: int) -> None:
    nodes = pytest.importorskip("torchdata.nodes")

    def made() -> Any:
        return nodes.Loader(
            nodes.Prefetcher(nodes.IterableWrapper(loader(opened(path), SIZE)), prefetch_factor=3)
        )

    whole = orders(path, 2)
    running = made()
    first = [n for batch in itertools.islice(running, taken) for n in batch["n"].tolist()]
    state = json.loads(json.dumps(running.state_dict()))
    again = made()
    again.load_state_dict(state)
    rest = [n for _ in range(2 if taken < 8 else 1) for batch in again for n in batch["n"].tolist()]
    assert (first + rest)[: 2 * ROWS] == whole


def test_a_node_of_torchdata_is_resumed_twice_and_goes_on(path: Path) -> None:
    nodes = pytest.importorskip("torchdata.nodes")
    whole, found, state = orders(path, 4), [], None
    for count in (2, 3, 9, None):  # a job each
        running = nodes.Loader(
            nodes.Prefetcher(nodes.IterableWrapper(loader(opened(path), SIZE)), prefetch_factor=3)
        )
        if state is not None:
            running.load_state_dict(state)
        left = -1 if count is None else count
        while left and len(found) < len(whole):
            batches = list(itertools.islice(running, None if left < 0 else left))
            found += numbers(batches)
            left -= len(batches) if left > 0 else 0
        state = json.loads(json.dumps(running.state_dict()))
    assert found == whole


def trained(
    path: Path, folder: Path, ds: UniRecordDataset, stop: int | None, resume: bool, ordered: bool, **more: Any
) -> list[int]:
    """The rows that a Trainer trains on in four epochs, or up to a step after which it saves and stops."""
    transformers = pytest.importorskip("transformers")
    seen: list[int] = []

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, x: Any, labels: Any, n: Any) -> Any:
            seen.extend(n.tolist())
            scores = self.layer(x)
            return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}

    class Stop(transformers.TrainerCallback):
        def on_step_end(self, arguments: Any, state: Any, control: Any, **others: Any) -> None:
            if state.global_step == stop:
                control.should_save = control.should_training_stop = True

    class Trainer(transformers.Trainer):
        def _get_train_sampler(self, *of: Any) -> Any:
            return EpochSampler(ds) if ordered else super()._get_train_sampler(*of)

    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=4,
        per_device_train_batch_size=SIZE,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        **more,
    )
    trainer = Trainer(Model(), arguments, train_dataset=ds, callbacks=[Stop()])
    trainer.train(resume_from_checkpoint=resume)
    return seen


@pytest.mark.parametrize("workers", [0, 2])
def test_the_trainer_of_transformers_is_resumed_twice_in_the_order_of_the_dataset(
    path: Path, tmp_path: Path, workers: int
) -> None:
    found: list[int] = []
    for stop in (3, 5, 2 * STEPS, None):
        more = {"dataloader_num_workers": workers}
        found += trained(path, tmp_path, opened(path), stop, bool(found), True, **more)
    assert found == orders(path, 4)


def test_the_trainer_of_transformers_takes_a_dataset_as_it_is(path: Path, tmp_path: Path) -> None:
    plain = UniRecordDataset(path)
    whole = trained(path, tmp_path / "whole", plain, None, False, False)
    assert [sorted(whole[ROWS * epoch :][:ROWS]) for epoch in range(4)] == [list(range(ROWS))] * 4
    found: list[int] = []
    for stop in (3, 5, 2 * STEPS, None):
        found += trained(path, tmp_path / "parts", plain, stop, bool(found), False)
    assert found == whole


@pytest.mark.parametrize(("name", "told"), [("lightning_train", "step 120: "), ("hf_trainer", "epoch 10: ")])
def test_examples_go_on_and_learn_to_read(
    name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    found = capsys.readouterr().out
    assert told in found
    assert float(re.findall(r"accuracy ([0-9.]+)%", found)[-1]) > 90
