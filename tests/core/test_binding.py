"""The binding: the core's errors as the right exceptions with the place in them, handles freed, wrong calls refused."""

from __future__ import annotations

import gc
import os
import resource
import struct
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reseal
from process_counts import counters

from unirecord import (
    ClosedError,
    CorruptionError,
    FormatError,
    MissingError,
    SchemaError,
    StaleError,
    UniRecordDataset,
    UniRecordError,
    Writer,
)
from unirecord.core import (
    BatchPool,
    Digesting,
    NativeSet,
    Order,
    RowOutput,
    RowReader,
    append,
    digest_ranges,
    xxh3_64,
    xxh3_128,
)
from unirecord.core.library import Failure, lib, raise_failure
from unirecord.order.spec import OrderSpec

PATHS = ("set/a.urec", "set/b.urec")
NAMES = ("x", "image")


def raised(status: int, **place: Any) -> BaseException:
    fields: dict[str, Any] = {
        "reason": 0, "errno": 0,
        "in_index": False, "part": None, "row": None, "column": None, "offset": None, "what": "it is wrong",
    }  # fmt: skip
    try:
        raise_failure(Failure(status, **{**fields, **place}), PATHS, NAMES)
    except BaseException as error:
        return error


@pytest.mark.parametrize(
    ("status", "place", "kind", "parts"),
    [
        (3, {}, ValueError, ["it is wrong"]),
        (3, {"what": "row 9 is not there", "row": 9}, ValueError, ["row 9 is not there"]),
        (3, {"reason": lib.UR_REASON_ROW, "row": 9}, IndexError, ["it is wrong"]),
        (3, {"reason": lib.UR_REASON_SCHEMA, "part": 1}, SchemaError, ["set/b.urec: it is wrong"]),
        (4, {"part": 0}, MissingError, ["set/a.urec: this part does not exist", "check the path"]),
        (4, {"part": 0, "in_index": True}, MissingError, ["set/a.urec.idx", "unirecord repair set/a.urec"]),
        (5, {"part": 0}, FormatError, ["set/a.urec: it is wrong", "only files made by UniRecord"]),
        (5, {"part": 0, "reason": lib.UR_REASON_NEWER}, FormatError, ["upgrade unirecord"]),
        (5, {"part": 0, "reason": lib.UR_REASON_UNFINISHED}, FormatError, ["unirecord repair set/a.urec"]),
        (
            6,
            {"part": 1, "row": 7, "column": 1, "offset": 640},
            CorruptionError,
            ["set/b.urec, row 7, column 'image', at byte 640: it is wrong", "unirecord verify set/b.urec"],
        ),
        (
            6,
            {"part": 1, "in_index": True},
            CorruptionError,
            ["set/b.urec.idx", "repair set/b.urec`", "index"],
        ),
        (7, {"part": 1}, StaleError, ["set/b.urec", "open the dataset again"]),
        (7, {"part": 1, "what": "this is another part"}, StaleError, ["open the dataset again"]),
        (7, {"part": 1, "reason": lib.UR_REASON_OTHER_PART}, StaleError, ["put the right file back"]),
        (
            7,
            {"part": 1, "reason": lib.UR_REASON_OTHER_PART, "in_index": True},
            StaleError,
            ["put the index of set/b.urec back"],
        ),
        (
            7,
            {"part": 1, "reason": lib.UR_REASON_OTHER_CONTENT},
            StaleError,
            ["repair set/b.urec` to rebuild it from"],
        ),
        (8, {"part": 1, "errno": 5}, OSError, ["Input/output error", "set/b.urec"]),
        (9, {}, MemoryError, ["it is wrong"]),
        (10, {}, ClosedError, ["has been closed"]),
        (99, {"part": 0}, UniRecordError, ["set/a.urec: it is wrong"]),
        (6, {"part": 5, "column": 7}, CorruptionError, ["the dataset: it is wrong"]),  # a place that is none
    ],
)
def test_errors_say_where_and_what_to_do(
    status: int, place: dict[str, Any], kind: type, parts: list[str]
) -> None:
    error = raised(status, **place)
    assert type(error) is kind
    for part in parts:
        assert part in str(error)


def test_a_corruption_carries_its_place() -> None:
    error = raised(6, part=1, row=7, column=1, offset=640)
    assert isinstance(error, CorruptionError)
    assert (error.path, error.row, error.column, error.offset) == ("set/b.urec", 7, "image", 640)


