"""Columns added, replaced, dropped and renamed: read like any others, whatever happens to the rows later."""

from __future__ import annotations

import re
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from columns_changed import IOS, NEW, SCHEMA, add, captions, column, make, numbers, row
from reference_directory import read_directory
from writing import files

import unirecord
from unirecord import MissingError, SchemaError, StaleError, TransformError, UniRecordDataset, Writer
from unirecord.cli.main import main
from unirecord.format.layout import SECTION_ORDER
from unirecord.snapshot.part_set import PartSet, resolve


@pytest.mark.parametrize("io", IOS)
def test_added_columns_are_read_like_any_others(tmp_path: Path, io: Any) -> None:
    path = make(tmp_path / "x")
    found = add(path)
    assert found == unirecord.ColumnsAdded(4, (*SCHEMA, *NEW), 60, 3)
    with UniRecordDataset(path, io=io, verify="always") as ds:
        assert ds.schema.names == (*SCHEMA, *NEW)
        for n, sample in enumerate(ds):
            assert (sample["caption"], sample["square"], sample["t"]) == (f"k{n} of {n}", n * n, row(n)["t"])
            assert (sample["x"] == n).all()
        assert ds[7]["caption"] == "k7 of 7"
        for batch in ds.batches(7):
            assert (batch["square"] == batch["n"] ** 2).all()
            assert list(batch["caption"]) == captions(batch)["caption"]
        assert ds.read_rows(np.array([41, 3]))["caption"][0] == "k41 of 41"
    assert column(path, "square", io=io, where="square > 100 and n < 20") == [n * n for n in range(11, 20)]
    assert column(path, "n", io=io, where='name == "k9" and square == 81') == [9]
    assert column(f"{path}@3", "n") == list(range(60))
    assert UniRecordDataset(path, version=3).schema.names == tuple(SCHEMA)
    assert unirecord.verify(path).ok


def test_the_files_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    path = make(tmp_path / "x")
    before = {name: (path / name).read_bytes() for name in files(path) if name.startswith("part-")}
    add(path)
    with faults.unsynced():
        unirecord.rename_columns(path, {"n": "number"})
        unirecord.drop_columns(path, "t")
    assert {name: (path / name).read_bytes() for name in before} == before
    assert len([name for name in files(path) if name.endswith(".urec")]) == 6


@pytest.mark.parametrize("shuffle", [True, "block", "parts", "within-parts"])
def test_the_order_and_a_state_stay_as_they_were(tmp_path: Path, shuffle: Any) -> None:
    path = make(tmp_path / "x")
    options: dict[str, Any] = {"shuffle": shuffle, "seed": 5, "columns": ["n"]}
    with UniRecordDataset(path, **options) as ds:
        whole = [int(sample["n"]) for sample in ds]
    with UniRecordDataset(path, **options) as ds:
        taken = [int(n) for _, batch in zip(range(2), ds.batches(10), strict=False) for n in batch["n"]]
        state = ds.state_dict()
    assert taken == whole[:20]
    add(path)
    with faults.unsynced():
        unirecord.drop_columns(path, ["t", "x"])
    with UniRecordDataset(path, **options) as ds:
        ds.load_state_dict(state)
        assert [int(sample["n"]) for sample in ds] == whole[20:]
        assert [int(sample["n"]) for sample in UniRecordDataset(path, **options)] == whole


def test_what_runs_keeps_its_columns(tmp_path: Path) -> None:
    path = make(tmp_path / "x")
    with UniRecordDataset(path) as every, UniRecordDataset(path, columns=["n", "t"]) as some:
        add(path)
        assert every.refresh()
        assert every.schema.names != tuple(every[0])
        assert tuple(every[0]) == tuple(SCHEMA)
        with faults.unsynced():
            unirecord.drop_columns(path, "t")
        with pytest.raises(StaleError, match="column 't' is not there as it was"):
            some.refresh()
        assert [sample["t"] for sample in some] == [row(n)["t"] for n in range(60)]


