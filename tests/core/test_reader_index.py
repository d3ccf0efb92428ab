"""An index that changes under a reader: small ones no longer matter once opened, large ones are stale, none kills."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from unirecord import StaleError, UniRecordDataset, Writer
from unirecord.query import compile_query
from unirecord.query.columns import all_values, columns_of
from unirecord.snapshot.part_set import PartSet, resolve

MAPPED = ["auto", "mmap", "pread", "uring", "uring-direct"]
SMALL, LARGE = 100, 40_000  # rows; an index of up to 64 KiB is read into memory


def written(folder: Path, rows: int) -> Path:
    path = folder / "a.urec"
    with Writer(path, {"x": "int64", "v": {"type": "uint8", "shape": [8]}}) as writer:
        writer.write_batch({"x": np.arange(rows), "v": np.arange(rows * 8, dtype=np.uint8).reshape(rows, 8)})
    assert (os.path.getsize(f"{path}.idx") > 65536) == (rows == LARGE)
    return path


def cut(path: Path) -> None:
    os.truncate(f"{path}.idx", 100)


@pytest.mark.parametrize("io", MAPPED)
@pytest.mark.parametrize("column", [0, 1])
def test_a_large_index_cut_under_a_reader_is_stale(tmp_path: Path, io: str, column: int) -> None:
    path = written(tmp_path, LARGE)
    parts = PartSet(resolve(path), io)
    parts.read(np.array([1]), [column])
    cut(path)
    with pytest.raises(StaleError, match=r"a\.urec\.idx.*100 bytes.*has been cut.*open the dataset again"):
        parts.read(np.array([LARGE - 1]), [column])
    with pytest.raises(StaleError, match=r"a\.urec\.idx"):
        parts.reader([column]).read_one(LARGE - 1)


def test_a_large_index_written_to_is_stale(tmp_path: Path) -> None:
    path = written(tmp_path, LARGE)
    parts = PartSet(resolve(path))
    parts.read(np.array([1]), [0])
    os.utime(f"{path}.idx", (1, 1))
    with pytest.raises(StaleError, match="written to"):
        parts.read(np.array([2]), [0])


def test_the_views_of_a_part_are_checked_before_they_are_used(tmp_path: Path) -> None:
    path = written(tmp_path, LARGE)
    parts = PartSet(resolve(path))
    opened = parts.part(0)
    compile_query("x % 2 == 0", parts.schema).count(parts)  # has looked at all of the column
    cut(path)
    with pytest.raises(StaleError):
        all_values(columns_of(parts)[0], 0)
    assert opened.content.schema.names == ("x", "v")  # the head was read when the part was opened


def test_datasets_and_loaders_meet_a_cut_index_without_dying(tmp_path: Path) -> None:
    path = written(tmp_path, LARGE)
    dataset = UniRecordDataset(path, where="x > 17000")
    assert dataset[5]["x"] == 17006
    cut(path)
    with pytest.raises(StaleError):
        dataset[0]
    with pytest.raises(StaleError):
        next(iter(dataset.batches(64)))


@pytest.mark.parametrize("io", [*MAPPED, "memory"])
def test_a_small_index_is_read_once(tmp_path: Path, io: str) -> None:
    path = written(tmp_path, SMALL)
    parts = PartSet(resolve(path), io)
    parts.read(np.array([1]), [0])
    cut(path)
    assert parts.read(np.arange(SMALL), [0])[0].data.view(np.int64).ravel().tolist() == list(range(SMALL))


def test_in_memory_no_file_matters_any_more(tmp_path: Path) -> None:
    path = written(tmp_path, LARGE)
    parts = PartSet(resolve(path), "memory")
    parts.read(np.array([1]), [1])
    cut(path)
    os.truncate(path, 100)
    found = parts.read(np.array([LARGE - 1]), [0, 1])
    assert found[0].data.view(np.int64).ravel().tolist() == [LARGE - 1]
    assert found[1].data[0].tolist() == [(LARGE * 8 - 8 + i) % 256 for i in range(8)]


def test_a_replaced_index_leaves_an_open_reader_alone(tmp_path: Path) -> None:
    path = written(tmp_path, LARGE)
    parts = PartSet(resolve(path))
    parts.read(np.array([1]), [0])
    copy = tmp_path / "copy"
    copy.write_bytes(Path(f"{path}.idx").read_bytes())
    os.replace(copy, f"{path}.idx")
    assert parts.read(np.array([LARGE - 1]), [0])[0].data.view(np.int64).ravel().tolist() == [LARGE - 1]
