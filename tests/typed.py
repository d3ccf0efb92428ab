"""What a type checker is told of what the package gives: `make lint` checks it, nothing runs it."""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_type

from unirecord import BatchLoader, UniRecordDataset
from unirecord.torch import TorchLoader, loader


def number(sample: Any) -> int:
    return 1


def total(batch: dict[str, Any]) -> float:
    return 1.0


def joined(samples: list[int]) -> bytes:
    return b""


def the_type_of_a_loader_says_what_its_batches_are(ds: UniRecordDataset) -> None:
    assert_type(ds.batches(8, drop_last=True), BatchLoader[dict[str, Any]])
    assert_type(next(iter(ds.batches(8))), dict[str, Any])
    assert_type(ds.batches(8, batch_transform=total), BatchLoader[float])
    assert_type(ds.batches(8, transform=number, collate_fn=joined, prefetch=2), BatchLoader[bytes])
    assert_type(loader(ds, 8, device="cuda"), TorchLoader[dict[str, Any]])
    assert_type(loader(ds, 8, transform=number, collate_fn=joined), TorchLoader[bytes])
