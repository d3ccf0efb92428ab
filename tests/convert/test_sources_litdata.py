"""LitData's chunks, made by litdata: every value; chunks that are compressed, damaged, hostile or missing."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import zstandard
from foreign_samples import FOREIGN, plain
from sources import rows_at

from unirecord import UniRecordDataset, write_dataset
from unirecord.convert.sources import Options, open_source
from unirecord.convert.sources.litdata import nested_value
from unirecord.errors import SchemaError

FOLDER = FOREIGN / "litdata"


@pytest.mark.parametrize("packing", ["plain", "zstd"])
def test_every_value_equals_that_of_litdata(packing: str) -> None:
    source = open_source(str(FOLDER / packing))
    assert (source.kind, source.rows, len(source.units)) == ("litdata", 12, 3)
    spec = source.schema.to_spec()
    assert (spec["id"], spec["odd"], spec["inner_b"]) == ("int64", "bool", "object")
    assert spec["line"] == {"type": "int32", "shape": [-1]}
    wanted = json.loads((FOLDER / "expected.json").read_text())
    for row, values in zip(rows_at(FOLDER / packing), wanted, strict=True):
        inner = values.pop("inner")
        assert plain(row) == {**values, "inner_a": inner["a"], "inner_b": inner["b"]}


def test_tuples_tokens_and_chunks_compressed_as_a_whole(tmp_path: Path) -> None:
    assert rows_at(FOLDER / "tuples") == [{"column_0": i, "column_1": f"x{i}"} for i in range(3)]
    assert rows_at(FOLDER / "tokens") == [{"value": list(range(i, i + 4))} for i in range(10)]
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER / "plain", copy)
    for file in copy.glob("*.bin"):
        file.write_bytes(zstandard.compress(file.read_bytes()))
    assert str(rows_at(copy)) == str(rows_at(FOLDER / "plain"))
    kept = rows_at(FOLDER / "plain", options=Options({"inner_b": "bytes", "shown": "bytes"}))
    assert (kept[1]["inner_b"], kept[1]["shown"][12:15]) == (b'\0\x09\0\0\0[0.5,"x"]', b"RGB")


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": [1]}', {"a": [1]}),
        (b"\0" + text('["é"]'), ["é"]),
        (b"\1" + struct.pack("<I", 2) + text("a") + text("é"), ["a", "é"]),
        (b"\2" + struct.pack("<I2q", 2, -1, 1 << 40), [-1, 1 << 40]),
        (b"\3" + struct.pack("<Id", 1, 0.1), [0.1]),
        (b"\4" + struct.pack("<I", 2) + b"\0\1", [False, True]),
        (b"\5" + struct.pack("<I", 2) + text("k") + b"\x0a\1" + text("l") + b"\x0b", {"k": True, "l": None}),
        (b"\6" + struct.pack("<2I", 2, 1) + text("k") + b"\x11" + text("v") + b"\x12" + b"\7" * 8,
         [{"k": "v"}, {"k": 0x0707070707070707}]),
        (b"\7" + text("x"), "x"),
        (b"\x09" + struct.pack("<d", 2.5), 2.5),
    ],
)  # fmt: skip
def test_nested_values_within_their_bytes(data: bytes, value: Any) -> None:
    assert nested_value(memoryview(data)) == value
    for end in range(1, len(data)):
        with pytest.raises(ValueError):  # noqa: PT011
            nested_value(memoryview(data[:end]))
    with pytest.raises(ValueError, match=r"left over|JSON|Extra data"):
        nested_value(memoryview(data + b"x"))


@pytest.mark.parametrize(
    "data", [b"\x15", b"\1\xff\xff\xff\xff", b"\6" + b"\xff" * 8, b"\5\1\0\0\0\0\0\0\0" * 99]
)
def test_hostile_nested_values_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"said|known|deep"):
        nested_value(memoryview(data))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encryption": {"algorithm": "fernet"}}, "is encrypted"),
        ({"item_loader": "ParquetLoader"}, "chunks of ParquetLoader"),
        ({"compression": "lzma"}, "compressed by lzma"),
        ({"data_format": []}, "does not say of what the items are made"),
        ({"data_format": ["int"]}, "item 0 is damaged: "),
        ({"data_format": ["float", *["bytes"] * 11], "data_spec": "[" * 9000}, None),
        (
            {"data_format": ["str", *["no_header_tensor:99"] * 11]},
            "item 0, column 'text': an array of type number 99",
        ),
        ({"data_format": ["bool", *["bytes"] * 11]}, "item 0, column 'id': 8 bytes are no bool"),
        ({"data_format": ["numpy", *["bytes"] * 11]}, "item 0, column 'id': "),
    ],
)
def test_an_index_that_does_not_fit_is_refused(tmp_path: Path, changes: Any, said: str | None) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER / "plain", copy)
    index = json.loads((copy / "index.json").read_text())
    (copy / "index.json").write_text(json.dumps({**index, "config": {**index["config"], **changes}}))
    if said is None:
        assert open_source(str(copy)).schema.names[:2] == ("column_0", "column_1")
        return
    with pytest.raises(SchemaError, match=said):
        rows_at(copy)


def test_chunks_that_are_missing_or_elsewhere_are_named(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER / "plain", copy)
    index = json.loads((copy / "index.json").read_text())
    for name, said in (
        ("../x.bin", "no file of the folder"),
        ("y.bin", r"y.bin is missing, which index.json lists"),
    ):
        (copy / "index.json").write_text(json.dumps({**index, "chunks": [{"filename": name}]}))
        with pytest.raises(SchemaError, match=said):
            open_source(str(copy))
    index["chunks"][0]["chunk_size"] = 4
    (copy / "index.json").write_text(json.dumps(index))
    with pytest.raises(SchemaError, match="holds 5 items, but its index says 4"):
        open_source(str(copy))


@pytest.mark.parametrize("packing", ["plain", "zstd"])
def test_a_damaged_chunk_is_refused_by_name(tmp_path: Path, packing: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER / packing, copy)
    chunk = copy / "chunk-0-1.bin"
    whole, refused = chunk.read_bytes(), 0
    for i in range(0, len(whole), max(1, len(whole) // 60)):
        for data in (whole[:i], whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :]):
            chunk.write_bytes(data)
            try:
                rows_at(copy)
            except SchemaError as error:
                assert "chunk-0-1.bin" in str(error)  # noqa: PT017
                refused += 1
    assert refused > 60


def test_a_column_that_nobody_wants_refuses_nothing(tmp_path: Path) -> None:
    """Nor one that is wanted as its bytes: what its type number says is not asked."""
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER / "plain", copy)
    index = json.loads((copy / "index.json").read_text())
    names = open_source(str(copy)).schema.names
    formats = index["config"]["data_format"]
    formats[1] = "no_header_tensor:99"
    (copy / "index.json").write_text(json.dumps(index))
    with pytest.raises(SchemaError, match="an array of type number 99"):
        rows_at(copy)
    assert write_dataset(copy, tmp_path / "a.urec", columns=[names[0]])
    assert write_dataset(copy, tmp_path / "b.urec", schema={names[1]: {"type": "bytes"}})
    assert UniRecordDataset(tmp_path / "b.urec").schema[names[1]].type == "bytes"
