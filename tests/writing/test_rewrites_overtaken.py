"""Parts that are laid out anew while others change the dataset: it is done of what has become of the rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faults
import pytest
from changed_datasets import named_by, parts_of, seen_versions
from objectstore import Server
from rewritten import REWRITES, expected, make_small_parts, rows_of
from sweeps import stride
from writing import files
from written_store import URL, folder, served

import unirecord
from unirecord import SchemaError, StaleError, UniRecordDataset, UniRecordError
from unirecord.cli import main
from unirecord.writing import rewrite
from unirecord.writing.change import Interrupted, PartTasks
from unirecord.writing.directory_change import DirectoryChange
from unirecord.writing.object_change import ObjectChange

KINDS: dict[str, Callable[..., Any]] = {
    **REWRITES,
    "one part": unirecord.compact,
    "one part sorted": lambda path, **options: unirecord.sort(path, "n", descending=True, **options),
}


def append(path: Any) -> None:
    with unirecord.append(path) as writer:
        for n in (50, 51):
            writer.write({name: {"n": n, "b": b"a" * 9_000, "m": n}[name] for name in writer.schema.names})


CHANGES: dict[str, Callable[[Any], object]] = {
    "append": append,
    "delete": lambda path: unirecord.delete(path, where="n == 1 or n == 22"),
    "a patch": lambda path: unirecord.set_values(path, "n == 2", {"m": 77}),
    "a column part": lambda path: unirecord.set_values(path, "n == 16", {"b": b"!" * 9_000}),
    "columns added": lambda path: unirecord.add_columns(
        path, {"k": "int64"}, lambda rows: {"k": -rows["n"]}, reads=["n"]
    ),
    "a column dropped": lambda path: unirecord.drop_columns(path, "m"),
    "a column renamed": lambda path: unirecord.rename_columns(path, {"b": "c"}),
    "compact": lambda path: unirecord.compact(path, rows_per_part=9),
    "reshard": lambda path: unirecord.reshard(path, 2),
    "sort": lambda path: unirecord.sort(path, "m"),
    "evict": lambda path: unirecord.evict(path, 180_000),
    "restore": lambda path: unirecord.restore(path, 9),
    "rows restored": lambda path: unirecord.restore(path, 10),
}
MOMENTS = (-1, 2, 0)  # at its end, behind so many parts, before the first one


def moments(kind: str, change: str) -> tuple[int, ...]:
    """One of them, another for the next pair (`make sweeps`: each)."""
    step = stride(1, len(MOMENTS))
    return MOMENTS[(list(KINDS).index(kind) + list(CHANGES).index(change)) % step :: step]


@pytest.fixture(autouse=True)
def _unsynced() -> Iterator[None]:
    with faults.unsynced():
        yield


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rewrites") / "x"
    with faults.unsynced():
        make_small_parts(path)
    return path


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    yield from served(tmp_path, monkeypatch)


def state(path: Any) -> tuple[list[dict[str, Any]], list[int]]:
    with UniRecordDataset(path, shuffle=False) as ds:
        rows = [{name: one if type(one) is bytes else int(one) for name, one in row.items()} for row in ds]
        return rows, ds.order.row_ids().tolist()


def disturbed(
    kind: str,
    path: Any,
    change: Callable[[Any], object],
    moment: int,
    *,
    times: int = 1,
    **options: Any,
) -> tuple[Any, int]:
    """What it gives when the change is made so many times: behind a number of parts, or (-1) as it publishes.

    And how many parts were written.
    """
    waiting, written = [change] * times, 0
    finish = PartTasks.finish

    def disturb() -> None:
        if waiting:
            with pytest.MonkeyPatch.context() as patch:  # what it writes itself is not counted
                patch.setattr(PartTasks, "finish", finish)
                waiting.pop()(path)

    def finishes(self: PartTasks, *given: Any) -> None:
        nonlocal written
        if written == moment:
            disturb()
        finish(self, *given)
        written += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartTasks, "finish", finishes)
        patch.setattr(rewrite, "usable_cores", lambda: 1)
        for one in (DirectoryChange, ObjectChange):

            def publish(self: Any, after: Any, whole: Any = one.publish) -> None:
                is_own = getattr(after, "__qualname__", "").startswith(("_laid_out", "_sorted"))
                if waiting and (moment < 0 or moment >= written) and is_own:
                    disturb()
                whole(self, after)

            patch.setattr(one, "publish", publish)
        found = KINDS[kind](path, **options)
    assert len(waiting) == 0 or times > 1
    return found, written


def check_nothing_left(path: Path) -> None:
    assert not [name for name in files(path) if name.startswith(".")]
    named = {name for number in seen_versions(path) for name in named_by(path, number)}
    assert {name.removesuffix(".idx") for name in files(path) if name.startswith("part")} == named


def one_after_the_other(kind: str, change: str, ready: Path, place: Path) -> list[Any]:
    """What both come to, in either order; None where the second one is refused then."""
    found: list[Any] = []
    for works in ((CHANGES[change], KINDS[kind]), (KINDS[kind], CHANGES[change])):
        path = shutil.copytree(ready, place / f"serial {len(found)}")
        try:
            for work in works:
                work(path)
            found.append(state(path))
        except UniRecordError:
            found.append(None)
    return found


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_as_if_one_had_come_after_the_other(
    kind: str, change: str, ready: Path, tmp_path: Path
) -> None:
    serial = one_after_the_other(kind, change, ready, tmp_path)
    for moment in moments(kind, change):
        path = Path(shutil.copytree(ready, tmp_path / str(moment)))
        disturbed(kind, path, CHANGES[change], moment)
        assert state(path) in serial, moment
        assert unirecord.verify(path).ok
        check_nothing_left(path)


@pytest.mark.parametrize("change", ["append", "delete", "a patch", "columns added", "compact", "evict"])
@pytest.mark.parametrize("kind", ["compact", "drop deleted", "sort", "one part"])
def test_in_a_store_it_is_as_on_a_disk(
    kind: str, change: str, ready: Path, server: Server, tmp_path: Path
) -> None:
    for moment in moments(kind, change):
        there = folder(server)
        shutil.copytree(ready, there)
        before = set(files(there))
        disturbed(kind, URL, CHANGES[change], moment)
        path = shutil.copytree(ready, tmp_path / str(moment))
        disturbed(kind, path, CHANGES[change], moment)
        assert state(URL) == state(path)
        assert parts_of(there) == parts_of(Path(path))
        assert unirecord.verify(URL).ok
        assert not [one for one in set(files(there)) - before if one.startswith(".")]
        named = {one for number in seen_versions(there) for one in named_by(there, number)}
        assert {one.removesuffix(".idx") for one in files(there) if one.startswith("part")} == named
        shutil.rmtree(there)


@pytest.mark.parametrize("kind", ["compact", "drop deleted", "join columns", "reshard"])
def test_only_parts_whose_rows_have_changed_are_written_again(
    kind: str, ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    told: list[tuple[int, int]] = []
    done, written = disturbed(kind, path, CHANGES["a patch"], -1, progress=lambda *now: told.append(now))
    number = unirecord.versions(path)[-2].number
    rows = parts_of(path)[0]
    assert written == done.written + 1
    assert done.resumed == 0
    assert capsys.readouterr().err == (
        f"unirecord: {path}: version {number} (set) has come meanwhile: 1 of {done.written} parts are written "
        f"again, of {rows} rows\n"
    )
    assert told[-1][0] == told[-1][1]
    assert rows_of(path) == [(n, b, 77 if n == 2 else m) for n, b, m in expected(kind)]


def test_a_sort_says_that_it_begins_again(
    ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    disturbed("sort", path, CHANGES["delete"], -1)
    assert "(delete) has come meanwhile: 20 rows are sorted again\n" in capsys.readouterr().err


def test_it_ends_where_others_come_first_again_and_again(ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    value = iter(range(100, 200))

    def correct(path: Path) -> None:
        unirecord.set_values(path, "n == 2", {"m": next(value)})

    with pytest.raises(StaleError, match=r"8 times over.*4 finished parts are kept.*--resume"):
        disturbed("compact", path, correct, -1, times=20)
    before = state(path)
    done = KINDS["compact"](path, resume=True)
    assert (done.written, done.resumed) == (4, 3)
    assert state(path) == before
    check_nothing_left(path)
    with pytest.raises(StaleError, match=r"8 times over.*run the same"):
        disturbed("one part", path, correct, -1, times=20)
    check_nothing_left(path)


@pytest.mark.parametrize("stored", [False, True])
def test_another_version_may_come_just_as_it_begins_again(
    stored: bool, ready: Path, server: Server, tmp_path: Path
) -> None:
    """Between the look at what is there and its opening: twice."""
    path = shutil.copytree(ready, folder(server) if stored else tmp_path / "x")
    waiting = [88, 99]

    def renewed(self: Any, whole: Any) -> None:
        whole(self)
        if waiting:
            unirecord.set_values(URL if stored else path, "n == 4", {"m": waiting.pop(0)})

    with pytest.MonkeyPatch.context() as patch:
        for one in (DirectoryChange, ObjectChange):
            patch.setattr(one, "renew", lambda self, whole=one.renew: renewed(self, whole))
        _, written = disturbed("compact", URL if stored else path, CHANGES["a patch"], -1)
    assert (written, waiting) == (5, [])
    corrected = {2: 77, 4: 99}
    assert rows_of(path) == [(n, b, corrected.get(n, m)) for n, b, m in expected("compact")]
    assert not [name for name in files(Path(path)) if name.startswith((".append", ".conversion", ".task"))]


def test_where_it_is_left_a_later_run_goes_on(ready: Path, tmp_path: Path) -> None:
    """Ctrl-C when it has begun again: what was finished before that is kept as well."""
    path = Path(shutil.copytree(ready, tmp_path / "x"))

    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "_say_again", stops)
        with pytest.raises(Interrupted, match="3 finished parts are kept"):
            disturbed("compact", path, CHANGES["a patch"], -1)
    done = KINDS["compact"](path, resume=True)
    assert (done.written, done.resumed) == (4, 3)
    assert rows_of(path) == [(n, b, 77 if n == 2 else m) for n, b, m in expected("compact")]
    check_nothing_left(path)


def test_what_it_goes_by_may_have_gone(ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    with pytest.raises(SchemaError, match="'n'"):
        disturbed("sort", path, lambda path: unirecord.drop_columns(path, "n"), -1)
    check_nothing_left(path)
    with pytest.raises(ValueError, match="a part has one row at least"):
        disturbed("reshard", path, lambda path: unirecord.evict(path, 40_000), -1)
    assert parts_of(path) == [3]
    unirecord.reshard(path, 3)
    check_nothing_left(path)


SECRETS = (3, 10, 20)


@pytest.mark.parametrize(
    "change", [one for one in CHANGES if one not in ("delete", "restore", "rows restored")]
)
def test_a_purge_goes_on_and_leaves_nothing_of_the_rows(change: str, ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    KINDS["purge"] = lambda path: unirecord.purge(path, where="n == 10")
    try:
        found, _ = disturbed("purge", path, CHANGES[change], -1)
    finally:
        del KINDS["purge"]
    assert found.unnamed == ()
    every = b"".join(file.read_bytes() for file in path.iterdir() if file.is_file())
    assert all(bytes([n]) * 9_000 not in every for n in SECRETS)
    assert not {row["n"] for row in state(path)[0]} & set(SECRETS)
    assert len(unirecord.versions(path)) == 1
    check_nothing_left(path)


def test_a_purge_says_so_where_its_rows_have_been_restored(ready: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    KINDS["purge"] = lambda path: unirecord.purge(path, where="n == 10")
    try:
        with pytest.raises(StaleError, match=r"has restored an earlier one.*purge them again"):
            disturbed("purge", path, CHANGES["rows restored"], -1)
    finally:
        del KINDS["purge"]
    assert 10 in {row["n"] for row in state(path)[0]}
    assert unirecord.purge(path, where="n == 10").rows == 1


def test_the_command_says_so_and_goes_on(
    ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(ready, tmp_path / "x"))
    KINDS["command"] = lambda path: main(["compact", os.fspath(path), "--rows-per-part", "6"])
    try:
        code, _ = disturbed("command", path, CHANGES["a patch"], -1)
    finally:
        del KINDS["command"]
    assert code == 0
    said = capsys.readouterr()
    assert "has come meanwhile: 1 of 4 parts are written again" in said.err
    assert said.err.count("\n") == 1
