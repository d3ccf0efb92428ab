"""Runs all tests, three processes of pytest at a time: ``python tests/in_shares.py [options of pytest]``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AT_ONCE = 3  # on two cores: tests that wait for other processes leave a quarter of them idle
SHARES = 12  # several for each process, so that all end at about the same time
TESTS = Path(__file__).resolve().parent
_printing = threading.Lock()


def files() -> list[Path]:
    """All files of tests, in the order of their names."""
    return sorted(path for path in TESTS.rglob("test_*.py") if "data" not in path.parts)


def shares() -> list[list[Path]]:
    """Files for each run of pytest; neighbours by name, which often take as long as each other, go apart."""
    found = files()
    return [found[first::SHARES] for first in range(SHARES)]


def run(share: list[Path], folder: Path) -> int:
    """The exit code of pytest over these files, whose temporary files go to ``folder``; prints what it said."""
    folder.mkdir()
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
    environment = {**os.environ, "PYTEST_DEBUG_TEMPROOT": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else all that tests start compile anew
    log = folder.with_suffix(".log")
    with log.open("wb") as output:
        code = subprocess.run(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=TESTS.parent, check=False
        ).returncode
    with _printing:
        sys.stdout.write(log.read_text(errors="replace"))
        sys.stdout.flush()
    return abs(code)


def main() -> int:
    """The greatest exit code of the runs; each is printed whole when it ends."""
    with tempfile.TemporaryDirectory(prefix="unirecord-tests-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # as the folder for temporary files is: some tests go on as another user
        with ThreadPoolExecutor(AT_ONCE) as pool:
            numbered = enumerate(shares())
            codes = [pool.submit(run, share, folder / str(number)) for number, share in numbered]
    return max(code.result() for code in codes)


if __name__ == "__main__":
    sys.exit(main())
