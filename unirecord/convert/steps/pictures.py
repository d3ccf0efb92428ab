"""The step that changes the pictures in columns: smaller, of another format, or their pixels; and tells their size."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ...core import PictureOptions, PicturePlacer, Pixels
from ...errors import MissingError, PictureError, SchemaError
from ...format.schema import Schema
from ...pipeline.pictures import MOST_PIXELS, eight_bits, open_picture, orientation_of, pillow
from ..sources.base import LeftOut, RawBatch, Unit
from .base import Change, Places, Step, chosen_rows

__all__ = [
    "ChangePictures",
    "Encoding",
    "FORMATS",
    "PictureChange",
    "RESIZED_BY",
]


# One stored picture to another: smaller, of another format, or its pixels; with rules for what it loses.


RESIZED_BY: Final = (
    "bicubic, in the core"  # another text where other pixels come out: nobody goes on with those
)

_QUALITY: Final = {"jpeg": 90, "webp": 80}  # where none is asked for
FORMATS: Final = ("jpeg", "webp", "png", "raw")
_KEPT: Final = {"JPEG": "jpeg", "MPO": "jpeg", "PNG": "png", "WEBP": "webp"}  # all else becomes PNG
_WITH_ALPHA: Final = ("webp", "png")
_ORIENTATION: Final = 274  # the EXIF tag
_GAP: Final = 2  # JPEG is decoded at a scale that leaves twice the size; Pillow's thumbnail does the same
_MOST_SIDE: Final = 65_535  # that the core writes
_SPECIAL: Final = ("CMYK", "LAB", "YCbCr", "HSV")  # whose colour profile is not that of the RGB made of them
_TURNS: Final = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270", 7: "TRANSVERSE",
    8: "ROTATE_90",
}  # fmt: skip


@dataclass(frozen=True)
class Encoding:
    """How pictures are encoded: a name of `FORMATS`, and the quality, 1 to 100, of those that lose some."""

    format: str
    quality: int | None = None

    @classmethod
    def parse(cls, text: str) -> Encoding:
        """``"jpeg:90"``, ``"webp"``, ``"png"`` or ``"raw"``; ValueError for anything else."""
        found = re.fullmatch(r"([a-z]+)(?::([0-9]{1,3}))?", text) if isinstance(text, str) else None
        name = found[1] if found else None
        quality = int(found[2]) if found and found[2] else _QUALITY.get(name or "")
        lossless = name not in _QUALITY
        if (
            name not in FORMATS
            or (lossless and quality is not None)
            or not (lossless or 1 <= (quality or 0) <= 100)
        ):
            raise ValueError(f"reencode is jpeg:QUALITY, webp:QUALITY (1 to 100), png or raw, got {text!r}")
        return cls(name, quality)


@dataclass(frozen=True)
class PictureChange:
    """What is done to a picture.

    Attributes:
        resize: pixels of the shorter side, at most.
        max_side: pixels of the longer side, at most.
        encoding: what it becomes; None: JPEG, PNG and WebP stay what they are, with the usual quality, and all else
            becomes PNG.
    """

    resize: int | None = None
    max_side: int | None = None
    encoding: Encoding | None = None

    def __post_init__(self) -> None:
        for name, side in (("resize", self.resize), ("max_side", self.max_side)):
            if side is not None and (type(side) is not int or side < 1):
                raise ValueError(f"{name} is a number of pixels, 1 or more, got {side!r}")

    def __call__(self, data: bytes) -> tuple[Any, int, int]:
        """The picture's new bytes, or uint8[height, width, 3] for raw, and its width and height.

        Aspect and EXIF orientation are kept: a tag says it, as before, but raw pixels are turned. What is small enough
        and is not re-encoded stays byte for byte. Raises `PictureError` when it cannot be decoded.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with open_picture(data) as image:
                    return self._changed(image, data)
        except (MemoryError, MissingError, PictureError):
            raise
        except Exception as error:  # decoders raise whatever they like
            raise PictureError(f"it cannot be decoded: {error}") from None

    def size(self, width: int, height: int) -> tuple[int, int]:
        """The size that a picture of this size gets: never larger, and of the same aspect."""
        scale = min(
            1.0, (self.resize or width) / min(width, height) if self.resize else 1.0,
            (self.max_side or width) / max(width, height) if self.max_side else 1.0,
        )  # fmt: skip
        return max(round(width * scale), 1), max(round(height * scale), 1)

    def _changed(self, image: Any, data: bytes) -> tuple[Any, int, int]:
        if image.width * image.height > MOST_PIXELS:
            raise PictureError(f"it has {image.width} × {image.height} pixels, more than {MOST_PIXELS:,}")
        size = self.size(*image.size)
        if self.encoding is None and size == image.size:
            return data, *size
        encoding = self.encoding or _usual(image.format)
        orientation, profile = orientation_of(image), image.info.get("icc_profile")
        if image.mode in _SPECIAL:
            profile = None
        stored, reduction = image.size, _draft(image, size)
        pixels = _pixels(image, encoding.format)
        if pixels.size != size:
            pixels = _resized(pixels, stored, reduction, size)
        if encoding.format == "raw":
            turned = (
                pixels.transpose(getattr(pillow().Transpose, _TURNS[orientation]))
                if orientation > 1
                else pixels
            )
            array: NDArray[np.uint8] = np.asarray(turned)
            return array, turned.width, turned.height
        return _encoded(pixels, encoding, orientation, profile), *size


