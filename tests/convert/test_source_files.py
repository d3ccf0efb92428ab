"""A conversion that was stopped does not go on when a file of its source, or an option of the source, is another."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord import StaleError, UniRecordDataset
from unirecord.convert.conversion import Conversion, stamps_of
from unirecord.convert.row_order import RowOrder, in_order
from unirecord.convert.sources.given import GivenRecords, GivenTable
from unirecord.convert.sources.kinds import open_source
from unirecord.convert.sources.source import Options, Source
from unirecord.convert.steps import SteppedSource
from unirecord.writing.change import Interrupted


class Stopped(Exception):
    """Raised before a conversion is published."""


def stop() -> None:
    raise Stopped


def convert(target: Path, source: Source, stopped: bool = False, **options: Any) -> int:
    spec = Conversion(source, str(target), source.schema, id=bytes(16), **options)
    return spec.run(before_publishing=stop if stopped else None)[0]


def opened(path: Path, kind: str | None = None, **asked: Any) -> Source:
    return open_source(str(path), kind, Options(**asked))


def texts(folder: Path) -> Path:
    (folder / "in" / "b").mkdir(parents=True)
    for name in ("1.txt", "2.txt", "b/3.txt"):
        (folder / "in" / name).write_text(f"this is {name}")
    return folder / "in"


@pytest.mark.parametrize("stepped", [False, True])
def test_a_file_that_has_changed_is_named(tmp_path: Path, stepped: bool) -> None:
    def source() -> Source:
        found = opened(tmp_path / "in", "files")
        return SteppedSource(found, ()) if stepped else found

    place = texts(tmp_path)
    with pytest.raises(Stopped):
        convert(tmp_path / "out", source(), stopped=True)
    (place / "b" / "3.txt").write_text("this is 4.txt.")
    with pytest.raises(StaleError, match=r"in/b/3\.txt has changed .*without resume it begins anew"):
        convert(tmp_path / "out", source(), resume=True)
    assert (tmp_path / ".out.tmp").exists()  # it changes nothing
    assert convert(tmp_path / "out", source()) == 3
    assert "this is 4.txt." in [row["text"] for row in UniRecordDataset(tmp_path / "out")]


def test_the_time_of_change_tells_what_the_size_does_not(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("n\n1\n2\n")
    with pytest.raises(Stopped):
        convert(tmp_path / "out", opened(table), stopped=True)
    table.write_text("n\n1\n3\n")
    os.utime(table, ns=(1, 1))
    with pytest.raises(StaleError, match=r"a\.csv has changed"):
        convert(tmp_path / "out", opened(table), resume=True)


def test_a_file_beside_that_is_not_read_may_change(tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    np.save(place / "a.npy", np.arange(2))
    with pytest.raises(Stopped):
        convert(tmp_path / "out", opened(place), stopped=True)
    (place / "log").write_text("a line")
    seen: list[int] = []
    spec = Conversion(opened(place), str(tmp_path / "out"), opened(place).schema, id=bytes(16), resume=True)
    assert spec.run(lambda standing: seen.append(standing.resumed))[0] == 2
    assert max(seen) == 1  # what was finished was taken up


def test_an_option_of_the_source_is_compared(tmp_path: Path) -> None:
    texts(tmp_path)
    with pytest.raises(Stopped):
        convert(tmp_path / "out", opened(tmp_path / "in", "files", pattern="*.txt"), stopped=True)
    for source in (opened(tmp_path / "in", "files"), SteppedSource(opened(tmp_path / "in", "files"), ())):
        with pytest.raises(StaleError, match=r"--pattern differs?"):
            convert(tmp_path / "out", source, resume=True)
    again = opened(tmp_path / "in", "files", pattern="*.txt")
    assert convert(tmp_path / "out", again, resume=True) == 3


def test_a_table_of_labels_is_a_file_of_the_source(tmp_path: Path) -> None:
    place, table = texts(tmp_path), tmp_path / "labels.csv"
    table.write_text("file,label\n1.txt,1\n2.txt,2\nb/3.txt,3\n")
    with pytest.raises(Stopped):
        convert(tmp_path / "out", opened(place, "files", labels=str(table)), stopped=True)
    table.write_text("file,label\n1.txt,1\n2.txt,2\nb/3.txt,33\n")
    with pytest.raises(StaleError, match=r"labels\.csv has changed"):
        convert(tmp_path / "out", opened(place, "files", labels=str(table)), resume=True)


def test_rows_in_order_are_of_the_same_files(tmp_path: Path) -> None:
    """The rows that a stopped ``--sort`` has kept are not those of a file that has changed."""
    table, order = tmp_path / "a.csv", RowOrder(sort="n")
    table.write_text("n\n2\n1\n")
    with (
        pytest.raises(Interrupted),
        in_order(opened(table), order, str(tmp_path / "out"), workers=1, resume=False, options={}),
    ):
        raise KeyboardInterrupt
    table.write_text("n\n4\n3\n")
    os.utime(table, ns=(1, 1))
    with (
        pytest.raises(StaleError, match=r"has changed .*since the run that was stopped"),
        in_order(opened(table), order, str(tmp_path / "out"), workers=1, resume=True, options={}),
    ):
        pass


@given(
    many=st.integers(1, 60), which=st.integers(0, 59), kind=st.sampled_from(["size", "time", "gone", "name"])
)
def test_any_change_of_any_file_is_seen(
    tmp_path_factory: pytest.TempPathFactory, many: int, which: int, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / f"{i}" for i in range(many)]
    for path in paths:
        path.write_bytes(b"1234")
        os.utime(path, ns=(5, 5))
    before = stamps_of(map(str, paths))
    assert stamps_of(map(str, reversed(paths))) == before
    changed = paths[which % many]
    if kind == "size":
        changed.write_bytes(b"12345")
        os.utime(changed, ns=(5, 5))
    elif kind == "time":
        os.utime(changed, ns=(5, 6))
    elif kind == "gone":
        changed.unlink()
    else:
        paths[which % many] = changed.rename(folder / "other")
    assert stamps_of(map(str, paths)) != before
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "opened_again",
    [
        lambda: GivenRecords([{"i": i} for i in range(5)], Options()),
        lambda: GivenTable(pa.table({"i": range(5)}), Options()),
    ],
    ids=["records", "a table"],
)
def test_rows_in_memory_are_made_of_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened_again: Callable[[], Source]
) -> None:
    folder = tmp_path / "where it runs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert list(opened_again().files()) == []
    with pytest.raises(Stopped):
        convert(tmp_path / "data", opened_again(), stopped=True)
    (folder / "another file").touch()
    os.utime(folder, ns=(5, 5))
    assert convert(tmp_path / "data", opened_again(), resume=True) == 5
