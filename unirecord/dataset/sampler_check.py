"""Notices a sampler that is about to share out among ranks what a dataset has shared out already."""

from __future__ import annotations

import warnings
from types import FrameType

__all__ = ["warn_if_sharded_again"]


def warn_if_sharded_again(caller: FrameType, shard_id: int, num_shards: int) -> None:
    """Warns when ``caller``, which has asked a sharded dataset for its length, is a sampler of several replicas.

    PyTorch's DistributedSampler, and what Lightning and Accelerate derive from it, ask a dataset for nothing but its
    length, in their constructor; so that is the one place where the mistake can be seen before it has cost a run.
    """
    if caller.f_code.co_name != "__init__" or caller.f_locals.get("num_replicas") in (None, 1):
        return
    sampler = type(caller.f_locals.get("self")).__name__
    if "Sampler" in sampler:
        warnings.warn(
            f"{sampler} with num_replicas={caller.f_locals['num_replicas']} would shard this dataset twice: "
            f"it is already shard {shard_id} of {num_shards}. "
            "Open it without shard_id and num_shards, or use it without the sampler",
            UserWarning,
            stacklevel=4,
        )
