"""Worker processes of a conversion: each runs one task at a time; one that dies is replaced, and its task run again."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Final

from ..core import end_with
from ..errors import UniRecordError
from ..pipeline.workers import Portable
from .task import Job, TellOfTask, keep_freed_memory, run_task

__all__ = ["main", "run_in_workers"]


# A worker process of a conversion: takes numbers of tasks from its input, runs them, and tells how it went.


# The parent's search path comes first, so that the worker imports what the parent did.
_COMMAND: Final = """import json, sys
sys.path[:] = json.loads(sys.argv[1])
from unirecord.convert.workers import main
main(*map(int, sys.argv[2:]))"""
_EVERY_SECONDS: Final = 0.2


def main(parent: int, given: int, told: int) -> None:
    """Serve the parent until it closes the pipe ``given``; end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    end_with(parent)
    keep_freed_memory()
    # The user has said how many processes are busy: tokenizers begin no threads on all cores in each.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tasks, answers = Connection(given, writable=False), Connection(told, readable=False)
    try:
        job = tasks.recv()
        while True:
            _serve(job, tasks.recv(), answers)
    except (EOFError, BrokenPipeError):
        return


def _serve(job: Any, task: int, answers: Connection) -> None:
    told, rows, size, read, part = -_EVERY_SECONDS, 0, 0, 0, ""

    def tell(more_rows: int, more_bytes: int, more_read: int, at: str) -> None:
        nonlocal told, rows, size, read, part
        rows, size, read, part = rows + more_rows, size + more_bytes, read + more_read, at
        if time.monotonic() - told >= _EVERY_SECONDS:
            answers.send(("progress", task, rows, size, read, part))
            told, rows, size, read = time.monotonic(), 0, 0, 0

    try:
        record = run_task(job, task, tell)
    except (EOFError, BrokenPipeError):
        raise
    except BaseException as error:
        answers.send(("failed", task, Portable.of(error)))
        return
    answers.send(("progress", task, rows, size, read, part))
    answers.send(("done", task, record))


# Worker processes: each runs one task at a time; one that dies is replaced, and its task run again.


_MOST_DEATHS: Final = 3  # of workers at one task


def run_in_workers(
    job: Job,
    tasks: Sequence[int],
    workers: int,
    lock: int,
    tell: TellOfTask,
    done: Callable[[int, dict[str, Any]], None],
) -> None:
    """Run the tasks in ``workers`` processes.

    ``done`` is told of each task as it ends, ``tell`` what `run_task` tells, behind the number of the task. The
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
    tell: TellOfTask,
    done: Callable[[int, dict[str, Any]], None],
) -> None:
    try:
        kind, task, *content = worker.answers.recv()
    except (EOFError, OSError):  # within a message, too
        pool.replace(worker, tell)
        return
    if kind == "progress":
        worker.told = [sum(pair) for pair in zip(worker.told, content[:3], strict=True)]
        tell(task, *content)
    elif kind == "failed":
        raise content[0].error()
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
    """A process, the pipes to it and from it, the task that it is at, and what it has told of it."""

    def __init__(self, process: subprocess.Popen[bytes], tasks: Connection, answers: Connection) -> None:
        self.process, self.tasks, self.answers = process, tasks, answers
        self.task = -1
        self.told = [0, 0, 0]


class _Pool:
    def __init__(self, job: Job, tasks: Sequence[int], lock: int) -> None:
        self._job, self._tasks, self._lock = _pickled(job), len(job.tasks), lock
        self._waiting = deque(tasks)
        self._deaths: Counter[int] = Counter()
        self.running: set[_Worker] = set()

    def start(self) -> None:
        """Start a worker, and give it a task."""
        given, tasks = Pipe(duplex=False)
        answers, told = Pipe(duplex=False)
        with given, told:
            pipes = [given.fileno(), told.fileno()]
            process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, json.dumps(sys.path), str(os.getpid()), *map(str, pipes)],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a source prints is nothing that the command says
                pass_fds=[*pipes, self._lock] if self._lock >= 0 else pipes,
                env={
                    "OPENBLAS_NUM_THREADS": "1",
                    **os.environ,
                },  # numpy's, which spin at the start of each process
                start_new_session=True,  # Ctrl-C is for this process, which ends them
            )
        worker = _Worker(process, tasks, answers)
        self.running.add(worker)
        with suppress(BrokenPipeError):  # it has died, which is heard from its pipe
            tasks.send_bytes(self._job)
        self.give(worker)

    def give(self, worker: _Worker) -> None:
        """Give a worker its next task; where there is none, let it end."""
        worker.told = [0, 0, 0]
        if not self._waiting:
            worker.task = -1
            self._end(worker)
            return
        worker.task = self._waiting.popleft()
        with suppress(BrokenPipeError):
            worker.tasks.send(worker.task)

    def ready(self) -> list[_Worker]:
        """Wait for workers that have something to say."""
        said = wait([worker.answers for worker in self.running])
        return [worker for worker in self.running if worker.answers in said]

    def replace(self, worker: _Worker, tell: TellOfTask) -> None:
        """A worker has died: its task is run again, by another one."""
        code = self._end(worker)
        rows, size, read = worker.told
        tell(worker.task, -rows, -size, -read, "")
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
        worker.tasks.close()
        worker.answers.close()
        return worker.process.wait()

    def stop(self) -> None:
        """End all workers at once."""
        for worker in self.running:
            worker.process.kill()
        for worker in list(self.running):
            self._end(worker)
