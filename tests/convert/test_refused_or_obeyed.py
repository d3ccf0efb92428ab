"""What used to be distorted or left out without a word: options, transforms, corrupt batches, names, selections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import unirecord
import unirecord.torch
from unirecord import TransformError, UniRecordDataset, Writer

ROWS = 40


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("obeyed") / "a.urec"
    with Writer(path, {"i": "int64", "label": "int32"}) as writer:
        writer.write_batch({"i": list(range(ROWS)), "label": [i % 3 for i in range(ROWS)]})
    return path


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 rows, of which 4 … 7 are corrupt."""
    path = tmp_path_factory.mktemp("damaged") / "a.urec"
    with Writer(path, {"i": "int64", "b": {"type": "uint8", "shape": [64]}, "r": "bytes"}) as writer:
        for i in range(12):
            writer.write(
                {"i": i, "b": np.full(64, 100 + i, np.uint8), "r": bytes(5_000)}
            )  # large rows have digests of their own
    raw = bytearray(path.read_bytes())
    for i in (4, 5, 6, 7):
        raw[raw.find(bytes([100 + i]) * 64) + 3] ^= 1
    path.write_bytes(raw)
    return path


def stops(sample: dict[str, Any]) -> int:
    if sample["i"] == 15:
        next(iter([]))
    return int(sample["i"])


READERS: dict[str, Callable[[UniRecordDataset], Any]] = {
    "batches": lambda ds: list(ds.batches(10)),
    "batches, no worker": lambda ds: list(ds.batches(10, num_workers=0)),
    "torch": lambda ds: list(unirecord.torch.loader(ds, 10)),
    "DataLoader": lambda ds: list(DataLoader(ds, 10)),
    "iteration": list,
    "slice": lambda ds: ds[:],
    "index": lambda ds: [ds[i] for i in range(len(ds))],
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_transform_that_raises_stop_iteration_ends_nothing_silently(
    path: Path, read: Callable[[UniRecordDataset], Any]
) -> None:
    with pytest.raises(TransformError, match="row 15") as caught:
        read(UniRecordDataset(path, transform=stops))
    assert caught.value.row == 15


@pytest.mark.parametrize("transform", [None, lambda sample: {"i": sample["i"]}])
def test_a_wholly_corrupt_batch_is_left_out_and_counted(damaged: Path, transform: Any) -> None:
    for rows, size in ((range(12), 4), (range(8), 4), (range(12), 3)):
        ds = UniRecordDataset(damaged, on_corrupt="skip", transform=transform).select(rows)
        loader = ds.batches(size)
        found = [batch["i"].tolist() for batch in loader]
        kept = [
            [i for i in rows[at : at + size] if i not in (4, 5, 6, 7)] for at in range(0, len(rows), size)
        ]
        assert found == [batch for batch in kept if batch]
        assert loader.stats().skipped == 4
        assert ds.state_dict()["position"] == len(rows)


def test_corrupt_rows_are_left_out_of_iterations_and_of_the_stock_loader(damaged: Path) -> None:
    good = [0, 1, 2, 3, 8, 9, 10, 11]
    ds = UniRecordDataset(damaged, on_corrupt="skip")
    assert [int(sample["i"]) for sample in ds] == good
    plain = UniRecordDataset(damaged, columns=["i", "b"], on_corrupt="skip")
    assert [int(i) for batch in DataLoader(plain, 3) for i in batch["i"]] == good
    with pytest.raises(unirecord.CorruptionError):
        ds[4]


@pytest.mark.parametrize("rows", [slice(None, None, 2), slice(None, None, -1), slice(30, 3, -4)])
def test_stepped_and_reversed_slices_of_any_selection_reach_every_loader(path: Path, rows: slice) -> None:
    for ds in (UniRecordDataset(path).split([0.5, 0.5], seed=1)[0], UniRecordDataset(path, where="i != 3")):
        chosen = ds.select(rows)
        expected = [int(sample["i"]) for sample in ds][rows]
        assert [int(i) for batch in chosen.batches(4) for i in batch["i"]] == expected
        assert chosen.scalars(["i"])["i"].tolist() == expected


def test_a_mask_does_not_take_the_name_of_a_column(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"x": "int64?", "x_valid": "int8"}) as writer:
        writer.write_batch({"x": [1, None], "x_valid": [5, 6]})
    ds = UniRecordDataset(tmp_path / "a.urec")
    with pytest.raises(unirecord.SchemaError, match=r"'x_valid'.*columns="):
        unirecord.torch.loader(ds, 2)
    assert next(iter(ds.batches(2)))["x_valid"].tolist() == [5, 6]
    assert next(iter(unirecord.torch.loader(ds.view(columns=["x"]), 2)))["x_valid"].tolist() == [True, False]


