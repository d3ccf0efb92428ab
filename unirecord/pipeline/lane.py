"""One stage in a pass: the tasks that are under way, in order, what is ready behind them, and where its time goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from .chunk import Chunk, Note, joined
from .slots import Slots
from .stage import Stage

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
_CPU_SAMPLE_NS = 2_000_000  # of work between two looks at the processor's time
_FEW = 8  # tasks, of which each counts much for what an element takes
_MUCH_LONGER = 4.0  # times what was known; more is believed when it comes again
_TASK_BYTES = 1 << 20  # results that are larger are not worth a task together


_NOTHING = Chunk([], (), (), (), ())


class Task:
    """Some elements on their way through a stage; what the next one makes of each ``group`` of them is made too."""

    __slots__ = ("bytes", "chunk", "group", "results", "slots")

    def __init__(self, chunk: Chunk, slots: Sequence[Any] = (), group: int = 0) -> None:
        self.group = group
        self.chunk = chunk
        self.slots = slots
        self.results: list[Chunk] | None = None
        self.bytes = 0


class Lane:
    """All of it is looked at and changed under the lock of the pass, but for ``call``."""

    def __init__(
        self,
        stage: Stage,
        call: Callable[[Chunk, Sequence[Any]], Chunk],
        upstream: Lane | None,
        slots: Sequence[Slots | None] = (),
    ) -> None:
        self.stage = stage
        self.call = call
        self.processes: Any = call if stage.processes else None
        self.upstream = upstream
        self.calls_user = upstream is not None and self.processes is None  # for as long as that takes
        self.slots = slots
        self.ahead: Lane | None = None  # a stage of groups, whose work is done in the tasks of this one
        self._formed = 0
        self.fixed = (
            stage.processes or stage.threads
        )  # at most so many tasks at a time; 0: the shared threads
        self.inflight: deque[Task] = deque()
        self.ready: deque[Chunk] = deque()
        self.running = 0
        self._given_window = stage.prefetch or stage.under_way
        self._cheap_window = 0
        self.handed_out = 0  # of the last lane: results that the consumer has not taken
        self.ended = False
        self.dropped = False  # whether a last group was left out
        self.largest = 0  # bytes of a result
        self.per_task = 1
        self._together = stage.together and not stage.processes
        self._task_ns = _PROCESS_NS if stage.processes else _TOGETHER_NS if self._together else _TASK_NS
        self._task_bytes = _TOGETHER_BYTES if self._together else _TASK_BYTES
        self.element_ns = 0.0
        self.busy_ns = self.cpu_ns = self.elements = self.tasks = 0
        self.wait_in_ns = self.wait_out_ns = 0
        self._cpu_share, self._sampled_at = 1.0, -_CPU_SAMPLE_NS
        self._state, self._since = "in", perf_counter_ns()
        self._broken = False
        self._held: Chunk | None = None
        self._at = 0
        self._group: list[Chunk] = []
        self._grouped = 0
        self._notes: tuple[Note, ...] = ()

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
        if self.inflight or self.ready or self._group or self._notes:
            return False
        return self._held is None

    @property
    def has_input(self) -> bool:
        """Whether there may be something to begin with."""
        up = self.upstream
        if up is None:
            return not self.ended and not self.running
        if self._broken or self.ended:
            return False
        return self._held is not None or bool(up.ready) or (up.ended and bool(self._group or self._notes))

    def handed_over_as(self, task: Task) -> int:
        """How many pieces the results of a task are handed over in: each batch, but samples together."""
        return max(1, len(task.chunk)) if self.stage.on_batches else 1

    def form(self) -> Task | None:
        """The next task, if there is enough for one; it counts as under way, perhaps as done."""
        if self.upstream is None:
            task: Task | None = Task(_NOTHING)
        else:
            task = self._form_group() if self.stage.group else self._form_some()
        if task is not None:
            self.inflight.append(task)
            if task.results is None:
                self.running += 1
        return task

    def _next_input(self) -> Chunk | None:
        """What stands at the head of the stage before; its notes and its error are taken over where it is empty."""
        up = self.upstream
        assert up is not None
        while self._held is None and up.ready:
            chunk = up.ready.popleft()
            if len(chunk):
                self._held, self._at = chunk, 0
            else:
                self._notes += chunk.notes
                if chunk.error is not None:
                    self._held = chunk
        return self._held

    def _take(self, count: int) -> Chunk:
        """At most ``count`` elements of what is held."""
        chunk = self._held
        assert chunk is not None
        stop = min(self._at + count, len(chunk))
        piece = chunk.piece(self._at, stop)
        self._at = stop
        if stop == len(chunk):
            self._held = None
        return piece

    def _form_some(self) -> Task | None:
        chunk = self._next_input()
        if chunk is None:
            return self._form_end()
        if not len(chunk):
            return self._fail(chunk)
        count = self.per_task
        if self.slots:
            count = min([count, *(slots.left for slots in self.slots if slots is not None)])
        size = self._group_ahead()
        if size:
            count = self._whole_groups(count, len(chunk) - self._at, size)
        piece = self._take(count)
        if len(piece) < count and piece.error is None and self._held is None and self.upstream is not None:
            piece = self._with_following(piece, count)
        if self._notes:
            piece.notes, self._notes = self._notes + piece.notes, ()
        if piece.error is not None:
            self._broken = True
        size = size if size and not self._formed % size and not len(piece) % size else 0
        self._formed += len(piece)
        dealt = [None if slots is None else iter(slots.take(len(piece))) for slots in self.slots]
        return Task(piece, dealt, size)

    def _with_following(self, piece: Chunk, count: int) -> Chunk:
        """A piece and what is ready behind it, up to ``count`` elements: batches come one by one."""
        assert self.upstream is not None
        pieces, ready, total = [piece], self.upstream.ready, len(piece)
        while ready and ready[0].error is None and total + len(ready[0]) <= count:
            pieces.append(ready.popleft())
            total += len(pieces[-1])
        return piece if len(pieces) == 1 else joined(pieces)

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

    def _form_group(self) -> Task | None:
        size = self.stage.group
        chunk = self._next_input()
        if chunk is not None and chunk.made and not self._grouped and self._at % size == 0:
            return self._taken_over(chunk, *chunk.made[self._at // size])
        while self._grouped < size:
            chunk = self._next_input()
            if chunk is None:
                return self._form_end()
            if not len(chunk):
                return self._fail(chunk)
            piece = self._take(size - self._grouped)
            self._group.append(piece)
            self._grouped += len(piece)
            if piece.error is not None:
                if self._grouped < size:
                    return self._fail(piece)
                self._held = Chunk.failed(piece.error)
        return Task(self._joined())

    def _taken_over(self, chunk: Chunk, result: Chunk, took: int) -> Task:
        """A group whose work has been done in the task that made its elements."""
        self._at += self.stage.group
        if self._at == len(chunk):
            self._held = None
        self.busy_ns += took
        self.cpu_ns += int(took * self._cpu_share)
        self.elements += self.stage.group
        self.tasks += 1
        self._note_each(took / self.stage.group)
        self.largest = max(self.largest, result.size)
        self._broken = result.error is not None
        result.notes, self._notes = self._notes + result.notes, ()
        return self._done(result)

    def _joined(self) -> Chunk:
        pieces, self._group, self._grouped = self._group, [], 0
        chunk = joined(pieces)
        chunk.notes, self._notes = self._notes + chunk.notes, ()
        return chunk

    def _form_end(self) -> Task | None:
        """What is left when nothing more comes."""
        assert self.upstream is not None
        if not self.upstream.ended or self.upstream.ready:
            return None
        if self._group and not self.stage.drop_last:
            return Task(self._joined())
        if self._group:
            self.dropped = True
            self._notes += tuple(note for piece in self._group for note in piece.notes)
            self._group, self._grouped = [], 0
        if self._notes:
            notes, self._notes = self._notes, ()
            return self._done(Chunk([], (), (), (), (), notes))
        return None

    def _fail(self, chunk: Chunk) -> Task:
        assert chunk.error is not None
        self._held, self._broken, self._group = None, True, []
        notes, self._notes = self._notes, ()
        return self._done(Chunk.failed(chunk.error, notes))

    @staticmethod
    def _done(result: Chunk) -> Task:
        task = Task(result)
        task.results = [result]
        return task

    # ---- what it takes ----------------------------------------------------------------------------------

    @property
    def samples_cpu(self) -> bool:
        """Whether the processor's time of the next task is to be looked at."""
        return self.busy_ns - self._sampled_at >= _CPU_SAMPLE_NS

    def note_cpu(self, cpu_ns: int, wall_ns: int) -> None:
        """Notes how much of a task's time was a processor's: about that much of the next ones' will be."""
        self._sampled_at = self.busy_ns
        self._cpu_share += 0.3 * (min(1.0, cpu_ns / max(1, wall_ns)) - self._cpu_share)

    # ---- what goes out -----------------------------------------------------------------------------------

    def finish(self, task: Task, results: list[Chunk], wall_ns: int, size: int) -> None:
        """Notes the results of a task, which take ``size`` bytes, and what it took."""
        count = max(1, len(results) if self.upstream is None else len(task.chunk.values))
        task.chunk, task.slots, task.results = _NOTHING, (), results
        self.running -= 1
        own_ns = wall_ns - (0 if self.ahead is None else sum([ns for r in results for _, ns in r.made]))
        self.busy_ns += own_ns
        self.cpu_ns += int(own_ns * self._cpu_share)
        self.elements += count if self.upstream is not None else sum([len(r.values) for r in results])
        self.tasks += 1
        self._note_each(own_ns / count)
        each = self.element_ns
        if size > self.largest:
            self.largest = size
        if each > _CHEAP_NS:
            self._cheap_window = 0
        elif not self._given_window:
            self._cheap_window = min(_CHEAP_WINDOW, _CHEAP_BYTES // (self.largest or 1))
        if not self.stage.prefetch:
            fitting = _MOST_ELEMENTS if self.stage.group else self._task_bytes * count // (size or 1)
            if (
                self._together
            ):  # others on the machine must not make tasks small, of which each costs something
                each *= max(_LEAST_SHARE, self._cpu_share)
            self.per_task = min(_MOST_ELEMENTS, int(self._task_ns / (each or 1.0)), fitting) or 1
        if results and results[-1].error is not None:
            self._broken = True

    def settle(self) -> None:
        """Moves results that are next in order to where they are taken, and notes the end."""
        inflight = self.inflight
        while inflight and (results := inflight[0].results) is not None:
            inflight.popleft()
            for result in results:
                if result.values or result.notes or result.error is not None:
                    self.ready.append(result)
        up = self.upstream
        if self.ended or inflight or up is None:
            return
        if self._broken or (
            up.ended and not up.ready and self._held is None and not self._group and not self._notes
        ):
            self.ended = True

    def clock(self, workers: int, now: int) -> None:
        """Notes what the stage does from now on; the time up to now goes to what it did before."""
        state = "work" if self.running else "out" if self.is_full(workers) else "in"
        if state != self._state:
            self._account(now)
            self._state = state

    def _account(self, now: int) -> None:
        now = max(now, self._since)  # a thread that has waited for the lock comes with a time that is over
        spent, self._since = now - self._since, now
        if self._state == "in":
            self.wait_in_ns += spent
        elif self._state == "out":
            self.wait_out_ns += spent

    def passed(self, count: int, begun: int, now: int) -> None:
        """Notes that ``count`` elements went through the stage without a task, while the clock went on."""
        self._account(begun)
        self._since = now
        took = now - begun
        self.busy_ns += took
        self.cpu_ns += int(took * self._cpu_share)
        self.elements += count
        self.tasks += 1
        self._note_each(took / count)

    def _note_each(self, each: float) -> None:
        if self.tasks < _FEW:
            self.element_ns += (each - self.element_ns) * (1.0 if self.tasks == 1 else 0.5)
        else:  # a thread may be held up by others: one task that took long says little
            self.element_ns += 0.1 * (min(each, _MUCH_LONGER * self.element_ns) - self.element_ns)
