"""Datasets in storage that fsspec reads: the same rows, found, listed and read by ranges; written to by nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from unirecord import (
    CorruptionError,
    MissingError,
    StaleError,
    UniRecordDataset,
    UniRecordError,
    Writer,
    export,
    verify,
)
from unirecord.cli import main

ROWS = 200


class Elsewhere(AsyncFileSystem):  # type: ignore[misc]
    """Files in memory behind an event loop, as most of fsspec's remote ones are; counts the calls."""

    protocol = "elsewhere"
    calls = 0
    failing: Exception | None = None
    _files = MemoryFileSystem()

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        return dict(self._files.info(path))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        return self._files.ls(path, detail)

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        Elsewhere.calls += 1
        if Elsewhere.failing is not None and path.endswith(".urec"):
            raise Elsewhere.failing
        return bytes(self._files.cat_file(path, start, end))


def write(path: Path, value: int = 0) -> None:
    with Writer(path, {"n": "int64", "x": "uint8[500]"}, max_part_bytes="30kB", overwrite=True) as writer:
        for n in range(ROWS):
            writer.write({"n": n, "x": np.full(500, (n + value) % 256, np.uint8)})


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Path]:
    """A dataset of some parts on the disk, and the same at memory://bucket/rows; its name as ``elsewhere://`` too."""
    write(tmp_path / "rows")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "rows"), "/bucket/rows", recursive=True)
    fsspec.register_implementation("elsewhere", Elsewhere, clobber=True)
    Elsewhere.failing = None
    yield tmp_path / "rows"
    memory.rm("/bucket", recursive=True)


def urls(rows: Path) -> list[str]:
    return ["memory://bucket/rows", "elsewhere://bucket/rows", f"local://{rows}"]


def values(ds: UniRecordDataset[Any]) -> list[tuple[int, int]]:
    return [
        (int(n), int(x))
        for batch in ds.batches(32)
        for n, x in zip(batch["n"], batch["x"][:, 7], strict=True)
    ]


def test_rows_and_their_order_are_those_of_the_disk(rows: Path, tmp_path: Path) -> None:
    for options in ({}, {"shuffle": True, "seed": 3}, {"where": "n % 3 == 0"}, {"columns": ["n", "x"]}):
        with UniRecordDataset(rows, **options) as there:  # type: ignore[call-overload]
            expected = values(there)
        for url in urls(rows):
            with UniRecordDataset(url, **options) as ds:  # type: ignore[call-overload]
                assert values(ds) == expected
                assert len(list(ds)) == len(expected)


def test_parts_lists_and_patterns_are_found(rows: Path) -> None:
    names = sorted(path.name for path in rows.glob("*.urec"))
    for url in urls(rows):
        with UniRecordDataset(f"{url}/{names[0]}") as one, UniRecordDataset(f"{url}/*.urec") as every:
            assert 0 < len(one) < len(every) == ROWS
        with UniRecordDataset([f"{url}/{name}" for name in names]) as every:
            assert len(every) == ROWS
        assert verify(url).ok


def test_ranges_of_a_batch_are_one_call_where_there_is_a_loop(rows: Path) -> None:
    with UniRecordDataset("elsewhere://bucket/rows") as ds:
        ds[list(range(ROWS))]
        before = Elsewhere.calls
        ds[list(range(ROWS))]
        assert Elsewhere.calls - before <= len(list(rows.glob("*.urec")))  # neighbours come together


def test_a_cache_keeps_what_came(rows: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"cache": tmp_path / "kept", "cache_bytes": "10MB"}
    with UniRecordDataset("memory://bucket/rows", **options) as ds:
        expected = values(ds)
    with UniRecordDataset("memory://bucket/rows", **options) as ds:
        assert values(ds) == expected
        assert ds.cache_stats().fetched_bytes == 0


def test_the_commands_take_such_paths(rows: Path, capsys: Any) -> None:
    for command in ("inspect", "verify"):
        assert main([command, "memory://bucket/rows"]) == 0
    assert f"{ROWS} rows" in capsys.readouterr().out


def test_what_is_not_there_is_named(rows: Path) -> None:
    for url in ("memory://bucket/none", "memory://bucket/rows/none.urec", "elsewhere://bucket/none"):
        with pytest.raises(MissingError, match=url):
            UniRecordDataset(url)
    with pytest.raises(MissingError, match=r"no storage is known for nowhere://.*fsspec"):
        UniRecordDataset("nowhere://bucket/rows")
    with pytest.raises(UniRecordError, match=r"wandb://bucket/rows.*fsspec cannot read it: Install"):
        UniRecordDataset("wandb://bucket/rows")  # of a package that is not installed
    with pytest.raises(OSError, match=r"ftp://127\.0\.0\.1:1/rows"):
        UniRecordDataset("ftp://127.0.0.1:1/rows")  # nobody listens


def test_an_error_of_the_storage_names_file_and_cause_without_secrets(rows: Path) -> None:
    with UniRecordDataset("elsewhere://bucket/rows", storage_options={"token": "geheimnis"}) as ds:
        assert len(ds[[0, 150]]) == 2
        Elsewhere.failing = RuntimeError("the line geheimnis is cut")
        with pytest.raises(OSError, match=r"the line … is cut.*part-0") as caught:
            ds[list(range(ROWS))]
        assert "geheimnis" not in str(caught.value)
    with pytest.raises(ValueError, match="max_requests_per_second"):
        UniRecordDataset("memory://bucket/rows", storage_options={"max_requests_per_second": 5})


def test_files_that_are_replaced_or_damaged_give_no_wrong_row(rows: Path, tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    with UniRecordDataset("memory://bucket/rows") as ds:
        assert len(ds[[0]]) == 1
        part = next(str(name) for name in memory.ls("/bucket/rows", detail=False) if "part-000000" in name)
        part = part.removesuffix(".idx")
        data = memory.cat_file(part)
        found = 0
        for at in range(400, len(data), 5_000):
            memory.pipe_file(part, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            try:
                assert [row["x"][3] for row in ds[list(range(ROWS))]] == [n % 256 for n in range(ROWS)]
            except (CorruptionError, StaleError):
                found += 1
        assert found >= 3  # all but bits that are no row's
        memory.pipe_file(part, data[: len(data) // 2])
        with pytest.raises((OSError, UniRecordError), match="part-000000"):
            ds[list(range(ROWS))]
        write(tmp_path / "rows", 9)
        memory.rm("/bucket/rows", recursive=True)
        memory.put(str(tmp_path / "rows"), "/bucket/rows", recursive=True)
        with pytest.raises(StaleError, match="published here"):
            ds[list(range(ROWS))]
        ds.refresh()
        assert values(ds) == [(n, (n + 9) % 256) for n in range(ROWS)]


def test_nothing_is_written_there(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(UniRecordError, match="only read by UniRecord"):
        Writer("memory://bucket/new", {"n": "int64"})
    with pytest.raises(UniRecordError, match="written to a disk only"):
        export(rows, "memory://bucket/new.csv")
