"""Resealed files: whatever the bytes, only our errors, OSError and MemoryError are raised, and soon."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import reseal
from writing import write_numbered

import unirecord
from unirecord.cli.main import main
from unirecord.snapshot import manifest


def test_verify_takes_many_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = write_numbered(tmp_path / "a.urec"), write_numbered(tmp_path / "b.urec", 7)
    report = unirecord.verify([first, second])
    assert report.ok is True
    assert (report.parts, report.rows) == (2, 47)
    assert main(["verify", str(first), str(second)]) == 0
    assert "47 rows" in capsys.readouterr().out
    second.write_bytes(second.read_bytes()[:-1])
    report = unirecord.verify([first, second])
    assert report.ok is False
    assert {problem.path for problem in report.problems} <= {str(second), f"{second}.idx"}
    assert main(["verify", str(first), str(second)]) == 1
    with pytest.raises(ValueError, match="empty list"):
        unirecord.verify([])
    with pytest.raises(unirecord.MissingError):
        unirecord.verify([first, tmp_path / "c.urec"])


class Forged:
    """A sound part whose metadata, in either file, is changed behind right digests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with unirecord.Writer(
            path,
            {"a": "int8", "b": "int64", "arr": {"type": "int8", "shape": [2, 2]}, "s": "string"},
            index=["b"],
            metadata="x" * 20,
        ) as writer:
            rows = range(2000)
            writer.write_batch(
                {
                    "a": [i % 100 for i in rows],
                    "b": list(rows),
                    "arr": np.zeros((2000, 2, 2), np.int8),
                    "s": ["x"] * 2000,
                }
            )
        self.data, self.index = path.read_bytes(), Path(f"{path}.idx").read_bytes()

    def save(
        self, change: Callable[[dict[str, Any]], object], *, data: bool = True, index: bool = True
    ) -> None:
        """Writes both files with ``change`` made to the metadata of the data file, of the index, or of both."""
        change(found := msgpack.unpackb(reseal.metadata(self.data)))
        packed, unchanged = msgpack.packb(found), reseal.metadata(self.data)
        content = bytes(reseal.with_data_metadata(self.data, packed if data else unchanged))
        self.path.write_bytes(content)
        Path(f"{self.path}.idx").write_bytes(
            reseal.with_index_metadata(self.index, content, packed if index else unchanged)
        )


def column(number: int, type_name: str, shape: list[int] | None = None) -> Callable[[dict[str, Any]], object]:
    """A change to the schema of one column."""
    return lambda found: found["schema"][number].__setitem__(slice(1, 3), [type_name, shape])


OTHER_SCHEMAS = {
    "int64 as float64": column(1, "float64"),
    "wider scalar": column(0, "int64"),
    "wider array": column(2, "float64", [10, 100]),
    "narrower array": column(2, "int8", [1, 1]),
    "huge array": column(2, "int8", [2, 1 << 45]),
    "scalar as string": column(0, "string"),
    "nullable": column(0, "int8?"),
    "array as bytes": column(2, "bytes"),
    "same table, other shape": column(2, "int8", [1, 4]),
}


@pytest.mark.parametrize("where", ["index", "data", "both"])
@pytest.mark.parametrize("change", OTHER_SCHEMAS.values(), ids=OTHER_SCHEMAS.keys())
def test_a_schema_that_is_not_the_column_table_is_refused_at_opening(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], where: str
) -> None:
    forged = Forged(tmp_path / "x.urec")
    forged.save(lambda _: None)
    assert unirecord.verify(forged.path).ok
    forged.save(change, data=where != "index", index=where != "data")
    if where == "both" and change is OTHER_SCHEMAS["same table, other shape"]:
        assert unirecord.UniRecordDataset(forged.path)[5]["arr"].shape == (1, 4)  # no one can know better
        return
    for read in (unirecord.UniRecordDataset, unirecord.describe):
        with pytest.raises((unirecord.FormatError, unirecord.CorruptionError), match=r"x\.urec"):
            read(forged.path)
    assert not unirecord.verify(forged.path).ok


@pytest.mark.parametrize("part", [0, 2])
def test_a_part_with_another_column_table_than_the_manifest_is_refused(tmp_path: Path, part: int) -> None:
    """The manifest's schema is made another, with all digests right; parts are opened lazily, and each is refused."""
    with unirecord.Writer(tmp_path / "set", {"a": "int32", "s": "bytes"}, max_part_bytes=4096) as writer:
        for i in range(300):
            writer.write({"a": i, "s": b"x" * 100})
    name = str(tmp_path / "set" / "manifest.json")
    found = manifest.read(name)
    schema = unirecord.Schema.parse({"a": "float64", "s": "bytes"})
    digest = manifest.schema_digest(schema)
    entries = tuple(entry._replace(schema=digest) for entry in found.parts)
    Path(name).write_bytes(manifest.encode(replace(found, schema=schema, parts=entries)))
    first = sum(entry.rows for entry in entries[:part])
    dataset = unirecord.UniRecordDataset(tmp_path / "set")
    for read in (
        lambda: dataset[first],
        lambda: dataset.scalars(["a"]) if part == 0 else dataset.select([first]).scalars(["a"]),
        lambda: list(dataset.batches(50)),
        lambda: unirecord.UniRecordDataset(tmp_path / "set", where="a > 1"),
        lambda: unirecord.describe(tmp_path / "set"),
    ):
        with pytest.raises(unirecord.CorruptionError, match="column table"):
            read()
    assert not unirecord.verify(tmp_path / "set").ok


