"""Two datasets are compared as two dicts of rows are, whatever their parts, codecs, deletions and columns."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from objectstore import serving
from writing import write

import unirecord
from unirecord import MissingError, SchemaError, UniRecordError, diff
from unirecord.cli import main
from unirecord.inspect import diff as diff_module
from unirecord.snapshot.part_set import PartSet
from unirecord.storage import object_store

MEMORY = Path("/dev/shm")
ROOM = MEMORY if os.access(MEMORY, os.W_OK) else None
SCHEMA = {"n": "int64?", "s": "string", "b": "bytes?", "v": "float32[2]", "t": "int16[-1]"}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=ROOM) as folder:
        yield Path(folder)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def row(n: int, **other: Any) -> dict[str, Any]:
    tokens = np.full(n % 3, n % 99, np.int16)
    values = {"n": n, "s": f"s{n}", "b": bytes([n % 251]) * (n % 7), "v": floats(n, 0.5), "t": tokens}
    return values | other


def make(
    path: Path, rows: list[dict[str, Any]], schema: Any = SCHEMA, each: int = 1000, **options: Any
) -> Path:
    """The rows, in parts of ``each``."""
    with faults.unsynced():
        write(path, schema, rows[:each], **options)
        for first in range(each, len(rows), each):
            with unirecord.append(path) as writer:
                for one in rows[first : first + each]:
                    writer.write(one)
    return path


def kinds(found: unirecord.Diff) -> tuple[int, int, int, int]:
    return found.added, found.gone, found.changed, found.moved


def test_versions_are_compared_without_reading_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "x", [row(n) for n in range(30)], each=10)
    unirecord.delete(path, rows=[3, 25])
    unirecord.restore(path, 1)
    monkeypatch.setattr(PartSet, "read", None)
    found = diff(f"{path}@2", f"{path}@4")
    assert kinds(found) == (9, 1, 0, 0)
    assert [(one.kind, one.row, one.other_row) for one in found.examples[:2]] == [
        ("gone", 3, None),
        ("added", None, 20),
    ]
    assert (len(found.parts_added), found.parts_gone, found.read) == (1, (), 0)
    assert kinds(diff(f"{path}@4", path)) == (1, 19, 0, 0)
    assert diff(f"{path}@1", path).equal


def test_parts_and_codecs_make_no_difference(tmp_path: Path) -> None:
    rows = [row(n, b=None if n % 4 == 0 else bytes(50)) for n in range(40)]
    a = make(tmp_path / "a", rows, each=7)
    b = make(tmp_path / "b", rows, SCHEMA | {"b": {"type": "bytes?", "codec": "zstd"}}, each=40)
    c = make(tmp_path / "c.urec", rows)
    for one, other in ((a, b), (b, c), (c, a)):
        for options in ({}, {"key": "n"}, {"key": ["s", "t"]}):
            found = diff(one, other, **options)
            assert found.equal, found
            assert found.read == 40
    assert diff(a, a, key="s").read == 0


def test_values_are_compared_by_their_bits(tmp_path: Path) -> None:
    schema = {"f": "float64?", "a": "float32[-1]"}
    other_nan = np.frombuffer(np.uint64(0x7FF8000000000001).tobytes(), np.float64)[0]
    a = make(
        tmp_path / "a", [{"f": f, "a": floats(1)} for f in (math.nan, math.nan, 0.0, None, None)], schema
    )
    b = make(
        tmp_path / "b", [{"f": f, "a": floats(1)} for f in (math.nan, other_nan, -0.0, None, 0.0)], schema
    )
    found = diff(a, b)
    assert [one.row for one in found.examples] == [1, 2, 4]
    assert found.changed_columns == {"f": 3}


def test_columns_are_named(tmp_path: Path) -> None:
    a = make(
        tmp_path / "a",
        [{"k": 1, "x": 1, "y": 2, "z": 3}],
        {"k": "int8", "x": "int8", "y": "int8", "z": "int8"},
    )
    b = make(
        tmp_path / "b", [{"y": 5, "z": 3, "w": 1, "k": 1}],
        {"y": "int16", "z": "int8?", "w": "int8", "k": {"type": "int8", "annotations": {"unit": "m"}}},
    )  # fmt: skip
    found = diff(a, b, key="k")
    assert (found.columns_gone, found.columns_added) == (("x",), ("w",))
    assert [(one.name, one.compared) for one in found.columns_retyped] == [
        ("k", True),
        ("y", False),
        ("z", True),
    ]
    assert kinds(found) == (0, 0, 0, 0)
    assert not found.equal
    assert not diff(a, make(tmp_path / "c", [{"v": 1}], {"v": "int8"})).equal


def test_metadata_are_content(tmp_path: Path) -> None:
    a, b = (make(tmp_path / name, [row(1)], metadata={"classes": [name]}) for name in "ab")
    found = diff(a, b)
    assert found.metadata_differs
    assert not found.equal


def test_a_key_that_two_rows_have_is_refused_by_name(tmp_path: Path) -> None:
    a = make(tmp_path / "a", [row(n, s="twin" if n in (3, 17) else f"s{n}") for n in range(20)])
    b = make(tmp_path / "b", [row(n) for n in range(20)])
    for first, second in ((a, b), (b, a)):
        with pytest.raises(UniRecordError, match=r"a: rows 3 and 17 have the same key, s = 'twin'"):
            diff(first, second, key="s")
    unirecord.delete(a, rows=[17])
    assert kinds(diff(a, b, key="s")) == (2, 1, 0, 0)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    a = make(tmp_path / "a", [row(1)])
    b = make(tmp_path / "b", [{"n": 1.0}], {"n": "float64"})
    with pytest.raises(SchemaError, match="no key column 'm'"):
        diff(a, a, key="m")
    with pytest.raises(SchemaError, match=r"key column 'n' is int64\? in .*a and float64 in .*b"):
        diff(a, b, key="n")
    with pytest.raises(MissingError):
        diff(a, tmp_path / "c")
    for options in ({"any_order": True}, {"key": []}, {"limit": -1}):
        with pytest.raises(ValueError, match=r"any_order|key|limit"):
            diff(a, b, **options)


def test_the_command_tells_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = make(tmp_path / "a", [row(n) for n in range(30)])
    b = make(tmp_path / "b", [row(n, v=floats(0, 0)) if n < 20 else row(n) for n in range(2, 31)][::-1])
    assert main(["diff", str(a), str(b), "--key", "s", "--limit", "2"]) == 1
    said = capsys.readouterr().out
    for line in (
        "2 rows gone",
        "row 0: s = 's0'",
        "1 row added",
        "18 rows changed: v in 18",
        "and 16 more",
        "(v)",
    ):
        assert line in said
    assert "they differ: 30 and 29 rows, 28 of them read" in said
    assert main(["diff", str(a), str(b), "--key", "s", "--json", "--limit", "0"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["equal"], found["gone"], found["moved"], found["examples"]) == (False, 2, 27, [])
    c = make(tmp_path / "c", [row(n) for n in range(30)][::-1])
    assert main(["diff", str(a), str(c), "--key", "s"]) == 1
    assert main(["diff", str(a), str(c), "--key", "s", "--any-order"]) == 0
    assert main(["diff", str(a), str(a)]) == 0
    assert "equal: 30 and 30 rows, 0 of them read" in capsys.readouterr().out
    part = next(c.glob("*.urec"))
    part.write_bytes(part.read_bytes()[:-40])
    for wrong in ([str(c)], [str(tmp_path / "d")], [str(a), "--any-order"], [str(a), "--key", "m"]):
        assert main(["diff", str(a), *wrong]) == 2
        assert capsys.readouterr().err.startswith("unirecord: ")


def test_many_keys_lie_in_files_and_blocks_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(n) for n in range(300)]
    a, b = make(tmp_path / "a", rows, each=90), make(tmp_path / "b", rows[::-1][:250])
    whole = diff(a, b, key=["n", "s"])
    monkeypatch.setattr(diff_module, "KEYS_AT_ONCE", 37)
    monkeypatch.setattr(diff_module, "_MOST_ROWS", 8)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    parted = diff(a, b, key=["n", "s"])
    assert parted == whole
    assert kinds(parted) == (0, 50, 0, 250)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("unirecord-")]


def test_a_store_is_read_as_a_disk_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(n) for n in range(25)]
    (tmp_path / "bucket").mkdir()
    here = make(tmp_path / "bucket" / "a", rows, each=10)
    monkeypatch.setattr(object_store, "_stores", {})
    with serving(tmp_path) as server:
        server.set_environment(monkeypatch)
        assert diff(here, "s3://bucket/a").read == 0
        assert diff(make(tmp_path / "b", rows), "s3://bucket/a", key="n").equal


rows_of = st.dictionaries(
    st.integers(0, 24), st.tuples(st.sampled_from(["", "x", "yy"]), st.binary(max_size=3)), max_size=15
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), first=rows_of, second=rows_of, at_once=st.sampled_from([5, 1 << 20]))
def test_it_is_the_difference_of_two_dicts(
    data: Any, first: dict[int, Any], second: dict[int, Any], at_once: int
) -> None:
    second |= {k: first[k] for k in (data.draw(st.lists(st.sampled_from(sorted(first)))) if first else [])}
    orders = [data.draw(st.permutations(sorted(one))) for one in (first, second)]
    schema = {"k": "int32", "s": "string", "b": "bytes"}
    with tempfile.TemporaryDirectory(dir=ROOM) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff_module, "KEYS_AT_ONCE", at_once)
        sides = []
        for name, rows, order in zip("ab", (first, second), orders, strict=True):
            path, extra = Path(folder) / name, data.draw(st.integers(0, 2))
            listed = [{"k": k, "s": rows[k][0], "b": rows[k][1]} for k in order]
            make(path, [*({"k": -1, "s": "", "b": b""} for _ in range(extra)), *listed], schema, each=9)
            with faults.unsynced():
                unirecord.delete(path, rows=range(extra))
            sides.append((path, {k: extra + i for i, k in enumerate(order)}))
        (a, at), (b, of) = sides
        found = diff(a, b, key="k", limit=50)
        both = set(first) & set(second)
        changed = {k for k in both if first[k] != second[k]}
        moved = {k for k in both if at[k] != of[k]}
        assert {(one.kind, *one.key) for one in found.examples} == {
            *(("added", k) for k in set(second) - both), *(("gone", k) for k in set(first) - both),
            *(("changed", k) for k in changed), *(("moved", k) for k in moved),
        }  # fmt: skip
        assert kinds(found) == (len(second) - len(both), len(first) - len(both), len(changed), len(moved))
        columns = {
            "s": sum(first[k][0] != second[k][0] for k in both),
            "b": sum(first[k][1] != second[k][1] for k in both),
        }
        assert found.changed_columns == {name: many for name, many in columns.items() if many}
        by_number, numbers = (
            diff(a, b),
            ({i: (k, *first[k]) for k, i in at.items()}, {i: (k, *second[k]) for k, i in of.items()}),
        )
        mine, theirs = numbers
        assert (by_number.added, by_number.gone) == (len(theirs.keys() - mine), len(mine.keys() - theirs))
        assert by_number.changed == sum(mine[i] != theirs[i] for i in mine.keys() & theirs)
