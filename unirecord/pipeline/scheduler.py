"""One pass of a pipeline: threads that work on whichever stage stands nearest to the consumer and can go on."""

from __future__ import annotations

import atexit
import os
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import perf_counter_ns, thread_time_ns
from typing import Any, ClassVar

from ..core import SIGNAL_SECONDS, leave_at_work
from ..loading.stats import Recorder, StageTimes
from .budget import size_of
from .chunk import Bounds, Chunk, Note, joined
from .operators import Operator
from .stage import Slots, Stage
from .tuner import Tuner

__all__ = [
    "Dispatch",
    "InputBuffer",
    "Job",
    "Running",
    "StageQueue",
    "Task",
    "Worker",
    "WorkerPool",
    "do",
    "goes_with_the_batch",
    "make_ahead",
]


# What a stage takes from the one before it: pieces of what is ready there, and groups that are put together.


class InputBuffer:
    """Reads on in what is ready upstream; notes travel with the next element, or stay until the end."""

    __slots__ = ("_at", "_bounds", "_group", "_grouped", "_held", "_notes", "_upstream")

    def __init__(self, upstream: StageQueue) -> None:
        self._upstream = upstream
        self._held: Chunk | None = None
        self._at = 0
        self._group: list[Chunk] = []
        self._grouped = 0
        self._bounds: tuple[int, int] | None = None  # of the batch that the group is, where it has its place
        self._notes: tuple[Note, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been begun."""
        return self._held is None and not self._group and not self._notes

    @property
    def has_more(self) -> bool:
        """Whether there may be something to take now."""
        up = self._upstream
        return self._held is not None or bool(up.ready) or (up.ended and bool(self._group or self._notes))

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left, and nothing will come."""
        return self.is_last and self.is_empty

    @property
    def is_last(self) -> bool:
        """Whether nothing will come behind what has been begun."""
        return self._upstream.ended and not self._upstream.ready

    def head(self) -> Chunk | None:
        """What comes next; it is empty where that is an error."""
        up = self._upstream
        while self._held is None and up.ready:
            chunk = up.ready.popleft()
            if len(chunk):
                self._held, self._at = chunk, 0
            else:
                self._notes += chunk.notes
                if chunk.error is not None:
                    self._held = chunk
        return self._held

    @property
    def held(self) -> int:
        """Elements that are left of the head."""
        return 0 if self._held is None else len(self._held) - self._at

    def take(self, count: int) -> Chunk:
        """At most ``count`` elements: of the head, and behind it of what is ready and comes one by one."""
        piece = self._cut(count)
        if len(piece) < count and piece.error is None and self._held is None:
            piece = self._with_following(piece, count)
        return self._with_notes(piece)

    def _cut(self, count: int) -> Chunk:
        chunk = self._held
        assert chunk is not None
        stop = min(self._at + count, len(chunk))
        piece = chunk.piece(self._at, stop)
        self._at = stop
        if stop == len(chunk):
            self._held = None
        return piece

    def _with_following(self, piece: Chunk, count: int) -> Chunk:
        """A piece and what is ready behind it, up to ``count`` elements: batches come one by one."""
        pieces, ready, total = [piece], self._upstream.ready, len(piece)
        while ready and ready[0].error is None and total + len(ready[0]) <= count:
            pieces.append(ready.popleft())
            total += len(pieces[-1])
        return piece if len(pieces) == 1 else joined(pieces)

    def _with_notes(self, chunk: Chunk) -> Chunk:
        if self._notes:
            chunk.notes, self._notes = self._notes + chunk.notes, ()
        return chunk

    def made_ahead(self, size: int) -> tuple[Chunk, int] | None:
        """What has been made of the next ``size`` elements already, and what that took."""
        chunk = self._held
        if chunk is None or not chunk.made or self._grouped or self._at % size:
            return None
        result, took = chunk.made[self._at // size]
        self._at += size
        if self._at == len(chunk):
            self._held = None
        return self._with_notes(result), took

    def gather(self, size: int, bounds: Bounds | None = None) -> Chunk | None:
        """The next ``size`` elements, or those of a batch; an error that comes first; None as long as some are missing.

        ``bounds``: of the batches, which may have fewer elements.
        """
        while not self._is_whole(size):
            chunk = self.head()
            if chunk is None:
                return None
            count = size - self._grouped
            if bounds is not None and len(chunk):
                begin: Any = chunk.begins[self._at]
                if self._bounds is None:
                    self._bounds = bounds(begin)
                elif begin >= self._bounds[1]:
                    break  # what has been left out on the way was the last of the batch
                begins: Any = chunk.begins
                count = min(count, bisect_left(begins, self._bounds[1], self._at) - self._at)
            piece = self._cut(count) if len(chunk) else chunk
            if len(piece):
                self._group.append(piece)
                self._grouped += len(piece)
            if piece.error is not None:
                if not self._is_whole(size):
                    return self.fail(piece)
                self._held = Chunk.failed(piece.error)
        return self.group()

    def _is_whole(self, size: int) -> bool:
        """Whether the group has so many elements, or the last one of its batch."""
        if self._bounds is None or not self._group:
            return self._grouped >= size
        behind: Any = self._group[-1].ends[-1]
        return self._grouped >= size or behind >= self._bounds[1]

    def group(self) -> Chunk:
        """What has been gathered, together."""
        pieces, self._group, self._grouped = self._group, [], 0
        group = joined(pieces)
        if self._bounds is not None:
            begins, ends = [*group.begins], [*group.ends]
            (begins[0], ends[-1]), self._bounds = self._bounds, None
            group.begins, group.ends = begins, ends
        return self._with_notes(group)

    @property
    def gathered(self) -> int:
        """Elements of the group that has been begun."""
        return self._grouped

    def fail(self, chunk: Chunk) -> Chunk:
        """An error that comes next, with the notes before it, in place of what has been begun."""
        assert chunk.error is not None
        self._held, self._group, self._grouped, self._bounds = None, [], 0, None
        return self._with_notes(Chunk.failed(chunk.error))

    def drop_group(self) -> None:
        """Leaves out what has been gathered, but not its notes."""
        self._notes += tuple(note for piece in self._group for note in piece.notes)
        self._group, self._grouped, self._bounds = [], 0, None

    def rest(self) -> Chunk | None:
        """The notes behind the last element, where there are any."""
        return self._with_notes(Chunk([], (), (), (), ())) if self._notes else None


# Cheap maps and the batch behind them in one task: which stages may, and what is made of a task's samples.


def goes_with_the_batch(operator: Operator) -> bool:
    """Whether an operator makes one sample of one, on the shared threads, in memory of its own."""
    free = operator.threads == "auto" and not operator.processes and operator.in_place is None
    return free and operator.kind in ("map", "select")


def make_ahead(
    chunk: Chunk, size: int, call: Callable[[Chunk, Sequence[Any]], Chunk], caught: type[BaseException]
) -> None:
    """Leaves with a chunk what ``call`` makes of each ``size`` of its elements, of which it has whole groups.

    It is used where the stage of the groups comes to it with no group begun; else that does its work itself, as it
    does where a map has left a sample out.
    """
    if chunk.error is not None:
        return
    made = []
    for start in range(0, len(chunk.values), size):
        began = perf_counter_ns()
        try:
            result = call(chunk.piece(start, start + size), ())
        except caught as error:
            result = Chunk.failed(error)
        result.size = size_of(result)
        made.append((result, perf_counter_ns() - began))
        if result.error is not None:
            break
    chunk.made = made
    chunk.size = sum([result.size for result, _ in made])


# One stage in a pass: the tasks that are under way, in order, and what is ready behind them.


_TASK_NS = 2_000_000  # a task takes about this long: far more than it costs to hand it over
_TOGETHER_NS = (
    16_000_000  # of several samples in one call: of the processor's time, for all of it is computing
)
_TOGETHER_BYTES = 8 << 20
_LEAST_SHARE = 0.1
_PROCESS_NS = 20_000_000  # of one for another process, which does nothing until it is handed the next
_MOST_ELEMENTS = 256
_CHEAP_NS = 200_000  # below this many tasks are kept ready, so that threads take turns seldom
_CHEAP_WINDOW = 16
_CHEAP_BYTES = 32 << 20  # so much of cheap results is kept ready
_TASK_BYTES = 1 << 20  # results that are larger are not worth a task together


_NOTHING = Chunk([], (), (), (), ())


class Task:
    """Some elements on their way through a stage; what the next one makes of each ``group`` of them is made too."""

    __slots__ = ("bytes", "chunk", "group", "results", "shared", "slots")

    def __init__(self, chunk: Chunk, slots: Sequence[Any] = (), group: int = 0) -> None:
        self.group: int = group
        self.chunk: Chunk = chunk
        self.slots: Sequence[Any] = slots
        self.results: list[Chunk] | None = None
        self.bytes: int = 0
        self.shared: bool = False  # whether it is done by one of the shared threads

    @classmethod
    def done(cls, result: Chunk) -> Task:
        """One that has its result already."""
        task = cls(result)
        task.results = [result]
        return task


class StageQueue(StageTimes):
    """All of it is looked at and changed under the lock of the pass, but for ``call``."""

    ended: bool

    def __init__(
        self,
        stage: Stage,
        call: Callable[[Chunk, Sequence[Any]], Chunk] | None = None,
        upstream: StageQueue | None = None,
        slots: Sequence[Slots | None] = (),
    ) -> None:
        """Of the source without ``call`` and ``upstream``: nothing is made of what it reads."""
        fixed = stage.processes or stage.threads
        super().__init__(upstream is None, upstream is not None and not fixed)
        self.stage = stage
        self.call: Any = call
        self.processes: Any = call if stage.processes else None
        self.upstream = upstream
        self._input_buffer = None if upstream is None else InputBuffer(upstream)
        self.calls_user: bool = upstream is not None and self.processes is None  # for as long as that takes
        self.slots = slots
        self.ahead: StageQueue | None = None  # a stage of groups, whose work is done in the tasks of this one
        self.bounds: Bounds | None = None  # of the groups, where those have their places and may be smaller
        self._formed = 0
        self.fixed: int = fixed  # at most so many tasks at a time; 0: the shared threads
        self.inflight: deque[Task] = deque()
        self.ready: deque[Chunk] = deque()
        self.running: int = 0
        self._given_window = stage.prefetch or stage.under_way
        self._cheap_window = 0
        self.handed_out = 0  # of the last stage queue: results that the consumer has not taken
        self.ended = self._broken = False
        self.dropped: bool = False  # whether a last group was left out
        self.largest: int = 0  # bytes of a result
        self.per_task: int = 1
        self._together = stage.together and not stage.processes
        self._task_ns = _PROCESS_NS if stage.processes else _TOGETHER_NS if self._together else _TASK_NS
        self._task_bytes = _TOGETHER_BYTES if self._together else _TASK_BYTES

    # ---- what comes in -----------------------------------------------------------------------------------

    def window(self, workers: int) -> int:
        """How many tasks may be under way or done and not taken."""
        if self._given_window:
            return self._given_window
        return max(2 * (self.fixed or workers) + 1, self._cheap_window)

    def is_full(self, workers: int) -> bool:
        """Whether no task may begin before a result is taken."""
        return len(self.inflight) + len(self.ready) + self.handed_out >= self.window(workers)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is under way, ready, or begun."""
        return (
            not self.inflight
            and not self.ready
            and (self._input_buffer is None or self._input_buffer.is_empty)
        )

    @property
    def has_input(self) -> bool:
        """Whether there may be something to begin with."""
        if self._input_buffer is None:
            return not self.ended and not self.running
        return not self._broken and not self.ended and self._input_buffer.has_more

    def handed_over_as(self, task: Task) -> int:
        """How many pieces the results of a task are handed over in: each batch, but samples together."""
        return max(1, len(task.chunk)) if self.stage.on_batches else 1

    def form(self) -> Task | None:
        """The next task, if there is enough for one; it counts as under way, perhaps as done."""
        input_buffer = self._input_buffer
        if input_buffer is None:
            task: Task | None = Task(_NOTHING)
        else:
            task = self._form_group(input_buffer) if self.stage.group else self._form_some(input_buffer)
        if task is not None:
            self.inflight.append(task)
            if task.results is None:
                self.running += 1
        return task

    def _form_some(self, input_buffer: InputBuffer) -> Task | None:
        chunk = input_buffer.head()
        if chunk is None:
            return self._form_end(input_buffer)
        if not len(chunk):
            return self._failed(input_buffer.fail(chunk))
        count = self.per_task
        if self.slots:
            count = min([count, *(slots.left for slots in self.slots if slots is not None)])
        size = self._group_ahead()
        if size:
            count = self._whole_groups(count, input_buffer.held, size)
        piece = input_buffer.take(count)
        self._broken = piece.error is not None
        size = size if size and not self._formed % size and not len(piece) % size else 0
        self._formed += len(piece)
        dealt = [None if slots is None else iter(slots.take(len(piece))) for slots in self.slots]
        return Task(piece, dealt, size)

    def _group_ahead(self) -> int:
        """Elements of a group of the stage ahead, where a task is to do its work as well: where both are cheap."""
        if self.ahead is None or not self.ahead.tasks:
            return 0
        size = self.ahead.stage.group
        return size if size * (self.element_ns + self.ahead.element_ns) <= self._task_ns else 0

    def _whole_groups(self, count: int, held: int, size: int) -> int:
        """How many elements to take, at most ``count``, so that tasks end where groups of ``size`` do."""
        begun = self._formed % size
        if begun:
            return min(count, size - begun)
        if held >= size:
            count = min(count, held)
        if self.ahead is not None:
            count = min(count, int(self._task_ns / (self.element_ns + self.ahead.element_ns or 1.0)))
        return count // size * size or count

    def _form_group(self, input_buffer: InputBuffer) -> Task | None:
        size = self.stage.group
        input_buffer.head()
        made = input_buffer.made_ahead(size)
        if made is not None:
            return self._taken_over(*made)
        chunk = input_buffer.gather(size, self.bounds)
        if chunk is None:
            return self._form_end(input_buffer)
        return Task(chunk) if len(chunk) else self._failed(chunk)

    def _taken_over(self, result: Chunk, took: int) -> Task:
        """A group whose work has been done in the task that made its elements."""
        self.note_task(took, self.stage.group, self.stage.group)
        self.largest = max(self.largest, result.size)
        self._broken = result.error is not None
        return Task.done(result)

    def _form_end(self, input_buffer: InputBuffer) -> Task | None:
        """What is left when nothing more comes."""
        if not input_buffer.is_last:
            return None
        if input_buffer.gathered and not self.stage.drop_last:
            return Task(input_buffer.group())
        if input_buffer.gathered:
            self.dropped = True
            input_buffer.drop_group()
        rest = input_buffer.rest()
        return None if rest is None else Task.done(rest)

    def _failed(self, chunk: Chunk) -> Task:
        self._broken = True
        return Task.done(chunk)

    # ---- what goes out -----------------------------------------------------------------------------------

    def finish(self, task: Task, results: list[Chunk], wall_ns: int, size: int) -> None:
        """Notes the results of a task, which take ``size`` bytes, and what it took."""
        count = max(1, len(results) if self.upstream is None else len(task.chunk.values))
        task.chunk, task.slots, task.results = _NOTHING, (), results
        self.running -= 1
        own_ns = wall_ns - (0 if self.ahead is None else sum([ns for r in results for _, ns in r.made]))
        own = count if self.upstream is not None else sum([len(result.values) for result in results])
        self.note_task(own_ns, count, own)
        if size > self.largest:
            self.largest = size
        if self.element_ns > _CHEAP_NS:
            self._cheap_window = 0
        elif not self._given_window:
            self._cheap_window = min(_CHEAP_WINDOW, _CHEAP_BYTES // (self.largest or 1))
        if not self.stage.prefetch:
            self._size_tasks(count, size)
        if results and results[-1].error is not None:
            self._broken = True

    def _size_tasks(self, count: int, size: int) -> None:
        fitting = _MOST_ELEMENTS if self.stage.group else self._task_bytes * count // (size or 1)
        each = self.element_ns
        if self._together:  # others on the machine must not make tasks small, of which each costs something
            each *= max(_LEAST_SHARE, self.cpu_share)
        self.per_task = min(_MOST_ELEMENTS, int(self._task_ns / (each or 1.0)), fitting) or 1

    def move_results(self) -> None:
        """Moves results that are next in order to where they are taken, and notes the end."""
        inflight = self.inflight
        while inflight and (results := inflight[0].results) is not None:
            inflight.popleft()
            for result in results:
                if result.values or result.notes or result.error is not None:
                    self.ready.append(result)
        if not self.ended and not inflight and self._input_buffer is not None:
            self.ended = self._broken or self._input_buffer.has_ended

    def clock(self, workers: int, now: int) -> None:
        """Notes what the stage does from now on; the time up to now goes to what it did before."""
        self.turn("work" if self.running else "out" if self.is_full(workers) else "in", now)


# The threads of a pass: begun one by one, woken, and left when it ends, even in the middle of a user's function.


_PATIENCE_S = 0.01  # for a user's function that is nearly done when its pass is left


class Worker:
    """One thread; ``calling`` while it is in something that may take for ever."""

    __slots__ = ("calling", "thread", "wake")

    def __init__(self) -> None:
        self.calling: bool = False
        self.wake: SimpleQueue[None] = SimpleQueue()
        self.thread: threading.Thread


class WorkerPool:
    """At most ``most()`` threads that run ``work``; the collector may leave them on whatever thread it runs."""

    def __init__(self, work: Callable[[Worker], None], most: Callable[[], int]) -> None:
        self._work, self._most = work, most
        self._workers: list[Worker] = []
        self._ended: list[Worker] = []
        self._idle: deque[Worker] = deque()

    def start(self) -> bool:
        """Starts one more; False where there are as many as may be, or no more is to be had."""
        if len(self._workers) >= self._most():
            return False
        worker = Worker()
        worker.thread = threading.Thread(
            target=self._work, args=(worker,), name="unirecord-pipeline", daemon=True
        )
        self._workers.append(
            worker
        )  # before a signal can be handled: it may run when start() does not return
        try:
            worker.thread.start()
        except RuntimeError as error:
            self._workers.remove(worker)
            if "start new thread" not in str(error):
                raise
            return False
        return True

    def idle(self, worker: Worker) -> None:
        """From now on ``wake_one`` may choose this one."""
        self._idle.append(worker)

    def at_work(self, worker: Worker) -> None:
        """It need not be woken any more."""
        with suppress(ValueError):
            self._idle.remove(worker)

    @property
    def has_idle(self) -> bool:
        """Whether one waits for work."""
        return bool(self._idle)

    @property
    def may_grow(self) -> bool:
        """Whether one more may be put to work: one waits, or may be started."""
        return bool(self._idle) or len(self._workers) < self._most()

    def wake_one(self) -> None:
        """One that waits for work looks again."""
        if self._idle:
            with suppress(IndexError):
                self._idle.pop().wake.put(None)

    def ended(self, worker: Worker) -> bool:
        """Notes that a thread is about to end; True for the last one."""
        self._ended.append(worker)
        return len(self._ended) == len(self._workers)

    def leave(self) -> bool:
        """Waits for the threads, which have been told to end, but for those in a user's function.

        False where one of them calls it itself, and cannot wait for the others.
        """
        for worker in self._workers:
            worker.wake.put(None)
        threads = [worker.thread for worker in self._workers]
        mine = threading.current_thread() in threads
        number = 0
        while not mine and number < len(
            self._workers
        ):  # one that is being waited for may have started another
            worker = self._workers[number]
            if worker.thread.is_alive():
                worker.thread.join(_PATIENCE_S if worker.calling else None)
            number += 1
        leave_at_work(worker.thread for worker in self._workers)
        return not mine


# Which task of a pass is done next, and where what it has made goes: all of it under the lock of the pass.


_LARGE_RESULT = 64 << 20

Job = tuple[StageQueue, Task]


class Dispatch:
    """The stage queues of a pass, within ``memory`` bytes of what is made ahead; results come to ``out``, then None.

    ``taken`` and ``taken_bytes``, of results, are changed by the consumer alone, without the lock.
    """

    stage_queues: list[StageQueue]

    def __init__(self, stage_queues: Sequence[StageQueue], memory: int, tuner: Tuner) -> None:
        self.stage_queues, self._backwards = list(stage_queues), list(stage_queues)[::-1]
        self.out: SimpleQueue[list[Chunk] | None] = SimpleQueue()
        self.taken = self.taken_bytes = 0
        self._memory, self._tuner = memory, tuner
        self._shared_running = 0
        self._reserved = 0
        self._put = 0
        self._ended = False

    @property
    def lie_ready(self) -> int:
        """Results that have not been taken."""
        return self._put - self.taken

    def could_start(self) -> bool:
        """Whether there is another task that may begin."""
        return any(map(self._can_start, self.stage_queues))

    def _can_start(self, stage_queue: StageQueue) -> bool:
        if stage_queue.fixed:
            if stage_queue.running >= stage_queue.fixed:
                return False
        elif self._is_shared(stage_queue) and self._shared_running >= self._tuner.workers:
            return False
        if not stage_queue.has_input or stage_queue.is_full(self._tuner.workers):
            return False
        if not stage_queue.tasks:  # how large results are is not known before the first
            return stage_queue.running < max(1, self._memory // _LARGE_RESULT)
        return self._fits(stage_queue)

    def _is_shared(self, stage_queue: StageQueue) -> bool:
        return stage_queue.shared or (stage_queue.reads and self._tuner.counts_reading)

    def _fits(self, stage_queue: StageQueue) -> bool:
        """Whether another result has room; one may always be made where nothing behind it is under way."""
        if self._reserved - self.taken_bytes + stage_queue.largest <= self._memory:
            return True
        behind = self.stage_queues[self.stage_queues.index(stage_queue) :]
        return not any(other.inflight or other.ready or other.handed_out for other in behind)

    def find(self, now: int) -> Job | None:
        """The job that stands nearest to the consumer and can begin; ``now``: the clock, about."""
        if self._ended:
            return None
        self.stage_queues[-1].handed_out = self._put - self.taken
        found: Job | None = None
        again = True
        while again and found is None:
            again = False
            for stage_queue in self._backwards:
                if not self._can_start(stage_queue):
                    continue
                task = stage_queue.form()
                if task is not None and task.results is None:
                    found = stage_queue, task
                    self._begin(stage_queue, task)
                    break
                again = again or task is not None  # nothing to do for it: whatever is behind it may go on
                self.move_results()
        workers = self._tuner.workers
        for stage_queue in self.stage_queues:
            stage_queue.clock(workers, now)
        return found

    def _begin(self, stage_queue: StageQueue, task: Task) -> None:
        task.shared = self._is_shared(stage_queue)
        self._shared_running += task.shared
        task.bytes = stage_queue.largest
        self._reserved += task.bytes

    def finish(self, job: Job, chunks: list[Chunk], ended: bool, wall: int, now: int) -> None:
        """Notes what a job has made, whether that was the last of the source, and the nanoseconds that it took."""
        stage_queue, task = job
        self._shared_running -= task.shared
        stage_queue.ended = stage_queue.ended or ended
        size = chunks[0].size if len(chunks) == 1 else sum([chunk.size for chunk in chunks])
        self._reserved += size - task.bytes - task.chunk.size
        stage_queue.finish(task, chunks, wall, size)
        self.move_results()
        self._tuner.look(self.stage_queues, now)

    def move_results(self) -> None:
        """Moves results on that are next in order."""
        for stage_queue in self.stage_queues:
            stage_queue.move_results()
        last = self.stage_queues[-1]
        if last.ready:
            chunks = list(last.ready)
            last.ready.clear()
            last.handed_out += len(chunks)
            self._put += len(chunks)
            self.out.put(chunks)
        if last.ended and not self._ended:
            self._ended = True
            self.out.put(None)


# Doing one task: chunks read from the source, or what a stage makes of some; what it took, of a processor too.


_MOST_READ = 16  # chunks read by one task, if they come fast
_READ_BYTES = 1 << 20
_READ_NS = 300_000


def do(job: Job, source: Iterator[Chunk], caught: type[BaseException]) -> tuple[list[Chunk], bool, int]:
    """The results of a job, whether they are the source's last, and the nanoseconds that it took.

    An error that is ``caught`` becomes the last of them.
    """
    stage_queue, task = job
    sampled = stage_queue.samples_cpu  # not for each: on some systems the call takes as long as many a task
    start, cpu = perf_counter_ns(), thread_time_ns() if sampled else 0
    ended = False
    if stage_queue.upstream is None:
        chunks, ended = _read(source, stage_queue.stage.prefetch or _MOST_READ, start, caught)
    else:
        try:
            chunk = stage_queue.call(task.chunk, task.slots)
        except caught as error:
            chunk = Chunk.failed(error)
        chunk.size = chunk.size or size_of(chunk)
        if task.group and stage_queue.ahead is not None and len(chunk.values) == len(task.chunk.values):
            make_ahead(chunk, task.group, stage_queue.ahead.call, caught)
        chunks = [chunk]
    wall = perf_counter_ns() - start
    if sampled:
        stage_queue.note_cpu(thread_time_ns() - cpu, wall)
    return chunks, ended, wall


def _read(
    source: Iterator[Chunk], most: int, start: int, caught: type[BaseException]
) -> tuple[list[Chunk], bool]:
    """Some chunks of the source, while they come fast; and whether they are the last."""
    chunks: list[Chunk] = []
    size = 0
    while len(chunks) < most and size < _READ_BYTES and perf_counter_ns() - start < _READ_NS:
        try:
            chunk = next(source, None)
        except caught as error:
            return [*chunks, Chunk.failed(error)], True
        if chunk is None:
            return chunks, True
        chunk.size = chunk.size or size_of(chunk)
        size += chunk.size
        chunks.append(chunk)
    return chunks, False


# Chunks that go from the source through all stages at once, on the thread that asks: no tasks, no queues.


_MOST_NS = 50_000  # for a chunk: what it costs that another thread makes it, about
_KNOWN = 4  # tasks after which it is known what they take


class Straight:
    """The way for what is known to be cheap, or is never to be done elsewhere, where no stage gathers or has slots."""

    def __init__(self, source: Iterator[Chunk], stage_queues: Sequence[StageQueue], always: bool) -> None:
        self._source = source
        self._reading, *self._stages = stage_queues
        apart = any(stage_queue.processes for stage_queue in stage_queues)
        self._is_there = not apart and not any(
            stage_queue.stage.group or stage_queue.slots for stage_queue in self._stages
        )
        self._always = always and self._is_there

    def is_open(self) -> bool:
        """Whether the next chunk may take it: what is known is cheap, and nothing is on the way through the queues."""
        if not self._is_there or self._reading.ended or self._reading.ready:
            return False
        for stage_queue in self._stages:
            if stage_queue.tasks <= _KNOWN or stage_queue.element_ns > _MOST_NS or not stage_queue.is_empty:
                return False
        return True

    def results(self, check: Callable[[], None], waited: Callable[[int, int], None]) -> Iterator[Chunk]:
        """What is made of the next chunks; where threads may come, ``check`` is called before each, ``waited`` behind.

        What would take long, an error of the source and its end are left to the queues.
        """
        source, reading, stages, clock = self._source, self._reading, self._stages, perf_counter_ns
        always = self._always
        while always or self.is_open():
            if not always:
                check()
            start = clock()
            try:
                chunk = next(source, None)
            except Exception as error:
                chunk = Chunk.failed(error)
            now = clock()
            reading.busy_ns += now - start
            if chunk is None:
                reading.ended = True
                break
            count = len(chunk.values)
            reading.elements += count
            reading.ended = chunk.error is not None
            if not always:
                chunk.size = 0  # nothing of it is kept ready
            if reading.ended or (not always and self._is_long(count)):
                waited(start, now)
                reading.ready.append(chunk)
                break
            for stage_queue in stages:
                count = len(chunk.values)
                if not count:
                    break
                try:
                    chunk = stage_queue.call(chunk, ())
                except Exception as error:
                    chunk = Chunk.failed(error)
                begun, now = now, clock()
                if always:
                    stage_queue.busy_ns += now - begun
                else:
                    stage_queue.passed(count, begun, now)
            if not always:
                chunk.size = 0
                waited(start, now)
            failed = chunk.error is not None
            yield chunk
            del chunk
            if failed:
                stages[-1].ended = True
                break

    def _is_long(self, count: int) -> bool:
        takes = 0.0
        for stage_queue in self._stages:
            takes += stage_queue.element_ns
        return not count or count * takes > _MOST_NS


_SHORT_NS = 30_000  # what it takes to wake a thread, about
_HANDED_OVER_NS = 50_000  # what it costs that another thread makes a result, about
_MOST_SHORTER = 8  # of those that do not, which are remembered: what a function takes may change
_MOST_LONGER = 2  # tasks that take longer than that, beyond those that do not: one may be held up by others


class Running:
    """The stage queues of a pass, the first of which takes from ``source``; ``close`` ends its threads.

    Nobody waits for a lock while it is held for long: what needs time is done between finding a job and its finish.
    The consumer takes no lock while there are threads, so that an interrupt may come anywhere in it. Where there are
    none to be had, or ``threads`` is 0, it does everything itself, when it is needed.
    """

    _open: ClassVar[set[Running]] = set()

    def __init__(
        self,
        source: Iterator[Chunk],
        stage_queues: Sequence[StageQueue],
        memory: int,
        tuner: Tuner,
        recorder: Recorder,
        threads: int | None = None,
    ) -> None:
        """``memory``: bytes of what is made ahead. ``threads``: at most so many; None: as many as stage queues need."""
        if len(stage_queues) == 1 and not stage_queues[0].processes:
            threads = 0  # nothing is gained by threads, for the source reads ahead itself
        self._recorder = recorder
        self._source = source
        self._held = [source]  # until it has been closed
        self.stage_queues: list[StageQueue] = list(stage_queues)
        self._tuner, self._most = tuner, threads
        self._lock, self._dispatch = threading.Lock(), Dispatch(stage_queues, memory, tuner)
        self._reading = threading.Lock()  # held by the thread that is in the source
        self._out = self._dispatch.out
        self._got: deque[Chunk] = deque()
        self._pool = WorkerPool(self._work, self._most_threads)
        self._closed = False
        self._longer = 0
        # What is cheap is done where it is needed, as long as nobody has asked for a thread, or for results ahead.
        asked = any(
            stage_queue.fixed
            or stage_queue.processes
            or stage_queue.stage.prefetch
            or stage_queue.stage.under_way
            for stage_queue in self.stage_queues
        )
        self._alone = threads == 0
        self._here = self._alone or not asked
        self._straight = Straight(source, self.stage_queues, self._alone)
        self._apart = [queue.processes for queue in self.stage_queues if queue.processes is not None]
        self._process = os.getpid()

    # ---- the consumer's side -----------------------------------------------------------------------------

    def __iter__(self) -> Generator[Chunk, None, None]:
        """The results in order; the last may carry an error."""
        self._open.add(self)
        self._recorder.begin(self.stage_queues)
        try:
            for processes in self._apart:  # while there are no threads of this pass
                processes.start()
            if not self._here:
                self._begin_threads()
            while True:
                if self._here and not self._got:
                    yield from self._straight.results(self._check, self._tuner.waited)
                    self._dispatch.move_results()
                chunk = self._next()
                if chunk is None:
                    return
                yield chunk
                del chunk
        finally:
            self._tuner.end(self.stage_queues, perf_counter_ns())
            self._recorder.end(self.stage_queues)
            self.close()

    def _check(self) -> None:
        if self._process != os.getpid():
            raise ValueError("an iterator made before fork() cannot be used in the child: make a new one")
        if self._closed:
            raise ValueError("this iteration has been ended, as the interpreter ends")

    def _next(self) -> Chunk | None:
        self._check()
        if not self._got:
            start = perf_counter_ns()
            if self._here:
                self._work_here()
            chunks = self._received()
            self._tuner.waited(start, perf_counter_ns())
            if chunks is None:
                return None
            self._got.extend(chunks)
        chunk = self._got.popleft()
        dispatch = self._dispatch
        dispatch.taken += 1
        dispatch.taken_bytes += chunk.size
        if 2 * dispatch.lie_ready <= self.stage_queues[-1].window(
            self._tuner.workers
        ):  # not for each result: threads take turns seldom
            self._pool.wake_one()
        return chunk

    def _received(self) -> list[Chunk] | None:
        """The next results. A signal that comes just before the wait begins does not end it: it is seen soon after."""
        while True:
            with suppress(Empty):
                return self._out.get(timeout=SIGNAL_SECONDS)

    def _begin_threads(self) -> None:
        self._here = self._alone = not self._pool.start()

    def _work_here(self) -> None:
        """Makes the next results on the consumer's thread, until that takes longer than to hand them over would."""
        while self._out.empty():
            start = perf_counter_ns()
            with self._lock:
                job = self._dispatch.find(start)
            if job is not None:
                results = job[0].handed_over_as(job[1])
                # An interrupt of this thread is raised at once.
                chunks, ended, wall = self._do(job, Exception)
                with self._lock:
                    self._dispatch.finish(job, chunks, ended, wall, start + wall)
                if job[0].upstream is not None:
                    longer = self._longer + (1 if wall > _HANDED_OVER_NS * results else -1)
                    self._longer = max(-_MOST_SHORTER, longer)
            if self._alone:
                assert job is not None or not self._out.empty(), (
                    "nothing is under way, and nothing can be begun"
                )
            elif (job is None and self._out.empty()) or self._longer > _MOST_LONGER:
                self._begin_threads()
                if not self._here:
                    return

    def close(self) -> None:
        """Ends the threads and waits for them, but for those in a user's function; a forked child does not wait."""
        self._open.discard(self)
        self._closed = True
        if self._process != os.getpid():
            return
        left = True
        try:
            for processes in self._apart:
                processes.end()
            left = self._pool.leave()
        finally:
            if left:
                self._release()

    def _release(self) -> None:
        """Gives up what it reads from, once; a thread that is in the middle of reading does so at its end."""
        # Not left to the generator to find out that another thread is in it: without the GIL that is no safe question.
        if self._reading.acquire(blocking=False):
            try:
                self._close_source()
            finally:
                self._reading.release()
        for processes in self._apart:
            processes.close()

    def _close_source(self) -> None:
        with suppress(IndexError):
            source = self._held.pop()
            try:
                source.close()  # type: ignore[attr-defined]
            except AttributeError:
                pass
            except ValueError:  # the collector runs this in the middle of it
                self._held.append(source)

    # ---- the threads -------------------------------------------------------------------------------------

    def _work(self, worker: Worker) -> None:
        try:
            with self._lock:
                job, more = self._next_job(worker, perf_counter_ns())
            while not self._closed:
                if more:
                    self._pool.wake_one()
                if job is None:
                    worker.wake.get()
                    with self._lock:
                        job, more = self._next_job(worker, perf_counter_ns())
                    continue
                worker.calling = job[0].calls_user
                if self._closed:
                    break
                chunks, ended, wall = self._do(job, BaseException)
                worker.calling, now = False, perf_counter_ns()
                with self._lock:
                    self._dispatch.finish(job, chunks, ended, wall, now)
                    del chunks
                    job, more = self._next_job(worker, now)
        except BaseException as error:
            self._out.put([Chunk.failed(error)])
        if self._pool.ended(worker) and self._closed:
            self._release()

    def _do(self, job: Job, caught: type[BaseException]) -> tuple[list[Chunk], bool, int]:
        if job[0].upstream is not None:
            return do(job, self._source, caught)
        with self._reading:
            return do(job, self._source, caught)

    def _next_job(self, worker: Worker, now: int) -> tuple[Job | None, bool]:
        """What to do next, and whether another thread is to be woken for more; under the lock."""
        worker_pool, dispatch = self._pool, self._dispatch
        job = dispatch.find(now)
        if job is None:
            worker_pool.idle(worker)  # before looking again: what happens meanwhile wakes this thread
            job = dispatch.find(now)
            if job is None:
                return None, False
            worker_pool.at_work(worker)
        if not worker_pool.may_grow or self._is_short(job) or not dispatch.could_start() or self._closed:
            return job, False
        if not worker_pool.has_idle:
            worker_pool.start()
            return job, False
        return job, True

    def _most_threads(self) -> int:
        if self._most is not None:
            return self._most
        return self._tuner.workers + sum(stage_queue.fixed for stage_queue in self.stage_queues) + 1

    @staticmethod
    def _is_short(job: Job) -> bool:
        """Whether waking another thread would take longer than the job, or about as long."""
        stage_queue, task = job
        return stage_queue.tasks > 4 and stage_queue.element_ns * max(1, len(task.chunk)) < _SHORT_NS


@atexit.register
def _close_all() -> None:
    for running in list(Running._open):
        running.close()