STATISTICS = [
    [7, 7, None, 7],
    [{}, {}, None, {}],
    [None, None, {"nulls": 0, "distinct": 1, "min": 1, "max": 1}, None],
    [{"nulls": "x", "distinct": [], "min": b"x", "max": []}] * 2 + [None] * 2,
    [{"nulls": -1, "distinct": 1, "min": 1, "max": 2}, None, None, None],
    [{"nulls": 1 << 63, "distinct": 1, "min": 1, "max": 2}, None, None, None],
    [{"nulls": 0, "distinct": 1, "min": 1, "max": 1000}, None, None, None],
    [{"nulls": 0, "distinct": 1, "min": 2, "max": 1}, None, None, None],
    [{"nulls": 0, "distinct": 1, "min": 1.0, "max": 2.0}, None, None, None],
    [{"nulls": 0, "distinct": True, "min": 1, "max": 2}, None, None, None],
    [None, None, None, {"nulls": 0, "distinct": 1, "min": 1, "max": 2}],
    [{"nulls": 0, "distinct": 1, "min": msgpack.Timestamp(1), "max": msgpack.Timestamp(2)}] * 2 + [None] * 2,
    None,
    [None] * 3,
]


@pytest.mark.parametrize("statistics", STATISTICS, ids=str)
def test_statistics_that_do_not_fit_are_refused_reported_and_repaired(
    tmp_path: Path, statistics: object
) -> None:
    forged = Forged(tmp_path / "x.urec")
    index = reseal.with_statistics(forged.index, forged.data, msgpack.packb(statistics))
    Path(f"{forged.path}.idx").write_bytes(index)
    assert unirecord.UniRecordDataset(forged.path)[7]["b"] == 7  # who does not need them reads on
    with pytest.raises(unirecord.FormatError, match=r"x\.urec.*repair"):
        unirecord.describe(forged.path)
    assert not unirecord.verify(forged.path).ok
    assert main(["inspect", str(forged.path)]) == 1
    assert unirecord.repair(forged.path).ok
    assert unirecord.verify(forged.path).ok


@pytest.mark.parametrize("index", [["arr"], ["b", "b"], ["nothing"], "b", [1], {"b": 1}, None], ids=str)
def test_an_index_that_names_no_scalar_column_is_refused_wherever_it_stands(
    tmp_path: Path, index: object
) -> None:
    forged = Forged(tmp_path / "x.urec")
    for where in ({}, {"data": False}, {"index": False}):
        forged.save(lambda found: found.update(index=index), **where)
        with pytest.raises((unirecord.FormatError, unirecord.CorruptionError)):
            unirecord.UniRecordDataset(forged.path)
        assert not unirecord.verify(forged.path).ok
        with contextlib.suppress(unirecord.FormatError):  # of a data file whose head is lost
            assert unirecord.repair(forged.path, output=tmp_path / "out.urec").ok
            assert unirecord.verify(forged.path).ok


@pytest.mark.parametrize("places", [2, 5, 40])
def test_like_beside_an_indexed_equality_takes_no_more_than_elsewhere(tmp_path: Path, places: int) -> None:
    """The rows that the index leaves are tried by the matcher that scans: no backtracking over the wildcards."""
    path = tmp_path / "a.urec"
    with unirecord.Writer(path, {"id": "int64", "s": "string"}, index=["id"]) as writer:
        ids = [i * 7919 % 9000 for i in range(18000)]
        writer.write_batch({"id": ids, "s": ["a" * 200 + f"é{i}" for i in range(18000)]})
    wanted = "%a" * places + "%é"
    found = unirecord.UniRecordDataset(path, where=f"id == 3 and s like '{wanted}%'")
    assert [sample["id"] for sample in found] == [3, 3]
    assert len(unirecord.UniRecordDataset(path, where=f"id == 3 and s like '{wanted}b'")) == 0
    five = [sample["s"] for sample in found if len(sample["s"]) == 206]
    assert len(unirecord.UniRecordDataset(path, where=f"id == 3 and s like '{wanted}_____'")) == len(five)
    assert len(unirecord.UniRecordDataset(path, where=f"id == 3 and s not like '{wanted}_____'")) == 2 - len(
        five
    )


@pytest.mark.parametrize("text", ["i == ²", "i == ٣", "i == ½", "i == 1²", "²", "i in [٣]"])
def test_digits_that_are_no_ascii_are_a_query_error(tmp_path: Path, text: str) -> None:
    path = write_numbered(tmp_path / "a.urec", 3)
    with pytest.raises(unirecord.QueryError):
        unirecord.UniRecordDataset(path, where=text)


def test_objects_with_any_keys_are_extracted_and_shown_with_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "o.urec"
    value = {1: "a", "1": "b", b"k": b"\x01\x02", "deep": {"x": [1.5, float("nan")]}}
    with unirecord.Writer(path, {"o": "object"}) as writer:
        writer.write({"o": value})
    assert main(["inspect", str(path), "--extract", "o", "--out", str(tmp_path / "out")]) == 0
    (file,) = (tmp_path / "out").iterdir()
    found = json.loads(file.read_text())
    assert found == [[1, "a"], ["1", "b"], ["6b", "0102"], ["deep", {"x": [1.5, "nan"]}]]
    capsys.readouterr()
    assert main(["inspect", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["first_rows"][0]["o"]
    assert [key for key, _ in shown] == [1, "1", "6b", "deep"]
