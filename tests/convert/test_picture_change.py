"""Pictures made smaller and re-encoded on the way: aspect, orientation, depth and colours by rule, in any source."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from unirecord import SchemaError, UniRecordDataset, write_dataset
from unirecord.cli import main
from unirecord.convert.sources import WrongSourceError
from unirecord.convert.steps import Encoding, PictureChange
from unirecord.errors import PictureError

RNG = np.random.default_rng(5)


def smooth(height: int, width: int, channels: int | None = 3) -> np.ndarray[Any, Any]:
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x * 200 / width + y * 50 / height + 20 * c) % 256 for c in range(channels or 1)]
    return (np.stack(planes, -1) if channels else planes[0]).astype(np.uint8)


def encoded(image: Any, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def opened(data: bytes) -> Any:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 5000), height=st.integers(1, 5000),
    resize=st.none() | st.integers(1, 900), most=st.none() | st.integers(1, 900),
)  # fmt: skip
def test_the_size_is_never_larger_and_keeps_the_aspect(
    width: int, height: int, resize: int | None, most: int | None
) -> None:
    w, h = PictureChange(resize, most).size(width, height)
    assert 1 <= w <= width
    assert 1 <= h <= height
    assert most is None or max(w, h) <= max(most, 1)
    if resize is not None and most is None:
        assert min(w, h) == min(resize, width, height)
    assert abs(w - width * h / height) <= max(1.0, 0.5 + 0.5 * width / height)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
@pytest.mark.parametrize("target", [None, "jpeg:95", "webp:95", "png", "raw"])
def test_every_mode_becomes_every_format(mode: str, target: str | None) -> None:
    if mode == "I;16":
        wide = smooth(40, 60, None).astype(np.uint16) * 257
        data, light = encoded(Image.fromarray(wide), "PNG"), smooth(40, 60, None)
    else:
        picture = Image.fromarray(smooth(40, 60)).convert("RGB")
        picture = (picture.convert("L") if mode in ("1", "LA") else picture).convert(mode)
        if mode in ("LA", "RGBA"):
            picture.putalpha(Image.fromarray(smooth(40, 60, None) // 4 + 128))
        data = encoded(picture, "TIFF")
        light = np.asarray(opened(data).convert("L"))
    change = PictureChange(20, None, None if target is None else Encoding.parse(target))
    found, width, height = change(data)
    assert (width, height) == (30, 20)
    if target == "raw":
        assert (found.shape, found.dtype) == ((20, 30, 3), np.uint8)
        grey = np.asarray(Image.fromarray(found).convert("L"))
    else:
        image = opened(found)
        assert image.size == (30, 20)
        assert image.format == {None: "PNG"}.get(target, (target or "").partition(":")[0].upper())
        assert image.mode.startswith("I;16") == (mode == "I;16" and image.format == "PNG")
        assert ("A" in image.getbands()) == (mode in ("LA", "RGBA") and image.format in ("PNG", "WEBP"))
        grey = np.asarray(image) // 257 if image.mode.startswith("I;16") else np.asarray(image.convert("L"))
    wanted = np.asarray(Image.fromarray(light).resize((30, 20), Image.Resampling.BOX)).astype(int)
    assert np.abs(grey.astype(int) - wanted).mean() < (40 if mode in ("1", "P") else 6)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("target", [None, "webp:95", "png", "raw"])
def test_the_orientation_is_kept(orientation: int, target: str | None) -> None:
    from PIL import ImageOps

    pixels = smooth(60, 80)
    pixels[:20, :30] = 255  # a corner that tells how it is turned
    exif = Image.Exif()
    exif[274] = orientation
    exif[270] = "a description"
    data = encoded(Image.fromarray(pixels), "JPEG", exif=exif.tobytes(), quality=95)
    seen = ImageOps.exif_transpose(opened(data))
    found, width, height = PictureChange(None, 40, None if target is None else Encoding.parse(target))(data)
    after = Image.fromarray(found) if target == "raw" else opened(found)
    assert after.size == (width, height)
    assert 270 not in after.getexif()
    turned = ImageOps.exif_transpose(after)
    assert turned.size == ((40, 30) if orientation < 5 else (30, 40))
    wanted = np.asarray(seen.resize(turned.size, Image.Resampling.BOX)).astype(int)
    assert np.abs(np.asarray(turned.convert("RGB")).astype(int) - wanted).mean() < 6


def test_what_is_small_enough_stays_byte_for_byte_and_profiles_stay() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"):
        data = encoded(Image.fromarray(smooth(30, 40)), kind)
        assert PictureChange(30, 40)(data) == (data, 40, 30)
        smaller = opened(PictureChange(15)(data)[0])
        assert (smaller.format, smaller.size) == (
            kind if kind in ("JPEG", "PNG", "WEBP") else "PNG",
            (20, 15),
        )
    data = encoded(Image.fromarray(smooth(30, 40)), "JPEG", icc_profile=profile)
    for target in ("jpeg:90", "png", "webp"):
        again = PictureChange(encoding=Encoding.parse(target))(data)[0]
        assert opened(again).info["icc_profile"] == profile
    cmyk = encoded(Image.fromarray(smooth(30, 40)).convert("CMYK"), "JPEG", icc_profile=profile)
    assert "icc_profile" not in opened(PictureChange(15)(cmyk)[0]).info


def bicubic(pixels: np.ndarray[Any, Any], size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Pillow's filter in floats, rounded once: in bytes Pillow clips between rows and columns, beside hard edges."""
    planes = [Image.fromarray(plane.astype(np.float32)) for plane in np.moveaxis(pixels, -1, 0)]
    return np.stack([np.asarray(plane.resize(size, Image.Resampling.BICUBIC)) for plane in planes], -1)


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 150), height=st.integers(1, 150), resize=st.integers(1, 150), grey=st.booleans(),
    hard=st.booleans(), seed=st.integers(0, 1000),
)  # fmt: skip
def test_resizing_is_the_bicubic_filter_within_a_level(
    width: int, height: int, resize: int, grey: bool, hard: bool, seed: int
) -> None:
    values = np.random.default_rng(seed).integers(0, 2 if hard else 256, (height, width, 1 if grey else 3))
    pixels = (values * (255 if hard else 1)).astype(np.uint8)
    data = encoded(Image.fromarray(pixels[..., 0] if grey else pixels), "PNG")
    found, *size = PictureChange(resize, None, Encoding.parse("png"))(data)
    wanted = np.clip(bicubic(pixels, (size[0], size[1])), 0, 255)
    image = opened(found)
    assert image.mode == ("L" if grey else "RGB")
    assert np.abs(np.asarray(image).reshape(wanted.shape) - wanted).max() <= 1.01


