"""Tensors on their way to a device: pinned memory, and copies that run beside the step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..loading.loader import Delivered

if TYPE_CHECKING:
    import torch

__all__ = ["CopiedAhead", "Moved", "Pinned", "in_pinned_memory", "pinned_piece", "with_tensors"]

_IN_FLIGHT = 2  # batches whose copy to the device runs while another one is used


class Pinned:
    """The stage that copies tensors to pinned memory."""

    def __call__(self, batches: Iterator[Delivered[Any]]) -> Iterator[Delivered[Any]]:
        return (delivered.map(self._pinned) for delivered in batches)

    def _pinned(self, batch: Any) -> Any:
        return with_tensors(batch, in_pinned_memory)


@dataclass(frozen=True)
class Moved:
    """The stage that moves tensors to a device, and waits for it."""

    device: Any

    def __call__(self, batches: Iterator[Delivered[Any]]) -> Iterator[Delivered[Any]]:
        return (delivered.map(lambda batch: _moved(batch, self.device, False)) for delivered in batches)


@dataclass(frozen=True)
class CopiedAhead:
    """The stage that copies tensors to a CUDA device on a stream beside the step, ``_IN_FLIGHT`` batches ahead.

    A host batch is held until its copy has ended: only then may its memory be filled again. The consumer's stream
    waits for the copy, and the tensors are marked as used on it, so that they may be kept and freed like any others.
    """

    device: Any

    def __call__(self, batches: Iterator[Delivered[Any]]) -> Iterator[Delivered[Any]]:
        import torch

        side = torch.cuda.Stream(self.device)
        # Of each batch on its way: what is delivered, the event after the copy, its host memory.
        ready: deque[tuple[Delivered[Any], Any, Any]] = deque()
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
