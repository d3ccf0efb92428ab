"""What holds of the first holds of the others: second parts, last rows, negative numbers, short last batches.

One table of questions whose answer differs where only the first element is looked at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reseal
from writing import write

import unirecord
from unirecord import StaleError, UniRecordDataset, Writer
from unirecord.convert.conversion import some
from unirecord.core import Bitmap, add_rows, empty_words
from unirecord.format.schema import Schema
from unirecord.format.value_rules import Values, filled_nulls
from unirecord.order.exclusion import Exclusion, ExclusionMask, Exclusions, ranges_of, rows_of_ranges
from unirecord.order.selection import Selection
from unirecord.order.spec import JobSteps
from unirecord.snapshot import data_file

ROWS, FIRST = 23, 16  # in two parts
SCHEMA = {"i": "int64", "b": "bytes", "t": "text?", "x": {"type": "int16", "shape": [-1]}}


def row(i: int) -> dict[str, Any]:
    return {
        "i": i,
        "b": bytes([i]) * (i % 4),
        "t": None if i % 3 else f"t{i}",
        "x": np.arange(i, dtype=np.int16),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("second") / "data"
    with Writer(folder, SCHEMA, max_part_bytes="1MB") as writer:
        for i in range(FIRST):
            writer.write(row(i))
    with unirecord.append(folder) as writer:
        for i in range(FIRST, ROWS):
            writer.write(row(i))
    return folder


# ---- numbers of elements -------------------------------------------------------------------------------------------


def ragged(path: Path, name: str) -> tuple[Any, list[Any]]:
    with UniRecordDataset(path) as ds:
        [batch] = list(ds.batches(ROWS))
        return batch[name], [row(i)[name] for i in range(ROWS)]


def dataset(path: Path) -> tuple[Any, list[Any]]:
    ds = UniRecordDataset(path)

    class Numbers:
        def __len__(self) -> int:
            return len(ds)

        def __getitem__(self, place: int) -> int:
            return int(ds[place]["i"])

    return Numbers(), list(range(ROWS))


class Places:
    """A selection as a list."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    def __len__(self) -> int:
        return len(self.selection)

    def __getitem__(self, place: int) -> int:
        (found,) = self.selection.select([place]).row_ids(np.zeros(1, np.int64)).tolist()
        assert found == self.selection[place]
        return int(found)


def bitmap(numbers: list[int]) -> Selection:
    words = empty_words(1000)
    add_rows(words, 1000, np.array(numbers, np.int64))
    return Selection(1000, bitmap=Bitmap(words, 1000))


SEQUENCES: dict[str, Callable[[Path], tuple[Any, list[Any]]]] = {
    "bytes of a batch": lambda path: ragged(path, "b"),
    "texts of a batch": lambda path: ragged(path, "t"),
    "arrays of a batch": lambda path: ragged(path, "x"),
    "samples": dataset,
    "a range of rows": lambda path: (
        Places(Selection(100).select(range(90, 10, -7))),
        list(range(90, 10, -7)),
    ),
    "all rows from the end": lambda path: (
        Places(Selection(100).select(range(-1, -101, -1))),
        list(range(99, -1, -1)),
    ),
    "rows one by one": lambda path: (Places(Selection(100).select([5, 3, 99, 3])), [5, 3, 99, 3]),
    "rows of a bitmap": lambda path: (Places(bitmap([3, 64, 500, 999])), [3, 64, 500, 999]),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_elements_have_the_numbers_of_a_lists(path: Path, name: str) -> None:
    found, expected = SEQUENCES[name](path)
    length = len(expected)
    assert len(found) == length
    for place in (*range(-length, length),):
        value = bytes(found[place]) if isinstance(found[place], memoryview) else found[place]
        np.testing.assert_array_equal(value, expected[place])
    for place in (-length - 1, length, length + 1):
        with pytest.raises(IndexError):
            found[place]


@pytest.mark.parametrize("wrong", [ROWS, -ROWS - 1, ROWS + 5])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "in the middle", "last"])
def test_a_wrong_number_is_refused_wherever_it_stands(path: Path, wrong: int, place: int) -> None:
    numbers = [-ROWS, ROWS - 1]
    numbers.insert(place, wrong)
    with UniRecordDataset(path) as ds:
        assert [int(sample["i"]) for sample in ds.__getitems__([-ROWS, ROWS - 1])] == [0, ROWS - 1]
        for call in (ds.__getitems__, ds.select):
            with pytest.raises(IndexError, match=str(wrong)):
                call(numbers)


