"""What is done on threads is done with no more than there are cores, and without any where none can be started."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from writing import write_numbered

import unirecord
from unirecord.core import LeavablePool


def test_verify_takes_no_more_threads_than_the_process_has_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_numbered(tmp_path / "a.urec")
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
    path = write_numbered(tmp_path / "a.urec")
    dataset = unirecord.UniRecordDataset(path, transform=lambda sample: sample)
    refused: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        refused.append(thread.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr("unirecord.query.scan.PARALLEL", 1)
    monkeypatch.setattr("unirecord.query.scan.usable_cores", lambda: 4)
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

    dataset = unirecord.UniRecordDataset(write_numbered(tmp_path / "a.urec"), transform=fail)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(unirecord.TransformError, match="boom"):
        list(dataset.batches(7))
