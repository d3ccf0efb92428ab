"""Paths that name no dataset: what was probably meant, in Python and in every command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from unirecord import (
    MissingError,
    QueryError,
    UniRecordDataset,
    UniRecordError,
    Writer,
    describe,
    repair,
    verify,
)
from unirecord.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("people.urec", "train", "sub"):
        with Writer(name, {"a": "int32", "city": "string"}) as writer:
            writer.write({"a": 1, "city": "Bern"})
    os.symlink("gone", tmp_path / "link.urec")
    return tmp_path


WRONG: list[tuple[Any, str]] = [
    ("", "the path is empty"),
    (["people.urec", ""], "the path is empty"),
    ("people.urec.idx", "is the index of a part; name the part itself: people.urec"),
    ("none.urec.idx", "is the index of a part; name the part itself: none.urec"),
    ("train/manifest.json", "name the directory: train"),
    ("people", "did you mean 'people.urec'?"),
    ("./people", "did you mean './people.urec'?"),
    ("train.urec", "did you mean 'train'?"),
    ("poeple.urec", "did you mean 'people.urec'?"),
    ("people.urec/", "did you mean 'people.urec'?"),
    ("none/x.urec", "there is no directory 'none' either"),
    ("~/people.urec", "only a shell expands ~, so name /"),
    ("link.urec", "is a link to gone, where there is nothing"),
    (
        "hdfq://bucket/people.urec",
        "no storage is known for hdfq://; name a path on a disk, or one of s3://, gs://",
    ),
    ("ftq://bucket/train", "no storage is known for ftq://"),
    ("file:///data/train", "paths are given without file://, as /data/train"),
]


@pytest.mark.parametrize(("path", "said"), WRONG)
def test_a_path_that_names_nothing_says_what_to_name(here: Path, path: Any, said: str) -> None:
    with pytest.raises(MissingError) as caught:
        UniRecordDataset(path)
    assert said in str(caught.value)
    with pytest.raises(MissingError) as caught:
        describe(path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "path", ["", "people", "people.urec.idx", "~/people.urec", "hdfq://b/x.urec", "none/x.urec"]
)
@pytest.mark.parametrize("command", ["inspect", "verify", "repair", "bench"])
def test_every_command_says_what_to_name(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, path: str
) -> None:
    assert main([command, path]) == 2
    (said,) = (
        said for wrong, said in WRONG if wrong in (path, path.replace("hdfq://b/x", "hdfq://bucket/people"))
    )
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("source", ["x.csv", "x.jsonl", "pictures"])
def test_what_is_to_be_converted_first_says_how(
    here: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    if source == "pictures":
        (here / source).mkdir()
    else:
        (here / source).write_text("a,b\n1,2\n" * 100)
    for use in (UniRecordDataset, describe):
        with pytest.raises(UniRecordError, match="`unirecord write` makes"):
            use(source)
    for look in (verify, repair):
        with pytest.raises(MissingError, match="`unirecord write` makes"):
            look(source)
    for command in ("inspect", "verify", "repair", "bench"):
        opened = (
            command in ("inspect", "bench") and source != "pictures"
        )  # a file that is there, and is no part
        assert main([command, source]) == (1 if opened else 2)
        assert "`unirecord write` makes" in capsys.readouterr().err


def test_a_part_under_another_name_is_verified(here: Path) -> None:
    for suffix in ("", ".idx"):
        (here / f"people.urec{suffix}").rename(here / f"people.old{suffix}")
    assert verify("people.old").ok
    (here / "people.old.idx").unlink()
    assert not verify("people.old").ok
    (here / "people.old").write_bytes(b"not so any more")
    (here / "people.old.idx").touch()
    assert not verify("people.old").ok


def test_a_far_name_is_not_guessed(here: Path) -> None:
    for path in ("zebra.urec", "zebra"):
        with pytest.raises(MissingError) as caught:
            UniRecordDataset(path)
        assert str(caught.value) == f"{path}: there is no such file or directory"


def test_a_part_whose_index_is_left_is_called_lost(here: Path) -> None:
    (here / "people.urec").unlink()
    with pytest.raises(MissingError, match=r"but its index does \(people.urec.idx\); put the file back"):
        UniRecordDataset("people.urec")
    assert verify("train").ok


def test_a_folder_with_an_odd_name_is_opened(here: Path) -> None:
    for odd in ("s3:", "~", "x.urec.idx.d"):
        os.rename("sub", odd)
        assert len(UniRecordDataset(odd)) == 1
        os.rename(odd, "sub")


@pytest.mark.parametrize("where", ["city = Bern", "city == Bern", "city in (Bern, Basel)", "Bern = city"])
def test_an_unquoted_string_is_told_to_be_quoted(here: Path, where: str) -> None:
    with pytest.raises(QueryError, match=r"there is no column 'Bern'.*a string is written in quotes: 'Bern'"):
        UniRecordDataset("people.urec", where=where)
