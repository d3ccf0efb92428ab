"""Pickles of plain containers and NumPy arrays, read without calling anything else that they name."""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

import numpy as np

__all__ = ["plain_pickle"]

_RECONSTRUCT: Final = np.zeros(0).__reduce__()[0]
_ALLOWED: Final[dict[tuple[str, str], Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): lambda text, codec: (
        text.encode("latin-1") if codec == "latin1" else _refuse(codec)
    ),
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _ALLOWED.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no plain container or array")
        return found

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it names something outside")


def _refuse(codec: Any) -> Any:
    raise pickle.UnpicklingError(f"it names the codec {codec!r}")


def plain_pickle(data: bytes) -> Any:
    """Return what a pickle of Python 2 or 3 holds; ``ValueError`` when it names anything but arrays."""
    try:
        found = _PlainUnpickler(io.BytesIO(data), encoding="bytes").load()
    except MemoryError:
        raise
    except Exception as error:  # whatever a damaged pickle brings about
        raise ValueError(f"no pickle of plain containers and arrays: {error}") from None
    return found
