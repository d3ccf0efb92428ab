"""Annotations: what is said of a column beside its type is kept and shown, and changes nothing that is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from partgen import MadePart, write
from partgen_bytes import Col, Spec
from reference import read_part
from reference_directory import read_directory

import unirecord
from unirecord import FormatError, SchemaError, UniRecordDataset, Writer
from unirecord.cli.main import main
from unirecord.format.schema import Schema

SAID = {
    "image": {"color_space": "srgb", "description": "by hand"},
    "label": {"words": ["cat", "dög", 'a "quoted" \\ one'], "weights": [0.5, 1, None, True, -(1 << 63)]},
}
SCHEMA = {
    "image": {"type": "bytes?", "annotations": SAID["image"]},
    "label": {"type": "int32", "annotations": SAID["label"]},
    "when": {"type": "int64", "annotations": {}},
    "boxes": {"type": "float32", "shape": [-1, 4]},
}
ROW = {"image": b"x", "label": 1, "when": 3, "boxes": np.zeros((1, 4), np.float32)}


def write_one(path: Path, schema: Any = SCHEMA, **row: Any) -> Path:
    with Writer(path, schema) as writer:
        writer.write(row or ROW)
    return path


def annotations(path: Path) -> dict[str, Any]:
    return {column.name: column.annotations for column in UniRecordDataset(path).schema if column.annotations}


@pytest.mark.parametrize("name", ["a.urec", "set"])
def test_annotations_come_back_as_they_were_given(tmp_path: Path, name: str) -> None:
    path = write_one(tmp_path / name)
    assert annotations(path) == SAID
    ds = UniRecordDataset(path)
    assert ds[0]["label"] == 1
    assert ds.schema.to_spec()["image"] == SCHEMA["image"]
    assert Schema.parse(ds.schema.to_spec()).says_the_same_as(ds.schema)
    ds.schema["image"].annotations["color_space"] = "other"  # a dict of the caller's own
    assert ds.schema["image"].annotations == SAID["image"]
    assert unirecord.verify(path).ok
    part = read_part(path) if name == "a.urec" else read_directory(path)[0]
    assert msgpack.unpackb(part.head.metadata)["schema"][0][3] == SAID["image"]


def test_none_are_stored_where_there_are_none(tmp_path: Path) -> None:
    path = write_one(tmp_path / "a.urec")
    stored = msgpack.unpackb(read_part(path).head.metadata)["schema"]
    assert [len(entry) for entry in stored] == [4, 4, 3, 3]


def test_columns_are_equal_whatever_is_said_of_them() -> None:
    plain = Schema.parse({"image": "bytes?", "label": "int32", "when": "int64", "boxes": "float32[-1, 4]"})
    assert plain == Schema.parse(SCHEMA)
    assert not plain.says_the_same_as(Schema.parse(SCHEMA))
    assert plain.with_annotations_of(Schema.parse(SCHEMA)).says_the_same_as(Schema.parse(SCHEMA))
    wider = Schema.parse({**SCHEMA, "label": {"type": "int64", "annotations": SAID["label"]}})
    assert not wider.says_the_same_as(Schema.parse(SCHEMA))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("srgb", "annotations are a dict"),
        ({"a": b"x"}, "annotations.a: bytes is not supported"),
        ({"a": [1, {"b": float("nan")}]}, r"annotations.a\[1\].b: nan is no number"),
        ({"a": 1 << 64}, "does not fit 64 bits"),
        ({3: "x"}, "a key is a str, got 3"),
        ({"a": "\ud800"}, "lone surrogate"),
        ({"a": np.int64(3)}, "int64 is not supported"),
        (json.loads("[" * 16 + "]" * 16), "annotations are a dict"),
        ({"a": json.loads("[" * 16 + "]" * 16)}, "nested more than 16 deep"),
    ],
)
def test_what_cannot_be_kept_is_refused(given: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'x'.*{said}"):
        Schema.parse({"x": {"type": "int8", "annotations": given}})


@pytest.mark.parametrize(
    "entry",
    [
        ["x", "int8", None, 3],
        ["x", "int8", None, {"a": b""}],
        ["x", "int8", None, [1]],
        ["x", "int8", None, {"b": 1, "a": 1}],
        ["x", "int8", None, {"a": [{"b": {"\U0001f600": 1, "\uffff": 1}}]}],
    ],
)
def test_stored_annotations_that_are_none_are_refused(entry: list[Any]) -> None:
    with pytest.raises(FormatError, match="the stored schema's column 'x'"):
        Schema.from_wire([entry])


@pytest.mark.parametrize("more", [[], [{"a": 1}, "of a later version"]])
def test_an_entry_of_a_schema_has_three_elements_or_four(more: list[Any]) -> None:
    with pytest.raises(FormatError, match="the stored schema's column 0"):
        Schema.from_wire([["x", "int8", *([None] if more else []), *more]])


def test_appended_parts_keep_what_the_dataset_says(tmp_path: Path) -> None:
    path = write_one(tmp_path / "set")
    for schema in (None, {c.name: str(c) for c in Schema.parse(SCHEMA)}, SCHEMA):
        with unirecord.append(path, schema) as writer:
            writer.write(ROW)
    assert annotations(path) == SAID
    assert all(annotations(part) == SAID for part in path.glob("*.urec"))
    with pytest.raises(SchemaError, match=r"annotations of column 'image' are .* leave annotations out"):
        unirecord.append(path, {**SCHEMA, "image": {"type": "bytes?", "annotations": {"a": 1}}})
    assert len(UniRecordDataset(path)) == 4


FLOATS = {"0.5": 0.5, "1.0": 1.0, "-0.0": -0.0, "12345678.9": 12345678.9, "0.0001": 1e-4, "1e-05": 1e-5,
          "1.5e-05": 1.5e-5, "1e+16": 1e16, "1000000000000000.0": 1e15, "5e-324": 5e-324}  # fmt: skip


def test_floats_of_a_manifest_are_written_as_the_page_says(tmp_path: Path) -> None:
    path = write_one(
        tmp_path / "set", {"x": {"type": "int8", "annotations": {"f": list(FLOATS.values())}}}, x=1
    )
    text = (path / "manifest.json").read_text()
    assert f'{{"f":[{",".join(FLOATS)}]}}' in text
    assert list(map(repr, annotations(path)["x"]["f"])) == list(map(repr, FLOATS.values()))


def test_repair_keeps_annotations(tmp_path: Path) -> None:
    path = write_one(tmp_path / "set")
    (path / "manifest.json").unlink()
    for index in path.glob("*.idx"):
        index.unlink()
    assert unirecord.repair(path).ok
    assert annotations(path) == SAID
    part = write_one(tmp_path / "a.urec")
    part.write_bytes(part.read_bytes()[:-64])
    unirecord.repair(part, output=tmp_path / "b.urec")
    assert annotations(tmp_path / "b.urec") == SAID


def test_parts_and_directories_that_are_read_together_may_say_different_things(tmp_path: Path) -> None:
    plain = {c.name: str(c) for c in Schema.parse(SCHEMA)}
    paths = [
        write_one(tmp_path / "a.urec"),
        write_one(tmp_path / "b", plain),
        write_one(tmp_path / "c", SCHEMA),
    ]
    ds = UniRecordDataset(paths)
    assert [int(sample["label"]) for sample in ds] == [1, 1, 1]
    assert ds.schema["image"].annotations == SAID["image"]  # those of the first


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ({"unit": "px"}, {"unit": "picture"}, "unit"),
        ({"unit": "px", "origin": 0}, {"unit": "px", "origin": 1}, "origin"),
        ({"scale_factor": 0.1}, {"scale_factor": 0.2}, "scale_factor"),
        ({"unit": "px", "description": "by hand"}, {"unit": "px", "description": "by machine"}, None),
        ({"unit": "px"}, {}, None),
        # Keys that logical types have taken the place of mean nothing.
        ({"classes": ["a", "b"], "box_format": "xywh"}, {"classes": ["b", "a"], "box_format": "xyxy"}, None),
    ],
)
def test_values_that_mean_other_things_are_not_put_together(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], key: str | None
) -> None:
    for name, said in (("a", one), ("b", other)):
        boxes = {"type": "int32", "shape": [-1, 4], "annotations": said}
        write_one(tmp_path / name, {"n": "int8", "boxes": boxes}, n=1, boxes=np.zeros((1, 4), np.int32))
    paths = [tmp_path / "a", tmp_path / "b"]
    datasets = {path.name: UniRecordDataset(path) for path in paths}
    ways = {"mix": lambda: unirecord.mix(datasets), "list": lambda: UniRecordDataset(paths)}
    for way in ways.values():
        if key is None:
            assert len(list(way())) == 2
            continue
        with pytest.raises(SchemaError, match=f"'boxes' means another thing in .*: its annotation {key} is"):
            way()
    with pytest.raises(SchemaError, match="annotations of column 'boxes'") as refused:
        unirecord.merge(paths, tmp_path / "c")
    assert ("open both as a list of paths" in str(refused.value)) == (key is None)
    # Both ways that the error of `mix` names:
    views = {name: ds.view(columns=["n"]) for name, ds in datasets.items()}
    assert len(list(unirecord.mix(views))) == 2
    form = {"boxes": {"type": "int32", "shape": [-1, 4], "annotations": one}}
    unirecord.add_columns(tmp_path / "b", form, lambda batch: {"boxes": batch["boxes"]}, replace=True)
    again = {name: UniRecordDataset(tmp_path / name) for name in datasets}
    assert len(list(unirecord.mix(again))) == len(list(UniRecordDataset(paths))) == 2


def test_a_part_of_a_directory_that_says_something_else_is_not_the_dataset_s(tmp_path: Path) -> None:
    path = write_one(tmp_path / "set")
    (part,) = path.glob("*.urec")
    made = read_part(part)
    other = write_one(tmp_path / "other.urec", {c.name: str(c) for c in made.schema and Schema.parse(SCHEMA)})
    for suffix in ("", ".idx"):
        (path / f"{part.name}{suffix}").write_bytes(Path(f"{other}{suffix}").read_bytes())
    assert not unirecord.verify(path).ok


def test_inspect_shows_annotations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_one(tmp_path / "a.urec")
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "image: color_space srgb" in shown
    assert 'label: words ["cat"' in shown
    assert main(["inspect", str(path), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["columns"][0]["annotations"] == SAID["image"]


def logical_types(path: Path) -> dict[str, Any]:
    return {column.name: column.logical for column in UniRecordDataset(path).schema if column.logical}


def test_a_folder_of_pictures_says_what_it_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    for place in ("cat/1.jpg", "dog/2.jpeg"):
        (tmp_path / "in" / place).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "in" / place)
    assert main(["write", str(tmp_path / "in"), str(tmp_path / "out")]) == 0
    classes = {"type": "class", "names": ["cat", "dog"]}
    said = {"image": {"type": "media", "media": "image/jpeg"}, "label": classes}
    assert logical_types(tmp_path / "out") == said
    Image.new("RGB", (4, 4)).save(tmp_path / "in/cat/3.png")
    assert main(["write", str(tmp_path / "in"), str(tmp_path / "mixed")]) == 0
    assert logical_types(tmp_path / "mixed")["image"] == {"type": "media", "media": "image/*"}
    capsys.readouterr()
    assert main(["write", str(tmp_path / "in"), str(tmp_path / "out"), "--append"]) == 0
    assert "column 'image' is said to hold image/jpeg there; this is image/*" in capsys.readouterr().out
    assert logical_types(tmp_path / "out") == said


class Torchvision:
    """A dataset as torchvision has them: pairs, and the names of the classes."""

    classes = ("cat", "dog")

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> tuple[Any, int]:
        if i >= 4:
            raise IndexError
        return np.zeros((2, 2), np.uint8), i % 2


def test_the_classes_of_a_torchvision_dataset_are_said_of_its_labels(tmp_path: Path) -> None:
    unirecord.write_dataset(Torchvision(), tmp_path / "set", names=["image", "target"])
    assert logical_types(tmp_path / "set") == {"target": {"type": "class", "names": ["cat", "dog"]}}


def test_more_than_fifteen_keys_of_a_later_version_are_ignored_in_parts_of_a_directory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "set" / "part-000000-6b6b6b6b.urec"
    path.parent.mkdir()
    spec = Spec(b"k" * 16, [Col("x", "int32")], group_rows=4, groups=[1])
    spec.unknown = {f"key {n}": n for n in range(40)}
    write(MadePart(path, spec, [[(7).to_bytes(4, "little")]]))
    assert unirecord.repair(path.parent).ok  # makes the manifest
    assert UniRecordDataset(path.parent)[0]["x"] == 7
