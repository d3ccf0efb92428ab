"""Interrupts what writes, wherever Python handles signals: each line of its input is [WORKLOAD, STEP, AGAIN], as JSON.

Each is done in a fork of this process, which has compiled what ticks. Every STEP-th tick of the work is interrupted, up
to the first that is not reached. With an AGAIN above 0, what follows each of these is interrupted, too: at every
AGAIN-th of the places to which the work has not come yet after an interrupt with the same files on the disk. The answer
is a line: how many runs there were, how many of them with two interrupts, and what went wrong.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import interrupts

FILES = (
    *(
        "storage/*.py",
        "writing/writer.py",
        "writing/*_writer.py",
        "writing/directory_claim.py",
        "writing/change.py",
    ),
    *("inspect/repair.py", "loading/plan.py", "loading/opened.py"),
    *("dataset/dataset.py", "dataset/cursor.py", "dataset/samples.py"),
    *("writing/manifest_changes.py", "writing/garbage.py", "writing/deletion.py", "writing/rewrite.py"),
    "writing/directory_change.py",
)

if __name__ == "__main__":
    interrupts.instrument(*FILES)

import faults  # noqa: E402 - these import what ticks
from writer_workloads import OLD, SCHEMA, WORKLOADS, names, numbers  # noqa: E402
from writing import write  # noqa: E402

import unirecord  # noqa: E402
from unirecord.errors import BusyError  # noqa: E402
from unirecord.snapshot import manifest  # noqa: E402
from unirecord.snapshot.versions import files_of  # noqa: E402


class Case:
    """A folder with a dataset or without one, and work on it; made anew from the same files for every run."""

    def __init__(self, folder: Path, workload: str) -> None:
        self.work, name, exists, self.after = WORKLOADS[workload]
        self.folder, self.start = folder / "now", folder / "start"
        self.path = self.folder / name
        self.start.mkdir()
        if exists:
            write(self.start / name, SCHEMA, OLD, index=["n"])
        self.before = names(OLD) if exists else None

    def run(self, *at: int) -> int:
        """Interrupts the work, checks what it left, and returns how many interrupts took place."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.start, self.folder)
        error = interrupts.interrupted(lambda: self.work(self.folder), *at)
        done, self.places = interrupts.Plan.done, interrupts.Plan.places
        try:
            if (
                sum(at) % 2 and type(self) is Case
            ):  # the exception is kept, as notebooks do it, and what it met with it
                with suppress(BusyError):
                    unirecord.Writer(self.path, SCHEMA, overwrite=True).abort()
            del error
            self.check()
        except BaseException as failure:
            raise AssertionError(f"after interrupts at {at}") from failure
        return done

    def check(self) -> None:
        """Old or new; sound; and the next writer finds its way and leaves nothing else."""
        seen = numbers(self.path)
        assert seen in (self.before, self.after), seen
        if seen is not None:
            with unirecord.UniRecordDataset(self.path) as dataset:
                assert [row["s"] for row in dataset] == seen
            assert unirecord.verify(self.path).problems == []
        write(self.path, SCHEMA, OLD, overwrite=seen is not None)
        assert numbers(self.path) == names(OLD)
        left = [path.name for path in self.folder.rglob("*") if path.name.endswith((".tmp", ".new"))]
        assert left == []


class Repair(Case):
    """Repair of a dataset of which one file is lost."""

    def __init__(self, folder: Path, lost: str, *, remove: bool = True) -> None:
        self.folder, self.start, self.lost = folder / "now", folder / "start", lost
        self.path = self.folder / lost.split("/")[0].removesuffix(".idx")
        self.start.mkdir()
        write(self.start / self.path.name, SCHEMA, OLD, max_part_bytes=None if self.path.suffix else 600)
        if remove:
            (self.start / lost).unlink()

    def work(self, folder: Path) -> None:
        unirecord.repair(self.path)

    def check(self) -> None:
        """Repaired, or as it was; and the next repair finds its way."""
        if (self.folder / self.lost).exists():
            assert numbers(self.path) == names(OLD)
        assert all(part.action in ("none", "index") for part in unirecord.repair(self.path).parts)
        assert numbers(self.path) == names(OLD)
        assert unirecord.verify(self.path).problems == []
        assert [path.name for path in self.folder.rglob("*") if path.name.endswith((".tmp", ".new"))] == []