@pytest.mark.parametrize(("width", "height", "resize"), [(1003, 667, 80), (801, 1601, 100), (499, 375, 93)])
def test_a_jpeg_decoded_at_a_scale_is_not_moved(width: int, height: int, resize: int) -> None:
    y, x = np.mgrid[0:height, 0:width]
    waves = 128 + 60 * np.sin(x / 23) + 60 * np.cos(y / 17)
    data = encoded(Image.fromarray(waves.astype(np.uint8)), "JPEG", quality=95)
    found, *size = PictureChange(resize, None, Encoding.parse("png"))(data)
    wanted = bicubic(np.asarray(opened(data))[..., None], (size[0], size[1]))[..., 0]
    away = np.asarray(opened(found)) - wanted
    assert np.abs(away).max() < 3
    assert abs(away.mean()) < 0.5


def test_sixteen_bits_keep_their_values_where_png_can() -> None:
    wide = (RNG.integers(0, 1 << 16, (8, 8))).astype(np.uint16)
    data = encoded(Image.fromarray(wide), "PNG")
    same = opened(PictureChange(encoding=Encoding.parse("png"))(data)[0])
    np.testing.assert_array_equal(np.asarray(same), wide)
    raw, _, _ = PictureChange(encoding=Encoding.parse("raw"))(data)
    np.testing.assert_array_equal(raw, np.repeat((wide >> 8)[:, :, None], 3, 2))


