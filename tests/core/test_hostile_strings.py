"""Strings that are not UTF-8: refused by part and row in every way of reading, or left out and counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import reseal
from writing import write_numbered

import unirecord


def test_a_string_that_is_not_utf8_is_corrupt_in_every_way_of_reading(tmp_path: Path) -> None:
    path = write_numbered(tmp_path / "a.urec")
    index = Path(f"{path}.idx")
    content = bytearray(index.read_bytes())
    content[content.rindex(b"abc0abc1")] = 0xFF
    reseal.index(content, path.read_bytes())
    index.write_bytes(content)
    dataset = unirecord.UniRecordDataset(path)
    for read in (
        lambda: dataset[0],
        lambda: dataset.__getitems__([0, 1]),
        lambda: list(dataset),
        lambda: list(dataset.batches(8)),
        lambda: dataset.scalars(["s"]),
        lambda: dataset.read_rows(np.arange(len(dataset))),
        lambda: dataset.read_rows(np.array([0])),
    ):
        with pytest.raises(unirecord.CorruptionError, match=r"(?i)utf-?8") as caught:
            read()
        assert caught.value.column == "s"
    assert not unirecord.verify(path).ok


@pytest.fixture
def no_text(tmp_path: Path) -> list[str]:
    """Two parts of 5 and 7 rows; in the second, row 3 has a string that is not UTF-8."""
    paths = [str(write_numbered(tmp_path / "a.urec", 5)), str(write_numbered(tmp_path / "b.urec", 7))]
    index = Path(f"{paths[1]}.idx")
    content = bytearray(index.read_bytes())
    content[content.rindex(b"abc3")] = 0xFF
    reseal.index(content, Path(paths[1]).read_bytes())
    index.write_bytes(content)
    return paths


def test_a_batch_names_part_and_row_of_a_string_that_is_not_utf8(no_text: list[str]) -> None:
    loader = unirecord.UniRecordDataset(no_text).batches(4)
    batches = iter(loader)
    assert len(next(batches)["s"]) == len(next(batches)["s"]) == 4
    with pytest.raises(unirecord.CorruptionError, match=r"b\.urec: row 3, column 's': .*utf-8") as caught:
        next(batches)
    assert (caught.value.path, caught.value.row, caught.value.column) == (no_text[1], 3, "s")


@pytest.mark.parametrize("batch_size", [1, 4, 12])
def test_a_string_that_is_not_utf8_is_left_out_and_counted(no_text: list[str], batch_size: int) -> None:
    dataset = unirecord.UniRecordDataset(no_text, on_corrupt="skip")
    loader = dataset.batches(batch_size)
    batches = list(loader)
    assert [s for batch in batches for s in batch["s"]] == [s["s"] for s in dataset]
    assert sum(len(batch["s"]) for batch in batches) == 11
    assert all(len(batch["s"]) for batch in batches)
    assert (loader.stats().samples, loader.stats().skipped) == (11, 1)
    rows = dataset.batches(batch_size, transform=lambda sample: sample["s"])
    assert sum(map(len, rows)) == 11
