"""Hugging Face's Trainer: a classifier of handwritten digits over a dataset as it is, in the trainer's own shuffle.

python examples/hf_trainer.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import digits
import torch
import transformers

from unirecord import UniRecordDataset

EPOCHS, BATCH, HALF = 10, 20, 65


def named(sample: dict[str, Any]) -> dict[str, Any]:
    """A row under the names that the model's ``forward`` has for it."""
    pixels, label = digits.decode(sample)
    return {"pixels": pixels, "labels": label}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(digits.SIDE * digits.SIDE, digits.CLASSES)

    def forward(self, pixels: Any, labels: Any) -> dict[str, Any]:
        scores = self.layer(pixels)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def trainer(folder: Path, train: Path, test: Path, **options: Any) -> Any:
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "saved"),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        learning_rate=0.02,
        save_steps=HALF,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **options,
    )
    # Without shuffle=True: the trainer draws the order, and after a checkpoint goes on in the same one.
    ds, kept = (UniRecordDataset(path, transform=named) for path in (train, test))

    def accuracy(found: Any) -> dict[str, float]:
        return {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())}

    return transformers.Trainer(
        Model(), arguments, train_dataset=ds, eval_dataset=kept, compute_metrics=accuracy
    )


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/hf")
    paths = digits.write(folder)
    trainer(folder, *paths, max_steps=HALF).train()

    rest = trainer(folder, *paths)
    rest.train(resume_from_checkpoint=True)
    print(f"epoch {EPOCHS}: accuracy {rest.evaluate()['eval_accuracy']:.1%}")


if __name__ == "__main__":
    main()
