"""Batches as tensors: on their way to a device, in memory that workers lend, and values of different lengths."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..loading.batch import RaggedArray
from ..loading.loader import TrackedBatch
from ..sizes import many

if TYPE_CHECKING:
    import torch

__all__ = [
    "CopiedAhead",
    "Moved",
    "Pinned",
    "RaggedTensor",
    "in_pinned_memory",
    "pinned_piece",
    "ragged_tensor",
    "with_tensors",
]


# Tensors on their way to a device: pinned memory, and copies that run beside the step.


_IN_FLIGHT = 2  # batches whose copy to the device runs while another one is used


class Pinned:
    """The stage that copies tensors to pinned memory."""

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        return (delivered.map(self._pinned) for delivered in batches)

    def _pinned(self, batch: Any) -> Any:
        return with_tensors(batch, in_pinned_memory)


@dataclass(frozen=True)
class Moved:
    """The stage that moves tensors to a device, and waits for it."""

    device: Any

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        return (delivered.map(lambda batch: _moved(batch, self.device, False)) for delivered in batches)


@dataclass(frozen=True)
class CopiedAhead:
    """The stage that copies tensors to a CUDA device on a stream beside the step, ``_IN_FLIGHT`` batches ahead.

    A host batch is held until its copy has ended: only then may its memory be filled again. The consumer's stream
    waits for the copy, and the tensors are marked as used on it, so that they may be kept and freed like any others.
    """

    device: Any

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        import torch

        side = torch.cuda.Stream(self.device)
        # Of each batch on its way: what is delivered, the event after the copy, its host memory.
        ready: deque[tuple[TrackedBatch[Any], Any, Any]] = deque()
        held: deque[tuple[Any, Any]] = deque()

        def start_copy() -> None:
            delivered = next(batches, None)
            if delivered is None:
                return
            with torch.cuda.stream(side):
                moved = _moved(delivered.batch, self.device, True)
            ready.append((delivered.with_batch(moved), side.record_event(), delivered.batch))

        try:
            for _ in range(_IN_FLIGHT):
                start_copy()
            while ready:
                delivered, copied, host = ready.popleft()
                held.append((copied, host))
                del host
                while held and held[0][0].query():
                    held.popleft()
                stream = torch.cuda.current_stream(self.device)
                stream.wait_event(copied)
                for tensor in _leaves(delivered.batch):
                    tensor.record_stream(stream)
                start_copy()
                yield delivered
                del delivered
        finally:
            side.synchronize()  # before the memory of batches in `held` and `ready` may be filled again


def pinned_piece(size: int) -> Any:
    """``size`` bytes of pinned memory as a numpy array that owns it."""
    import torch

    return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()


def in_pinned_memory(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_pinned() or tensor.device.type != "cpu" else tensor.pin_memory()


def _moved(batch: Any, device: Any, non_blocking: bool) -> Any:
    """The batch with every tensor in it on ``device``."""
    return with_tensors(batch, lambda tensor: tensor.to(device, non_blocking=non_blocking))


def with_tensors(batch: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The batch with what ``change`` makes of each tensor; dicts, lists and tuples are gone into."""
    import torch

    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: with_tensors(value, change) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        items = [with_tensors(item, change) for item in batch]
        if all(new is old for new, old in zip(items, batch, strict=True)):
            return batch
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    return batch


def _leaves(batch: Any) -> Iterator[torch.Tensor]:
    import torch

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _leaves(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _leaves(value)


# Values of different lengths as tensors: packed, jagged, padded, or one by one.


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
            raise ValueError(
                f"{many(self.values.shape[0], 'element', 'are')} more than int32 offsets can count"
            )
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
