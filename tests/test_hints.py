"""What an error advises works: each hint of the table is followed, and what it promises is there."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
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
        lambda at: unirecord.Writer(at / "rows", {"k": "int8"}, overwrite=True).close(),
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
