"""Rows written in another order: exactly, with any number of workers, gone on with after any kill, nothing left."""

from __future__ import annotations

import errno
import os
import random
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from numbers_converted import check_refused
from numbers_source import Numbers, values
from objectstore import Server
from written_store import served, spooled

from unirecord import StaleError, UniRecordDataset, write_dataset
from unirecord.cli import main
from unirecord.convert import row_order, task
from unirecord.convert.sources import WrongSourceError
from unirecord.writing.change import Interrupted

server = pytest.fixture(served)
ID = bytes(range(16))
UNITS = [130, 70, 1, 300, 0, 220, 90]
ROWS = sum(UNITS)


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 20_000)
    monkeypatch.setattr(row_order, "_UNIT_BYTES", 10_000)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("options", [{"shuffle_seed": 5}, {"sort": "name"}])
def test_the_order_is_exact_and_the_same_with_any_number_of_workers(
    options: dict[str, Any], tmp_path: Path
) -> None:
    for workers in (1, 2):
        target = tmp_path / str(workers)
        assert write_dataset(Numbers(tmp_path, UNITS), target, workers=workers, id=ID, **options) == ROWS
    assert files(tmp_path / "1") == files(tmp_path / "2")
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "one.urec", **options)
    assert sorted(os.listdir(tmp_path)) == ["1", "2", "one.urec", "one.urec.idx"]
    rows = list(UniRecordDataset(tmp_path / "1"))
    assert rows == list(UniRecordDataset(tmp_path / "one.urec"))
    order = [row["n"] for row in rows]
    assert all(row == values(row["n"]) for row in rows)
    if "sort" in options:
        assert order == sorted(range(ROWS), key=lambda n: (values(n)["name"], n))
    else:
        assert sorted(order) == list(range(ROWS))
        assert abs(np.corrcoef(order, np.arange(ROWS))[0, 1]) < 0.15
        write_dataset(Numbers(tmp_path, UNITS), tmp_path / "other", shuffle_seed=6, limit=20)
        other = [row["n"] for row in UniRecordDataset(tmp_path / "other")]
        assert len(other) == 20
        assert other != order[:20]


@pytest.mark.parametrize("options", [{"shuffle_seed": 5}, {"sort": "name"}])
def test_the_order_in_an_object_store_is_that_on_a_disk(
    options: dict[str, Any], server: Server, tmp_path: Path
) -> None:
    for target in ("s3://bucket/ordered", str(tmp_path / "ordered")):
        assert write_dataset(Numbers(tmp_path, UNITS), target, **options) == ROWS
    with UniRecordDataset("s3://bucket/ordered") as stored, UniRecordDataset(tmp_path / "ordered") as local:
        assert list(stored) == list(local)
    assert spooled(server) == []


def test_every_type_of_value_comes_through_and_nulls_are_last(tmp_path: Path) -> None:
    nan = float("nan")
    rows = [
        {"i": None, "f": 2.5, "s": "b", "t": "long" * 9, "o": {"a": [1, None]}, "b": b"", "a": np.arange(3), "k": True},
        {"i": -3, "f": nan, "s": None, "t": "", "o": None, "b": b"xy", "a": np.arange(0), "k": False},
        {"i": 7, "f": -1.0, "s": "a", "t": "x", "o": {"z": 5}, "b": None, "a": np.arange(9), "k": True},
    ]  # fmt: skip
    schema = {
        "i": "int16?", "f": "float32", "s": "string?", "t": "text", "o": "object", "b": "bytes?", "a": "int64[-1]",
        "k": "bool",
    }  # fmt: skip
    for column, order in (("i", [1, 2, 0]), ("f", [2, 0, 1]), ("s", [2, 0, 1]), ("k", [1, 0, 2])):
        target = tmp_path / column
        write_dataset(rows, target, schema=schema, sort=column)
        found = list(UniRecordDataset(target))
        for row, place in zip(found, order, strict=True):
            wanted = rows[place]
            np.testing.assert_array_equal(row.pop("a"), wanted["a"])
            np.testing.assert_equal(row, {name: value for name, value in wanted.items() if name != "a"})


@pytest.mark.parametrize("seed", range(6))
def test_killed_anywhere_it_goes_on_and_leaves_nothing(seed: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"shuffle_seed": 3, "id": ID}
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "whole", **options)
    chance, target = random.Random(seed), tmp_path / "out"
    for _ in range(60):
        alive = not faults.killed(
            lambda: write_dataset(Numbers(tmp_path, UNITS), target, resume=True, **options) and None,
            chance.randint(1, 260),
            chance.random() < 0.5,
        )
        if alive or target.exists():
            break
    found = {name: data for name, data in files(target).items() if not name.startswith(".")}
    assert found == files(tmp_path / "whole")
    if alive:
        assert sorted(os.listdir(tmp_path)) == ["out", "whole"]


