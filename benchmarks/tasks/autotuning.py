"""What `"auto"` finds within ten seconds, beside a full sweep by hand, in turns: pipelines of different shapes."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent.parent)]

from pictures.stored import SIDE, Stored  # noqa: E402  (found through the path above)
from pictures.unirecord_pipeline import dataset  # noqa: E402

import unirecord  # noqa: E402
from unirecord import Pipeline, PipelinePlan  # noqa: E402

ROWS, BATCH = 40_000, 32
TUNED_S = 10.0
PAIRS = 6
WAIT_S = 0.004

Threads = Any  # a number, or "auto"
Opened = Callable[[], unirecord.UniRecordDataset]


def _waiting(value: Any) -> Any:
    time.sleep(WAIT_S)
    return value


def _in_python(value: Any) -> Any:
    for _ in range(20_000):  # about a millisecond, with the GIL
        pass
    return value


def _decoding(pipeline: Pipeline, heavy: Threads, light: Threads) -> Pipeline:
    from unirecord.images import Decode

    return pipeline.map(Decode(SIDE, "random-resized", flip=0.5), columns=["image"], threads=heavy)


def _augmenting(pipeline: Pipeline, heavy: Threads, light: Threads) -> Pipeline:
    loaded = pipeline.map(lambda i: np.full(60_000, i, np.float32), columns=["i"], threads=light)
    return loaded.map(lambda x: np.sort(np.sin(x))[:100], columns=["i"], threads=heavy)


def _slow(pipeline: Pipeline, heavy: Threads, light: Threads) -> Pipeline:
    waited = pipeline.map(_waiting, columns=["i"], threads=heavy)
    return waited.map(lambda i: np.full(1000, i, np.float32), columns=["i"], threads=light)


def _holding(pipeline: Pipeline, heavy: Threads, light: Threads) -> Pipeline:
    return pipeline.map(_in_python, columns=["i"], threads=heavy)


@dataclass(frozen=True)
class Shape:
    """`build(pipeline, heavy, light)`: the stage that sets the pace on so many threads, and what is beside it."""

    name: str
    build: Callable[[Pipeline, Threads, Threads], Pipeline]
    numbers: Sequence[int]
    light: Sequence[int] = (1,)


FEW, MANY = (1, 2, 3, 4, 8), (1, 2, 4, 8, 16, 32, 64, 128, 256)
SHAPES = (
    Shape("photographs decoded and cropped", _decoding, FEW),
    Shape("augmentation in numpy", _augmenting, FEW, (1, 2)),
    Shape("one stage waits 4 ms", _slow, MANY, (1, 2)),
    Shape("Python that holds the GIL", _holding, FEW),
)


def _settings(shape: Shape, opened: Opened) -> dict[str, Pipeline]:
    """All that is tried by hand: threads that the stages share, and threads of each stage's own."""
    found = {}
    for number in shape.numbers:
        shared = opened().pipeline(plan=PipelinePlan(number))
        found[f"{number} shared"] = shape.build(shared, "auto", "auto").batch(BATCH)
        for light in shape.light:
            own = shape.build(opened().pipeline(), number, light).batch(BATCH)
            found[f"{number}{f' + {light}' if len(shape.light) > 1 else ''} of its own"] = own
    return found


def _slice(loader: Pipeline, seconds: float, warm: float) -> tuple[float, float]:
    """Samples a second, and the processor's µs a sample, between two results in the middle of an epoch."""
    asked, begun, work, count = time.perf_counter(), 0.0, 0.0, 0
    while True:
        for result in loader:
            del result
            now = time.perf_counter()
            if begun:
                count += BATCH
                if now - begun >= seconds:
                    return count / (now - begun), 1e6 * (time.process_time() - work) / count
            elif now - asked >= warm:
                begun, work = now, time.process_time()


def chosen(shape: Shape, opened: Opened, seconds: float, rounds: int) -> Iterator[dict[str, Any]]:
    """The sweep, in a new order each round; then its best setting and "auto" in turns."""
    place = {"workload": f"sweep: {shape.name}", "cache": "hot"}
    settings = _settings(shape, opened)
    rates: dict[str, list[float]] = {name: [] for name in settings}
    for number in range(rounds):
        for name in Random(number).sample(list(settings), len(settings)):
            rate, cost = _slice(settings[name], seconds, seconds / 3)
            rates[name].append(rate)
            yield {**place, "entrant": name, "round": number, "samples_per_s": rate, "processor_us": cost}
    best = max(settings, key=lambda name: statistics.median(rates[name]))
    auto = shape.build(opened().pipeline(), "auto", "auto").batch(BATCH)
    _slice(auto, TUNED_S * min(1.0, seconds), 0.0)
    ratios = []
    for number in range(PAIRS):
        pair = [("auto", auto), ("the best by hand", settings[best])]
        taken = {}
        for name, loader in pair[:: 1 - 2 * (number % 2)]:
            taken[name], cost = _slice(loader, 2 * seconds, seconds / 3)
            figures = {"samples_per_s": taken[name], "processor_us": cost}
            yield {**place, "entrant": name, "round": number, **figures}
        ratios.append(taken["auto"] / taken["the best by hand"])
    threads = auto.plan().workers
    found = {"value": statistics.median(ratios), "unit": "ratio", "chosen": threads, "best": best}
    yield {**place, "entrant": "auto / the best by hand", **found}


def _numbers(folder: Path) -> Path:
    path = folder / "numbers.urec"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with unirecord.Writer(path, {"i": "int64"}) as writer:
            writer.write_batch({"i": np.arange(ROWS)})
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--photographs", type=Path, help="as photographs.py makes them")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", help="words of the shapes' names")
    arguments = parser.parse_args()
    numbers = _numbers(arguments.data)
    measured: list[dict[str, Any]] = []
    for shape in SHAPES:
        if arguments.only and not any(word in shape.name for word in arguments.only):
            continue
        if shape.build is not _decoding:
            opened: Opened = lambda: unirecord.UniRecordDataset(numbers, shuffle=True)  # noqa: E731
        elif arguments.photographs:
            opened = lambda: dataset(Stored.open(arguments.photographs))  # noqa: E731
        else:
            continue
        seconds, rounds = (0.05, 1) if arguments.small else (0.75, 3)
        measured += chosen(shape, opened, seconds, rounds)
    print(json.dumps({"measurements": measured}), flush=True)


if __name__ == "__main__":
    main()
