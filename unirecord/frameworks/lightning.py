"""Lightning: the loader of PyTorch with the length that Lightning counts by when it resumes within an epoch."""

from __future__ import annotations

from typing import Any, TypeVar

from ..dataset.dataset import UniRecordDataset
from ..migration_hints import READING_ARGUMENTS, explains_arguments
from .torch import TorchLoader, made_loader

__all__ = ["LightningLoader", "loader"]

Batch = TypeVar("Batch")


@explains_arguments(READING_ARGUMENTS)
def loader(ds: UniRecordDataset[Any], batch_size: int, **options: Any) -> LightningLoader[Any]:
    """As ``unirecord.torch.loader``, for a ``LightningDataModule`` or ``LightningModule``.

    Lightning keeps the loader's state in its checkpoints, and goes on at the very sample, within an epoch too.
    Open the dataset with ``UniRecordDataset.distributed``; Lightning adds no sampler of its own.

    Args:
        ds: the dataset.
        batch_size: samples in a batch.
        **options: the others of ``unirecord.torch.loader``.
    """
    return made_loader(LightningLoader, ds, batch_size, **options)


class LightningLoader(TorchLoader[Batch]):
    """The loader of PyTorch. Its length is that of a whole epoch, from which Lightning takes off what it has done."""

    def __len__(self) -> int:
        return self.read_cursor.batches_of_epoch(self._options.batch_size, self._options.drop_last)
