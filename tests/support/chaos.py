"""Producers, a deleter, a compactor and a trainer on one directory, killed at random: what is left is what they said.

``python chaos.py SECONDS [SEED]``; `make chaos`. Each process writes down what it begins and what it has done.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import faults
import numpy as np

import unirecord
from unirecord import BusyError, UniRecordDataset

SCHEMA = {"who": "int16", "n": "int64", "b": "bytes"}
PRODUCERS = 3
BATCH = 32
Range = tuple[int, int, int]  # who, first, stop


def content(who: int, n: int) -> bytes:
    return bytes([who, n % 251]) * (n % 50)


class Log:
    """Lines of a process that survive it: "begin …" and "done …"."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name

    def say(self, *words: object) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, (" ".join(map(str, words)) + "\n").encode())
        os.close(fd)

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def ranges(self, word: str) -> list[Range]:
        return [(int(w), int(a), int(b)) for said, w, a, b, *_ in self.lines() if said == word]


class Run:
    """The folders, and the work of each process: one turn of it."""

    def __init__(self, root: Path) -> None:
        self.path, self.receipts, self.logs = root / "set", root / "receipts", root / "logs"
        self.logs.mkdir()
        with faults.unsynced(), unirecord.Writer(self.path, SCHEMA):
            pass
        self.work: dict[str, Callable[[random.Random], None]] = {
            **{f"producer-{who}": lambda r, who=who: self.produce(who, r) for who in range(PRODUCERS)},  # type: ignore[misc]
            "deleter": self.delete,
            "compactor": self.compact,
            "trainer": self.train,
        }

    def log(self, name: str) -> Log:
        return Log(self.logs, name)

    def produce(self, who: int, r: random.Random) -> None:
        log = self.log(f"producer-{who}")
        first = max([0, *(stop for _, _, stop in log.ranges("begin"))])
        stop = first + r.randint(1, 60)
        log.say("begin", who, first, stop)
        with unirecord.append(self.path, max_part_bytes=4_096) as writer:
            for n in range(first, stop):
                writer.write({"who": who, "n": n, "b": content(who, n)})
        log.say("done", who, first, stop)

    def delete(self, r: random.Random) -> None:
        log, who = self.log("deleter"), r.randrange(PRODUCERS)
        done = self.log(f"producer-{who}").ranges("done")
        if done:
            _, first, stop = r.choice(done)
            a = r.randrange(first, stop)
            b = r.randint(a + 1, stop)
            log.say("begin", who, a, b)
            retried(lambda: unirecord.delete(self.path, where=f"who == {who} and n >= {a} and n < {b}"))
            log.say("done", who, a, b)

    def compact(self, r: random.Random) -> None:
        retried(lambda: unirecord.compact(self.path, rows_per_part=r.choice([100, 1_000])))
        self.log("compactor").say("compacted")
        retried(lambda: unirecord.gc(self.path, keep=r.randint(1, 4)))
        self.log("compactor").say("collected")

    def train(self, r: random.Random) -> None:
        """Some epochs, each of what is there by then; a row that is wrong, missing or there twice ends the process."""
        with UniRecordDataset(self.path, shuffle=True, seed=r.randrange(1 << 30)) as ds:
            for _ in range(3):
                ds.refresh()
                rows = len(ds)
                seen: set[tuple[int, int]] = set()
                for batch in ds.batches(BATCH, receipts=self.receipts):
                    check(batch, seen)
                assert len(seen) == rows, (len(seen), rows)
                self.log("trainer").say("epoch", rows)


def check(batch: Any, seen: set[tuple[int, int]]) -> None:
    for who, n, b in zip(batch["who"].tolist(), batch["n"].tolist(), batch["b"], strict=True):
        assert bytes(b) == content(who, n), (who, n)
        assert (who, n) not in seen, (who, n)
        seen.add((who, n))


def retried(work: Callable[[], object]) -> None:
    """The work, as soon as no other writer holds the directory."""
    is_done = False
    while not is_done:
        with suppress(BusyError):
            work()
            is_done = True
        time.sleep(0.002)


