"""What `unirecord bench` says of an object store: its latency and bandwidth, what to shuffle by, how much to cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cached_dataset import URL, root, server
from objectstore import Server

from unirecord.cli import bench, main
from unirecord.cli.bench import Measured, Need, StoreLink, store_advice
from unirecord.sizes import parse_size

__all__ = ["root", "server"]  # fixtures

QUICK = ["bench", URL, "--seconds", "0.01", "--batch", "16"]


def measured(samples_per_s: float) -> Measured:
    return Measured("auto", "fetch", 1000, 1.0, samples_per_s, samples_per_s * 1e5, 0.1, 0.2, 1.0)


@pytest.mark.parametrize(
    ("row_bytes", "random_rows", "shuffle"),
    [
        (1e3, 10_000.0, "block"),  # 256 in flight at 25 ms: latency is the limit, not the link
        (1e5, 1_950.0, "rows"),  # the link is full with rows as they come
        (1e7, 20.0, "rows"),
    ],
)
def test_the_order_goes_by_bandwidth_and_the_size_of_rows(
    row_bytes: float, random_rows: float, shuffle: str
) -> None:
    link = StoreLink(0.025, 200e6, row_bytes, 10**12)
    assert link.shuffle(random_rows) == shuffle
    assert link.to_dict(random_rows)["rows_in_runs_per_s"] == 200e6 / row_bytes
    assert ('shuffle="block" reads runs' in link.lines(random_rows)[1]) == (shuffle == "block")
    assert StoreLink(0.025, 0.0, row_bytes, 10**6).shuffle(random_rows) is None


def test_advice_is_the_order_that_is_enough_and_what_a_cache_would_have_to_hold() -> None:
    link, need = StoreLink(0.025, 200e6, 1e3, 10**12), Need(256, 10.0, 1e3)
    order, cache = store_advice(link, need, measured(10_000.0))
    assert order.startswith('shuffle="block", which is enough')
    share = 1 - 10_000 / 25_600
    assert f"{share:.0%} of the data" in cache
    assert parse_size(cache.split('"')[3]) == pytest.approx(share * 1e12, rel=0.01)
    assert store_advice(StoreLink(0.025, 200e6, 1e5, 10**12), need, measured(30_000.0)) == []


def test_a_store_is_measured_by_few_requests_and_no_row_of_a_cache_is(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "_LEAST", 0)
    asked: list[int] = []
    seen: Any = bench.measure_link

    def counted(*given: Any) -> Any:
        before = len(server.requests)
        found = seen(*given)
        asked.append(len(server.requests) - before)
        return found

    monkeypatch.setattr("unirecord.cli.bench.measure_link", counted)
    assert main([*QUICK, "--step-ms", "1e-4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["store"]["latency_s"] > 0
    assert report["store"]["bytes_per_s"] > 0
    assert report["store"]["shuffle"] in ("rows", "block")
    assert report["need"]["reads_per_s"] == report["need"]["samples_per_s"] == 16 / 1e-7
    assert any("cache_bytes=" in line for line in report["advice"])
    assert 9 < asked[0] <= 9 + 2 * 16
    assert main([*QUICK, "--step-ms", "1e-4"]) == 0
    out = capsys.readouterr().out
    assert "A request takes" in out
    assert "as many reads/s" in out
    for option in (
        ["--cache", str(tmp_path), "--cache-bytes", "1GB"],
        ["--where", "n < 50"],
        ["--columns", "n"],
    ):
        assert main([*QUICK, *option, "--json"]) == 0
        assert "store" not in json.loads(capsys.readouterr().out)


def test_too_few_data_for_a_bandwidth_are_said(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(QUICK) == 0
    assert "too few to measure the bandwidth" in capsys.readouterr().out
