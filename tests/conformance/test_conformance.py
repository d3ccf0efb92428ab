"""Every loader delivers what was written, in the order of docs/spec/order.md, in thousands of random configurations."""

from __future__ import annotations

from pathlib import Path

import pytest
import reference

import conformance.frameworks  # noqa: F401  (registers consumers)
from conformance import records
from conformance.case import CASES_A_DATASET, draw
from conformance.known import excused
from conformance.play import compare, run
from unirecord import verify

DATASETS = 92


@pytest.mark.parametrize("number", range(DATASETS))
def test_loaders_deliver_what_was_written(number: int, tmp_path: Path) -> None:
    written = records.write(number, tmp_path)
    for case in range(number * CASES_A_DATASET, (number + 1) * CASES_A_DATASET):
        drawn = draw(case, written)
        if excused(drawn) is None:
            run(drawn)


def test_parts_of_the_other_writer_are_what_the_page_allows(tmp_path: Path) -> None:
    """They have what the package's writer does not write; `verify` and the second reader take them."""
    later = 0
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file in records.write(number, folder).files:
            part = reference.read_part(file)
            later += b"partgen" in part.head.metadata
            assert verify(file).problems == []
    assert later > 3


@pytest.mark.parametrize(
    "wrong", [[[1, 2], [4, 3]], [[1, 2], [3]], [[1, 2, 3, 4]], [[1, 2], [3, 5]], [[1, 2]]]
)
def test_what_is_out_of_order_left_out_or_changed_is_noticed(wrong: list[list[int]]) -> None:
    def batches(numbers: list[list[int]]) -> list[list[dict[str, int]]]:
        return [[{"n": number} for number in batch] for batch in numbers]

    compare(batches([[1, 2], [3, 4]]), batches([[1, 2], [3, 4]]), True)
    with pytest.raises(AssertionError):
        compare(batches(wrong), batches([[1, 2], [3, 4]]), True)
