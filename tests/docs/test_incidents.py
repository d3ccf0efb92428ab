"""The commands of docs/incidents.md show what the page says of the job that it makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from run_page import run_page

PAGE = Path(__file__).parents[2] / "docs" / "incidents.md"


def test_each_incident_is_five_commands_and_all_of_them_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGE)
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    assert [len(re.findall(r"^unirecord ", part, re.MULTILINE)) for part in sections] == [5, 5, 5]
    shown = capsys.readouterr().out
    assert "proven" in shown
    assert "left out on purpose (excluded): 1 position" in shown
    assert "left out" in shown.split("not delivered")[0]
    assert len(list(Path("step12").iterdir())) == 8
