"""Compressed columns in damaged, hostile and later files: what is wrong is said, and no wrong value comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import reseal
import zstandard
from partgen import MadePart, write
from partgen_bytes import Col, Spec
from small_parts import compressed_part

import unirecord
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify

ROWS = 12
VALUE = b"river stone winter light " * 40


class Given(Col):
    """A compressed column whose cells are stored as they are given."""

    cells: dict[bytes, bytes]

    def compressed(self, value: bytes) -> bytes:
        return self.cells.get(value or b"", super().compressed(value))


def given(path: Path, cells: dict[bytes, bytes], column: dict[str, Any] | None = None) -> MadePart:
    """Twelve rows of one column, ``row n``; cells of values in ``cells`` are stored as it says."""
    made = Given("v", "bytes", codec=1, **(column or {}))
    made.cells = cells
    spec = Spec(b"h" * 16, [made], [], None, groups=[ROWS], unit_rows=0)
    return write(MadePart(path, spec, [[value(i)] for i in range(ROWS)]))


def value(i: int) -> bytes:
    return VALUE + str(i).encode()


def frame(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


BOMB = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x02\0\0\0" * 2
WRONG = {
    "a frame of a longer value": frame(value(5) + b"x"),
    "a frame of a shorter value": frame(value(5)[:-1]),
    "a bomb": BOMB,
    "no frame": b"x" * 60,
    "two frames": frame(value(5)) + frame(b""),
    "a frame that is cut off": frame(value(5))[:-1],
    "a frame without its size": zstandard.ZstdCompressor(write_content_size=False).compress(value(5)),
}


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_cell_that_is_no_frame_of_its_value_is_refused_alone(tmp_path: Path, wrong: str, io: Any) -> None:
    """Every digest is right: only the codec's own rules can tell."""
    path = given(tmp_path / "a.urec", {value(5): WRONG[wrong]}).path
    with unirecord.UniRecordDataset(path, io=io) as ds:
        assert ds[4]["v"] == value(4)
        with pytest.raises(unirecord.CorruptionError, match="row 5, column 'v'"):
            ds[5]
        with pytest.raises(unirecord.CorruptionError, match="row 5, column 'v'"):
            list(ds.batches(ROWS))
    with unirecord.UniRecordDataset(path, io=io, on_corrupt="skip") as ds:
        (batch,) = ds.batches(ROWS)
        assert [bytes(cell) for cell in batch["v"]] == [value(i) for i in range(ROWS) if i != 5]
    (problem,) = verify(path).problems
    assert problem.row == 5
    report = repair(path, output=tmp_path / "out.urec")
    assert report.parts
    with unirecord.UniRecordDataset(tmp_path / "out.urec") as ds:
        assert [ds[i]["v"] for i in range(len(ds))] == [value(i) for i in range(ROWS) if i != 5]


@pytest.mark.parametrize("length", [1 << 31, 40 << 15, 0])
def test_lengths_that_no_cell_can_have_are_refused_before_memory_is_taken(
    tmp_path: Path, length: int
) -> None:
    made = given(tmp_path / "a.urec", {})
    made.raw[-1] = [VALUE * 100]  # more than 2^16 bytes, so that lengths have four
    raw = np.array([len(cell or b"") for [cell] in made.raw], "<u4")
    write(made)
    file = bytearray(made.index)
    at = file.index(raw.tobytes())
    file[at + 4 * 7 : at + 4 * 8] = length.to_bytes(4, "little")
    reseal.index(file, made.data)
    Path(f"{made.path}.idx").write_bytes(file)
    with unirecord.UniRecordDataset(made.path) as ds:
        assert ds[6]["v"] == value(6)
        with pytest.raises(unirecord.CorruptionError):
            ds[7]
        with pytest.raises(unirecord.CorruptionError):
            list(ds.batches(ROWS))
    assert not verify(made.path).ok


def test_a_codec_of_a_later_version_closes_its_column_alone(tmp_path: Path) -> None:
    made = compressed_part(tmp_path / "a.urec")
    text = made.spec.columns[2]
    text.codec, text.dictionary = 7, b""
    write(made)
    with unirecord.UniRecordDataset(made.path, columns=["n", "plain", "fixed", "bytes"]) as ds:
        assert bytes(ds[5]["plain"]) == made.rows[5]["plain"]
        np.testing.assert_array_equal(ds[5]["fixed"], made.rows[5]["fixed"])
        assert sum(len(batch["n"]) for batch in ds.batches(3)) == 7
    with (
        unirecord.UniRecordDataset(made.path) as ds,
        pytest.raises(unirecord.ColumnError, match=r"codec 7,.*upgrade"),
    ):
        ds[0]
    (problem,) = verify(made.path).problems
    assert "upgrade" in problem.what
    Path(f"{made.path}.idx").unlink()
    repair(made.path)  # the index needs no codec
    assert len(unirecord.UniRecordDataset(made.path)) == 7


