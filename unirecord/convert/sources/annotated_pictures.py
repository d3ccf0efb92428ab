"""What sources of pictures with a file of annotations each share: their pairs, a row per picture, read in ranges."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from ...errors import SchemaError
from .folder_walk import UnreadableError, read_regular_file, utf8_name
from .media_types import NotAnImageError, file_type, read_image_header
from .source import (
    LeftOut,
    RawBatch,
    Source,
    Unit,
    row_batches,
)

__all__ = ["AnnotatedPictures", "PicturePair", "array_of"]

_UNIT_PICTURES: Final = 64
_MOST_BYTES: Final = 64_000_000  # of the annotations of a picture
_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif")


class PicturePair(NamedTuple):
    """Paths below the folder; a picture without annotations has none."""

    picture: str
    annotations: str | None
    split: str | None


class AnnotatedPictures(Source):
    """A folder in which each picture has a file that says what is on it."""

    item: ClassVar[str] = "picture"
    path_column: ClassVar[str | None] = "path"
    reads: ClassVar[str] = "a folder"
    picture_sizes: ClassVar[Mapping[str, tuple[str, str]]] = {"image": ("width", "height")}
    pairs: list[PicturePair]

    @classmethod
    def can_read(cls, source: Any) -> bool:
        """Any folder."""
        return bool(source.is_folder)

    @staticmethod
    def is_picture(path: str) -> bool:
        """Whether it is a picture by its name."""
        return os.path.splitext(path)[1].lower() in _SUFFIXES

    def columns_of_pictures(self) -> dict[str, Any]:
        """The types of the columns that each such source has first."""
        split = {"split": "string?"} if any(pair.split for pair in self.pairs) else {}
        return {"image": file_type("image/*"), "path": "string", **split, "width": "int32", "height": "int32"}

    def labels_type(self, classes: list[str]) -> Any:
        """The type of the numbers of the classes of a picture's objects."""
        return self.classes_type("labels", {"type": "int32", "shape": [-1]}, classes)

    def make_units(self) -> None:
        """Cut the pairs into ranges."""
        self.units: Sequence[Unit] = [
            Unit(
                f"{self.path}/{utf8_name(self.pairs[i].picture)}", i, min(_UNIT_PICTURES, len(self.pairs) - i)
            )
            for i in range(0, len(self.pairs), _UNIT_PICTURES)
        ]

    def content(self, path: str) -> bytes:
        """The bytes of a file of annotations below the folder."""
        try:
            data = read_regular_file(os.path.join(self.input.path, path))
        except (FileNotFoundError, UnreadableError) as error:
            raise SchemaError(f"{self.path}/{utf8_name(path)} cannot be read: {error}") from None
        if len(data) > _MOST_BYTES:
            raise SchemaError(f"{self.path}/{utf8_name(path)} is larger than 64 MB")
        return data

    def files(self) -> Iterator[str]:
        """The pictures, and what is said of each."""
        for pair in self.pairs:
            for path in (pair.picture, pair.annotations):
                if path is not None:
                    yield os.path.join(self.input.path, path)

    @abstractmethod
    def said(self, pair: PicturePair) -> dict[str, Any]:
        """The values of the columns that the annotations of a picture give."""

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the pictures of a range that can be read, with what is said of them."""
        pairs = self.pairs[unit.place : unit.place + _UNIT_PICTURES]
        yield from row_batches(self.schema.names, map(self._row, pairs))

    def _row(self, pair: PicturePair) -> tuple[list[Any], int] | LeftOut:
        try:
            data = read_regular_file(os.path.join(self.input.path, pair.picture))
            header = read_image_header(data)
        except FileNotFoundError:
            return LeftOut(utf8_name(pair.picture), "it has gone since the folder was listed")
        except (UnreadableError, NotAnImageError) as error:
            return LeftOut(utf8_name(pair.picture), str(error))
        row: dict[str, Any] = {"image": data, "path": utf8_name(pair.picture), "split": pair.split}
        row |= {"width": header.width, "height": header.height, **self.said(pair)}
        return [row[column] for column in self.schema.names], len(data)


def array_of(source: Source, name: str, values: list[Any], width: int | None = None) -> Any:
    """Values as an array of a column's type, [n] or [n, width]."""
    found = np.array(values, dtype=source.schema[name].dtype)
    return found if width is None else found.reshape(-1, width)
