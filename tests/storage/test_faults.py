"""A power cut at any moment of any writer leaves exactly the last published dataset, as the reference reads it.

Writers killed or failed at each call: tests/writing/test_writer_crash.py.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from powercut import after_power_cut, recorded
from reference import read_part
from reference_directory import read_directory

import unirecord

SCHEMA = {"n": "int32", "s": "string", "b": "bytes"}
CUTS = 250  # per workload; more than 1,000 in all


def rows(kind: str, count: int) -> list[dict[str, object]]:
    return [{"n": i, "s": f"{kind}{i}", "b": bytes([i]) * (900 * i)} for i in range(count)]


def write(path: Path, kind: str, count: int, **options: object) -> None:
    part_bytes = None if path.suffix else 6000
    with unirecord.Writer(path, SCHEMA, index=["n"], max_part_bytes=part_bytes, **options) as writer:  # type: ignore[arg-type]
        for row in rows(kind, count):
            writer.write(row)


def write_again(path: Path) -> None:
    """Other rows of the same sizes under the same id."""
    write(path, "new", 6, overwrite=True, id=path.read_bytes()[24:40])


def append(path: Path) -> None:
    with unirecord.append(path, max_part_bytes=6000) as writer:
        for row in rows("more", 5):
            writer.write(row)


def seen(path: Path) -> list[str] | None:
    """The strings of all rows as the reference reads them; None: there is no dataset."""
    if path.suffix == ".urec":
        return [row["s"] for row in read_part(path).rows] if path.exists() else None
    if not (path / "manifest.json").exists():
        return None
    return [row["s"] for part in read_directory(path) for row in part.rows]


OLD, NEW, MORE = ([row["s"] for row in rows(k, n)] for k, n in (("old", 6), ("new", 8), ("more", 5)))
WORKLOADS: dict[str, tuple[str, bool, Callable[[Path], None], object]] = {
    "new part": ("x.urec", False, lambda p: write(p, "new", 8), NEW),
    "overwritten part": ("x.urec", True, lambda p: write(p, "new", 8, overwrite=True), NEW),
    "part of the same id": ("x.urec", True, write_again, NEW[:6]),
    "new directory": ("x", False, lambda p: write(p, "new", 8), NEW),
    "overwritten directory": ("x", True, lambda p: write(p, "new", 8, overwrite=True), NEW),
    "append": ("x", True, append, OLD + MORE),
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_power_cut_leaves_the_last_published_dataset(tmp_path: Path, workload: str) -> None:
    name, exists, work, after = WORKLOADS[workload]
    root = tmp_path / "root"
    root.mkdir()
    if exists:
        write(root / name, "old", 6)
    before = OLD if exists else None
    with recorded(root) as recorder:
        work(root / name)
    assert seen(root / name) == after
    outcomes = []
    for seed in range(CUTS):
        folder = tmp_path / "disk"
        complete = after_power_cut(recorder, random.Random(seed), folder)
        found = seen(folder / name)
        assert found == after or (found == before and not complete), f"seed {seed}"
        outcomes.append(found == after)
        if seed % 10 == 0:  # and the next writer finds its way
            write(folder / name, "old", 6, overwrite=True)
            assert seen(folder / name) == OLD
        shutil.rmtree(folder)
    assert 0 < sum(outcomes) < CUTS
    print(
        f"{workload}: {len(recorder.log)} calls, {CUTS} power cuts, {sum(outcomes)} after the new dataset was published"
    )


def test_a_writer_that_forgets_to_sync_would_be_caught(tmp_path: Path) -> None:
    """The replay itself: without syncs it does lose data."""
    root = tmp_path / "root"
    root.mkdir()
    with recorded(root) as recorder:
        write(root / "x.urec", "new", 8)
    recorder.log = [op for op in recorder.log if op[0] != "sync"]
    bad = 0
    for seed in range(60):
        folder = tmp_path / "disk"
        after_power_cut(recorder, random.Random(seed), folder)
        try:
            bad += seen(folder / "x.urec") not in (None, NEW)
        except Exception:
            bad += 1
        shutil.rmtree(folder)
    assert bad
