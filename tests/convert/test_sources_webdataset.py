"""WebDataset shards, made by the webdataset package: every value; tar archives that are damaged or hostile."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import DATA, refusals, rows_at

from unirecord import UniRecordDataset, write_dataset
from unirecord.convert.sources import open_source, webdataset
from unirecord.convert.sources.input_path import InputPath
from unirecord.convert.sources.npy_files import npy_array
from unirecord.errors import SchemaError

FOLDER = DATA / "webdataset"


def archive(path: Path, files: dict[str, bytes], format: int = tarfile.USTAR_FORMAT, mode: str = "w") -> Path:
    with tarfile.open(path, mode, format=format) as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def npy(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def test_every_value_equals_that_of_tarfile() -> None:
    source = open_source(str(FOLDER))
    assert source.kind == "webdataset"
    array = {"type": "float32", "shape": [8, 8]}
    assert source.schema.to_spec() == {
        "key": "string", "cls": "int64", "json": "object", "pixels.npy": array,
        "png": {"type": "bytes", "logical": {"type": "media", "media": "image/png"}},
    }  # fmt: skip
    rows = rows_at(FOLDER)
    assert source.rows == len(rows) == 200
    wanted: dict[str, dict[str, bytes]] = {}
    for i in range(2):
        with tarfile.open(FOLDER / f"digits-000{i}.tar") as tar:
            for member in tar.getmembers():
                key, _, ending = member.name.partition(".")
                wanted.setdefault(key, {})[ending] = tar.extractfile(member).read()  # type: ignore[union-attr]
    assert [row["key"] for row in rows] == list(wanted)
    for row in rows:
        files = wanted[row["key"]]
        assert row["png"] == files["png"]
        assert row["cls"] == int(files["cls"])
        assert row["json"] == json.loads(files["json"])
        assert row["pixels.npy"] == np.load(io.BytesIO(files["pixels.npy"])).tolist()


def test_a_folder_that_energon_has_prepared_is_one_of_shards(tmp_path: Path) -> None:
    for number in range(2):
        archive(tmp_path / f"{number}.tar", {f"{number}.txt": b"text", f"{number}.cls": b"3"})
        (tmp_path / f"{number}.tar.idx").write_bytes(bytes(24))
    (tmp_path / ".nv-meta").mkdir()
    (tmp_path / ".nv-meta" / "dataset.yaml").write_text("__class__: CaptioningSample\n")
    (tmp_path / ".nv-meta" / "index.sqlite").write_bytes(b"SQLite format 3\0")
    assert open_source(str(tmp_path)).kind == "webdataset"
    assert [row["key"] for row in rows_at(tmp_path)] == ["0", "1"]


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_and_other_members(tmp_path: Path, format: int) -> None:
    long = "d" * 90 + "/é" + "f" * 60
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=format) as tar:
        for name, kind in (
            ("dir", tarfile.DIRTYPE),
            ("l.txt", tarfile.SYMTYPE),
            ("__m__/x.txt", tarfile.REGTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "../" * 20 + "etc/passwd"
            tar.addfile(info)
        for name in (long + ".txt", long + ".seg.PNG", "plain", "2.txt", "2.seg.png"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    source = open_source(str(path))
    assert [one.name for one in source.left_out if one.rows] == [f"{path}/plain"]
    assert rows_at(path) == [{"key": key, "txt": "abc", "seg.png": b"abc"} for key in (long, "2")]


def test_kinds_of_files(tmp_path: Path) -> None:
    files = {
        "1.txt": "é".encode(), "1.json": b'{"a": [1, 2.5]}', "1.npy": npy(np.arange(3)), "1.pkl": b"cos\nsystem\n.",
        "2.txt": b"", "2.json": b"[null]", "2.npy": npy(np.arange(2)), "2.pkl": b"",
    }  # fmt: skip
    path = archive(tmp_path / "x.tar", files)
    assert open_source(str(path)).schema.to_spec()["npy"] == {"type": "int64", "shape": [-1]}
    assert rows_at(path) == [
        {"key": "1", "txt": "é", "json": {"a": [1, 2.5]}, "npy": [0, 1, 2], "pkl": b"cos\nsystem\n."},
        {"key": "2", "txt": "", "json": [None], "npy": [0, 1], "pkl": b""},
    ]
    for name in ("x.tar.gz", "y.tgz"):
        assert rows_at(archive(tmp_path / name, files, mode="w:gz")) == rows_at(path)


def test_the_media_type_of_files_is_that_of_their_endings(tmp_path: Path) -> None:
    files = {"1.jpg": b"a", "1.left.PNG": b"b", "1.mp3": b"c", "1.pyd": b"d", "2.jpg": b"e"}
    schema = open_source(str(archive(tmp_path / "x.tar", files))).schema
    said = {column.name: column.media_type for column in schema}
    assert said == {
        "key": None, "jpg": "image/jpeg", "left.png": "image/png", "mp3": "audio/mpeg", "pyd": None
    }  # fmt: skip
    assert (schema["jpg"].nullable, schema["mp3"].nullable) == (False, True)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"1.npy": npy(np.zeros(1)), "2.npy": npy(np.zeros((1, 1)))}, "x.tar, 2.npy: .* array of shape"),
        ({"1.cls": b"1", "1.CLS": b"2"}, "1.cls is there twice in one row"),
        ({"1.json": b"{"}, "1.json"),
        ({"1.json": b"[" * 5000}, "1.json: .* 64 levels"),
        ({"1.npy": b"\x93NUMPY\x01\x00"}, "1.npy: no .npy header"),
        ({"1.npy": npy(np.zeros(3))[:-1]}, "1.npy: 23 bytes where the header says 24"),
        ({"readme": b""}, "holds no files that make rows"),
        ({}, "holds no files that make rows"),
    ],
)
def test_what_makes_no_rows_is_named(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    path = archive(tmp_path / "x.tar", files)
    with pytest.raises(SchemaError, match=said) as caught:
        rows_at(path)
    assert "x.tar" in str(caught.value)


def test_arrays_of_objects_and_sizes_without_content_are_refused() -> None:
    with pytest.raises(ValueError, match="Python objects, which are not unpickled"):
        npy_array(npy(np.array([{}], object), allow_pickle=True))
    head = npy(np.zeros(1)).replace(b"(1,), ", b"(1<<9,)")
    with pytest.raises(ValueError, match=r"no .npy header"):
        npy_array(head)
    with pytest.raises(ValueError, match="8 bytes where the header says 80,000"):
        npy_array(npy(np.zeros(1)).replace(b"(1,), }    ", b"(10000,), }"))
    for array in (
        np.arange(6).reshape(2, 3).T,
        np.arange(3, dtype=">i2"),
        np.array(2.5),
        np.zeros((0, 2), bool),
    ):
        assert npy_array(npy(array)).tolist() == array.tolist()


def test_a_damaged_archive_is_refused_by_name(tmp_path: Path) -> None:
    files = {f"{i}.{end}": bytes([i] * i * 40) for i in range(1, 9) for end in ("jpg", "bin")}
    place = archive(tmp_path / "x.tar", files, tarfile.GNU_FORMAT)
    assert refusals(place, "webdataset", cuts=30, flips=120) > 40


def test_a_row_that_does_not_fit_is_left_out_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webdataset, "_SAMPLE_ROWS", 1)
    rows = {f"{i}.cls": b"x" if i == 2 else b"%d" % i for i in range(6)}
    arrays = {f"{i}.npy": b"no" if i == 4 else npy(np.full(2, i)) for i in range(6)}
    path = archive(tmp_path / "a.tar", dict(sorted({**rows, **arrays}.items())))
    with pytest.raises(SchemaError, match=r"2\.cls"):
        write_dataset(path, tmp_path / "out")
    assert write_dataset(path, tmp_path / "out", on_error="report") == 4
    assert [row["cls"] for row in UniRecordDataset(tmp_path / "out")] == [0, 1, 3, 5]
    told = [json.loads(line) for line in (tmp_path / "out.left-out.jsonl").read_text().splitlines()]
    assert [one["reason"].split(":")[0] for one in told] == ["2.cls", "4.npy"]


def test_split_shards_are_refused(tmp_path: Path) -> None:
    for name in ("train-0.tar", "train-1.tar", "val-0.tar"):
        archive(tmp_path / name, {"1.txt": b""})
    with pytest.raises(
        SchemaError, match=r"unirecord write '.*/train\*' train` and `unirecord write '.*/val\*' val`"
    ):
        open_source(str(tmp_path))
    assert len(rows_at(f"{tmp_path}/train*")) == 2


def test_pieces_that_end_anywhere_make_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"{i}.{end}": bytes([i]) * (i * 97 % 2000) for i in range(40) for end in ("a", "b")}
    archive(tmp_path / "x.tar", files, tarfile.PAX_FORMAT)
    wanted = rows_at(tmp_path / "x.tar")
    assert [row["b"] for row in wanted] == [files[f"{i}.b"] for i in range(40)]
    for size in (1, 512, 1024, 3000):
        monkeypatch.setattr(webdataset, "_PIECE_BYTES", size)
        assert rows_at(tmp_path / "x.tar") == wanted


def test_a_piece_of_an_archive_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path / "x.tar", {f"{i}.a": bytes(3000) for i in range(200)})
    source = open_source(str(tmp_path / "x.tar"))
    monkeypatch.setattr(webdataset, "_PIECE_BYTES", 100_000)
    read = []

    class Counted(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            found = super().read(-1 if size is None else size)
            read.append(len(found))
            return found

    monkeypatch.setattr(InputPath, "open", lambda file: Counted(file.path))
    assert sum(batch.rows for batch in source.batches()) == 200
    assert sum(read) < 1.2 * (tmp_path / "x.tar").stat().st_size


@pytest.mark.parametrize(
    ("format", "said"),
    [
        (tarfile.PAX_FORMAT, {"pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.name": "0.bin"}}),
        (tarfile.PAX_FORMAT, {"pax_headers": {"GNU.sparse.size": "99", "GNU.sparse.map": "0,5"}}),
        (tarfile.GNU_FORMAT, {"type": tarfile.GNUTYPE_SPARSE}),
    ],
)
def test_members_with_holes_are_refused_by_name(tmp_path: Path, format: int, said: dict[str, Any]) -> None:
    """Their content is an encoding of tar's own: it is neither taken for the file, nor left out without a word."""
    with tarfile.open(tmp_path / "a.tar", "w", format=format) as tar:
        for name in ("0.bin", "0.txt", "1.bin", "1.txt"):
            info = tarfile.TarInfo(name)
            info.size = 5
            if name == "0.bin":
                for key, value in said.items():
                    setattr(info, key, value)
            tar.addfile(info, io.BytesIO(b"hello"))
    with pytest.raises(
        SchemaError, match=r"a.tar: the member at byte 0 \(0.bin\) is sparse.*without --sparse"
    ):
        write_dataset(tmp_path / "a.tar", tmp_path / "d.urec")
    assert not (tmp_path / "d.urec").exists()
