"""Tasks that are attempted more than once, each in its own folder: one is taken over, the rest is swept by age."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from numbers_source import SCHEMA, Numbers

from unirecord import MissingError, SchemaError, UniRecordDataset, UniRecordError, verify
from unirecord.cli import main
from unirecord.convert import task as task_module
from unirecord.convert.conversion import Conversion
from unirecord.convert.task import Job, finish_task
from unirecord.format.schema import Schema
from unirecord.frameworks.ray_data import _PartsJob, attempt
from unirecord.storage.staged import ORPHAN_SECONDS, Attempts

ID = bytes(range(16))
UNITS = [130, 70, 1, 300, 0, 220, 90, 260, 40, 180]


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "_LEAST_BYTES", 100_000)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def convert(target: Path, folder: Path, **options: Any) -> None:
    source = Numbers(folder, UNITS, bad=options.pop("bad", frozenset()))
    Conversion(source, str(target), Schema.parse(SCHEMA), id=ID, index=["n"], **options).run()


def engine(target: Path, seed: int, stop_after: int | None = None) -> Callable[..., None]:
    """An engine that attempts every task several times, in any order, and takes any one of the attempts."""
    chance = random.Random(seed)

    def run(job: Job, tasks: Sequence[int], tell: Any, done: Any) -> None:
        attempts = Attempts(str(target))
        attempts.start()
        order = list(tasks)
        chance.shuffle(order)
        for count, task in enumerate(order):
            if count == stop_after:
                raise OSError("the driver dies here")
            torn = attempts.begin(task)  # of an attempt that was killed
            (Path(torn) / ".part-000000-00000000.urec.tmp").write_bytes(b"half")
            made = [attempt(job, task, attempts) for _ in range(3)]
            folder, record = chance.choice(made)
            names = [name for part in record["parts"] for name in (part["name"], part["name"] + ".idx")]
            attempts.take_over(folder, names, job.folder)
            finish_task(job, task, record)
            done(task, record)
        attempts.finish()

    return run


def test_any_attempt_makes_the_same_bytes_as_one_process(tmp_path: Path) -> None:
    convert(tmp_path / "one", tmp_path)
    for seed in range(3):
        target = tmp_path / f"many{seed}"
        convert(target, tmp_path, engine=engine(target, seed))
        assert files(target) == files(tmp_path / "one")
    assert [one["n"] for one in UniRecordDataset(target)] == list(range(sum(UNITS)))
    assert verify(target).ok
    assert sorted(os.listdir(tmp_path)) == ["many0", "many1", "many2", "one"]


def test_a_driver_that_died_is_resumed_with_what_was_taken_over(tmp_path: Path) -> None:
    convert(tmp_path / "one", tmp_path)
    with pytest.raises(OSError, match="dies here"):
        convert(tmp_path / "many", tmp_path, engine=engine(tmp_path / "many", 1, stop_after=4))
    assert not (tmp_path / "many").exists()
    done: list[int] = []

    def counting(job: Job, tasks: Sequence[int], tell: Any, note: Any) -> None:
        done.extend(tasks)
        engine(tmp_path / "many", 2)(job, tasks, tell, note)

    convert(tmp_path / "many", tmp_path, engine=counting, resume=True)
    assert len(done) == 8 - 4
    assert files(tmp_path / "many") == files(tmp_path / "one")


def test_a_refused_row_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="unit 3"):
        convert(tmp_path / "many", tmp_path, engine=engine(tmp_path / "many", 0), bad=frozenset({400}))
    assert not (tmp_path / "many").exists()


def test_what_is_left_of_other_runs_is_removed_when_nothing_has_changed_for_long(tmp_path: Path) -> None:
    old, young, new = (Attempts(str(tmp_path / "out")) for _ in range(3))
    for run in (old, young):
        run.start()
        (Path(run.begin(7)) / "part").write_bytes(b"x")
    for place, _, names in os.walk(old.run):
        for path in [place, *(os.path.join(place, name) for name in names)]:
            os.utime(path, (time.time() - 7200,) * 2)
    new.start(orphan_seconds=3600)
    assert sorted(os.listdir(new.root)) == sorted(map(os.path.basename, (young.run, new.run)))
    fresh = next(Path(young.run).iterdir()) / "part"
    os.utime(young.run, (time.time() - 7200,) * 2)  # one file below that was written lately keeps it
    Attempts(str(tmp_path / "out")).start(orphan_seconds=3600)
    assert fresh.exists()


def test_attempts_of_a_job_that_failed_stay_for_one_may_still_be_at_work(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    block = pyarrow.table({"n": [1, 2, 3]})

    def job(**options: Any) -> _PartsJob:
        return _PartsJob(
            str(tmp_path / "out"), {}, (), b"\xc0", 1 << 30, options.get("overwrite", False), False
        )

    failed = job()
    failed.begin(block.schema)
    made = [failed.write([block], 0) for _ in range(2)]
    failed.give_up()
    late = failed.write([block], 1)  # a task that nobody waits for any more
    assert all(os.path.isdir(one[1]) and os.listdir(one[1]) for one in (*made, late))
    with pytest.raises(UniRecordError, match="committed or given up"):
        failed.commit([made[0]])
    assert not (tmp_path / "out").exists()
    good = job()
    good.begin(block.schema)
    twice = [good.write([block], 0) for _ in range(2)]
    good.commit([twice[1]])
    good.give_up()
    with UniRecordDataset(tmp_path / "out") as ds:
        assert [int(row["n"]) for row in ds] == [1, 2, 3]
    (run,) = (tmp_path / ".out.attempts").iterdir()
    assert sorted(map(str, run.iterdir())) == sorted(one[1] for one in (*made, late))
    for place in [*run.rglob("*"), run]:
        os.utime(place, (time.time() - 2 * ORPHAN_SECONDS,) * 2)
    job(overwrite=True).give_up()
    assert not run.exists()


def test_an_attempt_of_a_run_that_is_over_writes_nothing(tmp_path: Path) -> None:
    attempts = Attempts(str(tmp_path / "out"))
    attempts.start()
    attempts.finish()
    assert os.listdir(tmp_path) == []
    with pytest.raises(MissingError, match=r"not there on the machine of task 3.*share"):
        attempts.begin(3)
    assert os.listdir(tmp_path) == []


def test_an_engine_needs_a_source_that_can_be_read_again(tmp_path: Path) -> None:
    source = Numbers(tmp_path, UNITS)
    source.read_once = True
    with pytest.raises(ValueError, match="engine= and resume= need what can be read again"):
        Conversion(source, str(tmp_path / "out"), Schema.parse(SCHEMA), engine=engine(tmp_path, 0)).run()


@pytest.mark.parametrize(
    ("target", "more", "says"),
    [
        ("x.urec", [], "a DST of one part"),
        ("x", ["--workers", "2"], "--workers"),
        ("x", ["--limit", "3"], "--limit"),
        ("x", ["--split", "a=0.5,b=0.5"], "--split"),
    ],
)
def test_options_that_an_engine_cannot_obey_are_refused(
    target: str, more: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    assert main(["write", str(tmp_path / "a.csv"), str(tmp_path / target), "--engine", "ray", *more]) == 2
    assert f"leave out {says}" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["a.csv"]


def test_without_ray_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "a.csv").write_text("n\n1\n")
    assert main(["write", str(tmp_path / "a.csv"), str(tmp_path / "x"), "--engine", "ray"]) != 0
    assert "pip install 'unirecord[ray]'" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["a.csv"]
