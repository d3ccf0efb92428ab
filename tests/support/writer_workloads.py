"""Writers at work, for tests that break them off."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import faults
from writing import files, read, write

from unirecord.writing.writer import append

# Values of NEW lie in chunks, those of OLD and SAME are whole.
SCHEMA = {"n": "int32", "s": "string", "b": {"type": "bytes", "chunks": 1_000}}
OLD = [{"n": i, "s": f"old{i}", "b": bytes(50)} for i in range(6)]
SAME = [{"n": i, "s": f"new{i}", "b": bytes(50)} for i in range(6)]  # sizes, too
NEW = [{"n": i, "s": f"new{i}", "b": bytes(3_000)} for i in range(9)]


def numbers(path: Path) -> list[str] | None:
    """What a reader sees: the strings of all rows, or None when there is no dataset."""
    there = path / "manifest.json" if path.suffix != ".urec" else path
    return [row["s"] for row in read(path)] if there.exists() else None


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["s"] for row in rows]


def new_part(path: Path, **options: Any) -> None:
    write(path / "x.urec", SCHEMA, NEW, **options)


def overwrite_part(path: Path) -> None:
    new_part(path, overwrite=True)


def overwrite_under_the_same_id(path: Path) -> None:
    part = path / "x.urec"
    write(part, SCHEMA, SAME, index=["n"], overwrite=True, id=part.read_bytes()[24:40])


def new_directory(path: Path, **options: Any) -> None:
    write(path / "x", SCHEMA, NEW, max_part_bytes=16_000, **options)


def overwrite_directory(path: Path) -> None:
    new_directory(path, overwrite=True)


def append_directory(path: Path) -> None:
    with append(path / "x", max_part_bytes=16_000) as writer:
        for row in NEW:
            writer.write(row)


WORKLOADS: dict[str, tuple[Callable[[Path], None], str, bool, list[str]]] = {
    "new part": (new_part, "x.urec", False, names(NEW)),
    "overwritten part": (overwrite_part, "x.urec", True, names(NEW)),
    "part of the same id": (overwrite_under_the_same_id, "x.urec", True, names(SAME)),
    "new directory": (new_directory, "x", False, names(NEW)),
    "overwritten directory": (overwrite_directory, "x", True, names(NEW)),
    "append": (append_directory, "x", True, names(OLD) + names(NEW)),
}


@cache
def old_files(target: str) -> dict[str, bytes]:
    """The files of a dataset of OLD."""
    with tempfile.TemporaryDirectory() as name, faults.unsynced():
        folder = Path(name)
        write(folder / target, SCHEMA, OLD, index=["n"])
        found = [path for path in folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def prepare(folder: Path, workload: str) -> tuple[Callable[[], None], Path, list[str] | None, list[str]]:
    folder.mkdir()
    work, target, exists, after = WORKLOADS[workload]
    for name, data in old_files(target).items() if exists else ():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return lambda: work(folder), folder / target, names(OLD) if exists else None, after


def clean(path: Path, workload: str) -> None:
    """The next writer succeeds, and leaves no file that is not part of the dataset."""
    with faults.unsynced():
        write(path, SCHEMA, OLD, overwrite=True)
    assert numbers(path) == names(OLD)
    beside = files(path.parent)
    assert beside == (["x.urec", "x.urec.idx"] if path.suffix else ["x"])
    if not path.suffix:
        assert len(files(path)) == 3
