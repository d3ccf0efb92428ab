"""Two files, one content: an index of other rows under the same part id and of the same sizes is never believed.

And the content digest of 128 bits that tells contents apart: of two parts with the same id, too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
import reseal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from partgen import MadePart, write
from partgen_bytes import Col, Spec
from probe import Refused, expected, probe_of, shape_of
from reference import Bad, read_part
from small_parts import fixed_part, scalar_part, variable_part

from unirecord import CorruptionError, StaleError, UniRecordDataset, Writer
from unirecord._core import lib
from unirecord.core import Digesting
from unirecord.format import layout, page
from unirecord.inspect.diff import opened_sides
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify
from unirecord.snapshot import data_file
from unirecord.snapshot.part_set import PartSet, resolve

ID = b"given two times!"
WAYS = ["auto", "mmap", "pread", "uring", "uring-direct", "memory"]
MAKERS = {"variable": variable_part, "fixed": fixed_part, "scalar": scalar_part}
REUSED = "belongs to other content of this part"


def written(path: Path, start: int, rows: int = 100, *, blobs: bool = False, **options: object) -> Path:
    """A part whose values, and nothing else, depend on `start`."""
    schema = {"x": "int64", **({"v": {"type": "uint8", "shape": [4]}} if blobs else {})}
    with Writer(path, schema, id=ID, index=["x"], **options) as writer:  # type: ignore[arg-type]
        for i in range(start, start + rows):
            writer.write({"x": i, **({"v": np.full(4, i % 251, np.uint8)} if blobs else {})})
    return path


def pair(folder: Path, *, blobs: bool = False) -> tuple[Path, Path]:
    old, new = (
        written(folder / f"{name}.urec", start, blobs=blobs) for name, start in (("old", 0), ("new", 1000))
    )
    for suffix in ("", ".idx"):
        assert os.path.getsize(f"{old}{suffix}") == os.path.getsize(f"{new}{suffix}")
    assert old.read_bytes()[:128] == new.read_bytes()[:128]
    return old, new


def values(path: Path) -> list[int]:
    with UniRecordDataset(path) as dataset:
        return [int(dataset[i]["x"]) for i in range(len(dataset))]


@pytest.mark.parametrize("io", WAYS)
@pytest.mark.parametrize("blobs", [False, True], ids=["scalars", "blobs"])
def test_an_index_of_other_content_is_refused_in_every_way_of_reading(
    tmp_path: Path, blobs: bool, io: str
) -> None:
    path, other = pair(tmp_path, blobs=blobs)
    source = resolve(path)
    shutil.copy(f"{other}.idx", f"{path}.idx")
    with pytest.raises(StaleError, match=rf"old\.urec\.idx.*{REUSED}.*unirecord repair .*old\.urec"):
        UniRecordDataset(path, io=io)
    lazy = PartSet(source, io)  # opens its parts when they are first asked for
    with pytest.raises(StaleError, match=REUSED):
        lazy.read(np.array([3]), [0])
    with pytest.raises(StaleError, match=REUSED):
        lazy.part(0)


def test_a_part_of_a_directory_with_an_index_of_other_content_is_refused(tmp_path: Path) -> None:
    for name, start in (("a", 0), ("b", 1000)):
        written(tmp_path / name, start)
    a, b = (next((tmp_path / name).glob("*.urec")) for name in ("a", "b"))
    shutil.copy(f"{b}.idx", f"{a}.idx")
    with UniRecordDataset(tmp_path / "a") as dataset, pytest.raises(StaleError, match=REUSED):
        dataset[0]
    with pytest.raises(StaleError, match=REUSED):
        UniRecordDataset(tmp_path / "a", where="x > 5")


def test_verify_and_repair_know_an_index_of_other_content(tmp_path: Path) -> None:
    path, other = pair(tmp_path)
    sound = Path(f"{path}.idx").read_bytes()
    shutil.copy(f"{other}.idx", f"{path}.idx")
    for quick in (True, False):
        report = verify(path, quick=quick)
        assert [problem.path for problem in report.problems] == [f"{path}.idx"]
        assert REUSED in report.problems[0].what
    assert [part.action for part in repair(path).parts] == ["index"]
    assert Path(f"{path}.idx").read_bytes() == sound
    assert verify(path).ok


@pytest.mark.parametrize("kind", MAKERS)
def test_every_other_content_digest_is_refused_on_either_side(tmp_path: Path, kind: str) -> None:
    """Each bit of both fields, with the right digests over the headers that hold them."""
    made = MAKERS[kind](tmp_path / "part.urec")
    probe, want = probe_of(made), expected(made.raw, shape_of(made))
    end = len(made.data) - 64
    for bit in range(128):
        data, index = bytearray(made.data), bytearray(made.index)
        data[end + 40 + bit // 8] ^= 1 << bit % 8
        reseal.page_header(data, end)
        index[104 + bit // 8] ^= 1 << bit % 8
        reseal._head(index, 192, 6, 7)
        for one, two in ((data, made.index), (made.data, index)):
            made.path.write_bytes(one)
            Path(f"{made.path}.idx").write_bytes(two)
            with pytest.raises(Refused) as refused:
                probe.read()
            assert refused.value.status == lib.UR_STALE
            with pytest.raises(Bad):
                read_part(made.path)
            assert not verify(made.path, quick=True).ok
        made.path.write_bytes(data)  # they agree with each other, and not with the pages
        with pytest.raises(Bad):
            read_part(made.path)
        assert not verify(made.path).ok
    made.path.write_bytes(made.data)
    Path(f"{made.path}.idx").write_bytes(made.index)
    assert probe.read() == want


@pytest.mark.parametrize("kind", MAKERS)
def test_the_end_page_of_another_part_or_of_other_content_is_refused(tmp_path: Path, kind: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    (tmp_path / "other").mkdir()
    others = {
        "another part": MAKERS[kind](tmp_path / "other" / "a.urec", part_id=b"another part's i"),
        "other content": MAKERS[kind](tmp_path / "other" / "b.urec", seed=99),
    }
    probe = probe_of(made)
    for what, other in others.items():
        made.path.write_bytes(made.data[:-64] + other.data[-64:])
        with pytest.raises(Refused) as refused:
            probe.read()
        assert refused.value.status in (
            {lib.UR_CORRUPT} if what == "another part" else {lib.UR_CORRUPT, lib.UR_STALE}
        )
        report = verify(made.path)
        assert not report.ok
        with pytest.raises(Bad):
            read_part(made.path)
    saved = repair(made.path, output=tmp_path / "saved.urec")
    assert saved.parts[0].kept == len(made.raw)
    assert read_part(tmp_path / "saved.urec").raw == made.raw


def test_a_scalar_page_of_other_content_in_the_same_place_is_found(tmp_path: Path) -> None:
    """Its own digest holds, for id and offset are the same."""
    path, other = pair(tmp_path)
    data, foreign = path.read_bytes(), other.read_bytes()
    at, _, size = reseal.pages(data)[0]
    path.write_bytes(data[:at] + foreign[at : at + 64 + size] + data[at + 64 + size :])
    report = verify(path)
    assert any("are of other content" in problem.what for problem in report.problems)
    with pytest.raises(Bad):
        read_part(path)
    from unirecord.storage.staged import StagedFile
    from unirecord.writing.index_file import build_index

    staged = StagedFile(str(tmp_path / "again.idx"))
    with pytest.raises(CorruptionError, match="end page"):
        build_index(str(path), staged)
    staged.discard()


def test_a_part_replaced_by_one_of_the_same_id_is_whole_at_every_step(tmp_path: Path) -> None:
    """What a crash leaves between the renames: the old part, then the new one with its index under its waiting name."""
    path, new = pair(tmp_path)
    index, waiting = Path(f"{path}.idx"), Path(f"{path}.idx.new")
    before, after = list(range(100)), list(range(1000, 1100))
    shutil.copy(f"{new}.idx", waiting)
    assert values(path) == before == [row["x"] for row in read_part(path).rows]
    shutil.copy(new, path)
    assert values(path) == after == [row["x"] for row in read_part(path).rows]
    assert repair(path).parts[0].action == "index"
    assert values(path) == after
    assert not waiting.exists()
    assert index.read_bytes() == Path(f"{new}.idx").read_bytes()


@pytest.mark.parametrize("published", [False, True], ids=["before the data file", "after the data file"])
def test_the_next_writer_settles_what_a_crash_left_by_content_and_not_by_id(
    tmp_path: Path, published: bool
) -> None:
    path, new = pair(tmp_path)
    shutil.copy(f"{new}.idx", f"{path}.idx.new")
    if published:
        shutil.copy(new, path)
    Writer(path, {"x": "int64"}, overwrite=True).abort()
    assert values(path) == list(range(1000, 1100) if published else range(100))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "new.urec",
        "new.urec.idx",
        "old.urec",
        "old.urec.idx",
    ]
    assert verify(path).ok


def test_a_part_can_be_written_again_under_its_id_and_readers_notice(tmp_path: Path) -> None:
    path = written(tmp_path / "x.urec", 0)
    bytes_before = path.read_bytes(), Path(f"{path}.idx").read_bytes()
    dataset = UniRecordDataset(path)
    written(path, 0, overwrite=True)
    assert (path.read_bytes(), Path(f"{path}.idx").read_bytes()) == bytes_before
    assert not dataset.refresh()
    written(path, 1000, overwrite=True)
    assert dataset.refresh()
    assert int(dataset[0]["x"]) == 1000


def test_a_part_without_rows_has_a_content_digest_too(tmp_path: Path) -> None:
    path = written(tmp_path / "x.urec", 0, 0)
    digest = read_part(path).content_digest
    assert path.read_bytes()[-24:-8] == digest == Path(f"{path}.idx").read_bytes()[104:120]
    assert path.read_bytes()[-48:-40] == reseal.seal(ID, 9, 0, b"").to_bytes(8, "little")
    assert values(path) == []


def test_a_part_with_the_right_id_and_other_rows_is_not_the_one_that_the_manifest_names(
    tmp_path: Path,
) -> None:
    for name, first in (("a", 0), ("b", 1)):
        with Writer(tmp_path / name, {"x": "int32", "b": "bytes"}, id=b"i" * 16) as writer:
            for i in range(20):
                writer.write({"x": first + i, "b": b"abc"})
    for file in (tmp_path / "b").glob("part-*"):
        shutil.copy(file, tmp_path / "a")
    with (
        UniRecordDataset(tmp_path / "a") as dataset,
        pytest.raises(StaleError, match="content digest"),
    ):
        dataset[0]
    assert "content digest" in verify(tmp_path / "a").problems[0].what


# Content is known by 128 bits of each page.


def twins(one: Path, other: Path) -> list[int]:
    """Which parts of the one `diff` takes for parts of the other, unread: -1 for none."""
    with ExitStack() as opened:
        return [int(twin) for side in opened_sides(str(one), str(other), opened) for twin in side.twins]


def content_of(path: Path) -> bytes:
    return path.read_bytes()[-24:-8]


class Colliding:
    """The module of layouts, in which all scalar pages have one digest of 64 bits."""

    def __init__(self) -> None:
        self.seeds: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(layout, name)

    def seed(self, part_id: bytes, domain: int, place: int = 0) -> int:
        found = layout.seed(part_id, domain, place)
        if domain == layout.DOMAIN_SCALARS:
            self.seeds.add(found)
        return found

    def digest(self, data: bytes, seed: int = 0) -> int:
        return 7 if seed in self.seeds else layout.digest(data, seed)


class CollidingUnits(Digesting):
    """Units of which all have one digest of 64 bits."""

    def digests(self) -> Any:
        found, wide = super().digests()
        return np.full_like(found, 7), wide


@pytest.mark.parametrize("kind", ["scalars", "blobs", "long blobs"])
def test_parts_whose_digests_of_64_bits_collide_are_not_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    colliding = Colliding()
    for module in (page, data_file):
        monkeypatch.setattr(module, "layout", colliding)
    monkeypatch.setattr(page, "Digesting", CollidingUnits)
    schema = {"x": "int64"} if kind == "scalars" else {"b": "bytes"}
    made = []
    for name, value in (("a", 0), ("b", 1), ("again", 0)):
        made.append(tmp_path / f"{name}.urec")
        with Writer(made[-1], schema, id=ID, scalar_codec="none") as writer:
            for i in range(40):
                blob = bytes([value if i == 39 else 9]) * (3_000 if kind == "long blobs" else 3)
                writer.write({"x": value} if kind == "scalars" else {"b": blob})
    monkeypatch.undo()
    a, b, again = (path.read_bytes() for path in made)
    fields = [[file[at + 48 : at + 56] for at, kind, _ in reseal.pages(file)[:-1]] for file in (a, b)]
    assert fields[0] == fields[1]
    assert a[-48:-40] == b[-48:-40]
    assert a == again
    assert content_of(made[0]) != content_of(made[1])
    assert twins(made[0], made[1]) == [-1, -1]
    assert twins(made[0], made[2]) == [0, 0]


def test_pages_of_the_same_bytes_that_hold_other_rows_are_other_content(tmp_path: Path) -> None:
    """A scalar page is padded with zeros, which may be values: how many rows it has is part of the content."""
    found = []
    for name, values, rows in (("a", (5, 0, 6, 0), 2), ("b", (5, 0, 0, 6), 3)):
        spec = Spec(b"i" * 16, [Col("n", "uint8")], groups=[rows, 4 - rows], group_rows=rows)
        made = write(MadePart(tmp_path / f"{name}.urec", spec, [[bytes([value])] for value in values]))
        assert verify(made.path).ok
        found.append(made)
    payloads = [
        [made.data[at + 64 : at + 64 + size] for at, _, size in reseal.pages(made.data)] for made in found
    ]
    assert payloads[0] == payloads[1]
    assert content_of(found[0].path) != content_of(found[1].path)
    assert twins(found[0].path, found[1].path) == [-1, -1]


CELLS = st.sampled_from([None, b"", b"a", b"b", bytes(300), bytes(299) + b"a"])
ROWS = st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(["", "s"]), CELLS), max_size=3)
SCHEMAS: list[dict[str, Any]] = [
    {"n": "int16", "s": "string", "b": "bytes?"},
    {"n": "int16", "s": "string", "b": {"type": "bytes?", "codec": "zstd"}},
    {"n": "int16", "s": "string", "b": {"type": "bytes?", "chunks": 100}},
    {"n": "uint16", "s": "string", "b": "bytes?"},
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(ROWS, st.integers(0, len(SCHEMAS) - 1)), min_size=2, max_size=2),
)
def test_contents_are_equal_exactly_where_columns_and_pages_are(
    tmp_path: Path, parts: list[tuple[list[tuple[int, str, bytes | None]], int]]
) -> None:
    found = []
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder, faults.unsynced():
        for number, (rows, schema) in enumerate(parts):
            path = Path(folder, f"{number}.urec")
            with Writer(path, SCHEMAS[schema], id=ID, metadata=number) as writer:
                for n, s, b in rows:
                    writer.write({"n": n, "s": s, "b": b})
            data = path.read_bytes()
            assert content_of(path) == read_part(path).content_digest
            head = int.from_bytes(data[20:24], "little")
            found.append((data[48:72], schema, data[head:-64], content_of(path)))
    (*one, digest), (*other, other_digest) = found
    assert (digest == other_digest) == (one == other)
