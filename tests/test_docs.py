"""The quickstart runs as written; links between pages lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))


def test_the_python_of_the_quickstart_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.S))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for command in re.findall(r"^unirecord ((?:inspect|verify) .*)$", page, flags=re.M):
        ran = subprocess.run(
            [sys.executable, "-m", "unirecord", *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, (command, ran.stderr)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_list() -> None:
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    missing = [page.name for page in PAGES if page.name != "README.md" and f"({page.name})" not in listed]
    assert not missing
