"""What other packages have called by the collector: a Ctrl-C that comes in the middle of one is printed, and lost."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collector_callbacks() -> Iterator[None]:
    """There are none, as where JAX, which has one, has not been imported."""
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    try:
        yield
    finally:
        gc.callbacks[:] = callbacks
