"""``unirecord write``: what lands in the dataset, what is printed, and what each failure says and leaves behind."""

from __future__ import annotations

import inspect
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_results import failed, rows
from hang import HANG_SECONDS
from image_folders import folder, picture

from unirecord import SchemaError, UniRecordDataset, Writer, write_dataset
from unirecord.cli import main
from unirecord.cli.write import write_command
from unirecord.convert.sources import SOURCES

CSV = "id,name,score\n1,ann,0.5\n2,bob,\n3,,2.5\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(CSV)
    return tmp_path


def test_a_csv_becomes_a_dataset(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["write", "t.csv", "t.urec", "--index", "id,name"]) == 0
    assert rows("t.urec") == [
        {"id": 1, "name": "ann", "score": 0.5},
        {"id": 2, "name": "bob", "score": None},
        {"id": 3, "name": None, "score": 2.5},
    ]
    out, err = capsys.readouterr()
    assert err == ""
    assert "string?, indexed" in out
    assert "wrote 3 rows in 1 part" in out


def test_json_lines_become_a_directory(here: Path) -> None:
    records = [{"a": i, "v": [i, i + 1], "m": {"k": [None, "x"]}} for i in range(10)]
    (here / "t.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    assert main(["write", "t.jsonl", "t"]) == 0
    assert [{**r, "v": r["v"].tolist()} for r in rows("t")] == records


def test_pictures_become_a_dataset(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = picture(4, 3)
    folder(here / "p", {"cat/1.png": small, "dog/2.jpg": picture(2, 2, "JPEG"), "notes.txt": b"x"})
    assert main(["write", "p", "p.urec", "--index", "label"]) == 0
    out = capsys.readouterr().out
    assert "2 classes: cat, dog" in out
    assert "1 file: by name it is no picture" in out
    assert rows("p.urec")[0] == {
        "image": small, "label": 0, "class": "cat", "path": "cat/1.png", "width": 4, "height": 3,
    }  # fmt: skip
    with UniRecordDataset("p.urec") as dataset:
        assert dataset.schema["image"].type == "bytes"


@pytest.mark.parametrize("more", [["--dry-run"], [], ["--split", "a=0.5,b=0.5"]])
def test_fields_that_get_other_names_are_listed_once(
    more: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "odd.csv").write_text("first\x01name,id\nx,1\ny,2\n")
    assert main(["write", "odd.csv", "odd", *more]) == 0
    out = capsys.readouterr().out
    assert out.count(r"field 'first\x01name': is called 'first_name'") == 1
    assert "left out, or not as in the source:\n  field" in out


def test_bad_pictures_are_named_and_exit_1_unless_told(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(here / "p", {"cat/1.png": picture(4, 3), "cat/2.png": b"no picture"})
    assert main(["write", "p", "p.urec"]) == 1
    assert "cat/2.png: its first bytes are those of no known picture format" in capsys.readouterr().err
    assert len(rows("p.urec")) == 1
    assert main(["write", "p", "p.urec", "--overwrite", "--on-error", "skip"]) == 0
    assert "cat/2.png" in capsys.readouterr().err


def test_schema_columns_and_limit(here: Path) -> None:
    args = ["--schema", "id=int8,score=float32?", "--columns", "score,id", "--limit", "2"]
    assert main(["write", "t.csv", "t.urec", *args]) == 0
    with UniRecordDataset("t.urec") as dataset:
        assert dataset.schema.to_spec() == {"score": "float32?", "id": "int8"}
    assert rows("t.urec") == [{"score": 0.5, "id": 1}, {"score": None, "id": 2}]
    assert main(["write", "t.csv", "none.urec", "--limit", "0"]) == 0
    assert rows("none.urec") == []


def test_parts_roll_over_by_size(here: Path) -> None:
    folder(here / "p", {f"a/{i:03}.png": picture(16, 16) for i in range(40)})
    assert main(["write", "p", "d", "--max-part-bytes", "10KB"]) == 0
    assert len(list((here / "d").glob("*.urec"))) > 1
    assert [r["path"] for r in rows("d")] == [f"a/{i:03}.png" for i in range(40)]


def test_overwrite_and_append(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["write", "t.csv", "d"]) == 0
    failed(capsys, 2, "--overwrite replaces it, --append adds to a directory", "write", "t.csv", "d")
    # The new rows alone would be int64 and not nullable; they take the types of those that are there.
    (here / "more.csv").write_text("id,name,score\n4,dan,1\n")
    assert main(["write", "more.csv", "d", "--append"]) == 0
    assert [r["id"] for r in rows("d")] == [1, 2, 3, 4]
    assert "wrote 1 row (now 4) in 2 parts" in capsys.readouterr().out
    assert main(["write", "more.csv", "d", "--overwrite"]) == 0
    assert [r["id"] for r in rows("d")] == [4]
    failed(capsys, 2, "a single part cannot grow", "write", "t.csv", "x.urec", "--append")
    assert main(["write", "t.csv", "new", "--append"]) == 0
    assert len(rows("new")) == 3


def test_appended_pictures_keep_the_numbers_of_their_classes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(here / "p", {"cat/1.png": picture(4, 3), "dog/2.png": picture(2, 2)})
    folder(here / "q", {"dog/3.png": picture(2, 2)})
    folder(here / "r", {"owl/3.png": picture(2, 2)})
    assert main(["write", "p", "d"]) == 0
    assert main(["write", "q", "d", "--append"]) == 0
    assert [(r["class"], r["label"]) for r in rows("d")] == [("cat", 0), ("dog", 1), ("dog", 1)]
    capsys.readouterr()
    failed(capsys, 1, "class 'owl', which the dataset has not", "write", "r", "d", "--append")


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["write", "none.csv", "d"], 2, "none.csv does not exist"),
        (["write", "t.csv", "no/such/d"], 2, "does not exist; make it first"),
        (["write", "t.csv", "d", "--schema", "id=in32"], 2, "did you mean 'int32'"),
        (["write", "t.csv", "d", "--schema", "ident=int32"], 1, "no column 'ident' in the data"),
        (
            ["write", "t.csv", "d", "--schema", "name=int32"],
            1,
            "t.csv, line 2, column 'name': 'ann' is no int32",
        ),
        (["write", "t.csv", "d", "--schema", "score=float32"], 1, 'the type "float32?" allows that'),
        (["write", "t.csv", "d", "--schema", "id=uint8,name=bytes,score=bool?"], 1, "'0.5' is no bool"),
        (["write", "t.csv", "d", "--index", "idd"], 2, "no column 'idd'; did you mean 'id'"),
        (
            ["write", "t.csv", "d", "--index", "id", "--schema", "id=object"],
            2,
            "only numbers, bool and strings",
        ),
        (["write", "t.csv", "d", "--columns", "id,z"], 2, "--columns: there is no column 'z'"),
        (
            ["write", "t.csv", "d", "--max-part-bytes", "20 parsecs"],
            2,
            "unirecord write: argument --max-part-bytes: ",
        ),
        (["write", "t.csv", "d", "--limit", "-1"], 2, "'-1' is not a whole number"),
        (["write", "t.csv", "d", "--overwrite", "--append"], 2, "not allowed with"),
        (["write", "t.csv"], 2, "DST; unirecord write --help shows how it is called"),
        (["write", "t.csv", "d", "--from", "excel"], 2, "there is no 'excel'"),
        (["write", ".", "d", "--from", "images"], 1, "holds no pictures"),
        ([], 2, "usage:"),
        (["wirte"], 2, "did you mean 'write'"),
    ],
)
def test_a_failure_is_one_line_and_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, said: str
) -> None:
    failed(capsys, code, said, *argv)
    assert sorted(os.listdir(here)) == ["t.csv"]


