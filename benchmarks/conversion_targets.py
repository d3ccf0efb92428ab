"""What converting was to reach, beside what this run has measured."""

from __future__ import annotations

from collections.abc import Iterator

import conversion
from medians import Key, Medians, ratio, table
from targets import Target, row

RATES = {"CSV": 1e6, "JSON Lines": 200e3, "Parquet, 10 M rows of scalars": 1e6}  # rows/s of one process
COPIED = ("JPEG files", "TFRecord", "WebDataset", "MDS")  # to 0.8 of reading and writing the same files
LEAST = {conversion.FLAT: 0.8, "pyarrow, to Parquet": 0.5}  # of the rate of another way; 1 of any other
LEAST_SCALING = 1.8


def _key(workload: str, entrant: str, processes: int) -> Key:
    return ("conversion", workload, "hot", processes, entrant)


def _mine(workload: str, processes: int) -> Key:
    return _key(workload, conversion.MINE, processes)


def _processes(count: int) -> str:
    return f"{count} process{'es' * (count > 1)}"


def _targets() -> Iterator[Target]:
    for workload, wanted in RATES.items():
        yield Target(f"{workload}, 1 process", "rows/s", _mine(workload, 1), None, wanted, "value")
    for case in conversion.CASES:
        for way in case.beside:
            least = LEAST.get(way.name, 1.0)
            if way.name == conversion.FLAT and case.title not in COPIED:
                continue
            if case.title in RATES or way.name == conversion.DIGESTED:
                continue
            for count in way.workers:
                mine, other = _mine(case.title, count), _key(case.title, way.name, count)
                yield Target(f"{case.title}, {_processes(count)}", way.name, mine, other, least, "value")
    for case in conversion.CASES:
        mine, other = _mine(case.title, 2), _mine(case.title, 1)
        yield Target(f"{case.title}, 2 processes", "1 process", mine, other, LEAST_SCALING, "value")
        for way in case.beside:  # what the machine gives to others, who have no source to look through
            if 2 in way.workers:
                mine, other = _key(case.title, way.name, 2), _key(case.title, way.name, 1)
                title = f"{case.title}, 2 processes of {way.name}"
                yield Target(title, "1 process of it", mine, other, LEAST_SCALING, "value")


def write(medians: Medians) -> str:
    """The table of all targets of conversion."""
    rows = []
    for target in _targets():
        mine = medians.figure(target.mine, target.figure)
        other = medians.figure(target.other, target.figure) if target.other else None
        rows.append(row(target, ratio(mine, other) if target.other else mine))
    return table(["what", "against", "wanted", "measured", "met"], rows)
