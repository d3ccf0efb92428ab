"""What a table of few values takes: 36 columns of 200,000 rows, as UniRecord and as Parquet with zstd.

A third of the columns are integers below 1,000, a third prices of two digits after the point, a third strings of forty
kinds. What is asked of it: rows at random, beside numbers that no index packs, and queries, beside DuckDB on the
Parquet file. Each by processor time of one thread, taking turns, the best of many.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import answer
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import unirecord
from unirecord.query import compile_query
from unirecord.snapshot.part_set import PartSet, resolve

ROWS, SMALL_ROWS = 200_000, 20_000
OF_EACH = 12
BATCH = 4_096
TURNS, SMALL_TURNS = 40, 3
QUERIES = {  # as UniRecord and as SQL have them
    "count_0 < 100": "count_0 < 100",
    "price_0 > 100": "price_0 > 100",
    "price_0 < 20 and count_1 > 500": "price_0 < 20 AND count_1 > 500",
    "price_1 in (12.34, 20.05, 30.99)": "price_1 IN (12.34, 20.05, 30.99)",
    'kind_0 == "kind 07"': "kind_0 = 'kind 07'",
    "count_0 + count_1 > 1900": "count_0 + count_1 > 1900",
}


def columns(rows: int) -> dict[str, Any]:
    r = np.random.default_rng(0)
    kinds = np.array([f"kind {number:02}" for number in range(40)], object)
    return {
        **{f"count_{n}": r.integers(0, 1_000, rows) for n in range(OF_EACH)},
        **{f"price_{n}": np.round(r.gamma(2.0, 20.0, rows), 2) for n in range(OF_EACH)},
        **{f"kind_{n}": kinds[r.integers(0, 40, rows)] for n in range(OF_EACH)},
    }


def in_turns(contenders: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Seconds of processor time of each at its best; the first turn warms."""
    best: dict[str, float] = {}
    for turn in range(turns + 1):
        for name, contender in contenders.items():
            begun = time.process_time()
            contender()
            seconds = time.process_time() - begun
            if turn:
                best[name] = min(best.get(name, seconds), seconds)
    return best


def gathers(table: Path, numbers: Path, rows: int, turns: int) -> list[dict[str, Any]]:
    """Values of rows at random: numbers of 8 bytes as they lie, packed, and in a dictionary; strings of few kinds."""
    batches = [np.random.default_rng(n).integers(0, rows, BATCH) for n in range(50)]

    def reading(path: Path, kind: str) -> Callable[[], object]:
        ds = unirecord.UniRecordDataset(path, columns=[f"{kind}_{n}" for n in range(OF_EACH)])
        return lambda: [ds.read_rows(some) for some in batches]

    readers = {
        "int64 as they lie": reading(numbers, "wide"),
        "int64, packed": reading(table, "count"),
        "float64, in a dictionary": reading(table, "price"),
        "strings of 40 kinds": reading(table, "kind"),
    }
    what, values = f"{BATCH:,} rows at random, {OF_EACH} columns", len(batches) * BATCH * OF_EACH
    best = in_turns(readers, turns)
    return [answer.figure(what, name, values / seconds, "values/s") for name, seconds in best.items()]


def queries(table: Path, parquet: Path, turns: int) -> list[dict[str, Any]]:
    """Row numbers that meet a condition."""
    parts, found = PartSet(resolve(table)), []
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for text, condition in QUERIES.items():
        sql = (
            f"SELECT file_row_number FROM read_parquet('{parquet}', file_row_number = true) WHERE {condition}"
        )
        mine = compile_query(text, parts.schema).rows(parts)
        theirs = connection.execute(sql).fetchnumpy()["file_row_number"]
        assert np.array_equal(mine, np.sort(theirs)), text
        best = in_turns(
            {
                "UniRecord": lambda text=text: compile_query(text, parts.schema).rows(parts),
                "DuckDB on the Parquet": lambda sql=sql: connection.execute(sql).fetchnumpy(),
            },
            turns,
        )
        found += [answer.figure(text, name, 1e3 * seconds, "ms") for name, seconds in best.items()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    table = columns(rows := SMALL_ROWS if arguments.small else ROWS)
    turns = SMALL_TURNS if arguments.small else TURNS
    types = {
        name: "string" if name.startswith("kind") else str(values.dtype) for name, values in table.items()
    }
    folder = arguments.data / "small_tables"
    folder.mkdir(parents=True, exist_ok=True)
    found, what = [], f"{rows:,} rows of {len(table)} columns"
    for name, codec in (("UniRecord", "zstd"), ("UniRecord, scalars plain", "none")):
        path = folder / f"{codec}.urec"
        begun = time.perf_counter()
        with unirecord.Writer(path, types, overwrite=True, scalar_codec=codec) as writer:
            writer.write_batch(table)
        seconds = time.perf_counter() - begun
        for said, file in (("data", path), ("index", f"{path}.idx")):
            found.append(answer.figure(what, f"{name}: {said}", os.path.getsize(file) / 1e6, "MB"))
        found.append(answer.figure(what, f"{name}: written", rows / seconds, "rows/s"))
    begun = time.perf_counter()
    path = folder / "table.parquet"
    pyarrow.parquet.write_table(pa.table(table), path, compression="zstd")
    seconds = time.perf_counter() - begun
    found.append(answer.figure(what, "Parquet, zstd", os.path.getsize(path) / 1e6, "MB"))
    found.append(answer.figure(what, "Parquet, zstd: written", rows / seconds, "rows/s"))
    wide = {f"wide_{n}": np.random.default_rng(n).integers(-(2**63), 2**63, rows) for n in range(OF_EACH)}
    with unirecord.Writer(folder / "wide.urec", dict.fromkeys(wide, "int64"), overwrite=True) as writer:
        writer.write_batch(wide)
    found += gathers(folder / "zstd.urec", folder / "wide.urec", rows, turns)
    found += queries(folder / "zstd.urec", path, turns)
    answer.answer(found)


if __name__ == "__main__":
    main()