def test_debug_shows_the_traceback(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["write", "none.csv", "d", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--help"], ["write", "--help"], ["inspect", "--help"], ["verify", "--help"]]
)
def test_help_shows_examples(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 0
    assert "examples:\n  unirecord " in capsys.readouterr().out


def test_a_terminal_that_lacks_a_character_gets_its_escape(here: Path) -> None:
    argv = [sys.executable, "-m", "unirecord", "write", "t.csv", "t.urec"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run(argv, capture_output=True, env=environment, check=True)
    assert b"t.csv \\u2192 t.urec" in found.stdout


def test_a_reader_that_goes_away_is_no_error(here: Path) -> None:
    assert main(["write", "t.csv", "t.urec"]) == 0
    ours, theirs = os.pipe()
    os.close(ours)
    argv = [sys.executable, "-m", "unirecord", "inspect", "t.urec"]
    found = subprocess.run(argv, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (found.returncode, found.stderr) == (0, b"")


def _big_csv(path: Path) -> None:
    path.write_text("id,name\n" + "".join(f"{i},n{i % 100}\n" for i in range(400_000)))


def _on_a_terminal(argv: list[str], interrupt_when: bytes = b"") -> tuple[int, str]:
    """Run the command with a terminal for output; with SIGINT once it has printed ``interrupt_when``."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "unirecord", *argv], stdout=theirs, stderr=theirs, close_fds=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )  # fmt: skip
    os.close(theirs)
    out, sent, deadline = b"", False, time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        out += piece
        if interrupt_when and not sent and interrupt_when in out:
            process.send_signal(signal.SIGINT)
            sent = True
    os.close(ours)
    return process.wait(HANG_SECONDS), out.decode()


def test_a_terminal_shows_progress_and_a_pipe_does_not(here: Path) -> None:
    _big_csv(here / "big.csv")
    code, out = _on_a_terminal(["write", "big.csv", "a.urec"])
    assert code == 0
    assert "looking through" in out
    assert "writing  " in out
    # The last thing is the summary, on a line that the bar has left clean; it has the rate however short it took.
    summary = out.rstrip().splitlines()[-1].rpartition("\x1b[K")[2]
    assert summary.startswith("wrote 400,000 rows in 1 part")
    assert summary.endswith(" rows/s")
    argv = [sys.executable, "-m", "unirecord", "write", "big.csv", "b.urec"]
    piped = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    assert "\r" not in piped.stdout


def test_an_interrupt_leaves_what_was_there(here: Path) -> None:
    _big_csv(here / "big.csv")
    assert main(["write", "t.csv", "d"]) == 0
    before = sorted(os.listdir(here / "d"))
    code, out = _on_a_terminal(["write", "big.csv", "d", "--overwrite"], interrupt_when=b"writing")
    assert code == 130
    assert "interrupted; nothing was published" in out
    assert "Traceback" not in out
    assert sorted(os.listdir(here / "d")) == before
    assert len(rows("d")) == 3


@pytest.mark.parametrize(
    "metadata",
    ["made by hand", [1, 2], 7, {"classes": 5}, {"class_names": [1]}, {"class_names": {"label": 3}}],
    ids=repr,
)
@pytest.mark.parametrize(
    "more", [[], ["--limit", "2"], ["--rename", "label=n"], ["--sample", "2"], ["--sort", "label"]]
)
def test_a_dataset_with_any_metadata_is_written_anew(
    tmp_path: Path, metadata: object, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with Writer(tmp_path / "a", {"label": "int64", "b": "bytes"}, metadata=metadata) as writer:
        writer.write_batch({"label": [1, 0, 2], "b": [b"x"] * 3})
    assert main(["write", str(tmp_path / "a"), str(tmp_path / "b"), *more]) == 0, capsys.readouterr().err
    assert UniRecordDataset(tmp_path / "b").metadata is not None


def test_the_command_and_write_dataset_take_the_same_by_the_same_names() -> None:
    actions = write_command.parser("write")._actions
    command = {action.dest for action in actions} - {"help", "debug", "no_cache"}  # which it refuses
    called = {"source": "source", "target": "path", "storage_option": "storage_options"}
    of_sources = {option.name for source in SOURCES for option in source.options}
    function = set(inspect.signature(write_dataset).parameters) - {"options"}
    assert {called.get(name, name) for name in command} - of_sources == function - {"names", "metadata"}
    assert "names" in of_sources  # as the function has it, of tuples too; metadata is what a program knows


def test_what_the_command_can_do_the_function_can(here: Path) -> None:
    assert main(["write", "t.csv", "command", "--codec", "none", "--id", "0" * 32]) == 0
    told: list[int] = []
    done = write_dataset(
        "t.csv", "function", codec="none", id=bytes(16), progress=lambda standing: told.append(standing.rows)
    )
    assert (done, done.schema.names) == (3, ("id", "name", "score"))
    assert told[-1] == 3
    for file in Path("command").iterdir():
        assert file.read_bytes() == (Path("function") / file.name).read_bytes()
    assert main(["write", "t.csv", "command", "--append"]) == 0
    assert write_dataset("t.csv", "function", append=True) == 3
    assert rows("command") == rows("function")
    assert len(rows("function")) == 6


def test_a_dry_run_of_the_function_writes_nothing(here: Path) -> None:
    found = write_dataset("t.csv", "x", dry_run=True, where="id > 1")
    assert not Path("x").exists()
    assert found == 2
    assert found.bytes is not None
    assert write_dataset([{"a": 1}], "x.urec", dry_run=True) == 1
    assert write_dataset(({"a": i} for i in range(3)), "x.urec", dry_run=True) == 0
    assert not list(here.glob("x*"))


def test_classes_codecs_and_appends_are_refused_alike(here: Path) -> None:
    with pytest.raises(SchemaError, match=r"--classes-from: there are no classes to number in t\.csv"):
        write_dataset("t.csv", "x", classes_from="x")
    with pytest.raises(SchemaError, match="--codec: 'id' is no blob column"):
        write_dataset("t.csv", "x", codec={"id": "zstd"})
    with pytest.raises(ValueError, match="append= adds to the directory"):
        write_dataset("t.csv", "x.urec", append=True)
    with pytest.raises(ValueError, match="engine= and resume= are for a directory"):
        write_dataset("t.csv", "x.urec", engine=lambda *_: None)
    assert not list(here.glob("x*"))
