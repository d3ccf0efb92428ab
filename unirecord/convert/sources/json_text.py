"""JSON text to Python values, as JSON says them or not at all."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, Final

from ...format.values.objects import MAX_DEPTH

__all__ = ["OutOfRangeError", "parse_json"]

# Only such text can hold a number beyond 1.8e308; anything else is parsed without a look at each number.
_MAYBE_HUGE: Final = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{200}")

_TOO_DEEP: Final = f"a value is nested more than {MAX_DEPTH} levels deep"


class OutOfRangeError(ValueError):
    """A number that no float64 holds; ``text`` is how it is written."""

    def __init__(self, text: str) -> None:
        shown = text if len(text) <= 40 else f"{text[:37]}…"
        super().__init__(f"the number {shown} is beyond float64 (1.8e308)")


def parse_json(text: str, around: int = 0) -> Any:
    """Return the value; ``ValueError`` says why there is none, whatever the text is.

    Refused are, besides what is no JSON: more than `MAX_DEPTH` levels within the ``around`` outermost, a key that one
    object has twice, numbers that would become infinite (`OutOfRangeError`), and integers of more digits than Python
    reads. ``NaN`` and ``Infinity`` are read.
    """
    depth = MAX_DEPTH + around
    try:
        value = json.loads(
            text, parse_float=_finite if _MAYBE_HUGE.search(text) else None, object_pairs_hook=_with_keys_once
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError("a number has more digits than 64 bits hold") from None
        raise
    if text.count("[") + text.count("{") > depth and not _is_flat(value, depth):
        raise ValueError(_TOO_DEEP)
    return value


def _with_keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return found


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
