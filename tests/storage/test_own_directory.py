"""What others plant where files are written: links in directories that are shared, and directories that are others'."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.storage.cache import CacheDirectory, paths_of
from unirecord.storage.own_directory import own_directory
from unirecord.storage.staged import Attempts

URL = "s3://bucket/train"
PRECIOUS = b"precious\n" * 10


def symbolic(victim: Path, place: Path) -> None:
    place.symlink_to(victim)


def hard(victim: Path, place: Path) -> None:
    place.hardlink_to(victim)


def pipe(victim: Path, place: Path) -> None:
    os.mkfifo(place)


def unless_refused(step: Callable[[], Any]) -> Any:
    """What it gives; None where it is refused, with what to do."""
    try:
        return step()
    except OSError as error:
        said = str(error)
    assert "choose a directory of your own" in said
    return None


@pytest.mark.parametrize("plant", [symbolic, hard, pipe])
@pytest.mark.parametrize("which", ["cache.lock", "cache.key", "journal", "bytes"])
def test_nothing_planted_in_a_cache_is_written_to(
    tmp_path: Path, which: str, plant: Callable[[Path, Path], None]
) -> None:
    """Not even by somebody who knows the names."""
    cache, victim = tmp_path / "cache", tmp_path / "notes.txt"
    cache.mkdir(0o755)
    victim.write_bytes(PRECIOUS)
    journal, content = map(Path, paths_of(str(cache), URL))
    place = {"journal": journal, "bytes": content}.get(which, cache / which)
    place.unlink(missing_ok=True)
    plant(victim, place)
    segment = unless_refused(lambda: CacheDirectory(str(cache), 1 << 26).open_segment(URL))
    if segment is not None:
        segment.close()
    unless_refused(lambda: CacheDirectory(str(cache), 0).segments())
    unless_refused(lambda: CacheDirectory(str(cache), 0).clear([]))
    assert victim.read_bytes() == PRECIOUS


def test_names_in_a_cache_are_known_to_nobody_else(tmp_path: Path) -> None:
    names = set()
    for folder in ("a", "b"):
        own_directory(str(tmp_path / folder))
        names.add(os.path.basename(paths_of(str(tmp_path / folder), URL)[0]))
        assert paths_of(str(tmp_path / folder), URL) == paths_of(str(tmp_path / folder), URL)
        assert (tmp_path / folder / "cache.key").stat().st_mode & 0o777 == 0o600
    assert len(names) == 2


def _cache(folder: Path) -> object:
    return CacheDirectory(str(folder), 1 << 20)


def _samples(folder: Path) -> object:
    return unirecord.samples_cache(_no_samples, folder, "1MB", schema={"n": "int64"})


def _no_samples(producer: int, producers: int) -> Iterator[dict[str, Any]]:
    yield from ()


@pytest.mark.parametrize("use", [_cache, _samples])
def test_a_directory_that_others_may_write_to_is_refused(
    tmp_path: Path, use: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for mode in (0o777, 0o775, 0o757, 0o1777):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(PermissionError, match="others may write to it: chmod go-w"):
            use(folder)
        assert not list(folder.iterdir())
    (tmp_path / "other").mkdir(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        use(tmp_path / "other")
    assert not list((tmp_path / "other").iterdir())
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(PermissionError, match="another user"):
        use(tmp_path / "link")


def test_a_directory_that_is_made_is_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        own_directory(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o755
    own_directory(str(tmp_path / "a" / "b"))
    (tmp_path / "mine").symlink_to(tmp_path / "a" / "b")
    own_directory(str(tmp_path / "mine"))


def _export(folder: Path) -> None:
    unirecord.export(folder / "d.urec", folder / "out", "parquet")


def _write(folder: Path) -> None:
    with Writer(folder / "out", {"n": "int64"}) as writer:
        writer.write({"n": 1})


def _convert(folder: Path) -> None:
    unirecord.write_dataset(folder / "d.urec", folder / "out", resume=True)


def _sort(folder: Path) -> None:
    unirecord.write_dataset(folder / "d.urec", folder / "out", sort="n")


def _attempts(folder: Path) -> None:
    Attempts(str(folder / "out")).start(orphan_seconds=-1.0)


def _append(folder: Path) -> None:
    with unirecord.append(folder / "there") as writer:
        writer.write({"n": 1})


def _add_columns(folder: Path) -> None:
    unirecord.add_columns(folder / "there", {"m": "int64"}, lambda batch: {"m": batch["n"]}, resume=True)


PLANTED = [
    (_export, ".out.tmp"),
    (_export, ".out.old.tmp"),
    (_write, ".out.tmp"),
    (_convert, ".out.tmp"),
    (_sort, ".out.unordered"),
    (_attempts, ".out.attempts"),
    (_append, f"there/.append-{'0' * 32}.tmp"),
    (_add_columns, f"there/.append-{'0' * 32}.tmp"),
]


@pytest.mark.parametrize("of", ["link", "folder"])
@pytest.mark.parametrize(("use", "name"), PLANTED)
def test_folders_that_others_have_planted_are_left_alone(
    tmp_path: Path, use: Callable[[Path], None], name: str, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link leads to somebody's dataset; a folder is another user's."""
    victim = tmp_path / "victim"
    unirecord.write_dataset([{"n": i} for i in range(5)], victim)
    (victim / "notes").mkdir()
    (victim / "notes" / "a.txt").write_bytes(PRECIOUS)
    with Writer(tmp_path / "d.urec", {"n": "int64"}) as writer:
        writer.write({"n": 1})
    unirecord.write_dataset([{"n": 1}], tmp_path / "there")
    place = tmp_path / name
    if of == "link":
        place.symlink_to(victim)
    else:
        victim.rename(place)
        lstat = os.lstat

        def of_other(path: Any, **options: Any) -> os.stat_result:
            found = lstat(path, **options)
            if os.path.samestat(found, lstat(place)):
                return os.stat_result((*found[:4], os.getuid() + 1, *found[5:]))
            return found

        monkeypatch.setattr(os, "lstat", of_other)
    unless_refused(lambda: use(tmp_path))
    monkeypatch.undo()
    assert (place / "notes" / "a.txt").read_bytes() == PRECIOUS
    with UniRecordDataset(place) as ds:
        assert [row["n"] for row in ds] == list(range(5))
