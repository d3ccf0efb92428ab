"""Rows with names, and a schema of all types that tests of the Hugging Face adapters write."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

NAMES = ["cat", "dog", "owl"]
SCHEMA = {
    "n": "int64",
    "label": {"type": "int32?", "logical": {"type": "class", "names": NAMES}},
    "image": {"type": "bytes?", "logical": {"type": "media", "media": "image/png"}},
    "pixels": {"type": "uint8?", "shape": [2, 3]},
    "boxes": {"type": "float32", "shape": [-1, 4]},
    "tag": "object",
    "name": "string?",
}


def png(n: int) -> bytes:
    written = io.BytesIO()
    Image.fromarray(np.full((2, 2), n, np.uint8)).save(written, "PNG")
    return written.getvalue()


def record(n: int) -> dict[str, Any]:
    return {
        "n": n,
        "label": None if n % 5 == 0 else n % 3,
        "image": None if n % 4 == 0 else png(n),
        "pixels": None if n % 7 == 0 else np.full((2, 3), n, np.uint8),
        "boxes": np.full((n % 3, 4), n, np.float32),
        "tag": {"n": [n]},
        "name": None if n % 2 else f"row {n}",
    }
