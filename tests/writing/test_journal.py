"""What a stopped conversion has left, changed by whoever may write to the folder: it is checked before it is used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unirecord
from unirecord import UniRecordDataset, UniRecordError
from unirecord.cli import main
from unirecord.writing.directory_writer import DirectoryWriter
from unirecord.writing.journal import Journal, plan_of

ROWS = 3_000
PART_BYTES = 1 << 15


def stopped(monkeypatch: pytest.MonkeyPatch, method: str, after: int, run: Callable[[], Any]) -> None:
    """Runs it until a record has been written so many times."""
    write, calls = getattr(Journal, method), [0]

    def stops(self: Journal, task: int, record: dict[str, Any]) -> None:
        write(self, task, record)
        calls[0] += 1
        if calls[0] == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(Journal, method, stops)
        with pytest.raises(KeyboardInterrupt):
            run()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("id,name\n" + "".join(f"{i},name number {i} with some text\n" for i in range(ROWS)))
    return path


def convert(table: Path, out: Path, **options: Any) -> int:
    return unirecord.write_dataset(table, out, max_part_bytes=PART_BYTES, codec="none", **options)


def ids(path: Path) -> list[int]:
    with UniRecordDataset(path) as ds:
        return [int(n) for batch in ds.batches(1_000) for n in batch["id"]]


def first_part(record: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**record, "parts": [{**record["parts"][0], **fields}, *record["parts"][1:]]}


def rows_moved(record: dict[str, Any]) -> dict[str, Any]:
    one, two = record["parts"][:2]
    parts = [{**one, "rows": one["rows"] - 1}, {**two, "rows": two["rows"] + 1}, *record["parts"][2:]]
    return {**record, "parts": parts}


RECORDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nothing": lambda record: {},
    "a list": lambda record: [],
    "no JSON": lambda record: None,
    "nested": lambda record: "[" * 100_000,
    "parts of a text": lambda record: {**record, "parts": "x"},
    "parts of a mapping": lambda record: {**record, "parts": {}},
    "parts of numbers": lambda record: {**record, "parts": [1]},
    "a part twice": lambda record: {**record, "parts": [record["parts"][0], *record["parts"]]},
    "a part again in place of another": lambda record: {**record, "parts": [record["parts"][0]] * 2},
    "a part without its id": lambda record: first_part(record, id=None),
    "another id": lambda record: first_part(record, id="0" * 32),
    "another name": lambda record: first_part(record, name="../victim/part-000000-00000000.urec"),
    "another number": lambda record: first_part(record, name="part-000077-00000000.urec"),
    "a name that is none": lambda record: first_part(record, name=7),
    "another schema": lambda record: first_part(record, schema="0" * 32),
    "a schema that is none": lambda record: first_part(record, schema="../x"),
    "another content": lambda record: first_part(record, content="0" * 32),
    "other rows": rows_moved,
    "negative rows": lambda record: first_part(record, rows=-1),
    "rows of a text": lambda record: first_part(record, rows="1"),
    "many rows": lambda record: first_part(record, rows=1 << 62),
    "other bytes": lambda record: first_part(record, bytes=1),
    "columns elsewhere": lambda record: first_part(record, columns={"layout": 0, "files": []}),
    "an unknown field": lambda record: first_part(record, more=1),
    "another unit": lambda record: {**record, "unit": 10**6},
    "a unit of a text": lambda record: {**record, "unit": "0"},
    "skips too much": lambda record: {**record, "skip": 10**9},
    "another shape": lambda record: {**record, "shape": {**record["shape"], "blob_align": 1 << 40}},
    "no shape": lambda record: {**record, "shape": None},
    "a shape of other fields": lambda record: {**record, "shape": {**record["shape"], "more": 1}},
    "dictionaries of other columns": lambda record: {**record, "dictionaries": [[99, "00"]]},
    "dictionaries of no bytes": lambda record: {**record, "dictionaries": [[0, "zz"]]},
    "left out nothing": lambda record: {**record, "left_out": [[1, 2, 3, 4, 5, 6]]},
    "left out a text": lambda record: {**record, "left_out": "abc"},
    "of a number": lambda record: {**record, "of": 1},
}


def written_to(path: Path, content: Any) -> None:
    path.write_text("{" if content is None else content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize("way", ["new", "append"])
@pytest.mark.parametrize("change", RECORDS)
def test_a_changed_record_is_redone_and_never_published(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch, change: str, way: str
) -> None:
    out = tmp_path / "out"
    before: list[int] = []
    if way == "new":
        stopped(monkeypatch, "record_checkpoint", 3, lambda: convert(table, out))
        record = tmp_path / ".out.tmp" / ".task-000000.begun.json"
    else:
        unirecord.write_dataset([{"id": -1, "name": "x"}], out)
        before = [-1]
        line = [
            "write",
            str(table),
            str(out),
            "--append",
            "--max-part-bytes",
            "32KB",
            "--codec",
            "none",
            "--quiet",
        ]
        _stop_append(monkeypatch, line)
        [folder] = out.glob(".append-*.tmp")
        record = folder / ".task-000000.begun.json"
    written_to(record, RECORDS[change](json.loads(record.read_text())))
    if way == "new":
        assert convert(table, out, resume=True) == ROWS
    else:
        assert main([*line, "--resume"]) == 0
    assert ids(out) == before + list(range(ROWS))
    assert unirecord.verify(out).ok


def _stop_append(monkeypatch: pytest.MonkeyPatch, line: list[str]) -> None:
    begun, calls = Journal.record_checkpoint, [0]

    def stops(self: Journal, task: int, record: dict[str, Any]) -> None:
        begun(self, task, record)
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(Journal, "record_checkpoint", stops)
        assert main(line) != 0


PLANS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nothing": lambda plan: {},
    "a list": lambda plan: [],
    "no JSON": lambda plan: None,
    "nested": lambda plan: "[" * 100_000,
    "no id": lambda plan: {**plan, "id": 3},
    "an id that is none": lambda plan: {**plan, "id": "../../x"},
    "an empty id": lambda plan: {**plan, "id": ""},
    "no first part": lambda plan: {**plan, "first": None},
    "a negative first part": lambda plan: {**plan, "first": -1},
    "what of a text": lambda plan: {**plan, "what": "x"},
    "what of numbers": lambda plan: {**plan, "what": {"the source": 1}},
    "files of a text": lambda plan: {**plan, "files": "x"},
    "published a text": lambda plan: {**plan, "published": "x"},
    "published no number": lambda plan: {**plan, "published": {"rows": -1, "left_out": []}},
    "of another dataset": lambda plan: {**plan, "to": "x"},
}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("change", PLANS)
def test_a_changed_plan_is_none_and_stops_nobody(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch, change: str, resume: bool
) -> None:
    out = tmp_path / "out"
    unirecord.write_dataset([{"id": -1, "name": "x"}], out)
    line = [
        "write",
        str(table),
        str(out),
        "--append",
        "--max-part-bytes",
        "32KB",
        "--codec",
        "none",
        "--quiet",
    ]
    _stop_append(monkeypatch, line)
    [folder] = out.glob(".append-*.tmp")
    plan = json.loads((folder / ".conversion.json").read_text())
    written_to(folder / ".conversion.json", PLANS[change](plan))
    assert plan_of((folder / ".conversion.json").read_bytes()) is None
    assert ids(out) == [-1]
    assert main([*line, *(["--resume"] if resume else [])]) == 0
    assert main(line) == 0
    assert ids(out) == [-1, *range(ROWS), *range(ROWS)]


def add(path: Path, **options: Any) -> Any:
    return unirecord.add_columns(
        path, {"k": "int64"}, lambda batch: {"k": [2 * n for n in batch["id"]]}, reads=["id"], **options
    )


@pytest.mark.parametrize("change", ["name", "id", "rows", "schema", "of"])
def test_a_changed_journal_of_columns_reaches_no_other_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    unirecord.write_dataset([{"id": i} for i in range(20)], tmp_path / "there")
    for _ in range(2):
        with unirecord.append(tmp_path / "there") as writer:
            for i in range(20):
                writer.write({"id": i})
    unirecord.write_dataset([{"id": i, "name": "precious"} for i in range(50)], tmp_path / "victim")
    part = json.loads((tmp_path / "victim" / "manifest.json").read_text())["parts"][0]
    stopped(monkeypatch, "record", 2, lambda: add(tmp_path / "there"))
    [folder] = (tmp_path / "there").glob(".append-*.tmp")
    record = json.loads((folder / ".task-000000.json").read_text())
    changes: dict[str, dict[str, Any]] = {
        "name": {**part, "name": f"../../victim/{part['name']}"},
        "id": {"id": part["id"]},
        "rows": {"rows": 19},
        "schema": {"schema": part["schema"]},
        "of": {},
    }
    if change in ("of", "name"):
        record["of"] = "gone"
    written_to(folder / ".task-000000.json", first_part(record, **changes[change]))
    before = sorted(os.listdir(tmp_path / "victim"))
    try:
        add(tmp_path / "there", resume=True)
    except UniRecordError as error:
        assert "nothing" in str(error) or "begins anew" in str(error)  # noqa: PT017
    assert sorted(os.listdir(tmp_path / "victim")) == before
    assert len(ids(tmp_path / "victim")) == 50
    assert ids(tmp_path / "there") == [*range(20)] * 3
    with UniRecordDataset(tmp_path / "there") as ds:
        if "k" in ds.column_names:
            assert [row["k"] for row in ds] == [2 * i for i in range(20)] * 3


def test_a_part_that_was_replaced_before_it_was_published_is_not(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is published is opened first, as a reader does: whatever the journal says."""
    publish = DirectoryWriter.publish

    def damaged(self: DirectoryWriter, content: Any, shape: Any, entries: Any) -> None:
        index = Path(self.change.folder) / f"{entries[1].name}.idx"
        index.write_bytes(index.read_bytes()[:100] + b"x" + index.read_bytes()[101:])
        publish(self, content, shape, entries)

    monkeypatch.setattr(DirectoryWriter, "publish", damaged)
    with pytest.raises(UniRecordError, match=r"part-000001-.*\.urec"):
        convert(table, tmp_path / "out")
    assert not (tmp_path / "out").exists()
