"""Whether parts that are about to be published can be opened as a reader opens them."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from ..format.schema import Schema
from .manifest import PartEntry
from .part_set import PartSet
from .snapshot import PartRef, Snapshot

__all__ = ["check_readable"]

_AT_ONCE = 64  # parts, whose files are open together


def check_readable(folder: str, schema: Schema, entries: Sequence[PartEntry]) -> None:
    """Opens parts in ``folder`` by what is said of them; errors of reading, which name the file.

    What opening them takes is brought from an object store for many of them at once.
    """
    for start in range(0, len(entries), _AT_ONCE):
        some = tuple(
            PartRef(
                os.path.join(folder, one.name),
                one.id,
                one.rows,
                one.bytes,
                bytes.fromhex(one.content),
                one.index_bytes,
            )
            for one in entries[start : start + _AT_ONCE]
        )
        parts = PartSet(Snapshot(some, schema, (), None, "", one_schema=False))
        try:
            first = [start for start, one in zip(parts.starts.tolist(), some, strict=False) if one.rows]
            parts.read(np.array(first, np.int64), [])
            for number in range(len(some)):
                part = parts.part(number)
                _ = part.content, part.stored_schema
        finally:
            parts.close()
