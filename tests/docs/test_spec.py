"""docs/spec: the examples of its pages run, and its rules are numbered without a gap."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[2] / "docs" / "spec"
PAGES = sorted(SPEC.glob("*.md"))
assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted == len(re.findall(r"^>>> ", page.read_text(encoding="utf-8"), flags=re.M))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_version_a_date_and_rules_by_number(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.search(r"^Version \d+, \d{1,2} \w+ 20\d\d\. ", text, flags=re.M)
    [letter] = set(re.findall(r"^\*\*([A-Z])-\d+\*\*", text, flags=re.M))
    numbers = [int(number) for number in re.findall(rf"^\*\*{letter}-(\d+)\*\*", text, flags=re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    # Where a rule is named, it is there.
    assert {int(number) for number in re.findall(rf"\b{letter}-(\d+)\b", text)} <= set(numbers)
