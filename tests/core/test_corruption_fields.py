"""Hostile numbers in every field, with right digests over them: readers and tools refuse quickly, and use no memory."""

from __future__ import annotations

import contextlib
import random
import struct
import tracemalloc
from functools import partial
from pathlib import Path

import msgpack
import numpy as np
import pytest
import reseal
from partgen import MadePart
from partgen_bytes import CODES
from probe import Probe, Refused, expected, probe_of, shape_of
from process_counts import counters, resident
from reference import Bad, read_data
from small_parts import (
    chunked_part,
    compressed_part,
    fixed_part,
    later_part,
    nullable_fixed_part,
    nullable_part,
    packed_part,
    scalar_part,
    variable_part,
)
from sweeps import stride

import unirecord
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify

EDGES = [
    0,
    1,
    2,
    63,
    64,
    4096,
    65535,
    2**31,
    2**32 - 1,
    2**32,
    2**60,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 64,
    2**64 - 1,
]
MAKERS = {
    "variable": variable_part,
    "units": partial(variable_part, unit_rows=2),
    "fixed": fixed_part,
    "scalar": scalar_part,
}
NEWER = {
    "nullable": nullable_part,
    "nullable, fixed": nullable_fixed_part,
    "compressed": compressed_part,
    "of later types": later_part,
    "packed": packed_part,
    "in chunks": chunked_part,
}
DATA_FIELDS = [
    (8, 2),
    (10, 2),
    (12, 4),
    (16, 4),
    (20, 4),
    (40, 4),
    (44, 4),
    (48, 4),
    (52, 4),
    (56, 8),
    (64, 8),
    (72, 4),
    (76, 4),
]
COLUMN_FIELDS = [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 3), (8, 8), (16, 8), (24, 8)]
PAGE_FIELDS = [(0, 4), (4, 2), (6, 2), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8)]


def tools_survive(path: Path, output: Path, *, salvage: bool = True) -> None:
    """verify and repair end with a report or an error of ours, and read what is there a few times at most."""
    before = counters()["rchar"]
    report = verify(path, threads=1)
    assert report.ok == (not report.problems)
    assert all(problem.what and problem.lost and problem.advice for problem in report.problems)
    with contextlib.suppress(unirecord.UniRecordError):
        if salvage:
            repair(path, output=output)
    for leftover in (output, Path(f"{output}.idx")):
        leftover.unlink(missing_ok=True)
    size = path.stat().st_size + Path(f"{path}.idx").stat().st_size
    assert counters()["rchar"] - before < 64 * size + (4 << 20)  # Python's imports count as well


@pytest.mark.parametrize("kind", MAKERS)
def test_hostile_head_fields_of_the_data_file(tmp_path: Path, kind: str) -> None:
    made = MAKERS[kind](tmp_path / "part.urec")
    probe, want = probe_of(made), expected(made.raw, shape_of(made))
    fields = DATA_FIELDS + [
        (128 + at, width) for at, width in ((0, 1), (1, 1), (2, 1), (3, 1), (4, 4), (8, 8), (16, 8))
    ]
    for at, width in fields:
        for value in sorted({edge % 2 ** (8 * width) for edge in EDGES}):
            content = bytearray(made.data)
            content[at : at + width] = value.to_bytes(width, "little")
            reseal.data(content)
            if content == made.data:
                continue
            index = bytearray(made.index)
            table = 32 * len(made.spec.columns)
            index[192 : 192 + table] = content[128 : 128 + table]
            index[10:12], index[16:20], index[120:144] = content[10:12], content[16:20], content[48:72]
            reseal.index(index, content)
            made.path.write_bytes(content)
            Path(f"{made.path}.idx").write_bytes(index)
            try:
                found = probe.read()
            except Refused:
                pass
            else:
                assert found == want or at >= 128 or at in (48, 52, 56), (at, value)
            tools_survive(made.path, tmp_path / "out.urec")


