"""Look-ups of columns: what they hold, that keys are found by them, by how few requests, and what damage does."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import reseal
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from objectstore import Server, serving
from reference import read_part

import unirecord
from unirecord import CorruptionError, QueryError, UniRecordDataset, Writer
from unirecord.cli import main
from unirecord.format import look_up
from unirecord.format.look_up import LookUp, entries_of, hash_of, in_order
from unirecord.query import keys
from unirecord.query.columns import Vector
from unirecord.storage import object_store
from unirecord.storage.pacing import Durations
from unirecord.storage.staged import StagedFile
from unirecord.writing import index_file

LOOK_UP = 0x8001


@pytest.fixture
def also_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "LEAST_ROWS", 50)


def place_in(index: bytes, column: int) -> tuple[int, int] | None:
    """Where an index has the look-up of a column, and of how many bytes."""
    try:
        at = reseal.entry_of(index, LOOK_UP, column)
    except AssertionError:
        return None
    offset, size = struct.unpack_from("<QQ", index, at + 8)
    return offset, size


def look_up_in(path: Path, column: int) -> list[int] | None:
    index = Path(f"{path}.idx").read_bytes()
    place = place_in(index, column)
    return None if place is None else list(struct.unpack_from(f"<{place[1] // 8}Q", index, place[0]))


def expected(values: list[bytes | None]) -> list[int]:
    bits = max((len(values) - 1).bit_length(), 1)
    return sorted(
        xxhash.xxh3_64_intdigest(value) >> bits << bits | row
        for row, value in enumerate(values)
        if value is not None
    )


@pytest.mark.usefixtures("also_of_few_rows")
def test_a_look_up_has_the_rows_by_the_hashes_of_their_values(tmp_path: Path) -> None:
    r, path, rows = np.random.default_rng(0), tmp_path / "x.urec", 3_000
    floats = np.where(np.arange(rows) % 10 == 0, np.nan, r.random(rows) - 0.5)
    floats[:2] = 0.0, -0.0
    floats.view(np.uint64)[10] = 0xFFF8_0000_0000_0001  # another NaN
    ints = [None if n % 5 == 0 else n * 7 - 900 for n in r.permutation(rows).tolist()]
    names = [None if n % 7 == 0 else f"é{n}" for n in r.permutation(rows).tolist()]
    index = ["f", "i", "s", "few", "half", "b"]
    schema = {
        "f": "float64",
        "i": "int32?",
        "s": "string?",
        "few": "int64",
        "half": "string",
        "b": "bool",
        "no": "int64",
    }
    with Writer(path, schema, index=index) as writer:
        writer.write_batch({
            "f": floats, "i": ints, "s": names, "few": np.arange(rows) % 100, "b": np.arange(rows) % 2 == 0,
            "half": [str(n // 2) for n in range(rows)], "no": np.arange(rows),
        })  # fmt: skip
    for column, values in enumerate([
        [struct.pack("<d", value + 0.0 if value == value else np.nan) for value in floats.tolist()],
        [None if i is None else struct.pack("<i", i) for i in ints],
        [None if name is None else name.encode() for name in names],
    ]):  # fmt: skip
        assert look_up_in(path, column) == expected(values)
    assert [look_up_in(path, column) for column in range(3, 7)] == [
        None
    ] * 4  # no values of their own, or no index
    read_part(path)  # by another reader, which compares them
    assert unirecord.verify(path).ok
    ds = UniRecordDataset(path)
    for row in range(0, rows, 11):
        for name, value in (("i", ints[row]), ("s", names[row]), ("f", floats[row])):
            if value is not None and value == value and not (name == "f" and row < 2):
                assert ds.get(name, value)["no"] == row
    with pytest.raises(QueryError, match="2 rows"):
        ds.get("f", -0.0)
    for name, value in (("i", 10**30), ("i", 2), ("i", 0.5), ("s", ""), ("f", 1e300), ("f", float("inf"))):
        assert ds.get(name, value, None) is None


def test_parts_of_few_rows_have_none(tmp_path: Path) -> None:
    for rows, there in ((look_up.LEAST_ROWS, False), (look_up.LEAST_ROWS + 1, True)):
        path = tmp_path / f"{rows}.urec"
        with Writer(path, {"n": "int32"}, index=["n"]) as writer:
            writer.write_batch({"n": np.arange(rows, dtype=np.int32)})
        assert (look_up_in(path, 0) is not None) == there


Entries = list[tuple[int, int]]
HASHES = st.one_of(
    st.lists(st.integers(0, 2**64 - 1), max_size=300),
    st.lists(st.sampled_from([0, 1, 7 << 40, 2**63, 2**64 - 1]), max_size=300),
    st.lists(st.integers(2**50, 2**50 + 2**12), max_size=300),
)


@given(HASHES, st.integers(1, 40), st.integers(1, 50))
@settings(max_examples=300, deadline=None)
def test_entries_are_put_in_order_however_their_hashes_fall(
    hashes: list[int], limit: int, chunk: int
) -> None:
    every = entries_of(np.array(hashes, np.uint64), np.arange(len(hashes)), len(hashes))
    runs = list(
        in_order(
            lambda: (every[start : start + chunk] for start in range(0, len(every), chunk)), len(every), limit
        )
    )
    assert [int(one) for run in runs for one in run] == sorted(every.tolist())
    assert all(0 < len(run) <= limit for run in runs)


@given(HASHES, st.integers(0, 2**64 - 1))
@settings(max_examples=500, deadline=None)
def test_all_rows_of_a_hash_are_found_however_hashes_fall(hashes: list[int], other: int) -> None:
    rows = len(hashes)
    entries = np.sort(entries_of(np.array(hashes, np.uint64), np.arange(rows), rows))
    found = LookUp(Vector(entries), rows)
    bits = max((rows - 1).bit_length(), 1)
    for wanted in {*hashes, other}:
        alike = [row for row, one in enumerate(hashes) if one >> bits == wanted >> bits]
        assert found.rows(wanted) == alike


def test_a_hash_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a million random hashes none is farther from its place than is read: one span, of about 6 sqrt(n) entries."""
    hashes = np.random.default_rng(1).integers(0, 2**64, 1_000_000, np.uint64)
    entries, spans = np.sort(entries_of(hashes, np.arange(1_000_000), 1_000_000)), []

    class Spans(Vector):
        def span(self, start: int, stop: int) -> Any:
            spans.append(stop - start)
            return super().span(start, stop)

        def one(self, place: int) -> Any:
            raise AssertionError(place)

    found = LookUp(Spans(entries), 1_000_000)
    for row in range(0, 1_000_000, 97):
        assert row in found.rows(int(hashes[row]))
    assert max(spans) <= 6 * 1001
    assert len(spans) == len(range(0, 1_000_000, 97))


