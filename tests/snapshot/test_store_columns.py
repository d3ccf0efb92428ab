"""Columns of datasets in an object store: added, dropped, renamed, or not, whichever request was the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from objectstore import Server
from written_store import URL, append_rows, folder, killed_at_every_request, served, write

import unirecord
from unirecord import SchemaError, UniRecordDataset, verify

server = pytest.fixture(served)


def doubled(batch: dict[str, Any]) -> dict[str, Any]:
    return {"m": batch["n"].astype("i8") * 2, "w": [f"w{n}" for n in batch["n"]]}


NEW = {"m": "int64", "w": "text"}


def seen(*names: str, **options: Any) -> list[Any]:
    with UniRecordDataset(URL, columns=list(names), shuffle=False, **options) as ds:
        return [tuple(int(row[name]) if name in "mn" else row[name] for name in names) for row in ds]


def test_columns_change_as_on_a_disk(server: Server, tmp_path: Path) -> None:
    write(range(5))
    append_rows(range(5, 9))
    found = unirecord.add_columns(URL, NEW, doubled)
    assert (found.version, found.parts, found.rows) == (3, 2, 9)
    assert seen("n", "m", "w") == [(n, 2 * n, f"w{n}") for n in range(9)]
    for shuffle in (True, "block", False):
        cache = {"cache": tmp_path / f"{shuffle}", "cache_bytes": "1MB"}
        with UniRecordDataset(URL, shuffle=shuffle, seed=1, **cache) as ds:  # type: ignore[arg-type]
            for _ in range(2):
                rows = [
                    (int(n), w)
                    for batch in ds.batches(4)
                    for n, w in zip(batch["n"], batch["w"], strict=True)
                ]
                assert sorted(rows) == [(n, f"w{n}") for n in range(9)]
            assert ds.cache_stats().hits > 0
    assert unirecord.rename_columns(URL, {"n": "number"}).version == 4
    assert unirecord.drop_columns(URL, "m").columns == ("number", "b", "w")
    with unirecord.append(URL) as writer:
        writer.write({"number": 9, "b": b"", "w": "w9"})
    assert seen("number", "w") == [(n, f"w{n}") for n in range(10)]
    assert seen("w", where="number == 9") == [("w9",)]
    assert seen("n", version=2) == [(n,) for n in range(9)]
    assert verify(URL).ok
    assert unirecord.restore(URL, 3) == 7
    assert seen("m") == [(2 * n,) for n in range(9)]
    unirecord.gc(URL, keep=1, older_than=0.0)
    assert len(list(folder(server).glob("*.urec"))) == 4


def test_rows_appended_meanwhile_get_values_too(server: Server) -> None:
    write(range(5))
    calls: list[int] = []

    def slowly(batch: dict[str, Any]) -> dict[str, Any]:
        if not calls:
            append_rows(range(5, 8))
        calls.append(len(batch["n"]))
        return doubled(batch)

    assert unirecord.add_columns(URL, NEW, slowly).rows == 8
    assert seen("n", "m") == [(n, 2 * n) for n in range(8)]
    assert verify(URL).ok


def test_every_request_failing_in_turn_adds_or_does_not(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    write(range(3))
    outcomes = set()
    for _ in killed_at_every_request(server, lambda: unirecord.add_columns(URL, NEW, doubled), most=90):
        assert seen("n") == [(n,) for n in range(3)]
        done = "m" in UniRecordDataset(URL).schema
        outcomes.add(done)
        if not done:
            unirecord.add_columns(URL, NEW, doubled)
        assert seen("n", "m") == [(n, 2 * n) for n in range(3)]
    assert outcomes == {False, True}
    capsys.readouterr()


def test_wrong_values_leave_no_object(server: Server) -> None:
    write(range(3))
    append_rows(range(3, 6))
    before = sorted(path.name for path in folder(server).iterdir())

    def wrong(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["n"][0] == 3:
            assert len(list(folder(server).glob("*.urec"))) == 3, "the first column part is there"
            return {"m": [None] * 3, "w": ["w"] * 3}
        return doubled(batch)

    with pytest.raises(SchemaError):
        unirecord.add_columns(URL, NEW, wrong)
    assert sorted(path.name for path in folder(server).iterdir()) == before
