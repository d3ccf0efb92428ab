"""Cells of rows: as the examples that pages show, and as files of their own."""

from __future__ import annotations

import base64
import importlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..convert.sinks.sink import encoded, safe_name
from ..convert.sources.media_types import NotAnImageError, read_image_header
from ..errors import ColumnError, CorruptionError, ExistsError, SchemaError
from ..format.layout import file_kind
from ..format.values.objects import object_text
from ..loading.batch import SampleReader
from ..query.columns import value_bytes
from ..sizes import format_size
from ..snapshot.part_set import PartSet
from ..storage import local as store

__all__ = [
    "Example",
    "MOST_BYTES",
    "Picture",
    "cells_of_row",
    "cut",
    "described",
    "example",
    "is_drawn",
    "is_picture",
    "samples_of",
    "short",
    "small_picture",
]


# One row for somebody to look at: values that are too large or damaged are said in words, not read or raised.


MOST_BYTES: Final = 1 << 24  # of a value that is read to be looked at


def cells_of_row(parts: PartSet, names: Sequence[str], row: int) -> dict[str, Any]:
    """The values of these columns in a row, by name, and what is said in place of some; times and classes as text."""
    return {name: _cell(parts, parts.schema.ordinal(name), row) for name in names}


def _cell(parts: PartSet, ordinal: int, row: int) -> Any:
    column = parts.schema[ordinal]
    size = column.fixed_bytes
    if not size and column.is_blob:
        size = int(value_bytes(parts, ordinal, np.array([row], np.int64))[0])
    if size > MOST_BYTES:
        return f"({format_size(size)}, not shown)"
    try:
        return column.shown(SampleReader(parts, [(ordinal, column)]).one(row)[column.name])
    except CorruptionError as error:
        return f"(damaged: {error})"
    except ColumnError as error:
        return f"(not shown: {error})"


_SIDE: Final = 128  # pixels of a thumbnail's longer side
_MOST_TEXT: Final = 400
_MOST_PIXELS: Final = 1 << 26  # of a picture that is made smaller; a larger one is described
_MOST_LINE: Final = 1 << 20  # elements of an array that is looked at for a line
_LINE_POINTS: Final = 200
_SHORT: Final = 60  # characters
_CHANNELS: Final = (1, 3)
_FEW_CLASSES: Final = 32


def is_drawn(value: object) -> bool:
    """Whether this is a picture, or an array that is drawn as one."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf" and 0 < value.size <= _MOST_LINE and _is_raster(value)
    return is_picture(value)


def is_picture(value: object) -> bool:
    """Whether these are the bytes of a picture."""
    kind = file_kind(value) if isinstance(value, bytes) else None
    return kind is not None and kind.is_picture


class Picture(NamedTuple):
    """A picture that is a part of a page: its address, which holds it, and its width and height in pixels."""

    source: str
    width: int
    height: int


class Example(NamedTuple):
    """A value as a page shows it: a picture, or a line through numbers, else its text.

    The text is ``soft`` where it says what the value is like, and is not the value itself.
    """

    text: str
    soft: bool = False
    picture: Picture | None = None
    line: list[float] | None = None


def example(value: Any, drawn: bool = True) -> Example:
    """One value; what cannot be shown is described, and pictures and arrays unless they are to be ``drawn``."""
    if value is None:
        return Example("null", soft=True)
    if isinstance(value, bytes):
        return Example(described(value), True, _picture(value) if drawn else None)
    if isinstance(value, np.ndarray):
        return _array(value, drawn)
    if isinstance(value, float | np.floating):
        return Example(f"{value:.6g}")
    if isinstance(value, list) and any(isinstance(one, np.ndarray) for one in value):
        return Example(cut("; ".join(example(one, False).text for one in value)), soft=True)
    if isinstance(value, dict | list):
        return Example(cut(object_text(value, lambda blob: format_size(len(blob)))))
    return Example(cut(str(value)))


def short(value: object) -> str:
    """A value of an index in a few characters; nothing for none."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def cut(text: str, most: int = _MOST_TEXT) -> str:
    """A text, or so many characters of it, and how many it has."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def described(value: bytes) -> str:
    """What kind of file it is, a picture's size in pixels, and its bytes."""
    size = format_size(len(value))
    try:
        header = read_image_header(value)
    except NotAnImageError:
        kind = file_kind(value)
        return size if kind is None else f"{kind.name}, {size}"
    return f"{header.format} {header.width}×{header.height}, {size}"


def small_picture(value: object, side: int = _SIDE) -> tuple[bytes, int, int] | None:
    """A JPEG of a picture, at most ``side`` pixels wide and high, upright by its EXIF tag, its width and its height.

    Pillow makes it, of an array that is drawn as well; None for what is no picture, is too large or damaged, or
    without Pillow.
    """
    if isinstance(value, np.ndarray):
        return _raster(value, side) if is_drawn(value) else None
    if not isinstance(value, bytes) or not is_picture(value):
        return None
    try:
        header = read_image_header(value)
        if header.width * header.height > _MOST_PIXELS:
            return None
        image = importlib.import_module("PIL.Image").open(io.BytesIO(value))
        image.draft("RGB", (side, side))
        image = importlib.import_module("PIL.ImageOps").exif_transpose(image).convert("RGB")
        image.thumbnail((side, side))
    except Exception:  # whatever a decoder makes of bytes that somebody else wrote
        return None
    return _jpeg(image)


