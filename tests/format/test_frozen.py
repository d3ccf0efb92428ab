"""Files of every released version stay readable: parts that were frozen, with the values that were in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgpack
import numpy as np
import pytest
from frozen_samples import LOGICAL, PARTS
from probe import Probe, expected
from reference import read_part
from reference_directory import read_directory

import unirecord
from unirecord.inspect.verify import verify

FROZEN = sorted((Path(__file__).parents[1] / "data").glob("version*/*.urec"))


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
    unknown = [c.name for c in part.schema if not c.is_known]
    for io in () if unknown else ("mmap", "pread"):
        assert Probe(tmp_path / path.name, columns, len(raw)).read(io) == want
    problems = verify(tmp_path / path.name).problems
    assert {problem.column for problem in problems} <= set(unknown)
    assert all("its values were not checked" in problem.what for problem in problems)
    known = [c.name for c in part.schema if c.is_known]
    with unirecord.UniRecordDataset(tmp_path / path.name, columns=known) as dataset:
        assert len(dataset) == len(raw)
        assert not raw or list(dataset[0]) == known


def test_there_is_a_frozen_part_of_every_kind() -> None:
    assert {path.stem for path in FROZEN} >= set(PARTS)


def test_frozen_logical_types_and_those_of_later_versions_are_known_as_ever(tmp_path: Path) -> None:
    folder = FROZEN[0].parent
    with unirecord.UniRecordDataset(folder / "logical.urec") as ds:
        assert {column.name: column.logical for column in ds.schema} == {
            name: said for name, (_, _, said) in LOGICAL.items()
        }
    with unirecord.UniRecordDataset(folder / "later_types.urec", columns=["n", "word"]) as ds:
        assert len(list(ds)) == 7
        assert not ds.schema["big"].is_known


def test_parts_of_frozen_chunks_are_read_as_ever() -> None:
    folder = FROZEN[0].parent
    raw = msgpack.unpackb((folder / "chunked.rows").read_bytes())
    with unirecord.UniRecordDataset(folder / "chunked.urec") as ds:
        for i, row in enumerate(raw):
            value = np.frombuffer(row[1], np.uint16).reshape(5, 6)
            assert (ds.read_part(i, "plain", np.s_[1:4, 3:]) == value[1:4, 3:]).all()
            assert ds.read_part(i, "log", np.s_[5:20]) == (None if row[3] is None else row[3][5:20])


@pytest.fixture
def frozen_directory(tmp_path: Path) -> Path:
    """Two compressed parts with dictionaries of their own, annotations, and an entry of a later version."""
    return Path(shutil.copytree(FROZEN[0].parents[1] / "version1" / "set", tmp_path / "set"))


def stored(path: Path) -> list[list[bytes | None]]:
    return [row for part in read_directory(path) for row in part.raw]


def test_frozen_directory_is_read_and_appended_to_as_ever(frozen_directory: Path) -> None:
    want = msgpack.unpackb((frozen_directory / "rows").read_bytes())
    assert stored(frozen_directory) == want
    assert verify(frozen_directory).ok
    dataset = unirecord.UniRecordDataset(frozen_directory)
    before = [dataset[i] for i in range(len(dataset))]
    assert [row["text"] for row in before] == [None if row[2] is None else row[2].decode() for row in want]
    assert [row["fixed"].tobytes() for row in before] == [row[3] for row in want]
    assert dataset.metadata == {"made": "by a test"}
    assert dataset.schema["n"].annotations == {"words": ["cat", "dög"], "scale": 1e-05}
    with unirecord.append(frozen_directory) as writer:
        writer.write(before[1])
    assert stored(frozen_directory) == [*want, want[1]]
    listed = json.loads((frozen_directory / "manifest.json").read_text())
    assert listed["publication"]["command"] == "append"
    assert listed["optional"] == {"later": [0.5, None]}  # what an older writer does not know stays
    assert verify(frozen_directory).ok
