"""What an error advises works: each hint of the table is followed, and what it promises is there."""

from __future__ import annotations

import io
import json
import re
import shlex
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from test_sources_images import picture

import unirecord
from unirecord import UniRecordDataset
from unirecord.cli.main import main


class Hint(NamedTuple):
    """A command that is refused in the folder that ``make`` has made, what it says, and the command that it advises.

    A group of ``said`` goes into ``then`` in the place of ``{}``. ``rows``: how many there are then, in ``out``.
    """

    make: Callable[[Path], Any]
    command: str
    said: str
    then: str
    rows: int


def csv(folder: Path) -> None:
    (folder / "a.csv").write_text("k,n\n1,10\n2,20\n3,30\n")
    (folder / "some.csv").write_text("k,n,more\n2,99,5\n")


def dataset(folder: Path) -> None:
    csv(folder)
    assert main(["write", "a.csv", "out"]) == 0
    assert main(["write", "a.csv", "out.urec"]) == 0


def arrays(folder: Path) -> None:
    np.savez(folder / "a.npz", x=np.zeros((3, 2)), y=np.arange(3), z=np.zeros(5))


def one_value(folder: Path) -> None:
    np.savez(folder / "a.npz", x=np.zeros((3, 2)), version=np.int64(1))


def shards(folder: Path) -> None:
    for i in range(3):
        with tarfile.open(folder / f"x-{i:04}.tar", "w") as tar:
            info = tarfile.TarInfo(f"k{i}.cls")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"7"))


def unpaired(folder: Path) -> None:
    for name in ("images/a.png", "masks/b.png"):
        (folder / "in" / name).parent.mkdir(parents=True)
        (folder / "in" / name).write_bytes(picture(2, 2))


def not_utf8(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"one\n\xff\n")


def without_header(folder: Path) -> None:
    (folder / "a.csv").write_text('one|"two, and|three\nfour|five" six|seven\n')


def split_folders(folder: Path) -> None:
    for name in ("train", "val"):
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / f"{name}.csv").write_text("k\n1\n2\n")


ADD = "add-columns out some.csv --key k --columns"
HINTS = {
    "there already: overwrite": Hint(
        dataset, "write a.csv out", "(--overwrite) replaces it", "write a.csv out {}", 3
    ),
    "there already: append": Hint(
        dataset, "write a.csv out", "(--append) adds to a directory", "write a.csv out {}", 6
    ),
    "a part: overwrite": Hint(
        dataset, "write a.csv out.urec", "(--overwrite) replaces it", "write a.csv out.urec {}", 3
    ),
    "no such key: nullable": Hint(
        dataset, f"{ADD} more", r"--schema '(more=int64\?)'", f"{ADD} more --schema '{{}}'", 3
    ),
    "no such key: keep": Hint(
        dataset,
        f"{ADD} n --replace",
        r"\((--keep)\) leaves those rows their values",
        f"{ADD} n --replace {{}}",
        3,
    ),
    "there is a column": Hint(
        dataset,
        "add-columns out a.csv --key k",
        "replace=True gives it the new values",
        "add-columns out a.csv --key k --replace",
        3,
    ),
    "other lengths": Hint(
        arrays,
        "write a.npz out",
        "--columns chooses some that do, such as (x,y)",
        "write a.npz out --columns {}",
        3,
    ),
    "a single value": Hint(
        one_value, "write a.npz out", "--columns chooses the others", "write a.npz out --columns x", 3
    ),
    "no header, no quoting": Hint(
        without_header,
        "write a.csv out",
        r"--delimiter C, --names A,B \(there is no header line\), (--quoting none)",
        "write a.csv out --delimiter '|' --names a,b,c {}",
        2,
    ),
    "braces": Hint(shards, "write 'x-{0000..0002}.tar' out", r"several: ('x-\*.tar')", "write {} out", 3),
    "several names": Hint(
        shards,
        "write x-0000.tar x-0001.tar x-0002.tar out",
        "a pattern in quotes names several files",
        "write 'x-*.tar' out",
        3,
    ),
    "no pairs": Hint(
        unpaired, "write in out", "(--from images) takes the folders as classes", "write in out {}", 2
    ),
    "not UTF-8": Hint(not_utf8, "write a.txt out", "(--schema text=bytes) takes it", "write a.txt out {}", 2),
    "a split": Hint(split_folders, "write in out", r"`unirecord (write 'in/train\*') train`", "{} out", 2),
}


