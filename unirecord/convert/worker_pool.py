"""Worker processes: each runs one task at a time; one that dies is replaced, and its task run again."""

from __future__ import annotations

import json
import os
import pickle
import selectors
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from ..errors import UniRecordError
from .task import Job
from .worker import COMMAND, receive, send, send_bytes

__all__ = ["run_in_workers"]

_MOST_DEATHS: Final = 3  # of workers at one task


def run_in_workers(
    job: Job,
    tasks: Sequence[int],
    workers: int,
    lock: int,
    tell: Callable[[int, int, int, str], None],
    done: Callable[[int, dict[str, Any]], None],
) -> None:
    """Run the tasks in ``workers`` processes.

    ``done`` is told of each task as it ends, ``tell`` of rows and bytes more of a task and the part they go into. The
    workers inherit the descriptor ``lock``, so that a lock on it outlives this process as long as they do. When a
    task fails, all workers are stopped and its error is raised.
    """
    pool = _Pool(job, tasks, lock)
    try:
        for _ in range(min(workers, len(tasks))):
            pool.start()
        while pool.running:
            for worker in pool.ready():
                _hear(pool, worker, tell, done)
    finally:
        pool.stop()


def _hear(
    pool: _Pool,
    worker: _Worker,
    tell: Callable[[int, int, int, str], None],
    done: Callable[[int, dict[str, Any]], None],
) -> None:
    try:
        kind, task, *content = receive(worker.process.stdout)  # type: ignore[arg-type]
    except EOFError:
        pool.replace(worker, tell)
        return
    if kind == "progress":
        worker.rows, worker.bytes = worker.rows + content[0], worker.bytes + content[1]
        tell(task, *content)
    elif kind == "failed":
        raise content[0]
    else:
        done(task, content[0])
        pool.give(worker)


def _pickled(job: Job) -> bytes:
    try:
        return pickle.dumps(job)
    except Exception as error:
        raise ValueError(
            f"{job.source.path} cannot be given to worker processes ({error}); write it with workers=1"
        ) from error


class _Worker:
    """A process, the task that it is at, and what it has told of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.task = -1
        self.rows = 0
        self.bytes = 0


class _Pool:
    def __init__(self, job: Job, tasks: Sequence[int], lock: int) -> None:
        self._job, self._tasks, self._lock = _pickled(job), len(job.tasks), lock
        self._waiting = deque(tasks)
        self._deaths: Counter[int] = Counter()
        self._selector = selectors.DefaultSelector()
        self.running: set[_Worker] = set()

    def start(self) -> None:
        """Start a worker, and give it a task."""
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # what is in a buffer of ours is not seen by the selector
            pass_fds=[self._lock] if self._lock >= 0 else [],
            env={
                "OPENBLAS_NUM_THREADS": "1",
                **os.environ,
            },  # numpy's, which spin at the start of each process
            start_new_session=True,  # Ctrl-C is for this process, which ends them
        )
        worker = _Worker(process)
        self.running.add(worker)
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        with suppress(BrokenPipeError):  # it has died, which is heard from its output
            send_bytes(process.stdin, self._job)  # type: ignore[arg-type]
        self.give(worker)

    def give(self, worker: _Worker) -> None:
        """Give a worker its next task; where there is none, let it end."""
        worker.rows = worker.bytes = 0
        if not self._waiting:
            worker.task = -1
            self._end(worker)
            return
        worker.task = self._waiting.popleft()
        with suppress(BrokenPipeError):
            send(worker.process.stdin, worker.task)  # type: ignore[arg-type]

    def ready(self) -> list[_Worker]:
        """Wait for workers that have something to say."""
        return [key.data for key, _ in self._selector.select()]

    def replace(self, worker: _Worker, tell: Callable[[int, int, int, str], None]) -> None:
        """A worker has died: its task is run again, by another one."""
        code = self._end(worker)
        tell(worker.task, -worker.rows, -worker.bytes, "")
        if worker.task >= 0:
            self._deaths[worker.task] += 1
            self._waiting.appendleft(worker.task)
        else:
            self._deaths[-1] += 1
        if self._deaths[worker.task] >= _MOST_DEATHS:
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            hint = " (out of memory? fewer workers need less)" if code == -9 else ""
            raise UniRecordError(
                f"{_MOST_DEATHS} workers have died at task {worker.task} of {self._tasks}, "
                f"the last {how}{hint}"
            )
        self.start()

    def _end(self, worker: _Worker) -> int:
        self.running.discard(worker)
        self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        for stream in (worker.process.stdin, worker.process.stdout):
            with suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]
        return worker.process.wait()

    def stop(self) -> None:
        """End all workers at once."""
        for worker in self.running:
            worker.process.kill()
        for worker in list(self.running):
            self._end(worker)
        self._selector.close()
