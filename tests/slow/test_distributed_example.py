"""The distributed example, killed, goes on on other ranks: two runs of torchrun, which import PyTorch seven times."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from example_runs import EXAMPLES, accuracies, run


def torchrun(ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [f"--nproc-per-node={ranks}", "--master-addr=127.0.0.1", f"--master-port={port}"]
    return run("-m", "torch.distributed.run", *options, str(EXAMPLES / "pytorch_distributed.py"), *arguments)


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
