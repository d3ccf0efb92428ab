"""Pictures with their masks in folders side by side: a row per picture, with the file of its mask."""

from __future__ import annotations

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
    folders_in,
    is_picture,
    pair_files,
    picture_batches,
    picture_columns,
    picture_units,
)
from .folder_walk import natural_order, utf8_name, walk
from .input_path import InputPath
from .media_types import bytes_of
from .overrides import apply_overrides
from .source import LeftOut, Options, RawBatch, Source, Unit

__all__ = ["MaskFolders"]

_PICTURES: Final = ("images", "image", "imgs", "img")
_MASKS: Final = ("masks", "mask")


class MaskFolders(Source):
    """``images/a.jpg`` with ``masks/a.png``, or ``train/images/a.jpg`` with ``train/masks/a.png``.

    A picture without a mask has null; ``split`` is the folder above, or the one below.
    """

    kind: ClassVar[str] = "masks"
    about: ClassVar[str] = "pictures with masks of the same names"
    item: ClassVar[str] = "picture"
    path_column: ClassVar[str | None] = "path"
    reads: ClassVar[str] = "a folder"
    reads_files: ClassVar[bool] = False
    any_folder: ClassVar[bool] = True
    picture_sizes: ClassVar[Mapping[str, tuple[str, str]]] = PICTURE_SIZES
    pixel_columns: ClassVar[tuple[str, ...]] = ("mask",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By folders of pictures and of masks side by side, in it or in one of its folders, and nothing else there."""
        return any(_is_pair(folder) for folder in folders_in(source))

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """List the pictures and the masks, and put those of one name together."""
        pictures: list[str] = []
        masks: dict[str, str] = {}
        for path, reason in walk(self.input.path):
            place = _place(path)
            if reason is not None:
                self.left_out.append(LeftOut(utf8_name(path), reason))
            elif place is None or not is_picture(path):
                said = "it is no picture below a folder of pictures or masks"
                self.left_out.append(LeftOut(utf8_name(path), said, expected=True))
            elif path.split("/")[place] in _MASKS:
                masks[_key(path, place)] = path
            else:
                pictures.append(path)
        self.pairs: list[PicturePair] = []
        for path in sorted(pictures, key=natural_order):
            place = _place(path)
            assert place is not None
            folders = path.split("/")
            beside = folders[place + 1] if place + 2 < len(folders) else folders[place - 1] if place else None
            mask = masks.pop(_key(path, place), None)
            self.pairs.append(PicturePair(path, mask, None if beside is None else utf8_name(beside)))
        self.left_out.extend([LeftOut(utf8_name(path), "no picture has its name") for path in masks.values()])
        paired = [pair.annotations for pair in self.pairs if pair.annotations is not None]
        if not paired:
            raise SchemaError(
                f"{self.path}: no picture has a mask of its name: --from images takes the folders as classes"
            )
        if len(paired) < len(self.pairs):
            self.notes.append(f"{many(len(self.pairs) - len(paired), 'picture', 'have')} no mask: null")
        mask_type = bytes_of(paired)
        types = {**picture_columns(self.pairs), "mask": {**mask_type, "type": "bytes?"}}
        self.schema: Schema = apply_overrides(types, options.overrides)
        self.units: Sequence[Unit] = picture_units(self, self.pairs)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the pictures of a range that can be read, with what is said of them."""
        return picture_batches(self, self.pairs, unit, self._said)

    def files(self) -> Iterator[str]:
        """The pictures, and what is said of each."""
        return pair_files(self, self.pairs)

    def _said(self, pair: PicturePair) -> dict[str, Any]:
        """The file of the mask."""
        return {"mask": None if pair.annotations is None else annotation_bytes(self, pair.annotations)}


def _is_pair(folder: str) -> bool:
    try:
        names = {
            entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")
        }
    except OSError:
        return False
    return len(names) == 2 and bool(names & {*_PICTURES}) and bool(names & {*_MASKS})


def _place(path: str) -> int | None:
    """Which folder of a path is the one of pictures or masks: the first, or the one below it."""
    folders = path.split("/")[:-1]
    return next((i for i in range(min(2, len(folders))) if folders[i] in (*_PICTURES, *_MASKS)), None)


def _key(path: str, place: int) -> str:
    """What a picture and its mask have in common: all of the path but the folder's name, and the suffix."""
    folders = path.split("/")
    return os.path.splitext("/".join([*folders[:place], "", *folders[place + 1 :]]))[0]
