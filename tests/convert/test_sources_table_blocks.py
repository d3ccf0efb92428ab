"""CSV and JSON Lines in blocks: whole records, the same with and without pyarrow and C, in linear time, or an error."""

from __future__ import annotations

import contextlib
import csv
import io
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sources import plain
from text_sources import CELL, columns_of, opened

from unirecord.convert.sources import csv as csv_module
from unirecord.convert.sources import text_files
from unirecord.convert.sources.csv import arrow_block
from unirecord.convert.sources.source import Options, column_names
from unirecord.convert.sources.text_files import CsvDialect
from unirecord.errors import SchemaError, StaleError
from unirecord.format.schema import Schema


@pytest.mark.parametrize(
    "cell", ["' ' * 200_000 + 'x'", "' ' * 200_000", "'1' * 200_000 + 'x'", "' 1 ' * 60_000"]
)
def test_blanks_and_digits_take_linear_time(cell: str) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"  # quadratic: minutes
        "from unirecord.convert.sources.text_values import CellEvidence\n"
        "evidence = CellEvidence(); evidence.add([eval(sys.argv[1])] * 20); print(evidence.type())"
    )
    argv = [sys.executable, "-c", program, cell]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "text")


def test_many_columns_are_named_in_linear_time(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(60_000)]
    compared = 0

    class Name(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    assert column_names([Name(name) for name in names], "x", Options())[0] == names
    assert compared < 10 * len(names)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    for name, text, more in (("x.csv", "a\n1\n2\n", "3\n"), ("x.jsonl", '{"a": 1}\n', '{"a": 2}\n')):
        for changed in (text + more, text[:-2] if name == "x.csv" else ""):
            source = opened(tmp_path, text, name)
            (tmp_path / name).write_text(changed)
            with pytest.raises(StaleError, match=f"{name} changes while it is read"):
                list(source.batches())


def test_units_of_tables_are_read_alike_by_whoever_opens_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 10_000)
    for name, text in (
        ("x.csv", "a\n" + "".join(f"{i}\n" for i in range(10_000))),
        ("x.jsonl", "".join(f'{{"a": {i}}}\n' for i in range(3_000))),
    ):
        rows = text.count("\n") - (name == "x.csv")
        source = opened(tmp_path, text, name)
        assert [v for b in source.batches() for v in b.columns["a"]] == list(range(rows))
        again = opened(tmp_path, text, name)
        assert len(again.units) > 2
        found: list[int] = []
        for unit in reversed(again.units):
            found = [v for b in again.batches_of(unit) for v in b.columns["a"]] + found
        assert found == list(range(rows))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(CELL, st.text('"\n\r, a', max_size=6)), min_size=1, max_size=30),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
)
def test_blocks_of_any_size_hold_whole_records(
    tmp_path: Path, rows: list[tuple[str, str]], ending: str, size: int
) -> None:
    out = io.StringIO(newline="")
    for row in [("a", "b"), *rows]:
        # A carriage return ends a line for whoever reads it; Python's writer quotes it only where its own lines end so.
        quoting = csv.QUOTE_ALL if "\r" in "".join(row) else csv.QUOTE_MINIMAL
        csv.writer(out, lineterminator=ending, quoting=quoting).writerow(row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "BLOCK_BYTES", size)
        source = opened(tmp_path, out.getvalue(), overrides={"a": "string", "b": "string"})
        alone = [
            row
            for unit in reversed(source.units)  # in any order, in other processes
            for batch in reversed(list(pickle.loads(pickle.dumps(source)).batches_of(unit)))
            for row in reversed(list(zip(batch.columns["a"], batch.columns["b"], strict=True)))
        ]
    assert alone[::-1] == rows
    assert source.rows == len(rows)


