"""Row groups: where cells lie, what is digested, and what of a scalar page is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xxhash
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st
from reference_rules import wide_digest

from unirecord.core import CODEC_PLAIN, CODEC_ZSTD, Digesting
from unirecord.errors import ColumnError, CorruptionError
from unirecord.format import layout
from unirecord.format.layout import PageHeader, Shape
from unirecord.format.page import (
    GroupPlace,
    RowLayout,
    decode_scalar_page,
    encode_group,
    fixed_rows,
    plain_payload,
)
from unirecord.format.schema import Schema
from unirecord.format.values import ColumnBatch, RecordEncoder

ID = b"p" * 16


def batch(schema: Schema, columns: dict[str, Any]) -> ColumnBatch:
    return RecordEncoder(schema).encode_batch(columns, 0)


def encoded(
    spec: dict[str, Any], shape: Shape, columns: dict[str, Any], group: GroupPlace
) -> tuple[bytes, Any]:
    """The bytes of a row group, and its scalar page."""
    schema = Schema.parse(spec)
    made = encode_group(schema, shape, ID, group, [batch(schema, columns)])
    scalar_page = b"".join(made.scalar_page().pieces)
    assert len(scalar_page) == made.scalar_bytes
    raw = scalar_page + b"".join(bytes(memoryview(part).cast("B")) for part in made.blobs)
    assert len(raw) % 64 == 0
    header = layout.unpack_page_header(ID, group.offset, raw[:64])
    payload = raw[64 : 64 + header.payload_bytes]
    return raw, decode_scalar_page(schema, shape, header.rows, memoryview(payload))


def test_cells_of_a_fixed_row_are_aligned_each() -> None:
    schema = Schema.parse({"a": {"type": "uint8", "shape": [3]}, "b": {"type": "float32", "shape": [2]}})
    assert fixed_rows(schema, 1) == RowLayout((0, 3), (3, 8), 11)
    assert fixed_rows(schema, 8) == RowLayout((0, 8), (3, 8), 16)
    assert fixed_rows(schema, 64) == RowLayout((0, 64), (3, 8), 128)
    assert fixed_rows(Schema.parse({"a": "bytes"}), 8) is None
    assert fixed_rows(Schema.parse({"a": "int8"}), 8) is None


def test_large_payloads_start_at_a_multiple_of_a_memory_page() -> None:
    for size, gap in [(65_535, 0), (65_536, None)]:
        raw, _ = encoded({"b": "bytes"}, Shape(1, 0, 0, 0), {"b": [b"\1" * size]}, GroupPlace(0, 0, 192))
        at = 192 + raw.index(b"\1\1\1\1")
        assert at % 4_096 == 0 if gap is None else at % 4_096 != 0


@pytest.mark.parametrize("size", [10, 100_000])  # joined, and handed on one by one
def test_units_of_cells_are_digested_without_padding(size: int) -> None:
    cells = [bytes([i + 1]) * (size + i) for i in range(4)]
    spec = {"a": "bytes", "b": "bytes"}
    raw, scalars = encoded(spec, Shape(8, 0, 0, 0), {"a": cells, "b": cells[::-1]}, GroupPlace(2, 10, 640))
    rows = [cell for pair in zip(cells, cells[::-1], strict=True) for cell in pair]
    expected = [xxhash.xxh3_64_intdigest(cell, layout.seed(ID, 5, 20 + i)) for i, cell in enumerate(rows)]
    assert scalars.digests.tolist() == expected
    at = 0
    for cell in rows:
        at = raw.index(cell, at)
        assert at % 8 == 0
        at += len(cell)


def test_units_of_rows_are_digested_as_stored() -> None:
    spec = {"a": {"type": "uint8", "shape": [3]}}
    raw, scalars = encoded(
        spec, Shape(4, 2, 4, 4), {"a": np.full((5, 3), 7, np.uint8)}, GroupPlace(1, 8, 256)
    )
    stored = b"\7\7\7\0" * 5
    assert stored in raw
    units = [stored[:8], stored[8:16], stored[16:]]
    assert scalars.digests.tolist() == [
        xxhash.xxh3_64_intdigest(unit, layout.seed(ID, 5, 4 + i)) for i, unit in enumerate(units)
    ]


@given(st.lists(st.binary(max_size=9), max_size=12), st.integers(0, 2**64 - 1))
def test_digests_of_cells_are_seeded_by_their_number(cells: list[bytes], seed: int) -> None:
    found, wide = Digesting.of_cells(cells, seed, layout.PHI).digests()
    seeds = [(seed + i * layout.PHI) % 2**64 for i in range(len(cells))]
    assert found.tolist() == [xxhash.xxh3_64_intdigest(c, s) for c, s in zip(cells, seeds, strict=True)]
    assert [one.tobytes() for one in wide] == [wide_digest(c, s) for c, s in zip(cells, seeds, strict=True)]


SPEC = {"n": "int16?", "s": "string", "b": "bytes"}


def payload() -> bytes:
    columns = {"n": [1, None, 3], "s": ["a", "", "long"], "b": [b"", b"12", b"3"]}
    raw, _ = encoded(SPEC, Shape(1, 0, 0, 0), columns, GroupPlace(0, 0, 128))
    return raw[64 : 64 + layout.unpack_page_header(ID, 128, raw[:64]).payload_bytes]


def test_a_scalar_page_comes_back() -> None:
    found = decode_scalar_page(Schema.parse(SPEC), Shape(1, 0, 0, 0), 3, memoryview(payload()))
    numbers, strings = found.scalars
    assert numbers.values.tolist() == [1, 0, 3]
    assert numbers.valid is not None
    assert numbers.valid.tolist() == [True, False, True]
    assert strings.values.tolist() == [1, 0, 4]
    assert strings.strings == b"along"
    assert [lengths.tolist() for lengths in found.lengths] == [[0, 2, 1]]
    assert len(found.digests) == 3


def test_scalar_pages_of_another_size_are_refused() -> None:
    schema, shape, good = Schema.parse(SPEC), Shape(1, 0, 0, 0), payload()
    for size in range(len(good)):
        with pytest.raises(CorruptionError):
            decode_scalar_page(schema, shape, 3, memoryview(good[:size]))
    with pytest.raises(CorruptionError):
        decode_scalar_page(schema, shape, 3, memoryview(good + bytes(8)))
    for rows in (0, 2, 4, 100, 2**31, 2**62, 2**63):
        with pytest.raises(CorruptionError):
            decode_scalar_page(schema, shape, rows, memoryview(good))


def flipped() -> st.SearchStrategy[bytes]:
    """The payload of a page, a few of its bytes changed: many are pages still."""
    good = payload()
    places = st.dictionaries(st.integers(0, len(good) - 1), st.integers(0, 255), max_size=4)
    return places.map(lambda changes: bytes(changes.get(i, byte) for i, byte in enumerate(good)))


@given(st.one_of(flipped(), st.binary(max_size=200)), st.one_of(st.just(3), st.integers(1, 2**63)))
@example(payload(), 3)
def test_any_bytes_are_a_scalar_page_or_refused(raw: bytes, rows: int) -> None:
    try:
        found = decode_scalar_page(Schema.parse(SPEC), Shape(1, 0, 0, 0), rows, memoryview(raw))
    except CorruptionError:
        assert (raw, rows) != (payload(), 3)
        return
    numbers, strings = found.scalars
    assert len(numbers.values) == len(numbers.valid) == len(strings.values) == len(found.lengths[0]) == rows
    assert len(found.digests) == rows
    assert len(strings.strings) == strings.values.sum()
    used = 8 + 8 + 16 + -(-len(strings.strings) // 8) * 8 + 8 * rows + 8 * rows
    assert rows != 3 or used == len(raw)


FEW = {"n": "int16", "s": "string", "b": "bytes"}


def compressed(rows: int = 400) -> tuple[PageHeader, bytes, memoryview]:
    """Header and payload of a compressed scalar page, and the payload of the same rows as they are."""
    schema, shape, group = Schema.parse(FEW), Shape(1, 4, 0, 0), GroupPlace(0, 0, 128)
    columns = {"n": [7] * rows, "s": ["word"] * rows, "b": [bytes([i % 256]) for i in range(rows)]}
    found = []
    for codec in (CODEC_ZSTD, CODEC_PLAIN):
        made = encode_group(schema, shape, ID, group, [batch(schema, columns)], codec)
        raw = b"".join(made.scalar_page().pieces)
        assert len(raw) == made.scalar_bytes
        header = layout.unpack_page_header(ID, 128, raw[:64])
        found.append((header, raw[64 : 64 + header.payload_bytes]))
    (header, stored), (_, plain) = found
    return header, stored, memoryview(plain)


def test_a_compressed_page_holds_the_arrays_of_the_plain_one_and_its_digests_as_they_are() -> None:
    header, stored, plain = compressed()
    assert (header.codec, header.raw_bytes) == (CODEC_ZSTD, len(plain) - 8 * 100)
    assert len(stored) < len(plain) // 2
    assert stored[-800:] == plain[-800:]
    assert plain_payload(Schema.parse(FEW), Shape(1, 4, 0, 0), header, stored) == plain


def test_what_compresses_too_little_stays_as_it_is() -> None:
    header, _, _ = compressed(8)
    assert (header.codec, header.raw_bytes) == (CODEC_PLAIN, 0)
    noise = {"n": np.random.default_rng(1).integers(-(2**15), 2**15, 9_000, np.int16)}
    schema = Schema.parse({"n": "int16"})
    made = encode_group(
        schema, Shape(1, 0, 9_000, 0), ID, GroupPlace(0, 0, 128), [batch(schema, noise)], CODEC_ZSTD
    )
    assert made.scalars.codec == CODEC_PLAIN


def frame(content: bytes, **options: Any) -> bytes:
    return bytes(zstandard.ZstdCompressor(**options).compress(content))


NO_PAGES = {
    "no frame": lambda plain: b"x" * 60,
    "a frame of more": lambda plain: frame(plain + b"x"),
    "a frame of less": lambda plain: frame(plain[:-1]),
    "two frames": lambda plain: frame(plain) + frame(b""),
    "a frame that is cut off": lambda plain: frame(plain)[:-1],
    "a frame without its size": lambda plain: frame(plain, write_content_size=False),
    "nothing": lambda plain: b"",
    "the arrays as they are": lambda plain: plain,
    "a bomb": lambda plain: b"\x28\xb5\x2f\xfd\xe0" + len(plain).to_bytes(8, "little") + b"\x02\0\0\0" * 2,
}


@pytest.mark.parametrize("kind", NO_PAGES)
def test_a_compressed_page_that_is_no_frame_of_its_arrays_is_refused(kind: str) -> None:
    header, _, plain = compressed()
    stored = NO_PAGES[kind](bytes(plain[:-800])) + plain[-800:]
    with pytest.raises(CorruptionError, match="scalar page"):
        plain_payload(Schema.parse(FEW), Shape(1, 4, 0, 0), header, stored)


def test_a_compressed_page_takes_no_memory_for_more_than_its_frame_can_hold() -> None:
    header, stored, _ = compressed()
    for raw_bytes in (1, len(stored) - 800, (len(stored) - 800 + 1) << 15, layout.MAX_RAW_BYTES - 1):
        with pytest.raises(CorruptionError, match="cannot hold"):
            plain_payload(Schema.parse(FEW), Shape(1, 4, 0, 0), replace(header, raw_bytes=raw_bytes), stored)
    for rows in (10**6, 2**62):
        with pytest.raises(CorruptionError, match="cannot hold"):
            plain_payload(Schema.parse(FEW), Shape(1, 4, 0, 0), replace(header, rows=rows), stored)


def test_a_page_of_another_codec_is_refused_as_one_that_cannot_be_read_here() -> None:
    header, stored, _ = compressed()
    for codec in (2, 3, 65_535):
        with pytest.raises(ColumnError, match=f"codec {codec} is not known to this version"):
            plain_payload(Schema.parse(FEW), Shape(1, 4, 0, 0), replace(header, codec=codec), stored)
