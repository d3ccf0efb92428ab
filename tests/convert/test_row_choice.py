"""Which rows and columns are written: held against plain lists, for any source, any workers, one part or many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numbers_converted import check_refused
from numbers_source import Numbers, values
from scenes import jpeg

from unirecord import (
    LeftOutWarning,
    QueryError,
    SchemaError,
    StaleError,
    UniRecordDataset,
    add_columns,
    write_dataset,
)
from unirecord.cli import main
from unirecord.convert import task
from unirecord.convert.row_choice import RowChoice
from unirecord.convert.sources import WrongSourceError
from unirecord.convert.sources.source import said_of_left_out
from unirecord.convert.steps import drawn_evenly
from unirecord.convert.write_dataset import source_of
from unirecord.writing.change import Interrupted

pytestmark = pytest.mark.usefixtures("forked_readers")

ID = bytes(range(16))
UNITS = [130, 70, 1, 300, 0, 220, 90]
ROWS = sum(UNITS)
ALL = [values(n) for n in range(ROWS)]

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 20_000)


def rows_of(choice: RowChoice, units: list[int]) -> list[dict[str, Any]]:
    """What the source gives, without writing it."""
    chosen = choice.of(Numbers(Path("."), units))
    found: list[dict[str, Any]] = []
    for batch in chosen.batches():
        assert list(batch.columns) == list(chosen.schema.names)
        found += [{name: batch.columns[name][i] for name in batch.columns} for i in range(batch.rows)]
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


CONDITIONS = {
    "n % 7 == 3": lambda row: row["n"] % 7 == 3,
    "name == 'row 5' or n < 20": lambda row: row["name"] == "row 5" or row["n"] < 20,
    "name like '%1_' and not n in [11, 27]": lambda row: row["name"][-2] == "1" and row["n"] not in (11, 27),
    "n * 2 - 7 > 90 and name >= 'row 3'": lambda row: row["n"] * 2 - 7 > 90 and row["name"] >= "row 3",
    "n < 0": lambda row: False,
    "n >= 0": lambda row: True,
}


@few
@given(
    units=st.lists(st.integers(0, 120), max_size=6),
    condition=st.sampled_from(sorted(CONDITIONS)),
    columns=st.permutations(["n", "name", "blob"]).flatmap(
        lambda names: st.integers(1, 3).map(lambda many: names[:many])
    ),
)
def test_columns_and_conditions_choose_what_plain_python_does(
    units: list[int], condition: str, columns: list[str]
) -> None:
    names = {columns[0]: "first"}
    found = rows_of(RowChoice(columns=columns, where=condition, rename=names), units)
    chosen = [values(n) for n in range(sum(units)) if CONDITIONS[condition](values(n))]
    assert found == [{names.get(name, name): row[name] for name in columns} for row in chosen]


@few
@given(
    units=st.lists(st.integers(0, 400), max_size=5), rows=st.integers(0, 600), seed=st.integers(0, 2**64 - 1)
)
def test_a_sample_has_one_row_of_each_stretch(units: list[int], rows: int, seed: int) -> None:
    total = sum(units)
    found = [row["n"] for row in rows_of(RowChoice(sample=rows, seed=seed, columns=["n"]), units)]
    taken = min(rows, total)
    assert len(found) == taken
    assert all(i * total // taken <= row < (i + 1) * total // taken for i, row in enumerate(found))


def test_a_sample_is_drawn_by_its_seed_and_every_row_has_a_chance() -> None:
    drawn = [tuple(drawn_evenly(10, 100, seed, 0, 100).tolist()) for seed in range(400)]
    assert drawn[7] == (
        *drawn_evenly(10, 100, 7, 0, 60).tolist(),
        *drawn_evenly(10, 100, 7, 60, 100).tolist(),
    )
    assert len(set(drawn)) == 400
    times = [sum(row in one for one in drawn) for row in range(100)]
    assert min(times) >= 15  # 40 are expected of 400
    assert max(times) <= 70
    assert 99 <= len(drawn_evenly(10**9, 10**13, 1, 5 * 10**12, 5 * 10**12 + 10**6)) <= 101


def test_a_sample_of_what_meets_a_condition_is_exact() -> None:
    found = [
        row["n"] for row in rows_of(RowChoice(where="n % 3 == 0", sample=50, columns=["name", "n"]), UNITS)
    ]
    assert len(found) == 50
    assert all(n % 3 == 0 for n in found)
    assert found == sorted(found)


@pytest.mark.parametrize(
    "options",
    [
        {"where": "n % 2 == 0", "columns": ["blob", "n"], "rename": {"n": "number"}},
        {"sample": 100, "seed": 3},
        {"where": "n >= 100", "sample": 99, "on_error": "skip"},
        {"where": "n >= 100", "limit": 250},
    ],
)
def test_any_number_of_workers_writes_the_same_and_one_part_the_same_rows(
    options: dict[str, Any], tmp_path: Path
) -> None:
    for workers in (1, 2):
        write_dataset(Numbers(tmp_path, UNITS), tmp_path / str(workers), workers=workers, id=ID, **options)
    assert files(tmp_path / "1") == files(tmp_path / "2")
    rows = write_dataset(Numbers(tmp_path, UNITS), tmp_path / "one.urec", **options)
    one = list(UniRecordDataset(tmp_path / "one.urec"))
    assert one == list(UniRecordDataset(tmp_path / "1"))
    assert len(one) == rows > 0
    if "limit" in options:
        assert [row["n"] for row in one] == list(range(100, 350))


def test_going_on_needs_the_same_choice_and_makes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"where": "n % 2 == 0", "sample": 200, "id": ID}
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "whole", **options)
    original, calls = Numbers.read, 0

    def dies(self: Numbers, unit: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == len(UNITS) + 11:  # the rows that meet the condition have been counted
            raise KeyboardInterrupt
        return original(self, unit)

    monkeypatch.setattr(Numbers, "read", dies)
    with pytest.raises(Interrupted):
        write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", **options)
    monkeypatch.undo()
    monkeypatch.setattr(task, "_LEAST_BYTES", 20_000)
    for other in ({"sample": 201}, {"seed": 1}, {"where": "n % 2 == 1"}, {"on_error": "skip"}):
        with pytest.raises(StaleError, match="was another conversion"):
            write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", resume=True, **{**options, **other})
    write_dataset(Numbers(tmp_path, UNITS), tmp_path / "out", resume=True, **options)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.parametrize("target", ["out", "out.urec"])
def test_bad_rows_end_it_or_are_left_out_and_listed(target: str, tmp_path: Path) -> None:
    def source() -> Numbers:
        return Numbers(tmp_path, UNITS, bad=frozenset({200, 333}), left_out=frozenset({5}))

    out = tmp_path / target
    with pytest.raises(SchemaError, match="column 'n'"):
        write_dataset(source(), out)
    with pytest.raises(SchemaError, match=r"row 5: missing; --on-error skip leaves it out"):
        write_dataset(source(), out, on_error="raise")
    assert write_dataset(source(), out, on_error="report") == ROWS - 3
    assert [row["n"] for row in UniRecordDataset(out)] == [n for n in range(ROWS) if n not in (5, 200, 333)]
    listed = [json.loads(line) for line in Path(f"{out}.left-out.jsonl").read_text().splitlines()]
    assert [one["file"] for one in listed] == ["row 5", "unit 2", "unit 3"]
    assert "column 'n'" in listed[1]["reason"]
    with pytest.raises(FileExistsError, match="left-out"):
        write_dataset(source(), tmp_path / "other", on_error="report", report=f"{out}.left-out.jsonl")
    with pytest.warns(
        UserWarning, match=r"1 row could not be read or did not fit, left out, the first row 5"
    ):
        write_dataset(Numbers(tmp_path, UNITS, left_out=frozenset({5})), tmp_path / "third")


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("out", {}),
        ("out", {"workers": 2}),
        ("out.urec", {}),
        ("out", {"shuffle_seed": 1}),
        ("out", {"split": {"train": 0.5, "val": 0.5}}),
        ("out", {"on_error": "raise"}),
    ],
)
def test_what_a_source_reduces_is_said_once_with_its_count(
    target: str, options: dict[str, Any], tmp_path: Path
) -> None:
    listed = tmp_path / "listed.jsonl"
    with pytest.warns(LeftOutWarning) as warned:
        written = write_dataset(
            Numbers(tmp_path, UNITS, reduces=True), tmp_path / target, report=listed, **options
        )
    (one,) = warned
    assert written == ROWS
    assert written.left_out == one.message.left_out
    assert str(one.message).splitlines() == [
        "numbers: this is left out, or not as it is there:",
        "  the title: left out",
        "  units: left out (2 times)",
        f"  pose: left out ({ROWS:,} times)",
    ]
    assert sum(left.count for left in one.message.left_out if left.name == "pose") == ROWS
    assert [json.loads(line) for line in listed.read_text().splitlines()] == [
        {"file": "the title", "reason": "left out", "rows": 0},
        {"file": "units", "reason": "left out", "rows": 0, "count": 2},
        {"file": "pose", "reason": "left out", "rows": 0, "count": ROWS},
    ]
    assert one.filename == __file__


@pytest.mark.parametrize("report", [False, True])
def test_the_command_the_warning_and_the_result_count_the_same(
    report: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(5):
        (folder / f"{i}.jpg").write_bytes(jpeg(16, 16) if i > 1 else b"broken")
        (folder / f"{i}.txt").write_text("beside it")
    options: dict[str, Any] = {"report": tmp_path / "list"} if report else {}
    with pytest.warns(LeftOutWarning) as warned:
        written = write_dataset(str(folder), tmp_path / "a", **options)
    command = [
        "write",
        str(folder),
        str(tmp_path / "b"),
        *(["--report", str(tmp_path / "list2")] if report else []),
    ]
    assert main(command) == 1
    said = capfd.readouterr()
    assert written == 3
    assert len([one for one in written.left_out if not one.expected]) == 2
    assert "2 pictures could not be read or did not fit, left out" in said.err
    lines = said_of_left_out(written.left_out)
    assert lines == ["5 files: by name it is no picture"]
    assert all(f"  {line}" in said.out.splitlines() for line in lines)
    message = str(warned[0].message)
    assert all(f"  {line}" in message.splitlines() for line in lines)
    if report:
        assert (tmp_path / "list").read_text() == (tmp_path / "list2").read_text()
    else:
        assert message.startswith("2 pictures could not be read or did not fit, left out, the first 0.jpg: ")
        assert set(warned[0].message.left_out) == set(written.left_out)


def test_nothing_is_said_of_columns_that_nobody_asked_for(tmp_path: Path) -> None:
    with pytest.warns(LeftOutWarning) as warned:
        write_dataset(Numbers(tmp_path, UNITS, reduces=True), tmp_path / "out", columns=["name"])
    (one,) = warned
    assert {left.name for left in one.message.left_out} == {"the title", "pose"}


def test_columns_that_come_from_a_table_are_said_to_be_reduced_too(tmp_path: Path) -> None:
    write_dataset(Numbers(tmp_path, [3]), tmp_path / "out")
    table = tmp_path / "t.csv"
    table.write_text("n,a\x01b,c\x01d\n0,x,u\n1,y,v\n2,z,w\n")
    with pytest.warns(LeftOutWarning, match=r"field 'a\\x01b': is called 'a_b'") as warned:
        add_columns(tmp_path / "out", ["a_b"], table, key="n")
    assert len(warned) == 1
    assert "c_d" not in str(warned[0].message)
    assert warned[0].filename == __file__


def test_what_follows_a_broken_place_of_a_unit_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Numbers.read

    def breaks(self: Numbers, unit: Any) -> Any:
        for i, batch in enumerate(original(self, unit)):
            if unit.name == "unit 3" and i == 2:
                raise SchemaError("the bytes make no sense")
            yield batch

    monkeypatch.setattr(Numbers, "read", breaks)
    for name in ("out", "out.urec"):
        with pytest.raises(SchemaError, match="make no sense"):
            write_dataset(Numbers(tmp_path, UNITS), tmp_path / name)
        assert write_dataset(Numbers(tmp_path, UNITS), tmp_path / name, on_error="report") == ROWS - 200
        (line,) = Path(tmp_path / f"{name}.left-out.jsonl").read_text().splitlines()
        assert json.loads(line) == {
            "file": "unit 3", "rows": 200, "reason": "200 rows after its row 100: the bytes make no sense"
        }  # fmt: skip


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"columns": ["nam"]}, WrongSourceError, r"--columns: there is no column 'nam'; did you mean 'name'"),
    ({"columns": ["n", "n"]}, WrongSourceError, "names 'n' twice"),
    ({"columns": []}, ValueError, "at least"),
    ({"columns": "n"}, TypeError, "list of names"),
    ({"rename": {"x": "y"}}, WrongSourceError, "--rename: there is no column 'x'"),
    ({"rename": {"n": "name"}}, WrongSourceError, "two columns would be called 'name'"),
    ({"rename": {"n": "y"}, "columns": ["name"]}, WrongSourceError, "not among --columns"),
    ({"rename": {"n": ""}}, WrongSourceError, "--rename"),
    ({"where": "nope > 3"}, QueryError, "nope"),
    ({"where": "row < 10"}, WrongSourceError, "--limit takes the first rows"),
    ({"sample": -1}, ValueError, "sample"),
    ({"sample": 5, "limit": 3}, ValueError, "excludes sample"),
    ({"seed": -1}, ValueError, "seed"),
    ({"limit": -1}, ValueError, "limit"),
    ({"on_error": "ignore"}, ValueError, "on_error is one of"),
    ({"resize": 0}, ValueError, "resize is a number of pixels"),
    ({"resize": 64}, WrongSourceError, "no column holds files of pictures"),
    ({"reencode": "gif"}, ValueError, "reencode is jpeg:QUALITY"),
    ({"reencode": "png:3"}, ValueError, "reencode is jpeg:QUALITY"),
    ({"reencode": "jpeg:0"}, ValueError, "reencode is jpeg:QUALITY"),
    ({"picture_columns": ["blob"]}, ValueError, "none of them is given"),
    (
        {"resize": 64, "picture_columns": ["name"]},
        WrongSourceError,
        "'name' is string, not a column of files",
    ),
]


@pytest.mark.parametrize(("options", "error", "text"), WRONG, ids=[str(one[0]) for one in WRONG])
def test_what_cannot_be_obeyed_is_refused(
    options: dict[str, Any], error: type[Exception], text: str, tmp_path: Path
) -> None:
    check_refused(options, error, text, tmp_path)


def test_options_that_are_for_other_sources_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a\n1\n")
    for source, options, text in (
        (str(table), {"nosuch": 1}, "there is no option nosuch="),
        (pandas.DataFrame({"a": [1]}), {"names": ["a"]}, "names= is for items that are tuples"),
        ([{"a": 1}], {"pattern": "*.bin"}, "pattern= is for paths; the source is a list"),
        ([{"a": 1}], {"kind": "csv"}, "kind= is for paths"),
    ):
        with pytest.raises(TypeError, match=text):
            write_dataset(source, tmp_path / "out", **options)
    assert main(["write", str(table), str(tmp_path / "out"), "--schema", "a=int8"]) == 0


def test_what_is_nearly_a_source_is_told_how_to_become_one(tmp_path: Path) -> None:
    for source, text in (
        (
            {"a": pandas.DataFrame({"b": [1]})},
            r"Hugging Face's splits into a folder by unirecord\.hf\.write_splits",
        ),
        ({"a": 1}, r"a record, of one value each, is given in a list: \[record\]"),
        (polars.LazyFrame({"a": [1]}), r"collect\(\) makes a DataFrame of it"),
        (5, "no DataFrame or table$"),
    ):
        with pytest.raises(SchemaError, match=text):
            write_dataset(source, tmp_path / "out")


def test_an_iterator_can_be_filtered_but_not_sampled(tmp_path: Path) -> None:
    assert write_dataset(iter(ALL), tmp_path / "a", where="n < 100", columns=["n"]) == 100
    assert UniRecordDataset(tmp_path / "a")[99] == {"n": 99}
    with pytest.raises(WrongSourceError, match="read once"):
        write_dataset(iter(ALL), tmp_path / "b", sample=5)


def test_the_command_obeys_them_and_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,cls,score\n" + "".join(f"{i},c{i % 3},{i / 2}\n" for i in range(300)))
    call = ["write", str(table), str(tmp_path / "out")]
    chosen = [
        "--columns",
        "score,cls",
        "--where",
        "cls in ('c1', 'c2') and score < 100",
        "--rename",
        "cls=label",
    ]
    assert main([*call, *chosen, "--sample", "30", "--seed", "5", "--dry-run"]) == 0
    out = capfd.readouterr().out
    assert "label  string" in " ".join(out.split("\n")).replace("  string", "  string")
    assert "--where" in out
    assert "about 30 rows" in out
    assert not (tmp_path / "out").exists()
    assert main([*call, *chosen, "--index", "label"]) == 0
    wanted = [{"score": i / 2, "label": f"c{i % 3}"} for i in range(200) if i % 3]
    assert list(UniRecordDataset(tmp_path / "out")) == wanted
    assert main([*call, *chosen, "--append"]) == 0  # the dataset's types, under the names it has
    assert list(UniRecordDataset(tmp_path / "out")) == wanted * 2
    assert main(["write", str(table), str(tmp_path / "out.urec"), *chosen, "--limit", "7"]) == 0
    assert list(UniRecordDataset(tmp_path / "out.urec")) == wanted[:7]
    capfd.readouterr()
    for wrong, said in (
        (["--sample", "3", "--limit", "3"], "choose one"),
        (["--seed", "3"], "there is no --sample"),
        (["--on-error", "ignore"], "there is no 'ignore'"),
        (["--rename", "a"], "OLD=NEW"),
        (["--shuffle-seed", "-1"], "not a whole number"),
        (["--where", "cls == 3"], "cls"),
        (["--on-error", "report", "--report", str(table)], "exists already"),
    ):
        parsed = said in ("OLD=NEW", "there is no 'ignore'", "not a whole number")  # by argparse, which exits
        with pytest.raises(SystemExit) if parsed else pytest.MonkeyPatch.context():
            assert main(["write", str(table), str(tmp_path / "x"), *wrong]) == 2
        assert said in capfd.readouterr().err
    assert not (tmp_path / "x").exists()
    for command in (["write", str(table)], ["export", str(tmp_path / "out"), "--to", "csv"]):
        with pytest.raises(SystemExit):
            main([*command, "-"])
        assert "nothing is written to standard output" in capfd.readouterr().err


def test_a_cell_that_does_not_fit_takes_its_row_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text, place in (
        ("t.csv", "n,s\n" + "".join(f"{'x' if i == 40 else i},{i}\n" for i in range(100)), "line 42"),
        (
            "t.jsonl",
            "".join(f'{{"n": {chr(34) + "x" + chr(34) if i == 40 else i}, "s": {i}}}\n' for i in range(100)),
            "line 41",
        ),
    ):
        (tmp_path / name).write_text(text)
        target = str(tmp_path / f"{name}.out")
        assert main(["write", str(tmp_path / name), target, "--schema", "n=int32"]) == 1
        assert (
            main(["write", str(tmp_path / name), target, "--schema", "n=int32", "--on-error", "report"]) == 0
        )
        assert [row["n"] for row in UniRecordDataset(target)] == [n for n in range(100) if n != 40]
        (line,) = Path(f"{target}.left-out.jsonl").read_text().splitlines()
        assert json.loads(line)["file"] == str(tmp_path / name)
        assert json.loads(line)["reason"].startswith(f"{place}, column 'n'")
        capfd.readouterr()


@pytest.mark.parametrize(
    ("name", "wrong", "workers"),
    [("t.jsonl", "n", 1), ("t.jsonl", "image", 2), ("t.csv", "n", 2), ("t.csv", "image", 1)],
)
def test_rows_that_a_step_leaves_out_are_named_by_file_and_line(
    name: str, wrong: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unirecord.convert.sources.text_files.BLOCK_BYTES", 2000)
    bad, lines = {}, [] if name == "t.jsonl" else ["n,image"]
    for i in range(1000):
        n, image = (
            (300 if wrong == "n" and i % 97 == 5 else i % 100),
            "no picture" if wrong == "image" and i % 97 == 5 else "",
        )
        if n == 300 or image:
            bad[len(lines) + 1] = i
        lines.append(f"{n},{image}" if name == "t.csv" else json.dumps({"n": n, "image": image or None}))
        if i % 10 == 3:
            lines.append("")  # it is no row
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    target, report = str(tmp_path / "out"), tmp_path / "report"
    call = ["write", str(tmp_path / name), target, "--schema", "n=int8,image=bytes?", "--resize", "8"]
    call += ["--picture-columns", "image", "--where", "n >= 5", "--workers", str(workers)]
    assert main([*call, "--on-error", "report", "--report", str(report)]) == 0
    told = [json.loads(line) for line in report.read_text().splitlines()]
    named = [f"{one['file']}, {one['reason']}" if wrong == "n" else one["file"] for one in told]
    kept = sorted(line for line, i in bad.items() if wrong == "n" or i % 100 >= 5)
    assert [line.split(", column")[0] for line in named] == [
        f"{tmp_path / name}, line {line}" for line in kept
    ]
    assert main([*call, "--overwrite", "--on-error", "raise"]) == 1


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("name", "text", "reasons"),
    [
        ("t.jsonl", '{"n": 0}\nbroken\n{"n": 1}\n[3]\n{"n": 2}\n{"n": 3', ["line 2: not", "line 4: a", "line 6: not"]),
        ("t.csv", "n,s\n0,a\n9\n1,b\n\n9,9,9\n2,c\n", ["line 3: 1 value", "line 6: 3 values"]),
    ],
)  # fmt: skip
def test_a_line_that_is_no_row_is_left_out_alone(
    name: str, text: str, reasons: list[str], workers: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    call = ["write", str(tmp_path / name), str(tmp_path / "out"), "--workers", str(workers)]
    assert main(call) == 1
    assert reasons[0] in capfd.readouterr().err
    assert main([*call, "--on-error", "report"]) == 0
    ds = UniRecordDataset(tmp_path / "out")
    assert str(ds.schema["n"]) == "int64"
    assert ds["n"].tolist() == [0, 1, 2]
    told = [json.loads(line) for line in (tmp_path / "out.left-out.jsonl").read_text().splitlines()]
    assert [one["file"] for one in told] == [str(tmp_path / name)] * len(reasons)
    assert all(one["reason"].startswith(reason) for one, reason in zip(told, reasons, strict=True))
    again = {"on_error": "skip", "sample": 2, "where": "n < 2"}
    assert write_dataset(tmp_path / name, tmp_path / "few", workers=workers, **again) == 2
    assert write_dataset(tmp_path / name, tmp_path / "sorted", on_error="skip", sort="n") == 3
    assert sum(len(UniRecordDataset(one)) for one in (tmp_path / "few", tmp_path / "sorted")) == 5


def test_many_lines_that_are_no_rows(tmp_path: Path) -> None:
    for name, head, good, bad in (
        ("t.jsonl", "", '{{"n": {}, "s": "a"}}\n', "x\n"),
        ("t.csv", "n,s\n", "{},a\n", "x\n"),
    ):
        lines = [bad if 9000 <= i < 14_000 or i % 7 == 0 else good.format(i) for i in range(20_000)]
        (tmp_path / name).write_text(head + "".join(lines))
        out = tmp_path / f"{name}.out"
        kept = [i for i in range(20_000) if not (9000 <= i < 14_000 or i % 7 == 0)]
        assert write_dataset(tmp_path / name, out, on_error="report") == len(kept)
        assert UniRecordDataset(out)["n"].tolist() == kept
        assert len(Path(f"{out}.left-out.jsonl").read_text().splitlines()) == 20_000 - len(kept)


def test_the_first_rows_of_class_folders_are_said_to_be_of_one_class(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    for cls in ("cat", "dog"):
        (tmp_path / "pictures" / cls).mkdir(parents=True)
        for i in range(6):
            Image.new("RGB", (4, 4)).save(tmp_path / "pictures" / cls / f"{i}.png")
    source = str(tmp_path / "pictures")
    assert main(["write", source, str(tmp_path / "a"), "--limit", "5", "--columns", "label"]) == 0
    assert "may all be of one class; --sample 5 takes them evenly" in capfd.readouterr().out
    assert {row["label"] for row in UniRecordDataset(tmp_path / "a")} == {0}
    assert main(["write", source, str(tmp_path / "b"), "--sample", "6", "--columns", "label"]) == 0
    assert [row["label"] for row in UniRecordDataset(tmp_path / "b")] == [0, 0, 0, 1, 1, 1]
    assert source_of(source).rows == 12
