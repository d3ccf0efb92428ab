"""Ray: pictures decoded and written by Ray Data, then Ray Train: a run that dies goes on with more workers.

python examples/ray_train.py [FOLDER]
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import digits
import ray
import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model

import unirecord.ray
import unirecord.torch
from unirecord import UniRecordDataset

EPOCHS, BATCH, SAVE_EVERY = 10, 10, 20


def decoded(row: dict[str, Any]) -> dict[str, Any]:
    pixels, label = digits.decode(row)
    return {"pixels": pixels, "label": label}


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    model = prepare_model(torch.nn.Linear(digits.SIDE * digits.SIDE, digits.CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ds = UniRecordDataset.distributed(config["data"], shuffle=True, seed=1)  # rank and size are those of Ray
    batches, step = unirecord.torch.loader(ds, BATCH), 0
    if found := ray.train.get_checkpoint():
        with found.as_directory() as folder:
            saved = torch.load(Path(folder, "state.pt"))
        model.load_state_dict(saved["model"])
        batches.load_state_dict(saved["data"])  # of any number of workers
        step = saved["step"]
        print(f"worker {ds.shard_id} of {ds.num_shards}: on from step {step}", flush=True)
    while ds.epoch < EPOCHS:
        for batch in batches:
            loss = torch.nn.functional.cross_entropy(model(batch["pixels"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % SAVE_EVERY == 0:
                save(model, batches.state_dict(), step, ds.shard_id == 0)
            if step == config["die_at_step"] and ds.shard_id == 1:
                time.sleep(
                    5
                )  # Ray asks for reports every few seconds: what it has not seen is lost with a worker
                os.kill(os.getpid(), signal.SIGKILL)
    save(model, batches.state_dict(), step, ds.shard_id == 0)


def save(model: Any, data: Any, step: int, first: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if first:
            torch.save({"model": model.state_dict(), "data": data, "step": step}, Path(folder, "state.pt"))
        checkpoint = ray.train.Checkpoint.from_directory(folder) if first else None
        ray.train.report({"step": step}, checkpoint=checkpoint)


def run(data: Path, folder: Path, workers: int, die_at_step: int | None) -> Any:
    """A run of this name goes on from its last checkpoint."""
    trainer = TorchTrainer(
        train,
        train_loop_config={"data": str(data), "die_at_step": die_at_step},
        scaling_config=ray.train.ScalingConfig(num_workers=workers),
        run_config=ray.train.RunConfig(name="digits", storage_path=str(folder.resolve())),
    )
    return trainer.fit()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/ray")
    pictures, test = digits.write(folder)
    ray.init(num_cpus=4, include_dashboard=False)
    rows = unirecord.ray.read(pictures, where="label >= 0").map(decoded)
    data = folder / "pixels"
    unirecord.ray.write(rows, data, overwrite=True)
    try:
        run(data, folder, workers=2, die_at_step=38)
    except ray.train.TrainingFailedError:
        print("a worker has died")
    result = run(data, folder, workers=3, die_at_step=None)
    with result.checkpoint.as_directory() as saved:
        weights = torch.load(Path(saved, "state.pt"))["model"]
    ray.shutdown()
    weight, bias = (weights[name] for name in sorted(weights, reverse=True))
    (batch,) = unirecord.torch.loader(UniRecordDataset(test, transform=digits.decode), 60)
    right = (batch[0] @ weight.T + bias).argmax(1) == batch[1]
    print(f"epoch {EPOCHS}: accuracy {right.float().mean():.1%}")


if __name__ == "__main__":
    main()
