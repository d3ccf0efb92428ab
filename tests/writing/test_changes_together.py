"""Any two changes of a dataset at once: both are there, as if one came after the other, or one is refused by name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faults
import pytest
from objectstore import Server
from written_store import URL, served

import unirecord
from unirecord import SchemaError, StaleError, UniRecordDataset, UniRecordError
from unirecord.writing.directory_change import DirectoryChange
from unirecord.writing.object_change import ObjectChange

server = pytest.fixture(served)
ID = b"i" * 16
SCHEMA = {"n": "int64", "b": "bytes", "k": "int16"}


def row(n: int) -> dict[str, object]:
    return {"n": n, "b": bytes([n % 251]) * 50, "k": n % 3}


def append(path: str, *numbers: int) -> None:
    with unirecord.append(path) as writer:
        for n in numbers:
            writer.write({key: value for key, value in row(n).items() if key in writer.schema})


def replace(path: str, *numbers: int, **options: Any) -> None:
    with unirecord.Writer(
        path, SCHEMA, **{"overwrite": True, "id": None if "://" in path else ID, **options}
    ) as writer:
        for n in numbers:
            writer.write(row(n))


def make(path: str) -> None:
    """Three versions, of three parts of four rows."""
    replace(path, *range(4), overwrite=False)
    append(path, *range(4, 8))
    append(path, *range(8, 12))


def two_parts(path: str) -> int:
    """Bytes that two of the parts as they are made have, and three do not."""
    first = unirecord.snapshot.versions.read_version(path, 1).parts[0]
    return (first.bytes + first.index_bytes) * 5 // 2


def doubled(rows: dict[str, Any]) -> dict[str, Any]:
    return {"m": rows["n"] * 2}


CHANGES: dict[str, Callable[[str], object]] = {
    "append": lambda path: append(path, 20, 21),
    "delete": lambda path: unirecord.delete(path, where="n == 5"),
    "delete of a part": lambda path: unirecord.delete(path, where="n < 4"),
    "delete by number": lambda path: unirecord.delete(path, rows=[9]),
    "compact": unirecord.compact,
    "reshard": lambda path: unirecord.reshard(path, 2),
    "sort": lambda path: unirecord.sort(path, "n", descending=True),
    "evict": lambda path: unirecord.evict(path, two_parts(path)),
    "add columns": lambda path: unirecord.add_columns(path, {"m": "int64"}, doubled),
    "drop columns": lambda path: unirecord.drop_columns(path, "k"),
    "rename columns": lambda path: unirecord.rename_columns(path, {"b": "c"}),
    "restore": lambda path: unirecord.restore(path, 2),
    "update": lambda path: unirecord.update(path, {"n": [5, 9], "k": [50, 90]}, "n", missing="ignore"),
    "upsert": lambda path: unirecord.upsert(path, {"n": [6, 40], "k": [60, 40], "b": [b"6", b"40"]}, "n"),
    "set": lambda path: unirecord.set_values(path, "n == 5 or n == 20", {"k": 70}),
}
COLUMNS = {"add columns", "drop columns", "rename columns"}
CORRECTED = {"update", "upsert", "set"}
# What the first one began with is no more what it would change: (it, what others have done meanwhile).
REFUSED = {
    *((first, second) for first in ("append", "add columns") for second in COLUMNS),
    ("delete by number", "sort"),
    ("delete by number", "restore"),
}
# What it would change has been changed already, or has gone.
DONE = {
    ("delete by number", "delete by number"): IndexError,
    ("drop columns", "drop columns"): SchemaError,
    ("rename columns", "rename columns"): SchemaError,
    **{(first, "drop columns"): SchemaError for first in CORRECTED},
    ("upsert", "rename columns"): SchemaError,
    ("upsert", "add columns"): SchemaError,
}


def state(path: str) -> tuple[list[dict[str, Any]], list[int]]:
    with UniRecordDataset(path, shuffle=False) as ds:
        ids = ds.order.row_ids().tolist()
        return [
            {key: value if isinstance(value, bytes) else int(value) for key, value in one.items()}
            for one in ds
        ], ids


class Made:
    """Copies of one dataset, and what changes of it come to one after the other, each such row of them made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.whole = str(folder / "made")
        make(self.whole)
        self.states: dict[tuple[str, ...], tuple[list[dict[str, Any]], list[int]] | None] = {}

    def copy(self, path: str) -> str:
        return shutil.copytree(self.whole, path)

    def one_after_the_other(self, *changes: str) -> tuple[list[dict[str, Any]], list[int]] | None:
        """None where one of them is refused after those before it."""
        if changes not in self.states:
            path = self.copy(str(self.folder / "-".join(changes)))
            try:
                for change in changes:
                    CHANGES[change](path)
                self.states[changes] = state(path)
            except (UniRecordError, IndexError):
                self.states[changes] = None
        return self.states[changes]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with faults.unsynced():
        yield Made(tmp_path_factory.mktemp("made"))


