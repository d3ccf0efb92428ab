"""Rows of fixed width in many parts: the batches that find them by the table of their parts are those of one part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord

ROWS = 4000
COLUMNS: dict[str, Any] = {
    "flag": "bool",
    "small": "int8",
    "half": "float16",
    "wide": "float64",
    "label": "uint32",
    "picture": {"type": "uint8", "shape": [3, 5]},
    "vector": {"type": "float32", "shape": [7]},
    "maybe": "int32?",
    "text": "string",
    "blob": "bytes",
}

LAYOUTS = [
    (["label"], 2000),
    (["flag", "small", "half", "wide"], 3000),
    (["picture"], 9000),
    (["picture", "label", "vector"], 30000),  # several cells in a row, and a number beside them
    (["vector", "maybe", "text"], 20000),  # cells that may be null are read as ever, and strings too
    (["blob", "picture", "small"], 9000),  # rows of changing width
]


def _values(name: str) -> Any:
    """Every row's value of a column, each another as far as its type goes."""
    numbers = np.arange(ROWS)
    spec = COLUMNS[name]
    if isinstance(spec, dict):
        shape = tuple(spec["shape"])
        return (
            (numbers[:, None] * 3 + np.arange(int(np.prod(shape)))).reshape(ROWS, *shape).astype(spec["type"])
        )
    if name == "maybe":
        return [None if row % 4 == 1 else int(row) for row in numbers]
    if name in ("text", "blob"):
        texts = ["x" * (row % 6) + str(row) for row in numbers]
        return texts if name == "text" else [text.encode() for text in texts]
    return (numbers % 2 == 0) if name == "flag" else numbers.astype(spec)


def _write(path: Path, names: list[str], part_bytes: int | None) -> None:
    """The rows in one part, or in parts of so many bytes, of which the last is shorter."""
    columns = {name: _values(name) for name in names}
    with unirecord.Writer(path, {name: COLUMNS[name] for name in names}, max_part_bytes=part_bytes) as writer:
        for row in range(0, ROWS, 50):
            writer.write_batch({name: columns[name][row : row + 50] for name in names})


def _epochs(path: Path, names: list[str], verify: Any) -> list[list[dict[str, Any]]]:
    """The batches of three epochs, each in the same order: what one notes of the parts, the next ones read by."""
    dataset = unirecord.UniRecordDataset(path, shuffle=True, seed=3, io="mmap", verify=verify, columns=names)
    found = []
    for _ in range(3):
        dataset.set_epoch(0)
        found.append(
            [{name: np.ma.copy(value) for name, value in batch.items()} for batch in dataset.batches(256)]
        )
    return found


@pytest.mark.parametrize("verify", ["first", "never"])
@pytest.mark.parametrize(("written", "part_bytes"), LAYOUTS)
def test_rows_of_many_parts_are_those_of_one(
    tmp_path: Path, written: list[str], part_bytes: int, verify: str
) -> None:
    _write(tmp_path / "one.urec", written, None)
    _write(tmp_path / "many", written, part_bytes)
    assert 3 <= len(list((tmp_path / "many").glob("*.urec"))) <= 60
    fixed = [name for name in written if name not in ("text", "blob")]
    for chosen in (fixed, fixed[::-1], fixed[-1:]):
        expected = _epochs(tmp_path / "one.urec", chosen, verify)[0]
        for epoch in _epochs(tmp_path / "many", chosen, verify):
            assert len(epoch) == len(expected) == 16
            for batch, wanted in zip(epoch, expected, strict=True):
                assert batch.keys() == wanted.keys()
                for name in batch:
                    np.testing.assert_array_equal(batch[name], wanted[name])
