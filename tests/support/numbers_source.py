"""A source of numbered rows, for tests of conversions: units of any sizes, rows that do not fit, a pace."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unirecord.convert.sources.input_path import InputPath
from unirecord.convert.sources.source import LeftOut, Options, RawBatch, Source, Unit, reduced
from unirecord.format.schema import Schema

SCHEMA = {"n": "int64", "name": "string", "blob": "bytes"}


def values(n: int) -> dict[str, Any]:
    """Row n."""
    return {"n": n, "name": f"row {n % 17}", "blob": bytes([n % 256]) * (n * 37 % 900)}


class Numbers(Source):
    """``units`` holds the rows of each unit; ``known`` says whether the source knows them. Rows in ``bad`` do not fit.

    With ``reduces`` a field of the file, one of column n, and one of each row are left out. Every batch takes ``pause``
    seconds. A worker that comes to row ``deadly`` is killed, ``deaths`` times in all.
    """

    kind = "numbers"
    about = "numbers"

    def __init__(
        self, folder: Path, units: list[int], *, known: bool = True, bad: frozenset[int] = frozenset(),
        left_out: frozenset[int] = frozenset(), pause: float = 0, deadly: int = -1, deaths: int = 0,
        reduces: bool = False,
    ) -> None:  # fmt: skip
        self.sizes, self.known, self.bad, self.missing = units, known, bad, left_out
        self.reduces = reduces
        self.pause, self.deadly, self.deaths, self.folder = pause, deadly, deaths, folder
        super().__init__(InputPath("numbers", str(folder)), Options())

    def look_through(self, options: Options, progress: Any) -> None:
        self.schema = Schema.parse(SCHEMA)
        if self.reduces:
            self.left_out += [reduced("the title", "left out"), reduced("units", "left out", 2, column="n")]
        starts = [sum(self.sizes[:i]) for i in range(len(self.sizes))]
        self.units = [
            Unit(f"unit {i}", start, rows if self.known else None)
            for i, (start, rows) in enumerate(zip(starts, self.sizes, strict=True))
        ]

    def files(self) -> tuple[str, ...]:
        return ()

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        rows = self.sizes[int(unit.name.split()[1])]
        for first in range(unit.place, unit.place + rows, 50):
            time.sleep(self.pause)
            wanted = range(first, min(first + 50, unit.place + rows))
            if self.deadly in wanted:
                self._die()
            kept = [values(n) for n in wanted if n not in self.missing]
            for row in kept:
                row["n"] = "bad" if row["n"] in self.bad else row["n"]
            columns = {name: [row[name] for row in kept] for name in SCHEMA}
            left_out = tuple(LeftOut(f"row {n}", "missing") for n in wanted if n in self.missing)
            if self.reduces:
                left_out += (reduced("pose", "left out", len(kept)),)
            yield RawBatch(columns, len(kept), left_out)

    def _die(self) -> None:
        for i in range(self.deaths):
            try:
                os.close(os.open(self.folder / f"death{i}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
