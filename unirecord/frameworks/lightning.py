"""Lightning: the loader of PyTorch with the length that Lightning counts by when it resumes within an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..dataset.dataset import UniRecordDataset
from .torch import loader as torch_loader

if TYPE_CHECKING:
    from .torch import TorchLoader

__all__ = ["LightningLoader", "loader"]


def loader(ds: UniRecordDataset, batch_size: int, **options: Any) -> LightningLoader:
    """As ``unirecord.torch.loader``, for a ``LightningDataModule`` or ``LightningModule``.

    Lightning keeps the loader's state in its checkpoints, and goes on at the very sample, within an epoch too.
    Open the dataset with ``UniRecordDataset.distributed``; Lightning adds no sampler of its own.

    Args:
        ds: the dataset.
        batch_size: samples in a batch.
        **options: the others of ``unirecord.torch.loader``.
    """
    return LightningLoader(torch_loader(ds, batch_size, **options), bool(options.get("drop_last", False)))


class LightningLoader:
    """Batches with a state. Its length is that of a whole epoch, from which Lightning takes off what it has done."""

    def __init__(self, batches: TorchLoader[Any], drop_last: bool) -> None:
        self._batches = batches
        self._drop_last = drop_last

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)

    def __len__(self) -> int:
        return self._batches._cursor.batches_of_epoch(self._batches.batch_size, self._drop_last)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands, by the batches handed out."""
        return self._batches.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where ``state`` was taken, on any number of ranks."""
        self._batches.load_state_dict(state)