@pytest.mark.parametrize("rank", range(5))
def test_the_last_samples_of_padded_shards_are_the_first_rows(path: Path, rank: int) -> None:
    ds = UniRecordDataset(path, shard_id=rank, num_shards=5, remainder="pad")
    expected = [(5 * i + rank) % ROWS for i in range(5)]
    places = [*range(5), *range(-5, 0)]
    assert [int(ds[place]["i"]) for place in places] == expected * 2
    assert [int(sample["i"]) for sample in ds.__getitems__(places)] == expected * 2
    assert ds.order.row_ids().tolist() == expected


def test_a_mask_is_as_long_as_the_longest_value_or_longer(path: Path) -> None:
    values, _ = ragged(path, "x")
    for length in (ROWS - 1, ROWS):
        assert values.mask(length).sum(1).tolist() == list(range(ROWS))
    with pytest.raises(ValueError, match="do not fit"):
        values.mask(ROWS - 2)


@pytest.mark.parametrize("shape", [(30, 2), (2, 30)])
def test_no_dimension_of_a_value_is_cut(tmp_path: Path, shape: tuple[int, int]) -> None:
    with Writer(tmp_path / "a.urec", {"x": {"type": "int8", "shape": [-1, -1]}}) as writer:
        for _ in range(2):
            writer.write({"x": np.ones(shape, np.int8)})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        [batch] = list(ds.batches(2))
        assert batch["x"].pad(shape=(30, 30)).sum() == 2 * 60
        with pytest.raises(ValueError, match="fit"):
            batch["x"].pad(shape=(10, 10))


@pytest.mark.parametrize(
    ("count", "expected"), [(0, []), (1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 3]), (11, [0, 5, 10])]
)
def test_the_first_a_middle_and_the_last_are_looked_at(count: int, expected: list[int]) -> None:
    assert some(range(count)) == expected


