"""How much of a long sweep runs: a part of it in `make test`, all in `make sweeps`."""

from __future__ import annotations

import os

WHOLE = bool(os.environ.get("UNIRECORD_SWEEPS"))


def stride(whole: int, part: int) -> int:
    """How far it is from one place of a sweep to the next, and in a part of it."""
    assert whole < part
    return whole if WHOLE else part
