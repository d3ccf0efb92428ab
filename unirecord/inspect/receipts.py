"""What receipt files say: passes of ranks as numbers of samples, what was left out, and the history of a job."""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from ..dataset.cursor import ResumeState
from ..dataset.dataset import UniRecordDataset
from ..dataset.receipts import BATCH, BEGIN, END, LEFT_OUT, RECORD_BYTES, SUFFIX, Head, Record, unpacked
from ..errors import FormatError, MissingError
from ..order.coverage import PositionRange, Stretch, stretches
from ..order.permutation import EpochRun
from ..sizes import many
from ..storage.location import Readable
from ..storage.schemes import location_of

__all__ = [
    "JobPass",
    "Launch",
    "LeftOutSamples",
    "Placed",
    "RankFile",
    "RankPass",
    "launches",
    "ranges_left_out",
    "read_receipts",
    "receipt_paths",
    "records_of",
    "rows_that_differ",
]


# Samples that receipts leave out, however many: at most two bytes each, and one bit for each sample of the pass.


_BITS = 16  # numbers of a block: those that are few are its u16s, the others a bit each
_BLOCK = 1 << _BITS
_RANGES_AT_ONCE = 1 << 20  # positions that are looked at together, of all ranks
_MOST_LISTED = 10_000  # ranges that are named one by one
_NONE = np.empty(0, np.int64)


