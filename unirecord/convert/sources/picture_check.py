"""Whether a picture can be decoded whole, by Pillow."""

from __future__ import annotations

import io
import warnings
from typing import Any

from ...errors import MissingError
from .folder_walk import UnreadableError

__all__ = ["check_picture", "require_pillow"]


def require_pillow() -> Any:
    """Return Pillow's ``Image`` module; `MissingError` says what to install."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingError(
            "--check-pictures decodes pictures with Pillow, which is not installed: pip install pillow"
        ) from None
    return Image


def check_picture(data: bytes) -> None:
    """Decode every frame; `UnreadableError` says why that fails."""
    image_module = require_pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with image_module.open(io.BytesIO(data)) as image:
                for frame in range(getattr(image, "n_frames", 1)):
                    image.seek(frame)
                    image.load()
    except MemoryError:
        raise
    except Exception as error:  # decoders raise whatever they like
        raise UnreadableError(f"it cannot be decoded: {error}") from None
