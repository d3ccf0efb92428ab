"""Any number of processes append to a directory at once: all rows are there once, whoever is killed, fails or waits."""

from __future__ import annotations

import os
import shutil
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import faults
import pytest
from writing import files, write

import unirecord
from unirecord import BusyError, ExistsError, MissingError, StaleError, UniRecordDataset
from unirecord.storage import system as store
from unirecord.writing import directory_change
from unirecord.writing.directory_change import hold

STRIDE = 1 if "UNIRECORD_STEPS" in os.environ else 9  # of system calls
SCHEMA = {"n": "int64", "b": "bytes"}


def row(n: int) -> dict[str, object]:
    return {"n": n, "b": bytes([n % 251]) * 100}


def make(path: Path, rows: int = 2) -> Path:
    with faults.unsynced():
        write(path, SCHEMA, [row(n) for n in range(rows)])
    return path


def add(path: Path, *numbers: int) -> None:
    with unirecord.append(path, max_part_bytes=8_000) as writer:
        for n in numbers:
            writer.write(row(n))


def seen(path: Path) -> list[int]:
    with UniRecordDataset(path) as ds:
        return [int(one["n"]) for one in ds]


def child(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with faults.unsynced():
                work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def unnamed(path: Path) -> list[str]:
    """Files of the directory that no version and no manifest is."""
    versions = [
        unirecord.snapshot.versions.read_version(str(path), one.number) for one in unirecord.versions(path)
    ]
    named = {name for listing in versions for name in unirecord.snapshot.versions.files_of(listing)}
    names = [name.removesuffix(".idx") for name in os.listdir(path)]
    return sorted(name for name in names if not name.startswith("manifest") and name not in named)


def test_many_processes_append_at_once_and_no_row_is_lost(tmp_path: Path) -> None:
    path = make(tmp_path / "d", 0)

    def produce(me: int) -> None:
        for turn in range(4):
            first = me * 1000 + turn * 10
            add(path, *range(first, first + 10))

    children = [child(lambda me=me: produce(me)) for me in range(3)]  # type: ignore[misc]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 3
    found = seen(path)
    assert sorted(found) == sorted(me * 1000 + i for me in range(3) for i in range(40))
    for me in range(3):  # those of one producer are in its order, and an append's stay together
        assert [n for n in found if n // 1000 == me] == [me * 1000 + i for i in range(40)]
    assert all(found[i : i + 10] == list(range(found[i], found[i] + 10)) for i in range(0, 120, 10))
    assert [version.number for version in unirecord.versions(path)] == list(range(1, 14))
    assert unnamed(path) == []
    assert unirecord.verify(path).ok


def test_an_append_beside_others_is_killed_at_any_call(tmp_path: Path) -> None:
    """The other one publishes after that; the next one cleans up. Each call of one alone: test_writer_crash.py."""
    make(tmp_path / "0")
    at, alive, outcomes = 0, True, set()
    while alive:
        at += STRIDE
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        with faults.unsynced():
            other = unirecord.append(path)
            other.write(row(50))
            alive = faults.killed(lambda path=path: add(path, 10, 11), at, torn=at % 2 == 0)  # type: ignore[misc]
            other.close()
            found = seen(path)
            assert found in ([0, 1, 50], [0, 1, 10, 11, 50]), at
            outcomes.add(len(found))
            add(path, 60)
        assert seen(path) == [*found, 60], at
        assert unnamed(path) == [], at
        shutil.rmtree(path)
    assert at > 30
    assert outcomes == {3, 5}


def test_an_append_that_fails_at_any_call_leaves_nothing_behind(tmp_path: Path) -> None:
    path, before = make(tmp_path / "0"), [0, 1]
    counted = Path(shutil.copytree(path, tmp_path / "count"))
    with faults.system(faults.count_only) as watched:
        add(counted, 10)
    for at in range(1, watched.count + 1, STRIDE):
        with suppress(OSError), faults.system(faults.fail_at(at)):
            add(path, 10)
        found = seen(path)
        assert found in (before, [*before, 10]), at
        before = found
    with faults.unsynced():
        add(path, 11)
    assert unnamed(path) == []


def test_who_appends_waits_for_who_holds_the_directory(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    waits = threading.Event()
    with faults.unsynced():
        claim = hold(str(path))
        pause = directory_change.time.sleep

        def seen_waiting(seconds: float) -> None:
            waits.set()
            pause(seconds)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(directory_change.time, "sleep", seen_waiting)
            other = threading.Thread(target=add, args=(path, 5))
            other.start()
            assert waits.wait(60)
            assert seen(path) == [0, 1]
            claim.suspend()
            other.join(60)
    assert seen(path) == [0, 1, 5]


def test_who_would_wait_for_itself_is_told(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    claim = hold(str(path))
    claim.keep()
    writer = unirecord.append(path)
    writer.write(row(5))
    with pytest.raises(BusyError, match="this process is writing it"):
        writer.close()
    claim.suspend()
    assert seen(path) == [0, 1]
    assert len(files(path)) == 3


def test_without_locks_the_wait_for_who_may_be_dead_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "d")

    class Lockless(store.OsCalls):
        def flock(self, fd: int, how: int) -> None:
            raise OSError(95, "no locks")

    monkeypatch.setattr(store, "os_calls", Lockless())
    monkeypatch.setattr(directory_change, "_LOCKLESS_SECONDS", 0.05)
    add(path, 2)
    (path / ".manifest.json.tmp").touch()
    with pytest.raises(BusyError, match=r"no locks.*remove that file"):
        add(path, 3)
    (path / ".manifest.json.tmp").unlink()
    add(path, 3)
    assert seen(path) == [0, 1, 2, 3]


def test_appending_to_what_has_become_another_dataset_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    writer = unirecord.append(path)
    writer.write(row(5))
    write(path, SCHEMA, [row(7)], overwrite=True)
    with pytest.raises(StaleError, match="another dataset"):
        writer.close()
    assert seen(path) == [7]
    assert unnamed(path) == []
    gone = unirecord.append(path)
    gone.write(row(8))
    shutil.rmtree(path)
    with pytest.raises((MissingError, OSError)):
        gone.close()


def test_two_appends_with_the_same_id_do_not_replace_each_other(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    first, second = (unirecord.append(path, id=b"i" * 16) for _ in range(2))
    first.write(row(5))
    second.write(row(6))
    first.close()
    with pytest.raises(ExistsError, match="same id="):
        second.close()
    assert seen(path) == [0, 1, 5]
    with unirecord.append(path, id=b"i" * 16) as third:
        third.write(row(6))
    assert seen(path) == [0, 1, 5, 6]


def test_deleting_collecting_and_restoring_go_on_beside_an_append(tmp_path: Path) -> None:
    path = make(tmp_path / "d", 10)
    with unirecord.append(path) as writer:
        writer.write(row(10))
        unirecord.delete(path, rows=[0, 4])
        unirecord.restore(path, 1)
        unirecord.delete(path, rows=[3])
        unirecord.gc(path, keep=1)
        writer.write(row(11))
    assert seen(path) == [n for n in range(12) if n != 3]