class LeftOutSamples:
    """Numbers of samples, ascending, as they come: blocks of 65,536 of them, as Roaring bitmaps have them."""

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._held: list[bytes] = []
        self._open = array("H")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about."""
        return sum(map(len, self._held)) + len(self._open) * self._open.itemsize

    def add(self, number: int) -> None:
        """Takes a number above all before it."""
        block = number >> _BITS
        if not self._blocks or block != self._blocks[-1]:
            self._close()
            self._blocks.append(block)
        self._open.append(number & (_BLOCK - 1))
        self._count += 1

    def _close(self) -> None:
        if self._blocks:
            data = self._open.tobytes()
            self._held.append(data if len(data) < _BLOCK // 8 else _bits_of(self._open))
            self._open = array("H")

    def pieces(self, stop: int) -> Iterator[NDArray[np.int64]]:
        """Those below a number, block by block."""
        for place, block in enumerate(self._blocks):
            first = block << _BITS
            if first >= stop:
                return
            numbers = self._numbers(place) + first
            yield numbers[numbers < stop] if first + _BLOCK > stop else numbers

    def _numbers(self, place: int) -> NDArray[np.int64]:
        if place == len(self._held):
            return np.array(self._open, np.int64)
        data = self._held[place]
        if len(data) < _BLOCK // 8:
            return np.frombuffer(data, np.uint16).astype(np.int64)
        return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8)))


def _bits_of(numbers: array[int]) -> bytes:
    bits = np.zeros(_BLOCK, np.bool_)
    bits[np.frombuffer(numbers, np.uint16)] = True
    return np.packbits(bits).tobytes()


@dataclass(frozen=True)
class Placed:
    """Samples left out, at the positions first + i · stride; of them those below ``stop``."""

    found: LeftOutSamples
    first: int
    stride: int
    stop: int

    def pieces(self, size: int) -> Iterator[NDArray[np.int64]]:
        """The positions, ascending, about ``size`` at a time; no piece is empty."""
        held: list[NDArray[np.int64]] = []
        for numbers in self.found.pieces(-(-(self.stop - self.first) // self.stride)):
            for start in range(0, len(numbers), size):
                held.append(self.first + numbers[start : start + size] * self.stride)
                if sum(map(len, held)) >= size:
                    yield np.concatenate(held)
                    held = []
        if held:
            yield np.concatenate(held)


def ranges_left_out(found: Sequence[Placed], but: Sequence[PositionRange]) -> list[PositionRange]:
    """All of their positions, each once, without some; where there are many runs of neighbours, as one range."""
    runs: list[PositionRange] = []
    first, count = -1, 0
    stop = first
    for merged in _merged(found):
        positions = _without(merged, but)
        if not len(positions):
            continue
        first = int(positions[0]) if first < 0 else first
        stop, count = int(positions[-1]) + 1, count + len(positions)
        if len(runs) <= _MOST_LISTED:
            _append(runs, positions)
    return [PositionRange(first, stop, 0, count)] if len(runs) > _MOST_LISTED else runs


def _append(runs: list[PositionRange], positions: NDArray[np.int64]) -> None:
    """Appends runs of neighbours; the first may go on from the last one."""
    cuts = np.flatnonzero(np.diff(positions) > 1)[: _MOST_LISTED + 1]
    firsts = [positions[0], *positions[cuts + 1]]
    lasts = [*positions[cuts], positions[-1]]
    for begin, last in zip(map(int, firsts), map(int, lasts), strict=True):
        begin = runs.pop().first if runs and runs[-1].stop == begin else begin
        runs.append(PositionRange(begin, last + 1, 1, last + 1 - begin))


def _without(positions: NDArray[np.int64], but: Sequence[PositionRange]) -> NDArray[np.int64]:
    """Those that lie in none of some ranges; of one that is scattered, nowhere between its ends."""
    for one in but:
        wrong = (positions >= one.first) & (positions < one.stop)
        if one.stride:
            wrong &= (positions - one.first) % one.stride == 0
        positions = positions[~wrong]
    return positions


def _merged(found: Sequence[Placed]) -> Iterator[NDArray[np.int64]]:
    """All positions, each once, in ascending order."""
    size = max(_RANGES_AT_ONCE // max(len(found), 1), 1024)
    coming = [one.pieces(size) for one in found]
    held = [next(pieces, _NONE) for pieces in coming]
    while any(map(len, held)):
        upto = min(int(piece[-1]) for piece in held if len(piece))  # of what no later piece has any below
        cuts = [int(np.searchsorted(piece, upto, "right")) for piece in held]
        yield np.unique(np.concatenate([piece[:cut] for piece, cut in zip(held, cuts, strict=True)]))
        held = [
            piece[cut:] if cut < len(piece) else next(pieces, _NONE)
            for piece, cut, pieces in zip(held, cuts, coming, strict=True)
        ]


# What receipt files say: each rank's passes as numbers of samples, and what was left out of them.


_HEAD_BYTES = 1 << 17
_AT_ONCE = RECORD_BYTES << 14
_MOST_PASSES = 1 << 16
_REASONS = {1: "corrupt", 3: "skipped"}  # by the flag


@dataclass
class RankPass:
    """One pass of a rank: ``samples`` from position ``start`` of ``epoch`` on, whether or not they were left out.

    ``left_out`` are numbers of samples, by the reason; ``records`` are the numbers of the first record and
    behind the last.
    """

    epoch: int
    start: int
    from_state: bool
    time_ns: int
    records: tuple[int, int]
    samples: int = 0
    ended: bool = False
    left_out: dict[str, LeftOutSamples] = field(default_factory=dict)


@dataclass(frozen=True)
class RankFile:
    """One file: its head, the passes, and the bytes of a record that a kill has cut off."""

    path: str
    head: Head
    passes: tuple[RankPass, ...]
    torn: int
    head_bytes: int


def receipt_paths(folder: str) -> list[str]:
    """The receipt files in a folder, in order; MissingError where there are none."""
    place = location_of(folder)
    if not place.is_directory(folder):
        raise MissingError(f"{folder} is no folder: name the one given as receipts=")
    found = sorted(name for name in place.names(folder) if name.endswith(SUFFIX))
    if not found:
        raise MissingError(f"{folder} holds no receipts: files that end in {SUFFIX}")
    return [os.path.join(folder, name) for name in found]


def read_receipts(path: str) -> RankFile | None:
    """What a file says; None where a kill came before its first record.

    Memory is taken by passes, and two bytes at most for a sample left out, not by batches. FormatError where it
    says what no loader writes: records that are damaged, that leave samples out of account, or more passes than a
    loader makes.
    """
    with location_of(path).open(path) as file:
        found = Head.unpacked(file.read_at(0, min(file.size, _HEAD_BYTES)), path)
        if found is None:
            return None
        head, offset = found
        reading, whole = _Reading(path, head), 0
        for number, record in _records(file, offset, path):
            reading.take(number, record)
            whole = number + 1
        torn = file.size - offset - whole * RECORD_BYTES
    return RankFile(path, head, tuple(reading.passes), torn, offset)


def records_of(file: RankFile) -> Iterator[tuple[int, Record]]:
    """The records of a file that has been read, with their numbers."""
    with location_of(file.path).open(file.path) as opened:
        yield from _records(opened, file.head_bytes, file.path)


def _records(file: Readable, offset: int, path: str) -> Iterator[tuple[int, Record]]:
    """The whole records of an open file, with their numbers.

    What a power cut leaves at the end of a file, zeros, is taken for a torn tail; all else that is damaged is refused.
    """
    whole, number = (file.size - offset) // RECORD_BYTES, 0
    while number < whole:
        data = _raw_records(file, offset, path, number, whole)
        for at in range(0, len(data), RECORD_BYTES):
            record = unpacked(data[at : at + RECORD_BYTES], number)
            if record is None:
                for behind in range(number, whole, _AT_ONCE // RECORD_BYTES):
                    if any(_raw_records(file, offset, path, behind, whole)):
                        place = f"record {number:,} of {whole:,}"
                        raise FormatError(f"{path}: {place} is damaged: something else was written there")
                return
            yield number, record
            number += 1


def _raw_records(file: Readable, offset: int, path: str, number: int, whole: int) -> memoryview:
    """The bytes of some records from ``number`` on, of as many as there are."""
    size = min(_AT_ONCE, (whole - number) * RECORD_BYTES)
    data = file.read_at(offset + number * RECORD_BYTES, size)
    if len(data) < size:
        raise FormatError(f"{path} became shorter while it was read")
    return memoryview(data)


class _Reading:
    """The passes of a file, as its records come."""

    def __init__(self, path: str, head: Head) -> None:
        self.passes: list[RankPass] = []
        self._path, self._head = path, head
        self._of_batch, self._last = 0, -1

    def take(self, number: int, record: Record) -> None:
        """One more record; FormatError where it does not go on from those before it."""
        if record.kind == BEGIN:
            self._begin(number, record)
            return
        current = self.passes[-1] if self.passes else None
        if current is None or current.ended or current.epoch != record.epoch:
            raise self._wrong(number, "it belongs to no pass")
        current.records = (current.records[0], number + 1)
        expected = current.start + current.samples * self._head.ranks
        if record.kind == END:
            if record.first != expected or self._of_batch:
                raise self._wrong(number, "the pass ends elsewhere than its batches")
            current.ended = True
        elif record.kind == LEFT_OUT:
            self._leave_out(number, record, current)
        else:
            assert record.kind == BATCH
            if (
                record.first != expected + self._head.rank
                or record.samples == 0
                or record.less != self._of_batch
            ):
                raise self._wrong(number, "its batch does not follow the one before it")
            current.samples += record.samples
            self._of_batch = 0
            steps = self._head.sharding(current.start).length
            if current.samples > steps:
                raise self._wrong(number, f"a pass has {many(steps, 'sample')} of a rank, and this one more")

    def _begin(self, number: int, record: Record) -> None:
        if self._of_batch or len(self.passes) >= _MOST_PASSES:
            raise self._wrong(number, "no loader begins a pass here")
        if record.first > 2 * self._head.samples + self._head.ranks:
            raise self._wrong(number, f"there is no position {record.first:,}")
        flags = bool(record.flag)
        self._last = -1
        self.passes.append(RankPass(record.epoch, record.first, flags, record.time_ns, (number, number + 1)))

    def _leave_out(self, number: int, record: Record, current: RankPass) -> None:
        sample, rest = divmod(record.first - current.start - self._head.rank, self._head.ranks)
        if rest or sample < current.samples or sample <= self._last:
            raise self._wrong(number, "it leaves out a sample that no loader leaves out there")
        self._of_batch += 1
        self._last = sample
        why = _REASONS.get(record.flag, "excluded")
        current.left_out.setdefault(why, LeftOutSamples()).add(sample)

    def _wrong(self, number: int, why: str) -> FormatError:
        return FormatError(f"{self._path}: record {number:,} says what no loader writes: {why}")


# Whether the rows of receipts are those that the order of a dataset gives for their positions.


def rows_that_differ(file: RankFile, dataset: UniRecordDataset[Any]) -> Iterator[str]:
    """Says which batches had other rows; StaleError or ValueError where the dataset is another one."""
    head, cursor = file.head, dataset.read_cursor
    ResumeState.from_dict({**head.order, "epoch": 0, "position": 0}).check(
        ResumeState.from_dict(cursor.state_at_front()), cursor.plan.order.drawn_difference
    )
    order = cursor.plan.order
    run: EpochRun | None = None
    taken, skipped = 0, []
    for number, record in records_of(file):
        if record.kind == BEGIN:
            sharding = head.sharding(record.first)
            run = EpochRun(
                record.epoch, order.order(record.epoch), sharding.first, head.ranks, sharding.length, record.first
            )  # fmt: skip
            taken = 0
        elif record.kind == LEFT_OUT:
            skipped.append(record.digest)
        elif record.kind == BATCH and run is not None:
            rows = order.selection.row_ids(run.positions(taken, taken + record.samples))
            if skipped:
                rows = rows[~np.isin(rows, skipped)]
                skipped.clear()
            if xxh3_64(np.ascontiguousarray(rows, "<i8")) != record.digest:
                yield (
                    f"{file.path}: record {number:,}: the batch from position {record.first:,} of epoch {record.epoch} "
                    "on had other rows than the dataset gives there"
                )
            taken += record.samples


# From the passes of ranks to the history of a job: which launches there were, and what a resume has undone.


EpochPosition = tuple[int, int]  # epoch, position


@dataclass(frozen=True)
class JobPass:
    """A pass over an epoch by those ranks of a launch that have begun it; ``over``: one has ended it, or gone on."""

    head: Head
    epoch: int
    start: int
    ranks: dict[int, RankPass]
    over: bool

    @property
    def front(self) -> int:
        """The position before which every rank has delivered what is its own."""
        if len(self.ranks) < self.head.ranks:
            return self.start
        return self.start + min(found.samples for found in self.ranks.values()) * self.head.ranks

    def delivered(self) -> Iterator[Stretch]:
        """The positions of all samples, also of those that came again after the end of the epoch."""
        order = sorted(self.ranks)
        ends = [self.ranks[rank].samples for rank in order]
        return stretches(self.start, self.head.ranks, np.array(order, np.int64), [0] * len(order), ends)

    def left_out_by_rule(self) -> Iterator[tuple[str, Stretch]]:
        """Which option leaves positions out of a pass that comes to its end, and which."""
        start, ranks, rows = self.start, self.head.ranks, self.head.samples
        size = self.head.batch_size if self.head.drop_last else 1
        most, least = (self.head.sharding(start, rank).length for rank in (0, ranks - 1))
        whole, whole_of_last = most // size * size, least // size * size
        shared = min(start + most * ranks, rows)
        if whole == whole_of_last:
            if start + whole * ranks < shared:
                yield "drop_last", Stretch(start + whole * ranks, shared, start, ranks)
        else:  # "uneven": the first ranks have one sample more, and with it a whole batch
            fewer = np.arange((rows - start) % ranks, ranks, dtype=np.int64)
            begin, end = start + whole_of_last * ranks, start + least * ranks
            yield "drop_last", Stretch(begin, end, start, ranks, fewer)
        if start <= shared < rows:
            yield "remainder", Stretch(shared, rows, start, ranks)


@dataclass
class Session:
    """Passes of one rank on end, of which only the first may begin where a loaded state says."""

    head: Head
    passes: list[RankPass]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the ranks of one launch."""
        first, head = self.passes[0], self.head
        return (first.epoch, first.start, first.from_state, head.ranks, head.batch_size, head.drop_last)