class WrongSizes(Repair):
    """Repair of a directory whose manifest gives a wrong size of a file."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, f"{name}/manifest.json", remove=False)
        listing = self.start / self.lost
        found = manifest.read(str(listing))
        first = found.parts[0]._replace(index_bytes=5)
        listing.write_bytes(manifest.encode(replace(found, parts=(first, *found.parts[1:]))))

    def check(self) -> None:
        """The rows can be read whatever the manifest says of sizes; and the next repair finds its way."""
        with unirecord.UniRecordDataset(self.path) as dataset:
            assert [row["s"] for row in dataset] == names(OLD)
        unirecord.repair(self.path)
        super().check()


class Refresh(Case):
    """A dataset that takes in what has been appended."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.start, self.path = folder / "now", folder / "start", folder / "now" / name
        self.start.mkdir()
        write(self.start / name, SCHEMA, OLD)

    def work(self, folder: Path) -> None:
        self.dataset = unirecord.UniRecordDataset(folder / self.path.name, where="n >= 0")
        plan = interrupts.Plan
        (left, plan.left), (watched, plan.watched) = (plan.left, []), (plan.watched, False)
        with unirecord.append(self.path) as writer:
            writer.write(OLD[0])
        plan.left, plan.watched = left, watched
        self.dataset.refresh()

    def check(self) -> None:
        """The rows of before or of after, and the next refresh takes all in."""
        if hasattr(self, "dataset"):
            for _ in range(2):
                found = [row["s"] for row in self.dataset]
                assert found in (names(OLD), names([*OLD, OLD[0]]))
                assert (
                    len(found)
                    == len(self.dataset)
                    == self.dataset.num_rows
                    == len(self.dataset.order.row_ids())
                )
                assert self.dataset[len(found) - 1]["s"] == found[-1]
                self.dataset.refresh()
            del self.dataset


class Change(Case):
    """A dataset of three versions of which another one is made, or the earlier ones are removed."""

    def __init__(self, folder: Path, change: str) -> None:
        self.folder, self.start, self.path = folder / "now", folder / "start", folder / "now" / "x"
        self.start.mkdir()
        start = self.start / "x"
        write(start, SCHEMA, OLD, index=["n"])
        for number in range(2):
            with unirecord.append(start) as writer:
                writer.write(OLD[number])
        grown = names([*OLD, *OLD[:2]])
        self.versions = {1: grown[:-2], 2: grown[:-1], 3: grown}
        self.change = change
        self.versions[4] = {"restore": grown[:-2], "delete": grown[1:], "evict": grown[-1:]}.get(change, [])
        if change == "sort":
            self.versions[4] = names(sorted([*OLD, *OLD[:2]], key=lambda row: row["n"], reverse=True))
        if change == "set":
            self.versions[4] = ["new"] * len(grown)
        if change == "purge":
            self.versions |= {4: grown[1:], 5: grown[1:]}
        if change in ("add columns", "rename columns"):
            self.versions[4] = grown

    def work(self, folder: Path) -> None:
        CHANGES[self.change](self.path)

    def seen(self, **options: int) -> list[str]:
        """The strings of all rows."""
        with unirecord.UniRecordDataset(self.path, shuffle=False, **options) as dataset:
            return [str(row["s"]) for row in dataset]

    def check(self) -> None:
        """Each version that is there has its rows; the same again does it, and leaves nothing else."""
        there = [version.number for version in unirecord.versions(self.path)]
        last = {"gc": 3, "purge": 5}.get(self.change, 4)
        assert 3 <= there[-1] <= last, there
        assert self.change in ("gc", "evict", "purge") or there[:2] == [1, 2], there
        assert all(self.seen(version=number) == self.versions[number] for number in there), there
        if there[-1] == 3 or self.change == "purge":
            CHANGES[self.change](self.path)
        assert self.seen() == self.versions[last]
        assert unirecord.verify(self.path).problems == []
        unirecord.gc(self.path, keep=1)
        named = {
            name for name in files_of(manifest.read(str(self.path / manifest.NAME))) if ".del-" not in name
        }
        parts = [path.name.removesuffix(".idx") for path in self.path.iterdir() if ".del-" not in path.name]
        assert {name for name in parts if name.startswith("part-")} == named
        left = [path for path in self.folder.rglob("*") if path.name.endswith((".tmp", ".new"))]
        for path in left:  # the plan of what was published, for who asks to go on with it
            assert path.name.startswith(".append-"), left
            assert [one for one in path.iterdir() if one.name.startswith("part-")] == [], left


