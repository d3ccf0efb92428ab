"""Whatever docs/spec/format.md allows is read, verified and rewritten, also what the package itself never writes."""

from __future__ import annotations

import base64
import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import reseal
from conformance.canonical import frozen, stored
from dirgen import MadeDirectory, generate_directory, publish
from partgen import MadePart, fill, generate, write
from partgen_bytes import Col, Spec
from reference_directory import read_directory
from reference_rules import wide_digest
from small_parts import variable_part

import unirecord

SEEDS = range(24)

Rows = list[dict[str, Any]]


def rows_of(path: Path) -> Rows:
    with unirecord.UniRecordDataset(path) as ds:
        return [{name: stored(value) for name, value in frozen(sample).items()} for sample in ds]


def expected(made: MadeDirectory) -> Rows:
    return [frozen(row) for row in made.rows]


def check(path: Path, rows: Rows) -> None:
    """The dataset is read as these rows, and found good, by the package and by the page."""
    assert rows_of(path) == rows
    report = unirecord.verify(path, threads=1)
    assert report.problems == []
    assert unirecord.verify(path, quick=True).problems == []
    found = read_directory(path)
    assert sum(len(part.raw) - len(part.deleted) for part in found) == len(rows)


def test_a_legal_directory_is_as_the_page_says(tmp_path: Path) -> None:
    for seed in SEEDS:
        made = generate_directory(seed, tmp_path / str(seed))
        found = read_directory(made.path)
        rows = [
            frozen(row)
            for part in found
            for number, row in enumerate(part.rows)
            if number not in set(part.deleted)
        ]
        assert rows == expected(made), seed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_legal_directory_is_read_and_verified(tmp_path: Path, seed: int) -> None:
    made = generate_directory(seed, tmp_path / "d")
    check(made.path, expected(made))
    assert unirecord.describe(made.path).rows == len(made.rows)


def appended(path: Path, rows: Rows) -> Rows:
    with unirecord.UniRecordDataset(path) as ds:
        more = list(ds)[:3]
    with unirecord.append(path) as writer:
        for sample in more:
            writer.write(sample)
    return rows + rows[:3]


def compacted(path: Path, rows: Rows) -> Rows:
    unirecord.compact(path)
    return rows


def joined(path: Path, rows: Rows) -> Rows:
    unirecord.compact(path, join_columns=True, drop_deleted=True)
    return rows


