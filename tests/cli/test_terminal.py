"""What reaches a terminal: every command is walked with hostile names and values, and its bytes are looked at."""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_folders import folder, picture
from partgen import MadePart, write
from partgen_bytes import Col, Spec

import unirecord.cli
from unirecord.cli import main
from unirecord.cli.terminal import escaped, print_csv, print_csv_counts, to_json
from unirecord.format.values.strings import Texts

ESC, C1, CR, BIDI = "\x1b]0;owned\x07\x1b[31m", "\x9b31m", "safe\rEVIL", "\u202eexe.png"
MARKS = (
    "\u2028\u2066x"  # what names of columns may hold, as bidi overrides, where control characters are refused
)
HOSTILE = ("\x1b", "\x9b", "\x07", "\r", "\u202e", "\x7f", "\x00", "\u2028", "\u2066")
FORMULA = "=cmd|'/c calc'!A1"


def harmless(text: str) -> bool:
    return not any(char in text for char in HOSTILE)


def hostile_part(path: Path, name: str = f"c{BIDI}") -> Path:
    """A part whose names, values and metadata hold what steers a terminal, as far as names may."""
    columns = [
        Col(name, "string", None, True),
        Col(f"n{MARKS}", "int32"),
        Col(f"r{BIDI}", "string"),
        Col(f"o{BIDI}", "object"),
        Col(f"t{MARKS}", "text"),
        Col(f"b{MARKS}", "bytes"),
    ]
    spec = Spec(b"h" * 16, columns, [name], {f"m{ESC}": [ESC, C1, BIDI]}, align=8)
    texts = [ESC, CR, C1, BIDI, "two\nlines", FORMULA, "\x7f\0\u2028\u2066", "plain é 日本"]
    spec.groups = [len(texts)]
    made = MadePart(path, spec, [])
    for i, text in enumerate(texts):
        word, thing = text.encode(), msgpack.packb({text: [text]})
        made.raw.append([word, i.to_bytes(4, "little"), word, thing, word, word])
    return write(made).path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp(f"h{ESC.replace('/', '')}")
    part = hostile_part(root / f"p{ESC}{CR}.urec")
    assert len(unirecord.UniRecordDataset(part)) == 8
    return part


def test_a_part_with_control_characters_in_names_is_refused_in_harmless_words(tmp_path: Path) -> None:
    part = hostile_part(tmp_path / "p.urec", f"c{ESC}")
    for command in ("inspect", "verify", "repair"):
        out, err = bytes_printed(command, part)
        assert harmless(out)
        assert harmless(err)
        assert "control character" in out + err


def bytes_printed(*argv: str | Path, isatty: bool = False) -> tuple[str, str]:
    """Run the command in this process; its stdout and stderr as they were written."""
    out, err = Stream(isatty), Stream(isatty)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        with contextlib.suppress(SystemExit):  # argparse
            main([str(argument) for argument in argv])
    finally:
        sys.stdout, sys.stderr = before
    return out.getvalue(), err.getvalue()


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__(newline="")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


QUESTIONS: list[list[str]] = [
    [],
    ["--rows", "8"],
    ["--json"],
    ["--limit", "8"],
    ["--limit", "8", "--json"],
    *[["--row", str(row), *more] for row in range(8) for more in ([], ["--json"])],
    ["--stats"],
    ["--stats", "--json"],
    ["--group-by", f"c{BIDI}"],
    ["--group-by", f"c{BIDI}", "--json"],
    ["--group-by", f"n{MARKS}"],
    ["--where", f"`c{BIDI}` == 'x'", "--explain"],
    ["--where", f"`r{BIDI}` like '%x'", "--explain", "--json"],
    ["--where", f"{ESC} == 1"],
    ["--where", f"`n{MARKS}` == '{ESC}'"],
    ["--where", f"`c{BIDI}` ==\n {CR}"],
    ["--columns", f"nope{ESC}"],
    ["--sort", f"c{BIDI}"],
    ["--sort", f"{ESC}"],
    ["--extract", f"{ESC}", "--out", "x"],
    ["--extract", f"n{MARKS}", "--out", "x"],
    [f"--no{ESC}"],
    ["--limit", ESC],
    ["--group-by", f"n{MARKS}", "--sort", ESC],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=range(len(QUESTIONS)))