def more_numbers(batch: dict[str, Any]) -> dict[str, Any]:
    """A column for `unirecord.add_columns`."""
    return {"m": [len(word) for word in batch["s"]]}


CHANGES: dict[str, Callable[[Path], Any]] = {
    "restore": lambda path: unirecord.restore(path, 1),
    "gc": lambda path: unirecord.gc(path, keep=1),
    "delete": lambda path: unirecord.delete(path, rows=[0]),
    "evict": lambda path: unirecord.evict(path, 3_000, collect=True),
    "purge": lambda path: unirecord.purge(path, rows=[0]),
    "sort": lambda path: unirecord.sort(path, "n", descending=True),
    "add columns": lambda path: unirecord.add_columns(path, {"m": "int64"}, more_numbers),
    "set": lambda path: unirecord.set_values(path, "row >= 0", {"s": "new"}),
    "rename columns": lambda path: unirecord.rename_columns(path, {"n": "number"}),
}

CASES: dict[str, Callable[[Path], Case]] = {
    **{workload: partial(Case, workload=workload) for workload in WORKLOADS},
    "lost index": partial(Repair, lost="x.urec.idx"),
    "lost manifest": partial(Repair, lost="x/manifest.json"),
    "wrong sizes": partial(WrongSizes, name="x"),
    "refresh": partial(Refresh, name="x"),
    **{change: partial(Change, change=change) for change in CHANGES},
}


class Handling:
    """What follows an interrupt: tells where a second one has not been yet."""

    def __init__(self, case: Case) -> None:
        self.case, self.files = case, [""]
        self.known: set[tuple[Any, ...]] = set()
        interrupts.Plan.first = self.look

    def look(self) -> None:
        """Notes the files that there are at the interrupt, without the random part of their names."""
        names = sorted(str(path.relative_to(self.case.folder)) for path in self.case.folder.rglob("*"))
        self.files = [re.sub("-[0-9a-f]{8}(?=[.])", "", name) for name in names]

    def new_ticks(self, places: Sequence[tuple[Any, int]]) -> list[int]:
        """Ticks after the last interrupt whose place has not come yet with these files on the disk."""
        found = []
        for tick, place in enumerate(places, 1):
            state = (*self.files, *place)
            if state not in self.known:
                self.known.add(state)
                found.append(tick)
        return found


def main(workload: str, step: int, again: int) -> tuple[int, int]:
    """Runs it, and returns the number of runs, and of those with two interrupts."""
    sys.unraisablehook = lambda _: None  # an interrupt in a finalizer, which Python only tells of
    runs, twice, at = 0, 0, 1
    with (
        tempfile.TemporaryDirectory() as folder,
        faults.unsynced(),
    ):
        case = CASES[workload](Path(folder))
        handling = Handling(case)
        while case.run(at):
            runs += 1
            if again:
                twice += sum(case.run(at, tick) == 2 for tick in handling.new_ticks(case.places)[::again])
            at += step
    return runs + twice, twice


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                answer = [*main(*json.loads(line)), ""]
            except BaseException:
                answer = [0, 0, traceback.format_exc()]
            print(json.dumps(answer), flush=True)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status != 0:
            print(json.dumps([0, 0, f"the process ended with status {status}"]), flush=True)
