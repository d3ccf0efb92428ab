"""Pictures in a pipeline: `Decode` and its options, and three decoders: libjpeg-turbo in C, simplejpeg, Pillow."""

from __future__ import annotations

import io
import math
import random
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..core import Locked, PictureOptions, PicturePlacer, Pixels, has_jpeg, read_jpeg_header
from ..errors import MissingError, PictureError
from .operators import SkipSample

__all__ = [
    "DECODERS",
    "Decode",
    "MOST_PIXELS",
    "choose_decoder",
    "eight_bits",
    "one_of",
    "open_picture",
    "orientation_of",
    "picture_options",
    "pillow",
    "place_picture",
    "result_shape",
    "values_of",
]


# The options of `Decode`, each obeyed or refused.


MOST_PIXELS: Final = 178_956_970  # where Pillow refuses: 512 MiB as RGB
_MOST_SIDE: Final = 65_535
_AREA: Final = (0.08, 1.0)  # what torchvision and the recipes for ImageNet take
_RATIO: Final = (3 / 4, 4 / 3)


def one_of(name: str, value: Any, known: Sequence[Any]) -> Any:
    """The value, if it is one of those known."""
    if not isinstance(value, (str, type(None))) or value not in known:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, known))}")
    return value


def result_shape(size: int | tuple[int, int], colours: str, layout: str) -> tuple[int, int, int]:
    """The shape of one result: [height, width, channels] or [channels, height, width]."""
    sides = size if isinstance(size, (tuple, list)) else (size, size)
    if len(sides) != 2 or not all(_is_side(side) for side in sides):
        raise ValueError(f"size={size!r}: must be a side or (height, width), each 1 to {_MOST_SIDE:,} pixels")
    channels = 3 if one_of("colours", colours, ("rgb", "grey")) == "rgb" else 1
    first = one_of("layout", layout, ("hwc", "chw")) == "chw"
    return (channels, sides[0], sides[1]) if first else (sides[0], sides[1], channels)


