"""A dataset written to the store of the tests, and what lies there of it, as files, read without the client."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from objectstore import Fault, Request, Server, serving

import unirecord
from unirecord import UniRecordDataset, UniRecordError, Writer, append
from unirecord.storage import object_store
from unirecord.storage import object_store as object_store_module

URL = "s3://bucket/train"
PIECE = 4_096
SCHEMA = {"n": "int32", "b": "bytes"}


def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A fixture: a store with one empty bucket, small pieces of uploads, and short pauses."""
    root, spool = tmp_path / "store", tmp_path / "spool"
    (root / "bucket").mkdir(parents=True)
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    monkeypatch.setattr(object_store, "_stores", {})
    moment = timedelta(milliseconds=1)
    monkeypatch.setattr(object_store, "RETRIES", {"max_retries": 1, "backoff": {"init_backoff": moment}})
    monkeypatch.setattr(object_store_module, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(object_store_module, "PAUSE_SECONDS", 0.0)
    with serving(root) as server:
        server.set_environment(monkeypatch)
        yield server


def folder(server: Server) -> Path:
    return server.root / "bucket" / "train"


def spooled(server: Server) -> list[str]:
    return os.listdir(server.root.parent / "spool")


def numbers(server: Server) -> list[int] | None:
    """The numbers of all rows; None when there is no dataset."""
    if not (folder(server) / "manifest.json").exists():
        return None
    with UniRecordDataset(folder(server), shuffle=False) as ds:
        return [int(ds[i]["n"]) for i in range(len(ds))]


def unnamed(server: Server) -> list[str]:
    """The parts' files that no manifest names, of the newest version or of one that is kept."""
    there = {path.name for path in folder(server).glob("part-*")} if folder(server).exists() else set()
    manifests = [folder(server) / "manifest.json", *folder(server).glob("manifest-*")]
    named = {
        entry.name
        for place in manifests
        if place.exists()
        for entry in unirecord.snapshot.manifest.read(str(place)).parts
    }
    return sorted(name for name in there if name.removesuffix(".idx") not in named)


def killed_at_every_request(
    server: Server, change: Callable[[], object], *, most: int
) -> Iterator[tuple[int, bool]]:
    """Makes the change, each time from the same objects, while all requests from one on fail.

    At first from the first one on, then from the second, until the change makes no more; then once more, where the
    store does what the first failing PUT asks, and its answer is lost. Yields after each the number of that request
    and whether the change was heard to fail, when all requests are answered again.
    """
    kept = {path.name: path.read_bytes() for path in folder(server).iterdir()}
    for lost in (False, True):
        for number in range(1, most):
            for path in folder(server).iterdir():
                path.unlink()
            for name, content in kept.items():
                (folder(server) / name).write_bytes(content)
            count, failed = 0, False

            def die(request: Request, number: int = number, lost: bool = lost) -> Fault | None:
                nonlocal count
                count += 1
                is_it = count == number and lost and request.method == "PUT"
                return Fault(lost=is_it, hang_up=not is_it) if count >= number else None

            server.fault = die
            try:
                change()
            except (OSError, UniRecordError):
                assert count >= number
                failed = True
            server.fault = lambda request: None
            yield number, failed
            if count < number:
                break
        else:
            raise AssertionError("it makes more requests than that")


def write(rows: range, **options: Any) -> None:
    with Writer(URL, SCHEMA, **options) as writer:
        fill(writer, rows)


def fill(writer: Writer, rows: range) -> None:
    for n in rows:
        writer.write({"n": n, "b": bytes([n]) * 1_500})


def append_rows(rows: range) -> None:
    with append(URL) as writer:
        fill(writer, rows)
