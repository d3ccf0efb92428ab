"""Tests that send themselves Ctrl-C: it is heard, and comes up where it can be raised."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_are_heard() -> Iterator[None]:
    """As in a process that a terminal has started, and that has not imported JAX.

    A shell has what it starts in the background ignore SIGINT. JAX has a callback in Python's garbage collector:
    what is raised in the middle of one is printed, and lost.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    try:
        yield
    finally:
        gc.callbacks[:] = callbacks
        signal.signal(signal.SIGINT, before)
