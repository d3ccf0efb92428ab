"""Packed sections of an index: what is packed, how every way of reading unpacks it, and what of one is refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import reseal
from hypothesis import given
from hypothesis import strategies as st
from partgen import MadePart
from small_parts import packed_part

import unirecord
from unirecord.core import PackedArray, pack_numbers, packed_bytes
from unirecord.errors import CorruptionError, FormatError
from unirecord.format import layout
from unirecord.format.layout import Section
from unirecord.format.packing import Packer, Packing, check_packing, packing_of, read_numbers, span_of
from unirecord.inspect.repair import repair
from unirecord.query import compile_query
from unirecord.query.columns import Vector
from unirecord.snapshot.part_set import PartSet, resolve

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
ROWS = 3_000


def of_type(dtype: str, bits: int, count: int, seed: int = 1) -> tuple[np.ndarray[Any, Any], int]:
    """Numbers of so many bits from a base on that the type just has, and the base."""
    base = int(np.iinfo(dtype).max) - (1 << bits) + 1
    offsets = np.random.default_rng(seed).integers(0, 1 << bits, count, np.int64)
    offsets[:2] = 0, (1 << bits) - 1
    return (offsets.astype(np.uint64) + np.uint64(base % 2**64)).astype(dtype), base


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_packed_array_is_read_like_the_array(dtype: str) -> None:
    for bits in {1, 2, 5, 7, 10, 15, 25, 26, 31, 42, 56}:
        if bits >= 8 * np.dtype(dtype).itemsize:
            continue
        numbers, base = of_type(dtype, bits, 300)
        packed = PackedArray(pack_numbers(numbers, bits, base), dtype, 300, bits, base)
        assert len(packed) == 300
        for start, stop in product([0, 1, 8, 63, 64, 299, 300], repeat=2):
            np.testing.assert_array_equal(packed.span(start, stop), numbers[start:stop])
        places = np.array([299, 0, 7, 7, 128])
        np.testing.assert_array_equal(packed.at(places), numbers[places])
        assert [packed.one(place) for place in places.tolist()] == numbers[places].tolist()
        assert packed.span(0, 300).dtype == np.dtype(dtype)


def test_places_that_are_not_there_are_no_reads_outside() -> None:
    packed = PackedArray(pack_numbers(np.arange(9), 4, 0), np.int64, 9, 4, 0)
    for place in (-1, 9, 2**62):
        with pytest.raises(IndexError):
            packed.one(place)
        with pytest.raises(IndexError):
            packed.at(np.array([0, place]))
    for size in (0, 8, 24):
        with pytest.raises(ValueError, match="are not"):
            PackedArray(np.zeros(size, np.uint8), np.int64, 9, 4, 0)


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=400), st.integers(1, 150), st.integers(0, 150))
def test_what_is_packed_block_by_block_is_read_from_anywhere(
    numbers: list[int], step: int, start: int
) -> None:
    values = np.array(numbers, np.int64)
    packer = Packer(np.int64, Packing(21, 0))
    pieces = [
        packer.push(values[at : at + step], at + step >= len(values)) for at in range(0, len(values), step)
    ]
    content = b"".join(piece.tobytes() for piece in pieces)
    entry = Section(5, 0, 8, 100, len(content), len(values), 0, 21)
    assert content == pack_numbers(values, 21, 0).tobytes()

    def read(offset: int, size: int) -> bytes:
        assert 100 <= offset <= offset + size <= 100 + len(content)
        return content[offset - 100 : offset - 100 + size]

    start = min(start, len(values))
    np.testing.assert_array_equal(read_numbers(read, entry, np.int64, start, len(values)), values[start:])


def test_what_does_not_save_a_third_is_not_packed() -> None:
    span = span_of(np.dtype(np.int32))
    assert packing_of(span, 4, 0, 2**21 - 1, 10**6) == (21, 0)
    assert packing_of(span, 4, 0, 2**21, 10**6) is None
    assert packing_of(span, 4, 7, 7, 10**6) == (1, 7)
    assert packing_of(span, 4, 0, 1, 5) is None
    assert packing_of(span, 4, 0, 1, 6) == (1, 0)
    assert packing_of(span, 4, 2**31 - 5, 2**31 - 1, 1000) == (3, 2**31 - 8)
    assert packing_of(span_of(np.dtype(np.int64)), 8, -(2**63), 2**63 - 1, 1000) is None
    assert packing_of(span_of(np.dtype(np.uint8), is_bool=True), 1, 0, 1, 1000) == (1, 0)
    assert packing_of(span_of(np.dtype(np.uint8), is_bool=True), 1, 0, 2, 1000) is None


def columns(rows: int = ROWS) -> dict[str, np.ndarray[Any, Any]]:
    """A packed column of each type, nullable and not, beside one that is not packed."""
    found = {}
    for dtype in INTEGERS:
        found[dtype], _ = of_type(dtype, min(4 * np.dtype(dtype).itemsize, 21), rows)
    random = np.random.default_rng(3)
    found["flag"] = random.integers(0, 2, rows).astype(np.bool_)
    found["wide"] = random.integers(-(2**62), 2**62, rows)
    found["word"] = np.array([f"kind {i}" for i in range(20)], object)[random.integers(0, 20, rows)]
    found["often"] = np.array([f"kind {i % 300}" for i in range(rows)], object)
    return found


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "a.urec"
    data = columns()
    types = {name: "bool" if name == "flag" else "string" if v.dtype == object else v.dtype.name
             for name, v in data.items()}  # fmt: skip
    types["wide"] = "int64"
    nullable = {f"{name}?": f"{kind}?" for name, kind in types.items()}
    schema = types | {name.replace("?", "_or_null"): kind for name, kind in nullable.items()}
    with unirecord.Writer(path, schema, index=["int32", "uint64", "word"]) as writer:
        for i in range(ROWS):
            row = {name: values[i] for name, values in data.items()}
            writer.write(row | {f"{n}_or_null": None if i % 9 == 4 else v for n, v in row.items()})
    return path


def test_integers_bools_and_codes_are_packed_and_nothing_else(part: Path) -> None:
    opened = PartSet(resolve(part)).part(0)
    schema = opened.schema
    for i, column in enumerate(schema):
        for kind in range(1, 18):
            found = opened.vector(kind, i)
            packs = (kind == 5 and not column.name.startswith("wide")) or kind == 7
            if found is not None:
                # what stands for null is far from the other values of most columns
                expected = packs and (
                    not column.nullable or column.name.startswith(("flag", "word", "often"))
                )
                near_zero = (
                    column.name.endswith("_or_null") and kind == 5 and not column.name.startswith("flag")
                )
                assert near_zero or isinstance(found[0], PackedArray) == expected, (column.name, kind)
    reference.read_part(part)
    assert unirecord.verify(part).ok


@pytest.mark.parametrize("io", ["mmap", "pread", "memory"])
@pytest.mark.parametrize("verify", ["first", "always", "never"])
def test_every_way_of_reading_gives_what_was_written(part: Path, io: Any, verify: Any) -> None:
    data = columns()
    rows = np.random.default_rng(5).integers(0, ROWS, 500)
    with unirecord.UniRecordDataset(part, io=io, verify=verify) as ds:
        for name, values in data.items():
            np.testing.assert_array_equal(np.asarray(ds[name]), values)
            np.testing.assert_array_equal(np.ma.filled(ds[f"{name}_or_null"], values[0])[:4], values[:4])
        for row in rows[:50].tolist():
            sample = ds[row]
            for name, values in data.items():
                assert sample[name] == values[row]
                assert sample[f"{name}_or_null"] == (None if row % 9 == 4 else values[row])
        first = 0
        for batch in ds.batches(700):
            for name, values in data.items():
                some = values[first : first + len(batch["int8"])]
                assert list(batch[name]) == list(some)
            first += len(batch["int8"])
        assert ds.to_arrow().column("int64").to_pylist() == data["int64"].tolist()


QUERIES: list[tuple[str, Any]] = [
    ("int32 > {int32}", lambda d, q: d["int32"] > q["int32"]),
    ("not int8 <= {int8}", lambda d, q: d["int8"] > q["int8"]),
    ("uint64 == {uint64}", lambda d, q: d["uint64"] == q["uint64"]),
    ("{int64} <= int64 and int16 < {int16}", lambda d, q: (d["int64"] >= q["int64"]) & (d["int16"] < q["int16"])),
    ("uint8 in ({uint8}, 0, 255)", lambda d, q: np.isin(d["uint8"], (q["uint8"], 0, 255))),
    ("int16 * 2 + int8 > {int16} * 2", lambda d, q: d["int16"] * 2 + d["int8"].astype(int) > int(q["int16"]) * 2),
    ("flag", lambda d, q: d["flag"]),
    ("not flag and word == 'kind 3'", lambda d, q: ~d["flag"] & (d["word"] == "kind 3")),
    ("word like '%1%'", lambda d, q: np.array(["1" in w for w in d["word"]])),
    ("often in ('kind 7', 'kind 8', 'kind 299')", lambda d, q: np.isin(d["often"], ("kind 7", "kind 8", "kind 299"))),
    ("word == 'kind 3' or int32 == {int32}", lambda d, q: (d["word"] == "kind 3") | (d["int32"] == q["int32"])),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_queries_find_the_rows_of_packed_columns(part: Path, number: int) -> None:
    text, expected = QUERIES[number]
    data = {name: v.astype(int) if name == "int16" else v for name, v in columns().items()}
    middle = {name: v[7] for name, v in data.items()}
    parts = PartSet(resolve(part))
    query = compile_query(text.format(**middle), parts.schema)
    mask = np.asarray(expected(data, middle), bool)
    assert query.rows(parts).tolist() == np.flatnonzero(mask).tolist()
    assert query.count(parts) == int(mask.sum())


def test_a_packed_vector_checks_the_blocks_that_it_reads_and_no_others() -> None:
    numbers, asked = np.arange(400_000) % 16_384, []
    packed = PackedArray(pack_numbers(numbers, 14, 0), np.int64, len(numbers), 14, 0)
    vector, block = Vector(packed, lambda start, stop: asked.append((start, stop))), 8 * 65_536 // 14
    assert vector.one(399_999) == numbers[-1]
    assert vector.at(np.array([0, 5])).tolist() == [0, 5]
    assert vector.span(3, 9).tolist() == list(range(3, 9))
    assert asked == [(10 * block, 400_000), (0, block)]
    assert vector.checked().tolist() == numbers.tolist()
    assert asked[2:] == [(0, 400_000)]


LIES = {
    "bits of 0": ("bits", 0),
    "a bit less": ("bits", 2),
    "a bit more": ("bits", 4),
    "bits of 57": ("bits", 57),
    "bits of 64": ("bits", 64),
    "bits of 65": ("bits", 65),
    "bits of 65535": ("bits", 65_535),
    "a base at the other end of the type": ("extra", 2**63 - 1),
    "a base whose numbers wrap": ("extra", 2**63 - 2),
    "more elements": ("count", 79),
    "fewer elements": ("count", 1),
    "reserved bytes": ("reserved", 1),
}
PLACES = {"count": (24, 8), "extra": (32, 8), "bits": (40, 2), "reserved": (42, 2)}


@pytest.fixture
def small(tmp_path: Path) -> MadePart:
    return packed_part(tmp_path / "part.urec")


@pytest.mark.parametrize("lie", LIES)
def test_a_packed_section_that_says_what_cannot_be_is_refused(small: MadePart, lie: str) -> None:
    field, value = LIES[lie]
    at, width = PLACES[field]
    index = bytearray(small.index)
    place = reseal.entry_of(index, layout.SECTION_VALUES, 0) + at
    index[place : place + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")
    reseal.index(index, small.data)
    Path(f"{small.path}.idx").write_bytes(index)
    with pytest.raises((CorruptionError, FormatError)), unirecord.UniRecordDataset(small.path) as ds:
        _ = [ds[i] for i in range(len(ds))]
    assert not unirecord.verify(small.path).ok
    repair(small.path)
    assert unirecord.verify(small.path).ok


def test_packing_outside_of_a_type_is_refused_by_the_tools() -> None:
    span = span_of(np.dtype(np.int16))
    good = Section(5, 0, 2, 0, packed_bytes(100, 5), 100, (-32_768) % 2**64, 5)
    check_packing(good, span)
    low, high = (-32_769) % 2**64, 32_767 - 30
    wrongs = [(5, 5, high), (5, 5, low), (5, 57, 0), (5, 16, 0), (7, 5, 1), (12, 5, 0)]
    for kind, bits, extra in wrongs:
        wrong = Section(kind, 0, 2, 0, packed_bytes(100, bits), 100, extra, bits)
        with pytest.raises(FormatError):
            check_packing(wrong, (0, 65_535) if kind == 7 else span)
    with pytest.raises(FormatError):
        check_packing(good, None)


def test_other_elements_of_a_packed_section_are_found_by_verify(small: MadePart) -> None:
    for kind, column in [(5, 0), (5, 6), (7, 8)]:
        index = bytearray(small.index)
        offset = int.from_bytes(index[(at := reseal.entry_of(index, kind, column)) + 8 : at + 16], "little")
        index[offset] ^= 1
        reseal.index(index, small.data)
        Path(f"{small.path}.idx").write_bytes(index)
        report = unirecord.verify(small.path)
        assert [f"section {kind} of column {column}" in problem.what for problem in report.problems] == [True]
