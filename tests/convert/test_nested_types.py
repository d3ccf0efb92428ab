"""Structs, lists of structs and maps keep their Arrow types: whatever they are, through every way out and change."""

from __future__ import annotations

import decimal
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer, cli
from unirecord.dataset.tables import arrow_array
from unirecord.format.nested import MAX_DEPTH, MAX_TEXT, nested_of
from unirecord.format.schema import Schema

pa = pytest.importorskip("pyarrow")

CHAT = "list<struct<role: string, content: string, tools: list<string>>>"


def written(path: Path, table: Any) -> UniRecordDataset:
    unirecord.write_dataset(table, path, workers=1)
    return UniRecordDataset(path)


def chats() -> Any:
    """What TRL trains on: conversations, pairs of them, calls of tools with fields that some have."""
    message = pa.struct({"role": pa.string(), "content": pa.string(), "tools": pa.list_(pa.string())})
    call = pa.struct({"name": pa.string(), "arguments": pa.map_(pa.string(), pa.string()), "id": pa.int64()})
    one = [
        {"role": "user", "content": "hé", "tools": None},
        {"role": "assistant", "content": None, "tools": []},
    ]
    return pa.table({
        "messages": pa.array([one, [], None], pa.list_(message)),
        "chosen": pa.array([one[:1], one, one], pa.list_(message)),
        "calls": pa.array([
            [{"name": "f", "arguments": [("a", "1"), ("b", None)], "id": None}],
            [{"name": None, "arguments": [], "id": 1 << 62}], [],
        ], pa.list_(call)),
        "meta": pa.array([
            {"at": 5, "price": decimal.Decimal("1.50"), "inner": {"day": 3}}, None, {"at": None, "inner": None},
        ], pa.struct({
            "at": pa.timestamp("us", "Europe/Paris"), "price": pa.decimal128(9, 2),
            "inner": pa.struct({"day": pa.date32()}),
        })),
        "n": pa.array([1, 2, 3]),
    })  # fmt: skip


# ---- types and values ---------------------------------------------------------------------------------------


def same(found: Any, wanted: Any) -> bool:
    """Types with the nullability of all fields, and values."""
    return str(found.type) == str(wanted.type) and found.type == wanted.type and found.equals(wanted)


def test_chats_pairs_calls_and_times_come_back(tmp_path: Path) -> None:
    table = chats()
    ds = written(tmp_path / "x", table)
    assert ds.schema["messages"].logical == {"type": "nested", "of": CHAT}
    assert ds[0]["messages"][0] == {"role": "user", "content": "hé", "tools": None}
    assert ds[0]["calls"][0]["arguments"] == [["a", "1"], ["b", None]]
    assert ds[0]["meta"] == {"at": 5, "price": "1.50", "inner": {"day": 3}}
    for found in (pa.table(ds), ds.to_arrow(table.column_names), ds.view(columns=["meta", "n"]).to_arrow()):
        for name in found.column_names:
            assert same(found[name].combine_chunks(), table[name].combine_chunks())


LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, (1 << 64) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float16(): st.floats(width=16, allow_nan=False),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=5),
    pa.large_string(): st.text(max_size=5),
    pa.string_view(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=5),
    pa.large_binary(): st.binary(max_size=5),
    pa.binary_view(): st.binary(max_size=20),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.date32(): st.integers(-100_000, 100_000),
    pa.date64(): st.integers(-1_000, 1_000).map(lambda days: days * 86_400_000),
    pa.time32("ms"): st.integers(0, 86_399_999),
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
    pa.timestamp("s"): st.integers(-(1 << 40), 1 << 40),
    pa.timestamp("ns", "UTC"): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.timestamp("ms", "+02:00"): st.integers(-(1 << 50), 1 << 50),
    pa.duration("us"): st.integers(-(1 << 62), 1 << 62),
    pa.decimal128(12, 3): st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: decimal.Decimal(n).scaleb(-3)),
    pa.decimal256(60, 0): st.integers(-(10**60) + 1, 10**60 - 1).map(
        lambda n: decimal.Decimal(decimal.DecimalTuple(int(n < 0), tuple(map(int, str(abs(n)))), 0))
    ),
}
FIELD_NAMES = st.one_of(st.sampled_from(["a", "b", "role", "key", "item"]), st.text(max_size=6).filter(
    lambda name: "\x00" not in name))  # fmt: skip


