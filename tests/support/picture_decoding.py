"""Decoders of pictures and what they are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unirecord.core import has_jpeg

DECODERS = ["libjpeg", "simplejpeg", "pillow"] if has_jpeg() else ["simplejpeg", "pillow"]

SAME = 2  # levels of 255 between decoders: versions of libjpeg-turbo round differently


def distance(a: NDArray[Any], b: NDArray[Any]) -> int:
    return int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max())
