"""verify: good datasets are good, and all that is wrong is found, placed and explained."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from partgen import generate
from small_parts import chunked_part, compressed_part, fixed_part, nullable_part, scalar_part, variable_part
from sweeps import stride

import unirecord
from unirecord.core import LeavablePool
from unirecord.inspect import verify as verify_module
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify

MAKERS = {
    "variable": variable_part,
    "fixed": fixed_part,
    "scalar": scalar_part,
    "nullable": nullable_part,
    "compressed": compressed_part,
    "in chunks": chunked_part,
}


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_random_legal_parts_are_good(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 30):
        made = generate(seed, tmp_path)
        report = verify(made.path)
        assert report.ok, (seed, report.problems)
        assert (report.parts, report.rows) == (1, len(made.raw))
        assert report.bytes == len(made.data) + len(made.index)
        assert verify(made.path, quick=True).ok


@pytest.mark.parametrize("suffix", ["", ".idx"], ids=["data file", "index"])
@pytest.mark.parametrize("kind", MAKERS)
def test_flipped_bits_are_found_wherever_they_are(tmp_path: Path, kind: str, suffix: str) -> None:
    """One bit of every 17th byte, or fifth; unlike reading, verifying finds those without effect too."""
    made = MAKERS[kind](tmp_path / "part.urec")
    path, content = Path(f"{made.path}{suffix}"), bytearray(made.index if suffix else made.data)
    r = random.Random(4)
    step = stride(5, 17)
    for place in range(r.randrange(step), len(content), step):
        content[place] ^= (bit := 1 << r.randrange(8))
        path.write_bytes(content)
        report = verify(made.path, threads=1)
        assert not report.ok, f"byte {place} of {path}"
        content[place] ^= bit


def test_verify_and_repair_take_no_more_steps_a_column_where_there_are_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lengths of all columns are gone through a few times for a row group, not once for each column."""
    counted: list[int] = []
    lengths_of = verify_module.cell_lengths
    monkeypatch.setattr(verify_module, "cell_lengths", lambda *args: counted.append(1) or lengths_of(*args))
    steps = []
    for columns in (2, 40):
        path = tmp_path / f"{columns}.urec"
        schema = {f"c{i}": {"type": "text?", **({"codec": "zstd"} if i % 2 else {})} for i in range(columns)}
        with unirecord.Writer(path, schema) as writer:
            writer.write_batch({name: ["a", None, "é" * 99] for name in schema})
        counted.clear()
        assert verify(path).ok
        content = path.read_bytes()
        path.write_bytes(content[:-64] + bytes(64))
        Path(f"{path}.idx").unlink()
        repair(path, output=tmp_path / f"{columns}-fixed.urec")
        steps.append(len(counted))
    assert len(set(steps)) == 1
    with unirecord.UniRecordDataset(tmp_path / "40-fixed.urec") as ds:
        assert ds[1] == dict.fromkeys(schema)
        assert ds[2] == dict.fromkeys(schema, "é" * 99)


def test_report_names_the_damaged_cell(tmp_path: Path) -> None:
    made = variable_part(tmp_path / "part.urec")
    bytes_column = next(i for i, c in enumerate(made.spec.columns) if c.name == "bytes")
    row = next(r for r in range(5) if made.raw[r][bytes_column])
    content = bytearray(made.data)
    at = made.data.index(made.raw[row][bytes_column] or b"", int.from_bytes(made.data[20:24], "little"))
    content[at] ^= 1
    made.path.write_bytes(content)
    (problem,) = verify(made.path).problems
    assert (problem.row, problem.column, problem.offset) == (row, "bytes", at)
    assert f"row {row}" in problem.lost
    assert "repair" in problem.advice
    assert str(made.path) in str(problem)


def test_missing_and_foreign_indexes_are_reported_and_the_data_is_still_checked(tmp_path: Path) -> None:
    made = variable_part(tmp_path / "part.urec")
    other = variable_part(tmp_path / "other.urec", part_id=b"another part's i")
    index = Path(f"{made.path}.idx")
    index.write_bytes(other.index)
    report = verify(made.path)
    assert [p.what for p in report.problems if "not of" in p.what]
    index.unlink()
    report = verify(made.path)
    assert [p.what for p in report.problems] == ["the index is missing"]
    assert "rebuilt" in report.problems[0].lost
    assert report.rows == 5


def test_unfinished_file_is_reported_with_the_rows_that_are_there(tmp_path: Path) -> None:
    made = fixed_part(tmp_path / "part.urec")
    made.path.write_bytes(made.data[:-64])
    Path(f"{made.path}.idx").unlink()
    for quick in (False, True):
        problems = verify(made.path, quick=quick).problems
        assert any("cut off" in p.what and "repair" in p.advice for p in problems)


def test_good_and_damaged_directories(tmp_path: Path) -> None:
    path = tmp_path / "set"
    with unirecord.Writer(path, {"x": "int64", "b": "bytes"}, max_part_bytes=4000) as writer:
        for i in range(300):
            writer.write({"x": i, "b": bytes(i % 50)})
    report = verify(path)
    assert report.ok, report.problems
    assert report.rows == 300
    assert report.parts > 2
    assert verify(path, quick=True).ok
    parts = sorted(path.glob("part-*.urec"))
    parts[1].unlink()
    content = parts[2].read_bytes()
    parts[2].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    problems = verify(path).problems
    assert {p.part for p in problems} == {1, 2}
    assert "missing" in problems[0].what
    (path / "manifest.json").write_text("{}")
    assert "manifest" in verify(path).problems[0].what


def test_report_is_plain_json(tmp_path: Path) -> None:
    made = scalar_part(tmp_path / "part.urec")
    Path(f"{made.path}.idx").unlink()
    report = json.loads(json.dumps(verify(made.path).to_dict()))
    assert report["ok"] is False
    assert report["problems"][0]["path"].endswith(".idx")


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("damaged", [False, True])
def test_progress_reaches_the_whole_size(tmp_path: Path, quick: bool, damaged: bool) -> None:
    made = fixed_part(tmp_path / "part.urec")
    if damaged:
        (tmp_path / "part.urec").write_bytes(b"x" * len(made.data))
    seen: list[tuple[int, int]] = []
    report = verify(made.path, quick=quick, progress=lambda done, total: seen.append((done, total)))
    assert report.ok != damaged
    assert seen == sorted(seen)
    size = len(made.data) + len(made.index)
    assert seen[-1] == (size, size)


def test_nothing_there_is_an_error_not_a_report(tmp_path: Path) -> None:
    for path in (tmp_path / "none.urec", tmp_path):
        with pytest.raises(unirecord.MissingError):
            verify(path)


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\x89UREC\r\n\x1a", b"x" * 500])
def test_garbage_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.urec").write_bytes(content)
    report = verify(tmp_path / "a.urec")
    assert len(report.problems) == 1
    assert "all rows" in report.problems[0].lost


@pytest.mark.parametrize("cores", [{0}, {0, 1, 2}])
def test_as_many_threads_check_as_the_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: set[int]
) -> None:
    asked: list[int] = []

    class Pool(LeavablePool):
        def __init__(self, workers: int, *rest: Any) -> None:
            asked.append(workers)
            super().__init__(workers, *rest)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: cores)
    monkeypatch.setattr(sys.modules[verify.__module__], "LeavablePool", Pool)
    assert verify(fixed_part(tmp_path / "x.urec").path).ok
    assert asked == [len(cores)]