@st.composite
def typed(draw: st.DrawFn, depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    """An Arrow type, and what makes values of it."""
    kind = draw(
        st.sampled_from(["leaf", "struct", "list", "large_list", "fixed", "map"] if depth else ["leaf"])
    )
    if kind == "leaf":
        leaf = draw(st.sampled_from(list(LEAVES)))
        return leaf, LEAVES[leaf]
    nullable = draw(st.booleans())

    def field(name: str, inner: Any) -> tuple[Any, st.SearchStrategy[Any]]:
        found, values = inner
        if nullable:
            return pa.field(name, found), st.none() | values
        return pa.field(name, found, nullable=False), values

    if kind == "struct":
        names = draw(st.lists(FIELD_NAMES, max_size=3, unique=True))
        fields = [field(name, draw(typed(depth - 1))) for name in names]
        made = {name: values for name, (_, values) in zip(names, fields, strict=True)}
        return pa.struct([one for one, _ in fields]), st.fixed_dictionaries(made)
    if kind == "map":
        key = draw(st.sampled_from([pa.string(), pa.int64(), pa.date32()]))
        item, values = field("value", draw(typed(depth - 1)))
        return pa.map_(key, item), st.lists(st.tuples(LEAVES[key], values), max_size=3)
    item, values = field("item", draw(typed(depth - 1)))
    if kind == "fixed" and item.nullable:  # pyarrow has faults with the others
        return pa.list_(item, 2), st.lists(values, min_size=2, max_size=2)
    make = pa.large_list if kind == "large_list" else pa.list_
    return make(item), st.lists(values, max_size=3)


def storable(kind: Any) -> Any:
    """The type in which pyarrow takes times as integers."""

    def plain(found: Any) -> Any:
        if pa.types.is_date32(found) or pa.types.is_time32(found):
            return pa.int32()
        if pa.types.is_temporal(found):
            return pa.int64()
        if pa.types.is_struct(found):
            return pa.struct([one.with_type(plain(one.type)) for one in found])
        if pa.types.is_map(found):
            return pa.map_(plain(found.key_type), found.item_field.with_type(plain(found.item_type)))
        if pa.types.is_fixed_size_list(found):
            return pa.list_(found.value_field.with_type(plain(found.value_type)), found.list_size)
        if pa.types.is_large_list(found):
            return pa.large_list(found.value_field.with_type(plain(found.value_type)))
        if pa.types.is_list(found):
            return pa.list_(found.value_field.with_type(plain(found.value_type)))
        return found

    return plain(kind)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_nested_type_and_its_values_come_back(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    kind, values = data.draw(typed().filter(lambda made: pa.types.is_nested(made[0])))
    items = data.draw(st.lists(st.none() | values, min_size=1, max_size=4))
    array = pa.array(items, storable(kind))
    array = array if array.type == kind else array.cast(kind)
    ds = written(tmp_path_factory.mktemp("nested") / "x", pa.table({"x": array}))
    column = ds.schema["x"]
    found = pa.table(ds)["x"].combine_chunks()
    if column.is_array:  # numbers in lists have a type of their own
        assert found.to_pylist() == array.to_pylist()
        return
    nested = column.nested
    assert nested is not None
    assert str(nested_of(str(nested))) == str(nested)
    assert same(found, array)


def test_what_is_always_null_keeps_its_type(tmp_path: Path) -> None:
    table = pa.table({
        "list": pa.array([[None, None], None], pa.list_(pa.null())),
        "struct": pa.array([{"a": None, "b": 1}, None], pa.struct({"a": pa.null(), "b": pa.int8()})),
    })  # fmt: skip
    found = pa.table(written(tmp_path / "x", table))
    for name in table.column_names:
        assert same(found[name].combine_chunks(), table[name].combine_chunks())


def test_what_has_no_nested_type_is_an_object_as_before(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    ds = written(tmp_path / "x", pa.table({"x": union}))
    assert ds.schema["x"].logical is None
    assert [row["x"] for row in ds] == [1, "b"]


def test_dictionaries_and_extensions_within_are_what_lies_below(tmp_path: Path) -> None:
    kind = pa.struct({"d": pa.dictionary(pa.int8(), pa.string()), "u": pa.uuid()})
    array = pa.StructArray.from_arrays(
        [pa.array(["a", "b"]).dictionary_encode().cast(kind.field("d").type),
         pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), bytes(range(16))], pa.binary(16)))],
        fields=list(kind),
    )  # fmt: skip
    ds = written(tmp_path / "x", pa.table({"x": array}))
    assert ds.schema["x"].logical == {"type": "nested", "of": "struct<d: string, u: fixed_size_binary[16]>"}
    assert pa.table(ds)["x"].to_pylist()[1] == {"d": "b", "u": bytes(range(16))}


