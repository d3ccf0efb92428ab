"""The bytes of a receipt file: a head that says what is delivered, and records of a fixed size (docs/order.md)."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

from ..errors import FormatError
from ..order.spec import REMAINDERS, JobSteps, Sharding, check_integer
from .state import ResumeState

__all__ = [
    "BATCH",
    "BEGIN",
    "END",
    "LEFT_OUT",
    "MOST_RANKS",
    "RECORD_BYTES",
    "SUFFIX",
    "Head",
    "Record",
    "order_of",
    "packed",
    "unpacked",
]

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

    ``order`` is a state (docs/order.md) without its place, ``samples`` the rows in play, ``rank`` of ``ranks`` the one
    whose batches of ``batch_size`` samples these are.
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
            raise ValueError(f"the order takes {len(text):,} bytes to describe; receipts hold {_MOST_JSON:,}")
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
            raise FormatError(f"{path}: a head of {length:,} bytes; at most {_MOST_JSON:,} are written")
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
