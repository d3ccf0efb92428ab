"""What MindSpore's converters make (cases C1 to C6 of its tests): read as it reads it, and equal to what they read."""

from __future__ import annotations

import gzip
import io
import json
import struct
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pandas
import pytest
from mindrecord_samples import CONVERTED, SYNSETS, bmp, colours, digits, edges, write_sources
from mindrecord_samples import TYPES as NUMPY_TYPES
from PIL import Image
from sources import rows_at

from unirecord import UniRecordDataset, export, write_dataset
from unirecord.cli import main
from unirecord.convert.sources import open_source
from unirecord.errors import MissingError, SchemaError

EXPECTED = json.loads((CONVERTED / "expected.json").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the converters made, and in ``from`` what they made them of."""
    folder = tmp_path_factory.mktemp("converted")
    for packed in CONVERTED.glob("*.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    (folder / "from").mkdir()
    write_sources(folder / "from")
    return folder


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row as expected.json has it; MindSpore reads scalar floats that are whole numbers as int64."""
    hexadecimal = {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
    return {
        name: _whole(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in sorted(hexadecimal.items())
    }


def _whole(value: float) -> int:
    return int(value) if abs(value) < 1 << 63 else -(1 << 63)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_file_is_read_as_mindspore_reads_it(made: Path, name: str) -> None:
    found, wanted = [shown(row) for row in rows_at(made / name)], [shown(row) for row in EXPECTED[name]]
    assert sorted(map(str, found)) == sorted(map(str, wanted))  # of several files it reads another one first
    if not name.endswith("0"):
        assert found == wanted


def test_c1_csv(made: Path, tmp_path: Path) -> None:
    frame = pandas.read_csv(made / "from" / "sold.csv")
    for path, names in (("csv.mindrecord", list(frame)), ("csv-columns.mindrecord", ["name", "id"])):
        found = rows_at(made / path)
        assert {name: [row[name] for row in found] for name in names} == frame[names].to_dict("list")
        assert set(found[0]) == set(names)
    assert sorted(r["id"] for r in rows_at(made / "csv4.mindrecord0")) == sorted(frame["id"])
    assert write_dataset(made / "from" / "sold.csv", tmp_path / "d") == len(frame)
    with UniRecordDataset(tmp_path / "d") as ds:
        pandas.testing.assert_frame_equal(ds.to_pandas(), frame, check_dtype=False)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"columns": ["nam"]}, SchemaError, r"columns: .*'nam'"),
        ({"columns": "name"}, TypeError, "columns is a list of names"),
        ({"columns": []}, ValueError, "columns names none"),
        ({"workers": 0}, ValueError, "workers is a number of processes, 1 or more"),
        ({"workers": None}, ValueError, "workers is a number of processes, 1 or more"),
    ],
)
def test_c1_c3_what_a_converter_refuses_is_refused(
    made: Path, tmp_path: Path, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    for source in ("sold.csv", "imagenet"):
        with pytest.raises(error, match=said):
            write_dataset(made / "from" / source, tmp_path / "d", **options)
    assert not list(tmp_path.iterdir())


def test_c1_a_header_of_numbers_and_a_bad_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    with pytest.raises(SchemaError, match="first line"):
        open_source(str(tmp_path / "x.csv"))
    (tmp_path / "x.csv").write_text("a\n3\n")
    for name in ("", "no/such/d", "x.csv"):
        with pytest.raises((ValueError, OSError, MissingError)):
            write_dataset(tmp_path / "x.csv", tmp_path / name if name else name)


def test_c2_mnist(made: Path) -> None:
    for part, name in (("train", "train"), ("t10k", "test")):
        pixels, labels = digits(part)
        found = rows_at(made / f"mnist_{name}.mindrecord")
        assert [row["label"] for row in found] == labels.tolist()
        for row, wanted in zip(found, pixels, strict=True):
            decoded = np.asarray(Image.open(io.BytesIO(row["data"])).convert("L"), np.int64)
            assert np.abs(decoded - wanted).max() <= 1  # it keeps them as JPEG
        direct = rows_at(made / "from" / "mnist" / f"{part}-*")
        assert [(row["image"], row["label"]) for row in direct] == list(
            zip(pixels.tolist(), labels.tolist(), strict=True)
        )
        parts = rows_at(made / f"mnist2_{name}.mindrecord0")
        assert sorted(map(str, parts)) == sorted(map(str, found))


def test_c3_imagenet(made: Path) -> None:
    found = {row["file_name"].removeprefix("imagenet/"): row for row in rows_at(made / "imagenet.mindrecord")}
    assert len(found) == 6
    for row in rows_at(made / "from" / "imagenet"):
        theirs = found[row["path"]]
        assert (theirs["image"], theirs["label"]) == (row["image"], row["label"])
        assert row["label"] == SYNSETS[row["class"]]
        assert row["image"] == bmp(row["label"] * 50 + int(row["path"][-5]))


@pytest.mark.parametrize("name", ["cifar10.mindrecord", "cifar10-index.mindrecord", "cifar100.mindrecord"])
def test_c4_cifar_with_and_without_index_fields(made: Path, name: str) -> None:
    hundred = name == "cifar100.mindrecord"
    folder = made / "from" / ("cifar100" if hundred else "cifar10")
    for end, file in (
        ("", "train" if hundred else "data_batch_1"),
        ("_test", "test" if hundred else "test_batch"),
    ):
        source = open_source(str(made / f"{name}{end}"))
        everything = {"id", "label", "coarse_label", "fine_label"} & set(source.schema.names)
        assert set(source.indexed) == {
            "cifar10.mindrecord": everything,
            "cifar10-index.mindrecord": {"label"},
        }.get(name, everything - {"id"})
        found = rows_at(made / f"{name}{end}")
        pixels, labels = colours("test" if end else "train")
        direct = rows_at(folder / file, kind="cifar")
        assert (
            [row["label"] for row in direct]
            == labels
            == [row["fine_label" if hundred else "label"] for row in found]
        )
        assert [row["image"] for row in direct] == pixels.reshape(-1, 3, 32, 32).transpose(
            0, 2, 3, 1
        ).tolist()
        if hundred:
            assert [row["coarse_label"] for row in direct] == [row["coarse_label"] for row in found]
        for row, wanted in zip(found, pixels, strict=True):
            decoded = np.asarray(Image.open(io.BytesIO(row["data"])).convert("L"), np.int64)
            assert np.abs(decoded - wanted[0]).max() <= 1


def test_c5_tfrecord(made: Path) -> None:
    found, direct = rows_at(made / "tfrecord.mindrecord"), rows_at(made / "x.tfrecord")
    assert [set(row) for row in direct] == [{"file/name", "image", "one", "real", "list", "reals"}] * 6
    for row in direct:
        row["file_name"] = row.pop("file/name")
    assert found == [{name: row[name] for name in found[0]} for row in direct]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"list": "int64"}, "record 0, feature 'list': 3 values"),
        ({"one": "string"}, "row 0, column 'one': expected"),
        ({"one": {"type": "float32", "shape": [2]}}, "row 0, column 'one': expected"),
        ({"reals": {"type": "float32", "shape": [3]}}, "row 0, column 'reals': expected"),
        ({"image": "string"}, "record 0, feature 'image': bytes that are not UTF-8"),
    ],
)
def test_c5_a_type_that_the_records_have_not_is_refused(
    made: Path, tmp_path: Path, schema: dict[str, Any], said: str
) -> None:
    with pytest.raises(SchemaError, match=said):
        write_dataset(made / "x.tfrecord", tmp_path / "d", schema=schema)
    assert not (tmp_path / "d").exists()


