"""Splits a dataset into several: each row goes where a hash of it, or the value of a column, says."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..snapshot.dataset_path import resolve
from .write_dataset import write_dataset

__all__ = [
    "split",
]


Path = str | os.PathLike[str]


def split(
    path: Path,
    dst: Path,
    shares: Mapping[str, float | str] | None = None,
    *,
    by: str | None = None,
    stratify: str | None = None,
    seed: int = 0,
    workers: int = 1,
    overwrite: bool = False,
) -> int:
    """Writes the shares of a dataset, each a dataset of its own in the folder ``dst``; the rows of all together.

    A row goes by its values alone, to the share that ``ds.split(shares, seed)`` has it in: rows that are added later
    move no other (docs/order.md). All shares appear when the last of them is written.

    Args:
        path: any dataset; ``data@7`` is a version.
        dst: a folder for the shares.
        shares: as ``{"train": 0.9, "val": 0.1}``; without them ``by`` alone makes a dataset of each of its values.
        by: the column whose value decides, so that rows with one value stay together; None: the whole row.
        stratify: the column of which each value is split in these shares.
        seed: of the hash.
        workers: processes that write.
        overwrite: replace what is there.

    Raises:
        ExistsError: there is something at ``dst``.
        SchemaError: there is no such column.
        ValueError: the shares do not add up to 1, or exclude each other.
    """
    index = resolve(path).index
    return write_dataset(
        os.fspath(path),
        dst,
        kind="unirecord",
        index=index,
        split=shares,
        split_by=by,
        stratify=stratify,
        seed=seed,
        workers=workers,
        overwrite=overwrite,
    )
