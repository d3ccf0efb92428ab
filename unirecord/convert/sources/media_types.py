"""What a source says of values: types with a meaning; kinds of files, by name or first bytes; sizes of pictures."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...errors import SchemaError
from ...format.column import Column
from ...format.layout import file_kind
from ...format.logical import problem_of
from ...format.schema import Schema

__all__ = [
    "annotated",
    "boxes_type",
    "classes_problem",
    "classes_type",
    "file_type",
    "of_other_type",
    "ImageHeader",
    "MEDIA",
    "NotAnImageError",
    "PICTURES",
    "bytes_of",
    "media_type",
    "read_image_header",
]


# What sources say of a column beside its stored type: logical types and annotations, in the user's form.


def annotated(spec: Any, **said: Any) -> dict[str, Any]:
    """A type in the user's form with annotations more."""
    given = _described(spec)
    return {**given, "annotations": {**given.get("annotations", {}), **said}}


def file_type(media: str, stored: str = "bytes") -> dict[str, Any]:
    """The type of a column of files of this media type."""
    return {"type": stored, "logical": {"type": "media", "media": media}}


def boxes_type(form: str, **said: Any) -> dict[str, Any]:
    """The type of the boxes of a picture's objects, which says what their four numbers are."""
    boxes = {"type": "float64", "shape": [-1, 4], "logical": {"type": "boxes", "form": form}}
    return annotated(boxes, **said)


def classes_type(spec: Any, names: Sequence[str]) -> dict[str, Any]:
    """The type of labels with the names of their classes."""
    return {**_described(spec), "logical": {"type": "class", "names": list(names)}}


def classes_problem(spec: Any, names: Sequence[str]) -> str | None:
    """Why these cannot be the names of the classes of a column of this type; None where they can."""
    try:
        Schema.parse({"x": classes_type(spec, names)})
    except SchemaError as error:
        return str(error).removeprefix("column 'x': logical type class: ")
    return None


def of_other_type(spec: Any, found: Any) -> Any:
    """Another type that is asked for a column: what is known of its values stays, unless other things are said of them.

    Its logical type stays where it fits the other type.
    """
    of_it = _described(found.spec if isinstance(found, Column) else found)
    asked = _described(spec)
    known = {key: of_it[key] for key in ("logical", "annotations") if of_it.get(key)}
    if "logical" in known and "logical" not in asked:
        column = Schema.parse({"x": asked})["x"]
        if column.logical is not None:  # by a short form
            asked = _described(column.spec)
        elif problem_of(known["logical"], column.type, column.shape) is not None:
            del known["logical"]
    return {**known, **asked} if known else spec


def _described(spec: Any) -> dict[str, Any]:
    return dict(spec) if isinstance(spec, Mapping) else {"type": spec}


# What kind of file a value is, by the ending of its name: the logical type of a column of bytes.


PICTURES: Final = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), "image/jpeg"),
    **dict.fromkeys((".bmp", ".dib"), "image/bmp"),
    **dict.fromkeys((".tif", ".tiff"), "image/tiff"),
    ".png": "image/png",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_OTHERS: Final = {
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".wav": "audio/wav",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".pdf": "application/pdf",
}
MEDIA: Final = frozenset(_OTHERS)  # sound, films and pages


def media_type(name: str) -> str | None:
    """That of a file of this name; None where the ending says none."""
    ending = os.path.splitext(name)[1].lower()
    return PICTURES.get(ending) or _OTHERS.get(ending)


def bytes_of(files: Iterable[str]) -> dict[str, Any]:
    """The type of a column of these files: bytes, with their media type where the names say it (``image/*``)."""
    found = {media_type(path) or "" for path in files}
    if len(found) == 1:
        common = found.pop()
    else:
        kinds = {one.partition("/")[0] for one in found}
        common = f"{kinds.pop()}/*" if len(kinds) == 1 else ""
    return file_type(common) if common else {"type": "bytes"}


# Format, width and height of a picture from its first bytes, without decoding a pixel.


_JPEG_SEGMENTS: Final = 20_000  # before the frame header; real files have tens
_JPEG_FILL: Final = 65_536  # bytes between segments: fill, and strays, which libjpeg passes over

_Parser = Callable[[memoryview], tuple[int, int]]


class ImageHeader(NamedTuple):
    """What a picture's header says; ``width`` and ``height`` as stored, before any EXIF rotation."""

    format: str
    width: int
    height: int


