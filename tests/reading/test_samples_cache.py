"""A cache of samples that grows while a job trains: exact epochs over what is there, within its bytes, resumable."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang import HANG_SECONDS
from processes import is_running

import unirecord
from unirecord import BusyError, StaleError, UniRecordError

SCHEMA = {"n": "int64", "x": "uint8[1000]"}
ORDER: dict[str, Any] = {"schema": SCHEMA, "start_method": "fork", "shuffle": True, "seed": 3}


def count_up(producer: int, producers: int) -> Iterator[dict[str, Any]]:
    n = producer
    while True:
        yield {"n": n, "x": np.full(1_000, n % 251, np.uint8)}
        n += producers


def forty(producer: int, producers: int) -> Iterator[dict[str, Any]]:
    for record, _ in zip(count_up(producer, producers), range(40), strict=False):
        yield record


def failing(producer: int, producers: int) -> Iterator[dict[str, Any]]:
    raise OSError("the store is away")
    yield {}


def global_draws(producer: int, producers: int) -> Iterator[dict[str, Any]]:
    for _ in range(20):
        x = np.frombuffer(random.randbytes(1_000), np.uint8)
        yield {"n": int(np.random.randint(1 << 62)), "x": x}


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def read(ds: Any) -> list[int]:
    found = []
    for batch in ds.batches(16):
        for n, x in zip(batch["n"].tolist(), batch["x"], strict=True):
            assert (x == n % 251).all()
            found.append(n)
    return found


def test_each_epoch_has_every_sample_that_is_there_once_within_the_limit(tmp_path: Path) -> None:
    limit, sizes = 400_000, []
    with unirecord.samples_cache(count_up, tmp_path, limit, producers=2, **ORDER) as cache:
        read(cache.next_epoch())
        first = cache.parts[0]
        with unirecord.UniRecordDataset(tmp_path / first) as part:
            oldest = set(read(part))
        while first in cache.parts:
            there = len(cache.parts)
            wait_for(lambda there=there: len(cache._folder.names()) > there or cache.bytes > limit * 0.8)
            ds = cache.next_epoch()
            numbers = read(ds)
            assert len(numbers) == len(set(numbers)) == len(ds)
            assert cache.bytes <= limit
            assert read(ds.view(seed=7)) != numbers  # nothing goes while an epoch is read
            sizes.append(len(numbers))
        assert sizes == sorted(sizes[:-1]) + sizes[-1:]  # it has grown, and then the oldest have gone
        assert oldest.isdisjoint(numbers)
        assert max(sizes) > 100
    assert cache.bytes <= limit


def test_producers_that_end_leave_all_their_samples(tmp_path: Path) -> None:
    with unirecord.samples_cache(forty, tmp_path, "10MB", producers=2, **ORDER) as cache:
        wait_for(lambda: not any(producer.is_alive() for producer in cache._producers))
        assert sorted(read(cache.next_epoch())) == list(range(80))
        first = read(cache.next_epoch())
        assert sorted(first) == list(range(80)) != first


def test_no_producer_draws_the_numbers_of_another_from_global_generators(tmp_path: Path) -> None:
    """Nor those that were drawn before the job was started again."""
    for _ in range(2):
        with unirecord.samples_cache(global_draws, tmp_path, "10MB", producers=2, **ORDER) as cache:
            wait_for(lambda: not any(producer.is_alive() for producer in cache._producers))
            batch = next(iter(cache.next_epoch().batches(100)))
    assert len(set(batch["n"].tolist())) == len({x.tobytes() for x in batch["x"]}) == 80


def test_an_epoch_is_resumed_exactly_though_more_has_come(tmp_path: Path) -> None:
    with unirecord.samples_cache(forty, tmp_path, "100kB", **ORDER) as cache:
        ds = cache.next_epoch()
        whole = read(ds)
        ds.set_epoch(0)
        batches = iter(ds.batches(2))
        had = next(batches)["n"].tolist()
        state = cache.state_dict()
    with unirecord.samples_cache(forty, tmp_path, "10MB", **ORDER) as cache:
        wait_for(lambda: len(cache._folder.names()) > len(state["parts"]))
        cache.load_state_dict(state)
        ds = cache.next_epoch()
        assert list(cache.parts) == state["parts"]
        assert had + read(ds) == whole
        assert len(cache.next_epoch()) > len(whole)
        assert cache.state_dict()["epoch"] == 1
    os.unlink(tmp_path / state["parts"][0])
    with unirecord.samples_cache(forty, tmp_path, "10MB", **ORDER) as cache:
        cache.load_state_dict(state)
        with pytest.raises(StaleError, match="have been evicted"):
            cache.next_epoch()


def killed(producer: int, producers: int) -> Iterator[dict[str, Any]]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield {}


def test_a_producer_that_was_killed_has_raised_nothing(tmp_path: Path) -> None:
    with (
        unirecord.samples_cache(killed, tmp_path, "1MB", **ORDER) as cache,
        pytest.raises(UniRecordError, match="producer 0 was killed by SIGKILL") as caught,
    ):
        cache.next_epoch()
    assert "raised" not in str(caught.value)


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    with unirecord.samples_cache(failing, tmp_path, "1MB", **ORDER) as cache:
        with pytest.raises(UniRecordError, match="exit code 1"):
            cache.next_epoch()
        with pytest.raises(BusyError):
            unirecord.samples_cache(count_up, tmp_path, "1MB", **ORDER)
        with pytest.raises(ValueError, match="no epoch has begun"):
            cache.state_dict()
        with pytest.raises(ValueError, match="no state of a cache"):
            cache.load_state_dict({})
    remote: Any = "s3://bucket/train"
    with pytest.raises(TypeError, match=r"remote is a function .*cache_bytes="):
        unirecord.samples_cache(remote, tmp_path, "1MB", policy="grow", **ORDER)
    for options in ({"policy": "lru"}, {"producers": 0}):
        with pytest.raises(ValueError, match=r"policy|producers"):
            unirecord.samples_cache(count_up, tmp_path, "1MB", **options, **ORDER)


def test_a_producer_that_was_killed_leaves_nothing_half(tmp_path: Path) -> None:
    (tmp_path / ".samples-00000000000000000001-0000.urec.tmp").write_bytes(b"half")
    (tmp_path / "samples-00000000000000000002-0000.urec").write_bytes(b"without its index")
    with unirecord.samples_cache(forty, tmp_path, "10MB", **ORDER) as cache:
        assert min(read(cache.next_epoch())) == 0
        assert not (tmp_path / ".samples-00000000000000000001-0000.urec.tmp").exists()
        assert "samples-00000000000000000002-0000.urec" not in cache.parts


def train_and_be_killed(method: str, path: str) -> None:
    with unirecord.samples_cache(
        count_up, path, "1MB", producers=2, **{**ORDER, "start_method": method}
    ) as cache:
        read(cache.next_epoch())
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
        time.sleep(HANG_SECONDS)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_producers_end_with_a_trainer_that_was_killed(tmp_path: Path, method: str) -> None:
    program = [sys.executable, __file__, method, str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as trainer:
        assert trainer.stdout is not None
        producers = [int(pid) for pid in trainer.stdout.readline().split()]
        assert len(producers) == 2
        trainer.kill()
    wait_for(lambda: not any(map(is_running, producers)))
    with unirecord.samples_cache(forty, tmp_path, "1MB", **ORDER) as cache:
        assert read(cache.next_epoch())


if __name__ == "__main__":
    train_and_be_killed(*sys.argv[1:])