# ---- ways out and back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "arrow", "lance"])
def test_exports_have_the_types_and_come_back(tmp_path: Path, ending: str) -> None:
    pytest.importorskip({"lance": "lance"}.get(ending, "pyarrow"))
    table = chats()
    if ending == "lance":  # has no maps
        table = table.drop_columns(["calls"])
    written(tmp_path / "x", table)
    out = tmp_path / f"out.{ending}"
    unirecord.export(tmp_path / "x", out)
    unirecord.write_dataset(out, tmp_path / "again", workers=1)
    found = pa.table(UniRecordDataset(tmp_path / "again"))
    for name in table.column_names:
        assert found[name].type == table[name].type
        assert found[name].to_pylist() == table[name].to_pylist()


def test_duckdb_and_polars_see_structs_and_lists(tmp_path: Path) -> None:
    ds = written(tmp_path / "x", chats())
    rows = ds.view(columns=["messages", "n"])
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("select messages[1].content from rows order by n").fetchall() == [
        ("hé",),
        (None,),
        (None,),
    ]
    polars = pytest.importorskip("polars")
    first = polars.DataFrame(rows).select(polars.col("messages").list.first().struct.field("role"))
    assert first["role"].to_list() == ["user", None, None]


# ---- what does not fit --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([{"role": 3}], r"x\[0\]\.role is no string: 3"),
        ([{"role": "a", "rôle": "b"}], r"x\[0\] has 'rôle', which is no field of struct<role"),
        ("text", "x is no list<struct"),
        ([{"tools": ["a", 1]}], r"x\[0\]\.tools\[1\] is no string: 1"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place(tmp_path: Path, value: Any, said: str) -> None:
    schema = {"x": {"type": "object", "logical": {"type": "nested", "of": CHAT}}}
    with Writer(tmp_path / "x.urec", schema) as writer:
        writer.write({"x": [{"role": "a"}]})
        with pytest.raises(SchemaError, match=f"row 1, column 'x'.*{said}"):
            writer.write({"x": value})
        writer.write({"x": None})
    ds = UniRecordDataset(tmp_path / "x.urec")
    assert ds[0]["x"] == [{"role": "a"}]  # as it was given
    assert pa.table(ds)["x"].to_pylist() == [[{"role": "a", "content": None, "tools": None}], None]


@pytest.mark.parametrize(
    ("of", "good", "wrong"),
    [
        ("struct<t: timestamp[us, UTC]>", {"t": 5}, {"t": "2025"}),
        ("struct<d: decimal128(5, 2)>", {"d": "1.50"}, {"d": "1.5"}),
        ("struct<d: decimal128(5, 2)>", {"d": "-999.99"}, {"d": "1000.00"}),
        ("struct<n: uint8>", {"n": 255}, {"n": 256}),
        ("struct<n: uint8>", {"n": 0}, {"n": True}),
        ("struct<n: float32>", {"n": 1}, {"n": "1"}),
        ("struct<n: float32>", {"n": 3.4028235677973362e38}, {"n": 3.4028235677973366e38}),
        ("struct<n: float32>", {"n": 1 << 24}, {"n": (1 << 24) + 1}),
        ("struct<n: float32>", {"n": float("-inf")}, {"n": -1e300}),
        ("struct<n: float16>", {"n": 65_519.999}, {"n": 65_520.0}),
        ("struct<n: float16>", {"n": float("nan")}, {"n": 65_520}),
        ("struct<n: float64>", {"n": 1.7976931348623157e308}, {"n": (1 << 53) + 1}),
        ("struct<n: int8 not null>", {"n": 1}, {}),
        ("fixed_size_list<int8>[2]", [1, 2], [1]),
        ("struct<b: fixed_size_binary[2]>", {"b": b"ab"}, {"b": b"a"}),
        ("map<string, int8>", [["a", 1], ["a", 2]], {"a": 1}),
        ("map<string, int8>", [], [[None, 1]]),
        ("struct<a: string> not null", {"a": "b"}, None),
    ],
)
def test_each_kind_of_value_is_checked(tmp_path: Path, of: str, good: Any, wrong: Any) -> None:
    schema = {"x": {"type": "object", "logical": {"type": "nested", "of": of}}}
    with Writer(tmp_path / "x.urec", schema) as writer:
        writer.write({"x": good})
        with pytest.raises(SchemaError, match="row 1, column 'x'"):
            writer.write({"x": wrong})
    assert len(pa.table(UniRecordDataset(tmp_path / "x.urec"))) == 1


def test_a_value_in_a_file_that_is_of_another_type_is_an_error_of_the_table_alone(tmp_path: Path) -> None:
    """Files of other writers may have one: `UniRecordDataset` gives it, Arrow has no place for it."""
    with Writer(tmp_path / "x.urec", {"x": "object"}) as writer:
        writer.write_batch({"x": [{"a": 1}, {"a": "b", "c": 2}]})
    ds = UniRecordDataset(tmp_path / "x.urec")
    column = Schema.parse({"x": {"type": "object", "logical": {"type": "nested", "of": "struct<a: int64>"}}})[
        "x"
    ]
    values = next(iter(ds.batches(2)))["x"]
    with pytest.raises(SchemaError, match=r"value 1 of its batch: x has 'c', which is no field"):
        arrow_array(column, values)


def test_appended_and_merged_datasets_have_the_same_types(tmp_path: Path) -> None:
    written(tmp_path / "a", pa.table({"x": pa.array([{"a": 1}])}))
    written(tmp_path / "b", pa.table({"x": pa.array([{"a": "1"}])}))
    with (
        pytest.raises(SchemaError, match=r"row 0, column 'x': .*x\.a is no int64: '1'"),
        unirecord.append(tmp_path / "a") as writer,
    ):
        writer.write({"x": {"a": "1"}})
    with pytest.raises(SchemaError, match="struct<a: string>"):
        unirecord.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    with pytest.raises(SchemaError, match="logical type"):
        UniRecordDataset([tmp_path / "a", tmp_path / "b"])


# ---- hostile text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", "int64", "list<", "list<int8", "list<int8>>", "list<int8> ", "list <int8>", "list<Int8>", "list<int9>",
        "struct<a: int8,b: int8>", "struct<a: int8, a: int8>", "struct<a b: int8>", 'struct<"a": int8>',
        'struct<"a: int8>', 'struct<"\\n": int8>', "struct<a: __import__('os')>", "map<int8>",
        "map<string not null, int8>", "fixed_size_list<int8>", "fixed_size_list<int8>[0]",
        "fixed_size_list<int8>[99999999999]", "fixed_size_list<int8>[2147483648]", "list<decimal128(5, 01)>",
        "list<fixed_size_binary[2147483648]>", "list<timestamp>", "list<timestamp[m]>", "list<timestamp[s, a b]>",
        "list<decimal128(39, 1)>", "list<decimal128(3, 4)>", "list<decimal128(3,1)>", "list<time32[ns]>",
        "list<int8 not null not null>", "list<dictionary>", "list<int8>\x00",
        "list<" * (MAX_DEPTH + 1) + "int8" + ">" * (MAX_DEPTH + 1),
        "list<" * 100_000, f"struct<{'a' * MAX_TEXT}: int8>",
    ],
)  # fmt: skip
def test_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        nested_of(text)
    with pytest.raises(SchemaError, match="column 'x': logical type nested: of"):
        Schema.parse({"x": {"type": "object", "logical": {"type": "nested", "of": text}}})


