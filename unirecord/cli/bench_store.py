"""What ``unirecord bench`` measures of an object store: latency and bandwidth, and what they say of shuffling."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import median
from typing import Any, Final

from ..sizes import format_size
from ..storage.registry import location_of
from .bench_rates import Measured, Need

__all__ = ["StoreLink", "measure_link", "store_advice"]

_ASKED: Final = 9  # small requests, one after the other
_SMALL: Final = 1 << 10
_RUN: Final = 4 << 20  # as `shuffle="block"` and passes in order ask for their rows
_RUNS: Final = 16  # at once
_LEAST: Final = 8 << 20  # bytes; what is less comes too soon to be timed
_WORTH: Final = 1.25  # times as fast, for which an order is exchanged for another


@dataclass(frozen=True)
class StoreLink:
    """A store as it answered: seconds until a small answer was there, bytes a second of long ranges; 0 if unknown."""

    latency_s: float
    bytes_per_s: float
    row_bytes: float
    data_bytes: int

    @property
    def rows_in_runs(self) -> float:
        """Rows a second that come in runs of neighbours, modelled: the bandwidth divided by the size of a row."""
        return self.bytes_per_s / self.row_bytes

    def shuffle(self, random_rows: float) -> str | None:
        """By what to shuffle where ``random_rows`` a second come one by one: ``"rows"``, ``"block"``; None: unknown."""
        if not self.bytes_per_s:
            return None
        return "block" if self.rows_in_runs > _WORTH * random_rows else "rows"

    def to_dict(self, random_rows: float) -> dict[str, Any]:
        """The figures, and what they say, as JSON can hold them."""
        return {
            **asdict(self),
            "rows_in_runs_per_s": self.rows_in_runs or None,
            "shuffle": self.shuffle(random_rows),
        }

    def lines(self, random_rows: float) -> list[str]:
        """The same for people."""
        said = f"A request takes {self.latency_s * 1e3:,.3g} ms"
        if not self.bytes_per_s:
            return [f"{said}; the data are too few to measure the bandwidth."]
        said += (
            f", {_RUNS} of {format_size(_RUN)} at once bring {self.bytes_per_s / 1e6:,.0f} MB/s, "
            f"a row has {format_size(round(self.row_bytes))}."
        )
        runs = f"{self.rows_in_runs:,.0f} samples/s"
        if self.shuffle(random_rows) == "rows":
            return [
                said,
                f'shuffle=True is right here: in runs, as by shuffle="block", no more than {runs} come.',
            ]
        return [said, f'shuffle="block" reads runs: at that bandwidth up to {runs}, where a core keeps up.']


def measure_link(parts: Sequence[Any], row_bytes: float) -> StoreLink:
    """Asks the store for small ranges one by one, and for long ones at once: 64 MiB at most."""
    location = location_of(parts[0].path)
    paths = [part.path for part in islice(parts, _RUNS)]
    sizes = [0 if entry is None else entry.size for entry in location.find_each(paths)]
    largest = max(sizes)
    path = paths[sizes.index(largest)]
    small = min(_SMALL, largest)
    asked = [
        _seconds(location, [(path, place * (largest - small) // _ASKED, small)]) for place in range(_ASKED)
    ]
    runs = [
        (path, start, min(_RUN, size - start))
        for path, size in zip(paths, sizes, strict=True)
        for start in range(0, size, _RUN)
    ][:_RUNS]
    latency, total = median(asked), sum(size for _, _, size in runs)
    rate = total / _seconds(location, runs) if total >= _LEAST else 0.0
    return StoreLink(latency, rate, row_bytes, sum(sizes) * len(parts) // len(paths))


def _seconds(location: Any, ranges: list[tuple[str, int, int]]) -> float:
    start = time.perf_counter()
    for found in location.read_ranges(ranges):
        if isinstance(found, BaseException):
            raise found
    return time.perf_counter() - start


def store_advice(link: StoreLink, need: Need, auto: Measured) -> list[str]:
    """What to change where an object store is short of the need, the most useful first."""
    found = []
    if link.shuffle(auto.samples_per_s) == "block":
        word = "is enough" if link.rows_in_runs >= need.samples_per_s else "is not enough by itself"
        found.append(f'shuffle="block", which {word} at the bandwidth that was measured')
    share = 1 - auto.samples_per_s / need.samples_per_s
    if share > 0:
        found.append(
            f'cache="DIR", cache_bytes="{format_size(int(share * link.data_bytes))}" on a local disk, {share:.0%} of '
            "the data (modelled): from the second epoch on, the store has to give the rest alone"
        )
    return found
