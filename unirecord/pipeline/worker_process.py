"""Processes that run the operators of a stage, for functions that hold the GIL."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import socket
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from ..core import end_with_parent
from ..errors import TransformError, UniRecordError
from ..order.randomness import child_key, seed_globals
from .chunk import Chunk
from .shared_memory import Channel, Ended

__all__ = ["Portable", "Process", "ProcessStage"]

_GRACE_S = 2.0  # for a process that has been told to end


class Process:
    """A process that runs ``serve(channel)``, and the channel to it.

    It ends with this one, whatever happens to it: it looks whether its parent is still there. Its global random
    generators, which a fork would copy, are seeded by ``key``.
    """

    def __init__(self, serve: Callable[[Channel], None], key: int, others: Sequence[Process] = ()) -> None:
        context: Any = multiprocessing.get_context()
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        method = context.get_start_method()
        forked = method == "fork"
        inherited = [mine, *(other.channel.socket for other in others)] if forked else []
        self._process: Any = context.Process(
            target=_run, args=(its, serve, key, inherited), name="unirecord-pipeline", daemon=True
        )
        self.channel: Channel = Channel(mine)
        try:
            self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            mine.close()
            raise ValueError(
                f"processes are started by {method} here, so that functions must be picklable "
                f"(defined at the top of a module): {error}"
            ) from error
        except AssertionError as error:
            mine.close()
            raise ValueError(
                "this process may start no others, as a worker of a DataLoader may not: give threads= in it"
            ) from error
        finally:
            its.close()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        running: bool = self._process.is_alive()
        return running

    def end(self) -> None:
        """Asks it to end at once; it may be called in the middle of anything, and more than once."""
        with suppress(OSError, ValueError, AttributeError):
            self._process.terminate()

    def join(self) -> None:
        """Waits until it has ended, and gives its end of the channel up."""
        self._process.join(_GRACE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.channel.close()

    def how_it_ended(self) -> str:
        """Its exit code, in words."""
        self._process.join(_GRACE_S)
        code = self._process.exitcode
        if code is None:
            return "closed its connection"
        if code < 0:
            with suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name} (exit code {code})"
        return f"ended with exit code {code}"


def _run(its: socket.socket, serve: Any, key: int, inherited: Sequence[socket.socket]) -> None:
    """The process: ends when its parent does, and leaves interrupts to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()
    end_with_parent()
    seed_globals(key)
    channel = Channel(its)
    with suppress(Ended):
        serve(channel)


class ProcessStage:
    """Called like a stage's functions, with a chunk; one of ``count`` processes runs them. Any thread may call it.

    ``key`` is that of the stage in its pass, for global random generators.
    """

    def __init__(
        self, name: str, steps: Callable[[Chunk, Sequence[Any]], Chunk], count: int, locate: Any, key: int
    ) -> None:
        self._name, self._count, self._locate, self._key = name, count, locate, key
        self._serve = _Serving(steps)
        self._processes: list[Process] = []
        self._at: dict[Process, Any] = {}
        self._free: SimpleQueue[Process] = SimpleQueue()

    def start(self) -> None:
        """Starts the processes; a pass does so before its threads."""
        for number in range(self._count):
            process = Process(self._serve, child_key(self._key, number), self._processes)
            self._processes.append(process)
            self._at[process] = process.channel.share(1)
            self._free.put(process)

    def __call__(self, chunk: Chunk, slots: Sequence[Iterator[Any]]) -> Chunk:
        process = self._free.get()
        size, chunk.size = chunk.size, 0
        try:
            process.channel.send(chunk)
            result: Chunk = process.channel.receive(lambda: process.alive)
        except Ended:
            return self._died(process, chunk)
        finally:
            chunk.size = size
        self._free.put(process)
        if isinstance(result.error, Portable):
            result.error = result.error.error()
        return result

    def _died(self, process: Process, chunk: Chunk) -> Chunk:
        row = chunk.rows[min(int(self._at[process][0]), len(chunk) - 1)]
        row = row if isinstance(row, int) else row[0]
        path, words = self._locate(row)
        message = f"a process of {self._name} {process.how_it_ended()} while it worked on {words}"
        return Chunk.failed(TransformError(message, row, path))

    def end(self) -> None:
        """Ends the processes, whatever they are at: calls that wait for them come back."""
        for process in self._processes:
            process.end()

    def close(self) -> None:
        """Waits until the processes have ended; nobody calls any more."""
        for process in self._processes:
            process.join()
        self._processes, self._at = [], {}
        with suppress(Empty):
            while True:
                self._free.get_nowait()


class _Serving:
    """What a process of a stage does: takes chunks, and gives back what has become of them."""

    def __init__(self, steps: Callable[[Chunk, Sequence[Any]], Chunk]) -> None:
        self._steps = steps

    def __call__(self, channel: Channel) -> None:
        at = channel.receive()
        nothing: tuple[()] = ()
        while True:
            chunk: Chunk = channel.receive()
            chunk.values = _Noted(chunk.values, at)
            try:
                result = self._steps(chunk, nothing)
            except BaseException as error:
                result = Chunk.failed(error)
            if result.error is not None:
                result.error = Portable(result.error)
            result.values = list(result.values)
            del chunk
            try:
                channel.send(result)
            except Ended:
                raise
            except Exception as error:  # what the function returned cannot be sent
                channel.send(Chunk.failed(Portable(error)))
            del result


class _Noted(list[Any]):
    """A list that notes which of its elements is being worked on, where the parent can see it."""

    def __init__(self, values: list[Any], at: Any) -> None:
        super().__init__(values)
        self._at = at

    def __iter__(self) -> Iterator[Any]:
        for number, value in enumerate(super().__iter__()):
            self._at[0] = number
            yield value


class Portable(Exception):
    """An error in a form that any process can load: with its cause where that can be pickled, else with its words."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.kept: BaseException = _picklable(error)
        self.cause: BaseException | None = None if error.__cause__ is None else _picklable(error.__cause__)
        shown = error.__cause__ or error
        self.trace: str = "".join(traceback.format_exception(type(shown), shown, shown.__traceback__))

    def __reduce__(self) -> tuple[Any, ...]:
        return _loaded, (self.kept, self.cause, self.trace)

    def error(self) -> BaseException:
        """The error, with where it was raised in the process."""
        error = self.kept
        error.__cause__ = self.cause
        if hasattr(error, "add_note"):
            error.add_note(f"in a process of the pipeline:\n{self.trace}")
        return error


def _loaded(kept: BaseException, cause: BaseException | None, trace: str) -> Portable:
    portable: Portable = Portable.__new__(Portable)
    portable.kept, portable.cause, portable.trace = kept, cause, trace
    return portable


def _picklable(error: BaseException) -> BaseException:
    try:
        loaded = pickle.loads(pickle.dumps(error))
    except Exception:
        return UniRecordError(f"{type(error).__name__}: {error}")
    return error if isinstance(loaded, BaseException) else UniRecordError(repr(error))
