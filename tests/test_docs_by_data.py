"""The pages for people with one kind of data: every block and every command of them, in the order of the page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from unirecord.cli import main

PAGES = sorted((Path(__file__).resolve().parent.parent / "docs" / "by-data").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_its_first_line_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    assert {kind for kind, _ in blocks} == {"python", "sh"}
    for kind, block in blocks:
        if kind == "python":
            exec(block, names)
            continue
        for line in block.splitlines():
            program, *argv = shlex.split(line)
            assert program == "unirecord"
            assert main(argv) == 0, line


def test_there_is_a_page_for_each_kind_of_data() -> None:
    assert [page.stem for page in PAGES] == ["detection", "science", "speech", "tabular", "vision"]
