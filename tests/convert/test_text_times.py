"""Dates and times in CSV and JSON Lines: which text is one, by C, by pyarrow and by neither, and the text again."""

from __future__ import annotations

import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unirecord import SchemaError, UniRecordDataset, Writer, write_dataset
from unirecord.convert.export import export
from unirecord.convert.sources import Options, open_source
from unirecord.convert.sources.text_values import CellEvidence
from unirecord.core import look_through_csv
from unirecord.format.schema import Schema

FORMS: list[tuple[list[str], str]] = [
    (["2025-06-01"], "date"),
    (["0001-01-01", "9999-12-31", "2024-02-29"], "date"),
    (["2025-06-01T12:00"], "timestamp[us]"),
    (["2025-06-01 12:00:05", "2025-06-01T12:00:05.25"], "timestamp[us]"),
    (["2025-06-01T12:00:05.000001Z", "2025-06-01 12:00+02:00", "0001-01-01T00:00-23:59"], "timestamp[us, UTC]"),
    (["2025-06-01T12:00:05.0000001"], "timestamp[ns]"),
    (["2025-06-01T12:00:05.000000001Z", "1678-01-01T00:00Z"], "timestamp[ns, UTC]"),
    (["2025-06-01T12:00:05.000000001Z", "1677-12-31T00:00Z"], "string"),
    (["2025-06-01T12:00", "2025-06-01T12:00Z"], "string"),
    (["2025-06-01", "2025-06-01T12:00"], "string"),
    (["2025-06-01", "x"], "string"),
    (["2025-06-01", "7"], "string"),
    (["7", "2025-06-01"], "string"),
    *((["2025-06-01T00:00", text], "string") for text in (
        "2025-02-29T00:00", "0000-01-01T00:00", "2025-13-01T00:00", "2025-06-01T24:00", "2025-06-01T23:60",
        "2025-06-01T12:00:60", "2025-06-01T12", "2025-06-01T12:00:00.", "2025-06-01T12:00:00.0000000001",
        " 2025-06-01T00:00", "2025-06-01T00:00 ", "2025-06-01t00:00", "2025-06-01T00:00z", "20250601T0000",
        "2025-06-01  00:00", "+2025-06-01T00:00",
    )),
    *((["2025-06-01T00:00Z", f"2025-06-01T00:00{text}"], "string") for text in (
        "+2:00", "+0200", "+24:00", "+02:60", "+02", " Z"
    )),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "kind"), FORMS)
def test_these_forms_alone_are_times(tmp_path: Path, cells: list[str], kind: str) -> None:
    one, other = CellEvidence(), CellEvidence()
    one.add(cells)
    found = look_through_csv(("\n".join(cells) + "\n").encode(), ",", 1)
    assert found is not None
    other.take(found[1][0])
    assert one.type() == other.type() == kind
    wanted = Schema.parse({"x": kind, "y": f"{kind}?"}).to_spec()
    # an escape in a key is left to Python by the C core
    for key in ("x", "\\u0078"):
        lines = [f'{{"{key}": {json.dumps(cell)}, "y": {json.dumps(cell)}}}\n' for cell in cells]
        (tmp_path / "x.jsonl").write_text("".join(lines) + f'{{"{key}": {json.dumps(cells[0])}}}\n')
        source = open_source(str(tmp_path / "x.jsonl"))
        assert source.schema.to_spec() == wanted
        (batch,) = source.batches()
        assert len(list(batch.columns["x"])) == len(cells) + 1
        assert list(batch.columns["y"])[-1] is None or np.ma.is_masked(batch.columns["y"])


parts = st.sampled_from(
    ["2025", "-", "06", "01", "T", " ", "12", ":", "00", ".", "123", "Z", "+02:00", "1677", "999999999", "30", "02"]
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.lists(parts, min_size=3, max_size=18).map("".join) | st.datetimes().map(str),
        min_size=1,
        max_size=3,
    )
)
def test_c_says_of_any_text_what_python_says(cells: list[str]) -> None:
    cells = [cell for cell in cells if cell.strip()] or ["x"]
    one, other = CellEvidence(), CellEvidence()
    one.add(cells)
    found = look_through_csv(("\n".join(cells) + "\n").encode(), ",", 1)
    assert found is not None
    other.take(found[1][0])
    assert one.type() == other.type()


