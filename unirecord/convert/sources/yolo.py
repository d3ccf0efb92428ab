"""YOLO folders as records: pictures with the boxes or outlines of their text files, and the names of data.yaml."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from .annotated_pictures import (
    PICTURE_SIZES,
    PicturePair,
    annotation_bytes,
    array_of,
    folders_in,
    is_picture,
    pair_files,
    picture_batches,
    picture_columns,
    picture_units,
)
from .folder_walk import natural_order, utf8_name, walk
from .foreign_libraries import foreign_call, needed
from .input_path import InputPath
from .media_types import boxes_type
from .overrides import apply_overrides
from .source import LeftOut, Options, RawBatch, Source, Unit

__all__ = ["YoloFolder"]

_PICTURES, _LABELS = "images", "labels"
_NAMES: Final = ("data.yaml", "dataset.yaml", "data.yml", "dataset.yml")
_NAME_LIST: Final = "classes.txt"
_BOX_VALUES: Final = 5


class YoloFolder(Source):
    """``images/train/1.jpg`` with ``labels/train/1.txt``, or ``train/images/1.jpg`` with ``train/labels/1.txt``.

    ``boxes`` are the centre, width and height as parts of the picture's, as the files say; where a line has other
    values (outlines, keypoints), ``shapes`` holds those of each object instead. A picture without a file, or with an
    empty one, has no objects. ``split`` is the name of the folder beside ``images``.
    """

    kind: ClassVar[str] = "yolo"
    about: ClassVar[str] = "pictures with YOLO labels"
    item: ClassVar[str] = "picture"
    path_column: ClassVar[str | None] = "path"
    reads: ClassVar[str] = "a folder"
    reads_files: ClassVar[bool] = False
    any_folder: ClassVar[bool] = True
    picture_sizes: ClassVar[Mapping[str, tuple[str, str]]] = PICTURE_SIZES
    relative_columns: ClassVar[tuple[str, ...]] = ("boxes", "shapes")

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By folders ``images`` and ``labels`` side by side, in it or in one of its folders."""
        return any(
            os.path.isdir(os.path.join(folder, _PICTURES)) and os.path.isdir(os.path.join(folder, _LABELS))
            for folder in folders_in(source)
        )

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """List the pictures, and read all labels for their kinds."""
        texts: set[str] = set()
        pictures: list[str] = []
        for path, reason in walk(self.input.path):
            parts = path.split("/")
            if reason is not None:
                self.left_out.append(LeftOut(utf8_name(path), reason))
            elif _LABELS in parts[:-1] and path.endswith(".txt"):
                texts.add(path)
            elif _PICTURES in parts[:-1] and is_picture(path):
                pictures.append(path)
            elif path not in (*_NAMES, _NAME_LIST):
                self.left_out.append(LeftOut(utf8_name(path), "by its place it is no picture", expected=True))
        self.pairs: list[PicturePair] = [
            self._pair(path, texts) for path in sorted(pictures, key=natural_order)
        ]
        if not self.pairs:
            raise SchemaError(f"{self.path} holds no pictures in folders called {_PICTURES!r}")
        used = {pair.annotations for pair in self.pairs}
        self.left_out.extend(
            [LeftOut(utf8_name(path), "there is no picture of its name") for path in texts - used]
        )
        self.classes: list[str] = self._class_names()
        bare = sum(pair.annotations is None for pair in self.pairs)
        if bare:
            self.notes.append(f"{many(bare, 'picture', 'have')} no labels, so they have no objects")
        self._outlines = False
        for i, pair in enumerate(self.pairs, 1):
            objects = self._objects(pair)
            self._outlines = self._outlines or any(len(values) != _BOX_VALUES - 1 for _, values in objects)
            if progress is not None:
                progress(i, len(self.pairs))
        self.metadata: dict[str, Any] | None = {"classes": self.classes} if self.classes else None
        shapes: dict[str, Any] = (
            {"shapes": {"type": "object", "annotations": {"unit": "picture"}}}
            if self._outlines
            else {"boxes": boxes_type("cxcywh", unit="picture")}
        )
        types = {
            **picture_columns(self.pairs),
            **shapes,
            "labels": self.classes_type("labels", {"type": "int32", "shape": [-1]}, self.classes),
        }
        self.schema: Schema = apply_overrides(types, options.overrides)
        self.units: Sequence[Unit] = picture_units(self, self.pairs)

    def _pair(self, path: str, texts: set[str]) -> PicturePair:
        parts = path.split("/")
        at = len(parts) - 2 - parts[-2::-1].index(_PICTURES)
        name = "/".join([*parts[:at], _LABELS, *parts[at + 1 :]])
        labels = os.path.splitext(name)[0] + ".txt"
        beside = parts[at + 1] if at + 2 < len(parts) else parts[at - 1] if at else None
        split = None if beside is None else utf8_name(beside)
        return PicturePair(path, labels if labels in texts else None, split)

    def _class_names(self) -> list[str]:
        """The names of the classes by their numbers; none where no file says them."""
        for name in _NAMES:
            if os.path.isfile(os.path.join(self.input.path, name)):
                return self._names_of_yaml(name)
        if os.path.isfile(os.path.join(self.input.path, _NAME_LIST)):
            lines = annotation_bytes(self, _NAME_LIST).decode("utf-8", "backslashreplace").split("\n")
            return [line.strip() for line in lines if line.strip()]
        self.notes.append(f"no {_NAMES[0]} and no {_NAME_LIST} says what the classes are called")
        return []

    def _names_of_yaml(self, name: str) -> list[str]:
        yaml = needed("yaml", name, "pyyaml")
        where = f"{self.path}/{name}"
        content = annotation_bytes(self, name)
        with foreign_call("yaml", where):
            found = yaml.safe_load(content)
        names = found.get("names") if isinstance(found, dict) else None
        if isinstance(names, dict) and set(names) == set(range(len(names))):
            names = [names[i] for i in range(len(names))]
        if not isinstance(names, list) or not all(isinstance(one, str | int) for one in names):
            raise SchemaError(f"{where}: its names are no list, and no numbers from 0 on with a name each")
        return [str(one) for one in names]

    def _objects(self, pair: PicturePair) -> list[tuple[int, list[float]]]:
        """The class of each object, and the other values of its line."""
        if pair.annotations is None:
            return []
        found = []
        where = f"{self.path}/{utf8_name(pair.annotations)}"
        for number, line in enumerate(annotation_bytes(self, pair.annotations).split(b"\n"), 1):
            words = line.split()
            if not words:
                continue
            try:
                label, *values = (float(word) for word in words)
            except ValueError:
                raise SchemaError(f"{where}, line {number}: {line[:40]!r} are no numbers") from None
            if len(words) < _BOX_VALUES or not label.is_integer() or not all(map(math.isfinite, values)):
                raise SchemaError(f"{where}, line {number}: a line is a class and four or more numbers")
            if not 0 <= label < (len(self.classes) or 1 << 31):
                raise SchemaError(
                    f"{where}, line {number}: there is no class {label:.0f} of {len(self.classes)}"
                )
            found.append((int(label), values))
        return found

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the pictures of a range that can be read, with what is said of them."""
        return picture_batches(self, self.pairs, unit, self._said)

    def files(self) -> Iterator[str]:
        """The pictures, and what is said of each."""
        return pair_files(self, self.pairs)

    def _said(self, pair: PicturePair) -> dict[str, Any]:
        """The boxes or shapes, and the labels, of a picture's objects."""
        found = self._objects(pair)
        row: dict[str, Any] = {"labels": array_of(self, "labels", [label for label, _ in found])}
        if self._outlines:
            return {**row, "shapes": [values for _, values in found]}
        if any(len(values) != _BOX_VALUES - 1 for _, values in found):
            raise SchemaError(f"{self.path}/{pair.annotations}: it changes while it is read")
        return {**row, "boxes": array_of(self, "boxes", [values for _, values in found], 4)}
