"""Files are staged, locked, published and discarded; errors name the file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import faults
import pytest
from writing import files

from unirecord.errors import BusyError
from unirecord.storage import local, system
from unirecord.storage.claim import check_unclaimed
from unirecord.storage.staged import StagedFile


def test_a_staged_file_is_visible_once_it_is_published(tmp_path: Path) -> None:
    staged = StagedFile(str(tmp_path / "x"))
    staged.append([b"ab", b"", memoryview(b"cd")])
    staged.write_at(6, b"gh")
    staged.sync()
    assert files(tmp_path) == [".x.tmp"]
    staged.publish()
    assert (staged.published, staged.size) == (True, 8)
    staged.discard()
    assert files(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"abcd\0\0gh"


def test_a_discarded_file_leaves_nothing(tmp_path: Path) -> None:
    staged = StagedFile(str(tmp_path / "x"), claims="x")
    staged.append([b"ab"])
    staged.discard()
    staged.discard()
    assert files(tmp_path) == []


def test_the_rest_of_a_dead_writer_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".x.tmp").write_bytes(b"rest of another")
    staged = StagedFile(str(tmp_path / "x"), claims="x")
    staged.append([b"new"])
    staged.publish()
    staged.discard()
    assert (tmp_path / "x").read_bytes() == b"new"


def test_a_live_writer_keeps_its_file(tmp_path: Path) -> None:
    first = StagedFile(str(tmp_path / "x"), claims="x")
    first.append([b"first"])
    first.keep()
    with pytest.raises(
        BusyError,
        match=r"x: this process is writing it: another writer was made at .*test_store.py:[0-9]+; close",
    ):
        StagedFile(str(tmp_path / "x"), claims="x")
    first.publish()
    second = StagedFile(str(tmp_path / "x"), claims="x")
    with pytest.raises(BusyError, match="y: this process"):
        check_unclaimed(str(tmp_path / "x"), "y")
    first.discard()
    check_unclaimed(str(tmp_path / "x"), "y")
    check_unclaimed(str(tmp_path / "none"), "y")
    second.discard()
    assert (tmp_path / "x").read_bytes() == b"first"


def no_locks(number: int, name: str) -> None:
    if name == "flock":
        raise OSError(errno.EOPNOTSUPP, "not supported")


def test_without_locks_a_file_of_a_writer_that_may_live_is_never_removed(tmp_path: Path) -> None:
    with faults.system(no_locks):
        first = StagedFile(str(tmp_path / "x"), claims="d")
        first.append([b"first"])
        with pytest.raises(
            BusyError, match=r"d: another writer may be writing it.*no locks.*remove that file"
        ):
            StagedFile(str(tmp_path / "x"), claims="d")
        first.publish()
        StagedFile(str(tmp_path / "x"), claims="d").discard()
        first.discard()
    assert (tmp_path / "x").read_bytes() == b"first"
    assert files(tmp_path) == ["x"]


def test_more_buffers_than_one_call_takes_are_all_written(tmp_path: Path) -> None:
    staged = StagedFile(str(tmp_path / "x"))
    staged.append([bytes([i % 251]) * (i % 3) for i in range(5_000)])
    staged.publish()
    staged.discard()
    assert (tmp_path / "x").read_bytes() == b"".join(bytes([i % 251]) * (i % 3) for i in range(5_000))


def test_the_disk_is_set_to_work_while_a_file_is_appended_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    class Watched(system.OsCalls):
        def start_writeback(self, fd: int, offset: int, size: int) -> None:
            super().start_writeback(fd, offset, size)
            asked.append((offset, size))

    monkeypatch.setattr(system, "os_calls", Watched())
    staged = StagedFile(str(tmp_path / "x"))
    for _ in range(5):
        staged.append([bytes(3 << 20)])
    assert asked == [(0, 9 << 20)]
    staged.append([bytes(20 << 20)])
    staged.append([b"x"])
    staged.discard()
    assert asked == [(0, 9 << 20), (9 << 20, 26 << 20)]


def test_what_cannot_be_written_back_is_no_error() -> None:
    system.OsCalls().start_writeback(-1, 0, 1)


def test_errors_name_the_file(tmp_path: Path) -> None:
    staged = StagedFile(str(tmp_path / "x"))
    for action in (lambda: staged.append([b"x"]), staged.sync, lambda: staged.truncate(3), staged.publish):
        with (
            faults.system(faults.fail_at(1, errno.ENOSPC)),
            pytest.raises(OSError, match="make room") as caught,
        ):
            action()
        assert str(caught.value.filename).startswith(str(tmp_path))
    staged.discard()
    with pytest.raises(FileNotFoundError, match="none"):
        StagedFile(str(tmp_path / "none" / "x"))


def test_a_link_in_place_of_a_temporary_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    os.symlink(tmp_path / "mine", tmp_path / ".x.tmp")
    with pytest.raises(OSError, match="symbolic links"):
        StagedFile(str(tmp_path / "x"), claims="x")
    assert (tmp_path / "mine").read_text() == "mine"


def test_directories_are_made_once_and_removed_only_empty(tmp_path: Path) -> None:
    path = tmp_path / "d"
    assert local.make_directory(str(path))
    assert not local.make_directory(str(path))
    (path / "f").write_text("")
    assert not local.remove_directory(str(path))
    local.clear(str(path / "f"))
    local.clear(str(path / "f"))
    assert local.remove_directory(str(path))
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        local.make_directory(str(tmp_path / "file"))
