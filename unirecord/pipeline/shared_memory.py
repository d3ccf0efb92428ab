"""Objects between two processes: arrays lie in shared memory that is used again, and are never pickled."""

from __future__ import annotations

import mmap
import os
import pickle
import select
import socket
import tempfile
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Channel", "Ended"]

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
        dropped: tuple[int, ...] = ()
        if len(self._free) >= _MOST_FREE:
            smallest = min(self._free, key=lambda number: len(self._own[number]))
            self._free.remove(smallest)
            with suppress(BufferError):
                self._own.pop(smallest).close()
            dropped = (smallest,)
        fd = _unnamed(-(-(size + size // 4) // mmap.PAGESIZE) * mmap.PAGESIZE)
        self._next += 1
        self.allocations += 1
        self._own[self._next] = mmap.mmap(fd, 0)
        return self._next, fd, dropped

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
