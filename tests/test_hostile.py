"""One rule: whatever the bytes and the limits, only UniRecordError, OSError and MemoryError are raised, and soon."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import unirecord
from unirecord.cli.main import main


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

    def pool(workers: int) -> ThreadPoolExecutor:
        asked.append(workers)
        return ThreadPoolExecutor(workers)

    monkeypatch.setitem(unirecord.verify.__globals__, "ThreadPoolExecutor", pool)
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