@pytest.mark.parametrize("dtype", ["<i1", "<u2", "<i8", "<u8", "<f2", "<f4", "<f8"])
def test_the_hash_of_a_key_is_that_of_the_value(dtype: str) -> None:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values: list[Any] = [0.0, -0.0, 1.5, -2.25, float("inf"), 1e300, 0.1, 2**-1080]
    else:
        values = [0, 1, -1, 127, 128, 65_535, 65_536, -(2**63), 2**63, 2**64 - 1, 2**64]
    for value in values:
        with np.errstate(over="ignore"):
            there = float(np.array(value, kind)) == value if kind.kind == "f" else _fits(value, kind)
        stored = np.array([value + 0.0 if kind.kind == "f" else value], kind).tobytes() if there else b""
        assert hash_of(value, kind) == (xxhash.xxh3_64_intdigest(stored) if there else None)


def _fits(value: int, kind: np.dtype[Any]) -> bool:
    limits = np.iinfo(cast("Any", kind))
    return int(limits.min) <= value <= int(limits.max)


# Where the part lies in an object store: how many requests a key takes.


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    (tmp_path / "bucket").mkdir()
    monkeypatch.setattr(object_store, "_stores", {})
    monkeypatch.setattr(Durations, "long", lambda *_: 3_600.0)  # no request is made twice for being late
    with serving(tmp_path) as server:
        server.set_environment(monkeypatch)
        yield server


