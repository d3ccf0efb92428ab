"""What stored values stand for, as text and back: exactly, in any year, as Python, numpy and the zones say."""

from __future__ import annotations

import datetime
import json
import uuid
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord import Writer
from unirecord.cli import main
from unirecord.format import meaning
from unirecord.format.meaning import Meaning
from unirecord.format.schema import Schema

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
PER = st.sampled_from([1, 1_000, 1_000_000, 1_000_000_000])
ZONES = st.sampled_from(
    [None, "UTC", "Europe/Paris", "America/St_Johns", "Asia/Kolkata", "+02:00", "-03:30", "No/Such"]
)


@given(INT64, PER, ZONES, st.booleans())
def test_a_moment_is_read_as_it_is_shown(value: int, per: int, zone: str | None, universal: bool) -> None:
    text = Meaning("timestamp", per, zone).text(value, universal)
    clock, ahead = meaning.read_moment(text)
    assert (clock - (ahead or 0)) * per == value
    assert (ahead is None) == (zone is None)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_date_is_read_as_it_is_shown(days: int) -> None:
    text = Meaning("date").text(days)
    assert meaning.read_date(text) == days
    if -719_162 <= days <= 2_932_896:
        assert text == str(np.datetime64(days, "D"))


@given(INT64, PER)
def test_a_duration_is_read_as_it_is_shown(value: int, per: int) -> None:
    assert meaning.read_duration(Meaning("duration", per).text(value)) * per == value


@given(PER, st.data())
def test_a_time_of_the_day_is_read_as_it_is_shown(per: int, data: Any) -> None:
    value = data.draw(st.integers(-1, 86_400 * per))
    assert meaning.read_time(Meaning("time", per).text(value)) * per == value


@given(st.integers(-(10**37), 10**37), st.integers(0, 20))
def test_a_decimal_is_shown_as_its_number(value: int, scale: int) -> None:
    text = Meaning("decimal", 10**scale).text(value)
    assert Fraction(text) * 10**scale == value
    words = (
        np.array([value % (1 << 64), value >> 64], object).astype(np.uint64).view(np.int64)
        if value >= 0
        else None
    )
    if words is not None:
        assert Meaning("decimal", 10**scale).text(words) == text


@given(
    st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 1, 1)),
    st.sampled_from(["Europe/Paris", "America/St_Johns", "Pacific/Apia"]),
)
def test_clocks_are_those_of_zoneinfo(moment: datetime.datetime, zone: str) -> None:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    seconds = (moment.replace(tzinfo=datetime.UTC) - epoch) // datetime.timedelta(seconds=1)
    there = moment.replace(tzinfo=datetime.UTC, microsecond=0).astimezone(ZoneInfo(zone))
    assert datetime.timedelta(seconds=meaning.offset_at(zone, seconds)) == there.utcoffset()
    here = moment.replace(microsecond=0, tzinfo=ZoneInfo(zone)).utcoffset()
    assert datetime.timedelta(seconds=meaning.offset_of_clock(zone, seconds)) == here


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 seconds", 90), ("90s", 90), ("1h30m", 5_400), ("1 hour 30 minutes", 5_400), ("7 days", 604_800),
        ("2 weeks, 1 day", 1_296_000), ("-5 min", -300), ("01:30:00", 5_400),
        ("1 days 02:00:00.5", Fraction(187_201, 2)), ("1.5h", 5_400), ("250ms", Fraction(1, 4)),
        ("3 µs", Fraction(3, 10**6)), ("0s", 0),
    ],
)  # fmt: skip
def test_durations_are_read_in_many_spellings(text: str, seconds: Any) -> None:
    assert meaning.read_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "clock", "ahead"),
    [
        ("1970-01-02", 86_400, None), ("1970-01-01 00:01", 60, None), ("1970-01-01T00:00:01.5", Fraction(3, 2), None),
        ("1970-01-01 00:00Z", 0, 0), ("1970-01-01 02:00+02:00", 7_200, 7_200), ("1970-01-01 02:00 +0200", 7_200, 7_200),
        ("1970-01-01 00:00-03", 0, -10_800), ("+12345-01-01", 327_403_382_400, None),
    ],
)  # fmt: skip
def test_moments_are_read_in_many_spellings(text: str, clock: Any, ahead: int | None) -> None:
    assert meaning.read_moment(text) == (clock, ahead)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((meaning.read_moment, text) for text in ("", "now", "2025-02-30", "2025-6-1", "01/06/2025",
          "2025-06-01 24:00", "2025-06-01 12", "2025-06-01 12:00 Paris", "2025-06-01 12:00+25:00",
          "2025-06-01x12:00", "2025-13-01")),
        *((meaning.read_date, text) for text in ("2025-06", "2025-00-01", "2025-02-29", "2025-06-01 12:00")),
        *((meaning.read_time, text) for text in ("12", "12:60", "24:01", "25:00", "12:00:00Z")),
        *((meaning.read_duration, text) for text in ("", "90", "1 month", "2 years", "1h 30", "fast", "1:30")),
    ],
)  # fmt: skip
def test_what_is_none_is_refused(read: Any, text: str) -> None:
    with pytest.raises(ValueError, match=r"it is no|there is no such day|has no fixed length"):
        read(text)


