"""Right bytes in the wrong place: cut files, and pages, rows, blocks and files that are swapped, repeated or stale."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest
from partgen import MadePart
from partgen_bytes import data_file
from probe import Probe, Refused, expected, probe_of, shape_of
from reference import Bad, read_data, read_part
from small_parts import chunked_part, compressed_part, fixed_part, nullable_part, scalar_part, variable_part

MAKERS = {
    "variable": variable_part,
    "fixed": fixed_part,
    "scalar": scalar_part,
    "nullable": nullable_part,
    "compressed": compressed_part,
    "in chunks": chunked_part,
}


def outcome(probe: Probe, want: object, io: str) -> str:
    """ "refused", or "right"; wrong values fail the test."""
    try:
        found = probe.read(io)
    except Refused:
        return "refused"
    assert found == want, "wrong values were read"
    return "right"


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("suffix", ["", ".idx"], ids=["data file", "index"])
@pytest.mark.parametrize("kind", MAKERS)
def test_every_truncation_is_refused(tmp_path: Path, kind: str, suffix: str, io: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    probe, path = probe_of(made), f"{made.path}{suffix}"
    size = os.stat(path).st_size
    for length in reversed(range(size)):
        os.truncate(path, length)
        with pytest.raises(Refused):
            probe.read(io)


@pytest.mark.parametrize("kind", MAKERS)
def test_every_longer_file_is_refused(tmp_path: Path, kind: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    probe = probe_of(made)
    for path, content in ((made.path, made.data), (Path(f"{made.path}.idx"), made.index)):
        for more in (b"\0", b"\0" * 64, content[-64:], content, b"URPG"):
            path.write_bytes(content + more)
            with pytest.raises(Refused):
                probe.read()
        path.write_bytes(content)


def stretches(made: MadePart) -> dict[str, list[tuple[int, int]]]:
    """Ranges of the data file that hold the same kind of thing."""
    _, facts = data_file(made.spec, made.raw)
    pages = []
    for i, (_, scalar, blob, _) in enumerate(facts.groups):
        last = facts.groups[i + 1][1] if i + 1 < len(facts.groups) else len(made.data) - 64
        pages += [(scalar, blob or last)] + ([(blob, last)] if blob else [])
    starts = facts.starts
    rows = []
    for i, start in enumerate(starts):
        ends = [s for s in starts[i + 1 :] if s > start]
        group_end = next(e for s, e in pages if s <= start < e or (s < start == e))
        rows.append((start, min([*ends[:1], group_end])))
    return {
        "pages": pages,
        "page headers": [(a, a + 64) for a, _ in pages],
        "rows": [r for r in rows if r[0] < r[1]],
    }


def moved(content: bytes, ranges: list[tuple[int, int]]) -> Iterator[bytes]:
    """The content with each range copied over each other one, and with each pair swapped."""
    for (a, a_end), (b, b_end) in permutations(ranges, 2):
        size = min(a_end - a, b_end - b)
        copied = content[:b] + content[a : a + size] + content[b + size :]
        yield copied
        yield copied[:a] + content[b : b + size] + copied[a + size :]


@pytest.mark.parametrize("kind", MAKERS)
def test_pages_and_rows_that_are_swapped_or_repeated_are_noticed(tmp_path: Path, kind: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    probe, want = probe_of(made), expected(made.raw, shape_of(made))
    tried = 0
    for what, ranges in stretches(made).items():
        for content in moved(made.data, ranges):
            if content == made.data:
                continue
            made.path.write_bytes(content)
            tried += 1
            for io in ("mmap", "pread"):
                found = outcome(probe, want, io)
                assert found == "refused" or what != "rows", "a moved row was taken for another"
            with pytest.raises(Bad):
                read_data(content)
    print(f"{kind}: {tried} arrangements")
    assert tried or kind == "scalar"


def body(index: bytes) -> tuple[int, int]:
    return int.from_bytes(index[20:24], "little"), int.from_bytes(index[88:96], "little")


@pytest.mark.parametrize("kind", MAKERS)
def test_stretches_of_the_index_that_are_swapped_or_repeated_are_refused(tmp_path: Path, kind: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    probe, index = probe_of(made), Path(f"{made.path}.idx")
    start, end = body(made.index)
    lines = [(at, at + 64) for at in range(0, end, 64)]
    tried = 0
    for content in moved(made.index, lines[:: max(1, len(lines) // 35)]):
        if content != made.index:
            index.write_bytes(content)
            tried += 1
            with pytest.raises(Refused):
                probe.read()
    assert tried > 100
    assert start < end


@pytest.mark.parametrize("kind", MAKERS)
def test_files_of_another_part_or_an_older_one_are_refused(tmp_path: Path, kind: str) -> None:
    """The same schema and rows under another id, and other rows under the same id."""
    made = MAKERS[kind](tmp_path / "part.urec")
    (tmp_path / "other").mkdir()
    others = {
        "another id": MAKERS[kind](tmp_path / "other" / "a.urec", part_id=b"another part's i"),
        "other rows, same id": MAKERS[kind](tmp_path / "other" / "b.urec", seed=99),
    }
    probe, want = probe_of(made), expected(made.raw, shape_of(made))
    for what, other in others.items():
        for data, index in ((other.data, made.index), (made.data, other.index)):
            made.path.write_bytes(data)
            Path(f"{made.path}.idx").write_bytes(index)
            assert outcome(probe, want, "mmap") == "refused", what
            with pytest.raises(Bad):
                read_part(made.path)


@pytest.mark.parametrize("kind", ["variable", "fixed"])
def test_stale_rows_and_pages_of_another_part_are_refused(tmp_path: Path, kind: str) -> None:
    """Each 64-byte line of the blob pages replaced by the line in the same place of a part that differs in id alone."""
    made = MAKERS[kind](tmp_path / "part.urec", seed=5)
    (tmp_path / "other").mkdir()
    other = MAKERS[kind](tmp_path / "other" / "a.urec", part_id=b"another part's i", seed=5)
    stale = MAKERS[kind](tmp_path / "other" / "b.urec", seed=6)
    probe, want = probe_of(made), expected(made.raw, shape_of(made))
    for source in (other, stale):
        for at in range(0, min(len(made.data), len(source.data)), 64):
            content = made.data[:at] + source.data[at : at + 64] + made.data[at + 64 :]
            made.path.write_bytes(content)
            for io in ("mmap", "pread"):
                outcome(probe, want, io)


def test_index_under_its_waiting_name_is_found_when_the_other_is_missing_or_of_another_part(
    tmp_path: Path,
) -> None:
    made = fixed_part(tmp_path / "part.urec")
    old = fixed_part(tmp_path / "old.urec", part_id=b"the part before ", seed=8)
    probe, want = probe_of(made), expected(made.raw, shape_of(made))
    index, waiting = Path(f"{made.path}.idx"), Path(f"{made.path}.idx.new")
    index.rename(waiting)
    assert outcome(probe, want, "mmap") == "right"
    index.write_bytes(old.index)
    assert outcome(probe, want, "mmap") == "right"
    waiting.write_bytes(old.index)
    assert outcome(probe, want, "mmap") == "refused"
    waiting.write_bytes(made.index[:-1])
    assert outcome(probe, want, "mmap") == "refused"
