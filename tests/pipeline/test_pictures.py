"""Pictures in place: three decoders give one picture; crops, flips, turns and types are what the options say."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from picture_decoding import DECODERS, SAME, distance
from PIL import Image
from scenes import Bytes, encoded, jpeg, scene, with_orientation

from unirecord import PictureError, UniRecordDataset, Writer
from unirecord.core import has_jpeg
from unirecord.images import Decode
from unirecord.pipeline.operators import InPlace

SAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}


@pytest.fixture(params=DECODERS)
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_decoders_are_tested_where_libjpeg_turbo_is() -> None:
    """Says so, instead of passing in silence, where the C unit was not built."""
    if not has_jpeg():
        pytest.skip(
            "built without libjpeg-turbo's headers: its C unit is not tested here, simplejpeg and Pillow are"
        )


def by_pillow(
    picture: bytes, box: tuple[int, int, int, int], size: tuple[int, int], mode: str = "RGB"
) -> Bytes:
    """The crop (left, top, width, height), resized to (width, height)."""
    left, top, width, height = box
    with Image.open(io.BytesIO(picture)) as image:
        piece = image.convert(mode).crop((left, top, left + width, top + height))
        return np.asarray(piece.resize(size, Image.Resampling.BILINEAR))


# ---- one picture, whoever decodes it


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 90), st.integers(1, 90), st.integers(1, 64), st.integers(1, 64), st.integers(0, 2**64 - 1),
    st.sampled_from(["4:4:4", "4:2:2", "4:2:0", "grey"]), st.booleans(),
    st.sampled_from([None, "center", "random-resized"]), st.booleans(), st.integers(1, 8),
)  # fmt: skip
def test_decoders_give_the_same_picture(
    width: int, height: int, out_width: int, out_height: int, key: int, kind: str, progressive: bool, crop: Any,
    exact: bool, orientation: int,
) -> None:  # fmt: skip
    if kind == "grey":
        picture = encoded(scene(width, height), mode="L", progressive=progressive)
    else:
        picture = jpeg(width, height, subsampling=SAMPLINGS[kind], progressive=progressive)
    picture = with_orientation(picture, orientation)
    made = [
        Decode((out_height, out_width), crop, flip=0.5, exact=exact, orient=True, decoder=name)(picture, key)
        for name in DECODERS
    ]
    for other in made[1:]:
        assert distance(made[0], other) <= SAME


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_decoders_give_the_same_crops_of_a_photograph(sampling: str, progressive: bool, exact: bool) -> None:
    picture = jpeg(900, 700, subsampling=SAMPLINGS[sampling], progressive=progressive)
    operators = [
        Decode(96, "random-resized", scale=(0.01, 1), flip=0.5, exact=exact, decoder=name)
        for name in DECODERS
    ]
    for key in range(12):
        made = [operator(picture, key) for operator in operators]
        for other in made[1:]:
            assert distance(made[0], other) <= SAME, key


@pytest.mark.parametrize(
    ("width", "height", "size"),
    [
        (500, 375, 224),
        (90, 60, 224),
        (1300, 40, 31),
        (33, 700, 7),
        (224, 224, 224),
        (3, 2, 50),
        (700, 500, 1),
    ],
)
def test_the_resize_is_pillows_bilinear(width: int, height: int, size: int) -> None:
    picture = encoded(scene(width, height), "BMP")
    whole = (0, 0, width, height)
    assert distance(Decode(size)(picture), by_pillow(picture, whole, (size, size))) <= 1
    grey = by_pillow(picture, whole, (size, size), "L")
    assert distance(Decode(size, colours="grey")(picture)[..., 0], grey) <= 1


def test_exact_decoding_is_pillows_crop_and_resize(decoder: str) -> None:
    operator = Decode((120, 160), "center", fraction=0.7, exact=True, decoder=decoder)
    for sampling in SAMPLINGS.values():
        picture = jpeg(800, 500, subsampling=sampling)
        width, height = round(0.7 * 500 * 160 / 120), round(0.7 * 500)
        expected = by_pillow(picture, ((800 - width) // 2, (500 - height) // 2, width, height), (160, 120))
        assert distance(operator(picture), expected) <= SAME + 1


def test_decoding_at_a_lower_scale_is_close_to_the_whole(decoder: str) -> None:
    picture = jpeg(1600, 1200)
    for size in (64, 128, 224):
        fast, whole = (Decode(size, exact=exact, decoder=decoder)(picture) for exact in (False, True))
        assert np.abs(fast.astype(float) - whole).mean() < 2.5


# ---- what is written


@pytest.mark.parametrize("colours", ["rgb", "grey"])
@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_layouts_and_types_hold_the_same_picture(
    decoder: str, colours: str, layout: str, dtype: str, orientation: int
) -> None:
    picture = with_orientation(jpeg(90, 70), orientation)
    plain = Decode((40, 52), colours=colours, orient=True, decoder=decoder)(picture)
    mean, std = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)) if colours == "rgb" else (0.5, 0.25)
    normal = {} if dtype == "uint8" else {"mean": mean, "std": std}
    operator = Decode(
        (40, 52), colours=colours, layout=layout, dtype=dtype, orient=True, decoder=decoder, **normal
    )
    made = operator(picture)
    assert isinstance(operator, InPlace)
    assert (made.shape, made.dtype) == (operator.shape, operator.dtype)
    values = made if layout == "hwc" else np.moveaxis(made, 0, -1)
    expected = (
        plain if dtype == "uint8" else ((plain / 255 - np.asarray(mean)) / np.asarray(std)).astype(dtype)
    )
    assert np.array_equal(values, expected)


def test_grey_pictures_have_equal_channels(decoder: str) -> None:
    for kind in ("JPEG", "PNG"):
        picture = encoded(scene(70, 50), kind, mode="L")
        made = Decode(40, decoder=decoder)(picture)
        assert np.array_equal(made[..., 0], made[..., 1])
        assert np.array_equal(made[..., :1], Decode(40, colours="grey", decoder=decoder)(picture))


@pytest.mark.parametrize("colours", ["rgb", "grey"])
def test_inks_are_mixed_as_pillow_does(decoder: str, colours: str) -> None:
    picture = encoded(scene(64, 48), mode="CMYK", quality=95)
    expected = by_pillow(picture, (0, 0, 64, 48), (64, 48), "RGB" if colours == "rgb" else "L")
    made = Decode((48, 64), colours=colours, decoder=decoder)(picture)
    assert distance(made.reshape(expected.shape), expected) <= SAME


def test_values_of_16_bits_keep_their_high_byte() -> None:
    values = (np.arange(64 * 48).reshape(48, 64) * 21).astype(np.uint16)
    picture = encoded(values, "PNG")
    assert np.array_equal(Decode((48, 64), colours="grey")(picture)[..., 0], (values >> 8).astype(np.uint8))
    assert np.array_equal(Decode((48, 64))(picture)[..., 2], (values >> 8).astype(np.uint8))


def test_alpha_is_dropped_and_palettes_are_looked_up() -> None:
    pixels = scene(40, 30)
    alpha = np.dstack([pixels, np.full((30, 40), 7, np.uint8)])
    assert np.array_equal(Decode((30, 40))(encoded(alpha, "PNG")), pixels)
    palette = Image.fromarray(pixels).quantize(16)
    file = io.BytesIO()
    palette.save(file, "PNG")
    assert np.array_equal(Decode((30, 40))(file.getvalue()), np.asarray(palette.convert("RGB")))


def test_the_first_frame_of_an_animation_is_shown() -> None:
    frames = [Image.fromarray(scene(40, 30, n)).quantize(32) for n in range(3)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    assert np.array_equal(Decode((30, 40))(file.getvalue()), np.asarray(frames[0].convert("RGB")))


# ---- as an operator, and as a function


def test_it_is_written_into_the_slot_and_nowhere_else(decoder: str) -> None:
    picture = np.frombuffer(jpeg(120, 90), np.uint8)
    operator = Decode(32, decoder=decoder)
    batch = np.full((3, 32, 32, 3), 77, np.uint8)
    operator.into(picture, batch[1], 0)
    assert (batch[0] == 77).all()
    assert (batch[2] == 77).all()
    assert np.array_equal(batch[1], operator(picture))
    for wrong in (np.empty((32, 32, 4), np.uint8), np.empty((32, 32, 3), np.int8), batch[:, :, :, 0]):
        with pytest.raises(ValueError, match="out must be"):
            operator.into(picture, wrong, 0)


def test_it_is_a_transform_of_a_loader(tmp_path: Any) -> None:
    pictures = [jpeg(60 + n, 50, n) for n in range(10)]
    with Writer(tmp_path / "a.urec", {"image": "bytes", "label": "int32"}) as writer:
        for label, picture in enumerate(pictures):
            writer.write({"image": picture, "label": label})
    operator = Decode(32, "center")
    with UniRecordDataset(tmp_path / "a.urec", shuffle=True) as ds:
        for batch in ds.batches(4, transform=lambda s: {**s, "image": operator(s["image"])}):
            for label, image in zip(batch["label"], batch["image"], strict=True):
                assert np.array_equal(image, operator(pictures[label]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 0}, "size=0"),
        ({"size": (3, 70_000)}, "size="),
        ({"size": (3, 4, 5)}, "size="),
        ({"size": 2.5}, "size="),
        ({"crop": "middle"}, "'center'"),
        ({"flip": True}, "probability"),
        ({"flip": 1.5}, "flip=1.5"),
        ({"flip": -0.1}, "flip="),
        ({"fraction": 0.5}, "goes with crop='center'"),
        ({"crop": "center", "fraction": 0}, "fraction=0"),
        ({"scale": (0.1, 1)}, "crop='random-resized'"),
        ({"crop": "center", "ratio": (1, 1)}, "crop='random-resized'"),
        ({"crop": "random-resized", "scale": (0.5, 0.1)}, "scale="),
        ({"crop": "random-resized", "ratio": (0, 1)}, "ratio="),
        ({"colours": "bgr"}, "'rgb'"),
        ({"dtype": "int16"}, "float16"),
        ({"mean": 0.5}, "go with dtype"),
        ({"std": 1}, "go with dtype"),
        ({"dtype": "float32", "mean": (1, 2)}, "mean="),
        ({"dtype": "float32", "std": 0}, "std=0"),
        ({"layout": "nchw"}, "'hwc'"),
        ({"dtype": "float16", "std": 1e-9}, "does not hold"),
        ({"on_error": "ignore"}, "'skip'"),
        ({"on_error": 256}, "on_error=256"),
        ({"on_error": True}, "on_error=True"),
        ({"orient": 1}, "orient=1"),
        ({"max_pixels": 0}, "max_pixels=0"),
        ({"decoder": "opencv"}, "'pillow'"),
    ],
)
def test_an_option_is_obeyed_or_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Decode(**{"size": 8} | options)


def test_broken_pictures_are_an_error_of_ours(decoder: str) -> None:
    for broken in (
        b"",
        b"\xff\xd8\xff",
        b"not a picture",
        encoded(scene(9, 9), "PNG")[:60],
        jpeg(50, 40)[:300],
    ):
        with pytest.raises(PictureError):
            Decode(8, decoder=decoder)(broken)


def test_it_is_an_operator_of_a_pipeline(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    pictures = [jpeg(60 + n, 50, n) if n != 7 else b"broken" for n in range(20)]
    pictures[11] = encoded(scene(60, 40), "PNG")
    with Writer(tmp_path / "a.urec", {"image": "bytes", "label": "int32"}) as writer:
        for label, picture in enumerate(pictures):
            writer.write({"image": picture, "label": label})
    plain, random = Decode(32, "center", on_error="skip"), Decode(32, "random-resized", flip=0.5, on_error=3)
    with UniRecordDataset(tmp_path / "a.urec", shuffle=True, seed=4) as ds:
        row_7 = f"row 7 (row 7 of {tmp_path / 'a.urec'})"
        with pytest.warns(UserWarning, match="left out"):
            batches = list(ds.pipeline().map(plain, columns=["image"]).batch(4))
        assert f"left out 1 sample(s): {row_7}" in caplog.text
        seen = [int(label) for batch in batches for label in batch["label"]]
        assert sorted(seen) == [n for n in range(20) if n != 7]
        for batch in batches:
            for label, image in zip(batch["label"], batch["image"], strict=True):
                assert np.array_equal(image, plain(pictures[label]))

        def made(threads: int) -> list[NDArray[Any]]:
            loader = ds.pipeline().map(random, columns=["image"], threads=threads).batch(5)
            loader.set_epoch(3)
            return [batch["image"].copy() for batch in loader]

        with pytest.warns(UserWarning, match="filled with 3"):
            one = made(1)
        assert f"filled in for 1 sample(s): {row_7}" in caplog.text
        assert np.array_equal(np.concatenate(one), np.concatenate(made(2)))


def test_good_jpegs_of_a_pipeline_are_decoded_without_python_between_them(tmp_path: Any) -> None:
    if not has_jpeg():
        pytest.skip("built without libjpeg-turbo's headers")
    alone = []

    class Counted(Decode):
        def into(self, cell: Bytes, out: NDArray[Any], key: int) -> None:
            alone.append(cell.tobytes())
            super().into(cell, out, key)

    odd = {3: b"broken", 5: encoded(scene(30, 20), "PNG"), 9: jpeg(50, 40)[:300]}
    with Writer(tmp_path / "a.urec", {"image": "bytes"}) as writer:
        for number in range(12):
            writer.write({"image": odd.get(number) or jpeg(40 + number, 30, number)})
    operator = Counted(16, "random-resized", flip=0.5, on_error=7)
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        loader = ds.pipeline().map(operator, columns=["image"]).batch(12)
        with pytest.warns(UserWarning, match="filled with 7"):
            (batch,) = loader
    assert sorted(alone) == sorted(odd.values())
    assert operator.broken == 2
    assert (batch["image"][[3, 9]] == 7).all()
    assert not (batch["image"][5] == 7).all()
