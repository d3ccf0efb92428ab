"""Processes that read sources, forked from one that has imported their libraries, for tests of what is read.

A process of its own takes most of a second to import them, for each source. tests/convert/test_child_reader.py has
those, as users have.

`python tests/support/reader_forks.py FD` is the process that forks.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from importlib import import_module
from typing import Any

from unirecord.convert.sources import child_reader

PR_SET_CHILD_SUBREAPER = 36


class Forks:
    """The process that forks, started when it is first asked."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None

    def fork(self, libraries: tuple[str, ...], environment: dict[str, str], fd: int, stderr: int) -> int:
        """The number of a new child of this process, which serves ``fd`` as `child_reader` does."""
        with self._lock:
            if self._sock is None:
                self._sock = self._started()
            message = json.dumps([libraries, sys.path, environment, self.owner]).encode()
            # What the one in between leaves behind when it ends becomes a child of this process.
            _takes_orphans(True)
            try:
                socket.send_fds(self._sock, [message], [fd, stderr])
                return int(self._sock.recv(64))
            finally:
                _takes_orphans(False)

    def _started(self) -> socket.socket:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env=child_reader._environment(),
                start_new_session=True,
            )
        weakref.finalize(mine, _end, process, self.owner)
        return mine


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:  # a fork of it has no children
        process.kill()
        process.wait()


def _takes_orphans(on: bool) -> None:
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0


FORKS = Forks()


class _Forked(subprocess.Popen[bytes]):
    """What `subprocess` has of a process, of one that was forked elsewhere."""

    def __init__(self, pid: int) -> None:
        self.pid, self.returncode, self.args = pid, None, "forked"
        self.stdin = self.stdout = self.stderr = None
        self._child_created, self._waitpid_lock = True, threading.Lock()


class Process(child_reader._Process):
    """A reader that is forked, not started."""

    def __init__(self, libraries: tuple[str, ...], limits: Any) -> None:
        self._needs = libraries
        super().__init__(libraries, limits)

    def _started(self, fd: int) -> subprocess.Popen[bytes]:
        if os.getpid() != FORKS.owner:
            return super()._started(fd)
        return _Forked(FORKS.fork(self._needs, child_reader._environment(), fd, self._said.fileno()))


def serve(fd: int) -> None:
    """Fork for each message, until the other end is closed."""
    asked = socket.socket(fileno=fd)
    while True:
        message, fds, _, _ = socket.recv_fds(asked, 1 << 20, 2)
        if not message:
            return
        libraries, path, environment, parent = json.loads(message)
        sys.path[:] = path
        for library in libraries:
            with suppress(ImportError):  # which the source says in its own words
                import_module(library)
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            for one in fds:
                os.close(one)
            continue
        if os.fork():
            os._exit(0)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(fds[1], 2)
        os.environ.clear()
        os.environ.update(environment)
        while os.getppid() != parent:
            os.sched_yield()
        asked.send(str(os.getpid()).encode())
        asked.close()
        child_reader.main(fds[0], parent)
        return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(int(sys.argv[1]))
