"""nanoGPT's own loop beside windows of a dataset of the same tokens, and how long packing takes to plan.

The loop is `get_batch` of nanoGPT's train.py: a memmap that is opened for each batch, random starts, x and y stacked
from slices that become int64. Ours gives int64 x and y, too, of shuffled windows of one token more. Rounds of both take
turns, and the median counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import unirecord
from unirecord import UniRecordDataset
from unirecord.order.windows import PACKED_TOGETHER, Packing

BLOCK = 1024


def of_memmap(path: Path, batch: int) -> Callable[[int], None]:
    """The steps of nanoGPT's loop."""

    def steps(count: int) -> None:
        for _ in range(count):
            data = np.memmap(path, np.uint16, "r")
            starts = torch.randint(len(data) - BLOCK, (batch,))
            torch.stack([torch.from_numpy(data[i : i + BLOCK].astype(np.int64)) for i in starts])
            torch.stack([torch.from_numpy(data[i + 1 : i + 1 + BLOCK].astype(np.int64)) for i in starts])

    return steps


def of_windows(path: Path, batch: int) -> Callable[[int], None]:
    """The same of windows, over as many epochs as it takes."""
    ds = UniRecordDataset(path, shuffle=True)
    windows = unirecord.windows(ds, "tokens", BLOCK + 1, BLOCK)

    def steps(count: int) -> None:
        done = 0
        while done < count:
            for found in windows.batches(batch):
                tokens = found["tokens"]
                torch.from_numpy(tokens[:, :-1].astype(np.int64))
                torch.from_numpy(tokens[:, 1:].astype(np.int64))
                done += 1
                if done == count:
                    return

    return steps


def rate(steps: Callable[[int], None], batch: int, seconds: float) -> float:
    """Windows a second."""
    count, taken = 16, 0.0
    while True:
        begun = time.perf_counter()
        steps(count)
        taken = time.perf_counter() - begun
        if taken >= seconds:
            return count * batch / taken
        count = max(count * 2, int(count * 1.2 * seconds / max(taken, 1e-6)))


def plan_seconds(tokens: int, length: int) -> tuple[int, float]:
    """How many documents of about a thousand tokens, and seconds of the processor to plan their packs."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(6.3, 1.1, tokens // 1000).astype(np.int64) + 1, 100_000)
    pieces = np.array_split(lengths, max(1, len(lengths) // PACKED_TOGETHER))
    begun = time.process_time()
    Packing.of(iter(pieces), length)
    return len(lengths), time.process_time() - begun


def main() -> None:
    """Print the rates, and the time of planning."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        raw, data = Path(name) / "train.bin", Path(name) / "train.urec"
        np.random.default_rng(0).integers(0, 50_257, args.tokens, np.uint16).tofile(raw)
        unirecord.write_dataset(raw, data, dtype="uint16")
        print(f"{args.tokens:,} tokens, blocks of {BLOCK}, windows a second")
        for batch in (12, 64):
            loops = of_memmap(raw, batch), of_windows(data, batch)
            rates: list[list[float]] = [[], []]
            for _ in range(args.rounds):
                for found, loop in zip(rates, loops, strict=True):
                    found.append(rate(loop, batch, args.seconds))
            theirs, ours = map(statistics.median, rates)
            print(
                f"batches of {batch}: np.memmap {theirs:,.0f}, windows {ours:,.0f}, {ours / theirs:.1f} times"
            )
    for length in (2048, 8192):
        documents, seconds = plan_seconds(args.tokens, length)
        print(f"packs of {length} planned of {documents:,} documents: {seconds:.3f} s of the processor")


if __name__ == "__main__":
    main()
