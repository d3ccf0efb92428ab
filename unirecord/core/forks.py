"""What fork() does to memory and descriptors, told by the C core: no code of Python runs while a process forks.

A hook in Python (os.register_at_fork) is broken off by whatever a signal's handler raises in it, as Ctrl-C does, and
the exception is lost. So what has to change with a fork is found to be old when it is used next; and signals are kept
while the hooks of other modules run, as logging's, which would not let go of its lock.
"""

from __future__ import annotations

import logging as logging
import os
import random as random
import signal
import threading

from .library import lib

__all__ = ["all_forks", "close_in_children"]


def all_forks() -> int:
    """A number that changes with each fork, in the process that forks as in its child."""
    return lib.ur_all_forks()  # type: ignore[no-any-return]


def close_in_children(descriptor: int, closes: bool) -> None:
    """Has each child that is forked from now on close this descriptor, or not any more: before it is closed here."""
    lib.ur_fork_closes(descriptor, closes)


def _keep_signals_of_python() -> None:
    """Tells the C core what Python's own handler of signals is, by a signal that has it.

    SIGINT has it where a terminal or a test has begun the process; a job in the background begins with SIGINT ignored,
    and may have no signal with a handler yet. SIGURG, which means nothing to a process without out-of-band data, is
    given one for a moment then; only the main thread may do so, and a program that imports this elsewhere has none.
    """
    for number in sorted(signal.valid_signals()):
        if callable(signal.getsignal(number)):
            lib.ur_signals_like(number)
            return
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGURG, lambda *_: None)
        lib.ur_signals_like(signal.SIGURG)
        signal.signal(signal.SIGURG, before)


# The first one to ask has forks counted from then on.
all_forks()
_keep_signals_of_python()
# logging and random have been imported, so that their hooks, which were registered before, run between these.
os.register_at_fork(
    before=lib.ur_signals_keep, after_in_parent=lib.ur_signals_give, after_in_child=lib.ur_signals_give
)