@pytest.mark.parametrize("by_arrow", [True, False])
def test_values_are_those_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_arrow: bool
) -> None:
    (tmp_path / "x.csv").write_text(
        "day,wall,zoned,fine\n"
        "2025-06-01,2025-06-01T12:00,2025-06-01 12:00:00.5+02:00,2025-06-01T12:00:00.123456789\n"
        ",0001-01-01 00:00:00,2025-06-01T12:00Z,1969-12-31T23:59:59.999999999\n"
    )
    if not by_arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    source = open_source(str(tmp_path / "x.csv"), options=Options())
    columns = {name: values for batch in source.batches() for name, values in batch.columns.items()}
    noon = 1_748_779_200
    assert list(columns["zoned"]) == [(noon - 7_200) * 10**6 + 500_000, noon * 10**6]
    assert list(columns["wall"]) == [noon * 10**6, -62_135_596_800 * 10**6]
    assert list(columns["fine"]) == [noon * 10**9 + 123_456_789, -1]
    days = columns["day"].tolist() if hasattr(columns["day"], "tolist") else columns["day"]
    assert days == [20_240, None]
    assert [str(column) for column in source.schema] == ["int32?", "int64", "int64", "int64"]


SAID: dict[str, Any] = {
    "day": "date?",
    "wall": "timestamp[ms]?",
    "zoned": "timestamp[us, UTC]?",
    "paris": "timestamp[s, Europe/Paris]?",
    "clock": "time[ms]?",
    "span": "duration[ms]?",
    "price": "decimal[9, 2]?",
    "wide": "decimal[38, 3]?",
    "size": {"type": "uint8?", "logical": {"type": "class", "names": ["S", "M,L"]}},
    "n": "int32",
}
ROW: dict[str, Any] = {
    "day": datetime.date(2025, 6, 1),
    "wall": datetime.datetime(2025, 6, 1, 12, 0, 0, 250_000),
    "zoned": datetime.datetime(2025, 6, 1, 12, tzinfo=datetime.UTC),
    "paris": datetime.datetime(2025, 6, 1, 12, tzinfo=datetime.UTC),
    "clock": datetime.time(12, 30),
    "span": datetime.timedelta(hours=1, milliseconds=5),
    "price": Decimal("-19.90"),
    "wide": Decimal("12345678901234567890.5"),
    "size": "M,L",
    "n": 0,
}
TEXTS = {
    "day": "2025-06-01",
    "wall": "2025-06-01T12:00:00.250",
    "zoned": "2025-06-01T12:00:00Z",
    "paris": "2025-06-01T14:00:00+02:00",
    "clock": "12:30:00",
    "span": "1h0.005s",
    "price": "-19.90",
    "wide": "12345678901234567890.500",
    "size": "M,L",
    "n": 0,
}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("by_arrow", [True, False])
def test_exports_say_what_values_stand_for_and_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, by_arrow: bool
) -> None:
    with Writer(tmp_path / "a.urec", SAID) as writer:
        writer.write(ROW)
        writer.write({**dict.fromkeys(ROW), "n": 1})
    export(tmp_path / "a.urec", tmp_path / f"out.{kind}")
    text = (tmp_path / f"out.{kind}").read_text()
    if kind == "jsonl":
        assert [json.loads(line) for line in text.splitlines()] == [TEXTS, {**dict.fromkeys(ROW), "n": 1}]
    else:
        assert text.splitlines()[1] == ",".join(f'"{v}"' if v == "M,L" else str(v) for v in TEXTS.values())
    if not by_arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    write_dataset(tmp_path / f"out.{kind}", tmp_path / "b.urec", schema=SAID)
    with UniRecordDataset(tmp_path / "a.urec") as ds, UniRecordDataset(tmp_path / "b.urec") as other:
        assert str([other[i] for i in range(2)]) == str([ds[i] for i in range(2)])
        assert other.schema.to_spec() == ds.schema.to_spec()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
@given(
    st.lists(
        st.datetimes(min_value=datetime.datetime(1678, 1, 1), max_value=datetime.datetime(2261, 1, 1)),
        min_size=1, max_size=5,
    ),
    st.sampled_from(["", "Z"]),
)  # fmt: skip
def test_text_becomes_types_and_the_same_text_in_one_form(
    tmp_path: Path, times: list[datetime.datetime], zone: str
) -> None:
    canonical = [time.isoformat() + zone for time in times]
    lines = "".join(
        f"{time.date()},{text.replace('T', ' ')}\n" for time, text in zip(times, canonical, strict=True)
    )
    (tmp_path / "x.csv").write_text("d,t\n" + lines)
    write_dataset(tmp_path / "x.csv", tmp_path / "x.urec", overwrite=True)
    export(tmp_path / "x.urec", tmp_path / "y.csv", overwrite=True)
    assert (tmp_path / "y.csv").read_text() == "d,t\n" + lines.replace(" ", "T")


