"""Reading a cache whole: every entry against its digest; what is damaged is dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import xxh3_64
from .cache_directory import CacheDirectory, on_disk
from .cache_shelf import DROPPED, KEPT, RECORD, Records, Shelf, ShelfError, url_of

__all__ = ["CacheReport", "check_shelves"]


@dataclass
class CacheReport:
    """What was found: ranges that are right and their bytes, damaged ones, and shelves that cannot be read."""

    ranges: int = 0
    bytes: int = 0
    damaged: int = 0
    problems: list[str] = field(default_factory=list)


def check_shelves(directory: CacheDirectory, progress: Callable[[int], Any]) -> CacheReport:
    """Reads all shelves; ``progress`` is told of bytes. Others may use the cache meanwhile."""
    report = CacheReport()
    for journal in directory.journals():
        try:
            shelf = Shelf(directory.path, url_of(journal), directory.secret)
        except (OSError, ShelfError) as error:
            report.problems.append(f"{journal}: {error}")
            continue
        try:
            _check(directory, shelf, report, progress)
        finally:
            shelf.close()
    return report


def _check(
    directory: CacheDirectory, shelf: Shelf, report: CacheReport, progress: Callable[[int], Any]
) -> None:
    news = shelf.news()
    gone = set(news["place"][news["kind"] == DROPPED].tolist())
    wrong = []
    for number in np.flatnonzero(news["kind"] == KEPT).tolist():
        record = news[number]
        place, size = int(record["place"]), int(record["bytes"])
        if place in gone:
            continue
        data = shelf.read(place, size)
        if len(data) == size and xxh3_64(data, shelf.seed) == int(record["digest"]):
            report.ranges += 1
            report.bytes += size
            progress(report.bytes)
        else:
            wrong.append(number)
    report.damaged += len(wrong) + shelf.damaged
    if wrong:
        _drop(directory, shelf, news[wrong].copy())


def _drop(directory: CacheDirectory, shelf: Shelf, records: Records) -> None:
    """Writes down that these are gone, in what is left of the journal's last page: its limit is not known here.

    What is left over is found by whoever uses it.
    """
    records["kind"] = DROPPED
    with directory.locked() as held:
        if held:
            shelf.news()
            size = shelf.sizes()[1]
            shelf.note(records[: (on_disk(size) - size) // RECORD.itemsize])
