"""What a type checker is told of what the package gives: `make lint` checks it, nothing runs it."""

from __future__ import annotations

from typing import Any, Literal, assert_type

from numpy.typing import NDArray

from unirecord import BatchLoader, UniRecordDataset
from unirecord.torch import TorchLoader, loader


def number(sample: Any) -> int:
    return 1


def total(batch: dict[str, Any]) -> float:
    return 1.0


def joined(samples: list[int]) -> bytes:
    return b""


def the_type_of_a_loader_says_what_its_batches_are(ds: UniRecordDataset) -> None:
    assert_type(ds, UniRecordDataset[dict[str, Any]])
    assert_type(ds.batches(8, drop_last=True), BatchLoader[dict[str, Any]])
    assert_type(next(iter(ds.batches(8))), dict[str, Any])
    assert_type(ds.batches(8, batch_transform=total), BatchLoader[float])
    assert_type(ds.batches(8, transform=number, collate_fn=joined, prefetch=2), BatchLoader[bytes])
    assert_type(ds.batches(8).stats().bound, Literal["consumer", "read", "transform"])
    assert_type(loader(ds, 8, device="cuda"), TorchLoader[dict[str, Any]])
    assert_type(loader(ds, 8, transform=number, collate_fn=joined), TorchLoader[bytes])


def the_type_of_a_dataset_says_what_its_samples_are() -> None:
    plain = UniRecordDataset("x", shuffle=True)
    assert_type(plain, UniRecordDataset[dict[str, Any]])
    assert_type(plain[0], dict[str, Any])
    assert_type(plain["label"], NDArray[Any])
    assert_type(plain.get("path", "a.jpg"), dict[str, Any])
    assert_type(plain.get("path", "a.jpg", None), dict[str, Any] | None)
    assert_type(plain.view(where="x > 1").take(3).split(0.5)[0], UniRecordDataset[dict[str, Any]])
    assert_type(UniRecordDataset.distributed("x", seed=3), UniRecordDataset[dict[str, Any]])
    assert_type(UniRecordDataset.distributed("x", 0, 4, transform=number), UniRecordDataset[int])

    numbers = UniRecordDataset("x", 0, 4, transform=number, columns=["x"])
    assert_type(numbers, UniRecordDataset[int])
    assert_type(numbers[3], int)
    assert_type(numbers[2:5], list[int])
    assert_type(numbers[[1, 2]], list[int])
    assert_type(next(iter(numbers)), int)
    assert_type(numbers.take(3).view(seed=2), UniRecordDataset[int])
    assert_type(numbers.view(transform=None), UniRecordDataset[dict[str, Any]])
    assert_type(plain.view(transform=number, shuffle=False)[0], int)
    with numbers as opened:
        assert_type(opened, UniRecordDataset[int])


def batches_of_what_a_transform_returns_are_not_said_to_be_dicts(ds: UniRecordDataset[int]) -> None:
    assert_type(ds.batches(8), BatchLoader[Any])
    assert_type(ds.batches(8, transform=None), BatchLoader[dict[str, Any]])
    assert_type(ds.batches(8, collate_fn=joined), BatchLoader[bytes])
    assert_type(loader(ds, 8), TorchLoader[Any])
