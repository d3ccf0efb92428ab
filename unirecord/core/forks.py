"""What fork() does to memory and descriptors, told by the C core: no code of Python runs while a process forks.

A hook in Python (os.register_at_fork) is broken off by whatever a signal's handler raises in it, as Ctrl-C does, and
the exception is lost. So what has to change with a fork is found to be old when it is used next; and signals are kept
while the hooks of other modules run, as logging's, which would not let go of its lock.
"""

from __future__ import annotations

# Those of these two run between ours, as hooks that were registered before do.
import logging as logging
import os
import random as random
import signal

from .library import lib

__all__ = ["all_forks", "close_in_children"]


def all_forks() -> int:
    """A number that changes with each fork, in the process that forks as in its child."""
    return lib.ur_all_forks()  # type: ignore[no-any-return]


def close_in_children(descriptor: int, closes: bool) -> None:
    """Has each child that is forked from now on close this descriptor, or not any more: before it is closed here."""
    lib.ur_fork_closes(descriptor, closes)


all_forks()  # the first one to ask has forks counted from then on
lib.ur_signals_like(signal.SIGINT)
os.register_at_fork(
    before=lib.ur_signals_keep, after_in_parent=lib.ur_signals_give, after_in_child=lib.ur_signals_give
)
