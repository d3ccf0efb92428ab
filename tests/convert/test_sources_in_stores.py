"""A dataset in an object store as the source of a conversion: copied, chosen from, split; what is none is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from objectstore import Server
from written_store import served

from unirecord import MissingError, UniRecordDataset, diff, write_dataset
from unirecord.cli import main
from unirecord.convert.sources import WrongSourceError, stored_dataset

URL = "s3://bucket/rows"
ROWS = 200


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    yield from served(tmp_path, monkeypatch)


@pytest.fixture
def rows(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The dataset that is in the store, on the disk; a conversion reads it in several pieces."""
    monkeypatch.setattr(stored_dataset, "_UNIT_BYTES", 4_000)
    given = [
        {"n": n, "text": f"t{n}" * (n % 5), "b": None if n % 7 == 0 else bytes([n])} for n in range(ROWS)
    ]
    for path in (tmp_path / "rows", URL):
        write_dataset(given, path, schema={"n": "int32", "text": "text", "b": "bytes?"}, index=["n"])
    return tmp_path / "rows"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_dataset_is_copied_from_a_store_as_it_is(rows: Path, tmp_path: Path, workers: str) -> None:
    copy = str(tmp_path / "copy")
    assert main(["write", URL, copy, "--index", "n", "--workers", workers]) == 0
    assert diff(str(rows), copy).equal
    assert main(["write", URL, "s3://bucket/copy", "--workers", workers]) == 0
    assert diff(str(rows), "s3://bucket/copy").equal


def test_rows_are_chosen_and_split(rows: Path, tmp_path: Path) -> None:
    assert main(["write", URL, str(tmp_path / "some"), "--where", "n < 9", "--columns", "n"]) == 0
    with UniRecordDataset(tmp_path / "some") as ds:
        assert [row["n"] for row in ds] == list(range(9))
    assert main(["split", URL, str(tmp_path / "shares"), "a=0.5,b=0.5"]) == 0
    assert sum(len(UniRecordDataset(tmp_path / "shares" / name)) for name in "ab") == ROWS


def test_options_of_the_store_are_those_of_the_source_too(
    rows: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_SKIP_SIGNATURE"):
        monkeypatch.delenv(name)
    options: dict[str, Any] = {"endpoint": server.url, "region": "r", "skip_signature": "true"}
    assert write_dataset(URL, tmp_path / "copy", workers=2, storage_options=options) == ROWS
    assert diff(str(rows), str(tmp_path / "copy")).equal
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    assert main(["write", URL, str(tmp_path / "again"), *given]) == 0
    with pytest.raises(ValueError, match="on a disk"):
        write_dataset(str(rows), tmp_path / "other", storage_options=options)


def test_what_is_no_dataset_is_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (server.root / "bucket" / "t.csv").write_text("a\n1\n")
    for line in (["s3://bucket/t.csv"], [URL, "--from", "csv"]):
        assert main(["write", *line, str(tmp_path / "new")]) == 2
        assert "copy it to a disk first" in capsys.readouterr().err
    with pytest.raises(WrongSourceError, match="copy it to a disk first"):
        write_dataset("s3://bucket/t.csv", tmp_path / "new")
    with pytest.raises(MissingError, match="no such file"):
        write_dataset("s3://bucket/none", tmp_path / "new")
