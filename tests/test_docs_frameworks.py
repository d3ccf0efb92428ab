"""Every block of Python in docs/loading.md, docs/pytorch.md and docs/tensorflow.md runs, page by page."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hang import HANG_SECONDS
from PIL import Image

from unirecord import Writer

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = {
    "image": "bytes",
    "pixels": {"type": "uint8", "shape": [32, 32]},
    "label": "int64",
    "name": "string",
    "weight": "float32?",
    "strokes": {"type": "int32", "shape": [-1, 2]},
}


def write_digits(path: Path) -> None:
    """What the pages say that they read."""
    with zipfile.ZipFile(ROOT / "tests" / "data" / "digits.zip") as pictures, Writer(path, SCHEMA) as writer:
        for number, name in enumerate(sorted(pictures.namelist())[:240]):
            png = pictures.read(name)
            writer.write(
                {
                    "image": png,
                    "pixels": np.asarray(Image.open(io.BytesIO(png)).convert("L")),
                    "label": int(name.split("/")[0]),
                    "name": name,
                    "weight": None if number % 7 == 0 else number / 240,
                    "strokes": np.full((number % 30 + 1, 2), number, np.int32),
                }
            )


def blocks(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)


@pytest.mark.parametrize(("page", "least"), [("loading.md", 8), ("pytorch.md", 8), ("tensorflow.md", 7)])
def test_the_blocks_of_a_page_run(tmp_path: Path, page: str, least: int) -> None:
    found = blocks(page)
    assert len(found) >= least
    write_digits(tmp_path / "digits.urec")
    script = tmp_path / "page.py"
    script.write_text("\n".join(found), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:unirecord", str(script)],
        cwd=tmp_path,
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["pytorch.md", "tensorflow.md"])
def test_a_page_starts_with_five_lines(page: str) -> None:
    assert len([line for line in blocks(page)[0].splitlines() if line.strip()]) == 5


@pytest.mark.parametrize("page", ["loading.md", "pytorch.md", "tensorflow.md"])
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / "docs" / target).exists(), target
