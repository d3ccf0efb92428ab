"""The photographs that all drivers read, JPEGs one after the other; and the crop that those in Python take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SIDE = 224
BATCH = 256
TIMES = 3  # that each photograph is stored: an epoch is to be long beside what its beginning and its end cost


@dataclass(frozen=True)
class Stored:
    """`data.bin` and `offsets.bin` of photographs.py, TIMES over."""

    folder: Path
    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def open(cls, folder: Path) -> Stored:
        offsets = np.fromfile(folder / "offsets.bin", np.int64)
        return cls(folder, np.memmap(folder / "data.bin", np.uint8, "r"), offsets)

    def __len__(self) -> int:
        return TIMES * (len(self.offsets) - 1)

    def __getitem__(self, row: int) -> np.ndarray:
        photograph = row % (len(self.offsets) - 1)
        return self.data[self.offsets[photograph] : self.offsets[photograph + 1]]


def random_crop(rng: np.random.Generator, width: int, height: int) -> tuple[int, int, int, int]:
    """left, top, width, height of torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        shape = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < wide <= width and 0 < high <= height:
            return int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1)), wide, high
    return 0, 0, width, height


def opened(jpeg: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A picture as users of PyTorch decode it: simplejpeg, a crop, OpenCV's resize, a flip."""
    import cv2
    import simplejpeg

    pixels = simplejpeg.decode_jpeg(jpeg)
    left, top, wide, high = random_crop(rng, pixels.shape[1], pixels.shape[0])
    made = cv2.resize(
        pixels[top : top + high, left : left + wide], (SIDE, SIDE), interpolation=cv2.INTER_AREA
    )
    return made[:, ::-1] if rng.random() < 0.5 else made
