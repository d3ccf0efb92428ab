"""Runs programs of examples/, and reads what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from hang import HANG_SECONDS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ENVIRONMENT = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


def accuracies(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"epoch +\d+:.*?([0-9.]+)%", text)]