def _usual(name: str) -> Encoding:
    return Encoding(_KEPT.get(name, "png"), _QUALITY.get(_KEPT.get(name, "png")))


def _draft(image: Any, size: tuple[int, int]) -> int:
    """Has a JPEG decoded only as far as the size needs; at which part of its own: one half, a fourth, an eighth."""
    if image.format not in ("JPEG", "MPO") or image.mode not in ("L", "RGB") or size == image.size:
        return 1
    width = image.width
    found = image.draft(image.mode, (size[0] * _GAP, size[1] * _GAP))
    return round(width / found[1][2]) if found else 1


def _pixels(image: Any, target: str) -> Any:
    """The first frame in a mode that the format can hold: 16 bits in grey PNG alone, alpha in PNG and WebP."""
    if target == "png" and image.mode.startswith("I;16"):
        return image.convert("I")
    if image.mode.startswith("I") or image.mode == "F":
        return (
            pillow()
            .fromarray(eight_bits(image, 3 if target == "raw" else 1))
            .convert("RGB" if target == "raw" else "L")
        )
    alpha = image.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info
    if alpha and target in _WITH_ALPHA:
        return image.convert("RGBA")
    grey = image.mode in ("1", "L", "LA", "La") and target != "raw"
    return image.convert("L" if grey else "RGB")


def _resized(pixels: Any, stored: tuple[int, int], reduction: int, size: tuple[int, int]) -> Any:
    """Bicubic and antialiased: 8 bits of grey or of three colours by the core, depth and alpha by Pillow."""
    if pixels.mode == "I":
        wide = np.asarray(pixels.convert("F").resize(size, pillow().Resampling.BICUBIC))
        return pillow().fromarray(np.clip(np.rint(wide), 0, 65_535).astype(np.int32))
    if pixels.mode not in ("L", "RGB") or max(size) > _MOST_SIDE:
        box = tuple(side / reduction for side in (0, 0, *stored))
        return pixels.resize(size, pillow().Resampling.BICUBIC, box=box, reducing_gap=float(_GAP))
    out = np.empty((size[1], size[0], len(pixels.mode)), np.uint8)
    placer = _placer(*out.shape)
    placer.place(placer.crop(*stored, orientation=1, key=0), Pixels(np.asarray(pixels), reduction), out)
    return pillow().fromarray(out[..., 0] if pixels.mode == "L" else out)


@lru_cache(32)
def _placer(height: int, width: int, channels: int) -> PicturePlacer:
    return PicturePlacer(
        PictureOptions(
            (height, width, channels), channels_first=False, crop=None, orient=False, reduce=False, truncated=False,
            fraction=1.0, flip=0.0, area=(1.0, 1.0), ratio=(1.0, 1.0), most_pixels=MOST_PIXELS, values=None,
            filter="bicubic",
        )
    )  # fmt: skip


