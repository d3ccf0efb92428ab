"""`unirecord bench`: figures per way of reading, and a verdict for a step time."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unirecord import UniRecordDataset, Writer
from unirecord.cli import bench
from unirecord.cli.bench import Measured, Need, StoreLink, advice, step_that_hides, store_advice
from unirecord.cli.main import main

QUICK = ["--batch", "16", "--seconds", "0.01", "--threads", "1"]


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "rows.urec"
    with Writer(path, {"x": {"type": "uint8", "shape": [64]}, "label": "int32"}) as writer:
        writer.write_batch({"x": np.zeros((100, 64), np.uint8), "label": np.arange(100, dtype=np.int32)})
    return path


def measured(io: str, samples_per_s: float) -> Measured:
    return Measured(io, io, 1000, 1.0, samples_per_s, samples_per_s * 1000, 0.1, 0.2, 1.0)


def test_every_way_is_measured(part: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(part), *QUICK, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["io"] for one in report["ways"]] == [
        "auto",
        "mmap",
        "pread",
        "uring",
        "uring-direct",
        "memory",
    ]
    assert all(one["samples_per_s"] > 0 and one["bytes_per_s"] > 0 for one in report["ways"])
    assert "need" not in report


@pytest.mark.parametrize("options", [["--cold"], ["--columns", "label"], ["--where", "label < 50"]])
def test_one_way_is_shown_beside_the_automatic_one(
    part: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(part), *QUICK, "--io", "pread", *options]) == 0
    out = capsys.readouterr().out
    assert "auto = " in out
    assert "\npread" in out
    assert "\nuring" not in out


def test_the_way_in_use_is_told_whatever_the_condition_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "io nonsense, x.urec"  # repr(ds) shows path and condition, too
    with Writer(path, {"name": "string"}) as writer:
        writer.write_batch({"name": ["a"] * 50})
    argv = ["bench", str(path), *QUICK, "--io", "mmap", "--where", "name != 'io pread, '", "--json"]
    assert main(argv) == 0
    ways = json.loads(capsys.readouterr().out)["ways"]
    assert {one["io"]: one["used"] for one in ways}["mmap"] == "mmap"


def test_a_slow_job_is_fed(part: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(part), *QUICK, "--io", "mmap", "--step-ms", "10000"]) == 0
    assert "Enough" in capsys.readouterr().out


def test_a_job_that_is_too_fast_is_told_what_to_change(
    part: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(part), *QUICK, "--io", "mmap", "--step-ms", "1e-7"]) == 0
    out = capsys.readouterr().out
    assert "Short" in out
    assert "columns=" in out


@pytest.mark.parametrize("options", [["--step-ms", "0"], ["--step-ms", "nan"], ["--seconds", "0"]])
def test_a_senseless_time_is_refused(part: Path, options: list[str]) -> None:
    assert main(["bench", str(part), *options]) == 2


@pytest.mark.parametrize("batch", ["0", "-1", "x"])
def test_a_senseless_batch_is_refused(part: Path, batch: str) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["bench", str(part), f"--batch={batch}"])
    assert refused.value.code == 2


def test_a_missing_dataset_is_a_wrong_call(tmp_path: Path) -> None:
    assert main(["bench", str(tmp_path / "none.urec")]) == 2


def test_the_need_is_batch_over_step() -> None:
    need = Need(batch=256, step_ms=64.0, bytes_per_sample=1000.0)
    assert need.samples_per_s == 4000.0
    assert need.bytes_per_s == 4e6
    assert need.met_by(measured("mmap", 4400.0))
    assert not need.met_by(measured("mmap", 4399.0))  # a tenth to spare


def test_the_shortest_step_is_one_whose_need_is_just_met() -> None:
    one = measured("mmap", 5000.0)
    shortest = step_that_hides(one, 256)
    assert Need(256, shortest * 1.001, 1.0).met_by(one)
    assert not Need(256, shortest * 0.999, 1.0).met_by(one)


def test_advice_names_the_faster_way_first() -> None:
    need = Need(256, 64.0, 1000.0)
    lines = advice(need, [measured("auto", 100.0), measured("pread", 9000.0)], threads=1, cores=2, cold=False)
    assert lines[0].startswith('io="pread" is enough')
    assert lines[1].startswith("ds.batches(…, num_threads=2)")


def test_what_is_advised_is_taken_by_a_dataset_or_its_batches(part: Path) -> None:
    need, ways = Need(16, 1e-6, 1000.0), [measured("auto", 100.0), measured("pread", 9000.0)]
    said = advice(need, ways, threads=1, cores=2, cold=True)
    said += store_advice(StoreLink(0.025, 1e12, 64.0, 10**6), need, ways[0])
    named = re.findall(r"(ds\.batches\(…, )?\b(\w+)=(\S+?)[),;: ]", "; ".join(said) + " ")
    options = {name: value for batches, name, value in named if not batches}
    assert set(options) == {"io", "shuffle", "columns", "cache", "cache_bytes"}
    [threads] = [int(value) for batches, name, value in named if batches and name == "num_threads"]
    with UniRecordDataset(part, io="pread", shuffle="block", columns=["label"]) as ds:
        rows = [row for batch in ds.batches(16, num_threads=threads) for row in batch["label"].tolist()]
    assert sorted(rows) == list(range(100))


PIPELINE = """
from unirecord import UniRecordDataset