def test_a_table_is_joined_by_key_or_in_order(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    table = {"name": ["k5", "k1", "k9", "k0"], "score": [5.5, 1.5, 9.5, 0.5], "word": ["e", "a", "i", "o"]}
    with faults.unsynced():
        found = unirecord.add_columns(path, {"score": "float64?", "word": "string?"}, table, key="name")
        assert (found.without, found.unused) == (3, 1)
        assert column(path, "score") == [0.5, 1.5, None, None, None, 5.5]
        assert column(path, "word") == ["o", "a", None, None, None, "e"]
        assert column(path, "n", where="score > 1") == [1, 5]
        unirecord.add_columns(path, None, {"m": np.arange(6) * 10})
        assert column(path, "m") == list(range(0, 60, 10))
        csv = tmp_path / "labels.csv"
        csv.write_text("n,name,label\n" + "".join(f"{n},k{n},{n % 2}\n" for n in range(6)))
        assert unirecord.add_columns(path, ["label"], csv, key=["n", "name"]).without == 0
    assert column(path, "label") == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("columns", "table", "key", "message"),
    [
        (None, {"n": [1, 1], "m": [1, 2]}, "n", "rows 0 and 1 have the same key 1"),
        (None, {"n": [1, 2], "m": [1, 2]}, "n", "it has no row for 4 rows of the dataset, first row 0"),
        (None, {"n": [11, 12], "m": [1, 2]}, "n", "none of its keys is in the dataset; its first is 11"),
        (None, {"m": [1, 2]}, None, "it has 2 rows, and the dataset 6"),
        (None, {"q": [1, 2], "m": [1, 2]}, "n", "there is no column 'n'"),
        (None, {"q": [1, 2], "m": [1, 2]}, "q", "there is no column 'q'"),
        (None, {"n": [1, 2]}, "n", "no column beside the key"),
        (["n"], {"n": [1, 2], "m": [1, 2]}, "n", "is the key"),
        (["k"], {"n": [1, 2], "m": [1, 2]}, "n", "there is no column 'k'"),
        (None, {"n": [0.5, 2], "m": [1, 2]}, "n", "cannot be a key"),
        (None, {"name": list("abcdef"), "m": [1] * 6}, None, "there is a column 'name' already"),
        (None, {"n": [1, 2, 3], "m": [1, 2]}, "n", "different lengths"),
    ],
)
def test_a_table_that_does_not_go_with_the_rows_is_refused(
    tmp_path: Path, columns: Any, table: Any, key: Any, message: str
) -> None:
    path = make(tmp_path / "x", 6, 2)
    before = files(path)
    with pytest.raises(SchemaError, match=message):
        unirecord.add_columns(path, columns, table, key=key)
    assert files(path) == before


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda b: {"m": b["n"][:-1]}, SchemaError, "1 value for 2 rows"),
        (lambda b: {"m": b["n"], "k": b["n"]}, SchemaError, "expected"),
        (lambda b: {}, SchemaError, "expected"),
        (lambda b: b["n"], SchemaError, "expected a dict"),
        (lambda b: {"m": [None] * len(b["n"])}, SchemaError, "'m'"),
        (lambda b: {"m": ["x"] * len(b["n"])}, SchemaError, "'m'"),
        (lambda b: 1 / 0, TransformError, "failed at rows 0 to 1: ZeroDivisionError"),
    ],
)
def test_what_a_function_makes_wrongly_is_refused(
    tmp_path: Path, made: Any, error: type[Exception], message: str
) -> None:
    path = make(tmp_path / "x", 6, 2)
    before = files(path)
    with pytest.raises(error, match=message):
        unirecord.add_columns(path, {"m": "int64"}, made, batch_size=2)
    assert files(path) == before
    assert unirecord.versions(path)[-1].number == 2


