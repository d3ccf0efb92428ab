"""What an order costs: nanoseconds an index, time to the first one, bitmaps, and what a batch touches on a disk.

python benchmarks/order.py [--quick]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import numpy as np

from unirecord.core import Bitmap, Order
from unirecord.order.spec import OrderSpec, choose_blocks

SIZES = [10**3, 10**4, 10**5, 10**6, 10**7, 2**24 + 1, 10**9, 10**12]
BULK = 1 << 20  # indexes asked for at a time, as many as there are if they are fewer
BATCH = 256
CACHE = 1 << 30  # page cache of the model
READAHEAD = 128 << 10  # what Linux reads around a page fault by default
PAGE = 4096


def best_of(times: int, run: Callable[[], object]) -> float:
    """Seconds of the quickest of several runs."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def nanoseconds(order: Order) -> float:
    """An index in bulk, from random places of the epoch."""
    count = min(order.rows, BULK)
    start = (order.rows - count) // 2
    return best_of(5, lambda: order.range(start, 1, count)) / count * 1e9


def speed(sizes: list[int]) -> None:
    try:
        import torch
    except ImportError:
        torch = None
    print(
        f"{'rows':>16} {'first index':>12} | ns an index: {'True':>6} {'block':>7} {'numpy':>7} {'torch':>7}"
    )
    for n in sizes:
        specs = [OrderSpec("shuffle", 1, 1), OrderSpec("block", 1, 1, 8192, 16)]
        first = best_of(20, lambda n=n, spec=specs[0]: Order(n, spec).range(0, 1, 1))  # type: ignore[misc]
        shown = [f"{nanoseconds(Order(n, spec)):.1f}" for spec in specs]
        for shuffle in (np.random.default_rng(1).permutation, torch.randperm if torch else None):
            if shuffle is None or n > 10**8:
                shown.append("–")
            else:
                shown.append(f"{best_of(3, lambda n=n, s=shuffle: s(n)) / n * 1e9:.1f}")  # type: ignore[misc]
        columns = f"{shown[0]:>6} {shown[1]:>7} {shown[2]:>7} {shown[3]:>7}"
        print(f"{n:>16,} {first * 1e6:>9.1f} µs |              {columns}", flush=True)
    print("– = not measured: it would hold 8 bytes a row in memory")


def memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    orders = [Order(10**12, OrderSpec("shuffle", 1, epoch)) for epoch in range(2000)]
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"memory of an order of 10^12 rows: {(after - before) / len(orders):.0f} KiB")


def selections(sizes: list[int]) -> None:
    """Rank and select of a bitmap, half of whose rows are chosen at random."""
    print(f"\n{'rows':>16} | bits a row | ns a row: {'select':>6} {'rank':>6}")
    for n in sizes:
        draw = np.random.default_rng(n)
        bitmap = Bitmap(draw.integers(0, 2**64 - 1, n // 64, np.uint64, endpoint=True), n // 64 * 64)
        asked = draw.integers(0, bitmap.ones, 100_000)
        rows = bitmap.select(asked)
        times = [best_of(20, partial(bitmap.select, asked)), best_of(20, partial(bitmap.rank, rows))]
        shown = " ".join(f"{seconds / len(asked) * 1e9:>6.1f}" for seconds in times)
        print(f"{n:>16,} | {bitmap.nbytes * 8 / n:>10.3f} |           {shown}", flush=True)


class PageCache:
    """A model of the kernel's: pieces of READAHEAD bytes, the least recently used one goes first."""

    def __init__(self) -> None:
        self.pieces: OrderedDict[int, None] = OrderedDict()
        self.read = 0

    def touch(self, first: int, last: int) -> None:
        for piece in range(first // READAHEAD, last // READAHEAD + 1):
            if piece in self.pieces:
                self.pieces.move_to_end(piece)
                continue
            self.read += READAHEAD
            self.pieces[piece] = None
            if len(self.pieces) > CACHE // READAHEAD:
                self.pieces.popitem(last=False)


def touched(order: Order, row_bytes: int, batches: int) -> tuple[float, float]:
    """(distinct pages, bytes read) a batch, once the cache is warm."""
    cache, pages, start = PageCache(), 0, order.rows // 3
    for batch in range(-batches, batches):
        rows = order.range(start + (batch + batches) * BATCH, 1, BATCH)
        first, last = rows * row_bytes, rows * row_bytes + row_bytes - 1
        if batch == 0:
            cache.read = 0
        for a, b in zip(first.tolist(), last.tolist(), strict=True):
            cache.touch(a, b)
        if batch >= 0:
            spans = [np.arange(a, b + 1) for a, b in zip(first // PAGE, last // PAGE, strict=True)]
            pages += len(np.unique(np.concatenate(spans)))
    return pages / batches, cache.read / batches


def locality(batches: int) -> None:
    print(
        f"\nbatches of {BATCH} of 40 GB of data, modelled: 1 GiB of page cache, {READAHEAD >> 10} KiB read at a miss"
    )
    used, pages, read = (
        f"{name:>{width}}" for name, width in (("MB used", 8), ("pages: True", 12), ("MB read: True", 14))
    )
    print(f"{'row bytes':>10} {'block × window':>16} | {used} | {pages} {'block':>7} | {read} {'block':>8}")
    for row_bytes in (512, 8192, 110_000):
        n = 40 * 10**9 // row_bytes
        block, window = choose_blocks(n, (8 << 20) // row_bytes, row_bytes)
        orders = (Order(n, OrderSpec("shuffle", 1)), Order(n, OrderSpec("block", 1, 0, block, window)))
        (pages, read), (block_pages, block_read) = (touched(order, row_bytes, batches) for order in orders)
        print(
            f"{row_bytes:>10,} {f'{block:,} × {window}':>16} | {BATCH * row_bytes / 1e6:>8.2f} | "
            f"{pages:>12,.0f} {block_pages:>7,.0f} | {read / 1e6:>14.2f} {block_read / 1e6:>8.2f}",
            flush=True,
        )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer sizes and batches")
    quick = arguments.parse_args().quick
    memory()
    speed([10**3, 10**6, 10**12] if quick else SIZES)
    selections([10**6] if quick else [10**6, 10**8, 10**9])
    locality(100 if quick else 1000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
