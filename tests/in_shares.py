"""Runs all tests in three processes, each with files of its own: ``python tests/in_shares.py [options of pytest]``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SHARES = 3  # on two cores: tests that wait for other processes leave a quarter of them idle
TESTS = Path(__file__).resolve().parent


def files() -> list[Path]:
    """All files of tests, in the order of their names."""
    return sorted(path for path in TESTS.rglob("test_*.py") if "data" not in path.parts)


def shares() -> list[list[Path]]:
    """Files for each process; neighbours by name, which often take as long as each other, go to different ones."""
    found = files()
    return [found[first::SHARES] for first in range(SHARES)]


def main() -> int:
    """The greatest exit code of the processes; what the first prints is seen at once, the others' afterwards."""
    with tempfile.TemporaryDirectory(prefix="unirecord-tests-") as folder:
        Path(folder).chmod(0o755)  # as the folder for temporary files is: some tests go on as another user
        running = []
        for number, share in enumerate(shares()):
            own = Path(folder) / str(number)
            own.mkdir()
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                *sys.argv[1:],
                *map(str, share),
            ]
            environment = {**os.environ, "PYTEST_DEBUG_TEMPROOT": str(own)}
            output = None if number == 0 else (Path(folder) / f"{number}.log").open("wb")
            running.append(
                (subprocess.Popen(command, env=environment, stdout=output, cwd=TESTS.parent), output)
            )
        codes = []
        for number, (process, output) in enumerate(running):
            codes.append(process.wait())
            if output is not None:
                output.close()
                sys.stdout.write((Path(folder) / f"{number}.log").read_text(errors="replace"))
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main())
