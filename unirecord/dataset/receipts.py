"""Receipts: what a rank's loader hands out is written down batch by batch, for `unirecord audit`."""

from __future__ import annotations

import json
import os
import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from time import time_ns
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from ..core import xxh3_64
from ..errors import FormatError, UniRecordError
from ..loading.loader import LoaderOptions, TrackedBatch
from ..loading.plan import Plan
from ..order.exclusion import ExclusionMask
from ..order.permutation import EpochRun
from ..order.spec import REMAINDERS, JobSteps, Sharding, check_integer
from ..sizes import many
from ..storage.local import AppendedFile, make_directories
from .cursor import ResumeState

__all__ = [
    "BATCH",
    "BEGIN",
    "END",
    "Head",
    "LEFT_OUT",
    "MOST_RANKS",
    "PassReceipts",
    "RECORD_BYTES",
    "Receipts",
    "Record",
    "SUFFIX",
    "order_of",
    "packed",
    "receipts_of",
    "unpacked",
]


# The bytes of a receipt file: a head that says what is delivered, and records of a fixed size (docs/spec/receipts.md).


SUFFIX: Final = ".receipts"
MOST_RANKS: Final = 1 << 20
BEGIN, BATCH, LEFT_OUT, END = 1, 2, 3, 4

_MAGIC: Final = b"URRECPT\x01"
_START: Final = struct.Struct("<8sII")  # magic, bytes of JSON, CRC-32 of them
_MOST_JSON: Final = 1 << 16
# kind, flag, 0, count, epoch, first, digest, nanoseconds, less; the CRC-32 is of these behind the record's number
_RECORD: Final = struct.Struct("<BBHIQQQqI")
_NUMBERED: Final = struct.Struct("<QBBHIQQQqI")
RECORD_BYTES: Final = _RECORD.size + 4
_PLACE: Final = ("epoch", "position", "excluded")


class Record(NamedTuple):
    """One record.

    ``flag`` of BEGIN says whether a state was loaded, that of LEFT_OUT why (1: corrupt, 2: excluded, 3: an operator).
    ``first`` is a global position. BEGIN: the one at which the pass begins. BATCH: that of the first of ``samples``
    samples of the rank, of which ``less`` have been left out; ``digest`` is XXH3-64 of the rows of the others, as i64.
    LEFT_OUT: that of a sample; ``digest`` is its row. END: that after the pass, which came to its end.
    """

    kind: int
    epoch: int
    first: int
    flag: int = 0
    samples: int = 0
    less: int = 0
    digest: int = 0
    time_ns: int = 0


def packed(record: Record | tuple[int, int, int, int, int, int, int, int], number: int) -> bytes:
    """The bytes of a record, or of its values, which is number ``number`` of its file."""
    kind, epoch, first, flag, samples, less, digest, time_ns = record
    data = _NUMBERED.pack(number, kind, flag, 0, samples, epoch, first, digest, time_ns, less)
    return data[8:] + crc32(data).to_bytes(4, "little")


def unpacked(data: bytes | memoryview, number: int) -> Record | None:
    """The record in these ``RECORD_BYTES`` bytes; None where they are not what was written as number ``number``."""
    body = data[: _RECORD.size]
    expected = crc32(body, crc32(number.to_bytes(8, "little")))
    if int.from_bytes(data[_RECORD.size :], "little") != expected:
        return None
    kind, flag, zero, count, epoch, first, digest, time_ns, less = _RECORD.unpack(body)
    if zero or not BEGIN <= kind <= END or less > count or epoch >> 63 or first >> 63:
        return None
    return Record(kind, epoch, first, flag, count, less, digest, time_ns)


