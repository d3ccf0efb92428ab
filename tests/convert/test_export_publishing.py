"""unirecord export: which rows, whole or not at all, nothing replaced unasked, and no name leads out of the folder."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from array_record.python import array_record_module
from exported_rows import ROWS, N, tree, write_rows
from faults import system

import unirecord
from unirecord import BusyError, ExistsError, SchemaError, Writer
from unirecord.cli import main
from unirecord.convert.sinks.kinds import SINK_KINDS, SINKS
from unirecord.convert.sinks.sink import is_file_name
from unirecord.storage.staged import MARK, StagedFolder


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("export") / "data")


@pytest.mark.parametrize(
    "name",
    ["../out.png", "/etc/x.png", "a/../../b.png", ".hidden/x.png", "a//b.png", "a\\b.png", "", "C:x.png",
     "a/" * 1_200 + "b", "a/" * 65 + "b"],
)  # fmt: skip
def test_no_name_in_the_data_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    with Writer(tmp_path / "p.urec", {"image": "bytes", "path": "string"}) as writer:
        writer.write({"image": b"x", "path": "fine.png"})
        writer.write({"image": b"y", "path": name})
    with pytest.raises(SchemaError, match="row 1, column 'path'"):
        unirecord.export(tmp_path / "p.urec", tmp_path / "out", "images")
    assert sorted(os.listdir(tmp_path)) == ["p.urec", "p.urec.idx"]


@pytest.mark.parametrize("kind", SINK_KINDS)
@pytest.mark.parametrize(
    "name", ["../../evil", "/tmp/evil", "..", ".evil", "a/b", "a\\b", "C:evil", "x" * 255, "é" * 121]
)
def test_no_name_of_a_column_leads_out_of_what_is_unpacked(kind: str, name: str, tmp_path: Path) -> None:
    """Of every sink: no file, and no member of an archive, has a name that leads elsewhere."""
    with Writer(tmp_path / "p.urec", {name: "bytes", "n": "int32"}) as writer:
        writer.write({name: b"x", "n": 1})
    with Writer(tmp_path / "q.urec", {"b": "bytes", name: "int32"}) as writer:
        writer.write({"b": b"x", name: 1})
    before = sorted(os.listdir(tmp_path))
    suffix = next(sink.suffix for sink in SINKS if sink.kind == kind)
    for number, source in enumerate(("p.urec", "q.urec")):
        target = tmp_path / f"out{number}{suffix}"
        with suppress(SchemaError):  # where it cannot hold the column, whatever it is called
            unirecord.export(tmp_path / source, target, kind)
        members = _members(target)
        assert all(is_file_name(part) for member in members for part in member.split("/")), members
    assert sorted(set(os.listdir(tmp_path)) - {"out0" + suffix, "out1" + suffix}) == before


def _members(path: Path) -> list[str]:
    """The names of the files of an export; of an archive, those in it."""
    if zipfile.is_zipfile(path):
        return zipfile.ZipFile(path).namelist()
    if path.is_file() and tarfile.is_tarfile(path):
        return tarfile.open(path).getnames()
    if path.is_dir():
        found = [str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()]
        return [name for name in found if name != MARK]
    return []


@pytest.mark.parametrize("kind", ["npz", "webdataset"])
def test_a_column_whose_name_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    with Writer(tmp_path / "p.urec", {"../../evil": "bytes", "n": "int32"}) as writer:
        writer.write({"../../evil": b"x", "n": 1})
    target = tmp_path / f"out{next(sink.suffix for sink in SINKS if sink.kind == kind)}"
    with pytest.raises(SchemaError, match=r"cannot hold '../../evil'.*rename them"):
        unirecord.export(tmp_path / "p.urec", target)
    unirecord.export(tmp_path / "p.urec", target, columns=["n"])


def test_a_deep_folder_is_removed(tmp_path: Path, path: Path) -> None:
    """However deep it is, and whoever made it so."""
    left = tmp_path / ".out.tmp"
    left.mkdir()
    place = os.open(left, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    try:
        unirecord.export(path, tmp_path / "out", "parquet")
        assert sorted(os.listdir(tmp_path)) == ["out"]
    finally:
        subprocess.run(["rm", "-rf", left], check=True)  # pytest itself cannot remove it


def test_two_pictures_of_one_name_are_refused(tmp_path: Path) -> None:
    with Writer(tmp_path / "p.urec", {"image": "bytes", "path": "string"}) as writer:
        writer.write_batch({"image": [b"x", b"y"], "path": ["a.png", "a.png"]})
    with pytest.raises(SchemaError, match=r"'a\.png' is there twice"):
        unirecord.export(tmp_path / "p.urec", tmp_path / "out", "images")


def test_which_rows(path: Path, tmp_path: Path) -> None:
    unirecord.export(path, tmp_path / "a.jsonl", where="big > 0", columns=["small"], limit=7)
    found = [json.loads(line)["small"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert found == [r["small"] for r in ROWS if r["big"] > 0][:7]
    unirecord.export(path, tmp_path / "none.jsonl", limit=0)
    assert (tmp_path / "none.jsonl").read_text() == ""


def test_nothing_is_replaced_unasked(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"
    target.write_text("mine")
    with pytest.raises(ExistsError):
        unirecord.export(path, target)
    assert target.read_text() == "mine"
    unirecord.export(path, target, columns=["small"], overwrite=True)
    assert len(target.read_text().splitlines()) == N
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(ExistsError, match="no earlier export"):
        unirecord.export(path, folder, "csv", overwrite=True)
    unirecord.export(path, tmp_path / "g", "csv", columns=["small"], parts=3)
    with pytest.raises(ExistsError):
        unirecord.export(path, tmp_path / "g", "csv", columns=["small"])
    unirecord.export(path, tmp_path / "g", "csv", columns=["small"], overwrite=True)
    assert [p.name for p in sorted((tmp_path / "g").glob("*"))] == [".unirecord.json", "part-00000.csv"]
    (tmp_path / "g" / "mine.txt").write_text("mine")
    with pytest.raises(ExistsError, match="other files"):
        unirecord.export(path, tmp_path / "g", "csv", columns=["small"], overwrite=True)
    assert (tmp_path / "g" / "mine.txt").read_text() == "mine"
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


def test_a_failure_leaves_what_was_there(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unirecord.export(path, tmp_path / "g", "csv", columns=["small"])
    before = tree(tmp_path / "g")

    def broken(self: Any) -> int:
        raise OSError(28, "no space left")

    monkeypatch.setattr(StagedFolder, "publish", broken)
    with pytest.raises(OSError, match=r"No space left on device \(nothing has been published"):
        unirecord.export(path, tmp_path / "g", "csv", columns=["big"], overwrite=True)
    assert tree(tmp_path / "g") == before
    assert os.listdir(tmp_path) == ["g"]


def test_an_export_that_died_between_its_renames_is_put_right(path: Path, tmp_path: Path) -> None:
    unirecord.export(path, tmp_path / "g", "csv", columns=["small"])
    os.rename(
        tmp_path / "g", tmp_path / ".g.old.tmp"
    )  # what a writer that is killed between two renames leaves
    (tmp_path / ".g.tmp").mkdir()
    (tmp_path / ".g.tmp" / "part-00000.csv").write_text("half")
    with pytest.raises(ExistsError):
        unirecord.export(path, tmp_path / "g", "csv", columns=["small"])
    assert os.listdir(tmp_path) == ["g"]
    assert len((tmp_path / "g" / "part-00000.csv").read_text().splitlines()) == N + 1


def test_two_exports_to_one_folder_are_told(path: Path, tmp_path: Path) -> None:
    folder = StagedFolder(str(tmp_path / "g"), overwrite=False)
    try:
        with pytest.raises(BusyError):
            unirecord.export(path, tmp_path / "g", "csv")
    finally:
        folder.discard()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("target", ["x.jsonl", "folder"])
def test_ctrl_c_leaves_nothing(target: str, tmp_path: Path) -> None:
    with Writer(tmp_path / "d.urec", {"n": "int64", "t": "text"}) as writer:
        writer.write_batch({"n": np.arange(100_000), "t": ["some text"] * 100_000})
    code = (
        "import sys, time, unirecord, unirecord.convert.sinks.jsonl as j\n"
        "real = j.batches\n"
        "def slow(rows):\n"
        "    for i, batch in enumerate(real(rows)):\n"
        "        print('batch', flush=True); time.sleep(0.05); yield batch\n"
        "j.batches = slow\n"
        "from unirecord.cli import main\n"
        f"sys.exit(main(['export', {str(tmp_path / 'd.urec')!r}, {str(tmp_path / target)!r}, '--to', 'jsonl']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while process.stdout.readline() != "batch\n":
        pass
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert sorted(os.listdir(tmp_path)) == ["d.urec", "d.urec.idx"]


def test_the_command_says_what_becomes_of_values(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(path), str(tmp_path / "x.tfrecord"), "--columns", "double,boxes"]) == 0
    out = capsys.readouterr().out
    assert "double: float64 is rounded to float32" in out
    assert "boxes: flat, its shape in boxes_shape" in out
    assert main(["export", str(path), str(tmp_path / "y"), "--to", "csv", "--parts", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x"], "does not say what to write"),
        (["x.jsonl", "--columns", "smal"], "did you mean 'small'"),
        (["x.jsonl", "--where", "smal > 1"], "smal"),
        (["x.jsonl", "--parts", "3"], "a file has no parts"),
        (["x.npz", "--parts", "3"], "a file has no parts"),
        (["x", "--to", "images", "--parts", "3"], "images has no parts"),
        (["x", "--to", "csv", "--parts", "0"], "parts must be"),
        (["no/x.csv"], "does not exist"),
        (["x", "--to", "images", "--columns", "small"], "one column of bytes"),
    ],
)
def test_a_wrong_call_is_refused(
    arguments: list[str], says: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(path), *arguments]) == 2
    assert says in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_a_column_whose_name_has_a_dot_is_refused_by_lance_before_anything_is_written(tmp_path: Path) -> None:
    with Writer(tmp_path / "p.urec", {"a.b": "int32", "n": "int32"}) as writer:
        writer.write({"a.b": 1, "n": 1})
    with pytest.raises(SchemaError, match=r"lance cannot hold 'a\.b'.*rename it first"):
        unirecord.export(tmp_path / "p.urec", tmp_path / "out.lance")
    assert not (tmp_path / "out.lance").exists()
    unirecord.export(tmp_path / "p.urec", tmp_path / "out.lance", columns=["n"])


def lance_full(*_: Any, **__: Any) -> None:
    raise OSError("LanceError(IO): No space left on device (os error 28), structural.rs:254:9")


def arrayrecord_full(*_: Any) -> None:
    raise RuntimeError(
        "write() failed: No space left on device; at byte 2097152; Failed to close chunk_writer"
    )


@pytest.mark.parametrize("kind", SINK_KINDS)
def test_a_full_disk_is_named_with_what_to_do(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance, "write_dataset", lance_full)  # these two write by themselves, in these words
    monkeypatch.setattr(array_record_module, "ArrayRecordWriter", arrayrecord_full)
    with Writer(tmp_path / "p.urec", {"image": "bytes", "path": "string"}) as writer:
        for i in range(4):
            writer.write({"image": os.urandom(100_000), "path": f"{i}.jpg"})

    def full(_: int, name: str) -> None:
        if name in ("write", "writev", "pwrite"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with (
        system(full),
        pytest.raises(OSError, match=r"No space left on device \(.*make room and write again\)") as refused,
    ):
        unirecord.export(tmp_path / "p.urec", tmp_path / "out", kind)
    assert refused.value.errno == errno.ENOSPC
    assert str(refused.value.filename).startswith(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["p.urec", "p.urec.idx"]


def test_a_full_disk_in_an_index_of_mindrecord_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(tmp_path / "p.urec", {"n": "int32"}) as writer:
        writer.write_batch({"n": np.arange(5_000, dtype=np.int32)})
    connect = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> Any:
        index = connect(*arguments, **options)
        index.execute("PRAGMA max_page_count=8")
        return index

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(OSError, match=r"No space left on device .*make room") as refused:
        unirecord.export(tmp_path / "p.urec", tmp_path / "out", "mindrecord")
    assert refused.value.errno == errno.ENOSPC
    assert str(refused.value.filename).endswith("data.mindrecord.db")
    assert sorted(os.listdir(tmp_path)) == ["p.urec", "p.urec.idx"]
