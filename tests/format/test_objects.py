"""Objects: the rules of docs/spec/format.md for msgpack, held by csrc/base/object.c before anything is unpacked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from conformance.canonical import freeze
from hypothesis import given
from hypothesis import strategies as st
from object_reference import Refused, read_object

import unirecord
from unirecord.errors import CorruptionError, SchemaError
from unirecord.format.values import pack_object, unpack_object

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
        [
            b"\0\0\0",
            b"\0\1",
            b"\xa1a",
            b"\xd9\x01a",
            b"\xc4\x01a",
            b"\xcc\x01",
            b"\xd3" + bytes(7) + b"\x01",
            b"\xd4\x05",
            b"\xc7\x01\xfe",
            b"\xd6\xff",
        ]
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


TIMES = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])) | st.builds(
    msgpack.Timestamp, st.integers(-(2**63), 2**63 - 1), st.integers(0, 999_999_999)
)
EXTENSIONS = st.builds(
    unirecord.Extension, st.integers(-128, 127).filter(lambda code: code != -1), st.binary(max_size=20)
)


@given(
    st.recursive(
        ATOMS | TIMES | EXTENSIONS,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
        max_leaves=9,
    )
)
def test_times_and_extensions_come_back(value: Any) -> None:
    found = unpack_object(pack_object(value))
    assert freeze(found) == freeze(value)
    assert same(pack_object(value)) == repr(found)
    assert pack_object(found) == pack_object(value)


@given(TIMES)
def test_a_time_is_a_datetime_in_utc_unless_that_cannot_hold_it(value: Any) -> None:
    found = unpack_object(pack_object([value]))[0]
    if isinstance(found, datetime):
        assert found.tzinfo is UTC
    else:
        assert (
            found.nanoseconds % 1000
            or not 0 < np.datetime64(found.seconds, "s").astype("M8[Y]").astype(int) + 1970 < 10_000
        )


def test_times_of_pandas_keep_their_nanoseconds() -> None:
    time = pd.Timestamp("2026-11-26T08:00:00.123456789", tz="Europe/Paris")
    assert unpack_object(pack_object(time)) == msgpack.Timestamp(time.value // 10**9, 123_456_789)
    before = pd.Timestamp("1969-12-31T23:59:59.000000001", tz="UTC")
    assert unpack_object(pack_object(before)) == msgpack.Timestamp(-1, 1)


def test_a_time_without_a_zone_is_refused_by_its_place() -> None:
    with pytest.raises(
        SchemaError, match=r"meta\.when: a datetime without a time zone .* value\.replace\(tzinfo="
    ):
        pack_object({"when": datetime(2026, 11, 26)}, "meta")


@pytest.mark.parametrize(
    ("code", "data", "error"),
    [(-1, b"", ValueError), (128, b"", ValueError), (True, b"", ValueError), (5, "a", TypeError)],
)
def test_an_extension_that_msgpack_does_not_have_is_refused(
    code: Any, data: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="expected"):
        unirecord.Extension(code, data)


def test_times_and_extensions_are_kept_by_whoever_writes_them_anew(tmp_path: Path) -> None:
    seen = datetime(2026, 11, 26, 8, 0, 0, 250_000, UTC)
    exact = msgpack.Timestamp(1, 5)
    meta = {
        "seen": seen,
        "exact": exact,
        "more": [unirecord.Extension(-7, b"\x01"), {1: unirecord.Extension(9, b"")}],
    }
    rows = [{"n": 1, "meta": meta}, {"n": 2, "meta": seen}, {"n": 3, "meta": unirecord.Extension(0, b"abc")}]
    with unirecord.Writer(
        tmp_path / "a", {"n": "int32", "meta": "object"}, metadata={"made": seen}
    ) as writer:
        for row in rows:
            writer.write(row)
    unirecord.reshard(tmp_path / "a", 1)
    unirecord.merge([tmp_path / "a"], tmp_path / "b")
    unirecord.write_dataset(tmp_path / "b", tmp_path / "c")
    for name in "abc":
        with unirecord.UniRecordDataset(tmp_path / name) as ds:
            assert [row["meta"] for row in ds] == [row["meta"] for row in rows]
        assert unirecord.verify(tmp_path / name).ok
    assert unirecord.describe(tmp_path / "b").metadata == {"made": seen}
    assert not unirecord.diff(tmp_path / "a", tmp_path / "c").changed
    unirecord.export(tmp_path / "a", tmp_path / "a.jsonl")
    lines = [json.loads(line)["meta"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines == [
        {
            "seen": "2026-11-26T08:00:00.250000+00:00",
            "exact": "1970-01-01T00:00:01.000000005+00:00",
            "more": [{"extension": -7, "data": "AQ=="}, [[1, {"extension": 9, "data": ""}]]],
        },
        "2026-11-26T08:00:00.250000+00:00",
        {"extension": 0, "data": "YWJj"},
    ]
    unirecord.export(tmp_path / "a", tmp_path / "a.parquet")
    assert [json.loads(x) for x in pq.read_table(tmp_path / "a.parquet")["meta"].to_pylist()] == lines


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
        (b"\xd5\xff\0\0", "no timestamp of msgpack"),
        (b"\xc7\x04\xff\0\0\0", "ends early"),
        (b"\x81\xd4\x05\0\x01", "keys are not all strings, integers or bytes"),
        (b"\xd7\xff\xff\xff\xff\xff\0\0\0\0", "no timestamp of msgpack"),
        (b"\x91" * 65 + b"\xc0", "nested more than 64 deep"),
        (b"\xa1\xff", "not UTF-8"),
        (b"\x01\x02", "more after its end"),
    ],
)
def test_the_error_names_the_rule(cell: bytes, said: str) -> None:
    with pytest.raises(CorruptionError, match=said):
        unpack_object(cell)
