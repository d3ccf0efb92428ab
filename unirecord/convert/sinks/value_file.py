"""One value as a file of its own: pictures as pictures, text as text, arrays as .npy, objects as JSON."""

from __future__ import annotations

import io
import mimetypes
import re
from typing import Any, Final

import numpy as np

from ...format.file_kinds import file_kind
from ...format.values.objects import object_text

__all__ = ["encoded", "safe_name"]

_MEDIA_TYPES: Final = mimetypes.MimeTypes()  # those that Python knows, not the system
_MOST_NAME: Final = 100  # characters of a name that come from the data


def encoded(value: Any, media_type: object = None) -> tuple[bytes, str]:
    """The bytes to write for a value, and the ending of the file's name: by its first bytes, else by ``media_type``."""
    if isinstance(value, bytes):
        kind = file_kind(value)
        said = (
            _MEDIA_TYPES.guess_extension(media_type) if kind is None and isinstance(media_type, str) else None
        )
        return value, kind.suffix if kind is not None else said or ".bin"
    if isinstance(value, str):
        return value.encode(), ".txt"
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, value, allow_pickle=False)
        return buffer.getvalue(), ".npy"
    return object_text(value, bytes.hex).encode() + b"\n", ".json"


def safe_name(value: Any) -> str:
    """What of a value can stand in a file's name on any system."""
    last = re.split(r"[/\\]", "" if value is None else str(value))[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", last).strip("._-")[-_MOST_NAME:]
