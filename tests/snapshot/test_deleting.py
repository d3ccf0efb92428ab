"""Rows that are deleted are nowhere any more: as a list of rows without them, whatever is killed, damaged or asked."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from writing import files, write

import unirecord
from unirecord import CorruptionError, MissingError, UniRecordDataset, UniRecordError
from unirecord.cli import main
from unirecord.inspect.notebook import description_html
from unirecord.inspect.reports import dataset_page
from unirecord.snapshot import deletions

MEMORY = Path("/dev/shm")
ROOM = MEMORY if os.access(MEMORY, os.W_OK) else None
SCHEMA = {"n": "int64", "s": "string", "b": "bytes"}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=ROOM) as folder:
        yield Path(folder)


def row(n: int) -> dict[str, Any]:
    return {"n": n, "s": f"s{n % 5}", "b": bytes([n % 251]) * (n % 7)}


def make(path: Path, count: int = 40, parts: int = 4) -> Path:
    """So many rows, in parts of as many rows each."""
    each = count // parts
    with faults.unsynced():
        write(path, SCHEMA, [row(n) for n in range(each)], index=["n"])
        for part in range(1, parts):
            with unirecord.append(path) as writer:
                for n in range(part * each, (part + 1) * each):
                    writer.write(row(n))
    return path


def seen(path: Any, **options: Any) -> list[int]:
    with UniRecordDataset(path, **options) as dataset:
        return [int(one["n"]) for one in dataset]


def without(*gone: int, count: int = 40) -> list[int]:
    return [n for n in range(count) if n not in gone]


def test_rows_are_deleted_by_number_and_by_condition(tmp_path: Path) -> None:
    path = make(tmp_path / "x")
    assert unirecord.delete(path, rows=[3, 39, 3]) == unirecord.Deleted(2, 5)
    assert unirecord.delete(path, where="n < 5") == unirecord.Deleted(4, 6)
    assert unirecord.delete(path, where="n < 5") == unirecord.Deleted(0, 6)
    assert unirecord.delete(path, rows=np.array([20])).rows == 1
    assert seen(path) == without(*range(5), 20, 39)
    assert seen(path, version=4) == without()
    assert seen(path, version=5) == without(3, 39)


def test_nothing_gives_a_deleted_row(tmp_path: Path) -> None:
    path = make(tmp_path / "x")
    unirecord.delete(path, where="n >= 10 and n < 20 or s == 's1'")
    left = [n for n in without(*range(10, 20)) if n % 5 != 1]
    with UniRecordDataset(path) as ds:
        assert (len(ds), ds.num_rows) == (len(left), len(left))
        assert ds.order.row_ids().tolist() == left
        assert [int(ds[i]["n"]) for i in range(len(ds))] == left
        assert ds.scalars(["n"])["n"].tolist() == left
        assert np.concatenate([batch["n"] for batch in ds.batches(7)]).tolist() == left
        assert ds.read_rows(np.array([0, 39]))["n"].tolist() == [0, 39]
        with pytest.raises(IndexError, match="row 12 has been deleted"):
            ds.read_rows(np.array([0, 12]))
        assert ds.to_arrow(["n", "b"])["n"].to_pylist() == left
        assert pickle.loads(pickle.dumps(ds)).order.row_ids().tolist() == left
        assert [int(one["n"]) for one in ds.take(3)] == left[:3]
        halves = ds.split([0.5, 0.5])
        assert sorted(n for half in halves for n in half.order.row_ids().tolist()) == left
    assert seen(path, where="n < 12") == [n for n in left if n < 12]
    for mode in (True, "block", "parts", "within-parts"):
        assert sorted(seen(path, shuffle=mode, seed=5)) == left
    ranks = [seen(path, shuffle=True, shard_id=k, num_shards=3, remainder="uneven") for k in range(3)]
    assert sorted(n for rank in ranks for n in rank) == left
    mixed = unirecord.mix({"a": UniRecordDataset(path), "b": UniRecordDataset(f"{path}@4")}, stop="all")
    assert {int(one["n"]) for one in mixed if one["source"] == "a"} <= set(left)


def test_streams_and_draws_have_no_deleted_row(tmp_path: Path) -> None:
    path, gone = tmp_path / "d", {0, 5, 6, 11}
    with faults.unsynced(), unirecord.Writer(path, {"n": "int64", "t": "uint16[-1]"}) as writer:
        for n in range(12):
            writer.write({"n": n, "t": np.full(2 + n % 3, n, np.uint16)})
    unirecord.delete(path, rows=sorted(gone))
    there = sorted(set(range(12)) - gone)
    with UniRecordDataset(path, shuffle=False) as ds:
        elements = np.concatenate([np.full(2 + n % 3, n) for n in there])
        windows = unirecord.windows(ds, "t", 4)
        assert [windows[i]["t"].tolist() for i in range(len(windows))] == [
            elements[4 * i : 4 * i + 4].tolist() for i in range(len(elements) // 4)
        ]
        packed = np.concatenate([sample["t"] for sample in unirecord.packed(ds, "t", 8, pad=99)])
        assert sorted(packed[packed != 99].tolist()) == elements.tolist()
        weighted = {int(sample["n"]) for sample in unirecord.weighted(ds, np.ones(len(ds)), samples=200)}
        assert weighted == set(there)


def test_the_commands_know_what_is_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "x")
    assert main(["delete", str(path), "--rows", "0,10-19"]) == 0
    assert "11 rows are deleted in version 5" in capsys.readouterr().out
    left = without(0, *range(10, 20))
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "29 rows, 4 parts" in shown
    assert "11 rows have been deleted" in shown
    assert (unirecord.describe(path).rows, unirecord.describe(path).deleted) == (29, 11)
    assert unirecord.versions(path)[-1].rows == 29
    assert main(["verify", str(path)]) == 0
    assert main(["export", str(path), str(tmp_path / "x.csv"), "--columns", "n"]) == 0
    assert [int(n) for n in (tmp_path / "x.csv").read_text().split()[1:]] == left
    assert main(["write", str(path), str(tmp_path / "y")]) == 0
    assert seen(tmp_path / "y") == left
    capsys.readouterr()
    assert (
        main(["trace", str(path), "--seed", "1", "--batch", "29", "--step", "0", "--epoch", "0", "--json"])
        == 0
    )


def asked(path: Path, capsys: pytest.CaptureFixture[str], *question: str) -> str:
    """What `unirecord inspect` answers."""
    capsys.readouterr()
    assert main(["inspect", str(path), *question]) == 0
    return capsys.readouterr().out


def test_inspect_asked_shows_no_deleted_row_and_each_other_one_by_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(tmp_path / "x")
    unirecord.delete(path, rows=[0, *range(10, 20), 39])
    left = without(0, *range(10, 20), 39)

    def numbers(*question: str) -> list[int]:
        found = json.loads(asked(path, capsys, *question, "--json", "--columns", "n"))
        assert all(int(one["values"]["n"]) == one["row"] for one in found["rows"])
        return [one["row"] for one in found["rows"]]

    assert numbers("--limit", "100") == left
    assert numbers("--where", "n < 12") == [*range(1, 10)]
    assert numbers("--where", "s == 's0'", "--limit", "99") == [n for n in left if n % 5 == 0]  # not indexed
    assert numbers("--sort=-n", "--limit", "3") == [38, 37, 36]
    assert numbers("--offset", "8", "--limit", "2") == [9, 20]
    assert sorted(numbers("--sample", "100")) == left
    assert set(numbers("--sample", "5")) <= set(left)
    for question, count in (([], len(left)), (["--where", "n < 12"], 9), (["--where", "s == 's0'"], 5)):
        assert int(asked(path, capsys, "--count", *question)) == count
    groups = json.loads(asked(path, capsys, "--group-by", "s", "--json"))
    assert sum(group["rows"] for group in groups["counts"]) == len(left)
    assert '"max": 38' in asked(path, capsys, "--stats", "--columns", "n", "--json")
    assert "9 of those found have not been deleted" in asked(path, capsys, "--where", "n < 12", "--explain")
    assert "27 files" in asked(
        path, capsys, "--extract", "b", "--out", str(tmp_path / "out"), "--limit", "27"
    )
    for row_asked, number in ((1, 1), (-1, 38), (-len(left), 1)):
        assert json.loads(asked(path, capsys, "--row", str(row_asked), "--json"))["row"] == number
    for row_asked, why in (
        (10, "row 10 has been deleted"),
        (39, "deleted"),
        (40, "no row 40"),
        (-29, "no row -29"),
    ):
        assert main(["inspect", str(path), "--row", str(row_asked)]) == 2
        assert why in capsys.readouterr().err


def two_parts(path: Path, types: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """The rows, 20 of them in the second part."""
    write(path, types, rows[:-20])
    with unirecord.append(path) as writer:
        for one in rows[-20:]:
            writer.write(one)


def told_of_values(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What each place that tells of a column's values says of them."""
    found = unirecord.describe(path)
    with UniRecordDataset(path) as ds:
        scalars = ds.scalars(["n", "s", "f", "q", "u", "v"])
    page = dataset_page(path).decode()
    cards = re.search(r'<div class="cards">.*?</article>\s*</div>', page, re.DOTALL)
    columns = re.search('aria-label="columns">.*?</table>', page, re.DOTALL)
    assert cards is not None
    assert columns is not None
    return {
        "describe": [(one.name, one.min, one.max, one.distinct, one.nulls) for one in found.columns],
        "card of the page": cards.group(),
        "table of the page": re.findall("<td[^>]*>([^<]*)</td>", columns.group()),
        "statistics": asked(path, capsys, "--stats", "--json"),
        "groups": asked(path, capsys, "--group-by", "s", "--json"),
        "scalars": {name: [str(one) for one in values] for name, values in scalars.items()},
    }


