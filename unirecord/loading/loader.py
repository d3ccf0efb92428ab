"""One pass of the C loader: its options, and batches read ahead, each with the place where it ends."""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import wraps
from itertools import repeat
from os import PathLike
from threading import current_thread, main_thread
from typing import Any, Final, Generic, Literal, ParamSpec, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core import BatchPool, NativeBatch, NativeLoader, Order, WeakObjects, usable_cores, xxh3_64
from ..errors import CorruptionError, TransformError
from ..order.exclusion import ExclusionMask
from ..order.permutation import EpochRun
from ..order.randomness import generator, sample_keys
from ..order.sampling import SampledOrder
from ..order.spec import check_integer
from ..snapshot.prefetch import MOST_AHEAD_BYTES, MOST_WINDOW_BYTES
from .batch import BatchBuilder, bytes_of, collate, split_batch
from .boxes import Crop
from .plan import Batches, Plan
from .stats import PartTimes

__all__ = [
    "BatchMemory",
    "BatchReader",
    "BatchTransform",
    "LoaderOptions",
    "MOST_PREFETCH",
    "OnCorrupt",
    "ReadAhead",
    "TrackedBatch",
    "Transform",
    "Transforming",
    "UNCHANGED",
    "Unchanged",
    "WindowsAhead",
    "check_callable",
    "check_on_corrupt",
    "close_after",
    "closed_at_exit",
    "staged",
]


# How batches are made, checked when a loader is made, and the sizes that follow from it.


OnCorrupt = Literal["raise", "skip"]
Transform = Callable[[Any], Any]


class Unchanged(Enum):
    """The type of ``UNCHANGED``: what stands for an option that stays as it is."""

    UNCHANGED = "as it is"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED


class ReadAhead(TypedDict, total=False):
    """The options of a loader that do not change what kind of thing a batch is."""

    drop_last: bool
    prefetch: int | None
    num_threads: int | None
    num_workers: int | None
    receipts: str | PathLike[str] | None
    random: bool
    crops: Mapping[str, Crop] | None
    return_places: bool


MOST_PREFETCH = 4096  # batches that the C core reads ahead
_READ_AHEAD_BYTES = 32 << 20
_USUAL_PREFETCH = 16
_FETCH_AHEAD_BYTES = 256 << 20  # what 25 ms of latency take at ten gigabytes a second
_ROWS_AWAITED = 1024  # by all threads together: four times the requests that a process has in flight
_MOST_FETCHING = 32
_MOST_THREADS = 4  # memory bandwidth, not cores, is what more threads would share


