"""Parts that are laid out anew, stopped anywhere: what is finished is taken over, and the rows are the same."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import faults
import pytest
from changed_datasets import named_by, parts_of, seen, seen_versions
from objectstore import Server
from resumed_store import DieAt
from rewritten import DELETED, REWRITES, Rewrite, expected, make_small_parts, rows_of
from sweeps import stride
from writing import files
from written_store import URL, folder, served

import unirecord
from unirecord import BusyError, TransformError, UniRecordError
from unirecord.cli import main
from unirecord.snapshot import manifest
from unirecord.writing import change as changes
from unirecord.writing import rewrite
from unirecord.writing.change import Interrupted
from unirecord.writing.object_change import ObjectChange


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rewrites") / "x"
    with faults.unsynced():
        make_small_parts(path)
    return path


def stopped(work: Rewrite, path: str | os.PathLike[str], parts: int = 2, **options: Any) -> Interrupted:
    """Ctrl-C when so many parts are finished."""
    finish, done = changes.PartTasks.finish, 0

    def finishes(self: changes.PartTasks, *given: Any) -> None:
        nonlocal done
        if done == parts:
            raise KeyboardInterrupt
        finish(self, *given)
        done += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes.PartTasks, "finish", finishes)
        patch.setattr(rewrite, "usable_cores", lambda: 1)
        with pytest.raises(Interrupted) as caught:
            work(path, **options)
    return caught.value


def left_of_stopped(path: Path) -> list[str]:
    return sorted(name for name in files(path) if name.startswith(".append-"))


@pytest.mark.parametrize("kind", REWRITES)
def test_what_is_finished_is_not_written_again(kind: str, ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        error = stopped(REWRITES[kind], path)
        assert "nothing was published, and 2 finished parts are kept" in str(error)
        [place] = left_of_stopped(path)
        kept = {name: os.stat(path / place / name).st_ino for name in files(path / place) if ".urec" in name}
        assert len(kept) == 4
        done = REWRITES[kind](path, resume=True)
    assert done.resumed == 2
    assert done.written > 2
    assert {name: os.stat(path / name).st_ino for name in kept} == kept
    assert rows_of(path) == expected(kind)
    assert not left_of_stopped(path)
    assert unirecord.verify(path).ok
    whole = Path(shutil.copytree(ready, tmp_path / "whole"))
    with faults.unsynced():
        assert REWRITES[kind](whole).written == done.written
    assert parts_of(path) == parts_of(whole)


@pytest.mark.parametrize("code", faults.OF_FILES)
@pytest.mark.parametrize("kind", [*REWRITES, "purge"])
def test_an_error_of_files_keeps_what_is_finished_and_says_how_to_go_on(
    kind: str, code: int, ready: Path, tmp_path: Path
) -> None:
    """From the third part on nothing can be written any more, not what it would leave either."""
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    work = REWRITES.get(kind, lambda path, **_: unirecord.purge(path))
    finish, done = changes.PartTasks.finish, []

    def finishes(self: changes.PartTasks, *given: Any) -> None:
        finish(self, *given)
        done.append(given)

    def fails(_: int, name: str) -> None:
        if len(done) >= 2 and name not in ("close", "flock", "unlink", "rmdir", "open"):
            raise OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes.PartTasks, "finish", finishes)
        patch.setattr(rewrite, "usable_cores", lambda: 1)
        with (
            faults.system(fails),
            pytest.raises(
                OSError, match=r"; nothing was published, and 2 finished parts are kept.*--resume"
            ) as said,
        ):
            work(path)
    assert said.value.errno == code
    assert str(said.value.filename).startswith(str(path))
    assert ("make room" in str(said.value)) == (code == errno.ENOSPC)
    found = work(path, resume=True)
    assert kind == "purge" or found.resumed == 2
    assert rows_of(path) == expected(kind)
    assert not left_of_stopped(path)


@pytest.mark.parametrize("kind", REWRITES)
def test_without_resume_it_begins_anew_and_leaves_nothing(kind: str, ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        stopped(REWRITES[kind], path)
        done = REWRITES[kind](path)
    assert done.resumed == 0
    assert rows_of(path) == expected(kind)
    assert not left_of_stopped(path)


@pytest.mark.parametrize("kind", REWRITES)
def test_killed_at_any_call_it_goes_on(kind: str, ready: Path, tmp_path: Path) -> None:
    """Some of the system calls (`make sweeps`: each), torn at every other; once more at another; then to the end."""
    at, alive, resumed = 1, True, 0
    while alive:
        path = Path(shutil.copytree(ready, tmp_path / str(at)))
        alive = faults.killed(lambda path=path: REWRITES[kind](path), at, torn=at % 2 == 0)  # type: ignore[misc]
        faults.killed(lambda path=path: REWRITES[kind](path, resume=True), at // 2 + 1, torn=False)  # type: ignore[misc]
        before = seen_versions(path)[-1]
        with faults.unsynced():
            done = REWRITES[kind](path, resume=True)
        resumed += done.resumed
        assert rows_of(path) == expected(kind), at
        assert seen_versions(path)[-1] == before + (done.written > 0), at
        assert not left_of_stopped(path), at
        named = {name for number in seen_versions(path) for name in named_by(path, number)}
        there = {name for name in files(path) if name.startswith("part-") and name.endswith(".urec")}
        assert there == {name for name in named if name.endswith(".urec")}, at
        shutil.rmtree(path)
        at += stride(1, 23)
    assert at > 40
    assert resumed


@pytest.mark.parametrize("kind", REWRITES)
def test_what_was_finished_of_other_rows_is_given_up(kind: str, ready: Path, tmp_path: Path) -> None:
    """Rows are deleted, appended and corrected in between: the parts that these are in are written again."""
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        stopped(REWRITES[kind], path)
        unirecord.set_values(path, rows=[0], values={"m": 77})
        unirecord.delete(path, rows=[1])
        with unirecord.append(path) as writer:
            writer.write({"n": 100, "b": b"d" * 9_000, "m": 1})
        done = REWRITES[kind](path, resume=True)
    wanted = [(n, b, 77 if n == 0 else m) for n, b, m in expected(kind, (*DELETED, 1))]
    more = [(100, b"d", 1)]
    assert rows_of(path) == ([*more, *wanted] if kind == "sort" else [*wanted, *more])
    assert done.resumed == (kind in ("compact", "drop deleted", "join columns"))
    assert not left_of_stopped(path)


def test_one_of_a_single_part_gives_up_what_was_left_too(ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        stopped(REWRITES["reshard"], path)
        unirecord.compact(path, dry_run=True)
        assert left_of_stopped(path)
        unirecord.compact(path)
    assert not left_of_stopped(path)
    assert rows_of(path) == expected("compact")


def test_another_layout_takes_nothing_over(ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        stopped(REWRITES["compact"], path)
        assert unirecord.reshard(path, 3, resume=True).resumed == 0
    assert parts_of(path) == [8, 8, 8]
    assert rows_of(path) == expected("reshard")
    assert not left_of_stopped(path)


def test_where_nothing_is_to_be_done_any_more_what_was_left_goes(ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        unirecord.reshard(path, 4)
        stopped(lambda path, **options: unirecord.reshard(path, 6, **options), path)
        assert unirecord.reshard(path, 4, resume=True).written == 0
    assert not left_of_stopped(path)


def test_a_purge_goes_on_and_takes_nothing_that_has_the_rows(ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        stopped(REWRITES["compact"], path)
        found = unirecord.purge(path, rows=[10])
    assert not left_of_stopped(path)
    assert found.unnamed == ()
    assert rows_of(path) == expected("compact", (*DELETED, 10))
    every = b"".join(file.read_bytes() for file in path.iterdir() if file.is_file())
    assert all(bytes([n]) * 9_000 not in every for n in (*DELETED, 10))


@pytest.mark.parametrize("ending", ["", ".idx"])
def test_a_finished_part_that_was_changed_is_written_again(ending: str, ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        stopped(REWRITES["compact"], path)
        [place] = left_of_stopped(path)
        cut = min((path / place).glob(f"*.urec{ending}"))
        cut.write_bytes(cut.read_bytes()[:-1])
        assert REWRITES["compact"](path, resume=True).resumed == 1
    assert rows_of(path) == expected("compact")
    assert unirecord.verify(path).ok


def test_one_that_is_at_work_is_not_gone_on_with(ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():

        def progress(*_: int) -> None:
            with pytest.raises(BusyError, match="another run of the same is at work"):
                REWRITES["reshard"](path, resume=True)
            raise RuntimeError("seen")

        with pytest.raises(RuntimeError, match="seen"):
            REWRITES["compact"](path, progress=progress)
        REWRITES["compact"](path)
    assert rows_of(path) == expected("compact")


def test_the_commands_go_on(ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with faults.unsynced():
        stopped(REWRITES["reshard"], path)
        assert main(["reshard", str(path), "5", "--resume"]) == 0
        assert "an earlier run had finished 2 of them" in capsys.readouterr().out
        stopped(REWRITES["sort"], path)
        line = ["sort", str(path), "--by", "n", "--descending", "--part-bytes", "40000", "--resume"]
        assert main(line) == 0
        assert "an earlier run had finished 2 of them" in capsys.readouterr().out
        with pytest.raises(SystemExit):
            main(["compact", str(path), "--resume", "--dry-run"])
    assert rows_of(path) == expected("sort")


# In an object store.


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    yield from served(tmp_path, monkeypatch)


def test_in_a_store_gc_removes_what_nobody_goes_on_with(server: Server, ready: Path) -> None:
    shutil.copytree(ready, folder(server))
    there = files(folder(server))
    stopped(REWRITES["reshard"], URL)
    left = set(files(folder(server))) - set(there)
    assert len([name for name in left if name.endswith(".urec")]) == 2
    unirecord.gc(URL, keep=100, older_than=3600)
    assert set(files(folder(server))) == set(there) | left
    assert unirecord.gc(URL, keep=100, older_than=0, dry_run=True).parts == 2
    assert unirecord.gc(URL, keep=100, older_than=0).parts == 2
    assert sorted(files(folder(server))) == sorted(there)
    assert REWRITES["reshard"](URL, resume=True).resumed == 0
    assert rows_of(folder(server)) == expected("reshard")


def test_in_a_store_it_is_said_what_was_stopped_and_when_it_goes(
    server: Server, ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ready, folder(server))
    stopped(REWRITES["reshard"], URL)
    goes_on = "the same with --resume (resume=True in Python) goes on with it"
    ends = "it goes with `unirecord gc`, once it is old"
    assert capsys.readouterr().err == (f"unirecord: {URL}: what is finished stays there; {goes_on}; {ends}\n")
    unirecord.delete(URL, rows=[0])
    what = "which are of a rewrite (compact, reshard or sort) that is at work, or was stopped"
    assert f"{what}: {goes_on}; {ends}\n" in capsys.readouterr().err
    shutil.rmtree(folder(server))
    shutil.copytree(ready, folder(server))

    def fails(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["n"][0] >= 6:
            raise ValueError("no")
        return {"k": batch["n"]}

    with pytest.raises(TransformError, match="2 finished column parts are kept"):
        unirecord.add_columns(URL, {"k": "int64"}, fails, reads=["n"])
    ends = "it goes when a whole dataset is published there"
    assert f"what is finished stays there; {goes_on}; {ends}\n" in capsys.readouterr().err
    unirecord.delete(URL, rows=[0])
    said = f"which are of a call that adds columns that is at work, or was stopped: {goes_on}; {ends}\n"
    assert said in capsys.readouterr().err
    source = tmp_path / "in.csv"
    source.write_text("n,m\n" + "".join(f"{n},{n}\n" for n in range(20)))

    def interrupts(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectChange, "publish", interrupts)
        with pytest.raises(Interrupted):
            unirecord.write_dataset(str(source), f"{URL}2")
    capsys.readouterr()
    unirecord.write_dataset(str(source), f"{URL}2")
    said = f"which are of a conversion that is at work, or was stopped: {goes_on}; {ends}\n"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("kind", REWRITES)
def test_in_a_store_it_dies_at_any_request_and_goes_on(
    kind: str, server: Server, ready: Path, tmp_path: Path
) -> None:
    """Some of the requests (`make sweeps`: each third), done and not."""
    number, alive, resumed = 3, True, 0
    while alive:
        for lost in (False, True):
            shutil.rmtree(folder(server), ignore_errors=True)
            shutil.copytree(ready, folder(server))
            server.fault = fault = DieAt(number, lost=lost)
            with suppress(OSError, UniRecordError):
                REWRITES[kind](URL)
            alive, server.fault = fault.dead, lambda request: None
            before = seen_versions(folder(server))[-1]
            done = REWRITES[kind](URL, resume=True)
            resumed += done.resumed
            assert rows_of(folder(server)) == expected(kind), number
            assert seen_versions(folder(server))[-1] == before + (done.written > 0), number
            listing = manifest.read(str(folder(server) / "manifest.json"))
            assert all((folder(server) / part.name).exists() for part in listing.parts), number
            assert not [
                name for name in files(folder(server)) if name.startswith((".task", ".conversion"))
            ], number
        number += stride(3, 31)
    assert number > 20
    assert resumed
    assert seen(folder(server), version=1) == [0, 1, 2]
