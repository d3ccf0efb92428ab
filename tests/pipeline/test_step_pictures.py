"""Pictures at the steps of sequences are decoded to one array, [batch, steps, …], each sample with one crop."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import TransformError, UniRecordDataset
from unirecord.images import Decode

Image = pytest.importorskip("PIL.Image")
ROWS, SIDE = 18, 24


def picture(number: int, kind: str) -> bytes:
    pixels = np.random.default_rng(number // 6).integers(0, 255, (SIDE, SIDE, 3)).astype(np.uint8)
    pixels[:4, :4] = number
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return file.getvalue()


@pytest.fixture(params=["PNG", "JPEG"])
def clips(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[UniRecordDataset, list[bytes]]:
    pictures = [picture(number, request.param) for number in range(ROWS)]
    with unirecord.Writer(tmp_path / "clips", {"clip": "int64", "image": "bytes?", "n": "int64"}) as writer:
        for n, data in enumerate(pictures):
            writer.write({"clip": n // 6, "image": data, "n": n})
    return UniRecordDataset(tmp_path / "clips", shuffle=True, seed=1), pictures


@pytest.mark.parametrize("decoder", ["auto", "pillow"])
@pytest.mark.parametrize("edges", ["pad", "partial", "drop"])
def test_each_step_is_its_picture_and_zero_where_there_is_none(clips: Any, edges: Any, decoder: str) -> None:
    ds, pictures = clips
    made = unirecord.sequences(ds, by="clip", at={"image": [-2, 0, 1]}, edges=edges)
    decode = Decode(12, decoder=decoder)
    wanted = [decode(data) for data in pictures]
    seen = 0
    for batch in made.pipeline().map(decode, columns=["image"]).batch(4):
        assert batch["image"].dtype == np.uint8
        assert batch["image"].shape == (len(batch["n"]), 3, 12, 12, 3)
        for n, images, missing in zip(batch["n"], batch["image"], batch["image.is_pad"], strict=True):
            first, last = n // 6 * 6, n // 6 * 6 + 5
            for step, image, gone in zip((-2, 0, 1), images, missing, strict=True):
                assert gone == (not first <= n + step <= last)
                row = min(max(n + step, first), last)
                zero = gone and edges == "partial"
                np.testing.assert_array_equal(image, np.zeros_like(image) if zero else wanted[row])
            seen += 1
    assert seen == len(made)


def test_all_steps_of_a_sample_have_one_crop(clips: Any) -> None:
    ds, _ = clips
    made = unirecord.sequences(ds, by="clip", at={"image": [0, 0]})
    decode = Decode(12, "random-resized", flip=0.5, dtype=np.float32)
    batches = [b["image"] for b in made.pipeline().map(decode, columns=["image"]).batch(6)]
    for batch in batches:
        np.testing.assert_array_equal(batch[:, 0], batch[:, 1])
    again = [b["image"] for b in made.view().pipeline().map(decode, columns=["image"], processes=1).batch(6)]
    np.testing.assert_array_equal(np.concatenate(batches), np.concatenate(again))
    assert len({image.tobytes() for batch in batches for image in batch[:, 0]}) > ROWS // 2


def test_a_broken_step_is_named_filled_or_leaves_the_sample_out(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "clips", {"image": "bytes?", "n": "int64"}) as writer:
        for n in range(8):
            writer.write({"image": None if n == 3 else picture(n, "PNG"), "n": n})
    made = unirecord.sequences(UniRecordDataset(tmp_path / "clips"), at={"image": [-1, 0]}, edges="partial")
    with pytest.raises(TransformError, match=r"on row 3 .*null or empty"):
        list(made.pipeline().map(Decode(4), columns=["image"]).batch(2))
    with pytest.warns(UserWarning, match="left out"):
        kept = list(made.pipeline().map(Decode(4, on_error="skip"), columns=["image"]))
    assert [int(sample["n"]) for sample in kept] == [0, 1, 2, 5, 6, 7]
    with pytest.warns(UserWarning, match="filled"):
        filled = list(made.pipeline().map(Decode(4, on_error=9), columns=["image"]))
    assert len(filled) == 8
    assert (filled[3]["image"][1] == 9).all()
    assert (filled[0]["image"][0] == 0).all()
