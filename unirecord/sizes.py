"""Sizes, moments and numbers of things as people write and read them: "20GB", "1.5 GiB", 4096; "1 row", "2 rows"."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "PB": 10**15,
    "EB": 10**18,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    "PIB": 2**50,
    "EIB": 2**60,
}
_SIZE = re.compile(r"\s*([0-9]+)(?:\.([0-9]+))?\s*([A-Za-z]*)\s*")
_MOST = 2**63 - 1


def parse_size(size: int | str) -> int:
    """Bytes of a size such as ``"20GB"`` (10^9), ``"1.5 GiB"`` (2^30) or ``4096``; else ``ValueError``.

    A fraction of a byte is dropped. The result lies in [0, 2^63).
    """
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        raise TypeError(f"a size is a number of bytes or a text such as '20GB', not {type(size).__name__}")
    if isinstance(size, int):
        count = size
    else:
        match = _SIZE.fullmatch(size)
        unit = _UNITS.get(match.group(3).upper()) if match else None
        if match is None or unit is None:
            raise ValueError(f"{size!r} is no size: write a number and a unit, e.g. '20GB' or '64MiB'")
        fraction = match.group(2) or ""
        count = int(match.group(1) + fraction) * unit // 10 ** len(fraction)
    if not 0 <= count <= _MOST:
        raise ValueError(f"{size!r} is no size: it must lie between 0 and 2^63 - 1 bytes")
    return count


def utc_time(seconds: float) -> str:
    """A moment in seconds since 1970 for people, to the second: ``2026-01-31 12:00:00``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_size(count: int) -> str:
    """A number of bytes for people, in powers of 1000 with one decimal: ``1.5 GB``, ``17 B``."""
    if abs(count) < 1000:
        return f"{count} B"
    value = count / 1000
    for unit in ("KB", "MB", "GB", "TB", "PB"):
        if abs(value) < 999.95:
            return f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} EB"


_OF_ONE: Final = {"are": "is", "were": "was", "have": "has", "do": "does", "go": "goes"}


def many(number: int, noun: str, verb: str = "") -> str:
    """A number of things: ``1 row``, ``2,000 rows``, ``3 batches``, ``2 copies``; with a verb, ``1 row is``.

    ``verb``: in the form that goes with many, as ``are``.
    """
    if number == 1:
        return f"1 {noun}" + (f" {_OF_ONE.get(verb, f'{verb}s')}" if verb else "")
    if noun.endswith("y") and noun[-2:-1] not in "aeou":
        noun = f"{noun[:-1]}ies"
    else:
        noun += "es" if noun.endswith(("s", "x", "sh", "tch", "nch")) else "s"
    return f"{number:,} {noun}" + (f" {verb}" if verb else "")
