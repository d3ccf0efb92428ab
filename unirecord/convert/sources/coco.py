"""COCO annotations and their pictures as records: a row per picture, with its boxes, labels, areas and masks."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from .annotated_pictures import array_of
from .folder_walk import UnreadableError, read_regular_file, utf8_name
from .input_path import InputPath
from .jsonl import json_object
from .media_types import NotAnImageError, boxes_type, bytes_of, read_image_header
from .overrides import apply_overrides
from .source import (
    AskedOption,
    LeftOut,
    Options,
    RawBatch,
    Source,
    Unit,
    WrongSourceError,
    reduced,
    row_batches,
)

__all__ = ["CocoFile"]

_UNIT_PICTURES: Final = 64
_MARKS: Final = (b'"images"', b'"annotations"', b'"licenses"', b'"categories"')
_MOST_BYTES: Final = 4_000_000_000
# The fields that have columns of their own kind; all others become columns under their names.
_OF_ANNOTATIONS: Final = {
    "bbox": "boxes", "category_id": "labels", "area": "areas", "iscrowd": "iscrowd", "segmentation": "masks",
    "keypoints": "keypoints", "caption": "captions", "id": "annotation_ids", "image_id": "image_id",
}  # fmt: skip
_OF_IMAGES: Final = frozenset(("id", "file_name", "width", "height"))
_MOST_SAID: Final = 65_536  # bytes of the JSON of what the file says of itself
_MOST_STRING: Final = 1_000  # characters of a string; longer ones are text
_MOST_FIELDS: Final = 200  # of all pictures, and of all annotations


class CocoFile(Source):
    """``instances_*.json`` (or keypoints, or captions) beside a folder of pictures.

    ``boxes`` are x, y, width, height in pixels; ``labels`` are numbers in the dataset's list of classes, which are the
    categories by their ids; ``masks`` are what the file says: polygons, or run lengths. All other fields of pictures
    and annotations are columns under their names; what the file says of itself and of its categories is in the
    metadata.
    """

    kind: ClassVar[str] = "coco"
    about: ClassVar[str] = "COCO annotations (JSON) with their pictures"
    item: ClassVar[str] = "picture"
    path_column: ClassVar[str | None] = "path"
    reads: ClassVar[str] = "a JSON file"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    pixel_columns: ClassVar[tuple[str, ...]] = ("boxes", "areas", "masks", "keypoints")
    options: ClassVar[tuple[AskedOption, ...]] = (
        AskedOption("pictures", "the folder of the pictures that the annotations name", "FOLDER"),
    )

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """A JSON file that begins as COCO's do."""
        if source.suffix not in cls.suffixes or not source.is_file:
            return False
        head = source.head(1 << 16)
        return head.lstrip()[:1] == b"{" and any(mark in head for mark in _MARKS)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Parse the annotations, and find the pictures."""
        content = self._parsed()
        self._images = self._checked(content, "images", ("id", "file_name"))
        annotations = self._checked(content, "annotations", ("image_id",)) if "annotations" in content else []
        if not self._images:
            raise SchemaError(f"{self.path} names no pictures")
        categories = self._checked(content, "categories", ("id", "name")) if "categories" in content else []
        for i, one in enumerate(categories):
            if isinstance(one["id"], str) and not (len(one["id"]) < 20 and one["id"].isdecimal()):
                raise SchemaError(f'{self.path}: "categories", number {i}, has an id that is no number')
        categories = sorted(categories, key=lambda one: int(one["id"]))
        self._labels = {int(one["id"]): i for i, one in enumerate(categories)}
        self.classes: list[str] = [str(one["name"]) for one in categories]
        if self.classes:
            self.metadata: dict[str, Any] | None = {
                "classes": self.classes,
                "category_ids": list(self._labels),
            }
        self.metadata = {**(self.metadata or {}), **self._said_of_all(content, categories)} or None
        self._of: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for annotation in annotations:
            self._of[annotation["image_id"]].append(annotation)
        known = {image["id"] for image in self._images}
        if len(known) < len(self._images):
            raise SchemaError(f"{self.path}: two pictures have the same id")
        stray = next((i for i in self._of if i not in known), None)
        if stray is not None:
            raise SchemaError(
                f"{self.path}: there are annotations of the picture {stray!r}, which is not in its list"
            )
        self._folder = self._find_folder(options.get("pictures"))
        self.notes.append(f"pictures from {self._folder}; {many(len(annotations), 'annotation')}")
        self.units: Sequence[Unit] = [
            Unit(f"{self.path}, picture {i}", i, min(_UNIT_PICTURES, len(self._images) - i))
            for i in range(0, len(self._images), _UNIT_PICTURES)
        ]
        self.schema: Schema = apply_overrides(self._types(annotations), options.overrides)

    def _parsed(self) -> dict[str, Any]:
        found = json_object(self.input, _MOST_BYTES, "COCO file")
        if "images" not in found:
            raise SchemaError(f'{self.path} is no COCO file: it has no list "images"')
        return found

    def _checked(self, content: dict[str, Any], name: str, keys: tuple[str, ...]) -> list[dict[str, Any]]:
        found = content[name]
        if not isinstance(found, list):
            raise SchemaError(f'{self.path}: "{name}" is no list')
        for i, one in enumerate(found):
            for key in keys:
                kinds: Any = str if key in ("file_name", "name") else int | str
                if not isinstance(one, dict) or not isinstance(one.get(key), kinds):
                    raise SchemaError(f'{self.path}: "{name}", number {i}, has no {key!r}')
        return found

    def _types(self, annotations: list[dict[str, Any]]) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "image": bytes_of(str(image["file_name"]) for image in self._images),
            "path": "string",
            "image_id": "int64",
            "width": "int32",
            "height": "int32",
        }
        if not all(isinstance(image["id"], int) for image in self._images):
            columns["image_id"] = "object"
        has = {key for annotation in annotations for key in annotation}
        if "bbox" in has:
            columns["boxes"] = boxes_type("xywh", unit="px", origin=0)
        if "category_id" in has:
            columns["labels"] = self.classes_type("labels", {"type": "int32", "shape": [-1]}, self.classes)
        if "area" in has:
            columns["areas"] = {"type": "float64", "shape": [-1]}
        if "iscrowd" in has:
            columns["iscrowd"] = {"type": "bool", "shape": [-1]}
        for key, name in (("segmentation", "masks"), ("keypoints", "keypoints"), ("caption", "captions")):
            if key in has:
                columns[name] = "object"
        if (
            all(type(one.get("id")) is int and one["id"].bit_length() < 64 for one in annotations)
            and annotations
        ):
            columns["annotation_ids"] = {"type": "int64", "shape": [-1]}
        elif "id" in has:
            columns["annotation_ids"] = "object"
        fields = sorted({str(key) for image in self._images for key in image} - _OF_IMAGES)
        self._of_images = self._more_columns(fields, columns, "image")
        columns |= {
            name: _type_of([one.get(key) for one in self._images]) for name, key in self._of_images.items()
        }
        self._of_objects = self._more_columns(
            sorted(map(str, has - _OF_ANNOTATIONS.keys())), columns, "annotation"
        )
        columns |= dict.fromkeys(self._of_objects, "object")
        files = sum("file_name" in one for one in annotations)
        if files:
            why = "left out: the column of file_name says how they are called"
            self.left_out.append(reduced("a picture of segments", why, files))
        return columns

    def _more_columns(self, keys: list[str], there: Mapping[str, Any], of: str) -> dict[str, str]:
        """The names of columns for other fields; one whose name is taken says what it is of."""
        found: dict[str, str] = {}
        for key in keys[:_MOST_FIELDS]:
            name = re.sub(r"\W+", "_", key, flags=re.A).strip("_") or "field"
            if name in there or name in found:
                name = f"{of}_{name}"
            if name in there or name in found:
                raise SchemaError(f"{self.path}: the field {key!r} has no name that is free: rename it")
            found[name] = key
        if len(keys) > _MOST_FIELDS:
            why = f"left out: more than {_MOST_FIELDS} make no columns"
            self.left_out.extend([reduced(f"field {key!r} of {of}s", why) for key in keys[_MOST_FIELDS:]])
        return found

    def _said_of_all(self, content: dict[str, Any], categories: list[dict[str, Any]]) -> dict[str, Any]:
        """What the file says beside its pictures and annotations, and of categories beside their names."""
        more = [{key: value for key, value in one.items() if key not in ("id", "name")} for one in categories]
        said = {
            key: value for key, value in content.items() if key not in ("images", "annotations", "categories")
        }
        if any(more):
            said["categories"] = more
        large = sorted(key for key, value in said.items() if len(json.dumps(value)) > _MOST_SAID)
        why = "left out: it is too large for the metadata"
        self.left_out.extend([reduced(f"{key!r} of the file", why) for key in large])
        return {
            key: value for key, value in said.items() if value not in (None, "", [], {}) and key not in large
        }

    def _find_folder(self, asked: str | None) -> str:
        first = self._images[0]["file_name"]
        here = os.path.dirname(os.path.abspath(self.input.path))
        above = os.path.dirname(here)
        word = re.sub(
            r"^(instances|person_keypoints|captions|image_info|panoptic)_",
            "",
            os.path.splitext(os.path.basename(self.path))[0],
        )
        below = ("", word, "images", os.path.join("images", word))
        tried = [asked] if asked else [os.path.join(base, name) for base in (here, above) for name in below]
        for folder in tried:
            if _is_below(first) and os.path.isfile(os.path.join(folder, first)):
                return folder
        where = tried[0] if asked else "beside the annotations"
        raise WrongSourceError(
            f"{self.path}: the picture {first!r} is not {'in ' if asked else ''}{where}; --pictures FOLDER says where"
        )

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the pictures of a range that can be read, with what is said of them."""
        images = self._images[unit.place : unit.place + _UNIT_PICTURES]
        yield from row_batches(self.schema.names, map(self._row, images))

    def _row(self, image: Mapping[str, Any]) -> tuple[list[Any], int] | LeftOut:
        name = image["file_name"]
        try:
            if not _is_below(name):
                raise UnreadableError("its name leads out of the folder")
            data = read_regular_file(os.path.join(self._folder, name))
            header = read_image_header(data)
        except FileNotFoundError:
            return LeftOut(name, "it is not in the folder of pictures")
        except (UnreadableError, NotAnImageError) as error:
            return LeftOut(utf8_name(name), str(error))
        row = {
            "image": data, "path": name, "image_id": image["id"], "width": header.width, "height": header.height
        }  # fmt: skip
        row |= {column: image.get(key) for column, key in self._of_images.items()}
        row |= self._said(image["id"])
        return [row[column] for column in self.schema.names], len(data)

    def _said(self, image_id: Any) -> dict[str, Any]:
        """What the annotations say of a picture, in their order."""
        found = self._of.get(image_id, [])
        where = f"{self.path}, the annotations of picture {image_id!r}"
        try:
            row: dict[str, Any] = {
                "masks": [one.get("segmentation") for one in found],
                "keypoints": [one.get("keypoints") for one in found],
                "captions": [one.get("caption") for one in found],
            }
            row |= {name: [one.get(key) for one in found] for name, key in self._of_objects.items()}
            ids = [one.get("id") for one in found]
            if "annotation_ids" in self.schema:
                is_array = self.schema["annotation_ids"].is_array
                row["annotation_ids"] = array_of(self, "annotation_ids", ids) if is_array else ids
            if "boxes" in self.schema:
                row["boxes"] = array_of(self, "boxes", [one["bbox"] for one in found], 4)
            if "labels" in self.schema:
                row["labels"] = array_of(
                    self, "labels", [self._labels[int(one["category_id"])] for one in found]
                )
            if "areas" in self.schema:
                row["areas"] = array_of(self, "areas", [one["area"] for one in found])
            if "iscrowd" in self.schema:
                row["iscrowd"] = array_of(self, "iscrowd", [bool(one.get("iscrowd", 0)) for one in found])
        except KeyError as error:
            raise SchemaError(f"{where}: {error.args[0]!r} is missing, or no category of the file") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"{where}: {error}") from None
        return row


def _type_of(values: list[Any]) -> str:
    """The type of a field of pictures: whole numbers, or text, where all are; else what JSON holds."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and all(value is None or value.bit_length() < 64 for value in values):
        return "int64?"
    if kinds == {str}:
        return "string?" if all(value is None or len(value) < _MOST_STRING for value in values) else "text?"
    return "object?"


def _is_below(name: str) -> bool:
    """Whether a file name stays below the folder it is joined to."""
    return not os.path.isabs(name) and ".." not in name.replace("\\", "/").split("/") and "\0" not in name
