"""What an error advises works: each hint of the table is followed, and what it promises is there."""

from __future__ import annotations

import ast
import gzip
import io
import json
import multiprocessing
import os
import pickle
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import tomllib
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from image_folders import picture
from objectstore import serving
from sources import cifar, idx, shard

import unirecord
from unirecord import UniRecordDataset
from unirecord.cli.main import COMMANDS as CLI_COMMANDS
from unirecord.cli.main import main
from unirecord.convert.sinks.kinds import SINKS
from unirecord.convert.sources import Options, open_input, source_type
from unirecord.convert.sources.foreign_libraries import FLOORS
from unirecord.dataset import cursor
from unirecord.inspect.server import ViewServer
from unirecord.storage import object_store
from unirecord.writing import deletion


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


def one_lacks_a_column(folder: Path) -> None:
    (folder / "a.csv").write_text("a\n1\n")
    (folder / "b.csv").write_text("a,b\n2,3\n")


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


def no_kind(folder: Path) -> None:
    csv(folder)
    (folder / "a.csv").rename(folder / "a.what")


def empty_cell(folder: Path) -> None:
    (folder / "a.csv").write_text("k,n\n1,10\n2,\n")


def rounded(folder: Path) -> None:
    (folder / "a.csv").write_text(f"k,n\n1,{2**60 + 1}\n2,0.5\n")


