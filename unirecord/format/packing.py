"""Which sections of an index are packed or have a dictionary, and their elements <-> bytes; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core import PackedArray, pack_numbers, packed_bytes
from ..errors import FormatError
from . import layout
from .layout import Section

Array = npt.NDArray[Any]
_WORD: Final = 64  # elements that take whole words, whatever their bits


class Packing(NamedTuple):
    """Bits of an element, and what is added to them."""

    bits: int
    base: int


def span_of(dtype: np.dtype[Any], *, is_bool: bool = False) -> tuple[int, int]:
    """Least and greatest number of a type of bools or integers."""
    if is_bool or dtype.kind == "b":
        return 0, 1
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def packing_of(span: tuple[int, int], width: int, least: int, greatest: int, rows: int) -> Packing | None:
    """How ``rows`` numbers from ``least`` to ``greatest`` are packed; None where they are not.

    ``span``: of their type, of ``width`` bytes. Packed numbers take at most two thirds of the bytes.
    """
    bits = max((greatest - least).bit_length(), 1)
    if bits > layout.MAX_PACKED_BITS or 3 * packed_bytes(rows, bits) > 2 * width * rows:
        return None
    base = min(least, span[1] - (1 << bits) + 1)
    return Packing(bits, base) if base >= span[0] else None


def code_packing(entries: int, rows: int) -> tuple[np.dtype[Any], Packing | None]:
    """Dtype of the codes of a dictionary, and how ``rows`` of them are packed: where that takes fewer bytes."""
    dtype, bits = np.min_scalar_type(max(entries - 1, 0)), max((entries - 1).bit_length(), 1)
    pays = packed_bytes(rows, bits) < dtype.itemsize * rows
    return dtype, Packing(bits, 0) if pays else None


# Dictionaries of numbers have their entries in the order of keys, by which no two that differ in a bit are the same.


def to_keys(values: Array) -> Array:
    """Integers as they are; floats as unsigned integers: by value, -0.0 before 0.0, NaN beyond infinity of its sign."""
    if values.dtype.kind != "f":
        return values
    bits = values.view(f"<u{values.itemsize}")
    sign = bits.dtype.type(1 << 8 * values.itemsize - 1)
    return np.where(bits & sign != 0, ~bits, bits | sign)


def from_keys(keys: Array, dtype: np.dtype[Any]) -> Array:
    """The numbers of these keys."""
    if dtype.kind != "f":
        return keys
    sign = keys.dtype.type(1 << 8 * keys.itemsize - 1)
    return np.where(keys & sign != 0, keys ^ sign, ~keys).view(dtype)


def check_packing(entry: Section, span: tuple[int, int] | None) -> None:
    """FormatError unless the section may be packed so; ``span``: of the numbers that it may hold, None: of none."""
    bits, base = entry.bits, entry.extra
    if entry.kind not in (layout.SECTION_VALUES, layout.SECTION_CODES) or span is None:
        raise FormatError(f"section {entry.kind} of column {entry.column} cannot be packed")
    if span[0] < 0 and base >> 63:
        base -= 1 << 64
    if (
        bits > layout.MAX_PACKED_BITS
        or bits >= 8 * entry.width
        or not span[0] <= base <= span[1] + 1 - (1 << bits)
    ):
        raise FormatError(
            f"section {entry.kind} of column {entry.column} has {bits} bits from {base} on, which its type has not"
        )
    if entry.kind == layout.SECTION_CODES and base:
        raise FormatError(f"the codes of column {entry.column} have a base")


def section_bytes(width: int, count: int, bits: int) -> int:
    """Bytes of a section."""
    return packed_bytes(count, bits) if bits else width * count


def read_numbers(
    read: Callable[[int, int], bytes], entry: Section, dtype: npt.DTypeLike, start: int, stop: int
) -> Array:
    """Elements [start, stop) of a section, of a file of which ``read`` gives bytes by offset and size."""
    if not entry.bits:
        width = np.dtype(dtype).itemsize
        return np.frombuffer(read(entry.offset + start * width, (stop - start) * width), dtype)
    first = start - start % _WORD
    raw = read(entry.offset + first * entry.bits // 8, packed_bytes(stop - first, entry.bits))
    numbers = PackedArray(np.frombuffer(raw, np.uint8), dtype, stop - first, entry.bits, entry.extra)
    return numbers.span(start - first, stop - first)


class Packer:
    """Packs numbers across blocks; or hands them on as they are."""

    def __init__(self, dtype: npt.DTypeLike, packing: Packing | None) -> None:
        self._packing = packing
        self._carry: Array = np.zeros(0, dtype)

    def push(self, values: Array, last: bool) -> Array:
        """What a block adds to the section."""
        if self._packing is None:
            return values
        values = np.concatenate([self._carry, values])
        whole = len(values) if last else len(values) // _WORD * _WORD
        self._carry = values[whole:].copy()
        content = pack_numbers(values[:whole], self._packing.bits, self._packing.base)
        return content if last else content[:-8]
