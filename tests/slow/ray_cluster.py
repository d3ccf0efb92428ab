"""A real Ray for the tests that need one, started in this process (`make ray`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")

import ray
import ray.data


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    seen = os.pathsep.join(path for path in sys.path if path)
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000,
        runtime_env={"env_vars": {"PYTHONPATH": seen}},
    )  # fmt: skip
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()
