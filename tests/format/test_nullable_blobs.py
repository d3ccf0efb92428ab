"""Blobs that may be null: missing is not empty, in every way in and out."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import partgen_bytes
import pytest
from small_parts import nullable_fixed_part, nullable_part

import unirecord
from unirecord import CorruptionError, RaggedArray, SchemaError, UniRecordDataset, Writer
from unirecord.cli.main import main

SCHEMA = {
    "bytes": "bytes?",
    "text": "text?",
    "object": "object?",
    "free": {"type": "float32?", "shape": [-1, 4]},
    "free2": "int32[-1, -1]?",
    "fixed": {"type": "uint8?", "shape": [2, 3]},
    "number": "int64",
}
FIXED = {"fixed": SCHEMA["fixed"], "half": "float16[2]?"}


def record(row: int, names: Any = SCHEMA) -> dict[str, Any]:
    """Values that are empty where they can be, and nulls, in turn."""
    size = row % 3
    values = {
        "bytes": b"x" * size,
        "text": "é" * size,
        "object": [{}, [], ""][size],
        "free": np.full((size, 4), row, np.float32),
        "free2": np.full((size, 2), row, np.int32),
        "fixed": np.full((2, 3), size, np.uint8),
        "half": np.full(2, size, np.float16),
    }
    found = {name: None if (row + i) % 4 == 1 else value for i, (name, value) in enumerate(values.items())}
    return {name: {**found, "number": np.int64(row)}[name] for name in names}


def write(path: Path, schema: Any = SCHEMA, rows: int = 40) -> Path:
    with Writer(path, schema) as writer:
        for row in range(rows):
            writer.write(record(row, schema))
    return path


def same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and bool((left == right).all())
    return type(left) is type(right) and left == right


def assert_samples(samples: Any, rows: Any, names: Any = SCHEMA) -> None:
    for sample, row in zip(samples, rows, strict=True):
        for name, value in record(row, names).items():
            assert same(sample[name], value), (row, name, sample[name], value)


@pytest.mark.parametrize("schema", [SCHEMA, FIXED], ids=["variable", "fixed"])
def test_null_and_empty_are_told_apart_in_every_way_of_reading(tmp_path: Path, schema: Any) -> None:
    ds = UniRecordDataset(write(tmp_path / "a.urec", schema))
    assert_samples([ds[row] for row in range(40)], range(40), schema)
    assert_samples(ds[5:25], range(5, 25), schema)
    assert_samples(ds, range(40), schema)
    with UniRecordDataset(tmp_path / "a.urec", io="pread") as other:
        assert_samples([other[row] for row in range(40)], range(40), schema)


@pytest.mark.parametrize("schema", [SCHEMA, FIXED], ids=["variable", "fixed"])
def test_lists_batches_and_datasets_write_what_records_do(tmp_path: Path, schema: Any) -> None:
    source = UniRecordDataset(write(tmp_path / "a.urec", schema))
    with Writer(tmp_path / "lists.urec", schema) as writer:
        for first in range(0, 40, 7):
            rows = [record(row, schema) for row in range(first, min(first + 7, 40))]
            writer.write_batch({name: [row[name] for row in rows] for name in schema})
    with Writer(tmp_path / "batches.urec", schema) as writer:
        for batch in source.batches(7):
            writer.write_batch(batch)
    for name in ("lists", "batches"):
        assert_samples(UniRecordDataset(tmp_path / f"{name}.urec"), range(40), schema)


def test_each_shape_of_batch_has_its_form_of_null(tmp_path: Path) -> None:
    batch = next(iter(UniRecordDataset(write(tmp_path / "a.urec")).batches(20)))
    rows = [record(row) for row in range(20)]
    fixed = batch["fixed"]
    assert isinstance(fixed, np.ma.MaskedArray)
    assert fixed.shape == fixed.mask.shape == (20, 2, 3)
    null = [row["fixed"] is None for row in rows]
    assert (fixed.mask == np.array(null)[:, None, None]).all()
    fixed[0] = 7  # batches may be changed, masks too
    for name in ("bytes", "text", "object", "free", "free2"):
        ragged = batch[name]
        assert isinstance(ragged, RaggedArray)
        assert ragged.valid.tolist() == [row[name] is not None for row in rows]
        assert (ragged.lengths[~ragged.valid] == 0).all()
        assert [value is None for value in ragged] == [value is None for value in ragged.to_list()]
        assert [value is None for value in ragged[2:9]] == (~ragged.valid[2:9]).tolist()
        assert ragged[-1] is None or ragged.valid[-1]
    padded = batch["free"].pad(-1)
    assert (padded[~batch["free"].valid] == -1).all()
    assert batch["free2"].pad(0, shape=(3, 4)).shape == (20, 3, 4)
    assert batch["bytes"].pad().shape == (20, 2)


def test_a_batch_of_nothing_but_nulls(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {**SCHEMA, **FIXED}) as writer:
        for row in range(5):
            writer.write({**dict.fromkeys({**SCHEMA, **FIXED}), "number": row})
    ds = UniRecordDataset(tmp_path / "a.urec")
    assert [set(map(type, sample.values())) for sample in ds] == [{type(None), np.int64}] * 5
    batch = next(iter(ds.batches(5)))
    assert batch["free"].pad().shape == (5, 0, 4)
    assert batch["fixed"].mask.all()
    assert unirecord.verify(tmp_path / "a.urec").ok


def test_masked_arrays_are_null_row_by_row(tmp_path: Path) -> None:
    values = np.ma.MaskedArray(np.arange(24, dtype=np.uint8).reshape(4, 2, 3), False)
    values[1] = np.ma.masked
    free = np.ma.MaskedArray(np.ones((4, 2, 4), np.float32), False)
    free[[0, 3]] = np.ma.masked
    schema = {"fixed": SCHEMA["fixed"], "free": SCHEMA["free"]}
    with Writer(tmp_path / "a.urec", schema) as writer:
        writer.write_batch({"fixed": values, "free": free})
        values[2, 0, 0] = np.ma.masked
        with pytest.raises(
            SchemaError, match=r"row 6, column 'fixed': some elements of the array are masked"
        ):
            writer.write_batch({"fixed": values, "free": free})
    ds = UniRecordDataset(tmp_path / "a.urec")
    assert [sample["fixed"] is None for sample in ds] == [False, True, False, False]
    assert [sample["free"] is None for sample in ds] == [True, False, False, True]
    assert unirecord.verify(tmp_path / "a.urec").ok


@pytest.mark.parametrize("schema", [SCHEMA, FIXED], ids=["variable", "fixed"])
def test_queries_ask_for_nulls(tmp_path: Path, schema: Any) -> None:
    path = write(tmp_path / "a.urec", schema)
    for name in schema:
        null = [row for row in range(40) if record(row, schema)[name] is None]
        assert UniRecordDataset(path, where=f"{name} is null").order.row_ids().tolist() == null
        assert len(UniRecordDataset(path, where=f"{name} is not null")) == 40 - len(null)
    with pytest.raises(unirecord.QueryError, match="'is null' is all that can be asked of 'fixed'"):
        UniRecordDataset(path, where="fixed == 3")


def test_conditions_on_nulls_join_others_over_several_parts(tmp_path: Path) -> None:
    with Writer(tmp_path / "set", SCHEMA, max_part_bytes=2_000) as writer:
        for row in range(200):
            writer.write(record(row))
    ds = UniRecordDataset(tmp_path / "set", where="text is null and number >= 100 or free is null")
    rows = [record(row) for row in range(200)]
    assert len(list((tmp_path / "set").glob("*.urec"))) > 2
    assert ds.order.row_ids().tolist() == [
        r for r, row in enumerate(rows) if (row["text"] is None and r >= 100) or row["free"] is None
    ]


def test_nulls_are_counted_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.urec")
    found = {column.name: column for column in unirecord.describe(path).columns}
    assert {name: found[name].nulls for name in SCHEMA} == {
        name: sum(record(row)[name] is None for row in range(40)) for name in SCHEMA
    }
    assert (found["free"].type, found["free"].nullable) == ("float32?", True)
    assert main(["inspect", str(path), "--stats", "--json"]) == 0
    stats = {column["name"]: column for column in json.loads(capsys.readouterr().out)}
    assert {name: stats[name]["nulls"] for name in SCHEMA} == {name: found[name].nulls for name in SCHEMA}
    lengths = [len(record(row)["bytes"]) for row in range(40) if record(row)["bytes"] is not None]
    assert stats["bytes"]["mean"] == pytest.approx(np.mean(lengths))
    assert main(["inspect", str(path), "--rows", "40"]) == 0
    assert "null" in capsys.readouterr().out


def test_a_null_is_extracted_to_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.urec")
    assert main(["inspect", str(path), "--extract", "text", "--out", str(tmp_path / "out"), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    there = [row for row in range(40) if record(row)["text"] is not None]
    assert (done["files"], done["nulls"]) == (len(there), 40 - len(there))
    assert sorted(int(file.stem) for file in (tmp_path / "out").iterdir()) == there


def test_json_lines_hold_nulls(tmp_path: Path) -> None:
    lines = [
        {"text": "a" * 5000, "array": [1, 2], "both": None},
        {"text": None, "array": None, "both": None},
        {"text": "", "array": [], "both": "x"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (
        main(["write", str(tmp_path / "a.jsonl"), str(tmp_path / "a.urec"), "--schema", "both=bytes?"]) == 0
    )
    ds = UniRecordDataset(tmp_path / "a.urec")
    assert ds.schema.to_spec() == {
        "text": "text?",
        "array": {"type": "int64?", "shape": [-1]},
        "both": "bytes?",
    }
    assert [sample["text"] for sample in ds] == ["a" * 5000, None, ""]
    assert [None if s["array"] is None else s["array"].tolist() for s in ds] == [[1, 2], None, []]
    assert [sample["both"] for sample in ds] == [None, None, b"x"]


def test_an_empty_cell_of_csv_is_null_where_the_type_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c,d,e\n1,,,,\n2,x,y,[1.5],{}\n")
    schema = "b=bytes?,c=text?,d=float32[-1]?,e=object?"
    assert main(["write", str(tmp_path / "a.csv"), str(tmp_path / "a.urec"), "--schema", schema]) == 0
    first, second = UniRecordDataset(tmp_path / "a.urec")
    assert [first[name] for name in "bcde"] == [None] * 4
    assert (second["b"], second["c"], second["d"].tolist(), second["e"]) == (b"x", "y", [1.5], {})


def test_rows_are_appended_repaired_and_indexed_with_their_nulls(tmp_path: Path) -> None:
    path = write(tmp_path / "set", rows=20)
    with unirecord.append(path) as writer:
        for row in range(20, 40):
            writer.write(record(row))
    assert_samples(UniRecordDataset(path), range(40))
    for index in path.glob("*.idx"):
        index.unlink()
    assert unirecord.repair(path).ok
    assert_samples(UniRecordDataset(path), range(40))
    assert len(UniRecordDataset(path, where="bytes is null")) == 10


def test_a_salvaged_part_keeps_its_nulls(tmp_path: Path) -> None:
    path = write(tmp_path / "a.urec", rows=40)
    Path(f"{path}.idx").unlink()
    path.write_bytes(path.read_bytes()[:-64])  # the end page
    assert unirecord.repair(path, output=tmp_path / "b.urec")
    assert_samples(UniRecordDataset(tmp_path / "b.urec"), range(40))


@pytest.fixture
def nulls_with_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator says of the first value of each column that it is null, and keeps its bytes."""
    honest = partgen_bytes.bitmap

    def bitmap(column: list[bytes | None]) -> bytes:
        bits = honest(column)
        return bytes([bits[0] & 0xFE]) + bits[1:] if bits else bits

    monkeypatch.setattr(partgen_bytes, "bitmap", bitmap)


