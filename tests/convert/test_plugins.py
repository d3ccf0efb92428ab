"""A source and a sink of another package: the one of docs/extending.md, installed, and what is wrong with others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unirecord import UniRecordDataset

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
[PROJECT] = re.findall(r"^```toml\n(.*?)^```", PAGE, flags=re.S | re.M)
CODE = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.S | re.M))
SOURCES, SINKS = re.findall(r"^\[project\.entry-points\.\"(unirecord\.\w+)\"\]\n(.*)$", PROJECT, flags=re.M)


def install(folder: Path, name: str, code: str, points: list[tuple[str, str]]) -> None:
    """A package as pip leaves it: a module, and beside it what names its entry points."""
    (folder / f"{name}.py").write_text(code)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "".join("[{}]\n{}\n".format(*point) for point in points).replace('"', "")
    )


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "unirecord", *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def points(tmp_path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    made = np.arange(3 * 1_000, dtype=np.float32).reshape(-1, 3)
    (tmp_path / "in").mkdir()
    made[:700].tofile(tmp_path / "in" / "a.pts")
    made[700:].tofile(tmp_path / "in" / "b.pts")
    return made


def test_formats_of_an_installed_package_are_read_and_written(
    tmp_path: Path, points: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> None:
    before = run(tmp_path, "write", "in", "out")
    assert before.returncode != 0 or UniRecordDataset(tmp_path / "out").column_names != ("point",)
    install(tmp_path, "point_files", CODE, [SOURCES, SINKS])
    for words in (["in", "found"], ["in", "asked", "--from", "points", "--workers", "2"]):
        done = run(tmp_path, "write", *words)
        assert (done.returncode, done.stderr.count("left out")) == (0, 0), done.stderr
        with UniRecordDataset(tmp_path / words[1]) as ds:
            assert np.array_equal([row["point"] for row in ds], points)
    done = run(tmp_path, "export", "found", "again.pts")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.fromfile(tmp_path / "again.pts", np.float32).reshape(-1, 3), points)
    assert "files of points" in run(tmp_path, "write", "--help").stdout.replace("\n", " ")
    assert "points" in run(tmp_path, "export", "--help").stdout


def test_what_its_sink_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    install(tmp_path, "point_files", CODE, [SOURCES, SINKS])
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert run(tmp_path, "write", "t.csv", "t").returncode == 0
    done = run(tmp_path, "export", "t", "t.pts")
    assert done.returncode != 0
    assert "points cannot hold 'a'" in done.stderr
    assert not (tmp_path / "t.pts").exists()


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [
        ("raise RuntimeError('torn')", "x = broken:A", "it cannot be imported: RuntimeError('torn')"),
        ("", "x = broken:A", "it cannot be imported: AttributeError"),
        ("A = 3", "x = broken:A", "broken:A is none"),
        ("from unirecord.convert.sources import Source as A", "x = broken:A", "broken:A is none"),
        (
            CODE.replace('kind = "points"', 'kind = "csv"'),
            "x = broken:PointFiles",
            "there is a kind 'csv' already",
        ),
    ],
    ids=["raises", "lacks it", "a number", "abstract", "taken"],
)
def test_an_entry_point_that_cannot_be_used_is_named_and_left_out(
    tmp_path: Path, code: str, line: str, said: str
) -> None:
    install(tmp_path, "broken", code, [("unirecord.sources", line)])
    (tmp_path / "t.csv").write_text("a\n1\n")
    done = run(tmp_path, "write", "t.csv", "t")
    assert done.returncode == 0, done.stderr
    assert f"broken brings the source 'x', which is left out: {said}" in done.stderr
    assert len(UniRecordDataset(tmp_path / "t")) == 1
