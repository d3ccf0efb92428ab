"""What this process has used so far, and holds: calls, bytes, page faults, memory, threads, descriptors."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import resource
import threading
import time
from collections import Counter
from pathlib import Path

from hang import HANG_SECONDS

# Threads that others start when there is work for them, not at an epoch, and how many of them at most.
# Memory is given back by the first: up to one a core for each library that brings an allocator of its own.
ALLOCATOR = {"jemalloc_bg_thd": 4 * (os.cpu_count() or 1)}
POOLS = {**ALLOCATOR, "grain-prefetch": 16}  # of one iterator, as long as it is there: grain.ReadOptions


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


def held() -> Counter[str]:
    """Descriptors, threads by name, child processes and shared memory of this process."""
    gc.collect()
    threads = [Path("/proc/self/task", thread) for thread in os.listdir("/proc/self/task")]
    found = Counter({"descriptors": len(os.listdir("/proc/self/fd"))})
    found["processes"] = 0
    found["shared memory"] = len(re.findall(r"/dev/shm|/memfd", Path("/proc/self/maps").read_text()))
    # A thread of another library has a name in Python from when it first runs some: the name of the kernel is taken.
    named = {
        str(thread.native_id): thread.name
        for thread in threading.enumerate()
        if not isinstance(thread, threading._DummyThread)
    }
    for thread in threads:  # any of which may end while it is looked at
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found["processes"] += len((thread / "children").read_text().split())
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name = named.get(thread.name) or (thread / "comm").read_text().strip()
            found[re.sub(r"[_-]\d+", "", name)] += 1
    return found


def assert_nothing_more(before: Counter[str], pools: dict[str, int]) -> None:
    """Waits for threads that nobody else waits for, and are on their way out."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        now = held()
        more = {name: n for name, n in (now - before).items() if now[name] > pools.get(name, 0)}
        if not more or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    assert not more, more
