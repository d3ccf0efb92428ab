"""unirecord export: what the library of each format reads is what was stored, or what a stated rule makes of it."""

from __future__ import annotations

import json
import os
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from exported_rows import ROWS, SCHEMA, N, as_json, check_table, floats, same, tree, write_rows
from PIL import Image

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer
from unirecord.cli import main


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("export") / "data")


def test_json_lines(path: Path, tmp_path: Path) -> None:
    done = unirecord.export(path, tmp_path / "x.jsonl")
    assert (done.kind, done.rows, done.files) == ("jsonl", N, 1)
    assert done.bytes == (tmp_path / "x.jsonl").stat().st_size
    lines = (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()
    for line, record in zip(lines, ROWS, strict=True):
        found, wanted = json.loads(line), as_json(record)
        assert list(found) == list(SCHEMA)
        assert all(same(found[name], wanted[name]) for name in SCHEMA), (found, wanted)
    names = ["small", "name", "double"]
    unirecord.export(path, tmp_path / "some.jsonl", columns=names)
    frame = polars.read_ndjson(tmp_path / "some.jsonl")
    assert frame.rows() == [tuple(record[name] for name in names) for record in ROWS]


def test_short_floats_read_back_as_the_same_number(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 5000, np.uint32)
    singles = bits.view(np.float32)
    halves = np.arange(0, 2**16, 13, np.uint16).view(np.float16)[: len(singles)]
    with Writer(tmp_path / "f.urec", {"s": "float32", "h": "float16"}) as writer:
        writer.write_batch({"s": singles, "h": np.resize(halves, len(singles))})
    unirecord.export(tmp_path / "f.urec", tmp_path / "f.jsonl")
    found = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    with np.errstate(over="ignore"):
        back = np.array([one["s"] for one in found]).astype(np.float32)
    assert np.array_equal(back, singles, equal_nan=True)
    assert np.array_equal(
        np.array([one["h"] for one in found]).astype(np.float16),
        np.resize(halves, len(singles)),
        equal_nan=True,
    )


def test_csv(path: Path, tmp_path: Path) -> None:
    unirecord.export(path, tmp_path / "x.csv")
    frame = pandas.read_csv(tmp_path / "x.csv", keep_default_na=False, dtype=str)
    assert list(frame.columns) == list(SCHEMA)
    for i, record in enumerate(ROWS):
        wanted, cells = as_json(record), frame.iloc[i]
        assert cells["flag"] == str(record["flag"]).lower()
        assert [int(cells["small"]), int(cells["big"])] == [record["small"], record["big"]]
        assert cells["huge"] == ("" if record["huge"] is None else str(record["huge"]))
        assert float(cells["double"]) == record["double"]
        assert [cells["name"], cells["note"], cells["blob"]] == [
            record["name"],
            record["note"],
            wanted["blob"],
        ]
        for name in ("fixed", "ragged", "boxes", "grid", "thing", "wave"):
            assert same(json.loads(cells[name]), wanted[name])


def test_csv_tells_null_from_the_empty_text(tmp_path: Path) -> None:
    with Writer(tmp_path / "s.urec", {"s": "string?"}) as writer:
        writer.write_batch({"s": ["a", "", None, "b"]})
    with pytest.raises(SchemaError, match="both an empty line"):
        unirecord.export(tmp_path / "s.urec", tmp_path / "s.csv")
    with Writer(tmp_path / "t.urec", {"s": "string?", "n": "int8"}) as writer:
        writer.write_batch({"s": ["a", "", None, "b"], "n": [1, 2, 3, 4]})
    unirecord.export(tmp_path / "t.urec", tmp_path / "t.csv")
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert pyarrow.csv.read_csv(tmp_path / "t.csv", convert_options=options)["s"].to_pylist() == [
        "a",
        "",
        None,
        "b",
    ]


def test_parquet(path: Path, tmp_path: Path) -> None:
    unirecord.export(path, tmp_path / "x.parquet")
    check_table(pyarrow.parquet.read_table(tmp_path / "x.parquet"))
    assert polars.read_parquet(tmp_path / "x.parquet", columns=["big"])["big"].to_list() == [
        r["big"] for r in ROWS
    ]


def test_arrow(path: Path, tmp_path: Path) -> None:
    unirecord.export(path, tmp_path / "x.arrow")
    with pyarrow.memory_map(str(tmp_path / "x.arrow")) as file:
        check_table(pyarrow.ipc.open_file(file).read_all())
    unirecord.export(path, tmp_path / "folder", "arrow", parts=3)
    check_table(pyarrow.dataset.dataset(tmp_path / "folder", format="arrow").to_table())


def test_batches_are_queried_as_they_are(path: Path) -> None:
    import duckdb

    ds = UniRecordDataset(path, shuffle=True)
    check_table(ds.to_batches(batch_size=7).read_all())
    reader = ds.to_batches(["big", "blob", "boxes"])  # noqa: F841 - the query names it
    found = duckdb.sql(
        "select count(*), sum(octet_length(blob)), sum(len(boxes)) from reader where big > 0"
    ).fetchall()
    kept = [record for record in ROWS if record["big"] > 0]
    assert found == [(len(kept), sum(len(r["blob"]) for r in kept), sum(len(r["boxes"]) for r in kept))]
    assert polars.from_arrow(ds.to_batches(["ragged"]))["ragged"].to_list() == [
        r["ragged"].tolist() for r in ROWS
    ]
    frame = ds.select(range(10, 20)).to_pandas(["note", "fixed", "small"])
    assert frame["note"].tolist() == [r["note"] for r in ROWS[10:20]]
    assert frame["fixed"][3].tolist()[1].tolist() == ROWS[13]["fixed"][1].tolist()
    assert len(ds.take(0).to_batches().read_all()) == 0
    assert ds.to_arrow(["small", "blob"]).column_names == ["small", "blob"]


def test_a_table_that_was_read_back_makes_the_same_dataset(path: Path, tmp_path: Path) -> None:
    names = ["flag", "small", "big", "huge", "double", "name", "rare", "blob", "note", "ragged"]
    unirecord.export(path, tmp_path / "x.parquet", columns=names)
    with Writer(tmp_path / "again", {name: SCHEMA[name] for name in names}) as writer:
        writer.write_batch(pyarrow.parquet.read_table(tmp_path / "x.parquet"))
    for a, b in zip(UniRecordDataset(path, columns=names), UniRecordDataset(tmp_path / "again"), strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in names)


def test_tfrecord(path: Path, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    names = [name for name in SCHEMA if name != "wave"]
    with pytest.raises(SchemaError, match=r"'wave'.*complex"):
        unirecord.export(path, tmp_path / "x.tfrecord")
    unirecord.export(path, tmp_path / "x.tfrecord", columns=names)
    records = tf.data.TFRecordDataset(str(tmp_path / "x.tfrecord"))
    count = 0
    for raw, record in zip(records, ROWS, strict=True):
        found = tf.train.Example.FromString(raw.numpy()).features.feature
        count += 1
        absent = {name for name in names if record[name] is None}
        assert set(found) == {*names, "boxes_shape", "grid_shape"} - absent
        for name in {"flag", "small", "big", "huge", "ragged", "grid", "bits"} - absent:
            assert (
                list(found[name].int64_list.value) == np.ravel(np.asarray(record[name], np.int64)).tolist()
            ), name
        for name in {"half", "single", "double", "fixed", "boxes"} - absent:
            wanted = np.ravel(np.asarray(record[name], np.float32))
            assert np.array_equal(
                np.array(found[name].float_list.value, np.float32), wanted, equal_nan=True
            ), name
        assert list(found["brain"].float_list.value) == floats(record["brain"])
        for name in {"name", "rare", "note"} - absent:
            assert found[name].bytes_list.value[0].decode() == record[name]
        assert found["blob"].bytes_list.value[0] == record["blob"]
        assert list(found["grid_shape"].int64_list.value) == list(record["grid"].shape)
        assert same(json.loads(found["thing"].bytes_list.value[0]), as_json(record)["thing"])
    assert count == N


def test_tfrecord_refuses_integers_beyond_int64(tmp_path: Path) -> None:
    with Writer(tmp_path / "u.urec", {"n": "uint64"}) as writer:
        writer.write_batch({"n": np.array([1, 2**63], np.uint64)})
    with pytest.raises(SchemaError, match="'n': 9223372036854775808 is beyond int64"):
        unirecord.export(tmp_path / "u.urec", tmp_path / "u.tfrecord")
    assert sorted(os.listdir(tmp_path)) == ["u.urec", "u.urec.idx"]


def test_webdataset(path: Path, tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    unirecord.export(path, tmp_path / "shards", "webdataset", parts=4)
    shards = sorted(str(p) for p in (tmp_path / "shards").glob("*.tar"))
    assert len(shards) == 4
    found = list(webdataset.WebDataset(shards, shardshuffle=False))
    assert [int(one["__key__"]) for one in found] == list(range(N))
    for record, one in zip(ROWS, found, strict=True):
        scalars, wanted = json.loads(one["json"]), as_json(record)
        assert all(same(scalars[name], wanted[name]) for name in scalars)
        assert list(scalars) == [name for name in SCHEMA if name in list(SCHEMA)[:9]]
        assert one["blob.bin"] == record["blob"]
        assert one["note.txt"].decode() == record["note"]
        for name in ("fixed", "ragged", "boxes", "grid", "bits", "brain", "wave"):
            back = np.load(BytesIO(one[f"{name}.npy"]))
            assert back.dtype == record[name].dtype
            assert np.array_equal(back, record[name])


def test_chosen_columns_of_an_npz_read_back_as_they_were(path: Path, tmp_path: Path) -> None:
    whole = UniRecordDataset(path)
    some = list(whole.column_names)[2:0:-1]
    unirecord.export(path, tmp_path / "x.npz", columns=some)
    unirecord.write_dataset(tmp_path / "x.npz", tmp_path / "again.urec")
    again = UniRecordDataset(tmp_path / "again.urec")
    assert again.schema.to_spec() == {name: whole.schema.to_spec()[name] for name in some}
    assert again.to_arrow(some).to_pylist() == whole.to_arrow(some).to_pylist()


def test_npz(path: Path, tmp_path: Path) -> None:
    unirecord.export(path, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as found:
        for name in ("flag", "small", "big", "half", "double", "fixed", "bits", "brain"):
            assert np.array_equal(found[name], np.array([record[name] for record in ROWS])), name
        assert found["huge_valid"].tolist() == [record["huge"] is not None for record in ROWS]
        values = found["huge"].tolist()
        assert all(values[i] == record["huge"] for i, record in enumerate(ROWS) if record["huge"] is not None)
        for name in ("blob", "name", "note"):
            data, at = found[name].tobytes(), found[f"{name}_offsets"].tolist()
            cells = [data[at[i] : at[i + 1]] for i in range(N)]
            plain = [r[name] if isinstance(r[name], bytes) else r[name].encode() for r in ROWS]
            assert cells == plain
        for name in ("ragged", "boxes", "grid", "wave"):
            at = found[f"{name}_offsets"].tolist()
            for i, record in enumerate(ROWS):
                shape = found[f"{name}_shape"][i] if f"{name}_shape" in found else -1
                back = found[name][at[i] : at[i + 1]].reshape(shape)
                assert np.array_equal(back, record[name])
                assert back.dtype == record[name].dtype


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders of PNG and JPEG files."""
    root = tmp_path_factory.mktemp("pictures") / "in"
    for i in range(12):
        folder = root / ["cat", "dog", "red panda"][i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        colour = Image.new("RGB", (8 + i, 6), (i * 20, 10, 10))
        colour.save(folder / f"p{i}.{'png' if i % 2 else 'jpg'}")
    return root


def test_pictures_make_the_same_folders_again(pictures: Path, tmp_path: Path) -> None:
    assert main(["write", str(pictures), str(tmp_path / "p")]) == 0
    unirecord.export(tmp_path / "p", tmp_path / "out", "images")
    assert tree(tmp_path / "out") == tree(pictures)
    table = [json.loads(line) for line in (tmp_path / "out" / "metadata.jsonl").read_text().splitlines()]
    assert [one["file_name"] for one in table] == [s["path"] for s in UniRecordDataset(tmp_path / "p")]
    assert table[0]["class"] == "cat"
    unirecord.export(tmp_path / "p", tmp_path / "by_class", "images", columns=["image", "label"])
    found = tree(tmp_path / "by_class")
    assert sorted(found.values()) == sorted(tree(pictures).values())
    assert {name.split("/")[0] for name in found} == {"cat", "dog", "red panda"}


def test_files_lie_in_the_folder_of_the_class_that_they_have_now(tmp_path: Path) -> None:
    """The path names folders of classes as they were when the pictures were read."""
    png = b"\x89PNG\r\n\x1a\n"
    labels = {"type": "int32?", "logical": {"type": "class", "names": ["cat", "dog", "bird", "train"]}}
    rows = [  # path, split, class now -> where it lies
        ("train/cat/0.png", "train", "cat", "train/cat/0.png"),
        ("train/cat/1.png", "train", "dog", "train/dog/1-row1.png"),
        ("train/dog/1.png", "train", "dog", "train/dog/1.png"),
        ("train/cat/x/2.png", "train", "bird", "train/bird/x/2-row3.png"),
        ("train/train/3.png", "train", "cat", "train/cat/3-row4.png"),
        ("test/4.png", "test", None, "test/4.png"),
        ("train/dog/5.png", "train", None, "train/5-row6.png"),
        ("train/dog/dog/6.png", "train", "cat", "train/cat/dog/6-row7.png"),
        ("photos/7.png", "train", "cat", "photos/7.png"),
    ]
    for kind in ("class", "label"):
        named = labels if kind == "label" else "string?"
        with Writer(
            tmp_path / kind, {"image": "bytes", "path": "string", "split": "string", kind: named}
        ) as w:
            for path, split, name, _ in rows:
                number = None if name is None else labels["logical"]["names"].index(name)
                w.write(
                    {"image": png, "path": path, "split": split, kind: number if kind == "label" else name}
                )
        known = ("cat", "dog", "bird", "train") if kind == "label" else ("cat", "dog", "bird")
        wanted = [
            where if set(path.split("/")[1:-1]) <= {*known, "x"} else path for path, _, _, where in rows
        ]
        with pytest.warns(UserWarning, match=r"lie (in|where)") as told:
            unirecord.export(tmp_path / kind, tmp_path / f"of {kind}", "images")
        lines = [
            json.loads(line) for line in (tmp_path / f"of {kind}" / "metadata.jsonl").read_text().splitlines()
        ]
        assert [line["file_name"] for line in lines] == wanted
        assert sorted(tree(tmp_path / f"of {kind}")) == sorted(wanted)
        said = " ".join(str(one.message) for one in told)
        moved = sum(a != b[0] for a, b in zip(wanted, rows, strict=True))
        assert (
            f"{moved} {'file lies' if moved == 1 else 'files lie'} in the folder of the class of the row"
            in said
        )
        assert "where the path says, in no folder called as the class" in said


def test_a_class_and_a_label_that_differ_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"type": "int32", "logical": {"type": "class", "names": ["cat", "dog"]}}
    with Writer(tmp_path / "d.urec", {"image": "bytes", "label": labels, "class": "string"}) as writer:
        for label, name in ((0, "cat"), (1, "cat"), (1, "dog")):
            writer.write({"image": b"\xff\xd8\xff", "label": label, "class": name})
    assert main(["export", str(tmp_path / "d.urec"), str(tmp_path / "out"), "--to", "images"]) == 0
    assert "1 row has a class other than the label says; folders are by class" in capsys.readouterr().err
    assert len(list((tmp_path / "out" / "cat").iterdir())) == 2


def test_chosen_rows_keep_the_numbers_they_have_in_the_dataset(tmp_path: Path) -> None:
    chosen = [3, 7, 8, 9_000]
    with Writer(tmp_path / "d.urec", {"image": "bytes", "n": "int32", "note": "bytes?"}) as writer:
        for i in range(9_001):
            note = None if i in (8, 9_000) else b""
            writer.write({"image": b"\xff\xd8\xff", "n": i if i in chosen else -1, "note": note})

    def export(kind: str, **options: Any) -> list[str]:
        unirecord.export(
            tmp_path / "d.urec", tmp_path / kind, kind, where="n >= 0", overwrite=True, **options
        )
        return sorted(tree(tmp_path / kind))

    pictures = export("images", columns=["image"])
    assert pictures == [f"{row:06d}.jpg" for row in chosen]
    assert export("webdataset", columns=["image"], parts=2) == ["part-00000.tar", "part-00001.tar"]
    keys = []
    for shard in (tmp_path / "webdataset").glob("*.tar"):
        with tarfile.open(shard) as tar:
            keys += [name.split(".")[0] for name in tar.getnames()]
    assert sorted(keys) == [f"{row:09d}" for row in chosen]
    for kind in ("mds", "mindrecord"):
        with pytest.raises(SchemaError, match=r"^row 8: 'note' is null"):
            export(kind, columns=["note"])


def test_a_column_of_file_names_names_the_files(tmp_path: Path) -> None:
    png = b"\x89PNG\r\n\x1a\n"
    with Writer(tmp_path / "d.urec", {"image": "bytes", "file_name": "string?", "path": "string"}) as writer:
        for name in ("one.png", None, "more/two.png"):
            writer.write({"image": png, "file_name": name, "path": "x"})
    unirecord.export(tmp_path / "d.urec", tmp_path / "out", "images", columns=["image", "file_name"])
    assert sorted(tree(tmp_path / "out")) == ["000001.png", "more/two.png", "one.png"]
    with pytest.raises(
        SchemaError, match="leave it out with columns"
    ):  # else it would stand for another file
        unirecord.export(tmp_path / "d.urec", tmp_path / "no", "images")
    with Writer(tmp_path / "e.urec", {"image": "bytes", "file_name": "string", "n": "int8"}) as writer:
        for n in range(3):
            writer.write({"image": png, "file_name": f"p{n}.png", "n": n})
    unirecord.export(tmp_path / "e.urec", tmp_path / "e", "images")
    lines = [json.loads(line) for line in (tmp_path / "e" / "metadata.jsonl").read_text().splitlines()]
    assert lines == [{"file_name": f"p{n}.png", "n": n} for n in range(3)]
    assert all((tmp_path / "e" / line["file_name"]).exists() for line in lines)
    with Writer(tmp_path / "t.urec", {"image": "bytes", "file_name": "string"}) as writer:
        for name in ("a.png", "a.png"):
            writer.write({"image": png, "file_name": name})
    with pytest.raises(SchemaError, match="is there twice"):
        unirecord.export(tmp_path / "t.urec", tmp_path / "t", "images")
    with Writer(tmp_path / "h.urec", {"image": "bytes", "file_name": "string"}) as writer:
        writer.write({"image": png, "file_name": "../evil.png"})
    with pytest.raises(SchemaError, match="no path below a folder"):
        unirecord.export(tmp_path / "h.urec", tmp_path / "h", "images")
    assert not (tmp_path / "evil.png").exists()
