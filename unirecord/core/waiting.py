"""Waits that Ctrl-C ends: a bare one may see it only when it is over.

A signal that comes just before a wait begins does not end it. None does where a library has system calls restarted
after signals, as Polars has for SIGINT from its import on. So these look for signals ten times a second.
"""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, TimeoutError
from contextlib import suppress
from typing import Final, TypeVar

SIGNAL_SECONDS: Final = 0.1  # how long a signal may be waited for
Result = TypeVar("Result")


def wait_for(event: threading.Event) -> None:
    """Return when the event is set."""
    while not event.wait(SIGNAL_SECONDS):
        pass


def result_of(future: Future[Result]) -> Result:
    """What a future has come to, or the exception that it raises, when it is done."""
    while not future.done():
        with suppress(TimeoutError, CancelledError):
            future.exception(SIGNAL_SECONDS)
    return future.result()
