"""`make dali`: DALI's external_source over ds.batches(), with the rows, their order and the epochs of the dataset."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvidia.dali import fn, pipeline_def, types

from unirecord import UniRecordDataset, Writer

ROWS, SIZE, KINDS = 60, 8, 5


def text(n: int) -> bytes:
    return bytes([n]) * (n % 5 + 1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("dali") / "a.urec"
    schema = {"n": "int64", "x": {"type": "float32", "shape": [2, 3]}, "blob": "bytes", "image": "bytes"}
    with zipfile.ZipFile(Path(__file__).parents[1] / "data" / "digits.zip") as archive:
        pictures = [archive.read(name) for name in sorted(archive.namelist())[:KINDS]]
    with Writer(found, schema) as writer:
        for n in range(ROWS):
            writer.write(
                {"n": n, "x": np.full((2, 3), n, np.float32), "blob": text(n), "image": pictures[n % KINDS]}
            )
    return found


def opened(path: Path, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, shuffle=True, seed=1, **options)


def expected(path: Path, epoch: int, count: int) -> list[int]:
    ds = opened(path)
    ds.set_epoch(epoch)
    return ds.order.row_ids(0, count).tolist()


def epoch_of(pipeline: Any) -> Iterator[list[np.ndarray]]:
    """The outputs of one pass, each as a list of samples."""
    try:
        while True:
            yield [[np.array(sample) for sample in output] for output in pipeline.run()]
    except StopIteration:
        pipeline.reset()


def test_epochs_are_those_of_row_ids(path: Path) -> None:
    ds = opened(path)

    def source() -> Iterator[Any]:
        for batch in ds.batches(SIZE, drop_last=True):
            yield batch["x"], batch["n"]

    @pipeline_def(batch_size=SIZE, num_threads=1, device_id=None)
    def doubled() -> Any:
        x, n = fn.external_source(source=source, num_outputs=2, cycle="raise")
        return x * 2, n

    pipeline = doubled()
    pipeline.build()
    whole = ROWS // SIZE * SIZE
    for epoch in range(3):
        found = [(x, int(n)) for xs, ns in epoch_of(pipeline) for x, n in zip(xs, ns, strict=True)]
        assert [n for _, n in found] == expected(path, epoch, whole)
        assert all(x.tolist() == np.full((2, 3), 2 * n).tolist() for x, n in found)


def test_values_of_variable_width_come_one_by_one(path: Path) -> None:
    ds = opened(path, columns=["n", "blob", "image"])

    def source() -> Iterator[Any]:
        for batch in ds.batches(SIZE, drop_last=True):
            yield (
                batch["n"],
                [np.frombuffer(value, np.uint8) for value in batch["blob"]],
                [np.frombuffer(value, np.uint8) for value in batch["image"]],
            )

    @pipeline_def(batch_size=SIZE, num_threads=1, device_id=None)
    def decoded() -> Any:
        n, blob, image = fn.external_source(
            source=source, num_outputs=3, cycle="raise", dtype=[types.INT64] + 2 * [types.UINT8]
        )
        return n, blob, fn.decoders.image(image, device="cpu")

    pipeline = decoded()
    pipeline.build()
    found = list(epoch_of(pipeline))
    rows = [int(n) for numbers, _, _ in found for n in numbers]
    assert rows == expected(path, 0, ROWS // SIZE * SIZE)
    assert [blob.tobytes() for _, blobs, _ in found for blob in blobs] == [text(n) for n in rows]
    shown = [picture for _, _, pictures in found for picture in pictures]
    assert {picture.shape for picture in shown} == {(32, 32, 3)}
    assert len({(n % KINDS, picture.tobytes()) for n, picture in zip(rows, shown, strict=True)}) == KINDS


def test_an_error_in_a_transform_comes_out(path: Path) -> None:
    def fail(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["n"] == 17:
            raise RuntimeError("no seventeen")
        return {"n": sample["n"]}

    ds = opened(path, transform=fail)

    def source() -> Iterator[Any]:
        for batch in ds.batches(SIZE):
            yield batch["n"]

    @pipeline_def(batch_size=SIZE, num_threads=1, device_id=None)
    def plain() -> Any:
        return fn.external_source(source=source, cycle="raise")

    pipeline = plain()
    pipeline.build()
    with pytest.raises(Exception, match="no seventeen"):
        list(epoch_of(pipeline))
