"""Conversions to an object store that die at a request, again and again, until one has come through.

python tests/support/resumed_store.py [--runs N]     `make store-resumes` has every request, and 300 random sequences

To the store, a process that is killed and one that is cut off are the same: from a request on, none arrives.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numbers_converted import check, files
from numbers_source import SCHEMA, Numbers
from objectstore import Fault, Request, Server
from written_store import URL, folder, served

from unirecord import UniRecordError
from unirecord.convert import task
from unirecord.convert.conversion import Conversion
from unirecord.format.schema import Schema
from unirecord.snapshot import manifest

UNITS = [30, 4, 0, 50, 20]  # the fourth makes several parts
ROWS = sum(UNITS)
_LEAST_BYTES = 9_000


def conversion(place: Path, target: str = URL, **options: Any) -> Conversion:
    """One of several tasks, of which some make several parts."""
    source = Numbers(place, options.pop("units", UNITS))
    spec: dict[str, Any] = {"index": ["n"], "max_part_bytes": 12_000, "resume": True, **options}
    return Conversion(source, target, Schema.parse(SCHEMA), **spec)


class DieAt:
    """From request ``number`` on none arrives; that one may, though its answer is ``lost``."""

    def __init__(self, number: int, *, lost: bool) -> None:
        self.number, self.lost, self.count = number, lost, 0

    @property
    def dead(self) -> bool:
        return self.count >= self.number

    def __call__(self, request: Request) -> Fault | None:
        self.count += 1
        if self.count < self.number:
            return None
        is_it = self.count == self.number and self.lost and request.method not in ("GET", "HEAD")
        return Fault(lost=True) if is_it else Fault(hang_up=True)


def dies(server: Server, spec: Conversion, number: int, *, lost: bool) -> bool:
    """Runs it until the request of that number; whether that came to pass."""
    server.fault = fault = DieAt(number, lost=lost)
    try:
        spec.run()
    except (OSError, UniRecordError):
        assert fault.dead
    finally:
        server.fault = lambda request: None
    return fault.dead


def check_published_whole(server: Server, place: Path) -> None:
    """What is in the store is what one process writes to a disk with the same id, and nothing else."""
    found = files(folder(server))
    listing = manifest.decode(found["manifest.json"], "manifest.json")
    alone = place / "alone"
    if not alone.exists() or manifest.read(str(alone / "manifest.json")).id != listing.id:
        shutil.rmtree(alone, ignore_errors=True)
        conversion(place, str(alone), id=listing.id, resume=False).run()
    assert files(alone) == found


def check_half(server: Server) -> None:
    """Nothing is published, or all."""
    if (folder(server) / "manifest.json").exists():
        check(folder(server), ROWS)


def is_done(server: Server) -> bool:
    """Whether it is published and has no journal any more: there is nothing to go on with."""
    there = folder(server)
    return (there / "manifest.json").exists() and not list(there.glob(".conversion*"))


def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", _LEAST_BYTES)


def killed_at_random(server: Server, place: Path, chance: random.Random, most: int, **options: Any) -> int:
    """Runs until one comes through; how many died before."""
    for deaths in range(1_000):
        number = chance.randint(1, most) if deaths < 30 else 10_000
        if not dies(server, conversion(place, **options), number, lost=chance.random() < 0.5):
            return deaths
        check_half(server)
        if is_done(server):
            return deaths + 1
        most += 1  # so that it comes to an end
    raise AssertionError("it does not come to an end")


def clear(server: Server) -> None:
    """Empties the bucket."""
    shutil.rmtree(server.root / "bucket")
    (server.root / "bucket").mkdir()


def every_request(server: Server, place: Path, spec: Callable[[], Conversion], step: int = 1) -> int:
    """Dies at each request in turn, with it done and not, and goes on then; how many there were."""
    number = 1
    while True:
        for lost in (False, True):
            clear(server)
            if not dies(server, spec(), number, lost=lost):
                return number - 1
            check_half(server)
            if not is_done(server):
                spec().run()
            check_published_whole(server, place)
        number += step


def main() -> int:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder_of_all, pytest.MonkeyPatch.context() as patch:
        small_tasks(patch)
        place = Path(folder_of_all)
        for server in served(place, patch):
            with contextlib.redirect_stderr(io.StringIO()):
                count = every_request(server, place, lambda: conversion(place))
                deaths = 0
                for seed in range(runs):
                    clear(server)
                    deaths += killed_at_random(server, place, random.Random(seed), 60)
                    check_published_whole(server, place)
            print(
                f"killed at each of {count} requests, done and not, and in {runs} random sequences {deaths:,} times: "
                "the same bytes as on a disk each time"
            )
            assert os.listdir(place / "spool") == []
    return 0


if __name__ == "__main__":
    sys.exit(main())