WRONG: list[tuple[Callable[[UniRecordDataset], Any], type[Exception], str]] = [
    (lambda ds: ds.view(columns="label"), ValueError, r"columns=\['label'\]"),
    (lambda ds: ds.scalars("label"), ValueError, r"\['label'\]"),
    (lambda ds: unirecord.torch.loader("x.urec", 8), TypeError, "UniRecordDataset"),  # type: ignore[arg-type]
    (lambda ds: ds.view(transform="x"), TypeError, "transform must be a function"),  # type: ignore[arg-type]
    (lambda ds: ds.batches(4, transform="x"), TypeError, "transform must be a function"),  # type: ignore[arg-type]
    (lambda ds: ds.__getitems__([1.5]), TypeError, "integers"),  # type: ignore[list-item]
    (lambda ds: ds[np.array([2**64 - 1], np.uint64)], IndexError, "out of range"),  # -1 as an int64
    (lambda ds: ds.__getitems__([2**64 - 1]), IndexError, "out of range"),
    (lambda ds: ds.batches(2**63), ValueError, "batch_size"),
    (lambda ds: ds.batches(4, prefetch=2**31), ValueError, "prefetch.*4096"),
    (lambda ds: unirecord.torch.loader(ds, 4, num_threads=2**80), ValueError, "num_threads.*1024"),
    (lambda ds: ds[[True, False]], TypeError, "boolean mask"),
    (lambda ds: ds[1.5], TypeError, "integers"),  # type: ignore[call-overload]
    (lambda ds: ds.split(1.5), ValueError, "fraction"),
    (lambda ds: ds.scalars(order="other"), ValueError, "order"),
    (lambda ds: ds.view(where="nothing == 1"), unirecord.QueryError, "nothing"),
]


@pytest.mark.parametrize(("wrong", "kind", "text"), WRONG)
def test_mistakes_say_what_to_do_instead(
    path: Path, wrong: Callable[[UniRecordDataset], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        wrong(UniRecordDataset(path))


def test_what_can_be_meant_is_taken(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=1)
    assert (
        [int(s["i"]) for s in ds[np.array([1, 2])]]
        == [int(s["i"]) for s in ds[[1, 2]]]
        == ds["i"][1:3].tolist()
    )
    assert int(ds[np.int64(3)]["i"]) == int(ds[3]["i"])
    assert [len(part) for part in ds.split(0.8)] == [32, 8]
    assert [len(part) for part in ds.split(10)] == [10, 30]
    assert [len(batch["i"]) for batch in ds.batches(np.int64(16), num_workers=0)] == [16, 16, 8]


def test_a_collate_function_is_called_without_a_transform(path: Path) -> None:
    ds = UniRecordDataset(path)
    assert next(iter(ds.batches(4, collate_fn=len))) == 4
    assert next(iter(ds.batches(4, collate_fn=len, batch_transform=str))) == "4"
    assert next(iter(unirecord.torch.loader(ds, 4, collate_fn=len))) == 4


def test_a_view_is_the_data_as_if_opened_so(path: Path) -> None:
    ds = UniRecordDataset(path, where="i >= 10")
    options: dict[str, Any] = {"shuffle": True, "seed": 5, "remainder": "uneven"}
    for rank in range(3):
        view = ds.view(where="label == 1", shard_id=rank, num_shards=3, columns=["i"], **options)
        again = UniRecordDataset(path, rank, 3, where="(i >= 10) and (label == 1)", columns=["i"], **options)
        assert list(map(dict, view)) == list(map(dict, again))
        assert view.state_dict() == again.state_dict()


def test_a_view_of_selected_rows_keeps_the_sizes_of_their_blocks(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"i": "int64"}) as writer:
        writer.write_batch({"i": list(range(5000))})
    ds = UniRecordDataset(tmp_path / "a.urec", shuffle="block", seed=5).select(range(0, 5000, 7))
    for view in (ds.view(), ds.view(columns=["i"]), ds.view(transform=None), ds.view(seed=5)):
        assert view.order.row_ids().tolist() == ds.order.row_ids().tolist()
        view.load_state_dict(ds.state_dict())


def test_few_columns_of_large_rows_are_read_far_ahead(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"label": "int32", "image": "bytes"}) as writer:
        writer.write_batch({"label": list(range(64)), "image": [bytes(100_000)] * 64})
    ds = UniRecordDataset(tmp_path / "a.urec")
    assert ds.view(columns=["label"]).read_cursor.plan.row_bytes == 4
    assert 100_000 <= ds.view(columns=["image"]).read_cursor.plan.row_bytes < 110_000
