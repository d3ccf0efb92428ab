"""Times what people ask of a table: `inspect` of many columns, and groups of millions of strings beside DuckDB.

    python benchmarks/tables.py [--rows 5000000] [--rounds 3] [--folder DIR] [--quick]

Commands as users call them, each a process of its own, its start included, in turns: seconds of the clock and of the
processor, the least of the rounds. DuckDB has the same table in its own file, two threads, and writes CSV, too. The
tables are made in DIR, where they stay, or for this run alone.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import numpy as np

import unirecord

PARTS, BLOCK = 20, 1 << 18
QUICK = 20  # times fewer rows
KEYS = {"near": 1 << 40, "path": 2_000_000, "often": 100_000}  # how many different strings are drawn from
GROUPS = "select {0}, count(*) as rows from t group by {0} order by {1} {2}"
COPY = """
import duckdb, sys
with duckdb.connect(sys.argv[1], read_only=True, config={{"threads": 2}}) as connection:
    connection.execute("set enable_progress_bar = false")  # it would be drawn on stdout
    connection.execute("copy ({}) to '/dev/stdout' (format csv, header)")
"""
Columns = dict[str, np.ndarray]


@dataclass
class Took:
    """Seconds of one call, and a digest of what it said."""

    clock: float
    processor: float
    said: str

    @classmethod
    def of(cls, command: list[str]) -> Took:
        """Runs a command, whose output is read to its end."""
        begun, before = time.perf_counter(), getrusage(RUSAGE_CHILDREN)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            said = hashlib.file_digest(process.stdout, "sha256").hexdigest()
        assert process.returncode == 0, command
        after, clock = getrusage(RUSAGE_CHILDREN), time.perf_counter() - begun
        return cls(clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said)


def forty_two(random: np.random.Generator, rows: int) -> Columns:
    """14 float64, 17 other numbers, 4 bools, 7 strings."""
    kinds = ["int64", "int32", "int16", "uint8"]
    return {
        **{f"real_{i}": random.random(rows) for i in range(14)},
        **{
            f"whole_{i}": random.integers(0, 100 ** (i % 4 + 1) // 100, rows).astype(kinds[-(i % 4) - 1])
            for i in range(17)
        },
        **{f"flag_{i}": random.random(rows) < 0.5 for i in range(4)},
        **{f"text_{i}": strings(random, rows, 10 ** (i % 6 + 1)) for i in range(7)},
    }


def strings(random: np.random.Generator, rows: int, kinds: int) -> np.ndarray:
    """As many strings, of at most so many kinds."""
    return np.char.mod("images/%x.jpg", random.integers(0, kinds, rows))


def keyed(random: np.random.Generator, rows: int) -> Columns:
    """The columns that are grouped by."""
    return {name: strings(random, rows, kinds) for name, kinds in KEYS.items()}


def blocks(make: Callable[[np.random.Generator, int], Columns], rows: int) -> Iterator[Columns]:
    """The rows, some at a time."""
    random = np.random.default_rng(1)
    for start in range(0, rows, BLOCK):
        yield make(random, min(BLOCK, rows - start))


def write(path: Path, found: Iterator[Columns], schema: dict[str, str]) -> None:
    """One part."""
    with unirecord.Writer(path, schema) as writer:
        for block in found:
            writer.write_batch(block)


def make_wide(folder: Path, rows: int) -> Path:
    """A dataset of 42 columns in parts."""
    path = folder / f"wide-{rows}"
    if not path.exists():
        schema = {
            name: "string" if values.dtype.kind == "U" else str(values.dtype)
            for name, values in forty_two(np.random.default_rng(), 1).items()
        }
        bounds = np.linspace(0, rows, PARTS + 1).astype(int).tolist()
        for number, (first, stop) in enumerate(pairwise(bounds)):
            write(folder / f"part-{rows}-{number}.urec", blocks(forty_two, stop - first), schema)
        unirecord.merge([folder / f"part-{rows}-{number}.urec" for number in range(PARTS)], path)
    return path


def make_keyed(folder: Path, rows: int) -> tuple[Path, Path]:
    """One part, and a file of DuckDB with the same rows; no such file where DuckDB is missing."""
    path, peer = folder / f"keyed-{rows}.urec", folder / f"keyed-{rows}.duckdb"
    if not path.exists():
        write(path, blocks(keyed, rows), dict.fromkeys(KEYS, "string"))
    if importlib.util.find_spec("duckdb") is not None and not peer.exists():
        import duckdb

        with unirecord.UniRecordDataset(path) as dataset, duckdb.connect(str(peer)) as connection:
            connection.register("found", dataset.to_arrow())
            connection.execute("create table t as select * from found")
    return path, peer


def least(took: list[Took]) -> str:
    """The least of the rounds, the processor's in brackets."""
    return f"{min(one.clock for one in took):6.2f} s ({min(one.processor for one in took):5.2f} of a core)"


def main() -> None:
    """Makes the tables, and prints a line for each question."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rows", type=int, default=5_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--quick", action="store_true", help=f"{QUICK} times fewer rows, one round")
    options = arguments.parse_args()
    rows, rounds = (options.rows // QUICK, 1) if options.quick else (options.rows, options.rounds)
    inspect = [sys.executable, "-m", "unirecord", "inspect"]
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        wide = make_wide(folder, rows)
        took = [Took.of([*inspect, str(wide)]) for _ in range(rounds)]
        print(f"inspect, {rows:,} rows of 42 columns: {least(took)}", flush=True)
        path, peer = make_keyed(folder, rows)
        if not peer.exists():
            print("DuckDB is not installed: groups are timed alone")
        for key in KEYS:
            for title, order, sort, limit in (
                ("all groups, by value", "1", key, ""),
                ("all groups, most frequent first", "2 desc, 1", "-count", ""),
                ("the 50 most frequent", "2 desc, 1", "-count", "50"),
            ):
                words = [
                    f"--group-by={key}",
                    f"--sort={sort}",
                    "--csv",
                    *([f"--limit={limit}"] if limit else []),
                ]
                commands = {"unirecord": [*inspect, str(path), *words]}
                if peer.exists():
                    query = GROUPS.format(key, order, limit and f"limit {limit}")
                    commands["DuckDB"] = [sys.executable, "-c", COPY.format(query), str(peer)]
                turns: dict[str, list[Took]] = {entrant: [] for entrant in commands}
                for _ in range(rounds):
                    for entrant, command in commands.items():
                        turns[entrant].append(Took.of(command))
                assert len({one.said for took in turns.values() for one in took}) == 1, "they differ"
                said = ", ".join(f"{entrant} {least(took)}" for entrant, took in turns.items())
                print(f"{key:6}{title:33}{said}", flush=True)


if __name__ == "__main__":
    main()
