"""What is said of columns (logical types, chunks, annotations) goes with an export, and comes back with it."""

from __future__ import annotations

import importlib.util
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from image_folders import picture

from unirecord import UniRecordDataset, Writer, export, write_dataset

SCHEMA: dict[str, Any] = {
    "image": {
        "type": "bytes",
        "logical": {"type": "media", "media": "image/png"},
        "annotations": {"color_space": "srgb"},
        "chunks": 65536,
    },
    "scan": {"type": "bytes?", "logical": {"type": "media", "media": "image/avif"}},
    "label": {"type": "int32", "logical": {"type": "class", "names": ["cat", "dög"]}},
    "kind": {"type": "uint8?", "logical": {"type": "class", "names": ["a", "b"]}},
    "depth": {
        "type": "float32",
        "shape": [2, 2],
        "annotations": {"unit": "mm", "range": [0, 1.5], "n": None},
    },
    "plain": "string",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Writer(tmp_path / "d", SCHEMA, metadata={"classes": ["cat", "dög"]}) as writer:
        for i in range(4):
            writer.write({
                "image": picture(1, 1 + i), "scan": b"\0\0\0 ftypavif" if i else None, "label": i % 2, "kind": None,
                "depth": np.array([[i, 1], [2, 3]], np.float32), "plain": f"{i}",
            })  # fmt: skip
    return tmp_path / "d"


def said(path: Path) -> dict[str, Any]:
    with UniRecordDataset(path) as ds:
        return {column.name: column.wire_annotations for column in ds.schema}


@pytest.mark.parametrize("kind", ["parquet", "arrow", "lance"])
def test_annotations_come_back_from_what_arrow_describes(path: Path, tmp_path: Path, kind: str) -> None:
    if kind == "lance" and importlib.util.find_spec("lance") is None:
        pytest.skip("pylance is too large for every run")
    export(path, tmp_path / f"x.{kind}")
    write_dataset(tmp_path / f"x.{kind}", tmp_path / "again")
    assert said(tmp_path / "again") == said(path)
    with UniRecordDataset(path) as first, UniRecordDataset(tmp_path / "again") as second:
        assert second.metadata == {
            "classes": ["cat", "dög"],
            "class_names": {"label": ["cat", "dög"], "kind": ["a", "b"]},
        }
        assert [row["image"] for row in second] == [row["image"] for row in first]
        write_dataset(second.to_batches().read_all(), tmp_path / "table")
    assert said(tmp_path / "table") == said(path)


def test_other_programs_see_them_in_the_fields_of_parquet(path: Path, tmp_path: Path) -> None:
    export(path, tmp_path / "x.parquet")
    schema = pa.parquet.read_schema(tmp_path / "x.parquet")
    assert json.loads(schema.field("label").metadata[b"unirecord.annotations"]) == {
        "logical": {"type": "class", "names": ["cat", "dög"]}
    }
    assert (
        schema.field("plain").metadata is None
        or b"unirecord.annotations" not in schema.field("plain").metadata
    )


@pytest.mark.parametrize(
    "stored",
    [
        b"{", b"[1]", b"3", b'{"a": 1e999}', b"\xff", b"[" * 100_000, b'{"logical": 3}',
        b'{"logical": {"type": "uuid"}}', b'{"chunks": 3, "a": 1}',
    ],
)  # fmt: skip
def test_annotations_that_are_damaged_are_left_out(tmp_path: Path, stored: bytes) -> None:
    field = pa.field("x", pa.int64(), metadata={b"unirecord.annotations": stored})
    pa.parquet.write_table(pa.table([[1, 2]], schema=pa.schema([field])), tmp_path / "x.parquet")
    assert write_dataset(tmp_path / "x.parquet", tmp_path / "d") == 2
    assert said(tmp_path / "d") == {"x": {}}


def test_files_end_as_their_media_type_says_where_their_bytes_do_not(path: Path, tmp_path: Path) -> None:
    export(path, tmp_path / "x.tar", columns=["image", "scan", "label"])
    with tarfile.open(tmp_path / "x.tar") as tar:
        names = tar.getnames()
    assert names[:2] == ["000000000.json", "000000000.image.png"]
    assert "000000001.scan.avif" in names
    export(path, tmp_path / "scans", to="images", columns=["scan", "label"], where="label == 1")
    assert [file.parent.name for file in (tmp_path / "scans").rglob("*.avif")] == ["dög", "dög"]


def test_class_folders_and_their_media_type_come_back(path: Path, tmp_path: Path) -> None:
    export(path, tmp_path / "pictures", to="images", columns=["image", "label"])
    (tmp_path / "pictures" / "metadata.jsonl").unlink()  # the folders alone
    write_dataset(tmp_path / "pictures", tmp_path / "again")
    found = said(tmp_path / "again")
    assert found["image"] == {"logical": {"type": "media", "media": "image/png"}}
    assert found["label"] == {"logical": {"type": "class", "names": ["cat", "dög"]}}
