"""Medians over rounds, looked up by what was measured."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Key = tuple[str, str, str, int, str]  # suite, workload, cache, threads, entrant
FIGURES = (
    "samples_per_s",
    "processor_us",
    "bytes_per_s",
    "p50_ms",
    "p99_ms",
    "peak_resident_mb",
    "first_batch_ms",
    "start_ms",
    "warm_epochs",
    "settled",
    "value",
    "chosen",
    "unsynced",
    "requests",
    "bytes_of_data",
)


class Medians:
    """`figure(…)` of a stored run: the median of its rounds, or None where there is none."""

    def __init__(self, measurements: Iterable[Mapping[str, Any]]) -> None:
        self.values: dict[Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.units: dict[tuple[str, str], str] = {}
        self.absent: dict[tuple[str, str, str], str] = {}
        for one in measurements:
            if one.get("absent"):
                self.absent[(one["suite"], one["workload"], one["entrant"])] = one["absent"]
                continue
            key = (one["suite"], one["workload"], one.get("cache", ""), one.get("threads", 0), one["entrant"])
            for name in FIGURES:
                if name in one:
                    self.values[key][name].append(float(one[name]))
            self.units[(one["suite"], one["entrant"])] = one.get("unit", "samples/s")

    def figure(self, key: Key, name: str = "samples_per_s") -> float | None:
        values = self.values.get(key, {}).get(name)
        return statistics.median(values) if values else None

    def spread(self, key: Key, name: str = "samples_per_s") -> float | None:
        """(largest - smallest) / median."""
        values = self.values.get(key, {}).get(name)
        if not values or len(values) < 2:
            return None
        return (max(values) - min(values)) / statistics.median(values)

    def entrants(self, suite: str, workload: str, cache: str = "") -> list[str]:
        """In the order in which they were first measured."""
        found = dict.fromkeys(key[4] for key in self.values if key[:3] == (suite, workload, cache))
        return list(found)

    def workloads(self, suite: str) -> list[str]:
        return list(dict.fromkeys(key[1] for key in self.values if key[0] == suite))


def ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def rate(value: float | None) -> str:
    """Three digits, with k, M or G."""
    if value is None:
        return "–"
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * scale:
            return f"{value / scale:.3g} {unit}" if value < 999 * scale else f"{value / scale:.0f} {unit}"
    return f"{value:.3g}"


def times(value: float | None) -> str:
    """Two digits after the point, or two that count."""
    if value is None:
        return "–"
    return f"{value:.2g}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table, first column left, the others right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
