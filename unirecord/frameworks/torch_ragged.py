"""Values of different lengths as tensors: packed, jagged, padded, or one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..loading.batch import RaggedArray

if TYPE_CHECKING:
    import torch

__all__ = ["RaggedTensor", "ragged_tensor"]


@dataclass(frozen=True)
class RaggedTensor:
    """The values of a batch, one after the other, and where each begins.

    Attributes:
        values: [total, …], the elements of all values.
        offsets: int64[n + 1]: value i is ``values[offsets[i]:offsets[i + 1]]``, which is empty where null.
        max_seqlen: elements of the longest value.
        valid: bool[n], False where null, or None for a column that is not nullable.
    """

    values: torch.Tensor
    offsets: torch.Tensor
    max_seqlen: int
    valid: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def cu_seqlens(self) -> torch.Tensor:
        """``offsets`` as int32[n + 1], as attention over packed sequences takes them."""
        import torch

        if self.values.shape[0] > torch.iinfo(torch.int32).max:
            raise ValueError(f"{self.values.shape[0]:,} elements are more than int32 offsets can count")
        return self.offsets.to(torch.int32)

    def to(self, device: Any, non_blocking: bool = False) -> RaggedTensor:
        """The same on ``device``, copied as ``torch.Tensor.to`` does with ``non_blocking``."""
        moved = {
            name: tensor.to(device, non_blocking=non_blocking)
            for name in ("values", "offsets", "valid")
            if (tensor := getattr(self, name)) is not None
        }
        return replace(self, **moved)

    def nested(self) -> torch.Tensor:
        """A nested tensor of jagged layout over the same memory; its lengths are those of the values."""
        import torch

        make: Any = torch.nested.nested_tensor_from_jagged
        nested: torch.Tensor = make(self.values, self.offsets)
        return nested

    def padded(self, value: float = 0) -> torch.Tensor:
        """One tensor [n, max_seqlen, …], each value filled up with ``value``."""
        out = self.values.new_full((len(self), self.max_seqlen, *self.values.shape[1:]), value)
        _bits(out)[self.mask()] = _bits(self.values)
        return out

    def mask(self) -> torch.Tensor:
        """Which places of ``padded()`` hold an element: bool [n, max_seqlen]."""
        import torch

        places = torch.arange(self.max_seqlen, device=self.offsets.device)
        return places < torch.diff(self.offsets)[:, None]

    def tensors(self) -> list[torch.Tensor]:
        """Each value as a tensor that looks into ``values``."""
        return list(self.values.split(self.offsets.diff().tolist()))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as signed numbers: PyTorch has few operations for unsigned ones of more than 8 bits."""
    import torch

    signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
    return tensor.view(signed.get(tensor.dtype, tensor.dtype))


def ragged_tensor(ragged: RaggedArray, dtype: torch.dtype | None) -> RaggedTensor:
    """The values of a batch as tensors, with elements of ``dtype``; ValueError where one does not fit."""
    import torch

    offsets = ragged.element_offsets
    values = torch.from_numpy(ragged.values)
    if ragged.column.type == "bfloat16":
        values = values.view(torch.bfloat16)
    if dtype is not None and dtype != values.dtype:
        converted = values.to(dtype)
        if not dtype.is_floating_point and not dtype.is_complex:
            _check_kept(ragged, converted)
        values = converted
    lengths = np.diff(offsets)
    valid = None if ragged.valid is None else torch.from_numpy(ragged.valid)
    return RaggedTensor(values, torch.from_numpy(offsets), int(lengths.max(initial=0)), valid)


def _check_kept(ragged: RaggedArray, converted: torch.Tensor) -> None:
    """Refuses a type of integers that does not hold every element."""
    before, after = ragged.values, converted.numpy()
    wrong = np.flatnonzero((before != after).reshape(-1) | ((before < 0) != (after < 0)).reshape(-1))
    if len(wrong):
        raise ValueError(
            f"column {ragged.column.name!r}: {before.reshape(-1)[wrong[0]]} does not fit {converted.dtype}"
        )
