"""Random crops, flips and turns of pictures: as RandomResizedCrop, EXIF and the key say, and nothing else."""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_decoding import DECODERS, SAME, distance
from PIL import Image
from scenes import encoded, jpeg, scene, with_orientation

from unirecord.core import PicturePlacer
from unirecord.images import Decode
from unirecord.pipeline.pictures import picture_options


@pytest.fixture(params=DECODERS)
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def numbers(key: int) -> Any:
    state, mask = key, 2**64 - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        yield z ^ z >> 31


def expected_crop(
    key: int, width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """RandomResizedCrop.get_params, with SplitMix64."""
    stream = numbers(key)

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * ((next(stream) >> 11) * 2.0**-53)

    uniform(0, 1)  # the flip
    for _ in range(10):
        target = width * height * uniform(*scale)
        shape = math.exp(uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
        if 0 < w <= width and 0 < h <= height:
            top = (next(stream) >> 32) * (height - h + 1) >> 32
            left = (next(stream) >> 32) * (width - w + 1) >> 32
            return left, top, w, h
    own = width / height
    w, h = width, height
    if own < ratio[0]:
        h = round(width / ratio[0])
    elif own > ratio[1]:
        w = round(height * ratio[1])
    return (width - w) // 2, (height - h) // 2, w, h


def placer(**options: Any) -> PicturePlacer:
    known: dict[str, Any] = {
        "shape": (32, 32, 3), "layout": "hwc", "values": None, "crop": None, "fraction": None, "scale": None,
        "ratio": None, "flip": 0.0, "orient": False, "exact": True, "allow_truncated": False, "max_pixels": 1 << 40,
    }  # fmt: skip
    return PicturePlacer(picture_options(**known | options))


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 5000), st.integers(1, 5000), st.integers(0, 2**64 - 1),
    st.sampled_from([(0.08, 1.0), (0.5, 0.5), (1.0, 1.0), (0.9, 1.0)]),
    st.sampled_from([(3 / 4, 4 / 3), (1.0, 1.0), (0.1, 9.0)]),
)  # fmt: skip
def test_random_crops_are_those_of_random_resized_crop(
    width: int, height: int, key: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> None:
    crop = placer(crop="random-resized", scale=scale, ratio=ratio).crop(width, height, 1, key)
    assert (crop.left, crop.top, crop.width, crop.height) == expected_crop(key, width, height, scale, ratio)


def test_random_crops_reach_all_of_the_picture_alike() -> None:
    find = placer(crop="random-resized", scale=(0.25, 0.25), ratio=(1.0, 1.0))
    crops = [find.crop(200, 200, 1, key) for key in range(4000)]
    assert {crop.left for crop in crops} == set(range(101))
    assert abs(np.mean([crop.top for crop in crops]) - 50) < 2


def test_a_probability_of_flips_is_kept_and_crops_do_not_depend_on_it() -> None:
    options = {"crop": "random-resized", "scale": (0.1, 0.9)}
    without, some = placer(**options), placer(**options, flip=0.3)
    flipped = 0
    for key in range(4000):
        a, b = without.crop(300, 200, 1, key), some.crop(300, 200, 1, key)
        assert (a.left, a.top, a.width, a.height) == (b.left, b.top, b.width, b.height)
        assert not a.flip_x
        flipped += b.flip_x
    assert abs(flipped / 4000 - 0.3) < 0.03


def test_a_flip_mirrors_left_to_right(decoder: str) -> None:
    for picture in (jpeg(100, 80), encoded(scene(100, 80), "PNG")):
        plain, mirrored = (Decode((50, 60), flip=flip, decoder=decoder)(picture) for flip in (0.0, 1.0))
        assert np.array_equal(plain, mirrored[:, ::-1])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_as_exif_says(decoder: str, orientation: int) -> None:
    from PIL import ImageOps

    picture = with_orientation(jpeg(120, 80), orientation)
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(picture)))
    assert turned is not None
    expected = np.asarray(turned.resize((64, 48), Image.Resampling.BILINEAR))
    assert distance(Decode((48, 64), orient=True, decoder=decoder)(picture), expected) <= SAME + 1
    assert (
        distance(Decode((48, 64), decoder=decoder)(picture), Decode((48, 64), decoder=decoder)(jpeg(120, 80)))
        == 0
    )
    cut = Decode((30, 20), "center", orient=True, flip=1.0, exact=True, decoder=decoder)(picture)
    width, height = turned.size
    wide = min(width, round(height * 20 / 30))
    high = min(height, round(width * 30 / 20))
    left, top = (width - wide) // 2, (height - high) // 2
    piece = turned.crop((left, top, left + wide, top + high)).resize((20, 30), Image.Resampling.BILINEAR)
    assert distance(cut[:, ::-1], np.asarray(piece)) <= SAME + 1


def test_png_and_webp_are_turned_too() -> None:
    exif = Image.Exif()
    exif[274] = 6
    for kind in ("PNG", "WEBP"):
        picture = encoded(scene(60, 40), kind, exif=exif, **({"lossless": True} if kind == "WEBP" else {}))
        turned = Decode((60, 40), orient=True)(picture)
        assert np.array_equal(turned, np.rot90(Decode((40, 60))(picture), -1))


def test_a_copy_that_was_pickled_does_the_same() -> None:
    operator = Decode(48, "random-resized", flip=0.5, dtype="float16", mean=0.5, std=0.5, layout="chw")
    copy = pickle.loads(pickle.dumps(operator))
    assert repr(copy) == repr(operator)
    picture = jpeg(200, 100)
    for key in range(5):
        assert np.array_equal(copy(picture, key), operator(picture, key))


def test_only_what_depends_on_the_key_is_random() -> None:
    assert not Decode(8).random
    assert not Decode(8, "center", flip=1.0).random
    assert Decode(8, flip=0.5).random
    assert Decode(8, "random-resized").random
    picture = jpeg(300, 200)
    operator = Decode(64, "random-resized")
    assert not np.array_equal(operator(picture), operator(picture))
    assert np.array_equal(operator(picture, 5), operator(picture, 5))
