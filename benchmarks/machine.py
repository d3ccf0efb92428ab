"""What machine a run was made on."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def _field(path: str, name: str) -> str:
    try:
        for line in Path(path).read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return "unknown"


def _file_system(directory: Path) -> str:
    """Type of the file system that holds `directory`: the longest mount point that is a prefix of it."""
    best, kind = "", "unknown"
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return kind
    for line in mounts:
        point, name = line.split()[1:3]
        inside = str(directory.resolve()).startswith(point.rstrip("/") + "/") or point == "/"
        if inside and len(point) >= len(best):
            best, kind = point, name
    return kind


def describe(directory: Path) -> dict[str, str]:
    """Processor, cores, memory, kernel, file system of `directory`."""
    memory = _field("/proc/meminfo", "MemTotal").split()
    gigabytes = f"{int(memory[0]) * 1024 / 1e9:.0f} GB" if memory[0].isdigit() else "unknown"
    hypervisor = " (virtual)" if "hypervisor" in _field("/proc/cpuinfo", "flags").split() else ""
    return {
        "processor": _field("/proc/cpuinfo", "model name") + hypervisor,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": gigabytes,
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "file system": _file_system(directory),
        "python": platform.python_version(),
    }
