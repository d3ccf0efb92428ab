"""Corrupt rows in drawn batches, weighted draws and mixtures: left out where they come, or an error that names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unirecord
from unirecord import CorruptionError, UniRecordDataset

ROWS, SIZE = 24, 3000
CORRUPT = (3, 8, 17)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows have a byte that is not the one written."""
    file = tmp_path_factory.mktemp("corrupt") / "a.urec"
    with unirecord.Writer(file, {"i": "int32", "label": "int8", "x": "bytes"}) as writer:
        for i in range(ROWS):
            writer.write({"i": i, "label": i % 4, "x": bytes([65 + i]) * SIZE})
    data = bytearray(file.read_bytes())
    for i in CORRUPT:
        data[data.index(bytes([65 + i]) * SIZE)] ^= 1
    file.write_bytes(data)
    return file


def mixture(ds: UniRecordDataset) -> UniRecordDataset:
    sources = {"a": ds.select(range(9)), "b": ds.select(range(9, ROWS))}
    return unirecord.mix(sources, {"a": 2, "b": 3}, seed=5, samples=40)


BATCHES = {
    "balanced": lambda ds: unirecord.balanced(ds, "label", classes=2, per_class=3),
    "a batch of corrupt rows alone": lambda ds: unirecord.bucketed(
        ds.select([3, 8, 5, 6]), "i", batch_size=1
    ),
    "bucketed": lambda ds: unirecord.bucketed(ds, "x", batch_size=5),
}
SAMPLES = {"weighted": lambda ds: unirecord.weighted(ds, "i", samples=60), "mixture": mixture}
KINDS: dict[str, Callable[[UniRecordDataset], Any]] = {**BATCHES, **SAMPLES}


def opened(path: Path, on_corrupt: Any, rank: int = 0, ranks: int = 1) -> UniRecordDataset:
    return UniRecordDataset(
        path, rank, ranks, shuffle=True, seed=2, on_corrupt=on_corrupt, verify="always", remainder="uneven"
    )


def loaded(made: Any, **options: Any) -> unirecord.BatchLoader:
    return made.batches(**options) if isinstance(made, unirecord.DrawnBatches) else made.batches(7, **options)


def rows_of_batches(made: Any, rank: int) -> list[list[int]]:
    """Which rows each batch of a rank would have, by the column ``i``, which no damage touches."""
    if isinstance(made, unirecord.DrawnBatches):
        over, batches = made.dataset, [made.order.rows_of(step, rank=rank) for step in range(len(made))]
    else:
        rows = made.order.row_ids()
        over, batches = made, [rows[at : at + 7] for at in range(0, len(rows), 7)]
    plain = over.view(columns=["i"])
    return [plain.read_rows(rows)["i"].tolist() for rows in batches]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changed", [False, True], ids=["as stored", "transformed"])
def test_corrupt_rows_are_left_out_where_they_come_and_no_others(
    path: Path, kind: str, changed: bool
) -> None:
    for rank in range(2):
        made = KINDS[kind](opened(path, "skip", rank, 2))
        wanted = rows_of_batches(made, rank)
        kept = [[i for i in batch if i not in CORRUPT] for batch in wanted]
        options = {"transform": lambda sample: {"i": sample["i"], "x": sample["x"]}} if changed else {}
        loader = loaded(made, **options)
        found = []
        for batch in loader:
            found.append([int(i) for i in batch["i"]])
            assert [bytes(x) for x in batch["x"]] == [bytes([65 + i]) * SIZE for i in found[-1]]
        assert found == [batch for batch in kept if batch]
        assert loader.stats().skipped == sum(map(len, wanted)) - sum(map(len, kept))


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_corrupt_row_is_named_and_what_came_before_is_given(path: Path, kind: str) -> None:
    made = KINDS[kind](opened(path, "raise"))
    wanted = rows_of_batches(made, 0)
    first = next(number for number, batch in enumerate(wanted) if set(batch) & set(CORRUPT))
    found: list[list[int]] = []
    with pytest.raises(CorruptionError, match=r"a\.urec.*row \d+") as caught:
        found.extend(batch["i"].tolist() for batch in loaded(made))
    assert found == wanted[:first]
    assert caught.value.row in set(wanted[first]) & set(CORRUPT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_goes_on_behind_rows_that_were_left_out(path: Path, kind: str) -> None:
    whole = [batch["i"].tolist() for batch in loaded(KINDS[kind](opened(path, "skip")))]
    loader = loaded(KINDS[kind](opened(path, "skip")))
    batches = iter(loader)
    for done in range(1, len(whole)):
        next(batches)
        resumed = loaded(KINDS[kind](opened(path, "skip")))
        resumed.load_state_dict(loader.state_dict())
        assert [batch["i"].tolist() for batch in resumed] == whole[done:]


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_audit_names_what_was_left_out_as_often_as_it_came(path: Path, tmp_path: Path, kind: str) -> None:
    left = 0
    for rank in range(2):
        loader = KINDS[kind](opened(path, "skip", rank, 2)).batches(7, receipts=tmp_path)
        list(loader)
        left += loader.stats().skipped
    report = unirecord.audit(tmp_path, KINDS[kind](opened(path, "skip")))
    assert report.ok, report
    (epoch,) = report.orders[0].epochs
    assert left > len(CORRUPT)
    assert sum(skipped.count for skipped in epoch.left_out["corrupt"]) == left
    assert epoch.delivered + left == epoch.positions
