"""What this process has used so far, counted by the kernel: calls, bytes, page faults, memory."""

from __future__ import annotations

import resource
from pathlib import Path


def minor_faults() -> int:
    """Pages of memory that had to be made ready."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def counters() -> dict[str, int]:
    """What /proc/self/io says: read system calls, bytes read and bytes fetched from the storage, …"""
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