# ---- batches, skipped slots and steps --------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 23, 40])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("remainder", ["pad", "drop", "uneven"])
def test_steps_are_the_batches_of_all_ranks_the_short_last_ones_too(
    path: Path, batch: int, ranks: int, remainder: str
) -> None:
    views = [
        UniRecordDataset(path, shuffle=True, remainder=remainder, shard_id=rank, num_shards=ranks)
        for rank in range(ranks)
    ]
    steps: JobSteps = views[0].read_cursor.steps(0, batch, False)
    expected: list[tuple[int, ...]] = []
    for rank, view in enumerate(views):
        rows = view.order.row_ids().tolist()
        order = views[0].read_cursor.plan.order
        for step in range(len(steps)):
            at = order.order(0).at(steps.positions(step, rank))
            assert order.selection.row_ids(at).tolist() == rows[step * batch : (step + 1) * batch]
            if rank == 0:
                of_ranks = [steps.unwrapped(step, each) for each in range(ranks)]
                assert steps.unwrapped(step).tolist() == sorted(np.concatenate(of_ranks).tolist())
        expected += [
            ((sample * ranks + rank) % ROWS, sample // batch, rank, sample % batch)
            for sample in range(len(rows))
        ]
    which, *places = steps.places(np.arange(ROWS))
    found = zip(which.tolist(), *(place.tolist() for place in places), strict=True)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("fill", [False, True])
def test_the_holes_that_are_filled_are_those_of_each_ranks_batches(path: Path, seed: int, fill: bool) -> None:
    random = np.random.default_rng(seed)
    ranks, batch = int(random.integers(1, 4)), int(random.integers(1, 6))
    rows = np.sort(random.permutation(ROWS)[: random.integers(1, ROWS - 3)])
    since = int(random.integers(0, ROWS))
    expected: dict[int, int] = {}
    for rank in range(ranks):
        ds = UniRecordDataset(
            path, shuffle=True, seed=seed, shard_id=rank, num_shards=ranks, remainder="uneven"
        )
        order, steps = ds.read_cursor.plan.order, ds.read_cursor.steps(0, batch, False)
        out = Exclusions((Exclusion(Selection(ROWS).select(rows), (0, since), fill, {}),))
        exclusion_mask = ExclusionMask(out, order, 0, steps)
        first, stride = rank, ranks
        found = exclusion_mask.of_rank(first, stride, 0, len(ds))
        for sample in np.flatnonzero(found.out & found.there).tolist():
            expected[first + sample * stride] = int(found.given[sample])
        own = order.selection.row_ids(order.order(0).at(first + stride * np.arange(len(ds))))
        later = first + stride * np.arange(len(ds)) >= since
        assert found.out.tolist() == (np.isin(own, rows) & later).tolist()
        for step in range(len(steps)):
            whole = all(
                int(p) >= since and r in rows and not fill
                for p, r in zip(
                    steps.unwrapped(step),
                    order.selection.row_ids(order.order(0).at(steps.positions(step))),
                    strict=True,
                )
            )
            assert exclusion_mask.is_empty(step) == whole
    positions, given = exclusion_mask.fills()
    assert dict(zip(positions.tolist(), given.tolist(), strict=True)) == expected


def test_runs_of_rows_come_back() -> None:
    for rows in ([], [0], [0, 1], [0, 2], [0, 1, 3, 4, 6], [5, 7, 8, 9, 20]):
        runs = ranges_of(np.array(rows, np.int64))
        assert rows_of_ranges(runs).tolist() == rows
        assert all(before[1] < after[0] for before, after in pairwise(runs))


# ---- second parts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("io", ["mmap", "pread", "uring", "uring-direct", "memory"])
@pytest.mark.parametrize("columns", [["i"], ["b"], ["x", "b"]], ids=str)
def test_a_batch_sees_that_its_second_part_has_changed(
    path: Path, tmp_path: Path, io: str, columns: list[str]
) -> None:
    copy = shutil.copytree(path, tmp_path / "data")
    second = sorted(copy.glob("*.urec"))[1]
    with UniRecordDataset(copy, io=io, columns=columns) as ds:
        assert len(list(ds)) == ROWS
        for file in (second, Path(f"{second}.idx")):
            os.utime(file, ns=(1, 1))
        ds[0]
        if io != "memory":
            with pytest.raises(StaleError, match=second.name):
                ds.__getitems__([0, ROWS - 1])


@pytest.mark.parametrize(
    "where",
    [
        *(f"row {op} {value}" for op in ("<", "<=", ">", ">=", "==", "!=") for value in (0, FIRST, ROWS - 1)),
        *(f"part {op} {value}" for op in ("==", "<=", ">=", "!=") for value in (0, 1)),
        f"row in (0, {FIRST - 1}, {FIRST}, {ROWS - 1})",
        f"1 <= row <= {ROWS - 1}",
        "part in (1, 2)",
        "i == 22 or i == 0",
    ],
)
def test_a_condition_holds_at_the_ends_and_in_the_second_part(path: Path, where: str) -> None:
    expected = [i for i in range(ROWS) if eval(where, {"row": i, "i": i, "part": int(i >= FIRST)})]
    with UniRecordDataset(path, where=where) as ds:
        assert [int(sample["i"]) for sample in ds] == expected


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 64, 65, 130])
def test_rows_that_fill_no_whole_unit_are_read_back(tmp_path: Path, rows: int) -> None:
    expected = [{"b": bytes([i % 251]) * (i % 5), "t": f"{i}"} for i in range(rows)]
    with Writer(tmp_path / "a.urec", {"b": "bytes", "t": "text"}) as writer:
        for each in expected:
            writer.write(each)
    assert unirecord.verify(tmp_path / "a.urec").problems == []
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        assert [{"b": bytes(sample["b"]), "t": sample["t"]} for sample in ds] == expected
        assert bytes(ds[-1]["b"]) == expected[-1]["b"]


@pytest.mark.parametrize("dropped", [0, 1], ids=["the first", "the second"])
def test_parts_are_free_of_deleted_bytes_when_all_that_they_are_made_of_were(
    path: Path, tmp_path: Path, dropped: int
) -> None:
    copy = shutil.copytree(path, tmp_path / "data")
    places = [3, FIRST + 3]
    unirecord.delete(copy, rows=[places[dropped]])
    unirecord.compact(copy, part_bytes=1, drop_deleted=True)
    unirecord.delete(copy, rows=[places[1 - dropped]])
    assert unirecord.compact(copy).written == 1  # puts both together, and leaves out nothing
    assert unirecord.compact(copy, drop_deleted=True).written == 1
    assert unirecord.compact(copy, drop_deleted=True).written == 0
    with UniRecordDataset(copy) as ds:
        assert [int(sample["i"]) for sample in ds] == [i for i in range(ROWS) if i not in places]


