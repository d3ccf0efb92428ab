"""The data of the examples: 300 handwritten digits as two datasets; every fifth is kept aside for testing."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unirecord import Writer

ARCHIVE = Path(__file__).resolve().parent.parent / "tests" / "data" / "digits.zip"
CLASSES, SIDE = 10, 32


def write(folder: Path) -> tuple[Path, Path]:
    """``train.urec`` and ``test.urec`` in a folder, unless they are there: encoded pictures and their labels."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.urec", folder / "test.urec"
    with zipfile.ZipFile(ARCHIVE) as pictures:
        names = sorted(pictures.namelist())
        for path, kept in zip(paths, (lambda n: n % 5 != 4, lambda n: n % 5 == 4), strict=True):
            if path.exists():
                continue
            with Writer(path, {"image": "bytes", "label": "int64"}) as writer:
                for number, name in enumerate(names):
                    if kept(number):
                        writer.write({"image": pictures.read(name), "label": int(name.split("/")[0])})
    return paths


def decode(sample: dict[str, Any]) -> tuple[np.ndarray, int]:
    """A row as a model wants it: pixels in [0, 1] and the label."""
    picture = Image.open(io.BytesIO(sample["image"])).convert("L")
    return np.asarray(picture, np.float32).ravel() / 255, int(sample["label"])