def test_what_is_told_of_values_is_of_the_rows_that_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    types = {
        "n": "int64",
        "s": "string",
        "f": "float32",
        "q": "int16?",
        "u": "string",
        "b": "bytes?",
        "v": "bool",
    }
    rows = [
        {"n": n + 5, "s": f"s{n % 3}", "f": n + 0.5, "q": None if n % 4 == 3 else n + 1, "u": f"u{n:03}",
         "b": None if n % 5 == 3 else b"x" * (n + 2), "v": True}
        for n in range(40)
    ]  # fmt: skip
    gone = [0, 1, 2, 3, 17, 39]
    two_parts(tmp_path / "x", types, rows)
    unirecord.delete(tmp_path / "x", rows=gone)
    unirecord.add_columns(
        tmp_path / "x", types, lambda batch: batch, replace=True
    )  # blank where rows are gone
    two_parts(tmp_path / "y", types, [row for n, row in enumerate(rows) if n not in gone])
    deleted, plain = (told_of_values(tmp_path / name, capsys) for name in ("x", "y"))
    sizes = re.compile(r"\d+ (B|KB)|[\d.]+%")  # of what is stored
    for place in plain:
        if place == "table of the page":
            deleted[place], plain[place] = (
                [cell for cell in told[place] if not sizes.fullmatch(cell)] for told in (deleted, plain)
            )
        assert deleted[place] == plain[place], place
    assert "6 rows have been deleted" in dataset_page(tmp_path / "x").decode()
    assert "6 rows have been deleted" in description_html(unirecord.describe(tmp_path / "x"))
    assert "deleted" not in dataset_page(tmp_path / "y").decode()


