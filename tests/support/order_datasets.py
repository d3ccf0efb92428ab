"""Small datasets for the tests of order: parts of given sizes, whose column "i" counts the rows through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import unirecord
from unirecord import UniRecordDataset

MODES = [False, True, "block", "parts", "within-parts"]
PARTS = [7, 0, 12, 1, 30, 0]  # 50 rows in parts of any size

Make = Callable[[Sequence[int]], list[Path]]


def maker(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A function that writes parts of given sizes; the same sizes give the same files."""
    made: dict[tuple[int, ...], list[Path]] = {}

    def make(sizes: Sequence[int]) -> list[Path]:
        key = tuple(sizes)
        if key not in made:
            directory = tmp_path_factory.mktemp("parts")
            made[key] = [directory / f"{number}.urec" for number in range(len(sizes))]
            for number, rows in enumerate(sizes):
                first = sum(sizes[:number])
                with unirecord.Writer(
                    made[key][number], {"i": "int64", "odd": "bool", "data": "bytes"}
                ) as writer:
                    for i in range(first, first + rows):
                        writer.write({"i": i, "odd": i % 2 == 1, "data": bytes([i % 256]) * (i % 5)})
        return made[key]

    return make


def values(ds: UniRecordDataset) -> list[int]:
    """The rows of one pass, in the order they came."""
    return [int(sample["i"]) for sample in ds]
