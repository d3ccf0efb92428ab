"""What receipt files say: each rank's passes as numbers of samples, and what was left out of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..dataset.receipts import BATCH, BEGIN, END, LEFT_OUT, RECORD_BYTES, SUFFIX, Head, Record, unpacked
from ..errors import FormatError, MissingError
from ..storage.location import Readable
from ..storage.registry import location_of
from .left_out_samples import LeftOutSamples

__all__ = ["RankFile", "RankPass", "records_of", "receipt_paths", "read_receipts"]

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
        reading, records = _Reading(path, head), _Records(file, offset, path)
        for number, record in records:
            reading.take(number, record)
    return RankFile(path, head, tuple(reading.passes), records.torn, offset)


def records_of(file: RankFile) -> Iterator[tuple[int, Record]]:
    """The records of a file that has been read, with their numbers."""
    with location_of(file.path).open(file.path) as opened:
        yield from _Records(opened, file.head_bytes, file.path)


class _Records:
    """The records of an open file; ``torn`` is the number of bytes behind the last whole one."""

    def __init__(self, file: Readable, offset: int, path: str) -> None:
        self._file, self._offset, self._path = file, offset, path
        self._whole, self.torn = divmod(file.size - offset, RECORD_BYTES)

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        number = 0
        while number < self._whole:
            asked = min(_AT_ONCE, (self._whole - number) * RECORD_BYTES)
            data = memoryview(self._read(number, asked))
            for at in range(0, asked, RECORD_BYTES):
                record = unpacked(data[at : at + RECORD_BYTES], number)
                if record is None:
                    self._end_at(number)
                    return
                yield number, record
                number += 1

    def _end_at(self, number: int) -> None:
        """Takes what a power cut leaves at the end of a file, zeros, for a torn tail; all else is refused."""
        for at in range(number, self._whole, _AT_ONCE // RECORD_BYTES):
            if any(self._read(at, min(_AT_ONCE, (self._whole - at) * RECORD_BYTES))):
                place = f"record {number:,} of {self._whole:,}"
                raise FormatError(f"{self._path}: {place} is damaged: something else was written there")
        self.torn += (self._whole - number) * RECORD_BYTES

    def _read(self, number: int, size: int) -> bytes:
        data = self._file.read_at(self._offset + number * RECORD_BYTES, size)
        if len(data) < size:
            raise FormatError(f"{self._path} became shorter while it was read")
        return data


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
                raise self._wrong(number, f"a pass has {steps:,} samples of a rank, and this one more")

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
