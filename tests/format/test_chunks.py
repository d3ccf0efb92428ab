"""Columns in chunks: whole values and parts of them, what is stored, what damage costs, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
import reseal
from objectstore import Server, serving
from reference import read_part

import unirecord
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify
from unirecord.snapshot.prefetch import Fetcher
from unirecord.storage import object_store
from unirecord.writing.rewrite import compact

SHAPE = (3, 50, 37)
ROWS = 6
FRAMES = [7, 0, 1, 40, 0, 5]  # of each row, along the dimension that is free
KEYS = [
    np.s_[0, 1:20, 3:9],
    np.s_[...],
    np.s_[-1],
    np.s_[1:3, ..., 4],
    np.s_[:, 49, 36],
    np.s_[0:0],
    np.s_[2, 10:50, :-1],
    np.s_[0, 0, 0],
    np.s_[np.int64(1), 16:32],
]
FRAME_KEYS = [np.s_[...], np.s_[1:, 1:6, :2], np.s_[2], np.s_[:, -1:, 1], np.s_[3, 0:0]]
RANGES = [
    np.s_[:],
    np.s_[3:50],
    np.s_[90:110],
    np.s_[-5:],
    np.s_[700:800],
    np.s_[99:100],
    np.s_[20:10],
]


def values(rows: int = ROWS) -> list[dict[str, Any]]:
    """Arrays, bytes and texts from none to several chunks, nulls among them."""
    rng = np.random.default_rng(1)
    return [
        {
            "field": None if i == 2 else rng.integers(0, 5, SHAPE).astype(np.float32),
            "blob": None if i == 3 else rng.integers(0, 4, 130 * i, np.uint8).tobytes(),
            "words": "é" * i,
            "frames": None if i == 4 else rng.integers(0, 9, (4, FRAMES[i], 3), np.int16),
            "n": i,
        }
        for i in range(rows)
    ]


def schema(chunks: list[int] | None, codec: str | None) -> dict[str, Any]:
    field: dict[str, Any] = {"type": "float32?", "shape": list(SHAPE)}
    blob: dict[str, Any] = {"type": "bytes?"}
    words: dict[str, Any] = {"type": "text"}
    frames: dict[str, Any] = {"type": "int16?", "shape": [4, -1, 3]}
    if chunks is not None:
        field["chunks"], blob["chunks"], words["chunks"] = chunks, 100, 7
        frames["chunks"] = [3, 5, 2]
    if codec is not None:
        field["codec"], blob["codec"], words["codec"], frames["codec"] = codec, "zstd", "zstd", codec
    return {"field": field, "blob": blob, "words": words, "frames": frames, "n": "int32"}


def written(path: Path, chunks: list[int] | None, codec: str | None = None) -> list[dict[str, Any]]:
    records = values()
    with unirecord.Writer(path, schema(chunks, codec)) as writer:
        for record in records:
            writer.write(record)
    return records


def same(got: Any, want: Any) -> bool:
    if isinstance(want, np.ndarray):
        return isinstance(got, np.ndarray) and got.shape == want.shape and np.array_equal(got, want)
    return bool(got == want)


@pytest.mark.parametrize(
    ("chunks", "codec"),
    list(product(([1, 16, 16], [3, 50, 37], [2, 7, 5], None), (None, "zstd", "shuffle+zstd"))),
)
def test_values_and_parts_of_them_are_those_that_were_written(
    tmp_path: Path, chunks: list[int] | None, codec: str | None
) -> None:
    """Of columns that are not cut as well."""
    records = written(tmp_path / "a.urec", chunks, codec)
    assert read_part(tmp_path / "a.urec").rows[1]["n"] == 1
    assert verify(tmp_path / "a.urec").ok
    for way in ("mmap", "pread", "uring", "memory"):
        with unirecord.UniRecordDataset(tmp_path / "a.urec", io=way) as ds:
            for i, record in enumerate(records):
                assert all(same(ds[i][name], record[name]) for name in record)
                for key in KEYS:
                    want = None if record["field"] is None else record["field"][key]
                    assert same(ds.read_part(i, "field", key), np.asarray(want) if want is not None else None)
                for key in FRAME_KEYS:
                    frames = record["frames"]
                    want = None if frames is None else np.asarray(frames[key])
                    assert same(ds.read_part(i, "frames", key), want)
                for key in RANGES:
                    blob = record["blob"]
                    assert ds.read_part(i, "blob", key) == (None if blob is None else blob[key])
                    assert ds.read_part(i, "words", key) == record["words"].encode()[key]
            fields = [batch["field"] for batch in ds.batches(2)]
            assert same(np.concatenate([f.data for f in fields])[4], records[4]["field"])


def test_parts_of_rows_of_fixed_width_are_read_where_rows_share_a_digest(tmp_path: Path) -> None:
    """Small arrays in chunks and whole ones side by side, a digest for several rows."""
    rng = np.random.default_rng(2)
    cut, whole = rng.integers(0, 99, (50, 4, 6), np.int16), rng.integers(0, 99, (50, 9), np.uint8)
    spec = {"cut": {"type": "int16", "shape": [4, 6], "chunks": [3, 4]}, "whole": "uint8[9]"}
    with unirecord.Writer(tmp_path / "a.urec", spec) as writer:
        writer.write_batch({"cut": cut, "whole": whole})
    for way in ("mmap", "pread"):
        with unirecord.UniRecordDataset(tmp_path / "a.urec", io=way) as ds:
            for i in range(50):
                assert same(ds.read_part(i, "cut", np.s_[1:4, 2:5]), cut[i, 1:4, 2:5])
                assert same(ds.read_part(i, "whole", np.s_[2:7]), whole[i, 2:7])
                assert same(ds[i]["cut"], cut[i])


def test_arrays_with_free_dimensions_have_parts_too(tmp_path: Path) -> None:
    array = np.arange(60, dtype=np.uint8).reshape(4, 15)
    with unirecord.Writer(tmp_path / "a.urec", {"x": "uint8[-1, -1]", "y": "int64[-1]?"}) as writer:
        writer.write({"x": array, "y": None})
    with unirecord.UniRecordDataset(tmp_path / "a.urec") as ds:
        assert same(ds.read_part(0, "x", np.s_[1:3, -2:]), array[1:3, -2:])
        assert ds.read_part(0, "y", np.s_[:2]) is None


WRONG_KEYS = [
    (np.s_[::2], ValueError, "step 2"),
    (np.s_[0, 0, 0, 0], IndexError, "too many"),
    (np.s_[..., ...], IndexError, "ellipsis"),
    (3, IndexError, "out of bounds for dimension 0 of size 3"),
    (np.s_[0, -51], IndexError, "out of bounds"),
    ([0, 1], TypeError, "integers, slices"),
    (np.s_[None], TypeError, "integers, slices"),
    (True, TypeError, "integers, slices"),
    (1.0, TypeError, "integers, slices"),
]


@pytest.mark.parametrize(("key", "error", "what"), WRONG_KEYS)
def test_what_is_no_box_is_refused(tmp_path: Path, key: Any, error: type[Exception], what: str) -> None:
    written(tmp_path / "a.urec", [1, 16, 16])
    with unirecord.UniRecordDataset(tmp_path / "a.urec") as ds, pytest.raises(error, match=what):
        ds.read_part(0, "field", key)


def test_columns_without_parts_and_parts_that_are_not_there_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.urec", [1, 16, 16])
    with unirecord.UniRecordDataset(tmp_path / "a.urec") as ds:
        with pytest.raises(unirecord.SchemaError, match="arrays have parts"):
            ds.read_part(0, "n", np.s_[0])
        with pytest.raises(TypeError, match="slice of its bytes"):
            ds.read_part(0, "blob", 0)
        with pytest.raises(unirecord.SchemaError, match="no column"):
            ds.read_part(0, "fields", np.s_[0])
        with pytest.raises(IndexError):
            ds.read_part(ROWS, "field", np.s_[0])


WRONG_CHUNKS = [
    ({"type": "float32", "shape": [4, 4], "chunks": [5, 1]}, "each from 1 to that of the array"),
    ({"type": "float32", "shape": [4, 4], "chunks": [0, 1]}, "each from 1"),
    ({"type": "float32", "shape": [4, 4], "chunks": [4]}, "2 dimensions"),
    ({"type": "float32", "shape": [4, 4], "chunks": "4"}, "2 dimensions"),
    ({"type": "float32", "shape": [-1, -1], "chunks": [4, 4]}, "one free dimension at most"),
    ({"type": "float32", "shape": [-1, 4], "chunks": [4, 5]}, "each from 1 to that of the array"),
    ({"type": "float32", "shape": [-1, 4], "chunks": [1 << 62, 4]}, "each from 1 to that of the array"),
    ({"type": "bytes", "chunks": 0}, "at least 1"),
    ({"type": "text", "chunks": [7]}, "so many bytes"),
    ({"type": "object", "chunks": 7}, "cannot be cut"),
    ({"type": "int32", "chunks": 7}, "cannot be cut"),
    ({"type": "bytes", "chunks": 7, "annotations": {"chunks": 8}}, "beside the type"),
]


@pytest.mark.parametrize(("column", "what"), WRONG_CHUNKS)
def test_chunks_that_do_not_fit_a_column_are_refused(column: dict[str, Any], what: str) -> None:
    with pytest.raises(unirecord.SchemaError, match=what):
        unirecord.Schema.parse({"x": column})


def test_a_schema_says_its_chunks_and_gives_them_again() -> None:
    spec = {
        "field": {"type": "float32", "shape": [8, 9], "chunks": [2, 9], "codec": "zstd"},
        "b": {"type": "bytes", "chunks": 7},
    }
    parsed = unirecord.Schema.parse(spec)
    assert parsed.to_spec() == spec
    assert (parsed["field"].chunks, parsed["b"].chunks) == ((2, 9), (7,))
    one = unirecord.Schema.parse({"x": {"type": "uint8", "shape": [9], "chunks": np.int32(3)}})
    assert one["x"].chunks == (3,)


def sections(index: bytes) -> dict[tuple[int, int], tuple[int, int]]:
    """Kind and column of each section -> where it is, and its bytes."""
    columns, count = struct.unpack_from("<II", index, 64)
    found = {}
    for n in range(count):
        kind, column, _, offset, size = struct.unpack_from("<HHIQQ", index, 192 + 32 * columns + 48 * n)
        found[kind, column] = (offset, size)
    return found


def test_values_of_one_chunk_have_no_table(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "a.urec", {"x": {"type": "bytes", "chunks": 100}}) as writer:
        for size in (0, 1, 100, 101, 250):
            writer.write({"x": bytes(size)})
    found = sections(Path(f"{tmp_path}/a.urec.idx").read_bytes())
    assert found[21, 0][1] == 8 * (2 + 3)  # of 101 and of 250 bytes


def places(path: Path) -> tuple[int, int]:
    """Where the first cell of the only blob column lies, and its bytes."""
    with unirecord.UniRecordDataset(path) as ds:
        return ds.read_cursor.plan.data.parts.part(0).locate(0, 0)


@pytest.mark.parametrize("way", ["mmap", "pread"])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_damage_of_a_chunk_costs_the_parts_that_touch_it_alone(
    tmp_path: Path, codec: str | None, way: Any
) -> None:
    rng = np.random.default_rng(3)
    field = rng.standard_normal((1, 64, 64)).astype(np.float32)
    column = {"type": "float32", "shape": [64, 64], "chunks": [16, 16], **({"codec": codec} if codec else {})}
    path = tmp_path / "a.urec"
    with unirecord.Writer(path, {"x": column}) as writer:
        writer.write_batch({"x": field})
    start, size = places(path)
    file = bytearray(path.read_bytes())
    file[start + size - 1] ^= 1  # of the last chunk
    path.write_bytes(file)
    with unirecord.UniRecordDataset(path, io=way) as ds:
        for key in (np.s_[:48], np.s_[:, :48], np.s_[30:50, 30:48]):
            assert same(ds.read_part(0, "x", key), field[0][key])
        for key in (np.s_[47:49, 40:50], np.s_[63, 63], np.s_[...]):
            with pytest.raises(unirecord.CorruptionError, match=r"chunk 15|digest"):
                ds.read_part(0, "x", key)
        with pytest.raises(unirecord.CorruptionError):
            ds[0]
    assert not verify(path).ok


def test_digests_of_chunks_are_checked_where_whole_values_are_right(tmp_path: Path) -> None:
    """The scalar page and the index hold another digest of a chunk: verify names the row, and other parts are read."""
    path = tmp_path / "a.urec"
    field = np.arange(4096, dtype=np.float32).reshape(1, 64, 64)
    with unirecord.Writer(path, {"x": {"type": "float32", "shape": [64, 64], "chunks": [16, 16]}}) as writer:
        writer.write_batch({"x": field})
    index = bytearray(Path(f"{path}.idx").read_bytes())
    at, _ = sections(index)[21, 0]
    index[at + 8 * 5] ^= 1
    reseal.index(index, path.read_bytes())
    Path(f"{path}.idx").write_bytes(index)
    with unirecord.UniRecordDataset(path) as ds:
        assert same(ds[0]["x"], field[0])
        assert same(ds.read_part(0, "x", np.s_[:16]), field[0, :16])
        with pytest.raises(unirecord.CorruptionError, match="chunk 5"):
            ds.read_part(0, "x", np.s_[16:32, 16:32])
    with unirecord.UniRecordDataset(path, verify="never") as ds:
        assert same(ds.read_part(0, "x", np.s_[16:32, 16:32]), field[0, 16:32, 16:32])
    assert not verify(path).ok


FORGED = [
    (18, 0, 3),  # shape of a value
    (18, 8 * 2, 0),  # of a chunk
    (18, 8 * 2, 1),
    (18, 8 * 2, 1 << 63),
    (18, 0, 1 << 62),
    (20, 0, 1 << 31),  # ends
    (20, 4, 0),
]


@pytest.mark.parametrize("way", ["mmap", "pread"])
@pytest.mark.parametrize(("kind", "place", "number"), FORGED)
def test_tables_that_make_no_sense_are_refused(
    tmp_path: Path, kind: int, place: int, number: int, way: Any
) -> None:
    path = tmp_path / "a.urec"
    column = {"type": "int32", "shape": [8, 8], "chunks": [4, 4], "codec": "zstd"}
    with unirecord.Writer(path, {"x": column}) as writer:
        writer.write_batch({"x": np.zeros((3, 8, 8), np.int32)})
    index = bytearray(Path(f"{path}.idx").read_bytes())
    at, _ = sections(index)[kind, 0]
    width = 8 if kind == 18 else 4
    index[at + place : at + place + width] = number.to_bytes(width, "little")
    reseal.index(index, path.read_bytes())
    Path(f"{path}.idx").write_bytes(index)
    for verifies in ("first", "never"):
        with unirecord.UniRecordDataset(path, io=way, verify=verifies) as ds:
            with pytest.raises(unirecord.CorruptionError):
                ds.read_part(0, "x", np.s_[...])
            with pytest.raises(unirecord.CorruptionError):
                ds[0]


@pytest.mark.parametrize("first", [5, 1 << 40, (1 << 64) - 1])
def test_first_chunks_that_are_not_there_are_refused(tmp_path: Path, first: int) -> None:
    path = tmp_path / "a.urec"
    with unirecord.Writer(path, {"x": {"type": "bytes", "chunks": 10, "codec": "zstd"}}) as writer:
        for _ in range(2):
            writer.write({"x": bytes(25)})
    index = bytearray(Path(f"{path}.idx").read_bytes())
    at, _ = sections(index)[19, 0]
    index[at + 8 : at + 16] = first.to_bytes(8, "little")
    reseal.index(index, path.read_bytes())
    Path(f"{path}.idx").write_bytes(index)
    with unirecord.UniRecordDataset(path, verify="never") as ds:
        for read in (lambda: ds.read_part(1, "x", np.s_[3:5]), lambda: ds[1]):
            with pytest.raises(unirecord.CorruptionError, match="not in the index"):
                read()


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_what_changes_a_dataset_keeps_its_chunks(tmp_path: Path, codec: str | None) -> None:
    """Appended to, compacted and repaired: other parts with other rows, each in chunks."""
    folder, records = tmp_path / "d", values()
    with unirecord.Writer(folder, schema([2, 7, 5], codec)) as writer:
        for record in records[:4]:
            writer.write(record)
    with unirecord.append(folder) as writer:
        for record in records[4:]:
            writer.write(record)
    compact(folder)
    assert verify(folder).ok
    part = max(folder.glob("*.urec"))
    Path(f"{part}.idx").unlink()
    repair(folder)
    with unirecord.UniRecordDataset(folder) as ds:
        assert ds.schema["field"].chunks == (2, 7, 5)
        for i, record in enumerate(records):
            assert all(same(ds[i][name], record[name]) for name in record)
            if record["field"] is not None:
                assert same(ds.read_part(i, "field", KEYS[0]), record["field"][KEYS[0]])
    found = sections(Path(f"{part}.idx").read_bytes())
    assert (21, 0) in found


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_repair_saves_the_other_rows_of_a_damaged_part(tmp_path: Path, codec: str | None) -> None:
    path, records = tmp_path / "a.urec", values()
    written(path, [1, 16, 16], codec)
    with unirecord.UniRecordDataset(path) as ds:
        start, _ = ds.read_cursor.plan.data.parts.part(0).locate(1, 0)
    file = bytearray(path.read_bytes())
    file[start + 100] ^= 1
    path.write_bytes(file)
    repair(path, output=tmp_path / "b.urec")
    assert verify(tmp_path / "b.urec").ok
    with unirecord.UniRecordDataset(tmp_path / "b.urec") as ds:
        kept = records[:1] + records[2:]
        assert len(ds) == len(kept)
        for i, record in enumerate(kept):
            assert all(same(ds[i][name], record[name]) for name in record)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    (tmp_path / "bucket").mkdir()
    monkeypatch.setattr(object_store, "_stores", {})
    with serving(tmp_path) as server:
        server.set_environment(monkeypatch)
        yield server


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_of_an_object_store_the_chunks_alone_are_fetched_that_a_part_touches(
    tmp_path: Path, server: Server, codec: str | None
) -> None:
    rng = np.random.default_rng(4)
    field = rng.standard_normal((4, 512, 512))  # 2 MiB a row
    column = {
        "type": "float64",
        "shape": [512, 512],
        "chunks": [32, 32],
        **({"codec": codec} if codec else {}),
    }
    with unirecord.Writer(tmp_path / "bucket" / "a.urec", {"x": column}) as writer:
        writer.write_batch({"x": field})
    with unirecord.UniRecordDataset("s3://bucket/a.urec") as ds:
        assert same(ds.read_part(2, "x", np.s_[0, :9]), field[2, 0, :9])
        before = server.bytes
        assert same(ds.read_part(2, "x", np.s_[100:130, 200:230]), field[2, 100:130, 200:230])
        assert (
            server.bytes - before <= 6 * 32 * 32 * 8
        )  # of four chunks at most, and what lies between neighbours


def test_a_column_forgets_chunks_that_do_not_fit_it() -> None:
    """One that another has been made of, as by steps that change pictures; of a stored one they are an error."""
    column = unirecord.Schema.parse({"x": {"type": "uint8", "shape": [8, 9], "chunks": [2, 9]}})["x"]
    other = replace(column, shape=(4, 4, 4))
    assert (other.chunks, other.annotations) == (None, {})
    with pytest.raises(unirecord.FormatError, match="chunks that are none"):
        unirecord.Schema.from_wire([["x", "uint8", [4, 4, 4], {"chunks": [2, 9]}]])


CUT_ROWS, CUT_SIDE, CUT_CHUNK = (
    12,
    512,
    8,
)  # so many chunks that their entries lie in several blocks of the index


def cut_in_store(bucket: Path, codec: str | None) -> None:
    column = {"type": "uint8", "shape": [CUT_SIDE, CUT_SIDE], "chunks": [CUT_CHUNK, CUT_CHUNK]}
    column |= {"codec": codec} if codec else {}
    with unirecord.Writer(bucket / "a.urec", {"x": column}) as writer:
        writer.write_batch(
            {"x": np.random.default_rng(1).integers(0, 4, (CUT_ROWS, CUT_SIDE, CUT_SIDE), np.uint8)}
        )


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_the_chunks_of_a_batch_of_crops_are_asked_for_at_once(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, codec: str | None
) -> None:
    """A round for what the index says of rows, one for what it says of their chunks, and one for the chunks."""
    cut_in_store(tmp_path / "bucket", codec)
    rounds: list[list[bool]] = []
    whole = Fetcher.__call__

    def counting(self: Fetcher, ranges: Any, put: Any) -> None:
        rounds.append([one.in_index for one in ranges])
        whole(self, ranges, put)

    crops = {"x": unirecord.Crop((4 * CUT_CHUNK, 4 * CUT_CHUNK))}
    with unirecord.UniRecordDataset("s3://bucket/a.urec", shuffle=True, seed=1) as ds:
        ds.read_part(0, "x", np.s_[:1, :1])  # the part is open
        monkeypatch.setattr(Fetcher, "__call__", counting)
        server.requests.clear()
        loader = ds.batches(4, crops=crops, prefetch=1, num_threads=1, return_places=True)
        places = np.concatenate([batch["x_place"] for batch in loader])
    of_data = [asked for asked in rounds if not any(asked)]
    touched = (places + 4 * CUT_CHUNK - 1) // CUT_CHUNK - places // CUT_CHUNK + 1
    assert len(of_data) == 3
    assert sum(map(len, of_data)) == touched.prod(axis=1).sum()
    assert len(of_data) < len(rounds) <= 3 * len(of_data)
    chunks_asked = [request for request in server.requests if not request.key.endswith(".idx")]
    assert len(chunks_asked) <= CUT_ROWS  # those of a row lie close to each other


def test_crops_are_read_ahead_from_a_store(tmp_path: Path, server: Server) -> None:
    """By what crops take, not by what rows do: of these, four batches are many times what is read ahead."""
    cut_in_store(tmp_path / "bucket", None)
    crops = {"x": unirecord.Crop((8, 8))}
    server.latency = 0.1  # so long are requests under way that those made meanwhile are seen beside them
    with unirecord.UniRecordDataset("s3://bucket/a.urec") as ds:
        batches = iter(ds.batches(1, crops=crops))
        next(batches)
        until = monotonic() + 60
        while monotonic() < until and len(set(rows_asked(server))) < CUT_ROWS:
            sleep(0.01)
        assert set(rows_asked(server)) == set(range(CUT_ROWS))
        assert server.most_in_flight > 4
        batches.close()


def rows_asked(server: Server) -> list[int]:
    """The rows whose chunks were asked for."""
    with unirecord.UniRecordDataset(server.root / "bucket" / "a.urec") as ds:
        part = ds.read_cursor.plan.data.parts.part(0)
        ends = np.cumsum([part.locate(row, 0)[1] for row in range(CUT_ROWS)]) + part.locate(0, 0)[0]
        first = part.locate(0, 0)[0]
    asked = [request.start for request in server.requests if not request.key.endswith(".idx")]
    return [int(np.searchsorted(ends, start, side="right")) for start in asked if first <= start < ends[-1]]
