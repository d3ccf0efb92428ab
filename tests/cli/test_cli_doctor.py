"""`unirecord doctor`: what it says of a machine that has everything, and of one that lacks something."""

from __future__ import annotations

import json
import re
import resource
import runpy
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unirecord import Writer
from unirecord.cli.main import main
from unirecord.inspect import machine
from unirecord.inspect.machine import Fact, examine


def facts(place: str | None = None) -> dict[str, Fact]:
    return {fact.name: fact for fact in examine(place)}


def test_it_says_what_is_there_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for word in ("unirecord", "numpy", "libzstd", "io=", "mmap", "uring-direct", "[remote]", "file system"):
        assert word in said
    assert not list(tmp_path.iterdir())


def test_json_has_the_same_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", str(tmp_path)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in said} == set(facts(str(tmp_path)))
    assert {"area", "name", "state", "says", "advice"} == set(said[0])


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path / "gone")]) == 2
    assert "gone: expected a directory" in capsys.readouterr().err


def test_ways_that_work_are_those_that_are_used() -> None:
    found = facts()
    assert found["mmap"].state == found["pread"].state == "good"
    for io in ("uring", "uring-direct"):
        assert found[io].state == "good" or "is used" in found[io].says


def test_a_place_that_cannot_be_written_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(machine, "temporary_folder", refuse)
    assert main(["doctor", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "BAD  a small dataset" in said
    assert "Nothing is missing" not in said
    assert "name a directory that you may write to" in said


def test_parts_without_an_index_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Writer(tmp_path / "a.urec", {"n": "int64"}) as writer:
        writer.write({"n": 1})
    assert main(["doctor", str(tmp_path)]) == 0
    (tmp_path / "a.urec.idx").unlink()
    assert main(["doctor", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "1 part has none, such as a.urec" in said
    assert f"unirecord repair {tmp_path / 'a.urec'}" in said


def test_nothing_is_missing_only_where_all_is_good(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for state, said in (("good", True), ("missing", False), ("bad", False)):
        monkeypatch.setattr(
            "unirecord.cli.start.examine", lambda _, state=state: [Fact("core", "x", state, "y")]
        )
        main(["doctor"])
        assert ("Nothing is missing" in capsys.readouterr().out) == said


def lacking(*gone: str) -> Callable[[str], str]:
    real = metadata.version

    def version(name: str) -> str:
        if name in gone:
            raise metadata.PackageNotFoundError(name)
        return "0.0.1" if name == "h5py" else real(name)

    return version


def test_packages_that_are_missing_or_too_old_are_named_with_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine.metadata, "version", lacking("obstore"))
    found = facts()
    assert found["[remote]"].state == found["[convert]"].state == "missing"
    assert "without obstore>=" in found["[remote]"].says
    assert "without h5py>=" in found["[convert]"].says or ", h5py>=" in found["[convert]"].says
    assert found["[remote]"].advice == "pip install 'unirecord[remote]'"
    assert "[test]" not in found


def test_the_advice_on_libjpeg_turbo_links_it_where_pip_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "has_jpeg", lambda: False)
    advised = re.search(r"UNIRECORD_JPEG=(\w+) pip install", facts()["libjpeg-turbo"].advice)
    assert advised
    build = Path(__file__).resolve().parents[2] / "unirecord" / "_build.py"
    how_to_link = runpy.run_path(str(build))["how_to_link"].__wrapped__  # which keeps its answer
    monkeypatch.setitem(
        how_to_link.__globals__, "links", lambda way: way == "shared"
    )  # as Debian's archive does
    monkeypatch.setattr(sys, "argv", ["setup.py", "bdist_wheel"])
    monkeypatch.delenv("UNIRECORD_JPEG", raising=False)
    assert how_to_link() == ""
    monkeypatch.setenv("UNIRECORD_JPEG", advised[1])
    assert how_to_link() == "shared"


def test_low_limits_are_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4_096))
    small = SimpleNamespace(f_frsize=4_096, f_blocks=16_384, f_bavail=1)
    monkeypatch.setattr(machine.os, "statvfs", lambda path: small)
    found = facts()
    assert found["open files"].state == found["/dev/shm"].state == "missing"
    advised = re.search(r"`(ulimit -n \d+)`", found["open files"].advice)
    assert advised
    done = subprocess.run(
        ["bash", "-c", f'ulimit -Hn 4096; {advised[1]}; "$0" -m unirecord doctor', sys.executable],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert re.search(r"open files +4,096$", done.stdout, re.M), done.stdout + done.stderr
    assert "67.1 MB" in found["/dev/shm"].says


def test_a_directory_that_cannot_be_written_to_is_said_with_what_to_do(tmp_path: Path) -> None:
    found = facts("/proc")["a small dataset"]
    assert found.state == "bad"
    assert "name a directory that you may write to, or leave PATH out" in found.advice
    for place in (str(tmp_path), None):
        assert "a small dataset" not in facts(place)


def test_the_nearest_mount_says_the_file_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("a / ext4 rw 0 0\nb /da nfs rw 0 0\nc /data\\040sets nfs4 rw 0 0\n")
    monkeypatch.setattr(machine, "_MOUNTS", str(mounts))
    assert machine._file_system("/data sets/a") == "nfs4"
    assert machine._file_system("/data/a") == "ext4"
    monkeypatch.setattr(machine, "_MOUNTS", str(tmp_path / "none"))
    assert machine._file_system("/data") is None


def test_names_that_people_type_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = str(tmp_path / "a.urec")
    with Writer(part, {"n": "int32"}) as writer:
        writer.write({"n": 4})
    for first, second in (("info", "inspect"), ("head", "inspect"), ("ls", "inspect")):
        assert main([first, part]) == main([second, part]) == 0
        one, other = capsys.readouterr().out.split("a.urec")[1:]
        assert one.splitlines()[1:3] == other.splitlines()[1:3]
    assert main(["check", part, "--quick"]) == 0
    table = tmp_path / "t.csv"
    table.write_text("n\n1\n")
    assert main(["convert", str(table), str(tmp_path / "t.urec")]) == 0


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "look inside a dataset" in capsys.readouterr().err