def resharded(path: Path, rows: Rows) -> Rows:
    unirecord.reshard(path, max(len(rows) // 7, 1), drop_deleted=True)
    return rows


def deleted(path: Path, rows: Rows) -> Rows:
    if not rows:
        return rows
    with unirecord.UniRecordDataset(path) as ds:
        [gone] = ds.order.row_ids(0, 1).tolist()
    unirecord.delete(path, rows=[gone])
    unirecord.compact(path, drop_deleted=True)
    return rows[1:]


def column_added(path: Path, rows: Rows) -> Rows:
    unirecord.add_columns(path, {"of the test": "int8"}, [{"of the test": 3} for _ in rows])
    return [{**row, **frozen({"of the test": np.int8(3)})} for row in rows]


def sorted_by_value(path: Path, rows: Rows) -> Rows:
    with unirecord.UniRecordDataset(path) as ds:
        scalars = [column.name for _, column in ds.schema.scalars]
    if scalars:
        unirecord.sort(path, scalars[0])
    return rows_of(path) if sorted(map(repr, rows)) == sorted(map(repr, rows_of(path))) else []


def restored(path: Path, rows: Rows) -> Rows:
    compacted(path, rows)
    before = int(min(path.glob("manifest-*"), default=Path("manifest-0")).name.split("-")[1])
    if before:
        unirecord.restore(path, before)
    return rows


CHANGES: list[Callable[[Path, Rows], Rows]] = [
    appended,
    compacted,
    joined,
    resharded,
    deleted,
    column_added,
    sorted_by_value,
    restored,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_legal_directory_can_be_changed(tmp_path: Path, change: Callable[[Path, Rows], Rows]) -> None:
    for seed in SEEDS:
        made = generate_directory(seed, tmp_path / str(seed))
        check(made.path, change(made.path, expected(made)))
        shutil.rmtree(made.path)


def test_legal_directories_are_merged_and_written_anew(tmp_path: Path) -> None:
    for seed in SEEDS:
        one = generate_directory(seed, tmp_path / f"a{seed}")
        other = generate_directory(1000 + seed, tmp_path / f"b{seed}", like=one)
        rows = expected(one) + expected(other)
        both = tmp_path / f"c{seed}"
        unirecord.merge([one.path, other.path], both)
        check(both, rows)
        unirecord.write_dataset(both, tmp_path / f"d{seed}")
        assert rows_of(tmp_path / f"d{seed}") == rows


def test_a_legal_part_is_found_good_and_stays_so_in_a_directory(tmp_path: Path) -> None:
    for seed in range(40):
        made = generate(seed + 700, tmp_path, f"{seed}.urec")
        assert unirecord.verify(made.path, threads=1).problems == []
        assert rows_of(made.path) == [frozen(row) for row in made.rows]
        merged = tmp_path / f"of {seed}"
        unirecord.merge([made.path], merged)
        check(merged, [frozen(row) for row in made.rows])


def _index_of_others(manifest: dict[str, Any]) -> None:
    manifest["index"] = [] if manifest["index"] else ["s5"]


def _other_metadata(manifest: dict[str, Any]) -> None:
    manifest["metadata"] = base64.b64encode(msgpack.packb({"by": "others"})).decode()


def _nonsense_of_same_rows(manifest: dict[str, Any]) -> None:
    manifest["same_rows"] = {"identity": 5}


@pytest.mark.parametrize("change", [_index_of_others, _other_metadata, _nonsense_of_same_rows])
def test_a_manifest_that_says_other_things_than_its_parts_is_not_good(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    made = directory_of_one(tmp_path)
    manifest = json.loads((made / "manifest.json").read_bytes())
    change(manifest)
    publish(made, manifest)
    assert len(unirecord.verify(made, threads=1).problems) == 1
    assert len(unirecord.verify(made, quick=True).problems) == 1


def directory_of_one(tmp_path: Path) -> Path:
    made = variable_part(tmp_path / "v.urec")
    unirecord.merge([made.path], tmp_path / "d")
    assert unirecord.verify(tmp_path / "d", threads=1).ok
    return tmp_path / "d"


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 17])
def test_a_section_with_an_extra_that_means_nothing_is_not_good(tmp_path: Path, kind: int) -> None:
    made = variable_part(tmp_path / "v.urec")
    index = bytearray(made.index)
    columns, sections = struct.unpack_from("<II", index, 64)
    directory = range(192 + 32 * columns, 192 + 32 * columns + 48 * sections, 48)
    place = next(at for at in directory if struct.unpack_from("<H", index, at)[0] == kind)
    index[place + 32] = 1
    reseal.index(index, made.data)
    Path(f"{made.path}.idx").write_bytes(index)
    with pytest.raises(unirecord.CorruptionError):
        unirecord.UniRecordDataset(made.path)
    assert not unirecord.verify(made.path, threads=1).ok
    assert not unirecord.verify(made.path, quick=True).ok


@pytest.mark.parametrize("what", ["name", "type", "shape", "annotations"])
def test_a_part_of_another_schema_is_refused(tmp_path: Path, what: str) -> None:
    """The manifest says that the part has its schema, and the part says another one that has the same table."""
    columns = [Col("n", "int32"), Col("a", "float32", [2, 3], annotations={"unit": "m"}), Col("t", "text")]
    spec = Spec(b"0123456789abcdef", columns, user={"b": 2, "a": 1})
    spec.groups = [2]
    made = MadePart(tmp_path / "p.urec", spec, [])
    fill(random.Random(1), made, 2)
    write(made)
    unirecord.merge([made.path], tmp_path / "d")
    assert rows_of(tmp_path / "d") == [frozen(row) for row in made.rows]
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_bytes())
    [n, a, _] = manifest["schema"]
    if what == "name":
        n[0] = "m"
    elif what == "type":
        n[1] = "uint32"
    elif what == "shape":
        a[2] = [3, 2]
    else:
        a[3]["unit"] = "km"
    types = msgpack.packb([entry[:3] for entry in manifest["schema"]])
    manifest["parts"][0]["schema"] = wide_digest(types).hex()
    publish(tmp_path / "d", manifest)
    with pytest.raises(unirecord.UniRecordError), unirecord.UniRecordDataset(tmp_path / "d") as ds:
        str(ds[0])
    assert not unirecord.verify(tmp_path / "d", threads=1).ok
