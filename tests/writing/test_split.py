"""Splits: every row in one share, the same whatever is added, published together, gone on with after any kill."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import faults
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numbers_converted import check_refused
from numbers_source import Numbers, values
from objectstore import Server
from written_store import served

from unirecord import ExistsError, StaleError, UniRecordDataset, UniRecordError, write_dataset
from unirecord.cli import main
from unirecord.convert import task
from unirecord.convert.row_choice import RowChoice, SplitChoice
from unirecord.convert.sources import WrongSourceError
from unirecord.writing.change import Interrupted
from unirecord.writing.directory_writer import DirectoryWriter

server = pytest.fixture(served)
ID = bytes(range(16))
UNITS = [130, 70, 1, 300, 0, 220, 90]
ROWS = sum(UNITS)
SPLIT: dict[str, float | str] = {"train": 0.8, "val": "0.1", "test": 0.1}

few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 20_000)


def shares_of(units: list[int], seed: int = 0, **split: Any) -> dict[str, list[int]]:
    choice = RowChoice(seed=seed, columns=["n"], split=SplitChoice(**{"shares": SPLIT, **split}))
    return {
        name: [n for batch in share.batches() for n in batch.columns["n"]]
        for name, share in choice.shares(Numbers(Path("."), units)).items()
    }


@few
@given(
    units=st.lists(st.integers(0, 150), max_size=5), more=st.integers(0, 90), seed=st.integers(0, 2**64 - 1)
)
def test_every_row_is_in_one_share_and_new_rows_move_none(units: list[int], more: int, seed: int) -> None:
    found = shares_of(units, seed)
    assert sorted(n for rows in found.values() for n in rows) == list(range(sum(units)))
    assert all(rows == sorted(rows) for rows in found.values())
    later = shares_of([*units, more], seed)
    assert all([n for n in later[name] if n < sum(units)] == rows for name, rows in found.items())


def test_the_shares_are_about_as_large_as_asked_and_the_seed_decides() -> None:
    found = {name: len(rows) for name, rows in shares_of([5_000]).items()}
    assert abs(found["train"] - 4_000) < 150  # 5 standard deviations
    assert abs(found["val"] - 500) < 110
    assert shares_of([500], seed=1) != shares_of([500], seed=2)


def test_rows_with_one_key_stay_together() -> None:
    of_name = defaultdict(set)
    for name, rows in shares_of(UNITS, by="name").items():
        for n in rows:
            of_name[values(n)["name"]].add(name)
    assert len(of_name) == 17
    assert all(len(shares) == 1 for shares in of_name.values())
    assert len(set().union(*of_name.values())) > 1


def test_each_value_is_split_exactly() -> None:
    found = shares_of(UNITS, stratify="name")
    assert sorted(n for rows in found.values() for n in rows) == list(range(ROWS))
    every = Counter(values(n)["name"] for n in range(ROWS))
    ends = {"train": Fraction(8, 10), "val": Fraction(9, 10), "test": Fraction(1)}
    for value, rows in every.items():
        cuts = [0, *(int(end * rows + Fraction(1, 2)) for end in ends.values())]
        for i, name in enumerate(ends):
            assert sum(values(n)["name"] == value for n in found[name]) == cuts[i + 1] - cuts[i]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_any_number_of_workers_makes_the_same_shares(tmp_path: Path) -> None:
    options: dict[str, Any] = {"split": SPLIT, "stratify": "name", "where": "n % 5 != 0", "id": ID}
    for workers in (1, 2):
        rows = write_dataset(Numbers(tmp_path, UNITS), tmp_path / str(workers), workers=workers, **options)
        assert rows == sum(n % 5 != 0 for n in range(ROWS))
    assert tree(tmp_path / "1") == tree(tmp_path / "2")
    assert sorted(os.listdir(tmp_path / "1")) == ["test", "train", "val"]
    names = [sorted(os.listdir(tmp_path / "1" / name)) for name in SPLIT]
    assert not set(names[0]) & set(names[1]) - {"manifest.json"}  # names of parts are made of ids


@pytest.mark.parametrize("seed", range(4))
def test_killed_anywhere_it_goes_on_and_publishes_all_or_none(seed: int, tmp_path: Path) -> None:
    import random

    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "whole", split=SPLIT, id=ID)
    chance, target = random.Random(seed), tmp_path / "out"
    for _ in range(60):
        alive = not faults.killed(
            lambda: write_dataset(Numbers(tmp_path, UNITS), target, split=SPLIT, id=ID, resume=True) and None,
            chance.randint(1, 250),
            chance.random() < 0.5,
        )
        if alive or all((target / name / "manifest.json").exists() for name in SPLIT):
            break
    found = tree(target)
    if not alive:  # it died after it had published the last one
        found = {name: data for name, data in found.items() if not os.path.basename(name).startswith(".")}
    assert found == tree(tmp_path / "whole")


def test_ctrl_c_in_the_last_share_publishes_none_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "whole", split=SPLIT, id=ID)
    original, calls = Numbers.read, 0

    def dies(self: Numbers, unit: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 24 + 10:
            raise KeyboardInterrupt
        return original(self, unit)

    with monkeypatch.context() as patched:
        patched.setattr(Numbers, "read", dies)
        with pytest.raises(Interrupted):
            write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT, id=ID)
    assert not [name for name in os.listdir(tmp_path / "out") if not name.startswith(".")]
    with pytest.raises(StaleError, match="--seed differs"):
        write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT, id=ID, resume=True, seed=1)
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT, id=ID, resume=True, workers=2)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def test_killed_between_two_renames_the_rest_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "whole", split=SPLIT, id=ID)
    original, calls = DirectoryWriter.publish, 0

    def second_fails(self: DirectoryWriter, *args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError("the disk has gone")
        original(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryWriter, "publish", second_fails)
        with pytest.raises(OSError, match="the disk has gone"):
            write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT, id=ID)
    assert [name for name in os.listdir(tmp_path / "out") if not name.startswith(".")] == ["test"]
    with pytest.raises(FileExistsError):  # without an id nothing tells whose it is
        write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT, resume=True)
    assert write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT, id=ID, resume=True) == ROWS
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"split": {"train": 1}}, ValueError, "two shares or more"),
    ({"split": {"train": 0.9, "val": 0.2}}, ValueError, "add up to 1"),
    ({"split": {"train": 1.1, "val": -0.1}}, ValueError, "more than 0"),
    ({"split": {"train": "most", "val": 0.1}}, ValueError, "are numbers"),
    ({"split": {"../train": 0.9, "val": 0.1}}, ValueError, "is to be a folder"),
    ({"split": SPLIT, "split_by": "nam"}, WrongSourceError, "did you mean 'name'"),
    ({"split": SPLIT, "stratify": "x"}, WrongSourceError, "--stratify: there is no column"),
    ({"split": SPLIT, "stratify": "n", "split_by": "name"}, ValueError, "exclude each other"),
    ({"split": SPLIT, "limit": 5}, ValueError, "exclude each other"),
    ({"stratify": "name"}, ValueError, "not given"),
]


@pytest.mark.parametrize(("options", "error", "text"), WRONG, ids=[str(one[2]) for one in WRONG])
def test_what_cannot_be_obeyed_is_refused(
    options: dict[str, Any], error: type[Exception], text: str, tmp_path: Path
) -> None:
    check_refused(options, error, text, tmp_path)


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT)
    before = tree(tmp_path / "out")
    with pytest.raises(FileExistsError):
        write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT)
    with pytest.raises(FileExistsError, match="is a dataset"):
        write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out" / "train", split=SPLIT)
    with pytest.raises(FileExistsError, match=r"without \.urec"):
        write_dataset(Numbers(tmp_path, UNITS), tmp_path / "x.urec", split=SPLIT)
    with pytest.raises(WrongSourceError, match="read once"):
        write_dataset(iter([values(1)]), tmp_path / "y", split=SPLIT)
    assert tree(tmp_path / "out") == before
    assert write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", split=SPLIT, overwrite=True) == ROWS


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,cls\n" + "".join(f"{i},c{i % 3}\n" for i in range(300)))
    call = ["write", str(table), str(tmp_path / "out"), "--split", "train=0.9,val=0.1", "--stratify", "cls"]
    assert main([*call, "--dry-run"]) == 0
    assert "--split train=0.9,val=0.1" in capfd.readouterr().out
    assert main(call) == 0
    out = capfd.readouterr().out
    assert "train: wrote 270 rows" in out
    assert "val: wrote 30 rows" in out
    assert Counter(row["cls"] for row in UniRecordDataset(tmp_path / "out" / "val")) == dict.fromkeys(
        ("c0", "c1", "c2"), 10
    )
    for wrong, said in (
        (["--append"], "--split excludes"),
        (["--limit", "3"], "--split excludes"),
        (["--seed", "1"], "--overwrite replaces it"),
    ):
        assert main([*call, *wrong]) == 2
        assert said in capfd.readouterr().err
    assert main([*call[:3], "--stratify", "cls"]) == 2
    assert main([*call[:3], "--split", "train"]) == 2


def test_each_value_of_a_column_is_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "x.csv"
    table.write_text(
        "split,fold,n\n" + "".join(f"{'val' if i % 3 else 'train'},{i % 2},{i}\n" for i in range(20))
    )
    assert main(["write", str(table), str(tmp_path / "a"), "--split-by", "split", "--columns", "n"]) == 0
    assert "train: wrote 7 rows" in capsys.readouterr().out
    assert write_dataset(table, tmp_path / "b", split_by="fold", where="n < 9", id=ID) == 9
    for path, wanted in (
        ("a/train", range(0, 20, 3)), ("a/val", [i for i in range(20) if i % 3]), ("b/0", range(0, 9, 2)),
        ("b/1", range(1, 9, 2)),
    ):  # fmt: skip
        with UniRecordDataset(tmp_path / path) as ds:
            assert [int(row["n"]) for row in ds] == list(wanted)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ExistsError, match=r"b.0"):
        write_dataset(table, tmp_path / "b", split_by="fold")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--split-by", "x"], "strings and integers, not of float64"),
        (["--split-by", "name"], "one is 'a/b'"),
        (["--split-by", "empty"], "one is None"),
        (["--split-by", "nam"], "nam"),
        (["--split-by", "n", "--limit", "3"], "--split excludes --limit"),
        (["--split-by", "n", "--stratify", "name"], "--stratify says how --split is made"),
        (["--split-by", "n", "--sort", "n"], "exclude each other"),
        (["--split-by", "n", "--engine", "ray"], "leave out --split-by"),
        (["--split-by", "n", "--where", "n > 9"], "there are no rows"),
    ],
)
def test_values_that_name_no_folder_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    (tmp_path / "x.csv").write_text("n,x,name,empty\n1,1.5,a/b,z\n2,2.5,c,\n")
    assert main(["write", str(tmp_path / "x.csv"), str(tmp_path / "d"), *argv]) == 2
    assert said in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["x.csv"]


def test_the_shares_in_an_object_store_are_those_on_a_disk(server: Server, tmp_path: Path) -> None:
    table = [{"n": n, "b": bytes([n]) * 20} for n in range(100)]
    split = {"train": 0.8, "val": 0.2}
    for place in ("s3://bucket/apart", str(tmp_path / "apart")):
        assert write_dataset(table, place, split=split) == 100
    for share in split:
        with (
            UniRecordDataset(f"s3://bucket/apart/{share}", shuffle=False) as stored,
            UniRecordDataset(tmp_path / "apart" / share, shuffle=False) as local,
        ):
            assert [int(row["n"]) for row in stored] == [int(row["n"]) for row in local]
    with pytest.raises(ExistsError, match="a dataset is there already"):
        write_dataset(table, "s3://bucket/apart", split=split)
    with pytest.raises(UniRecordError, match="not gone on with in an object store"):
        write_dataset(table, "s3://bucket/apart", split=split, resume=True)
    assert write_dataset(table, "s3://bucket/apart", split=split, overwrite=True) == 100
