"""Processes that end while they use an object store, one after the other: each must end as Python does, in silence.

python tests/support/store_exits.py [--times N]     `make store-exits` has 100 of each kind

The client was seen to abort when the interpreter ends under it. Each process is a fork of one that has not used the
client, which runs to the end of this file, and so through all that an interpreter does at its end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from objectstore import serving

from unirecord import UniRecordDataset, Writer

ROWS = 300
kept: list[object] = []  # what is still open when the interpreter ends


def closed(url: str) -> None:
    """An epoch, and all is closed."""
    with UniRecordDataset(url, shuffle=True) as ds:
        assert sum(len(batch["n"]) for batch in ds.batches(16)) == ROWS


def open_in_an_epoch(url: str) -> None:
    """The dataset is open, batches are on their way."""
    ds = UniRecordDataset(url, shuffle=True)
    batches = iter(ds.batches(4, prefetch=8, num_threads=4))
    next(batches)
    kept.extend((ds, batches))


def read_by_a_thread(url: str) -> None:
    """A thread that nobody waits for reads on."""
    begun = threading.Event()

    def read() -> None:
        ds = UniRecordDataset(url, shuffle=True)
        try:
            while True:
                for _ in ds.batches(4):
                    begun.set()
        except Exception as error:  # whatever a process that ends makes of it
            kept.append(error)

    threading.Thread(target=read, daemon=True).start()
    assert begun.wait(60)


WAYS: tuple[Callable[[str], None], ...] = (closed, open_in_an_epoch, read_by_a_thread)


def in_children(url: str, times: int) -> list[str] | None:
    """What went wrong; in a child None, after which the interpreter ends."""
    wrong = []
    for way in WAYS * times:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(writing, 2)
            os.close(reading)
            way(url)
            return None
        os.close(writing)
        with open(reading, encoding="utf-8", errors="replace") as pipe:
            said = pipe.read().strip()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status or said:
            wrong.append(f"{way.__name__}: {status}, {said[-400:]!r}")
    return wrong


def with_a_store(times: int) -> int:
    """Serves a dataset to an interpreter that does the above; its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        (bucket := Path(folder) / "bucket").mkdir()
        with Writer(bucket / "a.urec", {"n": "int64", "x": "uint8[5000]"}) as writer:
            writer.write_batch({"n": np.arange(ROWS), "x": np.zeros((ROWS, 5000), np.uint8)})
        with serving(Path(folder)) as server:
            command = [
                sys.executable,
                __file__,
                "--times",
                str(times),
                "--url",
                f"{server.url}/bucket/a.urec",
            ]
            return subprocess.run(command, timeout=60 + 60 * times).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--url", help="of a dataset; it is made and served where there is none")
    args = parser.parse_args()
    if args.url is None:
        return with_a_store(args.times)
    wrong = in_children(args.url, args.times)
    if wrong is None:
        return 0
    print(f"{len(WAYS) * args.times} processes ended, {len(wrong)} of them wrongly", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    status = main()
    if status:
        sys.exit(status)
