"""Cells that are no values, and rows that share or leave their bytes: reported, and left out or put right by repair."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import reseal
from writing import write_numbered

import unirecord
from unirecord.cli.main import main


def retyped(path: Path, cells: list[bytes], spec: Any, entry: bytes) -> Path:
    """A part whose only column is of ``spec`` (first bytes of its table entry: ``entry``) and holds any bytes."""
    with unirecord.Writer(path, {"o": "bytes"}, metadata="x" * 25) as writer:
        writer.write_batch({"o": cells})
    index = Path(f"{path}.idx")
    data, stored = bytearray(path.read_bytes()), bytearray(index.read_bytes())
    found = msgpack.unpackb(reseal.metadata(data))
    found["schema"] = unirecord.Schema.parse({"o": spec}).to_wire()
    data[128 : 128 + len(entry)] = entry
    stored[192 : 192 + len(entry)] = entry
    content = reseal.with_data_metadata(bytes(data), msgpack.packb(found))
    path.write_bytes(content)
    index.write_bytes(reseal.with_index_metadata(bytes(stored), bytes(content), msgpack.packb(found)))
    return path


NO_VALUES: dict[str, tuple[Any, bytes, bytes, list[bytes]]] = {
    "object": (
        "object",
        bytes([33]),
        b"\x01",
        [b"", b"\xc1", b"\xa1\xff", b"\x82\xa1a\x01\xa1a\x02", b"\x91" * 65],
    ),
    "text": ("text", bytes([31]), "é".encode(), [b"\xff", b"\xc3"]),
    "one free dimension": (
        {"type": "int32", "shape": [-1, 2]},
        bytes([32, 6, 0, 2]),
        bytes(16),
        [bytes(7), bytes(4)],
    ),
    "two free dimensions": (
        {"type": "int8", "shape": [-1, -1]},
        bytes([32, 2, 0, 2]),
        bytes(6) + struct.pack("<QQ", 2, 3),
        [bytes(15), bytes(6) + struct.pack("<QQ", 2, 2), bytes(4) + struct.pack("<QQ", 1 << 63, 1 << 63)],
    ),
}


@pytest.mark.parametrize(("spec", "entry", "good", "bad"), NO_VALUES.values(), ids=NO_VALUES.keys())
def test_cells_that_are_no_values_are_reported_and_left_out_by_repair(
    tmp_path: Path, spec: Any, entry: bytes, good: bytes, bad: list[bytes]
) -> None:
    cells = [good, *bad, good]
    path = retyped(tmp_path / "o.urec", cells, spec, entry)
    dataset = unirecord.UniRecordDataset(path)
    for row in range(1, len(cells) - 1):
        with pytest.raises(unirecord.CorruptionError):
            dataset[row]
    report = unirecord.verify(path)
    assert [(problem.row, problem.column) for problem in report.problems] == [
        (i + 1, "o") for i in range(len(bad))
    ]
    repaired = unirecord.repair(path)
    assert (repaired.kept, repaired.lost, repaired.ok) == (2, len(bad), False)
    saved = unirecord.UniRecordDataset(tmp_path / "o.repaired.urec")
    assert len(list(saved)) == 2
    assert unirecord.verify(tmp_path / "o.repaired.urec").ok


def test_repair_writes_no_dataset_that_verify_rejects(tmp_path: Path) -> None:
    """A row group is put together from an index whose digests are right and whose strings are not UTF-8."""
    path = write_numbered(tmp_path / "a.urec")
    index, content = Path(f"{path}.idx"), bytearray(path.read_bytes())
    stored = bytearray(index.read_bytes())
    stored[stored.rindex(b"abc0abc1")] = 0xFF
    reseal.index(stored, content)
    index.write_bytes(stored)
    scalar_page = next(at for at, kind, _ in reseal.pages(content) if kind == 1)
    content[scalar_page + 64] ^= 1
    path.write_bytes(content)
    report = unirecord.repair(path)
    assert (report.kept, report.lost) == (32, 8)
    assert unirecord.verify(tmp_path / "a.repaired.urec").ok


def test_many_damaged_rows_are_few_problems_and_each_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.urec"
    with unirecord.Writer(path, {"i": "int32", "b": "bytes"}) as writer:
        writer.write_batch({"i": np.arange(1000), "b": [b"<%06d>" % i * 600 for i in range(1000)]})
    content = bytearray(path.read_bytes())
    for i in range(0, 1000, 2):
        content[content.index(b"<%06d>" % i * 600)] ^= 1
    path.write_bytes(content)
    assert len(unirecord.verify(path).problems) < 50
    report = unirecord.repair(path)
    assert (report.kept, report.lost) == (500, 500)
    assert np.array_equal(
        unirecord.UniRecordDataset(tmp_path / "a.repaired.urec").scalars(["i"])["i"], np.arange(1, 1000, 2)
    )
    assert unirecord.verify(tmp_path / "a.repaired.urec").ok


def section(index: bytes, wanted: int) -> tuple[int, int, int]:
    """Offset, bytes and width of the first section of a kind."""
    columns, sections = struct.unpack_from("<II", index, 64)
    for at in range(192 + 32 * columns, 192 + 32 * columns + 48 * sections, 48):
        kind, _, width, offset, size = struct.unpack_from("<HHIQQ", index, at)
        if kind == wanted:
            return offset, size, width
    raise AssertionError(f"there is no section {wanted}")


def test_cells_that_overlap_are_reported_and_repaired(tmp_path: Path) -> None:
    """Every row's cell is the whole page, with right digests: the rows add up to more than the file holds."""
    path, rows = tmp_path / "a.urec", 100
    with unirecord.Writer(path, {"i": "int32", "b": "bytes"}) as writer:
        writer.write_batch({"i": list(range(rows)), "b": [b"x" * 70_000] * rows})
    data, index = path.read_bytes(), bytearray(Path(f"{path}.idx").read_bytes())
    at, _, size = next(page for page in reseal.pages(data) if page[1] == 2)
    start = at + 64 + struct.unpack_from("<Q", data, at + 40)[0]
    for kind, numbers in (
        (2, [start] * rows),
        (3, [size] * rows),
        (4, [reseal.seal(data[24:40], 5, unit, data[start : start + size]) for unit in range(rows)]),
    ):
        offset, length, width = section(index, kind)
        index[offset : offset + length] = b"".join(n.to_bytes(width, "little") for n in numbers)
    reseal.index(index, data)
    Path(f"{path}.idx").write_bytes(index)
    report = unirecord.verify(path)
    assert {problem.path for problem in report.problems} == {f"{path}.idx"}
    assert unirecord.repair(path).ok
    assert unirecord.verify(path).ok
    assert unirecord.UniRecordDataset(path)[99]["b"] == b"x" * 70_000


