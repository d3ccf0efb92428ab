"""The tasks of a conversion as Ray tasks: each attempt in a folder of its own, the first to end wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..convert.conversion import Engine
from ..convert.task import Job, finish_task, write_parts
from ..errors import UniRecordError
from ..storage.staged import Attempts
from .ray_data import cause_of, import_ray

__all__ = ["ray_engine"]


def ray_engine(path: str) -> Engine:
    """Return what runs a conversion to ``path`` on the Ray cluster of this process, or on one it starts here.

    A task that dies with its process or its machine is run again, three times at most. When all tasks are taken and a
    processor is free, one that still runs is attempted a second time. Whatever attempt ends first is taken over by this
    process; the bytes are the same for all.

    Raises SchemaError when Ray is missing.
    """
    ray = import_ray()

    def run(
        job: Job,
        tasks: Sequence[int],
        tell: Callable[[int, int, int, str], None],
        done: Callable[[int, dict[str, Any]], None],
    ) -> None:
        started = not ray.is_initialized()
        if started:
            ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
        attempts = Attempts(path)
        attempts.start()
        try:
            _Run(ray, job, attempts, tell, done).run(tasks)
        finally:
            attempts.finish()
            if started:
                ray.shutdown()

    return run


def attempt(job: Job, task: int, attempts: Attempts) -> tuple[str, dict[str, Any]]:
    """Write the parts of a task in a folder of this attempt alone; the folder, and the record of the task."""
    folder = attempts.begin(task)
    return folder, write_parts(job, task, folder, _nobody)


def _nobody(rows: int, size: int, part: str) -> None:
    """Progress is told when a task is done."""


class _Run:
    """Tasks that are under way; those that are done are not taken over again."""

    def __init__(
        self,
        ray: Any,
        job: Job,
        attempts: Attempts,
        tell: Callable[[int, int, int, str], None],
        done: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self._ray, self._job, self._attempts = ray, job, attempts
        self._tell, self._done = tell, done
        self._given = ray.put(job)
        self._attempt = ray.remote(num_cpus=1, max_retries=3)(attempt)
        self._running: dict[Any, int] = {}

    def run(self, tasks: Sequence[int]) -> None:
        """Run all, and return when each has been taken over once."""
        left = set(tasks)
        for task in tasks:
            self._start(task)
        try:
            while left:
                (ref, *_), _ = self._ray.wait(list(self._running))
                task = self._running.pop(ref)
                if task in left and self._take_over(task, ref):
                    left.remove(task)
                    self._attempt_again(left)
        finally:
            for ref in self._running:
                self._ray.cancel(ref, force=True)

    def _start(self, task: int) -> None:
        self._running[self._attempt.remote(self._given, task, self._attempts)] = task

    def _attempt_again(self, left: set[int]) -> None:
        """A second attempt at a task that runs alone, on a processor that nobody needs."""
        running = list(self._running.values())
        alone = [task for task in sorted(left) if running.count(task) == 1]
        if alone and len(running) < self._ray.cluster_resources().get("CPU", 1):
            self._start(alone[0])

    def _take_over(self, task: int, ref: Any) -> bool:
        """Make an attempt that has ended the one that counts; False when it died, and another one still runs."""
        try:
            folder, record = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            cause = cause_of(error)
            if cause is None and task in self._running.values():
                return False
            raise cause or UniRecordError(
                f"task {task} of {len(self._job.tasks)} failed on Ray: {error}"
            ) from error
        names = [name for part in record["parts"] for name in (part["name"], part["name"] + ".idx")]
        self._attempts.take_over(folder, names, self._job.folder)
        finish_task(self._job, task, record)
        size = sum(part["bytes"] + part["index_bytes"] for part in record["parts"])
        self._tell(task, record["rows"], size, "")
        self._done(task, record)
        return True
