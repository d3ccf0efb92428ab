"""A worker process of a conversion: takes numbers of tasks from its input, runs them, and tells how it went."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import pickle
import signal
import struct
import sys
import time
from typing import Any, BinaryIO, Final

from .freed_memory import keep_freed_memory
from .task import run_task

__all__ = ["COMMAND", "main", "receive", "send", "send_bytes"]

# The parent's search path comes first, so that the worker imports what the parent did.
COMMAND: Final = """import json, sys
sys.path[:] = json.loads(sys.argv[1])
from unirecord.convert.worker import main
main()"""
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_EVERY_SECONDS: Final = 0.2


def send(stream: BinaryIO, message: Any) -> None:
    """Write a message: its length, and itself pickled."""
    send_bytes(stream, pickle.dumps(message))


def send_bytes(stream: BinaryIO, data: bytes) -> None:
    """Write what `receive` unpickles."""
    left = memoryview(struct.pack("<Q", len(data)) + data)
    while len(left):
        left = left[stream.write(left) :]
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read a message; EOFError when the other side has ended."""
    (size,) = struct.unpack("<Q", _exactly(stream, 8))
    return pickle.loads(_exactly(stream, size))


def _exactly(stream: BinaryIO, size: int) -> bytes:
    pieces = []
    while size:
        piece = stream.read(size)
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def main() -> None:
    """Serve the parent until it closes the input; end with it, however it ends."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    keep_freed_memory()
    source, out = sys.stdin.buffer, io.FileIO(os.dup(1), "w")
    os.dup2(2, 1)  # what a source prints is no message
    try:
        job = receive(source)
        while True:
            _serve(job, receive(source), out)
    except (EOFError, BrokenPipeError):
        return


def _serve(job: Any, task: int, out: BinaryIO) -> None:
    told, rows, size, part = -_EVERY_SECONDS, 0, 0, ""

    def tell(more_rows: int, more_bytes: int, at: str) -> None:
        nonlocal told, rows, size, part
        rows, size, part = rows + more_rows, size + more_bytes, at
        if time.monotonic() - told >= _EVERY_SECONDS:
            send(out, ("progress", task, rows, size, part))
            told, rows, size = time.monotonic(), 0, 0

    try:
        record = run_task(job, task, tell)
    except (EOFError, BrokenPipeError):
        raise
    except BaseException as error:
        send(out, ("failed", task, _portable(error)))
        return
    send(out, ("progress", task, rows, size, part))
    send(out, ("done", task, record))


def _portable(error: BaseException) -> BaseException:
    """The error itself where it can be sent, else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