@pytest.mark.parametrize("kind", NEWER)
def test_a_column_table_that_says_something_else_is_refused(tmp_path: Path, kind: str) -> None:
    """In both files; what another codec is, no schema says: it gives other values, or errors, and nothing worse."""
    made = NEWER[kind](tmp_path / "part.urec")
    for at, width in [
        (32 * i + at, width) for i in range(len(made.spec.columns)) for at, width in COLUMN_FIELDS
    ]:
        for value in sorted({edge % 2 ** (8 * width) for edge in EDGES[::3]}):
            content, index = bytearray(made.data), bytearray(made.index)
            content[128 + at : 128 + at + width] = value.to_bytes(width, "little")
            if content == made.data:
                continue
            reseal.data(content)
            index[192 + at : 192 + at + width] = content[128 + at : 128 + at + width]
            reseal.index(index, content)
            made.path.write_bytes(content)
            Path(f"{made.path}.idx").write_bytes(index)
            with contextlib.suppress(unirecord.UniRecordError):
                dataset = unirecord.UniRecordDataset(made.path)
                assert at % 32 == 4, (at, value)
                list(dataset)
            assert not verify(made.path, threads=1).ok, (at, value)


@pytest.mark.parametrize("kind", [*MAKERS, "nullable", "compressed", "in chunks"])
def test_hostile_page_headers_and_scalar_pages(tmp_path: Path, kind: str) -> None:
    """The C reader does not look at pages; the tools that rebuild and salvage do."""
    made = (MAKERS | NEWER)[kind](tmp_path / "part.urec")
    tried, step = 0, 1 if kind in MAKERS else 4  # what all kinds share is tried with the first ones
    for at, page_kind, size in reseal.pages(made.data)[:3] + reseal.pages(made.data)[-1:]:
        fields = PAGE_FIELDS + (
            [(64 + place, 8) for place in range(0, size, 8)][:40:step] if page_kind == 1 else []
        )
        for field, width in fields:
            for value in sorted({edge % 2 ** (8 * width) for edge in EDGES[:: 3 * step]}):
                content = bytearray(made.data)
                content[at + field : at + field + width] = value.to_bytes(width, "little")
                reseal.page_header(content, at, size if page_kind in (1, 4) and field != 48 else None)
                if content == made.data:
                    continue
                tried += 1
                if tried % stride(1, 3):
                    continue
                made.path.write_bytes(content)
                tools_survive(made.path, tmp_path / "out.urec", salvage=tried % 5 == 0)
                try:
                    read_data(bytes(content))
                except (Bad, UnicodeDecodeError):
                    assert not verify(made.path, threads=1).ok, (kind, at, field, value)
    print(f"{kind}: {tried} hostile pages")


def chunk_sections(index: bytes) -> list[tuple[int, int, int, int]]:
    """(kind, column, place, bytes) of the sections of chunks."""
    columns, count = struct.unpack_from("<II", index, 64)
    entries = [struct.unpack_from("<HHIQQ", index, 192 + 32 * columns + 48 * n) for n in range(count)]
    return [(kind, column, at, size) for kind, column, _, at, size in entries if 18 <= kind <= 21]


def parts_of(path: Path) -> list[bytes | None]:
    """A part of each value of the columns in chunks that touches some of them, as it is read by chunks."""
    with unirecord.UniRecordDataset(path) as ds:
        return [
            None if value is None else bytes(memoryview(value).tobytes())
            for i in range(len(ds))
            for name, key in (
                ("plain", np.s_[1:4, 3:]),
                ("field", np.s_[1:]),
                ("log", np.s_[5:20]),
                ("text", np.s_[9:40]),
            )
            for value in [ds.read_part(i, name, key)]
        ]


