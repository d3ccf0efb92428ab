"""UniRecord in other people's loops, beside what their users have today."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from compare import Measurement, Plan, compare
from entrants import HERE, Entrant, Field, call
from workloads import generate

WORKERS = 2  # of the stock DataLoader, and threads of everything else
PLAIN = Entrant("numpy: ds.batches", "unirecord")

ENTRANTS = (
    PLAIN,
    Entrant("torch: DataLoader over memmap", "memmap_torch"),
    Entrant("torch: FFCV loader", "ffcv", "ffcv", options={"tensors": "yes"}),
    Entrant("torch: DataLoader over UniRecordDataset", "unirecord_torch", options={"loop": "stock"}),
    Entrant("torch: unirecord.torch.loader", "unirecord_torch", options={"loop": "native"}),
    Entrant("lightning: unirecord.lightning.loader", "unirecord_loops", options={"loop": "lightning"}),
    Entrant("tf: TFRecordDataset, decode_raw, batch", "tfrecord", "tensorflow", options={"shuffle": "no"}),
    Entrant("tf: unirecord.tf.dataset", "unirecord_tf"),
    Entrant("jax: unirecord.jax.loader", "unirecord_loops", options={"loop": "jax"}),
    Entrant("grain: MapDataset over ArrayRecord", "grain"),
    Entrant("grain: unirecord.grain.batches", "unirecord_loops", options={"loop": "grain"}),
    Entrant("hf: datasets over Arrow, shuffled rows", "datasets"),
    Entrant("hf: unirecord.hf.dataset, Arrow", "unirecord_loops", options={"loop": "hf"}),
    Entrant("mindspore: MindDataset", "mindrecord", "mindspore"),
    Entrant(
        "mindspore: unirecord.mindspore.dataset",
        "unirecord_loops",
        "mindspore",
        options={"loop": "mindspore"},
    ),
)
STOCK = "stock"
RAY = "ray"
RAY_WORKLOADS = ("arrays", "blobs")


def measure(field: Field, plan: Plan) -> Iterator[Measurement]:
    """All of them, cached, rows of fixed width; Ray also with rows of any."""
    plan = replace(plan, caches=("hot",), threads=(WORKERS,), only=plan.only)
    for workload in plan.workloads:
        if workload.row_bytes:
            yield from compare(field, plan, "frameworks", workload, ENTRANTS)
    if not plan.only or STOCK in plan.only:
        yield from _stock(field, plan)
    if not plan.only or RAY in plan.only:
        yield from _ray(field, plan)


def _stock(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Passes in turns in one process: what the stock DataLoader takes by itself is most of what it takes."""
    for workload in plan.workloads:
        if workload.name == "arrays":
            raw = generate(workload, field.data / workload.name / "raw")
            field.write(PLAIN, raw)
            result = call(
                [sys.executable, str(HERE / "tasks" / "stock_loader.py"), "--data", str(raw.directory.parent)]
            )
            if "failed" in result:
                yield {"suite": STOCK, "workload": workload.name, "entrant": "", "absent": result["failed"]}
            for measurement in result.get("measurements", ()):
                yield {"suite": STOCK, **measurement}


def _ray(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Epochs in turns in one process, which starts Ray once."""
    named = [workload for workload in plan.workloads if workload.name in RAY_WORKLOADS]
    if not named:
        return
    for workload in named:
        field.write(PLAIN, generate(workload, field.data / workload.name / "raw"))
    command = [sys.executable, str(HERE / "tasks" / "ray_reading.py"), "--data", str(field.data)]
    command += ["--workload", *(workload.name for workload in named)]
    result = call(command)
    if "failed" in result:
        yield {"suite": "frameworks", "workload": "", "entrant": RAY, "absent": result["failed"]}
    for measurement in result.get("measurements", ()):
        yield {"suite": "frameworks", **measurement}
