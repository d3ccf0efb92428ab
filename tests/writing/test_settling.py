"""Parts that are synced while the next is made: in order, one behind at most, and an error of the disk ends it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from numbers_converted import ROWS, UNITS, check, convert, files
from numbers_source import Numbers

from unirecord.convert import task
from unirecord.convert.task import background_sync
from unirecord.storage import system as store


def test_work_is_done_in_order_one_behind_at_most() -> None:
    done: list[int] = []
    free = threading.Event()
    with background_sync() as run:
        run(lambda: free.wait(20) and done.append(0))  # type: ignore[func-returns-value,arg-type,return-value]
        assert done == []
        free.set()
        for number in range(1, 5):
            run(lambda number=number: done.append(number))  # type: ignore[misc]
            assert done[:number] == list(range(number))
    assert done == [0, 1, 2, 3, 4]


def test_an_error_is_raised_by_the_next_call_or_at_the_end() -> None:
    def fail() -> None:
        raise OSError(28, "no space")

    went_on = []

    def use(*works: Callable[[], object]) -> None:
        with background_sync() as run:
            for work in works:
                run(work)  # type: ignore[arg-type]
            went_on.append(len(works))

    with pytest.raises(OSError, match="no space"):
        use(fail)
    assert went_on == [1]
    with pytest.raises(OSError, match="no space"):
        use(fail, lambda: None)
    assert went_on == [1]


def test_another_error_is_not_hidden_by_that_of_the_disk() -> None:
    def interrupted() -> None:
        with background_sync() as run:
            run(lambda: os.stat("/nowhere/at/all"))  # type: ignore[arg-type,return-value]
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()


def test_a_part_that_cannot_be_synced_ends_the_conversion_and_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 100_000)
    convert(tmp_path / "whole", Numbers(tmp_path, UNITS))
    calls: list[str] = []

    class Failing(store.OsCalls):
        def fsync(self, fd: int) -> None:
            calls.append(os.readlink(f"/proc/self/fd/{fd}"))
            if sum(".urec.tmp" in name for name in calls) == 4:
                raise OSError(5, "the disk is broken")

    with monkeypatch.context() as patch:
        patch.setattr(store, "os_calls", Failing())
        with pytest.raises(OSError, match="the disk is broken"):
            convert(tmp_path / "out", Numbers(tmp_path, UNITS))
    assert not (tmp_path / "out").exists()
    assert len(list((tmp_path / ".out.tmp").glob("*.urec"))) == 3
    seen: list[int] = []
    rows, _ = convert(
        tmp_path / "out", Numbers(tmp_path, UNITS), resume=True, progress=lambda s: seen.append(s.resumed)
    )
    assert (rows, seen[0] >= 3) == (ROWS, True)
    check(tmp_path / "out")
    assert files(tmp_path / "out") == files(tmp_path / "whole")
