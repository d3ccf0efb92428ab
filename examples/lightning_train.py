"""Lightning: a classifier of handwritten digits, stopped in the middle of an epoch and gone on with from there.

python examples/lightning_train.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import digits
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import unirecord.lightning
from unirecord import UniRecordDataset

EPOCHS, BATCH, SAVE_EVERY = 10, 20, 17


class Digits(lightning.LightningDataModule):
    """Loaders of this rank's shard; their states are in every checkpoint."""

    def __init__(self, train: Path, test: Path) -> None:
        super().__init__()
        self.paths = {"train": train, "test": test}

    def loader(self, name: str, **options: Any) -> Any:
        ds = UniRecordDataset.distributed(self.paths[name], transform=digits.decode, **options)
        return unirecord.lightning.loader(ds, BATCH)

    def train_dataloader(self) -> Any:
        return self.loader("train", shuffle=True, seed=1)

    def test_dataloader(self) -> Any:
        return self.loader("test")


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(digits.SIDE * digits.SIDE, digits.CLASSES)

    def training_step(self, batch: Any, number: int) -> Any:
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def test_step(self, batch: Any, number: int) -> None:
        right = self.layer(batch[0]).argmax(1) == batch[1]
        self.log("accuracy", right.float().mean(), batch_size=len(right))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(folder: Path, **options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    saving = ModelCheckpoint(dirpath=folder, filename="saved", every_n_train_steps=SAVE_EVERY)
    return lightning.Trainer(accelerator="cpu", callbacks=[saving], **quiet, **options)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/lightning")
    data = Digits(*digits.write(folder))

    trainer(folder, max_steps=SAVE_EVERY).fit(Model(), datamodule=data)  # 12 are an epoch
    model, rest = Model(), trainer(folder, max_epochs=EPOCHS)
    rest.fit(model, datamodule=data, ckpt_path=folder / "saved.ckpt")
    (found,) = rest.test(model, datamodule=data, verbose=False)
    print(f"epoch {rest.current_epoch}, step {rest.global_step}: accuracy {found['accuracy']:.1%}")


if __name__ == "__main__":
    main()
