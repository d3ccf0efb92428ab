"""Compressed sources: each way of packing, damaged and lying files, and a bound on what they unpack to."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from sources import rows_at

from unirecord.convert.sources import open_input, open_source
from unirecord.errors import SchemaError

TEXT = b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i) for i in range(500))
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.ZstdCompressor().compress,
}  # fmt: skip


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
