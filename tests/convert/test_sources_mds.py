"""MDS shards, made by mosaicml-streaming: every value, every way of packing; cut, hostile and missing shards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from foreign_samples import FOREIGN, plain
from sources import refusals, rows_at, shard

from unirecord.convert.sources import Options, open_source
from unirecord.errors import SchemaError

FOLDER = FOREIGN / "mds"


@pytest.mark.parametrize("packing", ["plain", "zstd", "gz", "br", "snappy"])
def test_every_value_equals_that_of_streaming(packing: str) -> None:
    source = open_source(str(FOLDER / packing))
    assert source.kind == "mds"
    rows = rows_at(FOLDER / packing)
    wanted = json.loads((FOLDER / "expected.json").read_text())
    assert source.rows == len(rows) == 12
    assert len({unit.place[0] for unit in source.units}) > 1
    for row, values in zip(rows, wanted, strict=True):
        assert {name.replace("[", "_").strip("]"): value for name, value in plain(row).items()} == values
    assert source.schema.to_spec()["grid"] == {"type": "float32", "shape": [2, 3]}
    assert source.schema.to_spec()["tokens"] == {"type": "int64", "shape": [-1]}
    assert source.schema["photo"].media_type == "image/jpeg"


def test_a_shard_alone_and_types_that_are_asked_for(tmp_path: Path) -> None:
    (first, *_) = sorted((FOLDER / "plain").glob("*.mds"))
    alone = rows_at(first, options=Options({"id": "int8", "shown": "bytes", "big": "string"}))
    assert [row["id"] for row in alone] == [(-1) ** i * 3**i for i in range(len(alone))]
    assert alone[1]["big"] == "7"
    assert alone[1]["shown"][12:15] == b"RGB"
    with pytest.raises(SchemaError, match=r"sample 1, column 'a': it is not UTF-8"):
        rows_at(shard(tmp_path / "x.mds", [b"a", b"\xff"]))


def test_a_list_of_pictures_that_is_written_as_bytes_is_said(tmp_path: Path) -> None:
    source = open_source(str(shard(tmp_path / "x.mds", [b"12"], column_encodings=["list[pil]"])))
    [said] = [str(one) for one in source.left_out]
    assert "field 'a'" in said
    assert "a list of pictures is written as the bytes that it is kept as" in said
    assert source.schema["a"].type == "bytes"


@pytest.mark.parametrize(
    ("cells", "header", "said"),
    [
        ([b"\0" * 8], {"column_encodings": ["int"], "column_sizes": [4]}, r"'a', int, is said to have 4 bytes"),
        ([b"abc"], {"column_encodings": ["evil"]}, "'evil', which is none of MDS's"),
        ([b"abc"], {"column_names": ["a", "a"]}, "do not fit together"),
        ([b"abc"], {"column_names": 3}, "does not list its columns"),
        ([b"\x08\x04"], {"column_encodings": ["ndarray"]}, "sample 0, column 'a': .*cut off in its shape"),
        ([b"\x08\x07" + b"\xff" * 8], {"column_encodings": ["ndarray"]}, "0 bytes are no uint8 array of the shape"),
        ([b"\xff"], {"column_encodings": ["ndarray"]}, "does not say its type"),
        ([b"\xff" * 3 + b"\x7f" + b"\xff" * 8], {"column_encodings": ["pil"]}, "picture of the mode"),
        ([b"\xff" * 4], {"column_encodings": ["jpeg_array"]}, "4,294,967,295 is said to be in 4 bytes"),
        ([b"{"], {"column_encodings": ["json"]}, "sample 0, column 'a'"),
        ([b"9" * 5000], {"column_encodings": ["str_int"]}, "sample 0, column 'a'"),
        ([], {}, "holds no samples"),
    ],
)  # fmt: skip
def test_hostile_shards_are_refused(tmp_path: Path, cells: list[bytes], header: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        rows_at(shard(tmp_path / "x.mds", cells, **header))
    assert "x.mds" in str(caught.value)


def test_a_damaged_shard_is_refused_by_name(tmp_path: Path) -> None:
    place = tmp_path / "x.mds"
    shutil.copy(sorted((FOLDER / "plain").glob("*.mds"))[0], place)
    assert refusals(place, "mds", cuts=20, flips=60) > 40


def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER / "plain", copy)
    index = json.loads((copy / "index.json").read_text())
    last = copy / index["shards"][-1]["raw_data"]["basename"]
    data = last.read_bytes()
    last.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(SchemaError, match=r"is damaged: its sha1 is not the one in index.json"):
        open_source(str(copy))
    last.unlink()
    with pytest.raises(SchemaError, match=f"{last} is missing, which index.json lists"):
        open_source(str(copy))
    for change, said in (
        ({"format": "json"}, "shard 0: format 'json' of version 2"),
        ({"samples": 3000}, "but its index says 3,000"),
        ({"raw_data": {"basename": "../x.mds"}}, "does not say which file"),
        ({"column_names": ["b"] * 18}, "do not fit together"),
    ):
        changed = {**index, "shards": [{**index["shards"][0], **change}]}
        (copy / "index.json").write_text(json.dumps(changed))
        with pytest.raises(SchemaError, match=said):
            open_source(str(copy))
    (copy / "index.json").write_text("[" * 99_999)
    with pytest.raises(SchemaError, match=r"index.json is not valid JSON"):
        open_source(str(copy))


def test_parts_of_a_split_and_shards_that_differ(tmp_path: Path) -> None:
    for name in ("train", "val"):
        shutil.copytree(FOLDER / "plain", tmp_path / "both" / name)
    with pytest.raises(
        SchemaError, match=r"unirecord write .*/train train` and `unirecord write .*/val val`"
    ):
        open_source(str(tmp_path / "both"))
    shard(tmp_path / "1.mds", [b"a"])
    shard(tmp_path / "2.mds", [b"a"], column_names=["b"])
    with pytest.raises(SchemaError, match=r"2.mds has the columns b \(str\), but .*1.mds has a \(str\)"):
        open_source(f"{tmp_path}/*.mds")


@pytest.mark.parametrize("outside", ["../x.mds", "/x.mds", "g/../../x.mds", "g//x.mds", "./x.mds", ""])
def test_an_index_that_was_merged_names_shards_in_folders_and_none_outside(
    tmp_path: Path, outside: str
) -> None:
    for folder in ("g0", "g1"):
        shutil.copytree(FOLDER / "plain", tmp_path / folder)
    shards = json.loads((FOLDER / "plain" / "index.json").read_text())["shards"]
    merged = [
        {**one, "raw_data": {**one["raw_data"], "basename": f"{folder}/{one['raw_data']['basename']}"}}
        for folder in ("g0", "g1")
        for one in shards
    ]
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": merged}))
    assert plain(rows_at(tmp_path)) == 2 * plain(rows_at(FOLDER / "plain"))
    merged[1]["raw_data"]["basename"] = outside
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": merged}))
    with pytest.raises(SchemaError, match="shard 1: it does not say which file"):
        open_source(str(tmp_path))
