"""How far a conversion has come: within one large file as over many, by what has been read."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from unirecord.convert.sources import open_source
from unirecord.convert.sources.tfrecord import masked_crc32c


def tar_of(rows: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(rows):
            member = tarfile.TarInfo(f"{i:06}.cls")
            member.size = 1
            tar.addfile(member, io.BytesIO(b"7"))
    return out.getvalue()


def records_of(rows: int) -> bytes:
    length = (20).to_bytes(8, "little")
    sums = [masked_crc32c(one).to_bytes(4, "little") for one in (length, bytes(20))]
    return (length + sums[0] + bytes(20) + sums[1]) * rows


FILES: dict[str, Callable[[int], bytes]] = {
    ".csv": lambda rows: b"a,b\n" + b"".join(b"%d,x%d\n" % (i, i) for i in range(rows)),
    ".jsonl": lambda rows: b"".join(b'{"a": %d, "b": "x%d"}\n' % (i, i) for i in range(rows)),
    ".txt": lambda rows: b"".join(b"line %d\n" % i for i in range(rows)),
    ".tar": tar_of,
    ".tfrecord": records_of,
}


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("suffix", list(FILES))
def test_looking_through_tells_how_many_bytes_have_been_read(
    suffix: str, packed: bool, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unirecord.convert.sources.text_files.BLOCK_BYTES", 10_000)
    total = 0
    for i in range(files):
        data = FILES[suffix](5_000)
        name = f"{i}{suffix}" + (".gz" if packed else "")
        (tmp_path / name).write_bytes(gzip.compress(data, mtime=0) if packed else data)
        total += (tmp_path / name).stat().st_size
    told: list[tuple[int, int]] = []
    path = next(tmp_path.iterdir()) if files == 1 else tmp_path
    kind = "text" if suffix == ".txt" else None  # a folder of texts is read as files
    source = open_source(str(path), kind, progress=lambda done, of: told.append((done, of)))
    assert {of for _, of in told} == {total}
    assert told[-1][0] == total
    done = [one for one, _ in told]
    assert done == sorted(done)
    # Of each file it is told while it is read, and of what is packed already while it is unpacked.
    for i in range(files):
        start, stop = total * i / files, total * (i + 1) / files
        assert len({one for one in done if start + 1 < one < stop - 1}) >= (1 if packed else 3)
    assert source.rows is not None
    assert source.rows >= 5_000 * files


def test_nothing_is_watched_where_nobody_asks_and_none_once_it_has_been_looked_through(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_bytes(FILES[".csv"](100))
    told: list[int] = []
    for progress in (None, lambda done, of: told.append(done)):
        source = open_source(str(tmp_path / "t.csv"), progress=progress)
        before = len(told)
        assert sum(batch.rows for batch in source.batches()) == 100
        assert len(told) == before
