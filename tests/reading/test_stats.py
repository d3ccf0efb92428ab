"""Loader statistics: which side is named as the slower one, and the percentiles of the waits."""

from __future__ import annotations

import pytest

from unirecord.loading.stats import Recorder, StageTimes, Stats

MS = 1_000_000


def summary(waits_ms: list[float], *, consumer_ms: float = 0, transform_ms: float = 0) -> Stats:
    recorder = Recorder()
    for wait in waits_ms:
        recorder.waited(int(wait * MS))
        recorder.delivered(1, 8, 800)
    recorder.consumer_ns = int(consumer_ms * MS)
    waiting, transforming = StageTimes(reads=True), StageTimes()
    waiting.busy_ns = int((sum(waits_ms) - transform_ms) * MS)
    transforming.busy_ns = int(2 * transform_ms * MS)  # of two threads
    recorder.begin([waiting, transforming])
    return recorder.of_loader(2, 2, 3)


@pytest.mark.parametrize(
    ("waited", "consumed", "transformed", "bound"),
    [
        (0, 100, 0, "consumer"),
        (4, 96, 4, "consumer"),
        (20, 80, 0, "read"),
        (20, 80, 9, "read"),
        (20, 80, 11, "transform"),
        (100, 0, 100, "transform"),
    ],
)
def test_the_side_that_is_waited_for_is_named(
    waited: int, consumed: int, transformed: int, bound: str
) -> None:
    assert summary([waited], consumer_ms=consumed, transform_ms=transformed).bound == bound


def test_rates_are_over_waiting_and_consuming_together() -> None:
    stats = summary([100, 150], consumer_ms=250)
    assert (stats.results, stats.samples, stats.bytes, stats.buffers) == (2, 16, 1600, 3)
    assert (stats.seconds, stats.rate, stats.samples_per_s, stats.bytes_per_s) == (0.5, 4.0, 32.0, 3200.0)
    assert (stats.wait_s, stats.consumer_s) == (0.25, 0.25)


def test_percentiles_are_of_the_waits_for_single_batches() -> None:
    stats = summary([1.0] * 95 + [200.0] * 5)
    assert (stats.p50_ms, stats.p99_ms) == (1.0, 200.0)


def test_percentiles_forget_what_is_long_ago() -> None:
    assert summary([200.0] * 4096 + [1.0] * 4096).p99_ms == 1.0


def test_a_loader_that_has_delivered_nothing_has_no_rates() -> None:
    stats = summary([])
    assert (stats.rate, stats.samples_per_s, stats.bytes_per_s, stats.p99_ms) == (0.0, 0.0, 0.0, 0.0)
    assert stats.bound == "consumer"
