"""Ctrl-C ends waits, also where signals have system calls restarted, as in a process that has imported Polars."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future

import pytest
from restarting_signals import signals_restart_calls

from unirecord.core import result_of, wait_for
from unirecord.pipeline.producers import ThreadProducers


@pytest.fixture(autouse=True)
def _as_with_polars() -> Iterator[None]:
    with signals_restart_calls():
        yield


class Interrupts:
    """Sends Ctrl-C until somebody has seen it, and then no more."""

    def __init__(self) -> None:
        self._seen = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        while not self._seen.wait(0.5):
            os.kill(os.getpid(), signal.SIGINT)

    def during(self, wait: Callable[[], object]) -> None:
        def seen(number: int, frame: object) -> None:
            self._seen.set()
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGINT, seen)
        signal.siginterrupt(signal.SIGINT, False)
        try:
            self._thread.start()
            with pytest.raises(KeyboardInterrupt):
                wait()
        finally:
            self._seen.set()
            self._thread.join()
            signal.signal(signal.SIGINT, before)


def test_waiting_for_an_event_sees_ctrl_c() -> None:
    never = threading.Event()
    Interrupts().during(lambda: wait_for(never))


def test_waiting_for_a_future_sees_ctrl_c() -> None:
    Interrupts().during(lambda: result_of(Future()))


def test_waiting_for_generators_sees_ctrl_c() -> None:
    over = threading.Event()

    def make() -> Iterator[int]:
        over.wait(60)
        yield 1

    producers = ThreadProducers([make], ahead=1, memory=1)
    producers.start()
    try:
        Interrupts().during(lambda: next(producers.in_turn()))
    finally:
        over.set()
        producers.end()
        producers.close()


def test_results_and_errors_of_futures_come_through() -> None:
    done: Future[int] = Future()
    threading.Timer(0.01, done.set_result, (3,)).start()
    assert result_of(done) == 3
    failed: Future[int] = Future()
    failed.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        result_of(failed)
    gone: Future[int] = Future()
    gone.cancel()
    with pytest.raises(CancelledError):
        result_of(gone)
