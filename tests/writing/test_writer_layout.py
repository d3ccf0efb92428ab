"""The same rows make the same bytes however they come; groups, parameters and memory are what the design says."""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import reference_directory
from hypothesis import given, settings
from hypothesis import strategies as st
from writing import read, same

from unirecord.format.schema import Schema
from unirecord.format.values import RecordEncoder
from unirecord.writing.row_groups import Grouper
from unirecord.writing.writer import Writer

ID = bytes(range(16))

SCHEMAS: dict[str, dict[str, Any]] = {
    "fixed": {"x": {"type": "uint8", "shape": [700]}, "n": "int32"},
    "fixed with strings": {"x": {"type": "uint8", "shape": [60]}, "s": "string"},
    "variable": {"b": "bytes", "n": "int32", "t": "text"},
    "one blob": {"b": "bytes"},
    "scalars": {"n": "int32", "s": "string?"},
}


def make(schema: dict[str, Any], rows: int, seed: int = 0) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    makers = {
        "x": lambda i: rng.integers(0, 255, schema["x"]["shape"][0], dtype=np.uint8),
        "n": lambda i: i,
        "s": lambda i: "s" * int(rng.integers(0, 40)),
        "b": lambda i: rng.bytes(int(rng.integers(0, 900)) if i % 500 else 1_300_000),
        "t": lambda i: "t" * (i % 7),
    }
    return {name: [makers[name](i) for i in range(rows)] for name in schema}


def bytes_of(path: Path) -> list[str]:
    names = sorted(path.rglob("*")) if path.is_dir() else [path, Path(f"{path}.idx")]
    return [f"{name.name} {hashlib.sha256(name.read_bytes()).hexdigest()}" for name in names]


@pytest.mark.parametrize("target", ["x.urec", "x"])
@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_same_rows_make_the_same_bytes_however_they_come(tmp_path: Path, kind: str, target: str) -> None:
    schema, rows = SCHEMAS[kind], 9_000
    columns = make(schema, rows)
    found = []
    for number, cuts in enumerate([[rows], [1, 2, 4_000], [], [8_192, 8_193, 8_999]]):
        (tmp_path / str(number)).mkdir()
        path = tmp_path / str(number) / target
        with Writer(path, schema, id=ID, max_part_bytes=None if path.suffix else "2MB") as writer:
            start = 0
            for stop in cuts:
                writer.write_batch({name: values[start:stop] for name, values in columns.items()})
                start = stop
            for row in range(start, rows):
                writer.write({name: values[row] for name, values in columns.items()})
        found.append(bytes_of(path))
    assert found[1:] == found[:1] * 3


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 3_000), max_size=60),
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(1, 9_000),
)
def test_groups_depend_on_rows_and_not_on_batches(sizes: list[int], cuts: list[int], target: int) -> None:
    schema = Schema.parse({"b": "bytes"})
    encoder = RecordEncoder(schema)

    units = set()

    def groups(bounds: list[int]) -> list[list[int]]:
        grouper, out, start = Grouper(schema, target), [], 0
        for stop in [*sorted(min(cut, len(sizes)) for cut in bounds), len(sizes)]:
            batch = encoder.encode_batch({"b": [bytes(size) for size in sizes[start:stop]]}, start)
            out += list(grouper.add(batch, owned=False))
            start = stop
        out += list(grouper.finish())
        assert grouper.shape is not None
        units.add(max(grouper.shape.unit_rows, 1))
        return [[len(cell) for piece in group for cell in piece.columns[0].values] for group in out]

    found = groups(cuts)
    assert found == groups([])
    assert [size for group in found for size in group] == sizes
    (unit,) = units
    for group, following in pairwise(found):
        fitting = group[: len(group) - unit + 1]  # what comes after them makes the last digest unit whole
        assert len(group) % unit == 0
        assert sum(fitting) <= target or len(fitting) <= 1
        assert sum(group) >= target or sum(group) + following[0] > target


