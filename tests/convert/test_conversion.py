"""Conversions by several processes: the same bytes whatever their number, and what becomes of rows that do not fit."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from numbers_converted import ID, ROWS, UNITS, check, convert, files, written_alone
from numbers_source import Numbers, values

from unirecord import (
    SchemaError,
    UniRecordDataset,
    UniRecordError,
    write_dataset,
)
from unirecord.cli import main
from unirecord.convert import task
from unirecord.convert.conversion import Standing
from unirecord.convert.row_choice import RowChoice
from unirecord.convert.sources import open_source, text_files
from unirecord.convert.sources.source import Unit
from unirecord.convert.task import divide
from unirecord.writing import part_writer
from unirecord.writing.index_file import build_index


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 100_000)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return written_alone(tmp_path_factory.mktemp("reference"))


@pytest.mark.parametrize("workers", [2, 5])
def test_any_number_of_workers_makes_the_same_bytes(
    workers: int, reference: dict[str, bytes], tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []

    def progress(standing: Standing) -> None:
        seen.append((standing.rows, standing.tasks))

    rows, left_out = convert(tmp_path / "out", Numbers(tmp_path, UNITS), workers=workers, progress=progress)
    assert (rows, left_out) == (ROWS, [])
    assert files(tmp_path / "out") == reference
    assert os.listdir(tmp_path) == ["out"]
    assert seen[-1] == (ROWS, 8)


def test_parts_that_grow_too_large_are_cut_the_same_way(tmp_path: Path) -> None:
    made = []
    for workers in (1, 3):
        convert(tmp_path / str(workers), Numbers(tmp_path, UNITS), workers=workers, max_part_bytes=40_000)
        check(tmp_path / str(workers))
        made.append(files(tmp_path / str(workers)))
    assert made[0] == made[1]
    assert max(len(data) for name, data in made[0].items() if name.endswith(".urec")) <= 40_000


def test_rows_that_are_not_known_before(tmp_path: Path) -> None:
    for workers in (1, 2):
        convert(tmp_path / str(workers), Numbers(tmp_path, UNITS, known=False), workers=workers)
        check(tmp_path / str(workers))
    assert files(tmp_path / "1") == files(tmp_path / "2")


def test_nothing_to_write_makes_an_empty_dataset(tmp_path: Path) -> None:
    for units in ([], [0, 0]):
        convert(tmp_path / "out", Numbers(tmp_path, units), workers=2, overwrite=True)
        assert len(UniRecordDataset(tmp_path / "out")) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_row_that_does_not_fit_ends_it_by_name_or_is_left_out(workers: int, tmp_path: Path) -> None:
    source = Numbers(tmp_path, UNITS, bad=frozenset({200, 777}), left_out=frozenset({5, 1290}))
    with pytest.raises(SchemaError, match=r"unit \d, row \d+, column 'n'"):
        convert(tmp_path / "out", source, workers=workers)
    assert os.listdir(tmp_path) == []
    source = RowChoice(on_error="skip").of(source)
    rows, left_out = convert(tmp_path / "out", source, workers=workers)
    assert rows == ROWS - 4
    assert [one.name for one in left_out] == ["row 5", "unit 2", "unit 5", "row 1290"] or len(left_out) == 4
    found = [row["n"] for row in UniRecordDataset(tmp_path / "out")]
    assert found == [n for n in range(ROWS) if n not in (5, 200, 777, 1290)]


@pytest.mark.parametrize("limit", [0, 1, 199, 200, 777, ROWS, ROWS + 5])
def test_a_limit_takes_the_first_rows(limit: int, tmp_path: Path) -> None:
    rows, _ = convert(tmp_path / "out", Numbers(tmp_path, UNITS), workers=3, limit=limit)
    assert rows == min(limit, ROWS)
    check(tmp_path / "out", rows)


def test_a_source_that_changes_is_noticed_by_a_sample(tmp_path: Path) -> None:
    source = Numbers(tmp_path, UNITS)

    def change(standing: Standing) -> None:
        if standing.tasks == standing.all_tasks:
            source.bad = frozenset(range(ROWS))

    with pytest.raises(UniRecordError):
        convert(tmp_path / "out", source, progress=change)
    assert not (tmp_path / "out").exists()


def test_division_depends_on_the_source_alone() -> None:
    units = [Unit(str(i), i, 1000) for i in range(1000)]
    tasks = divide(units, 1000.0, 20_000_000_000)
    assert [stop for _, stop in tasks[:-1]] == [start for start, _ in tasks[1:]]
    assert (tasks[0][0], tasks[-1][1]) == (0, 1000)
    assert 9_000 <= len(divide([Unit("", i, 10**6) for i in range(10**4)], 1000.0, 10**9)) <= 10_100
    assert len(divide(units, 1e6, 20_000_000_000)) in range(60, 70)
    assert divide([], 1.0, 100) == []
    in_pairs = [(start, start + 2) for start in range(0, 32, 2)]
    assert divide(units[:32], 1000.0, 2_000_000) == in_pairs  # as many as fit, to the byte
    assert len(divide([Unit("", i, None) for i in range(5)], 1.0, 10**9)) == 5


def test_data_of_a_few_hundred_megabytes_has_tasks_for_several_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    units = [Unit(str(i), i, 1000) for i in range(1000)]
    counts = [len(divide(units, row_bytes, 20_000_000_000)) for row_bytes in (10.0, 150.0, 500.0, 3000.0)]
    assert counts[:2] == [1, 10]
    assert 16 <= counts[2] <= 18
    assert 45 <= counts[3] <= 50
    few = [Unit("", i, 256) for i in range(6)]  # 38 MB: of rows that cost time, two workers get the same
    assert divide(few, 25_000.0, 10**9, computed=True) == [(i, i + 1) for i in range(6)]
    assert len(divide(few, 25_000.0, 10**9)) == 3
    assert divide(few, 250.0, 10**9, computed=True) == [(0, 6)]


def test_the_command_makes_the_same_bytes_with_any_number_of_workers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 50_000)
    table = tmp_path / "t.jsonl"
    table.write_text("".join(f'{{"n": {n}, "s": "row {n}"}}\n' for n in range(20_000)))
    folder = tmp_path / "out"
    folder.mkdir()
    call = ["write", str(table), "--id", ID.hex(), "--index", "n"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    built = []
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setattr(part_writer, "build_index", lambda *args: built.append(args) or build_index(*args))
        assert main([*call, str(folder / "a"), "--dry-run"]) == 0
    assert "nothing was written; about" in capfd.readouterr().out
    assert (len(built), os.listdir(folder), os.listdir(temporary)) == (1, [], [])
    assert main([*call, str(folder / "a")]) == 0
    capfd.readouterr()
    assert main([*call, str(folder / "b"), "--workers", "2", "--progress", "json"]) == 0
    last = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert (last["rows"], last["all_rows"], last["tasks"]) == (20_000, 20_000, last["all_tasks"])
    assert last["all_tasks"] > 2
    assert files(folder / "a") == files(folder / "b")
    for wrong in (["c.urec", "--workers", "2"], ["c.urec", "--resume"], ["c", "--workers", "0"]):
        assert main([*call[:2], str(folder / wrong[0]), *wrong[1:]]) == 2
    assert main([*call[:2], str(folder / "c"), "--id", "12"]) == 2
    assert sorted(os.listdir(folder)) == ["a", "b"]


def test_what_a_program_holds_is_written_by_workers_too(tmp_path: Path) -> None:
    rows = [values(n) for n in range(3_000)]
    for workers in (1, 2):
        assert write_dataset(rows, tmp_path / str(workers), workers=workers, id=ID, index=["n"]) == 3_000
        check(tmp_path / str(workers), 3_000)
    assert files(tmp_path / "1") == files(tmp_path / "2")
    with pytest.raises(ValueError, match="read once"):
        write_dataset(iter(rows), tmp_path / "x", workers=2)
    with pytest.raises(ValueError, match="one part"):
        write_dataset(rows, tmp_path / "x.urec", workers=2)
    assert write_dataset(iter(rows), tmp_path / "once") == 3_000
    check(tmp_path / "once", 3_000)
    assert sorted(os.listdir(tmp_path)) == ["1", "2", "once"]


def test_a_worker_imports_its_own_kind_of_source_alone_and_no_event_loop(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    code = (
        "import pickle, sys\nimport unirecord.convert.workers\n"
        "source = pickle.loads(sys.stdin.buffer.read())\n"
        "kinds = [n for n in sys.modules if n.startswith('unirecord.convert.sources.')]\n"
        "assert 'unirecord.convert.sources.csv' in kinds and 'unirecord.convert.sources.mds' not in kinds, kinds\n"
        "assert not {'asyncio', 'ssl'} & set(sys.modules), 'what only object stores need is imported at each start'"
    )
    data = pickle.dumps(open_source(str(tmp_path / "x.csv")))
    subprocess.run([sys.executable, "-c", code], input=data, check=True)
