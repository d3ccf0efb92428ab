"""unirecord export: what the library of each format reads is what was stored, or what a stated rule makes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
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
from PIL import Image

import unirecord
from unirecord import BusyError, ExistsError, SchemaError, UniRecordDataset, Writer
from unirecord.cli import main
from unirecord.storage.staged_folder import StagedFolder

N = 120
SCHEMA = {
    "flag": "bool",
    "small": "int8",
    "big": "int64",
    "huge": "uint64?",
    "half": "float16",
    "single": "float32?",
    "double": "float64",
    "name": "string",
    "rare": "string?",
    "blob": "bytes",
    "note": "text",
    "fixed": {"type": "float32", "shape": [2, 3]},
    "ragged": {"type": "int16", "shape": [-1]},
    "boxes": {"type": "float64", "shape": [-1, 4]},
    "grid": {"type": "uint8", "shape": [2, -1, -1]},
    "bits": {"type": "bool", "shape": [3]},
    "brain": {"type": "bfloat16", "shape": [2]},
    "wave": {"type": "complex64", "shape": [-1]},
    "thing": "object",
}


def row(i: int) -> dict[str, Any]:
    rng = np.random.default_rng(i)
    return {
        "flag": i % 2 == 0,
        "small": i - 60,
        "big": (-1) ** i * (2**62 + i),
        "huge": None if i % 3 == 0 else 2**63 - 1 - i,
        "half": np.float16(i / 10),
        "single": None if i % 4 == 0 else [np.nan, np.inf, np.float32(0.1), np.float32(i / 3)][i % 4],
        "double": i / 7,
        "name": ["", "plain", "with, comma", 'say "hi"', "two\nlines", " blank ", "é☃"][i % 7],
        "rare": [None, "", "x"][i % 3],
        "blob": bytes(range(i % 50)),
        "note": "text " * (i % 4),
        "fixed": rng.random((2, 3), np.float32),
        "ragged": np.arange(i % 5, dtype=np.int16) - 2,
        "boxes": rng.random((i % 3, 4)),
        "grid": rng.integers(0, 255, (2, i % 3, i % 2 + 1), np.uint8),
        "bits": np.array([i % 2, 1, 0], bool),
        "brain": np.array([0x3F80, 0x4000 + i], np.uint16),
        "wave": (rng.random(i % 3) + 1j).astype(np.complex64),
        "thing": {"a": [i, None, b"\x00\xff"], "b": float("nan")},
    }


ROWS = [row(i) for i in range(N)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "data"
    with Writer(path, SCHEMA, max_part_bytes=20_000) as writer:
        for record in ROWS:
            writer.write(record)
    return path


def floats(values: Any) -> list[float]:
    """Numbers that brain floats of these bits are."""
    return (np.asarray(values, np.uint32) << 16).view(np.float32).tolist()  # type: ignore[no-any-return]


def as_json(record: dict[str, Any]) -> dict[str, Any]:
    """What docs/exporting.md says that JSON has of a row."""
    import base64

    wave = record["wave"]
    return {
        **{name: record[name] for name in ("flag", "small", "big", "huge", "double", "name", "rare", "note")},
        "half": float(str(record["half"])),
        "single": None if record["single"] is None else float(str(np.float32(record["single"]))),
        "blob": base64.b64encode(record["blob"]).decode(),
        "fixed": [[float(str(x)) for x in line] for line in record["fixed"]],
        **{name: record[name].tolist() for name in ("ragged", "boxes", "grid", "bits")},
        "brain": [float(str(np.float32(x))) for x in floats(record["brain"])],
        "wave": [[float(str(x.real)), float(str(x.imag))] for x in wave],
        "thing": {"a": [record["thing"]["a"][0], None, "AP8="], "b": "nan"},
    }


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)  # NaN is NaN, 1 is not 1.0


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


def check_table(table: pyarrow.Table) -> None:
    found = table.to_pylist()
    for record, one in zip(ROWS, found, strict=True):
        for name in ("flag", "small", "big", "huge", "double", "name", "rare", "blob", "note"):
            assert same(one[name], record[name]), name
        assert one["half"] == record["half"]
        assert same(one["single"], None if record["single"] is None else float(np.float32(record["single"])))
        for name in ("fixed", "ragged", "boxes", "grid", "bits", "brain"):
            assert one[name] == record[name].tolist(), name
        assert one["wave"] == [[x.real, x.imag] for x in record["wave"]]
        assert same(json.loads(one["thing"]), as_json(record)["thing"])


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


def tree(root: Path) -> dict[str, bytes]:
    return {
        p.relative_to(root).as_posix(): p.read_bytes()
        for p in root.rglob("*")
        if p.is_file() and p.name not in ("metadata.jsonl", ".unirecord.json")
    }


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


@pytest.mark.parametrize(
    "name", ["../out.png", "/etc/x.png", "a/../../b.png", ".hidden/x.png", "a//b.png", "a\\b.png", ""]
)
def test_no_name_in_the_data_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    with Writer(tmp_path / "p.urec", {"image": "bytes", "path": "string"}) as writer:
        writer.write({"image": b"x", "path": "fine.png"})
        writer.write({"image": b"y", "path": name})
    with pytest.raises(SchemaError, match="row 1, column 'path'"):
        unirecord.export(tmp_path / "p.urec", tmp_path / "out", "images")
    assert sorted(os.listdir(tmp_path)) == ["p.urec", "p.urec.idx"]


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
    with pytest.raises(OSError, match="no space"):
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