def first_filled(raw: list[list[bytes | None]], column: int) -> bool:
    return bool(raw[0][column]) and any(raw[0][column] or b"")


@pytest.mark.usefixtures("nulls_with_bytes")
def test_a_null_that_has_bytes_is_corrupt(tmp_path: Path) -> None:
    for seed in itertools.count():
        made = nullable_part(tmp_path / "a.urec", seed=seed)
        if first_filled(made.raw, 1) and not first_filled(made.raw, 0):
            break
    ds = UniRecordDataset(made.path)
    with pytest.raises(CorruptionError, match="null, and its length is not 0") as caught:
        ds[0]
    assert (caught.value.row, caught.value.column) == (0, "bytes")
    assert sum(1 for _ in UniRecordDataset(made.path, on_corrupt="skip")) < len(ds)
    report = unirecord.verify(made.path)
    assert any("null, and has bytes" in problem.what for problem in report.problems)


@pytest.mark.usefixtures("nulls_with_bytes")
def test_what_stands_under_a_null_of_fixed_width_is_no_value(tmp_path: Path) -> None:
    made = nullable_fixed_part(tmp_path / "a.urec", seed=6)
    assert first_filled(made.raw, 0)
    ds = UniRecordDataset(made.path)
    assert ds[0]["a"] is None
    assert ds.batches(3).__iter__().__next__()["a"][0].mask.all()
    report = unirecord.verify(made.path)
    assert any("null, and has bytes" in problem.what for problem in report.problems)


