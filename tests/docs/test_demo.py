"""The demo of the README runs, and what it trains has learnt to read digits."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from hang import HANG_SECONDS
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_trains_a_classifier_on_two_ranks(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    accuracies = [float(found) for found in re.findall(r"accuracy +([0-9.]+)%", done.stdout)]
    assert len(accuracies) == 10
    assert accuracies[-1] > 90
    assert "240 rows" in done.stdout
    with Image.open(tmp_path / "demo" / "digits.png") as sheet:
        assert sheet.size == (320, 320)
        cells = np.asarray(sheet).reshape(10, 32, 10, 32).swapaxes(1, 2).reshape(100, -1)
    assert (np.ptp(cells, axis=1) > 100).all()
    (line,) = ElementTree.parse(tmp_path / "demo" / "curve.svg").iter("{http://www.w3.org/2000/svg}polyline")
    assert len(line.attrib["points"].split()) == 10


def test_what_the_demo_says_to_try_next_works(tmp_path: Path) -> None:
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    demo["unpack"](ROOT / "tests" / "data" / "digits.zip", tmp_path)
    program = str(Path(sys.executable).parent / "unirecord")
    subprocess.run([program, "write", "train", "train.urec"], cwd=tmp_path, check=True, capture_output=True)
    said = [line.split("   ")[0] for line in demo["NEXT"].splitlines() if line.startswith("  unirecord ")]
    assert len(said) == 4
    for line in said:
        words = shlex.split(line.replace("YOUR_PICTURES", "test"))
        done = subprocess.run(
            [program, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
    for page in re.findall(r"docs/\w+\.md", demo["NEXT"]):
        assert (ROOT / page).exists()
