"""A stage: neighbouring operators that run together on the same workers, and what each does to a chunk."""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import TransformError
from ..loading.batch import IS_PAD, collate, split_batch
from ..order.randomness import child_key, generator, operator_key
from ..sizes import many
from .chunk import Chunk, ElementPlace, Note, position_of
from .operators import InPlace, InPlaceTogether, Operator, SkipSample

__all__ = [
    "Named",
    "Resumed",
    "SlotMemory",
    "Slots",
    "Stage",
    "Step",
    "gathered",
    "stages_of",
    "step_of",
]


# Memory of batches that is written sample by sample, and used again when the last array into it is gone.


_KEPT = 8  # pieces of a size, about what is made ahead; of smaller ones more
_MOST_KEPT = 32
_KEPT_BYTES = 32 << 20


class SlotMemory:
    """Memory of batches that nobody holds any more, for those to come, of this epoch and the next.

    ``get`` gives new memory, uint8[size]; None for ordinary memory.
    """

    def __init__(self, get: Callable[[int], NDArray[np.uint8]] | None = None) -> None:
        self._get = get
        self._free: defaultdict[int, deque[NDArray[np.uint8]]] = defaultdict(deque)
        self.allocations: int = 0

    def lend(self, size: int) -> NDArray[np.uint8]:
        """``size`` bytes, which come back when the last view of them is gone."""
        free = self._free[size]
        try:
            memory = free.popleft()
        except IndexError:
            memory = np.empty(size, np.uint8) if self._get is None else self._get(size)
            self.allocations += 1
        # Every view of an array over a buffer has this array as its base: when it goes, no view is left.
        lent = np.frombuffer(memoryview(memory), np.uint8)
        weakref.finalize(lent, _take_back, free, memory).atexit = False
        return lent

    def __reduce__(self) -> tuple[Any, ...]:
        return SlotMemory, (self._get,)


