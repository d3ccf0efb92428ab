"""The commands and the Python of docs/growing.md run in their order, and show what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from unirecord.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "growing.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", flags=re.S | re.M)


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        lines = [f"{n},text {n},{n / 10}" for n in range(number * 1_000)]
        Path(f"day{number}.csv").write_text("\n".join(["n,text,score", *lines]) + "\n")
    names: dict[str, object] = {}
    ran = 0
    for kind, code in BLOCK.findall(PAGE):
        if kind == "python":
            exec(code, names)
            ran += 1
            continue
        for line in code.splitlines():
            command = shlex.split(line, comments=True)
            if command:
                assert command[0] == "unirecord"
                assert main(command[1:]) == 0, (line, capsys.readouterr().err)
                ran += 1
    assert ran >= 5
    assert "append" in capsys.readouterr().out
