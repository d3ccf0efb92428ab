"""Pascal VOC and YOLO folders: every value; files that are missing, damaged or hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from image_folders import folder, picture
from sources import VOC, YOLO, rows_at, xml

import unirecord
from unirecord import UniRecordDataset, write_dataset
from unirecord.convert.sources import Options, WrongSourceError, open_source
from unirecord.convert.sources.source import said_of_left_out
from unirecord.errors import SchemaError

ENTITIES = '<!DOCTYPE a [<!ENTITY b "c">]><annotation>&b;</annotation>'


def test_what_only_looks_like_a_document_type_is_read(tmp_path: Path) -> None:
    text = xml(("dog", [1, 2, 3, 4], 0)).replace(b"<!-- a note -->", b"<!-- <!DOCTYPE a> --><!---->")
    text = text.replace(b"<name>dog</name>", b"<name><![CDATA[d<!og]]></name>")
    folder(tmp_path / "voc", {**VOC, "Annotations/1.xml": text})
    assert open_source(str(tmp_path / "voc")).metadata == {"classes": ["d<!og", "person"]}


def test_every_value_of_voc(tmp_path: Path) -> None:
    folder(tmp_path / "VOC2012", VOC)
    source = open_source(str(tmp_path / "VOC2012"))
    assert source.kind == "voc"
    assert source.metadata == {"classes": ["cat", "dog", "person"]}
    assert source.schema["labels"].classes == tuple(source.metadata["classes"])
    assert sorted((one.name, one.expected) for one in source.left_out) == [
        ("Annotations/77.xml", False), ("JPEGImages/99.png", True),
    ]  # fmt: skip
    first, second, third = rows_at(tmp_path / "VOC2012")
    assert first == {
        "image": VOC["JPEGImages/1.png"], "path": "JPEGImages/1.png", "split": "train", "width": 4, "height": 3,
        "boxes": [[1, 2, 3, 4], [1, 1, 2.5, 2]], "labels": [1, 0], "difficult": [False, True],
        "truncated": [True, True], "pose": ["Left", "Left"],
    }  # fmt: skip
    assert (second["split"], second["labels"], second["width"]) == ("val", [2], 5)
    assert (third["path"], third["boxes"], third["labels"]) == ("JPEGImages/10.png", [], [])


def test_what_else_voc_says_of_objects_and_its_segments_are_columns(tmp_path: Path) -> None:
    more = b"<occluded>1</occluded><part><name>head</name></part><pose>Left</pose>"
    first = VOC["Annotations/1.xml"].replace(b"<pose>Left</pose>", more, 1)
    masks = {"SegmentationClass/1.png": picture(4, 3), "SegmentationObject/2.png": picture(5, 6)}
    path = folder(tmp_path / "voc", {**VOC, **masks, "Annotations/1.xml": first})
    source = open_source(path)
    rows = {row["path"]: row for row in rows_at(path)}
    assert rows["JPEGImages/1.png"]["occluded"] == ["1", None]
    assert rows["JPEGImages/1.png"]["pose"] == ["Left", "Left"]
    assert rows["JPEGImages/1.png"]["segmentation_class"] == masks["SegmentationClass/1.png"]
    assert rows["JPEGImages/1.png"]["segmentation_object"] is None
    assert rows["JPEGImages/2.png"]["segmentation_object"] == masks["SegmentationObject/2.png"]
    assert "'part' of objects: left out: it holds elements of its own" in said_of_left_out(source.left_out)
    with pytest.raises(
        SchemaError, match="segmentation_class, segmentation_object tell places in the pixels"
    ):
        unirecord.write_dataset(
            path, tmp_path / "small", resize=2, columns=["image", "segmentation_class", "segmentation_object"]
        )


@pytest.mark.parametrize("above", ["", "train/", "x/"])
def test_masks_beside_pictures_are_no_class(tmp_path: Path, above: str) -> None:
    files = {
        f"{above}images/{name}": picture(1 + i, 2) for i, name in enumerate(("a.jpg", "b.png", "sub/c.png"))
    }
    masks = {f"{above}masks/{name}": picture(1 + i, 2) for i, name in enumerate(("a.png", "sub/c.png"))}
    stray = {f"{above}masks/d.png": picture(1, 1), f"{above}images/notes.txt": b"x"}
    source = open_source(folder(tmp_path / "p", {**files, **masks, **stray}))
    assert source.kind == "masks"
    rows = rows_at(source.path)
    assert [row["mask"] for row in rows] == [
        masks[f"{above}masks/a.png"],
        None,
        masks[f"{above}masks/sub/c.png"],
    ]
    assert [row["image"] for row in rows] == list(files.values())
    assert {row.get("split") for row in rows} == ({None, "sub"} if not above else {above[:-1], "sub"})
    assert sorted((one.name, one.expected) for one in source.left_out) == [
        (f"{above}images/notes.txt", True), (f"{above}masks/d.png", False),
    ]  # fmt: skip
    assert "1 picture has no mask: null" in source.notes
    unirelated = folder(tmp_path / "q", {"images/a.png": picture(1, 1), "masks/b.png": picture(1, 1)})
    with pytest.raises(
        SchemaError, match="no picture has a mask of its name: --from images takes the folders"
    ):
        open_source(unirelated)
    assert open_source(unirelated, "images").metadata == {"classes": ["images", "masks"]}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("Annotations/2.xml", b"<annotation>", "Annotations/2.xml is not valid XML"),
        ("Annotations/2.xml", ENTITIES.encode(), "2.xml is not valid XML: it declares a document type"),
        ("Annotations/2.xml", ENTITIES.encode("utf-16"), "2.xml is not valid XML: it declares a document type"),
        ("Annotations/2.xml", b'<!DOCTYPE a SYSTEM "/etc/passwd"><a/>', "it declares a document type"),
        ("Annotations/2.xml", xml(("dog", ["x", 1, 1, 1], 0)), "2.xml, object 0: could not convert"),  # type: ignore[list-item]
        ("Annotations/2.xml", b"<a><object><name>x</name></object></a>", "2.xml, object 0: it has no bndbox"),
        ("ImageSets/Main/val.txt", b"1\n", "'1' is in train.txt and val.txt"),
    ],
)  # fmt: skip
def test_damaged_annotations_are_named(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    folder(tmp_path / "voc", {**VOC, name: data})
    with pytest.raises(SchemaError, match=said):
        rows_at(tmp_path / "voc")


@pytest.mark.parametrize(
    ("images", "annotations", "categories", "said"),
    [
        ([{"id": 10**30}], [], [], "10000"),
        ([{"id": 1}], [], [{"id": "x", "name": "a"}], '"categories", number 0, has an id that is no number'),
        ([{"id": 1}], [], [{"id": "\u00b2", "name": "a"}], '"categories", number 0, has an id that is no number'),
        ([{"id": 1}], [{"image_id": [1]}], [], "\"annotations\", number 0, has no 'image_id'"),
        ([{"id": 1}], [{"image_id": 1, "category_id": [1]}], [{"id": 1, "name": "a"}], "annotations of picture 1"),
        ([{"id": 1}], [{"image_id": 1, "bbox": [10**400, 2, 3, 4]}], [], "annotations of picture 1"),
        ([{"id": 1}], [{"image_id": 1, "bbox": [1, 2]}], [], "annotations of picture 1"),
        ([{"id": 1}], [{"image_id": 1, "area": {}}], [], "annotations of picture 1"),
        ([{"id": 1}, {"id": 2, "file_name": "\ud800.png"}], [], [], "no file can be called so"),
        ([{"id": 1}, {"id": 2, "file_name": "x" * 5000}], [], [], "File name too long"),
    ],
)  # fmt: skip
def test_what_coco_may_say_is_refused_by_our_errors(
    tmp_path: Path, images: list[dict[str, Any]], annotations: Any, categories: Any, said: str
) -> None:
    folder(tmp_path / "coco", {"1.png": picture(4, 3)})
    content = {"images": [{"file_name": "1.png", **image} for image in images], "annotations": annotations}
    (tmp_path / "coco" / "i.json").write_text(json.dumps({**content, "categories": categories}))
    with pytest.raises(SchemaError) as caught:
        write_dataset(tmp_path / "coco" / "i.json", tmp_path / "out.urec", kind="coco", on_error="raise")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "!!timestamp foo",
        "!!bool foo",
        "!!int x",
        "!!binary \u00e9",
        "!!python/name:os.system",
        "&a [*a",
        "? [",
    ],
)
def test_yaml_that_does_not_fit_its_tags_is_refused_by_name(tmp_path: Path, value: str) -> None:
    folder(tmp_path / "yolo", {**YOLO, "data.yaml": f"names: [cat, dog]\nx: {value}\n".encode()})
    with pytest.raises(SchemaError, match=r"yolo/data.yaml cannot be read"):
        open_source(str(tmp_path / "yolo"))


def test_every_value_of_yolo(tmp_path: Path) -> None:
    folder(tmp_path / "yolo", YOLO)
    source = open_source(str(tmp_path / "yolo"))
    assert source.kind == "yolo"
    assert source.metadata == {"classes": ["cat", "dog"]}
    rows = rows_at(tmp_path / "yolo")
    assert rows[0] == {
        "image": YOLO["images/train/1.png"], "path": "images/train/1.png", "split": "train", "width": 4, "height": 3,
        "boxes": [[0.5, 0.5, 0.25, 1], [0.1, 0.2, 0.3, 0.4]], "labels": [1, 0],
    }  # fmt: skip
    assert [(row["path"], row["split"], row["boxes"]) for row in rows[1:]] == [
        ("images/train/2.png", "train", []), ("images/val/1.png", "val", []),
    ]  # fmt: skip


def test_boxes_are_not_left_wrong_by_changes_of_the_pictures(tmp_path: Path) -> None:
    folder(tmp_path / "voc", VOC)
    folder(tmp_path / "yolo", YOLO)
    for kind, change in (("voc", {"resize": 2}), ("voc", {"reencode": "raw"}), ("yolo", {"reencode": "raw"})):
        with pytest.raises(WrongSourceError, match="boxes"):
            write_dataset(tmp_path / kind, tmp_path / "out", **change)
    assert write_dataset(tmp_path / "yolo", tmp_path / "out", resize=2) == 3
    assert UniRecordDataset(tmp_path / "out")[0]["boxes"].tolist() == [
        [0.5, 0.5, 0.25, 1],
        [0.1, 0.2, 0.3, 0.4],
    ]


def test_other_layouts_outlines_and_lists_of_names(tmp_path: Path) -> None:
    files = {
        "train/images/1.png": picture(1, 1), "train/labels/1.txt": b"2 0 0 1 0 1 1",
        "valid/images/a.b.png": picture(1, 1),
        "valid/labels/a.b.txt": b"0 .5 .5 1 1", "valid/labels/lost.txt": b"", "classes.txt": b"a\nb\nc\n",
    }  # fmt: skip
    folder(tmp_path / "y", files)
    source = open_source(str(tmp_path / "y"))
    assert [one.name for one in source.left_out] == ["valid/labels/lost.txt"]
    rows = rows_at(tmp_path / "y")
    assert [(row["split"], row["labels"], row["shapes"]) for row in rows] == [
        ("train", [2], [[0, 0, 1, 0, 1, 1]]), ("valid", [0], [[0.5, 0.5, 1, 1]]),
    ]  # fmt: skip
    (tmp_path / "y" / "classes.txt").unlink()
    assert open_source(str(tmp_path / "y")).metadata is None
    assert len(rows_at(tmp_path / "y", options=Options({"labels": {"type": "int64", "shape": [-1]}}))) == 2


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "labels/train/1.txt",
            b"0 .1 .1 .1 .1\n0 a b c d",
            r"labels/train/1.txt, line 2: b'0 a b c d' are no numbers",
        ),
        ("labels/train/1.txt", b"0 .1", "line 1: a line is a class and four or more numbers"),
        ("labels/train/1.txt", b"0.5 0 0 0 0", "line 1: a line is a class"),
        ("labels/train/1.txt", b"0 0 0 nan 0", "line 1: a line is a class"),
        ("labels/train/1.txt", b"2 0 0 0 0", "there is no class 2 of 2"),
        ("data.yaml", b"names: {", "data.yaml cannot be read"),
        ("data.yaml", b"names: !!python/object/apply:os.system [x]", "data.yaml cannot be read"),
        ("data.yaml", b"names: {1: a}", "its names are no list"),
    ],
)
def test_damaged_labels_are_named(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    folder(tmp_path / "yolo", {**YOLO, name: data})
    with pytest.raises(SchemaError, match=said):
        rows_at(tmp_path / "yolo")


def test_a_picture_that_is_none_is_left_out_and_named(tmp_path: Path) -> None:
    folder(tmp_path / "yolo", {**YOLO, "images/train/1.png": b"no picture"})
    source = open_source(str(tmp_path / "yolo"))
    assert sum(batch.rows for batch in source.batches()) == 2
    assert [one.name for one in source.left_out] == ["images/train/1.png"]
