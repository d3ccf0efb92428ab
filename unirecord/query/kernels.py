"""What a scan of a part is made of, and the test of strings that the C core makes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..binding import AND as AND
from ..binding import BITS as BITS
from ..binding import BYTES as BYTES
from ..binding import MASK as MASK
from ..binding import MASKS as MASKS
from ..binding import OR as OR
from ..binding import RANGE as RANGE
from ..binding import ROWS as ROWS
from ..binding import SET as SET
from ..binding import TABLE as TABLE
from ..binding import Program as Program
from ..binding import Step as Step
from ..binding import match_between, match_pattern
from .source import Array
from .text_tests import Between, Like


def match_strings(offsets: Array, data: Array, test: Between | Like) -> npt.NDArray[np.uint8]:
    """1 for each string that passes, else 0; the strings lie as in `source.Strings`."""
    if isinstance(test, Between):
        return match_between(offsets, data, test.low, test.high)
    return match_pattern(offsets, data, test.letters, test.kinds)