@dataclass(frozen=True)
class Head:
    """What all records of a file have in common.

    ``order`` is a state (docs/spec/states.md) without its place, ``samples`` the selected rows, ``rank`` of ``ranks``
    the one whose batches of ``batch_size`` samples these are.
    """

    order: Mapping[str, Any]
    samples: int
    rank: int
    ranks: int
    batch_size: int
    drop_last: bool

    @property
    def key(self) -> str:
        """Equal for files of one sequence of positions: a mixture's weights may change while it goes on."""
        order, drawn = dict(self.order), self.order.get("drawn")
        if drawn and drawn.get("rule") == "mixture":
            order["drawn"] = {name: value for name, value in drawn.items() if name != "weights"}
        return json.dumps([order, self.samples], sort_keys=True, default=str)

    def sharding(self, start: int = 0, rank: int | None = None) -> Sharding:
        """The samples of the rank, or of another, in a pass from ``start`` on."""
        own = self.rank if rank is None else rank
        return Sharding(self.samples, own, self.ranks, self.order["remainder"], start)

    def steps(self, start: int) -> JobSteps:
        """The steps of a pass."""
        return JobSteps(self.sharding(start), self.batch_size, self.drop_last)

    def packed(self) -> bytes:
        """The bytes before the first record."""
        fields = {
            "order": dict(self.order), "samples": self.samples, "rank": self.rank, "ranks": self.ranks,
            "batch_size": self.batch_size, "drop_last": self.drop_last,
        }  # fmt: skip
        text = json.dumps(fields, sort_keys=True).encode()
        if len(text) > _MOST_JSON:
            raise ValueError(
                f"the order takes {many(len(text), 'byte')} to describe; receipts hold {_MOST_JSON:,}"
            )
        return _START.pack(_MAGIC, len(text), crc32(text)) + text

    @classmethod
    def unpacked(cls, data: bytes, path: str) -> tuple[Head, int] | None:
        """The head at the front of a file and its size; None where it is cut off: a kill came before the first record.

        FormatError where it is another file, or none that a loader writes.
        """
        if data[:8] != _MAGIC[: len(data)]:
            raise FormatError(f"{path} is no receipt file: it begins with {data[:8]!r}")
        if len(data) < _START.size:
            return None
        _, length, crc = _START.unpack_from(data)
        if length > _MOST_JSON:
            raise FormatError(f"{path}: a head of {many(length, 'byte')}; at most {_MOST_JSON:,} are written")
        text = data[_START.size : _START.size + length]
        if len(text) < length:
            return None
        if crc32(text) != crc:
            raise FormatError(f"{path}: the head is damaged: its checksum is not the one that was written")
        try:
            return cls._checked(json.loads(text)), _START.size + length
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise FormatError(f"{path}: the head says nothing that a loader writes: {error}") from None

    @classmethod
    def _checked(cls, fields: Any) -> Head:
        names = {"order", "samples", "rank", "ranks", "batch_size", "drop_last"}
        if not isinstance(fields, dict) or set(fields) != names:
            raise ValueError("its fields are others")
        order = fields["order"]
        state = ResumeState.from_dict({**order, "epoch": 0, "position": 0})
        if set(order) & set(_PLACE) or state.remainder not in REMAINDERS:
            raise ValueError("its order has a place")
        if not isinstance(fields["drop_last"], bool):
            raise ValueError("drop_last is no bool")
        samples = check_integer("samples", fields["samples"], 0, 1 << 62)
        rank, ranks, size = (check_integer(n, fields[n], 0) for n in ("rank", "ranks", "batch_size"))
        head = cls(order, samples, rank, ranks, size, fields["drop_last"])
        check_integer("batch_size", head.batch_size, 1, (1 << 32) - 1)
        check_integer("ranks", head.ranks, 1, MOST_RANKS)
        head.steps(0)  # refuses ranks and batch sizes that are out of range
        return head


def order_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """What of a state says which samples its positions are: all but the place."""
    return {name: value for name, value in state.items() if name not in _PLACE}


_CORRUPT, _EXCLUDED, _SKIPPED = 1, 2, 3
_NO_ROWS = xxh3_64(b"")
_MOST_AT_ONCE = 1 << 16  # samples of batches without a row that one record speaks of


