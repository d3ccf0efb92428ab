"""Reports, the viewer, notebooks and plots show times, durations, decimals and classes as what they are."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.inspect.pages import ViewedDataset
from unirecord.inspect.reports import dataset_page, diff_page

SCHEMA = {
    "ts": "timestamp[us, Europe/Paris]?",
    "day": "date",
    "at": "time[ms]",
    "took": "duration[ms]",
    "price": "decimal[9, 2]",
    "wide": "decimal[38, 2]",
    "label": {"type": "int32", "logical": {"type": "class", "names": ["cat", "dog", "fox"]}},
}
FIRST = [
    "2025-06-01T02:00:00+02:00",
    "2025-06-01",
    "00:01:00",
    "1h30m",
    "0.25",
    "1000000000000000000.00",
    "dog",
]
_TS = 1_748_736_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    with Writer(tmp_path / "typed.urec", SCHEMA) as writer:
        for i in range(60):
            writer.write(
                {
                    "ts": None if i == 7 else _TS + i * 3_600_000_000, "day": 20_240 + i, "at": 60_000 * (i + 1),
                    "took": 5_400_000 + i, "price": 25 + i, "wide": Decimal(10**18 + i), "label": (i + 1) % 3,
                }
            )  # fmt: skip
    return str(tmp_path / "typed.urec")


def text_of(html: str) -> str:
    """What a page says, titles of bars among it."""
    return re.sub(
        r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<style.*?</style>", "", html, flags=re.DOTALL))
    )


RAW = ("1748736000000000", "1.74874e+15", "20240", "5.4e+06", "5400000")


def test_a_report_shows_values_as_what_they_are(path: str) -> None:
    said = text_of(dataset_page(path).decode())
    for value in (
        *FIRST,
        "values from 2025-06-01T02:00:00+02:00 to 2025-06-03T13:00:00+02:00",
        "cat: 20",
        "fox: 20",
    ):
        assert value in said
    assert not [raw for raw in RAW if raw in said]
    assert "median 2025-06-30" in said


def test_a_page_of_differences_shows_values_as_what_they_are(path: str, tmp_path: Path) -> None:
    with Writer(tmp_path / "other.urec", SCHEMA) as writer:
        for sample in UniRecordDataset(path):
            writer.write({**sample, "label": 0})
    found = unirecord.diff(path, tmp_path / "other.urec")
    said = text_of(diff_page(path, str(tmp_path / "other.urec"), found).decode())
    assert "dog cat" in said


def test_the_viewer_shows_values_as_what_they_are(path: str) -> None:
    (values,) = ViewedDataset(path).values(np.array([0]))
    assert list(values.values()) == [value for value in FIRST if not value.startswith("1000")]


def test_notebooks_show_values_as_what_they_are(path: str) -> None:
    ds = UniRecordDataset(path)
    for html in (ds.head(2)._repr_html_(), ds._repr_html_()):  # type: ignore[attr-defined]
        said = text_of(html)
        assert not [value for value in FIRST if value not in said]
        assert not [raw for raw in RAW if raw in said]
    assert ds.head(2)[0]["label"] == ds[0]["label"] == 1  # the samples themselves stay
    changed = UniRecordDataset(path, transform=lambda sample: {"label": 1})
    assert "dog" not in text_of(changed.head(1)._repr_html_())  # type: ignore[attr-defined]


class Axes:
    """What a plot draws on."""

    def __init__(self) -> None:
        self.bars: list[Any] = []
        self.format: Any = None
        self.xaxis = self

    def bar(self, places: Any, counts: Any, **options: Any) -> None:
        self.bars += list(zip(list(places), list(counts), strict=True))

    def set_major_formatter(self, format: Any) -> None:
        self.format = format

    def set_xlabel(self, text: str) -> None:
        """Nothing."""

    def set_ylabel(self, text: str) -> None:
        """Nothing."""


def test_plots_have_names_of_classes_and_times_on_their_axes(path: str) -> None:
    ds = UniRecordDataset(path)
    axes = unirecord.plot(ds, "label", ax=Axes())
    assert sorted(axes.bars) == [("cat", 20), ("dog", 20), ("fox", 20)]
    assert axes.format is None
    axes = unirecord.plot(ds, "day", ax=Axes())
    assert (axes.bars[0][0], axes.format(20_240.0, 0)) == (20_240, "2025-06-01")
