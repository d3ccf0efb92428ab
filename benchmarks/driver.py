"""Runs one peer in this process: `driver.py PEER write|read`, in that peer's environment."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import time
from pathlib import Path

from caches import SPARE, have_memory
from protocol import Unsuitable, answer, marker, measure
from workloads import Raw


def write(peer: str, raw: Raw, directory: Path) -> None:
    """Writes the peer's files from the raw bytes, once."""
    seconds = 0.0
    if not marker(directory).exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        start = time.perf_counter()
        importlib.import_module(f"peers.{peer}").write(raw, directory)
        seconds = time.perf_counter() - start
        os.sync()
        marker(directory).touch()
    answer({"write_seconds": round(seconds, 3)})


def read(peer: str, raw: Raw, directory: Path, arguments: argparse.Namespace) -> None:
    """Times shuffled reading."""
    module = importlib.import_module(f"peers.{peer}")
    if arguments.cold:
        have_memory(raw.total_bytes + SPARE)
    options = dict(option.split("=", 1) for option in arguments.option)
    opened = time.perf_counter()
    reader = module.open_reader(raw, directory, arguments.threads, **options)
    answer(measure(raw, reader, arguments.seconds, arguments.cold, opened))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer")
    parser.add_argument("task", choices=["write", "read"])
    parser.add_argument("--raw", type=Path, required=True, help="directory of the raw bytes")
    parser.add_argument("--data", type=Path, required=True, help="directory of the peer's files")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    raw = Raw.open(arguments.raw)
    try:
        if arguments.task == "write":
            write(arguments.peer, raw, arguments.data)
        else:
            read(arguments.peer, raw, arguments.data, arguments)
    except Unsuitable as reason:
        answer({"unsuitable": str(reason)})
    sys.stdout.flush()
    os._exit(0)  # a peer's threads and shared memory must not hold the run up


if __name__ == "__main__":
    sys.exit(main())
