"""Processes that end with the one that has started them, however that ends: by SIGKILL nobody else would end them."""

from __future__ import annotations

import os
import threading
from typing import Any

from .library import lib

__all__ = ["end_with", "end_with_parent"]


def end_with(parent: int) -> None:
    """Ends this process, soon, when process ``parent``, which has started it, has ended.

    The C core sees to that: a library that this process is stuck in, with Python's lock, holds up nothing. RuntimeError
    where no thread can be started.
    """
    if failed := lib.ur_end_with_parent(parent):
        raise RuntimeError(f"cannot start a thread: {os.strerror(failed)}")


def end_with_parent() -> None:
    """Ends this process of `multiprocessing` when the one that has started it has ended.

    AssertionError in a process that `multiprocessing` has not started.
    """
    import multiprocessing  # not with the package, whose import it would slow down

    parent = multiprocessing.parent_process()
    assert parent is not None
    assert parent.pid is not None
    if os.getppid() == parent.pid:
        # Not by the pipe of multiprocessing, of which forked siblings have inherited the other end.
        end_with(parent.pid)
    else:
        # A server of forks stands between, or it has ended already.
        threading.Thread(target=_wait, args=(parent,), name="unirecord-parent", daemon=True).start()


def _wait(parent: Any) -> None:
    parent.join()
    os._exit(1)
