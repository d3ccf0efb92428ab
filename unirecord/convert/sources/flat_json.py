"""Lines of flat JSON objects by orjson where it is installed: the same values as `parse_json` gives, only faster."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final

from ...format.values.objects import MAX_DEPTH

__all__ = ["flat_records"]

# What orjson reads otherwise than Python, or may: numbers beyond 64 bits, and beyond float64.
_UNSURE: Final = re.compile(rb"(?<![0-9.])[0-9]{19}|[0-9][eE]\+?[0-9]{3}")
_BLANKS: Final = b" \t\r\n"


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
    if data.count(b"{") != many or data.count(b"}") != many or _UNSURE.search(data):
        return None
    if data.count(b"[") > MAX_DEPTH - 1 and max(line.count(b"[") for line in stripped) > MAX_DEPTH - 1:
        return None
    try:
        records: list[dict[str, Any]] = orjson.loads(b"[" + data + b"]")
    except ValueError:
        return None
    names = sum(map(len, records))
    texts = sum(_texts(value) for record in records for value in record.values())
    # A key that is there twice, and a quote within a text, leave more quotes than that.
    return records if data.count(b'"') == 2 * (names + texts) else None


def _texts(value: Any) -> int:
    if type(value) is str:
        return 1
    return sum(map(_texts, value)) if type(value) is list else 0
