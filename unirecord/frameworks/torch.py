"""PyTorch: batches as tensors without worker processes, on the CPU, in pinned memory or on a CUDA device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ..dataset.batch_loader import BatchLoader
from ..dataset.dataset import UniRecordDataset
from ..dataset.drawn_batches import DrawnBatches
from ..loading.delivered import Delivered, Stage
from ..loading.options import LoaderOptions, ReadAhead
from .array_trees import filled_and_valid, with_arrays
from .valid_names import check_valid_names

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

__all__ = ["TorchLoader", "loader", "to_tensors"]

Batch = TypeVar("Batch")

_IN_FLIGHT = 2  # batches whose copy to the device runs while another one is used


@overload
def loader(
    ds: UniRecordDataset[Any],
    batch_size: int,
    *,
    transform: Callable[[Any], Any] | None = ...,
    collate_fn: Callable[[list[Any]], Batch],
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[Batch]: ...
@overload
def loader(
    ds: DrawnBatches,
    batch_size: None = ...,
    *,
    transform: Callable[[Any], Any] | None = ...,
    collate_fn: Callable[[list[Any]], Any] | None = ...,
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[Any]: ...
@overload
def loader(
    ds: UniRecordDataset,
    batch_size: int,
    *,
    transform: None = ...,
    collate_fn: None = ...,
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[dict[str, Any]]: ...
@overload
def loader(
    ds: UniRecordDataset[Any],
    batch_size: int,
    *,
    transform: Callable[[Any], Any] | None = ...,
    collate_fn: None = ...,
    pin_memory: bool = ...,
    device: Any = ...,
    **read_ahead: Unpack[ReadAhead],
) -> TorchLoader[Any]: ...
def loader(
    ds: UniRecordDataset[Any] | DrawnBatches,
    batch_size: int | None = None,
    *,
    transform: Callable[[Any], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    drop_last: bool = False,
    pin_memory: bool = False,
    device: Any = None,
    prefetch: int | None = None,
    num_threads: int | None = None,
    num_workers: int | None = None,
    receipts: str | PathLike[str] | None = None,
) -> TorchLoader[Any]:
    """Batches of a dataset's shard as tensors; iterate over it as over a ``DataLoader``, once per epoch.

    Without a transform a batch is a dict: arrays and scalars are tensors [batch, …] that share the memory the C
    threads filled; strings are lists; other values of variable width ``RaggedArray``; both hold None where null. A
    tensor ``x`` of a nullable column comes with a bool tensor ``x_valid`` [batch]; where that is False, ``x`` is NaN or
    0. See docs/pytorch.md.

    Args:
        ds: the dataset; its shard, order, epoch, ``columns`` and ``where`` hold. Or the batches that have been drawn
            of one.
        batch_size: samples in a batch; of batches that have been drawn, none is given.
        transform: called with every sample, on Python threads; the dataset's own ``transform`` by default.
        collate_fn: makes a batch of the list of samples, transformed or as stored; ``default_collate`` by default
            where there is a transform.
        drop_last: leave out a last batch that is smaller.
        pin_memory: let tensors lie in pinned memory, for fast copies to a CUDA device; nothing where there is none.
        device: where the tensors are to be; for a CUDA device copies run beside the step, on a stream of their own.
        prefetch, num_threads, num_workers, receipts: as for ``UniRecordDataset.batches``.
    """
    if not isinstance(ds, (UniRecordDataset, DrawnBatches)):
        raise TypeError(
            f"loader() takes a UniRecordDataset, not {ds!r}: loader(UniRecordDataset(path), batch_size)"
        )
    own = ds.transform if transform is None else transform
    if own is not None and collate_fn is None:
        collate_fn = _default_collate
    read_ahead = ReadAhead(
        drop_last=drop_last,
        prefetch=prefetch,
        num_threads=num_threads,
        num_workers=num_workers,
        receipts=receipts,
    )
    if isinstance(ds, DrawnBatches):
        if batch_size is not None:
            raise ValueError(
                f"batch_size={batch_size}: these batches have been drawn, and have the size that they have"
            )
        options = ds._loader_options(own, collate_fn, None, **read_ahead)
    elif batch_size is None:
        raise TypeError("loader() needs a batch_size")
    else:
        options = LoaderOptions(
            batch_size, transform=own, collate_fn=collate_fn, on_corrupt=ds.on_corrupt, **read_ahead
        )
    return TorchLoader(ds, options, pin_memory=pin_memory, device=device)


def _default_collate(samples: list[Any]) -> Any:
    from torch.utils.data import default_collate

    return default_collate(samples)


class TorchLoader(BatchLoader[Batch]):
    """What ``loader`` returns: batches with a length, an epoch and a state, like a stateful ``DataLoader``."""

    def __init__(
        self,
        ds: UniRecordDataset[Any] | DrawnBatches,
        options: LoaderOptions,
        *,
        pin_memory: bool,
        device: Any,
    ) -> None:
        import torch

        self.device = None if device is None else torch.device(device)
        cuda = self.device is not None and self.device.type == "cuda"
        pinned = (pin_memory or cuda) and torch.cuda.is_available()
        stages: list[Stage] = []
        if not options.changes_batches:
            check_valid_names(ds)
            stages.append(ToTensors(_bfloat16_columns(ds)))
        elif pinned:  # what is collated lies in memory of its own
            stages.append(Pinned())
        if cuda:
            stages.append(CopiedAhead(self.device))
        elif self.device is not None and self.device.type != "cpu":
            stages.append(Moved(self.device))
        super().__init__(ds, options, stages=stages, memory=_pinned if pinned else None)


def _bfloat16_columns(ds: UniRecordDataset[Any] | DrawnBatches) -> frozenset[str]:
    return frozenset(name for name in ds.column_names if ds.schema[name].type == "bfloat16")


@dataclass(frozen=True)
class ToTensors:
    """The stage that puts tensors in place of arrays, over the same memory."""

    bfloat16: frozenset[str]

    def __call__(self, batches: Iterator[Delivered[Any]]) -> Iterator[Delivered[Any]]:
        return (delivered.map(self._tensors) for delivered in batches)

    def _tensors(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return to_tensors(batch, self.bfloat16)


class Pinned:
    """The stage that copies tensors to pinned memory."""

    def __call__(self, batches: Iterator[Delivered[Any]]) -> Iterator[Delivered[Any]]:
        return (delivered.map(self._pinned) for delivered in batches)

    def _pinned(self, batch: Any) -> Any:
        return _with_tensors(batch, _in_pinned_memory)


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


def _pinned(size: int) -> Any:
    """``size`` bytes of pinned memory as a numpy array that owns it."""
    import torch

    return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()


def to_tensors(batch: Mapping[str, Any], bfloat16: Collection[str] = ()) -> dict[str, Any]:
    """A batch of ``UniRecordDataset.batches()`` with tensors in place of arrays; they share its memory.

    Columns named in ``bfloat16``, whose bits numpy holds as uint16, become tensors of that type.
    """
    tensors: dict[str, Any] = {}
    for name, value in batch.items():
        if isinstance(value, np.ma.MaskedArray):
            filled, valid = filled_and_valid(value)
            tensors[name] = _tensor(filled, name in bfloat16)
            tensors[f"{name}_valid"] = _tensor(valid, False)
        else:
            tensors[name] = _tensor(value, name in bfloat16) if type(value) is np.ndarray else value
    return tensors


def _tensor(array: NDArray[Any], bits: bool) -> torch.Tensor:
    """A tensor over the memory of an array, or over a copy where PyTorch cannot look into it.

    That is where it runs backwards, is read-only or has the bytes of another machine. ``bits``: of bfloat16.
    """
    import torch

    if not array.flags.writeable or min(array.strides, default=0) < 0 or not array.dtype.isnative:
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if bits else tensor


@dataclass(frozen=True)
class OnTheWay:
    """How the batches of a pipeline come to a device.

    ``change`` is done to a batch on any thread, ``stages`` stand before the consumer, and what makes a batch does so in
    memory of ``memory(size)``, uint8[size]: None for ordinary memory.
    """

    change: Callable[[Any], Any]
    stages: tuple[Stage, ...]
    memory: Callable[[int], NDArray[np.uint8]] | None


def on_the_way(device: Any, pin_memory: bool, bfloat16: Collection[str]) -> OnTheWay:
    """To ``device``, or nowhere: as tensors, those named in ``bfloat16`` of that type.

    Batches on the way to a CUDA device are made in pinned memory; those that an operator has put elsewhere are copied
    there. Either kind is used again only when the last view of it is gone, and a copy that runs holds one.
    """
    import torch

    device = None if device is None else torch.device(device)
    cuda = device is not None and device.type == "cuda"
    pinned = (pin_memory or cuda) and torch.cuda.is_available()

    def change(batch: Any) -> Any:
        tensors = with_arrays(batch, _tensor, bfloat16)
        return _with_tensors(tensors, _in_pinned_memory) if pinned else tensors

    stages: tuple[Stage, ...] = ()
    if cuda:
        stages = (CopiedAhead(device),)
    elif device is not None and device.type != "cpu":
        stages = (Moved(device),)
    return OnTheWay(change, stages, _pinned if pinned else None)


def _in_pinned_memory(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_pinned() or tensor.device.type != "cpu" else tensor.pin_memory()


def _moved(batch: Any, device: Any, non_blocking: bool) -> Any:
    """The batch with every tensor in it on ``device``."""
    return _with_tensors(batch, lambda tensor: tensor.to(device, non_blocking=non_blocking))


def _with_tensors(batch: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The batch with what ``change`` makes of each tensor; dicts, lists and tuples are gone into."""
    import torch

    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: _with_tensors(value, change) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        items = [_with_tensors(item, change) for item in batch]
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
