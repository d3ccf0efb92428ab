"""Page cache before a run: filled, emptied as far as this machine permits, or kept too small for the data."""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from pathlib import Path

DROP = Path("/proc/sys/vm/drop_caches")
COMPACT = Path("/proc/sys/vm/compact_memory")
GROUPS = Path("/sys/fs/cgroup")
GROUP = "unirecord-bench"
SETTLE = 3.0  # seconds in which a virtual machine returns freed memory to its host: else some find it, and some don't
PAGE = 4096
SPARE = 512 << 20  # bytes of memory at hand beyond the data
SCARCE_LEAST = 512 << 20  # what the peers' libraries need for themselves


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def fill(directory: Path) -> None:
    """Reads every file once, in order, into an empty cache and memory without holes.

    What a writer or random reads have cached lies in smaller pages, at random several times slower to read.
    """
    empty(directory)
    with contextlib.suppress(OSError):
        COMPACT.write_text("1")
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


def cold(directory: Path) -> str:
    """`empty`, and the wait after which every entrant finds memory in the same state."""
    how = empty(directory)
    time.sleep(SETTLE)
    return how


def have_memory(size: int) -> None:
    """Touches `size` bytes of memory and frees them, so that they are at hand.

    A virtual machine gets memory that it has not used for some seconds from its host, at a fraction of memory's rate:
    whoever fills the page cache would be timed waiting for the host. A child touches it: peak memory is measured too.
    """
    child = os.fork()
    if child == 0:
        with mmap.mmap(-1, size // PAGE * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_HUGEPAGE)  # so that large batches find large pages
            memory[::PAGE] = bytes(size // PAGE)
        os._exit(0)
    os.waitpid(child, 0)


def _limit_group(limit: int) -> Path:
    """A control group whose processes, their page cache included, have `limit` bytes of memory."""
    first_version = GROUPS / "memory"
    group = (first_version if first_version.is_dir() else GROUPS) / GROUP
    if first_version.is_dir():
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(limit))
    else:
        (GROUPS / "cgroup.subtree_control").write_text("+memory")
        group.mkdir(exist_ok=True)
        (group / "memory.max").write_text(str(limit))
    return group


def scarce(command: list[str], data_bytes: int) -> list[str]:
    """`command` with memory for three quarters of the data; OSError where that is not permitted."""
    group = _limit_group(max(SCARCE_LEAST, data_bytes * 3 // 4))
    return ["sh", "-c", f'echo $$ >"{group}/cgroup.procs" && exec "$@"', "sh", *command]
