"""Times queries on 10 M rows beside DuckDB, SQLite as MindRecord lays it out, and numpy over a memory map.

    python benchmarks/query.py [--rows 10000000] [--repeats 15] [--json FILE] [--no-sqlite]

Two int32 columns and one string column of 10,000 distinct values, all in the page cache. Every contender answers with
the row numbers, and, where the line says count, with their number alone. Medians of one run, contenders taking turns.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

import unirecord
from unirecord.query import compile_query
from unirecord.snapshot.part_set import PartSet, resolve

SCHEMA = {"label": "int32", "width": "int32", "path": "string"}
CASES = [
    ("order", "label == 7", "label = 7"),
    ("order", "label == 7 and width > 500", "label = 7 AND width > 500"),
    ("order", "label in (3, 5, 900)", "label IN (3, 5, 900)"),
    ("scan", "200 < width <= 300", "width > 200 AND width <= 300"),
    ("scan", "width == 77", "width = 77"),
    ("scan", "width > 100 and label < 900", "width > 100 AND label < 900"),
    ("scan", "width * label > 500000", "width * label > 500000"),
    ("scan", "width * 8 > label * 2 + 6000", "width * 8 > label * 2 + 6000"),
    ("like", 'path like "n015%"', "path LIKE 'n015%'"),
    ("like", 'path like "%15_/%"', "path LIKE '%15_/%'"),
    ("like", 'path like "%99%"', "path LIKE '%99%'"),
    ("equal", 'path == "n01500/img.png"', "path = 'n01500/img.png'"),
]
Times = dict[str, list[float]]


def columns(rows: int) -> dict[str, np.ndarray]:
    """The data: labels and widths at random, 10,000 paths."""
    random = np.random.default_rng(1)
    paths = np.array([f"n{number:05d}/img.png" for number in range(10_000)], dtype=object)
    return {
        "label": random.integers(0, 1_000, rows, dtype=np.int32),
        "width": random.integers(0, 1_000, rows, dtype=np.int32),
        "path": paths[random.integers(0, len(paths), rows)],
    }


def write_part(path: Path, data: dict[str, np.ndarray]) -> None:
    """The data as one part with the order of ``label``."""
    with unirecord.Writer(path, SCHEMA, index=("label",)) as writer:
        for start in range(0, len(data["label"]), 1 << 18):
            writer.write_batch({name: values[start : start + (1 << 18)] for name, values in data.items()})


def in_duckdb(data: dict[str, np.ndarray]) -> duckdb.DuckDBPyConnection:
    """The data as an in-memory table, with two threads."""
    import pyarrow as pa

    table = pa.table(
        {name: pa.array(values, pa.string() if name == "path" else None) for name, values in data.items()}
    )
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.register("source", table)
    connection.execute("CREATE TABLE t AS SELECT * FROM source")
    return connection


def in_sqlite(path: Path, data: dict[str, np.ndarray]) -> sqlite3.Connection:
    """The data as MindRecord's index lays it out: all index fields in the row, no secondary index."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(
        "CREATE TABLE INDEXES (ROW_ID INT NOT NULL, PAGE_ID_RAW INT, PAGE_OFFSET_RAW INT, PAGE_OFFSET_RAW_END INT, "
        "ROW_GROUP_ID INT, PAGE_ID_BLOB INT, PAGE_OFFSET_BLOB INT, PAGE_OFFSET_BLOB_END INT, "
        "INC_0 INT, label_0 INTEGER, INC_1 INT, width_0 INTEGER, INC_2 INT, path_0 TEXT, "
        "PRIMARY KEY (ROW_ID, INC_0, INC_1, INC_2))"
    )
    rows = zip(*(data[name].tolist() for name in SCHEMA), strict=True)
    numbered = (
        (i, 0, i * 50, i * 50 + 50, 0, 1, i * 9, i * 9 + 9, i, *a)
        for i, r in enumerate(rows)
        for a in [spread(i, r)]
    )
    connection.executemany(f"INSERT INTO INDEXES VALUES ({', '.join('?' * 14)})", numbered)
    connection.commit()
    return connection


def spread(number: int, row: tuple[int, int, str]) -> tuple[object, ...]:
    """A row's fields with the counters MindRecord puts between them."""
    return (row[0], number, row[1], number, row[2])


