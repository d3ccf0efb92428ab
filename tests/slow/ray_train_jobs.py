"""Real Ray Train, started here (`make ray`): a job of two workers is killed and goes on with three, every row once.

Not named test_*: installing Ray and starting it take longer than every run of the tests can spare.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hang import HANG_SECONDS

os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")

import ray
import ray.train
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from unirecord import UniRecordDataset, Writer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROWS, SIZE, DIES = 120, 5, 9


@pytest.fixture(scope="module")
def _cluster() -> Iterator[None]:
    seen = os.pathsep.join(path for path in sys.path if path)
    ray.init(
        num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000,
        runtime_env={"env_vars": {"PYTHONPATH": seen, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}},
    )  # fmt: skip
    yield
    ray.shutdown()


def work(config: dict[str, Any]) -> None:
    """A worker: it notes each row that it has been given, with the step; one of two dies."""
    ds = UniRecordDataset.distributed(config["path"], shuffle=True, seed=4)
    batches, step = ds.batches(SIZE), 0
    if found := ray.train.get_checkpoint():
        with found.as_directory() as folder:
            saved = json.loads(Path(folder, "state.json").read_text())
        batches.load_state_dict(saved["data"])
        step = saved["step"]
    name = f"{config['workers']}-{ds.shard_id}-of-{ds.num_shards}-from-{step}"
    with Path(config["notes"], name).open("w") as notes:
        for batch in batches:
            step += 1
            for n in batch["n"]:
                print(step, n, file=notes, flush=True)
            if config["workers"] == 2 and ds.shard_id == 1 and step == DIES:
                os.kill(os.getpid(), signal.SIGKILL)
            with tempfile.TemporaryDirectory() as folder:
                state = {"step": step, "data": batches.state_dict()}
                Path(folder, "state.json").write_text(json.dumps(state))
                first = ds.shard_id == 0
                ray.train.report(
                    {}, checkpoint=ray.train.Checkpoint.from_directory(folder) if first else None
                )


def run(path: Path, notes: Path, workers: int) -> None:
    DataParallelTrainer(
        work,
        train_loop_config={"path": str(path), "notes": str(notes), "workers": workers},
        scaling_config=ray.train.ScalingConfig(num_workers=workers),
        run_config=ray.train.RunConfig(name="job", storage_path=str(path.parent / "runs")),
    ).fit()


def noted(notes: Path, workers: int) -> dict[str, list[tuple[int, int]]]:
    """(step, row) of each worker, by what its file is called."""
    found = {}
    for file in notes.glob(f"{workers}-*"):
        found[file.name] = [(int(a), int(b)) for a, b in map(str.split, file.read_text().splitlines())]
    return found


@pytest.mark.usefixtures("_cluster")
def test_a_job_of_two_workers_is_killed_and_goes_on_with_three(tmp_path: Path) -> None:
    path, notes = tmp_path / "a.urec", tmp_path / "notes"
    notes.mkdir()
    with Writer(path, {"n": "int64"}) as writer:
        writer.write_batch({"n": list(range(ROWS))})
    with pytest.raises(ray.train.TrainingFailedError):
        run(path, notes, 2)
    run(path, notes, 3)

    before, after = noted(notes, 2), noted(notes, 3)
    assert sorted(before) == ["2-0-of-2-from-0", "2-1-of-2-from-0"]
    (step,) = {int(name.rpartition("-")[2]) for name in after}
    assert 0 < step < DIES
    assert sorted(after) == [f"3-{rank}-of-3-from-{step}" for rank in range(3)]
    first = [row for given in before.values() for at, row in given if at <= step]
    rest = [row for given in after.values() for _, row in given]
    again = len(first) + len(rest) - ROWS  # three ranks get as many rows each: "pad", as documented
    assert 0 <= again < 3
    assert set(first) | set(rest) == set(range(ROWS))
    assert len(first) == step * SIZE * 2
    order = UniRecordDataset(path, shuffle=True, seed=4).order.row_ids().tolist()
    assert sorted(first) == sorted(order[: len(first)])


def test_the_example_learns_to_read(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "ray_train.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "a worker has died" in done.stdout
    assert re.search(r"worker \d of 3: on from step 20", done.stdout + done.stderr)
    assert float(re.findall(r"accuracy ([0-9.]+)%", done.stdout)[-1]) > 90