@dataclass(frozen=True)
class LoaderOptions:
    """How batches are made, checked when it is made itself.

    ``transform`` gets one sample; ``collate_fn`` makes a batch of what it returns (of the samples themselves where
    there is no transform); ``batch_transform`` gets that batch, or the one that was read. ``num_workers`` are the
    threads that call them; with 0 it is the thread that asks for a batch. ``receipts`` is the folder for them.
    ``random``: ``transform`` gets a generator of the sample's own as well.
    """

    batch_size: int
    drop_last: bool = False
    prefetch: int | None = None
    num_threads: int | None = None
    transform: Transform | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None
    batch_transform: Transform | None = None
    num_workers: int | None = None
    on_corrupt: OnCorrupt = "raise"
    receipts: str | PathLike[str] | None = None
    random: bool = False
    crops: Mapping[str, Crop] | None = None
    return_places: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", check_integer("batch_size", self.batch_size, 1, 1 << 62))
        for name, least, most in (
            ("prefetch", 1, MOST_PREFETCH),
            ("num_threads", 1, 1024),
            ("num_workers", 0, 1024),
        ):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_integer(name, value, least, most))
        for name in ("transform", "collate_fn", "batch_transform"):
            check_callable(name, getattr(self, name))
        for name in ("drop_last", "random", "return_places"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.random and self.transform is None:
            raise ValueError(
                "random=True gives a generator to the transform, and there is none: give transform="
            )
        if self.return_places and not self.crops:
            raise ValueError("return_places=True gives the places of crops, and there are none: give crops=")
        check_on_corrupt(self.on_corrupt)

    @property
    def changes_batches(self) -> bool:
        """Whether what is read is given on as something else."""
        return any(f is not None for f in (self.transform, self.collate_fn, self.batch_transform))

    def collate(self, samples: list[Any]) -> Any:
        """Samples as one batch."""
        return (self.collate_fn or collate)(samples)

    def prefetch_for(self, row_bytes: float, fetched: bool = False) -> int:
        """Batches to keep ready: as asked, or as many small ones as fit into a fixed amount of memory.

        ``fetched``: of what comes from an object store, after some time.
        """
        if self.prefetch is not None:
            return self.prefetch
        bound = _FETCH_AHEAD_BYTES if fetched else _READ_AHEAD_BYTES
        fitting = int(bound / max(1.0, row_bytes * self.batch_size))
        return max(2, min(_MOST_FETCHING if fetched else _USUAL_PREFETCH, fitting))

    def threads(self, fetched: bool = False) -> int:
        """Reading threads: as asked, or one per usable core, up to four; or as many as wait for many rows at once."""
        if self.num_threads:
            return self.num_threads
        if fetched:
            return max(2, min(_MOST_FETCHING, -(-_ROWS_AWAITED // self.batch_size)))
        return max(1, min(_MOST_THREADS, usable_cores()))

    def workers(self) -> int:
        """Transforming threads: as asked, or one per usable core."""
        return usable_cores() if self.num_workers is None else self.num_workers


def check_callable(name: str, value: object, needed: bool = False) -> None:
    """Refuses what cannot be called, when it is given and not when it is first needed; None unless it is needed."""
    if (value is not None or needed) and not callable(value):
        raise TypeError(f"{name} must be a function, got {value!r}")


def check_on_corrupt(value: object) -> None:
    """Refuses any but the two ways of treating corrupt rows."""
    if value not in ("raise", "skip"):
        raise ValueError(f'on_corrupt must be "raise" or "skip", got {value!r}')


# Iterators that are still open when the interpreter ends: closed while the modules that they need are whole.


P = ParamSpec("P")
T = TypeVar("T")

_OPEN: WeakObjects[Generator[Any, None, None]] = WeakObjects()


def closed_at_exit(make: Callable[P, Generator[T, None, None]]) -> Callable[P, Generator[T, None, None]]:
    """For generator functions whose generators users keep: what is left of one is closed before modules are emptied.

    A generator in a variable of a script is otherwise finalised when the globals of modules may be None already, and
    its ``finally`` fails. Those of other threads stay as they are: their threads may go on while this one ends.
    """

    @wraps(make)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        generator = make(*args, **kwargs)
        if current_thread() is main_thread():
            _OPEN.add(generator)
        return generator

    return begin


def _close_all() -> None:
    for iterator in _OPEN:
        with suppress(ValueError):  # a thread is in it
            iterator.close()


atexit.register(_close_all)


# A batch on its way to the user, with the place in the epoch where it ends.


New = TypeVar("New")


class TrackedBatch(Generic[T]):
    """What readers yield and every stage takes and gives; whoever hands ``batch`` to the user last marks ``end``.

    ``end`` is the global position after the batch in ``epoch`` (docs/spec/order.md): a state taken when it has been
    handed out. ``left_out`` names the rows of the dataset that were left out before that, because they are corrupt;
    ``samples`` and ``size`` are the samples in it and their bytes; ``digest`` is XXH3-64 of their rows, where receipts
    are asked for, else 0. ``rows`` are those that were asked for, where they are not the ones of the positions just
    before ``end``, and ``draws`` what tells samples of one row apart then (``ShardOrder.draws_at``).
    """

    __slots__ = ("batch", "digest", "draws", "end", "epoch", "left_out", "rows", "samples", "size")

    def __init__(
        self,
        batch: T,
        epoch: int,
        end: int,
        left_out: tuple[int, ...],
        samples: int,
        size: int,
        digest: int = 0,
        rows: NDArray[np.int64] | None = None,
        draws: NDArray[np.int64] | None = None,
    ) -> None:
        self.batch: T = batch
        self.epoch: int = epoch
        self.end: int = end
        self.left_out: tuple[int, ...] = left_out
        self.samples: int = samples
        self.size: int = size
        self.digest: int = digest
        self.rows: NDArray[np.int64] | None = rows
        self.draws: NDArray[np.int64] | None = draws

    @property
    def nbytes(self) -> int:
        """Bytes of the batch as it is now, about."""
        return bytes_of(self.batch)

    def map(self, change: Callable[[T], New]) -> TrackedBatch[New]:
        """The same place with what ``change`` makes of the batch."""
        return self.with_batch(change(self.batch))

    def with_batch(self, batch: New) -> TrackedBatch[New]:
        """The same place with another batch."""
        return TrackedBatch(
            batch,
            self.epoch,
            self.end,
            self.left_out,
            self.samples,
            self.size,
            self.digest,
            self.rows,
            self.draws,
        )


BatchTransform = Callable[[Iterator[TrackedBatch[Any]]], Iterator[TrackedBatch[Any]]]


@contextmanager
def close_after(batches: Iterator[Any]) -> Iterator[None]:
    """At the end an iterator that can be closed is, with what it holds; one that a thread is in closes itself."""
    try:
        yield
    finally:
        if hasattr(batches, "close"):
            with suppress(ValueError):
                batches.close()


def staged(
    batches: Iterator[TrackedBatch[Any]], stages: Iterable[BatchTransform], open_stages: ExitStack
) -> Iterator[TrackedBatch[Any]]:
    """The batches behind these stages; each of them is closed with ``open_stages``, the last one first."""
    open_stages.enter_context(close_after(batches))
    for stage in stages:
        batches = stage(batches)
        open_stages.enter_context(close_after(batches))
    return batches


# What the functions of a loader make of a batch: ``transform``, ``collate_fn`` and ``batch_transform``.


class Transforming:
    """The functions of one pass, called with a batch that was read, by any thread."""

    def __init__(self, plan: Plan, run: EpochRun, options: LoaderOptions) -> None:
        self._plan, self._run = plan, run
        self._options = options

    def __call__(self, delivered: TrackedBatch[dict[str, Any]]) -> TrackedBatch[Any]:
        options = self._options
        result: Any = delivered.batch
        if options.transform is not None or options.collate_fn is not None:
            samples: list[Any] = self._split(result, delivered)
            if options.transform is not None:
                samples = self._transformed(options.transform, samples, delivered)
            try:
                result = options.collate(samples)
            except StopIteration as error:  # would end the epoch without a word
                raise TransformError(f"collate_fn failed on {self._named(delivered)}: {error!r}") from error
        if options.batch_transform is not None:
            try:
                result = options.batch_transform(result)
            except Exception as error:
                raise TransformError(
                    f"batch_transform failed on {self._named(delivered)}: {error!r}"
                ) from error
        return delivered.with_batch(result)

    def _split(self, batch: dict[str, Any], delivered: TrackedBatch[dict[str, Any]]) -> list[Any]:
        try:
            return split_batch(batch, delivered.samples)
        except CorruptionError:
            for row in self._rows(delivered)[
                0
            ].tolist():  # finds the row that cannot be decoded, and says where it is
                self._plan.data.reader.one(row)
            raise

    def _transformed(
        self, transform: Transform, samples: list[Any], delivered: TrackedBatch[dict[str, Any]]
    ) -> list[Any]:
        done: list[Any] = []
        given = self._generators(delivered) if self._options.random else repeat(())
        try:
            # Not map(): a StopIteration would end it.
            for sample, more in zip(samples, given, strict=self._options.random):
                done.append(transform(sample, *more))
        except Exception as error:
            row = int(self._rows(delivered)[0][len(done)])
            path, row_in_part = self._plan.data.parts.locate(row)
            message = f"transform failed on row {row} (row {row_in_part} of {path}): {error!r}"
            raise TransformError(message, row, path) from error
        return done

    def _generators(self, delivered: TrackedBatch[Any]) -> Iterator[tuple[np.random.Generator]]:
        """For each sample the generator that the first random operator of a pipeline would get."""
        keys = sample_keys(self._run.order.spec.seed, delivered.epoch, *self._rows(delivered))
        return ((generator(key, 1),) for key in keys)

    def _rows(self, delivered: TrackedBatch[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """The rows of the samples of a batch, and what tells samples of one row apart."""
        rows, draws = delivered.rows, delivered.draws
        if rows is None:
            count = delivered.samples + len(delivered.left_out)
            rows, draws = self._plan.rows_before(self._run, delivered.end, count)
        if not delivered.left_out:
            return rows, draws
        kept = ~np.isin(rows, delivered.left_out)  # a corrupt row is left out wherever it comes
        return rows[kept], None if draws is None else draws[kept]

    def _named(self, delivered: TrackedBatch[Any]) -> str:
        position = (delivered.end - self._run.start) // self._run.stride
        size = 1 if self._run.order.batched else self._options.batch_size
        return f"batch {-(-position // size) - 1} of epoch {delivered.epoch}"


# Windows of an epoch in an object store: each is asked for in runs before its batches are read.


_LEAST_BYTES: Final = 16 << 20  # of a window that are asked for at a time, so that runs stay whole
_BATCH_BYTES: Final = 1 << 20  # of batches in order, from which on they bring runs by themselves
_IN_ORDER_BYTES: Final = 16 << 20  # of windows in order, at most
_IN_ORDER_ROWS: Final = 1 << 16  # of such a window, at most


class WindowsAhead:
    """The windows of one pass: those of ``shuffle="block"``; in order, of small batches, stretches of rows.

    Only where they bring runs: all of a window's rows are this rank's, all columns are read, a window is more than a
    batch, which brings runs by itself, and fits the memory that is there for it. The window behind those that are
    needed is asked for bit by bit, as the rows of those before make room: or nothing would be on its way meanwhile.
    """

    def __init__(self, plan: Plan, run: EpochRun, batch_size: int) -> None:
        parts, order = plan.data.parts, run.order
        self._plan, self._run, self._batch_size = plan, run, batch_size
        self._told = run.samples  # up to here windows are told of; there is no more to tell
        self._window = self._end = 0  # rows of a window, and where that ends which is being asked for
        self._turns: deque[tuple[int, int]] = deque()  # where windows end, and what forgets them
        self._rows = np.empty(0, np.int64)  # of the next window, sorted: those that are not told of
        self._in_order = False
        if not (isinstance(order, Order) and parts.is_fetched and run.stride == 1):
            return
        self._row_bytes = max(1, parts.mean_row_bytes())
        read = {column.name for _, column in plan.columns}
        blobs = [column.name for column in parts.schema.columns if column.is_blob]
        if not blobs or not read.issuperset(blobs):
            return
        if plan.order.spec.mode == "block":
            self._take_blocks(order)
        elif plan.order.spec.mode == "sequential":
            self._take_stretches()
        if self._in_order or (
            batch_size < self._window and self._window * self._row_bytes <= MOST_WINDOW_BYTES
        ):
            self._told = 0

    def _take_blocks(self, order: Order) -> None:
        spec = self._plan.order.spec
        self._window = spec.block_rows * spec.window_blocks
        self._missing = -order.rows % spec.block_rows  # of the last block, in whatever window it is
        last = int(order.inverse(np.array([order.rows - 1]))[0]) if order.rows else 0
        self._short = last // self._window

    def _take_stretches(self) -> None:
        """Rows that follow each other, of batches that are much smaller than a run."""
        selection = self._plan.order.selection
        if selection.is_range and selection.step == 1 and self._batch_size * self._row_bytes < _BATCH_BYTES:
            self._in_order = True
            self._window = 1

    def reach(self, batches: int, done: int) -> None:
        """Asks for all windows that so many batches of the pass reach into; ``done`` of them have been read."""
        stop = min(batches * self._batch_size, self._run.samples)
        while self._turns and self._turns[0][0] <= done * self._batch_size:
            self._plan.data.parts.forget_advice(self._turns.popleft()[1])
        if self._in_order:  # as many more as have been read: it may be a look at the first rows
            most = min(int(_IN_ORDER_BYTES / self._row_bytes), _IN_ORDER_ROWS)
            self._window = min(max(batches - done, done) * self._batch_size, most)
        while self._told < stop and self._ask():
            pass
        if stop <= self._told < self._run.samples and self._told - stop < self._window:
            self._ask()

    def _ask(self) -> bool:
        """Asks for rows of the next window, as many as there is room for; False when that is none."""
        run, parts = self._run, self._plan.data.parts
        if not len(self._rows):
            self._end = min(self._window_end(), run.samples)
            self._rows = np.sort(self._plan.rows_of(run, self._told, self._end))
        fitting = int((MOST_AHEAD_BYTES - parts.advised_bytes) / self._row_bytes)
        if fitting < min(len(self._rows), _LEAST_BYTES / self._row_bytes):
            return False
        rows, self._rows = self._rows[:fitting], self._rows[fitting:]
        self._turns.append((self._end, parts.advise(rows)))
        if not len(self._rows):
            self._told = self._end
        return True

    def _window_end(self) -> int:
        """Where the window ends, in samples of the pass, that the next sample to be told of is in."""
        if self._in_order:
            return self._told + self._window
        position = self._run.first + self._told
        number = position // self._window
        if number == self._short and position >= (number + 1) * self._window - self._missing:
            number += 1
        elif number > self._short:
            number = (position + self._missing) // self._window
        end = (number + 1) * self._window - (self._missing if number >= self._short else 0)
        return end - self._run.first

    def close(self) -> None:
        """Gives up what has been asked for, and is not going to be read."""
        if self._window:
            self._plan.data.parts.forget_advice()


_MOST_AHEAD = 16
_AHEAD_BYTES = 32 << 20


class BatchMemory:
    """Where the batches of a loader lie: the memory that all loaders of the data share, or memory of a special kind."""

    def __init__(self, get: Callable[[int], NDArray[np.uint8] | None] | None = None) -> None:
        """``get`` gives a piece of memory of a size to put batches into, or None for ordinary memory."""
        self._get = get
        self._pool: BatchPool | None = None
        self._of: object = None

    def pool(self, plan: Plan, options: LoaderOptions) -> BatchPool:
        """The pool, made when it is first needed in a process, or when the data have been opened anew."""
        if self._pool is None or not self._pool.is_own or self._of is not plan.data:
            self._pool, self._of = self._find(plan, options), plan.data
        return self._pool

    def _find(self, plan: Plan, options: LoaderOptions) -> BatchPool:
        fetched, row_bytes = plan.data.parts.is_fetched, plan.row_bytes_with(options.crops)
        pieces = options.prefetch_for(row_bytes, fetched) + options.threads(fetched) + 2
        if self._get is None:  # loaders made anew each epoch find it warm
            return plan.data.pool(pieces)
        pool = BatchPool(pieces)
        expected = int(row_bytes * options.batch_size * 1.25) + (1 << 16)
        made_ahead = min(_MOST_AHEAD, _AHEAD_BYTES // expected)  # by a pipeline, of what is cheap
        for _ in range(pieces + made_ahead + 4):  # some are on their way to a device
            memory = self._get(-(-expected // 4096) * 4096)
            if memory is not None:
                pool.lend(memory)
        return pool

    @property
    def allocations(self) -> int:
        """Pieces of memory taken from the system so far."""
        return self._pool.allocations if self._pool else 0

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchMemory, (self._get,)


class BatchReader:
    """Reads a pass.

    When it is over, ``trailing`` has the rows left out after the last batch because they are corrupt, and ``end`` is
    the position after these and what ``leaving`` leaves out there; ``read_ns`` is the time of all threads,
    and ``part_times`` how much of it was timed part by part.
    """

    def __init__(
        self,
        plan: Plan,
        run: EpochRun,
        options: LoaderOptions,
        memory: BatchMemory,
        exclusion_mask: ExclusionMask | None = None,
        draws: NDArray[np.int64] | None = None,
    ) -> None:
        """``draws``: what tells samples of one row apart, where ``run`` is of rows that have been listed of a pass."""
        if isinstance(run.order, SampledOrder):
            options = replace(options, batch_size=run.order.usual_size())
        self.trailing: tuple[int, ...] = ()
        self.end: int = run.start
        self.read_ns: int = 0
        self.part_times: PartTimes = PartTimes()
        self._run = run
        self._batch_size = options.batch_size
        self._skip = options.on_corrupt == "skip"
        self._digests = options.receipts is not None
        self._reader = plan.data.reader
        columns = [column for _, column in plan.columns]
        wanted = options.crops or {}
        shown, places = plan.data.cropped(options.crops, options.return_places)
        self._cropped = bool(wanted)
        self._builder = BatchBuilder(shown, places, plan.data.steps)
        self._told = plan.data.told
        self._natives: Iterator[tuple[NativeLoader, Batches | None]] = iter(())
        self._windows: WindowsAhead | None = None
        self._ahead = 0  # batches that may be read beyond those handed out
        fetched, row_bytes = plan.data.parts.is_fetched, plan.row_bytes_with(options.crops)
        if run.samples:  # else there may be no part, whose columns the C loader would ask for
            given: dict[str, Any] = {
                "pool": memory.pool(plan, options),
                "drop_last": options.drop_last,
                "prefetch": (most := options.prefetch_for(row_bytes, fetched)),
                "threads": (threads := options.threads(fetched)),
                "near": (min(most, options.prefetch_for(row_bytes)), min(threads, options.threads())),
                "skip_corrupt": self._skip,
            }
            if wanted:
                given["crops"] = [
                    (column.name, column.shape, crop.shape) if (crop := wanted.get(column.name)) else None
                    for column in columns
                ]
            if not exclusion_mask:
                if not wanted:  # else they would bring whole rows
                    self._windows = WindowsAhead(plan, run, options.batch_size)
                self._ahead = given["prefetch"] + 2
                natives = plan.open_loaders(run, options.batch_size, draws=draws, **given)
                self._natives = ((native, None) for native in natives)
            else:
                self._natives = plan.open_exclusion_mask(run, exclusion_mask, options.batch_size, **given)
        rest = run.samples % options.batch_size if options.drop_last else 0
        self._last = run.after(run.samples - rest) if exclusion_mask else run.start

    @closed_at_exit  # whoever's generator it is read by
    def __iter__(self) -> Generator[TrackedBatch[dict[str, Any]], None, None]:
        before = 0
        left_out: tuple[int, ...] = ()
        try:
            self._reach(0)
            for native, listed in self._natives:
                before, left_out = yield from self._read(native, listed, before, left_out)
        finally:
            if self._windows is not None:
                self._windows.close()
        self.trailing, self.end = left_out, max(self.end, self._last)

    def _reach(self, batches: int) -> None:
        """Asks for the windows of the batches that may be read while so many have been handed out."""
        if self._windows is not None:
            self._windows.reach(batches + self._ahead, batches)

    def _read(
        self, native: NativeLoader, listed: Batches | None, before: int, left_out: tuple[int, ...]
    ) -> Generator[TrackedBatch[dict[str, Any]], None, tuple[int, tuple[int, ...]]]:
        """The batches of one loader, behind ``before`` positions of the pass and rows that were left out after them.

        Returns the same two of what comes behind.
        """
        build, run, size = self._builder.build, self._run, self._batch_size
        before = 0 if listed is not None else before
        epoch, start, stride = run.epoch, run.after(before), run.stride
        asked: NDArray[np.int64] | None = None
        draws: NDArray[np.int64] | None = None
        told, digests, read, digest = self._told, self._digests, 0, 0
        drawn = run.order.batched
        try:
            while (batch := native.next()) is not None:
                self._reach(batch.number + 1)
                rows, skipped = batch.rows, batch.skipped
                if listed is not None:
                    read, own = int(listed.ends[batch.number]), listed.of(batch.number)
                    asked = listed.rows[own]
                    draws = None if listed.draws is None else listed.draws[own]
                else:
                    read = batch.number + 1 if drawn else batch.number * size + rows + skipped
                end = start + read * stride
                if skipped:
                    left_out += tuple(batch.skipped_rows().tolist())
                    if not rows:
                        self.end = end
                        continue
                if digests:
                    digest = self._digest(batch, listed)
                try:
                    built = build(batch)
                except (UnicodeDecodeError, CorruptionError) as error:
                    built, rows, no_text = self._without_no_text(batch, error)
                    if digests:
                        digest = self._digest(batch, listed, no_text)
                    left_out += no_text
                    if not rows:
                        self.end = end
                        continue
                for one in told:
                    if one.column not in built:
                        one.add(built, batch.row_ids())
                delivered = TrackedBatch(
                    built, epoch, end, left_out, rows, batch.data_bytes, digest, asked, draws
                )
                del built
                del batch  # the arrays alone keep the memory
                left_out = ()
                yield delivered
                del delivered
        finally:
            self.read_ns += native.close()
            self.part_times.add(native.paths, native.part_times())
        return before + read, left_out

    @staticmethod
    def _digest(batch: NativeBatch, listed: Batches | None, left_out: tuple[int, ...] = ()) -> int:
        """XXH3-64 of the rows of a batch, but for those left out and those that fill a skipped slot."""
        if listed is None and not left_out:
            return batch.rows_digest()
        rows = batch.row_ids()
        kept = ~np.isin(rows, left_out) if left_out else np.ones(len(rows), np.bool_)
        if listed is not None and listed.drawn[listed.of(batch.number)].any():
            asked, drawn = listed.rows[listed.of(batch.number)], listed.drawn[listed.of(batch.number)]
            kept &= ~drawn[~np.isin(asked, batch.skipped_rows())]
        return xxh3_64(rows if kept.all() else rows[kept])

    def _without_no_text(
        self, native: NativeBatch, found: UnicodeDecodeError | CorruptionError
    ) -> tuple[dict[str, Any], int, tuple[int, ...]]:
        """The batch without rows that cannot be decoded, how many are left, and which are left out.

        CorruptionError for the first of them where they are not to be skipped.
        """
        kept, left_out = [], []
        for row in native.row_ids().tolist():
            try:
                self._reader.one(row)
                kept.append(row)
            except CorruptionError:
                if not self._skip:
                    raise
                left_out.append(row)
        if not left_out:
            raise found
        if self._cropped:  # rows are read anew whole
            self._reader.one(left_out[0])
        return self._reader.batch(np.array(kept, np.int64)), len(kept), tuple(left_out)
