"""The schema: what a user may write, what a file may hold, and what the messages say."""

from __future__ import annotations

import copy
import pickle
import struct
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord.errors import FormatError, SchemaError
from unirecord.format.column import Column
from unirecord.format.metadata import check_room, decode
from unirecord.format.schema import Schema

SCALARS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
SCALARS += ["float16", "float32", "float64", "string"]
ELEMENTS = [*SCALARS[:-1], "bfloat16", "complex64", "complex128"]
CODES = {name: code for code, name in enumerate(ELEMENTS, 1)}


def column_specs() -> st.SearchStrategy[Any]:
    scalars = st.sampled_from([*SCALARS, *(f"{s}?" for s in SCALARS), "bytes", "text", "object"])
    dims = st.lists(st.one_of(st.just(-1), st.integers(1, 9)), min_size=1, max_size=5)
    arrays = st.builds(lambda t, s: {"type": t, "shape": s}, st.sampled_from(ELEMENTS), dims)
    return st.one_of(scalars, arrays)


def schemas() -> st.SearchStrategy[Schema]:
    names = st.from_regex(r"[0-9A-Za-z_]{1,12}", fullmatch=True)
    return st.dictionaries(names, column_specs(), min_size=1, max_size=8).map(Schema.parse)


@given(schemas())
def test_every_form_of_a_schema_gives_the_same_schema(schema: Schema) -> None:
    assert Schema.parse(schema.to_spec()) == schema
    assert Schema.from_wire(schema.to_wire()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert copy.deepcopy(schema) == schema
    assert hash(Schema.parse(schema.to_spec())) == hash(schema)
    assert Schema.parse(schema) is schema


@given(schemas())
def test_scalars_and_blobs_share_out_the_columns_in_order(schema: Schema) -> None:
    both = dict([*schema.scalars, *schema.blobs])
    assert len(schema.scalars) + len(schema.blobs) == len(both) == len(schema)
    assert [both[i] for i in range(len(schema))] == list(schema)
    assert all(c.is_blob for _, c in schema.blobs)
    assert not any(c.is_blob for _, c in schema.scalars)


@given(schemas())
def test_column_table_is_as_the_format_says(schema: Schema) -> None:
    raw = schema.column_table()
    assert len(raw) == 32 * len(schema)
    for i, column in enumerate(schema):
        code, dtype, flags, rank, zero, fixed, rest = struct.unpack("<BBBBIQ16s", raw[32 * i : 32 * i + 32])
        assert (zero, rest) == (0, bytes(16))
        assert flags == column.nullable
        assert fixed == column.fixed_bytes
        if column.shape is not None:
            assert (code, dtype, rank) == (32, CODES[column.type], len(column.shape))
        else:
            others = {"string": 20, "bytes": 30, "text": 31, "object": 33}
            assert (code, dtype, rank) == (others.get(column.type) or CODES[column.type], 0, 0)


def test_mindrecord_form_means_the_same() -> None:
    theirs = {"file_name": {"type": "string"}, "label": {"type": "int32"}, "data": {"type": "bytes"}}
    assert Schema.parse(theirs) == Schema.parse({"file_name": "string", "label": "int32", "data": "bytes"})


def test_columns_keep_the_order_of_declaration() -> None:
    assert Schema.parse({"z": "int8", "a": "int8", "m": "bytes"}).names == ("z", "a", "m")


def test_column_properties_of_arrays() -> None:
    column = Schema.parse({"x": {"type": "bfloat16", "shape": [2, 3]}})["x"]
    assert (column.dtype, column.fixed_bytes, column.item_shape, column.free_dims) == (
        np.uint16,
        12,
        (2, 3),
        0,
    )
    free = Schema.parse({"x": {"type": "float32", "shape": [-1, 4, -1]}})[0]
    assert (free.fixed_bytes, free.free_dims, free.is_blob, str(free)) == (0, 2, True, "float32[-1, 4, -1]")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("str", "did you mean 'string'"),
        ("np.int32", "did you mean 'int32'"),
        ("np.float64", "did you mean 'float64'"),
        ({"type": "array int8", "shape": [1]}, "int8"),
        ("byte", "did you mean 'bytes'"),
        ("strint", "did you mean 'string'"),
        ({"type": "float3", "shape": [2]}, "did you mean 'float32'"),
        ({"type": "string", "shape": [2]}, "string takes no shape"),
        ({"type": "bytes", "shape": [2]}, "bytes takes no shape"),
        ("int32??", "unknown type"),
        ("bfloat16", "add a shape"),
        ("bytes??", "unknown type"),
        ({"type": "int8??", "shape": [2]}, "unknown array type"),
        ({"type": "int8", "shape": []}, "1 to 32 dimensions"),
        ({"type": "int8", "shape": [0]}, "each at least 1"),
        ({"type": "int8", "shape": [-2]}, "or -1 where it varies"),
        ({"type": "int8", "shape": [1] * 33}, "1 to 32 dimensions"),
        ({"type": "int8", "shape": [2.0]}, "not allowed"),
        ({"type": "int8", "shape": [True]}, "not allowed"),
        ({"type": "int8", "shape": 3}, "a list of dimensions"),
        ({"type": "float64", "shape": [1 << 40, 1 << 30]}, "2^62"),
        ({"shape": [1]}, "'type' is missing"),
        ({"type": "int8", "size": 1}, "unknown key 'size'"),
        (np.float32, 'did you mean "float32"'),
        (int, 'did you mean "int64"'),
        (None, "a type is given by its name"),
    ],
)
def test_a_bad_type_is_refused_and_the_near_one_named(spec: Any, said: str) -> None:
    with pytest.raises(SchemaError, match="column 'x'") as caught:
        Schema.parse({"x": spec})
    assert said in str(caught.value)


