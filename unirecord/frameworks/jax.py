"""JAX: the arrays of a batch on a device."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .array_trees import with_arrays

__all__ = ["to_arrays"]


def to_arrays(batch: Any, device: Any = None, bfloat16: Collection[str] = ()) -> Any:
    """A batch with JAX arrays in place of its numeric arrays; dicts, tuples and lists are gone into.

    The numbers are copied: JAX may otherwise look into memory that the next batch is written to. Nullable columns come
    with a mask ``x_valid``, as for PyTorch; columns named in ``bfloat16`` with that type. Where JAX's 64-bit numbers
    are off, int64 becomes int32, and OverflowError names what does not fit: JAX itself would wrap it around.
    """
    import jax

    def make(array: NDArray[Any], bits: bool) -> Any:
        if bits:
            array = array.view(jax.numpy.bfloat16)
        elif array.dtype.kind in "iu" and array.dtype.itemsize == 8 and not jax.config.jax_enable_x64:
            _check_fits(array)
        return jax.device_put(np.array(array), device)

    return with_arrays(batch, make, bfloat16)


def _check_fits(array: NDArray[Any]) -> None:
    kept = np.iinfo(np.int32 if array.dtype.kind == "i" else np.uint32)
    if array.size and not (kept.min <= array.min() and array.max() <= kept.max):
        values = f"{array.dtype} values from {array.min()} to {array.max()}"
        raise OverflowError(
            f"{values} do not fit the {kept.dtype} that JAX makes of them: "
            'jax.config.update("jax_enable_x64", True), or make them smaller before to_jax()'
        )
