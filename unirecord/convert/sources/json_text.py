"""JSON text to Python values, as JSON says them or not at all."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from ...format.values.objects import MAX_DEPTH

__all__ = ["OutOfRangeError", "parse_json"]

# Only such text can hold a number beyond 1.8e308; anything else is parsed without a look at each number.
_MAYBE_HUGE: Final = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{200}")


class OutOfRangeError(ValueError):
    """A number that no float64 holds; ``text`` is how it is written."""

    def __init__(self, text: str) -> None:
        shown = text if len(text) <= 40 else f"{text[:37]}…"
        super().__init__(f"the number {shown} is beyond float64 (1.8e308)")


def parse_json(text: str, depth: int = MAX_DEPTH) -> Any:
    """Return the value; ``ValueError`` says why there is none, whatever the text is.

    Refused are, besides what is no JSON: more than ``depth`` levels, numbers that would become infinite
    (`OutOfRangeError`), and integers of more digits than Python reads. ``NaN`` and ``Infinity`` are read.
    """
    try:
        value = json.loads(text, parse_float=_finite if _MAYBE_HUGE.search(text) else None)
    except RecursionError:
        raise ValueError(f"nested more than {depth} levels deep") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError("a number has more digits than 64 bits hold") from None
        raise
    if text.count("[") + text.count("{") > depth and not _is_flat(value, depth):
        raise ValueError(f"nested more than {depth} levels deep")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise OutOfRangeError(text)
    return value


def _is_flat(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        below: list[Any] = []
        for item in level:
            if isinstance(item, list):
                below += [child for child in item if isinstance(child, list | dict)]
            elif isinstance(item, dict):
                below += [child for child in item.values() if isinstance(child, list | dict)]
        if not below:
            return True
        level = below
    return False
