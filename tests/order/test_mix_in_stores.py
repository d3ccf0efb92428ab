"""Mixtures of datasets in object stores: read with the options and the cache of their sources."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Server, serving

import unirecord
from unirecord.storage import object_store


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for number, name in enumerate(("a", "b")):
        (tmp_path / "store" / "bucket").mkdir(parents=True, exist_ok=True)
        with unirecord.Writer(tmp_path / "store" / "bucket" / name, {"i": "int64"}) as writer:
            writer.write_batch({"i": np.arange(10) + 100 * number})
    monkeypatch.setattr(object_store, "_stores", {})
    with serving(tmp_path / "store") as server:
        yield server


def opened(server: Server, name: str, **options: Any) -> Any:
    storage = {"endpoint": server.url, "skip_signature": True, "region": "us-east-1"}
    return unirecord.UniRecordDataset(f"s3://bucket/{name}", storage_options=storage, **options)


def test_a_mixture_reads_with_the_options_and_the_cache_of_its_sources(
    server: Server, tmp_path: Path
) -> None:
    kept = {"cache": tmp_path / "cache", "cache_bytes": "10MB"}
    sources = {name: opened(server, name, **kept) for name in ("a", "b")}
    mixed = unirecord.mix(sources, seed=1)
    expected = {*range(10), *range(100, 110)}
    assert {int(sample["i"]) for sample in mixed} == expected
    assert {int(sample["i"]) for sample in pickle.loads(pickle.dumps(mixed))} == expected
    assert (
        mixed.read_cursor.plan.data.parts.cache_options
        == sources["a"].read_cursor.plan.data.parts.cache_options
    )


def test_sources_with_other_options_are_named(server: Server, tmp_path: Path) -> None:
    kept = opened(server, "b", cache=tmp_path / "cache", cache_bytes="10MB")
    with pytest.raises(ValueError, match="cache of source 'a' is not that of 'b'"):
        unirecord.mix({"a": opened(server, "a"), "b": kept})
