"""Windows of 1,025 tokens, 1,024 apart, of documents one behind the other, in random order, cached: batches of 256."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import answer
import numpy as np
from numpy.typing import NDArray

import unirecord

LENGTH, STRIDE, BATCH = 1025, 1024, 256
TOKENS, FEW = 200_000_000, 4_000_000
PASSES, BATCHES = 7, 200
Batches = Callable[[], Iterator[NDArray[Any]]]


def documents(total: int) -> NDArray[np.int64]:
    """Lengths like those of tokenised web text: log-normal, 800 tokens on average."""
    drawn = np.random.default_rng(0).lognormal(6.1, 1.1, total // 400).astype(np.int64) + 1
    return drawn[: int(np.searchsorted(np.cumsum(drawn), total))]


def make(folder: Path, total: int) -> None:
    """The same tokens as UniRecord's file and as one flat file, with the lengths beside it."""

    if (folder / "lengths.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    lengths = documents(total)
    tokens = np.random.default_rng(1).integers(0, 50_000, int(lengths.sum()), dtype=np.uint16)
    tokens.tofile(folder / "tokens.bin")
    ends = np.cumsum(lengths)
    schema = {"tokens": {"type": "uint16", "shape": [-1]}}
    with unirecord.Writer(folder / "tokens.urec", schema, overwrite=True) as writer:
        for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True):
            writer.write({"tokens": tokens[start:end]})
    np.save(folder / "lengths.npy", lengths)


def unirecord_windows(folder: Path) -> Batches:
    """Ours, with the defaults."""

    ds = unirecord.UniRecordDataset(folder / "tokens.urec", shuffle=True, seed=1)
    loader = unirecord.windows(ds, "tokens", LENGTH, STRIDE).batches(BATCH, drop_last=True)
    return lambda: (batch["tokens"] for batch in loader)


def _shuffled(count: int) -> Iterator[NDArray[np.int64]]:
    order = np.random.default_rng(2).permutation(count)
    return (order[at : at + BATCH] for at in range(0, count - BATCH + 1, BATCH))


def memmap_stacked(folder: Path) -> Batches:
    """A slice for each window, stacked, as training scripts do."""
    flat = np.memmap(folder / "tokens.bin", np.uint16, "r")
    count = (len(flat) - LENGTH) // STRIDE + 1
    return lambda: (
        np.stack([flat[i * STRIDE : i * STRIDE + LENGTH] for i in chosen.tolist()])
        for chosen in _shuffled(count)
    )


def memmap_indexed(folder: Path) -> Batches:
    """All windows as one strided view, and rows of it: the fastest that numpy has."""
    flat = np.memmap(folder / "tokens.bin", np.uint16, "r")
    every = np.lib.stride_tricks.sliding_window_view(flat, LENGTH)[::STRIDE]
    return lambda: (every[chosen] for chosen in _shuffled(len(every)))


def megatron(folder: Path) -> Batches:
    """Megatron's GPTDataset over its own files of the same tokens: the tokens of its samples, stacked."""
    import torch
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
    from megatron.core.datasets.utils import Split

    flat, lengths = np.fromfile(folder / "tokens.bin", np.uint16), np.load(folder / "lengths.npy")
    prefix = str(folder / "megatron")
    if not Path(prefix + ".idx").exists():
        builder = IndexedDatasetBuilder(prefix + ".bin", dtype=np.uint16)
        for start, end in zip(
            (np.cumsum(lengths) - lengths).tolist(), np.cumsum(lengths).tolist(), strict=True
        ):
            builder.add_document(torch.from_numpy(flat[start:end].astype(np.int32)), [end - start])
        builder.finalize(prefix + ".idx")

    class Tokens:
        """What the configuration asks of a tokenizer."""

        eod, pad, vocab_size, unique_identifiers = 0, -1, 50_000, {"class": "tokens"}

    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=LENGTH - 1,
        blend=([prefix], None),
        split="100,0,0",
        tokenizer=Tokens(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        mmap_bin_files=True,
    )
    stored = IndexedDataset(prefix, mmap=True)
    ds = GPTDataset(stored, prefix, np.arange(len(lengths), dtype=np.int32), None, Split.train, config)
    return lambda: (
        torch.stack([ds[i]["tokens"] for i in range(at, at + BATCH)]).numpy()
        for at in range(0, len(ds) - BATCH + 1, BATCH)
    )


ENTRANTS: dict[str, Callable[[Path], Batches]] = {
    "UniRecord": unirecord_windows,
    "numpy memmap, a slice a window": memmap_stacked,
    "numpy memmap, a strided view": memmap_indexed,
    "Megatron GPTDataset": megatron,
}


def _rate(batches: Iterator[NDArray[Any]]) -> float:
    """Windows a second of some batches, the first of which is not counted."""
    next(batches)
    start, count = time.perf_counter(), 0
    for batch in batches:
        count += len(batch)
        if count >= BATCHES * BATCH:
            break
    return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--entrants", nargs="+", choices=ENTRANTS, required=True)
    arguments = parser.parse_args()
    folder = arguments.data / ("language-small" if arguments.small else "language")
    if "UniRecord" in arguments.entrants:
        make(folder, FEW if arguments.small else TOKENS)
    ready = {name: ENTRANTS[name](folder) for name in arguments.entrants}
    for batches in ready.values():  # files in memory, digests checked
        for batch in batches():
            del batch
            if "Megatron GPTDataset" in ready:
                break
    rates: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(PASSES):  # in turns
        for name, batches in ready.items():
            rates[name].append(_rate(batches()))
    answer.answer(
        [
            answer.figure("windows", name, statistics.median(found), "windows/s")
            for name, found in rates.items()
        ]
    )


if __name__ == "__main__":
    main()
