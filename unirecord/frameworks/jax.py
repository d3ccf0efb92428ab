"""JAX: the arrays of a batch on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["to_arrays"]


def to_arrays(batch: Any, device: Any = None) -> Any:
    """A batch with JAX arrays in place of its numeric arrays; dicts and tuples are gone into.

    The numbers are copied: JAX may otherwise look into memory that the next batch is written to. Nullable columns come
    with a mask ``x_valid``, as for PyTorch.
    """
    if isinstance(batch, Mapping):
        arrays: dict[str, Any] = {}
        for name, value in batch.items():
            if isinstance(value, np.ma.MaskedArray):
                filled = value.filled(np.nan) if value.dtype.kind == "f" else value.data
                arrays[name] = _array(filled, device)
                arrays[f"{name}_valid"] = _array(~np.ma.getmaskarray(value), device)
            else:
                arrays[name] = to_arrays(value, device)
        return arrays
    if isinstance(batch, tuple):
        items = [to_arrays(item, device) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else tuple(items)
    return _array(batch, device) if isinstance(batch, np.ndarray) and batch.dtype.kind in "biufc" else batch


def _array(value: Any, device: Any) -> Any:
    import jax

    return jax.device_put(np.array(value), device)