def test_wrong_calls_are_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    with unirecord.Writer(tmp_path / "one.urec", SCHEMA) as writer:
        writer.write(row(1))
    for change in (
        lambda p: unirecord.add_columns(p, {"m": "int64"}, numbers),
        lambda p: unirecord.drop_columns(p, "n"),
        lambda p: unirecord.rename_columns(p, {"n": "m"}),
    ):
        with pytest.raises(MissingError, match="no directory of parts"):
            change(tmp_path / "one.urec")
    wrong: list[dict[str, Any]] = [{"key": "n"}, {"workers": 0}, {"batch_size": 0}]
    for options in wrong:
        with pytest.raises(ValueError, match=next(iter(options))):
            unirecord.add_columns(path, {"m": "int64"}, numbers, **options)
    with pytest.raises(ValueError, match="with their types"):
        unirecord.add_columns(path, None, numbers)
    with pytest.raises(ValueError, match="reads= is of a function"):
        unirecord.add_columns(path, None, {"m": range(6)}, reads=["n"])
    with pytest.raises(SchemaError, match="there is no column 'q'"):
        unirecord.add_columns(path, {"m": "int64"}, numbers, reads=["q"])
    with pytest.raises(SchemaError, match="no column would stay"):
        unirecord.drop_columns(path, list(SCHEMA))
    with pytest.raises(SchemaError, match="no column 'q'"):
        unirecord.drop_columns(path, "q")
    with pytest.raises(SchemaError, match="no column 'q'"):
        unirecord.rename_columns(path, {"q": "m"})
    with pytest.raises(SchemaError, match="two columns would be called 'n'"):
        unirecord.rename_columns(path, {"t": "n"})
    with pytest.raises(SchemaError):
        unirecord.rename_columns(path, {"t": ""})
    for empty in (lambda: unirecord.drop_columns(path, []), lambda: unirecord.rename_columns(path, {})):
        with pytest.raises(ValueError, match=r"columns names no|names is empty"):
            empty()
    assert unirecord.versions(path)[-1].number == 2


def test_names_change_and_change_places(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2, index=["n", "name"])
    with faults.unsynced():
        assert unirecord.rename_columns(path, {"n": "number"}).columns == ("name", "number", "x", "t")
        assert column(path, "t", where="number == 4") == [row(4)["t"]]
        assert unirecord.describe(path).index == ["number", "name"]
        unirecord.rename_columns(path, {"name": "t", "t": "name"})
        assert column(path, "t") == [f"k{n}" for n in range(6)]
        unirecord.rename_columns(path, {"name": "t", "t": "name", "number": "n"})
    assert unirecord.versions(path)[-1].bytes == unirecord.versions(path)[1].bytes
    with UniRecordDataset(path) as ds, UniRecordDataset(path, version=2) as before:
        assert [str(one) for one in ds] == [str(one) for one in before]


