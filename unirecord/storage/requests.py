"""Requests to object stores: many in flight at once, under one limit for the process, in an event loop of their own."""

from __future__ import annotations

import asyncio
import atexit
import errno
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any, Final

from ..errors import UniRecordError

__all__ = ["MOST_IN_FLIGHT", "Requests", "requests"]

MOST_IN_FLIGHT: Final = (
    256  # requests of this process: what hides 25 ms of latency at 10,000 requests a second
)

Call = Callable[[], Awaitable[Any]]


class Requests:
    """Runs coroutines that wait for a store, from any thread; one for each process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._free = asyncio.Semaphore(MOST_IN_FLIGHT)
        self._starting, self._ended = threading.Lock(), False
        self._thread = threading.Thread(target=self._run, name="unirecord-requests", daemon=True)
        self._thread.start()

    def all(self, calls: Sequence[Call]) -> list[Any]:
        """What comes of each of the calls, which are made in the loop, or the exception that it raises.

        Waits for all of them; Ctrl-C cancels them.
        """
        with self._starting:
            if self._ended:
                raise _given_up()
            waiting = asyncio.run_coroutine_threadsafe(self._gather(calls), self._loop)
        try:
            return waiting.result()
        except CancelledError:
            raise _given_up() from None
        except BaseException:
            waiting.cancel()
            raise

    async def _gather(self, calls: Sequence[Call]) -> list[Any]:
        return await asyncio.gather(*map(self._one, calls), return_exceptions=True)

    async def _one(self, call: Call) -> Any:
        async with self._free:
            return await call()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def stop(self) -> None:
        """Ends the requests in flight and the thread: the client's own threads must not outlive the interpreter."""
        if self._process != os.getpid() or not self._thread.is_alive():
            return
        with self._starting:
            self._ended = True
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def _given_up() -> ConnectionAbortedError:
    return ConnectionAbortedError(errno.ECONNABORTED, "it was given up, because the process ends")


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


_made: list[Requests] = []
_making = threading.Lock()


def requests() -> Requests:
    """Those of this process. UniRecordError in a fork of a process that has made requests: its client died there."""
    if not _made:
        with _making:
            if not _made:
                _made.append(Requests())
                atexit.register(_made[0].stop)
    if _made[0]._process != os.getpid():
        raise UniRecordError(
            "an object store was read before this process was forked, and its client does not survive that: start "
            'worker processes by "spawn" or "forkserver" (multiprocessing_context=), or use threads'
        )
    return _made[0]