def in_numpy(folder: Path, data: dict[str, np.ndarray]) -> dict[str, Callable[[], np.ndarray]]:
    """numpy over memory maps, for the conditions on numbers."""
    maps = {}
    for name in ("label", "width"):
        data[name].tofile(folder / name)
        maps[name] = np.memmap(folder / name, np.int32, "r")
    label, width = maps["label"], maps["width"]
    return {
        "label == 7": lambda: np.flatnonzero(label == 7),
        "label == 7 and width > 500": lambda: np.flatnonzero((label == 7) & (width > 500)),
        "label in (3, 5, 900)": lambda: np.flatnonzero(np.isin(label, (3, 5, 900))),
        "200 < width <= 300": lambda: np.flatnonzero((width > 200) & (width <= 300)),
        "width == 77": lambda: np.flatnonzero(width == 77),
        "width > 100 and label < 900": lambda: np.flatnonzero((width > 100) & (label < 900)),
        "width * label > 500000": lambda: np.flatnonzero(width * label > 500000),
        "width * 8 > label * 2 + 6000": lambda: np.flatnonzero(width * 8 > label * 2 + 6000),
    }


def take_turns(contenders: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each: three calls a turn, SQLite one in the first two turns."""
    times: Times = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, contender in contenders.items():
            for _ in range(3 if name != "sqlite" else turn < 3):
                start = time.perf_counter()
                contender()
                if turn:  # the first turn warms
                    times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Builds the data, checks that all agree, and prints medians and ratios."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--repeats", type=int, default=15)
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--no-sqlite", action="store_true")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, data = Path(name), columns(options.rows)
        write_part(folder / "data.urec", data)
        lines = compare(folder, data, options)
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


def compare(
    folder: Path, data: dict[str, np.ndarray], options: argparse.Namespace
) -> list[dict[str, object]]:
    """Every case with every contender."""
    table, arrays = in_duckdb(data), in_numpy(folder, data)
    lite = None if options.no_sqlite else in_sqlite(folder / "index.db", data)
    source = resolve(folder / "data.urec")
    parts = PartSet(source)
    lines: list[dict[str, object]] = []
    for kind, text, sql in CASES:
        query = compile_query(text, source.schema)
        found = query.rows(parts)
        expected = table.execute(f"SELECT rowid FROM t WHERE {sql}").fetchnumpy()["rowid"]
        assert np.array_equal(found, np.sort(expected)), text
        contenders: dict[str, Callable[[], object]] = {
            "unirecord": lambda query=query: compile_query(query.text, source.schema).rows(parts),
            "duckdb": lambda sql=sql: table.execute(f"SELECT rowid FROM t WHERE {sql}").fetchnumpy(),
            "unirecord count": lambda query=query: compile_query(query.text, source.schema).count(parts),
            "duckdb count": lambda sql=sql: table.execute(f"SELECT count(*) FROM t WHERE {sql}").fetchall(),
        }
        if text in arrays:
            contenders["numpy"] = arrays[text]
        if lite is not None:
            renamed = sql.replace("label", "label_0").replace("width", "width_0").replace("path", "path_0")
            contenders["sqlite"] = lambda sql=renamed: lite.execute(
                f"SELECT ROW_ID FROM INDEXES WHERE {sql}"
            ).fetchall()
        line = {"kind": kind, "query": text, "rows": len(found), **take_turns(contenders, options.repeats)}
        lines.append(line)
        show(line)
    return lines


def show(line: dict[str, object]) -> None:
    """One line: milliseconds, and how many times as long the others take."""
    ours = float(line["unirecord"])  # type: ignore[arg-type]
    others = "  ".join(
        f"{name} {float(line[name]):8.2f} ({float(line[name]) / ours:6.1f}x)"  # type: ignore[arg-type]
        for name in ("duckdb", "numpy", "sqlite")
        if name in line
    )
    counts = f"count {line['unirecord count']:7.2f} ms, duckdb {line['duckdb count']:7.2f}"
    print(f"{line['query']!s:30} {line['rows']:>9,} rows  {ours:8.2f} ms  {others}  {counts}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
