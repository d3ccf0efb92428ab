"""Sketches of columns: what they hold, what is said by them of several parts, and that damage to them is found."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reseal
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import read_part

import unirecord
from unirecord.cli import main
from unirecord.format import layout
from unirecord.format.sketches import MOST, Sketch, estimated, hashes_of_numbers

ROWS = layout.SKETCHED_ROWS + 1000


def write(path: Path, schema: dict[str, Any], columns: dict[str, Any]) -> None:
    with unirecord.Writer(str(path), schema) as writer:
        writer.write_batch(columns)


def parts_of(folder: Path, schema: dict[str, Any], columns: list[dict[str, Any]]) -> list[str]:
    paths = []
    for number, one in enumerate(columns):
        paths.append(str(folder / f"{number}.urec"))
        write(Path(paths[-1]), schema, one)
    return paths


def described(paths: list[str]) -> dict[str, tuple[int | None, bool]]:
    return {c.name: (c.distinct, c.distinct_exact) for c in unirecord.describe(paths).columns}


def sketch_in(path: Path, column: int) -> list[int] | None:
    index = Path(f"{path}.idx").read_bytes()
    try:
        at = reseal.entry_of(index, 0x8000, column)
    except AssertionError:
        return None
    offset, size = struct.unpack_from("<QQ", index, at + 8)
    return list(struct.unpack_from(f"<{size // 8}Q", index, offset))


def test_a_sketch_has_the_least_hashes_of_the_values(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    floats = np.where(r.random(ROWS) < 0.1, np.nan, r.integers(-700, 700, ROWS) * 0.5)
    floats[:2] = 0.0, -0.0
    floats.view(np.uint64)[5] = 0xFFF8_0000_0000_0001  # another NaN
    names = [None if i % 7 == 0 else f"é{i % 900}" for i in range(ROWS)]
    path = tmp_path / "x.urec"
    schema = {"f": "float64", "i": "int32", "s": "string?", "b": "bool", "t": "text", "many": "string"}
    write(path, schema, {
        "f": floats, "i": np.arange(ROWS, dtype=np.int32), "s": names, "b": np.arange(ROWS) % 2 == 0, "t": ["x"] * ROWS,
        "many": [str(i) for i in range(ROWS)],
    })  # fmt: skip
    there = {struct.pack("<d", value + 0.0) for value in floats if value == value} | {
        struct.pack("<d", np.nan)
    }
    wanted = [
        there, {struct.pack("<i", i) for i in range(ROWS)}, {name.encode() for name in names if name is not None},
        None, None, {str(i).encode() for i in range(ROWS)},
    ]  # fmt: skip
    for column, values in enumerate(wanted):
        hashes = values and sorted(map(xxhash.xxh3_64_intdigest, values))[:MOST]
        assert sketch_in(path, column) == hashes
    read_part(path)  # by another reader, which compares them
    assert unirecord.verify(path).ok


def test_values_beyond_those_that_can_be_held_are_in_the_sketch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"name-{i}" for i in range(ROWS)]
    write(tmp_path / "a.urec", {"i": "int64", "s": "string"}, {"i": np.arange(ROWS), "s": names})
    monkeypatch.setattr("unirecord.writing.index_file.MAX_DISTINCT", 5000)
    monkeypatch.setattr("unirecord.snapshot.data_file._BLOCK_ROWS", 1024)
    monkeypatch.setattr("unirecord.writing.row_groups.TARGET_BYTES", 4096)
    write(tmp_path / "b.urec", {"i": "int64", "s": "string"}, {"i": np.arange(ROWS), "s": names})
    for column in range(2):
        assert sketch_in(tmp_path / "b.urec", column) == sketch_in(tmp_path / "a.urec", column)
    found = described([str(tmp_path / "b.urec")])
    assert all(distinct is not None and abs(distinct / ROWS - 1) < 0.12 for distinct, _ in found.values())
    assert not any(exact for _, exact in found.values())


def test_parts_of_few_rows_have_none_and_are_counted_all_the_same(tmp_path: Path) -> None:
    values = [
        {"i": np.arange(k, k + 300), "s": [f"s{(i + k) % 500}" for i in range(300)]} for k in (0, 100, 900)
    ]
    paths = parts_of(tmp_path, {"i": "int64", "s": "string"}, values)
    assert sketch_in(Path(paths[0]), 0) is None
    assert described(paths) == {"i": (700, True), "s": (500, True)}


def test_distinct_values_of_several_parts_are_exact_where_that_is_known_and_else_about(
    tmp_path: Path,
) -> None:
    r = np.random.default_rng(1)
    columns = [
        {
            "few": r.integers(0, 900, ROWS), "unique": r.random(ROWS), "id": np.arange(k * ROWS, (k + 1) * ROWS),
            "full": np.arange(ROWS) % 5000, "same": np.arange(ROWS) * 3, "b": np.full(ROWS, k == 1),
            "name": [f"n{i}" for i in r.integers(0, 20_000, ROWS)],
            "nan": np.where(np.arange(ROWS) % 2 == 0, np.nan, k + r.random(ROWS)),
        }
        for k in range(3)
    ]  # fmt: skip
    schema = {
        "few": "int64", "unique": "float64", "id": "int64", "full": "int64", "same": "int64", "name": "string",
        "b": "bool", "nan": "float64",
    }  # fmt: skip
    paths = parts_of(tmp_path, schema, columns)
    found = described(paths)
    exact = {name: len(set(np.concatenate([c[name] for c in columns]).tolist())) for name in schema}
    assert found["few"] == (900, True)
    assert found["id"] == (3 * ROWS, True)  # no part has a value of another
    assert found["full"] == (5000, True)  # each has all that there can be
    assert found["b"] == (2, True)
    for name in ("unique", "same", "name"):
        distinct, is_exact = found[name]
        assert not is_exact
        assert distinct is not None
        assert abs(distinct / exact[name] - 1) < 0.12
    assert found["same"][0] >= ROWS  # type: ignore[operator]  # as many as one part has, at least
    assert not found["nan"][1]  # one NaN for all of them
    assert main(["inspect", *paths]) == 0


@given(st.lists(st.lists(st.integers(0, 3000), max_size=60), min_size=1, max_size=80))
@settings(max_examples=100, deadline=None)
def test_as_long_as_no_sketch_is_full_the_number_is_exact(parts: list[list[int]]) -> None:
    sketches = []
    for values in parts:
        sketch = Sketch()
        for start in range(0, len(values), 7):
            sketch.add(hashes_of_numbers(np.array(values[start : start + 7], np.int64)))
        sketches.append(sketch.hashes)
    assert estimated(sketches) == (len(set().union(*parts)), True)


@pytest.mark.parametrize("count", [1023, 1024, 1025, 5000, 300_000])
def test_estimates_are_near(count: int) -> None:
    values = np.arange(count) * 7
    sketches = []
    for part in range(4):
        sketch = Sketch()
        sketch.add(hashes_of_numbers(values[part * count // 5 : (part + 2) * count // 5]))
        sketches.append(sketch.hashes)
    found, exact = estimated(sketches)
    assert found == count if exact else abs(found / count - 1) < 0.12


def test_a_sketch_that_is_not_that_of_the_data_is_found_and_repaired(tmp_path: Path) -> None:
    path = tmp_path / "x.urec"
    write(path, {"i": "int64"}, {"i": np.arange(ROWS)})
    index = bytearray(Path(f"{path}.idx").read_bytes())
    at = reseal.entry_of(index, 0x8000, 0)
    offset = struct.unpack_from("<Q", index, at + 8)[0]
    for change in (b"\xff" * 8, struct.pack("<Q", struct.unpack_from("<Q", index, offset)[0] - 1)):
        forged = bytearray(index)
        forged[offset : offset + 8] = change
        reseal.index(forged, path.read_bytes())
        Path(f"{path}.idx").write_bytes(forged)
        assert unirecord.UniRecordDataset(path)[7]["i"] == 7
        assert not unirecord.verify(path).ok
        if change == b"\xff" * 8:
            other = tmp_path / "other.urec"
            write(other, {"i": "int64"}, {"i": np.arange(ROWS)})
            with pytest.raises(unirecord.CorruptionError, match=r"'i': the hashes .*repair"):
                unirecord.describe([path, other])
        assert unirecord.repair(path).ok
        assert unirecord.verify(path).ok
        assert Path(f"{path}.idx").read_bytes() == bytes(index)


def test_a_sketch_of_another_width_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.urec"
    write(path, {"i": "int64"}, {"i": np.arange(ROWS)})
    index = bytearray(Path(f"{path}.idx").read_bytes())
    at = reseal.entry_of(index, 0x8000, 0)
    width, count = struct.unpack_from("<I", index, at + 4)[0], struct.unpack_from("<Q", index, at + 24)[0]
    assert (width, count) == (8, MOST)
    struct.pack_into("<I", index, at + 4, 4)
    struct.pack_into("<Q", index, at + 24, 2 * MOST)
    reseal.index(index, path.read_bytes())
    Path(f"{path}.idx").write_bytes(index)
    other = tmp_path / "other.urec"
    write(other, {"i": "int64"}, {"i": np.arange(ROWS)})
    assert described([str(path), str(other)]) == {"i": (None, True)}


@pytest.mark.parametrize("deleted", [False, True])
def test_different_values_are_counted_exactly_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], deleted: bool
) -> None:
    r, path = np.random.default_rng(1), str(tmp_path / "set")
    kinds = {
        "f": "float64",
        "i": "int32?",
        "s": "string?",
        "h": "float16",
        "b": "bool",
        "few": "int16",
        "t": "text",
    }
    there: dict[str, list[Any]] = {name: [] for name in kinds}
    for number in range(2):
        floats = np.where(r.random(ROWS) < 0.01, np.nan, r.integers(-90_000, 90_000, ROWS) * 0.5)
        floats[:2] = 0.0, -0.0
        columns = {
            "f": floats,
            "i": [None if i % 9 == 0 else int(n) for i, n in enumerate(r.integers(0, 1 << 30, ROWS))],
            "s": [None if i % 7 == 0 else f"é{n}" for i, n in enumerate(r.integers(0, 1 << 20, ROWS))],
            "h": r.integers(0, 1500, ROWS).astype(np.float16),
            "b": r.random(ROWS) < 0.5,
            "few": r.integers(0, 7, ROWS),
            "t": ["text"] * ROWS,
        }
        with unirecord.Writer(path, kinds) if number == 0 else unirecord.append(path) as writer:
            writer.write_batch(columns)
        for name, values in columns.items():
            there[name] += [
                v for v, few in zip(list(values), columns["few"], strict=True) if not deleted or few != 3
            ]
    if deleted:
        unirecord.delete(path, where="few == 3")
    told: list[tuple[int, int]] = []
    found = unirecord.describe(
        path, exact=True, progress=lambda done, total: told.append((done, total))
    ).columns
    for column in found[:-1]:
        values = [v for v in there[column.name] if v is not None]
        numbers = {v for v in values if v == v}
        nan = 0 if deleted or len(numbers) == len(set(values)) else 1
        assert (column.distinct, column.distinct_exact) == (len(numbers) + nan, True), column.name
    if not deleted:
        assert any(not c.distinct_exact for c in unirecord.describe(path).columns)
        assert told == sorted(told)
        assert told[-1][0] == told[-1][1] > 0
    assert main(["inspect", path, "--exact"]) == 0
    shown = capsys.readouterr().out
    assert f"{found[2].distinct:,}" in shown
    assert not any(f"~{c.distinct:,}" in shown for c in found[:-1] if (c.distinct or 0) > 1000)


def test_statistics_of_all_values_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.urec")
    write(
        Path(path),
        {"n": "int32", "t": "text"},
        {"n": np.arange(9000) * 7919 % 8000, "t": ["é" * (i % 50) for i in range(9000)]},
    )
    assert main(["inspect", path, "--stats"]) == 0
    wanted = capsys.readouterr().out
    monkeypatch.setattr("unirecord.inspect.statistics._KEPT", 1000)
    assert main(["inspect", path, "--stats"]) == 0
    about = capsys.readouterr().out
    assert "~" in about
    assert "--exact for all" in about
    assert main(["inspect", path, "--stats", "--exact"]) == 0
    assert capsys.readouterr().out == wanted
    for others in (
        ["--count"],
        ["--where", "n == 3"],
        ["--html", str(tmp_path / "x.html")],
        ["--group-by", "n"],
    ):
        assert main(["inspect", path, "--exact", *others]) == 2
        assert "--" in capsys.readouterr().err
