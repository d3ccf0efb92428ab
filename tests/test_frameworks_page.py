"""The code of docs/frameworks.md and the examples of its frameworks run, in this process, which has imported them."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
from test_docs_frameworks import blocks, write_digits

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = blocks("frameworks.md")
    assert len(found) >= 6
    write_digits(tmp_path / "digits.urec")
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(found), "docs/frameworks.md", "exec"), {"__name__": "page"})


@pytest.mark.parametrize("name", ["jax_train", "grain_train"])
def test_examples_learn_to_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert float(re.findall(r"([0-9.]+)%", capsys.readouterr().out)[-1]) > 90
