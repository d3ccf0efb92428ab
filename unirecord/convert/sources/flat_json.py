"""Lines of flat JSON objects by orjson where it is installed: the same values as `parse_json` gives, only faster."""

from __future__ import annotations

import math
from importlib import import_module
from itertools import chain
from typing import Any, Final

from ...format.values.objects import MAX_DEPTH

__all__ = ["flat_records"]

_BLANKS: Final = b" \t\r\n"
_BEYOND: Final = float(1 << 63)  # orjson makes a float of a whole number of more than 64 bits


def flat_records(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """Return the object of each line; None where a line may hold anything but one flat object with each key once."""
    try:
        orjson = import_module("orjson")
    except ImportError:
        return None
    many = len(lines)
    stripped = [line.strip(_BLANKS) for line in lines]
    if not all(line[:1] == b"{" and line[-1:] == b"}" for line in stripped):
        return None
    data = b",".join(stripped)
    # One opening and one closing brace a line, at its ends: no object in another, and none that goes on in the next.
    if data.count(b"{") != many or data.count(b"}") != many:
        return None
    if data.count(b"[") > MAX_DEPTH - 1 and max(line.count(b"[") for line in stripped) > MAX_DEPTH - 1:
        return None
    try:
        records: list[dict[str, Any]] = orjson.loads(b"[" + data + b"]")
    except ValueError:
        return None
    names = sum(map(len, records))
    texts = _texts(list(chain.from_iterable(map(dict.values, records))))
    # A key that is there twice, and a quote within a text, leave more quotes than that.
    return records if data.count(b'"') == 2 * (names + texts) else None


def _texts(values: list[Any]) -> float:
    """How many texts there are, also in lists; infinity where a number may be another one."""
    texts = 0
    while values:
        kinds = list(map(type, values))
        found = set(kinds)
        texts += kinds.count(str)
        if float in found:
            numbers = [value for value in values if type(value) is float]
            if not (min(numbers) > -_BEYOND and max(numbers) < _BEYOND):
                return math.inf
        values = list(chain.from_iterable(v for v in values if type(v) is list)) if list in found else []
    return texts
