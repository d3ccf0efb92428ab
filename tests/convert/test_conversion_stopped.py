"""Conversions that are killed, interrupted or changed on the way: gone on with to the same bytes, or refused."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import faults
import pytest
from numbers_converted import ROWS, UNITS, check, convert, files, start, written_alone
from numbers_source import Numbers

from unirecord import (
    BusyError,
    ExistsError,
    StaleError,
    UniRecordDataset,
    UniRecordError,
    write_dataset,
)
from unirecord.cli import main
from unirecord.convert import task
from unirecord.convert.conversion import Standing
from unirecord.writing.change import Interrupted
from unirecord.writing.directory_writer import DirectoryWriter


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 100_000)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return written_alone(tmp_path_factory.mktemp("reference"))


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
    if (
        not alive and (target / ".conversion.json").exists()
    ):  # it died when it had published, and could not say so
        assert convert(target, Numbers(tmp_path, UNITS), resume=True)[0] == ROWS
    with pytest.raises(ExistsError):
        convert(target, Numbers(tmp_path, UNITS), resume=True)
    found = {name: data for name, data in files(target).items() if not name.startswith(".")}
    assert found == reference


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
    deadly = Numbers(tmp_path, UNITS, deadly=ROWS - 1, deaths=3)
    with pytest.raises(UniRecordError):
        convert(tmp_path / "out", deadly, workers=2, options={"--where": "n > 5"})
    with pytest.raises(StaleError, match="its content"):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS[:-1]), resume=True)
    with pytest.raises(StaleError, match="index, --where differ"):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), resume=True, index=[])
    with pytest.raises(StaleError, match="--where, id differ"):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), resume=True, id=bytes(16))
    for options in ({}, {"--where": "n > 9"}, {"--resize": "256"}):
        with pytest.raises(StaleError, match=r"--where.* differs?"):
            convert(tmp_path / "out", Numbers(tmp_path, UNITS), resume=True, options=options)
    assert (tmp_path / ".out.tmp").exists()  # still there for who knows better
    convert(tmp_path / "out", Numbers(tmp_path, UNITS))
    check(tmp_path / "out")
    assert not (tmp_path / ".out.tmp").exists()


@pytest.mark.parametrize("order", [{}, {"shuffle_seed": 3}])
def test_parts_that_are_dropped_are_told_of(
    order: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(task, "_LEAST_BYTES", 1_000)
    Path("in.csv").write_text("id,name\n" + "".join(f"{i},name {i}\n" for i in range(2_000)))
    argv = [
        "write",
        "in.csv",
        "out",
        "--from",
        "csv",
        *(f"--{k.replace('_', '-')}={v}" for k, v in order.items()),
    ]

    def fail(*_: object) -> None:
        raise OSError("stopped")

    def stopped() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(DirectoryWriter, "publish", fail)
            assert main(argv) == 1
        assert [*Path().glob(".*out*")]
        capsys.readouterr()

    stopped()
    assert main(argv) == 0
    assert "unirecord: begins anew, without 1 finished part of a run that was stopped; --resume goes on" in (
        capsys.readouterr().err
    )
    assert main([*argv, "--overwrite"]) == 0
    assert "begins anew" not in capsys.readouterr().err
    shutil.rmtree("out")
    stopped()
    with pytest.warns(UserWarning, match="begins anew, without 1 finished part"):
        write_dataset("in.csv", "out", **order)


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


@pytest.mark.parametrize("code", faults.OF_FILES)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_files_keeps_what_is_finished_and_says_how_to_go_on(
    workers: int, code: int, reference: dict[str, bytes], tmp_path: Path
) -> None:
    def fails(standing: Standing) -> None:
        if standing.tasks == 3:
            raise OSError(code, os.strerror(code))

    with pytest.raises(
        OSError, match=r"; nothing was published, and \d+ finished parts are kept.*--resume"
    ) as said:
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), workers=workers, progress=fails)
    assert said.value.errno == code
    assert ("make room" in str(said.value)) == (code == errno.ENOSPC)
    assert said.value.filename == str(tmp_path / "out")
    convert(tmp_path / "out", Numbers(tmp_path, UNITS), resume=True)
    assert files(tmp_path / "out") == reference


def test_ctrl_c_before_the_first_part_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(standing: Standing) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(tmp_path / "out", Numbers(tmp_path, UNITS), progress=interrupt)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_overwriting_and_appending_go_on_too(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")  # what is appended says when
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