def test_c6_save_casts_numbers_and_keeps_every_value(made: Path) -> None:
    source = open_source(str(made / "saved.mindrecord"))
    found = rows_at(made / "saved.mindrecord")
    small = {"bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32"}
    cast = {**small, "uint32": "int64", "uint64": "int64", "float16": "float32"}
    for name in NUMPY_TYPES:
        for kind, value in zip("sa", edges(name), strict=True):
            column = source.schema[f"{name}_{kind}"]
            assert column.type == cast.get(name, name)
            assert [row[column.name] for row in found] == value.astype(column.type).tolist()
    assert [row["text"] for row in found] == ["", "é"]


def test_c6_a_dataset_goes_to_mindrecord_and_back(made: Path, tmp_path: Path) -> None:
    assert main(["write", str(made / "saved.mindrecord"), str(tmp_path / "a")]) == 0
    export(tmp_path / "a", tmp_path / "b", to="mindrecord")
    assert rows_at(tmp_path / "b") == rows_at(made / "saved.mindrecord")


def test_a_file_without_rows_is_an_empty_dataset(made: Path, tmp_path: Path) -> None:
    assert main(["write", str(made / "empty.mindrecord"), str(tmp_path / "d")]) == 0
    with UniRecordDataset(tmp_path / "d") as ds:
        assert len(ds) == 0
        assert {column.name: str(column) for column in ds.schema} == {"a": "int32", "b": "bytes"}


def test_an_encrypted_file_is_refused_as_such(made: Path) -> None:
    with pytest.raises(SchemaError, match=r"encrypted\.mindrecord is encrypted, by set_enc_key"):
        open_source(str(made / "encrypted.mindrecord"))


def test_a_file_of_version_2_keeps_integers_as_they_are(tmp_path: Path) -> None:
    """Constructed by the format's description, as no MindSpore that can be had still writes it: no sizes of compressed
    pages, no index fields, no statistics, integers of arrays as they are, and no index file beside it."""
    rows = [
        {"label": i, "name": f"{i}", "x": np.array([[i, -1], [1 << 30, -(1 << 31)]], np.int32)}
        for i in range(5)
    ]
    scalars = [msgpack.packb({"label": row["label"], "name": row["name"]}) for row in rows]
    raw = b"".join(struct.pack("<Q", len(one)) + one for one in scalars)
    blobs = b"".join(struct.pack("<Q", 16) + row["x"].tobytes() for row in rows)
    page = {"shard_id": 0, "page_type_id": 0}
    group = {"id": 0, "offset": 0}
    head = {
        "header_size": 1 << 14, "page_size": 1 << 15, "version": "2.0", "shard_id": 0, "index_fields": None,
        "statistics": None, "shard_addresses": ["old.mindrecord"],
        "page": [
            {**page, "page_id": 0, "page_type": "RAW_DATA", "start_row_id": 0, "end_row_id": 0, "page_size": len(raw),
             "row_group_ids": [group]},
            {**page, "page_id": 1, "page_type": "BLOB_DATA", "start_row_id": 0, "end_row_id": 5,
             "page_size": len(blobs), "row_group_ids": []},
        ],
        "schema": [{"desc": "", "blob_fields": ["x"], "schema": {
            "label": {"type": "int64"}, "name": {"type": "string"}, "x": {"type": "int32", "shape": [-1, 2]},
        }}],
    }  # fmt: skip
    text = json.dumps(head).encode()
    whole = (struct.pack("<Q", len(text)) + text).ljust(1 << 14, b"\0") + raw.ljust(1 << 15, b"\0") + blobs
    (tmp_path / "old.mindrecord").write_bytes(whole)
    assert rows_at(tmp_path / "old.mindrecord") == [{**row, "x": row["x"].tolist()} for row in rows]
