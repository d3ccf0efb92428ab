"""Objects: the rules of docs/spec/format.md for msgpack, held by csrc/base/object.c before anything is unpacked."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from object_reference import Refused, read_object

from unirecord.errors import CorruptionError
from unirecord.format.values import unpack_object

KEYS = st.one_of(
    st.text(max_size=20), st.integers(-(2**63), 2**64 - 1), st.binary(max_size=20), st.integers(-40, 140)
)
ATOMS = st.one_of(st.none(), st.booleans(), st.floats(), KEYS)
OBJECTS = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=30
)
# Heads of every kind, and numbers that are small enough to be counts that hold.
PIECES = st.one_of(
    st.integers(0x80, 0xFF).map(lambda head: bytes([head])),
    st.integers(0, 5).map(lambda number: bytes([number])),
    st.sampled_from(
        [b"\0\0\0", b"\0\1", b"\xa1a", b"\xd9\x01a", b"\xc4\x01a", b"\xcc\x01", b"\xd3" + bytes(7) + b"\x01"]
    ),
)


def outcome(read: Any, raw: bytes) -> str:
    try:
        return repr(read(raw))
    except (CorruptionError, Refused):
        return "refused"


def same(raw: bytes) -> str:
    found = outcome(unpack_object, raw)
    assert found == outcome(read_object, raw)
    return found


@given(OBJECTS)
def test_what_msgpack_packs_is_read(value: Any) -> None:
    assert same(msgpack.packb(value, use_bin_type=True)) == repr(value)


@given(OBJECTS, st.data())
def test_changed_bytes_are_read_as_the_reference_reads_them(value: Any, data: st.DataObject) -> None:
    raw = bytearray(msgpack.packb(value, use_bin_type=True))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(PIECES | st.just(b""))
    same(bytes(raw))


@given(st.lists(PIECES, max_size=24).map(b"".join))
def test_any_heads_are_read_as_the_reference_reads_them(raw: bytes) -> None:
    same(raw)


@pytest.mark.parametrize("count", [2, 16, 17, 64, 65, 300])
@pytest.mark.parametrize(
    "make", [str, lambda i: i - 50, lambda i: b"%05d" % i, lambda i: "a" * 40 + f"{i:03}" + "b" * 40]
)
def test_a_key_is_found_twice_wherever_it_stands(count: int, make: Any) -> None:
    """Also after maps inside of the values, and where all keys begin and end alike."""
    pairs = [msgpack.packb(make(i)) + msgpack.packb({make(i): [{}]}) for i in range(count)]
    head = b"\xde" + count.to_bytes(2, "big")
    assert len(unpack_object(head + b"".join(pairs))) == count
    for place in {0, (count - 1) // 2, count - 2}:
        again = [*pairs[:-1], pairs[place]]
        with pytest.raises(CorruptionError, match="same key twice"):
            unpack_object(head + b"".join(again))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"\x05", b"\xcc\x05"),
        (b"\x05", b"\xd3" + (5).to_bytes(8, "big")),
        (b"\xff", b"\xd1\xff\xff"),
        (b"\xcf" + bytes(7) + b"\x80", b"\xd1\x00\x80"),
        (b"\xa1a", b"\xdb\0\0\0\x01a"),
        (b"\xc4\x01a", b"\xc5\0\x01a"),
    ],
)
def test_one_key_written_in_two_ways_is_one_key(one: bytes, other: bytes) -> None:
    with pytest.raises(CorruptionError, match="same key twice"):
        unpack_object(b"\x82" + one + b"\xc0" + other + b"\xc0")


@pytest.mark.parametrize(
    ("one", "other"),
    [(b"\xa1a", b"\xc4\x01a"), (b"\xff", b"\xcf" + b"\xff" * 8), (b"\x01", b"\xa1\x01"), (b"\xa0", b"\x00")],
)
def test_keys_of_two_types_are_two_keys(one: bytes, other: bytes) -> None:
    assert len(unpack_object(b"\x82" + one + b"\xc0" + other + b"\xc0")) == 2


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (b"", "ends early"),
        (b"\xc1", "begins with the byte c1"),
        (b"\x81\xc0\x01", "keys are not all strings, integers or bytes"),
        (b"\xd6\xff\0\0\0\0", "msgpack extension"),
        (b"\x91" * 65 + b"\xc0", "nested more than 64 deep"),
        (b"\xa1\xff", "not UTF-8"),
        (b"\x01\x02", "more after its end"),
    ],
)
def test_the_error_names_the_rule(cell: bytes, said: str) -> None:
    with pytest.raises(CorruptionError, match=said):
        unpack_object(cell)
