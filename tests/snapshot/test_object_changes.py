"""Objects that change while they are read: StaleError, whatever their size, and never a value of the new ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Server, serving

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.snapshot.prefetch import Fetcher
from unirecord.storage import object_store
from unirecord.storage.object_store import Versions, version_of

ROWS, SIZE = 400, 300


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(object_store, "_stores", {})
    (tmp_path / "bucket").mkdir()
    with serving(tmp_path) as server:
        server.set_environment(monkeypatch)
        yield server


def write(path: Path, first: int, rows: int = ROWS) -> None:
    """Rows whose values begin with ``first``, so that each says which dataset it is of."""
    rng = np.random.default_rng(first)
    with Writer(path, {"n": "int64", "x": f"uint8[{SIZE}]"}, overwrite=True) as writer:
        x = rng.integers(0, 256, (rows, SIZE), np.uint8)
        x[:, 0] = first
        writer.write_batch({"n": np.arange(rows), "x": x})


def with_bytes_changed(path: Path) -> None:
    """Another object of the same size, damaged where no index and no manifest says so."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    for at in range(middle - 40_000, middle + 40_000, 100):
        content[at] ^= 255
    replace(path, bytes(content))


def replace(path: Path, content: bytes) -> None:
    path.with_suffix(".uploading").write_bytes(content)
    os.replace(path.with_suffix(".uploading"), path)


def other_dataset(rows: int) -> Callable[[Path], None]:
    return lambda path: write(path, 2, rows)


def cut(path: Path) -> None:
    replace(path, path.read_bytes()[:20_000])


CHANGES = {
    "another dataset of the same size": other_dataset(ROWS),
    "a longer one": other_dataset(2 * ROWS),
    "a shorter one": other_dataset(ROWS // 2),
    "bytes changed in place": with_bytes_changed,
    "cut": cut,
}


@pytest.mark.parametrize(
    ("replaced", "error", "said"),
    [(True, unirecord.StaleError, "replaced"), (False, OSError, "the object has been cut")],
    ids=["replaced", "the same object"],
)
def test_an_answer_that_is_too_short_is_stale_where_the_object_is_another_one(
    server: Server, monkeypatch: pytest.MonkeyPatch, replaced: bool, error: type[Exception], said: str
) -> None:
    path = server.root / "bucket" / "a.urec"
    write(path, 1)
    asked: list[Any] = []

    def shortened(self: Fetcher, runs: Any, take: Any) -> list[Any]:
        if not asked and replaced:
            write(path, 2)
        asked.append(runs)
        return [b"" if take is None else 0 for _ in runs]

    with UniRecordDataset("s3://bucket/a.urec", verify="never") as ds:
        monkeypatch.setattr(Fetcher, "_ask", shortened)
        with pytest.raises(error, match=said):
            list(ds.batches(20))


@pytest.mark.parametrize("verify", ["first", "never"])
@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffled", "in order"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_part_that_is_overwritten_between_two_batches_is_stale(
    server: Server, change: str, shuffle: bool, verify: str
) -> None:
    path = server.root / "bucket" / "a.urec"
    write(path, 1)
    options = {"shuffle": shuffle, "seed": 1, "verify": verify}
    with UniRecordDataset("s3://bucket/a.urec", **options) as ds:
        batches = iter(ds.batches(20, prefetch=1, num_threads=1))
        assert (next(batches)["x"][:, 0] == 1).all()
        CHANGES[change](path)
        with pytest.raises(unirecord.StaleError, match=r"replaced|published"):
            all((batch["x"][:, 0] == 1).all() for batch in batches)
        with pytest.raises(unirecord.StaleError, match=r"a\.urec"):
            ds[ROWS // 2 + 7]


def test_a_part_of_a_directory_that_is_overwritten_is_stale(server: Server) -> None:
    """Which the manifest, that is still the same, does not say."""
    folder = server.root / "bucket" / "many"
    write(folder, 1)
    [part] = folder.glob("*.urec")
    with UniRecordDataset("s3://bucket/many") as ds:
        assert ds[0]["n"] == 0
        with_bytes_changed(part)
        with pytest.raises(unirecord.StaleError, match="the object has been replaced"):
            ds[ROWS // 2]
    with UniRecordDataset("s3://bucket/many") as ds, pytest.raises(unirecord.CorruptionError):
        ds[range(ROWS)]  # opened anew it is no other object, but a damaged one


def test_an_index_that_is_overwritten_is_stale(server: Server) -> None:
    path = server.root / "bucket" / "a.urec"
    write(path, 1, 130_000)
    index = path.with_name("a.urec.idx")
    content = bytearray(index.read_bytes())
    assert len(content) > 4 * 65_536
    with UniRecordDataset("s3://bucket/a.urec", columns=["n"]) as ds:
        assert ds[0]["n"] == 0
        content[65_536 : len(content) - 65_536] = bytes(len(content) - 2 * 65_536)
        replace(index, bytes(content))
        with pytest.raises(unirecord.StaleError, match="the object has been replaced"):
            ds[range(0, 130_000, 500)]


def test_the_same_bytes_put_again_are_read_on(server: Server) -> None:
    path = server.root / "bucket" / "a.urec"
    write(path, 1, 100)
    with UniRecordDataset("s3://bucket/a.urec", verify="never") as ds:
        batches = iter(ds.batches(20, prefetch=1, num_threads=1))
        next(batches)
        replace(path, path.read_bytes())
        assert sum(len(batch["n"]) for batch in batches) == 80


def test_an_object_that_is_replaced_while_it_is_verified_is_stale(server: Server) -> None:
    path = server.root / "bucket" / "long.urec"
    write(path, 1, 3_000)
    with object_store.ObjectStore().open("s3://bucket/long.urec") as file:
        file.read_at(0, 100)
        write(path, 2, 3_000)
        with pytest.raises(
            unirecord.StaleError, match=r"s3://bucket/long\.urec: the object has been replaced"
        ):
            file.read_at(file.size - 100, 100)


def test_what_many_ranges_cost_to_tell_versions_is_one_in_16(server: Server) -> None:
    store = object_store.ObjectStore()
    wanted = [("s3://bucket/a.urec", i * 50_000, 100) for i in range(64)]
    units = store._units(wanted, False)
    assert [tells for _, tells in units].count(True) == 4
    assert sorted(number for unit, _ in units for number in unit) == list(range(64))
    assert all(tells for _, tells in store._units(wanted, True))
    assert all(tells for _, tells in store._units(wanted[:15], False))


def test_versions_are_etags_or_times_with_sizes() -> None:
    versions = Versions()
    versions.check("a", {"e_tag": 'W/"1"', "size": 5})
    versions.check("a", {"e_tag": '"1"', "size": 5})  # a server that compresses says it weakly
    for other in ({"e_tag": '"2"', "size": 5}, {"e_tag": '"1"', "size": 6}):
        assert versions.differs("a", other)
        with pytest.raises(unirecord.StaleError, match=r"^a: the object has been replaced"):
            versions.check("a", other)
    assert not versions.differs("b", {"e_tag": None, "last_modified": "10:00", "size": 5})
    assert version_of({"last_modified": "10:00", "size": 5}) != version_of(
        {"last_modified": "10:01", "size": 5}
    )
