"""Every extra can be installed on every Python that the package promises: by wheels alone, all extras together."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def test_the_promised_pythons_are_those_that_are_tried() -> None:
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    listed = [
        match[1] for line in PROJECT["classifiers"] if (match := re.search(r"Python :: (3\.\d+)$", line))
    ]
    assert listed == list(PYTHONS)


@pytest.mark.parametrize("python", PYTHONS)
def test_all_extras_resolve_together_from_wheels(python: str) -> None:
    # What can be installed together can be installed one by one.
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--all-extras", "--no-header"),
        *("--python-version", python, "--python-platform", "linux", "--only-binary", ":all:"),
        "pyproject.toml",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # The lines of the core prove that something was resolved.
    assert all(re.search(rf"^{name}==", done.stdout, re.MULTILINE) for name in ("numpy", "cffi", "msgpack"))


def test_an_extra_that_cannot_be_had_is_seen(tmp_path: Path) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(text.replace('"zarr>=3.0"', '"zarr>=900"'), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--extra",
        "convert",
        "pyproject.toml",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "zarr" in done.stderr