SCHEMA: dict[str, Any] = {
    "ts": {"type": "int64?", "logical": {"type": "timestamp", "unit": "ms", "zone": "Europe/Paris"}},
    "day": {"type": "int32", "logical": "date"},
    "took": {"type": "int64", "logical": {"type": "duration", "unit": "s"}},
    "price": {"type": "int64", "logical": {"type": "decimal", "precision": 9, "scale": 2}},
    "kind": {"type": "uint8", "logical": {"type": "class", "names": ["cat", "dog"]}},
    "wide": {"type": "int64", "shape": [2], "logical": {"type": "decimal", "precision": 38, "scale": 1}},
    "id": {"type": "uint8", "shape": [16], "logical": "uuid"},
}
ROWS = [
    (1_748_736_000_000, 20_240, 90, 1_999, 1, [-15, -1], range(16)),
    (None, 20_241, 3_600, 501, 0, [15, 0], [255] * 16),
    (1_748_736_000_500, 20_240, 30, -5, 1, [0, 1], [0] * 16),
]  # fmt: skip


def written(path: Path) -> str:
    with Writer(path, SCHEMA) as writer:
        for row in ROWS:
            sample = dict(zip(SCHEMA, row, strict=True))
            sample |= {"wide": np.array(row[5]), "id": np.array(list(row[6]), np.uint8)}
            writer.write(sample)
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["inspect", *arguments]) == 0
    return capsys.readouterr().out


def test_inspect_shows_what_values_stand_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "typed.urec")
    shown = [
        "2025-06-01T02:00:00+02:00",
        "2025-06-01",
        "1m30s",
        "19.99",
        "dog",
        "-1.5",
        str(uuid.UUID(bytes=bytes(range(16)))),
    ]
    first = json.loads(answer(capsys, path, "--limit", "1", "--json"))["rows"][0]["values"]
    assert list(first.values()) == shown
    line = answer(capsys, path, "--limit", "1", "--csv").splitlines()[1]
    assert line.split(",")[1:] == shown
    assert all(text in answer(capsys, path, "--row", "0") for text in shown)
    whole = json.loads(answer(capsys, path, "--json"))
    assert list(whole["first_rows"][0].values()) == shown
    spans = {column["name"]: (column["min"], column["max"]) for column in whole["columns"]}
    assert spans["ts"] == ("2025-06-01T02:00:00+02:00", "2025-06-01T02:00:00.500+02:00")
    assert spans["price"] == ("-0.05", "19.99")
    assert spans["kind"] == ("cat", "dog")


def test_groups_and_statistics_are_of_what_values_stand_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "typed.urec")
    found = json.loads(
        answer(
            capsys,
            path,
            "--group-by",
            "kind",
            "--sum",
            "price,took",
            "--mean",
            "day",
            "--json",
            "--sort=-count",
        )
    )
    assert found["counts"] == [
        {"values": ["dog"], "rows": 2, "mean day": "2025-06-01", "sum price": "19.94", "sum took": "2m"},
        {"values": ["cat"], "rows": 1, "mean day": "2025-06-02", "sum price": "5.01", "sum took": "1h"},
    ]
    stats = {one["name"]: one for one in json.loads(answer(capsys, path, "--stats", "--json"))}
    assert stats["ts"]["quantiles"]["0.5"] == "2025-06-01T02:00:00+02:00"
    assert stats["price"]["mean"] == "8.32"
    assert stats["kind"]["mean"] is None
    assert (stats["kind"]["min"], stats["kind"]["max"]) == ("cat", "dog")
    assert "19.99" in answer(capsys, path, "--stats")
    order = json.loads(answer(capsys, path, "--sort=-took", "--columns", "took", "--json"))["rows"]
    assert [row["values"]["took"] for row in order] == ["1h", "1m30s", "30s"]


def test_a_logical_type_that_fits_no_such_values_leaves_them_as_they_are() -> None:
    column = Schema.parse({"n": "int32"})["n"]
    assert column.meaning is None
    assert column.shown(3) == 3
    assert Meaning.of({"type": "timestamp", "unit": "weeks"}, "int64", None) is None
