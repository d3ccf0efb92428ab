"""PyTorch on several ranks: after a kill the same command goes on from the last checkpoint, on any number of ranks.

torchrun --nproc-per-node=2 examples/pytorch_distributed.py --folder out/ranks --die-at-step 40
torchrun --nproc-per-node=3 examples/pytorch_distributed.py --folder out/ranks
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

import digits
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from unirecord import UniRecordDataset
from unirecord.frameworks.torch import loader

EPOCHS, BATCH, SAVE_EVERY = 10, 10, 5


def save(path: Path, **content: object) -> None:
    """A whole checkpoint or the one before, whatever happens meanwhile."""
    torch.save(content, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("out/ranks"))
    parser.add_argument("--die-at-step", type=int, help="as if the machine had lost its power")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        digits.write(arguments.folder)
    dist.barrier()
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(digits.SIDE * digits.SIDE, digits.CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    # Rank and world size come from the environment. remainder="pad" gives every rank as many batches.
    train = arguments.folder / "train.urec"
    ds = UniRecordDataset.distributed(train, shuffle=True, seed=1, transform=digits.decode)
    batches = loader(ds, BATCH)
    step, checkpoint = 0, arguments.folder / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        batches.load_state_dict(saved["data"])
        step = saved["step"]
        print(f"rank {ds.shard_id} of {ds.num_shards}: on from step {step}, epoch {ds.epoch + 1}", flush=True)

    for epoch in range(ds.epoch, EPOCHS):
        for pixels, labels in batches:  # each time with the order of the next epoch
            loss = torch.nn.functional.cross_entropy(model(pixels), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if ds.shard_id == 0 and step % SAVE_EVERY == 0:
                save(checkpoint, model=model.state_dict(), data=batches.state_dict(), step=step)
            if step == arguments.die_at_step:
                os.kill(os.getpid(), signal.SIGKILL)
        if ds.shard_id == 0:
            print(
                f"epoch {epoch + 1:2}: {accuracy(model.module, arguments.folder / 'test.urec'):.1%}",
                flush=True,
            )
    dist.destroy_process_group()


def accuracy(model: torch.nn.Module, test: Path) -> float:
    (batch,) = loader(UniRecordDataset(test, transform=digits.decode), batch_size=60)
    with torch.no_grad():
        return float((model(batch[0]).argmax(1) == batch[1]).float().mean())


if __name__ == "__main__":
    main()
