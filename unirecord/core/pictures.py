"""Pictures in the C core: what a JPEG's header says, which piece is shown, and how it comes to its place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import PictureError
from .library import Handle, buffer_of, ffi, lib, raise_refused

Bytes = npt.NDArray[np.uint8]

FILTERS: Final = {"bilinear": lib.UR_FILTER_TRIANGLE, "bicubic": lib.UR_FILTER_CUBIC}
CROPS: Final = {None: lib.UR_CROP_NONE, "center": lib.UR_CROP_CENTER, "random-resized": lib.UR_CROP_RANDOM}

_fail = partial(raise_refused, kinds={lib.UR_ARGUMENT: ValueError}, other=PictureError)


class PictureOptions(NamedTuple):
    """What becomes of a picture, in the terms of csrc/unirecord.h; ``shape`` is that of the result.

    ``values`` has what to write for each 8-bit value of each channel: [channels, 256]; None: uint8 as it is.
    ``filter`` is one of `FILTERS`.
    """

    shape: tuple[int, int, int]
    channels_first: bool
    crop: str | None
    orient: bool
    reduce: bool
    truncated: bool
    fraction: float
    flip: float
    area: tuple[float, float]
    ratio: tuple[float, float]
    most_pixels: int
    values: npt.NDArray[Any] | None
    filter: str = "bilinear"


class JpegHeader(NamedTuple):
    """Size as stored; the EXIF orientation, 1 to 8; whether the end of the picture is there."""

    width: int
    height: int
    components: int
    orientation: int
    complete: bool


class Pixels(NamedTuple):
    """Decoded pixels of a whole picture, uint8 [h, w] (grey) or [h, w, 3], at one ``reduction``th of its size."""

    array: Bytes
    reduction: int = 1


class PicturePlacer:
    """The core's functions with the options of one operator; any thread may call them at any time."""

    orients: bool
    takes_truncated: bool

    def __init__(self, options: PictureOptions) -> None:
        self._values = None if options.values is None else np.ascontiguousarray(options.values)
        self.orients, self.takes_truncated = options.orient, options.truncated
        self._options = native = ffi.new("ur_picture_options *")
        value = 1 if self._values is None else self._values.dtype.itemsize
        if options.channels_first:
            channels, height, width = options.shape
            native.row_step, native.pixel_step, native.channel_step = (
                width * value,
                value,
                height * width * value,
            )
        else:
            height, width, channels = options.shape
            native.row_step, native.pixel_step, native.channel_step = (
                width * channels * value,
                channels * value,
                value,
            )
        native.width, native.height, native.channels, native.value_bytes = width, height, channels, value
        native.crop, native.orient = CROPS[options.crop], options.orient
        native.reduce, native.truncated = options.reduce, options.truncated
        native.filter = FILTERS[options.filter]
        native.fraction, native.flip, native.most_pixels = options.fraction, options.flip, options.most_pixels
        native.least_area, native.most_area = options.area
        native.least_ratio, native.most_ratio = options.ratio
        if self._values is not None:
            native.values = ffi.from_buffer("uint8_t[]", self._values)

    def crop(self, width: int, height: int, orientation: int, key: int) -> Any:
        """The piece of a picture that is shown, for `place`; ``reduction`` is how much smaller a JPEG may be."""
        found, error = ffi.new("ur_crop *"), ffi.new("ur_error *")
        if lib.ur_picture_crop(self._options, width, height, orientation, key, found, error):
            _fail(error)
        return found

    def place(self, crop: Any, pixels: Pixels, out: npt.NDArray[Any]) -> None:
        """Resizes the crop into ``out``, which has the shape and dtype of the options; others run meanwhile."""
        array = np.ascontiguousarray(pixels.array)
        native, error = ffi.new("ur_pixels *"), ffi.new("ur_error *")
        native.data = data = ffi.from_buffer("uint8_t[]", array)
        native.height, native.width = array.shape[:2]
        native.channels = array.shape[2] if array.ndim == 3 else 1
        native.row_step, native.reduction = array.strides[0], pixels.reduction
        if lib.ur_picture_place(self._options, crop, native, ffi.from_buffer("uint8_t[]", out, True), error):
            _fail(error)
        del data

    def place_jpeg(self, data: Bytes, out: npt.NDArray[Any], key: int) -> None:
        """Decodes and resizes by libjpeg-turbo, where the core has it; others run meanwhile."""
        unit = _jpeg_unit()
        decoder, error = unit.take(), ffi.new("ur_error *")
        failed = unit.lib.ur_jpeg_place(
            decoder.pointer,
            ffi.from_buffer("uint8_t[]", buffer_of(data)),
            len(data),
            self._options,
            key,
            ffi.from_buffer("uint8_t[]", out, True),
            error,
        )
        unit.idle.append(decoder)
        if failed:
            _fail(error)

    def place_jpegs(
        self, cells: Sequence[Bytes], outs: Sequence[npt.NDArray[Any]], keys: Sequence[int]
    ) -> list[int]:
        """`place_jpeg` for several in one call; the numbers of those that failed, of which it says why."""
        unit = _jpeg_unit()
        count = len(cells)
        tasks = unit.ffi.new("ur_jpeg_task[]", count)
        held = []
        for task, cell, out, key in zip(tasks, cells, outs, keys, strict=True):
            data, place = (
                ffi.from_buffer("uint8_t[]", buffer_of(cell)),
                ffi.from_buffer("uint8_t[]", out, True),
            )
            task.data, task.bytes, task.key, task.out = data, len(cell), key, place
            held.append((data, place))
        decoder = unit.take()
        failed = unit.lib.ur_jpeg_place_each(decoder.pointer, tasks, count, self._options)
        unit.idle.append(decoder)
        return [number for number in range(count) if tasks[number].status] if failed else []


def read_jpeg_header(data: Bytes) -> JpegHeader:
    """Raises `PictureError` for what cannot be decoded, or claims to be larger than its bytes can hold."""
    header, error = ffi.new("ur_jpeg_header *"), ffi.new("ur_error *")
    if lib.ur_jpeg_read_header(ffi.from_buffer("uint8_t[]", buffer_of(data)), len(data), header, error):
        _fail(error)
    return JpegHeader(
        header.width, header.height, header.components, header.orientation, bool(header.complete)
    )


def has_jpeg() -> bool:
    """Whether the optional unit was built, and libjpeg-turbo can be loaded."""
    try:
        _jpeg_unit()
    except ImportError:
        return False
    return True


class _JpegUnit:
    """The optional unit, and the decoders that nobody uses: as many as have ever been used at once."""

    def __init__(self) -> None:
        from .. import _jpeg

        self.lib, self.ffi = _jpeg.lib, _jpeg.ffi
        self.idle: list[Handle] = []

    def take(self) -> Handle:
        try:
            return self.idle.pop()
        except IndexError:
            pass
        found, error = self.ffi.new("ur_jpeg **"), ffi.new("ur_error *")
        if self.lib.ur_jpeg_new(found, error):
            _fail(error)
        return Handle(found[0], self.lib.ur_jpeg_release)


_jpeg_unit = cache(_JpegUnit)
