"""Interrupts a writer wherever Python handles signals: run as `interrupts_writing.py WORKLOAD [STEP [AGAIN]]`.

Every STEP-th tick of the work is interrupted, up to the first that is not reached; with AGAIN, every AGAIN-th tick of
what follows each of these is interrupted, too. Prints how many runs there were.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import interrupts

WRITING = ("storage/*.py", "writing/writer.py", "writing/*_writer.py", "writing/directory_claim.py")

if __name__ == "__main__":
    interrupts.instrument(*WRITING)

import faults  # noqa: E402 - these import what ticks
from test_writer_crash import OLD, SCHEMA, WORKLOADS, names, numbers  # noqa: E402
from writing import write  # noqa: E402

import unirecord  # noqa: E402
from unirecord.errors import BusyError  # noqa: E402


class Case:
    """A folder with a dataset or without one, and work on it; made anew from the same files for every run."""

    def __init__(self, folder: Path, workload: str) -> None:
        self.work, name, exists, self.after = WORKLOADS[workload]
        self.folder, self.start = folder / "now", folder / "start"
        self.path = self.folder / name
        self.start.mkdir()
        if exists:
            write(self.start / name, SCHEMA, OLD, index=["n"])
        self.before = names(OLD) if exists else None

    def run(self, *at: int) -> int:
        """Interrupts the work, checks what it left, and returns how many interrupts took place."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.start, self.folder)
        error = interrupts.interrupted(lambda: self.work(self.folder), *at)
        done = interrupts.Plan.done
        try:
            if sum(at) % 2:  # the exception is kept, as notebooks do it, and what it met with it
                with suppress(BusyError):
                    unirecord.Writer(self.path, SCHEMA, overwrite=True).abort()
            del error
            self.check()
        except BaseException as failure:
            raise AssertionError(f"after interrupts at {at}") from failure
        return done

    def check(self) -> None:
        """Old or new; sound; and the next writer finds its way and leaves nothing else."""
        seen = numbers(self.path)
        assert seen in (self.before, self.after), seen
        if seen is not None:
            with unirecord.UniRecordDataset(self.path) as dataset:
                assert [row["s"] for row in dataset] == seen
            assert unirecord.verify(self.path).problems == []
        write(self.path, SCHEMA, OLD, overwrite=seen is not None)
        assert numbers(self.path) == names(OLD)
        left = [path.name for path in self.folder.rglob("*") if path.name.endswith((".tmp", ".new"))]
        assert left == []


def main(workload: str, step: int = 1, again: int = 0) -> int:
    """Runs it, and returns the number of runs."""
    sys.unraisablehook = lambda _: None  # an interrupt in a finalizer, which Python only tells of
    runs, at = 0, 1
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder,
        faults.unsynced(),
    ):
        case = Case(Path(folder), workload)
        while case.run(at):
            runs += 1
            second = 1
            while again and case.run(at, second) == 2:
                second += again
                runs += 1
            at += step
    return runs


if __name__ == "__main__":
    print(main(sys.argv[1], *map(int, sys.argv[2:])))