@pytest.mark.parametrize(
    ("schema", "expected"),  # blob_align, unit_rows, group_rows, row_bytes
    [
        ({"x": {"type": "uint8", "shape": [512]}}, (64, 16, 16_384, 512)),
        ({"x": {"type": "uint8", "shape": [100]}}, (1, 64, 65_536, 100)),
        ({"x": {"type": "float32", "shape": [3]}}, (8, 512, 65_536, 16)),
        ({"x": {"type": "uint8", "shape": [150_528]}}, (64, 0, 32, 150_528)),
        ({"x": {"type": "uint8", "shape": [5_000_000]}}, (64, 0, 1, 5_000_000)),
        ({"n": "int32"}, (1, 0, 65_536, 0)),
        ({"b": "bytes"}, (1, 16, 0, 0)),
        ({"b": "bytes", "t": "text"}, (1, 16, 0, 0)),
        ({"b": {"type": "int16", "shape": [-1]}}, (8, 16, 0, 0)),
    ],
)
def test_parameters_follow_from_the_schema(tmp_path: Path, schema: Any, expected: tuple[int, ...]) -> None:
    with Writer(tmp_path / "x.urec", schema):
        pass
    head = reference.read_part(tmp_path / "x.urec").head
    assert (head.align, head.unit_rows, head.group_rows, head.row_bytes) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [(10, (1, 16, 0, 0)), (300, (1, 8, 0, 0)), (1_000, (1, 4, 0, 0)), (1_200, (64, 2, 0, 0)), (2_500, (64, 1, 0, 0)),
     (4_096, (64, 0, 0, 0)), (100_000, (64, 0, 0, 0))],
)  # fmt: skip
def test_small_rows_of_differing_size_share_digests_and_starts(
    tmp_path: Path, size: int, expected: tuple[int, ...]
) -> None:
    with Writer(tmp_path / "x.urec", {"b": "bytes"}) as writer:
        writer.write_batch({"b": [bytes(size)] * 40})
    head = reference.read_part(tmp_path / "x.urec").head
    assert (head.align, head.unit_rows, head.group_rows, head.row_bytes) == expected


def test_parts_of_a_given_id_have_ids_that_follow_from_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Writer(tmp_path / name, {"b": "bytes"}, id=ID, max_part_bytes=50_000) as writer:
            writer.write_batch({"b": [bytes(20_000)] * 9})
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")
    ids = [part.head.id for part in reference_directory.read_directory(tmp_path / "a")]
    assert len(set(ids)) == len(ids) > 2


def test_two_writers_take_different_ids(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Writer(tmp_path / f"{name}.urec", {"b": "bytes"}):
            pass
    assert (
        reference.read_part(tmp_path / "a.urec").head.id != reference.read_part(tmp_path / "b.urec").head.id
    )


def test_long_strings_make_smaller_groups(tmp_path: Path) -> None:
    rows = [{"s": f"{i}" * 20_000} for i in range(1_500)]
    with Writer(tmp_path / "x.urec", {"s": "string"}) as writer:
        for row in rows:
            writer.write(row)
    part = reference.read_part(tmp_path / "x.urec")
    assert part.head.group_rows < 256
    same(part.rows, rows)


MANY = """
import resource, sys
from unirecord import Writer
with Writer(sys.argv[1], {"b": "bytes", "n": "int64"}, max_part_bytes="200MB") as writer:
    block = bytes(1 << 20)
    before = 0
    for i in range(1_000):
        writer.write({"b": block[i:], "n": i})
        if i == 50:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_dataset(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path / "d")], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 30_000  # KiB, for 1 GB


def test_a_group_larger_than_the_kernel_takes_at_once_is_one_call_for_the_user(tmp_path: Path) -> None:
    assert resource.getpagesize() == 4_096
    with Writer(tmp_path / "x.urec", {"b": "bytes"}) as writer:
        writer.write_batch({"b": [b"x"] * 3_000})  # more buffers than one writev takes
    assert read(tmp_path / "x.urec") == [{"b": b"x"}] * 3_000
