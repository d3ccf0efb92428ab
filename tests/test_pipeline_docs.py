"""The examples of docs/pipeline.md run as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "pipeline.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    pytest.importorskip("torch")
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.S))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "as it runs" in done.stdout
    assert "bound by" in done.stdout