@dataclass
class Launch:
    """Ranks that have begun at the same place together; ``limit`` is where a later resume has cut it off."""

    head: Head
    place: EpochPosition
    from_state: bool
    time_ns: int
    sessions: dict[int, Session]
    limit: EpochPosition | None = None
    undone: int = 0  # samples that had been delivered behind the limit

    def passes(self) -> Iterator[JobPass]:
        """Its passes, epoch by epoch as they came."""
        grouped: dict[tuple[int, int, int], dict[int, RankPass]] = {}
        over: set[tuple[int, int, int]] = set()
        for rank, session in self.sessions.items():
            seen: dict[EpochPosition, int] = defaultdict(int)
            for number, found in enumerate(session.passes):
                place = (found.epoch, found.start)
                key = (*place, seen[place])
                seen[place] += 1
                grouped.setdefault(key, {})[rank] = found
                if found.ended or number + 1 < len(session.passes):
                    over.add(key)
        for key, ranks in grouped.items():
            yield JobPass(self.head, key[0], key[1], ranks, key in over)

    def cut(self, place: EpochPosition) -> None:
        """Notes that later launches have begun at a place: all from there on is undone."""
        self.limit = place
        for found in self.passes():
            stop = place[1] if found.epoch == place[0] else 0
            if found.epoch >= place[0]:
                behind = (stretch.clipped(stop, 1 << 64) for stretch in found.delivered())
                self.undone += sum(stretch.count for stretch in behind if stretch is not None)

    def stands(self, epoch: int) -> int | None:
        """The position of an epoch before which what it has delivered stands; None: all of it does."""
        if self.limit is None or epoch < self.limit[0]:
            return None
        return self.limit[1] if epoch == self.limit[0] else 0


