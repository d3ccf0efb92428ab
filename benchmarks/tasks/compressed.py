"""Compressible values in a plain and in a compressed part: `compressed.py KIND FOLDER ROWS SECONDS THREADS…`."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import answer
import numpy as np
from caches import cold
from compressible import KINDS, cells_of, values_of

import unirecord
from unirecord.core import Decoder, Encoder
from unirecord.format.schema import Schema
from unirecord.writing.part_writer import choose_dictionary, encoder_of

BLOCK = 64 << 10
WAITING = 8 << 20  # bytes that the writer trains on


def _first(cells: list[bytes]) -> list[bytes]:
    return cells[: int(np.searchsorted(np.cumsum([len(cell) for cell in cells]), WAITING)) + 1]


def make(kind: str, folder: Path, rows: int) -> None:
    """Both parts, and the cells, their places and the dictionary for the bare loop, unless they are there."""
    if (folder / ".complete").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    values, spec = values_of(kind, rows), KINDS[kind]
    plain = {name: value for name, value in spec.items() if name != "codec"}
    for name, column in (("plain", plain), ("compressed", spec)):
        with unirecord.Writer(folder / f"{name}.urec", {"v": column}, overwrite=True) as writer:
            writer.write_batch({"v": values})
    cells, column = cells_of(values), Schema.parse({"v": spec})[0]
    dictionary = choose_dictionary(column, _first(cells))
    joined, stored, raw = encoder_of(column, dictionary).encode(cells)
    (folder / "cells.bin").write_bytes(joined)
    np.stack([np.cumsum(stored) - stored, stored, raw], axis=1).astype("<u8").tofile(folder / "places.bin")
    if dictionary:
        (folder / "dictionary.bin").write_bytes(dictionary)
    (folder / "data.bin").write_bytes(b"".join(cells))
    np.cumsum([0, *map(len, cells)]).astype("<i8").tofile(folder / "offsets.bin")
    (folder / ".complete").touch()


def blocks(folder: Path, kind: str) -> tuple[int, float]:
    """Bytes of the values in blocks of 64 KiB, each a frame of the columns' level; seconds to unpack all."""
    codec = Schema.parse({"v": KINDS[kind]})[0].codec
    assert codec is not None
    joined, width = (folder / "data.bin").read_bytes(), 4 if codec.shuffles else 1
    cut = [joined[at : at + BLOCK] for at in range(0, len(joined), BLOCK)]
    frames, stored, raw = Encoder(codec.code, width, codec.level).encode(cut)
    decoder, least = Decoder(codec.code, width), 1e9
    for _ in range(3):
        start = time.process_time()
        decoder.decode(np.frombuffer(frames, np.uint8), np.cumsum(stored) - stored, stored, raw)
        least = min(least, time.process_time() - start)
    return int(stored.sum()), least


def rate(step: Callable[[], int], seconds: float) -> float:
    """Of what ``step`` counts, a second: the best of three stretches."""
    best = 0.0
    for _ in range(3):
        done, start = 0, time.perf_counter()
        while (took := time.perf_counter() - start) < seconds / 3:
            done += step()
        best = max(best, done / took)
    return best


def _epoch(ds: unirecord.UniRecordDataset, threads: int) -> int:
    return sum(len(batch["v"]) for batch in ds.batches(256, num_threads=threads))


def figures(kind: str, name: str, path: Path, seconds: float, threads: list[int]) -> Iterator[dict[str, Any]]:
    r = random.Random(4)
    with unirecord.UniRecordDataset(path, shuffle=True, seed=1, io="mmap") as ds:
        numbers = [r.randrange(len(ds)) for _ in range(1_000)]
        for count in threads:
            _epoch(ds, count)
            batches = rate(lambda: _epoch(ds, count), seconds)  # noqa: B023  (called here)
            yield answer.figure(kind, f"{name}, batches, {count} threads", batches, "samples/s")
        single = rate(lambda: len([ds[number] for number in numbers]), seconds)
        yield answer.figure(kind, f"{name}, random row", 1e6 / single, "µs")
    best = 0.0
    for _ in range(3):
        cold(path.parent)
        with unirecord.UniRecordDataset(path, shuffle=True, seed=1) as ds:
            start = time.perf_counter()
            best = max(best, _epoch(ds, threads[-1]) / (time.perf_counter() - start))
    yield answer.figure(kind, f"{name}, cold epoch", best, "samples/s")


def main() -> None:
    kind, folder, rows, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    threads = [int(count) for count in sys.argv[5:]]
    make(kind, folder, rows)
    raw = (folder / "data.bin").stat().st_size
    found = [answer.figure(kind, "bytes a value", raw / rows, "B")]
    size = sum(file.stat().st_size for file in folder.glob("compressed.urec*"))
    found.append(answer.figure(kind, "ratio of data file and index", raw / size, "x"))
    data = (folder / "compressed.urec").stat().st_size
    found.append(answer.figure(kind, "ratio of the data file", raw / data, "x"))
    size, took = blocks(folder, kind)
    found.append(answer.figure(kind, "ratio in blocks of 64 KiB", raw / size, "x"))
    found.append(answer.figure(kind, "blocks of 64 KiB unpacked", rows / took, "samples/s"))
    for name in ("plain", "compressed"):
        found += figures(kind, name, folder / f"{name}.urec", seconds, threads)
    answer.answer(found)


if __name__ == "__main__":
    main()
