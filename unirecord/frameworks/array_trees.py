"""The arrays inside a batch of any form, which a framework puts something of its own in place of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..format.meaning import as_stored
from ..loading.batch import valid_rows

__all__ = ["filled_and_valid", "with_arrays"]

Make = Callable[[NDArray[Any], bool], Any]


def filled_and_valid(values: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A masked array of a batch as an array with NaN or what lies beneath where it is masked, and bool [n].

    Times are as they are stored.
    """
    values = as_stored(values)
    filled = values.filled(np.nan) if values.dtype.kind == "f" else values.data
    return filled, valid_rows(values)


def with_arrays(batch: Any, make: Make, bfloat16: Collection[str] = (), name: str = "") -> Any:
    """A batch with ``make(array, bits)`` in place of its numeric arrays; dicts, tuples and lists are gone into.

    Times are given as they are stored.
    ``bits``: the array holds those of bfloat16, of a column named in ``bfloat16``, as uint16. A masked array ``x`` in a
    dict comes with a mask ``x_valid``, bool [n]; ValueError where there is no name for it.
    """
    if isinstance(batch, Mapping):
        made: dict[str, Any] = {}
        for key, value in batch.items():
            if not isinstance(value, np.ma.MaskedArray):
                made[key] = with_arrays(value, make, bfloat16, key)
                continue
            if f"{key}_valid" in batch:
                raise ValueError(
                    f"{key!r} is nullable, and its mask would have the name of {key + '_valid'!r}, which the batch "
                    "has as well: leave one out, or name it otherwise"
                )
            filled, valid = filled_and_valid(value)
            made[key], made[f"{key}_valid"] = with_arrays(filled, make, bfloat16, key), make(valid, False)
        return made
    if isinstance(batch, np.ma.MaskedArray):
        raise ValueError(
            "a masked array that is not in a dict has no name for its mask: give a dict, or fill it"
        )
    if isinstance(batch, np.ndarray):
        array = as_stored(batch)
        return make(array, name in bfloat16 and array.dtype == np.uint16) if _is_numeric(array) else array
    if isinstance(batch, tuple):
        items = [with_arrays(item, make, bfloat16, name) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else tuple(items)
    if isinstance(batch, list) and any(
        isinstance(item, (np.ndarray, Mapping, tuple, list)) for item in batch
    ):
        return [with_arrays(item, make, bfloat16, name) for item in batch]
    return batch


def _is_numeric(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biufc"
