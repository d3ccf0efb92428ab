"""Data for trying things out: ``digits(path)`` writes the handwritten digits that the pages of docs/ read."""

from __future__ import annotations

import io
import struct
import zlib
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np

from .writing.writer import Writer

__all__ = ["digits"]

_SIDE: Final = 32
_SCHEMA: Final = {
    "image": "bytes",
    "pixels": {"type": "uint8", "shape": [_SIDE, _SIDE]},
    "label": "int64",
    "name": "string",
    "width": "int32",
    "weight": "float32?",
    "strokes": {"type": "int32", "shape": [-1, 2]},
}


def digits(path: str | Path, *, overwrite: bool = False) -> None:
    """Write 300 handwritten digits as a dataset: a part (``digits.urec``), or a directory of parts (``digits``).

    They are pictures of the UCI set "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998,
    CC BY 4.0), 28 to 32 of each digit, class after class. The columns:

    - ``image``: bytes, a PNG of 32 × 32 gray pixels;
    - ``pixels``: uint8[32, 32], the same pixels, 0 for the background;
    - ``label``: int64, 0 to 9, indexed;
    - ``name``: string, as ``"3/0017.png"``;
    - ``width``: int32, how many pixels wide the ink is;
    - ``weight``: float32 in [0, 1), null in every seventh row;
    - ``strokes``: int32[any number, 2], row and column of the dark pixels on the edge of the ink.

    Args:
        path: where the dataset is made.
        overwrite: replace what is there.

    Raises:
        ExistsError: there is something at ``path`` already.
    """
    pixels, labels, names = _stored()
    with Writer(path, _SCHEMA, index=["label"], overwrite=overwrite) as writer:
        for number, (picture, label, name) in enumerate(zip(pixels, labels, names, strict=True)):
            writer.write(_row(number, picture, int(label), str(name)))


def _row(number: int, picture: np.ndarray[Any, Any], label: int, name: str) -> dict[str, Any]:
    """One record of the dataset."""
    ink = picture >= 128
    columns = np.flatnonzero(ink.any(axis=0))
    # A dark pixel lies on the edge where one of its four neighbours is light or outside of the picture.
    framed = np.pad(ink, 1)
    inside = framed[:-2, 1:-1] & framed[2:, 1:-1] & framed[1:-1, :-2] & framed[1:-1, 2:]
    return {
        "image": _png(picture),
        "pixels": picture,
        "label": label,
        "name": name,
        "width": int(columns[-1] - columns[0] + 1),
        "weight": None if number % 7 == 0 else number / 300,
        "strokes": np.argwhere(ink & ~inside).astype(np.int32),
    }


def _stored() -> tuple[Any, Any, Any]:
    """Pixels (uint8[300, 32, 32]), labels and names, from the file that the package brings along."""
    stored = resources.files(__package__).joinpath("digits.npz").read_bytes()
    with np.load(io.BytesIO(stored), allow_pickle=False) as arrays:
        return arrays["pixels"], arrays["labels"], arrays["names"]


def _png(gray: np.ndarray[Any, Any]) -> bytes:
    """A gray picture as PNG (W3C, PNG third edition): one IDAT chunk, each line without a filter."""
    height, width = gray.shape
    lines = np.zeros((height, width + 1), np.uint8)
    lines[:, 1:] = gray
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    out = b"\x89PNG\r\n\x1a\n"
    for kind, data in chunks:
        out += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return out
