"""`Decode`: stored pictures to pixels of one size, cropped, mirrored and normalised, each in its place in a batch."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..core import Locked, PicturePlacer
from ..errors import PictureError
from .operator import SkipSample
from .picture_decoders import DECODERS, choose_decoder, place_picture
from .picture_options import MOST_PIXELS, one_of, picture_options, result_shape, values_of

__all__ = ["Decode"]


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
        return _made, (self._given,)

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


def _made(given: dict[str, Any]) -> Decode:
    return Decode(**given)


def _fill_of(on_error: str | int, values: NDArray[Any] | None, layout: str) -> Any:
    """What stands where a picture is broken, in a shape that fits the result's."""
    if isinstance(on_error, (str, bool)) or not isinstance(on_error, int):
        return one_of("on_error", on_error, ("raise", "skip"))
    if not 0 <= on_error <= 255:
        raise ValueError(f"on_error={on_error!r}: must be 'raise', 'skip', or a value of pixels, 0 to 255")
    if values is None:
        return on_error
    return values[:, on_error, None, None] if layout == "chw" else values[:, on_error]
