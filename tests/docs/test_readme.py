"""What the README shows works as written."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 8
    code += "\nassert len(ds) == 300 and pixels.shape[1:] == (32, 32) and labels.dtype.name == 'int64'\n"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_is_read_in_a_minute() -> None:
    assert len(README.split()) <= 900
    # How to install it and the first code stand on the first screen.
    first = README[: README.index("```python")]
    assert "pip install unirecord" in first
    assert len(first.splitlines()) <= 12


def test_the_commands_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M)
    listed = subprocess.run(
        [sys.executable, "-m", "unirecord", "--help"], capture_output=True, text=True, check=True
    )
    for command in re.findall(r"^unirecord (\w+)", README, flags=re.M):
        assert command in listed.stdout


def test_the_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def table(text: str) -> dict[str, list[str]]:
    """The rows of the first table of `text`, names and cells; a table beside it (a second processor's) is not read."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if re.match(r"\| \S", line))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {name.strip("* "): [cell.strip("* ") for cell in rest] for name, *rest in cells}


def test_the_figures_of_the_readme_are_those_of_the_performance_page() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    measured = table(page.split("<!-- begin summary -->")[1].split("<!-- end summary -->")[0])
    named = {name.split(" (")[0]: cells for name, cells in measured.items()}
    shown = table(README[README.index("| **UniRecord**") :])
    assert 5 <= len(shown) <= 7
    for name, cells in shown.items():
        rows_, _, blobs, cold, _ = named[name.split(" (")[0]]
        assert cells[1:] == [rows_, blobs, cold], name
    processor = re.search(r"\*[\d-]+, (.+?) \(virtual\)\*", page)
    assert processor is not None
    assert processor[1] in README.replace("\n", " ")