def test_names_may_start_with_a_digit_and_differ_by_case() -> None:
    schema = Schema.parse({"3_name": "int8", "A": "int8", "a": "int16"})
    assert schema["A"].type == "int8"
    assert schema["a"].type == "int16"


@pytest.mark.parametrize("spec", [None, [], "int32", {}, [("a", "int8")]])
def test_what_is_no_schema_is_refused(spec: Any) -> None:
    with pytest.raises(SchemaError):
        Schema.parse(spec)


def test_unknown_column_names_the_near_one_and_all_others() -> None:
    schema = Schema.parse({"image": "bytes", "label": "int32"})
    with pytest.raises(SchemaError, match=r"no column 'lable'; did you mean 'label'.*'image', 'label'"):
        schema["lable"]
    assert schema.ordinal("label") == 1
    assert "label" in schema
    assert "lable" not in schema


def test_a_schema_cannot_be_changed() -> None:
    schema = Schema.parse({"a": "int8"})
    with pytest.raises(AttributeError):
        schema.columns = ()


@pytest.mark.parametrize(
    "wire",
    [
        None,
        {},
        [],
        [1],
        [["a", "int32"]],
        [["a", "int32", None, 1]],
        [[1, "int32", None]],
        [["", "int32", None]],
        [["a" * 256, "int32", None]],
        [["a", 3, None]],
        [["a", "int33", None]],
        [["a", "bytes??", None]],
        [["a", "bfloat16", None]],
        [["a", "string", [1]]],
        [["a", "int32??", [1]]],
        [["a", "int32", []]],
        [["a", "int32", [0]]],
        [["a", "int32", [True]]],
        [["a", "int32", [1.0]]],
        [["a", "int32", [1] * 33]],
        [["a", "int64", [1 << 59, 2]]],
        [["a", "int32", None], ["a", "int8", None]],
    ],
)
def test_a_hostile_stored_schema_is_a_format_error(wire: Any) -> None:
    with pytest.raises(FormatError, match="the stored schema"):
        Schema.from_wire(wire)


def test_columns_can_be_made_directly() -> None:
    assert Schema([Column("a", "int32")]) == Schema.parse({"a": "int32"})


def test_documented_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "schema.md"
    code = page.read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(code, {})


@pytest.mark.parametrize(
    ("spec", "fits", "too_many"),
    [
        ("int8?", 65_534, None),
        ("bytes?", 65_534, None),
        ("string", 58_000, 59_000),
        ("string?", 50_000, 51_000),
    ],
)
def test_as_many_columns_are_taken_as_the_heads_hold(spec: str, fits: int, too_many: int | None) -> None:
    def check(count: int) -> None:
        check_room(Schema.parse({f"{i:x}": spec for i in range(count)}), (), b"\xc0")

    check(fits)
    if too_many is not None:
        with pytest.raises(SchemaError, match="use fewer columns"):
            check(too_many)


GOOD_METADATA: dict[str, Any] = {
    "schema": [["a", "int32", None, {"unit": "s"}]],
    "index": ["a"],
    "user": None,
    "created_by": "somebody",
    "later": 1,
}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({k: v for k, v in GOOD_METADATA.items() if k != "created_by"}, "does not begin with"),
        ({"created_by": "", **GOOD_METADATA}, "does not begin with"),
        (GOOD_METADATA | {"created_by": None}, "created_by is not a string"),
        (GOOD_METADATA | {"created_by": b"me"}, "created_by is not a string"),
        (GOOD_METADATA | {"schema": [["a", "int32", None, {}]]}, "an empty map"),
        (GOOD_METADATA | {"schema": [["a", "int32", None, None]]}, "are no map"),
        (GOOD_METADATA | {"index": ["b"]}, "does not name columns"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_metadata_that_breaks_a_rule_is_refused(content: dict[str, Any], said: str) -> None:
    assert decode(msgpack.packb(GOOD_METADATA)).created_by == "somebody"
    with pytest.raises(FormatError, match=said):
        decode(msgpack.packb(content))
