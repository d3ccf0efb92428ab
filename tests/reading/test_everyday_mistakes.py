"""What people write by mistake or by habit: each is taken as it is meant, or the error says what to write instead."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import unirecord
import unirecord.torch
from unirecord import BusyError, MissingError, QueryError, SchemaError, UniRecordDataset, Writer
from unirecord.cli import main

ROWS = 10


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Writer("people.urec", {"age": "int64", "label": "int32", "city": "string"}) as writer:
        writer.write_batch(
            {"age": range(ROWS), "label": [i % 3 for i in range(ROWS)], "city": ["Bern"] * ROWS}
        )
    return tmp_path


def opened(**options: Any) -> UniRecordDataset:
    return UniRecordDataset("people.urec", **options)


def write(schema: Any, *records: dict[str, Any]) -> list[Any]:
    with Writer("x.urec", schema, overwrite=True) as writer:
        for record in records:
            writer.write(record)
    return plain(UniRecordDataset("x.urec")[:])


def write_batch(batch: Any, schema: Any = None) -> list[Any]:
    with Writer("x.urec", schema, overwrite=True) as writer:
        writer.write_batch(batch)
    return plain(UniRecordDataset("x.urec")[:])


def plain(samples: list[dict[str, Any]]) -> list[Any]:
    return [
        {name: value.tolist() if hasattr(value, "tolist") else value for name, value in sample.items()}
        for sample in samples
    ]


def run_a_cell_again() -> None:
    """Its first run has left a writer in the notebook's names."""
    kept = []
    for _ in range(2):
        kept.append(Writer("y.urec", {"a": "int64"}))
        with pytest.raises(SchemaError):
            kept[-1].write({"a": "no number"})


SAID: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "columns='age'": (lambda: opened(columns="age"), ValueError, r"columns=\['age'\]"),
    "view(columns='age')": (lambda: opened().view(columns="age"), ValueError, r"columns=\['age'\]"),
    "scalars('age')": (lambda: opened().scalars("age"), ValueError, r"write \['age'\], or ds\['age'\]"),
    "to_arrow('age')": (lambda: opened().to_arrow("age"), ValueError, r"write \['age'\]"),
    "torch.loader('x.urec', 8)": (
        lambda: unirecord.torch.loader("people.urec", 8),  # type: ignore[arg-type]
        TypeError,
        r"loader\(UniRecordDataset\(path\), batch_size\)",
    ),
    "transform='x'": (lambda: opened(transform="x"), TypeError, "transform must be a function, got 'x'"),
    "batches(transform='x')": (
        lambda: opened().batches(2, transform="x"),  # type: ignore[arg-type]
        TypeError,
        "transform must be a function",
    ),
    "loader(transform='x')": (
        lambda: unirecord.torch.loader(opened(), 2, transform="x"),  # type: ignore[arg-type]
        TypeError,
        "transform must be a function",
    ),
    "split(0.8, 0.2)": (
        lambda: opened().split(0.8, 0.2),  # type: ignore[call-overload]
        TypeError,
        r"one list: split\(\[0\.8, 0\.2\]\)",
    ),
    "'people.urec.idx'": (
        lambda: UniRecordDataset("people.urec.idx"),
        MissingError,
        r"name the part itself: people\.urec$",
    ),
    "'people'": (lambda: UniRecordDataset("people"), MissingError, r"did you mean 'people\.urec'\?"),
    "'~/people.urec'": (lambda: UniRecordDataset("~/people.urec"), MissingError, "only a shell expands ~"),
    "''": (lambda: UniRecordDataset(""), MissingError, "the path is empty; name a part"),
    "hdfq://": (
        lambda: UniRecordDataset("hdfq://bucket/people.urec"),
        MissingError,
        "name a path on a disk, or one of s3://",
    ),
    "None into string": (
        lambda: write({"city": "string"}, {"city": None}),
        SchemaError,
        r"(?s)column 'city'.*string\?",
    ),
    "None into int64": (lambda: write({"n": "int64"}, {"n": None}), SchemaError, r"(?s)column 'n'.*int64\?"),
    "pandas' NaN into string": (
        lambda: write_batch({"city": np.array(["Bern", np.nan], object)}, {"city": "string"}),
        SchemaError,
        r"(?s)row 1, column 'city'.*string\?",
    ),
    "where='city = Bern'": (lambda: opened(where="city = Bern"), QueryError, r"(?s)'Bern'"),
    "where='city == Bern'": (lambda: opened(where="city == Bern"), QueryError, r"(?s)'Bern'"),
    "schema 'datetime'": (lambda: write({"t": "datetime64"}, {}), SchemaError, "(?s)int64.*timestamp"),
    "a time without its zone": (
        lambda: write(
            {"t": {"type": "int64", "logical": {"type": "timestamp", "unit": "us", "zone": "UTC"}}},
            {"t": datetime.datetime(2024, 1, 1)},
        ),
        SchemaError,
        r"(?s)column 't'.*without a time zone, and the column is in UTC",
    ),
    "a cell that is run again after an error": (
        run_a_cell_again,
        BusyError,
        r"(?s)this process.*(close\(\)|abort\(\))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", SAID)
