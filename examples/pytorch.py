"""PyTorch on one process: a classifier of handwritten digits trained with unirecord.torch.loader.

python examples/pytorch.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import digits
import torch

from unirecord import UniRecordDataset
from unirecord.frameworks.torch import loader

EPOCHS = 10


def accuracy(model: torch.nn.Module, test: Path) -> float:
    batches = loader(UniRecordDataset(test, transform=digits.decode), batch_size=60)
    with torch.no_grad():
        right = sum(int((model(pixels).argmax(1) == labels).sum()) for pixels, labels in batches)
    return right / len(batches.dataset)


def main() -> None:
    train, test = digits.write(Path(sys.argv[1] if len(sys.argv) > 1 else "out/pytorch"))
    torch.manual_seed(1)
    model = torch.nn.Linear(digits.SIDE * digits.SIDE, digits.CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # Pictures are decoded on threads; a stock DataLoader(ds, batch_size=20, num_workers=2) gives the same batches.
    ds = UniRecordDataset(train, shuffle=True, seed=1, transform=digits.decode)
    batches = loader(ds, batch_size=20)
    for epoch in range(EPOCHS):
        ds.set_epoch(epoch)
        for pixels, labels in batches:
            loss = torch.nn.functional.cross_entropy(model(pixels), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(
            f"epoch {epoch + 1:2}: loss {loss.item():.3f}, accuracy {accuracy(model, test):.1%}", flush=True
        )


if __name__ == "__main__":
    main()
