"""Values that compress: texts, JSON rows and fields, always the same.

Texts are pieces of the standard library's sources of 0.3 to 4 KB, JSON rows are made of their words, and the fields are
sums of waves as float32, rounded as weather archives round them.
"""

from __future__ import annotations

import json
import random
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["KINDS", "cells_of", "values_of"]


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


KINDS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "codec": "zstd"},
    "json": {"type": "text", "codec": "zstd"},
    "fields": {"type": "float32", "shape": [32, 32], "codec": "shuffle+zstd"},
}


def values_of(kind: str, rows: int) -> Any:
    """The values as `write_batch` takes them."""
    return {"text": texts, "json": documents, "fields": fields}[kind](rows)


def cells_of(values: Any) -> list[bytes]:
    """The values as bytes."""
    return [value.encode() if isinstance(value, str) else value.tobytes() for value in values]
