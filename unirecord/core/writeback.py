"""The kernel's own writing of a file to the disk, begun early."""

from __future__ import annotations

from .library import lib


def start_writeback(fd: int, offset: int, size: int) -> None:
    """Have the kernel begin to write these bytes of a file to the disk; others run meanwhile.

    A hint that nothing depends on: it may be refused, it waits for no byte, and an error stays for fsync to report.
    """
    lib.ur_start_writeback(fd, offset, size)
