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
from unirecord.torch import loader

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ROWS, SIZE = 60, 8


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
        found += ds.row_ids().tolist()
    return found


class Interrupted(Exception):
    pass


def lightning_fit(path: Path, folder: Path, stop: int | None, checkpoint: Path | None) -> list[int]:
    """The rows that a model is trained on in two epochs, or up to a step after which a checkpoint is written."""
    lightning = pytest.importorskip("lightning.pytorch")

    class Data(lightning.LightningDataModule):
        def train_dataloader(self) -> Any:
            return unirecord.lightning.loader(opened(path), SIZE)

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
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
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


def test_fabric_takes_the_loader_as_it_is(path: Path) -> None:
    fabric = pytest.importorskip("lightning.fabric").Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    ready = loader(opened(path), SIZE)
    assert [n for batch in ready for n in fabric.to_device(batch)["n"].tolist()] == orders(path, 1)


def test_accelerate_takes_the_loader_and_a_stock_one(path: Path) -> None:
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    ready = loader(opened(path), SIZE, device=accelerator.device)
    assert [n for batch in ready for n in batch["n"].tolist()] == orders(path, 1)
    stock = accelerator.prepare(DataLoader(opened(path), batch_size=SIZE))
    assert [n for batch in stock for n in batch["n"].tolist()] == orders(path, 1)


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


def test_the_trainer_of_transformers_takes_a_dataset_as_it_is(path: Path, tmp_path: Path) -> None:
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

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=SIZE,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(Model(), arguments, train_dataset=UniRecordDataset(path))
    trainer.train()
    assert len(seen) == 2 * ROWS
    assert sorted(seen[:ROWS]) == sorted(seen[ROWS:]) == list(range(ROWS))


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
