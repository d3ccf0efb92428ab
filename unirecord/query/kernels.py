"""What a scan of a part is made of, and the test of strings that the C core makes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..columns.flat import Array
from ..core import AND as AND
from ..core import BITS as BITS
from ..core import BYTES as BYTES
from ..core import MASK as MASK
from ..core import MASKS as MASKS
from ..core import NUMBER_DEPTH as NUMBER_DEPTH
from ..core import NUMBERS as NUMBERS
from ..core import OR as OR
from ..core import RANGE as RANGE
from ..core import ROWS as ROWS
from ..core import SET as SET
from ..core import TABLE as TABLE
from ..core import NumberOp as NumberOp
from ..core import NumberStep as NumberStep
from ..core import Program as Program
from ..core import Step as Step
from ..core import match_between, match_pattern
from ..core import take_marked as take_marked
from .text_tests import Between, Like


def match_strings(offsets: Array, data: Array, test: Between | Like) -> npt.NDArray[np.uint8]:
    """1 for each string that passes, else 0; the strings lie as in `columns.flat.Strings`."""
    if isinstance(test, Between):
        return match_between(offsets, data, test.low, test.high)
    return match_pattern(offsets, data, test.letters, test.kinds)
