"""Compressed columns beside plain ones: `python benchmarks/codec.py FOLDER [ROWS]`: ratio, a random row, batches, cold.

Texts are pieces of the standard library's sources of 0.3 to 4 KB, JSON rows are made of their words, and the fields are
sums of waves as float32, rounded as weather archives round them. Blocks: the values one after the other, cut at 64 KiB,
each piece a zstd frame of the same level.
"""

from __future__ import annotations

import json
import os
import random
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import unirecord
from unirecord.core import CODEC_SHUFFLE_ZSTD, CODEC_ZSTD, Encoder

BLOCK = 64 << 10
LEVEL = 3
SECONDS = 2.0


def sources() -> str:
    """The text of the standard library."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py"))
    return "\n".join(f.read_text("utf-8", "ignore") for f in files if "site-packages" not in f.parts)


def texts(rows: int) -> list[str]:
    text, r, at, out = sources(), random.Random(1), 0, []
    while len(out) < rows:
        size = r.randint(300, 4_000)
        at = 0 if at + size > len(text) else at
        out.append(text[at : at + size])
        at += size
    return out


def documents(rows: int) -> list[str]:
    words = sorted({w for w in sources()[: 4 << 20].split() if w.isalpha()})
    r = random.Random(2)
    weights = [1 / (n + 1) for n in range(len(words))]
    r.shuffle(words)
    return [
        json.dumps(
            {
                "id": f"{r.getrandbits(64):016x}",
                "created_utc": 1_600_000_000 + r.randrange(10**8),
                "author": r.choice(words) + str(r.randrange(1_000)),
                "subreddit": words[min(int(r.expovariate(0.02)), len(words) - 1)],
                "score": int(r.expovariate(0.05)),
                "body": " ".join(r.choices(words, weights, k=r.randint(10, 45))),
                "controversiality": 0,
                "distinguished": None,
            }
        )
        for _ in range(rows)
    ]


def fields(rows: int) -> np.ndarray[Any, Any]:
    """Temperatures on a grid of 32 x 32, in steps of 1/64 K."""
    r = np.random.default_rng(3)
    y, x = np.mgrid[0:32, 0:32] / 32
    waves = [np.sin(2 * np.pi * (a * x + b * y) + p) for a, b, p in r.uniform(0, 3, (12, 3))]
    sums = np.tensordot(r.normal(0, 5, (rows, 12)), np.array(waves), 1) + 280
    sums += r.normal(0, 0.05, sums.shape)
    return (np.round(sums * 64) / 64).astype(np.float32)


def blocks(cells: list[bytes], codec: int, width: int) -> int:
    """Bytes of the values in blocks of 64 KiB."""
    joined = b"".join(cells)
    cut = [joined[at : at + BLOCK] for at in range(0, len(joined), BLOCK)]
    return int(Encoder(codec, width, LEVEL).encode(cut)[1].sum())


def rate(step: Callable[[], int]) -> float:
    """Of what ``step`` counts, a second: the best of five stretches."""
    best = 0.0
    for _ in range(5):
        done, start = 0, time.perf_counter()
        while (took := time.perf_counter() - start) < SECONDS / 5:
            done += step()
        best = max(best, done / took)
    return best


def drop(path: Path) -> None:
    """The file's pages out of memory."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def measure(path: Path, rows: int) -> dict[str, float]:
    r = random.Random(4)
    with unirecord.UniRecordDataset(path, shuffle=True, seed=1, io="mmap") as ds:
        numbers = iter(lambda: r.randrange(rows), -1)
        for batch in ds.batches(256):
            assert batch
        single = rate(lambda: len([ds[next(numbers)] for _ in range(200)]))
        batches = rate(lambda: sum(len(batch["v"]) for batch in ds.batches(256)))
    cold = 0.0
    for _ in range(3):
        drop(path)
        with unirecord.UniRecordDataset(path, shuffle=True, seed=1) as ds:
            start = time.perf_counter()
            done = sum(len(batch["v"]) for batch in ds.batches(256))
            cold = max(cold, done / (time.perf_counter() - start))
    return {"row": 1e6 / single, "batches": batches, "cold": cold, "bytes": path.stat().st_size}


def cases(rows: int) -> Iterator[tuple[str, Any, dict[str, Any], str, int, int]]:
    yield "text", texts(rows), {"type": "text"}, "zstd", CODEC_ZSTD, 1
    yield "json", documents(rows), {"type": "text"}, "zstd", CODEC_ZSTD, 1
    field = {"type": "float32", "shape": [32, 32]}
    yield "fields", fields(rows), field, "shuffle+zstd", CODEC_SHUFFLE_ZSTD, 4


def main(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    print(
        "| data | bytes a row | ratio | in blocks | row, µs | plain | batches, rows/s | plain | cold, rows/s | plain |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, values, spec, codec, code, width in cases(rows):
        found = {}
        for kind, column in (("plain", spec), ("compressed", {**spec, "codec": f"{codec}:{LEVEL}"})):
            path = folder / f"{name}-{kind}.urec"
            started = time.perf_counter()
            with unirecord.Writer(path, {"v": column}, overwrite=True) as writer:
                writer.write_batch({"v": values})
            print(f"{name} {kind}: written in {time.perf_counter() - started:.1f} s", file=sys.stderr)
            found[kind] = measure(path, rows)
        cells = [v.encode() if isinstance(v, str) else v.tobytes() for v in values]
        raw = sum(map(len, cells))
        plain, mine = found["plain"], found["compressed"]
        print(
            f"| {name} | {raw // rows:,} | {raw / mine['bytes']:.2f} | {raw / blocks(cells, code, width):.2f} | "
            f"{mine['row']:.1f} | {plain['row']:.1f} | {mine['batches']:,.0f} | {plain['batches']:,.0f} | "
            f"{mine['cold']:,.0f} | {plain['cold']:,.0f} |"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40_000)
