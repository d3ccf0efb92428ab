"""How far a conversion has come: within one large file as over many, by what has been read."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from numbers_converted import ROWS, UNITS, convert
from numbers_source import Numbers

from unirecord.convert import task
from unirecord.convert.conversion import Standing, take_sample, write_part
from unirecord.convert.row_choice import RowChoice
from unirecord.convert.sources import Options, RawBatch, Source, Unit, open_input, open_source
from unirecord.convert.sources.child_reader import looked_through
from unirecord.convert.sources.tfrecord import masked_crc32c
from unirecord.format.schema import Schema
from unirecord.progress import Progress
from unirecord.writing.change import Interrupted


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


CHOICES: dict[str, RowChoice] = {
    "all": RowChoice(),
    "some": RowChoice(where="n % 300 < 40"),
    "none": RowChoice(where="n < 0"),
    "skip": RowChoice(on_error="skip"),
    "some of those that fit": RowChoice(on_error="skip", where="n % 7 == 3"),
}


@pytest.mark.parametrize("target", ["d", "d.urec"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("chosen", list(CHOICES))
def test_writing_tells_how_many_rows_have_been_read_whatever_is_taken_of_them(
    chosen: str, workers: int, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 100_000)
    bad = frozenset({200, 777}) if "skip" in chosen or "fit" in chosen else frozenset[int]()
    source = CHOICES[chosen].of(Numbers(tmp_path, UNITS, bad=bad, left_out=frozenset({5, 1290})))
    seen: list[Standing] = []

    def note(standing: Standing) -> None:
        seen.append(replace(standing))

    if target == "d":
        rows, _ = convert(tmp_path / target, source, workers=workers, progress=note)
    else:
        rows, _ = write_part(source, str(tmp_path / target), source.schema, progress=note)
    assert {one.all_rows_read for one in seen} == {ROWS}
    assert seen[-1].rows == rows
    assert seen[-1].rows_read == ROWS
    read = [one.rows_read for one in seen]
    assert read == sorted(read)
    if workers == 1:  # each batch of 50 rows is told, and those of which none was taken
        assert max(after - before for before, after in pairwise(read)) <= 50


def test_what_an_earlier_run_has_read_is_read_and_a_limit_counts_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 100_000)
    source = RowChoice(where="n % 300 < 200").of(Numbers(tmp_path, UNITS))
    seen: list[Standing] = []

    def note(standing: Standing) -> None:
        seen.append(replace(standing))
        if standing.tasks == 4 and not standing.resumed:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        convert(tmp_path / "d", source, progress=note)
    before = sum(UNITS[: max(stop for _, stop in divided(source)[:4])])
    seen.clear()
    convert(tmp_path / "d", source, resume=True, progress=note)
    assert seen[0].resumed_read == seen[0].rows_read == before
    assert seen[-1].rows_read == ROWS
    convert(tmp_path / "few", source, limit=300, progress=note)
    assert (seen[-1].rows, seen[-1].all_rows, seen[-1].all_rows_read) == (300, 300, None)


def divided(source: Source) -> list[tuple[int, int]]:
    spec = take_sample(source, source.schema)
    return task.divide(source.units, spec.row_bytes * source.share, 20_000_000_000)


class Counting(Source):
    """Tells how many of seven things it has looked at."""

    kind = "counting"
    about = "things"

    def look_through(self, options: Options, progress: Progress | None) -> None:
        assert progress is not None
        for i in range(7):
            progress(i + 1, 7)
        self.schema = Schema.parse({"n": "int64"})
        self.units = []

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        yield from ()


def test_whatever_a_source_counts_is_told_as_bytes_of_its_files(tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / f"{i}").write_bytes(bytes(3_500))
    told: list[tuple[int, int]] = []
    looked_through(Counting, open_input(str(tmp_path)), Options(), lambda done, of: told.append((done, of)))
    assert told == [(i * 1_000, 7_000) for i in range(1, 8)]
