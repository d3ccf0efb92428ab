"""Pascal VOC as records: pictures with the boxes, classes and marks of their XML files, and the lists of ImageSets."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .annotated_pictures import (
    PICTURE_SIZES,
    PicturePair,
    annotation_bytes,
    array_of,
    is_picture,
    pair_files,
    picture_batches,
    picture_columns,
    picture_units,
)
from .folder_walk import natural_order, utf8_name, walk
from .input_path import InputPath
from .media_types import boxes_type, file_type
from .overrides import apply_overrides
from .source import LeftOut, Options, RawBatch, Source, Unit, reduced

__all__ = ["VocFolder"]

_XML, _PICTURES = "Annotations", "JPEGImages"
_LISTS: Final = os.path.join("ImageSets", "Main")
_SPLITS: Final = ("train", "val", "test")
_CORNERS: Final = ("xmin", "ymin", "xmax", "ymax")
_MARKS: Final = ("difficult", "truncated")
_READ: Final = frozenset(("name", "bndbox", *_MARKS))
_MASKS: Final = {"segmentation_class": "SegmentationClass", "segmentation_object": "SegmentationObject"}


class _Object(NamedTuple):
    """One object of a picture; ``more``: the texts of its other elements by their names."""

    name: str
    corners: list[float]
    marks: list[bool]
    more: dict[str, str]


class VocFolder(Source):
    """A folder such as ``VOC2012``: ``Annotations``, ``JPEGImages`` and, if they are there, ``ImageSets/Main``.

    ``boxes`` are xmin, ymin, xmax, ymax as the files say, which count pixels from 1; ``labels`` number the names of
    the classes in natural order. What else an object has (``pose``, ``occluded``) is a column of its own, a text or
    null for each object; ``segmentation_class`` and ``segmentation_object`` are the PNG files of its segments.
    """

    kind: ClassVar[str] = "voc"
    about: ClassVar[str] = "Pascal VOC"
    item: ClassVar[str] = "picture"
    path_column: ClassVar[str | None] = "path"
    reads: ClassVar[str] = "a folder"
    reads_files: ClassVar[bool] = False
    any_folder: ClassVar[bool] = True
    picture_sizes: ClassVar[Mapping[str, tuple[str, str]]] = PICTURE_SIZES
    pixel_columns: ClassVar[tuple[str, ...]] = ("boxes", *_MASKS)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By its folders."""
        return source.is_folder and all(
            os.path.isdir(os.path.join(source.path, name)) for name in (_XML, _PICTURES)
        )

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """List the pictures, and parse all annotations for the names of the classes."""
        listed = {name: list(self._below(name)) for name in (_XML, _PICTURES)}
        stems = {os.path.splitext(path)[0]: path for path in listed[_XML] if path.lower().endswith(".xml")}
        self._splits = self._split_lists()
        self.pairs: list[PicturePair] = []
        for path in sorted(filter(is_picture, listed[_PICTURES]), key=natural_order):
            stem = os.path.splitext(path)[0]
            annotations = stems.pop(stem, None)
            if annotations is None:
                name = utf8_name(os.path.join(_PICTURES, path))
                self.left_out.append(
                    LeftOut(name, f"there is no {_XML}/{utf8_name(stem)}.xml", expected=True)
                )
                continue
            split = self._splits.get(stem)
            self.pairs.append(
                PicturePair(os.path.join(_PICTURES, path), os.path.join(_XML, annotations), split)
            )
        self.left_out.extend(
            [
                LeftOut(utf8_name(os.path.join(_XML, path)), "there is no picture of its name")
                for path in stems.values()
            ]
        )
        if not self.pairs:
            raise SchemaError(f"{self.path}: no picture in {_PICTURES} has a file of its name in {_XML}")
        names: set[str] = set()
        more: set[str] = set()
        nested: Counter[str] = Counter()
        for i, pair in enumerate(self.pairs, 1):
            for one in self._objects(pair, nested):
                names.add(one.name)
                more.update(one.more)
            if progress is not None:
                progress(i, len(self.pairs))
        self.classes: list[str] = sorted(names, key=natural_order)
        self._labels = {name: i for i, name in enumerate(self.classes)}
        self.metadata: dict[str, Any] | None = {"classes": self.classes} if self.classes else None
        types = {
            **picture_columns(self.pairs),
            "boxes": boxes_type("xyxy", unit="px", origin=1),
            "labels": self.classes_type("labels", {"type": "int32", "shape": [-1]}, self.classes),
            **{mark: {"type": "bool", "shape": [-1]} for mark in _MARKS},
        }
        self._more = {
            name: key for key in sorted(more) if (name := re.sub(r"\W+", "_", key, flags=re.A)) not in types
        }
        self._masks = {name: below for name, folder in _MASKS.items() if (below := self._masks_in(folder))}
        types |= dict.fromkeys(self._more, "object")
        types |= {name: file_type("image/png", "bytes?") for name in self._masks}
        why = "left out: it holds elements of its own"
        self.left_out.extend(
            [reduced(f"{key!r} of objects", why, many) for key, many in sorted(nested.items())]
        )
        self.schema: Schema = apply_overrides(types, options.overrides)
        self.units: Sequence[Unit] = picture_units(self, self.pairs)

    def _below(self, folder: str) -> list[str]:
        found = []
        for path, reason in walk(os.path.join(self.input.path, folder)):
            if reason is None:
                found.append(path)
            else:
                self.left_out.append(LeftOut(utf8_name(os.path.join(folder, path)), reason))
        return found

    def _masks_in(self, folder: str) -> dict[str, str]:
        """The PNG files of a folder by their stems."""
        if not os.path.isdir(os.path.join(self.input.path, folder)):
            return {}
        return {
            os.path.splitext(path)[0]: os.path.join(folder, path)
            for path in self._below(folder)
            if path.lower().endswith(".png")
        }

    def _split_lists(self) -> dict[str, str]:
        """Which of the lists train, val and test names a picture; `SchemaError` when two do."""
        found: dict[str, str] = {}
        for split in _SPLITS:
            path = os.path.join(_LISTS, f"{split}.txt")
            if not os.path.isfile(os.path.join(self.input.path, path)):
                continue
            for line in annotation_bytes(self, path).decode("utf-8", "backslashreplace").split("\n"):
                stem = line.partition(" ")[0].strip()
                if stem and found.setdefault(stem, split) != split:
                    raise SchemaError(
                        f"{self.path}: {stem!r} is in {found[stem]}.txt and {split}.txt of {_LISTS}"
                    )
        return found

    def _objects(self, pair: PicturePair, nested: Counter[str] | None = None) -> list[_Object]:
        """What the file says of each object; what is not read of them is counted in ``nested``."""
        assert pair.annotations is not None
        data, where = annotation_bytes(self, pair.annotations), f"{self.path}/{utf8_name(pair.annotations)}"
        try:
            root = _parsed(data)
        except (expat.ExpatError, ValueError, LookupError) as error:
            raise SchemaError(f"{where} is not valid XML: {error}") from None
        found = []
        for i, one in enumerate(root.iter("object")):
            name, box = one.findtext("name"), one.find("bndbox")
            try:
                corners = [float(box.findtext(key, "")) for key in _CORNERS] if box is not None else []
                marks = [bool(int(one.findtext(mark) or 0)) for mark in _MARKS]
            except ValueError as error:
                raise SchemaError(f"{where}, object {i}: {error}") from None
            if not name or not name.strip() or not corners:
                raise SchemaError(f"{where}, object {i}: it has no {'bndbox' if name else 'name'}")
            more = {
                part.tag: (part.text or "").strip() for part in one if part.tag not in _READ and not len(part)
            }
            if nested is not None:
                nested.update(part.tag for part in one if part.tag not in _READ and len(part))
            found.append(_Object(name.strip(), corners, marks, more))
        return found

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the pictures of a range that can be read, with what is said of them."""
        return picture_batches(self, self.pairs, unit, self._said)

    def _said(self, pair: PicturePair) -> dict[str, Any]:
        """The boxes, labels and marks of a picture's objects."""
        found = self._objects(pair)
        new = next((one.name for one in found if one.name not in self._labels), None)
        if new is not None:
            raise SchemaError(
                f"{self.path}/{pair.annotations}: the class {new!r} was not there before; it changes"
            )
        row: dict[str, Any] = {
            "boxes": array_of(self, "boxes", [one.corners for one in found], 4),
            "labels": array_of(self, "labels", [self._labels[one.name] for one in found]),
        }
        for i, mark in enumerate(_MARKS):
            row[mark] = array_of(self, mark, [one.marks[i] for one in found])
        for name, key in self._more.items():
            row[name] = [one.more.get(key) for one in found]
        stem = os.path.relpath(os.path.splitext(pair.picture)[0], _PICTURES)
        for name, masks in self._masks.items():
            row[name] = annotation_bytes(self, masks[stem]) if stem in masks else None
        return row

    def files(self) -> Iterator[str]:
        """Those of the pairs, and the pictures of segments."""
        yield from pair_files(self, self.pairs)
        for masks in self._masks.values():
            yield from (os.path.join(self.input.path, path) for path in masks.values())


def _parsed(data: bytes) -> Element:
    """The root of an XML file. ``ExpatError`` and others where it is none; ``ValueError`` for a document type.

    Entities, and with them files elsewhere and text that grows without bound, are declared in a document type alone.
    """
    parser, tree = expat.ParserCreate(), TreeBuilder()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.CharacterDataHandler = tree.data
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse_document_type
    parser.Parse(data, True)
    return tree.close()


def _refuse_document_type(*_: Any) -> None:
    raise ValueError("it declares a document type or entities, which VOC has not")