def broken_picture(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.png").write_bytes(picture(8, 8))
    (folder / "in" / "b.png").write_bytes(picture(8, 8)[:60])


def no_index(folder: Path) -> None:
    dataset(folder)
    (folder / "out.urec.idx").unlink()


def lists(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    table = {"x": pa.array([[1, 2], None, [3]]), "y": pa.array([[[1], [2, 3]], [[4], []], [[5]]])}
    pyarrow.parquet.write_table(pa.table(table), folder / "a.parquet")


def two_forms(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"a": 1}\n{"a": [1, 2]}\n')


def coco_elsewhere(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "a.png").write_bytes(picture(4, 4))
    image = {"id": 1, "file_name": "a.png", "width": 4, "height": 4}
    content = {"images": [image], "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
    (folder / "coco.json").write_text(json.dumps(content))


def no_pictures(folder: Path) -> None:
    (folder / "in").mkdir()
    for name in ("a.dat", "b.dat"):
        (folder / "in" / name).write_bytes(b"12")


def labelled_pictures(folder: Path) -> None:
    (folder / "in").mkdir()
    for name in ("a.png", "b.png"):
        (folder / "in" / name).write_bytes(picture(4, 4))
    (folder / "l.csv").write_text("file;label\na.png;1\nb.png;2\n")
    (folder / "l.dat").write_text("a.png 1\n")


def examples(folder: Path) -> None:
    with unirecord.Writer(folder / "d.urec", {"n": {"type": "int64", "shape": [-1]}, "s": "bytes"}) as writer:
        for i in range(3):
            writer.write({"n": np.arange(i + 1), "s": b"ok" if i else b"\xff"})
    assert main(["export", "d.urec", "a.tfrecord", "--to", "tfrecord"]) == 0


def foreign_encoding(folder: Path) -> None:
    header = {"column_names": ["a", "b"], "column_encodings": ["int64", "secret"], "column_sizes": [8, 1]}
    shard(folder / "shard.00000.mds", [bytes(8) + b"1", bytes(8) + b"2"], **header)


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
    "null in one source": Hint(
        one_lacks_a_column,
        "write a.csv b.csv out",
        r"(--schema b=int64\?) makes it null",
        "write a.csv b.csv out {}",
        2,
    ),
    "no pairs": Hint(
        unpaired, "write in out", "(--from images) takes the folders as classes", "write in out {}", 2
    ),
    "not UTF-8": Hint(not_utf8, "write a.txt out", "(--schema text=bytes) takes it", "write a.txt out {}", 2),
    "an index": Hint(dataset, "inspect out.urec.idx", "name the part itself: (out.urec)", "inspect {}", 3),
    "a manifest": Hint(dataset, "inspect out/manifest.json", "name the directory: (out)$", "inspect {}", 3),
    "no kind": Hint(
        no_kind, "write a.what out", "say so with --from .*(csv)", "write a.what out --from {}", 3
    ),
    "a part of a split": Hint(
        csv,
        "write a.csv new.urec --split a=0.5,b=0.5",
        "choose a name without .urec",
        "write a.csv out --split a=0.5,b=0.5",
        3,
    ),
    "seed without sample": Hint(
        csv,
        "write a.csv out --seed 3",
        "says which rows (--sample) draws",
        "write a.csv out --seed 3 {} 2",
        2,
    ),
    "row numbers of raw data": Hint(
        csv, "write a.csv out --where 'row < 2'", "(--limit) takes the first rows", "write a.csv out {} 2", 2
    ),
    "rename what is not chosen": Hint(
        csv,
        "write a.csv out --columns k --rename n=m",
        "'n' is not among --columns k",
        "write a.csv out --columns k,n --rename n=m",
        3,
    ),
    "no row is too many": Hint(
        dataset,
        "delete out --rows x",
        "write numbers and ranges, as (17,1000-1999)",
        "delete out --rows 0,1-1",
        1,
    ),
    "an empty cell": Hint(
        empty_cell,
        "write a.csv out --schema n=int32",
        r'the type "(int32\?)" allows that',
        "write a.csv out --schema 'n={}'",
        2,
    ),
    "a number that would be rounded": Hint(
        rounded, "write a.csv out", "--schema (n=string)", "write a.csv out --schema {}", 2
    ),
    "pictures that cannot be decoded": Hint(
        broken_picture,
        "write in out --resize 4 --on-error raise",
        "(--on-error skip) leaves it out",
        "write in out --resize 4 {}",
        1,
    ),
    "an index that is missing": Hint(
        no_index, "inspect out.urec", "run `unirecord (repair out.urec)`", "{}", 3
    ),
    "a split": Hint(split_folders, "write in out", r"`unirecord (write 'in/train\*') train`", "{} out", 2),
    "a list that is null": Hint(
        lists,
        "write a.parquet out --columns x --schema 'x=int64[-1]'",
        "--schema (x=object) takes it",
        "write a.parquet out --columns x --schema {}",
        3,
    ),
    "a list that is null, by its type": Hint(
        lists,
        "write a.parquet out --columns x --schema 'x=int64[-1]'",
        r"so does (int64\[-1\]\?)",
        "write a.parquet out --columns x --schema 'x={}'",
        3,
    ),
    "lists of differing lengths": Hint(
        lists,
        "write a.parquet out --columns y --schema 'y=int64[-1,2]'",
        "--schema (y=object) takes them",
        "write a.parquet out --columns y --schema {}",
        3,
    ),
    "a value and a list": Hint(
        two_forms, "write a.jsonl out", "--schema (a=object) takes both", "write a.jsonl out --schema {}", 2
    ),
    "pictures elsewhere": Hint(
        coco_elsewhere,
        "write coco.json out",
        "(--pictures) FOLDER says where",
        "write coco.json out {} elsewhere",
        1,
    ),
    "no pictures": Hint(
        no_pictures,
        "write in out --from images",
        "(--from files) for a row of each",
        "write in out {}",
        2,
    ),
    "a table of another kind": Hint(
        labelled_pictures,
        "write in out --labels l.dat",
        "a table is a CSV, TSV, JSON Lines or Parquet file",
        "write in out --labels l.csv --delimiter ';'",
        2,
    ),
    "no table of labels": Hint(
        labelled_pictures,
        "write in out --delimiter ';'",
        "(--labels) names none",
        "write in out --delimiter ';' {} l.csv",
        2,
    ),
    "a feature of several numbers": Hint(
        examples,
        "write a.tfrecord out --columns n --schema n=int64",
        r"--schema (n=int64\[-1\]) takes any number",
        "write a.tfrecord out --columns n --schema '{}'",
        3,
    ),
    "a feature that is no text": Hint(
        examples,
        "write a.tfrecord out --columns s --schema s=text",
        "--schema (s=bytes) takes them",
        "write a.tfrecord out --columns s --schema {}",
        3,
    ),
    "an encoding of others": Hint(
        foreign_encoding,
        "write shard.00000.mds out",
        "--columns chooses others",
        "write shard.00000.mds out --columns a",
        2,
    ),
    "columns that the dataset has not": Hint(
        dataset,
        "write some.csv out --append",
        r"columns that the dataset has not \(more\): (--columns \S+) leaves them out",
        "write some.csv out --append {}",
        4,
    ),
    "a value that begins with a dash": Hint(
        dataset,
        "inspect out --sort -n --json",
        "a value that begins with - is joined to its option: (--sort=-n);",
        "inspect out {}",
        3,
    ),
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
    made = "out.urec" if "out.urec" in then else ["out/a", "out/b"] if "--split" in then else "out"
    with UniRecordDataset(made) as ds:
        assert len(ds) == hint.rows


# A condition that is refused, what is said of it, and the one that it advises, with the rows that this finds.
CONDITIONS = [
    ("", "write a condition, such as (label == 3)", "k == 3", 1),
    ("maybe == null", "write '(is null)' or 'is not null'", "maybe is null", 2),
    ("maybe in (1, null)", "add 'or … (is null)'", "maybe in (1) or maybe is null", 3),
    ("'k' == 1", "to name the column, write (k) without quotes", "k == 1", 1),
    ("name == 2", r"write it as it is stored, in quotes, as ('2')", "name == '2'", 1),
    ("k", "write (k != 0)", "k != 0", 3),
    ("name", "write (name != '')", "name != ''", 2),
    ("flag == 1", "a bool is compared with (true) or false", "flag == true", 1),
    ("flag < true", "compare them with (==) or !=", "flag == true", 1),
    ("nam == 'a'", "did you mean '(name)'", "name == '2'", 1),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hints") / "rows"
    with unirecord.Writer(
        path, {"k": "int64", "name": "string", "maybe": "int32?", "flag": "bool"}
    ) as writer:
        for k, name in ((1, ""), (2, "2"), (3, "c")):
            writer.write({"k": k, "name": name, "maybe": 1 if k == 1 else None, "flag": k == 2})
    return path


@pytest.mark.parametrize(("asked", "said", "then", "found"), CONDITIONS, ids=[one[0] for one in CONDITIONS])
def test_the_condition_that_an_error_advises_is_one(
    rows: Path, asked: str, said: str, then: str, found: int
) -> None:
    with pytest.raises(unirecord.QueryError) as refused:
        UniRecordDataset(rows, where=asked)
    match = re.search(said, str(refused.value))
    assert match, str(refused.value)
    assert match.group(1) in then or "label" in match.group(1) or match.group(1) in ("name",)
    assert len(UniRecordDataset(rows, where=then)) == found


def write(schema: dict[str, Any], **options: Any) -> Callable[[Path, dict[str, Any]], Any]:
    def call(path: Path, row: dict[str, Any]) -> None:
        with unirecord.Writer(path / "w.urec", schema, overwrite=True) as writer:
            writer.write(row, **options)

    return call


def opened(path: Path, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path / "rows", **options)


def written(path: Path, rows: list[dict[str, Any]], **options: Any) -> None:
    with unirecord.Writer(path / "w.urec", overwrite=True, **options) as writer:
        for row in rows:
            writer.write(row)


def doubled(sample: dict[str, Any]) -> dict[str, Any]:
    return sample


# A call that is refused, what it says, and the call that is advised: each is given a folder with the dataset ``rows``.
CALLS: dict[str, tuple[Callable[[Path], Any], str, Callable[[Path], Any]]] = {
    "columns as a string": (
        lambda at: opened(at, columns="k"), r"write columns=\['k'\]", lambda at: opened(at, columns=["k"])[0]
    ),
    "one shard": (
        lambda at: opened(at, num_shards=2), "give both", lambda at: opened(at, num_shards=2, shard_id=0)[0]
    ),
    "a mask": (
        lambda at: opened(at)[np.array([True, False, True])],
        r"select\(mask\), or np.flatnonzero\(mask\)",
        lambda at: (
            opened(at).select(np.array([True, False, True]))[1],
            opened(at)[np.flatnonzero(np.array([True, False, True]))],
        ),
    ),
    "a field that is no column": (
        lambda at: write({"k": "int8"})(at, {"k": 1, "more": 2}), 'pass extra="ignore"',
        lambda at: unirecord.Writer(at / "e.urec", {"k": "int8"}, extra="ignore").close(),
    ),
    "a number for a bool": (
        lambda at: write({"k": "bool"})(at, {"k": 1}), "pass True or False",
        lambda at: write({"k": "bool"})(at, {"k": True}),
    ),
    "an int that is rounded": (
        lambda at: write({"k": "float32"})(at, {"k": 2**24 + 1}), r"pass float\(value\) to round it",
        lambda at: write({"k": "float32"})(at, {"k": float(2**24 + 1)}),
    ),
    "an array for bytes": (
        lambda at: write({"k": "bytes"})(at, {"k": np.zeros(3)}), r"pass value.tobytes\(\), or make it an array",
        lambda at: write({"k": "bytes"})(at, {"k": np.zeros(3).tobytes()}),
    ),
    "an array of another dtype": (
        lambda at: write({"k": "float32[3]"})(at, {"k": np.zeros(3)}), r"value.astype\('?float32'?\)",
        lambda at: write({"k": "float32[3]"})(at, {"k": np.zeros(3).astype("float32")}),
    ),
    "a list for an array": (
        lambda at: write({"k": "float32[3]"})(at, {"k": [0, "x", 0]}), r"np.asarray\(value, 'float32'\)",
        lambda at: write({"k": "float32[3]"})(at, {"k": np.asarray([0, 1, 0], "float32")}),
    ),
    "no records": (
        lambda at: unirecord.write_dataset([], at / "none"), "pass schema=",
        lambda at: unirecord.write_dataset([], at / "none", schema={"k": "int8"}),
    ),
    "an export that is there": (
        lambda at: [unirecord.export(at / "rows", at / "e.jsonl", overwrite=again) for again in (True, False)],
        "pass overwrite=True",
        lambda at: unirecord.export(at / "rows", at / "e.jsonl", overwrite=True),
    ),
    "an export of no kind": (
        lambda at: unirecord.export(at / "rows", at / "e"), "say so with to=: .*jsonl",
        lambda at: unirecord.export(at / "rows", at / "e", to="jsonl"),
    ),
    "an export with nulls": (
        lambda at: unirecord.export(at / "rows", at / "mr", to="mindrecord"), r"\(where: maybe is not null\)",
        lambda at: unirecord.export(at / "rows", at / "mr", to="mindrecord", where="maybe is not null"),
    ),
    "a map behind batch": (
        lambda at: opened(at).pipeline().batch(2).map(doubled), "use map_batch",
        lambda at: list(opened(at).pipeline().batch(2).map_batch(doubled)),
    ),
    "a map_batch before batch": (
        lambda at: opened(at).pipeline().map_batch(doubled), r"call batch\(\) first",
        lambda at: list(opened(at).pipeline().batch(2).map_batch(doubled)),
    ),
    "threads and processes": (
        lambda at: opened(at).pipeline().map(doubled, threads=2, processes=2), "give one of threads= and processes=",
        lambda at: list(opened(at).pipeline().map(doubled, threads=2)),
    ),
    "random without a transform": (
        lambda at: opened(at).batches(2, random=True), "give transform=",
        lambda at: list(opened(at).batches(2, random=True, transform=lambda sample, generator: sample)),
    ),
    "a mixture that stops after a number": (
        lambda at: unirecord.mix({"a": opened(at), "b": opened(at)}, stop=4), "give samples=",
        lambda at: unirecord.mix({"a": opened(at), "b": opened(at)}, samples=4),
    ),
    "columns of a table as a string": (
        lambda at: opened(at).to_pandas(columns="k"), r"write \['k'\]", lambda at: opened(at).to_pandas(columns=["k"])
    ),
    "nothing to shuffle": (
        lambda at: write({"k": {"type": "bytes", "codec": "shuffle+zstd"}})(at, {"k": b"x"}), 'use "zstd"',
        lambda at: write({"k": {"type": "bytes", "codec": "zstd"}})(at, {"k": b"x"}),
    ),
    "a writer without a schema": (
        lambda at: unirecord.Writer(at / "new.urec").close(), "pass schema=",
        lambda at: unirecord.Writer(at / "new.urec", schema={"k": "int8"}).close(),
    ),
    "nothing but None": (
        lambda at: written(at, [{"k": None}]), "give a schema",
        lambda at: written(at, [{"k": None}], schema={"k": "int8?"}),
    ),
    "a field that comes later": (
        lambda at: written(at, [{"k": 1}, {"k": 2, "m": 3}]), "use None for no value",
        lambda at: written(at, [{"k": 1, "m": None}, {"k": 2, "m": 3}]),
    ),
    "a field that is missing": (
        lambda at: written(at, [{"k": 1, "m": 3}, {"k": 2}]), "use None for no value",
        lambda at: written(at, [{"k": 1, "m": 3}, {"k": 2, "m": None}]),
    ),
    "no dataset to append to": (
        lambda at: unirecord.append(at / "new"), "use Writer to make one",
        lambda at: (unirecord.Writer(at / "new", {"k": "int8"}).close(), unirecord.append(at / "new").close()),
    ),
    "a dataset that is there": (
        lambda at: unirecord.Writer(at / "rows", {"k": "int8"}), "overwrite=True",
        lambda at: (
            unirecord.append(at / "rows").close(), unirecord.Writer(at / "rows", {"k": "int8"}, overwrite=True).close()
        ),
    ),
    "merged into a part": (
        lambda at: unirecord.merge([at / "rows"], at / "m.urec"), "choose a name without .urec",
        lambda at: unirecord.merge([at / "rows"], at / "m"),
    ),
    "a column that is there": (
        lambda at: unirecord.add_columns(at / "rows", {"k": "int8"}, {"k": [1, 2, 3]}), "replace=True",
        lambda at: unirecord.add_columns(at / "rows", {"k": "int8"}, {"k": [1, 2, 3]}, replace=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_call_that_an_error_advises_works(tmp_path: Path, rows: Path, name: str) -> None:
    refused, said, advised = CALLS[name]
    shutil.copytree(rows, tmp_path / "rows")
    with pytest.raises(Exception, match=said):
        refused(tmp_path)
    advised(tmp_path)


def made(at: Path, schema: dict[str, Any], values: dict[str, Any], **options: Any) -> UniRecordDataset:
    """A dataset of these values by column, opened with these options."""
    path = at / f"made{len(list(at.iterdir()))}"
    with unirecord.Writer(path, schema) as writer:
        writer.write_batch(values)
    return UniRecordDataset(path, **options)


def numbered(at: Path, **options: Any) -> UniRecordDataset:
    """Rows 0 … 9, each with its number, one of two classes and a length."""
    numbers = np.arange(10)
    schema = {"i": "int64", "label": "int32", "length": "int32"}
    return made(at, schema, {"i": numbers, "label": numbers % 2, "length": numbers + 1}, **options)


def texts(at: Path, **options: Any) -> UniRecordDataset:
    return made(at, {"i": "int64", "text": "text"}, {"i": np.arange(3), "text": ["a", "b", "c"]}, **options)


def tokens(at: Path, **options: Any) -> UniRecordDataset:
    lists = [np.arange(1 + i, dtype=np.uint16) for i in range(6)]
    return made(at, {"tokens": "uint16[-1]"}, {"tokens": lists}, **options)


def hidden(at: Path, **options: Any) -> UniRecordDataset:
    """A nullable column whose mask would have the name of another column."""
    schema = {"x": "int32?", "x_valid": "bool"}
    return made(at, schema, {"x": [1, 2], "x_valid": [True, False]}, **options)


def without(ds: UniRecordDataset, **named: Any) -> UniRecordDataset:
    ds.exclude(**named)
    return ds


def in_middle(ds: UniRecordDataset) -> UniRecordDataset:
    """The dataset with a state from within an epoch."""
    state = {**ds.state_dict(), "position": 4}
    ds.load_state_dict(state)
    return ds


def drawn(at: Path, **options: Any) -> unirecord.DrawnBatches:
    return unirecord.balanced(numbered(at, **options), "label", classes=2, per_class=1)


def values(batches: Any, name: str = "i") -> list[int]:
    """All values of a column, in ascending order."""
    return sorted(int(value) for batch in batches for value in np.asarray(batch[name]).reshape(-1))


def halves(at: Path, **options: Any) -> UniRecordDataset:
    return made(at, {"i": "int32", "o": "object"}, {"i": [0, 1], "o": [{"a": 1}, [2]]}, **options)


def pictures(at: Path) -> UniRecordDataset:
    return made(at, {"x": "bytes"}, {"x": [picture(8, 8)]})


def parts(at: Path) -> list[str]:
    return [f"rows/{one.name}" for one in sorted((at / "rows").glob("*.urec"))]


def grown(at: Path, make: Callable[[UniRecordDataset], Any]) -> Any:
    """What is made of the dataset ``rows``, of which a row is deleted then."""
    ds = opened(at, columns=["k"])
    found = make(ds)
    unirecord.delete(at / "rows", where="k == 3")
    ds.refresh()
    return found


def resumed(ds: UniRecordDataset, epoch: int) -> Any:
    """A stream of Hugging Face of this epoch, with the state of another one that stands within epoch 1."""
    ds.set_epoch(1)
    stream = unirecord.hf.dataset(ds, 1)
    reading = iter(stream)
    for _ in range(2):
        next(reading)
    ds.set_epoch(epoch)
    again = unirecord.hf.dataset(ds, 1)
    again.load_state_dict(stream.state_dict())
    return again


def at_home(home: Path, path: Callable[[], Any]) -> int:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOME", str(home))
        return len(UniRecordDataset(path()))


def data_loader(*given: Any, **options: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(*given, **options)


def jax_device() -> Any:
    import jax

    return jax.devices()[0]


def jax_sharding() -> Any:
    import jax

    return jax.sharding.SingleDeviceSharding(jax_device())


def numbered_tokens(at: Path) -> UniRecordDataset:
    lists = [np.arange(1 + i, dtype=np.uint16) for i in range(6)]
    return made(at, {"i": "int32", "tokens": "uint16[-1]"}, {"i": np.arange(6), "tokens": lists})


TEN = list(range(10))
Called = dict[str, tuple[Callable[[Path], Any], str, Callable[[Path], Any]]]

# As above, and what is advised has to give something true.
OF_DATASETS: Called = {
    "where and rows left out": (
        lambda at: numbered(at).exclude(),
        "give either rows, by their numbers, or where",
        lambda at: numbered(at).exclude(rows=[1]) == numbered(at).exclude(where="i == 1") == 1,
    ),
    "steps without a unit": (
        lambda at: numbered(at).batches(2).exclude(),
        "give one of steps, rows and where",
        lambda at: numbered(at).batches(2).exclude(steps=[1]) == 2,
    ),
    "epoch without steps": (
        lambda at: numbered(at).batches(2).exclude(rows=[1], epoch=1),
        "say in which epoch steps count: give steps",
        lambda at: numbered(at).batches(2).exclude([1], epoch=1) == 2,
    ),
    "rows of drawn batches left out": (
        lambda at: drawn(at).batches().exclude(rows=[1]),
        r"of the dataset with where= or select\(\), and draw anew",
        lambda at: (
            1
            not in values(
                unirecord.balanced(numbered(at, where="i != 1"), "label", classes=2, per_class=1).batches()
            )
        ),
    ),
    "a draw of a dataset without some rows": (
        lambda at: unirecord.balanced(without(numbered(at), rows=[1]), "label", classes=2, per_class=1),
        r"leave them out with where= or select\(\) first",
        lambda at: (
            len(unirecord.balanced(numbered(at).select([0, 3, 4, 5]), "label", classes=2, per_class=1)) == 2
        ),
    ),
    "a view behind a state": (
        lambda at: in_middle(numbered(at)).select([1, 2]),
        "select, split or view first, and load the state",
        lambda at: len(list(in_middle(numbered(at).select(np.arange(8))))) == 4,
    ),
    "a batch sampler that ends": (
        lambda at: unirecord.torch.loader(numbered(at), batch_sampler=iter([[1], [2]])),
        "give a list",
        lambda at: values(unirecord.torch.loader(numbered(at), batch_sampler=[[1], [2]])) == [1, 2],
    ),
    "a batch sampler's steps again": (
        lambda at: unirecord.torch.loader(numbered(at), batch_sampler=[[1], [2]]).replay(0, epoch=0),
        r"ds.read_rows\(its list\) reads a batch again",
        lambda at: values([numbered(at).read_rows([1])]) == [1],
    ),
    "a batch sampler's rows left out": (
        lambda at: unirecord.torch.loader(numbered(at), batch_sampler=[[1], [2]]).exclude(rows=[1]),
        "leave them out of its lists",
        lambda at: values(unirecord.torch.loader(numbered(at), batch_sampler=[[2]])) == [2],
    ),
    "a batch sampler of a shard": (
        lambda at: unirecord.torch.loader(numbered(at, shard_id=0, num_shards=2), batch_sampler=[[1]]),
        "open the dataset without shards",
        lambda at: values(unirecord.torch.loader(numbered(at), batch_sampler=[[1]])) == [1],
    ),
    "a batch sampler of a shuffled dataset": (
        lambda at: unirecord.torch.loader(numbered(at, shuffle=True), batch_sampler=[[1]]),
        "open it with shuffle=False",
        lambda at: values(unirecord.torch.loader(numbered(at, shuffle=False), batch_sampler=[[1]])) == [1],
    ),
    "a batch sampler behind a state": (
        lambda at: unirecord.torch.loader(in_middle(numbered(at)), batch_sampler=[[1]]),
        "load one into this loader",
        lambda at: (
            [
                loader.load_state_dict(loader.state_dict()) or values(loader)
                for loader in [unirecord.torch.loader(numbered(at), batch_sampler=[[1]])]
            ]
            == [[1]]
        ),
    ),
    "split by, without names": (
        lambda at: numbered(at).split([0.9, 0.1], by="i"),
        r'split\(\{"train": 0.9, "val": 0.1\}, by="user"\)',
        lambda at: sum(map(len, numbered(at).split({"train": 0.9, "val": 0.1}, by="i").values())) == 10,
    ),
    "row numbers of a weighted draw": (
        lambda at: unirecord.weighted(numbered(at), np.ones(10)).scalars(),
        r'or scalars\(order="samples"\)',
        lambda at: len(unirecord.weighted(numbered(at), np.ones(10)).scalars(order="samples")["i"]) == 10,
    ),
    "scalars as a string": (
        lambda at: numbered(at).scalars("i"),
        r"write \['i'\], or ds\['i'\] for one column",
        lambda at: list(numbered(at).scalars(["i"])["i"]) == list(numbered(at)["i"]) == TEN,
    ),
    "scalars of columns that are none": (
        lambda at: texts(at, columns=["text"]).scalars(),
        "name those that are wanted",
        lambda at: list(texts(at, columns=["text"]).scalars(["i"])["i"]) == [0, 1, 2],
    ),
    "a mixture refreshed": (
        lambda at: unirecord.mix({"a": numbered(at)}).refresh(),
        "refresh these, and make it anew",
        lambda at: [ds.refresh() or len(unirecord.mix({"a": ds})) for ds in [numbered(at)]] == [10],
    ),
    "a selection refreshed": (
        lambda at: numbered(at).select([1]).refresh(),
        "refresh the dataset it was made from, and select anew",
        lambda at: [ds.refresh() or len(ds.select([1])) for ds in [numbered(at)]] == [1],
    ),
    "weights drawn without replacement": (
        lambda at: unirecord.weighted(numbered(at), np.ones(10), samples=11, replacement=False),
        "without replacement, 10 rows can be drawn",
        lambda at: len(unirecord.weighted(numbered(at), np.ones(10), samples=10, replacement=False)) == 10,
    ),
    "classes that are null": (
        lambda at: unirecord.balanced(opened(at), "maybe", classes=1, per_class=1),
        "leave them out with where=",
        lambda at: (
            len(unirecord.balanced(opened(at, where="maybe is not null"), "maybe", classes=1, per_class=1))
            == 1
        ),
    ),
    "buckets of no size": (
        lambda at: unirecord.bucketed(tokens(at), "tokens"),
        "give one of batch_size and max_length",
        lambda at: len(unirecord.bucketed(tokens(at), "tokens", batch_size=2)) > 0,
    ),
    "rows that are too long": (
        lambda at: unirecord.bucketed(tokens(at), "tokens", max_length=4),
        "leave them out with select, or allow more",
        lambda at: (
            len(unirecord.bucketed(tokens(at).select([0, 1, 2, 3]), "tokens", max_length=4)) > 0
            and len(unirecord.bucketed(tokens(at), "tokens", max_length=6)) > 0
        ),
    ),
    "draws of a dataset in blocks": (
        lambda at: drawn(at, shuffle="block"),
        "give it shuffle=True or shuffle=False",
        lambda at: len(drawn(at, shuffle=True)) == len(drawn(at, shuffle=False)) == 5,
    ),
    "draws of a draw": (
        lambda at: unirecord.weighted(unirecord.mix({"a": numbered(at)}), np.ones(10)),
        "draw from what it is made of",
        lambda at: len(unirecord.weighted(numbered(at), np.ones(10))) == 10,
    ),
    "small batches of drawn ones": (
        lambda at: unirecord.bucketed(tokens(at), "tokens", batch_size=4).batches(drop_last=True),
        r"unirecord.bucketed\(…, drop_last=True\)",
        lambda at: len(unirecord.bucketed(tokens(at), "tokens", batch_size=4, drop_last=True)) <= 1,
    ),
    "a mixture by schedule": (
        lambda at: unirecord.mix({"a": numbered(at)}, schedule={5: {"a": 1}}),
        "say how many samples.*samples=",
        lambda at: len(unirecord.mix({"a": numbered(at)}, schedule={5: {"a": 1}}, samples=10)) == 10,
    ),
    "a mixture of a list": (
        lambda at: unirecord.mix([numbered(at)]),
        r'datasets by name, such as \{"web": a, "code": b\}',
        lambda at: len(unirecord.mix({"web": numbered(at), "code": numbered(at)})) == 20,
    ),
    "a mixture of batches": (
        lambda at: unirecord.mix({"a": unirecord.balanced(numbered(at), "label", classes=2, per_class=1)}),
        "mix datasets, and draw batches from each apart",
        lambda at: (
            len(unirecord.mix({"a": numbered(at)})) == 10
            and len(unirecord.balanced(numbered(at), "label", classes=2, per_class=1)) == 5
        ),
    ),
    "a mixture of windows and rows": (
        lambda at: unirecord.mix({"a": unirecord.windows(tokens(at), "tokens", 2), "b": tokens(at)}),
        "unirecord.windows and packed make samples of rows",
        lambda at: (
            len(unirecord.mix({name: unirecord.windows(tokens(at), "tokens", 2) for name in "ab"})) == 20
        ),
    ),
    "a mixture of other options": (
        lambda at: unirecord.mix({"a": numbered(at), "b": numbered(at, on_corrupt="skip")}),
        r"ds.view\((on_corrupt)=…\) gives a source another",
        lambda at: (
            len(
                unirecord.mix(
                    {"a": numbered(at), "b": numbered(at, on_corrupt="skip").view(on_corrupt="raise")}
                )
            )
            == 20
        ),
    ),
    "a mixture of other columns": (
        lambda at: unirecord.mix(
            {"a": texts(at), "b": made(at, {"i": "int64", "text": "int8"}, {"i": [1], "text": [1]})}
        ),
        r"leave it out with ds.view\(columns=…\)",
        lambda at: (
            values(
                unirecord.mix(
                    {
                        "a": texts(at).view(columns=["i"]),
                        "b": made(at, {"i": "int64", "text": "int8"}, {"i": [1], "text": [1]}).view(
                            columns=["i"]
                        ),
                    },
                    stop="all",
                ).batches(2)
            )[:2]
            == [0, 1]
        ),
    ),
    "another rank's drawn batch": (
        lambda at: drawn(at).order.replay(0, epoch=0, rank=1, num_shards=2),
        r"draw from ds.view\(shard_id=..., num_shards=...\)",
        lambda at: (
            len(
                unirecord.balanced(
                    numbered(at).view(shard_id=1, num_shards=2), "label", classes=2, per_class=1
                ).order.replay(0, epoch=0)["i"]
            )
            == 2
        ),
    ),
    "a step of no size": (
        lambda at: numbered(at).order.rows_of(0),
        "how many samples a batch of one rank has: batch_size",
        lambda at: list(numbered(at).order.rows_of(0, batch_size=2)) == [0, 1],
    ),
    "a step of drawn batches with a size": (
        lambda at: drawn(at).order.rows_of(0, 2),
        "leave out batch_size and drop_last",
        lambda at: len(drawn(at).order.rows_of(0)) == 2,
    ),
    "row numbers of drawn batches": (
        lambda at: drawn(at).order.row_ids(),
        r"order.rows_of\(step\) gives the rows of one",
        lambda at: len(drawn(at).order.rows_of(1)) == 2,
    ),
    "row numbers as places": (
        lambda at: [ds.scalars()["i"][ds.order.row_ids()] for ds in [numbered(at, where="i > 4")]],
        r'scalars\(order="samples"\) is in the order of ds\[i\], and its value i belongs to order.row_ids\(\)\[i\]',
        lambda at: (
            [
                list(ds.scalars(order="samples")["i"]) == [s["i"] for s in ds] == list(ds.order.row_ids())
                for ds in [numbered(at, where="i > 4", shuffle=True)]
            ]
            == [True]
        ),
    ),
    "an epoch taken up where?": (
        lambda at: numbered(at).order.rows_of(0, 2, start=2),
        "give the epoch that was taken up there as well",
        lambda at: list(numbered(at).order.rows_of(0, 2, start=2, epoch=0)) == [2, 3],
    ),
    "no sample is left out of another": (
        lambda at: without(numbered(at), rows=[3])[3],
        r"use batches\(\), .*exclude\(fill=True\).*read_rows reads it",
        lambda at: (
            values(without(numbered(at), rows=[3]).batches(2)) == [i for i in TEN if i != 3]
            and len(without(numbered(at), rows=[3], fill=True)[3]) == 3
            and values([without(numbered(at), rows=[3]).read_rows([3])]) == [3]
        ),
    ),
    "windows of windows": (
        lambda at: unirecord.windows(unirecord.windows(tokens(at), "tokens", 2), "tokens", 2),
        "make others of the dataset they come from",
        lambda at: len(unirecord.windows(tokens(at), "tokens", 2)) == 10,
    ),
    "windows of a mixture": (
        lambda at: unirecord.windows(unirecord.mix({"a": tokens(at)}), "tokens", 2),
        "make one of each source, and mix these",
        lambda at: len(unirecord.mix({"a": unirecord.windows(tokens(at), "tokens", 2)})) == 10,
    ),
    "a condition on windows": (
        lambda at: unirecord.windows(numbered_tokens(at), "tokens", 2).view(where="i > 2"),
        "choose them first, then make the stream of them",
        lambda at: len(unirecord.windows(numbered_tokens(at).view(where="i > 2"), "tokens", 2)) > 0,
    ),
    "windows refreshed": (
        lambda at: unirecord.windows(tokens(at), "tokens", 2).refresh(),
        "refresh these, and make it anew",
        lambda at: [ds.refresh() or len(unirecord.windows(ds, "tokens", 2)) for ds in [tokens(at)]] == [10],
    ),
    "rows chosen from a mixture": (
        lambda at: unirecord.mix({"a": numbered(at)}).select([1]),
        "use where, select, take, skip and split on what it is made",
        lambda at: len(unirecord.mix({"a": numbered(at).select([1])})) == 1,
    ),
    "sizes of blocks without blocks": (
        lambda at: numbered(at, block_rows=4, shuffle=True),
        'leave them out, or ask for shuffle="block"',
        lambda at: len(numbered(at, block_rows=4, shuffle="block")) == len(numbered(at, shuffle=True)),
    ),
    "a cache without a size": (
        lambda at: numbered(at, cache=at / "cache"),
        'as cache="/scratch/cache", cache_bytes="200GB"',
        lambda at: unirecord.snapshot.cache.CacheOptions.of(at / "cache", "200GB") is not None,
    ),
    "a random transform of none": (
        lambda at: numbered(at).batches(2, random=True),
        "there is none: give transform=",
        lambda at: values(numbered(at).batches(2, random=True, transform=lambda one, _: one)) == TEN,
    ),
    "two ways to name deleted rows": (
        lambda at: unirecord.delete(at / "rows", where="k == 1", rows=[1]),
        "give where, a condition, or rows",
        lambda at: (
            unirecord.delete(at / "rows", where="k == 1").rows
            == unirecord.delete(at / "rows", rows=[1]).rows
            == 1
        ),
    ),
}


OF_FRAMEWORKS: Called = {
    "torch: no batch size": (
        lambda at: unirecord.torch.loader(numbered(at)),
        "give a batch_size",
        lambda at: values(unirecord.torch.loader(numbered(at), 5)) == TEN,
    ),
    "torch: a size of drawn batches": (
        lambda at: unirecord.torch.loader(drawn(at), 5),
        "have the size that they have",
        lambda at: values(unirecord.torch.loader(drawn(at))) == TEN,
    ),
    "torch: two ways to say a batch": (
        lambda at: unirecord.torch.loader(numbered(at), 5, batch_sampler=[[1]]),
        "give one of them",
        lambda at: (
            values(unirecord.torch.loader(numbered(at), batch_sampler=[[1]])) == [1]
            and values(unirecord.torch.loader(numbered(at), 5)) == TEN
        ),
    ),
    "torch: a sampler over drawn batches": (
        lambda at: unirecord.torch.loader(drawn(at), batch_sampler=[[1]]),
        "batch_sampler= takes a dataset",
        lambda at: values(unirecord.torch.loader(drawn(at).dataset, batch_sampler=[[1]])) == [1],
    ),
    "torch: no dataset": (
        lambda at: unirecord.torch.loader(at / "rows", 2),
        r"UniRecordDataset\(path\)",
        lambda at: (
            values(unirecord.torch.loader(UniRecordDataset(at / "rows", columns=["k"]), 2), "k") == [1, 2, 3]
        ),
    ),
    "torch: a hidden mask": (
        lambda at: unirecord.torch.loader(hidden(at), 2),
        r"choose one of the two with columns=\[...\], or read both with ds.batches\(\)",
        lambda at: (
            set(next(iter(unirecord.torch.loader(hidden(at, columns=["x"]), 2)))) == {"x", "x_valid"}
            and set(next(iter(unirecord.torch.loader(hidden(at, columns=["x_valid"]), 2)))) == {"x_valid"}
            and set(next(iter(hidden(at).batches(2)))) == {"x", "x_valid"}
        ),
    ),
    "torch: an epoch of drawn batches": (
        lambda at: unirecord.torch.EpochSampler(drawn(at)),
        r"DataLoader\(drawn.dataset, batch_sampler=drawn\)",
        lambda at: [values(data_loader(one.dataset, batch_sampler=one)) for one in [drawn(at)]] == [TEN],
    ),
    "torch: a state of the middle in a DataLoader": (
        lambda at: list(data_loader(in_middle(numbered(at)), 2)),
        r"give it sampler=unirecord.torch.EpochSampler\(ds\), which goes on from there, or use unirecord.torch.loader",
        lambda at: (
            [
                values(data_loader(ds, 2, sampler=unirecord.torch.EpochSampler(ds)))
                for ds in [in_middle(numbered(at))]
            ]
            == [values(unirecord.torch.loader(in_middle(numbered(at)), 2))]
            == [TEN[4:]]
        ),
    ),
    "tf: a framework that counts on all rows": (
        lambda at: unirecord.tf.dataset(without(numbered(at), rows=[1]), 2),
        r"use exclude\(..., fill=True\).*ds.batches",
        lambda at: (
            len(list(unirecord.tf.dataset(without(numbered(at), rows=[1], fill=True), 2))) == 5
            and len(values(without(numbered(at), rows=[1]).batches(2))) == 9
        ),
    ),
    "tf: a transform": (
        lambda at: unirecord.tf.dataset(numbered(at, transform=doubled), 2),
        r"Use unirecord.tf.dataset\(ds.view\(transform=None\), …\), and .map\(\) on what it gives",
        lambda at: (
            values(unirecord.tf.dataset(numbered(at, transform=doubled).view(transform=None), 2).map(doubled))
            == TEN
        ),
    ),
    "tf: no batch size": (
        lambda at: unirecord.tf.dataset(numbered(at)),
        "give a batch_size",
        lambda at: values(unirecord.tf.dataset(numbered(at), 5)) == TEN,
    ),
    "tf: a dataset that has grown": (
        lambda at: [list(found) for found in [grown(at, lambda ds: unirecord.tf.dataset(ds, 2))]],
        "call unirecord.tf.dataset again",
        lambda at: len(values(unirecord.tf.dataset(grown(at, lambda ds: ds), 2), "k")) == 2,
    ),
    "tf: a column without a form": (
        lambda at: unirecord.tf.dataset(halves(at), 2),
        r"choose the others with columns=\[…\]",
        lambda at: values(unirecord.tf.dataset(halves(at, columns=["i"]), 2)) == [0, 1],
    ),
    "hf: a transform": (
        lambda at: unirecord.hf.dataset(numbered(at, transform=doubled)),
        r"Use unirecord.hf.dataset\(ds.view\(transform=None\)\), and .map\(\) on what it gives",
        lambda at: (
            values(unirecord.hf.dataset(numbered(at, transform=doubled).view(transform=None)).map(doubled))
            == TEN
        ),
    ),
    "hf: a table of a transform": (
        lambda at: unirecord.hf.table(numbered(at, transform=doubled)),
        r"use unirecord.hf.table\(ds.view\(transform=None\)\)",
        lambda at: unirecord.hf.table(numbered(at, transform=doubled).view(transform=None))["i"][:] == TEN,
    ),
    "hf: a state of another epoch": (
        lambda at: list(resumed(numbered(at, shuffle=True), 0)),
        r"call ds.set_epoch\(1\) before unirecord.hf.dataset\(ds\)",
        lambda at: len(list(resumed(numbered(at, shuffle=True), 1))) == 8,
    ),
    "hf: drawn batches": (
        lambda at: unirecord.hf.dataset(drawn(at)),
        r"iterate over drawn.batches\(\)",
        lambda at: values(drawn(at).batches()) == TEN,
    ),
    "hf: a table of drawn batches": (
        lambda at: unirecord.hf.table(drawn(at)),
        "drawn.dataset is what they have been drawn from",
        lambda at: unirecord.hf.table(drawn(at).dataset)["i"][:] == TEN,
    ),
    "jax: two places": (
        lambda at: unirecord.jax.loader(numbered(at), 5, device=jax_device(), sharding=jax_sharding()),
        "give one of them",
        lambda at: (
            values(unirecord.jax.loader(numbered(at), 5, device=jax_device())) == TEN
            and values(unirecord.jax.loader(numbered(at), 5, sharding=jax_sharding())) == TEN
        ),
    ),
    "jax: drawn batches everywhere": (
        lambda at: unirecord.jax.loader(drawn(at), sharding=jax_sharding()),
        "leave out sharding=",
        lambda at: values(unirecord.jax.loader(drawn(at))) == TEN,
    ),
    "jax: damaged rows that are left out": (
        lambda at: unirecord.jax.loader(numbered(at, on_corrupt="skip"), 5, sharding=jax_sharding()),
        r"use ds.view\(on_corrupt='raise'\)",
        lambda at: (
            values(
                unirecord.jax.loader(
                    numbered(at, on_corrupt="skip").view(on_corrupt="raise"), 5, sharding=jax_sharding()
                )
            )
            == TEN
        ),
    ),
    "jax: shares of different sizes": (
        lambda at: unirecord.jax.loader(
            numbered(at, shard_id=0, num_shards=4, remainder="uneven"), 1, sharding=jax_sharding()
        ),
        r'use ds.view\(remainder="pad"\) or "drop"',
        lambda at: (
            [
                len(
                    list(
                        unirecord.jax.loader(
                            numbered(at, shard_id=0, num_shards=4, remainder="uneven").view(
                                remainder=remainder
                            ),
                            1,
                            sharding=jax_sharding(),
                        )
                    )
                )
                for remainder in ("pad", "drop")
            ]
            == [3, 2]
        ),
    ),
    "jax: texts everywhere": (
        lambda at: unirecord.jax.loader(texts(at), 3, sharding=jax_sharding()),
        r"leave them out with columns=\[...\], or give them one with transform=",
        lambda at: (
            values(unirecord.jax.loader(texts(at, columns=["i"]), 3, sharding=jax_sharding())) == [0, 1, 2]
            and values(
                unirecord.jax.loader(
                    texts(at),
                    3,
                    sharding=jax_sharding(),
                    transform=lambda one: {"i": np.int32(ord(one["text"]))},
                )
            )
            == [97, 98, 99]
        ),
    ),
    "jax: a number of 64 bits": (
        lambda at: list(unirecord.jax.loader(made(at, {"i": "int64"}, {"i": [2**40]}), 1)),
        r"or make them smaller before they become arrays",
        lambda at: (
            values(
                unirecord.jax.loader(
                    made(at, {"i": "int64"}, {"i": [2**40]}),
                    1,
                    transform=lambda one: {"i": np.int32(one["i"] >> 20)},
                )
            )
            == [2**20]
        ),
    ),
    "keras: texts": (
        lambda at: unirecord.keras.dataset(texts(at), 3),
        r"columns=\[...\], or give it one with batch_transform=",
        lambda at: (
            len(unirecord.keras.dataset(texts(at, columns=["i"]), 3)) == 1
            and unirecord.keras.dataset(texts(at), 3, batch_transform=lambda batch: {"i": batch["i"]})[0][
                "i"
            ][2]
            == 2
        ),
    ),
    "keras: drawn batches": (
        lambda at: unirecord.keras.dataset(drawn(at), 2),
        r"unirecord.tf.dataset\(drawn\), unirecord.torch.loader\(drawn\), or a generator over drawn.batches\(\)",
        lambda at: (
            values(unirecord.tf.dataset(drawn(at)))
            == values(unirecord.torch.loader(drawn(at)))
            == values(drawn(at).batches())
            == TEN
        ),
    ),
    "keras: the middle of an epoch": (
        lambda at: unirecord.keras.dataset(in_middle(numbered(at)), 2)[0],
        r"use ds.set_epoch\(\)",
        lambda at: (
            [
                ds.set_epoch(1) or list(unirecord.keras.dataset(ds, 2)[0]["i"])
                for ds in [in_middle(numbered(at))]
            ]
            == [[0, 1]]
        ),
    ),
}

OF_PIPELINES: Called = {
    "a filter behind batch": (
        lambda at: numbered(at).pipeline().batch(2).filter(lambda one: True),
        r"use unbatch\(\) first",
        lambda at: (
            [one["i"] for one in numbered(at).pipeline().batch(2).unbatch().filter(lambda one: one["i"] < 3)]
            == [0, 1, 2]
        ),
    ),
    "columns of a map as a string": (
        lambda at: numbered(at).pipeline().map(lambda i: i, columns="i"),
        r"write columns=\['i'\]",
        lambda at: (
            [one["i"] for one in numbered(at).pipeline().map(lambda i: -i, columns=["i"])]
            == [-i for i in TEN]
        ),
    ),
    "a condition with threads": (
        lambda at: numbered(at).pipeline().filter("i > 3", threads=2),
        "it has no columns=, threads=, processes=, random=",
        lambda at: [one["i"] for one in numbered(at).pipeline().filter("i > 3")] == TEN[4:],
    ),
    "many at once without columns": (
        lambda at: numbered(at).pipeline().map(lambda i: i, vectorised=True),
        r"vectorised=True needs columns=\[...\]",
        lambda at: (
            [one["i"] for one in numbered(at).pipeline().map(lambda i: -i, columns=["i"], vectorised=True)]
            == [-i for i in TEN]
        ),
    ),
    "a filter with receipts": (
        lambda at: numbered(at).pipeline(receipts=at / "r").filter(lambda one: True),
        "choose rows with where= before the pipeline is made, or leave out receipts=",
        lambda at: (
            len(list(numbered(at, where="i > 3").pipeline(receipts=at / "r"))) == 6
            and len(list(numbered(at).pipeline().filter(lambda one: one["i"] > 3))) == 6
        ),
    ),
    "a step of an unknown number": (
        lambda at: numbered(at).pipeline().filter(lambda one: True).replay(1),
        "give the epoch in which steps count",
        lambda at: numbered(at).pipeline().filter(lambda one: one["i"] > 3).replay(1, epoch=0)["i"] == 5,
    ),
    "a picture of no column": (
        lambda at: numbered(at).pipeline().map(unirecord.images.Decode((4, 4))),
        r"works on one column: map\(.*columns=\[...\]\)",
        lambda at: (
            next(iter(pictures(at).pipeline().map(unirecord.images.Decode((4, 4)), columns=["x"])))["x"].shape
            == (4, 4, 3)
        ),
    ),
    "a condition on generators": (
        lambda at: unirecord.Pipeline.from_generators([lambda: iter(TEN)]).filter("i > 3"),
        "give a function",
        lambda at: (
            list(unirecord.Pipeline.from_generators([lambda: iter(TEN)]).filter(lambda i: i > 3)) == TEN[4:]
        ),
    ),
    "a generator that is one": (
        lambda at: unirecord.Pipeline.from_generators([iter(TEN)]),
        "a list of functions that give iterables",
        lambda at: list(unirecord.Pipeline.from_generators([lambda: iter(TEN)])) == TEN,
    ),
    "a fraction without its crop": (
        lambda at: unirecord.images.Decode(4, fraction=0.5),
        "fraction= goes with crop='center'",
        lambda at: unirecord.images.Decode(4, fraction=0.5, crop="center") is not None,
    ),
    "an area without its crop": (
        lambda at: unirecord.images.Decode(4, scale=(0.5, 1)),
        "scale= and ratio= go with crop='random-resized'",
        lambda at: unirecord.images.Decode(4, scale=(0.5, 1), crop="random-resized") is not None,
    ),
    "a flip that is no probability": (
        lambda at: unirecord.images.Decode(4, flip=True),
        "is a probability; 0.5 mirrors every other picture",
        lambda at: unirecord.images.Decode(4, flip=0.5) is not None,
    ),
    "a mean of bytes": (
        lambda at: unirecord.images.Decode(4, mean=1, std=2),
        "go with dtype='float32' or 'float16'",
        lambda at: all(
            unirecord.images.Decode(4, mean=1, std=2, dtype=one) for one in ("float32", "float16")
        ),
    ),
}

OF_FILES: Called = {
    "two sizes of parts": (
        lambda at: unirecord.compact(at / "rows", part_bytes="1MB", rows_per_part=2),
        "give part_bytes or rows_per_part",
        lambda at: (
            unirecord.compact(at / "rows", part_bytes="1MB")
            and unirecord.compact(at / "rows", rows_per_part=2)
        ),
    ),
    "a purge of a condition and rows": (
        lambda at: unirecord.purge(at / "rows", where="k == 1", rows=[0]),
        "not both",
        lambda at: unirecord.purge(at / "rows", where="k == 1") and len(opened(at)) == 2,
    ),
    "a merge over a dataset": (
        lambda at: unirecord.merge([at / "rows"], at / "rows"),
        "choose another name",
        lambda at: unirecord.merge([at / "rows"], at / "other") and len(UniRecordDataset(at / "other")) == 3,
    ),
    "a version that is changed": (
        lambda at: [unirecord.delete(at / "rows", rows=[0]), unirecord.delete(f"{at}/rows@1", rows=[1])],
        r"name .*rows$",
        lambda at: unirecord.delete(f"{at}/rows", rows=[1]).rows == 1,
    ),
    "a version of a list": (
        lambda at: UniRecordDataset([at / "rows"], version=1),
        "name each as DIRECTORY@VERSION",
        lambda at: unirecord.delete(at / "rows", rows=[0]) and len(UniRecordDataset([f"{at}/rows@1"])) == 3,
    ),
    "a version that is taken": (
        lambda at: [(at / "rows@1").mkdir(exist_ok=True), UniRecordDataset(at / "rows", version=1)],
        "rename it",
        lambda at: (at / "rows@1").rename(at / "mine") and len(UniRecordDataset(at / "rows", version=1)) == 3,
    ),
    "no path": (
        lambda at: UniRecordDataset(""),
        r"name a part \(.urec\), a directory of parts, or a glob",
        lambda at: (
            [
                unirecord.export(at / "rows", at / "e.jsonl"),
                *(len(UniRecordDataset(f"{at}/{one}")) == 3 for one in ("rows", "rows/*.urec", parts(at)[0])),
            ][1:]
            == [True] * 3
        ),
    ),
    "the home folder": (
        lambda at: at_home(at, lambda: "~/rows"),
        "only a shell expands ~, so name .*/rows$",
        lambda at: at_home(at, Path("~/rows").expanduser) == 3,
    ),
    "a lost manifest": (
        lambda at: [(at / "rows" / "manifest.json").unlink(missing_ok=True), opened(at)],
        "`unirecord repair .*` makes it anew",
        lambda at: main(["repair", str(at / "rows")]) == 0 and len(opened(at)) == 3,
    ),
    "a lost file of deletions": (
        lambda at: [
            unirecord.delete(at / "rows", rows=[0]),
            next((at / "rows").glob("*.del-*")).unlink(),
            opened(at),
        ],
        r"go back to a version without it: unirecord restore .*@N \(unirecord log lists them\)",
        lambda at: (
            main(["log", str(at / "rows")]) == main(["restore", str(at / "rows@1")]) == 0
            and len(opened(at)) == 3
        ),
    ),
    "an export over a folder": (
        lambda at: unirecord.export(at / "rows", at / "rows", to="jsonl", overwrite=True),
        "choose another path",
        lambda at: unirecord.export(at / "rows", at / "other", to="jsonl", overwrite=True),
    ),
}


def sourced(at: Path) -> UniRecordDataset:
    return made(at, {"source": "int32"}, {"source": [1, 2]})


def read_meanwhile(at: Path, call: Callable[[], Any]) -> Any:
    with opened(at):
        return call()


def labelled(*names: str) -> dict[str, Any]:
    return {"label": {"type": "int32", "logical": {"type": "class", "names": list(names)}}}


def classes(at: Path, *names: str) -> Path:
    path = at / "-".join(names)
    with unirecord.Writer(path, labelled(*names), overwrite=True) as writer:
        writer.write_batch({"label": [0, 1]})
    return path


def of_environment(at: Path, variables: dict[str, str], **options: Any) -> int:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        return len(UniRecordDataset.distributed(at / "rows", **options))


OF_MORE: Called = {
    "a mixture with a column source": (
        lambda at: unirecord.mix({"a": sourced(at)}),
        "give the one that names the source another name, or None",
        lambda at: (
            set(unirecord.mix({"a": sourced(at)}, source_column="of")[0]) == {"source", "of"}
            and set(unirecord.mix({"a": sourced(at)}, source_column=None)[0]) == {"source"}
        ),
    ),
    "windows with two columns of a name": (
        lambda at: unirecord.windows(tokens(at), "tokens", 2, documents="tokens"),
        "columns of the same name: .*; give others",
        lambda at: set(unirecord.windows(tokens(at), "tokens", 2, documents="of")[0]) == {"tokens", "of"},
    ),
    "windows in the order of parts": (
        lambda at: unirecord.windows(tokens(at, shuffle="parts"), "tokens", 2),
        'shuffle with True or "block"',
        lambda at: (
            len(unirecord.windows(tokens(at, shuffle=True), "tokens", 2))
            == len(unirecord.windows(tokens(at, shuffle="block"), "tokens", 2))
            == 10
        ),
    ),
    "a condition as a selection": (
        lambda at: numbered(at).select("i > 3"),
        r"for a condition use ds.view\(where=…\)",
        lambda at: values(numbered(at).view(where="i > 3").batches(2)) == TEN[4:],
    ),
    "a condition as rows that are left out": (
        lambda at: numbered(at).exclude("i > 3"),
        r"ds.view\(where=…\).order.row_ids\(\) are those that meet a condition",
        lambda at: list(numbered(at).view(where="i > 3").order.row_ids()) == TEN[4:],
    ),
    "ranks by half": (
        lambda at: of_environment(at, {"RANK": "0"}),
        "set both, or give shard_id and num_shards",
        lambda at: (
            of_environment(at, {"RANK": "0", "WORLD_SIZE": "3"})
            == of_environment(at, {}, shard_id=0, num_shards=3)
            == 1
        ),
    ),
    "an export to no folder": (
        lambda at: unirecord.export(at / "rows", at / "no" / "e.jsonl"),
        "does not exist; make it first",
        lambda at: (at / "no").mkdir() or unirecord.export(at / "rows", at / "no" / "e.jsonl"),
    ),
    "a row of one part": (
        lambda at: unirecord.delete(at / parts(at)[0], rows=[0]),
        "write a single part again without them",
        lambda at: (
            unirecord.write_dataset(at / parts(at)[0], at / "new.urec", where="k != 1")
            and len(UniRecordDataset(at / "new.urec")) == 2
        ),
    ),
    "a purge while somebody reads": (
        lambda at: read_meanwhile(at, lambda: unirecord.purge(at / "rows", rows=[0])),
        "end what has it open on this machine, and purge again",
        lambda at: unirecord.purge(at / "rows", rows=[0]) and len(opened(at)) == 2,
    ),
    "classes of other numbers": (
        lambda at: UniRecordDataset([classes(at, "a", "b"), classes(at, "b", "a")]),
        r"open them one at a time, or write it in the form of the other: unirecord.add_columns\(replace=True\)",
        lambda at: (
            len(UniRecordDataset(classes(at, "a", "b"))) == 2
            and unirecord.add_columns(
                classes(at, "b", "a"), labelled("a", "b"), {"label": [1, 0]}, replace=True
            )
            and len(UniRecordDataset([at / "a-b", at / "b-a"])) == 4
        ),
    ),
    "a merge of other columns": (
        lambda at: unirecord.merge([at / "rows", numbered(at).path], at / "all"),
        r"write one of them anew with what the other has \(unirecord write\)",
        lambda at: (
            unirecord.write_dataset(at / "rows", at / "a", columns=["k"])
            and unirecord.write_dataset(at / "rows", at / "b", columns=["k"])
            and unirecord.merge([at / "a", at / "b"], at / "all")
            and len(UniRecordDataset(at / "all")) == 6
        ),
    ),
    "a storage that is not known": (
        lambda at: UniRecordDataset("nothing://a/b"),
        "no storage is known for nothing://; name a path on a disk",
        lambda at: len(opened(at)) == 3,
    ),
    "classes of folders that are numbered otherwise": (
        lambda at: len(class_folders(at, "write more o", "o")),
        "open them one at a time, or write one again with --classes-from the other",
        lambda at: (
            len(UniRecordDataset(at / "o")) == 1
            and len(class_folders(at, "write more o2 --classes-from pets", "o2")) == 3
        ),
    ),
    "torch: texts of no length": (
        lambda at: list(data_loader(halves(at, columns=["o"]), 2)),
        "Leave it out with columns=",
        lambda at: (
            values(data_loader(halves(at, columns=["i"]), 2)) == [0, 1]
            and len(list(data_loader(halves(at), 2, collate_fn=list))) == 1
            and len(list(unirecord.torch.loader(halves(at), 2))) == 1
            and values(data_loader(halves(at, transform=lambda one: {"i": one["i"]}), 2)) == [0, 1]
        ),
    ),
    "torch: a null in a DataLoader": (
        lambda at: list(data_loader(opened(at, columns=["maybe"]), 3)),
        "fill or pad its values in a transform",
        lambda at: (
            values(data_loader(opened(at, transform=lambda one: {"maybe": one["maybe"] or 0}), 3), "maybe")
            == [0, 0, 1]
        ),
    ),
    "jax: a masked array": (
        lambda at: list(unirecord.jax.loader(opened(at).view(columns=["maybe"]), 3, collate_fn=masked)),
        "give a dict, or fill it",
        lambda at: (
            len(list(unirecord.jax.loader(opened(at), 3, collate_fn=lambda batch: {"x": masked(batch)}))) == 1
            and len(
                list(unirecord.jax.loader(opened(at), 3, collate_fn=lambda batch: masked(batch).filled(0)))
            )
            == 1
        ),
    ),
    "grain: a state of another epoch": (
        lambda at: grain_resumed(at, 0),
        r"call ds.set_epoch\(\) with the first one before batches\(\)",
        lambda at: grain_resumed(at, 5),
    ),
}


def class_folders(at: Path, command: str, path: str) -> UniRecordDataset:
    """Two datasets of class folders as one, of which the second is made by the command."""
    with chdir(at):
        if not Path("pets").exists():
            animals(at)
        assert main(shlex.split(command)) == 0
        return UniRecordDataset(["pets", path])


def half_masked() -> Any:
    return np.ma.array([1, 2], np.int8, mask=[True, False])


def masked(batch: Any) -> Any:
    return np.ma.array([1, 2, 3], mask=[True, False, False])


def grain_resumed(at: Path, epoch: int) -> bool:
    """Whether batches of two epochs from this one go on by a state of epoch 5."""
    ds = numbered(at, shuffle=True)
    ds.set_epoch(5)
    reading = iter(unirecord.grain.batches(ds, 2, epochs=2))
    next(reading)
    state = reading.get_state()
    expected = next(reading)
    ds = UniRecordDataset(ds.path, shuffle=True)
    ds.set_epoch(epoch)
    again = iter(unirecord.grain.batches(ds, 2, epochs=2))
    again.set_state(state)
    return bool((next(again)["i"] == expected["i"]).all())


@contextmanager
def stored(at: Path) -> Iterator[str]:
    """The URL of a bucket of a store that is served meanwhile, with a copy of the dataset ``rows``."""
    (at / "store").mkdir(exist_ok=True)
    shutil.copytree(at / "rows", at / "store" / "bucket" / "rows", dirs_exist_ok=True)
    with serving(at / "store") as server, pytest.MonkeyPatch.context() as patched:
        patched.setattr(object_store, "_stores", {})
        server.set_environment(patched)
        yield "s3://bucket"


def in_store(call: Callable[[Path, str], Any]) -> Callable[[Path], Any]:
    """The call, given a folder and the URL of a bucket."""

    def called(at: Path) -> Any:
        with stored(at) as url:
            return call(at, url)

    return called


def ran(*command: str, stdin: str = "") -> bool:
    """Runs a command; RuntimeError with what it says on stderr where it ends with another code than 0."""
    with redirect_stderr(io.StringIO()) as said, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        status = main(list(command))
    if status:
        raise RuntimeError(said.getvalue())
    return True


def csv_of(at: Path) -> str:
    csv(at)
    return str(at / "a.csv")


def over_http(path: str) -> str:
    return f"{os.environ['AWS_ENDPOINT_URL']}/bucket/{path}"


# As above, of object stores: each call is given a folder and the URL of a bucket, both with the dataset ``rows``.
IN_STORES: dict[str, tuple[Callable[[Path, str], Any], str, Callable[[Path, str], Any]]] = {
    "one part": (
        lambda at, url: unirecord.Writer(f"{url}/a.urec", {"k": "int8"}),
        "choose a name without .urec, or write the part to a disk and copy its index, and then itself",
        lambda at, url: (
            unirecord.write_dataset(at / "rows", f"{url}/a") and len(UniRecordDataset(f"{url}/a")) == 3
        ),
    ),
    "an id": (
        lambda at, url: unirecord.Writer(f"{url}/a", {"k": "int8"}, id=b"1" * 16),
        "leave it out, or write to a disk and copy that",
        lambda at, url: (
            unirecord.Writer(f"{url}/a", {"k": "int8"}).close() or len(UniRecordDataset(f"{url}/a")) == 0
        ),
    ),
    "a report": (
        lambda at, url: unirecord.export(f"{url}/rows", f"{url}/e.jsonl"),
        "name a path on a disk, and copy what comes of it",
        lambda at, url: unirecord.export(f"{url}/rows", at / "e.jsonl"),
    ),
    "a purge": (
        lambda at, url: unirecord.purge(f"{url}/rows", where="k == 1"),
        "delete the rows, `unirecord write` what is left to another place, and remove this",
        lambda at, url: (
            unirecord.delete(f"{url}/rows", where="k == 1")
            and main(["write", f"{url}/rows", str(at / "left")]) == 0
            and len(UniRecordDataset(at / "left")) == 2
        ),
    ),
    "a gc": (
        lambda at, url: unirecord.gc(f"{url}/rows"),
        r"older_than says how long readers and writers may live, such as timedelta\(days=7\)",
        lambda at, url: unirecord.gc(f"{url}/rows", older_than=timedelta(days=7)) is not None,
    ),
    "a way of reading": (
        lambda at, url: UniRecordDataset(f"{url}/rows", io="pread"),
        'an object store is read with "auto" alone',
        lambda at, url: len(UniRecordDataset(f"{url}/rows", io="auto")) == 3,
    ),
    "two kinds of storage": (
        lambda at, url: UniRecordDataset([f"{url}/rows", at / "rows"]),
        "parts that are read together lie in one kind of storage",
        lambda at, url: len(UniRecordDataset([f"{url}/rows"])) == len(UniRecordDataset(at / "rows")) == 3,
    ),
    "a pattern of folders": (
        lambda at, url: UniRecordDataset(f"{url}/r*/part*.urec"),
        "wildcards stand in the last part of a path alone",
        lambda at, url: len(UniRecordDataset(f"{url}/rows/part*.urec")) == 3,
    ),
    "an option without a value": (
        lambda at, url: UniRecordDataset(f"{url}/rows", storage_options={"region": None}),
        "is None: leave it out",
        lambda at, url: len(UniRecordDataset(f"{url}/rows", storage_options={})) == 3,
    ),
    "an option of the client": (
        lambda at, url: UniRecordDataset(f"{url}/rows", storage_options={"client_options": {"timout": "5s"}}),
        "did you mean '(timeout)'",
        lambda at, url: (
            len(UniRecordDataset(f"{url}/rows", storage_options={"client_options": {"timeout": "5s"}})) == 3
        ),
    ),
    "options that are no dict": (
        lambda at, url: UniRecordDataset(f"{url}/rows", storage_options="region=x"),
        "a dict of options by name",
        lambda at, url: len(UniRecordDataset(f"{url}/rows", storage_options={"region": "x"})) == 3,
    ),
    "a cache without a size": (
        lambda at, url: UniRecordDataset(f"{url}/rows", cache=at / "cache"),
        'as cache="/scratch/cache", cache_bytes="200GB"',
        lambda at, url: len(UniRecordDataset(f"{url}/rows", cache=at / "cache", cache_bytes="64MB")) == 3,
    ),
    "a cache that others may write to": (
        lambda at, url: (
            (at / "open").mkdir() or (at / "open").chmod(0o777)
            or UniRecordDataset(f"{url}/rows", cache=at / "open", cache_bytes="64MB")
        ),
        "others may write to it: chmod go-w .*open",
        lambda at, url: (
            (at / "open").chmod(0o755)
            or len(UniRecordDataset(f"{url}/rows", cache=at / "open", cache_bytes="64MB")) == 3
        ),
    ),
    "a cache that is a link": (
        lambda at, url: (
            (at / "mine").mkdir() or (at / "link").symlink_to(at / "nowhere")
            or UniRecordDataset(f"{url}/rows", cache=at / "link", cache_bytes="64MB")
        ),
        "exists|choose a directory of your own",
        lambda at, url: len(UniRecordDataset(f"{url}/rows", cache=at / "mine", cache_bytes="64MB")) == 3,
    ),
    "no dataset to append to": (
        lambda at, url: unirecord.append(f"{url}/new"),
        "use Writer to make one",
        lambda at, url: (
            unirecord.Writer(f"{url}/new", {"k": "int8"}).close() or unirecord.append(f"{url}/new").close() or True
        ),
    ),
    "a source": (
        lambda at, url: unirecord.write_dataset(f"{url}/rows.csv", at / "new"),
        "copy it to a disk first",
        lambda at, url: unirecord.write_dataset(f"{url}/rows", at / "new"),
    ),
    "a pattern over HTTP": (
        lambda at, url: UniRecordDataset(over_http("rows/*.urec")),
        "name the dataset, or its parts",
        lambda at, url: (
            len(UniRecordDataset(over_http("rows"))) == len(UniRecordDataset(over_http(parts(at)[0]))) == 3
        ),
    ),
    "written over HTTP": (
        lambda at, url: unirecord.Writer(over_http("new"), {"k": "int8"}),
        "write to a disk, or to s3://",
        lambda at, url: (
            unirecord.Writer(at / "new", {"k": "int8"}).close()
            or unirecord.Writer(f"{url}/new", {"k": "int8"}).close() is None
        ),
    ),
    "a cold cache": (
        lambda at, url: ran("bench", f"{url}/rows", "--cold", "--seconds", "0.1"),
        "--cold is for files: nothing of .* is kept",
        lambda at, url: (
            ran("bench", f"{url}/rows", "--seconds", "0.1") and ran("bench", f"{at}/rows", "--cold", "--seconds", "0.1")
        ),
    ),
    "one part by a command": (
        lambda at, url: ran("write", csv_of(at), f"{url}/a.urec"),
        "choose a name without .urec, or write the part to a disk and copy its index, and then itself",
        lambda at, url: (
            ran("write", csv_of(at), f"{url}/a")
            and ran("write", csv_of(at), f"{at}/b.urec")
            and all(shutil.copy(f"{at}/b.urec{end}", at / "store" / "bucket") for end in (".idx", ""))
            and len(UniRecordDataset(f"{url}/b.urec")) == 3
        ),
    ),
    "an option of a store without its value": (
        lambda at, url: ran("inspect", f"{url}/rows", "--storage-option", "region"),
        "NAME=VALUE, such as region=eu-west-1",
        lambda at, url: ran("inspect", f"{url}/rows", "--storage-option", "region=eu-west-1"),
    ),
    "a cache without its size, by a command": (
        lambda at, url: ran("bench", f"{url}/rows", "--seconds", "0.1", "--cache", f"{at}/c"),
        "as --cache /scratch/cache --cache-bytes 200GB",
        lambda at, url: ran("bench", f"{url}/rows", "--seconds", "0.1", "--cache", f"{at}/c", "--cache-bytes", "200GB"),
    ),
    "a cache that keeps nothing of manifests": (
        lambda at, url: ran("log", f"{url}/rows", "--cache", f"{at}/c", "--cache-bytes", "1GB"),
        "it reads manifests alone, which no cache keeps",
        lambda at, url: ran("log", f"{url}/rows"),
    ),
    "a pin of no URL": (
        lambda at, url: ran("fetch", f"{url}/rows", "--cache", f"{at}/c", "--cache-bytes", "1GB") and ran(
            "cache", "pin", f"{at}/c"
        ),
        "takes a URL, as `unirecord cache ls` names it",
        lambda at, url: ran("cache", "ls", f"{at}/c") and ran("cache", "pin", f"{at}/c", f"{url}/rows"),
    ),
    "an age of versions": (
        lambda at, url: ran("gc", f"{url}/rows", "--keep", "1"),
        "give --older-than, such as 7d",
        lambda at, url: ran("gc", f"{url}/rows", "--keep", "1", "--older-than", "7d"),
    ),
    "a source of a store": (
        lambda at, url: ran("write", f"{url}/a.csv", f"{at}/o"),
        "copy it to a disk first",
        lambda at, url: ran("write", csv_of(at), f"{at}/o"),
    ),
}  # fmt: skip


def parts_lost(at: Path) -> None:
    """The dataset ``rows`` without its manifest and versions."""
    for path in (at / "rows").glob("*manifest*"):
        path.unlink()


def state_of(loader: Any, batches: int = 1) -> Any:
    reading = iter(loader)
    for _ in range(batches):
        next(reading)
    return loader.state_dict()


def numbered_again(at: Path, **options: Any) -> UniRecordDataset:
    """Rows 0 … 9 of one dataset, which is made when it is first asked for."""
    if not (at / "again").exists():
        shutil.copytree(numbered(at).path, at / "again")
    return UniRecordDataset(at / "again", **options)


def many_rows(at: Path, **options: Any) -> UniRecordDataset:
    return made(at, {"i": "int32"}, {"i": np.arange(100_000, dtype=np.int32)}, **options)


def twice(sample: dict[str, Any]) -> list[Any]:
    return [sample, sample]


def chunks(at: Path, rank: int, ranks: int) -> Any:
    """A pipeline that makes two elements of each sample of a rank."""
    return numbered_again(at, shard_id=rank, num_shards=ranks).pipeline().flat_map(twice)


def planned(pipeline: Any) -> Any:
    list(pipeline)
    return pipeline.plan()


def wider(at: Path) -> Path:
    """The dataset ``rows`` with a column more."""
    if not (at / "wider").exists():
        shutil.copytree(at / "rows", at / "wider")
        unirecord.add_columns(at / "wider", {"n": "int8"}, {"n": [1, 2, 3]})
    return at / "wider"


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0xFF
    path.write_bytes(raw)


def changed_meanwhile(at: Path) -> None:
    pickled = pickle.dumps(opened(at))
    with unirecord.Writer(at / "rows", {"k": "int64"}, overwrite=True) as writer:
        writer.write({"k": 1})
    pickle.loads(pickled)


def of_64_bits(call: Callable[[], Any]) -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    try:
        return call()
    finally:
        jax.config.update("jax_enable_x64", False)


def loaded(at: Path, **options: Any) -> Any:
    import datasets

    datasets.disable_progress_bars()
    return datasets.load_dataset("unirecord", cache_dir=str(at / "hub"), split="train", **options)


def two_kinds(at: Path) -> list[str]:
    """Two parts that share a column ``i``."""
    for name, schema in (("x", {"i": "int64", "label": "int8"}), ("y", {"i": "int64"})):
        with unirecord.Writer(at / f"{name}.urec", schema, overwrite=True) as writer:
            writer.write({"i": 1, "label": 2} if name == "x" else {"i": 3})
    return [str(at / "x.urec"), str(at / "y.urec")]


def read_in_worker(path: str, **how: int) -> list[Any]:
    """What a pipeline gives in a worker of a DataLoader."""
    from torch.utils.data import IterableDataset

    class InWorker(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter(UniRecordDataset(path).pipeline().map(doubled, **how))

    return list(data_loader(InWorker(), batch_size=None, num_workers=1, multiprocessing_context="fork"))


OF_PYTHON: Called = {
    "a label that is no name": (
        lambda at: numbered(at).batches(2).stats().to_prometheus({"a b": "x"}),
        "expected ASCII letters, digits and _",
        lambda at: numbered(at).batches(2).stats().to_prometheus({"a_b": "x"}),
    ),
    "a label that is taken": (
        lambda at: numbered(at).batches(2).stats().to_prometheus({"quantile": "x"}),
        "give yours another name",
        lambda at: numbered(at).batches(2).stats().to_prometheus({"my_quantile": "x"}),
    ),
    "figures of another name": (
        lambda at: numbered(at).batches(2).stats().save(at / "s.json"),
        "whose name ends in .stats.json",
        lambda at: numbered(at).batches(2).stats().save(at / "s.stats.json") is None,
    ),
    "a shard of how many": (
        lambda at: numbered(at, shard_id=1), "give both, or neither for all rows",
        lambda at: len(numbered(at, shard_id=1, num_shards=2)) == 5 and len(numbered(at)) == 10,
    ),
    "shares that are no whole": (
        lambda at: unirecord.split(at / "rows", at / "s", {"a": 0.5, "b": 0.4}),
        "must be more than 0 and add up to 1",
        lambda at: unirecord.split(at / "rows", at / "s", {"a": 0.5, "b": 0.5}),
    ),
    "a fill that is no bool": (
        lambda at: numbered(at).exclude(rows=[1], fill="no"), "fill must be True or False",
        lambda at: numbered(at).exclude(rows=[1], fill=False) == 1,
    ),
    "a source of no weight": (
        lambda at: unirecord.mix({"a": numbered(at), "b": numbered(at)}, weights={"a": 1, "b": 0}),
        "source 'b' has the weight 0 and would never come: leave it out",
        lambda at: len(unirecord.mix({"a": numbered(at)}, weights={"a": 1})) == 10,
    ),
    "a source of too little weight": (
        lambda at: unirecord.mix({"a": numbered(at), "b": numbered(at)}, weights={"a": 1, "b": 1e-9}),
        "give more, or leave the source out; in a stage of a schedule, 0 is allowed",
        lambda at: (
            unirecord.mix(
                {"a": numbered(at), "b": numbered(at)}, weights={"a": 1, "b": 0},
                schedule={5: {"a": 0, "b": 1}}, samples=9,
            ) and
            unirecord.mix({"a": numbered(at), "b": numbered(at)}, weights={"a": 1, "b": 1e-3}, stop="all")
            and unirecord.mix({"a": numbered(at)}, weights={"a": 1})
        ),
    ),
    "a source that means another thing": (
        lambda at: unirecord.mix(
            {name: UniRecordDataset(classes(at, *name)) for name in ("ab", "ba")}
        ),
        r"leave it out with ds.view\(columns=…\), or write it in the form of the other: "
        r"unirecord.add_columns\(replace=True\)",
        lambda at: (
            unirecord.add_columns(classes(at, "b", "a"), labelled("a", "b"), {"label": [1, 0]}, replace=True)
            and len(
                unirecord.mix({"x": UniRecordDataset(classes(at, "a", "b")), "y": UniRecordDataset(at / "b-a")})
            )
            == 4
        ),
    ),
    "hf: a stream made before rows were left out": (
        lambda at: [
            list(stream) for ds in [numbered(at)] for stream in [unirecord.hf.dataset(ds)] if ds.exclude(rows=[1])
        ],
        "make it anew",
        lambda at: len(list(unirecord.hf.dataset(without(numbered(at), rows=[1])))) == 9,
    ),
    "all rows left out and filled": (
        # On a rank with few of the rows: each takes as many draws as there may be.
        lambda at: list(
            without(many_rows(at, num_shards=1_000, shard_id=0), rows=range(1, 100_000), fill=True).batches(9)
        ),
        r"choose the others with where= or select\(\) instead",
        lambda at: values(many_rows(at, where="i == 0").batches(2)) == values(many_rows(at).select([0]).batches(2)),
    ),
    "a state of other options": (
        lambda at: numbered(at, shuffle=True, seed=1).load_state_dict(
            numbered_again(at, shuffle=True, seed=2).state_dict()
        ),
        "belongs to another dataset|saved with other options: .*Open the dataset as it was opened then",
        lambda at: (
            numbered_again(at, shuffle=True, seed=2).load_state_dict(
                numbered_again(at, shuffle=True, seed=2).state_dict()
            )
            is None
        ),
    ),
    "a state of another batch sampler": (
        lambda at: [
            list(loader)
            for ds in [numbered(at)]
            for state in [state_of(unirecord.torch.loader(ds, batch_sampler=[[1], [2]]))]
            for loader in [unirecord.torch.loader(UniRecordDataset(ds.path), batch_sampler=[[3], [2]])]
            if loader.load_state_dict(state) is None
        ],
        "seed it, and set its epoch, as it was then",
        lambda at: [
            values(loader)
            for ds in [numbered(at)]
            for state in [state_of(unirecord.torch.loader(ds, batch_sampler=[[1], [2]]))]
            for loader in [unirecord.torch.loader(UniRecordDataset(ds.path), batch_sampler=[[1], [2]])]
            if loader.load_state_dict(state) is None
        ]
        == [[2]],
    ),
    "a plan of other stages": (
        lambda at: list(
            numbered(at).pipeline(plan=planned(numbered(at).pipeline().map(doubled))).batch(2)
        ),
        "make a new one",
        lambda at: len(list(numbered(at).pipeline(plan=planned(numbered(at).pipeline().batch(2))).batch(2))) == 5,
    ),
    "a step of generators": (
        lambda at: unirecord.Pipeline.from_generators([lambda: iter(TEN)]).replay(1), "only they could give them again",
        lambda at: numbered(at).pipeline().replay(1)["i"] == 1,
    ),
    "a state of another rank": (
        lambda at: chunks(at, 1, 2).load_state_dict(state_of(chunks(at, 0, 2))),
        r"each rank goes on from its own state, or any number of ranks from those of all in a list: load_state_dict\(",
        lambda at: [
            len(list(one))
            for one, state in [
                (chunks(at, 0, 2), state_of(chunks(at, 0, 2))),
                (chunks(at, 0, 1), [state_of(chunks(at, rank, 2)) for rank in range(2)]),
            ]
            if one.load_state_dict(state) is None
        ]
        == [9, 18],
    ),
    "a state of another pipeline": (
        lambda at: (
            numbered_again(at).pipeline().filter(bool).flat_map(list).load_state_dict(state_of(chunks(at, 0, 1)))
        ),
        "build the pipeline as it was built then, or start the epoch anew",
        lambda at: [
            len(list(one)) for one in [chunks(at, 0, 1)] if one.load_state_dict(state_of(chunks(at, 0, 1))) is None
        ]
        == [19],
    ),
    "a codec of no kind": (
        lambda at: made(at, {"t": {"type": "text", "codec": "zip"}}, {"t": ["a"]}), "zstd",
        lambda at: len(made(at, {"t": {"type": "text", "codec": "zstd"}}, {"t": ["a"]})) == 1,
    ),
    "an element type alone": (
        lambda at: unirecord.Schema.parse({"x": "bfloat16"}),
        r'add a shape, such as \{"type": "bfloat16", "shape": \[-1\]\}',
        lambda at: unirecord.Schema.parse({"x": {"type": "bfloat16", "shape": [-1]}}),
    ),
    "a batch of bytes in numpy": (
        lambda at: made(at, {"x": "bytes"}, {"x": np.array([b"a\0"])}), "pass a list of bytes",
        lambda at: made(at, {"x": "bytes"}, {"x": [b"a\0"]})[0]["x"] == b"a\0",
    ),
    "an array with a masked element": (
        lambda at: made(at, {"x": "int8[2]"}, {"x": half_masked()[None]}), "fill it first",
        lambda at: len(made(at, {"x": "int8[2]"}, {"x": half_masked()[None].filled(0)})) == 1,
    ),
    "a masked array in a record": (
        lambda at: written(at, [{"x": half_masked()}], schema={"x": "int8[2]"}),
        "fill it first",
        lambda at: written(at, [{"x": half_masked().filled(0)}], schema={"x": "int8[2]"}) is None,
    ),
    "an array in an object": (
        lambda at: written(at, [{"x": {"a": np.zeros(2)}}], schema={"x": "object"}), r"store value.tolist\(\)",
        lambda at: written(at, [{"x": {"a": np.zeros(2).tolist()}}], schema={"x": "object"}) is None,
    ),
    "a large integer in an object": (
        lambda at: written(at, [{"x": {"a": 2**70}}], schema={"x": "object"}), "store it as a string",
        lambda at: written(at, [{"x": {"a": str(2**70)}}], schema={"x": "object"}) is None,
    ),
    "integers of more than 64 bits": (
        lambda at: written(at, [{"x": 2**70}]), "store them as strings",
        lambda at: written(at, [{"x": str(2**70)}]) is None,
    ),
    "a value of no type": (
        lambda at: written(at, [{"x": object()}]), "convert it to a number, str, bytes, numpy array, dict or list",
        lambda at: written(at, [{"x": [1]}]) is None,
    ),
    "values of two types": (
        lambda at: written(at, [{"x": 1}, {"x": "a"}]), "convert one of them, or give a schema",
        lambda at: (
            written(at, [{"x": "1"}, {"x": "a"}]) is None
            and written(at, [{"x": 1}, {"x": "a"}], schema={"x": "object"}) is None
        ),
    ),
    "an index of another column": (
        lambda at: unirecord.append(at / "rows", index=["k"]), "leave index out",
        lambda at: unirecord.append(at / "rows").close() is None,
    ),
    "annotations of appended rows": (
        lambda at: unirecord.append(classes(at, "a", "b"), labelled("b", "a")), "leave annotations out",
        lambda at: unirecord.append(classes(at, "a", "b"), {"label": "int32"}).close() is None,
    ),
    "a part with a slash": (
        lambda at: unirecord.Writer(f"{at}/a.urec/", {"k": "int8"}), "leave out the slash",
        lambda at: unirecord.Writer(f"{at}/a.urec", {"k": "int8"}).close() is None,
    ),
    "a size of a part": (
        lambda at: unirecord.Writer(at / "a.urec", {"k": "int8"}, max_part_bytes=100), "choose a name without .urec",
        lambda at: unirecord.Writer(at / "a", {"k": "int8"}, max_part_bytes=100).close() is None,
    ),
    "a size of no unit": (
        lambda at: unirecord.Writer(at / "a", {"k": "int8"}, max_part_bytes="many"), "e.g. '20GB' or '64MiB'",
        lambda at: unirecord.Writer(at / "a", {"k": "int8"}, max_part_bytes="64MiB").close() is None,
    ),
    "a single part that grows": (
        lambda at: unirecord.append(at / parts(at)[0]),
        "write the new rows to another part or to a directory, and open both as a list of paths",
        lambda at: (
            all(unirecord.write_dataset(at / "rows", at / name) == 3 for name in ("other.urec", "d"))
            and len(UniRecordDataset([at / parts(at)[0], at / "other.urec"]))
            == len(UniRecordDataset([at / parts(at)[0], at / "d"]))
            == 6
        ),
    ),
    "a writer that is closed": (
        lambda at: [writer.close() or writer.write({"k": 1}) for writer in [unirecord.Writer(at / "a", {"k": "int8"})]],
        "open a new one to write more",
        lambda at: unirecord.append(at / "a").close() is None,
    ),
    "parts without a manifest": (
        lambda at: parts_lost(at) or unirecord.append(at / "rows"),
        r"run `unirecord repair .*` to make it anew from the parts, or pass overwrite=True to Writer",
        lambda at: (
            main(["repair", str(at / "rows")]) == 0
            and unirecord.append(at / "rows").close() is None
            and unirecord.Writer(at / "rows", {"k": "int8"}, overwrite=True).close() is None
        ),
    ),
    "other files in the way": (
        lambda at: [
            (at / "mine").mkdir(), (at / "mine" / "a.txt").write_text("x"), unirecord.Writer(at / "mine", {"k": "int8"})
        ],
        "choose an empty or new one",
        lambda at: (
            (at / "empty").mkdir()
            or unirecord.Writer(at / "empty", {"k": "int8"}).close()
            or unirecord.Writer(at / "new", {"k": "int8"}).close() is None
        ),
    ),
    "an export beside other files": (
        lambda at: [
            unirecord.export(at / "rows", at / "e", to="npz", parts=2), (at / "e" / "mine.txt").write_text("x"),
            unirecord.export(at / "rows", at / "e", to="npz", parts=2, overwrite=True),
        ],
        "choose another path, or remove it",
        lambda at: unirecord.export(at / "rows", at / "e2", to="npz", parts=2),
    ),
    "a merge of a part with itself": (
        lambda at: unirecord.merge([at / "rows", at / "rows"], at / "all"), "leave one of the two out",
        lambda at: unirecord.merge([at / "rows"], at / "all"),
    ),
    "a merge of other columns, as they are": (
        lambda at: unirecord.merge([at / "rows", wider(at)], at / "all"),
        "write one of them anew with what the other has",
        lambda at: unirecord.write_dataset(wider(at), at / "same", columns=["k"]),
    ),
    "the version of one part": (
        lambda at: UniRecordDataset(at / parts(at)[0], version=1), "directory|versions",
        lambda at: len(UniRecordDataset(at / "rows", version=1)) == 3,
    ),
    "the newest version restored": (
        lambda at: unirecord.restore(at / "rows", 1), "there is nothing to restore",
        lambda at: unirecord.delete(at / "rows", rows=[0]) and unirecord.restore(at / "rows", 1) == 3,
    ),
    "two new names alike": (
        lambda at: unirecord.rename_columns(at / "rows", {"k": "name"}), "give one of them another name",
        lambda at: unirecord.rename_columns(at / "rows", {"k": "number"}),
    ),
    "columns of one part": (
        lambda at: unirecord.drop_columns(at / parts(at)[0], ["k"]),
        "write a single part again: unirecord write --columns, --rename",
        lambda at: main(["write", str(at / parts(at)[0]), *f"{at}/new --columns name --rename name=n".split()]) == 0,
    ),
    "one part that is laid out": (
        lambda at: unirecord.compact(at / parts(at)[0]), "only of those can parts be put together",
        lambda at: unirecord.compact(at / "rows") is not None,
    ),
    "a cache of files": (
        lambda at: UniRecordDataset(at / "rows", cache=at / "c", cache_bytes="64MB"),
        "cache= is for what is read from an object store",
        lambda at: len(UniRecordDataset(at / "rows")) == 3,
    ),
    "a cache of samples of rows": (
        lambda at: unirecord.samples_cache(at / "rows", dir=at / "c", bytes="64MB", schema={"k": "int8"}),
        r"kept by UniRecordDataset\(..., cache=, cache_bytes=\)",
        in_store(lambda at, url: len(UniRecordDataset(f"{url}/rows", cache=at / "c", cache_bytes="64MB")) == 3),
    ),
    "a lost part": (
        lambda at: [
            (at / "aside").mkdir(exist_ok=True), shutil.move(at / parts(at)[0], at / "aside" / "p"), opened(at)
        ],
        "put the file and its index back|put the file back beside it",
        lambda at: (
            shutil.move(at / "aside" / "p", next((at / "rows").glob("*.idx")).with_suffix("")) and len(opened(at)) == 3
        ),
    ),
    "a lost index": (
        lambda at: [next((at / "rows").glob("*.idx")).unlink(), opened(at)],
        "run `unirecord repair .*rows` to rebuild it from the data file",
        lambda at: main(["repair", str(at / "rows")]) == 0 and len(opened(at)) == 3,
    ),
    "a damaged index": (
        lambda at: [flip(next((at / "rows").glob("*.idx")), 200), list(opened(at))],
        "run `unirecord repair .*`",
        lambda at: main(["repair", str(at / "rows")]) == 0 and len(list(opened(at))) == 3,
    ),
    "a file that is no part": (
        lambda at: [
            (at / "x.urec").write_bytes(b"x" * 900), (at / "x.urec.idx").write_bytes(b""),
            UniRecordDataset(at / "x.urec"),
        ],
        "`unirecord write` makes them from CSV, JSON Lines and folders of pictures|run `unirecord repair",
        lambda at: (
            (csv(at) or main(["write", f"{at}/a.csv", f"{at}/y.urec"]) == 0)
            and len(UniRecordDataset(at / "y.urec")) == 3
        ),
    ),
    "a dataset of several that was replaced": (
        lambda at: changed_meanwhile(at), "open it anew|open it again",
        lambda at: len(opened(at, columns=None)) == 1,
    ),
    "jax: a mask of a taken name": (
        lambda at: list(
            unirecord.jax.loader(opened(at), 3, collate_fn=lambda batch: {"x": masked(batch), "x_valid": np.zeros(3)})
        ),
        "leave one out, or name it otherwise",
        lambda at: (
            len(list(unirecord.jax.loader(opened(at), 3, collate_fn=lambda b: {"x": masked(b), "y": np.zeros(3)}))) == 1
            and len(list(unirecord.jax.loader(opened(at), 3, collate_fn=lambda b: {"x": masked(b)}))) == 1
        ),
    ),
    "jax: 64 bits": (
        lambda at: list(unirecord.jax.loader(made(at, {"i": "int64"}, {"i": [2**40]}), 1)),
        r'jax.config.update\("jax_enable_x64", True\)',
        lambda at: (
            of_64_bits(lambda: values(unirecord.jax.loader(made(at, {"i": "int64"}, {"i": [2**40]}), 1))) == [2**40]
        ),
    ),
    "hf: files of a kind that is not read": (
        lambda at: loaded(at, data_files=str(at / "rows" / "*.idx")),
        r"no data file is a part \(a.urec\) or a manifest.json",
        lambda at: (
            len(loaded(at, data_files=str(at / "rows" / "manifest.json"), columns=["k"])) == 3
            and len(loaded(at, data_files=str(at / parts(at)[0]), columns=["k"])) == 3
            and len(loaded(at, data_dir=str(at / "rows"), columns=["k"])) == 3
        ),
    ),
    "hf: files of other columns": (
        lambda at: loaded(at, data_files=two_kinds(at)), "load them apart, or choose columns= that they share",
        lambda at: (
            len(loaded(at, data_files=two_kinds(at), columns=["i"])) == 2
            and [len(loaded(at, data_files=one)) for one in two_kinds(at)] == [1, 1]
        ),
    ),
    "torch: a DataLoader's position": (
        lambda at: [list(data_loader(ds, 2, num_workers=1)) and ds.state_dict() for ds in [numbered(at)]],
        r"sampler=unirecord.torch.EpochSampler\(ds\); between epochs, save the epoch and call set_epoch",
        lambda at: [
            list(data_loader(ds, 2, sampler=unirecord.torch.EpochSampler(ds))) and ds.load_state_dict(ds.state_dict())
            for ds in [numbered(at)]
        ]
        == [None],
    ),
    "torch: processes in a worker": (
        lambda at: read_in_worker(numbered(at).path, processes=2),
        "give threads= in it",
        lambda at: len(read_in_worker(numbered(at).path, threads=2)) == 10,
    ),
    "torch: no batches in shared memory": (
        lambda at: unirecord.torch.loader(opened(at).pipeline(), 2), r"UniRecordDataset\(path\)",
        lambda at: len(list(unirecord.torch.loader(opened(at, columns=["k"]), 2))) == 2,
    ),
}  # fmt: skip


def held_elsewhere(make: Callable[[], Any], call: Callable[[], Any]) -> Any:
    """What the call gives while another process has what ``make`` makes, which is closed then."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def hold() -> None:
        here.close()
        with make():
            there.send("made")
            with suppress(EOFError, OSError):  # which is the end of the call
                there.recv()

    process = context.Process(target=hold)
    process.start()
    there.close()
    try:
        assert here.recv() == "made"
        return call()
    finally:
        here.close()
        process.join()


def new(at: Path, name: str = "w", **options: Any) -> unirecord.Writer:
    return unirecord.Writer(at / name, {"k": "int8"}, **options)


def without_locks(call: Callable[[], Any]) -> Any:
    """What the call gives where no lock tells who reads."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deletion, "is_leased", lambda path: None)
        return call()


def long_names(at: Path) -> Path:
    """A dataset of a part whose values are long enough to be looked for."""
    if not (at / "long").exists():
        with unirecord.Writer(at / "long", {"k": "int8", "text": "text"}) as writer:
            writer.write_batch({"k": [0, 1], "text": ["a secret of one", "the words of another"]})
    return at / "long"


def set_of_folders(at: Path, name: str, **options: Any) -> Any:
    return unirecord.export(at / "rows", at / name, to="npz", parts=2, **options)


OF_HOLDERS: Called = {
    "a writer beside one of another process": (
        lambda at: held_elsewhere(lambda: new(at), lambda: new(at)),
        "another writer is writing it; wait until it has finished, or write to another path",
        lambda at: (
            held_elsewhere(lambda: new(at, "held"), lambda: new(at, "other").close() or True)
            and new(at, overwrite=True).close() is None
        ),
    ),
    "a writer beside one of this process": (
        lambda at: [new(at) for writer in [new(at)]],
        r"another writer was made at .*; close\(\) or abort\(\) that one first",
        lambda at: (
            [one.close() or new(at, "c", overwrite=True).close() for one in [new(at, "c")]]
            == [one.abort() or new(at, "d").close() for one in [new(at, "d")]]
            == [None]
        ),
    ),
    "a part that is larger than what may stay": (
        lambda at: unirecord.evict(at / "rows", max_bytes=1),
        "`unirecord reshard` makes smaller parts",
        lambda at: (
            main(["reshard", str(at / "rows"), "3"]) == 0
            and unirecord.evict(at / "rows", max_bytes=sum(p.stat().st_size for p in (at / "rows").glob("part*")) // 4)
            and len(opened(at)) < 3
        ),
    ),
    "a purge where no lock tells": (
        lambda at: without_locks(lambda: unirecord.purge(long_names(at), rows=[0])),
        "copy the directory to a local disk, purge it there, and replace this",
        lambda at: (
            shutil.copytree(long_names(at), at / "local")
            and unirecord.purge(at / "local", rows=[0])
            and len(UniRecordDataset(at / "local")) == 1
        ),
    ),
    "a purge that somebody reads behind": (
        lambda at: read_when_deleted(at, lambda: unirecord.purge(long_names(at), rows=[0])),
        "somebody has begun to read version 1 meanwhile.* until the same purge is run again",
        lambda at: unirecord.purge(at / "long", rows=[0]) and b"secret" not in bytes_below(at / "long"),
    ),
    "a purge of which values are left": (
        lambda at: not_blank(lambda: unirecord.purge(long_names(at), rows=[0])),
        "still have values in column '.*'; run the same purge again",
        lambda at: unirecord.purge(at / "long", rows=[0]) and b"secret" not in bytes_below(at / "long"),
    ),
    "an export over a file": (
        lambda at: (at / "f").write_text("x") and set_of_folders(at, "f", overwrite=True),
        "a file is in the way of a directory; choose another path",
        lambda at: set_of_folders(at, "g"),
    ),
    "a folder that is there": (
        lambda at: [set_of_folders(at, "twice"), set_of_folders(at, "twice")],
        "pass overwrite=True to replace an earlier export",
        lambda at: set_of_folders(at, "twice", overwrite=True),
    ),
    "a folder that is none of ours": (
        lambda at: [(at / "h").mkdir(), (at / "h" / "a").write_text("x"), set_of_folders(at, "h", overwrite=True)],
        "no earlier export, so it is not replaced; choose another path, or remove it",
        lambda at: shutil.rmtree(at / "h") or set_of_folders(at, "h", overwrite=True),
    ),
    "an export with other files in it": (
        lambda at: [
            set_of_folders(at, "e"), (at / "e" / "mine.txt").write_text("x"), set_of_folders(at, "e", overwrite=True)
        ],
        "choose another path, or remove it",
        lambda at: shutil.rmtree(at / "e") or set_of_folders(at, "e"),
    ),
    "a folder in the way of a file": (
        lambda at: (at / "j.jsonl").mkdir() or unirecord.export(at / "rows", at / "j.jsonl", overwrite=True),
        "a directory is in the way of a file; choose another path",
        lambda at: unirecord.export(at / "rows", at / "other.jsonl"),
    ),
    "parts of a file": (
        lambda at: unirecord.export(at / "rows", at / "j.jsonl", parts=2),
        "a file has no parts; parts= is for a folder of files",
        lambda at: set_of_folders(at, "parts"),
    ),
    "a version that is renamed": (
        lambda at: [
            *(unirecord.delete(at / "rows", rows=[row]) for row in (0, 1)),
            (at / "rows" / "manifest-000001").rename(at / "rows" / "manifest-000002"),
            UniRecordDataset(f"{at}/rows@2"),
        ],
        "it is of version 1; give it its name back, or remove it",
        lambda at: (
            (at / "rows" / "manifest-000002").rename(at / "rows" / "manifest-000001")
            and len(UniRecordDataset(f"{at}/rows@1")) == 3
        ),
    ),
    "rows deleted, and all manifests lost": (
        lambda at: [unirecord.delete(at / "rows", rows=[0]), parts_lost(at), unirecord.repair(at / "rows")],
        "open the parts by name to have all of their rows",
        lambda at: len(UniRecordDataset(at / parts(at)[0])) == 3,
    ),
    "rows deleted, and the manifest lost": (
        lambda at: [
            *(unirecord.delete(at / "rows", rows=[row]) for row in (0, 1)), (at / "rows" / "manifest.json").unlink(),
            unirecord.repair(at / "rows"),
        ],
        "copy the manifest of the newest version that is kept, .*manifest-000002, to manifest.json",
        lambda at: (
            shutil.copy(at / "rows" / "manifest-000002", at / "rows" / "manifest.json") and len(opened(at)) == 2
        ),
    ),
    "columns added, and the manifest lost": (
        lambda at: [
            unirecord.add_columns(at / "rows", {"n": "int8"}, {"n": [1, 2, 3]}),
            unirecord.rename_columns(at / "rows", {"n": "m"}), unirecord.drop_columns(at / "rows", ["m"]),
            (at / "rows" / "manifest.json").unlink(), unirecord.repair(at / "rows"),
        ],
        "copy that of the newest version that is kept, .*manifest-000003, to manifest.json",
        lambda at: (
            shutil.copy(at / "rows" / "manifest-000003", at / "rows" / "manifest.json") and list(opened(at)["m"])
            == [1, 2, 3]
        ),
    ),
}  # fmt: skip


def read_when_deleted(at: Path, call: Callable[[], Any]) -> Any:
    """What the call gives while somebody begins to read the first version, once nobody was found to read."""
    readers: list[Any] = []
    asked = deletion._refuse_readers

    def refuse(folder: str) -> None:
        asked(folder)
        readers.append(UniRecordDataset(long_names(at)))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deletion, "_refuse_readers", refuse)
        try:
            return call()
        finally:
            for one in readers:
                one.close()


def not_blank(call: Callable[[], Any]) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deletion, "_is_blank", lambda column, found: False)
        return call()


def bytes_below(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def damaged(at: Path) -> Path:
    """A dataset of two parts, of which the first has a damaged value."""
    if not (at / "damaged").exists():
        for k, open_writer in enumerate((unirecord.Writer, unirecord.append)):
            with open_writer(at / "damaged", {"k": "int8", "data": "bytes"}) as writer:
                writer.write({"k": k, "data": b"bytes of some length" * 40})
        shutil.copytree(at / "damaged", at / "sound")
        part = min((at / "damaged").glob("*.urec"))
        flip(part, part.read_bytes().index(b"bytes of some length") + 3)
    return at / "damaged"


def put_right(at: Path) -> Any:
    """The part that was damaged, as it was."""
    part = min((at / "sound").glob("*.urec"))
    shutil.copy(part, at / "damaged" / part.name)
    return True


def frame(**columns: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(columns)


def of_frame(at: Path, given: Any, **options: Any) -> Any:
    return unirecord.write_dataset(given, at / "o", overwrite=True, **options)


COLUMNS_OF_MODULE = {"a": [1, 2]}


def endless(rows: int = 3) -> Iterator[dict[str, Any]]:
    return ({"k": i} for i in range(rows))


def three_devices(call: Callable[[], Any]) -> Any:
    """What the call gives where a sharding is over devices by which three rows can be divided, and no others."""
    import jax

    put = jax.make_array_from_process_local_data

    def divided(sharding: Any, rows: Any, *more: Any) -> Any:
        if len(rows) % 3:
            raise ValueError("not divisible by 3")
        return put(sharding, rows, *more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jax, "make_array_from_process_local_data", divided)
        return call()


def of_another_schema(at: Path) -> None:
    """In a folder without a manifest, parts of two datasets."""
    parts_lost(at)
    other = made(at, {"z": "int8"}, {"z": [1]}).path
    for one in Path(other).glob("part*"):
        shutil.copy(one, at / "rows" / one.name.replace("000000", "000007"))


NAMES_WITH_DIGITS = {"and": "int8", "maybe": "bytes?", "number": "string"}


def queried(at: Path, where: str) -> int:
    return len(
        made(at, NAMES_WITH_DIGITS, {"and": [1], "maybe": [None], "number": ["1000"]}).view(where=where)
    )


def with_numbers(at: Path) -> int:
    path = made(at, {"number": "string"}, {"number": ["1000", "5"]}).path
    unirecord.add_columns(
        path, {"n": "int32"}, lambda batch: {"n": [int(x) for x in batch["number"]]}, reads=["number"]
    )
    return len(UniRecordDataset(path, where="n > 50"))


def joined_rows(at: Path, **options: Any) -> Any:
    return unirecord.add_columns(
        at / "rows", {"m": "int8?"}, options.pop("values", {"m": [1, 2, 3]}), **options
    )


def doubled_batch(batch: dict[str, Any]) -> dict[str, Any]:
    return {"m": batch["k"] * 2}


OF_VALUES: Called = {
    "a function without types": (
        lambda at: unirecord.add_columns(at / "rows", ["m"], doubled_batch), 'with their types: {"caption": "text"}',
        lambda at: unirecord.add_columns(at / "rows", {"m": "int8"}, doubled_batch),
    ),
    "a function with a key": (
        lambda at: unirecord.add_columns(at / "rows", {"m": "int8"}, doubled_batch, key="k"),
        "key= is of a table, and a function was given",
        lambda at: (
            joined_rows(at, values={"k": [3, 1, 2], "m": [3, 1, 2]}, key="k")
            and unirecord.add_columns(at / "rows", {"o": "int8"}, lambda batch: {"o": batch["k"]})
            and list(opened(at)["m"]) == [1, 2, 3]
        ),
    ),
    "a table with what a function reads": (
        lambda at: joined_rows(at, reads=["k"]), "reads= is of a function, and a table was given",
        lambda at: unirecord.add_columns(at / "rows", {"m": "int8"}, doubled_batch, reads=["k"]) and joined_rows(
            at, replace=True
        ),
    ),
    "values kept of columns that are new": (
        lambda at: joined_rows(at, values={"k": [1], "m": [5]}, key="k", keep=True),
        "whose columns replace those that are there: replace=True",
        lambda at: (
            joined_rows(at)
            and joined_rows(at, values={"k": [1], "m": [5]}, key="k", keep=True, replace=True)
            and list(opened(at)["m"]) == [5, 2, 3]
        ),
    ),
    "a table of fewer rows": (
        lambda at: joined_rows(at, values={"m": [1]}), "without key= they go together row by row",
        lambda at: joined_rows(at, values={"k": [2], "m": [1]}, key="k"),
    ),
    "a key that comes twice": (
        lambda at: joined_rows(at, values={"k": [2, 2], "m": [1, 2]}, key="k"), "a key is there once",
        lambda at: joined_rows(at, values={"k": [2, 3], "m": [1, 2]}, key="k"),
    ),
    "a key as a column": (
        lambda at: unirecord.add_columns(at / "rows", {"k": "int8"}, {"k": [1]}, key="k", replace=True),
        "'k' is the key, and cannot be added as well",
        lambda at: unirecord.add_columns(at / "rows", {"k": "int8"}, {"k": [1, 2, 3]}, replace=True),
    ),
    "a generator in several processes": (
        lambda at: unirecord.write_dataset(endless(), at / "o", workers=2),
        r"need what can be read again, such as a dataset with len\(\) and \[i\]",
        lambda at: unirecord.write_dataset([*endless()], at / "o", workers=2),
    ),
    "a sample of a generator": (
        lambda at: unirecord.write_dataset(endless(), at / "o", sample=2),
        "read once, so its rows cannot be counted before",
        lambda at: unirecord.write_dataset([*endless()], at / "o", sample=2) == 2,
    ),
    "a split of a generator": (
        lambda at: unirecord.write_dataset(endless(), at / "o", split={"a": 0.5, "b": 0.5}),
        "read once, but each share is read by itself",
        lambda at: unirecord.write_dataset([*endless()], at / "o", split={"a": 0.5, "b": 0.5}),
    ),
    "names of dicts": (
        lambda at: unirecord.write_dataset(endless(), at / "o", names=["m"]),
        "names= is for items that are tuples; rename= gives columns other names",
        lambda at: (
            unirecord.write_dataset([(1,)], at / "a", names=["m"])
            and unirecord.write_dataset(endless(), at / "b", rename={"k": "m"})
            and list(UniRecordDataset(at / "b").column_names) == ["m"]
        ),
    ),
    "a report that is there": (
        lambda at: [
            (at / "r.jsonl").write_text(""), of_frame(at, [*endless()], on_error="report", report=at / "r.jsonl")
        ] and unirecord.write_dataset([*endless()], at / "new", on_error="report", report=at / "r.jsonl"),
        "r.jsonl exists already; overwrite=True replaces it",
        lambda at: of_frame(at, [*endless()], on_error="report", report=at / "r.jsonl"),
    ),
    "the first rows of a split": (
        lambda at: unirecord.write_dataset([*endless()], at / "o", split={"a": 0.5, "b": 0.5}, limit=2),
        "exclude each other; sample= takes rows of all",
        lambda at: unirecord.write_dataset([*endless()], at / "o", split={"a": 0.5, "b": 0.5}, sample=2),
    ),
    "one part by several processes": (
        lambda at: unirecord.write_dataset([*endless()], at / "o.urec", workers=2),
        "workers=, engine= and resume= are for a directory",
        lambda at: unirecord.write_dataset([*endless()], at / "o", workers=2),
    ),
    "stratified without a split": (
        lambda at: unirecord.write_dataset([*endless()], at / "o", stratify="k"),
        "stratify= says how split= is made, which is not given",
        lambda at: unirecord.write_dataset([*endless()], at / "o", stratify="k", split={"a": 0.5, "b": 0.5}),
    ),
    "a column that is called by a number": (
        lambda at: of_frame(at, frame(a=[1]).rename(columns={"a": 3})), "is not named by a str; rename it",
        lambda at: of_frame(at, frame(a=[1]).rename(columns={"a": "3"})),
    ),
    "two columns of a table alike": (
        lambda at: of_frame(at, frame(a=[1], b=[2]).set_axis(["a", "a"], axis=1)),
        "several columns called 'a'; rename them",
        lambda at: of_frame(at, frame(a=[1], b=[2]).set_axis(["a", "c"], axis=1)),
    ),
    "two columns of a batch alike": (
        lambda at: unirecord.Writer(at / "w", {"a": "int64"}).write_batch(
            frame(a=[1], b=[2]).set_axis(["a", "a"], axis=1)
        ),
        "several columns called 'a'; rename them",
        lambda at: [
            writer.write_batch(frame(a=[1], b=[2]).set_axis(["a", "c"], axis=1)) or writer.close() or True
            for writer in [unirecord.Writer(at / "v", {"a": "int64", "c": "int64"})]
        ],
    ),
    "a column of a batch that is called by a number": (
        lambda at: unirecord.Writer(at / "w", {"a": "int64"}).write_batch(frame(a=[1]).rename(columns={"a": 3})),
        "is not named by a str; rename it",
        lambda at: [
            writer.write_batch(frame(a=[1])) or writer.close() or True
            for writer in [unirecord.Writer(at / "v", {"a": "int64"})]
        ],
    ),
    "a mapping of tables": (
        lambda at: of_frame(at, {"a": frame(a=[1, 2])}),
        "write them one by one, Hugging Face's splits into a folder by unirecord.hf.write_splits",
        lambda at: of_frame(at, frame(a=[1, 2])),
    ),
    "a record for a dict of columns": (
        lambda at: of_frame(at, {"a": 1, "b": "x"}),
        r"a record, of one value each, is given in a list: \[record\]",
        lambda at: of_frame(at, [{"a": 1, "b": "x"}]),
    ),
    "a column of lists that have no common type": (
        lambda at: of_frame(at, {"a": [[1, "x"], [2]]}),
        r"schema=\{'a': 'object'\} keeps them as they are",
        lambda at: of_frame(at, {"a": [[1, "x"], [2]]}, schema={"a": "object"}),
    ),
    "a dict of columns that a module has": (
        lambda at: of_frame(at, "test_hints:COLUMNS_OF_MODULE"),
        r"a dict of columns is given to unirecord\.write_dataset\(columns, path\)",
        lambda at: of_frame(at, COLUMNS_OF_MODULE),
    ),
    "an array that is bfloat16": (
        lambda at: made(at, {"x": "float32[2]"}, {"x": bfloat16()[None]}), "bfloat16.*; convert it first|convert it to",
        lambda at: made(at, {"x": "float32[2]"}, {"x": bfloat16()[None].astype("float32")}),
    ),
    "a bfloat16 array in a record": (
        lambda at: written(at, [{"x": bfloat16()}], schema={"x": "float32[2]"}), "convert it to float32 first",
        lambda at: written(at, [{"x": bfloat16().astype("float32")}], schema={"x": "float32[2]"}) is None,
    ),
    "a bfloat16 number": (
        lambda at: written(at, [{"x": bfloat16()[0]}]), "make it a float32",
        lambda at: written(at, [{"x": np.float32(bfloat16()[0])}]) is None,
    ),
    "a time of no type": (
        lambda at: made(at, {"x": "datetime64"}, {"x": [1]}),
        r'such as \{"type": "int64", "logical": \{"type": "timestamp", "unit": "us", "zone": "UTC"\}\}',
        lambda at: len(
            made(
                at, {"x": {"type": "int64", "logical": {"type": "timestamp", "unit": "us", "zone": "UTC"}}}, {"x": [1]}
            )
        ) == 1,
    ),
    "a time in a column of another type": (
        lambda at: written(at, [{"x": np.datetime64(5, "ns")}], schema={"x": "int32"}),
        "an int64 column takes it, as nanoseconds since 1970",
        lambda at: written(at, [{"x": np.datetime64(5, "ns")}], schema={"x": "int64"}) is None,
    ),
    "a null in a record": (
        lambda at: written(at, [{"x": None}], schema={"x": "int32"}), 'the type "int32\\?" takes it as null',
        lambda at: written(at, [{"x": None}], schema={"x": "int32?"}) is None,
    ),
    "a masked value": (
        lambda at: made(at, {"x": "int8"}, {"x": half_masked()}), 'the type "int8\\?" takes it',
        lambda at: made(at, {"x": "int8?"}, {"x": half_masked()}),
    ),
    "a set in an object": (
        lambda at: written(at, [{"x": {"a": {1}}}], schema={"x": "object"}), "; store a list",
        lambda at: written(at, [{"x": {"a": [1]}}], schema={"x": "object"}) is None,
    ),
    "a type that is no name": (
        lambda at: unirecord.Schema.parse({"x": {"type": np.int32}}), 'by its name, such as "int32"',
        lambda at: unirecord.Schema.parse({"x": {"type": "int32"}}),
    ),
    "a codec of numbers": (
        lambda at: unirecord.Schema.parse({"x": {"type": "int32", "codec": "zstd"}}),
        "takes no codec; bytes, text, object and arrays do",
        lambda at: unirecord.Schema.parse(
            {name: {"type": name, "codec": "zstd"} for name in ("bytes", "text", "object")}
            | {"x": {"type": "int8", "shape": [-1], "codec": "zstd"}}
        ),
    ),
    "a shape that is a number": (
        lambda at: unirecord.Schema.parse({"x": {"type": "int32", "shape": 3}}),
        r"a list of dimensions, such as \[3, -1\]",
        lambda at: unirecord.Schema.parse({"x": {"type": "int32", "shape": [3, -1]}}),
    ),
    "annotations that are a list": (
        lambda at: unirecord.Schema.parse({"x": {"type": "bytes", "annotations": ["image/jpeg"]}}),
        'a dict such as {"unit": "ms"}',
        lambda at: unirecord.Schema.parse({"x": {"type": "bytes", "annotations": {"unit": "ms"}}}),
    ),
    "an index of bytes": (
        lambda at: unirecord.Writer(at / "w", {"x": "bytes", "k": "int8"}, index=["x"]),
        "only scalar and string columns can be looked up by value",
        lambda at: unirecord.Writer(at / "w", {"x": "bytes", "k": "int8"}, index=["k"]).close() is None,
    ),
    "no record at all": (
        lambda at: unirecord.write_dataset(iter([]), at / "o"), "pass schema=",
        lambda at: unirecord.write_dataset(iter([]), at / "o", schema={"label": "int32"}) == 0,
    ),
    "a path of nothing": (
        lambda at: unirecord.Writer(f"{at}/.", {"k": "int8"}), "name the file or directory to write",
        lambda at: unirecord.Writer(at / "w", {"k": "int8"}).close() is None,
    ),
    "no folder to write into": (
        lambda at: unirecord.Writer(at / "no" / "w.urec", {"k": "int8"}), "does not exist; make it first",
        lambda at: (at / "no").mkdir() or unirecord.Writer(at / "no" / "w.urec", {"k": "int8"}).close() is None,
    ),
    "new names of none": (
        lambda at: unirecord.rename_columns(at / "rows", {}), "expected {old name: new name}",
        lambda at: unirecord.rename_columns(at / "rows", {"k": "m"}),
    ),
    "no versions kept": (
        lambda at: unirecord.gc(at / "rows", keep=0), "expected a number from 1: the newest version always stays",
        lambda at: unirecord.gc(at / "rows", keep=1) is not None,
    ),
    "the version of nothing": (
        lambda at: UniRecordDataset(at / "rows", version=0), "expected a number from 1, as `unirecord log` lists them",
        lambda at: main(["log", str(at / "rows")]) == 0 and len(UniRecordDataset(at / "rows", version=1)) == 3,
    ),
    "an epoch and a place": (
        lambda at: numbered(at)[0, 1, 2], "takes two numbers, not .*; a list chooses samples",
        lambda at: numbered(at)[0, 1]["i"] == 1 and [one["i"] for one in numbered(at)[[0, 1]]] == [0, 1],
    ),
    "a condition that is none": (
        lambda at: numbered(at).exclude(where=3), 'a condition, such as "label == 3"',
        lambda at: numbered(at).exclude(where="label == 1") == 5,
    ),
    "a query that is none": (
        lambda at: numbered(at, where=3), "a query is a string such as 'label == 3'",
        lambda at: len(numbered(at, where="label == 1")) == 5,
    ),
    "a column that is called as a word": (
        lambda at: queried(at, "and == 1"), "a column of that name is written `and`",
        lambda at: queried(at, "`and` == 1") == 1,
    ),
    "a null of bytes": (
        lambda at: queried(at, "maybe == 'a'"), "'is null' is all that can be asked of 'maybe'",
        lambda at: queried(at, "maybe is null") == 1,
    ),
    "a text that is compared with a number": (
        lambda at: queried(at, "number < 5"), r"add a column of numbers \(unirecord.add_columns, docs/growing.md\)",
        lambda at: with_numbers(at) == 1,
    ),
    "a batch sampler of no lists": (
        lambda at: unirecord.torch.loader(numbered(at), batch_sampler=3), "takes an iterable of lists of places",
        lambda at: values(unirecord.torch.loader(numbered(at), batch_sampler=[[3]])) == [3],
    ),
    "torch: a path": (
        lambda at: unirecord.torch.EpochSampler(str(at / "rows")), "EpochSampler takes a UniRecordDataset",
        lambda at: unirecord.torch.EpochSampler(UniRecordDataset(at / "rows")),
    ),
    "tf: a path": (
        lambda at: unirecord.tf.dataset(str(at / "rows"), 2), r"dataset\(UniRecordDataset\(path\), batch_size\)",
        lambda at: len(list(unirecord.tf.dataset(opened(at, columns=["k"]), 2))) == 2,
    ),
    "jax: a path": (
        lambda at: unirecord.jax.loader(str(at / "rows"), 2), r"loader\(UniRecordDataset\(path\), batch_size\)",
        lambda at: len(list(unirecord.jax.loader(opened(at, columns=["k"]), 2))) == 2,
    ),
    "jax: a rest that devices cannot divide": (
        lambda at: three_devices(lambda: unirecord.jax.loader(numbered(at), 6, sharding=jax_sharding())),
        "the last batch, which has 4 rows of 10: give drop_last=True",
        lambda at: (
            three_devices(
                lambda: values(unirecord.jax.loader(numbered(at), 6, sharding=jax_sharding(), drop_last=True))
            )
            == TEN[:6]
        ),
    ),
    "jax: batches that devices cannot divide": (
        lambda at: three_devices(lambda: unirecord.jax.loader(numbered(at), 5, sharding=jax_sharding())),
        "batches of 5 rows: give another batch_size",
        lambda at: three_devices(
            lambda: values(unirecord.jax.loader(numbered(at).take(9), 3, sharding=jax_sharding())) == TEN[:9]
        ),
    ),
    "a source that was replaced": (
        lambda at: [
            unirecord.mix({"a": ds, "b": ds})
            for ds in [opened(at, columns=["k"])]
            for _ in [unirecord.write_dataset([{"k": 1}], at / "rows", overwrite=True)]
        ],
        "open it again, and mix anew|open it again",
        lambda at: len(unirecord.mix({"a": opened(at), "b": opened(at)})) > 0,
    ),
    "a source of no name": (
        lambda at: unirecord.mix({1: numbered(at)}), "the name of a source is 1; it must be a string",
        lambda at: len(unirecord.mix({"1": numbered(at)})) == 10,
    ),
    "a pipeline that is not given back": (
        lambda at: numbered(at).pipeline().apply(lambda p: None),
        "takes a function from a pipeline to a pipeline",
        lambda at: len(list(numbered(at).pipeline().apply(lambda p: p.batch(2)))) == 5,
    ),
    "key columns of none": (
        lambda at: unirecord.diff(at / "rows", at / "rows", key=[]), "leave it out to compare rows by their numbers",
        lambda at: unirecord.diff(at / "rows", at / "rows"),
    ),
    "any order without a key": (
        lambda at: unirecord.diff(at / "rows", at / "rows", any_order=True), "any_order needs a key",
        lambda at: unirecord.diff(at / "rows", at / "rows", any_order=True, key="k"),
    ),
    "a repair over something": (
        lambda at: (at / "saved").mkdir() or unirecord.repair(damaged(at), output=at / "saved"),
        "choose another output",
        lambda at: unirecord.repair(damaged(at), output=at / "other") and len(UniRecordDataset(at / "other")) == 1,
    ),
    "an old version repaired": (
        lambda at: [unirecord.delete(at / "rows", rows=[0]), unirecord.repair(f"{at}/rows@1")],
        "the newest version is repaired, not an earlier one; name .*rows$",
        lambda at: unirecord.repair(at / "rows") is not None,
    ),
    "parts of two datasets": (
        lambda at: of_another_schema(at) or unirecord.repair(at / "rows"),
        "move those that do not belong to it out of .*rows, and repair it again",
        lambda at: (
            [one.unlink() for one in (at / "rows").glob("part-000007*")] and unirecord.repair(at / "rows")
            and len(opened(at)) == 3
        ),
    ),
    "a damaged part beside deletions": (
        lambda at: [unirecord.delete(damaged(at), rows=[1]), unirecord.repair(at / "damaged")],
        "put the damaged file back from a copy, or go back to a version before that by `unirecord restore`",
        lambda at: (
            main(["restore", str(at / "damaged@2")]) == 0
            and unirecord.repair(at / "damaged", output=at / "saved") and len(UniRecordDataset(at / "saved")) == 1
            and put_right(at) and unirecord.repair(at / "damaged") and len(list(UniRecordDataset(at / "damaged"))) == 2
        ),
    ),
    "a damaged value that is written anew": (
        lambda at: unirecord.compact(damaged(at), part_bytes="1MB"),
        "`unirecord repair` keeps the other rows; or delete what `unirecord verify` lists and run `unirecord compact "
        "--drop-deleted`",
        lambda at: (
            main(["repair", str(at / "damaged"), "--output", str(at / "saved")]) in (0, 1)
            and len(UniRecordDataset(at / "saved")) == 1
            and main(["verify", str(at / "damaged")]) == 1 and unirecord.delete(at / "damaged", rows=[0])
            and main(["compact", str(at / "damaged"), "--drop-deleted"]) == 0
            and [one["k"] for one in UniRecordDataset(at / "damaged")] == [1]
        ),
    ),
    "a damaged value that is read": (
        lambda at: list(UniRecordDataset(damaged(at))),
        "run `unirecord verify .*` to see what is lost, and `unirecord repair .*` to save the rest",
        lambda at: (
            main(["verify", str(at / "damaged")]) == 1
            and main(["repair", str(at / "damaged"), "--output", str(at / "saved")]) in (0, 1)
            and len(list(UniRecordDataset(at / "saved"))) == 1
        ),
    ),
}  # fmt: skip


def bfloat16() -> Any:
    import ml_dtypes

    return np.array([1, 2], ml_dtypes.bfloat16)


FRAMEWORKS = {
    **{name: name for name in ("torch", "jax", "keras", "grain")},
    "tf": "tensorflow",
    "hf": "datasets",
}
FOLLOWED: Called = {
    **OF_DATASETS,
    **OF_FRAMEWORKS,
    **OF_PIPELINES,
    **OF_FILES,
    **OF_MORE,
    **OF_PYTHON,
    **OF_HOLDERS,
    **OF_VALUES,
    **{f"in a store: {name}": (in_store(a), said, in_store(b)) for name, (a, said, b) in IN_STORES.items()},
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_call_that_an_error_advises_does_what_it_says(tmp_path: Path, rows: Path, name: str) -> None:
    refused, said, advised = FOLLOWED[name]
    framework = name.partition(": ")[0]
    if framework in FRAMEWORKS:
        pytest.importorskip(FRAMEWORKS[framework])
    shutil.copytree(rows, tmp_path / "rows")
    with pytest.raises(Exception, match=said):
        refused(tmp_path)
    assert advised(tmp_path)


def passes(
    ds: UniRecordDataset, before: Callable[[int], Any] = lambda epoch: None, **options: Any
) -> list[list[int]]:
    """The rows of two passes of a DataLoader."""
    loader, found = data_loader(ds, 2, **options), []
    for epoch in range(2):
        before(epoch)
        found.append(values(loader))
    return found


def loaded_state(ds: UniRecordDataset, excluded_first: bool) -> bool:
    state = ds.state_dict()
    if excluded_first:
        ds.exclude(rows=[1])
    ds.load_state_dict(state)
    if not excluded_first:
        ds.exclude(rows=[1])
    return 1 not in values(ds.batches(2))


def as_rank(call: Callable[[], Any], rank: str = "1") -> Any:
    """What the call gives in a process that is one of two, and has not been told so."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cursor, "_told_of_ranks", False)
        patched.setenv("RANK", rank)
        patched.setenv("WORLD_SIZE", "2")
        return call()


def torn(ds: UniRecordDataset, **options: Any) -> list[int]:
    """A pass by number in which another epoch is set."""
    found = []
    for number, batch in enumerate(data_loader(ds, 2, **options)):
        found += values([batch])
        if number == 1:
            ds.set_epoch(3)
    return sorted(found)


def sampled_twice(ds: UniRecordDataset) -> list[int]:
    from torch.utils.data import DistributedSampler

    return values(data_loader(ds, 2, sampler=DistributedSampler(ds, 2, 1, shuffle=False)))


def random_parts(ds: UniRecordDataset) -> list[int]:
    from torch.utils.data import random_split

    return sorted(x for part in random_split(ds, [8, 2]) for x in values(data_loader(part, 2)))


def in_class_folders(at: Path) -> Path:
    if not (at / "in").exists():
        broken_picture(at)
    return at / "in"


def tried(call: Callable[[], Any]) -> bool:
    try:
        call()
    except unirecord.UniRecordError:
        return False
    return True


# As above, of calls that warn.
OF_WARNINGS: Called = {
    "torch: an epoch for the second time": (
        lambda at: passes(numbered(at, shuffle=True)),
        r"takes sampler=unirecord.torch.EpochSampler\(ds\).*or call ds.set_epoch\(epoch\) before each epoch",
        lambda at: (
            [passes(ds, sampler=unirecord.torch.EpochSampler(ds)) for ds in [numbered(at, shuffle=True)]]
            == [passes(ds, ds.set_epoch) for ds in [numbered(at, shuffle=True)]]
            == [[TEN, TEN]]
        ),
    ),
    "torch: two orders": (
        lambda at: values(data_loader(numbered(at, shuffle=True), 2, shuffle=True)),
        r"with shuffle=False, or leave the order to it, and part it with ds.split\(\[0.8, 0.2\]\)",
        lambda at: (
            values(data_loader(numbered(at), 2, shuffle=True)) == TEN
            and values(data_loader(numbered(at, shuffle=True), 2)) == TEN
            and [len(values(data_loader(one, 2))) for one in numbered(at, shuffle=True).split([0.8, 0.2])]
            == [8, 2]
        ),
    ),
    "a state that does not know what is left out": (
        lambda at: loaded_state(numbered(at), True),
        "load the state first, and exclude then",
        lambda at: loaded_state(numbered(at), False),
    ),
    "torch: a rank that reads all": (
        lambda at: as_rank(lambda: values(data_loader(numbered(at), 2))),
        r"UniRecordDataset.distributed\(path\) gives each rank its share; shard_id=0, num_shards=1 says",
        lambda at: (
            as_rank(lambda: values(data_loader(numbered(at, shard_id=0, num_shards=1), 2))) == TEN
            and as_rank(lambda: len(UniRecordDataset.distributed(numbered_again(at).path))) == 5
        ),
    ),
    "torch: a pass that is torn": (
        lambda at: torn(numbered(at, shuffle=True, seed=1)),
        r"Give the DataLoader sampler=unirecord.torch.EpochSampler\(ds\), whose passes keep their epoch",
        lambda at: (
            [
                torn(ds, sampler=unirecord.torch.EpochSampler(ds))
                for ds in [numbered(at, shuffle=True, seed=1)]
            ]
            == [TEN]
        ),
    ),
    "torch: shards that are sharded": (
        lambda at: sampled_twice(numbered(at, shard_id=1, num_shards=2)),
        "Open it without shard_id and num_shards, or use it without that sampler",
        lambda at: (
            len(sampled_twice(numbered(at)))
            == len(values(data_loader(numbered(at, shard_id=1, num_shards=2), 2)))
            == 5
        ),
    ),
    "torch: a subset of a shuffled dataset": (
        lambda at: random_parts(numbered(at, shuffle=True)),
        r"ds.split\(\[0.8, 0.2\]\) parts the rows for good; or open the dataset with shuffle=False",
        lambda at: (
            random_parts(numbered(at))
            == sorted(
                x
                for part in numbered(at, shuffle=True).split([0.8, 0.2])
                for x in values(data_loader(part, 2))
            )
            == TEN
        ),
    ),
    "an epoch that is undone": (
        lambda at: [ds.set_epoch(5) or ds.set_epoch(0) for ds in [numbered(at)]],
        "set the epoch of that loader",
        lambda at: [ds.set_epoch(5) or values(ds.batches(2)) for ds in [numbered(at)]] == [TEN],
    ),
    "files that are left out": (
        lambda at: unirecord.write_dataset(in_class_folders(at), at / "o", check_pictures=True),
        "on_error='report' lists them, 'skip' says nothing, 'raise' makes it an error",
        lambda at: (
            unirecord.write_dataset(at / "in", at / "a", check_pictures=True, on_error="skip") == 1
            and unirecord.write_dataset(
                at / "in", at / "b", check_pictures=True, on_error="report", report=at / "r.jsonl"
            )
            == 1
            and "b.png" in (at / "r.jsonl").read_text()
            and not tried(
                lambda: unirecord.write_dataset(at / "in", at / "c", check_pictures=True, on_error="raise")
            )
        ),
    ),
}


@pytest.mark.parametrize("name", OF_WARNINGS)
def test_the_call_that_a_warning_advises_gives_none(tmp_path: Path, name: str) -> None:
    warned, said, advised = OF_WARNINGS[name]
    if name.startswith("torch"):
        pytest.importorskip("torch")
    with pytest.warns(UserWarning, match=said):
        warned(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert advised(tmp_path)


def jobs(folder: Path) -> None:
    """Three datasets, and states of jobs over them."""
    for name in ("data", "web", "code"):
        with unirecord.Writer(folder / name, {"i": "int64", "label": "int32", "x": "bytes"}) as writer:
            writer.write_batch({"i": np.arange(10), "label": np.arange(10) % 2, "x": [b"1"] * 10})
    data = UniRecordDataset(folder / "data", shuffle=True, seed=1)
    mixed = unirecord.mix({name: UniRecordDataset(folder / name) for name in ("web", "code")}, seed=1)
    rows = data.batches(2, receipts=folder / "receipts")
    save(folder / "front.json", rows.state_dict())
    for loader, name in (
        (rows, "state.json"),
        (unirecord.balanced(data, "label", classes=2, per_class=1).batches(), "drawn.json"),
        (mixed.batches(2), "mixed.json"),
    ):
        reading = iter(loader)
        for _ in range(2):
            next(reading)
        save(folder / name, loader.state_dict())
        reading.close()
    front, state = (json.loads((folder / name).read_text()) for name in ("front.json", "state.json"))
    save(folder / "two.json", {"a": front, "b": state})
    for seed in (1, 2):
        for _ in UniRecordDataset(folder / "data", shuffle=True, seed=seed).batches(
            5, receipts=folder / "both"
        ):
            pass
        for _ in UniRecordDataset(folder / "data", shuffle=True, seed=seed).batches(
            5, receipts=folder / f"r{seed}"
        ):
            pass
    csv(folder)
    (folder / "more.csv").write_text("i,more\n2,5\n")
    assert main(["write", "a.csv", "old"]) == 0
    unirecord.delete("old", rows=[0])


def save(path: Path, state: Any) -> None:
    path.write_text(json.dumps(state))


TRACE = "trace data --batch 2"
MIXED = "trace web=web code=code --batch 2"
# A command that is refused beside what ``jobs`` has made, what it says, and the commands that it advises.
COMMANDS: list[tuple[str, str, list[str]]] = [
    (
        TRACE,
        "--step N, or --row N, or --state FILE",
        [f"{TRACE} --step 1", f"{TRACE} --row 1", f"{TRACE} --state state.json"],
    ),
    ("trace data --step 1", "give --batch", [f"{TRACE} --step 1"]),
    (f"{TRACE} --step 1 --start 2", "give --epoch as well", [f"{TRACE} --step 1 --start 2 --epoch 0"]),
    (
        f"{TRACE} --step 1 --extract x",
        "--extract COLUMN and --out DIR go together",
        [f"{TRACE} --step 1 --extract x --out o"],
    ),
    (
        f"{TRACE} --step 1 --weights a=1",
        "each source as NAME=PATH",
        [f"{MIXED} --step 1 --weights web=0.7,code=0.3"],
    ),
    (
        "trace web code --batch 2 --step 1",
        "give each source of a mixture as NAME=PATH",
        [f"{MIXED} --step 1"],
    ),
    (f"{MIXED} --row 3", "such as --row (web|code):3", [f"{MIXED} --row web:3", f"{MIXED} --row code:3"]),
    (
        f"{TRACE} --step 1 --drawn-by label",
        "--drawn-by is for the --state of drawn batches",
        ["trace data --state drawn.json --drawn-by label"],
    ),
    (
        "trace data --state drawn.json",
        "give --drawn-by COLUMN",
        ["trace data --state drawn.json --drawn-by label"],
    ),
    (
        f"{TRACE} --state drawn.json --drawn-by label",
        "leave out --batch and --drop-last",
        ["trace data --state drawn.json --drawn-by label"],
    ),
    (f"{MIXED} --step 1 --where i>2", "give its --state", [f"{MIXED} --state mixed.json"]),
    (f"{MIXED} --state state.json", "give the one PATH that it is of", [f"{TRACE} --state state.json"]),
    (
        "trace web=web --batch 2 --state mixed.json",
        r"sources \['code', 'web'\]; give each of them as NAME=PATH",
        [f"{MIXED} --state mixed.json"],
    ),
    (
        f"{TRACE} --state front.json",
        "give --step for one of its steps",
        [f"{TRACE} --state front.json --step 0"],
    ),
    (f"{TRACE} --state two.json", "write the right one to a file", [f"{TRACE} --state state.json"]),
    (
        f"{TRACE} --state state.json --seed 3",
        "--seed cannot be given with --state, which says it",
        [f"{TRACE} --state state.json"],
    ),
    (
        f"{TRACE} --step 0 --rank 1",
        r"has 1, numbered from 0 \(--ranks\)",
        [f"{TRACE} --step 0 --rank 1 --ranks 2"],
    ),
    ("audit none --dataset data", "name the one given as receipts=", ["audit receipts --dataset data"]),
    (
        "audit both --dataset data",
        "compares one: give each its own folder",
        ["audit r1 --dataset data", "audit r2 --dataset data"],
    ),
    (
        "restore old",
        "old@N, as `unirecord log old` lists",
        ["log old", "restore old@1"],
    ),
    ("restore old", "which version", ["restore old@1"]),
    (
        "gc data --older-than soon",
        "write 7d, 12h, 30m or 45s",
        [f"gc data --older-than {age}" for age in ("7d", "12h", "30m", "45s")],
    ),
    ("gc data --keep 0", "--keep is at least 1", ["gc data --keep 1"]),
    ("gc data --dry-run --quiet", "choose one", ["gc data --dry-run", "gc data --quiet"]),
    ("delete data --rows 5-3", "use --where", ["delete data --where i>=3"]),
    (
        "inspect data --where i>2 --rows 3",
        "of chosen ones use --limit",
        ["inspect data --where i>2 --limit 3"],
    ),
    (
        "inspect data --where i>2 --name i",
        "--name goes with --extract",
        ["inspect data --where i>2 --extract x --name i --out o"],
    ),
    (
        "inspect data --where i>2 --quote-formulas",
        "goes with --csv",
        ["inspect data --where i>2 --quote-formulas --csv"],
    ),
    (
        "inspect data --mean i",
        "--mean and --sum go with --group-by",
        ["inspect data --mean i --group-by label"],
    ),
    ("inspect data --html a.html --json", "--html FILE is given alone", ["inspect data --html a.html"]),
    (
        "write a.csv o.urec --max-part-bytes 1MB",
        "choose a DST without .urec",
        ["write a.csv o --max-part-bytes 1MB"],
    ),
    (
        "write a.csv o --stratify k",
        "--stratify says how --split is made",
        ["write a.csv o --stratify k --split a=0.5,b=0.5"],
    ),
    (
        "write a.csv o --split a=0.5,b=0.5 --limit 2",
        "--sample takes rows of all",
        ["write a.csv o --split a=0.5,b=0.5 --sample 2"],
    ),
    (
        "write a.csv o --sample 2 --limit 2",
        "choose one",
        ["write a.csv o --sample 2", "write a.csv o --limit 2 --overwrite"],
    ),
    (
        "write a.csv o --columns k --columns n",
        "give it once, with all of its values",
        ["write a.csv o --columns k,n"],
    ),
    (
        "write a.csv o --split a=half",
        "such as train=0.9,val=0.1",
        ["write a.csv o --split train=0.9,val=0.1"],
    ),
    (
        "add-columns data",
        "name a TABLE, or --function MODULE:NAME",
        ["add-columns data more.csv --key i --schema more=int64?"],
    ),
    ("bench", "give the PATH of a dataset", ["bench data --seconds 0.1"]),
]


@pytest.mark.parametrize(("command", "said", "advised"), COMMANDS, ids=[one[0] for one in COMMANDS])
def test_the_commands_that_an_error_advises_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    said: str,
    advised: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs(tmp_path)
    capsys.readouterr()
    assert status_of(command) in (1, 2)
    assert re.search(said, capsys.readouterr().err)
    for then in advised:
        assert status_of(then) == 0, capsys.readouterr().err


def given(**files: str) -> Callable[[Path], None]:
    """Writes a file of each text: ``a_csv`` is a.csv, and ``in__a_csv`` a.csv in the folder ``in``."""

    def make(folder: Path) -> None:
        for name, text in files.items():
            path = folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    return make


PEOPLE = "k,n,name\n1,10,a\n2,20,b\n3,30,c\n"


def people(folder: Path) -> None:
    """A dataset ``d``, a part ``d.urec``, their table, and modules of functions."""
    given(
        a_csv=PEOPLE,
        more_csv="k,m\n1,7\n2,8\n3,9\n",
        made_py="def doubled(batch):\n    return {'m': batch['k'] * 2}\n\nnumber = 3\n",
    )(folder)
    assert main(["write", "a.csv", "d"]) == main(["write", "a.csv", "d.urec"]) == 0


def pipelines(folder: Path) -> None:
    people(folder)
    (folder / "job.py").write_text(
        "import unirecord\n\n\ndef made(path):\n    return unirecord.UniRecordDataset(path).pipeline().batch(2)\n"
    )


def animals(folder: Path) -> None:
    """Class folders, and datasets that number their classes in this order and in the other one."""
    people(folder)
    for name in ("in/cat/a.png", "in/dog/b.png", "more/dog/c.png", "new/cow/d.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture(8, 8))
    assert main(["write", "in", "pets"]) == 0
    shutil.copytree(folder / "pets", folder / "pets2")
    shutil.copytree(folder / "in", folder / "in2")
    (folder / "in2" / "cat").rename(folder / "in2" / "ant")
    assert main(["write", "in2", "others"]) == 0


def animals_alone(folder: Path) -> None:
    (folder / "alone" / "cat").mkdir(parents=True)
    (folder / "alone" / "cat" / "a.png").write_bytes(picture(8, 8))


def of_all(*makes: Callable[[Path], Any]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for one in makes:
            one(folder)

    return make


def cached(folder: Path) -> None:
    """An empty cache."""
    people(folder)
    unirecord.storage.cache.CacheDirectory(str(folder / "cache"), 1 << 20)


def left_report(folder: Path) -> None:
    people(folder)
    (folder / "r.jsonl").write_text("")


WRITE = "write a.csv o"
# As ``COMMANDS``, each beside what its function has made. A group of what it says goes into ``{}``; what is advised
# beside commands is a function of the folder.
COMMANDS_BESIDE: list[tuple[Callable[[Path], None], str, str, list[Any]]] = [
    (people, "inspect d --csv --json", "not allowed with argument", ["inspect d --csv", "inspect d --json"]),
    (
        people, "inspect d --extract name", "--extract COLUMN and --out DIR go together",
        ["inspect d --limit 1 --csv"],
    ),
    (
        people, "inspect d --sample 2 --sort k", "not allowed with argument",
        ["inspect d --sample 2", "inspect d --sort k"],
    ),
    (people, "gc d --quiet --dry-run", "choose one", ["gc d --keep 1 --quiet", "gc d --keep 1 --dry-run"]),
    (
        people, f"{WRITE} --progress json --quiet", "choose one",
        [f"{WRITE} --progress json", f"{WRITE} --quiet --overwrite"],
    ),
    (
        people, f"{WRITE} --storage-option region", "NAME=VALUE, such as region=eu-west-1",
        [WRITE],
    ),
    (people, f"{WRITE} --storage-option region=x", "is of object stores, and nothing that is named is in one", [WRITE]),
    (people, "inspect d --cache c --cache-bytes 1GB", "is of object stores", ["inspect d"]),
    (people, "inspect d --cache c", "--cache and --cache-bytes belong together", ["inspect d"]),
    (people, "fetch d --cache c --cache-bytes 1GB", "is on a disk: what is fetched", ["bench d --seconds 0.1"]),
    (people, "bench d --step-ms 0", "milliseconds, more than 0", ["bench d --seconds 0.1 --step-ms 5"]),
    (people, "bench d --seconds 601", "more than 0 and at most 600", ["bench d --seconds 0.1"]),
    (
        pipelines, "bench d --pipeline job", "--pipeline is MODULE:NAME",
        ["bench d --pipeline job:made --seconds 0.1"],
    ),
    (
        pipelines, "bench --pipeline job:made", "unirecord bench PATH --pipeline job:made",
        ["bench d --pipeline job:made --seconds 0.1"],
    ),
    (
        pipelines, "bench d --pipeline job:made --batch 3", "--batch is for reading alone",
        ["bench d --pipeline job:made --seconds 0.1", "bench d --batch 3 --seconds 0.1"],
    ),
    (cached, "cache ls cache --off", "--off is of pin", ["cache ls cache"]),
    (
        cached, "cache clear cache --json", "--json is of ls and verify",
        ["cache ls cache --json", "cache verify cache --json"],
    ),
    (cached, "cache ls cache s3://a/b", "takes no URL: it looks at the whole cache", ["cache ls cache"]),
    (cached, "cache pin cache", "takes a URL, as `unirecord cache ls` names it", ["cache ls cache"]),
    (
        people, "add-columns d --function made:doubled", "--schema caption=text",
        ["add-columns d --function made:doubled --schema m=int64"],
    ),
    (
        people, "add-columns d --function made --schema m=int64", "is MODULE:NAME",
        ["add-columns d --function made:doubled --schema m=int64"],
    ),
    (
        people, "add-columns d --function made:number --schema m=int64", "it is int, which cannot be called",
        ["add-columns d --function made:doubled --schema m=int64"],
    ),
    (
        people, "add-columns d more.csv --key k --columns m --schema n=int8",
        "name types of all of --columns, or of none",
        [
            "add-columns d more.csv --key k --columns m --schema m=int8",
            "add-columns d more.csv --key k --columns m --replace",
        ],
    ),
    (people, "diff d d.urec --key nam", "it has \\['k', 'n', 'name'\\]", ["diff d d.urec", "diff d d.urec --key name"]),
    (people, "export d e", "say so with --to: .*jsonl", ["export d e --to jsonl"]),
    (
        people, "trace d --csv --json --batch 2 --step 1", "not allowed with argument",
        ["trace d --csv --batch 2 --step 1", "trace d --json --batch 2 --step 1"],
    ),
    (
        people, "trace d --batch 2 --state none.json", "--state takes a file with a state_dict",
        ["trace d --batch 2 --step 0"],
    ),
    (
        people, "write a.csv no/o", "does not exist; make it first",
        [lambda at: (at / "no").mkdir(), "write a.csv no/o"],
    ),
    (people, f"{WRITE} --id 12", "--id is 32 hex digits", [f"{WRITE} --id {'12' * 16}"]),
    (people, f"{WRITE}.urec --workers 2", "--workers is for a directory of parts", [f"{WRITE} --workers 2"]),
    (people, f"{WRITE} --index nam", "did you mean 'name'", [f"{WRITE} --index name"]),
    (
        people, f"{WRITE} --schema name=text --index name", "only numbers, bool and strings are looked up",
        [f"{WRITE} --index name"],
    ),
    (people, f"{WRITE} --split train", "an example is train=0.9,val=0.1", [f"{WRITE} --split train=0.9,val=0.1"]),
    (
        people, f"{WRITE} --codec zstd", "--schema NAME=text stores a column of strings so",
        [f"{WRITE} --codec zstd --schema name=text"],
    ),
    (
        people, f"{WRITE} --schema name=text --codec n=zstd", "those that can be compressed are name",
        [f"{WRITE} --schema name=text --codec name=zstd"],
    ),
    (
        people, f"{WRITE}.urec --engine ray", "leave out a DST of one part",
        [f"{WRITE}.urec"],
    ),
    (
        left_report, f"{WRITE} --on-error report --report r.jsonl", "with --overwrite the report replaces it",
        [f"{WRITE} --on-error report --report r.jsonl --overwrite"],
    ),
    (
        people, f"{WRITE} --on-error report --report a.csv --overwrite", "name another file",
        [f"{WRITE} --on-error report --report b.jsonl --overwrite"],
    ),
    (
        people, f"{WRITE} --on-error report --report no/r.jsonl", "does not exist; make it first",
        [lambda at: (at / "no").mkdir(), f"{WRITE} --on-error report --report no/r.jsonl"],
    ),
    (animals, f"{WRITE} --classes-from pets", "there are no classes to number", [WRITE]),
    (animals, "write in o --classes-from d", "has no list of classes", ["write in o --classes-from pets"]),
    (
        animals, "write more pets --append --classes-from others", "numbers its classes otherwise",
        ["write more pets --append --classes-from pets2"],
    ),
    (animals, "write new pets --append", "write all classes anew", ["write new o"]),
    (people, f"{WRITE} --sort m", "is not among the columns to be written, k, n, name", [f"{WRITE} --sort k"]),
    (
        people, f"{WRITE} --schema name=text --sort name", "sorted by numbers, bool and strings",
        [f"{WRITE} --sort name"],
    ),
    (people, f"{WRITE} --resize 4", "--picture-columns names those that do", [WRITE]),
    (
        animals, "write in o --resize 4 --picture-columns class", "not a column of files",
        ["write in o --resize 4 --picture-columns image"],
    ),
    (people, f"{WRITE} --split-by name --stratify k", "there is no --split", [f"{WRITE} --split-by name"]),
    (
        given(a_csv="k,x\n1,0.5\n2,0.25\n"), f"{WRITE} --split-by x",
        "makes a dataset of each value: of strings and integers",
        [f"{WRITE} --split-by k", f"{WRITE}2 --split a=0.5,b=0.5 --split-by x"],
    ),
    (
        given(a_csv="k\na/b\n"), f"{WRITE} --split-by k", "of letters, digits, _ - and \\.",
        [f"{WRITE} --split a=0.5,b=0.5 --split-by k"],
    ),
    (people, f"{WRITE} --rename k=n", "two columns would be called 'n'", [f"{WRITE} --rename k=m"]),
    (
        people, f"{WRITE} --columns m", "there is no column 'm'.* the columns are k, n, name",
        [f"{WRITE} --columns k,n,name"],
    ),
    (
        people, f"{WRITE} --schema k", "write label=int32,name=string or JSON",
        [f"{WRITE} --schema k=int32,name=string", f"{WRITE}2 --schema '{{\"k\": \"int32\"}}'"],
    ),
    (people, f"{WRITE} --schema k=int8,n", "is not of the form name=type", [f"{WRITE} --schema k=int8,n=int8"]),
    (people, f"{WRITE} --schema k=int8[]", "shape|form", [f"{WRITE} --schema k=int8"]),
    (
        people, f"{WRITE} --max-part-bytes many", "'20GB' or '64MiB'",
        [f"{WRITE} --max-part-bytes 64MiB", f"{WRITE}2 --max-part-bytes 20GB"],
    ),
    (people, f"{WRITE} --delimiter ;;", "one ASCII character", ["write a.csv o --delimiter , "]),
    (
        people, f"{WRITE} --names k,,n", "a name for each column, as id,text",
        ["write more.csv o --names a,b --overwrite"],
    ),
    (people, f"{WRITE} --names k,n,name", "leave out --names", [WRITE]),
    (
        given(a_csv="1,2\n3,4\n"), WRITE, "add a header line, or name them: --names A,B",
        [f"{WRITE} --names A,B", given(a_csv="A,B\n1,2\n3,4\n"), f"{WRITE}2"],
    ),
    (given(a_csv='k,"n\n' + "1,2\n" * 300_000), WRITE, "--quoting none", [f"{WRITE} --quoting none"]),
    (
        given(in__a_csv="k\n1\n", in__b_csv="m\n1\n"), "write in o", "write them to datasets of their own",
        ["write in/a.csv o", "write in/b.csv o2"],
    ),
    (
        given(a_jsonl='{"k": 1}\n{"k": [1]}\n'), "write a.jsonl o", "--schema k=object takes both",
        ["write a.jsonl o --schema k=object"],
    ),
    (given(a_csv="k,k\n1,2\n"), WRITE, "rename|twice", ["write a.csv o --names a,b"]),
    (people, "write 'a.csv' s3://b/o.urec", "choose a name without .urec", [WRITE]),
    (people, "write s3://b/a.csv o", "copy it to a disk first", [WRITE]),
    (people, "write '' o", "name a file or a folder, or - for standard input", [WRITE]),
    (people, "gc s3://b/d --keep 1", "give --older-than, such as 7d", ["gc d --keep 1 --older-than 7d"]),
    (people, "rename-columns d k=n", "give one of them another name", ["rename-columns d k=m"]),
    (people, "rename-columns d.urec k=m", "unirecord write --columns, --rename", ["write d.urec o --rename k=m"]),
    (people, "compact d.urec", "only of those can parts be put together", ["compact d"]),
    (people, "merge o d d", "leave one of the two out", ["merge o d"]),
    (people, "view d --port 70000", "they end at 65,535", ["inspect d"]),
    (animals, "inspect pet", "did you mean 'pets'", ["inspect pets"]),
    (
        of_all(people, animals_alone, given(b_jsonl='{"k": 1}\n')), "inspect a.csv",
        "`unirecord write` makes them from CSV, JSON Lines and folders of pictures",
        ["write a.csv o", "inspect o", "write b.jsonl o2", "inspect o2", "write alone o3", "inspect o3"],
    ),
    (
        given(in__a_csv="k\n1\n"), "inspect in", "name a directory made by unirecord|`unirecord write` makes one",
        ["write in o", "inspect o"],
    ),
]  # fmt: skip


def doubles(folder: Path) -> None:
    """Two datasets in which a key comes twice."""
    given(a_csv="k,n\n1,2\n1,3\n")(folder)
    assert main(["write", "a.csv", "a"]) == main(["write", "a.csv", "b"]) == 0


def extracted(folder: Path) -> None:
    """A dataset of texts, of which one lies in a folder already."""
    with unirecord.Writer(folder / "t", {"t": "text"}) as writer:
        writer.write_batch({"t": ["a", "b"]})
    assert main(["inspect", "t", "--limit", "1", "--extract", "t", "--out", "o"]) == 0


def several(folder: Path) -> None:
    """A dataset of three parts."""
    people(folder)
    assert (
        main(["write", "a.csv", "s"]) == main(["reshard", "s", "3"]) == main(["gc", "s", "--keep", "1"]) == 0
    )


def indexed(folder: Path) -> None:
    people(folder)
    assert main(["write", "a.csv", "i", "--index", "k"]) == 0


def many_bad(folder: Path) -> None:
    """Pictures, of which many are none."""
    (folder / "in").mkdir()
    for i in range(40):
        (folder / "in" / f"{i}.png").write_bytes(picture(4, 4) if i == 0 else b"no picture")


def sounds(folder: Path) -> None:
    """Texts with a table of labels, and class folders of pictures in splits, with a table, masks and annotations."""
    given(
        in__a_txt="one",
        in__b_txt="two",
        l_csv="file_name,n\na.txt,1\nb.txt,2\n",
        twice_csv="file_name,n\na.txt,1\na.txt,2\n",
        lists_jsonl='{"file_name": "a.txt", "n": [1, 2]}\n{"file_name": "b.txt", "n": [3]}\n',
        media__a_wav="x",
        media__b_csv="x",
    )(folder)
    for name in ("train/cat/a.png", "train/dog/b.png", "val/cat/c.png"):
        (folder / "splits" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "splits" / name).write_bytes(picture(8, 8))
    shutil.copytree(folder / "splits" / "train", folder / "pets")
    shutil.copytree(folder / "splits" / "train", folder / "coco")
    content = {
        "images": [{"id": 1, "file_name": "cat/a.png", "width": 8, "height": 8}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]}],
        "categories": [{"id": 1, "name": "cat"}],
    }
    (folder / "coco" / "coco.json").write_text(json.dumps(content))
    (folder / "p.csv").write_text("file_name,label\ncat/a.png,3\ndog/b.png,4\n")
    assert main(["write", "pets", "d"]) == 0


def tables_of_labels(folder: Path) -> None:
    given(in__a_txt="one", l_csv="file_name,n\na.txt,1\n", l_dat="a.txt 1\n")(folder)
    (folder / "l.tsv").write_text("file_name\tn\na.txt\t1\n")
    assert main(["write", "l.csv", "l"]) == 0
    for end in ("jsonl", "parquet"):
        assert main(["export", "l", f"l.{end}"]) == 0


def exported(folder: Path) -> None:
    """Datasets that formats cannot hold as they are."""
    for name, schema, values in (
        ("null", {"x": "string?"}, {"x": ["a", None]}),
        ("dots", {"a.b": "int8", "c": "int8"}, {"a.b": [1], "c": [2]}),
        (
            "inner",
            {"x": {"type": "int8", "shape": [2, -1]}, "c": "int8"},
            {"x": [np.zeros((2, 3), np.int8)], "c": [2]},
        ),
        ("two", {"x": "bytes", "y": "bytes"}, {"x": [picture(4, 4)], "y": [b"2"]}),
        (
            "named",
            {"x": "bytes", "path": "string", "file_name": "int8"},
            {"x": [b"1"], "path": ["a.png"], "file_name": [1]},
        ),
        ("same", {"x": "bytes", "path": "string"}, {"x": [b"1", b"2"], "path": ["a.png", "a.png"]}),
        ("out", {"x": "bytes", "path": "string"}, {"x": [b"1"], "path": ["../a.png"]}),
        ("masked", {"x": "int8?", "x_valid": "bool"}, {"x": [1, None], "x_valid": [True, False]}),
    ):
        with unirecord.Writer(folder / name, schema) as writer:
            writer.write_batch(values)


def gone(folder: Path) -> None:
    people(folder)
    unirecord.delete(folder / "d", rows=[1])


DATA = Path(__file__).parents[1] / "data"


def copied(*names: str) -> Callable[[Path], None]:
    """Copies files and folders of tests/data."""

    def make(folder: Path) -> None:
        for name in names:
            source = DATA / name
            if source.is_dir():
                shutil.copytree(source, folder / source.name)
            else:
                shutil.copy(source, folder / source.name)

    return make


def config(name: str, **changes: Any) -> Callable[[Path], None]:
    """Changes the index of chunks of LitData."""

    def make(folder: Path) -> None:
        index = json.loads((folder / name / "index.json").read_text())
        (folder / name / "index.json").write_text(
            json.dumps({**index, "config": {**index["config"], **changes}})
        )

    return make


def bytes_and_text(folder: Path) -> None:
    """A LitData dataset whose arrays are of no known type: the second column, of bytes, is said to be such."""
    copied("foreign/litdata/plain")(folder)
    formats = json.loads((folder / "plain" / "index.json").read_text())["config"]["data_format"]
    formats[1] = "no_header_tensor:99"
    config("plain", data_format=formats)(folder)


def sparse(folder: Path) -> None:
    """A tar with a file with holes, and the same files packed without."""
    for name, kind in (("holes.tar", tarfile.GNUTYPE_SPARSE), ("whole.tar", tarfile.REGTYPE)):
        with tarfile.open(folder / name, "w", format=tarfile.GNU_FORMAT) as tar:
            for member in ("0.bin", "0.txt", "1.bin", "1.txt"):
                info = tarfile.TarInfo(member)
                info.size, info.type = 5, kind if member == "0.bin" else tarfile.REGTYPE
                tar.addfile(info, io.BytesIO(b"hello"))


def idx_splits(folder: Path) -> None:
    (folder / "in").mkdir()
    for name in ("train", "t10k"):
        (folder / "in" / f"{name}-images-idx3-ubyte").write_bytes(idx(np.zeros((2, 4, 4), np.uint8), 8))
        (folder / "in" / f"{name}-labels-idx1-ubyte").write_bytes(idx(np.arange(2, dtype=np.uint8), 8))


def cifar_splits(folder: Path) -> None:
    cifar(folder / "my pictures")
    shutil.copy(folder / "my pictures" / "data_batch_1", folder / "my pictures" / "test_batch")


def saved_splits(folder: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    one = datasets.Dataset.from_dict({"k": [1, 2]})
    datasets.DatasetDict({"train": one, "val": one}).save_to_disk(str(folder / "my set"))


def mds_splits(folder: Path) -> None:
    for name in ("train", "val"):
        (folder / "my in" / name).mkdir(parents=True)
        header = {"column_names": ["a"], "column_encodings": ["int64"], "column_sizes": [8]}
        shard(folder / "my in" / name / "shard.00000.mds", [bytes(8), bytes(8)], **header)


def mds_within(folder: Path) -> None:
    copied("foreign/mds/plain")(folder)
    (folder / "in").mkdir()
    (folder / "plain").rename(folder / "in" / "plain")


def zarr_arrays(folder: Path) -> None:
    """Zarr groups: with a codec that is not read, with one that lost its metadata, and one without fault."""
    zarr = pytest.importorskip("zarr")

    for name in ("codec", "lost", "fine"):
        group = zarr.open_group(str(folder / f"{name}.zarr"), mode="w", zarr_format=2)
        for array in ("a", "b"):
            group.create_array(array, data=np.arange(4))
    metadata = folder / "codec.zarr" / "a" / ".zarray"
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "filters": [{"id": "base64"}]}))
    shutil.copy(folder / "lost.zarr" / "a" / ".zarray", folder / "metadata")
    (folder / "lost.zarr" / "a" / ".zarray").unlink()


def npz_of_two(folder: Path) -> None:
    for name, second in (("a.npz", "x"), ("b.npz", "y")):
        with zipfile.ZipFile(folder / name, "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for member in ("x", second):
                data = io.BytesIO()
                np.save(data, np.arange(3))
                archive.writestr(f"{member}.npy", data.getvalue())


def compressed_npz(folder: Path) -> None:
    np.savez_compressed(folder / "a.npz", x=np.zeros(100_000))
    np.savez(folder / "b.npz", x=np.zeros(100_000))


def many_lines(folder: Path) -> None:
    people(folder)
    (folder / "a.csv.gz").write_bytes(gzip.compress(("k\n" + "1\n" * 5000).encode()))


def moved_set(folder: Path) -> None:
    """A set of four MindRecord files, of which one has gone."""
    copied(*(f"mindrecord/digits4.mindrecord{i}{end}" for i in (0, 1, 2) for end in ("", ".db")))(folder)


def mixed_set(folder: Path) -> None:
    (folder / "in").mkdir()
    for name in ("digits.mindrecord", "mixed.mindrecord"):
        shutil.copy(DATA / "mindrecord" / name, folder / "in" / name)


def partitioned(folder: Path) -> None:
    given(in__x_csv="k\n1\n")(folder)
    for name in ("year=1/a.csv", "month=2/b.csv"):
        (folder / "p" / name).parent.mkdir(parents=True)
        (folder / "p" / name).write_text("k\n1\n")


def two_tables(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    for place, name, table in (
        ("c", "a", {"x": [1]}), ("c", "b", {"y": [1]}), ("t", "a", {"x": [1]}), ("t", "b", {"x": ["one"]}),
        ("u", "a", {"x": [1]}), ("u", "b", {"x": [2]}),
    ):  # fmt: skip
        (folder / place).mkdir(exist_ok=True)
        pyarrow.parquet.write_table(pa.table(table), folder / place / f"{name}.parquet")


def records(folder: Path) -> None:
    """TFRecords of features of two kinds, and of bytes that are no examples behind one that is."""
    for name, values in (("ints", [1]), ("texts", ["a"])):
        with unirecord.Writer(
            folder / f"{name}.urec", {"f": "int64" if name == "ints" else "string"}
        ) as writer:
            writer.write_batch({"f": values})
        assert main(["export", f"{name}.urec", f"{name}.tfrecord", "--to", "tfrecord"]) == 0
    (folder / "both.tfrecord").write_bytes(
        (folder / "ints.tfrecord").read_bytes() + (folder / "texts.tfrecord").read_bytes()
    )


COMMANDS_BESIDE += [
    (people, "inspect d --seed 3", "--seed goes with --sample", ["inspect d --seed 3 --sample 2"]),
    (people, "inspect d --row 1 --csv", "it takes .*--json", ["inspect d --row 1 --json", "inspect d --row 1"]),
    (people, "inspect d --rows 1 --limit 2", "of chosen ones use --limit", ["inspect d --limit 2 --where k>1"]),
    (gone, "inspect d --row 1", "`unirecord log` lists the versions that have it", ["log d", "inspect d@1 --row 1"]),
    (
        people, "inspect d --sort k --columns ,", "a list of column names such as a,b",
        ["inspect d --limit 1 --columns k,n"],
    ),
    (people, "write a.csv -", r"nothing is written to standard output; './-' is a name", ["write a.csv ./-"]),
    (people, f"{WRITE} --workers 0", "--workers is 1 or more", [f"{WRITE} --workers 1"]),
    (people, "log d --cache c --cache-bytes 1GB", "which no cache keeps|is of object stores", ["log d"]),
    (
        people, "bench d --cold --seconds 0.1 --cache c --cache-bytes 1GB", "is of object stores",
        ["bench d --seconds 0.1"],
    ),
    (
        doubles, "diff a b --key k",
        "choose key columns that tell all rows apart, or compare by row number, without a key",
        ["diff a b --key k,n", "diff a b"],
    ),
    (
        people, "inspect d --limit 1 --extract k --out o", "scalar: `--csv --columns` prints it",
        ["inspect d --csv --columns k --limit 1"],
    ),
    (
        extracted, "inspect t --limit 1 --extract t --out o", "give another --out, or remove it",
        ["inspect t --limit 1 --extract t --out o2"],
    ),
    (
        tables_of_labels, "write in o --labels l.dat", "a table is a CSV, TSV, JSON Lines or Parquet file",
        [f"write in {end} --labels l.{end}" for end in ("csv", "tsv", "jsonl", "parquet")],
    ),
    (
        sounds, "write in o --labels twice.csv", "put lists into its columns, as JSON Lines can",
        ["write in o --labels lists.jsonl"],
    ),
    (
        sounds, "write in o --labels lists.jsonl --quoting none",
        "--quoting says how a CSV is written; lists.jsonl is read as",
        ["write in o --labels l.csv --quoting none"],
    ),
    (
        sounds, "write pets o --labels p.csv --classes-from d",
        "--classes-from numbers class folders, but p.csv says the labels",
        ["write pets o --labels p.csv", "write pets o2 --classes-from d"],
    ),
    (people, "write nothing.csv o", "does not exist", [WRITE]),
    (people, "write '~/a.csv' o", "the shell replaces ~ only when it is not quoted", [WRITE]),
    (people, "write /dev/null o", "data is read from files, folders, pipes and -", [WRITE]),
    (people, f"{WRITE} --schema k=int8,k=int16", "twice", [f"{WRITE} --schema k=int8"]),
    (people, f"{WRITE} --pattern '*.csv'", "--pattern is for .*; a.csv is read as csv", [WRITE]),
    (people, "write a.csv o --from images", "images are read from", ["write a.csv o --from csv"]),
    (
        given(a_jsonl="[1]\n", b_jsonl='{"label": 3}\n'),
        "write a.jsonl o", r'a line holds an object, such as \{"label": 3\}',
        ["write b.jsonl o"],
    ),
    (exported, "export null e.csv", "write another column beside it", ["export null e.jsonl"]),
    (
        exported, "export dots e --to lance", "leave it out, or rename it first",
        ["export dots e --to lance --columns c", "write dots o --rename a.b=ab", "export o e2 --to lance"],
    ),
    (
        exported, "export inner e --to lance", "no lists inside lists of a fixed size; leave it out",
        ["export inner e --to lance --columns c"],
    ),
    (
        exported, "export two e --to images", "choose it, and what is to be kept beside it, with columns",
        ["export two e --to images --columns x"],
    ),
    (
        exported, "export named e --to images", "leave it out with columns",
        ["export named e --to images --columns x,path"],
    ),
    (exported, "export same e --to images", "leave out the column 'path'", ["export same e --to images --columns x"]),
    (
        exported, "export out e --to images", "leave the column out, and files are named by their rows",
        ["export out e --to images --columns x"],
    ),
    (
        exported, "export masked e.npz", "rename one, or leave it out",
        ["export masked e.npz --columns x", "write masked o --rename x_valid=y", "export o e2.npz"],
    ),
    (
        people, "write a.csv no/o --split a=0.5,b=0.5", "the folder above does not exist; make it first",
        ["write a.csv o --split a=0.5,b=0.5"],
    ),
    (
        people, "write a.csv d --split a=0.5,b=0.5", "the shares need a folder of their own",
        ["write a.csv o --split a=0.5,b=0.5"],
    ),
    (
        people, f"{WRITE} --split 'a/b=0.5,c=0.5'", "letters of a to z, digits, _ - and . make its name",
        [f"{WRITE} --split a_b=0.5,c=0.5"],
    ),
    (
        people, f"{WRITE} --picture-columns name",
        "says what resize, max_side and reencode change; none of them is given",
        [WRITE],
    ),
    (bytes_and_text, "write plain o", "--schema (.*)=bytes keeps it", ["write plain o --schema '{}=bytes'"]),
    (
        of_all(copied("foreign/litdata/plain", "foreign/litdata/zstd"), config("plain", compression="lzma")),
        "write plain o", "those of PyTreeLoader and TokensLoader are read, as they are or by zstd", ["write zstd o"],
    ),
    (sparse, "write holes.tar o", "pack the files again without --sparse", ["write whole.tar o"]),
    (
        idx_splits, "write in o", "`unirecord write 'in/t10k\\*' test` and `unirecord write 'in/train\\*' train`",
        ["write 'in/train*' train", "write 'in/t10k*' test"],
    ),
    (
        cifar_splits, "write 'my pictures' o",
        "`unirecord write 'my pictures/data_batch_\\*' train` and `unirecord write 'my pictures/test_batch' test`",
        ["write 'my pictures/data_batch_*' train", "write 'my pictures/test_batch' test"],
    ),
    (
        saved_splits, "write 'my set' o",
        "`unirecord write 'my set/train' train` and `unirecord write 'my set/val' val`",
        ["write 'my set/train' train", "write 'my set/val' val"],
    ),
    (
        mds_splits, "write 'my in' o", "`unirecord write 'my in/train' train` and `unirecord write 'my in/val' val`",
        ["write 'my in/train' train", "write 'my in/val' val"],
    ),
    (mds_within, "write in o --from mds", "give in/plain as SRC", ["write in/plain o"]),
    (zarr_arrays, "write codec.zarr o", "write the array with one of .*zstd", ["write fine.zarr o"]),
    (
        zarr_arrays, "write lost.zarr o", "put it back, or move the folder away to leave it out",
        [lambda at: (at / "metadata").rename(at / "lost.zarr" / "a" / ".zarray"), "write lost.zarr o"],
    ),
    (
        zarr_arrays, "write lost.zarr o", "put it back, or move the folder away",
        [lambda at: (at / "lost.zarr" / "a").rename(at / "away"), "write lost.zarr o"],
    ),
    (npz_of_two, "write a.npz o", "both make a column: rename one", ["write b.npz o"]),
    (
        compressed_npz, "write a.npz o --max-spool-bytes 1kB", r"\(--max-spool-bytes\)",
        ["write a.npz o --max-spool-bytes 10MB", "write b.npz o2 --max-spool-bytes 1kB"],
    ),
    (
        many_lines,
        "write a.csv.gz o --max-spool-bytes 1kB", r"\(--max-spool-bytes\); write it to a file and convert that",
        ["write a.csv.gz o --max-spool-bytes 1MB", WRITE + "2"],
    ),
    (
        moved_set, "write digits4.mindrecord0 o", "to read only some files of it, name them by a pattern",
        ["write 'digits4.mindrecord?' o"],
    ),
    (
        mixed_set, "write in o", "convert them apart, each by its name or a pattern in quotes",
        ["write in/digits.mindrecord o", "write 'in/mix*.mindrecord' o2"],
    ),
    (partitioned, "write p o", "write them to datasets of their own", ["write p/year=1 o", "write p/month=2 o2"]),
    (two_tables, "write c o", "write them to datasets of their own", ["write c/a.parquet o", "write c/b.parquet o2"]),
    (two_tables, "write t o", "convert one of them", ["write u o"]),
    (
        records, "write both.tfrecord o", "write such records to datasets of their own",
        ["write ints.tfrecord o", "write texts.tfrecord o2"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "command", "said", "advised"),
    COMMANDS_BESIDE,
    ids=[one[1] or "no path" for one in COMMANDS_BESIDE],
)
def test_the_commands_that_an_error_advises_beside_its_files_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], None],
    command: str,
    said: str,
    advised: list[Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    capsys.readouterr()
    assert status_of(command) in (1, 2)
    error = capsys.readouterr().err
    found = re.search(said, error)
    assert found, error
    for then in advised:
        if callable(then):
            then(tmp_path)
        else:
            then = then.replace("{}", *found.groups()) if found.groups() else then
            assert status_of(then) == 0, capsys.readouterr().err


# A command that does what it is asked for, what it says beside, and the commands that it speaks of.
COMMANDS_SAID: list[tuple[Callable[[Path], None], str, str, list[str]]] = [
    (people, "demo digits", "unirecord inspect digits", ["inspect digits"]),
    (animals, "write in o --limit 1", "--sample 1 takes them evenly from all", ["write in o2 --sample 1"]),
    (
        sounds, "write splits o", r"\(--split-by split writes each to a dataset of its own\)",
        ["write splits o2 --split-by split"],
    ),
    (sounds, "write media o", "--from files has a row of each file", ["write media o2 --from files"]),
    (sounds, "write coco o", "left out: give the file as SRC to have them", ["write coco/coco.json o2"]),
    (
        several, "evict s --max-bytes 3kB", "until unirecord gc",
        ["gc s --keep 1"],
    ),
    (indexed, "write i o", "its index was on k: --index k", ["write i o2 --index k"]),
    (
        many_bad, "write in o --columns image", "are listed with --report FILE",
        ["write in o2 --columns image --on-error report --report r.jsonl"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "command", "said", "advised"), COMMANDS_SAID, ids=[one[1] for one in COMMANDS_SAID]
)
def test_the_commands_that_are_spoken_of_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], None],
    command: str,
    said: str,
    advised: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    capsys.readouterr()
    status_of(command)
    spoken = capsys.readouterr()
    assert re.search(said, spoken.out + spoken.err), spoken
    for then in advised:
        assert status_of(then) == 0, capsys.readouterr().err


def status_of(command: str) -> Any:
    try:
        return main(shlex.split(command))
    except SystemExit as ended:  # as the parser of the command line ends
        return ended.code


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


def test_a_class_is_compared_with_its_name_or_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = {"type": "int32", "logical": {"type": "class", "names": ["cat", "dog"]}}
    with unirecord.Writer(tmp_path / "x", {"label": label}) as writer:
        writer.write_batch({"label": [0, 1, 1]})
    ask = ["inspect", str(tmp_path / "x"), "--count", "--where"]
    for dog in ("'dog'", "1"):
        assert main([*ask, f"label == {dog}"]) == 0
        assert capsys.readouterr().out == "2\n"
    assert main([*ask, "label == 'cow'"]) == 2
    assert "'cow'" in capsys.readouterr().err


def test_a_codec_is_given_by_name_or_in_the_schema(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"t": "x" * 9_000}) + "\n")
    for source in (tmp_path / "a.jsonl", [{"t": "x" * 9_000}]):
        for said in ({"codec": "zstd"}, {"schema": {"t": {"type": "text", "codec": "zstd"}}}):
            unirecord.write_dataset(source, tmp_path / "x", overwrite=True, **said)  # type: ignore[arg-type]
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
    made = {"packed": unirecord.packed(plain, "tokens", 16), "windows": unirecord.windows(plain, "tokens", 4)}
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
        again = getattr(unirecord, name)(
            UniRecordDataset(path, shuffle=True, seed=1), "tokens", 16 if name == "packed" else 4
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
    for page in (
        [str(tmp_path / "q.html"), "--dataset", *named],
        ["--dataset", *named, str(tmp_path / "q.html")],
    ):
        assert main(["report", str(tmp_path / "rc"), *page]) == 0
        (tmp_path / "q.html").unlink()
    for lacking in ([], ["--dataset", str(tmp_path / "web")]):
        capsys.readouterr()
        assert main(["report", str(tmp_path / "rc"), *lacking]) == 2
        assert "name the page to write" in capsys.readouterr().err
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


PACKAGE = Path(unirecord.__file__).parent
FOREIGN_OPTIONS = {"--sparse", "--shm-size"}  # of tar, and of what runs containers


def test_commands_options_and_functions_that_the_package_names_are_there() -> None:
    """In its messages as in its docstrings; not in what it says to a linker."""
    options = {
        name: {*command.parser()._option_string_actions, "--help", "--version", "--debug"}
        for command in CLI_COMMANDS
        for name in command.names
    }
    known = {*FOREIGN_OPTIONS}.union(*options.values())
    named, wrong = set(), []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "_build.py":
            continue
        text = re.sub(
            r'"\n\s*[rf]*"', "", path.read_text(encoding="utf-8")
        )  # of literals that follow each other
        found = re.findall(r"(?<![\w-])(?<!var\()--[a-z][a-z-]*[a-z](?![\w:-])", text)
        wrong += [f"{path}: {option}" for option in found if option not in known]
        for command, rest in re.findall(r"`unirecord ([a-z][a-z-]*)\b([^`\n]*)`", text):
            asked = re.findall(r"(?<![\w-])--[a-z-]+", rest)
            wrong += [
                f"{path}: {command} {one}" for one in asked if one not in options.get(command, {*asked})
            ]
            wrong += [f"{path}: unirecord {command}"] * (command not in options)
            named.add(command)
        for module, function in re.findall(r"\bunirecord\.([a-zA-Z_]+)(?:\.([a-zA-Z_]+))?\(", text):
            source = PACKAGE / f"{module}.py"
            there = f'"{function}"' in source.read_text() if function else hasattr(unirecord, module)
            wrong += [f"{path}: unirecord.{module}.{function}"] * (not there)
            named.add(module)
        named.update(found)
    assert not wrong
    assert {"--on-error", "repair", "torch", "add_columns"} <= named


def test_each_value_in_a_command_that_the_package_names_is_quoted() -> None:
    """A path with a blank in a command is one argument, whatever the message."""
    found, wrong = set(), []
    commands = "|".join(name for command in CLI_COMMANDS for name in command.names)
    in_command = re.compile(rf"\bunirecord ({commands})( [^`]*)? (\S*=)?$")
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            said = ""
            for piece in text.values if isinstance(text, ast.JoinedStr) else ():
                if isinstance(piece, ast.Constant):
                    said += str(piece.value)
                elif isinstance(piece, ast.FormattedValue):
                    if command := in_command.search(said):
                        value = ast.unparse(piece.value)
                        found.add(command[1])
                        wrong += [f"{path}:{piece.lineno}: {value}"] * (not value.startswith("quote("))
                    said += "{}"
    assert not wrong
    assert {"bench", "inspect", "log", "repair", "restore", "verify", "write"} <= found


def cut_index(at: Path) -> None:
    (part,) = at.glob("my data/*.urec")
    index = Path(f"{part}.idx")
    index.write_bytes(index.read_bytes()[:-1])


def without_index(at: Path) -> None:
    (part,) = at.glob("my data/*.urec")
    Path(f"{part}.idx").unlink()


def without_manifest(at: Path) -> None:
    (at / "my data" / "manifest.json").unlink()


# What is broken, a command, and what it says to run.
IN_BLANKS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "an index is lost": (without_index, "head 'my data'", "repair"),
    "an index is lost, by what looks at the machine": (without_index, "doctor 'my data'", "repair"),
    "an index is cut": (cut_index, "head 'my data'", "repair"),
    "the list of parts is lost": (without_manifest, "head 'my data'", "repair"),
    "versions are asked for": (lambda at: None, "restore 'my data'", "log"),
    "digits": (lambda at: None, "demo 'my digits'", "inspect"),
}


@pytest.mark.parametrize("name", IN_BLANKS)
def test_a_command_that_is_advised_for_a_path_with_blanks_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    spoil, asked, advised = IN_BLANKS[name]
    monkeypatch.chdir(tmp_path)
    csv(tmp_path)
    assert main(["write", "a.csv", "my data"]) == 0
    spoil(tmp_path)
    capsys.readouterr()
    main(shlex.split(asked))
    said = re.sub(r"\s*\n\s+", " ", "".join(capsys.readouterr()))
    found = re.search(rf"\bunirecord ({advised} (?:'[^']*'|\S)+?)(?=[`\s]|$)", said)
    assert found, said
    assert main(shlex.split(found[1])) == 0, capsys.readouterr().err
    assert main(["head", "my data"]) == 0


# Changes of directories, at a path where nothing lies.
AT_NOTHING = [
    "delete {} --rows 0",
    "purge {} --yes",
    "evict {} --max-bytes 1MB",
    "compact {}",
    "reshard {} 2",
    "sort {} --by n",
    "gc {}",
    "log {}",
    "restore {}@1",
    "drop-columns {} n",
    "rename-columns {} n=m",
    "add-columns {} a.csv --columns k --key n",
]


@pytest.mark.parametrize("command", AT_NOTHING)
def test_where_nothing_lies_a_change_says_so_and_names_the_directory_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """And never what can be done with one part, nor the name of one, of which there are no versions."""
    monkeypatch.chdir(tmp_path)
    dataset(tmp_path)
    Path("out").rename("numbers")
    Path("out.urec").rename("number.urec")
    Path("out.urec.idx").rename("number.urec.idx")
    capsys.readouterr()
    for path, guess in (("numbrs", "; did you mean 'numbers'?"), ("elsewhere", "")):
        assert main(shlex.split(command.replace("{}", path))) == 2
        assert capsys.readouterr().err == f"unirecord: {path}: there is no such file or directory{guess}\n"


# Packages that messages name and no extra has, each with the reason.
IN_NO_EXTRA = {
    "boto3": "profiles of AWS, for those whose keys are in files",
    "matplotlib": "plots, of notebooks alone",
    "tqdm": "bars of progress, of notebooks alone",
}


def of_project(name: str) -> str:
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_packages_that_a_message_names_are_those_of_an_extra() -> None:
    requirement = re.compile(r"([\w.-]+)(?:\[[^]]*\])?\s*[<>=!~]")
    with open(PACKAGE.parent / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    offered = {
        of_project(match[1])
        for extra, texts in extras.items()
        if extra != "test"
        for match in map(requirement.match, texts)
        if match
    }
    names, named_extras = set(), set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for quoted, bare in re.findall(r"pip install (?:'([^']*)'|([\w.-]+))", node.value):
                    of_ours = re.fullmatch(r"unirecord\[(.*)\]", quoted)
                    named_extras.update(of_ours[1].split(",") if of_ours else ())
                    names.update({quoted or bare} - {".", of_ours and quoted})
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "needed":
                texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
                module = node.args[0]
                assert isinstance(module, ast.Constant), f"{path}:{node.lineno}"
                names.add(texts[-1] if len(node.args) == 3 else str(module.value).partition(".")[0])
    names |= {sink.requires for sink in SINKS if sink.requires}
    assert {of_project(name) for name in names} - offered == set(IN_NO_EXTRA)
    assert named_extras <= extras.keys()
    assert {"pyarrow", "python-snappy", "pyyaml"} <= names
    assert {"images", "ray", "remote"} <= named_extras
    assert {of_project(name) for name in FLOORS} <= offered


class Made(NamedTuple):
    """A call, and what is made before it in a folder, with all packages."""

    make: Callable[[Path], Any]
    call: Callable[[Path], Any]


def read_here(path: Path) -> bool:
    """Whether a source has rows; read by this process, not by a child that would have its packages."""
    found = open_input(str(path))
    source = source_type(found)(found, Options())
    return sum(batch.rows for unit in source.units for batch in source.batches_of(unit)) > 0


def exported_here(ending: str) -> Callable[[Path], bool]:
    def call(at: Path) -> bool:
        unirecord.export(at / "rows", at / f"e{ending}")
        return (at / f"e{ending}").exists()

    return call


def saved(name: str, save: Callable[[str], Any]) -> Made:
    return Made(lambda at: save(str(at / name)), lambda at: read_here(at / name))


def of_hdf5(path: str) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)


def of_lmdb(path: str) -> None:
    import lmdb

    with lmdb.open(path) as made, made.begin(write=True) as transaction:
        transaction.put(b"k", b"v")


def of_parquet(path: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"x": [1, 2]}), path)


def of_ipc(path: str) -> None:
    import pyarrow as pa

    table = pa.table({"x": [1, 2]})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write(table)


def of_yolo(path: str) -> None:
    for folder in ("images", "labels"):
        (Path(path) / folder).mkdir(parents=True)
    (Path(path) / "images" / "a.png").write_bytes(picture(4, 4))
    (Path(path) / "labels" / "a.txt").write_text("0 0.5 0.5 0.25 0.25\n")
    (Path(path) / "data.yaml").write_text("names: [cat]\n")


def checkpoint(at: Path) -> None:
    import torch

    torch.save({"state": opened(at).state_dict()}, at / "s.pt")


def traced(at: Path) -> bool:
    return ran("trace", str(at / "rows"), "--state", str(at / "s.pt"), "--batch", "1", "--step", "0")


def of_store(at: Path) -> bool:
    with stored(at) as url:
        return len(UniRecordDataset(f"{url}/rows")) == 3


def decoded(at: Path) -> bool:
    return unirecord.images.Decode(4)((at / "a.png").read_bytes()).shape == (4, 4, 3)


FOREIGN = Path(__file__).parent.parent / "data" / "foreign"
# What cannot be imported, a call that then is refused, and what it says to install; installed, the call works.
LACKING: dict[str, tuple[str, Callable[[Path], Any] | Made, str]] = {
    "Parquet": ("pyarrow.parquet", saved("a.parquet", of_parquet), "pyarrow"),
    "Arrow's files": ("pyarrow.ipc", saved("a.arrow", of_ipc), "pyarrow"),
    "HDF5": ("h5py", saved("a.h5", of_hdf5), "h5py"),
    "LMDB": ("lmdb", saved("a.lmdb", of_lmdb), "lmdb"),
    "YOLO": ("yaml", saved("yolo", of_yolo), "pyyaml"),
    "ArrayRecord": (
        "array_record.python.array_record_module",
        lambda at: read_here(FOREIGN / "arrayrecord" / "raw.arrayrecord"), "array-record",
    ),
    "Lance": ("lance", lambda at: read_here(FOREIGN / "lance" / "x.lance"), "pylance"),
    "Zarr": ("zarr", lambda at: read_here(FOREIGN / "zarr" / "v3.zarr"), "zarr"),
    "Bagz": ("zstandard", lambda at: read_here(FOREIGN / "bagz" / "x.bagz"), "zstandard"),
    "LitData's chunks": ("zstandard", lambda at: read_here(FOREIGN / "litdata" / "zstd"), "zstandard"),
    "MDS shards of Brotli": ("brotli", lambda at: read_here(FOREIGN / "mds" / "br"), "brotli"),
    "MDS shards of Snappy": ("snappy", lambda at: read_here(FOREIGN / "mds" / "snappy"), "python-snappy"),
    "an export to Parquet": ("pyarrow", exported_here(".parquet"), "pyarrow"),
    "an export to Arrow's files": ("pyarrow", exported_here(".arrow"), "pyarrow"),
    "an export to Lance": ("lance", exported_here(".lance"), "pylance"),
    "an export to ArrayRecord": (
        "array_record.python.array_record_module", exported_here(".arrayrecord"), "array_record",
    ),
    "an object store": ("obstore", of_store, "'unirecord[remote]'"),
    "a picture by Pillow": (
        "PIL", Made(lambda at: (at / "a.png").write_bytes(picture(4, 4)), decoded), "'unirecord[images]'"),
    "a decoder of JPEG": (
        "simplejpeg",
        lambda at: unirecord.images.Decode(4, decoder="simplejpeg") is not None, "'unirecord[images]'",
    ),
    "a checkpoint": ("torch", Made(checkpoint, traced), "torch"),
    "a page": ("jinja2", lambda at: bool(unirecord.show([{"a": 1}]).html), "'unirecord[view]'"),
    "a bar": ("tqdm.auto", lambda at: unirecord.progress_bar() is not None, "tqdm"),
}  # fmt: skip


@pytest.mark.parametrize("name", LACKING)
def test_a_package_that_is_lacking_is_named_and_helps(tmp_path: Path, rows: Path, name: str) -> None:
    module, call, package = LACKING[name]
    shutil.copytree(rows, tmp_path / "rows")
    if isinstance(call, Made):
        call.make(tmp_path)
        call = call.call
    with pytest.MonkeyPatch.context() as patched:
        for loaded in {module, *(one for one in sys.modules if one.startswith(f"{module}."))}:
            patched.setitem(sys.modules, loaded, None)
        with pytest.raises((unirecord.UniRecordError, ImportError, RuntimeError)) as refused:
            call(tmp_path)
    assert re.search(rf"pip install {re.escape(package)}(?=\s|$)", str(refused.value)), str(refused.value)
    assert call(tmp_path)


def arrow_table() -> Any:
    import pyarrow as pa

    return pa.table({"k": [1, 2]})


# What lies in the folder of a table, whose it is, and what its own reader gives, which is in no extra.
TABLE_FOLDERS: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "Delta Lake": ("_delta_log/0.json", r"to_pyarrow_table\(\)", arrow_table),
    "Apache Hudi": (".hoodie/hoodie.properties", r"toPandas\(\)", lambda: arrow_table().to_pandas()),
    "Apache Iceberg": ("metadata/v1.metadata.json", r"to_arrow\(\)", arrow_table),
    "Apache Paimon": ("snapshot/LATEST", "which gives an Arrow table", arrow_table),
}


@pytest.mark.parametrize("name", TABLE_FOLDERS)
def test_the_table_that_the_reader_of_its_format_gives_is_written(tmp_path: Path, name: str) -> None:
    mark, reader, table = TABLE_FOLDERS[name]
    (tmp_path / "t" / mark).parent.mkdir(parents=True)
    (tmp_path / "t" / mark).write_text("{}")
    (tmp_path / "t" / "schema").mkdir()
    of_parquet(str(tmp_path / "t" / "a.parquet"))
    said = rf"a table of {name}.*pass the table to unirecord.write_dataset: .*{reader}"
    with pytest.raises(unirecord.SchemaError, match=said):
        unirecord.write_dataset(tmp_path / "t", tmp_path / "out")
    unirecord.write_dataset(table(), tmp_path / "out")
    assert [row["k"] for row in UniRecordDataset(tmp_path / "out")] == [1, 2]


FORKED = """
import os, sys
from unirecord import UniRecordDataset
pipeline = UniRecordDataset(sys.argv[1]).pipeline().map(lambda sample: sample).batch(1)
rows = iter(pipeline)
next(rows)
if os.fork() == 0:
    try:
        next(rows)
    except ValueError as error:
        print(error)
    print(sum(len(batch["k"]) for batch in pipeline), flush=True)
    os._exit(0)
assert os.wait()[1] == 0
"""


def test_an_iterator_made_before_a_fork_says_to_make_a_new_one_and_that_gives_all(rows: Path) -> None:
    """In a process of its own: a fork of this one has libraries that do not survive it."""
    done = subprocess.run([sys.executable, "-c", FORKED, rows], capture_output=True, text=True, check=False)
    said, count = done.stdout.splitlines()
    assert said.endswith("an iterator made before fork() cannot be used in the child: make a new one")
    assert (count, done.returncode) == ("3", 0)


def test_a_lazy_frame_of_polars_is_written_once_it_is_collected(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    lazy = polars.DataFrame({"k": [1, 2]}).lazy()
    with pytest.raises(unirecord.SchemaError, match=r"; collect\(\) makes a DataFrame of it"):
        unirecord.write_dataset(lazy, tmp_path / "out")
    unirecord.write_dataset(lazy.collect(), tmp_path / "out")
    assert [row["k"] for row in UniRecordDataset(tmp_path / "out")] == [1, 2]


def test_a_port_that_there_is_is_listened_at(
    rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(server: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ViewServer, "serve_forever", interrupted)
    assert main(["view", str(rows), "--port", "65536"]) == 2
    assert "65536 is no port; they end at 65,535" in capsys.readouterr().err
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert main(["view", str(rows), "--port", str(port)]) == 0
    assert f":{port}/" in capsys.readouterr().out
