"""One rank of a training job, as torchrun starts it: notes every sample that it is given, and saves its place.

    RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… python distributed_job.py DATA FOLDER OPTIONS

OPTIONS is JSON: remainder, epochs, loop ("native" or "stock"), stop_at ([epoch, batch]: save after that batch and wait
to be killed), resume (go on from the saved state).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from unirecord import UniRecordDataset
from unirecord.frameworks.torch import loader

BATCH = 6


def steps(made: Any, ds: UniRecordDataset, loop: str) -> Iterator[list[int]]:
    """The labels of every batch of an epoch."""
    if loop == "stock":
        made = torch.utils.data.DataLoader(ds, batch_size=BATCH)
    for batch in made:
        yield batch["label"].tolist()


def common_steps(mine: int) -> int:
    """Ranks of an uneven dataset take as many steps together as the shortest has; the rest they take alone."""
    count = torch.tensor(mine)
    dist.all_reduce(count, dist.ReduceOp.MIN)
    return int(count)


def main() -> None:
    data, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    ds = UniRecordDataset.distributed(data, shuffle=True, seed=9, remainder=options["remainder"])
    assert (ds.shard_id, ds.num_shards) == (rank, dist.get_world_size())
    made = loader(ds, BATCH)
    first = 0
    if options.get("resume"):
        state = json.loads((folder / "state.json").read_text())
        made.load_state_dict(state)
        first = ds.epoch
    with (folder / f"seen-{rank}-of-{ds.num_shards}.jsonl").open("a") as seen:
        for epoch in range(first, options["epochs"]):
            if epoch != first:
                ds.set_epoch(epoch)
            together = common_steps(len(made))
            for step, labels in enumerate(steps(made, ds, options["loop"])):
                if step < together:
                    total = torch.tensor(len(labels))
                    dist.all_reduce(total)
                    assert total <= BATCH * ds.num_shards
                seen.write(json.dumps([epoch, labels]) + "\n")
                seen.flush()
                if options.get("stop_at") == [epoch, step]:
                    dist.barrier()
                    if rank == 0:
                        (folder / "state.json").write_text(json.dumps(made.state_dict()))
                        (folder / "saved").touch()
                    signal.pause()  # until the test kills this rank
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
