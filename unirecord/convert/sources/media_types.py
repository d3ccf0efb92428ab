"""What kind of file a value is, by the ending of its name: the annotation ``media_type`` of a column of bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["MEDIA", "PICTURES", "annotated", "bytes_of", "media_type"]

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
    return annotated("bytes", media_type=common) if common else {"type": "bytes"}


def annotated(spec: Any, **said: Any) -> dict[str, Any]:
    """A type in the user's form with annotations more."""
    given = spec if isinstance(spec, dict) else {"type": spec}
    return {**given, "annotations": {**given.get("annotations", {}), **said}}
