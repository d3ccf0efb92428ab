"""From a folder of pictures to a trained classifier: write, inspect, and two ranks that train from one dataset.

Run by `make demo`, in out/demo or in the folder that is given. The pictures are 300 handwritten digits of the UCI set;
every fifth is kept aside for testing. It leaves a contact sheet (digits.png) and the training curve (curve.svg) there.
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
RANKS, EPOCHS, BATCH, CLASSES, SIDE = 2, 10, 20, 10, 32
PIXELS = SIDE * SIDE

NEXT = """
What to try next, in {folder}, with {programs} on PATH:
  unirecord inspect train.urec --group-by label     how many of each digit
  unirecord inspect train.urec --where "label == 3" --limit 3
  unirecord verify train.urec                       every byte is as written
  unirecord write YOUR_PICTURES yours.urec          folders, CSV, Parquet, ...: docs/converting.md
docs/quickstart.md goes on from here; docs/pytorch.md and docs/frameworks.md train with more than numpy."""


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


def contact_sheet(folder: Path) -> None:
    """Ten pictures of each class as digits.png, and one of each in the terminal, two pixels to a character."""
    rows = []
    for label in range(CLASSES):
        with UniRecordDataset(folder / "train.urec", where=f"label == {label}") as ds:
            rows.append([Image.open(io.BytesIO(ds[row]["image"])).convert("L") for row in range(10)])
    sheet = Image.new("L", (10 * SIDE, CLASSES * SIDE))
    for line, pictures in enumerate(rows):
        for place, picture in enumerate(pictures):
            sheet.paste(picture, (place * SIDE, line * SIDE))
    sheet.save(folder / "digits.png")
    shown = np.hstack(
        [np.asarray(pictures[0].resize((7, 12), Image.Resampling.BOX)) > 96 for pictures in rows]
    )
    for upper, lower in zip(shown[::2], shown[1::2], strict=True):
        print("".join(" ▄▀█"[2 * above + below] for above, below in zip(upper, lower, strict=True)).rstrip())
    print(f"ten of each: {folder / 'digits.png'}", flush=True)


def curve(accuracies: list[float]) -> str:
    """Accuracy after each epoch, as SVG."""
    width, height = 400, 200
    places = [
        (40 + (width - 60) * number / (EPOCHS - 1), height - 30 - (height - 50) * accuracy)
        for number, accuracy in enumerate(accuracies)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    marks = "".join(
        f'<path d="M40 {height - 30 - (height - 50) * part}h{width - 60}" stroke="#ccc"/>'
        f'<text x="34" y="{height - 26 - (height - 50) * part}" text-anchor="end">{part:.0%}</text>'
        for part in (0, 0.5, 1)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{marks}'
        f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="2"/>'
        f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">epochs 1 to {EPOCHS}</text></svg>\n'
    )


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
    accuracies: list[float] = []
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
                accuracies.append(float(right.mean()))
                bar = "█" * round(30 * accuracies[-1])
                print(f"epoch {epoch + 1:2}/{EPOCHS}: accuracy {accuracies[-1]:6.1%} {bar}", flush=True)
    if rank == 0:
        (folder / "curve.svg").write_text(curve(accuracies), encoding="utf-8")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    unpack(ROOT / "tests" / "data" / "digits.zip", folder)
    for part in ("train", "test"):
        unirecord(folder, "write", part, f"{part}.urec", "--index", "label")
    unirecord(folder, "inspect", "train.urec")

    contact_sheet(folder)

    print(
        f"\n{RANKS} ranks train a softmax regression from train.urec, tested on digits not trained on:",
        flush=True,
    )
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
    print(f"the curve: {folder / 'curve.svg'}")
    print(NEXT.format(folder=folder, programs=Path(sys.executable).parent))


if __name__ == "__main__":
    main()
