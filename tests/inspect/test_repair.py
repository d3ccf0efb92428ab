"""repair: indexes rebuilt, rows salvaged, originals untouched, and nothing claimed that is not so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import reseal
from partgen import MadePart, generate
from reference import read_part
from reference_directory import read_directory
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


def head_bytes(made: MadePart) -> int:
    return int.from_bytes(made.data[20:24], "little")


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_lost_indexes_are_rebuilt_from_the_data_file(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        made = generate(seed, tmp_path)
        Path(f"{made.path}.idx").unlink()
        report = repair(made.path)
        assert report.ok
        assert report.parts[0].action == "index"
        assert read_part(made.path).raw == made.raw
        assert verify(made.path).ok
        assert repair(made.path).parts[0].action == "none"
        assert made.path.read_bytes() == made.data


@pytest.mark.parametrize("kind", MAKERS)
def test_damaged_indexes_are_rebuilt(tmp_path: Path, kind: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    index = Path(f"{made.path}.idx")
    for place in range(0, len(made.index), 97):
        index.write_bytes(made.index[:place] + bytes([made.index[place] ^ 16]) + made.index[place + 1 :])
        assert repair(made.path).parts[0].action == "index", place
        assert verify(made.path).ok


@pytest.mark.parametrize("kind", MAKERS)
def test_flipped_bytes_cost_no_more_than_their_rows(tmp_path: Path, kind: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    r = random.Random(7)
    for place in range(head_bytes(made), len(made.data), 23):
        content = bytearray(made.data)
        content[place] ^= 1 << r.randrange(8)
        made.path.write_bytes(content)
        output = tmp_path / f"{place}.urec"
        (part,) = repair(made.path, output=output).parts
        assert made.path.read_bytes() == content
        assert part.rows == len(made.raw)
        lost = {row for first, stop in part.lost for row in range(first, stop)}
        assert part.kept == len(made.raw) - len(lost)
        assert len(lost) <= 4, "no more than a row group is lost"
        if part.action == "none":
            assert not lost
            assert not output.exists()
            continue
        assert read_part(output).raw == [row for n, row in enumerate(made.raw) if n not in lost]
        assert verify(output).ok


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("kind", MAKERS)
def test_cut_files_keep_all_row_groups_before_the_cut(tmp_path: Path, kind: str, with_index: bool) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    if not with_index:
        Path(f"{made.path}.idx").unlink()
    best = 0
    for size in range(head_bytes(made), len(made.data), 31):
        made.path.write_bytes(made.data[:size])
        output = tmp_path / f"{size}.urec"
        report = repair(made.path, output=output)
        found = read_part(output).raw
        assert found == made.raw[: len(found)]
        assert report.kept == len(found) >= best
        best = len(found)
        assert (report.parts[0].rows == len(made.raw)) == with_index
        if with_index:
            assert report.lost == len(made.raw) - len(found)
    assert best == len(made.raw)


def test_file_of_a_killed_writer_is_salvaged_under_a_name_of_its_own(tmp_path: Path) -> None:
    made = fixed_part(tmp_path / "train.urec")
    unfinished = tmp_path / ".train.urec.tmp"
    unfinished.write_bytes(made.data[:-64])
    (part,) = repair(unfinished).parts
    assert part.output == str(tmp_path / "train.repaired.urec")
    assert read_part(part.output).raw == made.raw
    with pytest.raises(unirecord.ExistsError):
        repair(unfinished)


def states(folder: Path) -> dict[Path, tuple[int, ...]]:
    """What changes when a file is written; not when it was last read, which repairing does."""
    found = {path: path.stat() for path in folder.iterdir()}
    return {
        path: (it.st_ino, it.st_nlink, it.st_mode, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
        for path, it in found.items()
    }


def test_sound_datasets_are_left_alone(tmp_path: Path) -> None:
    made = variable_part(tmp_path / "part.urec")
    before = states(tmp_path)
    report = repair(made.path)
    assert report.ok
    assert [p.action for p in report.parts] == ["none"]
    assert states(tmp_path) == before


def test_without_a_head_and_an_index_nothing_can_be_salvaged(tmp_path: Path) -> None:
    made = variable_part(tmp_path / "part.urec")
    made.path.write_bytes(b"\0" * 200 + made.data[200:])
    Path(f"{made.path}.idx").write_bytes(b"\0" * 200 + made.index[200:])
    with pytest.raises(unirecord.FormatError, match="nothing can be salvaged"):
        repair(made.path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["part.urec", "part.urec.idx"]


def test_directory_is_repaired_into_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "set"
    with unirecord.Writer(
        path, {"x": "int64", "b": "bytes"}, index=["x"], metadata={"a": 1}, max_part_bytes=4000
    ) as writer:
        for i in range(300):
            writer.write({"x": i, "b": bytes([i % 251]) * (i % 50)})
    parts = sorted(path.glob("part-*.urec"))
    Path(f"{parts[0]}.idx").unlink()
    assert [p.action for p in repair(path).parts][:2] == ["index", "none"]
    assert verify(path).ok

    content = bytearray(parts[1].read_bytes())
    content[-100] ^= 1
    parts[1].write_bytes(content)
    (path / "manifest.json").unlink()
    report = repair(path)
    found = [row["x"] for part in read_directory(tmp_path / "set.repaired") for row in part.rows]
    assert found == sorted(set(found))
    assert len(found) == report.kept
    assert verify(tmp_path / "set.repaired").ok
    assert 250 < len(found) <= 300


@pytest.mark.parametrize("kind", MAKERS)
def test_pages_that_only_describe_rows_are_made_up_for_by_a_good_index(tmp_path: Path, kind: str) -> None:
    """Damage in page headers, scalar pages and the end page costs no row while the index is whole."""
    made = MAKERS[kind](tmp_path / "part.urec")
    tried = 0
    for at, page_kind, size in reseal.pages(made.data):
        stop = at + 64 + (size if page_kind == 1 else 0)
        for place in range(at, stop, 9):
            content = bytearray(made.data)
            content[place] ^= 4
            made.path.write_bytes(content)
            report = repair(made.path, output=tmp_path / f"{place}.urec")
            assert report.ok, (place, report)
            assert report.parts[0].action == "salvaged"
            assert read_part(tmp_path / f"{place}.urec").raw == made.raw
            tried += 1
    assert tried > 20
