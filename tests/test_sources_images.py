"""Folders of pictures as records: classes, order, sizes without decoding, and what cannot be read."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from unirecord.convert.sources import Source, open_source
from unirecord.convert.sources.image_header import NotAnImageError, read_image_header
from unirecord.convert.sources.images import ImageFolder
from unirecord.errors import SchemaError

FORMATS = ["PNG", "JPEG", "GIF", "BMP", "WebP", "TIFF"]


def picture(width: int, height: int, kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(width).integers(0, 255, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def folder(root: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(root)


def rows_of(source: Source) -> list[dict[str, Any]]:
    return [
        dict(zip(b.columns, values, strict=True))
        for b in source.batches()
        for values in zip(*b.columns.values(), strict=True)
    ]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (17, 5), (300, 2)])
def test_size_is_read_from_the_header(kind: str, size: tuple[int, int]) -> None:
    assert read_image_header(picture(*size, kind)) == (kind, *size)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {"progressive": True}),
        ("JPEG", {"exif": b"Exif\0\0" + bytes(30_000)}),
        ("WebP", {"lossless": True}),
    ],
)
def test_size_is_read_from_other_variants(kind: str, options: dict[str, Any]) -> None:
    assert read_image_header(picture(33, 21, kind, **options)) == (kind, 33, 21)


def test_size_is_read_from_an_animated_webp() -> None:
    frames = [Image.new("RGB", (40, 30), (i * 20, 0, 0)) for i in range(3)]
    out = io.BytesIO()
    frames[0].save(out, "WebP", save_all=True, append_images=frames[1:])
    assert read_image_header(out.getvalue()) == ("WebP", 40, 30)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_cut_header_is_no_image(kind: str) -> None:
    data = picture(9, 9, kind)
    for length in range(min(len(data), 200)):
        with contextlib.suppress(NotAnImageError):
            assert read_image_header(data[:length]) == (kind, 9, 9)
    with pytest.raises(NotAnImageError):
        read_image_header(data[:9])


@given(
    start=st.sampled_from(
        [
            b"",
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff",
            b"GIF89a",
            b"BM",
            b"RIFF0000WEBPVP8 ",
            b"II*\0",
            b"MM\0*",
        ]
    ),
    rest=st.binary(max_size=80),
)
def test_random_bytes_are_an_image_or_not_but_never_another_error(start: bytes, rest: bytes) -> None:
    with contextlib.suppress(NotAnImageError):
        header = read_image_header(start + rest)
        assert header.width > 0
        assert header.height > 0


def test_class_folders_give_labels_in_sorted_order(tmp_path: Path) -> None:
    small, wide = picture(2, 3), picture(5, 4, "JPEG")
    files = {"b/2.png": small, "a-x/9.jpg": wide, "a/10.PNG": small, "a/sub/1.jpeg": wide, "a/2.png": small}
    source = open_source(folder(tmp_path, files))
    assert list(source.schema.to_spec()) == ["image", "label", "class", "path", "width", "height"]
    found = rows_of(source)
    assert [(r["path"], r["class"], r["label"], r["width"], r["height"]) for r in found] == [
        ("a/10.PNG", "a", 0, 2, 3),
        ("a/2.png", "a", 0, 2, 3),
        ("a/sub/1.jpeg", "a", 0, 5, 4),
        ("a-x/9.jpg", "a-x", 1, 5, 4),
        ("b/2.png", "b", 2, 2, 3),
    ]
    assert [r["image"] for r in found] == [small, small, wide, wide, small]
    assert source.metadata == {"classes": ["a", "a-x", "b"]}
    assert source.rows == 5


def test_a_flat_folder_has_no_class(tmp_path: Path) -> None:
    source = open_source(folder(tmp_path, {"2.png": picture(1, 1), "1.png": picture(2, 2)}))
    assert list(source.schema.to_spec()) == ["image", "path", "width", "height"]
    assert [r["path"] for r in rows_of(source)] == ["1.png", "2.png"]


def test_other_files_are_counted_and_bad_pictures_named(tmp_path: Path) -> None:
    files = {"a/1.png": picture(1, 1), "a/notes.txt": b"x", "labels.csv": b"x", "a/.hidden.png": b"x"}
    files |= {"a/empty.png": b"", "a/text.jpg": b"hello", "a/cut.png": picture(3, 3)[:20]}
    source = open_source(folder(tmp_path, files))
    assert [r["path"] for r in rows_of(source)] == ["a/1.png"]
    assert source.skipped.others == 2
    assert source.skipped.unreadable == [
        "a/cut.png: the PNG header is cut off",
        "a/empty.png: the file is empty",
        "a/text.jpg: its first bytes are those of no known picture format",
    ]


def test_pictures_beside_class_folders_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path, {"a/1.png": picture(1, 1), "stray.png": picture(1, 1)})
    with pytest.raises(SchemaError, match=r"1 pictures beside its class folders \('stray.png'"):
        open_source(path)


def test_a_folder_without_pictures_says_what_it_holds(tmp_path: Path) -> None:
    path = folder(tmp_path, {"a.csv": b"x", "b.csv": b"x"})
    with pytest.raises(SchemaError, match=r"holds no pictures .*2 \.csv"):
        open_source(path)


def test_a_link_back_up_the_tree_ends(tmp_path: Path) -> None:
    folder(tmp_path, {"a/1.png": picture(1, 1)})
    os.symlink(tmp_path, tmp_path / "a" / "loop")
    assert len(rows_of(open_source(str(tmp_path)))) == 1


def test_names_that_are_not_utf8_are_spelled_out(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.png")
    try:
        folder(tmp_path, {f"a/{name}": picture(1, 1)})
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    assert rows_of(open_source(str(tmp_path)))[0]["path"] == "a/\\xff.png"


def test_classes_of_an_existing_dataset_are_kept(tmp_path: Path) -> None:
    source = open_source(folder(tmp_path, {"b/1.png": picture(1, 1)}))
    assert isinstance(source, ImageFolder)
    source.use_classes(["a", "b"])
    assert rows_of(source)[0]["label"] == 1
    with pytest.raises(SchemaError, match="class 'b', which the dataset has not"):
        source.use_classes(["a", "c"])
