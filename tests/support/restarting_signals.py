"""SIGINT as it is in every process that has imported Polars: the system call in whose middle it comes goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals_restart_calls() -> Iterator[None]:
    """Has SIGINT so; then as Python has it."""
    signal.siginterrupt(signal.SIGINT, False)
    try:
        yield
    finally:
        signal.siginterrupt(signal.SIGINT, True)
