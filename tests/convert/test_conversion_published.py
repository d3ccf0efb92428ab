"""Conversions that die when they have published: --resume says that they had finished, and nothing is there twice."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import pytest
from numbers_converted import convert
from numbers_source import Numbers, values

from unirecord import (
    ExistsError,
    StaleError,
    UniRecordDataset,
    append,
    compact,
    delete,
    gc,
    restore,
    verify,
    versions,
)
from unirecord.cli import main
from unirecord.convert import task
from unirecord.snapshot.versions import read_newest
from unirecord.writing.journal import Journal

OLD, NEW = [30], [40, 50]
WAYS = [{}, {"append": True}, {"overwrite": True}]


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 10_000)


def conversion(tmp_path: Path, way: dict[str, bool], **options: Any) -> Callable[[], Any]:
    index = {"index": None} if "append" in way else {}
    return lambda: convert(
        tmp_path / "out", Numbers(tmp_path, NEW), **{**way, **index, "id": None, **options}
    )


def begin(tmp_path: Path, way: dict[str, bool]) -> None:
    """What is there before."""
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    shutil.rmtree(tmp_path / ".out.tmp", ignore_errors=True)
    if way:
        convert(tmp_path / "out", Numbers(tmp_path, OLD), id=bytes(16))


def calls_after_publishing(tmp_path: Path, way: dict[str, bool]) -> range:
    """At which system calls a run is killed that has just published, or nearly."""
    begin(tmp_path, way)
    with faults.system(lambda number, name: None) as watched:
        conversion(tmp_path, way)()
    renames = [at for at, name in enumerate(watched.names, 1) if name == "rename"]
    last = renames[-2 if "append" in way else -1]  # an append lets its journal say so, by another rename
    return range(last - 1, watched.count + 1)


def rows(tmp_path: Path) -> list[int]:
    found = UniRecordDataset(tmp_path / "out")
    assert all(found[i] == values(found[i]["n"]) for i in range(0, len(found), 7))
    assert verify(tmp_path / "out").ok
    return [one["n"] for one in found]


def has_journal(tmp_path: Path) -> bool:
    places = [tmp_path / "out", *(tmp_path / "out").glob(".append-*")]
    return any(any(place.glob(name)) for place in places for name in (".conversion*", ".task*"))


def stopped_everywhere(tmp_path: Path, way: dict[str, bool], step: int = 1) -> Any:
    """Each place, or each some, at which the run dies: whether it had published there."""
    published = 0
    for at in calls_after_publishing(tmp_path, way)[::step]:
        begin(tmp_path, way)
        assert faults.killed(conversion(tmp_path, way), at, False)
        is_out = (tmp_path / "out" / "manifest.json").exists() and len(
            UniRecordDataset(tmp_path / "out")
        ) >= sum(NEW)
        published += is_out and has_journal(tmp_path)
        yield is_out
    assert published >= 2


def wanted(way: dict[str, bool]) -> list[int]:
    return [*range(sum(OLD) if "append" in way else 0), *range(sum(NEW))]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_it_is_gone_on_with_once(way: dict[str, bool], tmp_path: Path) -> None:
    for is_out in stopped_everywhere(tmp_path, way):
        if is_out and not has_journal(tmp_path):  # nothing was left to do
            continue
        told: list[bool] = []
        written, _ = conversion(
            tmp_path, way, resume=True, progress=lambda standing, told=told: told.append(standing.published)
        )()
        assert (written, told[-1]) == (sum(NEW), is_out)
        assert rows(tmp_path) == wanted(way)
        assert not has_journal(tmp_path)
        assert len({name.name for name in (tmp_path / "out").glob("part-*.urec")}) == len(
            read_newest(str(tmp_path / "out")).parts
        )


def deleted(out: Path) -> list[int]:
    delete(out, rows=[0])
    return [0]


def laid_out_anew(out: Path) -> list[int]:
    compact(out)
    gc(out, keep=1)
    return []


def taken_back(out: Path) -> list[int]:
    restore(out, 1)
    gc(out, keep=1)
    return list(range(sum(OLD), sum(OLD) + sum(NEW)))


@pytest.mark.parametrize("change", [deleted, laid_out_anew, taken_back])
def test_whatever_has_become_of_its_rows_meanwhile(
    change: Callable[[Path], list[int]], tmp_path: Path
) -> None:
    way = {"append": True}
    for is_out in stopped_everywhere(tmp_path, way, 2):
        if not is_out or not has_journal(tmp_path):
            continue
        gone = change(tmp_path / "out")
        before = versions(tmp_path / "out")[-1].number
        assert conversion(tmp_path, way, resume=True)()[0] == sum(NEW)
        assert versions(tmp_path / "out")[-1].number == before
        assert rows(tmp_path) == [n for at, n in enumerate(wanted(way)) if at not in gone]
        assert not has_journal(tmp_path)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_no_append_calls_its_parts_dropped(way: dict[str, bool], tmp_path: Path) -> None:
    for is_out in stopped_everywhere(tmp_path, way, 2):
        if not is_out:
            continue
        left = has_journal(tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with append(tmp_path / "out") as writer:
                writer.write(values(3))
        assert rows(tmp_path) == [*wanted(way), 3]
        if left and way:  # which the append has left, to be asked for
            assert conversion(tmp_path, way, resume=True)()[0] == sum(NEW)
            assert rows(tmp_path) == [*wanted(way), 3]
        seen: list[int] = []
        conversion(
            tmp_path, {"append": True}, progress=lambda standing, seen=seen: seen.append(standing.dropped)
        )()
        assert set(seen) == {0}
        if left and not way:  # another conversion has left it, too
            assert conversion(tmp_path, way, resume=True)()[0] == sum(NEW)
        assert not has_journal(tmp_path)


def test_another_conversion_begins_anew_or_is_refused(tmp_path: Path) -> None:
    for way in WAYS:
        assert any(is_out and has_journal(tmp_path) for is_out in stopped_everywhere(tmp_path, way))
        other = conversion(tmp_path, way, resume=True, limit=7)
        if way:
            assert other()[0] == 7
            there = [*(wanted(way) if "append" in way else []), *range(7)]
            assert rows(tmp_path) == there
            if "append" in way:  # which keeps what it is about for itself
                assert conversion(tmp_path, way, resume=True)()[0] == sum(NEW)
                assert rows(tmp_path) == there
        else:
            with pytest.raises(ExistsError, match="a dataset is there already, of another conversion"):
                other()
            assert conversion(tmp_path, way, resume=True)()[0] == sum(NEW)  # which is still known
            with pytest.raises(ExistsError):
                conversion(tmp_path, way, resume=True)()
        assert not has_journal(tmp_path)


def test_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("id,name\n" + "".join(f"{i},name {i}\n" for i in range(200)))

    def is_out() -> bool:
        return Path("out/manifest.json").exists() and versions("out")[-1].number == number

    for more in ([], ["--append"], ["--overwrite"], ["--append", "--shuffle-seed", "3"]):
        argv = ["write", "in.csv", "out", *more]
        number = 2 if more else 1
        shutil.rmtree("out", ignore_errors=True)
        if more:
            main(["write", "in.csv", "out"])
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "clear", lambda self: os._exit(faults.KILLED) if is_out() else None)
            assert faults.killed(lambda argv=argv: main(argv) and None, 1 << 30, False)  # type: ignore[misc]
        capsys.readouterr()
        assert main([*argv, "--resume"]) == 0
        assert "the run before had finished: 200 rows" in capsys.readouterr().out
        assert len(UniRecordDataset("out")) == (400 if "--append" in more else 200)
        assert not [*Path().glob("out/.*"), *Path().glob(".out*")]


def test_a_journal_without_such_parts_stays(tmp_path: Path) -> None:
    way = {"append": True}
    at = calls_after_publishing(tmp_path, way)[0] - 5
    begin(tmp_path, way)
    assert faults.killed(conversion(tmp_path, way), at, False)
    delete(tmp_path / "out", rows=[0])
    with pytest.raises(StaleError, match="another conversion"):
        conversion(tmp_path, way, resume=True, limit=7)()
    assert conversion(tmp_path, way, resume=True)()[0] == sum(NEW)
    assert rows(tmp_path) == wanted(way)[1:]