def _encoded(pixels: Any, encoding: Encoding, orientation: int, profile: Any) -> bytes:
    if pixels.mode == "I":
        pixels = pillow().fromarray(np.asarray(pixels).astype(np.uint16))
    options: dict[str, Any] = {} if encoding.quality is None else {"quality": encoding.quality}
    if orientation > 1:
        exif = pillow().Exif()
        exif[_ORIENTATION] = orientation
        options["exif"] = exif.tobytes()
    if profile and not (encoding.format == "webp" and pixels.mode == "L"):
        options["icc_profile"] = profile
    pixels.info = {}  # what the file said beside its pixels, but for these two, is not carried over
    out = io.BytesIO()
    pixels.save(out, encoding.format.upper(), **options)
    return out.getvalue()


# The step that changes the pictures in columns, and the columns that tell their size.


_MEDIA: Final = {"jpeg": "image/jpeg", "webp": "image/webp", "png": "image/png"}


class ChangePictures(Step):
    """Changes the pictures of ``columns``.

    ``sizes`` names the columns that hold a picture's width and height. Of a picture that cannot be decoded, the row is
    left out, or with ``refuses`` that is an error.
    """

    rows_at_once: ClassVar[int | None] = (
        8  # the first ones of some units are made again, to compare what was written
    )

    def __init__(
        self,
        change: PictureChange,
        columns: Sequence[str],
        sizes: Mapping[str, tuple[str, str]],
        *,
        refuses: bool = False,
    ) -> None:
        self._change, self._columns, self._refuses = change, tuple(columns), refuses
        self._sizes = dict(sizes)

    def schema(self, before: Schema) -> Schema:
        """The same, but for the media type; raw pixels are arrays."""
        found: dict[str, object] = {}
        for column in before:
            found[column.name] = column.spec
            if column.name not in self._columns:
                continue
            encoding = self._change.encoding
            null = "?" if column.nullable else ""
            if encoding is not None and encoding.format == "raw":
                found[column.name] = {"type": f"uint8{null}", "shape": [-1, -1, 3]}
                continue
            said = column.annotations.get("media_type")
            media = said if said in _MEDIA.values() else "image/*"
            media = media if encoding is None else _MEDIA[encoding.format]
            found[column.name] = {
                "type": column.wire_type, "annotations": {**column.annotations, "media_type": media}
            }  # fmt: skip
        return Schema.parse(found)

    def begin(self, unit: Unit, places: Places) -> Change:
        """The same for all units, but for the places that messages name."""

        def change(batch: RawBatch) -> RawBatch:
            columns = {one: list(batch.columns[one]) for one in self._changed_columns(batch)}
            broken: dict[int, str] = {}
            for i in range(batch.rows):
                try:
                    self._row(columns, i)
                except PictureError as error:
                    if self._refuses:
                        (at,) = places(unit, batch, [i])
                        raise SchemaError(f"{at}: {error}; --on-error skip leaves it out") from None
                    broken[i] = str(error)
            changed = replace(batch, columns={**batch.columns, **columns})
            if not broken:
                return changed
            sound = np.array([i for i in range(batch.rows) if i not in broken], np.int64)
            found = zip(places(unit, batch, list(broken)), broken.values(), strict=True)
            return chosen_rows(changed, sound, tuple(LeftOut(str(at), why) for at, why in found))

        return change

    def _changed_columns(self, batch: RawBatch) -> list[str]:
        sizes = [name for column in self._columns for name in self._sizes.get(column, ())]
        return [*self._columns, *(name for name in sizes if name in batch.columns)]

    def _row(self, columns: dict[str, list[Any]], i: int) -> None:
        for column in self._columns:
            data = columns[column][i]
            if data is None:
                continue
            columns[column][i], *size = self._change(bytes(data))
            for name, pixels in zip(self._sizes.get(column, ()), size, strict=False):
                if name in columns:
                    columns[name][i] = pixels