def test_broken_pictures_are_refused_by_name() -> None:
    jpeg = encoded(Image.fromarray(smooth(50, 50)), "JPEG")
    for data in (b"", b"no picture", jpeg[: len(jpeg) // 2], jpeg[:100]):
        with pytest.raises(PictureError):
            PictureChange(10, None, Encoding.parse("jpeg:90"))(data)
    with pytest.raises(PictureError, match=r"it cannot be decoded: .* begins with b'no picture'"):
        PictureChange(10)(b"no picture")
    with pytest.raises(PictureError, match=r"floats|range"):
        PictureChange(10)(encoded(Image.fromarray(smooth(50, 50, None).astype(np.float32)), "TIFF"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, size in (
        ("a/1.jpg", (90, 60)),
        ("a/2.jpg", (40, 80)),
        ("b/3.png", (10, 12)),
        ("b/4.jpg", (50, 50)),
    ):
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(smooth(size[1], size[0])).save(path)
    broken = tmp_path / "pictures" / "b" / "4.jpg"
    broken.write_bytes(broken.read_bytes()[:-400])
    return tmp_path / "pictures"


def test_a_folder_of_pictures(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    call = ["write", str(folder), str(tmp_path / "out"), "--resize", "30", "--reencode", "jpeg:90"]
    assert main([*call, "--dry-run"]) == 0
    assert "--resize 30" in capfd.readouterr().out
    assert main(call) == 1  # a broken one was left out, as without these options
    assert "b/4.jpg: it cannot be decoded" in capfd.readouterr().err
    rows = list(UniRecordDataset(tmp_path / "out"))
    assert [(row["path"], row["width"], row["height"]) for row in rows] == [
        ("a/1.jpg", 45, 30), ("a/2.jpg", 30, 60), ("b/3.png", 10, 12)
    ]  # fmt: skip
    assert all(opened(row["image"]).size == (row["width"], row["height"]) for row in rows)
    assert UniRecordDataset(tmp_path / "out").schema["image"].logical == {
        "type": "media",
        "media": "image/jpeg",
    }
    with pytest.raises(SchemaError, match=r"b/4.jpg: it cannot be decoded.*--on-error skip"):
        write_dataset(folder, tmp_path / "x", resize=30, reencode="jpeg:90", on_error="raise")
    assert (
        write_dataset(folder, tmp_path / "raw", max_side=20, reencode="raw", on_error="report", workers=2)
        == 3
    )
    raw = UniRecordDataset(tmp_path / "raw")
    assert [row["image"].shape for row in raw] == [(13, 20, 3), (20, 10, 3), (12, 10, 3)]
    listed = (tmp_path / "raw.left-out.jsonl").read_text().splitlines()
    assert [json.loads(line)["file"] for line in listed] == ["b/4.jpg"]


def test_few_pictures_are_changed_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "many").mkdir()
    for number in range(100):
        Image.fromarray(smooth(4, 6 + number)).save(tmp_path / "many" / f"{number:03d}.png")
    made, change = [], PictureChange.__call__
    monkeypatch.setattr(PictureChange, "__call__", lambda *given: made.append(1) or change(*given))
    assert write_dataset(tmp_path / "many", tmp_path / "out", resize=2) == 100
    assert 100 < len(made) <= 100 + 2 * 8  # the first of its one unit: to estimate, and to compare


def test_what_was_left_out_is_told_once_where_pictures_come_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(30):
        Image.fromarray(smooth(4, 6 + number)).save(tmp_path / "many" / f"{number:03d}.png")
    (tmp_path / "many" / "005.png").write_bytes(b"no picture")
    cut = tmp_path / "many" / "020.png"
    cut.write_bytes(cut.read_bytes()[:60])
    assert write_dataset(tmp_path / "many", tmp_path / "out", resize=2, on_error="report") == 28
    listed = (tmp_path / "out.left-out.jsonl").read_text().splitlines()
    assert [json.loads(line)["file"] for line in listed] == ["005.png", "020.png"]
    kept = [f"{n:03d}.png" for n in range(30) if n not in (5, 20)]
    assert [row["path"] for row in UniRecordDataset(tmp_path / "out")] == kept


def test_columns_of_other_sources(tmp_path: Path) -> None:
    data = encoded(Image.fromarray(smooth(60, 90)), "PNG")
    table = pa.table({"picture": [data, None, data], "other": [b"x", b"y", b"z"], "n": [1, 2, 3]})
    assert write_dataset(table, tmp_path / "a", resize=20, rename={"picture": "image"}) == 3
    rows = list(UniRecordDataset(tmp_path / "a"))
    assert [row["image"] is None for row in rows] == [False, True, False]
    assert opened(rows[0]["image"]).size == (30, 20)
    assert [row["other"] for row in rows] == [b"x", b"y", b"z"]
    with pytest.raises(SchemaError, match="cannot be decoded"):
        write_dataset(table, tmp_path / "b", resize=20, picture_columns=["other"], on_error="raise")


def test_places_in_pixels_are_not_left_wrong(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    Image.fromarray(smooth(60, 90)).save(tmp_path / "pictures" / "1.png")
    coco = tmp_path / "instances.json"
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12}
    found = {"images": [{"id": 1, "file_name": "1.png"}], "annotations": [box]}
    coco.write_text(json.dumps({**found, "categories": [{"id": 1, "name": "cat"}]}))
    options: dict[str, Any] = {"kind": "coco", "pictures": str(tmp_path / "pictures")}
    with pytest.raises(WrongSourceError, match=r"boxes.*tell places in the pixels"):
        write_dataset(coco, tmp_path / "out", resize=20, **options)
    write_dataset(coco, tmp_path / "out", resize=20, columns=["image", "labels"], **options)
    assert opened(UniRecordDataset(tmp_path / "out")[0]["image"]).size == (30, 20)
