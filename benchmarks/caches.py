"""Page cache before a run: filled, or emptied as far as this machine permits."""

from __future__ import annotations

import os
from pathlib import Path

DROP = Path("/proc/sys/vm/drop_caches")


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def fill(directory: Path) -> None:
    """Reads every file once."""
    if sum(1 for _ in directory.iterdir()) == 0:
        return
    for path in _files(directory):
        with path.open("rb", buffering=0) as file:
            while file.read(16 << 20):
                pass


def empty(directory: Path) -> str:
    """Drops what is cached of `directory`; returns how: "drop_caches" or "fadvise"."""
    os.sync()
    try:
        DROP.write_text("1")
        return "drop_caches"
    except OSError:
        for path in _files(directory):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return "fadvise"
