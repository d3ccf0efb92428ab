"""What `stats()` says to Prometheus and TensorBoard: text of the format's grammar, and each figure once."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from unirecord.loading.stats import LoaderStats, Metric, StatsRecorder, exposition
from unirecord.pipeline.stats import PipelineStats, StageStats

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
def loader() -> LoaderStats:
    recorder = StatsRecorder()
    recorder.delivered(64, 2, 1_000, 5_000_000)
    return recorder.summary(3)


@pytest.fixture
def pipeline() -> PipelineStats:
    stage = StageStats(HOSTILE, "auto", 1.0, 7, 2.0, 0.5, 0.0, 0.0, 1.0)
    return PipelineStats(9, 1.0, 9.0, 0.25, 0.75, 1, 2, 4, (stage, stage), "consumer", 9.0, (), True)


def test_a_loader_as_text(loader: LoaderStats) -> None:
    found = parsed(loader.to_prometheus())
    assert found["unirecord_samples_total", ""] == 64
    assert found["unirecord_wait_seconds_total", ""] == 0.005
    assert found["unirecord_batch_wait_seconds", 'quantile="0.99"'] == 0.005
    assert len(found) == 11


def test_labels_are_escaped_and_stages_of_one_name_are_told_apart(pipeline: PipelineStats) -> None:
    found = parsed(pipeline.to_prometheus({"job": HOSTILE}))
    hostile = r"a\"b\\c\nd} 9"
    assert found["unirecord_results_total", f'job="{hostile}"'] == 9
    assert found["unirecord_stage_elements_total", f'job="{hostile}",stage="1 {hostile}"'] == 7


@pytest.mark.parametrize("name", ["", "1a", "a-b", "ä", "__a", 'a="b"', "stage"])
def test_a_label_that_cannot_be_is_refused(pipeline: PipelineStats, name: str) -> None:
    with pytest.raises(ValueError, match="label"):
        pipeline.to_prometheus({name: "x"})


def test_each_figure_is_a_scalar(loader: LoaderStats, pipeline: PipelineStats) -> None:
    for stats in (loader, pipeline):
        writer = Writer()
        stats.to_tensorboard(writer, 12)
        assert [value for _, value, _ in writer.calls] == list(parsed(stats.to_prometheus()).values())
        assert len({tag for tag, _, _ in writer.calls}) == len(writer.calls)
        assert {step for *_, step in writer.calls} == {12}


def test_numbers_that_are_none(loader: LoaderStats) -> None:
    values = tuple(({"of": str(v)}, v) for v in (float("inf"), -float("inf"), float("nan"), 1e300))
    text = exposition([Metric("x", "gauge", "Some.", values)], None)
    assert [line.split()[-1] for line in text.splitlines()[2:]] == ["+Inf", "-Inf", "NaN", "1e+300"]
    assert parsed(replace(loader, wait_s=1e-9).to_prometheus())["unirecord_wait_seconds_total", ""] == 1e-9
