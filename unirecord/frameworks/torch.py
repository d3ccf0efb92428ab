"""PyTorch: batches as tensors without worker processes, on the CPU, in pinned memory or on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from ..dataset.batch_loader import BatchLoader
from ..dataset.cursor import SampledCursor
from ..dataset.dataset import UniRecordDataset
from ..dataset.draws import DrawnBatches
from ..loading.loader import Stage, TrackedBatch
from ..loading.options import LoaderOptions, ReadAhead
from ..migration_hints import OF_TORCH_LOADERS, no_attribute
from .arguments import batch_options, check_valid_names
from .array_trees import filled_and_valid, with_arrays
from .torch_sampler import EpochSampler
from .torch_tensors import CopiedAhead, Moved, Pinned, in_pinned_memory, pinned_piece, with_tensors

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

__all__ = ["TorchLoader", "loader", "to_tensors"]

Batch = TypeVar("Batch")
Loader = TypeVar("Loader", bound="TorchLoader[Any]")


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
    ds: UniRecordDataset[Any],
    batch_size: None = ...,
    *,
    batch_sampler: Iterable[Any],
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
    batch_sampler: Iterable[Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    drop_last: bool = False,
    pin_memory: bool = False,
    device: Any = None,
    prefetch: int | None = None,
    num_threads: int | None = None,
    num_workers: int | None = None,
    receipts: str | PathLike[str] | None = None,
    random: bool = False,
) -> TorchLoader[Any]:
    """Batches of a dataset's shard as tensors; iterate over it as over a ``DataLoader``, once per epoch.

    Without a transform a batch is a dict: arrays and scalars are tensors [batch, …] that share the memory the C
    threads filled; strings are lists; other values of variable width ``RaggedArray``; both hold None where null. A
    tensor ``x`` of a nullable column comes with a bool tensor ``x_valid`` [batch]; where that is False, ``x`` is NaN or
    0. See docs/pytorch.md.

    Args:
        ds: the dataset; its shard, order, epoch, ``columns`` and ``where`` hold. Or the batches that have been drawn
            of one.
        batch_size: samples in a batch; of batches that have been drawn or sampled, none is given.
        batch_sampler: what says the batches instead, as for a ``DataLoader``: an iterable of lists of places in
            ``ds``, which has neither shuffle nor shards then. It is asked ahead, anew for each epoch.
        transform: called with every sample, on Python threads; the dataset's own ``transform`` by default.
        collate_fn: makes a batch of the list of samples, transformed or as stored; ``default_collate`` by default
            where there is a transform.
        drop_last: leave out a last batch that is smaller.
        pin_memory: let tensors lie in pinned memory, for fast copies to a CUDA device; nothing where there is none.
        device: where the tensors are to be; for a CUDA device copies run beside the step, on a stream of their own.
        prefetch, num_threads, num_workers, receipts, random: as for ``UniRecordDataset.batches``.
    """
    return made_loader(
        TorchLoader,
        ds,
        batch_size,
        batch_sampler=batch_sampler,
        transform=transform,
        collate_fn=collate_fn,
        pin_memory=pin_memory,
        device=device,
        drop_last=drop_last,
        prefetch=prefetch,
        num_threads=num_threads,
        num_workers=num_workers,
        receipts=receipts,
        random=random,
    )


def made_loader(
    kind: type[Loader],
    ds: UniRecordDataset[Any] | DrawnBatches,
    batch_size: int | None = None,
    *,
    batch_sampler: Iterable[Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    pin_memory: bool = False,
    device: Any = None,
    **read_ahead: Unpack[ReadAhead],
) -> Loader:
    """A loader of a kind, with the arguments of ``loader``."""
    if not isinstance(ds, (UniRecordDataset, DrawnBatches)):
        raise TypeError(
            f"loader() takes a UniRecordDataset, not {ds!r}: loader(UniRecordDataset(path), batch_size)"
        )
    own = ds.transform if transform is None else transform
    if own is not None and collate_fn is None:
        collate_fn = _default_collate
    cursor = None
    if batch_sampler is not None:
        cursor = _sampled(ds, batch_size, batch_sampler, read_ahead)
        options = LoaderOptions(
            1, transform=own, collate_fn=collate_fn, on_corrupt=ds.on_corrupt, **read_ahead
        )
    else:
        options = batch_options(ds, batch_size, own, collate_fn, read_ahead, ", or a batch_sampler")
    sampler: Any = ds if isinstance(ds, DrawnBatches) else batch_sampler
    if sampler is None:
        sampler = EpochSampler(cast("UniRecordDataset[Any]", ds))
    return kind(ds, options, pin_memory=pin_memory, device=device, cursor=cursor, sampler=sampler)


def _sampled(
    ds: UniRecordDataset[Any] | DrawnBatches,
    batch_size: int | None,
    sampler: Iterable[Any],
    read_ahead: ReadAhead,
) -> SampledCursor:
    """What reads the batches of a sampler; ValueError for options that say otherwise what a batch is."""
    if isinstance(ds, DrawnBatches):
        raise ValueError("these batches have been drawn already: batch_sampler= takes a dataset")
    named = {"batch_size": batch_size is not None, "drop_last": read_ahead.get("drop_last", False)}
    for name in (name for name, given in named.items() if given):
        raise ValueError(f"{name}= and batch_sampler= both say what a batch is: give one of them")
    if read_ahead.get("receipts") is not None:
        raise ValueError(
            "receipts are of positions in the order of a dataset, and a batch sampler has its own"
        )
    return SampledCursor(ds.cursor, sampler)


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
        sampler: Any,
        cursor: SampledCursor | None = None,
    ) -> None:
        """``sampler``: what says the order; trainers that count epochs by themselves call its ``set_epoch``."""
        import torch

        self.sampler = sampler

        self.device: Any | None = None if device is None else torch.device(device)
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
        super().__init__(ds, options, stages=stages, memory=pinned_piece if pinned else None, cursor=cursor)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                no_attribute(type(self).__name__, name, OF_TORCH_LOADERS), name=name, obj=self
            )


def _bfloat16_columns(ds: UniRecordDataset[Any] | DrawnBatches) -> frozenset[str]:
    return frozenset(name for name in ds.column_names if ds.schema[name].type == "bfloat16")


@dataclass(frozen=True)
class ToTensors:
    """The stage that puts tensors in place of arrays, over the same memory."""

    bfloat16: frozenset[str]

    def __call__(self, batches: Iterator[TrackedBatch[Any]]) -> Iterator[TrackedBatch[Any]]:
        return (delivered.map(self._tensors) for delivered in batches)

    def _tensors(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return to_tensors(batch, self.bfloat16)


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
        return with_tensors(tensors, in_pinned_memory) if pinned else tensors

    stages: tuple[Stage, ...] = ()
    if cuda:
        stages = (CopiedAhead(device),)
    elif device is not None and device.type != "cpu":
        stages = (Moved(device),)
    return OnTheWay(change, stages, pinned_piece if pinned else None)