def _jpeg(image: Any) -> tuple[bytes, int, int]:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    return buffer.getvalue(), image.width, image.height


def _picture(value: object) -> Picture | None:
    small = small_picture(value)
    return small and Picture("data:image/jpeg;base64," + base64.b64encode(small[0]).decode(), *small[1:])


def _array(value: np.ndarray[Any, Any], drawn: bool) -> Example:
    says = f"{value.dtype} {'×'.join(map(str, value.shape))}"
    numbers = value.dtype.kind in "biuf" and 0 < value.size <= _MOST_LINE
    if numbers and value.ndim == 1 and value.size <= 8:
        return Example(", ".join("null" if one is None else f"{one:.6g}" for one in value.tolist()))
    if numbers and drawn and value.ndim == 1:
        finite = value[np.isfinite(value)].astype(np.float64)
        count = min(len(finite), _LINE_POINTS)
        # of many, evenly spaced ones
        if count:
            return Example(says, True, None, finite[np.arange(count) * len(finite) // count].tolist())
    return Example(says, True, _picture(value) if drawn else None)


def _is_raster(value: np.ndarray[Any, Any]) -> bool:
    return min(value.shape[:2]) >= 4 and (
        value.ndim == 2 or (value.ndim == 3 and value.shape[2] in _CHANNELS)
    )


def _raster(value: np.ndarray[Any, Any], side: int) -> tuple[bytes, int, int] | None:
    """An array of rows and columns as a picture, its least value black and its greatest white; with Pillow.

    Of uint8, 0 is black and 255 white, but where no value reaches 32: these are a mask, or numbers of classes.
    """
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError:
        return None
    step = max(1, -(-max(value.shape[:2]) // (4 * side)))
    small = value[::step, ::step].astype(np.float64)
    small = np.nan_to_num(small, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(small.min()), float(small.max())
    if value.dtype == np.uint8 and high >= _FEW_CLASSES:
        low, high = 0.0, 255.0
    grey = ((small - low) * (255.0 / ((high - low) or 1.0))).astype(np.uint8)
    image = pillow.fromarray(grey[:, :, 0] if grey.ndim == 3 and grey.shape[2] == 1 else grey)
    image.thumbnail((side, side))
    return _jpeg(image.convert("RGB"))


# Writes the blobs of rows to files: pictures as pictures, text as text, arrays as .npy, objects as JSON.


_BATCH: Final = 32  # rows


@dataclass
class Extracted:
    """What was written where."""

    folder: str
    files: int = 0
    bytes: int = 0
    nulls: int = 0


def extract(
    parts: PartSet, rows: NDArray[np.int64], column: str, folder: str, name_column: str | None = None
) -> Extracted:
    """Writes ``column`` of each row to ``folder``, made if need be, as ROW.EXT or ROW-NAME.EXT.

    A null has no file, and is counted. The row's number makes names differ; of ``name_column``'s value only letters,
    digits and ``._-`` of its last path component are kept, so no value can lead out of the folder. ExistsError before
    anything that is there is replaced.
    """
    ordinals = [_ordinal(parts, column, blob=True)]
    if name_column is not None:
        ordinals.append(_ordinal(parts, name_column, blob=False))
    reader = SampleReader(parts, [(ordinal, parts.schema[ordinal]) for ordinal in ordinals])
    store.make_directory(folder)
    done = Extracted(folder)
    digits = max(len(str(max(parts.rows - 1, 0))), 6)
    for row, sample in samples_of(reader, rows):
        if sample[column] is None and parts.schema[column].nullable:
            done.nulls += 1
            continue
        data, suffix = encoded(sample[column], parts.schema[column].media_type)
        label = "" if name_column is None else safe_name(sample[name_column])
        stem = f"{row:0{digits}d}" + (f"-{label}" if label else "")
        path = os.path.join(folder, stem if stem.lower().endswith(suffix) else stem + suffix)
        try:
            store.write_new(path, data)
        except FileExistsError:
            raise ExistsError(f"{path} exists already; give another --out, or remove it") from None
        done.files += 1
        done.bytes += len(data)
    return done


def _ordinal(parts: PartSet, name: str, blob: bool) -> int:
    ordinal = parts.schema.ordinal(name)
    if parts.schema[ordinal].is_blob != blob:
        kind = "scalar: `--csv --columns` prints it" if blob else "no scalar column, which a name is made of"
        raise SchemaError(f"column {name!r} is {kind}")
    return ordinal


def samples_of(reader: SampleReader, rows: NDArray[np.int64]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows' numbers and samples, read some at a time."""
    for start in range(0, len(rows), _BATCH):
        batch = np.ascontiguousarray(rows[start : start + _BATCH], np.int64)
        yield from zip(batch.tolist(), reader.many(batch), strict=True)
