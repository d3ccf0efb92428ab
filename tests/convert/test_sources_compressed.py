"""Compressed sources: each way of packing, damaged and lying files, and a bound on what they unpack to."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import brotli
import pytest
import snappy
import zstandard
from sources import rows_at

from unirecord.convert.sources import Options, input_path, open_input, open_source
from unirecord.convert.sources.compression import decompressed
from unirecord.convert.sources.input_path import InputPath
from unirecord.errors import MissingError, SchemaError

TEXT = b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i) for i in range(500))


def snappy_frames(data: bytes) -> bytes:
    out = io.BytesIO()
    snappy.stream_compress(io.BytesIO(data), out)
    return out.getvalue()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.ZstdCompressor().compress,
}  # fmt: skip
UNMARKED: dict[str, Callable[[bytes], bytes]] = {
    "br": brotli.compress, "snappy": snappy.compress, "framed.snappy": snappy_frames,
}  # fmt: skip


@pytest.mark.parametrize("suffix", UNMARKED)
def test_a_file_packed_without_a_mark_is_known_by_its_name(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "x.csv").write_bytes(TEXT)
    path = tmp_path / f"x.csv.{suffix}"
    if suffix == "framed.snappy":
        path = tmp_path / "framed.csv.snappy"
    path.write_bytes(UNMARKED[suffix](TEXT))
    assert rows_at(path) == rows_at(tmp_path / "x.csv")
    for damaged in (UNMARKED[suffix](TEXT)[:-9], TEXT, UNMARKED[suffix](TEXT) + b"more"):
        path.write_bytes(damaged)
        with pytest.raises(SchemaError, match=rf"{path.name} cannot be decompressed"):
            open_source(str(path))


@pytest.mark.parametrize("suffix", ["br", "snappy"])
def test_a_package_that_is_missing_is_named(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"x.csv.{suffix}"
    path.write_bytes(UNMARKED[suffix](TEXT))
    monkeypatch.setitem(sys.modules, {"br": "brotli", "snappy": "snappy"}[suffix], None)
    with pytest.raises(MissingError, match=r"pip install (brotli|python-snappy)"):
        open_source(str(path))


@pytest.mark.parametrize("suffix", ["br", "framed.snappy"])
def test_what_an_unmarked_one_unpacks_to_is_bounded(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.csv.{suffix.rpartition('.')[2]}"
    path.write_bytes(UNMARKED[suffix](b"a\n" + b"1\n" * 1_000_000))
    with pytest.raises(SchemaError, match=r"delivers more than 1.0 MB, .*--max-spool-bytes"):
        open_source(open_input(str(path), spool_bytes=1_000_000))


@pytest.mark.parametrize("suffix", PACK)
def test_what_is_damaged_behind_the_first_stream_is_not_lost_unseen(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.csv.{suffix}"
    whole = PACK[suffix](TEXT[:1000])
    for rest in (b"Z" + PACK[suffix](TEXT[1000:])[1:], b"not compressed", PACK[suffix](TEXT[1000:])[:9]):
        path.write_bytes(whole + rest)
        with pytest.raises(SchemaError, match=r"cannot be decompressed"):
            open_source(str(path))
    if suffix in ("gz", "xz"):  # zeros may follow, as on tapes; in xz between streams too
        path.write_bytes(PACK[suffix](TEXT) + bytes(8))
        assert len(rows_at(path)) == 500


@pytest.mark.parametrize("suffix", PACK)
def test_a_packed_file_is_read_as_the_file_in_it(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "x.csv").write_bytes(TEXT)
    path = tmp_path / f"x.csv.{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    assert rows_at(path) == rows_at(tmp_path / "x.csv")
    path.write_bytes(
        PACK[suffix](TEXT[:1000]) + PACK[suffix](TEXT[1000:])
    )  # one after the other, as cat makes them
    assert rows_at(path) == rows_at(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        *((f"x.csv.{suffix}", suffix) for suffix in PACK | UNMARKED if "." not in suffix),
        ("x", "gz"),
        ("x", "zst"),
        ("x", "xz"),
    ],
)
def test_a_packed_pipe_is_read_as_what_is_in_it(tmp_path: Path, name: str, suffix: str) -> None:
    (tmp_path / "x.csv").write_bytes(TEXT)
    os.mkfifo(tmp_path / name)
    packed = (PACK | UNMARKED)[suffix](TEXT)
    threading.Thread(target=(tmp_path / name).write_bytes, args=(packed,), daemon=True).start()
    assert rows_at(tmp_path / name, kind="csv") == rows_at(tmp_path / "x.csv")


def test_a_packed_pipe_is_copied_up_to_a_bound(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.gz")
    packed = gzip.compress(bytes(100_000))
    threading.Thread(target=(tmp_path / "x.gz").write_bytes, args=(packed,), daemon=True).start()
    with pytest.raises(SchemaError, match="delivers more than"):
        open_input(str(tmp_path / "x.gz"), 10_000)


@pytest.mark.parametrize("suffix", PACK)
def test_a_damaged_file_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.csv.{suffix}"
    whole = PACK[suffix](TEXT)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SchemaError, match=rf"x.csv.{suffix} cannot be decompressed"):
        open_source(str(path))
    path.write_bytes(TEXT)
    with pytest.raises(SchemaError, match=r"its name says that it is compressed, but its first bytes do not"):
        open_source(str(path))


@pytest.mark.parametrize("suffix", PACK)
def test_what_unpacks_to_more_than_the_bound_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.csv.{suffix}"
    path.write_bytes(PACK[suffix](b"a\n" + b"1\n" * 2_000_000))
    assert path.stat().st_size < 20_000
    with pytest.raises(SchemaError, match=r"delivers more than 1.0 MB, .*--max-spool-bytes"):
        open_source(open_input(str(path), spool_bytes=1_000_000))


@pytest.mark.parametrize("threads", [1, 4])
def test_all_copies_that_lie_on_the_disk_at_once_keep_to_the_bound(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[BinaryIO] = []
    most = [0]
    original = tempfile.TemporaryFile

    def counted(**options: Any) -> BinaryIO:
        made.append(original(**options))
        return made[-1]

    def on_disk() -> int:
        return sum(os.fstat(file.fileno()).st_size for file in made if not file.closed)

    def pieces(name: str, file: BinaryIO) -> Iterator[bytes]:
        for piece in decompressed(name, file):
            for start in range(0, len(piece), 10_000):
                yield piece[start : start + 10_000]
                most[0] = max(most[0], on_disk())

    monkeypatch.setattr(tempfile, "TemporaryFile", counted)
    monkeypatch.setattr(input_path, "decompressed", pieces)
    folder = tmp_path / "csv"
    folder.mkdir()
    for i in range(12):
        (folder / f"{i}.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"%d,2\n" % i * 50_000))
    source = open_source(open_input(str(folder), spool_bytes=500_000), options=Options(threads=threads))
    assert sum(batch.rows for batch in source.batches()) == 12 * 50_000
    assert len(made) > 12
    assert 200_000 <= most[0] <= 500_000
    assert sum(not file.closed for file in made) <= 2


def test_copies_that_wait_for_each_others_room_are_made_in_turns(tmp_path: Path) -> None:
    names = [tmp_path / f"{i}.csv.gz" for i in range(4)]
    for name in names:
        name.write_bytes(gzip.compress(os.urandom(3_000_000)))
    files = [open_input(str(name), spool_bytes=4_000_000) for name in names]
    with ThreadPoolExecutor(len(files)) as pool:
        assert list(pool.map(InputPath.size, files)) == [3_000_000] * 4
    assert sum(file._spool is not None for file in files) == 1


def test_a_copy_that_has_only_just_been_made_gives_its_room_back(tmp_path: Path) -> None:
    """Before its file has it at hand; who needs the room holds the lock that its thread waits for."""
    names = [tmp_path / f"{i}.csv.gz" for i in range(2)]
    for name in names:
        name.write_bytes(gzip.compress(os.urandom(3_000_000)))
    first, second = (open_input(str(name), spool_bytes=4_000_000) for name in names)
    with open(names[0], "rb") as packed:
        input_path._COPIES.made(first, packed)
    sizes: list[int] = []
    other = threading.Thread(target=lambda: sizes.append(second.size()), daemon=True)
    other.start()
    other.join(60)
    assert sizes == [3_000_000]
    assert first.size() == 3_000_000