def build(path):
    return UniRecordDataset(path).pipeline().map(lambda sample: sample).batch(8)

def nothing():
    return 3

def fails():
    raise KeyError("no such thing")
"""


@pytest.mark.parametrize(("step", "word"), [("10000", "enough"), ("1e-7", "short")])
def test_a_pipeline_is_timed_and_judged(
    part: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
    word: str,
) -> None:
    (tmp_path / "job_of_mine.py").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "job_of_mine", raising=False)
    argv = ["bench", str(part), "--pipeline", "job_of_mine:build", "--seconds", "0.1", "--step-ms", step]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert word in shown
    assert "  batch(8)" in shown.splitlines()
    assert main([*argv, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["need"]["met"] == (word == "enough")
    assert report["stats"]["stages"][0]["name"] == "read"
    for wrong in ("job_of_mine", "job_of_mine:none", "no_module_of_mine:build", "job_of_mine:nothing"):
        assert main(["bench", str(part), "--pipeline", wrong]) == 2
    capsys.readouterr()
    assert main(["bench", "--pipeline", "job_of_mine:fails"]) == 2
    assert "job_of_mine:fails failed: KeyError('no such thing')" in capsys.readouterr().err
    assert main(["bench", "--pipeline", "job_of_mine:build"]) == 2
    assert main([*argv, "--io", "mmap"]) == 2
    assert main(["bench"]) == 2


class Tuned:
    """A pipeline with a clock of its own, whose numbers of threads are found after so many results."""

    def __init__(self, found_after: int) -> None:
        self.now, self.made, self.counted_from = 0.0, 0, -1
        self.found_after = found_after
        self._passes = SimpleNamespace(recorder=SimpleNamespace(forget=self.forget))

    def forget(self) -> None:
        self.counted_from = self.made

    def stats(self) -> Any:
        return SimpleNamespace(settled=self.made >= self.found_after)

    def __iter__(self) -> Iterator[int]:
        for _ in range(7):
            self.now += 0.2 if self.made < self.found_after else 0.1
            self.made += 1
            yield self.made


@pytest.mark.parametrize(("found_after", "begun"), [(0, 3), (20, 20), (10**6, 26)])
def test_a_pipeline_is_timed_when_its_numbers_of_threads_have_been_found(
    found_after: int, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline: Any = Tuned(found_after)
    monkeypatch.setattr(bench.time, "perf_counter", lambda: pipeline.now)
    results, seconds = bench._timed(pipeline, 1.0)
    assert abs(pipeline.counted_from - begun) <= 3
    assert results / seconds == pytest.approx(5 if found_after > 100 else 10)


def test_advice_on_a_pipeline_names_what_to_change() -> None:
    def advice(bound: str, limit: str, one_more_core: float) -> str:
        stage = SimpleNamespace(name="f", limit=limit)
        figures = {"rate": 100.0, "one_more_core": one_more_core}
        stats: Any = SimpleNamespace(bound=bound, bound_stage=bound, stages=[stage], **figures)
        return bench._what_to_change(stats)

    assert "processes=" in advice("f", "auto", 100.0)
    assert "one more gives about 150.0" in advice("f", "auto", 150.0)
    assert "with 3 worker(s)" in advice("f", "3", 100.0)
    assert "larger batches" in advice("consumer", "auto", 100.0)
