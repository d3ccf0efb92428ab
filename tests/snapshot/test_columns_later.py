"""Datasets whose columns have changed: rows that come and go, other layouts, damage, other writers, the commands."""

from __future__ import annotations

import errno
import os
import random
import sys
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from columns_changed import IOS, NEW, SCHEMA, add, captions, column, make, numbers, row
from reference_directory import read_directory
from writing import files

import unirecord
from unirecord import MissingError, SchemaError, StaleError, TransformError, UniRecordDataset, UniRecordError
from unirecord.cli import main


def test_rows_that_come_later_have_all_columns_in_one_file(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    add(path)
    with faults.unsynced():
        with pytest.raises(SchemaError), unirecord.append(path) as writer:
            writer.write(row(6))
        with unirecord.append(path) as writer:
            for n in range(6, 20):
                writer.write({**row(n), "caption": f"k{n} of {n}", "square": n * n})
    assert column(path, "caption") == [f"k{n} of {n}" for n in range(20)]
    assert column(path, "n", where="square >= 25 and square < 64") == [5, 6, 7]
    for io in IOS:
        with UniRecordDataset(path, io=io, shuffle=True, seed=2) as ds:  # type: ignore[arg-type]
            for batch in ds.batches(6):
                assert list(batch["caption"]) == captions(batch)["caption"]
                assert list(batch["t"]) == [row(n)["t"] for n in batch["n"]]
    with faults.unsynced():
        unirecord.drop_columns(path, "square")
        unirecord.add_columns(path, {"m": "int64"}, numbers, reads=["n"])
    assert column(path, "m") == list(range(1, 21))
    assert unirecord.verify(path).ok


def test_deleted_rows_have_blank_values(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 12, 2)
    seen: list[int] = []
    types = {"a": "int32", "s": "string", "v": "float32[2]", "f": "int16[-1]", "o": "object", "q": "bytes?"}

    def made(batch: dict[str, Any]) -> dict[str, Any]:
        seen.extend(batch["n"].tolist())
        return {
            "a": batch["n"].astype(np.int32), "s": batch["name"], "v": batch["x"][:, :2],
            "f": [np.arange(n, dtype=np.int16) for n in batch["n"]], "o": [{"n": int(n)} for n in batch["n"]],
            "q": [b"x" * int(n) for n in batch["n"]],
        }  # fmt: skip

    with faults.unsynced():
        unirecord.delete(path, rows=[0, 3, 4, 5, 11])
        unirecord.add_columns(path, types, made, batch_size=3)
    left = [1, 2, 6, 7, 8, 9, 10]
    assert seen == left
    with UniRecordDataset(path) as ds:
        for n, sample in zip(left, ds, strict=True):
            assert (sample["a"], sample["s"], sample["o"], sample["q"]) == (n, f"k{n}", {"n": n}, b"x" * n)
            assert (sample["v"] == n).all()
            assert (sample["f"] == np.arange(n)).all()
    assert unirecord.verify(path).ok
    with faults.unsynced():
        unirecord.restore(path, 2)
    assert column(path, "n") == list(range(12))


def test_the_pages_say_where_columns_are(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 12, 2, index=["n"])
    add(path)
    with faults.unsynced():
        unirecord.rename_columns(path, {"n": "number", "square": "n"})
        unirecord.drop_columns(path, "t")
        with unirecord.append(path) as writer:
            writer.write({"name": "k", "number": 12, "x": np.zeros(3, np.float32), "caption": "c", "n": 144})
        unirecord.delete(path, rows=[3])
    parts = read_directory(path)
    found = [row for part in parts for i, row in enumerate(part.rows) if i not in part.deleted]
    with UniRecordDataset(path) as ds:
        assert [str(row) for row in found] == [str(dict(row)) for row in ds]
    assert [part.deleted for part in parts] == [[3], [], []]


@pytest.mark.parametrize("change", ["compact", "join", "reshard", "sort", "merge", "write", "split", "evict"])
def test_laying_rows_out_anew_takes_the_columns_along(tmp_path: Path, change: str) -> None:
    path, target = make(tmp_path / "x", 30, 3), tmp_path / "y"
    add(path)
    with faults.unsynced():
        unirecord.rename_columns(path, {"name": "called"})
        with unirecord.append(path) as writer:
            for n in range(30, 33):
                more = {key: value for key, value in row(n).items() if key != "name"}
                writer.write({**more, "called": f"k{n}", "caption": f"k{n} of {n}", "square": n * n})
        unirecord.delete(path, rows=[2, 31])
        left = [n for n in range(33) if n not in (2, 31)]
        if change == "compact":
            unirecord.compact(path)
        elif change == "join":
            assert unirecord.compact(path, part_bytes=1, join_columns=True).written == 3
        elif change == "reshard":
            unirecord.reshard(path, 5)
        elif change == "sort":
            unirecord.sort(path, "square", descending=True)
            left.reverse()
        elif change == "merge":
            other = make(tmp_path / "z", 2, 1)
            add(other)
            unirecord.rename_columns(other, {"name": "called"})
            unirecord.merge([path, other], target)
            left += [0, 1]
        elif change == "write":
            unirecord.write_dataset(path, target)
        elif change == "split":
            unirecord.split(path, target, {"a": 0.5, "b": 0.5})
        else:
            unirecord.evict(path, unirecord.versions(path)[-1].bytes - 1)
            left = [n for n in left if n >= 10]
    found: Any = target if change in ("merge", "write") else path
    found = [target / "a", target / "b"] if change == "split" else found
    assert sorted(column(found, "n")) == sorted(left)
    assert change == "split" or column(found, "n") == left
    with UniRecordDataset(found) as ds:
        assert all(sample["caption"] == f"{sample['called']} of {sample['n']}" for sample in ds)
    assert unirecord.verify(found).ok
    if change != "split":
        kept = unirecord.snapshot.versions.read_newest(str(found))
        assert bool(kept.layouts) == (change in ("merge", "evict"))


def test_a_purge_erases_columns_beside_the_parts_too(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    add(path)
    with faults.unsynced():
        assert unirecord.purge(path, rows=[1]).rows == 1
    assert column(path, "square") == [0, 4, 9, 16, 25]
    assert not any(b"k1 of 1" in file.read_bytes() for file in path.iterdir())
    assert unirecord.verify(path).ok


def test_versions_know_their_columns(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    add(path)
    with faults.unsynced():
        unirecord.drop_columns(path, "caption")
        found = unirecord.diff(f"{path}@2", path)
        assert (found.columns_added, found.columns_gone, found.equal) == (("square",), (), False)
        assert (found.parts_gone, found.parts_added, found.changed) == ((), (), 0)
        assert unirecord.diff(f"{path}@3", path).columns_gone == ("caption",)
        assert unirecord.gc(path, keep=1, dry_run=True).removed == (1, 2, 3)
        unirecord.restore(path, 3)
        assert column(path, "caption") == [f"k{n} of {n}" for n in range(6)]
        unirecord.restore(path, 2)
        unirecord.gc(path, keep=1)
    assert len([name for name in files(path) if name.endswith(".urec")]) == 2
    assert UniRecordDataset(path).schema.names == tuple(SCHEMA)


def test_damage_in_a_column_part_is_named_and_found(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    add(path)
    victim = sorted(name for name in files(path) if name.endswith(".urec"))[-1]
    content = bytearray((path / victim).read_bytes())
    at = content.index(b"k3 of 3")
    content[at] ^= 1
    (path / victim).write_bytes(content)
    with UniRecordDataset(path) as ds, pytest.raises(unirecord.CorruptionError, match="caption") as error:
        list(ds)
    assert victim in str(error.value)
    assert column(path, "square") == [n * n for n in range(6)]
    [problem] = unirecord.verify(path).problems
    assert victim in str(problem)
    with pytest.raises(UniRecordError, match="several files"):
        unirecord.repair(path, output=tmp_path / "saved")
    os.remove(path / victim)
    with pytest.raises(MissingError, match=victim):
        UniRecordDataset(path)


def test_a_lost_index_of_a_column_part_is_rebuilt(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    add(path)
    victim = sorted(name for name in files(path) if name.endswith(".urec"))[-1]
    os.remove(path / f"{victim}.idx")
    with faults.unsynced():
        unirecord.repair(path)
    assert column(path, "caption") == [f"k{n} of {n}" for n in range(6)]
    os.remove(path / "manifest.json")
    with pytest.raises(
        UniRecordError, match=r"columns were added|several files|columns of another part|parts or rows"
    ):
        unirecord.repair(path)


def test_streams_are_cut_from_added_columns(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)
    with faults.unsynced():
        unirecord.add_columns(
            path, {"tokens": "uint16[-1]"}, lambda b: {"tokens": [np.full(7, n, np.uint16) for n in b["n"]]}
        )
    with UniRecordDataset(path) as ds:
        windows = [sample["tokens"].tolist() for sample in unirecord.windows(ds, "tokens", 4, documents="d")]
        batched = [
            w for batch in unirecord.windows(ds, "tokens", 4).batches(3) for w in batch["tokens"].tolist()
        ]
    flat = [n for n in range(6) for _ in range(7)]
    assert windows == batched == [flat[i : i + 4] for i in range(0, 40, 4)]


def test_processes_make_the_same_columns(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 12, 4)
    found = unirecord.add_columns(path, NEW, captions, workers=2)
    assert (found.parts, found.rows) == (4, 12)
    assert column(path, "caption") == [f"k{n} of {n}" for n in range(12)]


def test_rows_appended_meanwhile_get_values_too(tmp_path: Path) -> None:
    path, calls = make(tmp_path / "x", 6, 2), []

    def slowly(batch: dict[str, Any]) -> dict[str, Any]:
        if not calls:
            with unirecord.append(path) as writer:
                writer.write(row(6))
            unirecord.compact(path, rows_per_part=5)
        calls.append(len(batch["n"]))
        return numbers(batch)

    with faults.unsynced():
        found = unirecord.add_columns(path, {"m": "int64"}, slowly)
    assert found.rows == 7
    assert column(path, "m") == list(range(1, 8))
    assert unirecord.verify(path).ok
    assert not [name for name in files(path) if name.endswith(".tmp")]


def test_other_columns_meanwhile_end_it(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)

    def meddling(batch: dict[str, Any]) -> dict[str, Any]:
        if "t" in UniRecordDataset(path).schema:
            unirecord.drop_columns(path, "t")
        return numbers(batch)

    with faults.unsynced(), pytest.raises(StaleError, match="other columns"):
        unirecord.add_columns(path, {"m": "int64"}, meddling)
    assert UniRecordDataset(path).schema.names == ("name", "n", "x")


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path, calls = make(tmp_path / "x", 9, 3), []

    def stopped(batch: dict[str, Any]) -> dict[str, Any]:
        calls.append(int(batch["n"][0]))
        if calls == [0, 3]:
            raise KeyboardInterrupt
        return numbers(batch)

    with faults.unsynced():
        with pytest.raises(KeyboardInterrupt, match="1 finished column part is kept"):
            unirecord.add_columns(path, {"m": "int64"}, stopped)
        found = unirecord.add_columns(path, {"m": "int64"}, stopped, resume=True)
    assert (found.resumed, calls) == (1, [0, 3, 3, 6])
    assert column(path, "m") == list(range(1, 10))
    assert not [name for name in files(path) if name.endswith(".tmp")]


def drawn(batch: dict[str, Any]) -> dict[str, Any]:
    draws = np.array([(np.random.random(), random.random()) for _ in batch["n"]])
    return {"a": draws[:, 0], "b": draws[:, 1]}


def test_no_worker_draws_the_numbers_of_another_from_global_generators(tmp_path: Path) -> None:
    found = []
    path = make(tmp_path / "x", 30, 6)
    for _ in range(2):
        unirecord.add_columns(path, dict.fromkeys("ab", "float64"), drawn, workers=2, replace=True)
        found += [column(path, name) for name in "ab"]
    assert all(len(set(found[i] + found[i + 2])) == 60 for i in range(2))


@pytest.mark.parametrize("code", faults.OF_FILES)
def test_an_error_of_files_keeps_finished_column_parts_and_says_how_to_go_on(
    code: int, tmp_path: Path
) -> None:
    path, calls = make(tmp_path / "x", 9, 3), []

    def called(batch: dict[str, Any]) -> dict[str, Any]:
        calls.append(int(batch["n"][0]))
        return numbers(batch)

    def fails(_: int, name: str) -> None:
        if calls[1:] and name in ("write", "writev", "pwrite"):
            raise OSError(code, os.strerror(code))

    with (
        faults.system(fails),
        pytest.raises(OSError, match=r"; nothing was published, and 1 finished .* --resume") as refused,
    ):
        unirecord.add_columns(path, {"m": "int64"}, called)
    assert refused.value.errno == code
    assert ("make room" in str(refused.value)) == (code == errno.ENOSPC)
    assert str(refused.value.filename).startswith(str(path))
    assert unirecord.add_columns(path, {"m": "int64"}, called, resume=True).resumed == 1
    assert column(path, "m") == list(range(1, 10))


def stopped_in_the_second(path: Path, values: Any, **options: Any) -> None:
    """Adds m, and is interrupted in the second of the parts of three rows."""

    def stop(done: int, total: int) -> None:
        if done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"finished column parts? (is|are) kept"):
        unirecord.add_columns(path, {"m": "int64"}, values, progress=stop, **options)


def plus_two(batch: dict[str, Any]) -> dict[str, Any]:
    return {"m": batch["n"] + 2}


def test_a_function_that_fails_may_go_on(tmp_path: Path) -> None:
    path, there = make(tmp_path / "x", 9, 3), [False]

    def asking(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["n"][0] == 6 and not there[0]:
            raise ConnectionError("the service is away")
        return numbers(batch)

    with faults.unsynced():
        with pytest.raises(
            TransformError, match=r"the service is away; nothing.* 2 finished column parts"
        ) as caught:
            unirecord.add_columns(path, {"m": "int64"}, asking)
        assert isinstance(caught.value.__cause__, ConnectionError)
        there[0] = True
        assert unirecord.add_columns(path, {"m": "int64"}, asking, resume=True).resumed == 2
    assert column(path, "m") == list(range(1, 10))


def test_what_another_call_left_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 9, 3)
    names = [f"k{n}" for n in range(9)]
    table = {"name": names, "m": list(range(9))}
    other = {"name": names, "m": [*range(8), 100]}
    with faults.unsynced():
        stopped_in_the_second(path, numbers)
        with pytest.raises(StaleError, match="the values differ; without resume it begins anew"):
            unirecord.add_columns(path, {"m": "int64"}, plus_two, resume=True)
        with pytest.raises(StaleError, match="the columns differ"):
            unirecord.add_columns(path, {"m": "int32"}, numbers, resume=True)
        with pytest.raises(StaleError, match="what is read differ"):
            unirecord.add_columns(path, {"m": "int64"}, numbers, reads=("n",), resume=True)
        assert unirecord.add_columns(path, {"m": "int64"}, numbers, resume=True).resumed == 1
        assert column(path, "m") == list(range(1, 10))
        unirecord.drop_columns(path, "m")
        stopped_in_the_second(path, table, key="name")
        with pytest.raises(StaleError, match="the values differ"):
            unirecord.add_columns(path, {"m": "int64"}, other, key="name", resume=True)
        again = {"m": np.arange(9), "name": np.array(names)}  # the same values, held otherwise
        with pytest.raises(StaleError, match="the values differ"):
            unirecord.add_columns(path, {"m": "int64"}, again, key="name", resume=True)
        same = {"name": [str(name) for name in names], "m": [int(str(n)) for n in range(9)]}
        assert unirecord.add_columns(path, {"m": "int64"}, same, key="name", resume=True).resumed == 1
        assert column(path, "m") == list(range(9))
    assert not [name for name in files(path) if name.endswith(".tmp")]


def test_values_of_a_column_that_was_replaced_meanwhile_are_made_anew(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 9, 3)
    with faults.unsynced():
        stopped_in_the_second(path, numbers)
        unirecord.add_columns(path, {"n": "int64"}, lambda batch: {"n": batch["n"] * 10}, replace=True)
        found = unirecord.add_columns(path, {"m": "int64"}, numbers, resume=True)
    assert found.resumed == 0
    assert column(path, "m") == [10 * n + 1 for n in range(9)]
    assert unirecord.verify(path).ok


def test_a_table_by_order_goes_with_the_rows_that_were_there(tmp_path: Path) -> None:
    path = make(tmp_path / "x", 6, 2)

    def appending(done: int, total: int) -> None:
        if done == 6:
            with unirecord.append(path) as writer:
                writer.write(row(6))

    with faults.unsynced(), pytest.raises(StaleError, match="without key="):
        unirecord.add_columns(path, {"m": "int64"}, {"m": list(range(6))}, progress=appending)
    assert "m" not in UniRecordDataset(path).schema


def test_the_commands_change_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(make(tmp_path / "x", 6, 2))
    table = tmp_path / "t.csv"
    table.write_text("name,label\n" + "".join(f"k{n},{n % 3}\n" for n in range(8)))
    (tmp_path / "making_columns.py").write_text("def twice(batch):\n    return {'twice': batch['n'] * 2}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["add-columns", path, str(table), "--key", "name"]) == 0
    assert "2 rows of the table go with no row" in capsys.readouterr().out
    command = [
        "add-columns",
        path,
        "--function",
        "making_columns:twice",
        "--schema",
        "twice=int64",
        "--reads",
        "n",
    ]
    assert main(command) == 0
    assert main(["rename-columns", path, "label=kind"]) == 0
    assert main(["drop-columns", path, "t", "x"]) == 0
    assert column(path, "kind") == [n % 3 for n in range(6)]
    assert column(path, "twice") == [2 * n for n in range(6)]
    capsys.readouterr()
    assert main(["log", path]) == 0
    assert "rename-columns" in capsys.readouterr().out
    assert main(["verify", path]) == 0
    assert "2 parts, 4 column parts, 6 rows" in capsys.readouterr().out
    for wrong in (
        [path], [path, str(table), "--function", "a:b"], [path, "--function", "a"], [path, "--function", "a:b"],
        [path, "--function", "no_such_module:f", "--schema", "a=int8"], [path, str(table), "--workers", "0"],
        [path, "--function", "making_columns:__name__", "--schema", "a=int8"],
    ):  # fmt: skip
        assert main(["add-columns", *wrong]) == 2, wrong
    assert (
        main(["add-columns", path, str(table), "--key", "name", "--columns", "label", "--schema", "q=int8"])
        == 2
    )
    assert main(["add-columns", path, str(table), "--key", "n"]) == 1
    assert main(["compact", path, "--join-columns"]) == 0
    assert unirecord.describe(path).data_bytes == sum(
        (Path(path) / name).stat().st_size
        for name in {part.name for part in unirecord.snapshot.versions.read_newest(path).parts}
    )
