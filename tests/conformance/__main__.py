"""Runs the cases FIRST … FIRST + COUNT − 1 and prints each that fails: python -m conformance FIRST COUNT."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import conformance.frameworks  # noqa: F401  (registers consumers)
from conformance import records
from conformance.case import CASES_A_DATASET, draw
from conformance.known import excused
from conformance.play import run


def main(first: int, count: int) -> int:
    """The exit status: 1 if a case has failed."""
    seen: Counter[str] = Counter()
    start = time.monotonic()
    for dataset in range(first // CASES_A_DATASET, -(-(first + count) // CASES_A_DATASET)):
        with tempfile.TemporaryDirectory() as directory:
            written = records.write(dataset, Path(directory))
            for number in range(dataset * CASES_A_DATASET, (dataset + 1) * CASES_A_DATASET):
                if first <= number < first + count:
                    case = draw(number, written)
                    try:
                        run(case)
                        seen["right"] += 1
                    except AssertionError as error:
                        reason = excused(case)
                        seen[reason or "failed"] += 1
                        if reason is None:
                            print(error, end="\n\n", flush=True)
    for reason, times in seen.most_common():
        print(f"{times}: {reason}")
    print(f"{count} cases from {first} on in {time.monotonic() - start:.0f} s")
    return int(seen["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