SCHEMA = {"path": "string", "n": "int64", "x": "bytes"}
OF: dict[str, Any] = {"path": "img_{:07}.jpg".format, "n": int}


def write(path: Path, numbers: Any) -> None:
    x = np.empty(len(numbers), object)
    x[:] = [b"%d" % i for i in numbers]
    opened = unirecord.append(path) if path.is_dir() else Writer(path, SCHEMA, index=["path", "n"])
    with opened as writer:
        writer.write_batch({"path": [OF["path"](i) for i in numbers], "n": numbers, "x": x})


def requests(server: Server, ds: Any, name: str, key: int, there: bool = True) -> int:
    server.requests.clear()
    found = ds.get(name, OF[name](key), None)
    assert (found is not None and found["x"] == b"%d" % key) if there else found is None
    return len(server.requests)


def in_the_index(server: Server) -> int:
    return sum(request.key.endswith(".idx") for request in server.requests)


@pytest.fixture
def only_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index is short enough to be fetched whole."""
    monkeypatch.setattr(keys, "_SMALL", 0)
    monkeypatch.setattr(keys, "_FOUND", 0)
    monkeypatch.setattr(keys, "_LOOK", 0)


@pytest.mark.usefixtures("only_looked_up")
@pytest.mark.parametrize("count", [70_000, 400_000])
def test_the_first_key_takes_two_requests_more_than_its_row_at_most_however_many_rows_there_are(
    server: Server, tmp_path: Path, count: int
) -> None:
    order = np.random.default_rng(1).permutation(count)
    write(tmp_path / "bucket" / "keys.urec", order)
    for name in OF:
        for key in (count // 3, 17, count - 1):
            row = int(np.flatnonzero(order == key)[0])
            with UniRecordDataset("s3://bucket/keys.urec") as ds:
                server.requests.clear()
                assert ds[row]["x"] == b"%d" % key
                of_row = len(server.requests)
            with UniRecordDataset("s3://bucket/keys.urec") as ds:
                # one finds it; the value itself, which is compared, comes before the rest of the row, not with it
                assert requests(server, ds, name, key) <= of_row + 2 <= 12
        with UniRecordDataset("s3://bucket/keys.urec") as ds:
            assert (
                requests(server, ds, name, count, there=False) == 3
            )  # the ends of two files, and the look-up
            assert requests(server, ds, name, count + 1, there=False) <= 1


def test_keys_have_the_whole_index_fetched_when_they_have_taken_as_long(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 100_000
    write(tmp_path / "bucket" / "keys.urec", np.random.default_rng(1).permutation(count))
    for found, first in ((8 << 20, 0), (2 << 20, 2), (1 << 20, 4)):  # of 5.1 MB
        monkeypatch.setattr(keys, "_SMALL", 0)
        monkeypatch.setattr(keys, "_FOUND", found)
        with UniRecordDataset("s3://bucket/keys.urec") as ds:
            taken = [requests(server, ds, "path", key) for key in range(17, count, 9_000)]
            assert taken[0] == 5 if not first else taken[0] <= 11  # two ends, two of the index, and the row
            assert taken[first + 1 :] == [1] * len(taken[first + 1 :])
            assert not first or taken[first] > 1
            assert requests(server, ds, "path", count, there=False) == 0


def test_each_of_many_parts_takes_one_request_for_a_key(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, rows = 6, 30_000
    monkeypatch.setattr(index_file, "LEAST_ROWS", 1_000)
    monkeypatch.setattr(keys, "_SMALL", 0)
    monkeypatch.setattr(keys, "_LOOK", 0)
    order = np.random.default_rng(1).permutation(parts * rows)
    for part in range(parts):
        write(tmp_path / "bucket" / "several", order[part * rows : (part + 1) * rows])
    middle = parts * rows // 2
    with UniRecordDataset("s3://bucket/several") as ds:
        server.requests.clear()
        assert ds.get("path", "a", None) is None
        assert len(server.requests) <= 5 * parts  # heads, ends, and statistics
        # of each part the look-up; of the one that has it also its index, where that is not here yet, and the row
        for number in range(parts):
            assert requests(server, ds, "path", middle + number) <= parts + 12
        server.requests.clear()
        assert ds.get("path", OF["path"](middle) + "a", None) is None
        assert len(server.requests) < parts  # of those whose index is here, none
    monkeypatch.setattr(keys, "_LOOK", rows * 8 // 3 + 1)
    with UniRecordDataset("s3://bucket/several") as ds:
        taken = []
        for number in range(5):
            server.requests.clear()
            assert ds.get("path", OF["path"](middle + number) + "a", None) is None
            taken.append(len(server.requests))
        assert taken[0] <= 6 * parts
        assert max(taken[1:3]) <= 4 * parts  # the third brings the rest of each
        assert taken[3:] == [0, 0]


# What is wrong in it.


def forged(path: Path, column: int, change: Any) -> bytes:
    """Puts an index whose look-up is changed in place, with right digests, and gives the right one."""
    index = Path(f"{path}.idx").read_bytes()
    place = place_in(index, column)
    assert place is not None
    other = bytearray(index)
    change(other, *place)
    reseal.index(other, path.read_bytes())
    Path(f"{path}.idx").write_bytes(other)
    return index


def with_rows_beyond(index: bytearray, offset: int, size: int) -> None:
    for at in range(offset, offset + size, 8):
        index[at : at + 2] = b"\xff\xff"  # of 3,000 rows, 12 bits are their number


def with_zeros(index: bytearray, offset: int, size: int) -> None:
    index[offset : offset + size] = bytes(size)


def with_ones(index: bytearray, offset: int, size: int) -> None:
    index[offset : offset + size] = b"\xff" * size


def backwards(index: bytearray, offset: int, size: int) -> None:
    entries = np.frombuffer(bytes(index[offset : offset + size]), "<u8")
    index[offset : offset + size] = entries[::-1].tobytes()


@pytest.mark.usefixtures("also_of_few_rows")
@pytest.mark.parametrize("change", [with_rows_beyond, with_zeros, with_ones, backwards])
def test_a_look_up_that_is_not_that_of_the_data_is_found_and_repaired(
    tmp_path: Path, change: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.urec"
    write(path, np.arange(3_000))
    right = forged(path, 1, change)
    with UniRecordDataset(path) as ds:
        assert ds[7]["n"] == 7
        errors = set()
        for key in range(-50, 3_050):  # a right row, none, or the error
            try:
                assert ds.get("n", key, {"n": key})["n"] == key
            except CorruptionError as error:
                errors.add(str(error))
        assert ds.get("path", OF["path"](9))["n"] == 9
    assert not unirecord.verify(path).ok
    said = f"{path}.idx, column 'n': its look-up names a row that does not exist; run `unirecord repair {path}` to "
    assert all(error.startswith(said) for error in errors)
    assert bool(errors) == (change is with_rows_beyond)
    for key in (7, 2_999):
        assert main(["inspect", str(path), "--key", f"n={key}"]) in (0, 1)
    assert "Traceback" not in "".join(capsys.readouterr())
    assert unirecord.repair(path).ok
    assert unirecord.verify(path).ok
    assert Path(f"{path}.idx").read_bytes() == right


def test_a_damaged_block_is_an_error_of_the_keys_that_need_it(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "bucket" / "x.urec"
    write(path, np.arange(70_000))
    index = bytearray(Path(f"{path}.idx").read_bytes())
    place = place_in(bytes(index), 1)
    assert place is not None
    index[place[0] + 4] ^= 1  # the entries of the least hashes
    Path(f"{path}.idx").write_bytes(index)
    by_hash = sorted(range(70_000), key=lambda n: xxhash.xxh3_64_intdigest(struct.pack("<q", n)))
    for where in (path, "s3://bucket/x.urec"):
        with UniRecordDataset(where) as ds:
            with pytest.raises(CorruptionError, match="index block"):
                ds.get("n", by_hash[0])
            assert ds.get("n", by_hash[-1])["n"] == by_hash[-1]
            assert ds.get("path", OF["path"](by_hash[0]))["n"] == by_hash[0]


@pytest.mark.usefixtures("also_of_few_rows")
def test_a_look_up_of_another_width_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.urec"
    write(path, np.arange(3_000))
    index = bytearray(Path(f"{path}.idx").read_bytes())
    at = reseal.entry_of(index, LOOK_UP, 1)
    struct.pack_into("<I", index, at + 4, 4)
    struct.pack_into("<Q", index, at + 24, 2 * 3_000)
    with_zeros(index, *cast("tuple[int, int]", place_in(bytes(index), 1)))
    reseal.index(index, path.read_bytes())
    Path(f"{path}.idx").write_bytes(index)
    with UniRecordDataset(path) as ds:
        assert ds.get("n", 2_222)["n"] == 2_222


def test_a_look_up_of_any_column_is_good_and_compared(tmp_path: Path) -> None:
    """As other writers may have them: of few values, in a dictionary, nulls among them, of columns without an order."""
    path, rows = tmp_path / "x.urec", 2_000
    names = [None if n % 3 == 0 else f"v{n % 7}" for n in range(rows)]
    numbers = [None if n % 4 == 0 else n % 50 * 10_000_000_000 for n in range(rows)]
    with Writer(
        path, {"s": "string?", "i": "int64?", "none": "string?", "n": "int64"}, index=["s"]
    ) as writer:
        writer.write_batch({"s": names, "i": numbers, "none": [None] * rows, "n": np.arange(rows)})
    out = StagedFile(f"{path}.idx")
    index_file.build_index(str(path), out, look_ups=[0, 1, 2])
    out.publish()
    assert look_up_in(path, 0) == expected([None if name is None else name.encode() for name in names])
    assert look_up_in(path, 1) == expected([None if n is None else struct.pack("<q", n) for n in numbers])
    assert look_up_in(path, 2) == []
    read_part(path)
    assert unirecord.verify(path).ok
    with UniRecordDataset(path) as ds:
        for name, values in (("s", names), ("i", numbers)):
            known = keys.keys_of(ds.read_cursor.plan.data.parts, name)
            for value in {*values} - {None}:
                assert known.rows(value) == [row for row, one in enumerate(values) if one == value]
        assert ds.get("none", "x", None) is None
    forged(path, 0, with_zeros)
    assert not unirecord.verify(path).ok


@pytest.mark.usefixtures("also_of_few_rows")
def test_what_has_been_corrected_is_looked_up_as_it_is_now(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for part in range(2):
        write(folder, np.arange(1_000) + part * 1_000)
    unirecord.set_values(folder, rows=[17], values={"n": 5_017, "path": "new.jpg"})
    unirecord.delete(folder, where="n == 1500")
    with UniRecordDataset(folder) as ds:
        assert ds.get("n", 5_017)["path"] == "new.jpg"
        assert ds.get("path", "new.jpg")["n"] == 5_017
        assert (
            ds.get("n", 17, None) is ds.get("path", OF["path"](17), None) is ds.get("n", 1_500, None) is None
        )
        assert [ds.get("n", n)["n"] for n in (0, 16, 18, 1_499, 1_999)] == [0, 16, 18, 1_499, 1_999]
    unirecord.compact(folder)
    with UniRecordDataset(folder) as ds:
        assert ds.get("n", 5_017)["path"] == "new.jpg"
