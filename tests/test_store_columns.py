"""Columns of datasets in an object store: added, dropped, renamed, or not, whichever request was the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from objectstore import Fault, Request, Server
from written_store import URL, append_rows, folder, served, write

import unirecord
from unirecord import UniRecordDataset, UniRecordError, verify

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
    kept = {path.name: path.read_bytes() for path in folder(server).iterdir()}
    outcomes = set()
    for lost in (False, True):
        for number in range(1, 90):
            for path in folder(server).iterdir():
                path.unlink()
            for name, content in kept.items():
                (folder(server) / name).write_bytes(content)
            count = 0

            def die(request: Request, number: int = number, lost: bool = lost) -> Fault | None:
                nonlocal count
                count += 1
                is_it = count == number and lost and request.method == "PUT"
                return Fault(lost=is_it, hang_up=not is_it) if count >= number else None

            server.fault = die
            try:
                unirecord.add_columns(URL, NEW, doubled)
            except (OSError, UniRecordError):
                assert count >= number
            server.fault = lambda request: None
            assert seen("n") == [(n,) for n in range(3)]
            done = "m" in UniRecordDataset(URL).schema
            outcomes.add(done)
            if not done:
                unirecord.add_columns(URL, NEW, doubled)
            assert seen("n", "m") == [(n, 2 * n) for n in range(3)]
            if count < number:
                break
        else:
            raise AssertionError("it makes more requests than that")
    assert outcomes == {False, True}
    capsys.readouterr()
