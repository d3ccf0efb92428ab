"""Runs all tests, or those of the core, several processes of pytest at a time.

Usage: ``python tests/in_shares.py [--core] [options of pytest]``. The core's tests are a selection of what a change of
format, core, order, reading or writing breaks first; they need NumPy, cffi, msgpack, pytest, hypothesis, xxhash,
zstandard and Pillow, no framework and no table library, and take about three minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# On two cores: of fewer, those that wait for other processes or for disks leave a part of them idle.
AT_ONCE = 5
SHARES = 15  # several for each process, so that all end at about the same time
HEAVY_SHARES = 2  # each imports all frameworks, which takes a quarter of a minute
TESTS = Path(__file__).resolve().parent
CORE = re.findall(
    r"\w+",
    """
annotations append binding bitmap codec codec_damage column_names columns content_digest corrupt_draws crc32c
dataset dataset_order dataset_resume tracked_batch direct_rows format_example frozen handle hash hostile
hostile_cells hostile_manifest hostile_strings indexing inference large_cells later_versions layout live_files
loader locations manifest missing_path numbers objects order order_shards page position query query_arithmetic
query_text_lists query_zones reader_errors reader_index schema schema_text selection sizes state stats steps
straight structure structure_c text_order transform_random values_damaged values_refused verify versions
weighted windows writer writer_errors write_errors
""",
)
# What a file of tests is known by that loads a framework into its own process.
FRAMEWORK = re.compile(
    r"^ *(from|import) (torch|tensorflow|jax|grain|datasets|keras|unirecord\.(torch|tf|jax|hf))\b"
    r"|importorskip\(|^from (conformance|foreign_\w+)",
    re.MULTILINE,
)
_printing = threading.Lock()


def files(core: bool) -> list[Path]:
    """All files of tests but those of `make slow`, or those of the core, in the order of their names."""
    if core:
        return [path for name in CORE for path in TESTS.rglob(f"test_{name}.py")]
    return sorted(path for path in TESTS.rglob("test_*.py") if not {"data", "slow"} & set(path.parts))


def shares(core: bool) -> list[list[Path]]:
    """Files for each run of pytest; neighbours by name, which often take as long as each other, go apart.

    What imports a framework goes into processes of its own: PyTorch and TensorFlow in a process make each fork and each
    collection of garbage in it, which other tests do by the thousand, ten times as slow.
    """
    if core:
        found = files(core)
        return [found[first::AT_ONCE] for first in range(AT_ONCE)]
    heavy, light = [], []
    for path in files(core):
        (heavy if FRAMEWORK.search(path.read_text(encoding="utf-8")) else light).append(path)
    return [
        *(heavy[first::HEAVY_SHARES] for first in range(HEAVY_SHARES)),
        *(light[first::SHARES] for first in range(SHARES)),
    ]


def run(share: list[Path], options: list[str], folder: Path) -> int:
    """The exit code of pytest over these files, whose temporary files go to ``folder``; prints what it said."""
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *options,
        *map(str, share),
    ]
    environment = {**os.environ, "TMPDIR": str(folder)}
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
    core = "--core" in sys.argv[1:]
    options = [word for word in sys.argv[1:] if word != "--core"]
    if core:
        options += ["-m", "not packages"]
    parts = shares(core)
    with tempfile.TemporaryDirectory(prefix="unirecord-tests-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # as the folder for temporary files is: some tests go on as another user
        with ThreadPoolExecutor(AT_ONCE) as pool:
            numbered = enumerate(parts)
            codes = [pool.submit(run, share, options, folder / str(number)) for number, share in numbered]
    return max(code.result() for code in codes)


if __name__ == "__main__":
    sys.exit(main())
