"""The commands and the code of docs/exporting.md write what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from run_page import run_page

from unirecord.convert.sinks.kinds import SINKS

PAGE = (Path(__file__).parents[2] / "docs" / "exporting.md").read_text(encoding="utf-8")


def test_the_page_writes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(Path(__file__).parents[2] / "docs" / "exporting.md")
    assert len(list(Path("folder").rglob("*.png"))) == 300
    assert len(list(Path("shards").glob("*.tar"))) == 10
    assert Path("digits.csv").read_text().startswith("name,label\n")
    assert Path("digits.parquet").exists()


def test_every_format_is_in_the_tables() -> None:
    command = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    section = command.split("\n## export\n")[1].split("\n## ")[0]
    for sink in SINKS:
        assert f"`{sink.kind}`" in section
        assert re.search(rf"^\| `{sink.kind}` \|.*", PAGE, flags=re.M), sink.kind
        assert not sink.suffix or f"`{sink.suffix}`" in PAGE