def _is_side(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_SIDE


def values_of(dtype: npt.DTypeLike, channels: int, mean: Any, std: Any) -> NDArray[Any] | None:
    """What stands for each 8-bit value of each channel, [channels, 256]; None where that is the value itself."""
    wanted = np.dtype(dtype)
    if wanted == np.uint8:
        if mean is not None or std is not None:
            raise ValueError(
                "mean= and std= go with dtype='float32' or 'float16': uint8 pixels stay as they are"
            )
        return None
    if wanted not in (np.float32, np.float16):
        raise ValueError(f"dtype={dtype!r}: must be uint8, float32 or float16")
    middle = _per_channel("mean", 0.0 if mean is None else mean, channels)
    spread = _per_channel("std", 1.0 if std is None else std, channels)
    if not (np.isfinite(middle).all() and np.isfinite(spread).all() and (spread > 0).all()):
        raise ValueError(f"mean={mean!r}, std={std!r}: must be finite, and std more than 0")
    with np.errstate(over="ignore"):
        values: NDArray[Any] = ((np.arange(256) / 255 - middle[:, None]) / spread[:, None]).astype(wanted)
    if not np.isfinite(values).all():
        raise ValueError(f"mean={mean!r}, std={std!r}: gives values that {wanted} does not hold")
    return values


def _per_channel(name: str, value: Any, channels: int) -> NDArray[np.float64]:
    given = np.asarray(value, np.float64)
    if given.shape not in ((), (channels,)):
        raise ValueError(f"{name}={value!r}: must be one number, or one for each of {channels} channels")
    return np.broadcast_to(given, (channels,))


def picture_options(
    shape: tuple[int, int, int],
    layout: str,
    values: NDArray[Any] | None,
    crop: str | None,
    fraction: float | None,
    scale: tuple[float, float] | None,
    ratio: tuple[float, float] | None,
    flip: float,
    orient: bool,
    exact: bool,
    allow_truncated: bool,
    max_pixels: int,
) -> PictureOptions:
    """Checks what belongs together, and fills in what was left out."""
    one_of("crop", crop, (None, "center", "random-resized"))
    if crop != "center" and fraction is not None:
        raise ValueError("fraction= goes with crop='center'")
    if crop != "random-resized" and (scale is not None or ratio is not None):
        raise ValueError("scale= and ratio= go with crop='random-resized'")
    for name, flag in (("orient", orient), ("exact", exact), ("allow_truncated", allow_truncated)):
        if not isinstance(flag, bool):
            raise ValueError(f"{name}={flag!r}: must be True or False")
    if isinstance(flip, bool):
        raise ValueError(f"flip={flip!r}: is a probability; 0.5 mirrors every other picture")
    if isinstance(max_pixels, bool) or not isinstance(max_pixels, int) or not 1 <= max_pixels < 1 << 63:
        raise ValueError(f"max_pixels={max_pixels!r}: must be a number of pixels, 1 or more")
    return PictureOptions(
        shape=shape,
        channels_first=layout == "chw",
        crop=crop,
        orient=orient,
        reduce=not exact,
        truncated=allow_truncated,
        fraction=_in_range("fraction", 1.0 if fraction is None else fraction, above=0.0, most=1.0),
        flip=_in_range("flip", flip, above=-1.0, least=0.0, most=1.0),
        area=_pair("scale", _AREA if scale is None else scale, 1.0),
        ratio=_pair("ratio", _RATIO if ratio is None else ratio, 1e6),
        most_pixels=max_pixels,
        values=values,
    )


def _in_range(name: str, value: float, above: float, most: float, least: float = -math.inf) -> float:
    if not isinstance(value, (int, float)) or not (above < value <= most and value >= least):
        kind = f"more than {above:g}" if least == -math.inf else f"{least:g} or more"
        raise ValueError(f"{name}={value!r}: must be {kind}, and at most {most:g}")
    return float(value)


def _pair(name: str, value: tuple[float, float], most: float) -> tuple[float, float]:
    if len(value) != 2 or not 0 < value[0] <= value[1] <= most:
        raise ValueError(f"{name}={value!r}: must be (least, most), more than 0 and at most {most:g}")
    return float(value[0]), float(value[1])


# Three ways from stored bytes to a picture in its place: libjpeg-turbo in C, simplejpeg, Pillow.


Bytes = NDArray[np.uint8]
PlacePicture = Callable[[PicturePlacer, int, Bytes, NDArray[Any], int], None]
_Decode = Callable[[Bytes, int, int, int, int], Bytes]

_JPEG: Final = b"\xff\xd8\xff"
_END_OF_IMAGE: Final = np.frombuffer(b"\xff\xd9", np.uint8)
_ORIENTATION: Final = 274  # the EXIF tag
_INKS: Final = 4  # components of CMYK


def _libjpeg(placer: PicturePlacer, channels: int, data: Bytes, out: NDArray[Any], key: int) -> None:
    placer.place_jpeg(data, out, key)


def _whole(decode: _Decode) -> PlacePicture:
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


DECODERS: Final[dict[str, PlacePicture]] = {
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
    jpeg: PlacePicture, placer: PicturePlacer, channels: int, data: Bytes, out: NDArray[Any], key: int
) -> None:
    """Decodes by what the first bytes say: JPEG by ``jpeg``, all else by Pillow."""
    if not data.size:
        raise PictureError("it is null or empty")
    decode = jpeg if data[:3].tobytes() == _JPEG else _place_by_pillow
    decode(placer, channels, data, out, key)


# `Decode`: stored pictures to pixels of one size, cropped, mirrored and normalised, each in its place in a batch.


class Decode:
    """Decodes a picture, takes a crop of it, and resizes that, bilinear and antialiased, to ``size``.

    An operator for `pipeline.map(decode, columns=["image"])`, which writes into the batch, and a function:
    ``decode(bytes)`` is an array. JPEG is decoded in C by libjpeg-turbo without the GIL, only as far as the crop needs,
    where the package was built with it; else by simplejpeg or Pillow. PNG, WebP, GIF (the first frame) and the rest by
    Pillow.

    Args:
        size: of the result, a side or (height, width).
        crop: None: the whole picture, squeezed to ``size``. ``"center"``: the middle. ``"random-resized"``: a random
            piece, as torchvision's RandomResizedCrop takes it.
        flip: probability of mirroring left to right.
        fraction: of ``"center"``: the sides, of the largest rectangle with the shape of ``size``; 1.0 unless given.
        scale: of ``"random-resized"``: (least, most) area, of the picture's; (0.08, 1.0) unless given.
        ratio: of ``"random-resized"``: (least, most) width to height; (3/4, 4/3) unless given.
        colours: ``"rgb"`` or ``"grey"``. Grey pictures have equal channels, inks (CMYK) are mixed as Pillow does,
            values of 16 bits keep their high byte, alpha is dropped.
        dtype: uint8; or float32 or float16, which are (pixel / 255 - ``mean``) / ``std``.
        mean: one number, or one for each channel; 0 unless given.
        std: likewise; 1 unless given.
        layout: ``"hwc"`` or ``"chw"``.
        orient: turn the picture as its EXIF orientation says.
        on_error: what a broken picture is: ``"raise"``, ``"skip"`` (raises SkipSample, by which a pipeline leaves the
            sample out), or a number 0 to 255 to fill its place with; counted in ``broken``, and the first is warned of.
        exact: decode every pixel; else JPEG is decoded at 1/2, 1/4 or 1/8 where the crop stays as large as ``size``.
        allow_truncated: decode a JPEG that is cut off, grey where it is missing, instead of taking it as broken.
        max_pixels: a picture with more is broken; told from its header, before memory is taken.
        decoder: of JPEG: ``"libjpeg"``, ``"simplejpeg"``, ``"pillow"``, or ``"auto"``, the first that is there.

    Raises:
        ValueError: options that are out of range, or do not go together.
        MissingError: the decoder is not installed.
    """

    def __init__(
        self,
        size: int | tuple[int, int],
        crop: str | None = None,
        *,
        flip: float = 0.0,
        fraction: float | None = None,
        scale: tuple[float, float] | None = None,
        ratio: tuple[float, float] | None = None,
        colours: str = "rgb",
        dtype: npt.DTypeLike = np.uint8,
        mean: Any = None,
        std: Any = None,
        layout: str = "hwc",
        orient: bool = False,
        on_error: str | int = "raise",
        exact: bool = False,
        allow_truncated: bool = False,
        max_pixels: int = MOST_PIXELS,
        decoder: str = "auto",
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        self.shape: tuple[int, int, int] = result_shape(size, colours, layout)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._channels = self.shape[0 if layout == "chw" else 2]
        values = values_of(dtype, self._channels, mean, std)
        options = picture_options(
            self.shape,
            layout,
            values,
            crop,
            fraction,
            scale,
            ratio,
            flip,
            orient,
            exact,
            allow_truncated,
            max_pixels,
        )
        self.random: bool = crop == "random-resized" or 0 < flip < 1
        self._fill = _fill_of(on_error, values, layout)
        self._on_error = on_error if isinstance(on_error, str) else "fill"
        self.decoder: str = choose_decoder(one_of("decoder", decoder, ("auto", *DECODERS)))
        self._given = given
        self._placer = PicturePlacer(options)
        self._counting = Locked()
        self._broken = 0

    @property
    def broken(self) -> int:
        """Pictures that could not be decoded, in this process."""
        return self._broken

    def into(self, cell: NDArray[np.uint8], out: NDArray[Any], key: int) -> str | None:
        """Writes the picture whose stored bytes are ``cell`` into ``out``, C-contiguous, of ``dtype`` and ``shape``.

        ``key`` (64 bits) decides crop and flip, in the same way for each decoder. Any thread may call it at any time.
        Returns what is wrong with a picture that is filled in for, else None.
        """
        if not self._fits(out):
            raise ValueError(
                f"out must be C-contiguous {self.dtype}{list(self.shape)}, not {out.dtype}{list(out.shape)}"
            )
        try:
            place_picture(DECODERS[self.decoder], self._placer, self._channels, cell, out, key)
        except PictureError as error:
            self._count(error)
            if self._on_error == "raise":
                raise
            if self._on_error == "skip":
                raise SkipSample(str(error)) from error
            out[...] = self._fill
            return str(error)
        return None

    def into_each(
        self, cells: Sequence[NDArray[np.uint8]], outs: Sequence[NDArray[Any]], keys: Sequence[int]
    ) -> Sequence[int]:
        """Writes several pictures in one call; the numbers of those that are left to ``into``.

        Those are what is no JPEG, what is broken, and all where libjpeg-turbo was not built in.
        """
        if self.decoder != "libjpeg" or not all(map(self._fits, outs)):
            return range(len(cells))
        return self._placer.place_jpegs(cells, outs, keys)

    def _fits(self, out: NDArray[Any]) -> bool:
        return out.shape == self.shape and out.dtype == self.dtype and out.flags.c_contiguous

    def __call__(
        self, picture: bytes | memoryview | NDArray[np.uint8] | None, key: int | None = None
    ) -> NDArray[Any]:
        """Returns the picture as an array of its own; without a ``key``, one is drawn from Python's ``random``.

        None, the null of a column ``"bytes?"``, is a broken picture.
        """
        out = np.empty(self.shape, self.dtype)
        if key is None:
            key = random.getrandbits(64) if self.random else 0
        self.into(np.frombuffer(b"" if picture is None else picture, np.uint8), out, key)
        return out

    def __reduce__(self) -> Any:
        return partial(Decode, **self._given), ()

    def __repr__(self) -> str:
        size = self._given["size"]
        shown = {name: value for name, value in self._given.items() if value is not None and name != "size"}
        return f"Decode({size!r}, " + ", ".join(f"{name}={value!r}" for name, value in shown.items()) + ")"

    def _count(self, error: PictureError) -> None:
        with self._counting.lock:
            self._broken += 1
            first = self._broken == 1
        if first and self._on_error != "raise":
            what = "left out" if self._on_error == "skip" else f"filled with {self._given['on_error']}"
            warnings.warn(
                f"a picture that cannot be decoded is {what}, and so are all such: {error}", stacklevel=4
            )


def _fill_of(on_error: str | int, values: NDArray[Any] | None, layout: str) -> Any:
    """What stands where a picture is broken, in a shape that fits the result's."""
    if isinstance(on_error, (str, bool)) or not isinstance(on_error, int):
        return one_of("on_error", on_error, ("raise", "skip"))
    if not 0 <= on_error <= 255:
        raise ValueError(f"on_error={on_error!r}: must be 'raise', 'skip', or a value of pixels, 0 to 255")
    if values is None:
        return on_error
    return values[:, on_error, None, None] if layout == "chw" else values[:, on_error]
