"""What is written comes back: every type, bit by bit, in order; one record or whole columns at a time."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import reference_directory
from hypothesis import given, settings
from hypothesis import strategies as st
from writing import SIX, SIX_SCHEMA, files, read, same, write

import unirecord
from unirecord.writing.writer import Writer

NUMBERS = [
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]


def test_six_records_come_back_in_one_part(tmp_path: Path) -> None:
    write(tmp_path / "six.urec", SIX_SCHEMA, SIX)
    same(read(tmp_path / "six.urec"), SIX)
    assert files(tmp_path) == ["six.urec", "six.urec.idx"]


def test_index_columns_change_nothing_in_what_is_read(tmp_path: Path) -> None:
    write(tmp_path / "six.urec", SIX_SCHEMA, SIX, index=["file_name", "label"])
    same(read(tmp_path / "six.urec"), SIX)


def test_the_c_reader_reads_the_same(tmp_path: Path) -> None:
    write(tmp_path / "six.urec", SIX_SCHEMA, SIX, index=["label"])
    with unirecord.UniRecordDataset(tmp_path / "six.urec") as dataset:
        same([dataset[i] for i in range(len(dataset))], SIX)


@pytest.mark.parametrize("target", ["some.urec", "some"])
def test_rows_come_back_in_the_order_written(tmp_path: Path, target: str) -> None:
    rows = [{"number": i, "blob": bytes(i % 50)} for i in range(5_000)]
    options = {} if target.endswith(".urec") else {"max_part_bytes": 20_000}
    write(tmp_path / target, {"number": "int64", "blob": "bytes"}, rows, **options)
    same(read(tmp_path / target), rows)


@pytest.mark.parametrize(("rows", "parts"), [(10, 10), (1, 1)])
def test_a_directory_rolls_over_by_size(tmp_path: Path, rows: int, parts: int) -> None:
    write(
        tmp_path / "d",
        {"x": "bytes"},
        [{"x": bytes([i]) * 30_000} for i in range(rows)],
        max_part_bytes=30_000,
    )
    read_parts = reference_directory.read_directory(tmp_path / "d")
    assert [len(part.raw) for part in read_parts] == [1] * parts
    assert len(files(tmp_path / "d")) == 2 * parts + 1


def test_parts_stay_below_their_greatest_size(tmp_path: Path) -> None:
    rows = [{"x": bytes(i % 2_000), "s": str(i)} for i in range(2_000)]
    write(tmp_path / "d", {"x": "bytes", "s": "string"}, rows, max_part_bytes="100KB")
    sizes = [path.stat().st_size for path in sorted((tmp_path / "d").glob("*.urec"))]
    assert len(sizes) > 10
    assert max(sizes) <= 100_000
    assert min(sizes[:-1]) > 50_000


@pytest.mark.parametrize("target", ["empty.urec", "empty"])
def test_no_rows_make_a_dataset_with_the_schema(tmp_path: Path, target: str) -> None:
    write(tmp_path / target, SIX_SCHEMA, [], index=["label"])
    parts = (
        reference_directory.read_directory(tmp_path / target)
        if target == "empty"
        else [reference.read_part(tmp_path / target)]
    )
    assert [part.rows for part in parts] == [[]]
    assert [column.name for column in parts[0].schema] == list(SIX_SCHEMA)


def test_scalars_alone_and_arrays_alone(tmp_path: Path) -> None:
    scalars = [{"a": i, "b": i / 2} for i in range(10)]
    write(tmp_path / "s.urec", {"a": "int32", "b": "float64"}, scalars)
    same(read(tmp_path / "s.urec"), scalars)
    arrays = [{n: np.full(k, k, np.int32) for k, n in enumerate("xyz", 1)} for _ in range(10)]
    write(tmp_path / "a.urec", {n: {"type": "int32", "shape": [k]} for k, n in enumerate("xyz", 1)}, arrays)
    same(read(tmp_path / "a.urec"), arrays)


def test_numpy_scalars_are_values(tmp_path: Path) -> None:
    row = {name: np.dtype(name).type(7) for name in NUMBERS} | {
        "bool": np.bool_(True),
        "string": np.str_("x"),
    }
    write(tmp_path / "n.urec", {name: name for name in row}, [row])
    assert all(value == row[name] for name, value in read(tmp_path / "n.urec")[0].items())


EDGES = [
    0,
    1,
    -1,
    127,
    -128,
    128,
    -129,
    255,
    256,
    32767,
    -32768,
    2**31 - 1,
    -(2**31),
    2147483649,
    -2147483649,
    2**63 - 1,
    -(2**63),
]


@pytest.mark.parametrize("shape", [[-1], [1, -1], [2, -1], [-1, -1]])
def test_integer_edges_in_arrays(tmp_path: Path, shape: list[int]) -> None:
    values = np.array(EDGES * 2, dtype=np.int64).reshape(
        [2 if d == 2 else 1 if d == 1 else -1 for d in shape] if shape != [-1, -1] else [2, -1]
    )
    rows = [{"v": np.roll(values, i)} for i in range(16)]
    write(tmp_path / "v.urec", {"v": {"type": "int64", "shape": shape}}, rows)
    same(read(tmp_path / "v.urec"), rows)


def test_empty_values_keep_their_row(tmp_path: Path) -> None:
    for name, spec, value in [
        ("b", "bytes", b""), ("t", "text", ""), ("a", {"type": "int64", "shape": [-1]}, np.array([], np.int64)),
        ("m", {"type": "int8", "shape": [-1, -1]}, np.zeros((3, 0), np.int8)), ("s", "string", ""),
    ]:  # fmt: skip
        write(tmp_path / f"{name}.urec", {"v": spec}, [{"v": value}] * 5)
        same(read(tmp_path / f"{name}.urec"), [{"v": value}] * 5)


FLOATS = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    0.1,
]
NANS = [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000001, 0xFFF8DEADBEEF0000)]


def test_floats_keep_every_bit(tmp_path: Path) -> None:
    values = np.array([*FLOATS, *NANS], np.float64)
    batch = {"x": values, "a": values[:, None].repeat(2, 1)}
    schema = {"x": "float64", "a": {"type": "float64", "shape": [2]}}
    with Writer(tmp_path / "f.urec", schema, index=["x"]) as writer:
        writer.write_batch(batch)
        for x in values:
            writer.write({"x": x, "a": np.array([x, x])})
    assert b"".join(row["x"].tobytes() for row in read(tmp_path / "f.urec")) == values.tobytes() * 2
    assert b"".join(row["a"].tobytes() for row in read(tmp_path / "f.urec")) == batch["a"].tobytes() * 2


def test_every_string_comes_back(tmp_path: Path) -> None:
    strings = ["", "\0", "a\0b", "é", "日本語", "🎉", "e\u0301", "\ufeff", "x" * 70_000, "\U0010ffff"]
    rows = [{"s": s, "t": s, "n": None if i % 2 else s} for i, s in enumerate(strings)]
    write(tmp_path / "s.urec", {"s": "string", "t": "text", "n": "string?"}, rows, index=["s", "n"])
    same(read(tmp_path / "s.urec"), rows)


def test_nulls_are_kept_apart_from_zero(tmp_path: Path) -> None:
    rows = [
        {"i": None if i % 3 == 0 else 0, "f": None if i % 3 == 1 else math.nan, "b": None if i % 2 else False}
        for i in range(100)
    ]
    write(tmp_path / "n.urec", {"i": "int8?", "f": "float32?", "b": "bool?"}, rows, index=["i", "f", "b"])
    found = read(tmp_path / "n.urec")
    assert [[value is None for value in row.values()] for row in found] == [
        [v is None for v in r.values()] for r in rows
    ]


def test_objects_come_back(tmp_path: Path) -> None:
    rows = [
        {"o": value}
        for value in [
            None,
            1,
            -1,
            1.5,
            "é",
            b"\0",
            [],
            {},
            {"a": [1, {"b": None}]},
            [[[[]]]],
            2**64 - 1,
            True,
        ]
    ]
    write(tmp_path / "o.urec", {"o": "object"}, rows)
    same(read(tmp_path / "o.urec"), rows)


@pytest.mark.parametrize("wide", [1, 100, 511, 512, 4_096, 5_000])
@pytest.mark.parametrize("kind", ["uint8", "float64", "bfloat16"])
def test_rows_of_every_width_come_back(tmp_path: Path, wide: int, kind: str) -> None:
    dtype = np.dtype("uint16" if kind == "bfloat16" else kind)
    n = max(1, wide // dtype.itemsize)
    data = np.random.default_rng(wide).integers(0, 250, (300, n)).astype(dtype)
    with Writer(tmp_path / "w.urec", {"x": {"type": kind, "shape": [n]}, "k": "int32"}) as writer:
        writer.write_batch({"x": data[:250], "k": np.arange(250, dtype=np.int32)})
        for i in range(250, 300):
            writer.write({"x": data[i], "k": i})
    same(read(tmp_path / "w.urec"), [{"x": row, "k": i} for i, row in enumerate(data)])


def test_several_fixed_columns_of_differing_alignment(tmp_path: Path) -> None:
    schema = {
        "a": {"type": "uint8", "shape": [3]},
        "b": {"type": "float64", "shape": [2]},
        "c": {"type": "bool", "shape": [5]},
    }
    rows = [
        {"a": np.full(3, i, np.uint8), "b": np.full(2, i / 3), "c": np.arange(5) % 2 == i % 2}
        for i in range(200)
    ]
    write(tmp_path / "m.urec", schema, rows)
    same(read(tmp_path / "m.urec"), rows)


def test_a_buffer_used_again_by_the_caller_does_not_change_what_was_written(tmp_path: Path) -> None:
    for schema in (None, {"x": {"type": "uint8", "shape": [8]}, "y": "bytes"}):
        buffer, raw = np.zeros(8, np.uint8), bytearray(8)
        with Writer(tmp_path / "b.urec", schema, overwrite=True) as writer:
            for i in range(20):
                buffer[:] = raw[0] = i
                writer.write({"x": buffer, "y": raw})
            for i in range(20, 30):
                buffer[:] = raw[0] = i
                writer.write_batch({"x": buffer[None], "y": [raw]})
        found = read(tmp_path / "b.urec")
        assert [int(row["x"][3]) for row in found] == list(range(30))
        assert [row["y"][0] for row in found] == list(range(30))


def test_a_batch_of_no_rows_is_fine(tmp_path: Path) -> None:
    with Writer(tmp_path / "e.urec", {"x": "int32", "y": "bytes"}) as writer:
        writer.write_batch({"x": [], "y": []})
        writer.write({"x": 1, "y": b"1"})
        writer.write_batch({"x": np.zeros(0, np.int32), "y": []})
    assert len(read(tmp_path / "e.urec")) == 1


def test_the_schema_is_inferred_from_the_first_records(tmp_path: Path) -> None:
    with Writer(tmp_path / "i.urec", index=["label"]) as writer:
        assert writer.schema is None
        writer.write({"image": b"123", "label": 3, "name": "x"})
        writer.write({"image": b"", "label": 4, "name": "y"})
        assert writer.rows == 2
    assert writer.schema is not None
    assert writer.schema.to_spec() == {"image": "bytes", "label": "int64", "name": "string"}
    assert len(read(tmp_path / "i.urec")) == 2


def test_the_schema_is_inferred_from_a_batch(tmp_path: Path) -> None:
    with Writer(tmp_path / "i.urec") as writer:
        writer.write_batch({"x": np.zeros((7, 3), np.float32), "y": list(range(7))})
    assert writer.schema is not None
    assert writer.schema.to_spec() == {"x": {"type": "float32", "shape": [3]}, "y": "int64"}


def test_extra_fields_are_ignored_when_asked(tmp_path: Path) -> None:
    write(tmp_path / "x.urec", {"a": "int32"}, [{"a": 1, "b": 2}], extra="ignore")
    same(read(tmp_path / "x.urec"), [{"a": 1}])


def test_user_metadata_is_stored(tmp_path: Path) -> None:
    write(tmp_path / "m.urec", {"a": "int32"}, [], metadata={"made": "by a test", "n": [1, 2]})
    head = reference.read_part(tmp_path / "m.urec").head
    assert reference.unpack(head.metadata)["user"] == {"made": "by a test", "n": [1, 2]}


def arrays(dtype: str) -> st.SearchStrategy[Any]:
    shape = st.tuples(st.integers(0, 3), st.integers(0, 3))
    return shape.map(lambda s: np.arange(s[0] * s[1], dtype=dtype).reshape(s))


COLUMNS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("int8", st.integers(-128, 127)),
    ("uint64?", st.none() | st.integers(0, 2**64 - 1)),
    ("float32?", st.none() | st.floats(width=32)),
    ("bool", st.booleans()),
    ("string", st.text(max_size=5)),
    ("string?", st.none() | st.text(max_size=3)),
    ("bytes", st.binary(max_size=40)),
    ("text", st.text(max_size=10)),
    (
        "object",
        st.recursive(st.none() | st.integers(-9, 9) | st.text(max_size=3), lambda s: st.lists(s, max_size=2)),
    ),
    ({"type": "int16", "shape": [2, 2]}, st.integers(0, 9).map(lambda k: np.full((2, 2), k, np.int16))),
    ({"type": "float64", "shape": [-1, -1]}, arrays("float64")),
]


@st.composite
def datasets(draw: st.DrawFn) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    schema = {f"c{i}": spec for i, (spec, _) in enumerate(columns)}
    record = st.fixed_dictionaries({f"c{i}": values for i, (_, values) in enumerate(columns)})
    return schema, draw(st.lists(record, max_size=12))


@settings(max_examples=150)
@given(datasets(), st.booleans())
def test_any_records_come_back(tmp_path_factory: pytest.TempPathFactory, made: Any, batch: bool) -> None:
    schema, rows = made
    path = tmp_path_factory.mktemp("any") / "any.urec"
    index = [
        name
        for name, spec in schema.items()
        if isinstance(spec, str) and spec.rstrip("?") not in ("bytes", "text", "object")
    ]
    with Writer(path, schema, index=index) as writer:
        if batch:
            writer.write_batch({name: [row[name] for row in rows] for name in schema})
        else:
            for row in rows:
                writer.write(row)
    same(read(path), [{name: row[name] for name in schema} for row in rows])
