"""Three ways from stored bytes to a picture in its place: libjpeg-turbo in C, simplejpeg, Pillow."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..core import PicturePlacer, Pixels, has_jpeg, read_jpeg_header
from ..errors import MissingError, PictureError

__all__ = [
    "DECODERS",
    "choose_decoder",
    "eight_bits",
    "open_picture",
    "orientation_of",
    "pillow",
    "place_picture",
]

Bytes = NDArray[np.uint8]
Place = Callable[[PicturePlacer, int, Bytes, NDArray[Any], int], None]
_Decode = Callable[[Bytes, int, int, int, int], Bytes]

_JPEG: Final = b"\xff\xd8\xff"
_END_OF_IMAGE: Final = np.frombuffer(b"\xff\xd9", np.uint8)
_ORIENTATION: Final = 274  # the EXIF tag
_INKS: Final = 4  # components of CMYK


def _libjpeg(placer: PicturePlacer, channels: int, data: Bytes, out: NDArray[Any], key: int) -> None:
    placer.place_jpeg(data, out, key)


def _whole(decode: _Decode) -> Place:
    """Places what a library decodes whole, at the scale that the crop allows."""

    def place(placer: PicturePlacer, channels: int, data: Bytes, out: NDArray[Any], key: int) -> None:
        header = read_jpeg_header(data)
        if not header.complete:
            if not placer.takes_truncated:
                raise PictureError(f"the JPEG of {header.width} × {header.height} pixels is cut off")
            data = np.concatenate([data, _END_OF_IMAGE])
        crop = placer.crop(header.width, header.height, header.orientation, key)
        by = _decode_by_pillow if header.components == _INKS else decode
        pixels = by(data, channels, crop.reduction, header.width, header.height)
        placer.place(crop, Pixels(pixels, crop.reduction), out)

    return place


def _decode_by_simplejpeg(data: Bytes, channels: int, reduction: int, width: int, height: int) -> Bytes:
    import simplejpeg

    high, wide = -(-height // reduction), -(-width // reduction)
    colours = "RGB" if channels == 3 else "GRAY"
    try:
        pixels: Bytes = simplejpeg.decode_jpeg(data, colours, min_height=high, min_width=wide, strict=False)
    except ValueError as error:
        raise PictureError(f"simplejpeg: {error}") from None
    if pixels.shape[:2] != (high, wide):
        raise PictureError(f"simplejpeg decoded {pixels.shape[:2]} pixels, expected {(high, wide)}")
    return pixels[..., 0] if channels == 1 else pixels


def _decode_by_pillow(data: Bytes, channels: int, reduction: int, width: int, height: int) -> Bytes:
    try:
        with pillow().open(io.BytesIO(data), formats=["JPEG"]) as image:
            if image.size != (width, height):
                raise PictureError("the JPEG's segments contradict each other")
            image.draft("RGB" if channels == 3 else "L", (width // reduction, height // reduction))
            return eight_bits(image, channels)
    except (MemoryError, PictureError):
        raise
    except Exception as error:  # decoders raise whatever they like
        raise PictureError(f"Pillow: {error}") from None


def _place_by_pillow(placer: PicturePlacer, channels: int, data: Bytes, out: NDArray[Any], key: int) -> None:
    """Any format but JPEG: the first frame."""
    try:
        with open_picture(data) as image:
            orientation = orientation_of(image) if placer.orients else 1
            crop = placer.crop(image.width, image.height, orientation, key)
            pixels = eight_bits(image, channels)
    except (MemoryError, MissingError, PictureError):
        raise
    except Exception as error:  # decoders raise whatever they like
        raise PictureError(f"Pillow: {error}") from None
    placer.place(crop, Pixels(pixels), out)


def open_picture(data: Bytes | bytes) -> Any:
    """Stored bytes as a Pillow picture; `PictureError` says how they begin when Pillow knows no such kind."""
    image = pillow()
    try:
        return image.open(io.BytesIO(data))
    except image.UnidentifiedImageError:
        start = bytes(data[:12])
        raise PictureError(
            f"it cannot be decoded: Pillow knows no kind of picture that begins with {start!r}"
        ) from None


def orientation_of(image: Any) -> int:
    """What the EXIF data of a Pillow picture say, 1 to 8; 1 where they say nothing."""
    found = image.getexif().get(_ORIENTATION)
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def eight_bits(image: Any, channels: int) -> Bytes:
    """Values of 16 bits keep their high byte; alpha is dropped; palettes and inks become light."""
    if image.mode.startswith("I"):
        wide = np.asarray(image)
        if wide.size and not 0 <= int(wide.min()) <= int(wide.max()) <= 65_535:
            raise PictureError("its values do not fit 16 bits, and no range is known to map to 8")
        return (wide >> 8).astype(np.uint8)
    if image.mode == "F":
        raise PictureError("its values are floats, and no range is known to map to 8 bits")
    grey = channels == 1 or image.mode in ("1", "L", "LA", "La")
    return np.asarray(image.convert("L" if grey else "RGB"))


def pillow() -> Any:
    """Pillow's ``Image`` module; `MissingError` says what to install."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingError(
            "this picture is decoded by Pillow, which is not installed: pip install 'unirecord[images]'"
        ) from None
    return Image


DECODERS: Final[dict[str, Place]] = {
    "libjpeg": _libjpeg,
    "simplejpeg": _whole(_decode_by_simplejpeg),
    "pillow": _whole(_decode_by_pillow),
}
_NEEDS: Final = {"simplejpeg": "simplejpeg", "pillow": "PIL.Image"}


def choose_decoder(asked: str) -> str:
    """The decoder of JPEG that was asked for, or the fastest that is there; `MissingError` says what to install."""
    for name in DECODERS if asked == "auto" else [asked]:
        if has_jpeg() if name == "libjpeg" else _can_import(_NEEDS[name]):
            return name
    if asked == "libjpeg":
        raise MissingError(
            "decoder='libjpeg': this installation was built without libjpeg-turbo; leave the option out, or build it "
            "where libjpeg-turbo's headers are (Debian: libjpeg62-turbo-dev)"
        )
    raise MissingError(f"decoder={asked!r} is not installed: pip install 'unirecord[images]'")


def _can_import(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def place_picture(
    jpeg: Place, placer: PicturePlacer, channels: int, data: Bytes, out: NDArray[Any], key: int
) -> None:
    """Decodes by what the first bytes say: JPEG by ``jpeg``, all else by Pillow."""
    if not data.size:
        raise PictureError("it is null or empty")
    decode = jpeg if data[:3].tobytes() == _JPEG else _place_by_pillow
    decode(placer, channels, data, out, key)