@settings(max_examples=300)
@given(st.text(alphabet='lista<>truc:, []()"\\0123maproledecimal_ ', max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        found = nested_of(text)
    except ValueError:
        return
    assert str(found) == text


@pytest.mark.parametrize(
    "item", ["int8", "null", "struct<>", "struct<a: struct<>>", "fixed_size_list<struct<>>[1]"]
)
def test_nulls_of_a_great_fixed_size_take_no_memory(tmp_path: Path, item: str) -> None:
    of = f"list<fixed_size_list<{item}>[2147483647]>"
    schema = {"x": {"type": "object", "logical": {"type": "nested", "of": of}}}
    with Writer(tmp_path / "x.urec", schema) as writer:
        writer.write({"x": [None] * 1_000})
    with pytest.raises(SchemaError, match="take more than 134,217,728 elements"):
        UniRecordDataset(tmp_path / "x.urec", columns=["x"]).to_arrow()


def test_only_objects_have_it() -> None:
    with pytest.raises(SchemaError, match="stored as object"):
        Schema.parse({"x": {"type": "bytes", "logical": {"type": "nested", "of": "list<int8>"}}})


def test_what_a_file_says_that_is_no_type_is_kept_and_means_nothing(tmp_path: Path) -> None:
    """As of any logical type that makes no sense: `verify` reports it, readers see the stored values."""
    wire = msgpack.packb({"logical": {"of": "list<os.system>", "type": "nested"}})
    column = Schema.parse({"x": "object"})["x"]
    strange = replace(column, packed_annotations=wire)
    assert strange.nested is None
    assert "list<os.system>" in str(strange.logical)
    assert strange.wrong_logical is not None


# ---- JSON Lines ---------------------------------------------------------------------------------------------


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 1 << 62) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries(
            {"role": st.text(max_size=3)}, optional={"a b": inner, "n": st.integers(0, 9)}
        )
    ),
    max_leaves=6,
)


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@settings(max_examples=60)
@given(st.lists(st.lists(JSON, max_size=3) | st.none(), min_size=1, max_size=6), st.booleans())
def test_nested_json_has_the_type_that_arrow_finds(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], odd: bool
) -> None:
    folder = tmp_path_factory.mktemp("json")
    rows = [{"n": n, "x": value} for n, value in enumerate(values)]
    path = lines(folder / "x.jsonl", rows)
    if odd:  # half of a surrogate pair is left to Python's parser, with all lines of its block
        path.write_text(path.read_text() + '{"n": -1, "x": null, "y": "\\ud800"}\n')
    unirecord.write_dataset(
        path, folder / "out", workers=1, columns=["n", "x"], on_error="skip" if odd else "raise"
    )
    ds = UniRecordDataset(folder / "out", where="n >= 0")
    assert ds.to_arrow(["n"])["n"].to_pylist() == list(range(len(values)))
    column = ds.schema["x"]
    if column.type != "object":
        return
    assert [sample["x"] for sample in ds] == values
    if column.nested is not None:
        found = pa.table(ds)["x"].combine_chunks()
        try:
            wanted = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers of both kinds
            return
        assert found.type == wanted.type
        assert found.equals(wanted)


