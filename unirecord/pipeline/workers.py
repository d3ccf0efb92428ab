"""Processes that run the operators of a stage, and the memory that they share with the one that started them."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import select
import signal
import socket
import tempfile
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import end_with_parent
from ..errors import TransformError, UniRecordError
from ..order.randomness import child_key, seed_globals
from .chunk import Chunk

__all__ = [
    "Channel",
    "Ended",
    "Portable",
    "Process",
    "ProcessStage",
]


# Objects between two processes: arrays lie in shared memory that is used again, and are never pickled.


_ALIGNED = 64
_MOST_FREE = 8  # pieces kept that hold nothing
_LARGEST_MESSAGE = 1 << 16
_PATIENCE_MS = 200  # how often whoever waits looks whether the other process is still there


class Ended(Exception):
    """The other side has closed its end, or its process has ended."""


class Channel:
    """One end of a connection between two processes. One thread at a time sends, and one receives.

    What is sent is copied once, into a piece of memory without a name that both processes map; what is received looks
    into it. The piece is filled again when the last array of the receiver into it is gone. So nothing is left behind
    however either process ends.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._own: dict[int, mmap.mmap] = {}
        self._free: list[int] = []
        self._next = 0
        self._maps: dict[int, mmap.mmap] = {}
        self._let_go: deque[int] = deque()  # of the other side's pieces; finalizers append to it
        self._said = 0
        self.allocations: int = 0

    # ---- sending -----------------------------------------------------------------------------------------

    def send(self, value: Any) -> int:
        """Sends any object that can be pickled, and says how many bytes it took; Ended if nobody is there."""
        buffers: list[pickle.PickleBuffer] = []
        stream = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        raw = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
        raw.append(np.frombuffer(stream, np.uint8))
        places, end = [], 0
        for each in raw:
            places.append((end, end + each.nbytes))
            end = -(-(end + each.nbytes) // _ALIGNED) * _ALIGNED
        table = np.array(places, np.int64).reshape(-1).view(np.uint8)
        raw.append(table)
        places.append((end, end + table.nbytes))
        number, new, dropped = self._piece(end + table.nbytes)
        memory = np.frombuffer(self._own[number], np.uint8)
        for (start, stop), each in zip(places, raw, strict=True):
            memory[start:stop] = each  # without the GIL where it is long
        del memory
        self._tell((number, *places[-1], self._gone(), dropped), new)
        return places[-1][1]

    def say_taken(self) -> None:
        """Tells the other side that one more object has been taken, and which of its pieces can be filled again."""
        self._tell((-1, 0, 0, self._gone(), ()), None)

    def await_taken(self, count: int) -> None:
        """Waits until the other side has said so ``count`` times; Ended when it is gone."""
        while self._said < count:
            if self._poll(_PATIENCE_MS):
                self._read()

    def _gone(self) -> tuple[int, ...]:
        gone = []
        while self._let_go:
            gone.append(self._let_go.popleft())
        return tuple(gone)

    def _tell(self, message: tuple[Any, ...], fd: int | None) -> None:
        try:
            data = pickle.dumps(message)
            if fd is None:
                self.socket.send(data)
            else:
                socket.send_fds(self.socket, [data], [fd])
        except (BrokenPipeError, ConnectionError) as error:
            raise Ended from error
        finally:
            if fd is not None:
                os.close(fd)

    def _piece(self, size: int) -> tuple[int, int | None, tuple[int, ...]]:
        """A piece that holds ``size`` bytes: its number, its descriptor if it is new, and pieces that are given up."""
        self._listen()
        fitting = [number for number in self._free if len(self._own[number]) >= size]
        if fitting:
            number = min(fitting, key=lambda number: len(self._own[number]))
            self._free.remove(number)
            return number, None, ()
        dropped: list[int] = []
        # what nothing lies in takes no more memory than what is sent now, however sizes have grown
        while len(self._free) >= _MOST_FREE or sum(len(self._own[number]) for number in self._free) > size:
            smallest = min(self._free, key=lambda number: len(self._own[number]))
            self._free.remove(smallest)
            with suppress(BufferError):
                self._own.pop(smallest).close()
            dropped.append(smallest)
        fd = _unnamed(-(-(size + size // 4) // mmap.PAGESIZE) * mmap.PAGESIZE)
        self._next += 1
        self.allocations += 1
        self._own[self._next] = mmap.mmap(fd, 0)
        return self._next, fd, tuple(dropped)

    def _listen(self) -> None:
        """Takes in what pieces the other side has let go, where it has said so and nothing else."""
        while not self._waiting_message() and self._poll(0):
            self._message = self._read()

    def share(self, count: int) -> NDArray[np.int64]:
        """Numbers, at first 0, that the other side gets by its next ``receive``: each sees what the other writes."""
        self.send(np.zeros(count, np.int64))
        return np.frombuffer(self._own[self._next], np.int64, count)

    # ---- receiving ---------------------------------------------------------------------------------------

    _message: tuple[Any, ...] | None = None

    def _waiting_message(self) -> bool:
        if self._message is not None and self._message[0] < 0:
            self._message = None
        return self._message is not None

    def receive(self, alive: Any = None) -> Any:
        """The next object; Ended when none will come, or when ``alive()`` says that the other process is gone."""
        while not self._waiting_message():
            if self._poll(_PATIENCE_MS):
                self._message = self._read()
            elif alive is not None and not alive() and not self._poll(0):
                raise Ended
        message, self._message = self._message, None
        assert message is not None
        return self._value(*message[:3])

    def _poll(self, milliseconds: int) -> bool:
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(milliseconds))

    def _read(self) -> tuple[Any, ...]:
        try:
            data, fds = self._received()
        except (
            ConnectionResetError
        ):  # it ended without having read everything: what it sent before is still there
            data, fds = self._received()
        if not data:
            raise Ended
        message: tuple[Any, ...] = pickle.loads(data)
        number, _, _, gone, dropped = message
        self._said += number < 0
        self._free += gone
        for other in dropped:
            self._maps.pop(other, None)  # views into it may be left: they keep it
        for fd in fds:
            self._maps[number] = mmap.mmap(fd, 0)
            os.close(fd)
        return message

    def _received(self) -> tuple[bytes, list[int]]:
        data, fds, _, _ = socket.recv_fds(self.socket, _LARGEST_MESSAGE, 1)
        return data, fds

    def _value(self, number: int, start: int, stop: int) -> Any:
        memory: NDArray[np.uint8] = np.frombuffer(self._maps[number], np.uint8)
        weakref.finalize(memory, self._let_go.append, number).atexit = False
        places = memory[start:stop].view(np.int64).reshape(-1, 2).tolist()
        *buffers, stream = [memory[a:b] for a, b in places]
        return pickle.loads(stream, buffers=buffers)

    def close(self) -> None:
        """Closes this end; memory goes when the last array into it is gone."""
        self.socket.close()


def _unnamed(size: int) -> int:
    """A descriptor of memory of a size, in a file that has no name."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("unirecord-pipeline", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


# Processes that run the operators of a stage, for functions that hold the GIL.


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
        self._serve = partial(_serve, steps)
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


def _serve(steps: Callable[[Chunk, Sequence[Any]], Chunk], channel: Channel) -> None:
    """What a process of a stage does: takes chunks, and gives back what has become of them."""
    at = channel.receive()
    nothing: tuple[()] = ()
    while True:
        chunk: Chunk = channel.receive()
        chunk.values = _Noted(chunk.values, at)
        try:
            result = steps(chunk, nothing)
        except BaseException as error:
            result = Chunk.failed(error)
        if result.error is not None:
            result.error = Portable.of(result.error)
        result.values = list(result.values)
        del chunk
        try:
            channel.send(result)
        except Ended:
            raise
        except Exception as error:  # what the function returned cannot be sent
            channel.send(Chunk.failed(Portable.of(error)))
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

    def __init__(self, kept: BaseException, cause: BaseException | None, trace: str) -> None:
        super().__init__(kept, cause, trace)
        self.kept, self.cause, self.trace = kept, cause, trace

    @classmethod
    def of(cls, error: BaseException) -> Portable:
        """The error as it is now."""
        shown = error.__cause__ or error
        trace = "".join(traceback.format_exception(type(shown), shown, shown.__traceback__))
        cause = None if error.__cause__ is None else _picklable(error.__cause__)
        return cls(_picklable(error), cause, trace)

    def error(self) -> BaseException:
        """The error; of a user's function, or one that nobody has foreseen, with where it was raised in the process."""
        error = self.kept
        error.__cause__ = self.cause
        if isinstance(error, TransformError) or not isinstance(error, UniRecordError | OSError):
            error.add_note(f"in another process:\n{self.trace}")
        return error


def _picklable(error: BaseException) -> BaseException:
    try:
        loaded = pickle.loads(pickle.dumps(error))
    except Exception:
        return UniRecordError(f"{type(error).__name__}: {error}")
    return error if isinstance(loaded, BaseException) else UniRecordError(repr(error))
