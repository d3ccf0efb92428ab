"""The rows of a set of parts that are there, of all or of those that meet a condition: deleted ones are not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..order.found_rows import FoundRows
from ..order.selection import Selection
from ..parts.part_set import PartSet
from .query import Query

__all__ = ["live_rows", "live_rows_that_meet"]


def live_rows(parts: PartSet) -> Selection:
    """All rows that have not been deleted."""
    return Selection(parts.rows) if parts.live is None else Selection(parts.rows, bitmap=parts.live)


def live_rows_that_meet(parts: PartSet, query: Query) -> NDArray[np.int64]:
    """The numbers of those that meet a condition, ascending."""
    if parts.live is None:
        return query.rows(parts)
    meeting = FoundRows(parts.rows)
    query.find(parts, meeting.add)
    return live_rows(parts).where_rows(meeting.all()).every()
