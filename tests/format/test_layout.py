"""The fixed-width structures: what is packed is unpacked, and every rule of the format refuses what breaks it."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from unirecord.errors import CorruptionError, FormatError, UniRecordError
from unirecord.format import layout
from unirecord.format.layout import PageHeader, Section, Shape

ID = b"0123456789abcdef"
WIDE = bytes(range(16))
TABLE = bytes([6]).ljust(8, b"\0") + struct.pack("<Q", 4) + bytes(16)


def test_the_seed_is_that_of_the_specification() -> None:
    for domain in range(1, 14):
        base = xxhash.xxh3_64_intdigest(ID + domain.to_bytes(8, "little"))
        for place in (0, 1, 64, 2**40, 2**63):
            assert layout.seed(ID, domain, place) == (base + place * 0x9E3779B97F4A7C15) % 2**64


@given(st.integers(0, 2**63), st.sampled_from([1, 2, 4, 8, 64, 4096]))
def test_align_gives_the_least_multiple(number: int, multiple: int) -> None:
    found = layout.align(number, multiple)
    assert found % multiple == 0
    assert 0 <= found - number < multiple
    assert layout.padding(number, multiple) == found - number


def head() -> bytes:
    return layout.pack_file_head(ID, 1, TABLE, b"meta", Shape(8, 1, 0, 0))[0]


def test_a_file_head_comes_back() -> None:
    raw, digest = layout.pack_file_head(ID, 1, TABLE, b"meta", Shape(8, 1, 0, 0))
    found = layout.unpack_file_header(raw)
    assert (found.id, found.columns, found.metadata_bytes, found.shape) == (ID, 1, 4, Shape(8, 1, 0, 0))
    assert (len(raw), found.header_bytes, found.header_digest) == (192, 192, digest)
    assert layout.digest(raw[128:], layout.seed(ID, 2)) == found.head_digest


def test_every_flipped_bit_of_a_file_header_is_refused() -> None:
    raw = head()
    for bit in range(128 * 8):
        broken = bytearray(raw)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(UniRecordError):
            layout.unpack_file_header(bytes(broken))


SHAPE = Shape(8, 1, 0, 0)


def resealed(raw: bytes, offset: int, value: bytes, domain: int = 1) -> bytes:
    changed = raw[:offset] + value + raw[offset + len(value) :]
    end = 120 if domain == 1 else 184
    return changed[:end] + layout.digest(changed[:end], layout.seed(changed[24:40], domain)).to_bytes(
        8, "little"
    )


@pytest.mark.parametrize(
    ("offset", "value", "said"),
    [
        (0, b"PNG", "does not start like"),
        (8, b"\2\0", "upgrade"),
        (8, b"\0\0", "version 0"),
        (12, b"\1", "features"),
        (10, b"\0\0", "writer_version is 0, below the 1 of min_reader_version"),
        (20, b"\0\1\0\0", "header_bytes"),
        (40, bytes(4), "columns"),
        (40, b"\xff\xff\0\0", "columns"),
        (40, b"\xff\xff\xff\xff", "columns"),
        (44, b"\xff\xff\xff\xff", "schema and metadata take"),
        (72, b"\1", "digests of algorithm 1, and this version knows 0, XXH3"),
        (75, b"\1", "digests of algorithm 16777216"),
        (76, b"\1", "reserved"),
        (111, b"\1", "reserved"),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused(offset: int, value: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        layout.unpack_file_header(resealed(head(), offset, value))


def test_optional_features_and_newer_writers_are_read() -> None:
    layout.unpack_file_header(resealed(head(), 16, b"\xff\xff\xff\xff"))
    assert layout.unpack_file_header(resealed(head(), 10, b"\7\0")).writer_version == 7


@pytest.mark.parametrize(
    ("shape", "blobs", "good"),
    [
        (Shape(1, 0, 65_536, 0), False, True),
        (Shape(1, 0, 0, 0), False, False),
        (Shape(1, 1, 5, 0), False, False),
        (Shape(1, 0, 5, 8), False, False),
        (Shape(8, 4, 8, 16), True, True),
        (Shape(8, 4, 6, 16), True, False),
        (Shape(8, 3, 6, 16), True, False),
        (Shape(8, 4, 0, 16), True, False),
        (Shape(8, 0, 1, 12), True, False),
        (Shape(8, 0, 0, 0), True, True),
        (Shape(8, 2, 0, 0), True, True),
        (Shape(8, 64, 0, 0), True, True),
        (Shape(8, 128, 0, 0), True, False),
        (Shape(8, 3, 0, 0), True, False),
        (Shape(8, 2, 4, 0), True, False),
        (Shape(8, 1, 4, 0), True, False),
        (Shape(3, 0, 0, 0), True, False),
        (Shape(128, 0, 0, 0), True, False),
        (Shape(0, 0, 0, 0), True, False),
        (Shape(1, 0, 2**63, 1), True, False),
    ],
)
def test_the_rules_between_layout_fields(shape: Shape, blobs: bool, good: bool) -> None:
    if good:
        layout.check_shape(shape, blobs=blobs)
    else:
        with pytest.raises(FormatError):
            layout.check_shape(shape, blobs=blobs)


def test_a_page_header_comes_back_and_only_at_its_place() -> None:
    page = PageHeader(layout.PAGE_BLOB, 3, 100, 20, 70_000, 3_392, 0)
    raw = layout.pack_page_header(ID, 640, page)
    assert layout.unpack_page_header(ID, 640, raw) == page
    assert page.payload(640) == 4_096
    assert page.end(640) == layout.align(page.payload(640) + 70_000, 64)
    for place, part_id in ((704, ID), (640, b"x" * 16)):
        with pytest.raises(CorruptionError):
            layout.unpack_page_header(part_id, place, raw)
    for bit in range(64 * 8):
        broken = bytearray(raw)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptionError):
            layout.unpack_page_header(ID, 640, bytes(broken))
    with pytest.raises(CorruptionError):
        layout.unpack_page_header(ID, 640, raw[:63])


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": 0}, {"kind": 4}, {"gap": 64}, {"kind": 2, "gap": 64},
        {"kind": 2, "payload_bytes": 65_536}, {"kind": 2, "payload_bytes": 65_536, "gap": 8_128},
        {"rows": 0}, {"rows": 2**63}, {"first_row": 2**63},
        {"payload_bytes": 2**63}, {"payload_bytes": 2**64 - 1}, {"kind": 2, "payload_digest": 1},
        {"kind": 3, "payload_bytes": 1}, {"kind": 3, "codec": 1, "raw_bytes": 64}, {"kind": 3, "rows": 2**63},
        {"first_row": 2**62, "rows": 2**62}, {"kind": 5}, {"kind": 0x7FFF}, {"kind": 0x8000, "gap": 64},
        {"kind": 0x8000, "payload_bytes": 2**26 + 1}, {"kind": 4, "rows": 0, "payload_bytes": 0},
        {"kind": 4, "rows": 0, "payload_bytes": 2**20 + 1}, {"kind": 4, "rows": 0, "first_row": 1},
        {"kind": 4, "rows": 0, "gap": 64}, {"codec": 1}, {"codec": 1, "raw_bytes": 2**32},
        {"kind": 2, "codec": 1, "raw_bytes": 64}, {"kind": 4, "rows": 0, "codec": 1, "raw_bytes": 64},
        {"kind": 0x8000, "codec": 1, "raw_bytes": 64},
    ],
)  # fmt: skip
def test_page_headers_that_break_a_rule_are_refused(fields: dict[str, Any]) -> None:
    page = PageHeader(**({"kind": 1, "group": 0, "first_row": 0, "rows": 1, "payload_bytes": 8, "gap": 0,
                          "payload_digest": 0} | fields))  # fmt: skip
    with pytest.raises(CorruptionError, match="breaks the rules"):
        layout.unpack_page_header(ID, 0, layout.pack_page_header(ID, 0, page))


def test_an_index_head_comes_back() -> None:
    size = layout.index_head_bytes(1, 2, 4)
    made = layout.IndexHeader(ID, 1_000, 10, 1, 1, 2, 4, size + 64 + 8, size + 64, 77, WIDE, SHAPE, 0, 0, 0)
    sections = [Section(1, 65_535, 32, size, 32, 1), Section(5, 0, 4, size, 40, 10, 3)]
    raw = layout.pack_index_head(made, TABLE, sections, b"meta")
    found = layout.unpack_index_header(raw)
    assert (found.id, found.data_bytes, found.rows, found.sections) == (ID, 1_000, 10, 2)
    assert (found.data_header_digest, found.content_digest) == (77, WIDE)
    assert found.shape == SHAPE
    assert [layout.unpack_section(raw[224 + 48 * i : 272 + 48 * i]) for i in range(2)] == sections
    for bit in range(192 * 8):
        broken = bytearray(raw)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(UniRecordError):
            layout.unpack_index_header(bytes(broken))
    with pytest.raises(FormatError, match="reserved"):
        layout.unpack_section(raw[224:271] + b"\1")
    assert layout.unpack_section(raw[224:271] + b"\1", optional=True) == sections[0]


@pytest.mark.parametrize(("offset", "value"), [(76, b"\0\0\2\0"), (80, b"\0"), (88, b"\1"), (40, b"")])
def test_an_index_header_whose_sizes_do_not_add_up_is_refused(offset: int, value: bytes) -> None:
    size = layout.index_head_bytes(1, 0, 4)
    made = layout.IndexHeader(ID, 1_000, 10, 1, 1, 0, 4, size + 72, size + 64, 77, WIDE, SHAPE, 0, 0, 0)
    raw = layout.pack_index_head(made, TABLE, [], b"meta")
    if not value:
        layout.unpack_index_header(raw)
        return
    with pytest.raises(FormatError):
        layout.unpack_index_header(resealed(raw, offset, value, domain=6))


@given(st.binary(max_size=300))
def test_any_other_bytes_are_refused(raw: bytes) -> None:
    for unpack in (layout.unpack_file_header, layout.unpack_index_header):
        with pytest.raises(FormatError):
            unpack(raw)