class NotAnImageError(ValueError):
    """The bytes are no picture of a known format, or its header is damaged."""


def read_image_header(data: bytes | memoryview) -> ImageHeader:
    """Return the header of a PNG, JPEG, GIF, BMP, WebP or TIFF picture; `NotAnImageError` when there is none."""
    view = memoryview(data)
    start = bytes(view[:16])
    if not start:
        raise NotAnImageError("the file is empty")
    kind = file_kind(start)
    parse = None if kind is None else _PARSERS.get(kind.name)
    if kind is None or parse is None:
        raise NotAnImageError("its first bytes are those of no known picture format")
    return _checked(kind.name, parse, view)


def _checked(name: str, parse: _Parser, view: memoryview) -> ImageHeader:
    try:
        width, height = parse(view)
    except (struct.error, IndexError):
        raise NotAnImageError(f"the {name} header is cut off") from None
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31):
        raise NotAnImageError(f"the {name} header says {width} × {height} pixels")
    return ImageHeader(name, width, height)


def _png(view: memoryview) -> tuple[int, int]:
    if bytes(view[12:16]) != b"IHDR":
        raise NotAnImageError("the PNG header is damaged")
    width, height = struct.unpack_from(">II", view, 16)
    return width, height


def _gif(view: memoryview) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", view, 6)
    return width, height


def _bmp(view: memoryview) -> tuple[int, int]:
    (header_bytes,) = struct.unpack_from("<I", view, 14)
    if header_bytes == 12:
        width, height = struct.unpack_from("<HH", view, 18)
        return width, height
    width, height = struct.unpack_from("<ii", view, 18)
    return width, abs(height)  # negative: stored from the top


def _webp(view: memoryview) -> tuple[int, int]:
    kind = bytes(view[12:16])
    if kind == b"VP8 ":
        if bytes(view[23:26]) != b"\x9d\x01\x2a":
            raise NotAnImageError("the WebP header is damaged")
        width, height = struct.unpack_from("<HH", view, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", view, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        low_w, high_w, low_h, high_h = struct.unpack_from("<HBHB", view, 24)
        return (low_w | high_w << 16) + 1, (low_h | high_h << 16) + 1
    raise NotAnImageError("the WebP header is damaged")


def _jpeg(view: memoryview) -> tuple[int, int]:
    """Walk the segments to the frame header (SOF), which holds the size."""
    at, between = 2, 0
    for _ in range(_JPEG_SEGMENTS):
        at, passed = _next_marker(view, at, _JPEG_FILL - between)
        between += passed
        marker = view[at - 1]
        if marker in (0xD9, 0xDA):
            raise NotAnImageError("the JPEG file has no frame header before its pixels")
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            continue
        (length,) = struct.unpack_from(">H", view, at)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", view, at + 3)
            return width, height
        if length < 2:  # it counts its own two bytes
            break
        at += length
    raise NotAnImageError("the JPEG header is damaged")


def _next_marker(view: memoryview, at: int, most: int) -> tuple[int, int]:
    """Where the next marker ends, and how many bytes come before its code: fill (FF), or such as no segment has."""
    is_marked = False
    for place in range(at, at + most + 1):
        byte = view[place]
        if is_marked and byte not in (0, 0xFF):  # FF 00 is a pair of data, and no marker
            return place + 1, place - at
        is_marked = byte == 0xFF
    raise NotAnImageError("the JPEG header is damaged")


def _tiff(view: memoryview) -> tuple[int, int]:
    order = "<" if bytes(view[:2]) == b"II" else ">"
    (at,) = struct.unpack_from(order + "I", view, 4)
    (count,) = struct.unpack_from(order + "H", view, at)
    found: dict[int, int] = {}
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        tag, kind, values = struct.unpack_from(order + "HHI", view, entry)
        if tag in (256, 257) and kind in (3, 4) and values == 1:
            found[tag] = struct.unpack_from(order + ("H" if kind == 3 else "I"), view, entry + 8)[0]
    if len(found) < 2:
        raise NotAnImageError("the TIFF header has no width and height")
    return found[256], found[257]


_PARSERS: Final[dict[str, _Parser]] = {
    "PNG": _png, "JPEG": _jpeg, "GIF": _gif, "WebP": _webp, "BMP": _bmp, "TIFF": _tiff,
}  # fmt: skip
