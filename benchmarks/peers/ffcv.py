"""FFCV: its Loader over an NDArrayField, no transform but the decoder, set as its tuning guide advises.

That is OrderOption.RANDOM through the page cache where the data fit into memory, and QUASI_RANDOM without it else
(https://docs.ffcv.io/parameter_tuning.html).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ffcv.fields import NDArrayField
from ffcv.fields.decoders import NDArrayDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import ToTensor
from ffcv.writer import DatasetWriter
from protocol import BATCH, Reader, Unsuitable
from workloads import Raw


class _Rows:
    """What DatasetWriter asks of a dataset."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return self.raw.rows

    def __getitem__(self, number: int) -> tuple[np.ndarray]:
        return (np.array(self.raw.matrix[number]),)


def write(raw: Raw, directory: Path) -> None:
    if not raw.row_bytes:
        raise Unsuitable("its loader returns values of one width; a column of bytes is padded to the longest")
    field = NDArrayField(np.dtype(np.uint8), (raw.row_bytes,))
    DatasetWriter(str(directory / "data.beton"), {"x": field}, num_workers=1).from_indexed_dataset(_Rows(raw))


class FfcvReader(Reader):
    def __init__(self, directory: Path, threads: int, tensors: bool, fits: bool) -> None:
        pipeline: list[Any] = [NDArrayDecoder()]
        if tensors:
            pipeline.append(ToTensor())
        self.loader = Loader(
            str(directory / "data.beton"),
            batch_size=BATCH,
            num_workers=threads,
            order=OrderOption.RANDOM if fits else OrderOption.QUASI_RANDOM,
            os_cache=fits,
            pipelines={"x": pipeline},
        )

    def epoch(self, number: int) -> Iterator[Any]:
        return iter(self.loader)

    def size(self, batch: Any) -> int:
        return len(batch[0])

    def first(self, batch: Any) -> bytes:
        return np.asarray(batch[0][0]).tobytes()


def open_reader(
    raw: Raw, directory: Path, threads: int, tensors: str = "no", memory: str = "enough"
) -> FfcvReader:
    return FfcvReader(directory, threads, tensors == "yes", memory == "enough")
