"""FFCV: the same JPEGs in its file, `RandomResizedCropRGBImageDecoder`, flip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pictures.stored import BATCH, SIDE, Stored


class Photographs:
    """What its writer asks of a dataset; it wants pixels, and what it encodes them to is `latest` again."""

    latest = np.empty(0, np.uint8)

    def __init__(self, stored: Stored) -> None:
        self.stored = stored

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, row: int) -> tuple[np.ndarray]:
        import cv2

        Photographs.latest = np.array(self.stored[row])
        return (cv2.imdecode(Photographs.latest, cv2.IMREAD_COLOR),)


def write(stored: Stored, path: Path) -> None:
    from ffcv.fields import RGBImageField, rgb_image
    from ffcv.writer import DatasetWriter

    rgb_image.encode_jpeg = lambda pixels, quality: Photographs.latest
    field = RGBImageField(write_mode="jpg")
    DatasetWriter(str(path), {"image": field}, num_workers=1).from_indexed_dataset(Photographs(stored))


def batches(stored: Stored, threads: int) -> Iterator:
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip

    path = stored.folder / "photographs.beton"
    if not path.exists():
        write(stored, path)
    decoder = RandomResizedCropRGBImageDecoder((SIDE, SIDE), scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    loader = Loader(
        str(path),
        batch_size=BATCH,
        num_workers=threads,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=True,
        pipelines={"image": [decoder, RandomHorizontalFlip(0.5)]},
    )
    while True:
        for (batch,) in loader:
            yield batch
