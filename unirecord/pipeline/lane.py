"""One stage in a pass: the tasks that are under way, in order, and what is ready behind them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from .chunk import Chunk
from .feed import Feed
from .slots import Slots
from .stage import Stage
from .stage_times import StageTimes

__all__ = ["Lane", "Task"]

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


class Lane(StageTimes):
    """All of it is looked at and changed under the lock of the pass, but for ``call``."""

    ended: bool

    def __init__(
        self,
        stage: Stage,
        call: Callable[[Chunk, Sequence[Any]], Chunk],
        upstream: Lane | None,
        slots: Sequence[Slots | None] = (),
    ) -> None:
        super().__init__()
        self.stage = stage
        self.call = call
        self.processes: Any = call if stage.processes else None
        self.upstream = upstream
        self._feed = None if upstream is None else Feed(upstream)
        self.calls_user: bool = upstream is not None and self.processes is None  # for as long as that takes
        self.slots = slots
        self.ahead: Lane | None = None  # a stage of groups, whose work is done in the tasks of this one
        self._formed = 0
        self.fixed: int = (
            stage.processes or stage.threads
        )  # at most so many tasks at a time; 0: the shared threads
        self.inflight: deque[Task] = deque()
        self.ready: deque[Chunk] = deque()
        self.running: int = 0
        self._given_window = stage.prefetch or stage.under_way
        self._cheap_window = 0
        self.handed_out = 0  # of the last lane: results that the consumer has not taken
        self.ended = self._broken = False
        self.dropped: bool = False  # whether a last group was left out
        self.largest: int = 0  # bytes of a result
        self.per_task: int = 1
        self._together = stage.together and not stage.processes
        self._task_ns = _PROCESS_NS if stage.processes else _TOGETHER_NS if self._together else _TASK_NS
        self._task_bytes = _TOGETHER_BYTES if self._together else _TASK_BYTES

    # ---- its processes, where it has any -------------------------------------------------------------------

    def start(self) -> None:
        """Starts them."""
        if self.processes is not None:
            self.processes.start()

    def end(self) -> None:
        """Ends them, whatever they are at."""
        if self.processes is not None:
            self.processes.end()

    def close(self) -> None:
        """Waits until they have ended."""
        if self.processes is not None:
            self.processes.close()

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
        return not self.inflight and not self.ready and (self._feed is None or self._feed.is_empty)

    @property
    def has_input(self) -> bool:
        """Whether there may be something to begin with."""
        if self._feed is None:
            return not self.ended and not self.running
        return not self._broken and not self.ended and self._feed.has_more

    def handed_over_as(self, task: Task) -> int:
        """How many pieces the results of a task are handed over in: each batch, but samples together."""
        return max(1, len(task.chunk)) if self.stage.on_batches else 1

    def form(self) -> Task | None:
        """The next task, if there is enough for one; it counts as under way, perhaps as done."""
        feed = self._feed
        if feed is None:
            task: Task | None = Task(_NOTHING)
        else:
            task = self._form_group(feed) if self.stage.group else self._form_some(feed)
        if task is not None:
            self.inflight.append(task)
            if task.results is None:
                self.running += 1
        return task

    def _form_some(self, feed: Feed) -> Task | None:
        chunk = feed.head()
        if chunk is None:
            return self._form_end(feed)
        if not len(chunk):
            return self._failed(feed.fail(chunk))
        count = self.per_task
        if self.slots:
            count = min([count, *(slots.left for slots in self.slots if slots is not None)])
        size = self._group_ahead()
        if size:
            count = self._whole_groups(count, feed.held, size)
        piece = feed.take(count)
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

    def _form_group(self, feed: Feed) -> Task | None:
        size = self.stage.group
        feed.head()
        made = feed.made_ahead(size)
        if made is not None:
            return self._taken_over(*made)
        chunk = feed.gather(size)
        if chunk is None:
            return self._form_end(feed)
        return Task(chunk) if len(chunk) else self._failed(chunk)

    def _taken_over(self, result: Chunk, took: int) -> Task:
        """A group whose work has been done in the task that made its elements."""
        self.note_task(took, self.stage.group, self.stage.group)
        self.largest = max(self.largest, result.size)
        self._broken = result.error is not None
        return Task.done(result)

    def _form_end(self, feed: Feed) -> Task | None:
        """What is left when nothing more comes."""
        if not feed.is_last:
            return None
        if feed.gathered and not self.stage.drop_last:
            return Task(feed.group())
        if feed.gathered:
            self.dropped = True
            feed.drop_group()
        rest = feed.rest()
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

    def settle(self) -> None:
        """Moves results that are next in order to where they are taken, and notes the end."""
        inflight = self.inflight
        while inflight and (results := inflight[0].results) is not None:
            inflight.popleft()
            for result in results:
                if result.values or result.notes or result.error is not None:
                    self.ready.append(result)
        if not self.ended and not inflight and self._feed is not None:
            self.ended = self._broken or self._feed.has_ended

    def clock(self, workers: int, now: int) -> None:
        """Notes what the stage does from now on; the time up to now goes to what it did before."""
        self.turn("work" if self.running else "out" if self.is_full(workers) else "in", now)