def test_what_cannot_be_deleted_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "x")
    unirecord.delete(path, rows=7)
    for rows, why in (([40], "no row 40"), ([-1], "no row -1"), ([3, 7], "row 7 has been deleted already")):
        with pytest.raises(IndexError, match=why):
            unirecord.delete(path, rows=rows)
    with pytest.raises(TypeError, match="rows are integers"):
        unirecord.delete(path, rows=[1.5])  # type: ignore[list-item]
    for options in ({}, {"rows": [1], "where": "n == 1"}):
        with pytest.raises(ValueError, match="give where, a condition, or rows"):
            unirecord.delete(path, **options)
    with pytest.raises(unirecord.QueryError):
        unirecord.delete(path, where="m == 1")
    with pytest.raises(UniRecordError, match="only read by UniRecord"):
        unirecord.delete("https://bucket/x", rows=[1])
    with pytest.raises(MissingError, match="no such file or directory"):
        unirecord.delete(tmp_path / "y", rows=[1])
    for rows in ("x", "5-3", "1,,2"):
        with pytest.raises(SystemExit):
            main(["delete", str(path), "--rows", rows])
    assert main(["delete", str(path), "--rows", "99"]) == 2
    assert "no row 99" in capsys.readouterr().err
    assert [version.number for version in unirecord.versions(path)] == [1, 2, 3, 4, 5]


