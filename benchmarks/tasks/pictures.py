"""Times one driver of benchmarks/pictures/: `pictures.py DRIVER FOLDER THREADS SECONDS`."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from pictures.stored import SIDE, Stored  # noqa: E402  (found through the path above)

WARM_BATCHES = 4


def main() -> None:
    driver, folder, threads, seconds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    os.sched_setaffinity(
        0, sorted(os.sched_getaffinity(0))[:threads]
    )  # whatever a library starts beside them
    module = importlib.import_module(f"pictures.{driver}")
    shape, dtype = getattr(module, "RESULT", ((SIDE, SIDE, 3), "uint8"))
    batches = module.batches(Stored.open(folder), threads)
    for _ in range(WARM_BATCHES):
        batch = next(batches)
        assert tuple(batch.shape[1:]) == shape, batch.shape
        assert dtype in str(batch.dtype), batch.dtype
    samples, start, work = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        samples += len(next(batches))
    rate = samples / (time.perf_counter() - start)
    cost = (time.process_time() - work) / samples  # of this process alone, not of its workers
    print(json.dumps({"samples_per_s": round(rate, 1), "processor_us": round(1e6 * cost)}), flush=True)
    os._exit(0)  # threads and workers of a library must not hold the run up


if __name__ == "__main__":
    main()
