"""``unirecord write`` from pipes, from folders with surprises in them, and with the classes of another dataset."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from command_results import failed, rows
from hang import HANG_SECONDS
from image_folders import folder, picture

from unirecord import SchemaError, UniRecordDataset, Writer, write_dataset
from unirecord.cli import main, write
from unirecord.convert.sources import KINDS, SOURCES

CSV = "id,name\n1,ann\n2,bob\n"
ROWS = [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def piped(text: str, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unirecord", "write", *argv]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )


@pytest.mark.parametrize("source", ["-", "/dev/stdin"])
@pytest.mark.parametrize(("kind", "text"), [("csv", CSV), ("jsonl", JSONL)])
def test_standard_input_is_read_whole(here: Path, source: str, kind: str, text: str) -> None:
    done = piped(text, source, "d.urec", "--from", kind)
    assert (done.returncode, done.stderr) == (0, "")
    assert "was copied first" in done.stdout
    assert "wrote 2 rows" in done.stdout
    assert rows("d.urec") == ROWS


@pytest.mark.parametrize(("kind", "text"), [("csv", CSV), ("jsonl", JSONL)])
def test_a_named_pipe_is_read_whole(here: Path, kind: str, text: str) -> None:
    os.mkfifo(f"pipe.{kind}")
    feeder = threading.Thread(target=(here / f"pipe.{kind}").write_text, args=(text,), daemon=True)
    feeder.start()
    assert main(["write", f"pipe.{kind}", "d.urec"]) == 0
    assert rows("d.urec") == ROWS


def test_a_pipe_is_copied_up_to_a_bound(here: Path) -> None:
    done = piped("a\n" + "1\n" * 5000, "-", "d", "--from", "csv", "--max-spool-bytes", "9KB")
    assert done.returncode == 1
    assert "standard input delivers more than 9.0 KB" in done.stderr
    assert os.listdir(here) == []


def test_a_pipe_where_no_copy_has_room_says_where(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("pipe.csv")
    feeder = threading.Thread(target=(here / "pipe.csv").write_text, args=("a\n" + "1\n" * 50,), daemon=True)
    feeder.start()
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: open("/dev/full", "w+b"))  # noqa: SIM115
    assert main(["write", "pipe.csv", "d.urec"]) == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert f"pipe.csv in {tempfile.gettempdir()} (TMPDIR says where)" in said


def test_a_pipe_without_a_kind_or_content_is_refused(here: Path) -> None:
    done = piped(CSV, "-", "d")
    assert (done.returncode, "say so with --from csv or jsonl" in done.stderr) == (2, True)
    for kind in ("csv", "jsonl"):
        done = piped("", "-", "d", "--from", kind)
        assert done.returncode == 1
        assert done.stderr.startswith("unirecord: standard input ")
    assert os.listdir(here) == []


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["/dev/zero", "d", "--from", "csv"], 1, "is a device or a socket"),
        (["x.csv", "d", "--from", "images"], 2, "x.csv is a file; images are read from a folder"),
        (["p", "d", "--from", "csv"], 2, "p is a folder; csv are read from a file"),
        (["x.dat", "d"], 2, "say so with --from csv or jsonl"),
        (["ours", "d", "--check-pictures"], 2, "--check-pictures is for images; ours is read as unirecord"),
        (
            ["x.csv", "d", "--from", "unirecord"],
            2,
            "x.csv is a file; unirecord are read from a directory with",
        ),
        (["", "d"], 2, "the source is an empty path"),
        (["~/none.csv", "d"], 2, "the shell replaces ~ only when it is not quoted"),
        (["gone.csv", "d"], 2, "gone.csv is a link to nowhere, which does not exist"),
        (["x.csv", "d", "--check-pictures"], 2, "--check-pictures is for images; x.csv is read as csv"),
        (["x.csv", "d", "--report", "x.csv"], 2, "x.csv exists already"),
        (["x.csv", "d", "--report", "x.csv", "--overwrite"], 2, "x.csv is what is read or written"),
        (["x.csv", "d", "--report", "no/r.jsonl"], 2, "the folder of no/r.jsonl does not exist"),
        (["x.csv", "d", "--classes-from", "none"], 2, "there are no classes to number in x.csv"),
        (["p", "d", "--classes-from", "none"], 2, "none: there is no such file"),
        (["x.csv", "d", "--clases-from", "none"], 2, "did you mean '--classes-from'"),
    ],
)
def test_a_wrong_call_says_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, said: str
) -> None:
    (here / "x.csv").write_text(CSV)
    (here / "x.dat").write_text(CSV)
    os.symlink("nowhere", here / "gone.csv")
    folder(here / "p", {"a/1.png": picture(1, 1)})
    for name in ("ours", "ours.urec"):
        write_dataset([{"a": 1}], name)
    before = sorted(os.listdir(here))
    failed(capsys, code, said, "write", *argv)
    assert sorted(os.listdir(here)) == before
    assert (here / "x.csv").read_text() == CSV


def test_a_dry_run_of_no_rows_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "x.csv").write_text("a,b\n")
    assert main(["write", "x.csv", "d", "--dry-run"]) == 0
    assert "nothing was written; there are no rows" in capsys.readouterr().out


def test_a_source_that_changes_while_it_is_read_publishes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in SOURCES:
        monkeypatch.setattr(source, "read", lambda self, unit: iter(()))
    (here / "x.csv").write_text(CSV)
    (here / "x.jsonl").write_text(JSONL)
    folder(here / "p", {"1.png": picture(1, 1)})
    before = sorted(os.listdir(here))
    for path in ("x.csv", "x.jsonl", "p"):
        failed(capsys, 1, "it changes while it is read, so nothing was published", "write", path, "d")
        assert sorted(os.listdir(here)) == before


def test_an_infinity_out_of_nothing_is_refused_by_row_and_field(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "x.jsonl").write_text('{"a": 1.5}\n{"a": 1e400}\n')
    failed(capsys, 1, "x.jsonl, line 2, field 'a': the number 1e400", "write", "x.jsonl", "d")
    assert not (here / "d").exists()


def test_what_is_left_out_is_in_the_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = picture(40, 40)
    files = {"a/1.png": whole, "a/2.png": whole[:900], "a/3.png": b"", "a/notes.txt": b"x", "b/1.png": whole}
    folder(here / "p", files)
    os.mkfifo(here / "p" / "b" / "pipe.png")
    call = ["write", "p", "d.urec", "--check-pictures", "--report", "left.jsonl"]
    assert main([*call, "--on-error", "skip"]) == 0
    out, err = capsys.readouterr()
    assert "wrote 2 rows" in out
    assert "1 file: by name it is no picture" in out
    assert "3 pictures could not be read or did not fit, left out" in err
    assert "listed in left.jsonl" in err
    found = {line["file"]: line["reason"] for line in map(json.loads, (here / "left.jsonl").open())}
    assert sorted(found) == ["a/2.png", "a/3.png", "a/notes.txt", "b/pipe.png"]
    assert "cannot be decoded" in found["a/2.png"]
    assert found["b/pipe.png"] == "it is a pipe, not a regular file"
    (here / "p" / "a" / "2.png").unlink()
    args = ["write", "p", "d.urec", "--check-pictures", "--report", "left.jsonl", "--overwrite"]
    assert main(args) == 1
    assert len((here / "left.jsonl").read_text().splitlines()) == 3


def test_a_share_without_rows_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.csv").write_text("id,label\n" + "".join(f"{i},{i % 2}\n" for i in range(50)))
    assert main(["write", "t.csv", "t", "--split", "train=0.9,val=0.1", "--split-by", "label"]) == 0
    out, err = capsys.readouterr()
    assert "val: wrote 0 rows" in out
    assert "no row has gone to val" in err
    assert main(["write", "t.csv", "u", "--split", "train=0.9,val=0.1", "--stratify", "label"]) == 0
    assert capsys.readouterr().err == ""


def test_a_split_is_written_with_the_classes_of_its_training_set(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = picture(1, 1)
    train = {f"train/{name}/1.png": small for name in ("2", "10", "dog", "owl")}
    folder(here / "p", {**train, "val/10/1.png": small, "val/owl/1.png": small})
    assert main(["write", "p/train", "train"]) == 0
    assert main(["write", "p/val", "val", "--classes-from", "train"]) == 0
    assert [(r["class"], r["label"]) for r in rows("train")] == [("2", 0), ("10", 1), ("dog", 2), ("owl", 3)]
    assert [(r["class"], r["label"]) for r in rows("val")] == [("10", 1), ("owl", 3)]
    with UniRecordDataset(["train", "val"]) as both:
        assert len(both) == 6
    assert main(["write", "p/val", "alone"]) == 0
    for together in (["train", "alone"], "[at][rl][ao][in]*"):
        with pytest.raises(
            SchemaError, match=r"classes otherwise than .*: label 0 is '(2|10)', not '(2|10)'"
        ):
            UniRecordDataset(together)
    capsys.readouterr()
    failed(capsys, 1, "numbers its classes otherwise than train/", "inspect", "train", "alone")
    folder(here / "q", {"cat/1.png": small})
    failed(capsys, 1, "class 'cat', which the dataset has not", "write", "q", "d", "--classes-from", "train")
    failed(
        capsys, 2, "numbers its classes otherwise than train",
        "write", "p/val", "train", "--append", "--classes-from", "alone",
    )  # fmt: skip
    (here / "x.csv").write_text(CSV)
    assert main(["write", "x.csv", "x"]) == 0
    failed(capsys, 2, "x has no list of classes", "write", "p/val", "d", "--classes-from", "x")


def test_folders_are_numbered_as_the_labels_of_a_dataset_are(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"type": "class", "names": ["owl", "dog", "2"]}
    schema = {"image": "bytes", "label": {"type": "int32", "logical": names}}
    with Writer("named", schema) as writer:
        writer.write({"image": picture(1, 1), "label": 2})
    folder(here / "p", {"dog/1.png": picture(1, 1), "owl/1.png": picture(1, 1)})
    assert main(["write", "p", "q", "--classes-from", "named"]) == 0
    assert [(r["class"], r["label"]) for r in rows("q")] == [("dog", 1), ("owl", 0)]
    assert UniRecordDataset("q").schema["label"].logical == names
    assert main(["write", "p", "named", "--append", "--columns", "image,label"]) == 0
    assert [r["label"] for r in rows("named")] == [2, 1, 0]
    folder(here / "r", {"cat/1.png": picture(1, 1)})
    failed(capsys, 1, "class 'cat', which the dataset has not", "write", "r", "named", "--append")


def test_rows_without_classes_are_appended_to_a_dataset_that_names_some(here: Path) -> None:
    with Writer("d", {"id": "int64", "name": "string"}, metadata={"classes": ["a"]}) as writer:
        writer.write({"id": 0, "name": "eve"})
    (here / "x.csv").write_text(CSV)
    assert main(["write", "x.csv", "d", "--append"]) == 0
    assert rows("d") == [{"id": 0, "name": "eve"}, *ROWS]


@pytest.mark.parametrize("metadata", [None, {}, {"classes": 3}, {"classes": [1, 2]}, ["classes"]])
def test_metadata_without_a_list_of_classes_is_opened_together_with_any(here: Path, metadata: Any) -> None:
    for name, given in (("a.urec", metadata), ("b.urec", {"classes": ["x"]})):
        with Writer(name, {"label": "int32"}, metadata=given) as writer:
            writer.write({"label": 0})
    with UniRecordDataset(["a.urec", "b.urec"]) as both:
        assert len(both) == 2


def test_the_command_knows_no_source_by_name() -> None:
    tree = ast.parse(Path(write.__file__).read_text())
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert not texts & set(KINDS)
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    modules = {source.__module__.rpartition(".")[2] for source in SOURCES}
    assert not {name.rpartition(".")[2] for name in imported if name} & modules


def test_each_source_says_what_it_is_and_its_flags_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["write", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for source in SOURCES:
        assert source.about in shown
        for option in source.options:
            value = "" if option.metavar is None else f" {option.metavar}"
            assert f"--{option.name.replace('_', '-')}{value} {option.help}" in shown
            assert option.name in source.takes()
