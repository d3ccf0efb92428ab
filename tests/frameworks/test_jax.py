"""unirecord.jax: what is shared and what is refused, and global arrays of two processes."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from hang import HANG_SECONDS

import unirecord.jax
from unirecord import SchemaError, TransformError, UniRecordDataset, Writer

SCHEMA = {"n": "int64", "x": {"type": "float32", "shape": [64]}, "name": "string", "w": "float32?"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("jax") / "a.urec"
    with Writer(found, SCHEMA) as writer:
        for n in range(48):
            x = np.full(64, n, np.float32)
            writer.write({"n": n, "x": x, "name": f"row {n}", "w": None if n % 3 else n})
    return found


def test_arrays_that_are_kept_are_not_written_to_again(path: Path) -> None:
    """On the CPU they look into the memory of the C threads, in whatever number they are kept."""
    loader = unirecord.jax.loader(UniRecordDataset(path, columns=["x"]), 4, prefetch=1)
    kept = [batch["x"] for _ in range(5) for batch in loader]
    gc.collect()
    for number, array in enumerate(kept):
        first = number % 12 * 4
        assert np.asarray(array)[:, 0].tolist() == [first, first + 1, first + 2, first + 3]


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_an_integer_that_jax_would_cut_is_refused_by_name(tmp_path: Path, value: int) -> None:
    with Writer(tmp_path / "a.urec", {"token": "int64"}) as writer:
        writer.write_batch({"token": [1, value]})
    ds = UniRecordDataset(tmp_path / "a.urec")
    for batches in (unirecord.jax.loader(ds, 2), ds.pipeline().batch(2).to_jax()):
        with pytest.raises((OverflowError, TransformError), match=rf"{value}.*jax_enable_x64"):
            next(iter(batches))
    with jax.enable_x64(True):
        assert next(iter(unirecord.jax.loader(ds, 2)))["token"].tolist() == [1, value]


def test_steps_are_left_out_of_a_running_pass(path: Path) -> None:
    loader = unirecord.jax.loader(UniRecordDataset(path, columns=["n"]), 4)
    running = iter(loader)
    found = [next(running)["n"].tolist()]
    assert loader.exclude(steps=2, epoch=0) == 4
    found += [batch["n"].tolist() for batch in running]
    assert [n for batch in found for n in batch] == [*range(8), *range(12, 48)]


def test_global_arrays_have_no_holes(path: Path) -> None:
    rows = jax.sharding.NamedSharding(
        jax.sharding.Mesh(jax.devices()[:1], ["d"]), jax.sharding.PartitionSpec("d")
    )
    ds = UniRecordDataset(path, columns=["n"])
    loader = unirecord.jax.loader(ds, 4, sharding=rows)
    loader.exclude(rows=[5], fill=True)
    found = [batch["n"].tolist() for batch in loader]
    assert [len(batch) for batch in found] == [4] * 12
    assert all(5 not in batch for batch in found)
    loader.exclude(rows=[6])
    with pytest.raises(ValueError, match="a global array counts on all of them"):
        next(iter(loader))
    with pytest.raises(ValueError, match="a global array counts on all of them"):
        unirecord.jax.loader(ds, 4, sharding=rows)


def test_what_has_no_global_form_is_refused(path: Path) -> None:
    mesh = jax.sharding.Mesh(jax.devices()[:1], ["data"])
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    ds = UniRecordDataset(path, columns=["n", "x"])
    with pytest.raises(SchemaError, match="'name'"):
        unirecord.jax.loader(ds.view(columns=["n", "name"]), 4, sharding=rows)
    with pytest.raises(ValueError, match="skip"):
        unirecord.jax.loader(ds.view(on_corrupt="skip"), 4, sharding=rows)
    with pytest.raises(ValueError, match="uneven"):
        unirecord.jax.loader(ds.view(shard_id=0, num_shards=2, remainder="uneven"), 4, sharding=rows)
    with pytest.raises(ValueError, match="device= and sharding="):
        unirecord.jax.loader(ds, 4, sharding=rows, device=jax.devices()[0])
    with pytest.raises(TypeError, match="UniRecordDataset"):
        unirecord.jax.loader(ds.batches(4), 4)
    assert next(iter(unirecord.jax.loader(ds, 4, sharding=rows)))["x"].sharding == rows


DEVICES = """
import sys
import jax
import unirecord.jax
from unirecord import UniRecordDataset

assert len(jax.devices()) == 4
rows = jax.sharding.NamedSharding(jax.sharding.Mesh(jax.devices(), ["d"]), jax.sharding.PartitionSpec("d"))


def opened():
    return UniRecordDataset(sys.argv[1], columns=["n", "x"], shuffle=True, seed=1).take(42)


def refused(make, words):
    try:
        make()
    except ValueError as error:
        assert words in str(error), error
        return
    raise AssertionError("not refused")


def doubled(sample):
    return {"n": 2 * sample["n"]}


for transform in (None, doubled):
    given = {"sharding": rows, "transform": transform}
    refused(lambda: unirecord.jax.loader(opened(), 16, **given), "10 rows of 42: give drop_last")
    refused(lambda: unirecord.jax.loader(opened(), 6, drop_last=True, **given), "batches of 6")
    loader = unirecord.jax.loader(opened(), 16, drop_last=True, **given)
    assert [len(batch["n"]) for batch in loader] == [16, 16]
whole = opened().take(40)
loader = unirecord.jax.loader(whole, 16, sharding=rows)
assert [len(batch["n"]) for batch in loader] == [16, 16, 8]
loader.load_state_dict({**loader.state_dict(), "epoch": 1, "position": 30})
refused(lambda: iter(loader), "the last batch, which has 10 rows of 10")
loader.load_state_dict({**loader.state_dict(), "epoch": 1, "position": 24})
assert [len(batch["n"]) for batch in loader] == [16]
"""


def test_a_batch_that_the_devices_cannot_divide_is_refused_before_the_first(path: Path) -> None:
    """In a process of its own, which has four devices."""
    done = subprocess.run(
        [sys.executable, "-c", DEVICES, str(path)],
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


PROCESS = """
import sys
import jax
import numpy as np
import unirecord.jax
from unirecord import UniRecordDataset

path, address, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, 2, rank)
rows = jax.sharding.NamedSharding(jax.sharding.Mesh(jax.devices(), ["d"]), jax.sharding.PartitionSpec("d"))
ds = UniRecordDataset(path, rank, 2, columns=["n", "x"], shuffle=True, seed=1)
total = 0
for batch in unirecord.jax.loader(ds, 8, sharding=rows):
    assert batch["x"].shape == (16, 64), batch["x"].shape
    total += int(jax.jit(lambda n: n.sum(), out_shardings=None)(batch["n"]))
print("sum", total)
"""


def test_two_processes_make_global_arrays_of_their_shards(path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(path), address, str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in running:
        out, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, err
        assert f"sum {sum(range(48))}" in out
