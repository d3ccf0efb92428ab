"""Rows that are purged are erased for good: no file has their bytes, no version names them, all others are the same."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import pytest
from changed_datasets import SCHEMAS, SECRET, found_in, make, seen

import unirecord
from unirecord import BusyError, UniRecordDataset, UniRecordError
from unirecord.cli import main
from unirecord.snapshot import manifest
from unirecord.snapshot.data_file import DataFile
from unirecord.writing import deletion

STRIDE = 1 if "UNIRECORD_STEPS" in os.environ else 3  # of system calls
SCHEMA: dict[str, Any] = {"n": "int64", "s": "string", "b": "bytes"}


def written(path: Path, secret: int = 7, schema: dict[str, Any] = SCHEMA, rows: int = 12) -> Path:
    """Three parts, one of which has a secret."""
    for first in range(0, rows, rows // 3):
        append = unirecord.append(path) if first else unirecord.Writer(path, schema, index=["n"])
        with append as writer:
            for n in range(first, first + rows // 3):
                writer.write({"n": n, **values(n, n == secret)})
    return path


def values(n: int, is_secret: bool) -> dict[str, Any]:
    text = SECRET.decode() if is_secret else f"what anybody may read of row {n}"
    return {"s": text, "b": hashlib.sha256(str(n).encode()).digest() + text.encode()}


@pytest.mark.parametrize("how", [{"where": "n == 7"}, {"rows": [7]}, {"rows": 7}, {}])
def test_no_file_has_their_bytes_and_the_others_are_the_same(tmp_path: Path, how: dict[str, Any]) -> None:
    path = written(tmp_path / "data")
    unirecord.delete(path, rows=[2] if how else [2, 7])
    names = [part.name for part in manifest.read(str(path / "manifest.json")).parts]
    assert found_in(path)
    version = unirecord.versions(path)[-1].number
    with faults.unsynced():
        found = unirecord.purge(path, **how)
    assert (found.rows, found.parts, found.lost) == (2, 2, tuple(range(1, found.version)))
    assert found.version == version + (2 if how else 1)
    assert (found.blank, found.unnamed, found.elsewhere) == (2, (), ())
    assert found.files >= 4
    assert found.bytes > 0
    assert found_in(path) == []
    assert [one.number for one in unirecord.versions(path)] == [found.version]
    assert seen(path) == [n for n in range(12) if n not in (2, 7)]
    after = [part.name for part in manifest.read(str(path / "manifest.json")).parts]
    assert after[2] == names[2]
    assert not {*after[:2]} & {*names}
    with UniRecordDataset(path) as dataset:
        assert dataset.order.row_ids().tolist() == seen(path)
    assert main(["verify", str(path)]) == 0
    again = unirecord.purge(path, **how)
    assert (again.rows, again.parts, again.lost, again.version) == (0, 0, (), found.version)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_any_columns(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path / "data", kind)
    live = seen(path)
    with faults.unsynced():
        found = unirecord.purge(path, rows=[0, 5, 63, 100])
    assert found.rows == 4
    assert seen(path) == [n for at, n in enumerate(live) if at not in (0, 5, 63, 100)]
    assert main(["verify", str(path)]) == 0


def test_what_a_reader_holds_is_not_erased_and_nothing_is_changed(tmp_path: Path) -> None:
    path = written(tmp_path / "data")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for version in (None, 1):
        with (
            UniRecordDataset(path, version=version),
            pytest.raises(BusyError, match=f"reads version {version or 3}"),
        ):
            unirecord.purge(path, rows=[7])
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert unirecord.purge(path, rows=[7]).rows == 1


def test_who_begins_to_read_meanwhile_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "data")
    opened = []

    def rewrite_parts(*arguments: Any, **options: Any) -> Any:
        opened.append(UniRecordDataset(path))
        return before(*arguments, **options)

    before = deletion.rewrite_parts
    monkeypatch.setattr(deletion, "rewrite_parts", rewrite_parts)
    with pytest.raises(BusyError, match="begun to read version 4 meanwhile"):
        unirecord.purge(path, rows=[7])
    monkeypatch.undo()
    assert found_in(path)
    opened[0].close()
    found = unirecord.purge(path, rows=[7])
    assert (found.rows, found.parts) == (1, 0)
    assert found_in(path) == []


def test_a_dictionary_that_may_have_been_trained_on_them_goes(tmp_path: Path) -> None:
    schema = {"n": "int64", "o": {"type": "object", "codec": "zstd"}, "other": {"type": "bytes"}}
    path = tmp_path / "data"
    with unirecord.Writer(path, schema, max_part_bytes=90_000) as writer:
        for n in range(6000):
            thing = {"name": f"somebody {n}", "kind": ["one", "two"][n % 2], "place": n * 7}
            writer.write({"n": n, "o": thing, "other": hashlib.sha256(str(n).encode()).digest()})
    parts = manifest.read(str(path / "manifest.json")).parts
    assert len(parts) > 1
    assert all(dictionaries_in(path, part.name) for part in parts)
    found = unirecord.purge(path, rows=[7])
    assert found.parts == len(parts)
    after = manifest.read(str(path / "manifest.json")).parts
    assert not any(dictionaries_in(path, part.name) for part in after)
    with UniRecordDataset(path) as dataset:
        assert [one["o"]["place"] // 7 for one in dataset] == [n for n in range(6000) if n != 7]


def dictionaries_in(path: Path, name: str) -> int:
    with DataFile(str(path / name)) as data:
        return len(list(data.dictionaries(data.head())))


def test_other_dictionaries_and_parts_stay(tmp_path: Path) -> None:
    schema = {"n": "int64", "o": {"type": "object", "codec": "zstd"}}
    path = tmp_path / "data"
    with unirecord.Writer(path, schema) as writer:
        for n in range(4000):
            thing = {"name": f"somebody {n}", "kind": ["one", "two"][n % 2], "place": n * 7}
            writer.write({"n": n, "o": thing})
    with unirecord.append(path) as writer:
        writer.write({"n": -1, "o": SECRET.decode().upper()[::-1]})
    found = unirecord.purge(path, where="n == -1")
    assert found.parts == 1
    parts = manifest.read(str(path / "manifest.json")).parts
    assert dictionaries_in(path, parts[0].name) == 1


def test_files_that_no_version_names_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "data")
    (path / "notes").mkdir()
    (path / "notes" / "mail.txt").write_bytes(b"x" * 1001 + SECRET + b"y")
    assert unirecord.purge(path, rows=[7]).unnamed == ("notes/mail.txt",)


def test_columns_beside_the_parts_are_erased_too(tmp_path: Path) -> None:
    path = written(tmp_path / "data")
    columns = {"c": {"type": "text", "codec": "zstd"}, "b": "bytes"}
    text = [f"{SECRET.decode()} of row {n}" if n == 7 else f"no more of row {n}" for n in range(12)]
    table = {"c": text, "b": [one.encode() for one in text]}
    unirecord.add_columns(
        path, columns, lambda rows: {k: [v[n] for n in rows["n"]] for k, v in table.items()}, replace=True
    )
    assert len(found_in(path)) > 2
    found = unirecord.purge(path, rows=[7])
    assert (found.rows, found.blank, found.unnamed) == (1, 1, ())
    assert found_in(path) == []
    with UniRecordDataset(path) as dataset:
        assert [one["c"] for one in dataset] == text[:7] + text[8:]
    assert main(["verify", str(path)]) == 0


def test_what_others_have_too_and_links_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "data")
    with unirecord.append(path) as writer:
        writer.write({"n": 12, **values(12, True)})
    unirecord.merge([path], tmp_path / "merged")
    assert main(["purge", str(path), "--rows", "7", "--dry-run"]) == 0
    assert "1 row would be erased, 1 part would be written anew; versions 1, 2, 3, 4 would be lost" in (
        capsys.readouterr().out
    )
    with pytest.raises(SystemExit):
        main(["purge", str(path), "--rows", "7"])
    assert "--yes" in capsys.readouterr().err
    assert main(["purge", str(path), "--rows", "7", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "1 row erased, 1 part written anew; versions 1, 2, 3, 4, 5 are lost" in said
    assert "read back: nothing is stored of 1 deleted row" in said
    assert "had another name on this disk" in said
    assert main(["purge", str(path), "--yes"]) == 0
    assert "there is nothing to erase" in capsys.readouterr().out
    assert seen(tmp_path / "merged") == list(range(13))


def test_killed_at_any_call_it_is_done_by_the_next(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", secret=2, rows=6)
    at, alive = 0, True
    while alive:
        at += STRIDE
        path = Path(shutil.copytree(whole, tmp_path / str(at)))
        alive = faults.killed(lambda path=path: unirecord.purge(path, rows=[2]), at, torn=at % 2 == 0)  # type: ignore[misc]
        assert seen(path) in ([0, 1, 2, 3, 4, 5], [0, 1, 3, 4, 5])
        with faults.unsynced():
            unirecord.purge(path, rows=[2])
        assert found_in(path) == []
        assert seen(path) == [0, 1, 3, 4, 5]
        assert len(unirecord.versions(path)) == 1
        assert not [name for name in path.iterdir() if name.name.startswith(".")]
        shutil.rmtree(path)
    assert at > 60


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_call_that_fails_leaves_it_to_the_next(tmp_path: Path, code: int) -> None:
    """Once, or for ever: as from a full disk; each call of the store is one of those of one run or the other."""
    whole = written(tmp_path / "whole", secret=2, rows=6)
    counted = Path(shutil.copytree(whole, tmp_path / "count"))
    with faults.system(faults.count_only) as watched:
        unirecord.purge(counted, rows=[2])
    outcomes = set()
    for at in range(1 + (code == errno.EIO), watched.count + 1, STRIDE):
        path = Path(shutil.copytree(whole, tmp_path / str(at)))
        with faults.system(faults.fail_at(at, code, forever=code == errno.ENOSPC)):
            try:
                found = unirecord.purge(path, rows=[2])
                assert (found.rows, found_in(path)) == (1, []), at
            except (OSError, UniRecordError):
                outcomes.add(len(seen(path)))
        assert seen(path) in ([0, 1, 2, 3, 4, 5], [0, 1, 3, 4, 5]), at
        with faults.unsynced():
            unirecord.purge(path, rows=[2])
        assert found_in(path) == [], at
        assert seen(path) == [0, 1, 3, 4, 5], at
        assert len(unirecord.versions(path)) == 1, at
        assert not [name for name in path.iterdir() if name.name.startswith(".")], at
        shutil.rmtree(path)
    assert watched.count > 60
    assert outcomes == {5, 6}


def test_what_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "data", rows=3)
    with pytest.raises(ValueError, match="not both"):
        unirecord.purge(path, rows=[1], where="n == 1")
    with pytest.raises(IndexError):
        unirecord.purge(path, rows=[99])
    with pytest.raises(UniRecordError, match="on a disk only"):
        unirecord.purge("s3://bucket/data", rows=[1])
    with pytest.raises(unirecord.MissingError):
        unirecord.purge(tmp_path / "nothing", rows=[1])


def erased_before(path: Path) -> None:
    """Deleted, and written anew without their bytes: the earlier version has them yet."""
    unirecord.delete(path, rows=[2, 9])
    unirecord.compact(path, drop_deleted=True)


def laid_out_with_them(path: Path) -> None:
    unirecord.delete(path, rows=[2, 9])
    unirecord.compact(path)


def laid_out_twice(path: Path) -> None:
    laid_out_with_them(path)
    unirecord.reshard(path, 3)


def sorted_before(path: Path) -> None:
    unirecord.delete(path, rows=[2, 9])
    unirecord.sort(path, "n", descending=True)


def gone_before(path: Path) -> None:
    erased_before(path)
    unirecord.gc(path, keep=1)


def deleted_and_restored(path: Path) -> None:
    unirecord.delete(path, rows=[2, 9])
    unirecord.restore(path, 3)


@pytest.mark.parametrize(
    ("before", "rows"),
    [(erased_before, 3), (laid_out_with_them, 3), (laid_out_twice, 3), (sorted_before, 3), (gone_before, 1),
     (deleted_and_restored, 1)],
)  # fmt: skip
def test_a_row_is_counted_once_however_many_parts_have_its_bytes(
    tmp_path: Path, before: Callable[[Path], None], rows: int
) -> None:
    path = written(tmp_path / "data")
    before(path)
    assert unirecord.purge(path, where="n == 7", dry_run=True).rows == rows
    found = unirecord.purge(path, where="n == 7")
    assert found.rows == rows
    assert found_in(path) == []
    assert unirecord.purge(path).rows == 0
