"""datasets.load_dataset("unirecord", …): what it reads, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import fsspec
import pytest
from datasets import load_dataset
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.registry import _registry
from named_rows import NAMES, SCHEMA, record
from objectstore import serving

import unirecord
import unirecord.hf
from unirecord import UniRecordDataset, Writer, append
from unirecord.frameworks import hf_builder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two parts, a part of its own, and one with other columns."""
    found = tmp_path_factory.mktemp("builder")
    for part in range(2):
        with append(found / "set", SCHEMA) if part else Writer(found / "set", SCHEMA) as writer:
            writer.write_batch(
                {name: [record(n)[name] for n in range(part * 20, part * 20 + 20)] for name in SCHEMA}
            )
    with Writer(found / "more.urec", SCHEMA) as writer:
        writer.write(record(40))
    with Writer(found / "other.urec", {"n": "float32"}) as writer:
        writer.write({"n": 1})
    return found


@pytest.fixture
def load(tmp_path: Path) -> Any:
    datasets.disable_progress_bars()
    return lambda path="unirecord", **options: load_dataset(path, cache_dir=str(tmp_path), **options)


def test_it_loads_what_hf_dataset_gives(folder: Path, load: Any) -> None:
    found = load(data_files=str(folder / "set" / "*"), split="train")
    expected = unirecord.hf.dataset(UniRecordDataset(folder / "set"))
    assert found.features == expected.features
    assert found.features["label"].names == NAMES
    undecoded = found.cast_column("image", datasets.Image(decode=False))
    assert list(undecoded) == list(expected.cast_column("image", datasets.Image(decode=False)))


def test_splits_are_parts_and_datasets_in_the_order_given(folder: Path, load: Any) -> None:
    files = {"train": [str(folder / "more.urec"), str(folder / "set" / "manifest.json")]}
    files["test"] = [str(folder / "more.urec")]
    found = load(data_files=files, columns=["n"])
    assert found["train"]["n"][:] == [40, *range(40)]
    assert found["test"].to_dict() == {"n": [40]}
    features = datasets.Features({"n": datasets.Value("string")})
    told = load(data_files=files, columns=["n"], features=features, where="n >= 39", split="train")
    assert told["n"][:] == ["40", "39"]


def test_it_streams_with_exact_states_and_shares_shards_out(folder: Path, load: Any) -> None:
    files = str(folder / "set" / "manifest.json")
    stream = load(data_files=files, columns=["n"], split="train", streaming=True)
    running = iter(stream)
    assert [next(running)["n"] for _ in range(17)] == list(range(17))
    again = load(data_files=files, columns=["n"], split="train", streaming=True)
    again.load_state_dict(stream.state_dict())
    assert [row["n"] for row in again] == list(range(17, 40))
    assert sorted(row["n"] for i in range(3) for row in stream.shard(3, i)) == list(range(40))


def test_a_folder_is_known_by_its_files(tmp_path: Path, load: Any) -> None:
    """Of any number of parts, one as well, and beside the manifests of earlier versions."""
    data = tmp_path / "data" / "set"  # datasets keeps its copies in tmp_path
    data.parent.mkdir()
    for parts in range(1, 4):
        with (append if parts > 1 else Writer)(data, {"n": "int32"}) as writer:
            writer.write({"n": parts - 1})
        for given in ({"path": str(data)}, {"data_dir": str(data)}):
            for streaming in (False, True):
                found = load(**given, split="train", streaming=streaming)
                assert [row["n"] for row in found] == list(range(parts))


def test_a_part_in_a_folder_of_its_own_is_known(tmp_path: Path, load: Any) -> None:
    (tmp_path / "data").mkdir()
    for name, n in (("test", 5), ("train", 3)):
        with Writer(tmp_path / "data" / f"{name}.urec", {"n": "int32"}) as writer:
            writer.write({"n": n})
    found = load(str(tmp_path / "data"))
    assert {split: found[split]["n"][:] for split in found} == {"train": [3], "test": [5]}


def test_a_folder_of_json_stays_one(tmp_path: Path, load: Any) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a.json", "manifest.json"):
        (data / name).write_text('{"n": 1}\n')
        assert load(str(data), split="train").to_dict() == {"n": [1]}
        (data / name).unlink()


class Listing(DirFileSystem):
    """What s3fs is to `datasets`: it finds files. Nothing is read through it."""

    protocol = "s3"
    root = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(self.root, fsspec.filesystem("file"), skip_instance_cache=True)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("s3://")

    def _open(self, path: str, **options: Any) -> Any:
        raise AssertionError(f"datasets reads {path}")

    open = _open


def test_files_in_an_object_store_are_read_in_place(
    folder: Path, load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_SKIP_SIGNATURE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Listing, "root", str(folder.parent))
    monkeypatch.setitem(_registry, "s3", Listing)
    bucket = folder.name
    with serving(folder.parent) as server:
        over_http = load(
            data_files=f"{server.url}/{bucket}/set/manifest.json", columns=["n", "image"], split="train"
        )
        assert over_http["n"][:] == list(range(40))
        storage = {"endpoint": server.url, "skip_signature": "true", "region": "us-east-1"}
        given = {"columns": ["n"], "storage": storage, "split": "train"}
        assert load(data_files=f"s3://{bucket}/more.urec", **given)["n"][:] == [40]
        stream = load(data_files=f"s3://{bucket}/set/*", where="n >= 38", streaming=True, **given)
        assert [row["n"] for row in stream] == [38, 39]


def test_what_it_cannot_load_it_names(folder: Path, load: Any) -> None:
    def text(error: BaseException | None) -> str:
        return f"{error} {text(error.__cause__ or error.__context__)}" if error else ""

    for files, message in (
        ([folder / "more.urec", folder / "other.urec"], "other.urec has other columns"),
        ([next((folder / "set").glob("*.idx"))], "no data file is a part"),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011 (datasets wraps it)
            load(data_files=[str(path) for path in files])
        assert message in text(caught.value)
    with pytest.raises(
        ValueError, match=r"hf://.*UniRecord reads files on disks and of s3://.*snapshot_download"
    ):
        hf_builder._paths(["hf://datasets/who/what@main/a.urec"])