@pytest.mark.parametrize(
    ("spec", "cell", "said"),
    [
        ("timestamp[us, UTC]", "2025-06-01T12:00", "is no timestamp: it says no time zone"),
        ("timestamp[us]", "2025-06-01T12:00Z", "is no timestamp: it says a time zone"),
        ("timestamp[s]", "2025-06-01T12:00:00.5", "it is no whole number of s"),
        ("timestamp[s]", "noon", "'noon' is no timestamp: it is no date and no time"),
        ("date", "2025-06-01T12:00", "'2025-06-01T12:00' is no date: it has a time of the day"),
        ("date", "2025-02-29", "is no date"),
        ("decimal[5, 2]", "1.234", "is no decimal: .* more than 2 digits behind the point"),
        ("decimal[5, 2]", "1_0", "is no decimal: it is no number"),
        ("decimal[5, 2]", "", "the cell is empty"),
        ("time[s]", "25:00", "is no time"),
        ("duration[s]", "1 month", "is no duration: a month has no fixed length"),
        ({"type": "uint8", "logical": {"type": "class", "names": ["S"]}}, "T", "'T' is no class"),
    ],
)
def test_what_does_not_fit_what_was_asked_for_is_named_by_its_line(
    tmp_path: Path, spec: Any, cell: str, said: str
) -> None:
    (tmp_path / "x.csv").write_text(f"x,n\n{cell},1\n")
    with pytest.raises(SchemaError, match=f"line 2, column 'x'.*{said}"):
        write_dataset(tmp_path / "x.csv", tmp_path / "out.urec", schema={"x": spec})


def test_numbers_of_json_are_the_values_of_decimals_and_what_other_columns_store(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(
        '{"p": 20, "t": 5, "c": 1}\n{"p": 19.99, "t": "1970-01-01T00:00", "c": "S"}\n'
    )
    spec = {"p": "decimal[9, 2]", "t": "timestamp[us]", "c": SAID["size"]}
    write_dataset(tmp_path / "x.jsonl", tmp_path / "x.urec", schema=spec)
    with UniRecordDataset(tmp_path / "x.urec") as ds:
        moments = np.array([5, 0], "M8[us]")
        assert [ds[i] for i in range(2)] == [
            {"p": 2000, "t": moments[0], "c": 1},
            {"p": 1999, "t": moments[1], "c": 0},
        ]


def test_text_and_plain_numbers_may_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("d,p\n2025-06-01,2\n2025-06-02,1.5\n")
    write_dataset(tmp_path / "x.csv", tmp_path / "x.urec", schema={"d": "string", "p": "decimal[5, 2]"})
    with UniRecordDataset(tmp_path / "x.urec") as ds:
        assert [ds[i] for i in range(2)] == [{"d": "2025-06-01", "p": 200}, {"d": "2025-06-02", "p": 150}]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_appended_text_is_read_by_what_the_values_there_stand_for(tmp_path: Path, kind: str) -> None:
    with Writer(tmp_path / "out", SAID) as writer:
        writer.write(ROW)
    (tmp_path / "x.csv").write_text(
        ",".join(ROW) + "\n2025-06-02,2025-06-02T00:00,2025-06-02T00:00Z,2025-06-02T00:00Z,00:00,1s,5,7,S,1\n"
    )
    values = dict(zip(ROW, (tmp_path / "x.csv").read_text().splitlines()[1].split(","), strict=True))
    (tmp_path / "x.jsonl").write_text(json.dumps({**values, "price": 5, "n": 1}) + "\n")
    write_dataset(tmp_path / f"x.{kind}", tmp_path / "out", append=True)
    with UniRecordDataset(tmp_path / "out") as ds:
        found = ds[1]
        assert (found["price"], found["wide"].tolist(), found["size"], found["span"]) == (
            500,
            [7000, 0],
            0,
            np.timedelta64(1000, "ms"),
        )
        assert ds.schema["wall"].shown(found["wall"]) == "2025-06-02T00:00:00"
    (tmp_path / "bad.csv").write_text((tmp_path / "x.csv").read_text().replace("00:00Z", "noon"))
    with pytest.raises(SchemaError, match="line 2, column 'zoned': '2025-06-02Tnoon' is no timestamp"):
        write_dataset(tmp_path / "bad.csv", tmp_path / "out", append=True)
