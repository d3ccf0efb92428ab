"""Queries on written datasets: categories and pages, where= in training, checks of what is touched, statistics."""

from __future__ import annotations

import csv
import gc
import io
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import CorruptionError, MissingError, QueryError, SchemaError, UniRecordDataset, Writer, append
from unirecord.cli import main
from unirecord.core import DistinctStrings
from unirecord.format import layout
from unirecord.inspect.statistics import (
    StringGroups,
    ValueCount,
    chunks,
    column_statistics,
    combination_counts,
    sampled_rows,
    sortable_field,
    sorted_rows,
    value_counts,
)
from unirecord.query import compile_query
from unirecord.query.columns import PartColumns, Strings, Vector
from unirecord.snapshot.part_set import PartSet, resolve

SCHEMA = {
    "file_name": "string",
    "label": "int32",
    "rating": "float32",
    "data": "bytes",
    "segments": {"type": "float32", "shape": [2]},
}
LABELS = [13, 490, 822, 13, 355, 822, 13, 7, 8, 9]
NAMES = ["image_00007.jpg", "1.jpg", "2.jpg", "1.jpg", "3.jpg", "1.jpg", "2.jpg", "4.jpg", "5.jpg", "6.jpg"]


def row(i: int) -> dict[str, Any]:
    return {
        "file_name": NAMES[i],
        "label": LABELS[i],
        "rating": 7.0 if i % 3 == 0 else i / 2,
        "data": f"picture {i}".encode(),
        "segments": np.array([i, -i], np.float32),
    }


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A directory of two parts of five rows each."""
    path = str(tmp_path / "set")
    with Writer(path, SCHEMA, index=["file_name", "label"]) as writer:
        for i in range(5):
            writer.write(row(i))
    with append(path) as writer:
        for i in range(5, 10):
            writer.write(row(i))
    return path


def page(path: str, condition: str, number: int, size: int) -> list[dict[str, Any]]:
    """Page ``number`` of the rows of a category."""
    with UniRecordDataset(path, where=condition) as dataset:
        return dataset[number * size : (number + 1) * size]


def test_indexed_columns_are_named(folder: str) -> None:  # P1
    assert resolve(folder).index == ("file_name", "label")


def test_categories_are_counted_over_all_parts_in_order_of_value(folder: str) -> None:  # P2
    groups = combination_counts(PartSet(resolve(folder)), ["label"])
    assert groups[:3] == [ValueCount((7,), 1), ValueCount((8,), 1), ValueCount((9,), 1)]
    assert groups[3:] == [
        ValueCount((13,), 3),
        ValueCount((355,), 1),
        ValueCount((490,), 1),
        ValueCount((822,), 2),
    ]
    assert sum(group.rows for group in groups) == 10


def test_pages_of_a_category_hold_its_rows_in_order(folder: str) -> None:  # P2, P3, P4
    assert [found["label"] for found in page(folder, "label == 822", 0, 1)] == [822]
    (only,) = page(folder, "file_name == 'image_00007.jpg'", 0, 1)
    assert only["label"] == 13
    shared = page(folder, "file_name == '1.jpg'", 0, 5)
    assert [found["label"] for found in shared] == [490, 13, 822]
    assert [found["data"] for found in shared] == [b"picture 1", b"picture 3", b"picture 5"]
    np.testing.assert_array_equal([found["segments"] for found in shared], [[1, -1], [3, -3], [5, -5]])
    assert [found["data"] for found in page(folder, "file_name == '2.jpg'", 0, 5)] == [
        b"picture 2",
        b"picture 6",
    ]


def test_later_pages_partial_pages_and_pages_past_the_end(folder: str) -> None:  # P4
    assert [found["data"] for found in page(folder, "label == 13", 0, 2)] == [b"picture 0", b"picture 3"]
    assert [found["data"] for found in page(folder, "label == 13", 1, 2)] == [b"picture 6"]
    assert page(folder, "label == 13", 2, 2) == []


def test_category_of_floats(folder: str) -> None:  # P5
    assert [found["data"] for found in page(folder, "rating == 7.0", 0, 9)] == [
        b"picture 0",
        b"picture 3",
        b"picture 6",
        b"picture 9",
    ]
    assert ValueCount((7.0,), 4) in combination_counts(PartSet(resolve(folder)), ["rating"])


def test_wrong_questions_are_refused_and_an_unknown_value_has_no_rows(folder: str) -> None:  # P6
    with pytest.raises(QueryError, match="cannot be compared with a string"):
        page(folder, "label == 'abc'", 0, 1)
    with pytest.raises(QueryError, match="cannot be compared with a number"):
        page(folder, "file_name == 3", 0, 1)
    with pytest.raises(SchemaError, match=r"no column|did you mean"):
        combination_counts(PartSet(resolve(folder)), ["lable"])
    with pytest.raises(SchemaError, match="it has no value in the index"):
        sortable_field(resolve(folder).schema, "data")
    assert page(folder, "label == 99999", 0, 1) == []
    assert page(folder, "file_name == 'abc.jpg'", 0, 1) == []


def test_missing_part_is_named(folder: str) -> None:  # P7
    second = sorted(Path(folder).glob("*.urec"))[1]
    second.unlink()
    with pytest.raises(MissingError, match=second.name):
        page(folder, "label == 822", 0, 5)


def test_where_keeps_exact_length_order_shards_and_resume(folder: str) -> None:
    everything = [i for i in range(10) if LABELS[i] in (13, 822)]
    with UniRecordDataset(folder, where="label in (13, 822)", shuffle=True, seed=3) as dataset:
        assert len(dataset) == len(everything)
        assert sorted(dataset.order.row_ids().tolist()) == everything
        assert [found["data"] for found in dataset] == [
            f"picture {i}".encode() for i in dataset.order.row_ids()
        ]
    shards = [
        UniRecordDataset(folder, r, 2, where="label in (13, 822)", remainder="uneven") for r in range(2)
    ]
    assert sorted(i for shard in shards for i in shard.order.row_ids().tolist()) == everything


def test_queries_read_parts_by_row_and_part_number(folder: str) -> None:
    parts = PartSet(resolve(folder))
    for text, expected in [
        ("part == 1", [5, 6, 7, 8, 9]),
        ("row >= 4 and part == 0", [4]),
        ("row in (1, 8)", [1, 8]),
        ("file_name like '%.jpg' and part == 1 and row < 7", [5, 6]),
    ]:
        assert compile_query(text, parts.schema).rows(parts).tolist() == expected, text


def test_arrow_table_is_queried_by_duckdb(folder: str) -> None:
    import duckdb

    with UniRecordDataset(folder) as dataset:
        table = dataset.to_arrow()
        connection = duckdb.connect()
        connection.register("scalars", table)
        found = connection.execute("SELECT count(*) FROM scalars WHERE label = 13").fetchall()
        assert found == [(compile_query("label == 13", dataset.schema).count(PartSet(resolve(folder))),)]
        assert dataset.to_pandas()["file_name"].tolist() == NAMES


# ---- what is checked, and when


def big_part(path: Path, rows: int = 200_000) -> str:
    with Writer(path, {"n": "int64", "name": "string?"}, index=["n"]) as writer:
        numbers = np.arange(rows, dtype=np.int64)
        writer.write_batch(
            {"n": numbers, "name": [None if i % 10 == 0 else f"v{i % 300}" for i in range(rows)]}
        )
    return str(path)


def damage(path: str, kind: int, column: int, at: int) -> None:
    """Flips a bit of byte ``at`` of a section of the index."""
    part = PartSet(resolve(path)).part(0)
    section = part._native.section(kind, column)
    with open(f"{path}.idx", "r+b") as file:
        file.seek(section.offset + at)
        byte = file.read(1)
        file.seek(section.offset + at)
        file.write(bytes([byte[0] ^ 1]))


def test_blocks_are_checked_where_they_are_touched_and_nowhere_else(tmp_path: Path) -> None:
    path = big_part(tmp_path / "big.urec")
    damage(path, layout.SECTION_VALUES, 0, 150_000 * 18 // 8)  # packed to as many bits as 200,000 takes
    parts = PartSet(resolve(path))

    def ask(text: str) -> int:
        return compile_query(text, parts.schema).count(parts)

    assert ask("n >= 8192") == 200_000 - 8192  # the zones say it all
    assert ask("n % 2 == 0 and n < 10000") == 5_000
    with pytest.raises(CorruptionError):
        ask("n % 2 == 0")


def test_damaged_dictionary_is_refused(tmp_path: Path) -> None:
    path = big_part(tmp_path / "big.urec")
    damage(path, layout.SECTION_DICTIONARY_ENTRIES, 1, 10)
    parts = PartSet(resolve(path))
    with pytest.raises(CorruptionError):
        compile_query("name like '%9'", parts.schema).rows(parts)


def test_failure_in_a_thread_reaches_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.query.scan.PARALLEL", 1)
    monkeypatch.setattr("unirecord.query.scan.SLICE", 4096)
    path = big_part(tmp_path / "big.urec")
    damage(path, layout.SECTION_CODES, 1, 150_000)
    parts = PartSet(resolve(path))
    with pytest.raises(CorruptionError):
        compile_query("name == 'v7'", parts.schema).rows(parts)


def test_kept_columns_do_not_keep_a_set_alive(folder: str) -> None:
    parts = PartSet(resolve(folder))
    compile_query("label == 13", parts.schema).rows(parts)
    alive = weakref.ref(parts)
    del parts
    gc.collect()
    assert alive() is None


# ---- looking


def test_statistics_agree_with_numpy(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    values = random.normal(size=5_000)
    values[::100] = np.nan
    schema = {"x": "float64", "n": "int16?", "t": "string", "b": "bytes", "f": "bool"}
    with Writer(tmp_path / "s.urec", schema) as writer:
        for i, x in enumerate(values):
            writer.write(
                {
                    "x": x,
                    "n": None if i % 7 == 0 else i % 100,
                    "t": "ab" * (i % 3),
                    "b": bytes(i % 50),
                    "f": i % 4 == 0,
                }
            )
    parts = PartSet(resolve(tmp_path / "s.urec"))
    real = values[~np.isnan(values)]
    x = column_statistics(parts, "x")
    assert (x.rows, x.nans, x.nulls, x.distinct) == (5_000, 50, 0, len(np.unique(real)))
    assert (x.min, x.max) == (real.min(), real.max())
    assert x.mean == pytest.approx(real.mean())
    assert x.quantiles["0.5"] == np.quantile(real, 0.5, method="inverted_cdf")
    assert sum(x.counts) == len(real)
    n = column_statistics(parts, "n")
    expected = np.array([i % 100 for i in range(5_000) if i % 7])
    assert (n.nulls, n.distinct, n.min, n.max) == (5_000 - len(expected), 100, 0, 99)
    assert n.mean == pytest.approx(expected.mean())
    assert sum(n.counts) == len(expected)
    assert column_statistics(parts, "t").common[0] == ("", 1667)
    b = column_statistics(parts, "b")
    assert (b.min, b.max, b.mean) == (0, 49, 24.5)
    assert column_statistics(parts, "f").mean == 0.25
    some = compile_query("row < 10", parts.schema).rows(parts)
    assert column_statistics(parts, "n", some).rows == 10


def test_sorting_puts_nan_after_numbers_and_nulls_last(tmp_path: Path) -> None:
    rows = [(2.0, "b"), (None, "a"), (float("nan"), None), (1.0, "b"), (2.0, "a"), (-0.5, "c")]
    with Writer(tmp_path / "s.urec", {"x": "float32?", "t": "string?"}) as writer:
        for x, t in rows:
            writer.write({"x": x, "t": t})
    parts = PartSet(resolve(tmp_path / "s.urec"))
    assert sorted_rows(parts, None, [("x", False)]).tolist() == [5, 3, 0, 4, 2, 1]
    assert sorted_rows(parts, None, [("x", True)]).tolist() == [0, 4, 3, 5, 2, 1]
    assert sorted_rows(parts, None, [("t", False), ("x", True)]).tolist() == [4, 1, 0, 3, 5, 2]
    assert sorted_rows(parts, None, [("x", False)], most=1).tolist() == [5]


def test_first_of_a_sort_are_the_sort_s_first(folder: str, tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(0, 50, 3_000)
    with Writer(tmp_path / "s.urec", {"n": "int32"}) as writer:
        writer.write_batch({"n": values.astype(np.int32)})
    parts = PartSet(resolve(tmp_path / "s.urec"))
    for descending in (False, True):
        whole = sorted_rows(parts, None, [("n", descending)])
        assert sorted_rows(parts, None, [("n", descending)], most=100).tolist() == whole[:100].tolist()


def test_sample_is_the_same_for_the_same_seed_and_has_no_repeats() -> None:
    first, again, other = (sampled_rows(None, 1_000, 50, seed) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    assert len(set(first.tolist())) == 50
    chosen = np.array([5, 9, 11], np.int64)
    assert sampled_rows(chosen, 1_000, 50, 1).tolist() == [5, 9, 11]


def test_groups_of_several_columns_nulls_and_nan(tmp_path: Path) -> None:
    with Writer(tmp_path / "g.urec", {"x": "float32?", "t": "string?"}) as writer:
        for x, t in [
            (1.0, "a"),
            (float("nan"), "a"),
            (None, None),
            (1.0, "a"),
            (float("nan"), "a"),
            (1.0, None),
        ]:
            writer.write({"x": x, "t": t})
    parts = PartSet(resolve(tmp_path / "g.urec"))
    found = combination_counts(parts, ["x", "t"])
    assert [(str(group.values), group.rows) for group in found] == [
        ("(1.0, 'a')", 2),
        ("(1.0, None)", 1),
        ("(nan, 'a')", 2),
        ("(None, None)", 1),
    ]
    assert [group.rows for group in combination_counts(parts, ["x"])] == [3, 2, 1]


def test_of_many_strings_evenly_spaced_ones_are_looked_at(tmp_path: Path) -> None:
    rows = 90_000  # of fewer, strings have a dictionary
    keys = [None if i % 10 == 9 else "often" if i % 10 == 0 else f"{i:05d}" for i in range(rows)]
    with Writer(tmp_path / "data", {"key": "string?", "kind": "string"}) as writer:
        writer.write_batch({"key": keys, "kind": ["ab"[i % 2] for i in range(rows)]})
    parts = PartSet(resolve(tmp_path / "data"))
    whole = column_statistics(parts, "key", None, rows)
    assert (whole.exact, whole.distinct, whole.nulls, whole.min) == (True, 72_001, 9_000, "00001")
    some = column_statistics(parts, "key", None, 30_000)
    assert (some.exact, some.distinct, some.min, some.max, some.nulls) == (False, None, None, None, 9_000)
    assert some.common == [
        ("often", 9_000)
    ]  # each tenth of them is among each third row, and stands for three
    assert sum(some.counts) == 27_000
    assert column_statistics(parts, "kind", None, 10) == column_statistics(
        parts, "kind"
    )  # it has a dictionary
    parts.close()


def test_numbers_that_are_stored_as_text_are_compared_as_the_error_says(tmp_path: Path) -> None:
    path, prices = tmp_path / "prices", ["5.00", "60.00", "499.99", "500.01", "1000.00", "99999.00"]
    with Writer(path, {"price": "string"}) as writer:
        writer.write_batch({"price": prices})
    with pytest.raises(QueryError, match=r"unirecord\.add_columns") as caught:
        UniRecordDataset(path, where="price > 500")
    assert "in quotes" not in str(caught.value)
    unirecord.add_columns(
        path, {"number": "float64"}, lambda rows: {"number": list(map(float, rows["price"]))}, reads=["price"]
    )
    with UniRecordDataset(path, where="number > 500") as ds:
        assert [row["price"] for row in ds] == prices[3:]
    with UniRecordDataset(path, where="price == '500.01'") as ds:
        assert len(ds) == 1


def test_groups_of_strings_without_a_dictionary_are_those_of_the_values_in_order(tmp_path: Path) -> None:
    values = [None if i % 9 == 0 else f"é{i * 7919 % 6000}" for i in range(12_000)]
    for number in range(2):
        with unirecord.Writer(str(tmp_path / f"{number}.urec"), {"s": "string?"}) as writer:
            writer.write_batch({"s": values[number * 6000 : (number + 1) * 6000]})
    parts = PartSet(resolve([str(tmp_path / f"{number}.urec") for number in range(2)]))
    counted = Counter(values)
    nulls = counted.pop(None)
    wanted = [ValueCount((value,), counted[value]) for value in sorted(counted, key=str)]
    assert list(combination_counts(parts, ["s"])) == [*wanted, ValueCount((None,), nulls)]


def _broken(strings: Strings) -> Strings:
    """The same with some bytes put out of order, so that they are no UTF-8."""
    data = strings.data.whole().tobytes().replace(b"\xc2\xa1", b"\xa1\xc2")
    return Strings(Vector(strings.offsets.whole()), Vector(np.frombuffer(data, np.uint8)))


_TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "é",
    "éa",
    "日本",
    "x" * 600,
    "x" * 600 + "y",
    "\0",
    "a\0",
    "¡",
    "b¡",
    "\U0001f600",
]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("broken", [False, True])
def test_groups_of_strings_are_those_that_a_counter_finds(
    tmp_path: Path, seed: int, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(seed)
    rows: list[str | None] = []
    for number in range(3):  # of few different strings, which are put into a dictionary, or of many
        count = int(random.integers(1, 3000))
        many = (
            [*_TEXTS, *(f"common prefix {i % 701:x}" for i in range(count))] if number != seed % 3 else _TEXTS
        )
        some = [None if random.random() < 0.1 else many[random.integers(len(many))] for _ in range(count)]
        with unirecord.Writer(str(tmp_path / f"{number}.urec"), {"s": "string?"}) as writer:
            writer.write_batch({"s": some})
        rows += some
    if broken:
        plain = PartColumns.strings
        monkeypatch.setattr(PartColumns, "strings", lambda part, column: _broken(plain(part, column)))
    parts = PartSet(resolve([str(tmp_path / f"{number}.urec") for number in range(3)]))
    share = [1, 0.5, 0.01][seed % 3]
    chosen = None if seed % 4 == 0 else np.flatnonzero(random.random(len(rows)) < share)
    values = [
        value for chunk in chunks(parts, chosen) for value in chunk.values(sortable_field(parts.schema, "s"))
    ]
    if not broken:
        assert values == (rows if chosen is None else [rows[row] for row in chosen.tolist()])
    wanted = Counter(values)
    groups = combination_counts(parts, ["s"], chosen)
    by_value = sorted(wanted.items(), key=lambda item: (item[0] is None, item[0] or ""))
    assert list(groups) == [ValueCount((value,), count) for value, count in by_value]
    assert isinstance(groups, StringGroups)
    backwards = sorted(by_value, key=lambda item: item[0] or "", reverse=True)
    backwards.sort(key=lambda item: item[0] is None)
    for descending in (False, True):
        for start, order in ((groups, by_value), (groups.sorted(False, True), backwards)):
            by_count = sorted(order, key=lambda item: item[1], reverse=descending)
            found = start.sorted(True, descending)
            for some in (slice(None), slice(0, 3), slice(2, 9), slice(len(found), None)):
                assert found[some] == [ValueCount((value,), count) for value, count in by_count[some]]
                assert start[some] == [ValueCount((value,), count) for value, count in order[some]]
    assert value_counts(parts, sortable_field(parts.schema, "s"), chosen) == wanted


def test_groups_of_strings_that_are_chosen_to_be_slow_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [f"{i * 7919 % 6000}" for i in range(12_000)]
    with unirecord.Writer(str(tmp_path / "a.urec"), {"s": "string"}) as writer:
        writer.write_batch({"s": values})
    monkeypatch.setattr(DistinctStrings, "add", lambda *_: None)
    found = combination_counts(PartSet(resolve(tmp_path / "a.urec")), ["s"])
    assert list(found) == [ValueCount((value,), count) for value, count in sorted(Counter(values).items())]


@pytest.mark.parametrize("kinds", [400, 60_000, 10**9])
def test_groups_of_many_strings_are_those_of_duckdb(
    tmp_path: Path, kinds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    drawn = np.random.default_rng(0).integers(0, kinds, 100_000).tolist()
    odd = ["", "a,b", 'say "x"', "x" * 300, "é", "日本"]
    values = [None if n % 50 == 7 else odd[n % 6] if n % 50 == 8 else f"some/{n}.jpg" for n in drawn]
    with unirecord.Writer(str(tmp_path / "a.urec"), {"s": "string?"}) as writer:
        writer.write_batch({"s": values})
    data = pa.table({"s": pa.array(values, pa.string())})
    connection = duckdb.connect()
    connection.register("data", data)
    for options, order in (([], "s nulls last"), (["--sort=-count"], "c desc, s nulls last")):
        found = connection.execute(f"select s, count(*) c from data group by s order by {order}").fetchall()
        for more in ([], ["--limit", "70", "--offset", "3"]):
            assert (
                main(["inspect", str(tmp_path / "a.urec"), "--group-by", "s", "--csv", *options, *more]) == 0
            )
            wanted = [(value or "", str(count)) for value, count in (found[3:73] if more else found)]
            assert list(map(tuple, csv.reader(io.StringIO(capsys.readouterr().out)))) == [
                ("s", "rows"),
                *wanted,
            ]


def test_groups_of_strings_leave_out_rows_that_have_been_deleted(tmp_path: Path) -> None:
    path = str(tmp_path / "set")
    values = [None if i % 9 == 0 else f"{i * 7919 % 2500}" for i in range(5000)]
    for start in (0, 3000):
        with Writer(path, {"s": "string?", "n": "int32"}) if start == 0 else append(path) as writer:
            writer.write_batch(
                {"s": values[start : start + 3000], "n": list(range(start, min(start + 3000, 5000)))}
            )
    unirecord.delete(path, where="n % 3 == 1")
    wanted = Counter(value for i, value in enumerate(values) if i % 3 != 1)
    parts = PartSet(resolve(path), knows_deletions=True)
    assert value_counts(parts, sortable_field(parts.schema, "s")) == wanted
    assert len(combination_counts(parts, ["s"])) == len(wanted)
