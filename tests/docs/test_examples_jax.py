"""The examples of JAX and Grain learn to read digits, in this process, which has imported both."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", ["jax_train", "grain_train"])
def test_examples_learn_to_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert float(re.findall(r"([0-9.]+)%", capsys.readouterr().out)[-1]) > 90