def test_a_failed_system_call_keeps_its_number() -> None:
    error = raised(8, part=0, errno=28)
    assert isinstance(error, OSError)
    assert (error.errno, error.filename) == (28, "set/a.urec")


def made(folder: Path, rows: int = 50) -> Path:
    path = folder / "a.urec"
    with Writer(path, {"x": "int32", "v": {"type": "uint8", "shape": [8]}, "image": "bytes"}) as writer:
        for i in range(rows):
            writer.write({"x": i, "v": np.full(8, i % 256, np.uint8), "image": bytes(i % 64)})
    return path


def opened(path: Path, **options: str) -> NativeSet:
    given = {"io": "auto", "verify": "first", **options}
    return NativeSet([(str(path), None, -1, None)], names=("x", "v", "image"), **given)


def test_parts_are_found_by_paths_of_any_text_and_known_by_their_own_ids(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "\u00e9\u20ac", os.fsdecode(b"\xff"))]
    for folder in folders:
        folder.mkdir()
    paths = [str(made(folder, 3)) for folder in folders]
    found = [NativeSet([(path, None, -1, None)], "auto", "first").part(0) for path in paths]
    ids, contents = [part.id for part in found], [part.content_digest for part in found]
    wanted = list(
        zip(paths, [ids[0], None, ids[2]], [3, -1, 3], [None, contents[1], contents[2]], strict=True)
    )
    parts = NativeSet(wanted, "auto", "first")
    assert [parts.part(number).id for number in range(3)] == ids
    for wrong in ((paths[1], ids[2], 3, None), (paths[1], None, -1, contents[2])):
        wanted[1] = wrong
        with pytest.raises(StaleError, match="\u00e9\u20ac"):
            NativeSet(wanted, "auto", "first").part(1)


def test_a_path_with_a_zero_byte_is_refused(tmp_path: Path) -> None:
    path = str(made(tmp_path, 3))
    with pytest.raises(ValueError, match="zero byte"):
        NativeSet([(path + "\0", None, 3, None)], "auto", "first")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("io", ["mmap", "pread", "uring", "uring-direct", "memory"])
def test_handles_that_are_dropped_give_everything_back(tmp_path: Path, io: str) -> None:
    path = made(tmp_path, 4000)  # an index that is mapped
    before = None
    for turn in range(20):
        parts = opened(path, io=io)
        reader = RowReader(parts, [RowOutput("x", 0, 4, False), RowOutput("v", 1, 8, False, (8,))])
        sample = reader.read(7)
        assert (sample["x"], sample["v"].tobytes()) == (b"\7\0\0\0", b"\7" * 8)
        part = parts.part(0)
        assert part.metadata()
        del parts, part, reader
        if turn == 5:
            before = descriptors(), mappings()
    assert (descriptors(), mappings()) <= (before[0], before[1] + 3)  # type: ignore[index]


def test_numbers_of_one_row_are_not_those_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "n.urec"
    with Writer(path, {"x": "int32", "n": "float16?", "ok": "bool"}) as writer:
        for row in range(6):
            writer.write({"x": row, "n": None if row % 3 == 1 else row / 2, "ok": row % 2 == 0})
    outputs = [
        RowOutput("x", 0, 4, False, dtype=np.int32, scalar=True),
        RowOutput("n", 1, 2, True, dtype=np.float16, scalar=True),
        RowOutput("ok", 2, 1, False, dtype=np.bool_, scalar=True),
    ]
    reader = RowReader(opened(path), outputs)
    samples = [reader.read(row) for row in range(6)]
    for row, sample in enumerate(samples):
        number = None if row % 3 == 1 else np.float16(row / 2)
        assert sample == {"x": np.int32(row), "n": number, "ok": np.bool_(row % 2 == 0)}
        wanted = (np.int32, type(number), np.bool_)
        assert tuple(type(value) for value in sample.values()) == wanted