def test_rows_are_deleted_at_the_ends_of_parts(path: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(path, tmp_path / "data")
    for rows in ([ROWS - 1], [0, FIRST - 1, FIRST]):
        unirecord.delete(copy, rows=rows)
    with UniRecordDataset(copy, shuffle=True) as ds:
        expected = sorted({*range(ROWS)} - {0, FIRST - 1, FIRST, ROWS - 1})
        assert len(ds) == len(expected)
        assert sorted(int(sample["i"]) for sample in ds) == expected


@pytest.fixture(scope="module")
def zones(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Parts of a zone's rows, of one more and of one."""
    folder, lengths = tmp_path_factory.mktemp("zones") / "data", [8192, 8193, 1]
    first = 0
    for length in lengths:
        with unirecord.append(folder) if first else Writer(folder, {"i": "int64"}) as writer:
            writer.write_batch({"i": np.arange(first, first + length)})
        first += length
    return folder, np.cumsum([0, *lengths]).tolist()


@pytest.mark.parametrize("field", ["row", "i"])
@pytest.mark.parametrize(
    "where",
    [
        "{f} in (0, {a}, {c})",
        "{f} in ({a} - 1, {b} - 1, {c} - 1)",
        "{f} not in (0, {b})",
        "{f} == {b} - 1",
        "{f} != {c} - 1",
        "{a} - 1 <= {f} and {f} <= {a}",
        "{f} >= {a} + 8192",
        "{f} < {a} or {f} > {b} - 1",
        "{f} <= {a} - 1",
    ],
)
def test_a_condition_holds_at_the_ends_of_zones(
    zones: tuple[Path, list[int]], where: str, field: str
) -> None:
    folder, (_, a, b, c) = zones
    text = where.format(f=field, a=a, b=b, c=c)
    for number in (a - 1, b - 1, c - 1):  # conditions have no arithmetic of constants in lists
        text = text.replace(f"{number + 1} - 1", str(number))
    expected = [i for i in range(c) if eval(text, {field: i})]
    assert expected
    with UniRecordDataset(folder, where=text) as ds:
        assert ds.order.row_ids().tolist() == expected


@pytest.mark.parametrize(
    "rows", ["row <= {r}", "row < {r}", "row >= {r}", "row > {r}", "not ({r} <= row <= {r})"]
)
@pytest.mark.parametrize("condition", ["i in ({a}, {b}, {c})", "{b} <= i <= {b} + 2"])
def test_a_row_that_a_sorted_column_has_found_is_tried_at_both_ends(
    tmp_path: Path, condition: str, rows: str
) -> None:
    count, r = 5 * 8192, 20_000  # so many that they are looked up
    numbers = np.arange(count) * 7919 % count
    a, b, c = numbers[r - 1 : r + 2].tolist()
    where = f"{condition} and {rows}".format(a=a, b=b, c=c, r=r).replace(f"{b} + 2", f"{b + 2}")
    with Writer(tmp_path / "a.urec", {"i": "int64"}, index=["i"]) as writer:
        writer.write_batch({"i": numbers})
    expected = [row for row, i in enumerate(numbers.tolist()) if eval(where, {"row": row, "i": i})]
    with UniRecordDataset(tmp_path / "a.urec", where=where) as ds:
        assert ds.order.row_ids().tolist() == expected


@pytest.mark.parametrize(
    ("where", "of_nan"),
    [
        ("0 <= x <= 5", False),
        ("not (0 <= x <= 5)", True),
        ("x == 1", False),
        ("x != 1", True),
        ("x > 0", False),
    ],
)
def test_what_all_values_of_a_zone_meet_its_nan_and_its_null_do_not(
    tmp_path: Path, where: str, of_nan: bool
) -> None:
    values: list[float | None] = [1.0] * 3 * 8192
    values[8191], values[8192] = float("nan"), None  # the last of the first zone, the first of the second
    with Writer(tmp_path / "a.urec", {"x": "float32?"}) as writer:
        writer.write_batch({"x": values})
    with UniRecordDataset(tmp_path / "a.urec", where=where) as ds:
        found = ds.order.row_ids().tolist()
    assert found == ([8191] if of_nan else [row for row in range(len(values)) if row not in (8191, 8192)])


def test_a_zone_of_one_string_is_that_of_a_long_list(tmp_path: Path) -> None:
    words = ["k04"] * 8192 + [f"k{i % 80:02d}" for i in range(8192)] + ["k05"] * 100
    wanted = [f"k{i:02d}" for i in range(0, 80, 2)]  # no two of which are neighbours in the dictionary
    with Writer(tmp_path / "a.urec", {"s": "string"}) as writer:
        writer.write_batch({"s": words})
    for negated in ("", "not "):
        with UniRecordDataset(tmp_path / "a.urec", where=f"s {negated}in {tuple(wanted)}") as ds:
            expected = [row for row, word in enumerate(words) if (word in wanted) != bool(negated)]
            assert ds.order.row_ids().tolist() == expected


def test_a_list_of_parts_holds_in_each_of_them(zones: tuple[Path, list[int]]) -> None:
    folder, (_, a, b, c) = zones
    with UniRecordDataset(folder, where="part in (0, 2)") as ds:
        assert ds.order.row_ids().tolist() == [*range(a), *range(b, c)]
    with UniRecordDataset(folder, where="part not in (0, 2)") as ds:
        assert ds.order.row_ids().tolist() == [*range(a, b)]


@pytest.mark.parametrize("sizes", [[3, 1, 5, 2], [1, 1, 4], [6, 2, 3]])
def test_batches_of_unequal_rows_make_one_group(tmp_path: Path, sizes: list[int]) -> None:
    cells = np.arange(sum(sizes) * 6, dtype=np.int16).reshape(-1, 6)
    with Writer(tmp_path / "a.urec", {"x": {"type": "int16", "shape": [6]}, "s": "string"}) as writer:
        for start, stop in pairwise([0, *np.cumsum(sizes).tolist()]):
            writer.write_batch({"x": cells[start:stop], "s": [f"{i}" for i in range(start, stop)]})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        assert [(sample["x"].tolist(), sample["s"]) for sample in ds] == [
            (cell.tolist(), f"{i}") for i, cell in enumerate(cells)
        ]


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("which", range(3))
def test_a_byte_of_a_null_is_seen_wherever_it_stands(which: int, place: int) -> None:
    """In the first null or the last, in its first byte or its last; of cells of one width, and of others."""
    rows, starts = np.array([2, 5, 9]), np.array([0, 8, 16])
    data = np.zeros(24, np.uint8)
    data[4:8] = 7  # of a row between them that is not null
    data[starts[which] + place] = 1
    [wide] = Schema.parse({"x": {"type": "uint8?", "shape": [4]}})
    sizes = np.full(3, 4)
    assert filled_nulls(wide, Values(rows, data, starts, sizes, sizes > 0)).tolist() == [rows[which]]
    [free] = Schema.parse({"x": "bytes?"})
    sizes = np.where(np.arange(3) == which, place + 1, 0)
    assert filled_nulls(free, Values(rows, data, starts, sizes, sizes >= 0)).tolist() == [rows[which]]


def test_rows_of_several_groups_have_their_nulls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_file, "_BLOCK_ROWS", 1)  # each group is a step of its own
    expected = [{"n": None if i % 3 else i, "b": None if i % 4 == 1 else bytes(3 << 20)} for i in range(11)]
    write(tmp_path / "a.urec", {"n": "int32?", "b": "bytes?"}, expected)
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        assert [(sample["n"], sample["b"] is None) for sample in ds] == [
            (one["n"], one["b"] is None) for one in expected
        ]
    assert unirecord.verify(tmp_path / "a.urec").ok


@pytest.mark.parametrize("part", [0, 1])
def test_verify_opens_the_second_part_too(path: Path, tmp_path: Path, part: int) -> None:
    copy = shutil.copytree(path, tmp_path / "data")
    name = sorted(copy.glob("*.urec"))[part]
    place = Path(f"{name}.idx")
    index = bytearray(place.read_bytes())
    columns = int.from_bytes(index[64:68], "little")
    index[192 + 32 * columns + 32] = 1  # of the first section, where it means nothing
    reseal.index(index, name.read_bytes())
    place.write_bytes(index)
    found = unirecord.verify(copy, quick=True)  # where the index is not compared with the data file
    assert [os.path.basename(problem.path) for problem in found.problems if "readers" in problem.what] == [
        place.name
    ]
