"""Pictures for tests: smooth scenes with edges and noise, made anew from a number, as files of any kind."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Bytes = NDArray[np.uint8]


@cache
def scene(width: int, height: int, number: int = 0) -> Bytes:
    """uint8 [h, w, 3]: gradients, a few shapes, a little noise."""
    rng = np.random.default_rng(number)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    canvas = np.empty((height, width, 3))
    for channel in range(3):
        a, b, c = rng.uniform(-1, 1, 3)
        canvas[..., channel] = 128 + 60 * np.sin(a * x / 37 + b * y / 29 + 6 * c) + 50 * np.cos(c * x / 11)
    for _ in range(8):
        left, top = rng.integers(0, width), rng.integers(0, height)
        canvas[top : top + height // 4 + 1, left : left + width // 5 + 1] = rng.uniform(0, 255, 3)
    canvas += rng.normal(0, 4, canvas.shape)
    return np.clip(np.rint(canvas), 0, 255).astype(np.uint8)


def encoded(pixels: Bytes, kind: str = "JPEG", mode: str | None = None, **options: Any) -> bytes:
    """The pixels as a file, by Pillow."""
    file = io.BytesIO()
    image = Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(file, kind, **options)
    return file.getvalue()


def jpeg(width: int, height: int, number: int = 0, quality: int = 90, **options: Any) -> bytes:
    """A scene as JPEG."""
    return encoded(scene(width, height, number), quality=quality, **options)


def with_orientation(picture: bytes, orientation: int) -> bytes:
    """A JPEG that says how it is to be turned."""
    exif = Image.Exif()
    exif[274] = orientation
    block = exif.tobytes()
    return picture[:2] + b"\xff\xe1" + (len(block) + 2).to_bytes(2, "big") + block + picture[2:]
