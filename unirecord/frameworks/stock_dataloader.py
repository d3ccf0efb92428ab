"""What PyTorch's own DataLoader asks of a dataset tells which pass it is in; samplers that do not fit are named."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from ..dataset.position import Position

__all__ = ["asked_by_torchdata", "epoch_to_fetch", "length_asked"]

_WRAPPERS = 4  # calls between a fetcher and us: Subset, ConcatDataset and their like

_TORCHDATA = "torchdata.stateful_dataloader"
_SAMPLERS = 6  # calls between the iterator of a DataLoader and its innermost sampler

# For each fetcher of a DataLoader, which makes a new one for every pass, the epoch that it reads of each dataset.
_passes: WeakKeyDictionary[Any, WeakKeyDictionary[Position, _Pass]] = WeakKeyDictionary()


class _Pass:
    """A pass of one fetcher: its epoch, and how often the numbers it asked for went down instead of up."""

    __slots__ = ("descents", "epoch", "last")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last = -1
        self.descents = 0


def length_asked(position: Position, shuffled: bool, shard: tuple[int, int], caller: FrameType) -> None:
    """Sees what the length of a dataset was asked for; ``shard`` is (shard_id, num_shards).

    Samplers ask a dataset for nothing else: DistributedSampler, and what Lightning and Accelerate derive from it, in
    their constructor, SequentialSampler whenever a pass begins. So that is the one place where a pass that reads in
    worker processes can be seen to begin, and a mistake before it has cost a run.
    """
    function = caller.f_code.co_name
    if function not in ("__iter__", "num_samples", "__init__"):
        return
    sampler = type(caller.f_locals.get("self")).__name__
    if "Sampler" not in sampler:
        return
    if function == "__iter__" and sampler == "SequentialSampler":
        if not _is_for_nothing(caller):
            position.begin_outside()
    elif function == "num_samples" and sampler == "RandomSampler" and shuffled:
        _warn_of_second_shuffle("DataLoader(shuffle=True)", 5)
    elif function == "__init__" and shard[1] > 1 and caller.f_locals.get("num_replicas") not in (None, 1):
        warnings.warn(
            f"{sampler} with num_replicas={caller.f_locals['num_replicas']} would shard this dataset twice: "
            f"it is already shard {shard[0]} of {shard[1]}. "
            "Open it without shard_id and num_shards, or use it without the sampler",
            UserWarning,
            stacklevel=4,
        )


def _is_for_nothing(frame: FrameType | None) -> bool:
    """Whether torchdata's loader with workers asks a sampler in its constructor: it asks again, and uses that."""
    for _ in range(_SAMPLERS):
        if frame is None:
            return False
        asking = frame.f_locals.get("self")
        if type(asking).__name__.endswith("MultiProcessingDataLoaderIter"):
            return type(asking).__module__.startswith(_TORCHDATA) and frame.f_code.co_name == "__init__"
        frame = frame.f_back
    return False


def epoch_to_fetch(position: Position, shuffled: bool, indices: Any, caller: FrameType | None) -> int:
    """The epoch in which samples are asked for: for a DataLoader the one in which its pass began."""
    fetcher = _fetcher(caller)
    if fetcher is None:
        return position.epoch
    passes = _passes.setdefault(fetcher, WeakKeyDictionary())
    current = passes.get(position)
    if current is None:
        current = passes[position] = _Pass(_begun(position, shuffled))
    if shuffled and len(indices):
        _check_order(current, indices)
    return current.epoch


def _begun(position: Position, shuffled: bool) -> int:
    """The epoch of a pass that begins with its first fetch."""
    in_worker = sys.modules["torch.utils.data"].get_worker_info() is not None
    before = position.epoch_fetched
    epoch = position.begin_fetching(in_worker)
    if shuffled and epoch == before:
        warnings.warn(
            f"a DataLoader reads epoch {epoch} of a shuffled dataset for the second time, in the same order: "
            "call ds.set_epoch(epoch) before each epoch",
            UserWarning,
            stacklevel=5,
        )
    return epoch


def _fetcher(frame: FrameType | None) -> Any:
    """The fetcher of a DataLoader that the calls come from, if they do."""
    for _ in range(_WRAPPERS):
        if frame is None:
            return None
        if frame.f_code.co_name == "fetch":
            found = frame.f_locals.get("self")
            return found if type(found).__name__ == "_MapDatasetFetcher" else None
        frame = frame.f_back
    return None


def _check_order(current: _Pass, indices: Any) -> None:
    """Warns of samplers that put an order over that of the dataset."""
    for index in indices:
        current.descents += index <= current.last
        current.last = index
    if current.descents >= 2:  # one is the padding of DistributedSampler
        current.descents = -(1 << 62)
        _warn_of_second_shuffle("The DataLoader's sampler", 6)


def _warn_of_second_shuffle(who: str, stacklevel: int) -> None:
    warnings.warn(
        f"{who} puts an order of its own over a dataset that is shuffled already. Its numbers are places in the "
        "shuffled order, not rows: weights by row are those of other samples. Open the dataset with shuffle=False, or "
        'leave the order to it; ds.scalars(order="samples") has the values in the order of ds[i]',
        UserWarning,
        stacklevel=stacklevel,
    )


def asked_by_torchdata(caller: FrameType) -> bool:
    """Whether torchdata's StatefulDataLoader asks, which counts the samples of its passes by itself."""
    return str(caller.f_globals.get("__name__", "")).startswith(_TORCHDATA)
