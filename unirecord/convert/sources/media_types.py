"""What kind of file a value is, by the ending of its name: the annotation ``media_type`` of a column of bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["PICTURES", "annotated", "bytes_of", "media_type"]

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


def media_type(name: str) -> str | None:
    """That of a file of this name; None where the ending says none."""
    ending = os.path.splitext(name)[1].lower()
    return PICTURES.get(ending) or _OTHERS.get(ending)


def bytes_of(pictures: Iterable[str]) -> dict[str, Any]:
    """The type of a column of these pictures: bytes with the media type of all by their names, or ``image/*``."""
    found = {media_type(path) for path in pictures}
    one = found.pop() if len(found) == 1 else None
    return annotated("bytes", media_type=one or "image/*")


def annotated(spec: Any, **said: Any) -> dict[str, Any]:
    """A type in the user's form with annotations more."""
    given = spec if isinstance(spec, dict) else {"type": spec}
    return {**given, "annotations": {**given.get("annotations", {}), **said}}
