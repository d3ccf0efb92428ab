"""Finished parts are synced by a thread, one after the other, while the next is being made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType

from ..core import LeavablePool, result_of

__all__ = ["Settling"]


class Settling:
    """Runs what it is given in order, one thing behind the caller at most; its errors are raised by the next call.

    On leaving a ``with`` block all has been run; an error is raised then unless there is another one.
    """

    def __init__(self) -> None:
        self._pool = LeavablePool(1, "unirecord-settle")
        self._last: Future[None] | None = None

    def add(self, work: Callable[[], None]) -> None:
        """Have it run when what was given before has been."""
        self._wait()
        self._last = self._pool.submit(work)

    def _wait(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            result_of(last)

    def __enter__(self) -> Settling:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for what is under way."""
        try:
            self._wait()
        except Exception:
            if error is None:
                raise
        finally:
            self._pool.leave()
