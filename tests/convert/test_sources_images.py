"""Folders of pictures as records: classes, order, sizes without decoding, and what cannot be read."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_folders import folder, picture
from PIL import Image

from unirecord.convert.sources import Options, Source, WrongSourceError, open_source
from unirecord.convert.sources.images import natural_order
from unirecord.convert.sources.media_types import NotAnImageError, _jpeg, read_image_header
from unirecord.errors import MissingError, SchemaError

FORMATS = ["PNG", "JPEG", "GIF", "BMP", "WebP", "TIFF"]


def rows_of(source: Source) -> list[dict[str, Any]]:
    return [
        dict(zip(b.columns, values, strict=True))
        for b in source.batches()
        for values in zip(*b.columns.values(), strict=True)
    ]


def unreadable(source: Source) -> dict[str, str]:
    return {one.name: one.reason for one in source.left_out if not one.expected}


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
    assert sorted(one.name for one in source.left_out if one.expected) == ["a/notes.txt", "labels.csv"]
    assert unreadable(source) == {
        "a/cut.png": "the PNG header is cut off",
        "a/empty.png": "the file is empty",
        "a/text.jpg": "its first bytes are those of no known picture format",
    }


def test_pictures_beside_class_folders_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path, {"a/1.png": picture(1, 1), "stray.png": picture(1, 1)})
    with pytest.raises(SchemaError, match=r"1 picture beside its class folders, of no class \('stray.png'"):
        open_source(path)


def test_a_folder_without_pictures_says_what_it_holds(tmp_path: Path) -> None:
    path = folder(tmp_path, {"a.bin": b"x", "b.bin": b"x"})
    with pytest.raises(SchemaError, match=r"holds no pictures .*2 \.bin"):
        open_source(path)


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    with pytest.raises(SchemaError, match="x is empty: there are no files in it"):
        open_source(str(tmp_path / "x"))


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
    path = folder(tmp_path, {"b/1.png": picture(1, 1)})
    source = open_source(path, options=Options(classes=["a", "b"]))
    assert rows_of(source)[0]["label"] == 1
    assert source.metadata == {"classes": ["a", "b"]}
    with pytest.raises(SchemaError, match="class 'b', which the dataset has not"):
        open_source(path, options=Options(classes=["a", "c"]))


def test_classes_are_numbered_in_natural_order(tmp_path: Path) -> None:
    small = picture(1, 1)
    source = open_source(folder(tmp_path, {f"{name}/1.png": small for name in ("10", "2", "1", "b2", "b10")}))
    assert source.metadata == {"classes": ["1", "2", "10", "b2", "b10"]}
    assert [(r["class"], r["label"]) for r in rows_of(source)] == [
        ("1", 0), ("2", 1), ("10", 2), ("b2", 3), ("b10", 4),
    ]  # fmt: skip


@given(
    st.lists(
        st.text(st.characters(codec="utf-8")) | st.from_regex(r"[a-z]?[0-9]{1,30}[a-z]?", fullmatch=True)
    )
)
def test_natural_order_is_total_and_counts(names: list[str]) -> None:
    ordered = sorted(names, key=natural_order)
    names.reverse()
    assert ordered == sorted(names, key=natural_order)
    numbers = [name for name in ordered if name.isascii() and name.isdecimal()]
    assert [int(name) for name in numbers] == sorted(map(int, numbers))


def split_rows(path: str, **options: Any) -> list[tuple[Any, ...]]:
    source = open_source(path, options=Options(**options))
    return [(r["split"], r.get("class"), r.get("label"), r["path"]) for r in rows_of(source)]


def test_a_split_is_one_dataset_whose_classes_are_those_of_all_parts(tmp_path: Path) -> None:
    files = ["val/10/1.png", "val/owl/1.png", "train/dog/1.png", "train/dog/a/0.png", "train/2/1.png"]
    path = folder(tmp_path, dict.fromkeys(files, picture(1, 1)))
    source = open_source(path)
    assert list(source.schema.names) == ["image", "split", "label", "class", "path", "width", "height"]
    assert source.metadata == {"classes": ["2", "10", "dog", "owl"]}
    assert any("split, by the folders: 3 train, 2 val" in note for note in source.notes)
    assert split_rows(path) == [
        ("train", "2", 0, "train/2/1.png"), ("train", "dog", 2, "train/dog/1.png"),
        ("train", "dog", 2, "train/dog/a/0.png"), ("val", "10", 1, "val/10/1.png"), ("val", "owl", 3, "val/owl/1.png"),
    ]  # fmt: skip
    assert [row[2] for row in split_rows(path, classes=["owl", "dog", "x", "10", "2"])] == [4, 1, 1, 3, 0]
    with pytest.raises(SchemaError, match="class 'dog', which the dataset has not"):
        open_source(path, options=Options(classes=["2", "10", "owl"]))


def test_parts_of_a_split_may_be_flat(tmp_path: Path) -> None:
    path = folder(tmp_path, dict.fromkeys(["Train/2.png", "Train/1.png", "Test/a.png"], picture(1, 1)))
    assert [row[::3] for row in split_rows(path)] == [
        ("Train", "Train/1.png"), ("Train", "Train/2.png"), ("Test", "Test/a.png"),
    ]  # fmt: skip
    assert list(open_source(path).schema.names) == ["image", "split", "path", "width", "height"]


def test_a_part_without_classes_has_no_labels(tmp_path: Path) -> None:
    files = ["train/cat/1.png", "train/dog/1.png", "test/1.png"]
    path = folder(tmp_path, dict.fromkeys(files, picture(1, 1)))
    source = open_source(path)
    assert (str(source.schema["label"]), str(source.schema["class"])) == ("int32?", "string?")
    assert [row[:3] for row in split_rows(path)] == [
        ("train", "cat", 0),
        ("train", "dog", 1),
        ("test", None, None),
    ]
    assert any(note.startswith("test: no class folders") for note in source.notes)


@pytest.mark.parametrize(
    ("stray", "said"),
    [
        ("x.png", r"beside train, val, of no part of the split \('x.png'"),
        ("val/x.png", r"val holds 1 picture beside its class"),
    ],
)
def test_pictures_beside_the_parts_of_a_split_are_refused(tmp_path: Path, stray: str, said: str) -> None:
    files = ["train/cat/1.png", "val/cat/1.png", stray]
    with pytest.raises(SchemaError, match=said):
        open_source(folder(tmp_path, dict.fromkeys(files, picture(1, 1))))


@pytest.mark.parametrize(
    "folders",
    [["train", "val"], ["train/cat", "val/cat"], ["train/cat"], ["training", "validation", "extra"]],
)
def test_folders_called_like_a_split_are_classes_when_that_is_said(
    tmp_path: Path, folders: list[str]
) -> None:
    path = folder(tmp_path, {f"{name}/{i}.png": picture(1, 1) for i, name in enumerate(folders)})
    tops = {name.partition("/")[0] for name in folders}
    assert {row[0] for row in split_rows(path)} == tops
    source = open_source(path, options=Options(folders_are_classes=True))
    assert {r["class"] for r in rows_of(source)} == tops
    assert "split" not in source.schema


def test_a_table_of_labels_goes_with_a_split(tmp_path: Path) -> None:
    folder(tmp_path, dict.fromkeys(["p/train/1.png", "p/val/2.png"], picture(1, 1)))
    (tmp_path / "t.csv").write_text("file_name,age\ntrain/1.png,3\nval/2.png,5\n")
    found = rows_of(open_source(str(tmp_path / "p"), options=Options(labels=str(tmp_path / "t.csv"))))
    assert [(r["split"], r["path"], r["age"]) for r in found] == [
        ("train", "train/1.png", 3),
        ("val", "val/2.png", 5),
    ]
    (tmp_path / "t.csv").write_text("file_name,split\ntrain/1.png,a\nval/2.png,b\n")
    found = rows_of(open_source(str(tmp_path / "p"), options=Options(labels=str(tmp_path / "t.csv"))))
    assert [r["split"] for r in found] == ["a", "b"]


@pytest.mark.parametrize(
    "folders", [["train", "plane", "car"], ["test", "rest"], ["trains", "vals"], ["cat/train"]]
)
def test_folders_that_only_look_a_little_like_splits_are_classes(tmp_path: Path, folders: list[str]) -> None:
    path = folder(tmp_path, {f"{name}/1.png": picture(1, 1) for name in folders})
    assert open_source(path).rows == len(folders)


def test_only_regular_files_are_read_and_all_else_is_left_out_by_name(tmp_path: Path) -> None:
    folder(tmp_path, {"good.png": picture(1, 1)})
    os.mkfifo(tmp_path / "pipe.png")
    os.symlink("/dev/zero", tmp_path / "zero.png")
    os.symlink("loop.png", tmp_path / "loop.png")
    os.symlink("loop", tmp_path / "loop")
    os.symlink("nowhere", tmp_path / "nowhere.png")
    os.symlink(tmp_path / "good.png", tmp_path / "link.png")
    socket.socket(socket.AF_UNIX).bind(str(tmp_path / "s.png"))
    source = open_source(str(tmp_path))
    assert [r["path"] for r in rows_of(source)] == ["good.png", "link.png"]
    assert unreadable(source) == {
        "pipe.png": "it is a pipe, not a regular file",
        "zero.png": "it is a device, not a regular file",
        "loop.png": "it is a link to loop.png, which leads to no file",
        "nowhere.png": "it is a link to nowhere, which leads to no file",
        "s.png": "it is a socket, not a regular file",
    }


def test_a_pipe_that_takes_a_pictures_place_does_not_wait(tmp_path: Path) -> None:
    source = open_source(folder(tmp_path, {"a.png": picture(1, 1), "b.png": picture(1, 1)}))
    (tmp_path / "a.png").unlink()
    os.mkfifo(tmp_path / "a.png")
    assert [r["path"] for r in rows_of(source)] == ["b.png"]
    assert unreadable(source) == {"a.png": "it is a pipe, not a regular file"}


@contextlib.contextmanager
def deeper_than_a_path(place: Path) -> Iterator[None]:
    """Folders in folders whose path is longer than the kernel takes; pytest could not remove them."""
    folders = [os.open(place, os.O_RDONLY)]
    name = "d" * 200
    try:
        for _ in range(25):
            os.mkdir(name, dir_fd=folders[-1])
            folders.append(os.open(name, os.O_RDONLY, dir_fd=folders[-1]))
        yield
    finally:
        while folders:
            os.close(folders.pop())
            if folders:
                os.rmdir(name, dir_fd=folders[-1])


def test_deep_folders_are_read_or_left_out_by_name(tmp_path: Path) -> None:
    folder(tmp_path, {"a/1.png": picture(1, 1)})
    with deeper_than_a_path(tmp_path / "a"):
        source = open_source(str(tmp_path))
        assert len(rows_of(source)) == 1
        assert list(unreadable(source).values()) == ["File name too long"]
    assert os.listdir(tmp_path / "a") == ["1.png"]


@pytest.mark.parametrize("stray", [b"\0\0", b"x", b"\xff\0\x12", b"\xff\xff\xff", b"\0" * 60_000])
def test_bytes_between_the_segments_of_a_jpeg_are_passed_over(stray: bytes) -> None:
    """As libjpeg does, and with it Pillow, OpenCV and browsers."""
    whole = picture(40, 30, "JPEG")
    at = 4 + int.from_bytes(whole[4:6], "big")  # behind the first segment
    data = whole[:at] + stray + whole[at:]
    Image.open(io.BytesIO(data)).load()
    assert read_image_header(data) == ("JPEG", 40, 30)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8" + b"\xff" * 300_000,
        b"\xff\xd8" + b"\xff\0" * 300_000,
        b"\xff\xd8\xff" + b"\xff\xe0\0\0" * 100_000,
        b"\xff\xd8" + b"\xff\xe0\0\2" * 100_000,
    ],
)
def test_the_search_for_a_jpeg_header_is_bounded(data: bytes) -> None:
    looked_at = 0

    class Counted:
        def __getitem__(self, at: Any) -> Any:
            nonlocal looked_at
            looked_at += 1
            return data[at]

    with pytest.raises(NotAnImageError, match="damaged"):
        read_image_header(data)
    with contextlib.suppress(TypeError, NotAnImageError):  # struct wants bytes
        _jpeg(Counted())  # type: ignore[arg-type]
    assert looked_at < 200_000


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WebP", "GIF"])
def test_check_pictures_leaves_out_what_cannot_be_decoded(tmp_path: Path, kind: str) -> None:
    whole = picture(64, 64, kind)
    path = folder(tmp_path, {"a.png": whole, "b.png": whole[: len(whole) // 2]})
    assert len(rows_of(open_source(path))) == 2
    source = open_source(path, options=Options(check_pictures=True))
    assert [r["path"] for r in rows_of(source)] == ["a.png"]
    assert list(unreadable(source)) == ["b.png"]
    assert "it cannot be decoded" in unreadable(source)["b.png"]


def test_check_pictures_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path, {"a.png": picture(1, 1)})
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingError, match="pip install pillow"):
        open_source(path, options=Options(check_pictures=True))


def test_units_are_read_alike_by_whoever_opens_the_folder(tmp_path: Path) -> None:
    files = {f"a/{i:03}.png": picture(1 + i % 3, 1) for i in range(600)} | {"a/300.png": b"bad"}
    source = open_source(folder(tmp_path, files))
    whole = [path for batch in source.batches() for path in batch.columns["path"]]
    again = open_source(str(tmp_path))
    assert len(again.units) == len(source.units) > 1
    found: list[str] = []
    for unit in reversed(again.units):
        found = [path for batch in again.batches_of(unit) for path in batch.columns["path"]] + found
    assert found == whole


def test_what_a_source_does_not_take_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    for name in ("check_pictures", "folders_are_classes", "classes"):
        with pytest.raises(WrongSourceError, match=f"--{name.replace('_', '-')} is for images"):
            open_source(str(tmp_path / "x.csv"), options=Options(**{name: [True]}))
