"""What does not fit: a source gives it with the rows, and who asked for these decides what becomes of it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord import LeftOutWarning, SchemaError, UniRecordDataset, write_dataset
from unirecord.convert.sources import LeftOut, Misfit, Options, RawBatch, Source, Unit
from unirecord.convert.sources.input_path import InputPath
from unirecord.convert.sources.source import row_batches
from unirecord.format.schema import Schema

# What stands at a place of a source: a row; one that does not fit, by the source or by the encoder; what is no row at
# all; what could not be read.
KINDS = ("row", "misfit", "refused", "no row", "unread")


class Places(Source):
    """A unit for each list of kinds; ``most`` rows are in a batch."""

    kind = "places"
    about = "places"

    def __init__(self, units: list[list[str]], most: int) -> None:
        self._kinds, self._most = units, most
        super().__init__(InputPath("places", ""), Options())

    def look_through(self, options: Options, progress: Any) -> None:
        self.schema = Schema.parse({"n": "int64"})
        self.units = [Unit(f"unit {i}", i, len(kinds)) for i, kinds in enumerate(self._kinds)]

    def files(self) -> tuple[str, ...]:
        return ()

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        def rows() -> Iterator[Any]:
            for n, kind in enumerate(self._kinds[unit.place]):
                if kind == "misfit":
                    yield Misfit(unit.name, f"place {n} does not fit")
                elif kind == "unread":
                    yield LeftOut(unit.name, f"place {n} cannot be read")
                elif kind != "no row":
                    yield [n if kind == "row" else "x"], 1

        no_rows = [
            Misfit(unit.name, f"place {n} is no row")
            for n, kind in enumerate(self._kinds[unit.place])
            if kind == "no row"
        ]
        yield RawBatch({"n": []}, 0, misfits=tuple(no_rows))
        yield from row_batches(["n"], rows(), most_rows=self._most)


def number_of(kinds: list[str], place: int) -> int:
    """Which row of its unit a place is."""
    return sum(kind in ("row", "misfit", "refused") for kind in kinds[:place])


units = st.lists(st.lists(st.sampled_from(KINDS), max_size=12), min_size=1, max_size=3)


@given(units, st.integers(1, 4))
def test_rows_that_fit_are_written_and_all_else_is_listed_by_its_place(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[list[str]], most: int
) -> None:
    out = tmp_path_factory.mktemp("out")
    written = write_dataset(Places(kinds, most), out / "d.urec", on_error="report")
    fitting = [n for unit in kinds for n, kind in enumerate(unit) if kind == "row"]
    assert written == len(fitting)
    assert [int(row["n"]) for row in UniRecordDataset(out / "d.urec")] == fitting
    told = [json.loads(line) for line in (out / "d.urec.left-out.jsonl").read_text().splitlines()]
    wanted = {
        "misfit": lambda unit, n: f"place {n} does not fit",
        "unread": lambda unit, n: f"place {n} cannot be read",
        "no row": lambda unit, n: f"place {n} is no row",
        "refused": lambda unit, n: f"row {number_of(unit, n)}, column 'n'",
    }
    found = sorted((one["file"], one["reason"].partition(":")[0]) for one in told)
    assert found == sorted(
        (f"unit {i}", wanted[kind](unit, n))
        for i, unit in enumerate(kinds)
        for n, kind in enumerate(unit)
        if kind != "row"
    )


@given(units, st.integers(1, 4), st.sampled_from([None, "raise"]))
def test_the_first_that_does_not_fit_ends_it_and_nothing_is_published(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[list[str]], most: int, on_error: Any
) -> None:
    out = tmp_path_factory.mktemp("out") / "d.urec"
    ends = {"misfit", "no row", "refused"} | ({"unread"} if on_error else set())
    if not ends & {kind for unit in kinds for kind in unit}:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeftOutWarning)  # of what could not be read
            write_dataset(Places(kinds, most), out, on_error=on_error)
        assert out.exists()
        return
    with pytest.raises(SchemaError, match=r"^unit \d, (place|row) \d+|^unit \d: place \d+"):
        write_dataset(Places(kinds, most), out, on_error=on_error)
    assert not out.exists()


def test_a_misfit_is_found_by_every_process(tmp_path: Path) -> None:
    rows = "".join(f"{'x' if i % 1000 == 7 else i}\n" for i in range(100_000))
    (tmp_path / "t.csv").write_text("n\n" + rows)
    written = write_dataset(
        tmp_path / "t.csv", tmp_path / "d", schema={"n": "int64"}, on_error="report", workers=2
    )
    assert written == 99_900
    told = (tmp_path / "d.left-out.jsonl").read_text().splitlines()
    assert [json.loads(line)["reason"].partition(",")[0] for line in told] == [
        f"line {i + 2}" for i in range(7, 100_000, 1000)
    ]
