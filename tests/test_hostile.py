"""One rule: whatever the bytes and the limits, only UniRecordError, OSError and MemoryError are raised, and soon."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import reseal
import xxhash

import unirecord
from unirecord.cli.main import main
from unirecord.core import LeavablePool
from unirecord.parts import manifest


def write(path: Path, rows: int = 40) -> Path:
    with unirecord.Writer(path, {"i": "int32", "s": "string", "b": "bytes"}, index=["i"]) as writer:
        for i in range(rows):
            writer.write({"i": i, "s": f"abc{i % 5}", "b": b"x" * i})
    return path


def test_verify_takes_many_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = write(tmp_path / "a.urec"), write(tmp_path / "b.urec", 7)
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


def test_verify_takes_no_more_threads_than_the_process_has_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.urec")
    asked: list[int] = []

    def pool(workers: int, name: str) -> LeavablePool:
        asked.append(workers)
        return LeavablePool(workers, name)

    monkeypatch.setitem(unirecord.verify.__globals__, "LeavablePool", pool)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert unirecord.verify(path).ok
    assert asked == [3]


def test_work_is_done_where_no_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verifying, querying and transforming go on in the thread that asks."""
    path = write(tmp_path / "a.urec")
    dataset = unirecord.UniRecordDataset(path, transform=lambda sample: sample)
    refused: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        refused.append(thread.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr("unirecord.query.parallel.PARALLEL", 1)
    monkeypatch.setattr("unirecord.query.parallel.usable_cores", lambda: 4)
    assert unirecord.verify(path, threads=4).ok
    seen = [int(i) for batch in dataset.batches(7) for i in batch["i"]]
    assert seen == list(range(40))
    assert len(unirecord.UniRecordDataset(path, where="s == 'abc1'")) == 8
    assert len(refused) >= 2


def test_no_thread_hides_what_a_transform_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def fail(_: object) -> object:
        raise KeyError("boom")

    dataset = unirecord.UniRecordDataset(write(tmp_path / "a.urec"), transform=fail)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(unirecord.TransformError, match="boom"):
        list(dataset.batches(7))


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
    entries = tuple(replace(entry, schema=digest) for entry in found.parts)
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
    path = write(tmp_path / "a.urec", 3)
    with pytest.raises(unirecord.QueryError):
        unirecord.UniRecordDataset(path, where=text)


def test_a_string_that_is_not_utf8_is_corrupt_in_every_way_of_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "a.urec")
    index = Path(f"{path}.idx")
    content = bytearray(index.read_bytes())
    content[content.rindex(b"abc0abc1")] = 0xFF
    reseal.index(content, path.read_bytes())
    index.write_bytes(content)
    dataset = unirecord.UniRecordDataset(path)
    for read in (
        lambda: dataset[0],
        lambda: dataset.__getitems__([0, 1]),
        lambda: list(dataset),
        lambda: list(dataset.batches(8)),
        lambda: dataset.scalars(["s"]),
    ):
        with pytest.raises(unirecord.CorruptionError, match=r"(?i)utf-?8") as caught:
            read()
        assert caught.value.column == "s"
    assert not unirecord.verify(path).ok


@pytest.fixture
def no_text(tmp_path: Path) -> list[str]:
    """Two parts of 5 and 7 rows; in the second, row 3 has a string that is not UTF-8."""
    paths = [str(write(tmp_path / "a.urec", 5)), str(write(tmp_path / "b.urec", 7))]
    index = Path(f"{paths[1]}.idx")
    content = bytearray(index.read_bytes())
    content[content.rindex(b"abc3")] = 0xFF
    reseal.index(content, Path(paths[1]).read_bytes())
    index.write_bytes(content)
    return paths


def test_a_batch_names_part_and_row_of_a_string_that_is_not_utf8(no_text: list[str]) -> None:
    loader = unirecord.UniRecordDataset(no_text).batches(4)
    batches = iter(loader)
    assert len(next(batches)["s"]) == len(next(batches)["s"]) == 4
    with pytest.raises(unirecord.CorruptionError, match=r"b\.urec: row 3, column 's': .*utf-8") as caught:
        next(batches)
    assert (caught.value.path, caught.value.row, caught.value.column) == (no_text[1], 3, "s")


