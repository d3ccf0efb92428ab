"""What is wrong in a row group, and which rows are lost by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["SHOWN", "Finding", "findings_for", "lost_rows"]

SHOWN: Final = (
    20  # findings of one kind in a row group that are told one by one: a report is no larger than its files
)


@dataclass(frozen=True)
class Finding:
    """Something wrong in a row group. ``rows`` [first, stop) of the part are lost by it, None: no value is.

    ``each``: when only some of them are, these.
    """

    offset: int
    what: str
    rows: tuple[int, int] | None = None
    column: str | None = None
    each: npt.NDArray[np.int64] | None = None

    def __str__(self) -> str:
        return f"{self.what} (offset {self.offset})"


def findings_for(
    rows: npt.NDArray[Any], offset: int, what: str, column: str | None = None
) -> Iterator[Finding]:
    """One finding for each of these rows of the part, which ascend; many are one."""
    if len(rows) > SHOWN:
        span = int(rows[0]), int(rows[-1]) + 1
        yield Finding(offset, f"{what} ({len(rows)} times)", span, column, rows.astype(np.int64))
        return
    for row in rows.tolist():
        yield Finding(offset, what, (row, row + 1), column)


def lost_rows(findings: list[Finding], first: int, rows: int) -> npt.NDArray[np.bool_]:
    """Which rows of a group of ``rows`` rows, the first of them ``first`` in the part, are lost by the findings."""
    bad = np.zeros(rows, bool)
    for finding in findings:
        if finding.each is not None:
            bad[finding.each - first] = True
        elif finding.rows is not None:
            bad[finding.rows[0] - first : finding.rows[1] - first] = True
    return bad
