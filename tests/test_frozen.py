"""Files of every released version stay readable: parts that were frozen, with the values that were in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgpack
import pytest
from probe import Probe, expected
from reference import read_part

import unirecord
from unirecord.inspection.verify import verify

KINDS = {"variable", "units", "fixed", "scalar", "empty", "compressed", "nullable", "nullable_fixed"}
FROZEN = sorted((Path(__file__).parent / "data").glob("version*/*.urec"))


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_frozen_part_is_read_as_ever(tmp_path: Path, path: Path) -> None:
    """Beside each part lies a msgpack file: stored bytes of every value, None for null."""
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, tmp_path)
    part = read_part(tmp_path / path.name)
    raw = msgpack.unpackb(path.with_suffix(".rows").read_bytes())
    assert part.raw == raw
    columns = [(c.nullable, c.fixed_bytes) for c in part.schema]
    want = expected(raw, columns)
    for io in ("mmap", "pread"):
        assert Probe(tmp_path / path.name, columns, len(raw)).read(io) == want
    assert verify(tmp_path / path.name).ok
    with unirecord.UniRecordDataset(tmp_path / path.name) as dataset:
        assert len(dataset) == len(raw)
        assert not raw or list(dataset[0]) == [c.name for c in part.schema]


def test_there_is_a_frozen_part_of_every_kind() -> None:
    assert {path.stem for path in FROZEN} >= KINDS
