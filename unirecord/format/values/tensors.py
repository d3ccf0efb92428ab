"""Tensors and arrays of other libraries as numpy's, with the types that numpy has no name for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["array_of", "is_torch_tensor", "memory_of"]

Array = np.ndarray[Any, Any]


def is_torch_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch, which is not imported for that."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def array_of(value: Any) -> tuple[Array, str]:
    """Return what has ``__array__`` as an array, and the name of the type of its elements.

    Elements of bfloat16 are uint16 with the same bits, and the name says what they are. Of a tensor of PyTorch, what
    does not concern its values is passed over: gradients, the device, and a conjugate or a sign that is still to be
    taken. `ValueError` says what stands for a tensor that is no array; whatever else the library raises comes as it is.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif is_torch_tensor(value):
        return _array_of_torch(sys.modules["torch"], value)
    else:
        array = np.asarray(value)
    if array.dtype.name == "bfloat16":  # ml_dtypes
        return array.view(np.uint16), "bfloat16"
    return array, array.dtype.name


def _array_of_torch(torch: Any, tensor: Any) -> tuple[Array, str]:
    what = f"{str(tensor.dtype).removeprefix('torch.')} tensor of PyTorch"
    if tensor.is_nested:
        raise ValueError(f"a nested {what} is no array; tensor.unbind() gives its pieces")
    if tensor.layout != torch.strided:
        raise ValueError(f"a sparse {what} is no array; tensor.to_dense() makes one")
    if tensor.is_quantized:
        raise ValueError(f"a quantized {what} is no array; tensor.dequantize() makes one")
    if tensor.device.type == "meta":
        raise ValueError(f"a {what} on the device 'meta' has no values")
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(np.uint16), "bfloat16"
    try:
        array: Array = tensor.numpy()
    except (TypeError, RuntimeError):
        wider = "complex64" if tensor.dtype.is_complex else "float32"
        raise ValueError(
            f"no column type holds a {what}; tensor.to(torch.{wider}) makes one that fits"
        ) from None
    return array, array.dtype.name


def memory_of(value: Any) -> int:
    """Bytes that a value takes, about, whatever it is."""
    try:
        return int(getattr(value, "nbytes", 0)) or (
            len(value) if isinstance(value, str | bytes | bytearray) else 64
        )
    except RuntimeError:  # a sparse tensor of PyTorch
        return 64
