"""numpy's datetime64 and timedelta64 as int64: nanoseconds, since 1970-01-01 for points in time; NaT is null."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__ = ["NAT", "is_time", "nanoseconds"]

NAT: Final = -(1 << 63)


def is_time(values: Any) -> bool:
    """Whether it is an array or scalar of datetime64 or timedelta64."""
    return isinstance(values, np.ndarray | np.generic) and values.dtype.kind in "mM"


def nanoseconds(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return int64 nanoseconds (`NAT` for NaT), and bool: which of them say exactly what ``values`` do."""
    kind = "datetime64[ns]" if values.dtype.kind == "M" else "timedelta64[ns]"
    with np.errstate(over="ignore"):
        try:
            converted = values.astype(kind)
        except OverflowError:  # newer numpy refuses where older ones wrap
            return np.zeros(values.shape, np.int64), np.zeros(values.shape, np.bool_)
        exact = (converted.astype(values.dtype) == values) & ~np.isnat(converted) | np.isnat(values)
    return converted.view(np.int64) if converted.ndim else converted.astype(np.int64), exact
