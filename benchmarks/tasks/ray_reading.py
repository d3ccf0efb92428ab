"""Whole epochs through Ray Data, over Parquet and over UniRecord in turns, on one Ray of this machine's processors."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from answer import answer
from protocol import BATCH
from workloads import Raw

os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
GROUP_BYTES = 32 << 20


def write_parquet(raw: Raw, path: Path) -> None:
    """Rows as plain binary values, the form in which Parquet reads arrays fastest too; no compression."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([("x", pyarrow.binary())])
    step = max(1, GROUP_BYTES * raw.rows // raw.total_bytes)
    new = path.with_suffix(".new")
    with pyarrow.parquet.ParquetWriter(new, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, raw.rows, step):
            values = [raw.row(i).tobytes() for i in range(start, min(raw.rows, start + step))]
            writer.write_table(pyarrow.table({"x": values}, schema=schema))
    new.replace(path)


def epoch(dataset: Any) -> float:
    """Samples a second of one pass, from its call on."""
    start, rows = time.perf_counter(), 0
    for batch in dataset.iter_batches(batch_size=BATCH, batch_format="pyarrow"):
        rows += batch.num_rows
    return rows / (time.perf_counter() - start)


def check(raw: Raw, dataset: Any) -> None:
    """A row is what was written under its number; Ray keeps no order."""
    value = bytes(next(iter(dataset.iter_batches(batch_size=1, batch_format="pyarrow")))["x"][0].as_py())
    assert value == raw.row(int.from_bytes(value[:8], "little")).tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--workload", nargs="+", required=True)
    parser.add_argument("--small", action="store_true", help="said by the suite; the data are small already")
    arguments = parser.parse_args()
    import ray
    import ray.data

    import unirecord.ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=2 << 30)
    ray.data.DataContext.get_current().enable_progress_bars = False
    found = []
    for name in arguments.workload:
        folder = arguments.data / name
        raw = Raw.open(folder / "raw")
        parquet = folder / "ray.parquet"
        if not parquet.exists():
            write_parquet(raw, parquet)
        loops: dict[str, Callable[[], Any]] = {
            "ray: read_parquet": lambda parquet=parquet: ray.data.read_parquet(str(parquet)),
            "ray: unirecord.ray.read": lambda folder=folder: unirecord.ray.read(
                folder / "unirecord" / "data.urec"
            ),
        }
        for make in loops.values():
            check(raw, make())
            epoch(make())
        for entrant, make in loops.items():
            place = {"workload": name, "cache": "hot", "threads": 2, "entrant": entrant}
            found.append({**place, "samples_per_s": round(epoch(make()), 1)})
    ray.shutdown()
    answer(found)


if __name__ == "__main__":
    main()