def together(
    path: str, first: str, second: str | Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is made between the first one's work and its publication."""
    waiting = [CHANGES[second] if isinstance(second, str) else second]
    for kind in (DirectoryChange, ObjectChange):

        def publish(self: Any, after: Any, whole: Any = kind.publish) -> None:
            if waiting:
                waiting.pop()(path)
            whole(self, after)

        monkeypatch.setattr(kind, "publish", publish)
    try:
        CHANGES[first](path)
    finally:
        monkeypatch.undo()
        assert not waiting


@pytest.mark.parametrize("second", CHANGES)
@pytest.mark.parametrize("first", CHANGES)
def test_two_changes_at_once(first: str, second: str, made: Made, tmp_path: Path) -> None:
    path = made.copy(str(tmp_path / "d"))
    if (first, second) in REFUSED:
        with (
            pytest.MonkeyPatch.context() as patch,
            pytest.raises(StaleError, match=r"meanwhile|while this one"),
        ):
            together(path, first, second, patch)
        assert state(path) == made.one_after_the_other(second)
    elif (first, second) in DONE:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(DONE[first, second]):
            together(path, first, second, patch)
        assert state(path) == made.one_after_the_other(second)
    else:
        with pytest.MonkeyPatch.context() as patch:
            together(path, first, second, patch)
        assert state(path) in (
            made.one_after_the_other(second, first),
            made.one_after_the_other(first, second),
        )
    assert unirecord.verify(path).ok
    assert [name for name in os.listdir(path) if name.endswith(".tmp")] == []
    named = {
        name
        for listing in (
            unirecord.snapshot.versions.read_version(path, one.number) for one in unirecord.versions(path)
        )
        for name in unirecord.snapshot.versions.files_of(listing)
    }
    there = {name.removesuffix(".idx") for name in os.listdir(path) if name.startswith(("part", "parts"))}
    assert there == named


@pytest.mark.parametrize("first", ["compact", "reshard", "sort", "delete by number"])
def test_another_dataset_under_the_same_id_is_not_taken_for_it(
    first: str, made: Made, tmp_path: Path
) -> None:
    """Rows are not named by its numbers; what goes by what is there alone does so with it."""
    path = made.copy(str(tmp_path / "d"))
    with pytest.MonkeyPatch.context() as patch:
        if first == "delete by number":
            with pytest.raises(StaleError, match="meanwhile"):
                together(path, first, lambda path: replace(path, *range(30, 34)), patch)
        else:
            together(path, first, lambda path: replace(path, *range(30, 34)), patch)
    assert [one["n"] for one in state(path)[0]] == [30, 31, 32, 33][:: -1 if first == "sort" else 1]
    assert unirecord.verify(path).ok


@pytest.mark.parametrize("first", CHANGES)
def test_another_dataset_is_not_changed(first: str, made: Made, tmp_path: Path) -> None:
    path = made.copy(str(tmp_path / "d"))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StaleError, match="another dataset"):
        together(path, first, lambda path: replace(path, *range(30, 34), id=None), patch)
    assert [one["n"] for one in state(path)[0]] == [30, 31, 32, 33]


STORED = [
    ("append", "compact"),
    ("compact", "append"),
    ("compact", "delete"),
    ("compact", "compact"),
    ("sort", "append"),
    ("evict", "append"),
    ("delete", "delete of a part"),
    ("delete", "reshard"),
    ("reshard", "evict"),
    ("add columns", "delete"),
    ("drop columns", "rename columns"),
    ("restore", "append"),
    ("update", "append"),
    ("upsert", "append"),
    ("set", "update"),
    ("compact", "set"),
]


@pytest.mark.parametrize(("first", "second"), STORED)
def test_two_changes_at_once_in_an_object_store(
    first: str, second: str, server: Server, made: Made, tmp_path: Path
) -> None:
    """As on a disk: what `test_two_changes_at_once` finds there for these two."""
    make(URL)
    with pytest.MonkeyPatch.context() as patch:
        if (first, second) in REFUSED:
            with pytest.raises(StaleError, match=r"meanwhile|while this one"):
                together(URL, first, second, patch)
            assert state(URL) == made.one_after_the_other(second)
            return
        together(URL, first, second, patch)
    with pytest.MonkeyPatch.context() as patch:
        together(made.copy(str(tmp_path / "d")), first, second, patch)
    assert state(URL) == state(str(tmp_path / "d"))
    assert unirecord.verify(URL).ok


def test_a_publication_that_is_tried_again_leaves_no_file_of_the_first_try(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new part has deleted rows, which are written for the version that is there, each time."""
    make(URL)
    unirecord.delete(URL, rows=[2])
    whole, waiting = ObjectChange.publish, [lambda: unirecord.delete(URL, rows=[3])]

    def publish(self: Any, after: Any) -> None:
        if waiting:
            waiting.pop()()
        whole(self, after)

    monkeypatch.setattr(ObjectChange, "publish", publish)
    unirecord.compact(URL)
    numbers = [one.number for one in unirecord.versions(URL)]
    listings = [unirecord.snapshot.versions.read_version(URL, number) for number in numbers]
    named = {name for listing in listings for name in unirecord.snapshot.versions.files_of(listing)}
    there = {name for name in os.listdir(server.root / "bucket" / "train") if ".del-" in name}
    assert there <= named
    assert [one["n"] for one in state(URL)[0]] == [0, 1, *range(4, 12)]