@pytest.mark.parametrize(
    "shared", [{9: 2}, {50: 2, 20: 2}, {5: 2, 2: 5}], ids=["twice", "thrice", "exchanged"]
)
def test_rows_that_are_no_neighbours_and_share_bytes_are_reported_and_repaired(
    tmp_path: Path, shared: dict[int, int]
) -> None:
    """Their digests are right: a reader has only the order of the starts and the sum of a batch to go by."""
    path = tmp_path / "a.urec"
    with unirecord.Writer(path, {"b": "bytes"}) as writer:
        writer.write_batch({"b": [bytes([row]) * 70_000 for row in range(60)]})
    data, index = path.read_bytes(), bytearray(Path(f"{path}.idx").read_bytes())
    offset, length, width = section(index, 2)
    digests, _, _ = section(index, 4)
    assert (length, width) == (60 * 8, 8)
    starts = list(struct.unpack_from("<60Q", index, offset))
    for row, other in shared.items():
        starts[row] = struct.unpack_from("<Q", index, offset + 8 * other)[0]
        content = data[starts[row] : starts[row] + 70_000]
        struct.pack_into("<Q", index, digests + 8 * row, reseal.seal(data[24:40], 5, row, content))
    struct.pack_into("<60Q", index, offset, *starts)
    reseal.index(index, data)
    Path(f"{path}.idx").write_bytes(index)
    assert {problem.path for problem in unirecord.verify(path).problems} == {f"{path}.idx"}
    assert unirecord.repair(path).ok
    assert unirecord.verify(path).ok
    assert [row["b"][0] for row in unirecord.UniRecordDataset(path)] == list(range(60))


@pytest.mark.parametrize("number", [6, 1 << 31, (1 << 63) + 5, (1 << 64) - 1])
@pytest.mark.parametrize("kind", [8, 7])
def test_numbers_that_lead_out_of_a_section_are_our_errors(tmp_path: Path, kind: int, number: int) -> None:
    path = write_numbered(tmp_path / "a.urec")
    data, index = path.read_bytes(), bytearray(Path(f"{path}.idx").read_bytes())
    offset, _, width = section(index, kind)
    at = offset + width * 3
    index[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
    reseal.index(index, data)
    Path(f"{path}.idx").write_bytes(index)
    assert not unirecord.verify(path).ok
    uses: list[Callable[[], object]] = [
        *(
            lambda q=q: len(unirecord.UniRecordDataset(path, where=q))
            for q in (
                "s == 'abc1'",
                "s like '%b_1'",
                "s > 'abc2'",
                "s in ['abc0', 'abc3']",
                "i == 3 and s like '%c%'",
            )
        ),
        lambda: unirecord.describe(path),
        lambda: unirecord.UniRecordDataset(path).scalars(["s"]),
        lambda: list(unirecord.UniRecordDataset(path).batches(8)),
        lambda: list(unirecord.UniRecordDataset(path)),
    ]
    for use in uses:
        with contextlib.suppress(unirecord.UniRecordError, OSError, MemoryError):
            use()
    for options in (["--stats"], ["--group-by", "s"], ["--sort", "s"], []):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            main(["inspect", str(path), *options])
        assert "internal error" not in said.getvalue()
    assert unirecord.repair(path).ok
    assert unirecord.verify(path).ok
