"""Several sources as one dataset: each is read as what it is, in the columns that they have together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_results import failed
from command_results import rows as rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import unirecord
from unirecord import UniRecordDataset, write_dataset
from unirecord.cli import main
from unirecord.convert.sources import open_input
from unirecord.convert.sources.several import open_sources
from unirecord.errors import MissingError, SchemaError


def save(folder: Path, **files: str) -> list[str]:
    """Text files, ``a_csv`` as ``a.csv``; their paths."""
    paths = [folder / name.replace("_", ".") for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def rows(path: Path | str) -> list[dict[str, Any]]:
    return rows_of(str(path))


def test_sources_of_several_kinds_are_one_dataset_in_their_order(tmp_path: Path) -> None:
    paths = save(tmp_path, a_csv="a,b\n1,x\n2,y\n", b_jsonl='{"b": "z", "a": 3}\n')
    write_dataset([tmp_path / "b.jsonl", tmp_path / "a.csv"], tmp_path / "out")
    assert rows(tmp_path / "out") == [{"b": "z", "a": 3}, {"b": "x", "a": 1}, {"b": "y", "a": 2}]
    assert main(["write", *paths, str(tmp_path / "by-command")]) == 0
    assert rows(tmp_path / "by-command") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}]


@pytest.mark.parametrize("place", range(4))
def test_options_may_stand_anywhere_between_sources_and_target(place: int, tmp_path: Path) -> None:
    words = [*save(tmp_path, a_csv="a\n1\n", b_csv="a\n2\n"), str(tmp_path / "out")]
    words[place:place] = ["--index", "a"]
    assert main(["write", *words]) == 0
    assert [row["a"] for row in rows(tmp_path / "out")] == [1, 2]


@pytest.mark.parametrize("header", ["a,b\n", "a\n"])
@pytest.mark.parametrize("first", [True, False])
def test_a_source_without_rows_decides_no_type(
    header: str, first: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, *full = save(tmp_path, e_csv=header, a_csv="a,b\n1,0.5\n", b_jsonl='{"a": 3, "b": 2}\n')
    paths = [empty, *full] if first else [*full, empty]
    assert main(["write", *paths, str(tmp_path / "out")]) == 0
    assert rows(tmp_path / "out") == [{"a": 1, "b": 0.5}, {"a": 3, "b": 2.0}]
    assert UniRecordDataset(tmp_path / "out").schema.to_spec() == {"a": "int64", "b": "float64"}
    said = capsys.readouterr()
    assert f"{empty}: no rows" in said.out + said.err
    assert "every type is string" not in said.out + said.err
    write_dataset([empty, empty], tmp_path / "none")
    assert rows(tmp_path / "none") == []


NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


@given(
    one=st.sampled_from(NUMBERS), other=st.sampled_from(NUMBERS), nullable=st.booleans(), also=st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_numbers_take_the_wider_type_and_lose_nothing(
    one: str, other: str, nullable: bool, also: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("wider")
    for name, kind, may_be_null in (("a", one, nullable), ("b", other, also)):
        with unirecord.Writer(folder / f"{name}.urec", {"x": kind + "?" * may_be_null}) as writer:
            writer.write_batch({"x": np.array([1, 100], kind)})
    both = np.result_type(one, other)
    if both.kind == "f" and np.dtype(one).kind != "f" and np.dtype(other).kind != "f":
        with pytest.raises(SchemaError, match=r"column 'x' is .* and .* in .*b.urec: --schema x=TYPE"):
            write_dataset([folder / "a.urec", folder / "b.urec"], folder / "out")
        return
    write_dataset([folder / "a.urec", folder / "b.urec"], folder / "out")
    with UniRecordDataset(str(folder / "out")) as ds:
        assert str(ds.schema["x"]) == f"{both}{'?' * (nullable or also)}"
        assert [ds[i]["x"] for i in range(4)] == [1, 100, 1, 100]


def test_text_that_is_no_number_in_one_file_is_text_in_all(tmp_path: Path) -> None:
    paths = save(tmp_path, a_csv="zip,b,c\n00123,x,1\n", b_csv="zip,b,c\n77,y,2\n", c_csv="zip,b,c\nX1,5,3\n")
    write_dataset(paths, tmp_path / "out")
    assert [row["zip"] for row in rows(tmp_path / "out")] == ["00123", "77", "X1"]
    assert [row["b"] for row in rows(tmp_path / "out")] == ["x", "y", "5"]
    assert [row["c"] for row in rows(tmp_path / "out")] == [1, 2, 3]


def test_types_that_do_not_go_together_are_named_with_what_to_do(tmp_path: Path) -> None:
    paths = save(tmp_path, a_csv="a,b\n1,x\n", b_jsonl='{"a": [1, 2], "b": "y"}\n')
    with pytest.raises(
        SchemaError, match=r"column 'a' is int64 in .*a.csv and int64\[2\] in .*b.jsonl: --schema a=TYPE"
    ):
        write_dataset(paths, tmp_path / "out")
    write_dataset(paths, tmp_path / "out", columns=["b"])
    assert rows(tmp_path / "out") == [{"b": "x"}, {"b": "y"}]
    with unirecord.Writer(tmp_path / "t.urec", {"b": "float64"}) as writer:
        writer.write({"b": 1.5})
    with pytest.raises(SchemaError, match=r"column 'b' is float64 in .*t.urec and string in"):
        write_dataset([tmp_path / "t.urec", paths[0]], tmp_path / "other", columns=["b"])


def test_a_column_that_one_lacks_is_null_where_it_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = save(tmp_path, a_csv="a,b\n1,x\n", b_csv="a,b,c\n2,y,\n3,z,4\n", d_csv="a,b,d\n1,x,5\n")
    assert main(["write", *paths[:2], str(tmp_path / "out")]) == 0
    assert f"c: null in {paths[0]}, which has no such column" in capsys.readouterr().out
    assert [row["c"] for row in rows(tmp_path / "out")] == [None, None, 4]
    with pytest.raises(SchemaError, match=r"a.csv has no column 'd', and in .*d.csv it cannot be null"):
        write_dataset([paths[0], paths[2]], tmp_path / "more")
    write_dataset([paths[0], paths[2]], tmp_path / "more", schema={"d": "int64?"})
    assert [row["d"] for row in rows(tmp_path / "more")] == [None, 5]
    write_dataset([paths[0], paths[2]], tmp_path / "less", columns=["b", "a"])
    assert rows(tmp_path / "less") == [{"b": "x", "a": 1}] * 2


def test_a_type_for_a_column_that_none_has_is_refused(tmp_path: Path) -> None:
    paths = save(tmp_path, a_csv="first,b\n1,x\n", b_csv="first,b\n2,y\n")
    with pytest.raises(SchemaError, match="there is no column 'frist' in the data; did you mean 'first'"):
        write_dataset(paths, tmp_path / "out", schema={"frist": "int8"})


def test_folders_of_classes_number_them_alike(tmp_path: Path) -> None:
    for place in ("one/cat", "one/owl", "two/dog"):
        (tmp_path / place).mkdir(parents=True)
        Image.new("RGB", (2, 2)).save(tmp_path / place / "1.png")
    Image.new("RGB", (2, 2)).save(tmp_path / "two/dog/2.jpg")
    assert main(["write", *(str(tmp_path / name) for name in ("one", "two", "out"))]) == 0
    with UniRecordDataset(str(tmp_path / "out")) as ds:
        assert ds.schema["label"].logical == {"type": "class", "names": ["cat", "dog", "owl"]}
        assert ds.schema["image"].logical == {"type": "media", "media": "image/*"}
        assert [(ds[i]["label"], ds[i]["class"]) for i in range(4)] == [
            (0, "cat"),
            (2, "owl"),
            (1, "dog"),
            (1, "dog"),
        ]


def test_an_option_is_for_those_that_obey_it_and_refused_where_none_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = save(tmp_path, a_csv="a;b\n1;x\n", b_jsonl='{"a": 2, "b": "y"}\n')
    assert main(["write", *paths, str(tmp_path / "out"), "--delimiter", ";"]) == 0
    assert rows(tmp_path / "out") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    said = "--folders-are-classes: the sources are read as csv, jsonl, which do not obey it"
    failed(capsys, 2, said, "write", *paths, str(tmp_path / "more"), "--folders-are-classes")


def test_processes_resume_and_choices_work_as_for_one(tmp_path: Path) -> None:
    lines = "".join(f"{i},{'x' * (i % 7)}\n" for i in range(500))
    paths = save(tmp_path, a_csv="a,b\n" + lines, b_csv="a,b\n" + lines, c_csv="a,b\n" + lines)
    same = bytes(16)
    for name, workers in (("one", 1), ("two", 2)):
        write_dataset(paths, tmp_path / name, workers=workers, id=same, where="a < 3", max_part_bytes=10_000)
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
    assert [row["a"] for row in rows(tmp_path / "one")] == [0, 1, 2] * 3
    write_dataset(paths, tmp_path / "sorted", sort="a", limit=4)
    assert [row["a"] for row in rows(tmp_path / "sorted")] == [0, 0, 0, 1]


def test_lines_that_do_not_fit_are_left_out_and_named(tmp_path: Path) -> None:
    paths = save(tmp_path, a_csv="a,b\n1,x\n2,y\n", b_csv="a,b\n3,x\nno,y\n")
    left = ["--on-error", "report", "--report", str(tmp_path / "left.jsonl")]
    assert main(["write", *paths, str(tmp_path / "out"), "--schema", "a=int64", *left]) == 0
    assert [row["a"] for row in rows(tmp_path / "out")] == [1, 2, 3]
    assert "b.csv" in (tmp_path / "left.jsonl").read_text()


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("x-{0..2}.csv", ["x-0.csv", "x-1.csv", "x-2.csv"]),
        ("x-{08..11}.csv", ["x-08.csv", "x-09.csv", "x-10.csv", "x-11.csv"]),
        ("x-{2..1}{a,b}.csv", ["x-2a.csv", "x-2b.csv", "x-1a.csv", "x-1b.csv"]),
    ],
)
def test_braces_in_quotes_name_files_as_a_shell_does(
    name: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for i, file in enumerate(files):
        Path(file).write_text(f"a\n{i}\n")
    write_dataset(name, "out")
    assert [row["a"] for row in rows("out")] == list(range(len(files)))
    Path(files[-1]).unlink()
    with pytest.raises(MissingError, match=f"{files[-1]} does not exist, which .* names"):
        open_input(name)


@pytest.mark.parametrize("name", ["x{0..9999999}", "x{a..c}", "x{0..99999}{0..99}"])
def test_braces_that_are_no_range_or_too_many_are_refused(name: str) -> None:
    with pytest.raises(SchemaError, match=r"no range of numbers|more than 1,000,000 files"):
        open_input(name)


@pytest.mark.parametrize("empty", ["x.jsonl", "x.csv", "x.txt"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_files_without_anything_have_no_rows(tmp_path: Path, empty: str, at: int) -> None:
    (tmp_path / empty).touch()
    others = [tmp_path / "a.jsonl", tmp_path / "b.csv"]
    others[0].write_text('{"i": 1, "text": "a"}\n{"i": 2, "text": "b"}\n')
    others[1].write_text("i,text\n3,c\n")
    inputs = [*others[:at], tmp_path / empty, *others[at:]]
    source = open_sources([open_input(str(path)) for path in inputs])
    assert f"{tmp_path / empty}: no rows" in source.notes
    write_dataset(inputs, tmp_path / "out", workers=2)
    assert [sample["i"] for sample in UniRecordDataset(tmp_path / "out")] == [1, 2, 3]
    with pytest.raises(SchemaError, match=empty):
        write_dataset([tmp_path / empty, tmp_path / empty], tmp_path / "none")
