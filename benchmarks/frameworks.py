"""UniRecord in the loops of PyTorch, TensorFlow, JAX, Grain and Hugging Face, beside what their users have today."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compare import Measurement, Plan, compare
from entrants import Entrant, Field

WORKERS = 2  # of the stock DataLoader, and threads of everything else

ENTRANTS = (
    Entrant("torch: DataLoader over memmap", "memmap_torch", "torch"),
    Entrant("torch: FFCV loader", "ffcv", "ffcv", options={"tensors": "yes"}),
    Entrant("torch: DataLoader over UniRecordDataset", "unirecord_torch", options={"loop": "stock"}),
    Entrant("torch: unirecord.torch.loader", "unirecord_torch", options={"loop": "native"}),
    Entrant("tf: TFRecordDataset, decode_raw, batch", "tfrecord", "tensorflow", options={"shuffle": "no"}),
    Entrant("tf: ds.to_tf", "unirecord_tf"),
    Entrant("jax: unirecord.jax.loader", "unirecord_loops", options={"loop": "jax"}),
    Entrant("grain: unirecord.grain.batches", "unirecord_loops", options={"loop": "grain"}),
    Entrant("hf: ds.to_hf, Arrow", "unirecord_loops", options={"loop": "hf"}),
)


def measure(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Both frameworks, cached, rows of fixed width."""
    plan = replace(plan, caches=("hot",), threads=(WORKERS,), only=plan.only)
    for workload in plan.workloads:
        if workload.row_bytes:
            yield from compare(field, plan, "frameworks", workload, ENTRANTS)