def start(run: Run, name: str, seed: int, turns: int | None) -> int:
    """A process that does its work again and again; it ends with 1 where something is wrong."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        r = random.Random(seed)
        with faults.unsynced():  # whoever dies here is a process and not the machine
            while turns is None or turns > 0:
                run.work[name](r)
                turns = None if turns is None else turns - 1
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def chaos(root: Path, seconds: float, seed: int) -> Counter[str]:
    """All of them for so long, one after the other killed and begun anew; AssertionError for what is wrong."""
    run, r, counts = Run(root), random.Random(seed), Counter[str]()
    alive = {name: start(run, name, r.randrange(1 << 30), None) for name in run.work}
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(r.uniform(0.1, 2.5))
            name = r.choice(sorted(alive))
            os.kill(alive[name], signal.SIGKILL)
            status = os.waitpid(alive[name], 0)[1]
            assert os.WIFSIGNALED(status), f"{name} has ended by itself"
            counts["kills"] += 1
            alive[name] = start(run, name, r.randrange(1 << 30), None)
    finally:
        for pid in alive.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        codes = {name: os.waitpid(pid, 0)[1] for name, pid in alive.items()}
    assert all(os.WIFSIGNALED(status) for status in codes.values()), codes
    return counts + settled(run)


def in_turns(root: Path, turns: int, seed: int) -> Counter[str]:
    """So many turns of each beside the others, killed after some of them: for the suite."""
    run, r, counts = Run(root), random.Random(seed), Counter[str]()
    for _ in range(turns):
        pids = [start(run, name, r.randrange(1 << 30), 1) for name in run.work]
        victim = r.randrange(len(pids))
        time.sleep(r.uniform(0, 0.2))
        os.kill(pids[victim], signal.SIGKILL)
        codes = [os.waitpid(pid, 0)[1] for pid in pids]
        assert all(code == 0 for i, code in enumerate(codes) if i != victim), codes
        counts["kills"] += 1
    return counts + settled(run)


def settled(run: Run) -> Counter[str]:
    """Whether what is there is what the processes have said; how much of what they did."""
    with unirecord.append(run.path) as writer:  # removes what the dead have left
        writer.write({"who": PRODUCERS, "n": 0, "b": b""})
    unirecord.compact(run.path)  # gives up what a dead compactor could have gone on with
    seen: set[tuple[int, int]] = set()
    with UniRecordDataset(run.path) as ds:
        for batch in ds.batches(512):
            check(batch, seen)
        assert len(seen) == len(ds)
    seen.remove((PRODUCERS, 0))
    deleter, counts = run.log("deleter"), Counter[str]()
    gone = {(w, n) for w, a, b in deleter.ranges("done") for n in range(a, b)}
    perhaps = {(w, n) for w, a, b in deleter.ranges("begin") for n in range(a, b)} - gone
    assert not gone & seen, "rows that were deleted are there"
    for who in range(PRODUCERS):
        log = run.log(f"producer-{who}")
        done = set(log.ranges("done"))
        for one in log.ranges("begin"):
            rows = {(who, n) for n in range(one[1], one[2])}
            sure = rows - gone - perhaps
            assert sure <= seen or (one not in done and not rows & seen), f"rows of {one} are missing"
            counts["rows"] += len(rows & seen)
        counts["appends"] += len(done)
    assert counts["rows"] == len(seen), "rows that nobody has written"
    for who, a, b in set(deleter.ranges("begin")) - set(deleter.ranges("done")):
        there = [(who, n) in seen for n in range(a, b) if (who, n) not in gone]
        others = perhaps - {(who, n) for n in range(a, b)}
        assert len(set(there)) < 2 or others, f"the deletion of {(who, a, b)} was done in part"
    assert unirecord.verify(run.path).ok
    counts["versions"] = unirecord.versions(run.path)[-1].number
    counts["deletions"] = len(deleter.ranges("done"))
    for name, word in (("compactor", "compacted"), ("compactor", "collected"), ("trainer", "epoch")):
        counts[word] = sum(line[0] == word for line in run.log(name).lines())
    if counts["epoch"]:
        check_receipts(run, counts)
    check_files(run)
    return counts


def check_receipts(run: Run, counts: Counter[str]) -> None:
    report = unirecord.audit(run.receipts)
    for order in report.orders:
        for epoch in order.epochs:
            assert not epoch.twice, epoch
            assert not epoch.never, epoch
            counts["audited epochs"] += 1


def check_files(run: Run) -> None:
    """No file is left that no version names."""
    unirecord.gc(run.path, keep=1)
    listing = unirecord.snapshot.versions.read_newest(str(run.path))
    named = unirecord.snapshot.versions.files_of(listing)
    left = {name.removesuffix(".idx") for name in os.listdir(run.path)} - named - {"manifest.json"}
    assert not left, left


if __name__ == "__main__":
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found = chaos(Path(folder), float(sys.argv[1]), seed)
    print(", ".join(f"{name}: {many:,}" for name, many in sorted(found.items())))
    assert np.all([found[name] for name in ("appends", "deletions", "compacted", "epoch")]), "too short a run"
