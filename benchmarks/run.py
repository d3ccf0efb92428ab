"""The one command behind `make bench`: data, peers, floor, all measurements, then the pages on performance."""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environments
import machine
import report
import suites
from compare import Plan
from entrants import Field
from workloads import WORKLOADS, quick

DOCS = Path(__file__).parent.parent / "docs"


@dataclass
class Results:
    """All measurements so far; written after each one, so that an interrupted run keeps what it has."""

    path: Path
    machine: dict[str, str]
    measurements: list[dict[str, Any]] = field(default_factory=list)

    def load(self) -> None:
        """Takes over what an earlier run has left; a measurement made again replaces it."""
        if self.path.exists():
            self.measurements = json.loads(self.path.read_text())["measurements"]

    def add(self, measurement: dict[str, Any]) -> None:
        key = [measurement.get(name) for name in KEY]
        self.measurements = [one for one in self.measurements if [one.get(name) for name in KEY] != key]
        self.measurements.append(measurement)
        self.save()
        say(" ".join(f"{key}={value}" for key, value in measurement.items() if key in SHOWN))

    def save(self) -> None:
        today = datetime.date.today().isoformat()
        stored = {"date": today, "machine": self.machine, "measurements": self.measurements}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(stored, indent=1) + "\n")


KEY = ("suite", "workload", "cache", "threads", "entrant", "round")
SHOWN = (*KEY, "samples_per_s", "processor_us", "value", "unit", "absent")


def say(text: str) -> None:
    print(text, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the rows, one round, half a second each"
    )
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="entrants whose name contains NAME"
    )
    parser.add_argument("--workload", nargs="*", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--suite", nargs="*", choices=suites.SUITES, default=list(suites.SUITES))
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    states = ["hot", "cold", "scarce"]
    parser.add_argument("--cache-state", nargs="*", choices=states, default=states)
    parser.add_argument("--rounds", type=int, default=3, help="how often all of it is measured")
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="no suite begins a further round after as many, and the tables have the medians of what there is",
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="timed part of a run")
    parser.add_argument(
        "--cache", type=Path, default=environments.DEFAULT_CACHE, help="environments and data"
    )
    parser.add_argument("--results", type=Path, help="JSON of all measurements (under the cache)")
    parser.add_argument("--keep", action="store_true", help="add to the results that are there")
    parser.add_argument(
        "--docs", type=Path, default=DOCS, help="where performance.md, performance/ and the plots are written"
    )
    parser.add_argument(
        "--report-only", action="store_true", help="write the tables from the results that are there"
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 1, 0.5
    return arguments


def plan_of(arguments: argparse.Namespace, number: int) -> Plan:
    return Plan(
        workloads=[
            quick(WORKLOADS[name]) if arguments.quick else WORKLOADS[name] for name in arguments.workload
        ],
        caches=arguments.cache_state,
        threads=arguments.threads,
        round=number,
        seconds=arguments.seconds,
        only=arguments.only,
        small=arguments.quick,
    )


def measure(arguments: argparse.Namespace, field_: Field, results: Results) -> None:
    """Each round is a whole run, so that a run that ends early has all tables, and rounds are far apart in time."""
    began = time.monotonic()
    for number in range(arguments.rounds):
        for name in arguments.suite:
            if number and time.monotonic() - began > 60 * arguments.minutes:
                return
            for measurement in suites.SUITES[name](field_, plan_of(arguments, number)):
                results.add({"round": number, **measurement})
            say(f"round {number}, {name}: {(time.monotonic() - began) / 60:.1f} minutes since the start")


def main() -> int:
    arguments = parse()
    flavour = "quick" if arguments.quick else "full"
    cache = arguments.cache.resolve()
    path = arguments.results or cache / f"results-{flavour}.json"
    field_ = Field(cache, cache / ("data-quick" if arguments.quick else "data"))
    results = Results(path, machine.describe(cache))
    if arguments.keep:
        results.load()
    if not arguments.report_only:
        measure(arguments, field_, results)
    if path.exists() and not arguments.quick:
        report.write(json.loads(path.read_text()), arguments.docs)
    say(f"results: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
