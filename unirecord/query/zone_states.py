"""What zones say of a condition: per zone whether NONE, SOME (not known) or ALL of its rows pass."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..columns.flat import Array, Zones

ZONE: Final = 8_192  # rows of a zone; zones of another size are not used
NONE, SOME, ALL = 0, 1, 2
HAS_NULL, HAS_NAN, HAS_VALUE = 1, 2, 4
States = npt.NDArray[np.uint8]


def zone_count(rows: int) -> int:
    """Zones of a part."""
    return -(-rows // ZONE)


def unknown(rows: int) -> States:
    """SOME for every zone of a part."""
    return np.full(zone_count(rows), SOME, np.uint8)


def fitting(zones: Zones | None, rows: int) -> Zones | None:
    """The zones, if they can be used."""
    fits = zones is not None and zones.rows == ZONE and len(zones.flags) == zone_count(rows)
    return zones if fits else None


def _combined(flags: npt.NDArray[np.uint8], none: Array, all_: Array, negated: bool) -> States:
    """States from which zones have no value (``none``) or only values (``all_``) that pass, nulls and NaN left out."""
    valued, plain = flags & HAS_VALUE != 0, flags & (HAS_NULL | HAS_NAN) == 0
    nan = flags & HAS_NAN != 0
    none, all_ = none | ~valued, all_ | ~valued
    states = np.full(len(flags), SOME, np.uint8)
    if negated:  # NaN passes, null does not
        states[none & (flags & HAS_NULL == 0)] = ALL
        states[all_ & ~nan] = NONE
    else:
        states[all_ & plain] = ALL
        states[none] = NONE
    return states


def of_range(zones: Zones, low: int | float, high: int | float, negated: bool) -> States:
    """For ``low <= value <= high``."""
    assert zones.bounds is not None
    least, greatest = zones.bounds[:, 0], zones.bounds[:, 1]
    kind: Any = zones.bounds.dtype.type
    low, high = kind(low), kind(high)
    if low > high:
        empty = np.zeros(len(least), np.bool_)
        return _combined(zones.flags, ~empty, empty, negated)
    return _combined(
        zones.flags, (greatest < low) | (least > high), (least >= low) & (greatest <= high), negated
    )


def of_list(zones: Zones, wanted: Array, negated: bool) -> States:
    """For a value that is one of ``wanted``, which ascend."""
    assert zones.bounds is not None
    first = np.searchsorted(wanted, zones.bounds[:, 0], side="left")
    beyond = np.searchsorted(wanted, zones.bounds[:, 1], side="right")
    none = first >= beyond
    return _combined(zones.flags, none, ~none & (zones.bounds[:, 0] == zones.bounds[:, 1]), negated)


def of_table(zones: Zones, table: npt.NDArray[np.uint8]) -> States:
    """For a code whose entry in ``table`` is 1."""
    assert zones.bounds is not None
    sums = np.concatenate([[0], np.cumsum(table, dtype=np.int64)])
    first = np.minimum(zones.bounds[:, 0].astype(np.int64), len(table) - 1)
    last = np.minimum(zones.bounds[:, 1].astype(np.int64), len(table) - 1)
    passing = sums[last + 1] - sums[first]
    return _combined(zones.flags, passing <= 0, passing == last - first + 1, False)


def of_presence(zones: Zones, present: bool) -> States:
    """For a column that has a value, or has none."""
    states = np.full(len(zones.flags), SOME, np.uint8)
    states[zones.flags & HAS_NULL == 0] = ALL if present else NONE
    if zones.bounds is not None:
        states[zones.flags == HAS_NULL] = NONE if present else ALL
    return states