def _take_back(free: deque[NDArray[np.uint8]], memory: NDArray[np.uint8]) -> None:
    if len(free) < max(_KEPT, min(_MOST_KEPT, _KEPT_BYTES // len(memory))):
        free.append(memory)


class Slots:
    """Deals out slots for samples in their order: slot after slot of a batch, and then the next batch's.

    So samples that stay together in a batch already lie one behind the other.
    """

    size: int

    def __init__(self, size: int, dtype: np.dtype[Any], shape: tuple[int, ...], memory: SlotMemory) -> None:
        self.size, self._dtype, self._shape = size, dtype, shape
        self._bytes = max(1, size * int(np.prod(shape)) * dtype.itemsize)
        self._memory = memory
        self._batch: NDArray[Any] | None = None
        self._next = 0

    @property
    def left(self) -> int:
        """Slots up to the end of a batch."""
        return self.size - self._next

    def take(self, count: int) -> list[NDArray[Any]]:
        """The next ``count`` slots, at most ``left``."""
        if self._batch is None:
            lent = self._memory.lend(self._bytes)
            self._batch = np.ndarray((self.size, *self._shape), self._dtype, lent)
        slots = list(self._batch[self._next : self._next + count])
        self._next += count
        if self._next == self.size:
            self._batch, self._next = None, 0
        return slots


def gathered(values: list[Any]) -> NDArray[Any] | None:
    """The values as one array where they are the slots of one batch, all from its first on; None: they are not."""
    base = values[0].base
    if base is None or any(value.base is not base for value in values):
        return None
    first, start = values[0], base.__array_interface__["data"][0]
    if first.__array_interface__["data"][0] != start:
        return None
    if values[-1].__array_interface__["data"][0] != start + (len(values) - 1) * first.nbytes:
        return None
    return np.ndarray((len(values), *first.shape), first.dtype, base)


# What each operator does to a chunk: functions from a chunk to a chunk, which any thread may call.


Step = Callable[[Chunk, Iterator[Any] | None], Chunk]

# The place up to which what is made of a sample has been delivered, by the place before the sample.
Resumed = Mapping[int, ElementPlace]


class Named(Protocol):
    """What can say where rows lie."""

    def locate(self, row: int) -> tuple[str, str]:
        """Path of a row's part, and words that name the row in a message."""

    def meeting(self, condition: str) -> NDArray[np.bool_]:
        """Which rows of the dataset meet a condition, bool[rows]."""


def step_of(
    operator: Operator,
    named: Named,
    resumed: Resumed,
    slotted: frozenset[str],
) -> Step:
    """What an operator does.

    ``resumed``: of elements that it makes several of, and of which some have been delivered. ``slotted`` are the
    columns whose values lie in slots of the batch.
    """
    kind, each = operator.kind, _Each(operator, named)
    if kind == "map":
        if isinstance(operator.in_place, InPlaceTogether):
            return _together(operator, operator.in_place, each)
        if operator.in_place is not None:
            return each.over(_in_place(operator, operator.in_place))
        return each.over(_on_samples(operator))
    if kind in ("map_batch", "device"):
        return each.over(_on_samples(operator))
    if kind == "select":
        names = operator.columns or ()
        return each.over(lambda sample: {name: sample[name] for name in names})
    if kind == "filter":
        return each.keeping(_on_samples(operator.changed(columns=None), operator.columns))
    if kind in ("flat_map", "unbatch"):
        return each.several(_parts_of_batch if kind == "unbatch" else _on_samples(operator), resumed)
    if kind == "batch":
        return each.collating(slotted)
    if kind == "where":
        return _where(named.meeting(operator.condition or ""))
    raise AssertionError(f"{kind} has no step")


def _on_samples(operator: Operator, read: tuple[str, ...] | None = None) -> Callable[..., Any]:
    """Calls the user's function: with the sample, or with columns of it, whose values it then replaces.

    What comes back takes the sample, and behind it key and slot where the operator is random. ``read``: the function
    gets these columns, and nothing is replaced.
    """
    fn: Any = operator.fn
    columns, number = operator.columns if read is None else read, operator.random
    if columns is None:
        return (lambda sample, key, slot: fn(sample, generator(key, number))) if number else fn
    if number:
        return _on_columns(columns, read is None, lambda given, key: fn(*given, generator(key, number)))
    if len(columns) > 1:
        on_columns = _on_columns(columns, read is None, lambda given, key: fn(*given))
        return lambda sample: on_columns(sample, 0, None)
    (name,) = columns  # the most frequent form, without a call in between
    if read is not None:
        return lambda sample: fn(sample[name])
    return lambda sample: {**sample, name: fn(sample[name])}


def _on_columns(
    columns: tuple[str, ...], replaced: bool, call: Callable[[list[Any], int], Any]
) -> Callable[[Any, int, Any], Any]:
    def on_columns(sample: Any, key: int, slot: Any) -> Any:
        made = call([sample[name] for name in columns], key)
        if not replaced:
            return made
        if len(columns) == 1:
            return {**sample, columns[0]: made}
        if not isinstance(made, (tuple, list)) or len(made) != len(columns):
            raise TypeError(
                f"it must return a tuple of {many(len(columns), 'value')} for {list(columns)}, not "
                f"{made!r:.100}"
            )
        return {**sample, **dict(zip(columns, made, strict=True))}

    return on_columns


class _StandIn(NamedTuple):
    """What an operator has made of a sample that it could not work on, and why."""

    made: Any
    why: str


def _in_place(operator: Operator, into: InPlace) -> Callable[[Any, int, Any], Any]:
    """Calls an operator that writes into its slot, or into memory of the sample's own where it has none."""
    assert operator.columns is not None
    (name,) = operator.columns
    dtype, shape, write, number = np.dtype(into.dtype), tuple(into.shape), into.into, operator.random

    def call(sample: Any, key: int, slot: Any) -> Any:
        value, own = sample[name], operator_key(key, number) if number else 0
        if isinstance(value, list):
            out, wrong = _steps(into, value, name, sample.get(f"{name}{IS_PAD}"), own)
        else:
            out = np.empty(shape, dtype) if slot is None else slot
            wrong = write(_cell(value, name), out, own)
        made = {**sample, name: out}
        return made if wrong is None else _StandIn(made, wrong)

    return call


def _steps(
    into: InPlace, values: Sequence[Any], name: str, missing: Any, key: int
) -> tuple[NDArray[Any], str | None]:
    """What an operator makes of the values at the steps of a sequence, zero where there is none; and what is wrong.

    All have one key: frames of one sample are cropped and mirrored alike.
    """
    made = np.zeros((len(values), *into.shape), into.dtype)
    there = [i for i, value in enumerate(values) if value is not None or missing is None or not missing[i]]
    cells = [_cell(values[i], name) for i in there]
    left: Sequence[int] = range(len(there))
    if isinstance(into, InPlaceTogether):
        left = into.into_each(cells, [made[i] for i in there], [key] * len(there))
    found = [into.into(cells[i], made[there[i]], key) for i in left]
    return made, next((why for why in found if why is not None), None)


def _together(operator: Operator, into: InPlaceTogether, each: _Each) -> Step:
    """The same for a chunk in one call, and then one by one for those that this has left."""
    assert operator.columns is not None
    (name,) = operator.columns
    dtype, shape, number = np.dtype(into.dtype), tuple(into.shape), operator.random
    one_by_one = _in_place(operator, into)

    def call(sample: Any, key: int, slot: tuple[Any, bool]) -> Any:
        out, written = slot
        return {**sample, name: out} if written else one_by_one(sample, key, out)

    finish = each.over(call)

    def step(chunk: Chunk, slots: Iterator[Any] | None) -> Chunk:
        count = len(chunk)
        outs = [np.empty(shape, dtype) for _ in range(count)] if slots is None else [*islice(slots, count)]
        keys = [operator_key(key, number) for key in chunk.keys] if number else [0] * count
        written = [True] * count
        for left in _left_out(into, name, chunk, outs, keys):
            written[left] = False
        return finish(chunk, zip(outs, written, strict=True))

    return step


def _left_out(
    into: InPlaceTogether, name: str, chunk: Chunk, outs: list[Any], keys: list[int]
) -> Sequence[int]:
    try:
        cells = [_cell(sample[name], name) for sample in chunk.values]
    except Exception:  # which of them it is, and where that lies, is said when they are taken one by one
        return range(len(chunk))
    return into.into_each(cells, outs, keys)


def _cell(value: Any, name: str) -> NDArray[np.uint8]:
    if value is None:  # as it is stored, and comes where samples are read as batches
        return np.empty(0, np.uint8)
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return np.frombuffer(value, np.uint8)
    raise TypeError(f"column {name!r} holds {type(value).__name__}, not stored bytes")


def _where(meets: NDArray[np.bool_]) -> Step:
    def step(chunk: Chunk, slots: Iterator[Any] | None) -> Chunk:
        kept = np.flatnonzero(meets[chunk.rows]).tolist() if len(chunk) else []
        return chunk if len(kept) == len(chunk) else chunk.only(kept, [chunk.values[i] for i in kept])

    return step


def _parts_of_batch(batch: Any) -> list[Any]:
    if not isinstance(batch, Mapping):
        return list(batch)
    return split_batch(batch, 0)


class _Each:
    """An operator applied to each element of a chunk; the first error ends the chunk, and names the row."""

    def __init__(self, operator: Operator, named: Named) -> None:
        self._operator = operator
        self._named = named
        self._plain = not operator.random and operator.in_place is None  # called with the element alone

    def over(self, call: Callable[..., Any]) -> Step:
        """One element for one."""

        def step(chunk: Chunk, slots: Iterator[Any] | None) -> Chunk:
            values, kept, notes, error = self._made(chunk, call, slots)
            if error is not None:
                return chunk.only(kept, values, notes).until(len(values), error)
            return chunk.only(kept, values, notes) if notes else chunk.with_values(values)

        return step

    def keeping(self, call: Callable[..., Any]) -> Step:
        """Those elements alone for which ``call`` says so."""

        def step(chunk: Chunk, slots: Iterator[Any] | None) -> Chunk:
            said, kept, notes, error = self._made(chunk, lambda *given: bool(call(*given)), slots)
            kept = [number for number, keep in zip(kept, said, strict=True) if keep]
            if error is None and len(kept) == len(chunk):
                return chunk
            found = chunk.only(kept, [chunk.values[number] for number in kept], notes)
            return found if error is None else found.until(len(kept), error)

        return step

    def several(self, call: Callable[..., Any], resumed: Resumed) -> Step:
        """Any number of elements for one."""

        def step(chunk: Chunk, slots: Iterator[Any] | None) -> Chunk:
            made, kept, notes, error = self._made(chunk, lambda *given: list(call(*given)), slots)
            out = Chunk([], [], [], [], [], chunk.notes + notes, error or chunk.error)
            for number, values in zip(kept, made, strict=True):
                _append(out, chunk, number, values, resumed)
            return out

        return step

    def collating(self, slotted: frozenset[str]) -> Step:
        """One batch of all elements."""
        fn: Any = self._operator.fn

        def together(samples: list[Any]) -> Any:
            if fn is not None:
                return fn(samples)
            first = samples[0]
            if not slotted or not isinstance(first, Mapping):
                return collate(samples)
            batch = {}
            for name in first:
                values = [sample[name] for sample in samples]
                found = gathered(values) if name in slotted else None
                batch[name] = collate(values) if found is None else found
            return batch

        def step(chunk: Chunk, slots: Iterator[Any] | None) -> Chunk:
            if not chunk.values:
                return chunk
            ends = (chunk.begins[0],), (chunk.ends[-1],)
            try:
                batch = together(chunk.values)
            except Exception as error:
                return Chunk.failed(self._failure(error, chunk.rows), chunk.notes)
            keys = [chunk.keys] if chunk.keys else ()
            return Chunk([batch], *ends, [chunk.rows], keys, chunk.notes, chunk.error)

        return step

    def _made(
        self, chunk: Chunk, call: Callable[..., Any], slots: Iterator[Any] | None
    ) -> tuple[list[Any], Any, tuple[Note, ...], BaseException | None]:
        """What comes of the elements, of which of them, and what was left out; an error where it ended early."""
        made: list[Any] = []
        left_out: dict[int, str] = {}
        failure: TransformError | None = None
        append = made.append
        elements = iter(chunk.values) if self._plain else self._elements(chunk, slots)
        while True:
            try:
                if self._plain:  # not map(): a StopIteration would end it
                    for value in elements:
                        append(call(value))
                else:
                    for value, key, slot in elements:
                        append(call(value, key, slot))
                break
            except SkipSample as skipped:
                left_out[len(made) + len(left_out)] = str(skipped)
            except Exception as error:
                failure = self._failure(error, chunk.rows[len(made) + len(left_out)])
                break
        kept: Sequence[int] = range(len(made))
        if left_out:
            kept = [i for i in range(len(made) + len(left_out)) if i not in left_out]
        notes = [Note(_first(chunk.rows[i]), why) for i, why in left_out.items()]
        if self._operator.in_place is not None:
            notes += _unwrapped(made, [chunk.rows[i] for i in kept])
        return made, kept, tuple(notes), failure

    def _elements(self, chunk: Chunk, slots: Iterator[Any] | None) -> Iterator[tuple[Any, int, Any]]:
        random, written = self._operator.random, self._operator.in_place is not None
        keys: Any = [_of_batch(key) for key in chunk.keys] if random else repeat(0)
        return zip(chunk.values, keys, slots if written and slots is not None else repeat(None), strict=False)

    def _failure(self, error: Exception, rows: Any) -> TransformError:
        row = _first(rows)
        path, words = self._named.locate(row)
        several = (
            f"the batch of {many(len(rows), 'sample')} that begins with " if isinstance(rows, list) else ""
        )
        failure = TransformError(
            f"{self._operator} failed on {several}{words}: {error!r}", -1 if several else row, path
        )
        failure.__cause__ = error
        return failure


def _unwrapped(made: list[Any], rows: Sequence[Any]) -> list[Note]:
    """Takes what stands in for samples out of its wrapping; a note for each."""
    notes = []
    for number, value in enumerate(made):
        if type(value) is _StandIn:
            made[number] = value.made
            notes.append(Note(_first(rows[number]), value.why, kept=True))
    return notes


def _first(rows: Any) -> int:
    return int(rows if isinstance(rows, int) else rows[0])


def _of_batch(key: Any) -> int:
    """What randomness of a batch is keyed by: its first sample."""
    return key if isinstance(key, int) else int(key[0])


def _append(out: Chunk, chunk: Chunk, number: int, values: list[Any], resumed: Resumed) -> None:
    """Appends what one element has become, but for what was delivered before the pass."""
    begin, end, row = chunk.begins[number], chunk.ends[number], chunk.rows[number]
    key = chunk.keys[number] if chunk.keys else None
    last = len(values) - 1
    delivered = resumed.get(position_of(begin)) if resumed else None
    whole = not isinstance(row, int) and len(row) == len(values)  # a batch that still has its samples
    for i, value in enumerate(values):
        place: Any = (end, 0) if i == last else (begin, i + 1)
        if delivered is not None and place <= delivered:
            continue
        out.values.append(value)
        _list(out.begins).append((begin, i))
        _list(out.ends).append(place)
        _list(out.rows).append(row[i] if whole else _first(row))
        if key is not None:
            _list(out.keys).append(
                key[i] if whole and not isinstance(key, int) else child_key(_of_batch(key), i)
            )


def _list(values: Any) -> list[Any]:
    assert isinstance(values, list)
    return values


# A stage: neighbouring operators that run together on the same workers, and how they get what they work on.


Call = Callable[[Chunk, Sequence[Iterator[Any]]], Chunk]


@dataclass(frozen=True)
class Stage:
    """``operators`` one behind the other, on ``threads`` (a number, or "auto") or in ``processes``.

    ``group`` elements go in together, as a batch: 0 means that as many are taken as is convenient. A last group that is
    smaller is left out where ``drop_last``. ``prefetch`` is how many results are made ahead, and ``under_way`` how many
    tasks are, each of as many elements as are worth one; 0: as is convenient.
    """

    operators: tuple[Operator, ...]
    group: int = 0
    drop_last: bool = False
    prefetch: int = 0
    under_way: int = 0

    @property
    def name(self) -> str:
        """What the stage is called in figures."""
        return " → ".join(
            operator.name if operator.kind not in ("batch", "where") else str(operator)
            for operator in self.operators
        )

    @property
    def on_batches(self) -> bool:
        """Whether what goes in are batches."""
        return bool(self.operators) and self.operators[0].kind in ("map_batch", "device", "unbatch")

    @property
    def together(self) -> bool:
        """Whether an operator takes several samples in one call."""
        return any(isinstance(operator.in_place, InPlaceTogether) for operator in self.operators)

    @property
    def threads(self) -> int:
        """Threads of its own; 0: it shares those of the other stages without a number."""
        given = [operator.threads for operator in self.operators if operator.threads != "auto"]
        return given[0] if given else 0

    @property
    def processes(self) -> int:
        """Processes of its own; 0: threads."""
        return self.operators[0].processes if self.operators else 0


def stages_of(operators: Sequence[Operator], fused: bool) -> list[Stage]:
    """The operators in stages: each alone, or ``fused`` with its neighbours that ask for no workers of their own."""
    stages: list[Stage] = []
    for operator in operators:
        if operator.kind == "prefetch":
            if stages:
                last = stages.pop()
                count = min(last.prefetch or operator.size, operator.size)
                stages.append(Stage(last.operators, last.group, last.drop_last, count))
            continue
        if operator.kind == "batch":
            stages.append(Stage((operator,), operator.size, operator.drop_last))
            continue
        last_stage = stages[-1] if stages else None
        if last_stage is not None and fused and _fuse(last_stage, operator):
            joined = (*last_stage.operators, operator)
            stages[-1] = Stage(joined, last_stage.group, last_stage.drop_last)
        else:
            stages.append(Stage((operator,)))
    return stages


def _fuse(stage: Stage, operator: Operator) -> bool:
    """Whether an operator runs with those of a stage: both on the shared threads, and no number of results between."""
    free = not stage.threads and not stage.processes and not stage.prefetch
    return free and operator.threads == "auto" and not operator.processes


def slots_of(stage: Stage, following: Stage | None, memory: SlotMemory) -> list[Slots | None]:
    """For each operator of a stage that writes in place: slots of the next stage's batches, if none is moved."""
    found: list[Slots | None] = []
    for number, operator in enumerate(stage.operators):
        into = operator.in_place
        if into is None:
            continue
        if stage.processes:  # what they make lies in memory of theirs
            found.append(None)
            continue
        rest = stage.operators[number + 1 :]
        found.append(
            Slots(following.group, into.dtype, tuple(into.shape), memory)
            if following is not None
            and following.group
            and following.operators[0].fn is None
            and all(_leaves_alone(later, operator.columns) for later in rest)
            else None
        )
    return found


def _leaves_alone(operator: Operator, columns: Sequence[str] | None) -> bool:
    if operator.kind == "select":
        return True
    return (
        operator.kind == "map"
        and operator.columns is not None
        and not set(operator.columns) & set(columns or ())
    )


def call_of(steps: Sequence[tuple[Step, bool]]) -> Call:
    """The steps one behind the other; True beside those that get slots."""

    def call(chunk: Chunk, slots: Sequence[Iterator[Any]]) -> Chunk:
        dealt = iter(slots)
        for step, written in steps:
            chunk = step(chunk, next(dealt, None) if written else None)
        return chunk

    return call
