"""The examples run, and what they train has learnt to read digits; the distributed one after a kill, on other ranks."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
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


def torchrun(ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [f"--nproc-per-node={ranks}", "--master-addr=127.0.0.1", f"--master-port={port}"]
    return run("-m", "torch.distributed.run", *options, str(EXAMPLES / "pytorch_distributed.py"), *arguments)


def accuracies(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"epoch +\d+:.*?([0-9.]+)%", text)]


@pytest.mark.parametrize("name", ["pytorch", "tensorflow_fit"])
def test_examples_on_one_process(tmp_path: Path, name: str) -> None:
    done = run(str(EXAMPLES / f"{name}.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = accuracies(done.stdout)
    assert len(found) == 10
    assert found[-1] > 90


def test_every_example_is_run_by_some_test() -> None:
    """Some by those that `make ray` and `make trainers` run, which take longer than each run can spare."""
    written = "\n".join(path.read_text(encoding="utf-8") for path in EXAMPLES.parent.glob("tests/**/*.py"))
    imported = {"digits"}  # by the others
    names = {path.stem for path in EXAMPLES.iterdir() if path.is_file()} - imported
    assert len(names) >= 11
    assert {name for name in names if not re.search(rf"\b{name}\b", written)} == set()


def test_the_mixture_goes_on_with_other_weights_and_is_audited(tmp_path: Path) -> None:
    done = run(str(EXAMPLES / "mixture.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "4 steps of 2 ranks: 112 web, 48 code",
        "the rest of the epoch on 3 ranks: 120 web, 120 code",
        "every sample exactly once: True, 400 samples",
    ]


def test_the_distributed_example_goes_on_after_a_kill(tmp_path: Path) -> None:
    killed = torchrun(2, "--folder", str(tmp_path), "--die-at-step", "38")
    assert killed.returncode != 0
    assert "SIGKILL" in killed.stderr
    assert len(accuracies(killed.stdout)) == 3
    done = torchrun(3, "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on from step 35, epoch 3") == 3
    found = accuracies(done.stdout)
    assert len(found) == 8
    assert found[-1] > 90