@pytest.mark.parametrize("name", HINTS)
def test_what_an_error_advises_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    hint = HINTS[name]
    monkeypatch.chdir(tmp_path)
    hint.make(tmp_path)
    capsys.readouterr()
    status: Any = None
    try:
        status = main(shlex.split(hint.command))
    except SystemExit as refused:  # as the parser of the command line ends
        status = refused.code
    assert status in (1, 2)
    error = capsys.readouterr().err
    found = re.search(hint.said, error)
    assert found, error
    then = hint.then.replace("{}", *found.groups()) if found.groups() else hint.then
    assert main(shlex.split(then)) == 0, capsys.readouterr().err
    with UniRecordDataset("out.urec" if "out.urec" in then else "out") as ds:
        assert len(ds) == hint.rows


@pytest.mark.parametrize(
    ("command", "there"),
    [
        ("write a.csv out", "file"),
        ("write a.csv out --overwrite", "file"),
        ("write a.csv new.urec --split train=0.5,val=0.5", None),
        ("write a.csv out --overwrite", "folder"),
    ],
)
def test_no_option_is_advised_that_does_not_help(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    there: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    csv(tmp_path)
    if there == "file":
        (tmp_path / "out").write_text("x")
    elif there == "folder":
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine.txt").write_text("x")
    assert main(shlex.split(command)) in (1, 2)
    error = capsys.readouterr().err
    assert "--overwrite" not in error
    assert "overwrite=True" not in error
    assert "--append" not in error


def test_a_class_that_is_compared_with_its_label_is_given_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = {"type": "int32", "annotations": {"classes": ["cat", "dog"]}}
    with unirecord.Writer(tmp_path / "x", {"label": label}) as writer:
        writer.write_batch({"label": [0, 1, 1]})
    ask = ["inspect", str(tmp_path / "x"), "--count", "--where"]
    assert main([*ask, "label == 'dog'"]) == 2
    found = re.search("the class 'dog' has the number (1)", capsys.readouterr().err)
    assert found
    assert main([*ask, f"label == {found.group(1)}"]) == 0
    assert capsys.readouterr().out == "2\n"
    assert main([*ask, "label == 'cow'"]) == 2
    assert "has the number" not in capsys.readouterr().err


def test_a_codec_is_given_in_the_schema(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"t": "x" * 9_000}) + "\n")
    for source in (tmp_path / "a.jsonl", [{"t": "x" * 9_000}]):
        with pytest.raises(
            TypeError, match=r'no option codec=; schema= says it of a column.*"codec": "zstd"'
        ):
            unirecord.write_dataset(source, tmp_path / "x", codec="zstd")
        schema = {"t": {"type": "text", "codec": "zstd"}}
        unirecord.write_dataset(source, tmp_path / "x", schema=schema, overwrite=True)
        assert [one.codec for one in unirecord.describe(tmp_path / "x").columns] == ["zstd"]