@pytest.mark.parametrize("name", ["out", "out.urec"])
def test_nothing_lies_beside_what_is_published_wherever_it_is_killed(name: str, tmp_path: Path) -> None:
    resumes: dict[str, Any] = {} if name.endswith(".urec") else {"resume": True}
    folder = tmp_path / "d"

    def work(**options: Any) -> None:
        write_dataset(Numbers(folder, [60, 5]), folder / name, sort="name", id=ID, **options)

    folder.mkdir()
    with faults.system(lambda number, call: None) as calls:
        work()
    whole = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    left = set()
    for at in range(calls.count - 44, calls.count + 1, 4):
        shutil.rmtree(folder)
        folder.mkdir()
        assert faults.killed(work, at, torn=False)
        if (folder / name).exists():
            assert [one for one in os.listdir(folder) if "unordered" in one] == []
        else:
            left |= {one for one in os.listdir(folder) if "unordered" in one}
            work(**resumes)
            found = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            assert found == whole
    assert f".{name}.unordered" in left


def test_ctrl_c_in_either_stage_and_another_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"sort": "n", "id": ID}
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "whole", **options)

    def stops(*_: Any) -> Any:
        raise KeyboardInterrupt

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "no space")

    def broken(*_: Any) -> Any:
        raise OSError(errno.EIO, "broken")

    for stop, error in ((full, OSError), (broken, OSError), (stops, Interrupted)):
        with monkeypatch.context() as patched:
            patched.setattr(row_order.StoredRows, "read", stop)
            with pytest.raises(error, match=r"rows that were read are kept: .* --resume .* goes on") as said:
                write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", **options)
            assert str(said.value).count("--resume") == 1
        assert not (tmp_path / "out").exists()
    for other in ({"where": "n > 3"}, {"columns": ["n"]}, {"on_error": "skip"}):
        [option] = other
        said = rf"another conversion: .*--{option.replace('_', '-')}.* differs?;"
        with pytest.raises(StaleError, match=said):
            write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", resume=True, **{**options, **other})
    with monkeypatch.context() as patched:
        patched.setattr(Numbers, "read", stops)  # what was read is not read again, but to compare some
        with pytest.raises(StaleError, match="another conversion"):
            write_dataset(Numbers(tmp_path, UNITS[:-1]), tmp_path / "out", resume=True, **options)
        assert write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", resume=True, **options) == ROWS
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["out", "whole"]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"sort": "nam"}, WrongSourceError, "not among the columns"),
        ({"sort": "blob"}, WrongSourceError, "rows are sorted by numbers"),
        ({"sort": "n", "columns": ["name"]}, WrongSourceError, "not among the columns"),
        ({"sort": "n", "shuffle_seed": 1}, ValueError, "exclude each other"),
        ({"shuffle_seed": -1}, ValueError, "64 bits"),
        ({"shuffle_seed": 1, "split": {"a": 0.5, "b": 0.5}}, ValueError, "split first"),
    ],
)
def test_what_cannot_be_obeyed_is_refused(
    options: dict[str, Any], error: type[Exception], text: str, tmp_path: Path
) -> None:
    check_refused(options, error, text, tmp_path)


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,cls\n" + "".join(f"{i},c{i % 3}\n" for i in range(300)))
    call = [
        "write",
        str(table),
        str(tmp_path / "out"),
        "--sort",
        "kind",
        "--rename",
        "cls=kind",
        "--limit",
        "150",
    ]
    assert main([*call, "--dry-run"]) == 0
    assert "--sort kind" in capfd.readouterr().out
    assert main([*call, "--on-error", "report"]) == 0
    rows = list(UniRecordDataset(tmp_path / "out"))
    assert [row["id"] for row in rows] == [*range(0, 300, 3), *range(1, 150, 3)]
    assert main([*call[:3], "--sort", "id", "--shuffle-seed", "1"]) == 2
    assert main([*call[:2], str(tmp_path / "x"), "--sort", "cls", "--rename", "cls=kind"]) == 2
    assert sorted(os.listdir(tmp_path)) == ["out", "out.left-out.jsonl", "t.csv"]


def test_memory_of_a_random_order_does_not_grow_with_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_order, "_UNIT_BYTES", 40_000)
    peaks = []
    for rows in (4_000, 32_000):
        like = Numbers(tmp_path, [10])
        write_dataset([{"n": n, "s": f"text {n}"} for n in range(rows)], tmp_path / str(rows))
        source = row_order.StoredRows(str(tmp_path / str(rows)), row_order.RowOrder(shuffle_seed=1), like, "")
        tracemalloc.start()
        assert sum(batch.rows for batch in source.batches()) == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        source.close()
    assert peaks[1] < 1.5 * peaks[0] + 200_000
