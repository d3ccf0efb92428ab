"""Corrupt rows are left out by every loader that is asked to, alone and in its order; else they are errors."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import conformance.frameworks  # noqa: F401  (registers consumers)
from conformance import records, views
from conformance.canonical import frozen, stored
from conformance.consumers import CONSUMERS, Consumer, Options
from conformance.oracle import batched, group_rows
from conformance.play import compare
from conformance.views import View
from unirecord import CorruptionError

DATASETS, CASES = 12, 8
NAMES = ("for sample in ds", "batches", "torch.loader", "DataLoader", "tf.dataset")
CHOSEN: list[Consumer] = [each for each in CONSUMERS if each.name in NAMES]


def _drawn(written: records.Written, consumer: Consumer, pick: random.Random) -> View:
    """A view that reads, and checks, the column that is damaged."""
    view = views.draw(written, pick)
    names = [field.name for field in written.fields if field.name == "large" or consumer.can_carry(field)]
    return views.replace(view, columns=names, verify=pick.choice(["first", "always"]))


def _options(consumer: Consumer, pick: random.Random) -> Options:
    given: dict[str, Any] = {
        "batch_size": pick.choice([1, 2, 3, 7]),
        "drop_last": pick.random() < 0.3,
        "num_threads": pick.choice([None, 1, 3]),
    }
    return Options(**{name: value for name, value in given.items() if name in consumer.takes})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(DATASETS))
def test_corrupt_rows_are_left_out_and_no_others(number: int, tmp_path: Path) -> None:
    written = records.write_large(number, tmp_path)
    for file, size in zip(written.files, written.parts, strict=True):
        if size:
            group_rows(file)  # is remembered: of a damaged file the oracle could not say it
    corrupt = records.damage(written, random.Random(number))
    for case in range(CASES):
        pick = random.Random(f"corrupt {number} {case}")
        consumer = pick.choice(CHOSEN)
        view, options = _drawn(written, consumer, pick), _options(consumer, pick)
        epoch = pick.choice([0, 3])
        size = options.batch_size if consumer.batched else 1
        batches = batched(view.delivered(epoch), size, options.drop_last)
        kept = [[row for row in batch if row not in corrupt] for batch in batches]
        expected = [
            [frozen({name: written.records[row][name] for name in view.names}) for row in rows]
            for rows in kept
            if rows
        ]
        if consumer.stored_times and not options.collate:
            expected = [
                [{name: stored(value) for name, value in sample.items()} for sample in batch]
                for batch in expected
            ]
        by_name = {field.name: field for field in written.fields}
        fields = [by_name[name] for name in view.names]
        noticed = sum(map(len, kept)) < sum(map(len, batches))
        for on_corrupt in ("skip", "raise"):
            with view.open(on_corrupt=on_corrupt) as ds:
                reading = consumer.make(ds, options, fields)
                reading.set_epoch(ds, epoch)
                lost = consumer.name == "DataLoader" and not all(
                    kept
                )  # it has no way to leave out a whole batch
                if noticed and (on_corrupt == "raise" or lost):
                    wanted = Exception if consumer.name == "tf.dataset" else CorruptionError
                    with pytest.raises(wanted, match=r"row \d+"):
                        list(reading.batches())
                    continue
                found = list(reading.batches())
                if not consumer.batched:
                    found = [[sample] for batch in found for sample in batch]
                compare(found, expected, True)


def test_each_loader_meets_corrupt_rows() -> None:
    drawn = [
        random.Random(f"corrupt {number} {case}").choice(CHOSEN).name
        for number in range(DATASETS)
        for case in range(CASES)
    ]
    assert {*drawn} == {*NAMES}
    assert min(drawn.count(name) for name in NAMES) >= 8
