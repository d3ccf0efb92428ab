"""What `stats()` says to Prometheus and TensorBoard: text of the format's grammar, and each figure once."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from unirecord.figures import Metric, exposition
from unirecord.loading.stats import Recorder, StageStats, Stats
from unirecord.snapshot.cache import CacheStats

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
HOSTILE = 'a"b\\c\nd} 9'


def parsed(text: str) -> dict[tuple[str, str], float]:
    """Values by name and labels; each metric has its HELP and its TYPE first, and comes once."""
    found: dict[tuple[str, str], float] = {}
    seen: list[str] = []
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            seen.append(line.split(" ", 3)[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == seen[-1]
            assert (kind == "counter") == name.endswith("_total")
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == seen[-1]
            assert (match[1], match[2] or "") not in found
            found[match[1], match[2] or ""] = float(match[3])
    assert len(set(seen)) == len(seen)
    return found


class Writer:
    def __init__(self) -> None:
        self.calls: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.calls.append((tag, value, step))


@pytest.fixture
def loader() -> Stats:
    recorder = Recorder()
    recorder.waited(5_000_000)
    recorder.delivered(1, 64, 1_000, 2)
    return recorder.of_loader(2, None, 3)


@pytest.fixture
def pipeline() -> Stats:
    stage = StageStats(HOSTILE, "auto", 7, 1.0, 1.0, 2.0, 0.5, 0.0, 0.0, 1.0)
    recorder = Recorder()
    recorder.delivered(9, 9, 100)
    return recorder.summary((stage, stage), "consumer", threads=4, buffers=0, one_more_core=9.0)


def test_a_loader_as_text(loader: Stats) -> None:
    found = parsed(loader.to_prometheus())
    assert found["unirecord_samples_total", ""] == 64
    assert found["unirecord_wait_seconds_total", ""] == 0.005
    assert found["unirecord_result_wait_seconds", 'quantile="0.99"'] == 0.005
    assert found["unirecord_stage_elements_total", 'stage="0 read"'] == 1
    assert len(found) == 13


def test_labels_are_escaped_and_stages_of_one_name_are_told_apart(pipeline: Stats) -> None:
    found = parsed(pipeline.to_prometheus({"job": HOSTILE}))
    hostile = r"a\"b\\c\nd} 9"
    assert found["unirecord_results_total", f'job="{hostile}"'] == 9
    assert found["unirecord_stage_elements_total", f'job="{hostile}",stage="1 {hostile}"'] == 7


@pytest.mark.parametrize("name", ["", "1a", "a-b", "ä", "__a", 'a="b"', "stage"])
def test_a_label_that_cannot_be_is_refused(pipeline: Stats, name: str) -> None:
    with pytest.raises(ValueError, match="label"):
        pipeline.to_prometheus({name: "x"})


def test_each_figure_is_a_scalar(loader: Stats, pipeline: Stats) -> None:
    for stats in (loader, pipeline):
        writer = Writer()
        stats.to_tensorboard(writer, 12)
        assert [value for _, value, _ in writer.calls] == list(parsed(stats.to_prometheus()).values())
        assert len({tag for tag, _, _ in writer.calls}) == len(writer.calls)
        assert {step for *_, step in writer.calls} == {12}


def test_numbers_that_are_none(loader: Stats) -> None:
    values = [({"of": str(v)}, v) for v in (float("inf"), -float("inf"), float("nan"), 1e300)]
    text = exposition([Metric("x", "gauge", "Some.", values)], None)
    assert [line.split()[-1] for line in text.splitlines()[2:]] == ["+Inf", "-Inf", "NaN", "1e+300"]
    assert parsed(replace(loader, wait_s=1e-9).to_prometheus())["unirecord_wait_seconds_total", ""] == 1e-9


def test_what_each_figure_is_stands_in_the_docstring_and_in_the_text(loader: Stats) -> None:
    text = loader.to_prometheus()
    assert "# HELP unirecord_samples_total rows in these\n" in text
    assert "# HELP unirecord_result_wait_seconds the wait for a result, of the latest 4,096 waits\n" in text
    for line in text.splitlines():
        if line.startswith("# HELP"):
            assert len(line.split()) > 3, f"{line}: the docstring does not say what it is"


def test_figures_of_a_cache_are_metrics_too() -> None:
    found = parsed(CacheStats(hits=3, kept_bytes=4_096, full=True).to_prometheus({"rank": "0"}))
    assert found["unirecord_cache_hits_total", 'rank="0"'] == 3
    assert found["unirecord_cache_kept_bytes_total", 'rank="0"'] == 4_096
    assert found["unirecord_cache_full", 'rank="0"'] == 1


def test_figures_come_back_from_their_dict(loader: Stats, pipeline: Stats) -> None:
    for stats in (loader, pipeline):
        assert Stats.from_dict(json.loads(json.dumps(stats.to_dict()))) == stats


@pytest.mark.parametrize("value", [None, -1, 1e30, "1", True, [], {}, float("nan")], ids=repr)
def test_fields_that_no_loader_writes_are_refused_by_name(loader: Stats, value: object) -> None:
    written = json.loads(json.dumps(loader.to_dict()))
    for name, good in written.items():
        if value is None and name == "one_more_core":
            continue
        if isinstance(good, bool) and value is True:
            continue
        if isinstance(good, list) and value == []:
            continue
        if isinstance(good, str) and value == "1":
            continue
        with pytest.raises(ValueError, match=f"^{name} is n"):
            Stats.from_dict({**written, name: value})
        with pytest.raises(ValueError, match=f"^{name} is n"):
            Stats.from_dict({other: v for other, v in written.items() if other != name})