@pytest.mark.parametrize("on_terminal", [False, True])
def test_inspect_prints_nothing_that_steers_a_terminal(
    hostile: Path, question: list[str], on_terminal: bool
) -> None:
    for path in (hostile, hostile.parent / f"none{ESC}.urec"):
        out, err = bytes_printed("inspect", path, *question, isatty=on_terminal)
        assert out or err
        assert harmless(out), out
        # a question that takes a while draws a bar on a terminal, whose own sequences these are
        assert harmless(re.sub(r"\r([^\r\x1b]*)\x1b\[K", r"\1", err) if on_terminal else err), err


@pytest.mark.parametrize("question", [["--csv"], ["--group-by", f"c{BIDI}", "--csv"]])
def test_csv_is_escaped_on_a_terminal_and_exact_elsewhere(hostile: Path, question: list[str]) -> None:
    shown, _ = bytes_printed("inspect", hostile, *question, isatty=True)
    assert harmless(shown)
    exact, _ = bytes_printed("inspect", hostile, *question)
    found = list(csv.reader(io.StringIO(exact, newline="")))
    assert any(BIDI in cell for cell in found[0])
    assert {CR, ESC, "two\nlines", FORMULA} <= {cell for row in found for cell in row}


def test_formulas_are_quoted_on_request(hostile: Path) -> None:
    plain, _ = bytes_printed("inspect", hostile, "--csv", "--columns", f"r{BIDI}")
    quoted, _ = bytes_printed("inspect", hostile, "--csv", "--columns", f"r{BIDI}", "--quote-formulas")
    assert plain.count(f",{FORMULA}") == 1
    assert plain.count(f",'{FORMULA}") == 0
    assert quoted.count(f",'{FORMULA}") == 1
    _, err = bytes_printed("inspect", hostile, "--quote-formulas")
    assert "--quote-formulas goes with --csv" in err


def test_verify_repair_and_bench_print_nothing_that_steers_a_terminal(hostile: Path, tmp_path: Path) -> None:
    bad = tmp_path / hostile.name
    for suffix in ("", ".idx"):
        shutil.copy(f"{hostile}{suffix}", f"{bad}{suffix}")
    content = bytearray(bad.read_bytes())
    content[content.rindex(b"two\nlines")] ^= 1
    bad.write_bytes(content)
    quick = ["--seconds", "0.01", "--threads", "1", "--batch", "4", "--io", "pread"]
    for argv in (
        ["verify", hostile], ["verify", hostile, "--json"], ["verify", bad], ["verify", bad, "--json"],
        ["verify", bad, "--quick"], ["verify", f"{bad}x"], ["inspect", bad, "--rows", "8"],
        ["repair", bad], ["repair", bad, "--json", "--output", f"{bad}2"], ["repair", hostile],
        ["bench", hostile, *quick], ["bench", hostile, *quick, "--json"], ["bench", hostile, "--io", ESC],
        ["bench", hostile, *quick, "--columns", ESC], [ESC], [f"--{ESC}"],
    ):  # fmt: skip
        out, err = bytes_printed(*argv)
        assert out or err, argv
        assert harmless(out), argv
        assert harmless(err), argv


