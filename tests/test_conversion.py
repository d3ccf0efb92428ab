"""Conversions by several processes: the same bytes whatever their number, and whatever was killed on the way."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import faults
import pytest
from numbers_source import SCHEMA, Numbers, values

from unirecord import (
    BusyError,
    ExistsError,
    SchemaError,
    StaleError,
    UniRecordDataset,
    UniRecordError,
    verify,
    write_dataset,
)
from unirecord.cli import main
from unirecord.convert import division
from unirecord.convert.conversion import Conversion, Interrupted, Standing
from unirecord.convert.division import divide
from unirecord.convert.row_choice import RowChoice
from unirecord.convert.sources import open_source, text_blocks
from unirecord.convert.sources.base import Source, Unit
from unirecord.format.schema import Schema

ID = bytes(range(16))
UNITS = [130, 70, 1, 300, 0, 220, 90, 260, 40, 180]
ROWS = sum(UNITS)


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "_LEAST_BYTES", 100_000)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def convert(target: Path, source: Source, **options: Any) -> tuple[int, list[Any]]:
    progress = options.pop("progress", None)
    wish = Conversion(source, str(target), Schema.parse(SCHEMA), **{"id": ID, "index": ["n"], **options})
    return wish.run(progress)


def check(target: Path, rows: int = ROWS) -> None:
    ds = UniRecordDataset(target)
    assert [one["n"] for one in ds] == list(range(rows))
    assert all(ds[i] == values(i) for i in range(0, rows, 97))
    assert verify(target).ok


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process makes of it."""
    folder = tmp_path_factory.mktemp("reference")
    before, division._LEAST_BYTES = division._LEAST_BYTES, 100_000
    try:
        convert(folder / "out", Numbers(folder, UNITS))
    finally:
        division._LEAST_BYTES = before
    check(folder / "out")
    found = files(folder / "out")
    assert len(found) > 8  # several parts
    return found


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


@pytest.mark.parametrize("seed", range(12))
def test_killed_at_any_system_call_any_number_of_times_it_goes_on(
    seed: int, reference: dict[str, bytes], tmp_path: Path
) -> None:
    """A process that dies at a random call that changes files, again and again, until one has come through."""
    chance = random.Random(seed)
    target, finished = tmp_path / "out", 0
    for attempt in range(100):
        at, torn = chance.randint(1, 160), chance.random() < 0.5
        alive = not faults.killed(
            lambda: convert(target, Numbers(tmp_path, UNITS), resume=True) and None,  # type: ignore[func-returns-value]
            at,
            torn,
        )
        now = len(list((tmp_path / ".out.tmp").glob(".task-*")))
        assert target.exists() or now >= finished or attempt == 0, "finished parts were lost"
        finished = now
        if alive or target.exists():
            break
    assert target.exists()
    if not alive:  # it died after it had published
        with pytest.raises(ExistsError):
            convert(target, Numbers(tmp_path, UNITS), resume=True)
    found = {name: data for name, data in files(target).items() if not name.startswith(".")}
    assert found == reference


def start(tmp_path: Path, out: str, pause: float) -> subprocess.Popen[str]:
    code = (
        "import sys; from pathlib import Path; from numbers_source import *\n"
        "from unirecord.convert import division; division._LEAST_BYTES = 100_000\n"
        "from unirecord.convert.conversion import Conversion\n"
        f"source = Numbers(Path({str(tmp_path)!r}), {UNITS}, pause={pause})\n"
        f"wish = Conversion(source, {out!r}, Schema.parse(SCHEMA), id=bytes(range(16)), index=['n'],\n"
        "    workers=2, resume=True)\n"
        "wish.run(lambda standing: print(standing.tasks, standing.resumed, flush=True))\n"
    )
    place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def children(process: subprocess.Popen[str]) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


@pytest.mark.parametrize("who", ["all", "parent", "worker"])
def test_killed_at_random_moments_with_workers(who: str, reference: dict[str, bytes], tmp_path: Path) -> None:
    chance = random.Random(who)
    target = tmp_path / "out"
    for _ in range(30):
        process = start(tmp_path, str(target), 0.005)
        assert process.stdout is not None
        process.stdout.readline()  # it is at work
        for _ in range(2):
            time.sleep(chance.random() * 0.1)
            workers = children(process)
            victims = workers[:1] if who == "worker" else [process.pid] + (workers if who == "all" else [])
            for pid in victims:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if who != "worker":
                break
        _, err = process.communicate()
        if process.returncode == 0:
            break
        assert who != "worker", err
        for pid in workers:  # none outlives its parent for long
            deadline = time.monotonic() + 20
            while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not Path(f"/proc/{pid}").exists()
        if chance.random() < 0.3:
            convert_rest = start(tmp_path, str(target), 0)
            assert convert_rest.wait() == 0, convert_rest.stderr
            break
    assert files(target) == reference
    assert os.listdir(tmp_path) == ["out"]


def test_a_worker_that_dies_is_replaced(reference: dict[str, bytes], tmp_path: Path) -> None:
    convert(tmp_path / "out", Numbers(tmp_path, UNITS, deadly=600, deaths=2), workers=2)
    assert (tmp_path / "death1").exists()
    assert files(tmp_path / "out") == reference


def test_a_task_that_kills_every_worker_ends_the_conversion(
    reference: dict[str, bytes], tmp_path: Path
) -> None:
    source = Numbers(tmp_path, UNITS, deadly=600, deaths=3)
    with pytest.raises(UniRecordError, match=r"3 workers have died at task .* by signal 9"):
        convert(tmp_path / "out", source, workers=2)
    assert not (tmp_path / "out").exists()
    seen: list[int] = []
    convert(tmp_path / "out", source, workers=2, resume=True, progress=lambda s: seen.append(s.resumed))
    assert seen[-1] > 0
    assert files(tmp_path / "out") == reference


