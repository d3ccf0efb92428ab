"""Rows with the key of an earlier one: of any source, by any number of workers, of what is there, and afterwards."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from objectstore import Server
from PIL import Image
from written_store import URL, folder, served

import unirecord
from unirecord import UniRecordDataset, delete, write_dataset
from unirecord.cli import main
from unirecord.errors import ExistsError, SchemaError, StaleError
from unirecord.order.split import Cells
from unirecord.query import duplicates as module
from unirecord.query.duplicates import KeyTable, keys_of

VALUES: list[dict[str, Any]] = [
    {"id": 0, "path": "a", "n": 1}, {"id": 1, "path": "b", "n": 1}, {"id": 2, "path": "a", "n": 2},
    {"id": 3, "path": None, "n": 1}, {"id": 4, "path": "", "n": 1}, {"id": 5, "path": None, "n": 9},
    {"id": 6, "path": "a", "n": 1}, {"id": 7, "path": "", "n": 2},
]  # fmt: skip


server = pytest.fixture(served)


def first_ones(rows: list[dict[str, Any]], *names: str) -> list[int]:
    """The ids of the first row of each key."""
    seen: set[Any] = set()
    return [r["id"] for r in rows if (k := tuple(r[n] for n in names)) not in seen and not seen.add(k)]  # type: ignore[func-returns-value]


def ids(path: str | Path) -> list[int]:
    with UniRecordDataset(path) as ds:
        return [int(row["id"]) for row in ds]


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    jsonl(tmp_path / "rows.jsonl", VALUES)
    return tmp_path


def many(rows: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{"id": i, "path": f"p{rng.randrange(rows // 2)}", "pad": "x" * 400} for i in range(rows)]


@pytest.mark.parametrize("names", [["path"], ["n"], ["path", "n"], ["n", "path"], ["id"]])
def test_the_first_of_each_key_stays(here: Path, names: list[str]) -> None:
    done = write_dataset("rows.jsonl", "out.urec", unique_by=names)
    assert ids("out.urec") == first_ones(VALUES, *names)
    assert done.duplicates == len(VALUES) - done
    write_dataset("rows.jsonl", "all")
    assert delete("all", duplicates_by=names).rows == done.duplicates
    assert ids("all") == first_ones(VALUES, *names)


def test_the_command_says_how_many_and_lists_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jsonl(here / "more.jsonl", [{"id": 8, "path": "c", "n": 0}, {"id": 9, "path": "b", "n": 0}])
    command = ["write", "rows.jsonl", "more.jsonl", "out", "--unique-by", "path", "--duplicates-file", "gone"]
    assert main(command) == 0
    assert (
        "--unique-by path: 5 rows of 10 left out, as an earlier one has the same" in capsys.readouterr().out
    )
    assert ids("out") == [0, 1, 3, 4, 8]
    lines = [json.loads(line) for line in Path("gone").read_text().splitlines()]
    assert lines == [
        {"file": file, "at": f"line {line}", "of": {"file": "rows.jsonl", "at": f"line {of}"}}
        for file, line, of in (
            ("rows.jsonl", 3, 1),
            ("rows.jsonl", 6, 4),
            ("rows.jsonl", 7, 1),
            ("rows.jsonl", 8, 5),
            ("more.jsonl", 2, 2),
        )
    ]
    assert main([*command, "--overwrite"]) == 0
    assert main([*command[:-1], "rows.jsonl", "--overwrite"]) == 2
    assert "is what is read" in capsys.readouterr().err
    assert main(["write", "rows.jsonl", "other", *command[4:]]) == 2
    assert "gone exists already" in capsys.readouterr().err


def test_a_dry_run_knows_them(here: Path) -> None:
    done = write_dataset("rows.jsonl", "out", unique_by=["path"], dry_run=True, duplicates_file="gone")
    assert (done.duplicates, len(Path("gone").read_text().splitlines())) == (4, 4)
    assert not Path("out").exists()


def test_what_cannot_be_is_refused(here: Path) -> None:
    with pytest.raises(SchemaError, match="--unique-by: there is no column 'pth'; did you mean 'path'"):
        write_dataset("rows.jsonl", "out", unique_by=["pth"])
    with pytest.raises(SchemaError, match=r"is read once, .* `unirecord delete DST --duplicates-by`"):
        write_dataset((row for row in VALUES), "out", unique_by=["path"])
    with pytest.raises(TypeError, match="unique_by is a list of names, got 'path'"):
        write_dataset("rows.jsonl", "out", unique_by="path")
    with pytest.raises(ValueError, match="unique_by names no column"):
        write_dataset("rows.jsonl", "out", unique_by=[])
    with pytest.raises(ValueError, match="duplicates_file lists what unique_by leaves out"):
        write_dataset("rows.jsonl", "out", duplicates_file="x")
    for name in ("out", "out/x"):
        with pytest.raises(ValueError, match=f"duplicates_file {name} is where the dataset is"):
            write_dataset("rows.jsonl", "out", unique_by=["path"], duplicates_file=name)
    with pytest.raises(
        FileNotFoundError, match=r"the folder to write to does not exist; make it first: 'no'"
    ):
        write_dataset("rows.jsonl", "out", unique_by=["path"], duplicates_file="no/x")
    assert not Path("out").exists()
    write_dataset("rows.jsonl", "out")
    with pytest.raises(SchemaError, match="there is no column 'pth'; did you mean 'path'"):
        delete("out", duplicates_by=["pth"])
    with pytest.raises(ValueError, match="a list of names, one at least, got 'path'"):
        delete("out", duplicates_by="path")
    with pytest.raises(ValueError, match=r"give where, .* or duplicates_by"):
        delete("out", duplicates_by=["path"], where="n == 1")
    with pytest.raises(ValueError, match="duplicates_file out/x is where the dataset is"):
        delete("out", duplicates_by=["path"], duplicates_file="out/x")
    with pytest.raises(ValueError, match="duplicates_file lists the rows"):
        delete("out", where="n == 1", duplicates_file="x")
    with pytest.raises(ExistsError, match="exists already"):
        delete("out", duplicates_by=["path"], duplicates_file="rows.jsonl")
    assert ids("out") == list(range(8))


def test_other_choices_come_before_and_behind(here: Path) -> None:
    where = write_dataset("rows.jsonl", "a.urec", unique_by=["path"], where="id > 0")
    assert (ids("a.urec"), where.duplicates) == ([1, 2, 3, 4], 3)
    write_dataset("rows.jsonl", "b.urec", unique_by=["path"], limit=3)
    assert ids("b.urec") == [0, 1, 3]
    write_dataset("rows.jsonl", "c.urec", unique_by=["path"], columns=["id"])
    assert ids("c.urec") == [0, 1, 3, 4]
    write_dataset("rows.jsonl", "d", unique_by=["path"], sort="n")
    assert ids("d") == [0, 1, 3, 4]
    rows = many(3000, 3)
    expected = first_ones(rows, "path")
    write_dataset(jsonl(here / "many.jsonl", rows), "e", unique_by=["path"], shuffle_seed=1)
    assert ids("e") != expected
    assert sorted(ids("e")) == expected
    write_dataset("many.jsonl", "f", unique_by=["path"], sample=100)
    assert set(ids("f")) < set(expected)
    assert len(ids("f")) == 100
    write_dataset(
        "many.jsonl", "g", unique_by=["path"], split={"train": 0.5, "val": 0.5}, duplicates_file="gone"
    )
    assert sorted(ids("g/train") + ids("g/val")) == expected
    assert len(Path("gone").read_text().splitlines()) == len(rows) - len(expected)


def test_rows_that_are_left_out_by_errors_are_no_first_ones(here: Path) -> None:
    rows = [{"id": 1, "k": "a"}, {"id": 2, "k": "b"}, {"id": 3, "k": "a"}]
    jsonl(here / "x.jsonl", rows)
    with open("x.jsonl", "a") as file:
        file.write('nonsense\n{"id": 4, "k": "b"}\n{"id": 5, "k": "c"}\n')
    done = write_dataset("x.jsonl", "out", unique_by=["k"], on_error="skip", duplicates_file="gone")
    assert (ids("out"), done.duplicates) == ([1, 2, 5], 2)
    lines = [json.loads(line)["at"] for line in Path("gone").read_text().splitlines()]
    assert lines == ["line 3", "line 5"]


def test_any_number_of_workers_and_parts_leaves_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.convert.task._LEAST_BYTES", 1 << 16)
    monkeypatch.setattr("unirecord.convert.sources.jsonl._UNIT_BYTES", 1 << 16, raising=False)
    rows = many(6000, 1)
    half = len(rows) // 2
    sources = [jsonl(here / "1.jsonl", rows[:half]), jsonl(here / "2.jsonl", rows[half:])]
    for name, workers in (("one", 1), ("two", 2)):
        write_dataset(sources, name, unique_by=["path"], workers=workers, id=bytes(16))
    assert ids("one") == first_ones(rows, "path")
    for file in Path("one").iterdir():
        assert file.read_bytes() == Path("two", file.name).read_bytes()


def test_rows_are_appended_behind_those_that_are_there(here: Path) -> None:
    write_dataset("rows.jsonl", "out", rename={"path": "file"})  # with duplicates of its own, which stay
    delete("out", where="id == 1")
    more = [{"id": 10, "path": "b", "n": 1}, {"id": 11, "path": "a", "n": 1}, {"id": 12, "path": "b", "n": 7}]
    jsonl(here / "more.jsonl", more)
    done = write_dataset(
        "more.jsonl", "out", append=True, unique_by=["path"], rename={"path": "file"}, duplicates_file="gone"
    )
    assert (int(done), done.duplicates, ids("out")) == (1, 2, [0, 2, 3, 4, 5, 6, 7, 10])
    lines = [json.loads(line) for line in Path("gone").read_text().splitlines()]
    assert [(line["at"], line["of"]) for line in lines] == [
        ("line 2", {"file": "out", "at": "row 0"}), ("line 3", {"file": "more.jsonl", "at": "line 1"}),
    ]  # fmt: skip
    with pytest.raises(
        SchemaError, match="--unique-by: out has no column 'extra' by which rows could be compared"
    ):
        write_dataset([{**more[0], "extra": 1}], "out", append=True, unique_by=["extra"], columns=["id", "n"])


def test_what_was_stopped_goes_on_with_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = many(6000, 2)
    jsonl(here / "many.jsonl", rows)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    call: dict[str, Any] = {"unique_by": ["path"], "duplicates_file": "gone"}
    with monkeypatch.context() as patch:
        patch.setattr("unirecord.convert.conversion.check_samples", stop)
        with pytest.raises(KeyboardInterrupt):
            write_dataset("many.jsonl", "out", **call)
    with pytest.raises(StaleError, match="--unique-by differ"):
        write_dataset("many.jsonl", "out", unique_by=["id"], resume=True)
    write_dataset("many.jsonl", "out", resume=True, **call)
    assert ids("out") == first_ones(rows, "path")


def test_pictures_are_told_apart_by_their_bytes_and_named_by_their_files(here: Path) -> None:
    for name, grey in (("a", 1), ("b", 2), ("c", 1)):
        path = here / "pictures" / "class" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), grey).save(path)
    done = write_dataset("pictures", "out.urec", unique_by=["image"], duplicates_file="gone")
    assert (int(done), done.duplicates) == (2, 1)
    (line,) = map(json.loads, Path("gone").read_text().splitlines())
    assert line == {"file": "class/c.png", "at": "", "of": {"file": "class/a.png", "at": ""}}


def test_a_dataset_of_ours_is_written_anew_without_them(here: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [
        {
            "id": i,
            "v": rng.integers(0, 3, rng.integers(0, 3)).astype(np.int16),
            "o": {"k": int(rng.integers(2))},
        }
        for i in range(200)
    ]
    write_dataset(rows, "all.urec")
    for name, key in (("v", lambda r: r["v"].tobytes()), ("o", lambda r: r["o"]["k"])):
        write_dataset("all.urec", f"{name}.urec", unique_by=[name])
        keys = [key(row) for row in rows]
        assert ids(f"{name}.urec") == [i for i, one in enumerate(keys) if keys.index(one) == i]


def test_the_list_of_what_delete_leaves_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset("rows.jsonl", "out")
    delete("out", rows=[0])
    command = ["delete", "out", "--duplicates-by", "path"]
    assert main([*command, "--duplicates-file", "gone"]) == 0
    lines = [json.loads(line) for line in Path("gone").read_text().splitlines()]
    assert lines == [{"row": 5, "of": 3}, {"row": 6, "of": 2}, {"row": 7, "of": 4}]
    assert main(command) == 0
    assert "no row is a duplicate; nothing was published" in capsys.readouterr().out
    assert ids("out") == [1, 2, 3, 4]


def test_in_an_object_store_it_goes_as_on_a_disk(here: Path, server: Server) -> None:
    write_dataset("rows.jsonl", URL, unique_by=["n"])
    assert ids(folder(server)) == first_ones(VALUES, "n")
    jsonl(here / "more.jsonl", [{"id": i, "path": "a", "n": n} for i, n in ((20, 1), (21, 5), (22, 5))])
    assert write_dataset("more.jsonl", URL, append=True, unique_by=["n"]).duplicates == 2
    assert ids(folder(server)) == [*first_ones(VALUES, "n"), 21]
    assert delete(URL, duplicates_by=["path"]).rows == 2
    assert ids(folder(server)) == [0, 5]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([None, b"", b"\0", b"ab", b"b"]), st.integers(0, 2)), max_size=60),
    st.integers(1, 9),
)
def test_a_table_of_any_size_finds_what_a_dict_does(
    rows: list[tuple[bytes | None, int]], at_once: int
) -> None:
    texts = [text or b"" for text, _ in rows]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(text) for text in texts], dtype=np.int64)])
    strings = Cells(
        np.frombuffer(b"".join(texts), np.uint8),
        ends,
        np.array([text is not None for text, _ in rows], np.bool_),
    )
    numbers = Cells.of_width(np.array([number for _, number in rows], np.int32), None)
    keys = keys_of([strings, numbers], np.arange(len(rows), dtype=np.int64) * 3, seed=5)
    seen: dict[tuple[bytes | None, int], int] = {}
    expected = [(i * 3, seen[row]) for i, row in enumerate(rows) if seen.setdefault(row, i * 3) != i * 3]
    with pytest.MonkeyPatch.context() as patch, KeyTable() as table:
        patch.setattr(module, "KEYS_AT_ONCE", at_once)
        for start in range(0, len(keys), 4):
            table.add(keys[start : start + 4])
        found = [
            pair for some in table.duplicates() for pair in zip(*map(np.ndarray.tolist, some), strict=True)
        ]
    assert found == expected


def test_a_key_that_most_rows_have_takes_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    told_apart = module._told_apart
    monkeypatch.setattr(module, "KEYS_AT_ONCE", 50)
    monkeypatch.setattr(module, "_told_apart", lambda keys: sizes.append(len(keys)) or told_apart(keys))
    with KeyTable() as table:
        for start in range(0, 1000, 20):
            keys = np.zeros(20, module.KEY)
            keys["row"] = np.arange(start, start + 20)
            table.add(keys)
        found = [np.concatenate(both) for both in zip(*table.duplicates(), strict=True)]
    assert found[0].tolist() == list(range(1, 1000))
    assert not found[1].any()
    assert max(sizes) == 51


def test_a_source_that_has_grown_between_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = [*VALUES, *({"id": 10 + i, "path": str(i), "n": 0} for i in range(20))]
    data = list(VALUES)

    class Rows:
        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, i: int) -> dict[str, Any]:
            return data[i]

    find = unirecord.convert.row_choice.find_duplicates

    def grow(*args: Any, **options: Any) -> Any:
        found = find(*args, **options)
        data[:] = grown
        return found

    monkeypatch.setattr("unirecord.convert.row_choice.find_duplicates", grow)
    done = write_dataset(Rows(), "out", unique_by=["path"])
    assert ids("out") == first_ones(VALUES, "path")  # the rows that there were when it was looked through
    assert done.duplicates == 4