class Receipts:
    """The receipts of one loader: a file for each process, and for each order that it delivers."""

    def __init__(self, folder: str | os.PathLike[str], options: LoaderOptions) -> None:
        path = os.fspath(folder)
        if not isinstance(path, str) or "://" in path:
            raise ValueError(f"receipts are written to a folder on a disk, not to {path!r}")
        if options.batch_size >> 32:
            raise ValueError(
                f"receipts are of batches of less than 2^32 samples, not of {options.batch_size:,}"
            )
        self._folder = os.path.abspath(path)
        self._options = options
        self._file: AppendedFile | None = None
        self._head: Head | None = None
        self._written = 0

    @property
    def batch_size(self) -> int:
        """Samples of a batch."""
        return self._options.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether a last batch that is smaller is left out."""
        return self._options.drop_last

    def begin(self, plan: Plan, run: EpochRun, state: Mapping[str, Any], from_state: bool) -> PassReceipts:
        """Notes that a pass begins; ``state`` is any of the dataset, ``from_state`` whether one was loaded for it."""
        sharding, options = plan.order.sharding, self._options
        if sharding.num_shards > MOST_RANKS:
            raise ValueError(f"receipts are of at most {MOST_RANKS:,} ranks, not of {sharding.num_shards:,}")
        rank, ranks, size = sharding.shard_id, sharding.num_shards, options.batch_size
        head = Head(order_of(state), sharding.rows, rank, ranks, size, options.drop_last)
        begin = Record(BEGIN, run.epoch, run.start, flag=int(from_state), time_ns=time_ns())
        if self._file is None or not self._file.is_open or head != self._head:
            self._open(head, begin)
        else:
            self.write(begin)
        return PassReceipts(self, plan, run)

    def _open(self, head: Head, begin: Record) -> None:
        if self._file is not None:
            self._file.close()
        name = f"{begin.time_ns:020d}-rank-{head.rank}-of-{head.ranks}-{secrets.token_hex(4)}{SUFFIX}"
        start = head.packed()
        try:
            make_directories(self._folder)
            self._file, self._head, self._written = AppendedFile(os.path.join(self._folder, name)), head, 0
            self._file.append(start + packed(begin, 0))
        except OSError as error:
            raise _without_receipt(error, self._folder) from error
        self._written = 1

    def write(self, *records: Record) -> None:
        """Appends records with one system call; what it has taken stays, whatever becomes of the process."""
        self._append(
            b"".join(packed(record, number) for number, record in enumerate(records, self._written)),
            len(records),
        )

    def write_batch(self, epoch: int, first: int, samples: int, digest: int) -> None:
        """Appends the record of a batch of which nothing is left out."""
        data = packed((BATCH, epoch, first, 0, samples, 0, digest, time_ns()), self._written)
        self._append(data, 1)

    def _append(self, data: bytes, records: int) -> None:
        file = self._file
        assert file is not None
        if not file.is_open:
            raise UniRecordError(
                f"{file.path} takes no more receipts: it could not be written before, or belongs to the process that "
                "this one was forked from; iterate anew"
            )
        try:
            file.append(data)
        except OSError as error:
            raise _without_receipt(error, file.path) from error
        self._written += records

    def sync(self) -> None:
        """Makes what has been written durable."""
        if self._file is not None:
            self._file.sync()

    def __reduce__(self) -> tuple[Any, ...]:
        return Receipts, (self._folder, self._options)


def receipts_of(folder: str | os.PathLike[str], batch_size: int, drop_last: bool) -> Receipts:
    """The receipts of batches of a size."""
    return Receipts(folder, LoaderOptions(batch_size, drop_last=drop_last))


def _without_receipt(error: OSError, path: str) -> OSError:
    """The same error, with what follows from it."""
    text = f"{error.strerror or error}: no receipt could be written, so the batch is not handed out"
    return type(error)(error.errno or 0, text, error.filename or path)


class PassReceipts:
    """The receipts of one pass; ``exclusion_mask`` says what is left out on purpose."""

    exclusion_mask: ExclusionMask  # of what is left of the pass, when that begins

    def __init__(self, receipts: Receipts, plan: Plan, run: EpochRun) -> None:
        self._receipts, self._plan, self._run = receipts, plan, run
        self._taken = 0  # samples of the pass that records speak of
        size = receipts.batch_size
        self._most_empty = size * max(1, _MOST_AT_ONCE // size)

    def batch(self, delivered: TrackedBatch[Any]) -> None:
        """Notes a batch that is about to be handed out."""
        if self.exclusion_mask or delivered.left_out:
            self._note(delivered.end, delivered.left_out, delivered.digest)
            return
        run, start = self._run, self._taken
        self._taken = stop = (delivered.end - run.start) // run.stride
        first = run.first + start * run.stride
        self._receipts.write_batch(run.epoch, first, stop - start, delivered.digest)

    def left_out(self, rows: tuple[int, ...], end: int) -> None:
        """Notes rows behind the last batch, as far as a position, that have been left out."""
        if end > self._run.after(self._taken):
            self._note(end, rows, _NO_ROWS)

    def result(self, end: int, rows: Any, left_out: Mapping[int, str | None]) -> None:
        """Notes a result of these rows that is about to be handed out, one or a list.

        ``left_out`` has rows that were left out, and why; None: they are corrupt.
        """
        given = np.atleast_1d(np.asarray(rows, np.int64))
        run, start = self._run, self._taken
        stop = (end - run.start) // run.stride
        if not self.exclusion_mask and len(given) == stop - start:
            self._taken = stop
            self._receipts.write_batch(
                run.epoch, run.first + start * run.stride, stop - start, xxh3_64(given)
            )
        elif not self._write_matched(stop, given.tolist(), left_out):
            raise UniRecordError(
                f"the result up to position {end:,} of epoch {run.epoch} is not of the rows that stand there: no "
                "receipt can be written of it"
            )

    def rest(self, end: int, left_out: Mapping[int, str | None]) -> None:
        """Notes the end of the pass, and what was left out behind the last result."""
        run, size = self._run, self._receipts.batch_size
        stop = (end - run.start) // run.stride
        if self._receipts.drop_last:
            stop = stop // size * size
        if stop > self._taken:
            self._write_matched(
                stop, [], left_out
            )  # unless some of it has been dropped, of which an audit knows
        self.end()

    def _write_matched(self, stop: int, rows: list[int], left_out: Mapping[int, str | None]) -> bool:
        """Writes which samples as far as one are these rows, and which are left out; False where they are not all."""
        run, start, size = self._run, self._taken, self._receipts.batch_size
        front, behind = start // size * size, min(-(-stop // size) * size, run.samples)
        found = self.exclusion_mask.of_rank(run.first, run.stride, front, behind)
        here = slice(start - front, stop - front)
        own, given, out = found.own[here], found.given[here], found.out[here]
        now, first = time_ns(), run.first + start * run.stride
        notes: list[Record] = []
        kept: list[int] = []
        coming = iter(rows)
        expected = next(coming, None)
        for i, (row, there, is_out) in enumerate(
            zip(own.tolist(), given.tolist(), out.tolist(), strict=True)
        ):
            came = there == expected and not (is_out and there == row)
            expected = next(coming, None) if came else expected
            if came and not is_out:
                kept.append(row)
            elif not is_out and row not in left_out:
                return False
            else:
                why = _EXCLUDED if is_out else _CORRUPT if left_out[row] is None else _SKIPPED
                notes.append(
                    Record(LEFT_OUT, run.epoch, first + i * run.stride, why, digest=row, time_ns=now)
                )
        if expected is not None:
            return False
        digest = xxh3_64(np.array(kept, np.int64))
        self._receipts.write(
            *notes, Record(BATCH, run.epoch, first, 0, stop - start, len(notes), digest, now)
        )
        self._taken = stop
        return True

    def sync(self) -> None:
        """Makes what has been written durable."""
        self._receipts.sync()

    def end(self) -> None:
        """Notes that the pass has come to its end."""
        run = self._run
        self._receipts.write(Record(END, run.epoch, run.after(self._taken), time_ns=time_ns()))
        self._receipts.sync()

    def _note(self, end: int, left_out: tuple[int, ...], digest: int) -> None:
        run = self._run
        stop, most = (end - run.start) // run.stride, self._most_empty
        while stop - self._taken > most:  # of which all but the last batch is left out
            self._note_samples(self._taken + most, left_out, _NO_ROWS)
        self._note_samples(stop, left_out, digest)

    def _note_samples(self, stop: int, left_out: tuple[int, ...], digest: int) -> None:
        run, start = self._run, self._taken
        first = run.first + start * run.stride
        now = time_ns()
        notes = [
            Record(LEFT_OUT, run.epoch, first + i * run.stride, why, digest=row, time_ns=now)
            for i, why, row in self._gone(start, stop, left_out)
        ]
        batch = Record(BATCH, run.epoch, first, 0, stop - start, len(notes), digest, now)
        self._receipts.write(*notes, batch)
        self._taken = stop

    def _gone(self, start: int, stop: int, corrupt: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """(number, why, row) of those samples [start, stop) that have been left out."""
        run = self._run
        found = self.exclusion_mask.of_rank(run.first, run.stride, start, stop)
        rows, why = found.own, np.where(found.out, _EXCLUDED, 0)
        why[np.isin(rows, corrupt) & (why == 0)] = _CORRUPT
        places = np.flatnonzero(why)
        return list(zip(places.tolist(), why[places].tolist(), rows[places].tolist(), strict=True))
