"""Tables and the plot of docs/performance/pipeline.md and pictures.md, from the measurements of their suites."""

from __future__ import annotations

from collections.abc import Iterator

import plot
from image_decoding import BESIDE
from medians import Medians, rate, ratio, table, times

SWEEP, OPERATORS = "sweep: ", "five operators in Python"
HAND = (" shared", " of its own")
AUTO, RATIO = "auto", "auto / the best by hand"
PIPELINE = "UniRecord, pipeline"
PLOT = "![Rate against the number of threads, a line a pipeline](../plots/pipeline-threads.svg)"


def pipeline(medians: Medians) -> dict[str, str]:
    """What operators cost and how stages scale; "auto" beside the sweep; operators in Python beside others."""
    costs = []
    for workload in medians.workloads("pipeline"):
        if not workload.startswith(SWEEP) and workload != OPERATORS:
            for key in medians.values:
                if key[:2] == ("pipeline", workload):
                    unit = medians.units[("pipeline", key[4])]
                    costs.append([workload, key[4], f"{rate(medians.figure(key, 'value'))} {unit}"])
    return {
        "pipeline": table(["case", "what", "measured"], costs),
        "pipeline-sweep": f"{_sweep(medians)}\n\n{PLOT}" if threads_plot(medians) else _sweep(medians),
        "pipeline-operators": "\n\n".join(_beside(medians, "pipeline", OPERATORS)),
    }


def pictures(medians: Medians) -> dict[str, str]:
    """Each set of photographs on each number of threads."""
    texts = [
        text for workload in medians.workloads("pictures") for text in _beside(medians, "pictures", workload)
    ]
    absent = [
        f"- {entrant}: {reason}"
        for (suite, _, entrant), reason in medians.absent.items()
        if suite == "pictures"
    ]
    if absent:
        texts.append("Could not take part:\n\n" + "\n".join(dict.fromkeys(absent)))
    return {"pictures": "\n\n".join(texts)}


def _beside(medians: Medians, suite: str, workload: str) -> Iterator[str]:
    """The fastest first; what UniRecord's best is to each."""
    for threads in sorted({key[3] for key in medians.values if key[:2] == (suite, workload)}):
        rows = []
        for entrant in medians.entrants(suite, workload, "hot"):
            key = (suite, workload, "hot", threads, entrant)
            rows.append((medians.figure(key) or 0.0, entrant, medians.figure(key, "processor_us")))
        mine = max((found for found, entrant, _ in rows if entrant.startswith(PIPELINE)), default=None)
        ahead = medians.figure((suite, workload, "hot", threads, BESIDE), "value")
        if ahead:
            yield f"{BESIDE}, {workload}: time of whole pictures / time of ours is {times(ahead)}."
        cells = [
            [entrant, rate(found), times(ratio(mine, found)), f"{cost:.0f}" if cost else "–"]
            for found, entrant, cost in sorted(rows, reverse=True)
            if found
        ]
        head = [
            f"{workload}, {threads} thread{'s' * (threads != 1)}",
            "samples/s",
            "UniRecord / this",
            "processor µs",
        ]
        if cells:
            yield table(head, cells)


def _by_hand(medians: Medians, workload: str) -> dict[str, float]:
    found = {}
    for entrant in medians.entrants("pipeline", workload, "hot"):
        value = medians.figure(("pipeline", workload, "hot", 0, entrant))
        if entrant.endswith(HAND) and value:
            found[entrant] = value
    return found


def _sweep(medians: Medians) -> str:
    rows = []
    for workload in medians.workloads("pipeline"):
        by_hand = _by_hand(medians, workload)
        if not workload.startswith(SWEEP) or not by_hand:
            continue
        best = max(by_hand, key=lambda name: by_hand[name])
        key = ("pipeline", workload, "hot", 0, RATIO)
        auto = medians.figure(("pipeline", workload, "hot", 0, AUTO))
        rows.append(
            [
                workload.removeprefix(SWEEP),
                f"{rate(min(by_hand.values()))} to {rate(by_hand[best])}, {len(by_hand)} settings",
                best,
                f"{medians.figure(key, 'chosen') or 0:.0f} threads, {rate(auto)}",
                times(medians.figure(key, "value")),
            ]
        )
    head = ["pipeline", "samples/s by hand", "best", '"auto"', '"auto" / best, in turns']
    return table(head, rows)


def threads_plot(medians: Medians) -> dict[str, str]:
    """Rate against shared threads, a line a pipeline; the ring is what "auto" has found."""
    numbers: set[int] = set()
    shapes = []
    for workload in medians.workloads("pipeline"):
        shared = {
            int(name.split()[0]): value
            for name, value in _by_hand(medians, workload).items()
            if name.endswith(" shared")
        }
        if workload.startswith(SWEEP) and shared:
            numbers |= set(shared)
            shapes.append((workload, shared))
    if not shapes:
        return {}
    steps = {number: step for step, number in enumerate(sorted(numbers))}
    series, rings = [], []
    for line, (workload, shared) in enumerate(shapes):
        points = [(float(steps[number]), value) for number, value in sorted(shared.items())]
        series.append((workload.removeprefix(SWEEP), points))
        chosen = medians.figure(("pipeline", workload, "hot", 0, RATIO), "chosen")
        auto = medians.figure(("pipeline", workload, "hot", 0, AUTO))
        if chosen and auto:
            nearest = min(numbers, key=lambda number: abs(number - chosen))
            rings.append((line, float(steps[nearest]), auto))
    labels = [str(number) for number in steps]
    title, unit = (
        'Rate against threads; rings: what "auto" has found',
        "threads; samples a second, logarithmic",
    )
    return {"pipeline-threads.svg": plot.lines(title, unit, series, labels, rings)}
