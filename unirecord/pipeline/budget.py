"""The cores and the memory that a pipeline may use: as asked for, or what this process has."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

from ..core import usable_cores
from ..loading.batch import bytes_of
from ..sizes import parse_size
from .chunk import Chunk

__all__ = [
    "Budget",
    "size_of",
    "waited_for_cores",
]


# How much memory elements take, about: what a budget of memory counts.


def size_of(chunk: Chunk | None) -> int:
    """Bytes of the arrays and strings of all elements, as if all samples were like the first."""
    if chunk is None or not chunk.values:
        return 0
    return bytes_of(chunk.values[0]) * len(chunk.values)


_LEAST_MEMORY = 64 << 20
_MOST_BY_DEFAULT = 2 << 30
_MOST_LOOKED_AT = 40


@dataclass(frozen=True)
class Budget:
    """``cpus``: cores' worth of computing. ``memory``: bytes of what is made ahead, without what the user holds.

    ``whole``: the process has no more cores than that.
    """

    cpus: int
    memory: int
    whole: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, cpus: object, memory: object) -> Budget:
        """As asked for; None: the cores of this process's affinity and cgroup, and a quarter of the free memory.

        ValueError, TypeError where that is no number of cores, or no size.
        """
        available = available_cpus()
        if cpus is None:
            cpus = available
        elif isinstance(cpus, bool) or not isinstance(cpus, int):
            raise TypeError(f"cpus must be a number of cores, got {cpus!r}")
        elif cpus < 1:
            raise ValueError(f"cpus must be 1 or more, got {cpus}")
        if memory is None:
            memory = max(_LEAST_MEMORY, min(_MOST_BY_DEFAULT, available_memory() // 4))
        else:
            memory = parse_size(memory)  # type: ignore[arg-type]
        return cls(cpus, memory, cpus >= available)


def available_cpus(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores that this process may use at a time: its affinity, and the quota of its cgroup, rounded up."""
    cores = usable_cores()
    try:
        quota, period = (root / "cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no cgroup, or one of the first version
        pass
    return cores


def waited_for_cores() -> int:
    """Nanoseconds in which threads of this process could have run and others did, so far; 0 where that is not told.

    Where there are more than a few threads, looking costs too much: 0 as well.
    """
    try:
        tasks = os.listdir("/proc/self/task")
        if len(tasks) > _MOST_LOOKED_AT:
            return 0
        return sum(int(Path(f"/proc/self/task/{task}/schedstat").read_bytes().split()[1]) for task in tasks)
    except (OSError, ValueError, IndexError):  # a thread has ended meanwhile
        return 0


def available_memory(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that are free here: of the machine, and of the limit of this process's cgroup."""
    free = _MOST_BY_DEFAULT * 4
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        pass
    try:
        limit = (root / "memory.max").read_text().strip()
        if limit != "max":
            free = min(free, max(0, int(limit) - int((root / "memory.current").read_text())))
    except (OSError, ValueError):
        pass
    return free