def test_rows_that_are_appended_fit_the_type_or_are_refused(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hi"}]
    first, more = lines(tmp_path / "1.jsonl", [{"m": chat}]), lines(tmp_path / "2.jsonl", [{"m": chat * 2}])
    other = lines(tmp_path / "3.jsonl", [{"m": chat}, {"m": [{**chat[0], "tools": ["f"]}]}])
    unirecord.write_dataset(first, tmp_path / "out", workers=1)
    unirecord.write_dataset(more, tmp_path / "out", workers=1, append=True)
    with pytest.raises(SchemaError, match=r"3\.jsonl, line 2.*m\[0\] has 'tools', which is no field"):
        unirecord.write_dataset(other, tmp_path / "out", workers=1, append=True)
    unirecord.write_dataset([first, other], tmp_path / "both", workers=1)
    ds = UniRecordDataset(tmp_path / "both")
    assert ds.schema["m"].logical == {"type": "nested", "of": CHAT}
    assert [sample["m"] for sample in ds] == [chat, chat, [{**chat[0], "tools": ["f"]}]]
    unirecord.write_dataset(first, tmp_path / "free", workers=1, schema={"m": "object"})
    assert UniRecordDataset(tmp_path / "free").schema["m"].logical is None
    unirecord.write_dataset(other, tmp_path / "free", workers=1, append=True)


def test_why_json_has_no_type_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixed = lines(tmp_path / "x.jsonl", [{"m": [{"content": "hi"}]}, {"m": [{"content": [1]}]}])
    assert cli.main(["write", str(mixed), str(tmp_path / "out")]) == 0
    assert "m has no nested type: m[].content is text and a list" in capsys.readouterr().out
    text = lines(tmp_path / "1.jsonl", [{"m": [{"content": "hi"}]}])
    parts = lines(tmp_path / "2.jsonl", [{"m": [{"content": [1]}]}])
    assert cli.main(["write", str(text), str(parts), str(tmp_path / "both")]) == 0
    assert "m has no nested type: none takes the values of all sources" in capsys.readouterr().out
    assert UniRecordDataset(tmp_path / "both").schema["m"].logical is None