def test_values_are_replaced_in_their_places(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    with faults.unsynced():
        with pytest.raises(SchemaError, match="replace=True"):
            unirecord.add_columns(path, {"n": "int32"}, lambda b: {"n": -b["n"].astype(np.int32)})
        found = unirecord.add_columns(
            path,
            {"n": "int32", "m": "int64"},
            lambda b: {"n": -b["n"].astype("i4"), "m": b["n"]},
            replace=True,
        )
        assert found.columns == ("name", "n", "x", "t", "m")
        assert column(path, "n") == [-n for n in range(6)]
        unirecord.add_columns(
            path, {"n": "int64", "m": "int64"}, lambda b: {"n": b["m"], "m": b["m"]}, replace=True
        )
    assert column(path, "n") == list(range(6))
    named = unirecord.snapshot.versions.read_newest(str(path))
    assert [len(part.columns.files) for part in named.parts if part.columns is not None] == [1, 1]


SAID_OF_LABEL = {
    "logical": {"type": "class", "names": ["cat", "dog"]}, "annotations": {"description": "by hand", "unit": "1"}
}  # fmt: skip


def labelled(path: Path) -> Path:
    """Eight pictures' labels, in two parts, with what goes with them."""
    label = {"type": "int32", **SAID_OF_LABEL}
    schema = {
        "image": {"type": "bytes", "logical": {"type": "media", "media": "image/png"}},
        "path": "string", "label": label, "class": "string", "width": "int32", "score": "float32?",
    }  # fmt: skip
    with faults.unsynced():
        for part in range(2):
            metadata = {"classes": ["cat", "dog"]}
            made = unirecord.append(path) if part else unirecord.Writer(path, schema, metadata=metadata)
            with made as writer:
                for n in range(4 * part, 4 * part + 4):
                    name = ["cat", "dog"][n % 2]
                    writer.write(
                        {"image": b"\x89PNG\r\n\x1a\n", "path": f"{name}/{n // 2}.png", "label": n % 2,
                         "class": name, "width": 1, "score": None if n == 5 else n / 2}
                    )  # fmt: skip
    return path


OTHER = {"type": "int32", "logical": {"type": "class", "names": ["no", "yes"]}}


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ("int32", SAID_OF_LABEL),
        ("int64?", SAID_OF_LABEL),
        ({"type": "int32", "annotations": {}}, {}),
        ({"type": "int32", "logical": None}, {}),
        (OTHER, {"logical": OTHER["logical"]}),
        ("string", {"annotations": {"description": "by hand"}}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*label")
def test_a_replaced_column_keeps_its_annotations_unless_others_are_given(
    tmp_path: Path, spec: Any, kept: dict[str, Any]
) -> None:
    path = labelled(tmp_path / "x")
    is_text = spec == "string"
    values = {"label": [str(n) if is_text else n % 2 for n in range(8)]}
    with faults.unsynced():
        for given in (values, lambda batch: {"label": [str(n) if is_text else 1 for n in batch["label"]]}):
            found = unirecord.add_columns(path, {"label": spec}, given, replace=True)
            label = unirecord.UniRecordDataset(path).schema["label"]
            assert label.spec == ({"type": str(label), **kept} if kept else str(label))
            lost = "without its logical type class(names cat, dog), annotation unit"
            assert any(lost in one for one in found.said) == is_text
            unirecord.restore(path, 2)


@pytest.mark.packages
@pytest.mark.parametrize(
    ("replaced", "said"),
    [
        (["label"], "class, which says the same otherwise, has those of before"),
        (["class"], "label, which says the same otherwise, has those of before"),
        (["label", "class"], None),
        (["image"], "width are of the pictures of before"),
        (["image", "width"], None),
        (["score"], None),
    ],
)
def test_what_does_not_follow_a_replaced_column_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replaced: list[str], said: str | None
) -> None:
    path = labelled(tmp_path / "x")
    with UniRecordDataset(path) as ds:
        types = {name: ds.schema[name].spec for name in replaced}
    with faults.unsynced(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = unirecord.add_columns(
            path, types, lambda batch: {n: batch[n] for n in replaced}, replace=True
        )
    assert [str(one.message) for one in told] == [f"{path}: {one}" for one in found.said]
    assert [said in one for one in found.said] == ([] if said is None else [True])
    with UniRecordDataset(path) as ds:
        ds.to_arrow(replaced).to_pandas().to_parquet(tmp_path / "same.parquet")
    capsys.readouterr()
    assert main(["add-columns", str(path), str(tmp_path / "same.parquet"), "--replace"]) == 0
    out, err = capsys.readouterr()
    assert (said or "") in out
    assert ("of before" in out) == (said is not None)
    assert err == ""


def test_a_few_corrected_values_leave_the_others_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = labelled(tmp_path / "x")
    before = labelled(tmp_path / "y")
    (tmp_path / "fix.csv").write_text("path,label,score\ncat/0.png,1,7\ndog/2.png,0,\n")
    command = ["add-columns", str(path), str(tmp_path / "fix.csv"), "--key", "path", "--replace"]
    with faults.unsynced():
        assert main(command) == 1
        assert "keep=True (--keep) leaves those rows their values" in capsys.readouterr().err
        assert column(path, "label") == [0, 1] * 4
        assert main([*command, "--keep"]) == 0
    out = capsys.readouterr().out
    assert "6 rows keep their values, which the table has no row for" in out
    assert column(path, "label") == [1, 1, 0, 1, 0, 0, 0, 1]
    assert column(path, "score") == [7, 0.5, 1, 1.5, 2, None, 3, 3.5]
    with UniRecordDataset(path) as ds, UniRecordDataset(before) as old:
        assert ds.schema == old.schema  # the types that there were, not those found in the text
    assert unirecord.verify(path).ok
    unirecord.merge([path, before], tmp_path / "both")
    for options in ({"key": "path"}, {"replace": True}):
        with pytest.raises(ValueError, match="keep=True is of a table with key="):
            unirecord.add_columns(path, None, tmp_path / "fix.csv", keep=True, **options)


def test_added_columns_may_be_compressed(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 12, 2)
    with faults.unsynced():
        unirecord.add_columns(
            path,
            {
                "c": {"type": "text", "codec": "zstd"},
                "v": {"type": "float32", "shape": [64], "codec": "shuffle+zstd"},
            },
            lambda b: {
                "c": [f"{name} " * 200 for name in b["name"]],
                "v": np.repeat(b["x"][:, :1], 64, axis=1),
            },
        )
        assert [column.codec for column in unirecord.describe(path).columns[-2:]] == ["zstd", "shuffle+zstd"]
        with unirecord.append(path) as writer:
            writer.write({**row(12), "c": "k12 " * 200, "v": np.full(64, 12, np.float32)})
    assert column(path, "c") == [f"k{n} " * 200 for n in range(13)]
    assert all((value == n).all() for n, value in enumerate(column(path, "v")))
    assert [one.codec for one in unirecord.describe(path).columns[-2:]] == ["zstd", "shuffle+zstd"]
    assert unirecord.verify(path).ok


def test_added_columns_are_looked_up_by_value(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 60, 2, index=["n"])
    with faults.unsynced():
        unirecord.add_columns(path, NEW, captions, index=["square"])
        unirecord.add_columns(path, {"n": "int64"}, lambda b: {"n": 100 - b["n"]}, replace=True)
        with pytest.raises(SchemaError, match="'caption'"):
            unirecord.add_columns(path, NEW, captions, index=["caption"], replace=True)
        with pytest.raises(SchemaError, match="'q'"):
            unirecord.add_columns(path, {"m": "int64"}, numbers, index=["q"])
    assert unirecord.describe(path).index == ["n", "square"]
    with closing(PartSet(resolve(str(path)))) as parts:
        for number in range(2):
            orders = [
                parts.part(number).section(SECTION_ORDER, i) is not None for i in range(len(parts.schema))
            ]
            assert orders == [name in ("n", "square") for name in parts.schema.names]
    assert column(path, "n", where="square == 49") == [93]
    assert column(path, "square", where="n == 93") == [49]
    assert len(read_directory(path)) == 2
    with faults.unsynced():
        unirecord.add_columns(path, {"n": "text"}, lambda b: {"n": b["name"]}, replace=True)
    assert unirecord.describe(path).index == ["square"]


@pytest.mark.parametrize("in_python", [False, True])
def test_a_table_is_read_as_write_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], in_python: bool
) -> None:
    path = tmp_path / "x"
    with Writer(path, {"id": "string"}) as writer:
        writer.write_batch({"id": ["a", "b"]})
    table = tmp_path / "said.what"
    table.write_text('b|he said "no|6\na|yes|7\n')
    command = ["add-columns", str(path), str(table), "--key", "id"]
    assert main(command) == 2
    assert re.search("say so with --from .*csv", capsys.readouterr().err)
    if in_python:
        options = {"kind": "csv", "delimiter": "|", "names": ["id", "said", "n"], "quoting": "none"}
        unirecord.add_columns(path, None, table, key="id", **options)
        with pytest.raises(ValueError, match="names= is of a table, and a function was given"):
            unirecord.add_columns(path, {"m": "int8"}, len, names=["a"])
    else:
        options = ["--delimiter", "|", "--names", "id,said,n", "--quoting", "none"]
        assert main([*command, "--from", "csv", *options]) == 0
        function = ["add-columns", str(path), "--function", "os:listdir", "--schema", "m=int8"]
        assert main([*function, "--names", "a"]) == 2
        assert "names= is of a table, and a function was given" in capsys.readouterr().err
        assert main([*command, "--replace", "--from", "csv", "--pictures", "y"]) == 2
        assert "--pictures is for coco" in capsys.readouterr().err
    assert column(path, "said") == ["yes", 'he said "no']
    assert column(path, "n") == [7, 6]
