"""What one wheel writes, hands out and decodes, as digests: those of another kind of machine must be the same.

Usage: python same_everywhere.py. It prints a line for each thing, and fails where a value is not what was written.
"""

from __future__ import annotations

import hashlib
import io
import platform
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import unirecord
from unirecord.images import Decode

ROWS = 3000
SCHEMA: dict[str, Any] = {
    "row": "int64",
    "label": "int32",
    "weight": "float32",
    "name": "string?",
    "blob": "bytes",
    "text": {"type": "text", "codec": "zstd"},
    "field": {"type": "float32", "shape": [-1, 4], "codec": "shuffle+zstd"},
    "tokens": "uint16[16]?",
    "meta": "object",
}


def sample(row: int) -> dict[str, Any]:
    """Row ``row``: made by whole numbers alone, so that no machine's arithmetic shows in it."""
    noise = random.Random(row)
    return {
        "row": row,
        "label": row * 7919 % 10,
        "weight": float(np.float32(row % 64 / 8)),
        "name": None if row % 5 == 3 else f"n{row % 17}",
        "blob": noise.randbytes(row % 300),
        "text": f"row {row} of {ROWS}, " * (row % 9),
        "field": np.arange(row % 6 * 4, dtype=np.float32).reshape(-1, 4),
        "tokens": None if row % 11 == 1 else np.arange(row, row + 16, dtype=np.uint16),
        "meta": {"row": row, "tags": ["a", None, -1.5][: row % 4]},
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)


def say(what: str, *pieces: Any) -> None:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    print(f"{what}: {digest.hexdigest()}", flush=True)


def read(path: Path, rank: int) -> np.ndarray:
    """The rows of a rank's shuffled epoch, every value of which is looked at."""
    rows = []
    with unirecord.UniRecordDataset(path, shard_id=rank, num_shards=2, shuffle=True, seed=7) as ds:
        ds.set_epoch(1)
        for got in ds:
            want = sample(int(got["row"]))
            assert got.keys() == want.keys()
            assert all(same(got[name], want[name]) for name in want), want["row"]
            rows.append(want["row"])
        ds.set_epoch(1)
        batches = [batch["row"] for batch in ds.batches(128, num_threads=2)]
    assert np.array_equal(np.concatenate(batches), rows)
    return np.array(rows, "<i8")


def picture() -> bytes:
    slopes = np.add.outer(np.arange(120) * 2, np.arange(160)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(np.stack([slopes, slopes[::-1] // 2, 255 - slopes], -1)).save(file, "JPEG")
    return file.getvalue()


def files_and_orders(path: Path) -> None:
    with unirecord.Writer(
        path, SCHEMA, index=["label", "name"], max_part_bytes="200KB", id=b"the same for all"
    ) as writer:
        for row in range(ROWS):
            writer.write(sample(row))
    for file in sorted(path.iterdir()):
        say(file.name, file.read_bytes())
    orders = [read(path, rank) for rank in range(2)]
    assert sorted(np.concatenate(orders)) == list(range(ROWS))
    for rank, order in enumerate(orders):
        say(f"the order of rank {rank}", order)
    with unirecord.UniRecordDataset(path, where="label == 3 and weight >= 2.5") as ds:
        say("a query", np.array([got["row"] for got in ds], "<i8"))
    report = unirecord.verify(path)
    assert report.ok, report


def pixels() -> None:
    """What the decoder that the wheel brings makes of a JPEG."""
    say("a JPEG", picture())
    for crop in ("center", "random-resized"):
        decoded = Decode(64, crop, decoder="libjpeg")(picture(), 5)
        say(f"its pixels, {crop}", np.ascontiguousarray(decoded))


if __name__ == "__main__":
    print(f"{platform.machine()}, {unirecord.__file__}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as made:
        files_and_orders(Path(made) / "train")
    pixels()
