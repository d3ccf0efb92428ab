"""What a pass has to deliver, from the written records and docs/order.md alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from order_reference import ROWS, block_order, parts_order, permutation, within_parts_order


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
