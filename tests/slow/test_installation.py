"""What a package index is asked for: the wheel where there is no compiler, and every extra on every promised Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
USE = """
import unirecord
with unirecord.Writer("train.urec", {"image": "bytes", "label": "int32"}) as writer:
    for label in range(5):
        writer.write({"image": bytes([label]) * 9, "label": label})
with unirecord.UniRecordDataset("train.urec") as ds:
    assert [int(sample["label"]) for sample in ds] == [0, 1, 2, 3, 4]
    assert ds[-1]["image"] == bytes([4]) * 9
print(unirecord.__file__)
"""

PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_works_in_an_empty_environment_without_a_compiler(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", "fresh", cwd=tmp_path)
    fresh = tmp_path / "fresh" / "bin"
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    bare |= {"PATH": str(fresh), "CC": "false", "CXX": "false"}
    run(
        fresh / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
        wheel,
        cwd=tmp_path,
        env=bare,
    )
    where = run(fresh / "python", "-c", USE, cwd=tmp_path, env=bare)
    assert str(tmp_path) in where
    listing = run(fresh / "unirecord", "inspect", "train.urec", cwd=tmp_path, env=bare)
    assert "label" in listing


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