def dictionary_page(made: MadePart) -> int:
    return next(at for at, kind, _ in reseal.pages(made.data) if kind == 4)


@pytest.mark.parametrize("place", [8, 70], ids=["header", "content"])
def test_a_damaged_dictionary_is_found_and_taken_from_the_index(tmp_path: Path, place: int) -> None:
    made = compressed_part(tmp_path / "a.urec")
    data = bytearray(made.data)
    data[dictionary_page(made) + place] ^= 1
    made.path.write_bytes(data)
    with unirecord.UniRecordDataset(made.path) as ds:  # which reads the index's
        assert [ds[i]["text"] for i in range(7)] == [row["text"] for row in made.rows]
    assert not verify(made.path).ok
    report = repair(made.path, output=tmp_path / "out.urec")
    assert report.parts
    with unirecord.UniRecordDataset(tmp_path / "out.urec") as ds:
        assert [ds[i]["text"] for i in range(len(ds))] == [row["text"] for row in made.rows]


def test_without_its_dictionary_nothing_is_made_up(tmp_path: Path) -> None:
    made = compressed_part(tmp_path / "a.urec")
    data = bytearray(made.data)
    data[dictionary_page(made) + 70] ^= 1
    made.path.write_bytes(data)
    Path(f"{made.path}.idx").unlink()
    report = repair(made.path, output=tmp_path / "out.urec")
    assert any("dictionary" in reason for part in report.parts for reason in part.reasons)
    with unirecord.UniRecordDataset(tmp_path / "out.urec") as ds:
        assert len(ds) == 0


def test_a_lost_index_is_made_again_with_its_dictionaries(tmp_path: Path) -> None:
    made = compressed_part(tmp_path / "a.urec")
    Path(f"{made.path}.idx").unlink()
    repair(made.path)
    assert verify(made.path).ok
    with unirecord.UniRecordDataset(made.path) as ds:
        assert [ds[i]["text"] for i in range(7)] == [row["text"] for row in made.rows]


def test_repaired_rows_are_compressed_again(tmp_path: Path) -> None:
    made = compressed_part(tmp_path / "a.urec")
    data = bytearray(made.data)
    data[made.data.index(made.rows[6]["bytes"])] ^= 1  # in the last unit
    made.path.write_bytes(data)
    repair(made.path, output=tmp_path / "out.urec")
    found = unirecord.UniRecordDataset(tmp_path / "out.urec")
    assert [found[i]["text"] for i in range(len(found))] == [row["text"] for row in made.rows[: len(found)]]
    assert len(found) == 6
    assert [column.codec is not None for column in found.schema] == [False, False, True, True, True, True]


@pytest.mark.parametrize(
    ("number", "column"), [(0, 0), (0, 1), (0, 3), (0, 99), (1, 2), (1, 4), (1, 2**64 - 1)]
)
def test_a_dictionary_of_a_column_that_has_none_or_another_is_found(
    tmp_path: Path, number: int, column: int
) -> None:
    """Right digests over the number of a column that is plain, missing, or named by the page before or after."""
    made = compressed_part(tmp_path / "a.urec")
    data = bytearray(made.data)
    at = [at for at, kind, _ in reseal.pages(made.data) if kind == 4][number]
    data[at + 8 : at + 16] = column.to_bytes(8, "little")
    reseal.page_header(data, at)
    made.path.write_bytes(data)
    assert not verify(made.path).ok
    with pytest.raises(reference.Bad):
        reference.read_data(bytes(data))
    with unirecord.UniRecordDataset(made.path) as ds:  # which reads the index's
        assert [ds[i]["text"] for i in range(7)] == [row["text"] for row in made.rows]
    Path(f"{made.path}.idx").unlink()
    repair(made.path, output=tmp_path / "out.urec")
    with unirecord.UniRecordDataset(tmp_path / "out.urec") as ds:
        assert [ds[i]["text"] for i in range(len(ds))] == [row["text"] for row in made.rows][: len(ds)]
