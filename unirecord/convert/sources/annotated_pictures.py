"""What sources of pictures with a file of annotations each share: their pairs, a row per picture, read in ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ...errors import SchemaError
from .folder_walk import UnreadableError, read_regular_file, utf8_name
from .input_path import InputPath
from .media_types import NotAnImageError, file_type, read_image_header
from .source import (
    LeftOut,
    RawBatch,
    Source,
    Unit,
    file_units,
    row_batches,
)

__all__ = [
    "PICTURE_SIZES",
    "PicturePair",
    "annotation_bytes",
    "array_of",
    "folders_in",
    "is_picture",
    "pair_files",
    "picture_batches",
    "picture_columns",
    "picture_units",
]

_UNIT_PICTURES: Final = 64
_MOST_BYTES: Final = 64_000_000  # of the annotations of a picture
PICTURE_SIZES: Final = {"image": ("width", "height")}  # where the size of each is
_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif")


class PicturePair(NamedTuple):
    """Paths below the folder; a picture without annotations has none."""

    picture: str
    annotations: str | None
    split: str | None


def is_picture(path: str) -> bool:
    """Whether it is a picture by its name."""
    return os.path.splitext(path)[1].lower() in _SUFFIXES


def folders_in(source: InputPath) -> list[str]:
    """A folder, and the folders in it; none where it is no folder, or cannot be listed."""
    if not source.is_folder:
        return []
    try:
        return [source.path, *(entry.path for entry in os.scandir(source.path) if entry.is_dir())]
    except OSError:
        return []


def picture_columns(pairs: Sequence[PicturePair]) -> dict[str, Any]:
    """The types of the columns that each such source has first."""
    split = {"split": "string?"} if any(pair.split for pair in pairs) else {}
    return {"image": file_type("image/*"), "path": "string", **split, "width": "int32", "height": "int32"}


def picture_units(source: Source, pairs: Sequence[PicturePair]) -> list[Unit]:
    """The pairs in ranges; the place of a unit is the number of its first pair."""
    return file_units(source.path, [pair.picture for pair in pairs], _UNIT_PICTURES)


def pair_files(source: Source, pairs: Sequence[PicturePair]) -> Iterator[str]:
    """The pictures, and what is said of each."""
    for pair in pairs:
        for path in (pair.picture, pair.annotations):
            if path is not None:
                yield os.path.join(source.input.path, path)


def annotation_bytes(source: Source, path: str) -> bytes:
    """The bytes of a file of annotations below the folder."""
    try:
        data = read_regular_file(os.path.join(source.input.path, path))
    except (FileNotFoundError, UnreadableError) as error:
        raise SchemaError(f"{source.path}/{utf8_name(path)} cannot be read: {error}") from None
    if len(data) > _MOST_BYTES:
        raise SchemaError(f"{source.path}/{utf8_name(path)} is larger than 64 MB")
    return data


def picture_batches(
    source: Source, pairs: Sequence[PicturePair], unit: Unit, said: Callable[[PicturePair], dict[str, Any]]
) -> Iterator[RawBatch]:
    """Yield the pictures of a unit that can be read, with what is ``said`` of each: the values of other columns."""

    def row(pair: PicturePair) -> tuple[list[Any], int] | LeftOut:
        try:
            data = read_regular_file(os.path.join(source.input.path, pair.picture))
            header = read_image_header(data)
        except FileNotFoundError:
            return LeftOut(utf8_name(pair.picture), "it has gone since the folder was listed")
        except (UnreadableError, NotAnImageError) as error:
            return LeftOut(utf8_name(pair.picture), str(error))
        found: dict[str, Any] = {"image": data, "path": utf8_name(pair.picture), "split": pair.split}
        found |= {"width": header.width, "height": header.height, **said(pair)}
        return [found[column] for column in source.schema.names], len(data)

    return row_batches(source.schema.names, map(row, pairs[unit.place : unit.place + _UNIT_PICTURES]))


def array_of(source: Source, name: str, values: list[Any], width: int | None = None) -> Any:
    """Values as an array of a column's type, [n] or [n, width]."""
    found = np.array(values, dtype=source.schema[name].dtype)
    return found if width is None else found.reshape(-1, width)
