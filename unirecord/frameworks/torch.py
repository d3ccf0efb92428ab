"""PyTorch: batches as tensors without worker processes, on the CPU, in pinned memory or on a CUDA device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..loading.loader import BatchLoader, LoaderOptions
from ..loading.stats import LoaderStats

if TYPE_CHECKING:
    import torch

    from ..dataset.dataset import UniRecordDataset
    from ..order.shard_order import EpochRun

__all__ = ["TorchLoader", "loader", "to_tensors"]

_IN_FLIGHT = 2  # batches whose copy to the device runs while another one is used


def loader(
    ds: UniRecordDataset,
    batch_size: int,
    *,
    transform: Callable[[Any], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    drop_last: bool = False,
    pin_memory: bool = False,
    device: Any = None,
    prefetch: int | None = None,
    num_threads: int | None = None,
    num_workers: int | None = None,
) -> TorchLoader:
    """Batches of a dataset's shard as tensors; iterate over it as over a ``DataLoader``, once per epoch.

    Without a transform a batch is a dict: arrays and scalars are tensors [batch, …] that share the memory the C
    threads filled; strings are lists; other values of variable width ``RaggedArray``. A nullable scalar column ``x``
    comes with a bool tensor ``x_valid``; where that is False, ``x`` is NaN or 0. See docs/pytorch.md.

    Args:
        ds: the dataset; its shard, order, epoch, ``columns`` and ``where`` hold.
        batch_size: samples in a batch.
        transform: called with every sample, on Python threads; the dataset's own ``transform`` by default.
        collate_fn: makes a batch of transformed samples; ``torch.utils.data.default_collate`` by default.
        drop_last: leave out a last batch that is smaller.
        pin_memory: let tensors lie in pinned memory, for fast copies to a CUDA device; nothing where there is none.
        device: where the tensors are to be; for a CUDA device copies run beside the step, on a stream of their own.
        prefetch, num_threads, num_workers: as for ``UniRecordDataset.batches``.
    """
    return TorchLoader(
        ds,
        LoaderOptions(
            batch_size,
            drop_last=drop_last,
            prefetch=prefetch,
            num_threads=num_threads,
            transform=transform or ds.transform or (_unchanged if collate_fn is not None else None),
            num_workers=num_workers,
            on_corrupt=ds.on_corrupt,
            collate=collate_fn or _default_collate,
        ),
        pin_memory=pin_memory,
        device=device,
    )


def _unchanged(sample: Any) -> Any:
    return sample


def _default_collate(samples: list[Any]) -> Any:
    from torch.utils.data import default_collate

    return default_collate(samples)


class TorchLoader:
    """What ``loader`` returns: iterable once per epoch, with a length, an epoch and a state, like a stateful
    ``DataLoader``."""

    def __init__(
        self, ds: UniRecordDataset, options: LoaderOptions, *, pin_memory: bool, device: Any
    ) -> None:
        import torch

        self.dataset = ds
        self.device = None if device is None else torch.device(device)
        self._cuda = self.device is not None and self.device.type == "cuda"
        self._tensors = options.transform is None
        self._bfloat16 = frozenset(
            column.name for _, column in ds.output_columns if column.type == "bfloat16"
        )
        pinned = (pin_memory or self._cuda) and torch.cuda.is_available()
        self._pin_collated = pinned and not self._tensors  # what is collated lies in memory of its own
        self._late = _LateDelivery(ds)
        source: Any = self._late if self._cuda else ds
        self._loader = BatchLoader(source, options, memory=_pinned if pinned else None)

    @property
    def batch_size(self) -> int:
        """Samples in a batch (the last one may be smaller)."""
        return self._loader.batch_size

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration that of ``epoch``."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands, by the batches delivered."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where ``state`` was taken, on any number of ranks."""
        self._loader.load_state_dict(state)

    def stats(self) -> LoaderStats:
        """Rates and times since the loader was made."""
        return self._loader.stats()

    def __iter__(self) -> Iterator[Any]:
        batches: Iterator[Any] = iter(self._loader)
        if self._tensors:
            batches = (to_tensors(batch, self._bfloat16) for batch in batches)
        if self._pin_collated:
            batches = (_with_tensors(batch, lambda tensor: tensor.pin_memory()) for batch in batches)
        if self._cuda:
            return self._on_device(batches)
        if self.device is not None and self.device.type != "cpu":
            return (_moved(batch, self.device, False) for batch in batches)
        return batches

    def _on_device(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Copies run on a side stream, ``_IN_FLIGHT`` batches ahead of the one in use.

        A host batch is held until its copy has ended: only then may its memory be filled again. The
        consumer's stream waits for the copy, and the tensors are marked as used on it, so that they may be
        kept and freed like any others.
        """
        import torch

        side = torch.cuda.Stream(self.device)
        # Of each batch on its way: tensors on the device, the event after the copy, its host memory, what it delivers.
        ready: deque[tuple[Any, Any, Any, Any]] = deque()
        held: deque[tuple[Any, Any]] = deque()

        def start_copy() -> None:
            batch = next(batches, None)
            if batch is None:
                return
            with torch.cuda.stream(side):
                moved = _moved(batch, self.device, True)
            ready.append((moved, side.record_event(), batch, self._late.delivery))

        try:
            for _ in range(_IN_FLIGHT):
                start_copy()
            while ready:
                moved, copied, host, delivery = ready.popleft()
                held.append((copied, host))
                del host
                while held and held[0][0].query():
                    held.popleft()
                stream = torch.cuda.current_stream(self.device)
                stream.wait_event(copied)
                for tensor in _leaves(moved):
                    tensor.record_stream(stream)
                start_copy()
                self.dataset.deliver(*delivery)
                yield moved
                del moved
        finally:
            side.synchronize()  # before the memory of batches in `held` and `ready` may be filled again


class _LateDelivery:
    """A dataset to a loader whose batches are handed out later than it believes: they count when they are."""

    def __init__(self, ds: UniRecordDataset) -> None:
        self._ds = ds
        self.delivery: Any = None

    def deliver(self, run: EpochRun, samples: int) -> None:
        """Keeps what the latest batch delivers."""
        self.delivery = (run, samples)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ds, name)


def _pinned(size: int) -> Any:
    """``size`` bytes of pinned memory as a numpy array that owns it."""
    import torch

    return torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()


def to_tensors(batch: Mapping[str, Any], bfloat16: Collection[str] = ()) -> dict[str, Any]:
    """A batch of ``UniRecordDataset.batches()`` with tensors in place of arrays; they share its memory.

    Columns named in ``bfloat16``, whose bits numpy holds as uint16, become tensors of that type.
    """
    import torch

    tensors: dict[str, Any] = {}
    for name, value in batch.items():
        if type(value) is np.ndarray:
            tensor = torch.from_numpy(value)
            tensors[name] = tensor.view(torch.bfloat16) if name in bfloat16 else tensor
        elif isinstance(value, np.ma.MaskedArray):
            valid = ~np.ma.getmaskarray(value)
            filled = value.filled(np.nan) if value.dtype.kind == "f" else value.data
            tensors[name], tensors[f"{name}_valid"] = torch.from_numpy(filled), torch.from_numpy(valid)
        else:
            tensors[name] = value
    return tensors


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
