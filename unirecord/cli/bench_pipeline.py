"""``unirecord bench --pipeline module:function``: how fast a pipeline of yours is, and whether it feeds a step."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import time
from typing import Any, Final

from ..errors import UniRecordError
from ..pipeline.pipeline import Pipeline
from ..pipeline.pipeline_stats import PipelineStats
from .terminal import print_json, say
from .usage import UsageError

__all__ = ["bench_pipeline"]

_ENOUGH: Final = 1.1  # a pipeline this much faster than the job keeps up with its own jitter
_WARM_UP: Final = 0.5  # of the timed part: threads and processes start
_MOST_WARM_UP: Final = 5.0  # of the timed part, while numbers of threads are still tried out
_MOST_WARM_UP_S: Final = 10.0
_LOOK_S: Final = 0.1


def bench_pipeline(
    name: str, path: str | None, *, seconds: float, step_ms: float | None, as_json: bool
) -> int:
    """Times what ``name``, "module:function", returns, and says whether it feeds steps of ``step_ms``."""
    pipeline = _made(name, path)
    results, took = _timed(pipeline, seconds)
    if not results:
        raise UsageError(f"{name} gives no results")
    rate, stats = results / took, pipeline.stats()
    met = None if step_ms is None else rate >= _ENOUGH * 1e3 / step_ms
    if as_json:
        need = {} if step_ms is None else {"need": {"results_per_s": 1e3 / step_ms, "met": met}}
        report = {"pipeline": name, "results_per_s": rate, "shortest_step_ms": _ENOUGH * 1e3 / rate}
        print_json({**report, **need, "stats": stats.to_dict(), "plan": pipeline.plan().to_dict()}, indent=2)
    else:
        say(*str(pipeline).splitlines(), "", *str(stats).splitlines(), "")
        shortest = _ENOUGH * 1e3 / rate
        say(
            f"The pipeline gives {rate:,.1f} results/s: it keeps up with steps of {shortest:,.3g} ms or more."
        )
        if step_ms is not None:
            needed = f"The job needs {1e3 / step_ms:,.1f} results/s (one every {step_ms:g} ms)"
            say(f"{needed}: enough." if met else f"{needed}: short. {_what_to_change(stats)}")
    return 0


def _what_to_change(stats: PipelineStats) -> str:
    if stats.bottleneck == "consumer":
        return "No stage sets the pace, but the thread that takes the results: make larger batches."
    slowest = next(stage for stage in stats.stages if stage.name == stats.bottleneck)
    advice = f"{slowest.name} sets the pace"
    if slowest.limit != "auto":
        return f"{advice}, with {slowest.limit} worker(s)."
    if stats.one_more_core <= stats.rate:
        return f"{advice}, and leaves cores idle: it waits, or holds the GIL (then give it processes=)."
    return f"{advice}, and the cores are full: one more gives about {stats.one_more_core:,.1f} results/s."


def _made(name: str, path: str | None) -> Pipeline:
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise UsageError(f"--pipeline is module:function, got {name!r}")
    sys.path.insert(0, os.getcwd())
    try:
        module: Any = importlib.import_module(module_name)
        function = getattr(module, function_name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--pipeline {name}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    takes_path = bool(inspect.signature(function).parameters)
    if takes_path and path is None:
        raise UsageError(f"{name} takes a path: unirecord bench PATH --pipeline {name}")
    try:
        pipeline = function(path) if takes_path else function()
    except UniRecordError:
        raise
    except Exception as error:
        raise UsageError(f"{name} failed: {error!r} (--debug shows where)") from error
    if not isinstance(pipeline, Pipeline):
        raise UsageError(f"{name} must return a pipeline, not {pipeline!r:.100}")
    return pipeline


def _timed(pipeline: Pipeline, seconds: float) -> tuple[int, float]:
    """Results and seconds, epoch after epoch, from when the numbers of threads have been found."""
    clock, least = time.perf_counter, _WARM_UP * seconds
    most = max(least, min(_MOST_WARM_UP * seconds, _MOST_WARM_UP_S))
    asked, begun = clock(), 0.0
    look, results, seen = asked + least, 0, -1
    while seen:
        seen = 0
        for result in pipeline:
            del result
            now, seen = clock(), seen + 1
            if begun:
                results += 1
                if now - begun >= seconds:
                    return results, now - begun
            elif now >= look:  # not after each result: this thread is to wait for the pipeline
                look = now + _LOOK_S
                if now - asked >= most or pipeline.stats().settled:
                    begun = now
                    pipeline._passes.figures.forget()
    return 0, 1.0
