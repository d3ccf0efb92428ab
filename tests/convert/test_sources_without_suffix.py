"""Files whose names say nothing (``part-00000``), marks beside files, and folders of many compressed files."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sources import rows_at

from unirecord.convert.sources import input_path, open_source, text_files
from unirecord.convert.sources.tfrecord import masked_crc32c
from unirecord.errors import SchemaError

pytestmark = pytest.mark.usefixtures("forked_readers")


def record(data: bytes) -> bytes:
    """A TFRecord."""
    length = len(data).to_bytes(8, "little")
    sums = [masked_crc32c(one).to_bytes(4, "little") for one in (length, data)]
    return length + sums[0] + data + sums[1]


def content(kind: str) -> bytes:
    """One file of a kind."""
    if kind == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": [1]}), sink)
        return sink.getvalue().to_pybytes()
    if kind == "arrow":
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, pa.schema([("a", pa.int64())])) as file:
            file.write_table(pa.table({"a": [1]}))
        return sink.getvalue().to_pybytes()
    return {"csv": b"a\n1\n", "jsonl": b'{"a":1}\n', "text": b"1\n", "tfrecord": record(b"\xff1")}[kind]


KINDS = ["csv", "jsonl", "text", "parquet", "arrow", "tfrecord"]


def save(folder: Path, kind: str) -> None:
    for number in range(12):
        (folder / f"part-{number}").write_bytes(content(kind))
    (folder / "_SUCCESS").touch()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["", "/part-*"])
def test_files_without_a_suffix_are_read_as_what_is_asked_for(
    kind: str, pattern: str, tmp_path: Path
) -> None:
    save(tmp_path, kind)
    found = rows_at(f"{tmp_path}{pattern}", kind=kind)
    assert len(found) == 12
    assert all(row == found[0] for row in found)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "tfrecord"])
@pytest.mark.parametrize("pattern", ["", "/part-*"])
def test_files_without_a_suffix_are_known_by_their_first_bytes(
    kind: str, pattern: str, tmp_path: Path
) -> None:
    save(tmp_path, kind)
    source = open_source(f"{tmp_path}{pattern}")
    assert source.kind == kind
    assert source.rows == 12


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_mark_beside_files_is_none_of_them(kind: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{kind}").write_bytes(content(kind))
    for mark in ("_SUCCESS", ".a.crc", "_committed_1"):
        (tmp_path / mark).touch()
    assert rows_at(tmp_path) == [{"a": 1}]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "tfrecord"])
def test_few_decompressed_copies_are_kept_at_a_time(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_path, "_MOST_COPIES", 2)
    for number in range(9):
        (tmp_path / f"{number}.{kind}.gz").write_bytes(gzip.compress(content(kind)))
    source = open_source(str(tmp_path))
    before, most = len(os.listdir("/proc/self/fd")), 0
    for _ in source.batches():
        most = max(most, len(os.listdir("/proc/self/fd")))
    assert most - before <= 4  # copies, and the file that is open


def test_a_copy_serves_all_units_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 100)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n" + b"1\n" * 500))
    made: list[str] = []
    copied = input_path._copied
    monkeypatch.setattr(input_path, "_copied", lambda *args: made.append(args[0]) or copied(*args))
    source = open_source(str(tmp_path / "a.csv.gz"))
    assert len(source.units) > 5
    assert sum(batch.rows for batch in source.batches()) == 500
    assert len(made) == 1


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_tfrecords_that_zlib_has_packed_are_read(level: int, tmp_path: Path) -> None:
    plain = content("tfrecord") * 3
    packed = zlib.compress(plain, level)
    (tmp_path / "plain.tfrecord").write_bytes(plain)
    (tmp_path / "x.tfrecord").write_bytes(packed)
    assert rows_at(tmp_path / "x.tfrecord") == rows_at(tmp_path / "plain.tfrecord")
    for damaged in (packed[:-1], packed + b"x"):
        (tmp_path / "x.tfrecord").write_bytes(damaged)
        with pytest.raises(SchemaError, match=r"x\.tfrecord cannot be decompressed"):
            rows_at(tmp_path / "x.tfrecord")
