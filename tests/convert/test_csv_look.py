"""CSV looked through in C, and by any number of threads: the types and rows that Python finds cell by cell."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unirecord.convert.sources import Options, Source, open_source, text_files
from unirecord.convert.sources.text_values import CellEvidence
from unirecord.core import look_through_csv
from unirecord.errors import SchemaError


def _opened(tmp_path: Path, text: str, **options: Any) -> Source:
    path = tmp_path / "x.csv"
    path.write_text(text)
    return open_source(str(path), options=Options(**options))


def _values(source: Source) -> dict[str, list[Any]]:
    (batch,) = source.batches()
    return {name: list(values) for name, values in batch.columns.items()}


def test_hexadecimal_numbers_are_text(tmp_path: Path) -> None:
    text = "a,b\n0x1F,1\n0X2,2\n"
    source = _opened(tmp_path, text)
    assert source.schema.to_spec() == {"a": "string", "b": "int64"}
    assert _values(source) == {"a": ["0x1F", "0X2"], "b": [1, 2]}
    with pytest.raises(SchemaError, match="'0x1F' is no int64"):
        _values(_opened(tmp_path, text, overrides={"a": "int64"}))


def test_a_negative_number_far_from_one_beyond_int64_makes_text(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "BLOCK_BYTES", 64)
        text = "\n".join(["a", "-5", *"1" * 99, str(1 << 63)])
        assert _opened(tmp_path, text).schema.to_spec() == {"a": "string"}
    evidence = CellEvidence()
    evidence.add(["-5"])
    evidence.add([str(1 << 63)])
    assert evidence.type() == "string"


cell = st.one_of(
    st.sampled_from(
        ["", "0", "-0", "+7", "007", " 12 ", "1.5", ".5", "5.", "-.5e3", "1e", "1E+05", "+.5", ".", "-", "e5", "  ",
         "00.5", "inf", "-Infinity", "infin", "nan", "-nan", "NaN", "true", "FALSE", "truee", " true", "fal\u017fe",
         "\u0131nf", "9" * 18, "9" * 19, str(1 << 63), str(-(1 << 63)), str(-(1 << 63) - 1), str(1 << 64), "9" * 40,
         "-" + "9" * 40, "0x1F", "1_000", "12345678x", "x2345678", "é", "漢😀", 'a"b', "a\nb", "a\r\nb", "a,b", "\x1f"]
    ),
    st.text(max_size=20),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(repr),
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(cell, min_size=n, max_size=n), max_size=6)),
    st.data(),
)
def test_text_looked_through_in_c_says_of_its_cells_what_python_says(
    rows: list[list[str]], data: Any
) -> None:
    out = io.StringIO(newline="")
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    csv.writer(out, quoting=quoting, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"]))).writerows(
        rows
    )
    text = out.getvalue().encode("utf-8", "replace")
    width = len(rows[0]) if rows else 1
    text = text[: len(text) - data.draw(st.sampled_from([0, 0, 0, 1, 2]))]
    found = look_through_csv(text, ",", width)
    try:
        cells = [row for row in csv.reader(io.StringIO(text.decode(), newline=""), strict=True) if row]
        whole = all(len(row) == width for row in cells)
    except csv.Error:
        whole = False
    odd = b"\0" in text or b"\r" in text.replace(b"\r\n", b"")
    if found is None:
        assert odd or not whole
        return
    assert whole
    assert found[0] == len(cells)
    for look, column in zip(found[1], zip(*cells, strict=True), strict=False):
        one, other = CellEvidence(), CellEvidence()
        one.take(look)
        other.add(column)
        assert (one.type(), one.longest, one.empty) == (other.type(), other.longest, other.empty)


def test_text_that_is_no_plain_csv_is_not_looked_through_in_c() -> None:
    for text in (b"a\rb\n", b'x"y\n', b'"x"y\n', b'"x\n', b"a\0b\n", b"a,b\n", b"\xff\n", b"\xc3", b"\xed\xa0\x80\n",
                 b"\xe0\x80\x80\n", b"\xf4\x90\x80\x80\n", b"\xc0\xaf\n", b"a\r"):  # fmt: skip
        assert look_through_csv(text, ",", 1) is None


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_any_number_of_threads_finds_the_same(tmp_path: Path, name: str) -> None:
    rows = [{"a": i, "b": None if i % 7 else f'x"{i}\n', "c": i / 3} for i in range(200)] + [
        {"a": "x", "b": "", "c": 1}
    ]
    path = tmp_path / name
    if name == "a.csv":
        with path.open("w", newline="") as out:
            writer = csv.DictWriter(out, "abc")
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "BLOCK_BYTES", 512)
        for threads in (1, 2, 5):
            source = open_source(str(path), None, Options(threads=threads))
            found.append((source.schema.to_spec(), [(unit.place, unit.rows) for unit in source.units]))
    assert len(found[0][1]) > 5
    assert found[0] == found[1] == found[2]
