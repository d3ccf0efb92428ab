"""Each publication of a directory is a version: kept, listed, opened, and never in the way of the next writer."""

from __future__ import annotations

import errno
import json
import os
import pickle
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import faults
import powercut
import pytest
from writing import files, read, write

import unirecord
from unirecord import MissingError, UniRecordDataset
from unirecord.cli import main
from unirecord.snapshot import manifest
from unirecord.snapshot.versions import kept_name
from unirecord.writing import directory_claim

SCHEMA = {"n": "int64"}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def grow(path: Path, *numbers: int) -> None:
    with unirecord.append(path) as writer:
        for n in numbers:
            writer.write({"n": n})


def three_versions(path: Path) -> Path:
    write(path, SCHEMA, [{"n": 0}])
    grow(path, 1)
    grow(path, 2, 3)
    return path


def seen(path: Any, **options: Any) -> list[int]:
    with UniRecordDataset(path, **options) as dataset:
        return [int(row["n"]) for row in dataset]


def test_each_version_is_opened_by_its_number(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    assert [seen(path, version=n) for n in (1, 2, 3)] == [[0], [0, 1], [0, 1, 2, 3]]
    assert [seen(f"{path}@{n}") for n in (1, 2, 3)] == [[0], [0, 1], [0, 1, 2, 3]]
    assert seen([f"{path}@2", path]) == [0, 1, 0, 1, 2, 3]
    assert seen(path) == [row["n"] for row in read(path)] == [0, 1, 2, 3]
    assert {"manifest-000001", "manifest-000002"} < set(files(path))


def test_a_version_stays_what_it_was_while_the_dataset_grows(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    with UniRecordDataset(path, version=2, shuffle=True, seed=3) as dataset:
        state = dataset.state_dict()
        grow(path, 4)
        assert not dataset.refresh()
        assert sorted(int(row["n"]) for row in pickle.loads(pickle.dumps(dataset))) == [0, 1]
    with UniRecordDataset(f"{path}@2", shuffle=True, seed=3) as dataset:
        dataset.load_state_dict(state)


def test_the_log_says_when_what_and_by_which_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    write(path, SCHEMA, [{"n": 0}])
    os.utime(path / "manifest.json", (1_000_000_000, 1_000_000_000))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    grow(path, 1, 2)
    first, second = unirecord.versions(path)
    assert (first.number, first.when, first.command, first.rows, first.parts) == (1, 1e9, "write", 1, 1)
    assert (second.number, second.when, second.command, second.rows, second.parts) == (
        2,
        1.7e9,
        "append",
        3,
        2,
    )
    assert second.bytes == sum((path / name).stat().st_size for name in files(path) if ".urec" in name)
    assert main(["log", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["version", "published", "(UTC)", "by", "rows", "parts", "bytes"]
    assert shown[1].split()[:5] == ["1", "2001-09-09", "01:46:40", "write", "1"]
    assert shown[2].split()[:5] == ["2", "2023-11-14", "22:13:20", "append", "3"]
    assert main(["log", str(path), "--json"]) == 0
    assert [version["number"] for version in json.loads(capsys.readouterr().out)] == [1, 2]


def test_what_is_no_version_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = three_versions(tmp_path / "x")
    write(tmp_path / "one.urec", SCHEMA, [{"n": 0}])
    for number in (0, -1, True, "2"):
        with pytest.raises(ValueError, match=r"version is .* expected a number from 1"):
            UniRecordDataset(path, version=number)
    for number in (4, 10**17):
        with pytest.raises(MissingError, match=f"version {number} is not kept; there are 1, 2, 3"):
            UniRecordDataset(path, version=number)
    with pytest.raises(ValueError, match="one part, which has no versions"):
        UniRecordDataset(tmp_path / "one.urec", version=1)
    with pytest.raises(ValueError, match="path is a list"):
        UniRecordDataset([path], version=1)
    with pytest.raises(MissingError, match="only those have versions"):
        unirecord.versions(tmp_path / "one.urec")
    with pytest.raises(ValueError, match="newest version is repaired"):
        unirecord.repair(f"{path}@2")
    assert main(["inspect", f"{path}@9"]) == 2
    assert "version 9 is not kept" in capsys.readouterr().err


def test_a_directory_of_such_a_name_is_itself(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    write(tmp_path / "x@2", SCHEMA, [{"n": 77}])
    assert seen(f"{path}@2") == [77]
    with pytest.raises(ValueError, match="x@2: something has this name"):
        UniRecordDataset(path, version=2)


def test_commands_read_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = three_versions(tmp_path / "x")
    assert main(["verify", f"{path}@2"]) == 0
    assert main(["inspect", f"{path}@2", "--json"]) == 0
    assert '"rows": 2' in capsys.readouterr().out
    assert main(["export", f"{path}@1", str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").read_text().split() == ["n", "0"]


def test_overwriting_begins_anew(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    write(path, SCHEMA, [{"n": 9}], overwrite=True)
    assert [version.number for version in unirecord.versions(path)] == [4]
    assert len(files(path)) == 3
    grow(path, 10)
    assert [version.number for version in unirecord.versions(path)] == [4, 5]
    assert seen(path, version=4) == [9]


def test_a_number_is_not_given_again_when_a_damaged_manifest_is_overwritten(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    (path / "manifest.json").write_text("{}")
    write(path, SCHEMA, [{"n": 9}], overwrite=True)
    assert [version.number for version in unirecord.versions(path)] == [3]
    assert len(files(path)) == 3


def test_what_was_left_of_another_dataset_is_no_version(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    older = (path / kept_name(2)).read_bytes()
    write(path, SCHEMA, [{"n": 9}], overwrite=True)
    (path / kept_name(2)).write_bytes(older)
    assert [version.number for version in unirecord.versions(path)] == [4]
    with pytest.raises(MissingError, match="version 2 is not kept; there is only 4"):
        UniRecordDataset(path, version=2)
    grow(path, 10)
    assert kept_name(2) not in files(path)


def test_only_so_many_versions_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_claim, "KEPT", 2)
    path = three_versions(tmp_path / "x")
    assert [version.number for version in unirecord.versions(path)] == [1, 2, 3]
    with UniRecordDataset(path, version=2) as held:
        grow(path, 4)
        grow(path, 5)
        assert [version.number for version in unirecord.versions(path)] == [2, 3, 4, 5]  # 2 is being read
        assert len(held) == 2
    grow(path, 6)
    assert [version.number for version in unirecord.versions(path)] == [2, 4, 5, 6]


def test_a_damaged_version_is_told_and_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = three_versions(tmp_path / "x")
    kept = path / kept_name(1)
    text = kept.read_text().replace('"rows":1', '"rows":2')
    kept.unlink()
    kept.write_text(text)
    with pytest.raises(unirecord.CorruptionError, match="manifest-000001"):
        UniRecordDataset(path, version=1)
    assert main(["log", str(path)]) == 1
    assert "version 1 cannot be read" in capsys.readouterr().err
    (problem,) = unirecord.verify(path).problems
    assert problem.path == str(kept)
    before = set(files(path))
    grow(path, 4)
    assert before < set(files(path))
    assert seen(path) == [0, 1, 2, 3, 4]


def test_a_manifest_says_nonsense_of_its_publication(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    listing = manifest.read(str(path / "manifest.json"))
    assert listing.publication is not None
    for said in ({}, {"first": 3}, {**listing.publication, "first": 4}, {**listing.publication, "when": 7}):
        content = manifest.encode(replace(listing, publication=said))
        (path / "manifest.json").unlink()
        (path / "manifest.json").write_bytes(content)
        assert seen(path) == [0, 1, 2, 3]
        with pytest.raises(unirecord.FormatError, match=r"publication|before"):
            unirecord.versions(path)


def test_without_hard_links_versions_are_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int, name: str) -> None:
        if name == "link":
            raise OSError(errno.EPERM, "no links")

    with faults.system(refuse):
        path = three_versions(tmp_path / "x")
    assert [seen(path, version=n) for n in (1, 2, 3)] == [[0], [0, 1], [0, 1, 2, 3]]
    assert (path / kept_name(2)).stat().st_nlink == 1


def test_a_copied_dataset_keeps_its_versions(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    copied = tmp_path / "y"
    copied.mkdir()
    for name in files(path):
        (copied / name).write_bytes((path / name).read_bytes())
    grow(copied, 4)
    assert [seen(copied, version=n)[-1] for n in (1, 2, 3, 4)] == [0, 1, 3, 4]
    assert seen(path) == [0, 1, 2, 3]


def test_repair_keeps_versions_and_rebuilds_only_what_has_grown(tmp_path: Path) -> None:
    path = three_versions(tmp_path / "x")
    (path / "manifest.json").unlink()
    assert unirecord.repair(path).ok
    assert seen(path) == [0, 1, 2, 3]
    grow(path, 4)
    assert seen(path, version=1) == [0, 1, 2, 3]
    assert seen(path) == [0, 1, 2, 3, 4]


def history(path: Path) -> list[list[int]]:
    return [
        [row["n"] for row in read(path)],
        *(seen(path, version=v.number) for v in unirecord.versions(path)),
    ]


def test_an_append_killed_at_any_call_leaves_whole_versions(tmp_path: Path) -> None:
    with faults.unsynced():
        three_versions(tmp_path / "0")
    whole = [[0], [0, 1], [0, 1, 2, 3]]
    at, alive = 0, True
    while alive:
        at += 1
        path = tmp_path / str(at)
        with faults.unsynced():
            copy(tmp_path / "0", path)
        alive = faults.killed(lambda path=path: grow(path, 4), at, torn=False)  # type: ignore[misc]
        found = history(path)
        assert found in ([whole[-1], *whole], [[0, 1, 2, 3, 4], *whole, [0, 1, 2, 3, 4]]), at
        with faults.unsynced():
            grow(path, 5)
        assert history(path)[1:4] == whole, at
        assert len(files(path)) == 2 * len(found) + len(found), (
            at
        )  # a part, its index and a manifest of each version
    assert at > 15


def copy(old: Path, new: Path) -> None:
    new.mkdir()
    for name in files(old):
        os.link(old / name, new / name)


def test_no_power_cut_loses_a_version(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    with faults.unsynced():
        three_versions(tmp_path / "before" / "x")
    whole = [[0], [0, 1], [0, 1, 2, 3]]
    with powercut.recorded(tmp_path / "before") as recorder:
        grow(tmp_path / "before" / "x", 4)
    ends = set()
    for seed in range(150):
        r = random.Random(seed)
        done = powercut.after_power_cut(recorder, r, tmp_path / f"{seed}")
        found = history(tmp_path / f"{seed}" / "x")
        ends.add(len(found))
        assert found[1:4] == whole, seed
        assert found[0] == found[-1], seed
        assert not done or found[0] == [0, 1, 2, 3, 4], seed
    assert ends == {4, 5}


def test_what_changes_a_dataset_refuses_the_name_of_a_version_and_says_which_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = three_versions(tmp_path / "x")
    (tmp_path / "y.csv").write_text("n,m\n1,2\n")
    before, table, version = files(tmp_path), str(tmp_path / "y.csv"), f"{path}@2"
    for command in (
        ["write", table, version], ["write", table, version, "--append"], ["write", table, version, "--overwrite"],
        ["delete", version, "--rows", "0"], ["restore", f"{version}@1"],
        ["compact", version], ["reshard", version, "2"], ["sort", version, "--by", "n"], ["gc", version],
        ["log", version], ["evict", version, "--max-bytes", "1"], ["purge", version, "--rows", "0", "--yes"],
        ["add-columns", version, table, "--key", "n"], ["drop-columns", version, "n"],
        ["rename-columns", version, "n=k"],
    ):  # fmt: skip
        assert main(command) == 2, command
        assert (
            f"this names version 2, and what is published stays as it is; name {path}"
            in capsys.readouterr().err
        )
    with pytest.raises(MissingError, match="this names version 2"):
        unirecord.append(version)
    assert files(tmp_path) == before


@pytest.mark.parametrize("command", [["delete"], ["purge", "--dry-run"]])
def test_a_wrong_condition_is_shown_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    path = three_versions(tmp_path / "x")
    assert main([*command, str(path), "--where", "nothing < 3"]) == 2
    assert capsys.readouterr().err.endswith("\n  nothing < 3\n  ^^^^^^^\n")


def test_columns_that_are_not_there_are_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(three_versions(tmp_path / "x"))
    for command in (["drop-columns", path, "m"], ["rename-columns", path, "m=k"]):
        assert main(command) == 2
        assert "no column 'm'" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "y.csv").write_text("n\n1\n")
    for target in (".", "", "x.urec/"):
        assert main(["write", str(tmp_path / "y.csv"), target]) == 2
        assert "internal error" not in capsys.readouterr().err
