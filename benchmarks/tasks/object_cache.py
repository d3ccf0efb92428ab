"""A full cache of an object store beside the disk, and what epochs fetch with a part of the data cached."""

from __future__ import annotations

import argparse
from pathlib import Path

import answer
import object_cache

ROWS, SMALL_ROWS = 8_000, 200
WORKLOAD = "100 KB rows"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    rows, rounds = (SMALL_ROWS, 1) if arguments.small else (ROWS, 3)
    figures = object_cache.measure(arguments.data, rows, 0.025, rounds, 0.2)
    answer.answer([answer.figure(WORKLOAD, name, value, unit) for name, value, unit in figures])


if __name__ == "__main__":
    main()