FLAT = {**{name: spec for name, spec in SCHEMA.items() if name not in ("object", "free2")}, **FIXED}


def test_parquet_and_arrow_keep_nulls_both_ways(tmp_path: Path) -> None:
    write(tmp_path / "a.urec", FLAT)
    for kind in ("parquet", "arrow"):
        unirecord.export(tmp_path / "a.urec", tmp_path / f"a.{kind}")
        schema = ",".join(
            f"{column.name}={column}" for column in UniRecordDataset(tmp_path / "a.urec").schema
        )
        back = tmp_path / f"{kind}.urec"
        assert main(["write", str(tmp_path / f"a.{kind}"), str(back), "--schema", schema]) == 0
        assert_samples(UniRecordDataset(back), range(40), FLAT)
        assert main(["write", str(tmp_path / f"a.{kind}"), str(tmp_path / f"{kind}2.urec")]) == 0
        assert str(UniRecordDataset(tmp_path / f"{kind}2.urec").schema["fixed"]).endswith("?")


def test_arrow_tables_have_the_nulls_of_every_kind(tmp_path: Path) -> None:
    import pyarrow.parquet

    path = write(tmp_path / "a.urec", {**SCHEMA, **FIXED})
    unirecord.export(path, tmp_path / "a.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    table.validate(full=True)
    for name in table.column_names:
        rows = [record(row, (name,))[name] for row in range(40)]
        found = table[name].to_pylist()
        assert [value is None for value in found] == [value is None for value in rows], name
    lists = [record(row, ("free2",))["free2"] for row in range(40)]
    assert table["free2"].to_pylist() == [None if value is None else value.tolist() for value in lists]


def test_text_formats_and_npz_keep_nulls(tmp_path: Path) -> None:
    path = write(tmp_path / "a.urec", {**SCHEMA, **FIXED})
    unirecord.export(path, tmp_path / "a.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    unirecord.export(path, tmp_path / "a.npz")
    arrays = np.load(tmp_path / "a.npz")
    for name in {**SCHEMA, **FIXED}:
        null = [record(row, (name,))[name] is None for row in range(40)]
        assert [line[name] is None for line in lines] == null, name
        assert name == "number" or (~arrays[f"{name}_valid"]).tolist() == null, name
    assert lines[1]["fixed"] == [[1, 1, 1], [1, 1, 1]]


def test_compressed_blobs_may_be_null_too(tmp_path: Path) -> None:
    """Arrays of fixed shape as well, whose cells have lengths once they are compressed."""
    schema = {
        "fixed": {"type": "uint8?", "shape": [2, 3], "codec": "zstd"},
        "free": {"type": "float32?", "shape": [-1, 4], "codec": "zstd"},
        "text": {"type": "text?", "codec": "zstd"},
        "half": "float16[2]?",
    }
    path = write(tmp_path / "a.urec", schema, rows=41)
    assert_samples(UniRecordDataset(path), range(41), schema)
    assert unirecord.verify(path).problems == []
    for batch in UniRecordDataset(path).batches(41):
        assert batch["fixed"].mask[:, 0, 0].tolist() == [
            record(r, ("fixed",))["fixed"] is None for r in range(41)
        ]
        assert not batch["fixed"].data[batch["fixed"].mask].any()
    Path(f"{path}.idx").unlink()
    assert unirecord.repair(path).ok
    assert_samples(UniRecordDataset(path), range(41), schema)
