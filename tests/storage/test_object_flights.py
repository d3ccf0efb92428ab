"""When answers of an object store are taken: as soon as they come, but in the main thread when all have come."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from unirecord.storage.object_store import store_and_key
from unirecord.storage.pacing import Durations
from unirecord.storage.requests import Read, Requests
from unirecord.storage.storage_options import storage_of


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    monkeypatch.setattr(Durations, "long", lambda *_: 3_600.0)  # none is made twice for being late
    made = Requests()
    yield made
    made.stop()


class Asked:
    """Requests that are answered when they are told to be."""

    def __init__(self) -> None:
        options = storage_of({"skip_signature": True, "region": "us-east-1"})
        self.store, _ = store_and_key("s3://flights/x", options)
        self.taken: list[Any] = []
        self.came = threading.Semaphore(0)
        self.running = self.most = 0

    def read(self, number: int, wait: threading.Event | None = None, size: int = 1) -> Read:
        async def ask(client: Any) -> int:
            self.running += 1
            self.most = max(self.most, self.running)
            while wait is not None and not wait.is_set():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
            self.running -= 1
            return number

        return Read(self.store, ask, size, take=self.take)

    def take(self, number: int) -> int:
        self.taken.append((number, threading.current_thread().name))
        self.came.release()
        if number < 0:
            raise OSError("cannot be taken")
        return 10 * number


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    return thread, found


def test_an_answer_is_taken_before_the_others_are_there(made: Requests) -> None:
    asked, end = Asked(), threading.Event()
    calls = [asked.read(0, end), asked.read(1), asked.read(-2)]
    thread, found = in_thread(lambda: made.all(calls))
    assert asked.came.acquire(timeout=60)
    assert asked.came.acquire(timeout=60)
    assert not found
    end.set()
    thread.join()
    assert found[0][:2] == [0, 10]
    assert isinstance(found[0][2], OSError)
    assert sorted(number for number, _ in asked.taken) == [-2, 0, 1]  # once each
    assert {name for _, name in asked.taken} == {"unirecord-requests"}


def test_in_the_main_thread_nothing_is_taken_behind_its_back(made: Requests) -> None:
    asked = Asked()
    found = made.all([asked.read(0), asked.read(1), asked.read(-2)])
    assert found[:2] == [0, 10]
    assert isinstance(found[2], OSError)
    assert {name for _, name in asked.taken} == {threading.main_thread().name}


def test_what_is_given_up_is_not_taken(made: Requests) -> None:
    asked, end = Asked(), threading.Event()

    def wait() -> bool:
        with pytest.raises(ConnectionAbortedError):
            made.all([asked.read(1, end)])
        return True

    thread, found = in_thread(wait)
    while not asked.running:
        end.wait(0.001)
    made.stop()
    end.set()
    thread.join()
    assert found == [True]
    assert not asked.taken


def test_long_requests_wait_for_each_other_and_short_ones_overtake(made: Requests) -> None:
    asked, end = Asked(), threading.Event()
    long = [made.begin([asked.read(i, end, 32 << 20)])[0] for i in range(12)]
    thread, found = in_thread(lambda: made.all([asked.read(100)]))
    thread.join()
    assert found == [[1000]]  # while twelve long ones wait
    assert asked.most == 5  # of 32 MiB: four, and the short one
    end.set()
    assert [each() for each in long] == [10 * i for i in range(12)]
    assert asked.most == 5


def test_nothing_is_asked_once_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again either, where the client's threads take a while to let go of what was cancelled."""
    monkeypatch.setattr(Durations, "long", lambda *_: 0.0)  # all is late at once
    made, asked, held = Requests(), [], []
    store = Asked().store

    def ask(client: Any) -> asyncio.Future[Any]:
        asked.append(made._ended)
        held.append(made._loop.create_future())
        return held[-1]

    def wait() -> None:
        with pytest.raises(ConnectionAbortedError):
            made.all([Read(store, ask, 1000)])

    thread, _ = in_thread(wait)
    while len(asked) < 2:
        time.sleep(0.001)
    given = threading.Event()
    give = made._give_places
    monkeypatch.setattr(made, "_give_places", lambda: (give(), given.set()))
    stopping = threading.Thread(target=made.stop)
    stopping.start()
    while not made._ended:
        time.sleep(0.001)
    made._loop.call_soon_threadsafe(made._give_places)
    assert given.wait(60)
    held.clear()
    stopping.join()
    thread.join()
    assert asked == [False] * len(asked)


def test_what_waits_for_its_turn_is_not_asked_once_the_process_ends(made: Requests) -> None:
    asked: list[Any] = []
    made._pace.in_flight = made._pace.most
    [answer] = made.begin([Read(Asked().store, lambda client: asked.append(client), 1)])
    while not made._short:
        time.sleep(0.001)
    made._pace.in_flight = 0  # as if all had just been answered
    cancel = made._cancel_all

    async def cancel_and_give() -> None:
        await cancel()
        made._give_places()

    made._cancel_all = cancel_and_give  # type: ignore[method-assign]
    made.stop()
    assert isinstance(answer(), ConnectionAbortedError)
    assert asked == []
