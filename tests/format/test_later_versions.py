"""What a later version may add without breaking this one: it is checked as bytes, and otherwise ignored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from partgen import MadePart, generate, write
from small_parts import fixed_part, scalar_part, variable_part

import unirecord
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify

MAKERS = {"variable": variable_part, "fixed": fixed_part, "scalar": scalar_part}


def said(value: object) -> object:
    return value.tobytes() if isinstance(value, (np.ndarray, np.generic)) else repr(value)


def rows_of(made: MadePart) -> list[bytes]:
    with unirecord.UniRecordDataset(made.path) as dataset:
        return [repr({k: said(v) for k, v in row.items()}).encode() for row in dataset]


def with_later_things(made: MadePart) -> MadePart:
    made.spec.unknown = {"deletions": [1, 2], "later": {"x": None}}
    made.spec.optional = 1 << 31
    made.spec.zone_rows = {column.name: 2 for column in made.spec.columns}
    made.spec.pages = {
        0: [(0x8000, b"statistics of a later version")],
        1: [(0xFFFF, b""), (0x9000, bytes(999))],
    }
    made.spec.ancillary = {(0x8000, 0): b"bloom", (0x8000, 9999): b"", (0xFFFF, 65535): bytes(100_000)}
    return write(made)


@pytest.mark.parametrize("kind", MAKERS)
def test_ancillary_sections_unknown_keys_and_optional_features_are_ignored(tmp_path: Path, kind: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    before = rows_of(made)
    assert rows_of(with_later_things(made)) == before
    assert verify(made.path).problems == []
    column = next(c for c in made.spec.columns if not c.is_blob)
    with unirecord.UniRecordDataset(made.path) as dataset:
        assert len(dataset.scalars([column.name])[column.name]) == len(made.raw)


@pytest.mark.parametrize("kind", MAKERS)
def test_the_bytes_of_what_is_ignored_are_verified(tmp_path: Path, kind: str) -> None:
    made = with_later_things(MAKERS[kind](tmp_path / "part.urec"))
    index = bytearray(made.index)
    index[made.index.rindex(bytes(64 << 10)) + 100] ^= 1
    Path(f"{made.path}.idx").write_bytes(index)
    assert not verify(made.path).ok


@pytest.mark.parametrize("kind", MAKERS)
def test_an_ancillary_page_is_verified_and_left_out_by_repair(tmp_path: Path, kind: str) -> None:
    made = with_later_things(MAKERS[kind](tmp_path / "part.urec"))
    before = rows_of(made)
    data = bytearray(made.data)
    data[made.data.index(b"statistics of a later version") + 3] ^= 1
    made.path.write_bytes(data)
    (problem,) = verify(made.path).problems
    assert "ancillary" in problem.what
    assert rows_of(made) == before
    report = repair(made.path, output=tmp_path / "out.urec")
    assert any("left out" in reason for part in report.parts for reason in part.reasons)
    with unirecord.UniRecordDataset(tmp_path / "out.urec") as dataset:
        assert len(dataset) == len(made.raw)
    assert verify(tmp_path / "out.urec").ok


@pytest.mark.parametrize("kind", [4, 5, 0x7FFF])
def test_a_page_of_an_unknown_kind_below_is_damage(tmp_path: Path, kind: int) -> None:
    made = variable_part(tmp_path / "part.urec")
    made.spec.pages = {1: [(kind, b"")]}
    write(made)
    assert not verify(made.path).ok


@pytest.mark.parametrize("kind", MAKERS)
def test_repair_rebuilds_an_index_without_what_it_does_not_know(tmp_path: Path, kind: str) -> None:
    made = with_later_things(MAKERS[kind](tmp_path / "part.urec"))
    before = rows_of(made)
    Path(f"{made.path}.idx").unlink()
    repair(made.path)
    assert rows_of(made) == before
    assert verify(made.path).ok


def test_the_package_verifies_what_the_generator_wrote(tmp_path: Path) -> None:
    for seed in range(300, 340):
        made = generate(seed, tmp_path)
        assert verify(made.path, threads=1).problems == [], seed


@pytest.mark.parametrize("number", [1, 1 << 31])
@pytest.mark.parametrize("optional", [0, 1])
def test_digests_of_an_unknown_algorithm_are_refused_by_its_number(
    tmp_path: Path, number: int, optional: int
) -> None:
    made = scalar_part(tmp_path / "part.urec")
    made.spec.optional = optional
    write(made)
    for file, at in ((made.path, 72), (Path(f"{made.path}.idx"), 144)):
        content = bytearray(file.read_bytes())
        content[at : at + 4] = number.to_bytes(4, "little")
        file.write_bytes(content)  # with digests that this version cannot check
        with pytest.raises(unirecord.FormatError, match=rf"digests of algorithm {number}.*XXH3.*upgrade"):
            unirecord.UniRecordDataset(made.path)
        assert not verify(made.path).ok
        write(made)


@pytest.mark.parametrize("feature", [1, 1 << 31])
def test_a_required_feature_is_refused(tmp_path: Path, feature: int) -> None:
    made = scalar_part(tmp_path / "part.urec")
    for file in (made.path, Path(f"{made.path}.idx")):
        content = bytearray(file.read_bytes())
        content[12:16] = feature.to_bytes(4, "little")
        file.write_bytes(content)
        with pytest.raises(unirecord.FormatError, match="upgrade"):
            unirecord.UniRecordDataset(made.path)
        write(made)