def test_the_error_says_what_to_write_instead(here: Path, mistake: str) -> None:
    make, kind, said = SAID[mistake]
    with pytest.raises(kind, match=said):
        make()


FRAME = pandas.DataFrame({"city": ["Bern", None], "n": [1, 2]})
DAY = np.datetime64("2024-01-01T00:00:00.000000001")
TAKEN: dict[str, tuple[Callable[[], Any], Any]] = {
    "ds['label']": (lambda: opened()["label"].tolist(), [i % 3 for i in range(ROWS)]),
    "ds[np.array([1, 2])]": (lambda: [s["age"] for s in opened()[np.array([1, 2])]], [1, 2]),
    "ds[[1, 2]]": (lambda: [s["age"] for s in opened()[[1, 2]]], [1, 2]),
    "ds.split(0.8)": (lambda: [len(part) for part in opened().split(0.8)], [8, 2]),
    "num_workers=0": (
        lambda: [
            batch["age"].tolist()
            for loader in (
                opened().batches(5, num_workers=0),
                unirecord.torch.loader(opened(), 5, num_workers=0),
                unirecord.torch.loader(
                    opened(), 5, num_workers=0, transform=lambda s: {"age": int(s["age"])}
                ),
            )
            for batch in loader
        ],
        [[*range(5)], [*range(5, 10)]] * 3,
    ),
    "'uint16[-1]'": (
        lambda: write(
            {"tokens": "uint16[-1]", "box": "float32[2, 2]"},
            {"tokens": np.array([1, 2], np.uint16), "box": np.eye(2, dtype=np.float32)},
        ),
        [{"tokens": [1, 2], "box": [[1.0, 0.0], [0.0, 1.0]]}],
    ),
    "pandas' NaN into string?": (
        lambda: write_batch({"city": np.array(["Bern", np.nan], object)}, {"city": "string?"}),
        [{"city": "Bern"}, {"city": None}],
    ),
    "write_batch(DataFrame)": (
        lambda: write_batch(FRAME),
        [{"city": "Bern", "n": 1}, {"city": None, "n": 2}],
    ),
    "datetime64 into int64": (
        lambda: write({"t": "int64"}, {"t": DAY}) + write_batch({"t": np.array([DAY])}, {"t": "int64"}),
        [{"t": 1704067200000000001}] * 2,
    ),
    "NaT into int64?": (lambda: write({"t": "int64?"}, {"t": np.datetime64("NaT")}), [{"t": None}]),
}


@pytest.mark.parametrize("habit", TAKEN)
def test_it_is_taken_as_it_is_meant(here: Path, habit: str) -> None:
    make, expected = TAKEN[habit]
    assert make() == expected


COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "an unknown flag": (["inspect", "people.urec", "--limt", "3"], 2, "did you mean '--limit'?"),
    "a flag of another command": (["verify", "people.urec", "--overwrite"], 2, "unirecord verify --help"),
    "the usage is the command's": (["bench", "people.urec", "--nothing"], 2, "unirecord bench: unknown"),
    "an unknown command": (["verfy", "people.urec"], 2, "did you mean 'verify'"),
    "verify a b": (["verify", "people.urec", "people.urec"], 0, "people.urec, people.urec: every byte is"),
    "inspect a b": (["inspect", "people.urec", "people.urec"], 0, "20 rows"),
    "verify people": (["verify", "people"], 2, "did you mean 'people.urec'?"),
    "inspect --where 'city = Bern'": (["inspect", "people.urec", "--where", "city = Bern"], 2, "'Bern'"),
    "bench ~": (["bench", "~/people.urec"], 2, "only a shell expands ~"),
}


@pytest.mark.parametrize("call", COMMANDS)
def test_the_command_line_says_what_to_write_instead(
    here: Path, capsys: pytest.CaptureFixture[str], call: str
) -> None:
    argv, code, said = COMMANDS[call]
    try:
        found = main(argv)
    except SystemExit as ended:  # of argparse
        found = int(str(ended.code))
    assert found == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
