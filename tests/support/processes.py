"""What tests ask of processes that they do not wait for."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether there is such a process, which has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
