"""How long a bitmap of rows takes to say its k-th row: in a random order from memory, and from the cache."""

from __future__ import annotations

import argparse
import time

import numpy as np

from unirecord.core import Bitmap

ASKED = 2_000_000
NEAR, TIMES = 1_000, 300


def bitmap(rows: int, share: float, rng: np.random.Generator) -> Bitmap:
    """About this share of so many rows, at random."""
    words = np.zeros(-(-rows // 64), np.uint64)
    piece = 1 << 20
    for first in range(0, rows, piece):
        bits = rng.random(min(piece, rows - first)) < share
        packed = np.packbits(bits, bitorder="little")
        words.view(np.uint8)[first // 8 : first // 8 + len(packed)] = packed
    return Bitmap(words, rows)


def main() -> None:
    """Prints nanoseconds of the processor's time for a row, and bits of memory for each row of the dataset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**9)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(0)
    print(f"{rows:,} rows: share, ns in random order, ns in the cache, bits a row")
    for share in (0.1, 0.5, 0.9):
        held = bitmap(rows, share, rng)
        ranks = rng.integers(0, held.ones, ASKED)
        near = np.arange(NEAR) % held.ones
        far, cached = [], []
        for _ in range(3):
            begun = time.process_time()
            held.select(ranks)
            far.append((time.process_time() - begun) / ASKED)
            begun = time.process_time()
            for _ in range(TIMES):
                held.select(near)
            cached.append((time.process_time() - begun) / NEAR / TIMES)
        print(f"{share}  {min(far) * 1e9:.0f}  {min(cached) * 1e9:.0f}  {8 * held.nbytes / rows:.2f}")


if __name__ == "__main__":
    main()
