"""Strings and objects as Python has them, made of bytes by the C core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from ..sizes import many
from .library import Handle, buffer_of, ffi, lib, raise_refused

# Whether bytes are an object: csrc/base/object.c.


_check_object = lib.ur_object_check  # looked up once: objects are small and many


def check_object(raw: bytes) -> None:
    """CorruptionError when ``raw`` is no msgpack by the rules of docs/spec/format.md; strings may be any bytes."""
    if _check_object(raw, len(raw), ffi.NULL) == lib.UR_OK:
        return
    error = ffi.new("ur_error *")
    _check_object(raw, len(raw), error)
    raise_refused(error, other=CorruptionError)


def is_canonical(raw: bytes) -> bool:
    """Whether an object that `check_object` has found good is in its one form: short heads, floats of 64 bits."""
    return bool(lib.ur_object_is_canonical(raw, len(raw)))


# What objects are made of: csrc/base/shapes.c.


class ShapeKind(IntFlag):
    """Which values stand at a place, as ``ur_shape_kind`` has it."""

    NULL = lib.UR_SHAPE_NULL
    BOOL = lib.UR_SHAPE_BOOL
    INTEGER = lib.UR_SHAPE_INTEGER
    REAL = lib.UR_SHAPE_REAL
    TEXT = lib.UR_SHAPE_TEXT
    BYTES = lib.UR_SHAPE_BYTES
    LIST = lib.UR_SHAPE_LIST
    MAP = lib.UR_SHAPE_MAP
    OTHER = lib.UR_SHAPE_OTHER


@dataclass(frozen=True)
class ObjectShape:
    """Which values stand at one place of many objects.

    Attributes:
        kinds: which there are.
        integers: the least and the greatest of them; with 0 where all are on one side of it.
        most_real: the greatest magnitude of finite reals.
        sizes: the least and the greatest number of items of lists, or of bytes.
        items: what stands in the lists; None where all are empty.
        fields: what stands under each key of the maps.
    """

    kinds: ShapeKind
    integers: tuple[int, int] = (0, 0)
    most_real: float = 0.0
    sizes: tuple[int, int] = (0, 0)
    items: ObjectShape | None = None
    fields: tuple[tuple[str, ObjectShape], ...] = ()


class ObjectShapes:
    """What many objects are made of, all of them taken together."""

    def __init__(self) -> None:
        made = lib.ur_shapes_new()
        if made == ffi.NULL:
            raise MemoryError("no memory for the shapes of objects")
        self._handle = Handle(made, lib.ur_shapes_release)

    def add(self, content: bytes, starts: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> None:
        """Take objects into account, each so many bytes of ``content``, as msgpack; their strings are UTF-8."""
        if len(starts) and int((starts + sizes).max()) > len(content):
            raise ValueError("an object ends behind the content")
        status = lib.ur_shapes_add(
            self._handle.pointer, ffi.from_buffer("uint8_t[]", content), ffi.from_buffer("uint64_t[]", starts),
            ffi.from_buffer("uint64_t[]", sizes), len(starts),
        )  # fmt: skip
        if status == lib.UR_NO_MEMORY:
            raise MemoryError("no memory for the shapes of objects")
        if status != lib.UR_OK:
            raise ValueError("an object is no well-formed msgpack")

    def whole(self) -> ObjectShape | None:
        """What the objects are; None where they have too many different keys, or keys that are no text."""
        nodes, names = ffi.new("ur_shape **"), ffi.new("char **")
        if not lib.ur_shapes_all(self._handle.pointer, nodes, names):
            return None

        def shape(number: int) -> ObjectShape:
            node = nodes[0][number]
            fields, field = [], node.fields
            while field:
                one = nodes[0][field]
                name = ffi.buffer(names[0] + one.name, one.name_bytes)[:].decode()
                fields.append((name, shape(field)))
                field = one.next
            return ObjectShape(
                ShapeKind(node.kinds), (node.least, node.most), node.most_real, (node.least_size, node.most_size),
                shape(node.items) if node.items else None, tuple(fields),
            )  # fmt: skip

        return shape(0)


# Strings of a column one after the other in memory: the distinct ones, and the least and greatest:
# csrc/scan/distinct.c.


Bools = npt.NDArray[np.bool_]


class DistinctStrings:
    """The distinct ones among strings, numbered from 0 in the order in which they are met."""

    def __init__(self, most_count: int, most_bytes: int) -> None:
        """``most_count``, ``most_bytes``: how many strings, and bytes of all of them, it is to hold."""
        out = ffi.new("ur_distinct **")
        _check(lib.ur_distinct_new(most_count, most_bytes, out))
        self._handle = Handle(out[0], lib.ur_distinct_release)

    def add(
        self, data: Any, ends: npt.NDArray[np.int64], valid: Bools | None
    ) -> npt.NDArray[np.uint32] | None:
        """Take in ``data[ends[i] : ends[i + 1]]`` where ``valid``; None where not all could be held.

        Returns the number of each string, 2^32 - 1 where it is not valid.
        """
        full = ffi.new("int32_t *")
        arguments = _strings(data, ends, valid)
        found = np.empty(arguments[-1], np.uint32)
        numbers = ffi.from_buffer("uint32_t[]", found)
        _check(lib.ur_distinct_add(self._handle.pointer, *arguments, numbers, full))
        return None if full[0] else found

    def numbers(self, data: Any, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """The number of each string, 2^32 - 1 where it has none."""
        start, places, _, count = _strings(data, ends, None)
        found = np.empty(count, np.uint32)
        lib.ur_distinct_find(self._handle.pointer, start, places, count, ffi.from_buffer("uint32_t[]", found))
        return found

    def __len__(self) -> int:
        return int(lib.ur_distinct_count(self._handle.pointer, ffi.new("uint64_t *")))

    def packed(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The strings by number, one after the other, and where each begins and the last one ends."""
        size = ffi.new("uint64_t *")
        count = int(lib.ur_distinct_count(self._handle.pointer, size))
        content, ends = np.empty(int(size[0]), np.uint8), np.empty(count + 1, np.int64)
        lib.ur_distinct_copy(
            self._handle.pointer, ffi.from_buffer("uint8_t[]", content), ffi.from_buffer("uint64_t[]", ends)
        )
        return content, ends