@pytest.mark.parametrize("text", ['x"y,1\na"",2\n"p\nq",3\n', 'a""b,1\n"c""\n""d",2\n5",3\n'])
def test_quotes_in_odd_places_do_not_cut_records(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    for size in range(1, len(text) + 1):
        monkeypatch.setattr(text_files, "BLOCK_BYTES", size)
        assert columns_of(opened(tmp_path, "a,b\n" + text)) == {"a": wanted, "b": [1, 2, 3]}


number = st.sampled_from(
    ["", "0", "-0", "+5", "007", "-007", "1.5", "01.5", "1.", ".5", "-.5e3", "1e05", "1E5", "1e999", "nan", "nan(1)",
     "inf",
     "-Infinity", " 7", "7 ", " ", "1_0", "0x1", "true", "FALSE", "t", f"{(1 << 63) - 1}", f"{1 << 63}",
     f"{-(1 << 63) - 1}", f"{1 << 64}", "é", "\x1f", '"', "x,y", "a\nb", "1" * 40, "2020-01-05", "1d", "NA"]
)  # fmt: skip

column = st.integers(0, 4).flatmap(
    lambda kind: (
        number,
        st.integers(-(10**19), 10**20).map(str),
        st.floats().map(repr),
        st.sampled_from(["true", "False", ""]),
        st.text(max_size=5),
    )[kind]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.data(),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([None, "int64?", "float64", "float32?", "bool", "string", "text", "uint8?", "bytes"]),
)
def test_with_and_without_pyarrow_and_c_types_and_values_are_the_same(
    tmp_path: Path, data: Any, ending: str, override: str | None
) -> None:
    kinds = data.draw(st.lists(st.sampled_from([number, column]), min_size=2, max_size=2))
    rows = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=8))
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=ending).writerows([("a", "b"), *rows])
    text = out.getvalue().replace("\0", "")
    overrides = {} if override is None else {"a": override}
    found = []
    for use in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not use:
                patch.setattr(csv_module, "arrow_block", lambda *args: None)
                patch.setattr(csv_module, "look_through_csv", lambda *args: None)
            try:
                source = opened(tmp_path, text, overrides=overrides)
                columns = {n: [plain(v) for v in values] for n, values in columns_of(source).items()}
                found.append(str((source.schema.to_spec(), source.rows, columns)))
            except SchemaError as error:
                found.append(str(error))
    assert found[0] == found[1]


def test_blocks_that_pyarrow_reads_otherwise_are_left_to_csv() -> None:
    texts = Schema.parse({"a": "string", "b": "string"})
    for data in (b"a\rb\n", b'x"y,1\n', b"a\0b,1\n", b"\xff,1\n", b"1,2,3\n", b""):
        assert arrow_block(data, texts, CsvDialect(",")) is None
    block = arrow_block(b'1,"a\nb"\n\n2,""\n', texts, CsvDialect(","))
    assert block is not None
    assert (block.rows, block.texts(1)) == (2, ["a\nb", ""])


@given(st.text(), st.sampled_from(["a.csv", "a.jsonl"]))
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as root, contextlib.suppress(SchemaError):
        columns_of(
            opened(Path(root), text.encode("utf-8", "surrogatepass").decode("latin-1"), name, "latin-1")
        )


def test_a_sample_of_a_block_of_csv_parses_a_few_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f'{n},"a {n}\n""é"""\n' for n in range(3_000))
    source = opened(tmp_path, "n,text\n" + text)
    (unit,) = source.units
    monkeypatch.setattr(text_files, "FIRST_BYTES", 2_000)
    parsed: list[int] = []

    def noted(data: bytes, schema: Schema, dialect: CsvDialect) -> Any:
        parsed.append(len(data))
        return arrow_block(data, schema, dialect)

    monkeypatch.setattr(csv_module, "arrow_block", noted)
    first = next(source.batches_of(unit))
    assert 0 < first.rows < 400
    assert sum(parsed) < len(text.encode()) / 8
    whole = [batch.columns for batch in source.batches_of(unit)]
    assert [n for batch in whole for n in batch["n"]] == list(range(3_000))
    assert [str(cell) for batch in whole for cell in plain(batch["text"])] == [
        f'a {n}\n"é"' for n in range(3_000)
    ]


def test_what_is_wrong_behind_the_first_rows_of_a_block_is_named_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "FIRST_BYTES", 2_000)
    rows = [f"{n}.5,a" for n in range(2_000)]
    rows[1_500] = "1e999,a"
    source = opened(tmp_path, "\n".join(["n,text", *rows]) + "\n", overrides={"n": "float64"})
    with pytest.raises(SchemaError, match=r"x\.csv, line 1502, column 'n': '1e999'"):
        list(source.batches())


@pytest.mark.parametrize("record", ['1,"é\n\n', "1,é\r2,b\r", '1,x"y"\r\n', '1,"x"y\n', "é" * 50])
def test_records_at_the_start_of_a_block_end_where_a_record_does(
    record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = record.encode() * 40
    for size in range(16, len(data), 7):
        monkeypatch.setattr(text_files, "FIRST_BYTES", size // 5)
        first, rest = text_files.first_records(data[:size], CsvDialect(","))
        assert first + rest == data[:size]
        assert not rest or first.endswith((b"\n", b"\r"))
