"""Receipts of windows, packed samples, weighted draws and mixtures: proven exact over ranks and a resume, or named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from receipt_jobs import Job, told

import unirecord
from unirecord import UniRecordDataset
from unirecord.dataset.receipts import RECORD_BYTES, Head, packed, unpacked

ROWS = 70
Made = Callable[[UniRecordDataset], UniRecordDataset]


def mixture(ds: UniRecordDataset, share: int = 3) -> UniRecordDataset:
    sources = {"a": ds.select(range(9)), "b": ds.select(range(9, ROWS))}
    return unirecord.mix(sources, {"a": 2, "b": share}, seed=5, samples=50)


# How it is made, the column that says which sample one is, and the same with another option.
KINDS: dict[str, tuple[Made, str, Made]] = {
    "windows": (
        lambda ds: unirecord.windows(ds, "tokens", 5),
        "tokens",
        lambda ds: unirecord.windows(ds, "tokens", 6),
    ),
    "windows of documents": (
        lambda ds: unirecord.windows(ds, "tokens", 5, 3, boundaries="document", pad=0),
        "tokens",
        lambda ds: unirecord.windows(ds, "tokens", 5, 2, boundaries="document", pad=0),
    ),
    "packed": (
        lambda ds: unirecord.packed(ds, "tokens", 8, pad=0),
        "tokens",
        lambda ds: unirecord.packed(ds, "tokens", 9, pad=0),
    ),
    "weighted": (
        lambda ds: unirecord.weighted(ds, "i"),
        "i",
        lambda ds: unirecord.weighted(ds, np.arange(ROWS) % 3),
    ),
    "mixture": (mixture, "i", lambda ds: mixture(ds, 4)),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several parts; each element of ``tokens`` is another number."""
    folder = tmp_path_factory.mktemp("audit") / "data"
    at = 1
    with unirecord.Writer(
        folder, {"i": "int32", "tokens": {"type": "int32", "shape": [-1]}}, max_part_bytes=4096
    ) as writer:
        for i in range(ROWS):
            writer.write({"i": i, "tokens": np.arange(at, at + i % 7, dtype=np.int32)})
            at += i % 7
    return folder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [False, True, "block"])
def test_a_job_on_two_ranks_that_goes_on_with_three_is_proven_exact(
    path: Path, tmp_path: Path, kind: str, mode: Any
) -> None:
    make, column, other = KINDS[kind]
    opened = UniRecordDataset(path, shuffle=mode, seed=5, remainder="uneven")
    base = make(opened)
    job = Job(base, tmp_path, 3, column=column)
    job.launch(2, steps=2, lost=1)
    job.launch(3)
    report = unirecord.audit(tmp_path, base)
    assert report.ok, report
    (order,) = report.orders
    assert [launch.undone > 0 for launch in order.launches] == [True, False]
    assert [(epoch.epoch, epoch.delivered, epoch.repeated) for epoch in order.epochs] == [
        (0, len(base), 0),
        (1, len(base), 0),
    ]
    expected: Counter[tuple[int, Any]] = Counter()
    for epoch in range(2):
        base.set_epoch(epoch)
        expected.update((epoch, told(sample[column])) for sample in base)
    assert job.rows == expected
    with pytest.raises((ValueError, unirecord.StaleError), match=r"in the state and .* here"):
        unirecord.audit(tmp_path, other(opened))


@pytest.mark.parametrize("kind", KINDS)
def test_a_gap_and_other_rows_are_named(path: Path, tmp_path: Path, kind: str) -> None:
    make, column, _ = KINDS[kind]
    base = make(UniRecordDataset(path, shuffle=True, seed=5))
    job = Job(base, tmp_path, 4, column=column)
    job.launch(1, epochs=1)
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    _, size = Head.unpacked(data, str(file))
    records = [
        unpacked(data[at : at + RECORD_BYTES], n) for n, at in enumerate(range(size, len(data), RECORD_BYTES))
    ]
    changed = [*records[:2], records[2]._replace(digest=records[2].digest ^ 1), *records[3:]]
    file.write_bytes(data[:size] + b"".join(packed(record, n) for n, record in enumerate(changed)))
    report = unirecord.audit(tmp_path, base)
    assert not report.ok
    assert [
        "the batch from position 4 of epoch 0 on had other rows" in problem for problem in report.problems
    ] == [True]
    file.write_bytes(data)
    job.state = {**job.state, "epoch": 1, "position": 4}
    job.launch(1, epochs=1)
    report = unirecord.audit(tmp_path, base)
    assert not report.ok
    assert [(skipped.first, skipped.stop) for skipped in report.orders[0].epochs[1].never] == [(0, 4)]


def test_draws_by_other_weights_are_another_order(path: Path, tmp_path: Path) -> None:
    """Only a mixture's weights may change while a job goes on."""
    ds = UniRecordDataset(path, shuffle=True, seed=5)
    for weights in (np.arange(ROWS), np.ones(ROWS)):
        list(unirecord.weighted(ds, weights).batches(8, receipts=tmp_path / "weighted"))
    for share in (3, 4):
        list(mixture(ds, share).batches(8, receipts=tmp_path / "mixed"))
    assert [unirecord.audit(tmp_path / name).ok for name in ("weighted", "mixed")] == [True, False]
    assert len(unirecord.audit(tmp_path / "weighted").orders) == 2


@pytest.mark.parametrize(
    "drawn",
    [
        lambda ds: unirecord.balanced(ds, "i", classes=2, per_class=1),
        lambda ds: unirecord.bucketed(ds, "tokens", batch_size=2),
    ],
    ids=["balanced", "bucketed"],
)
def test_drawn_batches_refuse_receipts_and_write_none(path: Path, tmp_path: Path, drawn: Any) -> None:
    folder = tmp_path / "receipts"
    batches = drawn(UniRecordDataset(path))
    with pytest.raises(ValueError, match="none for drawn batches"):
        batches.batches(receipts=folder)
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="none for drawn batches"):
        unirecord.torch.loader(batches, receipts=folder)
    assert not folder.exists()
