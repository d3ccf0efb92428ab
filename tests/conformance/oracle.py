"""What a pass has to deliver, from the written records and docs/spec/order.md alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import reference
from order_reference import ROWS, block_order, parts_order, permutation, within_parts_order

from conformance.records import Written


def epoch_order(
    rows: Sequence[int], parts: Sequence[int], shuffle: Any, blocks: tuple[int, int], seed: int, epoch: int
) -> list[int]:
    """The selected ``rows`` in the order of an epoch; ``parts`` has the rows of each part of the dataset."""
    n = len(rows)
    if shuffle is False:
        places: Sequence[int] = range(n)
    elif shuffle is True:
        places = list(map(permutation(n, seed, epoch, ROWS), range(n)))
    elif shuffle == "block":
        places = block_order(n, seed, epoch, *blocks)
    else:
        orders = {"parts": parts_order, "within-parts": within_parts_order}
        places = orders[shuffle](selected_parts(rows, parts), seed, epoch)
    return [rows[place] for place in places]


def default_blocks(rows: int, written: Written) -> tuple[int, int]:
    """The sizes of blocks and windows that are chosen for a dataset that is opened with so many rows."""
    first = next((path for path, size in zip(written.files, written.parts, strict=True) if size), None)
    group = group_rows(first) if first else 1
    row_bytes = max(sum(path.stat().st_size for path in written.files) // max(sum(written.parts), 1), 1)
    least, most = (max((size << 20) // row_bytes, 1) for size in (1, 8))
    block_rows = min(max(group, least), most, max(rows, 1))
    return block_rows, max(16, -(-4096 // block_rows))


@cache
def group_rows(path: Path) -> int:
    """Rows of a row group, as the file says, or those of its first one where they differ."""
    part = reference.read_part(path, index=False)
    return int(part.head.group_rows or -(-sum(group.rows for group in part.groups) // len(part.groups)))


def selected_parts(rows: Sequence[int], parts: Sequence[int]) -> list[int]:
    """The sizes of the parts that are left; out of the order of the parts, each run of rows of one is a part."""
    homes = [part for part, size in enumerate(parts) for _ in range(size)]
    found = [homes[row] for row in rows]
    if found == sorted(found):
        return [found.count(part) for part in range(len(parts))]
    return [len(list(run)) for _, run in groupby(found)]


def shard(order: Sequence[int], rank: int, ranks: int, remainder: str, start: int = 0) -> list[int]:
    """What of the epoch a rank gets from a global position on."""
    n, left = len(order), max(len(order) - start, 0)
    if remainder == "drop":
        steps = left // ranks
    elif remainder == "uneven":
        steps = len(range(start + rank, n, ranks))
    else:
        steps = -(-left // ranks)
    return [order[(start + rank + step * ranks) % n] for step in range(steps)]


def batched(samples: Sequence[Any], size: int, drop_last: bool) -> list[list[Any]]:
    """The samples in batches."""
    batches = [list(samples[first : first + size]) for first in range(0, len(samples), size)]
    return batches[:-1] if batches and drop_last and len(batches[-1]) < size else batches
