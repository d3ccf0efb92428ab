"""The list of one-line changes that tests must see (`make mutants`) is still one of these files."""

from __future__ import annotations

import ast
from pathlib import Path

import mutants
import pytest

MUTANTS = list(mutants.read())


def test_each_mutant_matches_one_line_of_its_file() -> None:
    wrong = [
        str(mutant)
        for mutant in MUTANTS
        if len(mutant.places((mutants.ROOT / mutant.file).read_text(encoding="utf-8"))) != 1
        or mutant.old == mutant.new
    ]
    assert not wrong, f"correct the list, or take another line of the same meaning: {wrong}"
    assert MUTANTS


def test_each_mutant_of_python_is_python() -> None:
    for mutant in MUTANTS:
        if mutant.file.endswith(".py"):
            ast.parse(mutant.applied((mutants.ROOT / mutant.file).read_text(encoding="utf-8")))


def test_each_mutant_has_tests_that_are_there() -> None:
    missing = [
        f"{mutant}: {test}"
        for mutant in MUTANTS
        for test in mutant.tests
        if not any(
            (mutants.ROOT / "tests" / place).is_file() for place in (test.partition("::")[0], f"c/{test}.c")
        )
    ]
    assert not missing, missing


@pytest.mark.parametrize(
    ("text", "said"),
    [("a = 1\nb = 2\n", [1]), ("  b = 2\nb = 2\n", [0, 1]), ("b = 2  # two\n", [])],
    ids=["once", "twice", "no longer"],
)
def test_a_line_is_found_whole(tmp_path: Path, text: str, said: list[int]) -> None:
    (tmp_path / "list").write_text("# a list\nfile.py\n- b = 2\n+ b = 3\n! test_a.py c_test\n")
    (mutant,) = mutants.read(tmp_path / "list")
    assert (mutant.number, mutant.tests, mutant.places(text)) == (3, ("test_a.py", "c_test"), said)
    if len(said) == 1:
        assert mutant.applied(text) == "a = 1\nb = 3\n"
