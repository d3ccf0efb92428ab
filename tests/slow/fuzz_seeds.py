"""Writes the cases that `make fuzz` starts from: `python tests/slow/fuzz_seeds.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
LARGEST = 7168  # of a case, as `make fuzz` has it


def write_seeds(folder: Path) -> int:
    """One case for each part and each set of options of tests/c/fuzz_open.c; their number."""
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for part in [*sorted((DATA / "hostile").glob("*.urec")), *sorted((DATA / "version1").glob("*.urec"))]:
        data, index = part.read_bytes(), Path(f"{part}.idx").read_bytes()
        if len(data) + len(index) + 5 > LARGEST:
            continue
        for options in range(32):
            case = len(data).to_bytes(4, "little") + bytes([options]) + data + index
            (folder / f"{part.parent.name}-{part.stem}-{options:02}").write_bytes(case)
            written += 1
    return written


if __name__ == "__main__":
    print(write_seeds(Path(sys.argv[1])), "cases")
