"""Two sources in exact shares: a job with two ranks, a checkpoint, more code from there on, and the proof of it all.

python examples/mixture.py [FOLDER]
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import unirecord

RANKS, BATCH, SAMPLES, STEPS = 2, 20, 400, 4
SOURCES = {"web": 600, "code": 90}


def write(folder: Path) -> None:
    """``web.urec`` and ``code.urec`` in a folder, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in SOURCES.items():
        if not (folder / f"{name}.urec").exists():
            with unirecord.Writer(folder / f"{name}.urec", {"text": "string"}) as writer:
                writer.write_batch({"text": [f"{name} text {number}" for number in range(rows)]})


def mixture(folder: Path, rank: int, ranks: int, **options: Any) -> unirecord.UniRecordDataset:
    """Seven texts of the web for every three of code, each source through its own epochs in new orders."""
    sources = {name: unirecord.UniRecordDataset(folder / f"{name}.urec", rank, ranks) for name in SOURCES}
    return unirecord.mix(sources, weights={"web": 7, "code": 3}, seed=1, samples=SAMPLES, **options)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/mixture")
    write(folder)
    receipts = folder / "receipts"
    shutil.rmtree(receipts, ignore_errors=True)  # those of an earlier run would count as well
    # Ranks are processes of their own in a job; here they take turns.
    loaders = [mixture(folder, rank, RANKS).batches(BATCH, receipts=receipts) for rank in range(RANKS)]
    came: Counter[str] = Counter()
    for loader in loaders:
        for batch in islice(loader, STEPS):
            came.update(batch["source"])
    print(f"{STEPS} steps of {RANKS} ranks: {came['web']} web, {came['code']} code")

    state = loaders[0].state_dict()
    more_code = {state["position"]: {"web": 1, "code": 1}}
    came.clear()
    for rank in range(3):
        loader = mixture(folder, rank, 3, schedule=more_code).batches(BATCH, receipts=receipts)
        loader.load_state_dict(state)
        for batch in loader:
            came.update(batch["source"])
    print(f"the rest of the epoch on 3 ranks: {came['web']} web, {came['code']} code")
    report = unirecord.audit(receipts, mixture(folder, 0, 1, schedule=more_code))
    (order,) = report.orders
    print(f"every sample exactly once: {report.ok}, {sum(epoch.delivered for epoch in order.epochs)} samples")


if __name__ == "__main__":
    main()
