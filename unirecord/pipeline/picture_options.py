"""The options of `Decode`, each obeyed or refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..core import PictureOptions

__all__ = ["MOST_PIXELS", "one_of", "picture_options", "result_shape", "values_of"]

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