def test_rows_that_lack_a_column_are_appended_where_it_can_be_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset(tmp_path)
    (tmp_path / "b.jsonl").write_text('{"n": 40, "k": 4}\n')
    unirecord.add_columns("out", {"pred": "int32?", "said": "text?"}, {"pred": [7] * 3, "said": ["x"] * 3})
    assert main(["write", "a.csv", "out", "--append"]) == 0
    assert "pred, said: null, as the source has no such column" in capsys.readouterr().out
    assert main(["write", "b.jsonl", "out", "--append"]) == 0
    with UniRecordDataset("out") as ds:
        assert [(s["k"], s["n"], s["pred"], s["said"]) for s in ds] == [
            *((k, 10 * k, 7, "x") for k in (1, 2, 3)), *((k, 10 * k, None, None) for k in (1, 2, 3, 4)),
        ]  # fmt: skip
    unirecord.add_columns("out", {"must": "int32"}, {"must": [1] * 7})
    assert main(["write", "a.csv", "out", "--append"]) == 2
    assert (
        "has no column 'must', which the dataset has and which cannot be null there"
        in capsys.readouterr().err
    )
    (tmp_path / "c.csv").write_text("k,n,must\n5,50,2\n")  # add it to the source
    assert main(["write", "c.csv", "out", "--append"]) == 0
    assert main(["write", "c.csv", "out", "--append", "--schema", "nope=int8"]) == 1
    assert "there is no column 'nope' in the data" in capsys.readouterr().err


def test_a_state_of_windows_is_told_from_that_of_another_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    with unirecord.Writer(path, {"tokens": "uint16[-1]"}) as writer:
        for i in range(40):
            writer.write({"tokens": np.arange(1 + i % 9, dtype=np.uint16)})
    plain = UniRecordDataset(path, shuffle=True, seed=1)
    made = {"packed": plain.packed("tokens", 16), "windows": plain.windows("tokens", 4)}
    for name, ds in made.items():
        state = ds.batches(2).state_dict()
        (tmp_path / "s.json").write_text(json.dumps(state))
        assert main(["trace", str(path), "--state", str(tmp_path / "s.json"), "--batch", "2"]) == 2
        assert re.search(r"s\.json is of (windows|packed samples) of the column", capsys.readouterr().err)
        with pytest.raises(unirecord.StaleError, match="it is of windows or packed samples"):
            plain.load_state_dict(state)
        with pytest.raises(
            unirecord.StaleError, match="it is of rows, and this has windows or packed samples"
        ):
            ds.load_state_dict(plain.state_dict())
        again = getattr(UniRecordDataset(path, shuffle=True, seed=1), name)(
            "tokens", 16 if name == "packed" else 4
        )
        again.batches(2).load_state_dict(state)  # into what it was called of


def test_receipts_of_a_mixture_are_compared_with_its_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("web", "code"):
        with unirecord.Writer(tmp_path / name, {"i": "int32"}) as writer:
            writer.write_batch({"i": np.arange(50, dtype=np.int32)})
    mixed = unirecord.mix({n: UniRecordDataset(tmp_path / n) for n in ("web", "code")}, seed=1)
    for _ in mixed.batches(5, receipts=tmp_path / "rc"):
        pass
    command = ["audit", str(tmp_path / "rc"), "--dataset"]
    assert main([*command, str(tmp_path / "web")]) == 2
    assert (
        "holds receipts of a mixture: give each of its sources, web=PATH, code=PATH"
        in capsys.readouterr().err
    )
    named = [f"{name}={tmp_path / name}" for name in ("web", "code")]
    assert main([*command, *named]) == 0
    assert "with the rows that the dataset gives there" in capsys.readouterr().out
    assert main([*command, *reversed(named)]) == 0
    page = [
        "report",
        str(tmp_path / "rc"),
        "--dataset",
        named[0],
        "--dataset",
        named[1],
        str(tmp_path / "p.html"),
    ]
    assert main(page) == 0
    swapped = [f"web={tmp_path / 'code'}", f"code={tmp_path / 'web'}"]
    capsys.readouterr()
    assert main([*command, *swapped]) == 1
    with unirecord.Writer(tmp_path / "one", {"i": "int32"}) as writer:
        writer.write_batch({"i": np.arange(9, dtype=np.int32)})
    for _ in UniRecordDataset(tmp_path / "one").batches(5, receipts=tmp_path / "rc1"):
        pass
    assert (
        main(["audit", str(tmp_path / "rc1"), "--dataset", str(tmp_path / "one"), str(tmp_path / "web")]) == 2
    )
    assert "holds receipts of one dataset, and --dataset names 2" in capsys.readouterr().err