def hostile_sources(root: Path) -> Iterator[list[str]]:
    def file(name: str, content: str) -> str:
        (root / name).write_text(content)
        return str(root / name)

    target = str(root / f"out{ESC}")
    png = picture(3, 2)
    yield ["write", file("a.csv", f"a{ESC},b{CR.replace(chr(13), '')}\n1,2\n"), target]
    yield ["write", file("b.csv", f"a{ESC},b\n1\n"), target]
    yield ["write", file("c.csv", f"a\n{ESC}{C1}\n"), target, "--schema", "a=int32", "--overwrite"]
    yield ["write", file("d.jsonl", json.dumps({f"a{ESC}{C1}": 1, "b": ESC}) + "\n"), target, "--overwrite"]
    yield ["write", file("e.jsonl", json.dumps({f"a{ESC}": 1}) + "\n" + json.dumps({f"a{ESC}": [1]})), target]
    yield ["write", file(f"f{ESC}.txt", "x"), target]
    yield ["write", file("g.csv", "a\n1\n"), target, "--schema", f"a=int{ESC}"]
    yield ["write", file("g.csv", "a\n1\n"), target, "--schema", f"{ESC}=int32"]
    yield ["write", file("g.csv", "a\n1\n"), target, "--index", ESC]
    yield ["write", file("g.csv", "a\n1\n"), target, "--columns", f"a,{BIDI}"]
    yield ["write", file("g.csv", "a\n1\n"), str(root / f"no{ESC}" / "out")]
    yield [
        "write",
        folder(root / "p", {f"{ESC.replace('/', '')}/a.png": png, f"{C1}/{CR}.png": png}),
        target,
        "--overwrite",
    ]
    yield [
        "write",
        folder(root / "q", {f"{ESC}.png": png, f"{CR}.png": b"no picture"}),
        target,
        "--overwrite",
    ]
    yield ["write", folder(root / "r", {f"x.{ESC}": b""}), target]
    yield ["write", folder(root / "s", {f"{ESC}/a.png": png, f"{C1}.png": png}), target]


def test_write_prints_nothing_that_steers_a_terminal(tmp_path: Path) -> None:
    for argv in hostile_sources(tmp_path):
        out, err = bytes_printed(*argv)
        assert out or err, argv
        assert harmless(out), argv
        assert harmless(err), argv


def test_a_traceback_and_a_process_of_its_own_are_escaped(hostile: Path) -> None:
    for argv in (["inspect", f"{hostile}x", "--debug"], ["inspect", str(hostile)], ["write", ESC, "d"]):
        found = subprocess.run([sys.executable, "-m", "unirecord", *argv], capture_output=True, check=False)
        assert harmless((found.stdout + found.stderr).decode())


@given(st.text())
def test_escaping_twice_is_escaping_once(text: str) -> None:
    once = escaped(text)
    assert once == escaped(once)
    assert "\n" not in once
    assert all(char.isprintable() or char.isspace() for char in once)
    assert harmless(once)


@given(
    st.recursive(st.text() | st.integers() | st.none(), lambda s: st.lists(s) | st.dictionaries(st.text(), s))
)
def test_json_is_escaped_and_says_the_same(value: Any) -> None:
    for indent in (None, 2):
        text = to_json(value, indent)
        assert harmless(text)
        assert json.loads(text) == value


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=2)))
def test_csv_that_is_read_back_says_the_same(rows: list[list[str]]) -> None:
    out = io.StringIO(newline="")
    print_csv(rows, out=out)
    assert list(csv.reader(io.StringIO(out.getvalue(), newline=""))) == rows


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), st.booleans())
def test_csv_of_many_counts_is_that_of_their_rows(values: list[str | None], quote_formulas: bool) -> None:
    texts, counts = Texts.of(values, nullable=True), np.arange(len(values)) % 3 * 7
    assert texts is not None
    one_by_one, at_once = io.StringIO(newline=""), io.StringIO(newline="")
    print_csv(zip(values, counts.tolist(), strict=True), quote_formulas, out=one_by_one)
    with contextlib.redirect_stdout(at_once):
        print_csv_counts([(texts, counts)], quote_formulas)
    assert at_once.getvalue() == one_by_one.getvalue()


def test_ordinary_text_stays_as_it_is() -> None:
    for text in ("plain", "é", "日本\u3000語", "█░→×…", "a\u00a0b", "\U0001f600", "back\\slash"):
        assert escaped(text) == text


def test_only_the_terminal_module_prints() -> None:
    rooms = Path(unirecord.cli.__file__).parent
    for file in sorted(rooms.glob("*.py")):
        names = {node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)}
        assert "print" not in names, file.name
        # The bar draws its own control sequences.
        if file.name != "terminal.py":
            assert ".write(" not in file.read_text(), file.name
