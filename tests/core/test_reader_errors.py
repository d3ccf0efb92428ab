"""Reading parts that are missing, damaged, cut, replaced or of another kind: named, and others are read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from read_parts import WAYS, many_parts, part, read_all, stored

from unirecord import CorruptionError, FormatError, MissingError, StaleError
from unirecord.snapshot.part_set import PartSet, resolve


def test_a_missing_index_says_how_to_rebuild_it(tmp_path: Path) -> None:
    path = part(tmp_path)
    os.unlink(f"{path}.idx")
    with pytest.raises(MissingError, match=r"a\.urec\.idx.*unirecord repair"):
        resolve(path)


def test_an_index_that_waits_under_its_second_name_is_used(tmp_path: Path) -> None:
    path = part(tmp_path)
    os.rename(f"{path}.idx", f"{path}.idx.new")
    assert len(read_all(path)[0].data) == 100
    other = part(tmp_path, "b.urec", 5)
    shutil.copy(f"{other}.idx", f"{path}.idx")  # left over from what stood there before
    assert len(read_all(path)[0].data) == 100


def test_the_index_of_another_part_is_named(tmp_path: Path) -> None:
    path, other = part(tmp_path), part(tmp_path, "b.urec")
    shutil.copy(f"{other}.idx", f"{path}.idx")
    ids = [resolve(other).parts[0].id, Path(path).read_bytes()[24:40]]
    with pytest.raises(StaleError, match=r"a\.urec\.idx") as caught:
        resolve(path)
    assert all(part_id is not None and part_id.hex() in str(caught.value) for part_id in ids)


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"hello, world", b"\x89UREC\r\n\x1a"])
@pytest.mark.parametrize("suffix", ["", ".idx"])
def test_a_file_that_is_not_ours_is_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = part(tmp_path)
    Path(f"{path}{suffix}").write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.urec" + suffix.replace(".", r"\.")):
        resolve(path)


def test_an_unfinished_file_can_be_salvaged(tmp_path: Path) -> None:
    path = part(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-64])
    with pytest.raises(CorruptionError, match=r"a\.urec.*cut off.*unirecord repair"):
        resolve(path)
    os.unlink(f"{path}.idx")
    with pytest.raises(FormatError, match=r"a\.urec.*unfinished.*unirecord repair"):
        resolve(path)


def test_a_newer_file_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = part(tmp_path)
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    with pytest.raises(FormatError, match="upgrade unirecord"):
        resolve(path)


@pytest.mark.parametrize("io", WAYS)
def test_a_damaged_blob_is_named_and_others_are_read(tmp_path: Path, io: str) -> None:
    path = part(tmp_path, more=5_000)  # a digest for each blob
    source = resolve(path)
    offset, size = PartSet(source).part(0).locate(42, 2)
    data = bytearray(path.read_bytes())
    data[offset + size // 2] ^= 1
    path.write_bytes(data)
    parts = PartSet(source, io)
    parts.read(np.array([41, 43]), [0, 1, 2, 3])
    with pytest.raises(CorruptionError, match=r"a\.urec, row 42.*digest.*unirecord verify") as caught:
        parts.read(np.array([41, 42]), [0, 2])
    assert (caught.value.path, caught.value.row) == (str(path), 42)
    assert caught.value.offset == offset
    assert stored(PartSet(source, io, "never").read(np.array([42]), [2])[0], 0) != bytes([42]) * 5_042


def test_small_rows_share_a_digest_and_are_damaged_together(tmp_path: Path) -> None:
    path = part(tmp_path)
    source = resolve(path)
    offset, size = PartSet(source).part(0).locate(42, 2)
    data = bytearray(path.read_bytes())
    data[offset + size // 2] ^= 1
    path.write_bytes(data)
    parts = PartSet(source)
    parts.read(np.array([31, 48]), [0, 1, 2, 3])
    for row in (32, 41, 42, 47):
        with pytest.raises(CorruptionError, match=rf"a\.urec, row {row}.*digest"):
            parts.read(np.array([row]), [2])


def test_a_damaged_index_can_be_rebuilt(tmp_path: Path) -> None:
    path = part(tmp_path)
    index = bytearray(Path(f"{path}.idx").read_bytes())
    index[-100] ^= 1
    Path(f"{path}.idx").write_bytes(index)
    with pytest.raises(CorruptionError, match=r"a\.urec\.idx.*unirecord repair"):
        read_all(path)


@pytest.mark.parametrize("io", WAYS[:-1])
def test_a_file_cut_under_a_reader_is_stale(tmp_path: Path, io: str) -> None:
    path = part(tmp_path)
    parts = PartSet(resolve(path), io)
    parts.read(np.array([1]), [2])
    os.truncate(path, 4096)
    with pytest.raises(StaleError, match=r"a\.urec.*4096 bytes"):
        parts.read(np.array([1]), [2])


def test_a_replaced_part_is_refused_by_its_id(tmp_path: Path) -> None:
    path = part(tmp_path)
    source = resolve(path)
    other = part(tmp_path, "b.urec")
    for suffix in ("", ".idx"):
        os.replace(f"{other}{suffix}", f"{path}{suffix}")
    with pytest.raises(StaleError, match="another part"):
        PartSet(source).read(np.array([1]), [2])


def test_a_missing_part_of_a_directory_is_named(tmp_path: Path) -> None:
    folder = many_parts(tmp_path / "set", 300)
    name = resolve(folder).parts[1].path
    os.rename(f"{name}.idx", tmp_path / "kept")
    with pytest.raises(MissingError, match=r"part-000.*\.idx.*repair"):
        resolve(folder)
    os.unlink(name)
    with pytest.raises(MissingError, match=r"part-000.*missing"):
        resolve(folder)
