"""Where the time of one stage in a pass goes: what its tasks take, of a processor too, and what it waits for."""

from __future__ import annotations

from time import perf_counter_ns

__all__ = ["StageTimes"]

_CPU_SAMPLE_NS = 2_000_000  # of work between two looks at the processor's time
_FEW = 8  # tasks, of which each counts much for what an element takes
_MUCH_LONGER = 4.0  # times what was known; more is believed when it comes again


class StageTimes:
    """Nanoseconds, and counts of tasks and elements; changed under the lock of the pass."""

    busy_ns: int
    cpu_ns: int
    elements: int
    tasks: int
    wait_in_ns: int
    wait_out_ns: int
    cpu_share: float

    def __init__(self) -> None:
        self.element_ns: float = 0.0  # what an element takes, about
        self.busy_ns = self.cpu_ns = self.elements = self.tasks = 0
        self.wait_in_ns = self.wait_out_ns = 0
        self.cpu_share, self._sampled_at = 1.0, -_CPU_SAMPLE_NS
        self._state, self._since = "in", perf_counter_ns()

    @property
    def samples_cpu(self) -> bool:
        """Whether the processor's time of the next task is to be looked at."""
        return self.busy_ns - self._sampled_at >= _CPU_SAMPLE_NS

    def note_cpu(self, cpu_ns: int, wall_ns: int) -> None:
        """Notes how much of a task's time was a processor's: about that much of the next ones' will be."""
        self._sampled_at = self.busy_ns
        self.cpu_share += 0.3 * (min(1.0, cpu_ns / max(1, wall_ns)) - self.cpu_share)

    def note_task(self, took_ns: int, worked_on: int, elements: int) -> None:
        """Notes a task that worked on so many elements; ``elements``: those that are counted as the stage's work."""
        self.busy_ns += took_ns
        self.cpu_ns += int(took_ns * self.cpu_share)
        self.elements += elements
        self.tasks += 1
        self._note_each(took_ns / worked_on)

    def passed(self, count: int, begun: int, now: int) -> None:
        """Notes that ``count`` elements went through the stage without a task, while the clock went on."""
        self._account(begun)
        self._since = now
        self.note_task(now - begun, count, count)

    def turn(self, state: str, now: int) -> None:
        """Notes what the stage does from now on: "work", or waits for what comes "in" or goes "out"."""
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

    def _note_each(self, each: float) -> None:
        if self.tasks < _FEW:
            self.element_ns += (each - self.element_ns) * (1.0 if self.tasks == 1 else 0.5)
        else:  # a thread may be held up by others: one task that took long says little
            self.element_ns += 0.1 * (min(each, _MUCH_LONGER * self.element_ns) - self.element_ns)
