"""All values of a scalar column of one part, as arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from .flat import Array, FlatColumns, Strings

__all__ = ["all_strings", "all_valid", "all_values", "corrupt"]


def all_values(columns: FlatColumns, column: int) -> Array:
    """The values [rows] of a column of fixed width, zero where null: a read-only view that keeps the part open."""
    return columns.values(column).checked()


def all_valid(columns: FlatColumns, column: int) -> NDArray[np.bool_] | None:
    """Which rows have a value, or None when the column is not nullable."""
    bits = columns.validity(column)
    if bits is None:
        return None
    return np.unpackbits(bits.checked(), count=columns.rows, bitorder="little").view(np.bool_)


def all_strings(columns: FlatColumns, column: int, name: str) -> NDArray[np.object_]:
    """The values [rows] of a string column as ``str``, None where null; CorruptionError names the column ``name``."""
    dictionary = columns.dictionary(column)
    if dictionary is None:
        found = _texts(columns, columns.strings(column), name)
    else:
        codes, entries = dictionary.codes.checked(), _texts(columns, dictionary.entries, name)
        if len(entries) == 0:
            found = np.full(columns.rows, "", object)
        elif len(codes) and int(codes.max()) >= len(entries):
            raise corrupt(columns, name, f"a code exceeds the {len(entries)} strings of the dictionary")
        else:
            found = entries[codes]
    valid = all_valid(columns, column)
    if valid is not None:
        found[~valid] = None
    return found


def _texts(columns: FlatColumns, strings: Strings, name: str) -> NDArray[np.object_]:
    raw: Any = strings.data.checked()
    ends = strings.offsets.checked().tolist()
    if any(a > b for a, b in pairwise(ends)) or (ends and ends[-1] > len(raw)):
        raise corrupt(columns, name, "the offsets of its strings do not ascend, or exceed their bytes")
    data = raw.tobytes()
    found = np.empty(max(len(ends) - 1, 0), object)
    try:
        found[:] = [data[a:b].decode() for a, b in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise corrupt(columns, name, f"a string is not valid UTF-8 ({error.reason})") from None
    return found


def corrupt(columns: FlatColumns, name: str, what: str) -> CorruptionError:
    """The error for what cannot be right in the index of a column."""
    return CorruptionError(
        f"{columns.name}.idx, column {name!r}: {what}; run `unirecord repair {columns.name}` to rebuild the index",
        path=f"{columns.name}.idx",
        column=name,
    )
