"""Broken and hostile pictures: refused with our own error before memory is taken, left out or filled as was asked."""

from __future__ import annotations

import io
import random
import resource
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scenes import encoded, jpeg, scene, with_orientation

from unirecord import MissingError, PictureError, TransformError, UniRecordDataset, Writer
from unirecord.core import has_jpeg
from unirecord.images import Decode
from unirecord.pipeline import pictures
from unirecord.pipeline.operators import SkipSample

DECODERS = ["libjpeg", "simplejpeg", "pillow"] if has_jpeg() else ["simplejpeg", "pillow"]


@pytest.fixture(params=DECODERS)
def decoder(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def frame_at(picture: bytes) -> int:
    """Where the height stands in a JPEG's frame header."""
    marks = (bytes([0xFF, kind, 0, 17]) for kind in (0xC0, 0xC2))
    return next(picture.index(mark) for mark in marks if mark in picture) + 5


def claiming(picture: bytes, width: int, height: int) -> bytes:
    at = frame_at(picture)
    return picture[:at] + struct.pack(">HH", height, width) + picture[at + 4 :]


def png_claiming(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(1000))
    chunks = (
        struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (head, data, b"IEND")
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def peak() -> int:
    """Of this process's memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("size", [(65_535, 65_535), (65_500, 65_500), (65_535, 1_000), (13_000, 13_000)])
def test_bombs_are_refused_before_memory_is_taken(
    decoder: str, progressive: bool, size: tuple[int, int]
) -> None:
    bomb = claiming(jpeg(64, 64, progressive=progressive), *size)
    operator = Decode(32, "random-resized", decoder=decoder)
    with pytest.raises(PictureError):
        operator(jpeg(64, 64)[:200])  # what a first call loads is not counted
    before = peak()
    with pytest.raises(PictureError, match=f"{size[0]} x {size[1]} pixels"):
        operator(bomb)
    assert peak() - before < 8


def gif_claiming(width: int, height: int) -> bytes:
    sizes = (
        struct.pack("<HHBBB", width, height, 0, 0, 0) + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0)
    )
    return b"GIF89a" + sizes + b"\x08\x00;"


@pytest.mark.parametrize("make", [png_claiming, gif_claiming])
def test_bombs_of_other_formats_are_refused_before_memory_is_taken(make: Any) -> None:
    operator = Decode(32)
    operator(encoded(scene(9, 9), "PNG"))
    before = peak()
    with pytest.raises(PictureError):
        operator(make(65_535, 65_535))
    assert peak() - before < 8


def test_the_most_pixels_are_those_that_were_asked_for(decoder: str) -> None:
    for picture in (jpeg(40, 30), encoded(scene(40, 30), "PNG")):
        Decode(8, max_pixels=1200, decoder=decoder)(picture)
        with pytest.raises(PictureError, match="40 x 30 pixels, more than the 1199"):
            Decode(8, max_pixels=1199, decoder=decoder)(picture)


def test_a_jpeg_of_endless_scans_is_refused(decoder: str) -> None:
    picture = jpeg(64, 64, progressive=True)
    scan = picture.index(b"\xff\xda")
    endless = picture[:scan] + picture[scan : scan + 10] * 200 + picture[scan:]
    with pytest.raises(PictureError, match="more than 100 scans"):
        Decode(32, decoder=decoder)(endless)


@pytest.mark.parametrize("kind", [0xC3, 0xC5, 0xC9, 0xCB])
def test_kinds_of_jpeg_that_are_not_decoded_are_named(decoder: str, kind: int) -> None:
    picture = bytearray(jpeg(64, 64))
    picture[frame_at(picture) - 4] = kind
    with pytest.raises(PictureError, match="only Huffman-coded"):
        Decode(32, decoder=decoder)(bytes(picture))


@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_that_is_cut_off_is_broken_wherever_it_is_cut(decoder: str, progressive: bool) -> None:
    picture = with_orientation(jpeg(48, 40, progressive=progressive), 3)
    operator = Decode(16, decoder=decoder)
    for end in range(0, len(picture) - 1, 3):
        with pytest.raises(PictureError):
            operator(picture[:end])
    assert np.array_equal(operator(picture + b"what cameras add"), operator(picture))


def test_the_end_of_a_thumbnail_is_not_taken_for_the_pictures(decoder: str) -> None:
    thumbnail = jpeg(16, 16)
    block = b"Exif\0\0" + b"II*\0\x08\0\0\0\0\0\0\0\0\0" + thumbnail
    picture = jpeg(100, 80)
    whole = picture[:2] + b"\xff\xe1" + (len(block) + 2).to_bytes(2, "big") + block + picture[2:]
    operator = Decode(32, decoder=decoder)
    assert np.array_equal(operator(whole), operator(picture))
    with pytest.raises(PictureError, match="is cut off"):
        operator(whole[:-100])


def test_what_is_left_of_a_jpeg_is_decoded_on_request(decoder: str) -> None:
    picture = jpeg(160, 160, subsampling=0)
    whole, part = (
        Decode(160, allow_truncated=True, decoder=decoder)(p) for p in (picture, picture[: len(picture) // 2])
    )
    assert np.array_equal(whole[:40], part[:40])
    assert not np.array_equal(whole[120:], part[120:])
    with pytest.raises(PictureError, match=r"before its (pixels|frame)"):
        Decode(160, allow_truncated=True, decoder=decoder)(picture[:200])


def test_mutated_pictures_decode_or_are_an_error_of_ours(decoder: str) -> None:
    seeds = [
        with_orientation(jpeg(60, 44, subsampling=2), 6),
        jpeg(50, 50, progressive=True),
        encoded(scene(40, 30), mode="CMYK"),
        encoded(scene(40, 30), mode="L"),
        encoded(scene(20, 20), "PNG"),
        encoded(scene(20, 20), "GIF"),
    ]
    rng = random.Random(7)
    operator = Decode(24, "random-resized", flip=0.5, orient=True, max_pixels=1 << 20, decoder=decoder)
    outcomes = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of odd metadata
        for _ in range(600):
            mutated = bytearray(rng.choice(seeds))
            for _ in range(rng.choice([1, 1, 2, 8])):
                mutated[rng.randrange(len(mutated))] = rng.choice([0, 255, rng.randrange(256)])
            try:
                operator(bytes(mutated), rng.getrandbits(64))
                outcomes.add("decoded")
            except PictureError:
                outcomes.add("refused")
    assert outcomes == {"decoded", "refused"}


def test_a_decoder_is_good_after_a_failure(decoder: str) -> None:
    operator, picture = Decode(32, decoder=decoder), jpeg(90, 70)
    expected = operator(picture)
    for end in (100, 300, 640, len(picture) // 2):
        with pytest.raises(PictureError):
            operator(picture[:end])
        assert np.array_equal(operator(picture), expected)


# ---- what a broken picture is


def test_broken_pictures_are_left_out_counted_and_named() -> None:
    operator = Decode(16, on_error="skip")
    with pytest.warns(UserWarning, match="is left out, and so are all such"), pytest.raises(SkipSample):
        operator(b"\xff\xd8\xffbroken")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one warning is enough
        with pytest.raises(SkipSample):
            operator(b"broken")
    assert operator.broken == 2


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_broken_pictures_are_filled_counted_and_named(layout: str, dtype: str) -> None:
    normal = {} if dtype == "uint8" else {"mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7)}
    operator = Decode((4, 5), on_error=128, layout=layout, dtype=dtype, **normal)
    with pytest.warns(UserWarning, match="filled with 128"):
        filled = operator(b"broken")
    flat = Decode((4, 5), layout=layout, dtype=dtype, **normal)(
        encoded(np.full((9, 9, 3), 128, np.uint8), "PNG")
    )
    assert np.array_equal(filled, flat)
    assert operator.broken == 1
    operator(jpeg(20, 20))
    assert operator.broken == 1


def test_what_is_no_picture_is_said_in_the_same_words_each_time() -> None:
    for data, words in (
        (b"", "null or empty"),
        (None, "null or empty"),
        (b"no picture", "begins with b'no picture'"),
    ):
        with pytest.raises(PictureError, match=words) as caught:
            Decode(4)(data)
        assert "object at 0x" not in str(caught.value)


@pytest.mark.parametrize(
    "before", [lambda p: p, lambda p: p.map(lambda sample: sample)], ids=["stored", "mapped"]
)
@pytest.mark.parametrize("processes", [0, 1])
def test_a_null_is_a_broken_picture_wherever_it_comes_from(
    tmp_path: Path, before: Any, processes: int
) -> None:
    with Writer(tmp_path / "nulls.urec", {"image": "bytes?"}) as writer:
        for picture in (jpeg(20, 20), None, jpeg(20, 20)):
            writer.write({"image": picture})
    ds = UniRecordDataset(tmp_path / "nulls.urec")

    def decoded(on_error: Any) -> Any:
        operator = Decode(4, on_error=on_error)
        return before(ds.pipeline()).map(operator, columns=["image"], processes=processes).batch(3)

    with pytest.raises(TransformError, match=r"row 1 .*null or empty"):
        list(decoded("raise"))
    if processes:  # the warning is theirs
        assert [len(batch["image"]) for batch in decoded("skip")] == [2]
        return
    with pytest.warns(UserWarning, match="null or empty"):
        assert [len(batch["image"]) for batch in decoded("skip")] == [2]
    with pytest.warns(UserWarning, match="null or empty"):
        assert np.all(next(iter(decoded(7)))["image"][1] == 7)


def test_values_without_a_range_are_refused() -> None:
    file = io.BytesIO()
    Image.fromarray(np.ones((4, 4), np.float32)).save(file, "TIFF")
    with pytest.raises(PictureError, match="floats"):
        Decode(4)(file.getvalue())
    file = io.BytesIO()
    Image.fromarray(np.full((4, 4), 70_000, np.int32)).save(file, "TIFF")
    with pytest.raises(PictureError, match="16 bits"):
        Decode(4)(file.getvalue())


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "has_jpeg", lambda: False)
    with pytest.raises(MissingError, match="libjpeg62-turbo-dev"):
        Decode(4, decoder="libjpeg")
    assert Decode(4).decoder == "simplejpeg"
    monkeypatch.setitem(__import__("sys").modules, "simplejpeg", None)
    assert Decode(4).decoder == "pillow"
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    with pytest.raises(MissingError, match="unirecord\\[images\\]"):
        Decode(4)
