"""Whether parts that are about to be published can be opened as a reader opens them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..format.schema import Schema
from ..storage.registry import location_of
from .manifest import PartEntry
from .part_refs import PartRef
from .part_set import PartSet
from .snapshot import Snapshot

__all__ = ["check_readable"]

_AT_ONCE = 64  # parts, whose files are open together


def check_readable(folder: str, schema: Schema, entries: Sequence[PartEntry]) -> None:
    """Opens parts in ``folder`` by what is said of them; errors of reading, which name the file.

    Not in an object store, where the heads of the parts of an earlier run were compared when they were taken over.
    """
    if not location_of(folder).in_file_system:
        return
    for start in range(0, len(entries), _AT_ONCE):
        some = tuple(
            PartRef(os.path.join(folder, one.name), one.id, one.rows, one.bytes, int(one.content, 16), one.index_bytes)
            for one in entries[start : start + _AT_ONCE]
        )  # fmt: skip
        parts = PartSet(Snapshot(some, schema, (), None, "", one_schema=False))
        try:
            for number in range(len(some)):
                part = parts.part(number)
                _ = part.content, part.stored_schema
        finally:
            parts.close()
