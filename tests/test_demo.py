"""The demo of the README runs, and what it trains has learnt to read digits."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hang import HANG_SECONDS

ROOT = Path(__file__).resolve().parent.parent


def test_the_demo_trains_a_classifier_on_two_ranks(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    accuracies = [float(found) for found in re.findall(r"accuracy +([0-9.]+)%", done.stdout)]
    assert len(accuracies) == 10
    assert accuracies[-1] > 90
    assert "240 rows" in done.stdout
