"""TFRecord files: every value as TensorFlow reads it, checksums, compression, and bytes that are no message."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sources import DATA, refusals, rows_at

from unirecord import UniRecordDataset, write_dataset
from unirecord.convert.sources import Options, open_source, tfrecord
from unirecord.convert.sources.tfrecord import WireError, floats, integers, masked_crc32c, parse_example
from unirecord.errors import SchemaError

FOLDER = DATA / "tfrecord"


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked_crc32c(head)) + data + struct.pack("<I", masked_crc32c(data))


def feature(values: list[Any]) -> Any:
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**values: list[Any]) -> bytes:
    features = tf.train.Features(feature={name: feature(v) for name, v in values.items()})
    return tf.train.Example(features=features).SerializeToString()


def sequence(context: dict[str, list[Any]], lists: dict[str, list[list[Any]]]) -> bytes:
    found = tf.train.FeatureLists(
        feature_list={n: tf.train.FeatureList(feature=map(feature, steps)) for n, steps in lists.items()}
    )
    features = tf.train.Features(feature={name: feature(v) for name, v in context.items()})
    return tf.train.SequenceExample(context=features, feature_lists=found).SerializeToString()


def test_every_value_equals_that_of_tensorflow() -> None:
    rows = rows_at(FOLDER)
    wanted = []
    for path in sorted(FOLDER.iterdir()):
        packed = "GZIP" if path.read_bytes()[:2] == b"\x1f\x8b" else ""
        records = tf.data.TFRecordDataset(str(path), compression_type=packed)
        wanted += [tf.train.Example.FromString(data.numpy()) for data in records]
    assert len(rows) == len(wanted) == 300
    for row, message in zip(rows, wanted, strict=True):
        said = message.features.feature
        assert row["image/encoded"] == said["image/encoded"].bytes_list.value[0]
        assert row["image/filename"].encode() == said["image/filename"].bytes_list.value[0]
        assert row["image/class/label"] == said["image/class/label"].int64_list.value[0]
        assert row["pixels"] == list(said["pixels"].float_list.value)
        assert row["neg"] == list(said["neg"].int64_list.value)
        caption = list(said["caption"].bytes_list.value)
        assert (row["caption"] or "").encode() == (caption[0] if caption else b"")
        assert (row["caption"] is None) == (not caption)


@pytest.mark.parametrize("name", ["x.tfrecord.gz", "x.tfrecord", "data"])
def test_compressed_files_are_read_whatever_their_name(tmp_path: Path, name: str) -> None:
    whole = (FOLDER / "digits-00001-of-00003.tfrecord").read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(whole))
    assert rows_at(tmp_path / name, kind="tfrecord") == rows_at(FOLDER / "digits-00001-of-00003.tfrecord")


def test_a_first_length_that_looks_compressed_is_a_length(tmp_path: Path) -> None:
    data = b"x" * 0x8B1F  # as a length: the first bytes of gzip
    (tmp_path / "x.tfrecord").write_bytes(record(data) + record(b"y"))
    assert [row["record"] for row in rows_at(tmp_path / "x.tfrecord")] == [data, b"y"]


def test_names_of_shards_are_known_and_content_without_one(tmp_path: Path) -> None:
    for i in range(2):
        name = f"digits.tfrecord-0000{i}-of-00002"
        shutil.copy(FOLDER / f"digits-0000{i}-of-00003.tfrecord", tmp_path / name)
    assert len(rows_at(tmp_path)) == len(rows_at(FOLDER / "digits-0000[01]*"))
    (tmp_path / name).rename(tmp_path / "x")
    assert open_source(str(tmp_path / "x")).kind == "tfrecord"


numbers = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=40)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(numbers, st.lists(st.floats(width=32), max_size=4), st.binary(), st.text()), min_size=1
    )
)
def test_any_features_are_read(tmp_path: Path, rows: list[Any]) -> None:
    records = [example(i=i, f=f or [0.0], b=[b], s=[s.encode()]) for i, f, b, s in rows]
    (tmp_path / "x.tfrecord").write_bytes(b"".join(map(record, records)))
    asked = Options({"i": "int64[-1]", "f": "float32[-1]", "b": "bytes", "s": "text"})
    found = rows_at(tmp_path / "x.tfrecord", options=asked)
    wanted = [{"b": b, "f": [*(f or [0.0])], "i": i, "s": s} for i, f, b, s in rows]
    assert str(found) == str(wanted)


def test_types_follow_from_how_many_values_there_are(tmp_path: Path) -> None:
    first = example(one=[1], some=[1.0], pair=[1, 2], words=[b"a", b"b"], text=["é".encode()], raw=[b"\xff"])
    second = example(one=[2], some=[1.0, 2.0], pair=[3, 4], words=[], text=[b"x\ny"], raw=[b""])
    (tmp_path / "x.tfrecord").write_bytes(record(first) + record(second))
    source = open_source(str(tmp_path / "x.tfrecord"))
    assert source.schema.to_spec() == {
        "one": "int64", "pair": {"type": "int64", "shape": [2]}, "raw": "bytes",
        "some": {"type": "float32", "shape": [-1]}, "text": "string", "words": "object",
    }  # fmt: skip
    assert rows_at(source.path)[0]["words"] == [b"a", b"b"]
    (tmp_path / "y.tfrecord").write_bytes(
        record(example(a=[1], b=[])) + record(example(a=[], b=[])) + record(b"")
    )
    assert rows_at(tmp_path / "y.tfrecord")[1:] == [{"a": None, "b": None}, {"a": None, "b": None}]


def test_sequences_become_arrays_by_step(tmp_path: Path) -> None:
    records = [
        sequence(
            {"id": [i]}, {"t": [[j] for j in range(i)], "v": [[1.0, 2.0]] * i, "w": [[b"a"], [b"b", b"c"]]}
        )
        for i in range(3)
    ]
    (tmp_path / "x.tfrecord").write_bytes(b"".join(map(record, records)))
    source = open_source(str(tmp_path / "x.tfrecord"))
    assert source.schema.to_spec() == {
        "id": "int64", "t": {"type": "int64", "shape": [-1]}, "v": {"type": "float32", "shape": [-1, 2]}, "w": "object",
    }  # fmt: skip
    words = [[b"a"], [b"b", b"c"]]
    assert rows_at(source.path) == [
        {"id": i, "t": list(range(i)), "v": [[1.0, 2.0]] * i, "w": words} for i in range(3)
    ]


def test_records_of_another_kind_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(record(b"\xffabc") + record(b"\xff"))
    source = open_source(str(tmp_path / "x.tfrecord"))
    assert "no tf.train.Example, so they are written as they are" in source.notes[0]
    assert rows_at(source.path) == [{"record": b"\xffabc"}, {"record": b"\xff"}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no records"),
        (record(example(a=[1]))[:-1], r"x.tfrecord is cut off in record 0, by 1 byte"),
        (record(example(a=[1])) + b"abc", r"record 1: the file is cut off in its length"),
        (record(example(a=[1])) + bytes(12), r"record 1: its length is damaged"),
        (
            record(example(a=[1])) + record(example(a=[1.0])),
            r"record 1: the feature 'a' holds float32, but int64 in",
        ),
        (
            record(example(a=[1])) + record(b"\xff"),
            r"record 1 is no tf.train.Example, as those before it are",
        ),
    ],
)
def test_what_is_damaged_or_mixed_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.tfrecord").write_bytes(content)
    with pytest.raises(SchemaError, match=said):
        open_source(str(tmp_path / "x.tfrecord"), "tfrecord")


def test_records_of_two_kinds_are_kept_as_bytes_where_that_is_asked_for(tmp_path: Path) -> None:
    records = [example(a=[1]), b"\xff"]
    (tmp_path / "x.tfrecord").write_bytes(b"".join(map(record, records)))
    with pytest.raises(SchemaError, match="--schema record=bytes keeps all as they are"):
        write_dataset(tmp_path / "x.tfrecord", tmp_path / "out")
    assert write_dataset(tmp_path / "x.tfrecord", tmp_path / "out", schema={"record": "bytes"}) == 2
    assert [row["record"] for row in UniRecordDataset(tmp_path / "out")] == records


def test_a_late_record_that_does_not_fit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.convert.sources.tfrecord._SAMPLE_RECORDS", 1)
    for late, said in (
        ({"a": [1, 2]}, r"record 1, feature 'a': 2 values; --schema a=int64\[-1\] takes any number"),
        ({}, r"record 1, feature 'a': the feature is missing"),
        (
            {"a": [1], "b": [1]},
            r"record 1 has the feature 'b', which the records that were looked at have not",
        ),
    ):
        (tmp_path / "x.tfrecord").write_bytes(record(example(a=[1])) + record(example(**late)))
        source = open_source(str(tmp_path / "x.tfrecord"))
        assert "the types are those of 1 record;" in source.notes[-1]
        with pytest.raises(SchemaError, match=said):
            list(source.batches())
        (tmp_path / "x.tfrecord").write_bytes(
            record(example(a=[1])) + record(example(**late)) + record(example(a=[3]))
        )
        assert (
            write_dataset(tmp_path / "x.tfrecord", tmp_path / "out", on_error="report", overwrite=True) == 2
        )
        assert [row["a"] for row in UniRecordDataset(tmp_path / "out")] == [1, 3]
        (line,) = (tmp_path / "out.left-out.jsonl").read_text().splitlines()
        assert re.search(said, json.loads(line)["reason"])


def test_a_flipped_bit_is_found_by_its_record(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"".join(record(example(a=[i], b=[bytes(50)])) for i in range(40)))
    assert refusals(path, "tfrecord", cuts=30, flips=100) > 110


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_not(data: bytes) -> None:
    for read in (parse_example, integers, floats):
        with suppress(WireError):
            read(memoryview(data))


@given(numbers, st.booleans())
def test_packed_and_single_integers_are_the_same(values: list[int], packed: bool) -> None:
    message = tf.train.Int64List(value=values).SerializeToString()
    assert integers(memoryview(message)).tolist() == values
    single = b"".join(tf.train.Int64List(value=[v]).SerializeToString() for v in values)
    assert integers(memoryview(single)).tolist() == values
    assert np.array(values, np.int64).tolist() == values


def test_pieces_that_end_anywhere_hold_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [bytes([i]) * (i * 37 % 300) for i in range(1, 60)]
    (tmp_path / "x.tfrecord").write_bytes(b"".join(map(record, contents)))
    for size in (12, 100, 317):
        monkeypatch.setattr(tfrecord, "_PIECE_BYTES", size)
        assert [row["record"] for row in rows_at(tmp_path / "x.tfrecord")] == contents
