"""Cells as they are stored: malformed ones are corruption, whatever they claim, and cost no memory."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from encoded_values import IMAGE, encode_one
from hypothesis import given
from hypothesis import strategies as st

from unirecord.errors import CorruptionError
from unirecord.format.schema import Schema
from unirecord.format.values import decode_cell, pack_object, unpack_object
from unirecord.loading.batch import RaggedArray


@pytest.mark.parametrize(
    ("spec", "cell"),
    [
        (IMAGE, b"abc"),
        (IMAGE, b"abcde"),
        ({"type": "int32", "shape": [-1, 2]}, bytes(12)),
        ({"type": "int32", "shape": [-1, -1]}, bytes(8)),
        ({"type": "int32", "shape": [-1, -1]}, struct.pack("<QQ", 1, 1)),
        ({"type": "int32", "shape": [-1, -1]}, struct.pack("<iQQ", 0, 1, 2)),
        ({"type": "int8", "shape": [-1, -1]}, struct.pack("<QQ", 0, (1 << 64) - 1)),
        ("text", b"\xff"),
        ("text", b"\xed\xa0\x80"),
        ("object", b""),
        ("object", b"\xc1"),
        ("object", b"\xdd\xff\xff\xff\xff"),
        ("object", b"\x01\x02"),
        ("object", b"\xa1\xff"),
        ("object", b"\xd4\xff\x00"),
        ("object", b"\x81\x90\x01"),
        ("object", b"\x91" * 100_000),
    ],
)
def test_a_malformed_cell_is_corruption(spec: Any, cell: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_cell(Schema.parse({"x": spec})[0], memoryview(cell))


@given(
    column=st.sampled_from(["text", "object", IMAGE, {"type": "float32", "shape": [-1, 3, -1]}]),
    cell=st.binary(max_size=64),
)
def test_random_bytes_decode_or_are_corruption(column: Any, cell: bytes) -> None:
    parsed = Schema.parse({"x": column})[0]
    try:
        found = decode_cell(parsed, memoryview(cell))
    except CorruptionError:
        return
    again = encode_one(column, found)
    assert column == "object" or again == cell  # msgpack has several forms for one number
    assert encode_one(column, decode_cell(parsed, memoryview(again))) == again


def nested_bytes(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


@pytest.mark.parametrize(
    "cell",
    [
        b"\xd5\xff\0\0",
        b"\x91\xd7\xff" + (10**9 << 34).to_bytes(8, "big"),
        b"\x81\xa1a\xc7\x0c\xff" + (10**9).to_bytes(4, "big") + bytes(8),
        b"\x81\xd6\xff\0\0\0\x01\x01",
        b"\xc7\x05\xff\0\0\0\x01\0",
        b"\xd4\xff\0",
        b"\x82\xa1a\x01\xa1a\x02",
        b"\x91\x82\x01\x01\x01\x02",
        b"\x82\xc3\x01\x01\x02",
        b"\x81\xc0\x01",
        b"\x81\xc3\x01",
        b"\x81\xcb\x3f\xf8\0\0\0\0\0\0\x01",
        b"\x01\x02",
        b"\x81\x91\x01\x01",
        b"\xa1\xff",
        nested_bytes(65),
        nested_bytes(5000),
        b"\x81\x01" * 65 + b"\xc0",
    ],
)
def test_an_object_against_the_rules_of_the_page_is_corrupt(cell: bytes) -> None:
    with pytest.raises(CorruptionError):
        unpack_object(cell)


def test_an_object_of_64_levels_is_read() -> None:
    assert unpack_object(nested_bytes(64)) == unpack_object(pack_object(unpack_object(nested_bytes(64))))


def test_an_object_that_claims_more_items_than_it_has_takes_no_memory_for_them() -> None:
    """Nested arrays that each claim as many items as the cell has bytes: memory goes with the cell's length."""
    size = 1 << 20
    claim = b"\xdd" + (size - 400).to_bytes(4, "big")
    bomb = (claim * 60).ljust(size, b"\xc0")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError):
            unpack_object(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sizes", [(2**63, 0), (2**64 - 1, 1), (3, 2), (0, 2**62)])
def test_sizes_in_a_cell_that_cannot_be_are_refused_in_a_batch_as_in_a_sample(sizes: tuple[int, int]) -> None:
    column = Schema.parse({"a": {"type": "int32", "shape": [-1, -1]}}).columns[0]
    cell = bytes(16) + struct.pack("<QQ", *sizes) if sizes[0] and sizes[1] else struct.pack("<QQ", *sizes)
    ragged = RaggedArray(column, np.frombuffer(cell, np.uint8), np.array([0, len(cell)]))
    with pytest.raises(CorruptionError):
        ragged[0]
    with pytest.raises(CorruptionError):
        decode_cell(column, cell)