def test_a_running_job_goes_on_and_a_state_says_what_it_is_of(tmp_path: Path) -> None:
    path = make(tmp_path / "x")
    with UniRecordDataset(path, shuffle=True, seed=2) as running:
        state = running.state_dict()
        unirecord.delete(path, where="n < 20")
        assert sorted(int(one["n"]) for one in running) == without()
        assert running.refresh()
        assert sorted(int(one["n"]) for one in running) == without(*range(20))
        with pytest.raises((ValueError, UniRecordError)):
            running.load_state_dict(state)
    with UniRecordDataset(path, version=4, shuffle=True, seed=2) as before:
        before.load_state_dict(state)


def test_growing_restoring_and_collecting_go_on(tmp_path: Path) -> None:
    path = make(tmp_path / "x")
    unirecord.delete(path, rows=range(5))
    with unirecord.append(path) as writer:
        writer.write(row(40))
    assert seen(path) == without(*range(5), count=41)
    unirecord.delete(path, rows=[40])
    assert seen(path) == without(*range(5))
    assert unirecord.restore(path, 4) == 8
    assert seen(path) == without()
    unirecord.gc(path, keep=1)
    assert not [name for name in files(path) if ".del-" in name]
    unirecord.delete(path, where="n >= 0")
    assert seen(path) == []
    write(path, SCHEMA, [row(1)], overwrite=True)
    assert len(files(path)) == 3


def test_a_damaged_or_lost_deletion_file_gives_no_row(tmp_path: Path) -> None:
    path = make(tmp_path / "x", parts=1)
    unirecord.delete(path, rows=[1, 2, 3, 5, 8, 13, 21, 34])
    (name,) = [name for name in files(path) if ".del-" in name]
    whole = (path / name).read_bytes()
    for at in range(len(whole)):
        (path / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CorruptionError, match=r"\.del-"):
            UniRecordDataset(path)
    for changed in (b"", whole[:-1], whole + b"\0"):
        (path / name).write_bytes(changed)
        with pytest.raises(CorruptionError, match=r"\.del-"):
            UniRecordDataset(path)
    (problem,) = unirecord.verify(path).problems
    assert problem.path == str(path / name)
    (path / name).unlink()
    with pytest.raises(MissingError, match="what rows have been deleted, is missing"):
        UniRecordDataset(path)
    assert seen(path, version=1) == without()


def test_repair_brings_no_deleted_row_back(tmp_path: Path) -> None:
    path = make(tmp_path / "x")
    unirecord.delete(path, rows=[0])
    next(path.glob("*.idx")).unlink()
    assert unirecord.repair(path).ok
    assert seen(path) == without(0)
    listing = (path / "manifest.json").read_bytes()
    (path / "manifest.json").unlink()
    with pytest.raises(UniRecordError, match="rows have come and gone"):
        unirecord.repair(path)
    (path / "manifest.json").write_bytes(listing)
    part = next(path.glob("*.urec"))
    part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(UniRecordError, match="1 of its rows have been deleted, and"):
        unirecord.repair(path)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1_000])
