"""What a table of few values takes: 36 columns of 200,000 rows, as UniRecord and as Parquet with zstd.

A third of the columns are integers below 1,000, a third prices of two digits after the point, a third strings of forty
kinds.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import answer
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import unirecord

ROWS, SMALL_ROWS = 200_000, 20_000
OF_EACH = 12


def columns(rows: int) -> dict[str, Any]:
    r = np.random.default_rng(0)
    kinds = np.array([f"kind {number:02}" for number in range(40)], object)
    return {
        **{f"count_{n}": r.integers(0, 1_000, rows) for n in range(OF_EACH)},
        **{f"price_{n}": np.round(r.gamma(2.0, 20.0, rows), 2) for n in range(OF_EACH)},
        **{f"kind_{n}": kinds[r.integers(0, 40, rows)] for n in range(OF_EACH)},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    table = columns(rows := SMALL_ROWS if arguments.small else ROWS)
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
    answer.answer(found)


if __name__ == "__main__":
    main()
