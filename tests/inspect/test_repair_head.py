"""A data file whose head is lost: everything in it is read by what the index repeats of the head."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_parts import chunked_part, fixed_part, nullable_part, scalar_part, variable_part

import unirecord
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify

MAKERS = {
    "variable": variable_part,
    "fixed": fixed_part,
    "scalar": scalar_part,
    "nullable": nullable_part,
    "in chunks": chunked_part,
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("place", [0, 30, 50, 121, 130, 200])
def test_repair_keeps_every_row_of_a_file_without_its_head(tmp_path: Path, kind: str, place: int) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    with unirecord.UniRecordDataset(made.path) as dataset:
        before = list(dataset)
    data = bytearray(made.data)
    data[place] ^= 0xFF
    made.path.write_bytes(data)
    assert not verify(made.path).ok
    report = repair(made.path, output=tmp_path / "out.urec")
    (part,) = report.parts
    assert (part.rows, part.kept, part.lost) == (len(made.raw), len(made.raw), [])
    assert any("made again from the index" in reason for reason in part.reasons)
    assert verify(tmp_path / "out.urec").problems == []
    with unirecord.UniRecordDataset(tmp_path / "out.urec") as dataset:
        assert repr(list(dataset)) == repr(before)


def test_a_head_is_not_taken_from_the_index_of_another_file(tmp_path: Path) -> None:
    made, other = variable_part(tmp_path / "a.urec"), variable_part(tmp_path / "b.urec", part_id=b"o" * 16)
    Path(f"{made.path}.idx").write_bytes(other.index)
    made.path.write_bytes(bytes(100) + made.data[100:])
    with pytest.raises(unirecord.UniRecordError):
        repair(made.path, output=tmp_path / "out.urec")


def test_without_its_head_and_its_index_nothing_can_be_saved(tmp_path: Path) -> None:
    made = scalar_part(tmp_path / "part.urec")
    made.path.write_bytes(bytes(100) + made.data[100:])
    Path(f"{made.path}.idx").unlink()
    with pytest.raises(unirecord.UniRecordError):
        repair(made.path, output=tmp_path / "out.urec")