@pytest.mark.parametrize("batch_size", [1, 4, 12])
def test_a_string_that_is_not_utf8_is_left_out_and_counted(no_text: list[str], batch_size: int) -> None:
    dataset = unirecord.UniRecordDataset(no_text, on_corrupt="skip")
    loader = dataset.batches(batch_size)
    batches = list(loader)
    assert [s for batch in batches for s in batch["s"]] == [s["s"] for s in dataset]
    assert sum(len(batch["s"]) for batch in batches) == 11
    assert all(len(batch["s"]) for batch in batches)
    assert (loader.stats().samples, loader.stats().skipped) == (11, 1)
    rows = dataset.batches(batch_size, transform=lambda sample: sample["s"])
    assert sum(map(len, rows)) == 11


def directory(path: Path) -> tuple[Path, dict[str, Any]]:
    """A directory of two parts, and its manifest as JSON."""
    with unirecord.Writer(
        path, {"x": "int32", "s": "bytes"}, metadata={"a": 1}, max_part_bytes=4096
    ) as writer:
        for i in range(60):
            writer.write({"x": i, "s": b"x" * 100})
    return path / "manifest.json", json.loads((path / "manifest.json").read_bytes())


def sealed(content: dict[str, Any], nested: str = "") -> bytes:
    """The text of a manifest with the right digest; ``nested`` is put in the place of "@@"."""

    def text(digest: str) -> str:
        found = json.dumps(
            {**content, "digest": digest}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        return found.replace('"@@"', nested) if nested else found

    return text(f"{xxhash.xxh3_64_intdigest(text('').encode()):016x}").encode() + b"\n"


WRONG_MANIFESTS: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("rows", lambda c: [p.update(rows=(1 << 63) - 1) for p in c["parts"]], ""),
    ("bytes", lambda c: [p.update(bytes=(1 << 63) - 1) for p in c["parts"]], ""),
    ("a number of 5000 digits", lambda c: c.update(generation="@@"), "9" * 5000),
    ("a number beyond", lambda c: c.update(generation="@@"), "1e999"),
    ("version", lambda c: c.update(version="@@"), "[" * 900 + "]" * 900),
    ("nested", lambda c: c.update(index="@@"), "[" * 985 + "]" * 985),
    ("deeper", lambda c: c.update(schema="@@"), '{"a":' * 5000 + "1" + "}" * 5000),
    ("metadata beyond ASCII", lambda c: c.update(metadata="é"), ""),
    (
        "metadata of a timestamp",
        lambda c: c.update(metadata=base64.b64encode(b"\xd6\xff\0\0\0\1").decode()),
        "",
    ),
    (
        "metadata with a key twice",
        lambda c: c.update(metadata=base64.b64encode(b"\x82\1\1\1\2").decode()),
        "",
    ),
    ("index of a blob", lambda c: c.update(index=["s"]), ""),
    ("index twice", lambda c: c.update(index=["x", "x"]), ""),
]


@pytest.mark.parametrize(
    ("change", "nested"), [w[1:] for w in WRONG_MANIFESTS], ids=[w[0] for w in WRONG_MANIFESTS]
)
def test_a_wrong_manifest_is_a_format_error_and_a_problem(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], nested: str
) -> None:
    name, content = directory(tmp_path / "set")
    change(content)
    name.write_bytes(sealed(content, nested))
    for use in (unirecord.UniRecordDataset, unirecord.describe, unirecord.append):
        with pytest.raises((unirecord.FormatError, unirecord.CorruptionError), match=r"manifest\.json"):
            use(tmp_path / "set")
    report = unirecord.verify(tmp_path / "set")
    assert [problem.path for problem in report.problems] == [str(name)]
    assert unirecord.repair(tmp_path / "set", output=tmp_path / "saved").kept == 60


