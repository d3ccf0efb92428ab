"""A growing cache of samples: bytes a second that batches of an epoch bring while producers write more.

python benchmarks/samples_cache.py [--epochs N] [--limit SIZE] [--producers N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import unirecord

SIDE = 512  # float32: 1 MB a sample
BATCH = 16


def crops(producer: int, producers: int) -> Iterator[dict[str, Any]]:
    """Arrays of a megabyte, of which each tells which it is."""
    values = np.random.default_rng(producer).random((SIDE, SIDE), dtype=np.float32)
    number = producer
    while True:
        yield {"x": values, "n": number}
        number += producers


def main() -> None:
    """Prints each epoch, and the fastest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--limit", default="800MB")
    parser.add_argument("--producers", type=int, default=2)
    args = parser.parse_args()
    schema = {"x": f"float32[{SIDE},{SIDE}]", "n": "int64"}
    rates = []
    with (
        tempfile.TemporaryDirectory() as folder,
        unirecord.samples_cache(
            crops, folder, args.limit, "grow", schema=schema, producers=args.producers, shuffle=True, seed=1
        ) as cache,
    ):
        for epoch in range(args.epochs):
            ds = cache.next_epoch()
            seen: set[int] = set()
            began = time.perf_counter()
            for batch in ds.batches(BATCH):
                seen.update(batch["n"].tolist())
            rates.append(len(ds) * SIDE * SIDE * 4 / (time.perf_counter() - began))
            assert len(seen) == len(ds), "a sample came twice, or not at all"
            print(
                f"epoch {epoch}: {len(ds):,} samples, {rates[-1] / 1e6:,.0f} MB/s, {cache.bytes / 1e6:,.0f} MB there"
            )
    print(f"fastest: {max(rates) / 1e9:.2f} GB/s")


if __name__ == "__main__":
    main()
