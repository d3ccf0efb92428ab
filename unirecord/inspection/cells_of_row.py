"""One row for somebody to look at: values that are too large or damaged are said in words, not read or raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..columns.scalars import value_bytes
from ..errors import CorruptionError
from ..loading.samples import SampleReader
from ..parts.part_set import PartSet
from ..sizes import format_size

__all__ = ["MOST_BYTES", "cells_of_row"]

MOST_BYTES: Final = 1 << 24  # of a value that is read to be looked at


def cells_of_row(parts: PartSet, names: Sequence[str], row: int) -> dict[str, Any]:
    """The values of these columns in a row, by name, and what is said in place of some."""
    return {name: _cell(parts, parts.schema.ordinal(name), row) for name in names}


def _cell(parts: PartSet, ordinal: int, row: int) -> Any:
    column = parts.schema[ordinal]
    size = column.fixed_bytes
    if not size and column.is_blob:
        size = int(value_bytes(parts, ordinal, np.array([row], np.int64))[0])
    if size > MOST_BYTES:
        return f"({format_size(size)}, not shown)"
    try:
        return SampleReader(parts, [(ordinal, column)]).one(row)[column.name]
    except CorruptionError as error:
        return f"(damaged: {error})"