def test_hostile_tables_of_chunks_in_the_index(tmp_path: Path) -> None:
    """Shapes, first entries, ends and digests of chunks: readers give right values or refuse, verify finds each."""
    made = chunked_part(tmp_path / "part.urec")
    probe, want, parts = probe_of(made), expected(made.raw, shape_of(made)), parts_of(made.path)
    found, tried = chunk_sections(made.index), 0
    assert {kind for kind, *_ in found} == {18, 19, 20, 21}
    for kind, column, place, size in found:
        width = 4 if kind == 20 else 8
        for at in range(place, place + size, width):
            truth = int.from_bytes(made.index[at : at + width], "little")
            for value in {
                edge % 2 ** (8 * width) for edge in [*EDGES[:: 4 if kind == 21 else 1], truth - 1, truth + 1]
            }:
                index = bytearray(made.index)
                index[at : at + width] = value.to_bytes(width, "little")
                if index == made.index:
                    continue
                tried += 1
                if tried % stride(1, 3):
                    continue
                reseal.index(index, made.data)
                Path(f"{made.path}.idx").write_bytes(index)
                with contextlib.suppress(Refused):
                    assert probe.read() == want, (kind, column, at, value)
                with contextlib.suppress(unirecord.UniRecordError):
                    assert parts_of(made.path) == parts, (kind, column, at, value)
                assert not verify(made.path, threads=1).ok, (kind, column, at, value)
                tools_survive(made.path, tmp_path / "out.urec", salvage=tried % 5 == 0)
    assert tried > 1000


def test_hostile_tables_of_chunks_in_scalar_pages(tmp_path: Path) -> None:
    """Lengths and digests of chunks, with right digests of the page and of the content over them."""
    made = chunked_part(tmp_path / "part.urec")
    probe, want = probe_of(made), expected(made.raw, shape_of(made))
    tried = 0
    for at, page_kind, size in reseal.pages(made.data):
        if page_kind != 1 or made.data[at + 6]:
            continue
        for field in range(64, 64 + size, 4):
            content = bytearray(made.data)
            content[at + field] ^= 1
            reseal.page_header(content, at, size)
            reseal.content(content)
            index = bytearray(made.index)
            reseal.index(index, content)
            made.path.write_bytes(content)
            Path(f"{made.path}.idx").write_bytes(index)
            with contextlib.suppress(Refused):
                assert probe.read() == want, field  # readers take what the index says
            assert not verify(made.path, threads=1).ok, field
            tools_survive(made.path, tmp_path / "out.urec", salvage=field % 5 == 0)
            tried += 1
    assert tried > 100


def tiny_claim(rows: int) -> tuple[bytes, bytes]:
    """A part of 1 KiB whose files agree on having `rows` rows."""
    part_id = b"sixteen bytes id"
    meta = msgpack.packb({"schema": [["a", "bytes", None]], "index": [], "user": None, "created_by": "me"})
    table = struct.pack("<4B4xQ16x", CODES["bytes"], 0, 0, 0, 0)
    rest = table + meta
    rest += bytes(-(128 + len(rest)) % 64)
    content = bytearray(
        b"\x89UREC\r\n\x1a"
        + struct.pack("<HHIII16sIIIIQQ", 1, 1, 0, 0, 128 + len(rest), part_id, 1, len(meta), 1, 0, 0, 0)
    )
    content += bytes(128 - len(content)) + rest
    reseal.data(content)
    end = len(content)
    content += struct.pack("<4sHHQQQQQQQ", b"URPG", 3, 0, rows, 0, rows, 0, 0, 0, 0)
    reseal.page_header(content, end)
    sections = [
        (1, 65535, 32, rows),
        (2, 65535, 8, rows),
        (3, 0, 4, rows),
        (4, 65535, 8, rows),
        (17, 65535, 1, 0),
    ]
    size = (192 + 32 + 48 * len(sections) + len(meta) + 63) // 64 * 64
    directory = b"".join(
        struct.pack("<HHIQQQQ8x", kind, column, width, size, (width * count) % 2**64, count, 0)
        for kind, column, width, count in sections
    )
    index = bytearray(b"\x89URIX\r\n\x1a" + struct.pack("<HHIII16s", 1, 1, 0, 0, size, part_id))
    index += struct.pack(
        "<QQQIIIIQQQ16xI", len(content), rows, rows, 1, len(sections), len(meta), 65536, size, size, 0, 1
    )
    index += bytes(192 - len(index)) + table + directory + meta
    index += bytes(size - len(index))
    reseal.index(index, bytes(content))
    return bytes(content), bytes(index)