def test_finished_parts_are_checked_before_they_are_taken_up(
    reference: dict[str, bytes], tmp_path: Path
) -> None:
    source = Numbers(tmp_path, UNITS, deadly=ROWS - 1, deaths=3)
    with pytest.raises(UniRecordError):
        convert(tmp_path / "out", source, workers=2)
    folder = tmp_path / ".out.tmp"
    finished = len(list(folder.glob(".task-*")))
    parts = sorted(folder.glob("part-*.urec"))
    parts[0].write_bytes(parts[0].read_bytes()[:-100])
    (folder / f"{parts[1].name}.idx").unlink()
    (folder / ".task-000002.json").write_text("{")
    seen: list[int] = []
    convert(tmp_path / "out", source, resume=True, progress=lambda s: seen.append(s.resumed))
    assert seen[-1] == finished - 3
    assert files(tmp_path / "out") == reference


def test_another_conversion_is_not_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(UniRecordError):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS, deadly=ROWS - 1, deaths=3), workers=2)
    with pytest.raises(StaleError, match="its content"):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS[:-1]), resume=True)
    with pytest.raises(StaleError, match="index differs"):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), resume=True, index=[])
    with pytest.raises(StaleError, match="id differs"):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), resume=True, id=bytes(16))
    assert (tmp_path / ".out.tmp").exists()  # still there for who knows better
    convert(tmp_path / "out", Numbers(tmp_path, UNITS))
    check(tmp_path / "out")
    assert not (tmp_path / ".out.tmp").exists()


def test_a_live_conversion_is_not_disturbed(tmp_path: Path) -> None:
    process = start(tmp_path, str(tmp_path / "out"), 0.01)
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(BusyError):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), resume=True)
    assert process.wait() == 0
    check(tmp_path / "out")


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(
    workers: int, reference: dict[str, bytes], tmp_path: Path
) -> None:
    def interrupt(standing: Standing) -> None:
        if standing.tasks == 3:
            raise KeyboardInterrupt

    with pytest.raises(
        Interrupted, match=r"nothing was published, and \d+ finished parts are kept.*--resume"
    ):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), workers=workers, progress=interrupt)
    assert os.listdir(tmp_path) == [".out.tmp"]
    seen: list[int] = []
    convert(
        tmp_path / "out", Numbers(tmp_path, UNITS), resume=True, progress=lambda s: seen.append(s.resumed)
    )
    assert seen[-1] >= 3
    assert files(tmp_path / "out") == reference


def test_ctrl_c_before_the_first_part_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(standing: Standing) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), progress=interrupt)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_overwriting_and_appending_go_on_too(workers: int, tmp_path: Path) -> None:
    for name in ("a", "b"):
        convert(tmp_path / name, Numbers(tmp_path, [30]))
    before = files(tmp_path / "a")
    options: dict[str, Any] = {"append": True, "index": None, "id": bytes(16)}
    convert(tmp_path / "a", Numbers(tmp_path, UNITS), workers=workers, **options)

    def interrupt(standing: Standing) -> None:
        if standing.tasks == 4:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        convert(tmp_path / "b", Numbers(tmp_path, UNITS), progress=interrupt, **options)
    assert len(UniRecordDataset(tmp_path / "b")) == 30
    convert(tmp_path / "b", Numbers(tmp_path, UNITS), workers=workers, resume=True, **options)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert [row["n"] for row in UniRecordDataset(tmp_path / "a")] == [*range(30), *range(ROWS)]
    assert all(
        files(tmp_path / "a")[name] == data for name, data in before.items() if name != "manifest.json"
    )
    with pytest.raises(Interrupted):
        convert(tmp_path / "b", Numbers(tmp_path, UNITS), progress=interrupt, overwrite=True)
    assert len(UniRecordDataset(tmp_path / "b")) == 30 + ROWS
    convert(tmp_path / "b", Numbers(tmp_path, UNITS), workers=workers, resume=True, overwrite=True)
    check(tmp_path / "b")
    assert not [name for name in os.listdir(tmp_path / "b") if name.startswith(".")]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_row_that_does_not_fit_ends_it_by_name_or_is_left_out(workers: int, tmp_path: Path) -> None:
    source = Numbers(tmp_path, UNITS, bad=frozenset({200, 777}), left_out=frozenset({5, 1290}))
    with pytest.raises(SchemaError, match=r"unit \d: row \d+, column 'n'"):
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


def test_the_command_makes_the_same_bytes_with_any_number_of_workers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 50_000)
    table = tmp_path / "t.jsonl"
    table.write_text("".join(f'{{"n": {n}, "s": "row {n}"}}\n' for n in range(20_000)))
    folder = tmp_path / "out"
    folder.mkdir()
    call = ["write", str(table), "--id", ID.hex(), "--index", "n"]
    assert main([*call, str(folder / "a"), "--dry-run"]) == 0
    assert "nothing was written; about" in capfd.readouterr().out
    assert os.listdir(folder) == []
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


def test_a_worker_imports_its_own_kind_of_source_alone(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    code = (
        "import pickle, sys\nimport unirecord.convert.worker\n"
        "source = pickle.loads(sys.stdin.buffer.read())\n"
        "kinds = [n for n in sys.modules if n.startswith('unirecord.convert.sources.')]\n"
        "assert 'unirecord.convert.sources.tables' in kinds and 'unirecord.convert.sources.mds' not in kinds, kinds"
    )
    data = pickle.dumps(open_source(str(tmp_path / "x.csv")))
    subprocess.run([sys.executable, "-c", code], input=data, check=True)
