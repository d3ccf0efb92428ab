"""Writers beside forks, readers, other writers and other users' files; parts whose manifest is lost."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from writing import files, read, write

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.cli import main
from unirecord.errors import BusyError, ExistsError, MissingError, StaleError
from unirecord.snapshot import dataset_path

TARGETS = ["x.urec", "x"]
SCHEMA = {"n": "int64", "b": "bytes"}


def rows(first: int, count: int = 3) -> list[dict[str, Any]]:
    return [{"n": first + i, "b": bytes(4_000)} for i in range(count)]


def make(path: Path, first: int = 0, **options: Any) -> None:
    write(path, SCHEMA, rows(first), **options)


def seen(path: Path) -> list[int]:
    with UniRecordDataset(path) as dataset:
        return [int(row["n"]) for row in dataset]


# ---- forks ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def child_of() -> Iterator[Any]:
    """Makes a forked child that sleeps until the test ends."""
    children = []

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                signal.pause()
            os._exit(0)
        children.append(pid)

    yield fork
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("target", TARGETS)
def test_a_child_that_lives_on_keeps_no_lock(tmp_path: Path, target: str, child_of: Any) -> None:
    writer = Writer(tmp_path / target, SCHEMA)
    child_of()
    writer.write(rows(0)[0])
    writer.close()
    make(tmp_path / target, 5, overwrite=True)
    assert seen(tmp_path / target) == [5, 6, 7]


ORPHAN = """
import os, sys, time
from unirecord import Writer
writer = Writer(sys.argv[1], {"n": "int64", "b": "bytes"})
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(100)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("target", TARGETS)
def test_the_orphan_of_a_killed_writer_keeps_no_lock(tmp_path: Path, target: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path / target)], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        orphan = int(owner.stdout.readline())
        owner.wait()
        try:
            make(tmp_path / target)
        finally:
            os.kill(orphan, signal.SIGKILL)
    assert seen(tmp_path / target) == [0, 1, 2]
    assert not [name for name in files(tmp_path) if name.endswith(".tmp")]


