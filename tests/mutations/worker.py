"""Runs cases in a process that may die: python -m mutations.worker FIRST COUNT FOLDER, a line of JSON a case."""

from __future__ import annotations

import faulthandler
import json
import resource
import sys
from pathlib import Path

from mutations.case import run

SECONDS = 60  # for a case, of a machine that may be busy and a core that is instrumented
MEMORY = 512 << 10  # KiB that all cases of a process together may add


def main(first: int, count: int, folder: Path) -> int:
    """Exit status 3 asks for a new process: this one has grown."""
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(first, first + count):
        print(json.dumps({"begun": number}), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        *wrong, digest = run(number, folder)
        faulthandler.cancel_dump_traceback_later()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
        if grown > MEMORY:
            wrong.append(f"case {number}: the process has grown by {grown >> 10} MiB")
        print(json.dumps({"done": number, "wrong": wrong, "digest": digest}), flush=True)
        if grown > MEMORY:
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