def test_a_deletion_file_is_the_smaller_of_two_forms(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(count)
    for gone in {1, count // 40 + 1, count // 2 + 1, count}:
        rows = np.sort(rng.choice(count, gone, replace=False)).astype(np.int64)
        content = deletions.encode_deletion(bytes(16), count, rows)
        assert len(content) == 64 + min(4 * gone, -(-count // 64) * 8)
        (tmp_path / "d").write_bytes(content)
        digest = unirecord.core.xxh3_128(content).hex()
        one = deletions.Deletion(str(tmp_path / "d"), gone, len(content), digest)
        assert deletions.rows_deleted(one, bytes(16), count).tolist() == rows.tolist()
        words = deletions.deleted_rows([(None, b"", 70), (one, bytes(16), count)], 70 + count)
        assert deletions.live_rows(words, 70 + count).ones == 70 + count - gone
        for part_id, part_rows in ((bytes([1]) * 16, count), (bytes(16), count + 1)):
            with pytest.raises(CorruptionError, match="of another part"):
                deletions.check_deletion(one, part_id, part_rows)


def change(path: Path) -> None:
    unirecord.delete(path, where="n < 25")


def check_whole(path: Path, at: int) -> bool:
    found = seen(path)
    assert found in (without(), without(*range(25))), at
    assert seen(path, version=2) == without(), at
    with faults.unsynced():
        unirecord.delete(path, rows=[39])
    named = {name for n in unirecord.versions(path) for name in named_by(path, n.number)}
    assert {name for name in files(path) if ".del-" in name} == named, at
    return len(found) == 40


def named_by(path: Path, number: int) -> set[str]:
    return {
        part.deleted.name
        for part in unirecord.snapshot.versions.read_version(str(path), number).parts
        if part.deleted is not None
    }


def test_a_deletion_killed_at_any_call_is_done_or_not(tmp_path: Path) -> None:
    make(tmp_path / "0", parts=2)
    at, alive, outcomes = 0, True, set()
    while alive:
        at += 1
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        alive = faults.killed(lambda path=path: change(path), at, torn=at % 2 == 0)  # type: ignore[misc]
        outcomes.add(check_whole(path, at))
    assert at > 15
    assert outcomes == {True, False}


def test_a_call_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    make(tmp_path / "0", parts=2)
    counted = Path(shutil.copytree(tmp_path / "0", tmp_path / "count"))
    with faults.system(faults.count_only) as watched:
        change(counted)
    for at in range(1, watched.count + 1):
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        with suppress(OSError), faults.system(faults.fail_at(at)):
            change(path)
        if seen(path) == without():
            assert not [name for name in files(path) if ".del-" in name and at > 3], at
        check_whole(path, at)


class Deleting(RuleBasedStateMachine):
    """A directory beside a list of (row number, n) for each version."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=ROOM)
        self.path = make(Path(self.folder.name) / "x", 6, 2)
        self.newest = 2
        self.rows = {2: {n: n for n in range(6)}}
        self.parts = {2: 6}
        self.next = 6

    def publish(self, rows: dict[int, int], stored: int) -> None:
        self.newest += 1
        self.rows[self.newest], self.parts[self.newest] = rows, stored

    @rule(count=st.integers(1, 70))
    def append(self, count: int) -> None:
        with faults.unsynced(), unirecord.append(self.path) as writer:
            for n in range(self.next, self.next + count):
                writer.write(row(n))
        stored = self.parts[self.newest]
        new = {stored + i: self.next + i for i in range(count)}
        self.next += count
        self.publish(self.rows[self.newest] | new, stored + count)

    @rule(data=st.data())
    def delete_rows(self, data: Any) -> None:
        there = sorted(self.rows[self.newest])
        gone = data.draw(st.lists(st.sampled_from(there), unique=True, max_size=40)) if there else []
        with faults.unsynced():
            assert unirecord.delete(self.path, rows=gone).rows == len(gone)
        self.leave_out(set(gone))

    @rule(first=st.integers(0, 200), length=st.integers(0, 100))
    def delete_where(self, first: int, length: int) -> None:
        gone = {i for i, n in self.rows[self.newest].items() if first <= n < first + length}
        with faults.unsynced():
            done = unirecord.delete(self.path, where=f"n >= {first} and n < {first + length}")
        assert done.rows == len(gone)
        self.leave_out(gone)

    def leave_out(self, gone: set[int]) -> None:
        if gone:
            left = {i: n for i, n in self.rows[self.newest].items() if i not in gone}
            self.publish(left, self.parts[self.newest])

    @rule(data=st.data())
    def restore(self, data: Any) -> None:
        version = data.draw(st.sampled_from(sorted(self.rows)))
        if version != self.newest:
            with faults.unsynced():
                unirecord.restore(self.path, version)
            self.publish(self.rows[version], self.parts[version])

    @rule(data=st.data())
    def compact(self, data: Any) -> None:
        options = data.draw(
            st.sampled_from(
                [
                    {},
                    {"part_bytes": 2_000},
                    {"rows_per_part": 1},
                    {"rows_per_part": 17},
                    {"drop_deleted": True},
                ]
            )
        )
        if self.parts[self.newest] > 100 and options == {"rows_per_part": 1}:
            return
        with faults.unsynced():
            self.laid_out(unirecord.compact(self.path, **options).version)

    @rule(parts=st.integers(1, 5))
    def reshard(self, parts: int) -> None:
        with faults.unsynced():
            parts = min(parts, max(self.parts[self.newest], 1))
            self.laid_out(unirecord.reshard(self.path, parts).version)

    @rule(descending=st.booleans())
    def sort(self, descending: bool) -> None:
        found = self.rows[self.newest]
        there = sorted(found.values(), reverse=descending)
        with faults.unsynced():
            version = unirecord.sort(self.path, "n", descending=descending).version
        in_order = [found[i] for i in sorted(found)] == there and len(found) == self.parts[self.newest]
        assert (version == self.newest) == in_order
        if not in_order:
            self.publish(dict(enumerate(there)), len(there))

    def laid_out(self, version: int) -> None:
        if version != self.newest:
            self.publish(self.rows[self.newest], self.parts[self.newest])

    @rule(keep=st.integers(1, 3))
    def gc(self, keep: int) -> None:
        with faults.unsynced():
            unirecord.gc(self.path, keep=keep)
        self.rows = {version: self.rows[version] for version in sorted(self.rows)[-keep:]}

    @rule(data=st.data())
    def purge(self, data: Any) -> None:
        there = sorted(self.rows[self.newest])
        gone = data.draw(st.lists(st.sampled_from(there), unique=True, max_size=5)) if there else []
        with faults.unsynced():
            self.newest = unirecord.purge(self.path, rows=gone).version
        left = {i: n for i, n in self.rows[max(self.rows)].items() if i not in gone}
        self.rows, self.parts = {self.newest: left}, {self.newest: self.parts[max(self.parts)]}

    @invariant()
    def it_is_the_list_without_them(self) -> None:
        for version in {self.newest, min(self.rows)}:
            with UniRecordDataset(self.path, version=version) as ds:
                expected = self.rows[version]
                assert ds.order.row_ids().tolist() == sorted(expected)
                assert ds.scalars(["n"])["n"].tolist() == [expected[i] for i in sorted(expected)]

    def teardown(self) -> None:
        self.folder.cleanup()


TestDeleting = Deleting.TestCase
TestDeleting.settings = settings(
    max_examples=int(os.environ.get("UNIRECORD_STEPS", "120")) // 15,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
