"""Dictionaries of integers and floats: which columns have one, that every bit comes back, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import reseal
from hypothesis import given
from hypothesis import strategies as st

import unirecord
from unirecord.core import CodedArray, PackedArray, pack_numbers
from unirecord.errors import CorruptionError, FormatError
from unirecord.format import layout
from unirecord.format.packing import from_keys, to_keys
from unirecord.query import compile_query
from unirecord.snapshot.part_set import PartSet, resolve
from unirecord.writing import index_file

ROWS = 6_000
FLOATS = ["float16", "float32", "float64"]


def odd_floats(dtype: str) -> np.ndarray[Any, Any]:
    """Zeros, infinities and NaNs of both signs, with payloads, and the least and greatest numbers."""
    width = np.dtype(dtype).itemsize
    top, most = 1 << 8 * width - 1, int.from_bytes(np.array(np.inf, dtype).tobytes(), "little")
    bits = [0, top, most, most | top, most + 1, (most + 1) | top, top - 1, 2 * top - 1, 1, top + 1]
    return np.array(bits, f"<u{width}").view(dtype)


def columns(rows: int = ROWS) -> dict[str, np.ndarray[Any, Any]]:
    """Columns of few kinds, of many, and of what is best packed."""
    r = np.random.default_rng(11)
    found: dict[str, np.ndarray[Any, Any]] = {
        name: np.concatenate([odd_floats(name), np.arange(40).astype(name) / 4])[r.integers(0, 50, rows)]
        for name in FLOATS
    }
    times = 1_700_000_000_000_000_000 + r.integers(0, 1 << 50, 300)
    found["time"] = times[r.integers(0, 300, rows)]
    found["unsigned"] = np.array([2**64 - 1, 0, 1, 2**63, 77], np.uint64)[r.integers(0, 5, rows)]
    found["signed"] = np.array([-(2**63), 2**63 - 1, -1, 0, 5], np.int64)[r.integers(0, 5, rows)]
    found["price"] = np.round(r.gamma(2.0, 20.0, rows), 1)
    found["noise"] = r.normal(size=rows)
    found["narrow"] = r.integers(0, 100, rows)
    return found


CODED = {"float32", "float64", "time", "unsigned", "signed", "price"}


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("coded") / "a.urec"
    return write(path, ROWS)


def write(path: Path, rows: int, data: dict[str, np.ndarray[Any, Any]] | None = None) -> Path:
    data = columns(rows) if data is None else data
    types = {name: values.dtype.name for name, values in data.items()}
    schema = types | {f"{name}_or_null": f"{kind}?" for name, kind in types.items()}
    every: dict[str, Any] = dict(data)
    null = np.arange(rows) % 9 == 4
    every |= {f"{name}_or_null": np.ma.MaskedArray(values, mask=null) for name, values in data.items()}
    with unirecord.Writer(path, schema, index=["price", "time_or_null", "float64_or_null"]) as writer:
        writer.write_batch(every)
    return path


def bits(values: Any) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def test_a_dictionary_is_there_where_it_saves_a_third(part: Path) -> None:
    opened = PartSet(resolve(part)).part(0)
    for i, column in enumerate(opened.schema):
        name = column.name.removesuffix("_or_null")
        values = opened.vector(layout.SECTION_VALUES, i)
        assert values is not None
        expected = CodedArray if name in CODED else PackedArray if name == "narrow" else np.ndarray
        if name != "float16":  # half of its bytes at most: whether it pays is a matter of few bytes
            assert isinstance(values[0], expected), column.name
    reference.read_part(part)
    assert unirecord.verify(part).ok


@pytest.mark.parametrize("io", ["mmap", "pread", "memory"])
@pytest.mark.parametrize("verify", ["first", "always", "never"])
def test_every_way_of_reading_gives_the_same_bits(part: Path, io: Any, verify: Any) -> None:
    data, null = columns(), np.arange(ROWS) % 9 == 4
    with unirecord.UniRecordDataset(part, io=io, verify=verify) as ds:
        for name, values in data.items():
            assert bits(ds[name]) == bits(values)
            found = ds[f"{name}_or_null"]
            assert np.ma.getmaskarray(found).tolist() == null.tolist()
            assert bits(found.data) == bits(np.where(null, np.zeros(1, values.dtype), values))
        for i in np.random.default_rng(5).integers(0, ROWS, 60).tolist():
            sample = ds[i]
            for name, values in data.items():
                assert bits(sample[name]) == bits(values[i])
                assert (sample[f"{name}_or_null"] is None) == bool(null[i])
                assert null[i] or bits(sample[f"{name}_or_null"]) == bits(values[i])
        first = 0
        for batch in ds.batches(700):
            for name, values in data.items():
                some = values[first : first + len(batch["time"])]
                assert bits(batch[name]) == bits(some)
                nulls = null[first : first + len(some)]
                assert bits(batch[f"{name}_or_null"].data) == bits(
                    np.where(nulls, np.zeros(1, some.dtype), some)
                )
            first += len(batch["time"])
        table = ds.to_arrow()
        assert table.column("time").to_pylist() == data["time"].tolist()
        assert bits(table.column("float64").to_numpy()) == bits(data["float64"])


@pytest.mark.parametrize("rows", [40, 3_000])
def test_rows_of_many_parts_come_out_of_their_dictionaries(tmp_path: Path, rows: int) -> None:
    """Parts with a dictionary of more kinds and of fewer, packed and not, and without one, in one batch."""
    r, kinds = np.random.default_rng(2), [3, 200, 300, 2, 70_000, 30]
    values = [(r.normal(size=kind)[r.integers(0, kind, rows)] * 1e9).astype(np.int64) for kind in kinds]
    for number, some in enumerate(values):
        with unirecord.Writer(tmp_path / f"{number}.urec", {"n": "int64", "x": "float64"}) as writer:
            writer.write_batch({"n": some, "x": some / 8})
    every = np.concatenate(values)
    with unirecord.UniRecordDataset(sorted(map(str, tmp_path.glob("*.urec")))) as ds:
        for seed in range(4):
            where = np.random.default_rng(seed).integers(0, len(every), 500)
            for _ in range(2):
                batch = ds.read_rows(where)
                assert bits(batch["n"]) == bits(every[where])
                assert bits(batch["x"]) == bits(every[where] / 8)


QUERIES: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("price > 30.5", lambda d: d["price"] > 30.5),
    ("not price <= 30.5", lambda d: ~(d["price"] <= 30.5)),
    ("10.25 <= price and price < 44.2", lambda d: (d["price"] >= 10.25) & (d["price"] < 44.2)),
    ("price in (10.1, 20.2, 30.3)", lambda d: np.isin(d["price"], (10.1, 20.2, 30.3))),
    ("float64 == 0", lambda d: d["float64"] == 0),
    ("float64 == -0.0", lambda d: d["float64"] == 0),
    ("float64 < 0", lambda d: d["float64"] < 0),
    ("not float64 >= 0", lambda d: ~(d["float64"] >= 0)),
    ("float32 <= 3.5", lambda d: d["float32"] <= 3.5),
    ("float32 > 1e30", lambda d: d["float32"] > 1e30),
    ("float64 != float64", lambda d: d["float64"] != d["float64"]),
    ("time >= 1700000000000000000", lambda d: d["time"] >= 1_700_000_000_000_000_000),
    ("time > 1700500000000000000", lambda d: d["time"] > 1_700_500_000_000_000_000),
    ("unsigned > 9223372036854775807", lambda d: d["unsigned"] > 2**63 - 1),
    ("signed == -9223372036854775808", lambda d: d["signed"] == -(2**63)),
    ("signed in (5, -1)", lambda d: np.isin(d["signed"], (5, -1))),
    ("signed + 1 > narrow", lambda d: d["signed"].astype(object) + 1 > d["narrow"]),
    ("price * 2 > narrow", lambda d: d["price"] * 2 > d["narrow"]),
    ("time_or_null >= 1700500000000000000", lambda d: (d["time"] >= 1_700_500_000_000_000_000) & ~d["null"]),
    ("not float64_or_null >= 0", lambda d: ~(d["float64"] >= 0) & ~d["null"]),
    ("signed_or_null == 0", lambda d: (d["signed"] == 0) & ~d["null"]),
    ("price_or_null == 12.3", lambda d: (d["price"] == 12.3) & ~d["null"]),
    ("price == 1234567.25", lambda d: d["price"] == 1234567.25),
    ("price > 9 and narrow < 50 or signed == 5", lambda d: (d["price"] > 9) & (d["narrow"] < 50) | (d["signed"] == 5)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_queries_find_the_rows(part: Path, number: int) -> None:
    text, expected = QUERIES[number]
    data = columns() | {"null": np.arange(ROWS) % 9 == 4}
    parts = PartSet(resolve(part))
    query = compile_query(text, parts.schema)
    mask = np.asarray(expected(data), bool)
    assert query.rows(parts).tolist() == np.flatnonzero(mask).tolist()
    assert query.count(parts) == int(mask.sum())


@given(st.lists(st.integers(0, 2**16 - 1), min_size=1))
def test_keys_of_floats_ascend_as_they_do_and_lose_no_bit(numbers: list[int]) -> None:
    values = np.array(numbers, "<u2").view("<f2")
    keys = to_keys(values)
    assert bits(from_keys(keys, values.dtype)) == bits(values)
    order = values[np.argsort(keys)]
    there = order[~np.isnan(order)]
    assert (there[1:] >= there[:-1]).all()
    assert len(np.unique(keys)) == len(set(numbers))


def test_statistics_count_values_and_not_bits(part: Path) -> None:
    opened = PartSet(resolve(part)).part(0)
    for name in FLOATS:
        found = opened.statistics[opened.schema.ordinal(name)]
        assert found is not None
        values = columns()[name]
        plain = len(np.unique(values[~np.isnan(values)]))
        assert found["distinct"] == plain + 1


def test_what_stands_where_null_is_element_0_of_packed_values(tmp_path: Path) -> None:
    values = np.ma.MaskedArray(10**12 + np.arange(1_000), mask=np.arange(1_000) % 3 == 0)
    nothing = np.ma.MaskedArray(np.arange(1_000), mask=True)
    with unirecord.Writer(tmp_path / "a.urec", {"n": "int64?", "x": "float64?", "i": "int64?"}) as writer:
        writer.write_batch({"n": values, "x": nothing.astype(float), "i": nothing})
    opened = PartSet(resolve(tmp_path / "a.urec")).part(0)
    found = [opened.vector(layout.SECTION_VALUES, column) for column in range(3)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[2] is not None
    packed, coded, zeros = found[0][0], found[1][0], found[2][0]
    assert isinstance(packed, PackedArray)
    assert (packed.base, packed.bits) == (10**12 + 1, 10)
    assert set(packed.span(0, 1_000)[values.mask].tolist()) == {10**12 + 1}
    assert isinstance(coded, CodedArray)
    assert coded.entries.tolist() == [0.0]
    assert isinstance(zeros, PackedArray)
    assert (zeros.base, zeros.bits) == (0, 1)
    reference.read_part(tmp_path / "a.urec")
    assert unirecord.verify(tmp_path / "a.urec").ok
    with unirecord.UniRecordDataset(tmp_path / "a.urec") as ds:
        assert ds["n"].data[0] == 0
        assert ds["n"].tolist() == values.tolist()
        (batch,) = ds.batches(1_000)
        assert batch["n"].data[0] == 0
        assert batch["n"].tolist() == values.tolist()
        assert ds["x"].tolist() == [None] * 1_000
        assert [ds[i]["n"] for i in range(9)] == values.tolist()[:9]


# What a hostile index may say of a dictionary.


@pytest.fixture
def small(tmp_path: Path) -> Path:
    data = {name: columns(200)[name] for name in ("float64", "signed", "narrow")}
    types = {name: values.dtype.name for name, values in data.items()}
    with unirecord.Writer(tmp_path / "a.urec", types) as writer:
        writer.write_batch(data)
    return tmp_path / "a.urec"


def damage(part: Path, change: Callable[[bytearray], None]) -> None:
    """Changes the index, and puts the right digests over it."""
    index = bytearray(Path(f"{part}.idx").read_bytes())
    change(index)
    reseal.index(index, part.read_bytes())
    Path(f"{part}.idx").write_bytes(index)


def put(kind: int, column: int, at: int, value: int, width: int) -> Callable[[bytearray], None]:
    """Writes into the directory entry of a section."""

    def change(index: bytearray) -> None:
        place = reseal.entry_of(index, kind, column) + at
        index[place : place + width] = value.to_bytes(width, "little")

    return change


def far_code(index: bytearray) -> None:
    """Gives the first row of column 1 the greatest code that its bits have."""
    at = reseal.entry_of(index, layout.SECTION_CODES, 1)
    offset, width = struct.unpack_from("<Q", index, at + 8)[0], struct.unpack_from("<H", index, at + 40)[0]
    assert width == 3
    index[offset] |= 7


LIES: dict[str, Callable[[bytearray], None]] = {
    "a code without an entry": far_code,
    "a base": put(layout.SECTION_CODES, 1, 32, 1, 8),
    "another width of codes": put(layout.SECTION_CODES, 1, 4, 8, 4),
    "bits of 0": put(layout.SECTION_CODES, 1, 40, 0, 2),
    "a width of an entry": put(layout.SECTION_DICTIONARY_ENTRIES, 1, 4, 4, 4),
    "no entry": put(layout.SECTION_DICTIONARY_ENTRIES, 1, 24, 0, 8),
    "an entry less": put(layout.SECTION_DICTIONARY_ENTRIES, 1, 24, 4, 8),
    "an entry more": put(layout.SECTION_DICTIONARY_ENTRIES, 1, 24, 6, 8),
    "an entry packed": put(layout.SECTION_DICTIONARY_ENTRIES, 1, 40, 3, 2),
    "a dictionary of another column": put(layout.SECTION_DICTIONARY_ENTRIES, 1, 2, 2, 2),
    "values of another kind": put(layout.SECTION_CODES, 1, 0, layout.SECTION_VALUES, 2),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_dictionary_that_cannot_be_is_refused(small: Path, lie: str) -> None:
    damage(small, LIES[lie])
    for read in (
        lambda ds: [ds[i] for i in range(len(ds))],
        lambda ds: list(ds.batches(64)),
        lambda ds: ds["signed"],
        lambda ds: ds.to_arrow(),
    ):
        with pytest.raises((CorruptionError, FormatError)), unirecord.UniRecordDataset(small) as ds:
            read(ds)
    assert not unirecord.verify(small).ok
    unirecord.repair(small)
    assert unirecord.verify(small).ok


def test_a_code_without_an_entry_is_named_by_row_and_column(small: Path) -> None:
    damage(small, far_code)
    with unirecord.UniRecordDataset(small) as ds:
        for read in (lambda: ds[0], lambda: ds.read_rows(np.arange(3)[::-1].copy())):
            with pytest.raises(CorruptionError, match=r"row 0.*'signed'.*code 7 has no entry"):
                read()
        assert ds[1]["narrow"] == columns(200)["narrow"][1]


def test_queries_do_not_read_beyond_a_dictionary(small: Path) -> None:
    damage(small, far_code)
    parts = PartSet(resolve(small))
    for text in ("signed == 5", "not signed == 5", "signed > narrow", "signed * 2 > 7"):
        try:
            found = compile_query(text, parts.schema).rows(parts)
        except CorruptionError:
            continue
        assert set(found.tolist()) <= set(range(200))


@pytest.mark.parametrize("column", [0, 1])
def test_other_entries_and_codes_are_found_by_verify(small: Path, column: int) -> None:
    before = Path(f"{small}.idx").read_bytes()

    def other_bit(kind: int) -> Callable[[bytearray], None]:
        def change(index: bytearray) -> None:
            index[struct.unpack_from("<Q", index, reseal.entry_of(index, kind, column) + 8)[0]] ^= 1

        return change

    for kind in (layout.SECTION_CODES, layout.SECTION_DICTIONARY_ENTRIES):
        damage(small, other_bit(kind))
        assert not unirecord.verify(small).ok
        Path(f"{small}.idx").write_bytes(before)


def test_an_index_may_have_a_dictionary_or_not(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both say the same of one data file, and a scalar page that is damaged is made again from either."""
    before = Path(f"{small}.idx").read_bytes()
    monkeypatch.setattr(index_file, "MAX_DISTINCT", 0)
    Path(f"{small}.idx").unlink()
    unirecord.repair(small)
    assert Path(f"{small}.idx").read_bytes() != before
    reference.read_part(small)
    assert unirecord.verify(small).ok
    monkeypatch.undo()
    assert unirecord.verify(small).ok
    content = bytearray(small.read_bytes())
    page = next(at for at, kind, _ in reseal.pages(content) if kind == 1)
    content[page + 70] ^= 1
    for number, index in enumerate((before, Path(f"{small}.idx").read_bytes())):
        damaged = tmp_path / f"{number}.urec"
        damaged.write_bytes(content)
        Path(f"{damaged}.idx").write_bytes(index)
        assert not unirecord.verify(damaged).ok
        with unirecord.UniRecordDataset(damaged) as ds:
            assert bits(ds["float64"]) == bits(columns(200)["float64"])


def test_a_packed_code_is_read_at_any_place() -> None:
    codes, entries = np.random.default_rng(0).integers(0, 5, 999), np.array([1.5, -0.0, np.nan, 2.5, 7.0])
    coded = CodedArray(PackedArray(pack_numbers(codes, 3, 0), np.uint8, 999, 3, 0), entries, "x.idx")
    plain = CodedArray(codes.astype(np.uint8), entries, "x.idx")
    for array in (coded, plain):
        assert bits(array.span(10, 400)) == bits(entries[codes[10:400]])
        assert bits(array.at(np.array([998, 0, 7]))) == bits(entries[codes[[998, 0, 7]]])
        assert bits(np.float64(array.one(3))) == bits(entries[codes[3]])
    for wrong in (
        CodedArray(np.array([5], np.uint8), entries, "x.idx"),
        CodedArray(np.array([0], np.uint8), entries[:0], "x.idx"),
    ):
        with pytest.raises(CorruptionError, match="has no entry"):
            wrong.span(0, 1)
