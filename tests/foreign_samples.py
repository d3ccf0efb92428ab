"""Makes the sample files of tests/data/foreign, each with the library of its format: `foreign_samples.py mds`.

Beside the files lies what the library reads from them, in expected.json: bytes as hexadecimal text, arrays as lists.
The packages are named at each function; mosaicml-streaming was 0.13.0, litdata 0.2.76, ffcv 1.0.2, array_record 0.8.6,
bagz 0.3.8, pylance 14.0.2, zarr 3.1.6.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

FOREIGN = Path(__file__).parent / "data" / "foreign"


def plain(value: Any) -> Any:
    """A value as JSON holds it."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if hasattr(value, "filename"):  # a PIL picture that was opened
        return bytes(value.fp.getvalue()).hex()
    if hasattr(value, "getbands"):
        return np.asarray(value).tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return str(value) if isinstance(value, Decimal) else value


def expect(folder: Path, rows: Iterable[Any]) -> None:
    """Write what a library read."""
    text = ",\n".join(json.dumps(plain(row)) for row in rows)
    (folder / "expected.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def picture(i: int) -> Any:
    """A small picture."""
    from PIL import Image

    y, x = np.mgrid[0:8, 0:12]
    return Image.fromarray(np.stack([x * 20, y * 30, x * 0 + i * 9], axis=2).astype(np.uint8))


def jpeg(i: int) -> bytes:
    """The picture as a file."""
    out = io.BytesIO()
    picture(i).save(out, "JPEG")
    return out.getvalue()


def sample(i: int) -> dict[str, Any]:
    """Values of every kind; i counts from 0."""
    return {
        "id": (-1) ** i * 3**i, "text": "é" * i, "raw": bytes(range(i)), "score": i / 3,
        "grid": np.arange(6, dtype=np.float32).reshape(2, 3) * i, "tokens": np.arange(i + 1, dtype=np.int64) - 3,
    }  # fmt: skip


def mds(folder: Path) -> None:
    """mosaicml-streaming: every encoding, in four ways of packing, and an index with sums."""
    from streaming import LocalDataset, MDSWriter

    columns = {
        "id": "int", "text": "str", "raw": "bytes", "score": "float64", "grid": "ndarray:float32:2,3",
        "tokens": "ndarray:int64", "any": "ndarray", "u8": "uint8", "i16": "int16", "f16": "float16",
        "big": "str_int", "real": "str_float", "money": "str_decimal", "shown": "pil", "photo": "jpeg", "icon": "png",
        "meta": "json", "photos": "list[jpeg]",
    }  # fmt: skip
    for name, packing in (
        ("plain", None),
        ("zstd", "zstd"),
        ("gz", "gz"),
        ("br", "br"),
        ("snappy", "snappy"),
    ):
        where = folder / name
        with MDSWriter(
            out=str(where), columns=columns, compression=packing, hashes=["sha1"], size_limit=12_000
        ) as out:
            for i in range(12):
                row = sample(i)
                row |= {
                    "any": row["tokens"].astype(np.uint16).reshape(-1, 1), "u8": np.uint8(i), "i16": np.int16(-i),
                    "f16": np.float16(i / 7), "big": 7**i, "real": i / 7, "money": Decimal(i) / 4,
                    "shown": picture(i), "photo": picture(i), "icon": picture(i),
                    "meta": {"a": [i, None, "x"]}, "photos": [picture(k) for k in range(i % 3)],
                }  # fmt: skip
                out.write(row)
    expect(folder, LocalDataset(local=str(folder / "plain")))


MAKERS: dict[str, Callable[[Path], None]] = {"mds": mds}

if __name__ == "__main__":
    for kind in sys.argv[1:]:
        target = FOREIGN / kind
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        MAKERS[kind](target)
