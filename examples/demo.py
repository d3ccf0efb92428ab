"""From a folder of pictures to a trained classifier: write, inspect, and two ranks that train from one dataset.

Run by `make demo`, in out/demo or in the folder that is given. The pictures are 300 handwritten digits of the UCI set;
every fifth is kept aside for testing.
"""

from __future__ import annotations

import io
import multiprocessing
import shutil
import subprocess
import sys
import zipfile
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unirecord import UniRecordDataset

ROOT = Path(__file__).resolve().parent.parent
RANKS, EPOCHS, BATCH, CLASSES, PIXELS = 2, 10, 20, 10, 32 * 32


def unpack(archive: Path, folder: Path) -> None:
    """Pictures in class folders: ``train/3/0017.png`` and ``test/3/0020.png``."""
    with zipfile.ZipFile(archive) as pictures:
        for number, name in enumerate(sorted(pictures.namelist())):
            target = folder / ("test" if number % 5 == 4 else "train") / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(pictures.read(name))


def unirecord(folder: Path, *words: str) -> None:
    """Runs the command line in a folder as a user would, and shows it."""
    print(f"\n$ unirecord {' '.join(words)}", flush=True)
    subprocess.run([str(Path(sys.executable).parent / "unirecord"), *words], check=True, cwd=folder)


def decode(sample: dict[str, Any]) -> tuple[np.ndarray, int]:
    """A row as the classifier wants it: pixels in [0, 1] and the label."""
    picture = Image.open(io.BytesIO(sample["image"])).convert("L")
    return np.asarray(picture, np.float32).ravel() / 255, int(sample["label"])


def stacked(samples: list[tuple[np.ndarray, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([pixels for pixels, _ in samples]), np.array([label for _, label in samples])


def gradient(weights: np.ndarray, pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Of the cross-entropy of a softmax regression with respect to its weights."""
    scores = pixels @ weights
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    return pixels.T @ chances / len(labels)


def train(rank: int, folder: Path, shared: Any, barrier: Barrier) -> None:
    """One rank: its share of every epoch, gradients averaged over all ranks at every step."""
    gradients = np.frombuffer(shared, np.float32).reshape(RANKS, PIXELS, CLASSES)
    weights = np.zeros((PIXELS, CLASSES), np.float32)
    tests = stacked(list(UniRecordDataset(folder / "test.urec", transform=decode)))
    with UniRecordDataset(
        folder / "train.urec", rank, RANKS, columns=["image", "label"], shuffle=True, seed=1, transform=decode
    ) as ds:
        for epoch in range(EPOCHS):
            ds.set_epoch(epoch)
            for start in range(0, len(ds), BATCH):
                gradients[rank] = gradient(weights, *stacked(ds[start : start + BATCH]))
                barrier.wait()
                weights -= 0.1 * gradients.mean(axis=0)
                barrier.wait()
            right = (tests[0] @ weights).argmax(axis=1) == tests[1]
            if rank == 0:
                print(
                    f"epoch {epoch + 1:2}: accuracy {right.mean():6.1%} on {len(right)} digits not trained on",
                    flush=True,
                )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    unpack(ROOT / "tests" / "data" / "digits.zip", folder)
    for part in ("train", "test"):
        unirecord(folder, "write", part, f"{part}.urec", "--index", "label")
    unirecord(folder, "inspect", "train.urec")

    print(f"\n{RANKS} ranks train a softmax regression from train.urec:", flush=True)
    context = multiprocessing.get_context("spawn")
    shared = context.RawArray("f", RANKS * PIXELS * CLASSES)
    barrier = context.Barrier(RANKS)
    ranks = [context.Process(target=train, args=(rank, folder, shared, barrier)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    if any(process.exitcode for process in ranks):
        sys.exit("a rank has failed")


if __name__ == "__main__":
    main()
