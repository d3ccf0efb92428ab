"""Pictures, and folders of them, that tests of sources read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def picture(width: int, height: int, kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(width).integers(0, 255, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def folder(root: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(root)
