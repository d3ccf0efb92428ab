"""Large cells of large batches are digested while they are copied: nothing wrong gets through there either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord

ROWS, CELL = 160, 65_536  # 10 MB a batch
SCHEMAS: dict[str, dict[str, Any]] = {
    "variable": {"x": "bytes"},
    "fixed": {"x": {"type": "uint8", "shape": [CELL]}},
    "two columns": {"x": {"type": "uint8", "shape": [CELL]}, "y": {"type": "uint8", "shape": [9]}},
}


def _cells() -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).integers(0, 256, (ROWS, CELL), dtype=np.uint8)


def _made(path: Path, kind: str) -> Path:
    with unirecord.Writer(path, SCHEMAS[kind]) as writer:
        for cell in _cells():
            rest = {"y": cell[:9]} if kind == "two columns" else {}
            writer.write({"x": cell.tobytes() if kind == "variable" else cell, **rest})
    return path


def _rows_of(batch: dict[str, Any]) -> np.ndarray[Any, Any]:
    found = batch["x"]
    return (
        found
        if isinstance(found, np.ndarray)
        else np.stack([np.frombuffer(cell, np.uint8) for cell in found])
    )


@pytest.mark.parametrize("verify", ["first", "always", "never"])
@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_large_batch_holds_what_was_written(tmp_path: Path, kind: str, verify: str) -> None:
    ds = unirecord.UniRecordDataset(_made(tmp_path / "x.urec", kind), verify=verify)
    for _ in range(2):
        (batch,) = ds.batches(ROWS)
        assert np.array_equal(_rows_of(batch), _cells())


@pytest.mark.parametrize("verify", ["first", "always"])
@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize("place", [0, CELL // 2, CELL - 1])
def test_a_wrong_bit_in_a_large_cell_is_found(tmp_path: Path, kind: str, verify: str, place: int) -> None:
    path = _made(tmp_path / "x.urec", kind)
    raw = bytearray(path.read_bytes())
    raw[raw.index(_cells()[77].tobytes()) + place] ^= 16
    path.write_bytes(raw)
    ds = unirecord.UniRecordDataset(path, verify=verify)
    with pytest.raises(unirecord.CorruptionError, match="row 77"):
        list(ds.batches(ROWS))
    (batch,) = unirecord.UniRecordDataset(path, verify=verify, on_corrupt="skip").batches(ROWS)
    assert np.array_equal(_rows_of(batch), np.delete(_cells(), 77, axis=0))
