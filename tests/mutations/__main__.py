"""Runs the cases FIRST … FIRST + COUNT − 1, prints what goes wrong, and goes on: python -m mutations FIRST COUNT.

Each case is read in two processes that find other bytes in fresh memory: what differs was never written.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

FILLS = (0x55, 0xA9)


def environment(fill: int) -> dict[str, str]:
    """Fresh memory is full of ``fill``, under glibc and under the address sanitizer, which make preloads."""
    options = (
        f"detect_leaks=0:allocator_may_return_null=1:max_malloc_fill_size=1000000000:malloc_fill_byte={fill}"
        ":quarantine_size_mb=64"
    )
    preload = os.environ.get("UNIRECORD_PRELOAD", "")
    tests = Path(__file__).resolve().parent.parent
    paths = [str(tests), str(tests / "support"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "LD_PRELOAD": preload,
        "MALLOC_PERTURB_": str(fill),
        "ASAN_OPTIONS": options,
        "PYTHONWARNINGS": "ignore",
    }


class Run:
    """The cases in processes that see one kind of fresh memory; a process that dies is replaced."""

    def __init__(self, first: int, count: int, fill: int, folder: Path) -> None:
        self.first, self.end, self.fill, self.folder = first, first + count, fill, folder
        self.digests: dict[int, str] = {}
        self.wrong: list[str] = []

    def go(self) -> None:
        """Runs all."""
        at = self.first
        while at < self.end:
            at = self._process(at) + 1

    def _process(self, at: int) -> int:
        """Runs cases from ``at`` on until the process ends; the last one that was begun."""
        command = [sys.executable, "-m", "mutations.worker", str(at), str(self.end - at), str(self.folder)]
        errors = self.folder.with_suffix(".stderr")
        begun, done = at - 1, at - 1
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment(self.fill)
            )
            assert process.stdout is not None
            for line in process.stdout:
                begun, done = self._line(line, begun, done)
            status = process.wait()
        if begun == done and status not in (0, 3):
            self._say(f"the worker ended with {status} before a case: {errors.read_text()[-2000:]}")
            return self.end
        if begun != done:
            self._say(f"case {begun}: the process ended with {status}\n{errors.read_text()[-3000:]}")
        return begun

    def _line(self, line: str, begun: int, done: int) -> tuple[int, int]:
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            return begun, done  # what a case has printed
        if "begun" in said:
            return int(said["begun"]), done
        self.digests[said["done"]] = said["digest"]
        for wrong in said["wrong"]:
            self._say(wrong)
        return begun, int(said["done"])

    def _say(self, wrong: str) -> None:
        self.wrong.append(wrong)
        if self.fill == FILLS[0]:
            print(wrong, flush=True)


def main(first: int, count: int) -> int:
    """The exit status: 1 if anything went wrong."""
    start = time.monotonic()
    root = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    runs = [Run(first, count, fill, root / "ab"[k]) for k, fill in enumerate(FILLS)]
    threads = [threading.Thread(target=run.go) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shutil.rmtree(root, ignore_errors=True)
    one, other = (run.digests for run in runs)
    untried = sum(count - len(run.digests) for run in runs if not run.wrong)
    unwritten = [number for number in one if number in other and one[number] != other[number]]
    for number in unwritten:
        print(f"case {number}: what was read depends on what was in memory before")
    if untried:
        print(f"{untried} cases were not run")
    bad = len(runs[0].wrong) + len(runs[1].wrong) + len(unwritten) + untried
    print(f"{count} cases from {first} on × 9 operations: {bad} wrong ({time.monotonic() - start:.0f} s)")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
