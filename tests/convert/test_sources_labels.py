"""Pictures with a table of labels, COCO annotations, folders of any files, and lines of text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from image_folders import folder, picture
from sources import rows_at

from unirecord import UniRecordDataset
from unirecord.cli import main
from unirecord.convert.sources import Options, WrongSourceError, open_source
from unirecord.convert.sources.source import said_of_left_out
from unirecord.errors import SchemaError

pytestmark = pytest.mark.usefixtures("forked_readers")

SMALL = {f"{name}.png": picture(i + 1, 2) for i, name in enumerate(("a", "b", "sub/c"))}
TABLE = [("a.png", 3, "x"), ("b.png", 5, "y"), ("sub/c.png", 7, "z")]


def csv_of(rows: list[tuple[Any, ...]], name: str = "file_name") -> bytes:
    return f"{name},score,word\n{''.join(f'{a},{b},{c}' + chr(10) for a, b, c in rows)}".encode()


def joined(path: str, **options: Any) -> list[tuple[Any, ...]]:
    rows = rows_at(path, options=Options(**options))
    assert all(row["image"] == SMALL[row["path"]] for row in rows)
    return [(row["path"], row["score"], row["word"]) for row in rows]


def test_a_table_in_the_folder_is_joined_by_file_name(tmp_path: Path) -> None:
    path = folder(tmp_path / "p", {**SMALL, "metadata.csv": csv_of(TABLE[::-1])})
    source = open_source(path)
    assert list(source.schema.to_spec()) == ["image", "path", "width", "height", "score", "word"]
    assert source.left_out == []
    assert joined(path) == TABLE


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("way", ["path", "stem", "dots", "elsewhere"])
def test_a_table_elsewhere_may_be_of_any_kind_and_name_files_in_any_way(
    tmp_path: Path, suffix: str, way: str
) -> None:
    path = folder(tmp_path / "p", SMALL)
    say = {
        "path": str, "stem": lambda name: Path(name).stem, "dots": "./{}".format, "elsewhere": "C:\\old\\{}".format,
    }[way]  # fmt: skip
    rows = [{"id": say(a), "score": b, "word": c} for a, b, c in TABLE]
    table = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), table)
    elif suffix == "jsonl":
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = "," if suffix == "csv" else "\t"
        table.write_text(
            "\n".join(mark.join(map(str, row)) for row in [rows[0].keys(), *(r.values() for r in rows)])
        )
    assert joined(path, labels=str(table)) == TABLE


def test_pictures_without_a_row_and_rows_without_a_picture_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "p", {**SMALL, "metadata.csv": csv_of([TABLE[1], ("gone.png", 1, "w")])})
    assert main(["write", "p", "d.urec"]) == 1
    error = capsys.readouterr().err
    assert "p/metadata.csv, row 1: there is no picture 'gone.png'" in error
    assert "a.png: p/metadata.csv does not name it" in error
    with UniRecordDataset("d.urec") as ds:
        assert [row["path"] for row in ds] == ["b.png"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (csv_of([("z.png", 1, "w")]), r"none of its columns \(file_name, score, word\) names the pictures"),
        (csv_of([TABLE[0], TABLE[0]]), r"the rows 0 and 1 both speak of a.png"),
        (b"", r"metadata.csv is empty"),
        (b"\xff\xfe", r"metadata.csv is not UTF-8"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path: Path, table: bytes, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        open_source(folder(tmp_path / "p", {**SMALL, "metadata.csv": table}))


COCO: dict[str, Any] = {
    "images": [{"id": 9, "file_name": "b.png"}, {"id": 4, "file_name": "a.png", "width": 1}],
    "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}],
    "annotations": [
        {"id": 1, "image_id": 4, "category_id": 18, "bbox": [1, 2, 3.5, 4.25], "area": 14.875, "iscrowd": 0,
         "segmentation": [[1, 2, 3, 4, 5, 6]]},
        {"id": 2, "image_id": 4, "category_id": 3, "bbox": [0, 0, 1, 1], "area": 1, "iscrowd": 1,
         "segmentation": {"size": [2, 2], "counts": [1, 3]}},
    ],
}  # fmt: skip


def coco(tmp_path: Path, content: Any, pictures: str = "val2017") -> str:
    folder(tmp_path / pictures, SMALL)
    (tmp_path / "annotations").mkdir()
    path = tmp_path / "annotations" / "instances_val2017.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_names_of_classes_that_stand_twice_are_none_and_that_is_said(tmp_path: Path) -> None:
    twice = {**COCO, "categories": [{**one, "name": "dog"} for one in COCO["categories"]]}
    source = open_source(coco(tmp_path, twice))
    assert source.schema["labels"].logical is None
    (said,) = (one for one in source.left_out if one.column == "labels")
    assert (said.name, said.reason) == (
        "the names of the values of labels",
        "left out: names has 'dog' twice",
    )


def test_coco_annotations_become_arrays_by_picture(tmp_path: Path) -> None:
    source = open_source(coco(tmp_path, COCO))
    assert source.kind == "coco"
    assert source.metadata == {"classes": ["car", "dog"], "category_ids": [3, 18]}
    assert source.schema["labels"].classes == ("car", "dog")
    assert source.schema["image"].media_type == "image/png"
    empty, full = rows_at(source.path)
    assert empty["image"] == SMALL["b.png"]
    assert (empty["boxes"], empty["labels"], empty["masks"]) == ([], [], [])
    assert full == {
        "image": SMALL["a.png"], "path": "a.png", "image_id": 4, "width": 1, "height": 2,
        "boxes": [[1, 2, 3.5, 4.25], [0, 0, 1, 1]], "labels": [1, 0], "areas": [14.875, 1], "iscrowd": [False, True],
        "masks": [[[1, 2, 3, 4, 5, 6]], {"size": [2, 2], "counts": [1, 3]}], "annotation_ids": [1, 2],
    }  # fmt: skip
    boxes = Options({"boxes": {"type": "float32", "shape": [-1, 4]}})
    assert rows_at(source.path, options=boxes)[1]["boxes"] == full["boxes"]


def test_no_field_of_coco_is_lost(tmp_path: Path) -> None:
    """Fields of pictures and annotations become columns, also those whose names are taken; the rest is metadata."""
    images = [
        {**COCO["images"][0], "license": 3, "coco_url": "http://x/b.png", "tags": ["a"], "path": "p"},
        {**COCO["images"][1], "license": 1},
    ]
    first, second = COCO["annotations"]
    annotations = [
        {**first, "id": "x1", "score": 0.5, "attributes": {"occluded": True}, "labels": 7},
        {**second, "num keypoints": 3, "segments_info": [{"id": 5}], "file_name": "1.png"},
    ]
    categories = [{**COCO["categories"][0], "supercategory": "animal"}, COCO["categories"][1]]
    large = {"log": "x" * 70_000}
    content = {
        **COCO,
        "images": images,
        "annotations": annotations,
        "categories": categories,
        "info": {"v": 1},
        **large,
    }
    source = open_source(coco(tmp_path, content))
    assert source.metadata == {
        "classes": ["car", "dog"], "category_ids": [3, 18], "info": {"v": 1},
        "categories": [{}, {"supercategory": "animal"}],
    }  # fmt: skip
    empty, full = rows_at(source.path)
    assert {key: empty[key] for key in ("license", "coco_url", "tags", "image_path")} == {
        "license": 3, "coco_url": "http://x/b.png", "tags": ["a"], "image_path": "p",
    }  # fmt: skip
    assert (full["license"], full["coco_url"], full["tags"], full["image_path"]) == (1, None, None, None)
    assert full["annotation_ids"] == ["x1", 2]
    assert full["score"] == [0.5, None]
    assert full["attributes"] == [{"occluded": True}, None]
    assert full["annotation_labels"] == [7, None]
    assert full["num_keypoints"] == [None, 3]
    assert full["segments_info"] == [None, [{"id": 5}]]
    said = said_of_left_out(source.left_out)
    assert "'log' of the file: left out: it is too large for the metadata" in said
    assert any(one.startswith("a picture of segments: left out") for one in said)


def voc_folder(path: Path, object_more: str = "") -> str:
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>"
    xml = f"<annotation><object><name>car</name>{box}{object_more}</object></annotation>"
    return folder(path, {"JPEGImages/a.png": SMALL["a.png"], "Annotations/a.xml": xml.encode()})


def yolo_folder(path: Path, line: str = "0 0.5 0.5 0.25 0.25") -> str:
    files = {"images/a.png": SMALL["a.png"], "labels/a.txt": line.encode(), "classes.txt": b"car\n"}
    return folder(path, files)


def test_boxes_say_what_their_numbers_are(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    sources = {
        "xywh": open_source(coco(tmp_path / "c", COCO)),
        "xyxy": open_source(voc_folder(tmp_path / "v")),
        "cxcywh": open_source(yolo_folder(tmp_path / "y")),
    }
    boxes = {form: source.schema["boxes"] for form, source in sources.items()}
    said = {form: (column.logical, column.annotations) for form, column in boxes.items()}
    assert said == {
        "xywh": ({"type": "boxes", "form": "xywh"}, {"unit": "px", "origin": 0}),
        "xyxy": ({"type": "boxes", "form": "xyxy"}, {"unit": "px", "origin": 1}),
        "cxcywh": ({"type": "boxes", "form": "cxcywh"}, {"unit": "picture"}),
    }
    outlines = open_source(yolo_folder(tmp_path / "o", "0 0 0 0.5 0 0.5 1"))
    assert outlines.schema["shapes"].annotations == {"unit": "picture"}


def test_pictures_of_coco_lie_where_they_are_said_to(tmp_path: Path) -> None:
    path = coco(tmp_path, COCO, "elsewhere")
    with pytest.raises(SchemaError, match=r"'b.png' is not beside the annotations; --pictures FOLDER"):
        open_source(path)
    assert len(rows_at(path, options=Options(pictures=str(tmp_path / "elsewhere")))) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"images": []}, "names no pictures"),
        ({"images": 3}, '"images" is no list'),
        ({"images": [{"id": 1}]}, "\"images\", number 0, has no 'file_name'"),
        ({"images": [{"id": 4, "file_name": "a.png"}] * 2}, "two pictures have the same id"),
        ({"annotations": [{"image_id": 77}]}, "annotations of the picture 77, which is not in its list"),
        ({"annotations": [{"image_id": 4, "category_id": 1}]}, "picture 4: 1 is missing, or no category"),
        ({"annotations": [{"image_id": 4, "bbox": [1, 2]}]}, "picture 4: cannot reshape"),
        ({"images": [{"id": 4, "file_name": "../val2017/a.png"}]}, "is not beside the annotations"),
    ],
)
def test_damaged_annotations_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = coco(tmp_path, {**COCO, **change})
    with pytest.raises(SchemaError, match=said):
        rows_at(path)


def test_what_coco_names_outside_is_never_read(tmp_path: Path) -> None:
    images = [
        {"id": 1, "file_name": "a.png"},
        {"id": 2, "file_name": "../annotations/instances_val2017.json"},
    ]
    path = coco(tmp_path, {**COCO, "images": [*images, {"id": 4, "file_name": "/etc/passwd"}]})
    os.mkfifo(tmp_path / "val2017" / "pipe.png")
    source = open_source(path)
    assert [path for batch in source.batches() for path in batch.columns["path"]] == ["a.png"]
    assert {one.reason for one in source.left_out} == {"its name leads out of the folder"}


def test_any_files_are_read_byte_for_byte(tmp_path: Path) -> None:
    path = folder(tmp_path / "p", {"b/2.bin": b"\xff", "b/10.bin": b"", "a.dat": b"x", ".hidden": b"no"})
    os.mkfifo(tmp_path / "p" / "pipe.bin")
    source = open_source(path, "files")
    assert [(r["path"], r["data"]) for r in rows_at(path, kind="files")] == [
        ("a.dat", b"x"), ("b/2.bin", b"\xff"), ("b/10.bin", b""),
    ]  # fmt: skip
    assert [one.reason for one in source.left_out] == ["it is a pipe, not a regular file"]
    chosen = rows_at(path, kind="files", options=Options(pattern="b/*"))
    assert [row["path"] for row in chosen] == ["b/2.bin", "b/10.bin"]
    with pytest.raises(SchemaError, match=r"holds no file that matches 'c\*'"):
        open_source(path, "files", Options(pattern="c*"))


def test_text_is_read_by_lines_or_by_files(tmp_path: Path) -> None:
    path = folder(tmp_path / "p", {"2.txt": "é\r\n\nb".encode(), "10.txt": b"", "bad.txt": b"\xff"})
    rows = [(row["path"], row["text"]) for row in rows_at(path)]
    assert rows == [("2.txt", "é\r\n\nb"), ("10.txt", "")]
    assert [row["text"] for row in rows_at(f"{path}/2.txt")] == ["é", "", "b"]
    with pytest.raises(SchemaError, match=r"bad.txt, line 1 is not UTF-8 .*; --schema text=bytes takes it"):
        rows_at(f"{path}/bad.txt")
    assert rows_at(f"{path}/bad.txt", options=Options({"text": "bytes"})) == [{"text": b"\xff"}]
    with pytest.raises(SchemaError, match=r"10.txt is empty"):
        open_source(f"{path}/10.txt")


def test_sound_has_the_classes_of_its_folders_and_texts_beside_it_are_named(tmp_path: Path) -> None:
    clips = {"train/yes/1.wav": b"RIFF1", "train/no/2.wav": b"RIFF2", "test/yes/3.wav": b"RIFF3"}
    beside = {"train/yes/1.trans.txt": b"1 YES", "README.md": b"words"}
    path = folder(tmp_path / "p", {**clips, **beside})
    source = open_source(path)
    assert source.metadata == {"classes": ["no", "yes"]}
    assert source.schema["label"].classes == ("no", "yes")
    assert sorted(one.name for one in source.left_out if one.expected and one.rows) == sorted(beside)
    said = "a list of what is said in the files: left out: a table beside the files, metadata.csv"
    assert any(line.startswith(said) for line in said_of_left_out(source.left_out))
    rows = [(row["path"], row["split"], row["label"], row["class"]) for row in rows_at(path)]
    assert rows == [
        ("test/yes/3.wav", "test", 1, "yes"),
        ("train/no/2.wav", "train", 0, "no"),
        ("train/yes/1.wav", "train", 1, "yes"),
    ]  # fmt: skip
    every = rows_at(path, kind="files")  # as the reason why something is left out says
    assert sorted(row["path"] for row in every) == sorted([*clips, *beside])
    assert set(every[0]) == {"data", "path"}
    as_classes = open_source(path, None, Options(folders_are_classes=True))
    assert as_classes.metadata == {"classes": ["test", "train"]}
    flat = open_source(folder(tmp_path / "q", {"a.wav": b"RIFF", "x/b.wav": b"RIFF"}))
    assert flat.schema.names == ("data", "path")


def test_sound_has_what_a_table_says_of_it(tmp_path: Path) -> None:
    files = {
        "1.wav": b"RIFF one",
        "2.wav": b"RIFF two",
        "metadata.csv": b"file_name,text\n2.wav,two\n1.wav,one\n",
    }
    source = open_source(folder(tmp_path / "clips", files))
    assert (source.kind, source.left_out) == ("files", [])
    assert source.schema["data"].media_type == "audio/wav"
    assert [(row["data"], row["path"], row["text"]) for row in rows_at(tmp_path / "clips")] == [
        (b"RIFF one", "1.wav", "one"), (b"RIFF two", "2.wav", "two"),
    ]  # fmt: skip


def test_a_table_beside_sound_is_read_as_it_is_said_to_be_written(tmp_path: Path) -> None:
    files = {"wavs/LJ-1.wav": b"RIFF one", "metadata.csv": b'LJ-1|"one|one\n'}
    asked = {"delimiter": "|", "names": "id,text,normalised", "quoting": "none"}
    path = folder(tmp_path / "clips", files)
    assert rows_at(path, options=Options(**asked)) == [
        {"data": b"RIFF one", "path": "wavs/LJ-1.wav", "text": '"one', "normalised": "one"}
    ]
    with pytest.raises(SchemaError, match="--quoting none"):
        open_source(path)
    (tmp_path / "clips/metadata.csv").rename(tmp_path / "table.jsonl")
    for others, said in (
        ({}, "has no table, and --labels"),
        ({"labels": str(tmp_path / "table.jsonl")}, "as jsonl"),
    ):
        with pytest.raises(WrongSourceError, match=f"--delimiter says how a CSV is written; .*{said}"):
            open_source(path, options=Options(**asked, **others))


def test_an_option_of_one_kind_says_what_a_folder_is_read_as(tmp_path: Path) -> None:
    path = folder(tmp_path / "p", {"a.png": picture(1, 1), "b.png": picture(2, 1)})
    assert open_source(path).kind == "images"
    assert open_source(path, options=Options(pattern="b*")).kind == "files"
    assert [row["path"] for row in rows_at(path, options=Options(pattern="b*"))] == ["b.png"]
    with pytest.raises(WrongSourceError, match="--pattern is for files"):
        open_source(path, options=Options(pattern="*", check_pictures=True))


def test_annotations_that_lie_among_pictures_are_not_lost_in_silence(tmp_path: Path) -> None:
    coco = json.dumps({"images": [], "annotations": [], "categories": []}).encode()
    source = open_source(
        folder(tmp_path / "p", {"a.png": picture(1, 1), "annotations/instances.json": coco, "x.json": b"{}"})
    )
    said = "the COCO annotations of annotations/instances.json: left out: give the file as SRC to have them"
    assert said in said_of_left_out(source.left_out)


LABELME = b'{"version": "5.0", "flags": {}, "shapes": [], "imagePath": "a.png"}'
CVAT = b'<?xml version="1.0"?><annotations><version>1.1</version><image id="0"/></annotations>'


@pytest.mark.parametrize(
    ("files", "whose", "times"),
    [
        ({"a.json": LABELME, "b.json": LABELME}, "LabelMe", " (2 times)"),
        ({"annotations.xml": CVAT}, "CVAT", ""),
        ({"x.json": b'{"a": 1}', "y.xml": b"<a/>"}, None, ""),
    ],
)
def test_annotations_of_other_programs_among_pictures_are_named(
    tmp_path: Path, files: dict[str, bytes], whose: str | None, times: str
) -> None:
    source = open_source(folder(tmp_path / "p", {"a.png": picture(1, 1), "b.png": picture(1, 1), **files}))
    assert source.kind == "images"
    lines = [one for one in said_of_left_out(source.left_out) if "annotations of" in one]
    said = f"the annotations of {whose}: left out: export them from {whose} as COCO, and give that file as SRC{times}"
    assert lines == ([] if whose is None else [said])