@pytest.mark.parametrize("size", [1, 64, 4096, 4097, 10_000])
def test_arrays_of_one_row_are_its_own_whatever_their_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.urec"
    given = [np.full((2, size), row, np.uint8) for row in range(4)]
    with Writer(path, {"a": {"type": "uint8?", "shape": [2, size]}}) as writer:
        for array in (*given, None):
            writer.write({"a": array})
    dataset = UniRecordDataset(path)
    samples = [dataset[row]["a"] for row in range(5)]
    assert samples.pop() is None
    for array, wanted in zip(samples, given, strict=True):
        assert np.array_equal(array, wanted)
        assert array.flags.c_contiguous
        assert array.flags.owndata
        array[:] = 9  # no other's, and not what the next row is read into
    assert np.array_equal(dataset[1]["a"], given[1])
    assert samples[0].dtype == np.uint8


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count(".urec")


def test_a_packed_section_is_no_array_of_its_numbers(tmp_path: Path) -> None:
    part = opened(made(tmp_path)).part(0)
    section = part.section(5, 0)
    assert section is not None
    assert section.bits == 6
    with pytest.raises(ValueError, match="6 bits an element is no array of int32"):
        part.array(section, np.int32)
    assert len(part.array(section, np.uint8)) == section.bytes


def test_a_view_keeps_the_part_that_it_looks_into(tmp_path: Path) -> None:
    parts = opened(made(tmp_path))
    part = parts.part(0)
    section = part.section(3, 2)
    assert section is not None
    values = part.array(section, np.uint8)
    handle = weakref.ref(part.handle)
    parts.close()
    del parts, part, section
    gc.collect()
    assert handle() is not None
    assert values.tolist() == list(range(50))
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 1
    del values
    gc.collect()
    assert handle() is None


def test_wrong_calls_are_refused(tmp_path: Path) -> None:
    parts = opened(made(tmp_path))
    reader = RowReader(parts, [RowOutput("x", 0, 4, False)])
    for row in (-1, 50, 2**62):
        with pytest.raises(IndexError, match=str(row)):
            reader.read(row)
    for column in (-1, 3, 2**31 - 1):
        wrong = RowReader(parts, [RowOutput("x", column, 4, False)])
        with pytest.raises(ValueError, match=f"column {column} is not in"):
            wrong.read(0)
    with pytest.raises(ValueError, match="part 1 is not in"):
        parts.part(1)
    part = parts.part(0)
    assert part.section(99, 0) is None
    section = part.section(5, 0)
    assert section is not None
    with pytest.raises(CorruptionError, match="its numbers lead to bytes"):
        part.check(section, 0, section.bytes + 1)
    for row, column in ((0, 0), (50, 2), (-1, 2), (0, 9)):
        with pytest.raises(ValueError, match="no blob of this part"):
            part.locate(row, column)
    with pytest.raises(KeyError):
        opened(tmp_path / "a.urec", io="tape")
    with pytest.raises(ValueError, match="range"):
        digest_ranges(b"abc", np.array([2], np.uint64), np.array([2], np.uint64), 0, 0)
    with pytest.raises(ValueError, match="range"):
        Digesting.of_ranges(b"abc", np.array([2], np.uint64), np.array([2], np.uint64), 0, 0)
    with pytest.raises(ValueError, match="cannot hold batches"):
        BatchPool(1).lend(np.empty(16, np.uint8))
    with pytest.raises(ValueError, match="rows"):
        Order(10, OrderSpec.parse("parts", 0, 0, 1, 1), [3, 3])


def test_a_closed_set_says_so(tmp_path: Path) -> None:
    parts = opened(made(tmp_path))
    parts.close()
    reader = RowReader(parts, [RowOutput("x", 0, 4, False)])
    with pytest.raises(ClosedError):
        reader.read(0)
    with pytest.raises(ClosedError):
        parts.part(0)
    parts.advise(np.array([0], np.int64))  # a hint that comes too late is none


def test_digests_of_ranges_are_those_of_the_pieces() -> None:
    data = bytes(range(256)) * 9
    starts, lengths = np.array([0, 5, 2000], np.uint64), np.array([240, 0, 304], np.uint64)
    found = digest_ranges(data, starts, lengths, 11, 3).tolist()
    assert found == [
        xxh3_64(data[s : s + n], 11 + 3 * i) for i, (s, n) in enumerate(zip(starts, lengths, strict=True))
    ]