@pytest.mark.parametrize("size", [0, 5, 10**9, 1 << 62])
@pytest.mark.parametrize("key", ["bytes", "index_bytes"])
def test_wrong_sizes_in_a_manifest_change_no_row_and_are_corrected_by_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, size: int
) -> None:
    name, content = directory(tmp_path / "set")
    content["parts"][1][key] = size
    name.write_bytes(sealed(content))
    assert [row["x"] for row in unirecord.UniRecordDataset(tmp_path / "set")] == list(range(60))
    assert [problem.part for problem in unirecord.verify(tmp_path / "set").problems] == [1]
    assert main(["repair", str(tmp_path / "set")]) == 0
    assert "the sizes of files in it were wrong, and were corrected" in capsys.readouterr().out
    assert unirecord.verify(tmp_path / "set").ok
    assert [entry.name for entry in tmp_path.iterdir()] == ["set"]
    found = manifest.read(str(name))
    assert (found.id.hex(), found.generation) == (content["id"], content["generation"] + 1)
    assert found.metadata is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.update(rows=part["rows"] + 1),
        lambda part: part.update(rows=part["rows"] - 1),
        lambda part: part.update(id=part["id"][:8] + "0" * 24),
        lambda part: part.update(content="1" * 16),
    ],
    ids=["more rows", "fewer rows", "id", "content"],
)
def test_repair_saves_parts_that_the_manifest_does_not_name(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    name, content = directory(tmp_path / "set")
    change(content["parts"][0])
    name.write_bytes(sealed(content))
    with pytest.raises(unirecord.StaleError):
        list(unirecord.UniRecordDataset(tmp_path / "set"))
    report = unirecord.repair(tmp_path / "set")
    assert (report.kept, report.lost) == (60, 0)
    assert "the manifest says" in report.parts[0].reasons[0]
    assert unirecord.verify(tmp_path / "set.repaired").ok
    saved = unirecord.UniRecordDataset(tmp_path / "set.repaired")
    assert [row["x"] for row in saved] == list(range(60))
    assert saved.metadata == {"a": 1}


def test_repair_says_of_a_part_of_another_schema_that_its_rows_are_not_saved(tmp_path: Path) -> None:
    name, content = directory(tmp_path / "set")
    part = tmp_path / "set" / content["parts"][1]["name"]
    for file in (part, Path(f"{part}.idx")):
        file.unlink()
    write(part, 7)
    report = unirecord.repair(tmp_path / "set")
    first = content["parts"][0]["rows"]
    assert (report.ok, report.kept, report.lost) == (False, first, 7)
    assert "schema" in report.parts[1].reasons[0]
    assert len(unirecord.UniRecordDataset(tmp_path / "set.repaired")) == first
    assert name.exists()


def test_a_dataset_without_parts_is_empty_in_every_way(tmp_path: Path) -> None:
    name, content = directory(tmp_path / "set")
    content["parts"] = []
    name.write_bytes(sealed(content))
    dataset = unirecord.UniRecordDataset(tmp_path / "set")
    assert (len(dataset), list(dataset), list(dataset.batches(4)), len(dataset.scalars(["x"])["x"])) == (
        0,
        [],
        [],
        0,
    )
    assert unirecord.describe(tmp_path / "set").rows == 0


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
@pytest.mark.parametrize("which", ["manifest.json", ".urec", ".idx"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path, which: str, kind: str) -> None:
    directory(tmp_path / "set")
    path = next(p for p in sorted((tmp_path / "set").iterdir()) if p.name.endswith(which))
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()

    def use() -> None:
        with pytest.raises((unirecord.UniRecordError, OSError)):
            list(unirecord.UniRecordDataset(tmp_path / "set"))
        assert not unirecord.verify(tmp_path / "set").ok
        with pytest.raises((unirecord.UniRecordError, OSError)):
            unirecord.describe(tmp_path / "set")
        if which == ".urec":
            with contextlib.suppress(unirecord.UniRecordError, OSError):
                unirecord.repair(tmp_path / "set", output=tmp_path / "saved")

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for a writer of the pipe"


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


def retyped(path: Path, cells: list[bytes], spec: Any, entry: bytes) -> Path:
    """A part whose only column is of ``spec`` (first bytes of its table entry: ``entry``) and holds any bytes."""
    with unirecord.Writer(path, {"o": "bytes"}, metadata="x" * 25) as writer:
        writer.write_batch({"o": cells})
    index = Path(f"{path}.idx")
    data, stored = bytearray(path.read_bytes()), bytearray(index.read_bytes())
    found = msgpack.unpackb(reseal.metadata(data))
    found["schema"] = unirecord.Schema.parse({"o": spec}).to_wire()
    data[128 : 128 + len(entry)] = entry
    stored[192 : 192 + len(entry)] = entry
    content = reseal.with_data_metadata(bytes(data), msgpack.packb(found))
    path.write_bytes(content)
    index.write_bytes(reseal.with_index_metadata(bytes(stored), bytes(content), msgpack.packb(found)))
    return path


NO_VALUES: dict[str, tuple[Any, bytes, bytes, list[bytes]]] = {
    "object": (
        "object",
        bytes([33]),
        b"\x01",
        [b"", b"\xc1", b"\xa1\xff", b"\x82\xa1a\x01\xa1a\x02", b"\x91" * 65],
    ),
    "text": ("text", bytes([31]), "é".encode(), [b"\xff", b"\xc3"]),
    "one free dimension": (
        {"type": "int32", "shape": [-1, 2]},
        bytes([32, 6, 0, 2]),
        bytes(16),
        [bytes(7), bytes(4)],
    ),
    "two free dimensions": (
        {"type": "int8", "shape": [-1, -1]},
        bytes([32, 2, 0, 2]),
        bytes(6) + struct.pack("<QQ", 2, 3),
        [bytes(15), bytes(6) + struct.pack("<QQ", 2, 2), bytes(4) + struct.pack("<QQ", 1 << 63, 1 << 63)],
    ),
}


@pytest.mark.parametrize(("spec", "entry", "good", "bad"), NO_VALUES.values(), ids=NO_VALUES.keys())
def test_cells_that_are_no_values_are_reported_and_left_out_by_repair(
    tmp_path: Path, spec: Any, entry: bytes, good: bytes, bad: list[bytes]
) -> None:
    cells = [good, *bad, good]
    path = retyped(tmp_path / "o.urec", cells, spec, entry)
    dataset = unirecord.UniRecordDataset(path)
    for row in range(1, len(cells) - 1):
        with pytest.raises(unirecord.CorruptionError):
            dataset[row]
    report = unirecord.verify(path)
    assert [(problem.row, problem.column) for problem in report.problems] == [
        (i + 1, "o") for i in range(len(bad))
    ]
    repaired = unirecord.repair(path)
    assert (repaired.kept, repaired.lost, repaired.ok) == (2, len(bad), False)
    saved = unirecord.UniRecordDataset(tmp_path / "o.repaired.urec")
    assert len(list(saved)) == 2
    assert unirecord.verify(tmp_path / "o.repaired.urec").ok


def test_repair_writes_no_dataset_that_verify_rejects(tmp_path: Path) -> None:
    """A row group is put together from an index whose digests are right and whose strings are not UTF-8."""
    path = write(tmp_path / "a.urec")
    index, content = Path(f"{path}.idx"), bytearray(path.read_bytes())
    stored = bytearray(index.read_bytes())
    stored[stored.rindex(b"abc0abc1")] = 0xFF
    reseal.index(stored, content)
    index.write_bytes(stored)
    scalar_page = next(at for at, kind, _ in reseal.pages(content) if kind == 1)
    content[scalar_page + 64] ^= 1
    path.write_bytes(content)
    report = unirecord.repair(path)
    assert (report.kept, report.lost) == (32, 8)
    assert unirecord.verify(tmp_path / "a.repaired.urec").ok


def test_many_damaged_rows_are_few_problems_and_each_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.urec"
    with unirecord.Writer(path, {"i": "int32", "b": "bytes"}) as writer:
        writer.write_batch({"i": np.arange(1000), "b": [b"<%06d>" % i * 600 for i in range(1000)]})
    content = bytearray(path.read_bytes())
    for i in range(0, 1000, 2):
        content[content.index(b"<%06d>" % i * 600)] ^= 1
    path.write_bytes(content)
    assert len(unirecord.verify(path).problems) < 50
    report = unirecord.repair(path)
    assert (report.kept, report.lost) == (500, 500)
    assert np.array_equal(
        unirecord.UniRecordDataset(tmp_path / "a.repaired.urec").scalars(["i"])["i"], np.arange(1, 1000, 2)
    )
    assert unirecord.verify(tmp_path / "a.repaired.urec").ok


def section(index: bytes, wanted: int) -> tuple[int, int, int]:
    """Offset, bytes and width of the first section of a kind."""
    columns, sections = struct.unpack_from("<II", index, 64)
    for at in range(192 + 32 * columns, 192 + 32 * columns + 48 * sections, 48):
        kind, _, width, offset, size = struct.unpack_from("<HHIQQ", index, at)
        if kind == wanted:
            return offset, size, width
    raise AssertionError(f"there is no section {wanted}")


def test_cells_that_overlap_are_reported_and_repaired(tmp_path: Path) -> None:
    """Every row's cell is the whole page, with right digests: the rows add up to more than the file holds."""
    path, rows = tmp_path / "a.urec", 100
    with unirecord.Writer(path, {"i": "int32", "b": "bytes"}) as writer:
        writer.write_batch({"i": list(range(rows)), "b": [b"x" * 70_000] * rows})
    data, index = path.read_bytes(), bytearray(Path(f"{path}.idx").read_bytes())
    at, _, size = next(page for page in reseal.pages(data) if page[1] == 2)
    start = at + 64 + struct.unpack_from("<Q", data, at + 40)[0]
    for kind, numbers in (
        (2, [start] * rows),
        (3, [size] * rows),
        (4, [reseal.seal(data[24:40], 5, unit, data[start : start + size]) for unit in range(rows)]),
    ):
        offset, length, width = section(index, kind)
        index[offset : offset + length] = b"".join(n.to_bytes(width, "little") for n in numbers)
    reseal.index(index, data)
    Path(f"{path}.idx").write_bytes(index)
    report = unirecord.verify(path)
    assert {problem.path for problem in report.problems} == {f"{path}.idx"}
    assert unirecord.repair(path).ok
    assert unirecord.verify(path).ok
    assert unirecord.UniRecordDataset(path)[99]["b"] == b"x" * 70_000


@pytest.mark.parametrize(
    "shared", [{9: 2}, {50: 2, 20: 2}, {5: 2, 2: 5}], ids=["twice", "thrice", "exchanged"]
)
def test_rows_that_are_no_neighbours_and_share_bytes_are_reported_and_repaired(
    tmp_path: Path, shared: dict[int, int]
) -> None:
    """Their digests are right: a reader has only the order of the starts and the sum of a batch to go by."""
    path = tmp_path / "a.urec"
    with unirecord.Writer(path, {"b": "bytes"}) as writer:
        writer.write_batch({"b": [bytes([row]) * 70_000 for row in range(60)]})
    data, index = path.read_bytes(), bytearray(Path(f"{path}.idx").read_bytes())
    offset, length, width = section(index, 2)
    digests, _, _ = section(index, 4)
    assert (length, width) == (60 * 8, 8)
    starts = list(struct.unpack_from("<60Q", index, offset))
    for row, other in shared.items():
        starts[row] = struct.unpack_from("<Q", index, offset + 8 * other)[0]
        content = data[starts[row] : starts[row] + 70_000]
        struct.pack_into("<Q", index, digests + 8 * row, reseal.seal(data[24:40], 5, row, content))
    struct.pack_into("<60Q", index, offset, *starts)
    reseal.index(index, data)
    Path(f"{path}.idx").write_bytes(index)
    assert {problem.path for problem in unirecord.verify(path).problems} == {f"{path}.idx"}
    assert unirecord.repair(path).ok
    assert unirecord.verify(path).ok
    assert [row["b"][0] for row in unirecord.UniRecordDataset(path)] == list(range(60))


@pytest.mark.parametrize("number", [6, 1 << 31, (1 << 63) + 5, (1 << 64) - 1])
@pytest.mark.parametrize("kind", [8, 7])
def test_numbers_that_lead_out_of_a_section_are_our_errors(tmp_path: Path, kind: int, number: int) -> None:
    path = write(tmp_path / "a.urec")
    data, index = path.read_bytes(), bytearray(Path(f"{path}.idx").read_bytes())
    offset, _, width = section(index, kind)
    at = offset + width * 3
    index[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
    reseal.index(index, data)
    Path(f"{path}.idx").write_bytes(index)
    assert not unirecord.verify(path).ok
    uses: list[Callable[[], object]] = [
        *(
            lambda q=q: len(unirecord.UniRecordDataset(path, where=q))
            for q in (
                "s == 'abc1'",
                "s like '%b_1'",
                "s > 'abc2'",
                "s in ['abc0', 'abc3']",
                "i == 3 and s like '%c%'",
            )
        ),
        lambda: unirecord.describe(path),
        lambda: unirecord.UniRecordDataset(path).scalars(["s"]),
        lambda: list(unirecord.UniRecordDataset(path).batches(8)),
        lambda: list(unirecord.UniRecordDataset(path)),
    ]
    for use in uses:
        with contextlib.suppress(unirecord.UniRecordError, OSError, MemoryError):
            use()
    for options in (["--stats"], ["--group-by", "s"], ["--sort", "s"], []):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            main(["inspect", str(path), *options])
        assert "internal error" not in said.getvalue()
    assert unirecord.repair(path).ok
    assert unirecord.verify(path).ok
