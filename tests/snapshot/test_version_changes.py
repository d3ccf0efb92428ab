"""Going back to versions, and removing them: what is read stays, what is killed anywhere leaves whole versions."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import faults
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from writing import files, read, write

import unirecord
from unirecord import BusyError, MissingError, UniRecordDataset
from unirecord.cli import main
from unirecord.snapshot.versions import kept_name

SCHEMA = {"n": "int64"}
MEMORY = Path("/dev/shm")
ROOM = MEMORY if os.access(MEMORY, os.W_OK) else None


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=ROOM) as folder:
        yield Path(folder)


def grow(path: Path, *numbers: int) -> None:
    with unirecord.append(path) as writer:
        for n in numbers:
            writer.write({"n": n})


def seen(path: Any, **options: Any) -> list[int]:
    with UniRecordDataset(path, **options) as dataset:
        return [int(row["n"]) for row in dataset]


def numbers(path: Path) -> list[int]:
    return [version.number for version in unirecord.versions(path)]


def changed(path: Path) -> Path:
    """Versions 1 [0], 2 [0, 1], 3 [0] again, 4 [0, 2]: the part of 1 alone is in version 2."""
    with faults.unsynced():
        write(path, SCHEMA, [{"n": 0}])
        grow(path, 1)
        assert unirecord.restore(path, 1) == 3
        grow(path, 2)
    return path


def test_a_version_is_restored_and_the_one_before_stays(tmp_path: Path) -> None:
    path = changed(tmp_path / "x")
    assert [seen(path, version=n) for n in numbers(path)] == [[0], [0, 1], [0], [0, 2]]
    restored = unirecord.versions(path)[2]
    assert (restored.command, restored.of, restored.rows) == ("restore", 1, 1)
    assert unirecord.restore(path, 2) == 5
    assert seen(path) == [row["n"] for row in read(path)] == [0, 1]
    assert unirecord.verify(path).ok


def test_a_reader_takes_in_what_was_restored(tmp_path: Path) -> None:
    path = changed(tmp_path / "x")
    with UniRecordDataset(path) as dataset:
        unirecord.restore(path, 2)
        assert [int(row["n"]) for row in dataset] == [0, 2]
        assert dataset.refresh()
        assert [int(row["n"]) for row in dataset] == [0, 1]


def test_what_cannot_be_restored_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(tmp_path / "x")
    with pytest.raises(ValueError, match="version 4 is the newest"):
        unirecord.restore(path, 4)
    with pytest.raises(MissingError, match="version 9 is not kept"):
        unirecord.restore(path, 9)
    with pytest.raises(MissingError, match="no such file or directory"):
        unirecord.restore(tmp_path / "y", 1)
    assert main(["restore", f"{path}@4"]) == 2
    assert "is the newest" in capsys.readouterr().err
    assert main(["restore", f"{path}@2"]) == 0
    assert "version 5 has the content of version 2" in capsys.readouterr().out
    assert main(["restore", f"{path}@1"]) == 0
    assert f"{path}: version 6 has the content of version 1" in capsys.readouterr().out
    assert main(["restore", str(path)]) == 2
    assert f"{path}@N" in capsys.readouterr().err
    other = unirecord.Writer(path, {"n": "int64"}, overwrite=True)
    with pytest.raises(BusyError):
        unirecord.restore(path, 1)
    other.abort()
    part = unirecord.snapshot.manifest.read(str(path / kept_name(4))).parts[-1].name
    (path / part).unlink()
    with pytest.raises(MissingError, match=rf"{part}: this file is missing, so that version 4"):
        unirecord.restore(path, 4)
    assert numbers(path) == [1, 2, 3, 4, 5, 6]


def test_gc_removes_what_only_removed_versions_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(tmp_path / "x")
    there = files(path)
    found = unirecord.gc(path, keep=2, dry_run=True)
    assert (found.removed, found.kept, found.parts) == ((1, 2), (3, 4), 1)
    assert files(path) == there
    assert main(["gc", str(path), "--keep", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == [1, 2]
    assert len(files(path)) == len(there) - 4
    assert [seen(path, version=n) for n in numbers(path)] == [[0], [0, 2]]
    assert unirecord.gc(path, keep=1).removed == (3,)
    assert unirecord.gc(path, keep=1).removed == ()
    assert seen(path) == [0, 2]


def test_young_versions_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    write(path, SCHEMA, [{"n": 0}])
    os.utime(path / "manifest.json", (1_000_000_000, 1_000_000_000))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    grow(path, 1)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    grow(path, 2)
    grow(path, 3)
    assert unirecord.gc(path, keep=1, older_than=timedelta(days=7), dry_run=True).removed == (1, 2)
    assert main(["gc", str(path), "--keep", "1", "--older-than", "2w"]) == 0
    assert numbers(path) == [3, 4]


def test_what_somebody_reads_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x"
    write(path, SCHEMA, [{"n": 0}])
    grow(path, 1)
    newest = UniRecordDataset(path)  # of version 2 while it is the newest, and not a part opened yet
    unirecord.restore(path, 1)
    grow(path, 2)
    with UniRecordDataset(f"{path}@1") as first:
        found = unirecord.gc(path, keep=1)
        assert (found.removed, found.in_use, found.parts) == ((3,), (1, 2), 0)
        assert main(["gc", str(path), "--keep", "1"]) == 0
        assert "versions 1, 2 stay: somebody reads them" in capsys.readouterr().out
        assert [int(row["n"]) for row in newest] == [0, 1]
        assert len(first) == 1
    newest.close()
    assert unirecord.gc(path, keep=1).removed == (1, 2)
    assert [name for name in files(path) if name.startswith("manifest")] == ["manifest.json"]


def test_what_another_process_reads_stays_until_it_ends(tmp_path: Path) -> None:
    path = changed(tmp_path / "x")
    ready, go_on = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            dataset = UniRecordDataset(path, version=2)
            os.write(ready[1], b"x")
            os.read(go_on[0], 1)
            os._exit(0 if [int(row["n"]) for row in dataset] == [0, 1] else 3)
        finally:
            os._exit(4)
    assert os.read(ready[0], 1) == b"x"
    assert unirecord.gc(path, keep=1).in_use == (2,)
    os.write(go_on[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert unirecord.gc(path, keep=1).removed == (2,)
    for fd in (*ready, *go_on):
        os.close(fd)


def test_without_locks_nothing_is_taken_for_unread(tmp_path: Path) -> None:
    path = changed(tmp_path / "x")

    def refuse(number: int, name: str) -> None:
        if name == "flock":
            raise OSError(errno.ENOLCK, "no locks")

    with faults.system(refuse):
        found = unirecord.gc(path, keep=1)
    assert (found.removed, found.unknown) == ((), (1, 2, 3))
    assert numbers(path) == [1, 2, 3, 4]


def test_a_damaged_version_stops_gc(tmp_path: Path) -> None:
    path = changed(tmp_path / "x")
    (path / kept_name(2)).unlink()
    (path / kept_name(2)).write_text("{}")
    with pytest.raises(unirecord.FormatError, match="manifest-000002"):
        unirecord.gc(path, keep=1)
    assert len(numbers(path)) == 4


def test_what_gc_does_not_take_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(tmp_path / "x")
    for keep in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="keep is"):
            unirecord.gc(path, keep=keep)  # type: ignore[arg-type]
    for age in (-1, float("nan")):
        with pytest.raises(ValueError, match="older_than is"):
            unirecord.gc(path, older_than=age)
    with pytest.raises(MissingError, match="no such file or directory"):
        unirecord.gc(tmp_path / "y")
    with pytest.raises(SystemExit):
        main(["gc", str(path), "--older-than", "soon"])
    assert "write 7d, 12h" in capsys.readouterr().err


CHANGES: dict[str, Callable[[Path], Any]] = {
    "restore": lambda path: unirecord.restore(path, 2),
    "gc": lambda path: unirecord.gc(path, keep=1),
}
CONTENT = {1: [0], 2: [0, 1], 3: [0], 4: [0, 2], 5: [0, 1]}


def check_whole(path: Path, at: int) -> list[int]:
    """Each version that is there reads as it must, and the next writer leaves nothing that none names."""
    there = numbers(path)
    assert there[-1] in (4, 5), at
    assert all(seen(path, version=n) == CONTENT[n] for n in there), at
    with faults.unsynced():
        grow(path, 7)
    named = {part.name for n in numbers(path) for part in listed(path, n)}
    assert {name for name in files(path) if name.endswith(".urec")} == named, at
    assert all(seen(path, version=n) == CONTENT[n] for n in there), at
    return there


def listed(path: Path, number: int) -> Any:
    return unirecord.snapshot.versions.read_version(str(path), number).parts


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_killed_at_any_call_leaves_whole_versions(tmp_path: Path, change: str) -> None:
    changed(tmp_path / "0")
    at, alive, outcomes = 0, True, set()
    while alive:
        at += 1
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        alive = faults.killed(lambda path=path: CHANGES[change](path), at, torn=False)  # type: ignore[misc]
        outcomes.add(tuple(check_whole(path, at)))
    assert at > 8
    assert len(outcomes) == (2 if change == "restore" else 4)


@pytest.mark.parametrize("change", CHANGES)
def test_a_call_that_fails_is_an_exception_or_is_made_up_for(tmp_path: Path, change: str) -> None:
    changed(tmp_path / "0")
    counted = Path(shutil.copytree(tmp_path / "0", tmp_path / "count"))
    with faults.system(faults.count_only) as watched:
        CHANGES[change](counted)
    for at in range(1, watched.count + 1):
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        with suppress(OSError), faults.system(faults.fail_at(at)):
            CHANGES[change](path)
        check_whole(path, at)


class Growing(RuleBasedStateMachine):
    """A directory beside a list of rows for each version."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=ROOM)
        self.path = Path(self.folder.name) / "x"
        self.rows: dict[int, list[int]] = {1: [0]}
        self.newest, self.next = 1, 1
        self.open: list[tuple[Any, int]] = []
        with faults.unsynced():
            write(self.path, SCHEMA, [{"n": 0}])

    def publish(self, rows: list[int]) -> None:
        self.newest += 1
        self.rows[self.newest] = rows

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        new = list(range(self.next, self.next + count))
        self.next += count
        with faults.unsynced():
            grow(self.path, *new)
        self.publish(self.rows[self.newest] + new)

    @rule(data=st.data())
    def restore(self, data: Any) -> None:
        version = data.draw(st.sampled_from(sorted(self.rows)))
        if version == self.newest:
            with pytest.raises(ValueError, match="newest"):
                unirecord.restore(self.path, version)
            return
        with faults.unsynced():
            assert unirecord.restore(self.path, version) == self.newest + 1
        self.publish(self.rows[version])

    @rule(keep=st.integers(1, 4))
    def gc(self, keep: int) -> None:
        held = {version for _, version in self.open}
        stay = {*sorted(self.rows)[-keep:], *held}
        with faults.unsynced():
            found = unirecord.gc(self.path, keep=keep)
        assert set(found.removed) == set(self.rows) - stay
        self.rows = {version: rows for version, rows in self.rows.items() if version in stay}

    @rule()
    def overwrite(self) -> None:
        for dataset, _ in self.open:
            dataset.close()
        self.open = []
        with faults.unsynced():
            write(self.path, SCHEMA, [{"n": self.next}], overwrite=True)
        self.newest += 1
        self.rows = {self.newest: [self.next]}
        self.next += 1

    @rule(data=st.data())
    def begin(self, data: Any) -> None:
        version = data.draw(st.sampled_from(sorted(self.rows)))
        self.open.append((UniRecordDataset(self.path, version=version), version))

    @precondition(lambda self: self.open)
    @rule()
    def end(self) -> None:
        dataset, version = self.open.pop(0)
        assert [int(row["n"]) for row in dataset] == self.rows[version]
        dataset.close()

    @invariant()
    def versions_are_as_the_lists(self) -> None:
        assert {v.number: v.rows for v in unirecord.versions(self.path)} == {
            version: len(rows) for version, rows in self.rows.items()
        }
        assert seen(self.path) == self.rows[self.newest]

    def teardown(self) -> None:
        for dataset, version in self.open:
            assert [int(row["n"]) for row in dataset] == self.rows[version]
            dataset.close()
        self.folder.cleanup()


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(
    max_examples=int(os.environ.get("UNIRECORD_STEPS", "400")) // 20,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