@pytest.mark.parametrize("size", [0, 10, 1_000_000])  # at once, and on a thread
def test_digests_computed_meanwhile_are_the_same(size: int) -> None:
    cells = [bytes([n]) * (size + n) for n in range(5)]
    data, lengths = b"".join(cells), np.array([len(cell) for cell in cells], np.uint64)
    starts = np.cumsum(lengths) - lengths
    expected = (
        [xxh3_64(cell, 11 + 3 * i) for i, cell in enumerate(cells)],
        b"".join(xxh3_128(cell, 11 + 3 * i) for i, cell in enumerate(cells)),
    )

    def told(digesting: Digesting) -> tuple[list[int], bytes]:
        found, wide = digesting.digests()
        return found.tolist(), wide.tobytes()

    found = Digesting.of_ranges(data, starts, lengths, 11, 3)
    assert told(found) == told(found) == expected
    views = [memoryview(cells[0]), *cells[1:]]
    assert told(Digesting.of_cells(views, 11, 3)) == expected


def test_what_a_file_takes_is_counted_and_what_it_refuses_an_error() -> None:
    pieces = [b"12", bytearray(), memoryview(b"345"), np.arange(100_000, dtype=np.uint16)]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    taken = append(writing, pieces)
    assert 0 < taken < 200_005
    assert os.read(reading, 200_005) == b"".join(pieces)[:taken]
    append(writing, [bytes(200_000)])
    with pytest.raises(BlockingIOError):
        append(writing, pieces)
    os.close(reading)
    os.close(writing)
    with pytest.raises(OSError, match="Bad file descriptor"):
        append(-1, pieces)
    assert append(-1, []) == append(-1, [b""]) == 0


def test_digests_that_nobody_waits_for_outlive_nothing() -> None:
    for _ in range(50):
        data = np.ones(4 << 20, np.uint8)
        Digesting.of_ranges(data, np.zeros(1, np.uint64), np.array([len(data)], np.uint64), 0, 0)
        del data
    expected, data = xxh3_64(bytes(range(256)), 0), np.arange(256, dtype=np.uint8)
    asked = Digesting.of_ranges(data, np.zeros(1, np.uint64), np.array([256], np.uint64), 0, 0)
    assert asked.digests()[0].tolist() == [expected]


def refused_at_once(path: Path) -> None:
    """With a few small reads and 1 MiB of memory; the first of three also reads what Python imports then."""
    read = []
    for _ in range(3):
        tracemalloc.start()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = counters()
        with pytest.raises((FormatError, CorruptionError)):
            UniRecordDataset(path)
        read.append({name: count - before[name] for name, count in counters().items()})
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 1024
    assert min(one["syscr"] for one in read) < 40
    assert min(one["rchar"] for one in read) < 64 << 10


def small(folder: Path) -> Path:
    path = folder / "s.urec"
    with Writer(path, {"x": "int32"}) as writer:
        writer.write({"x": 1})
    return path


def refuse_changed(path: Path, data: bytearray, index: bytearray) -> None:
    reseal.data(data)
    reseal.index(index, bytes(data))
    path.write_bytes(data)
    Path(f"{path}.idx").write_bytes(index)
    refused_at_once(path)


@pytest.mark.parametrize("claimed", [0, 65534, 65535, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_small_file_that_claims_many_columns_is_refused_at_once(tmp_path: Path, claimed: int) -> None:
    path = small(tmp_path)
    data, index = bytearray(path.read_bytes()), bytearray(Path(f"{path}.idx").read_bytes())
    for changed in ("data", "index", "both"):
        other, its_index = bytearray(data), bytearray(index)
        if changed != "index":
            other[40:44] = struct.pack("<I", claimed)
        if changed != "data":
            its_index[64:68] = struct.pack("<I", claimed)
        refuse_changed(path, other, its_index)


@pytest.mark.parametrize(
    "nested", [b"\x91", b"\x81", b"\x81\xa1x", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"]
)
def test_deep_and_endless_metadata_is_refused_at_once(tmp_path: Path, nested: bytes) -> None:
    path = small(tmp_path)
    data, index = bytearray(path.read_bytes()), bytearray(Path(f"{path}.idx").read_bytes())
    size, sections = struct.unpack_from("<I", index, 72)[0], struct.unpack_from("<I", index, 68)[0]
    start = 192 + 32 + 48 * sections
    index[start : start + size] = data[160 : 160 + size] = (nested * size)[:size]
    refuse_changed(path, data, index)