# ---- writers of one process ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_live_writer_of_this_process_is_named_by_its_line(tmp_path: Path, target: str) -> None:
    first = Writer(tmp_path / target, SCHEMA)
    with pytest.raises(
        BusyError, match=rf"{target}: this process .* made at .*{Path(__file__).name}:\d+; close"
    ):
        Writer(tmp_path / target, SCHEMA)
    first.abort()
    make(tmp_path / target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_writer_that_nobody_can_reach_any_more_gives_way(tmp_path: Path, target: str) -> None:
    gc.disable()
    try:
        cycle: list[Any] = [Writer(tmp_path / target, SCHEMA)]
        cycle.append(cycle)
        del cycle
        make(tmp_path / target)
    finally:
        gc.enable()
    assert seen(tmp_path / target) == [0, 1, 2]


# ---- a lost manifest -----------------------------------------------------------------------------------------------


def without_manifest(path: Path) -> None:
    make(path, index=["n"], metadata={"a": 1}, max_part_bytes=6_000)
    (path / "manifest.json").unlink()


def test_parts_without_a_manifest_are_refused_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "x"
    without_manifest(path)
    before = files(path)
    assert len(before) == 6
    with pytest.raises(ExistsError, match=r"no manifest.json that names them.*unirecord repair"):
        Writer(path, SCHEMA)
    with pytest.raises(MissingError, match="unirecord repair"):
        unirecord.append(path)
    (tmp_path / "y.csv").write_text("a\n1\n")
    assert main(["write", str(tmp_path / "y.csv"), str(path)]) != 0
    assert files(path) == before


def test_parts_without_a_manifest_stay_until_what_replaces_them_is_published(tmp_path: Path) -> None:
    path = tmp_path / "x"
    without_manifest(path)
    before = files(path)
    writer = Writer(path, SCHEMA, overwrite=True)
    writer.write(rows(7)[0])
    assert set(before) < set(files(path))
    writer.abort()
    assert files(path) == before
    make(path, 7, overwrite=True)
    assert seen(path) == [7, 8, 9]
    assert not set(before) & set(files(path))


def test_repair_makes_a_lost_manifest_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x"
    without_manifest(path)
    next(path.glob("*.idx")).unlink()
    parts = {name: (path / name).read_bytes() for name in files(path)}
    for use in (UniRecordDataset, unirecord.describe, unirecord.append):
        with pytest.raises(MissingError, match=f"unirecord repair {path}"):
            use(path)
    assert main(["repair", str(path)]) == 0
    assert f"{path / 'manifest.json'}: was made anew from 3 parts" in capsys.readouterr().out
    assert {name: (path / name).read_bytes() for name in parts} == parts
    assert unirecord.verify(path).problems == []
    assert [row["n"] for row in read(path)] == seen(path) == [0, 1, 2]
    with UniRecordDataset(path, where="n == 1") as dataset:
        assert (len(dataset), dataset.metadata) == (1, {"a": 1})
    with unirecord.append(path) as writer:
        writer.write(rows(3)[0])
    assert seen(path) == [0, 1, 2, 3]


def test_parts_of_two_schemas_get_no_manifest(tmp_path: Path) -> None:
    without_manifest(tmp_path / "x")
    write(tmp_path / "y", {"other": "int8"}, [{"other": 1}])
    for part in (tmp_path / "y").glob("part-*"):
        part.rename(tmp_path / "x" / part.name.replace("000000", "000009"))
    with pytest.raises(unirecord.SchemaError, match=r"part-000009.* has another schema than .*move those"):
        unirecord.repair(tmp_path / "x")
    assert "manifest.json" not in files(tmp_path / "x")


def test_repair_beside_a_live_writer_is_told(tmp_path: Path) -> None:
    make(tmp_path / "x.urec")
    (tmp_path / "x.urec.idx").unlink()
    writer = Writer(tmp_path / "x.urec", SCHEMA, overwrite=True)
    with pytest.raises(BusyError):
        unirecord.repair(tmp_path / "x.urec")
    writer.abort()
    assert unirecord.repair(tmp_path / "x.urec").parts[0].action == "index"
    assert seen(tmp_path / "x.urec") == [0, 1, 2]


# ---- files of others -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_stale_temporary_file_lends_nothing_to_what_is_published(tmp_path: Path, target: str) -> None:
    path = tmp_path / target
    for name in (".x.urec.tmp", ".x.urec.idx.tmp"):
        (tmp_path / name).touch(0o600)
        os.link(tmp_path / name, tmp_path / f"{name}.mine")
    if target == "x":
        path.mkdir()
        (path / ".manifest.json.tmp").touch(0o600)
    make(path)
    made = [path, Path(f"{path}.idx")] if target == "x.urec" else list(path.iterdir())
    assert {file.stat().st_mode & 0o777 for file in made} == {0o666 & ~current_umask()}
    assert all((tmp_path / f"{name}.mine").read_bytes() == b"" for name in (".x.urec.tmp", ".x.urec.idx.tmp"))


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_what_replaces_a_file_has_its_mode_and_owner(tmp_path: Path, target: str, mode: int) -> None:
    path = tmp_path / target
    make(path)
    owner = (1234, 2345) if os.getuid() == 0 else (os.getuid(), os.getgid())
    for file in [path, Path(f"{path}.idx")] if target == "x.urec" else list(path.iterdir()):
        file.chmod(mode)
        os.chown(file, *owner)
    writer = Writer(path, SCHEMA, overwrite=True)
    for row in rows(5):
        writer.write(row)
    writer._flush()
    staged = [file for file in tmp_path.rglob("*.tmp") if file.is_file()]
    assert staged
    assert all(not file.stat().st_mode & 0o777 & ~mode for file in staged)  # nobody sees more meanwhile, too
    writer.close()
    made = [path, Path(f"{path}.idx")] if target == "x.urec" else list(path.iterdir())
    assert {(file.stat().st_mode & 0o777, file.stat().st_uid, file.stat().st_gid) for file in made} == {
        (mode, *owner)
    }
    assert seen(path) == [5, 6, 7]


def test_a_new_directory_is_not_visible_before_it_is_published(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x", SCHEMA, max_part_bytes=6_000)
    for row in rows(0, 6):
        writer.write(row)
    assert not (tmp_path / "x").exists()
    writer.close()
    assert files(tmp_path) == ["x"]


def test_a_directory_made_meanwhile_is_not_replaced_unless_empty(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x", SCHEMA)
    writer.write(rows(0)[0])
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").write_text("mine")
    with pytest.raises(OSError, match="/x'"):
        writer.close()
    assert files(tmp_path) == ["x"]
    assert files(tmp_path / "x") == ["mine"]


# ---- readers beside an overwriting writer --------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 3])
def test_a_directory_overwritten_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    path, real = tmp_path / "x", dataset_path._read_manifest
    make(path)
    left = list(range(times))

    def overtaken(folder: str, version: int | None) -> Any:
        found = real(folder, version)
        if left:
            make(path, 10 + left.pop(), overwrite=True)
        return found

    monkeypatch.setattr(dataset_path, "_read_manifest", overtaken)
    assert seen(path) == [10, 11, 12]


@pytest.mark.parametrize("target", TARGETS)
def test_a_dataset_overwritten_between_finding_and_reading_it_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    path, real, left = tmp_path / target, dataset_path.resolve, [1, 2]
    make(path, index=["n"])

    def overtaken(where: Any) -> Any:
        found = real(where)
        if left:
            left.pop()
            make(path, 10, overwrite=True, index=["n"])
        return found

    monkeypatch.setattr(dataset_path, "resolve", overtaken)
    with UniRecordDataset(path, where="n == 11") as dataset:  # which reads at once
        assert [row["n"] for row in dataset] == [11]


@pytest.mark.parametrize("target", TARGETS)
def test_a_reader_of_before_an_overwrite_is_told_to_open_again(tmp_path: Path, target: str) -> None:
    path = tmp_path / target
    make(path)
    with UniRecordDataset(path) as dataset:  # it has opened no part yet
        make(path, 10, overwrite=True)
        with pytest.raises(
            StaleError, match=r"has been published here since.*open it again, or call refresh\(\)"
        ):
            dataset[0]
        assert dataset.refresh()
        assert [row["n"] for row in dataset] == [10, 11, 12]


def test_a_part_that_is_missing_without_an_overwrite_is_said_to_be_missing(tmp_path: Path) -> None:
    make(tmp_path / "x")
    with UniRecordDataset(tmp_path / "x") as dataset:
        next((tmp_path / "x").glob("*.urec")).unlink()
        with pytest.raises(MissingError, match="put the file"):
            dataset[0]


@pytest.mark.parametrize("target", TARGETS)
def test_opening_beside_an_overwriting_process_never_fails(tmp_path: Path, target: str) -> None:
    path = tmp_path / target
    make(path)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            for first in range(30):
                make(path, first, overwrite=True)
        os._exit(0)
    opens = 0
    while os.waitpid(child, os.WNOHANG)[0] == 0 or opens == 0:
        with UniRecordDataset(path, where="n >= 0") as dataset:
            assert len(dataset) == 3
        opens += 1
    assert opens > 5


def test_a_failed_refresh_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path / "x")
    with UniRecordDataset(tmp_path / "x", where="n >= 0") as dataset:
        assert [row["n"] for row in dataset] == [0, 1, 2]
        write(tmp_path / "x", {"m": "int8"}, [{"m": 1}], overwrite=True)
        with pytest.raises(StaleError, match="schema has changed"):
            dataset.refresh()
        assert (len(dataset), list(dataset.schema.names)) == (3, ["n", "b"])