def launches(files: Iterable[RankFile], restarts: bool) -> list[Launch]:
    """The launches of a job in the order of time, each cut where a later one has begun.

    A launch that begins where a loaded state says undoes what has been delivered from there on; with ``restarts`` every
    later launch does. The ranks of one begin at the same place; where ranks have begun there several times, the last
    time counts for each if that undoes the others, and the first, the second, … belong together if it does not.
    """
    begun: dict[tuple[object, ...], dict[int, list[Session]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        for session in _sessions(file):
            begun[session.key][file.head.rank].append(session)
    found: list[Launch] = []
    for by_rank in begun.values():
        for sessions in by_rank.values():
            sessions.sort(key=lambda session: session.passes[0].time_ns)
        found += _together(by_rank)
    found.sort(key=lambda launch: launch.time_ns)
    limit: EpochPosition | None = None
    for launch in reversed(found):
        if limit is not None:
            launch.cut(limit)
        if launch.from_state or restarts:
            limit = launch.place if limit is None else min(limit, launch.place)
    return found


def _sessions(file: RankFile) -> Iterator[Session]:
    current: list[RankPass] = []
    for found in file.passes:
        if found.from_state and current:
            yield Session(file.head, current)
            current = []
        current.append(found)
    if current:
        yield Session(file.head, current)


def _together(by_rank: dict[int, list[Session]]) -> Iterator[Launch]:
    """Launches that begin at one place: the last ones of all ranks, those before them, and so on."""
    for back in range(max(map(len, by_rank.values())), 0, -1):
        sessions = {rank: found[-back] for rank, found in by_rank.items() if len(found) >= back}
        firsts = [session.passes[0] for session in sessions.values()]
        head = next(iter(sessions.values())).head
        place = (firsts[0].epoch, firsts[0].start)
        yield Launch(head, place, firsts[0].from_state, max(f.time_ns for f in firsts), sessions)