# Strings in the order of their bytes, and chosen ones: csrc/scan/text_order.c.


Int64s = npt.NDArray[np.int64]
StringPiece = tuple[npt.NDArray[np.uint8], Int64s, Int64s]  # bytes, and where strings start and stop in them


def order_of_strings(pieces: Sequence[StringPiece]) -> Int64s:
    """The numbers of the strings of all pieces, counted from 0 through all of them, in order."""
    return _ordered(pieces, ranks=False)


def ranks_of_strings(pieces: Sequence[StringPiece]) -> Int64s:
    """For each string of all pieces how many of them are less: equal for equal strings."""
    return _ordered(pieces, ranks=True)


def _ordered(pieces: Sequence[StringPiece], *, ranks: bool) -> Int64s:
    c_pieces, kept = ffi.new("ur_string_piece[]", len(pieces)), []
    for c_piece, (data, starts, stops) in zip(c_pieces, pieces, strict=True):
        if len(starts) and not (starts.min() >= 0 and (starts <= stops).all() and stops.max() <= len(data)):
            raise ValueError("a string stops before it starts, or leads out of the data")
        kept.append([ffi.from_buffer("uint8_t[]", data), _places(starts), _places(stops)])
        c_piece.data, c_piece.starts, c_piece.stops = kept[-1]
        c_piece.count = len(starts)
    found = np.empty(sum(len(starts) for _, starts, _ in pieces), np.int64)
    out = ffi.from_buffer("uint64_t[]", found)
    _check(lib.ur_strings_order(c_pieces, len(pieces), *((ffi.NULL, out) if ranks else (out, ffi.NULL))))
    return found


def take_strings(
    data: npt.NDArray[np.uint8], ends: Int64s, chosen: Int64s
) -> tuple[npt.NDArray[np.uint8], Int64s]:
    """Of ``data[ends[i] : ends[i + 1]]``, whose ends have been checked, the chosen ones, and where they end."""
    count = len(ends) - 1
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < count:
        raise IndexError(f"there are {many(count, 'string')}")
    content = np.empty(int((ends[chosen + 1] - ends[chosen]).sum()), np.uint8)
    found = np.empty(len(chosen) + 1, np.int64)
    lib.ur_strings_take(
        ffi.from_buffer("uint8_t[]", data), _places(ends), _places(chosen), len(chosen),
        ffi.from_buffer("uint8_t[]", content), ffi.from_buffer("uint64_t[]", found),
    )  # fmt: skip
    return content, found


def extreme_strings(
    data: Any, ends: npt.NDArray[np.int64], valid: Bools | None
) -> tuple[bytes, bytes] | None:
    """The least and the greatest of the strings that are valid; None without one."""
    least, greatest = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    if not lib.ur_strings_extremes(*_strings(data, ends, valid), least, greatest):
        return None
    view = memoryview(data).cast("B")
    low, high = int(least[0]), int(greatest[0])
    return bytes(view[ends[low] : ends[low + 1]]), bytes(view[ends[high] : ends[high + 1]])


def _strings(data: Any, ends: npt.NDArray[np.int64], valid: Bools | None) -> tuple[Any, Any, Any, int]:
    """The arguments of strings; ValueError where the ends lead out of the data."""
    view = memoryview(data).cast("B")
    count = len(ends) - 1
    if int(ends[0]) < 0 or int(ends[-1]) > len(view) or (ends[1:] < ends[:-1]).any():
        raise ValueError("the ends of strings fall, or lead out of the data")
    if valid is not None and len(valid) != count:
        raise ValueError(f"{many(count, 'string')}, but {many(len(valid), 'flag')}")
    flags = ffi.NULL if valid is None else ffi.from_buffer("uint8_t[]", np.ascontiguousarray(valid))
    return ffi.from_buffer("uint8_t[]", buffer_of(view)), _places(ends), flags, count


def _places(places: npt.NDArray[np.int64]) -> Any:
    return ffi.from_buffer("uint64_t[]", np.ascontiguousarray(places, np.int64))


def _check(status: int) -> None:
    if status == lib.UR_NO_MEMORY:
        raise MemoryError("no memory for the strings of a column")
    if status != lib.UR_OK:
        raise ValueError("at most 2^31 - 1 distinct strings")