@pytest.mark.parametrize("rows", [2**32, 2**60, 2**61, 2**63 - 1, 2**63, 2**64 - 1])
def test_small_file_that_claims_many_rows_is_refused_at_once(tmp_path: Path, rows: int) -> None:
    content, index = tiny_claim(rows)
    assert len(content) + len(index) <= 1024
    path = tmp_path / "claim.urec"
    path.write_bytes(content)
    Path(f"{path}.idx").write_bytes(index)
    probe = Probe(path, [(False, 0)], 1)
    before, calls = resident(), counters()
    for _ in range(5):
        with pytest.raises(Refused):
            probe.read()
    assert counters()["syscr"] - calls["syscr"] < 200
    assert counters()["rchar"] - calls["rchar"] < 256 << 10
    assert resident() - before < 1 << 20
    tracemalloc.start()
    try:
        assert not verify(path, threads=1).ok
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def hostile_metadata(made: MadePart, meta: bytes) -> bytes:
    """The data file with other metadata, digests right."""
    table_end = 128 + 32 * len(made.spec.columns)
    head = bytearray(made.data[:table_end] + meta)
    head += bytes(-len(head) % 64)
    head[20:24] = len(head).to_bytes(4, "little")
    head[44:48] = len(meta).to_bytes(4, "little")
    reseal.data(head)
    return bytes(head)


@pytest.mark.parametrize(
    "meta",
    [
        b"",
        b"\xc0",
        b"\x91" * 100_000,
        b"\x81\xa6schema" + b"\x91" * 5000,
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xffabc",
        b"\xc6\xff\xff\xff\xff",
        b"\xc7\x01\x05x",
        msgpack.packb({"schema": [["a", "int32", None]] * 4, "index": [], "user": None, "created_by": ""}),
        msgpack.packb({"schema": [[b"a", "int32", None]], "index": [], "user": None, "created_by": ""}),
        msgpack.packb({"schema": [["a", "int32", [2**63]]], "index": ["zz"], "user": None, "created_by": ""}),
        msgpack.packb({"schema": [["a", "int32", [-(2**63)]]], "index": [1], "user": None, "created_by": ""}),
        msgpack.packb({"schema": 7, "index": None, "user": None, "created_by": ""}),
        msgpack.packb({"schema": [["a", "int32", None]], "index": [], "user": None}),
        msgpack.packb({"schema": [["a", "int32", None]], "index": [], "user": None, "created_by": None}),
        msgpack.packb({"schema": [["a", "int32", None, {}]], "index": [], "user": None, "created_by": ""}),
    ],
    ids=lambda meta: repr(bytes(meta[:12])),
)
def test_hostile_metadata_is_refused_with_an_error_of_ours(tmp_path: Path, meta: bytes) -> None:
    made = scalar_part(tmp_path / "part.urec")
    made.path.write_bytes(hostile_metadata(made, meta))
    report = verify(made.path, threads=1)
    assert not report.ok
    with pytest.raises(unirecord.UniRecordError):
        repair(made.path, output=tmp_path / "out.urec")
    with pytest.raises(unirecord.UniRecordError):
        unirecord.UniRecordDataset(made.path)


@pytest.mark.parametrize("kind", [*MAKERS, "nullable", "compressed", "of later types", "in chunks", "packed"])
def test_tools_survive_hostile_indexes(tmp_path: Path, kind: str) -> None:
    """Random numbers in the index, right digests, and a data file that makes repair ask the index."""
    made = (MAKERS | NEWER)[kind](tmp_path / "part.urec")
    data = bytearray(made.data)
    data[reseal.pages(made.data)[0][0] + 20] ^= 1
    r = random.Random(5)
    for n in range(120 if kind in MAKERS else 40):
        made.path.write_bytes(data if n % 2 else made.data)
        index = bytearray(made.index)
        for _ in range(r.randint(1, 4)):
            at = r.choice([r.randrange(40, len(index) - 8), r.randrange(128, 1000)]) // 8 * 8
            index[at : at + 8] = r.choice([*EDGES, r.getrandbits(64)]).to_bytes(8, "little")
        reseal.index(index, made.data)
        Path(f"{made.path}.idx").write_bytes(index)
        tools_survive(made.path, tmp_path / "out.urec")
