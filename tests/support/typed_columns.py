"""Columns of every logical type that a query knows, in memory, and what their rows are."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from query_columns import MemoryColumns

from unirecord.format.schema import Schema


def _logical(stored: str, name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": stored, "logical": {"type": name, **parameters}}


NAMES = ["cat", "dog", "frog"]
SPEC: dict[str, Any] = {
    "ts": _logical("int64?", "timestamp", unit="us", zone="Europe/Paris"),
    "utc": _logical("int64", "timestamp", unit="ms", zone="UTC"),
    "wall": _logical("int64", "timestamp", unit="ns"),
    "nowhere": _logical("int64", "timestamp", unit="s", zone="No/Such"),
    "day": _logical("int32", "date"),
    "t": _logical("int32", "time", unit="s"),
    "d": _logical("int64", "duration", unit="ms"),
    "d2": _logical("int64?", "duration", unit="us"),
    "price": _logical("int64", "decimal", precision=9, scale=2),
    "fine": _logical("int64?", "decimal", precision=12, scale=4),
    "label": _logical("uint8?", "class", names=NAMES),
    "pred": _logical("uint8", "class", names=NAMES),
    "other": _logical("uint8", "class", names=["x", "y"]),
    "n": "int32",
    "f": "float64",
    "path": "string",
    "flag": "bool",
    "wide": {**_logical("int64?", "decimal", precision=38, scale=2), "shape": [2]},
    "blob": "bytes?",
    "7up": "int8",
    "a.b": "int8",
}
SCHEMA = Schema.parse(SPEC)
SCALARS = [name for name in SCHEMA.names if SCHEMA[name].is_ordered]


def seconds(text: str, zone: str = "UTC") -> int:
    """So many seconds after 1970 a clock in this zone shows the time."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


_A, _B = seconds("2025-06-01 00:00", "Europe/Paris"), seconds("2025-06-01 12:00")
# Four rows whose values are near those that hints name.
ROWS: dict[str, list[Any]] = {
    "ts": [_A * 10**6, (_A - 1) * 10**6, _B * 10**6 + 1, None],
    "utc": [_A * 1000, _A * 1000, _B * 1000, 0],
    "wall": [_B * 10**9, _B * 10**9 - 1, 0, 5],
    "nowhere": [_B, _A, 0, 5],
    "day": [20_240, 20_239, 20_241, 5],
    "t": [43_200, 43_199, 0, 5],
    "d": [90_000, 90_001, 0, 5_400_000],
    "d2": [90_000_000, 90_000_001, None, 0],
    "price": [1_999, 2_000, -5, 50_000],
    "fine": [199_900, 200_001, None, 5_000_000],
    "wide": [1_999, 10**37 + 1, None, -(10**37)],
    "label": [0, 1, 2, None],
    "pred": [1, 1, 1, 7],
    "other": [0, 1, 0, 1],
    "n": [0, 1, 2, 3],
    "f": [0.0, 0.5, 19.99, 3.0],
    "path": ["2025-01-01", "3", "n", "label"],
    "flag": [True, False, True, False],
    "7up": [1, 2, 3, 4],
    "a.b": [1, 2, 3, 4],
}


def part(rows: dict[str, list[Any]], ordered: tuple[str, ...] = (), zoned: bool = True) -> MemoryColumns:
    """The rows as a part."""
    return MemoryColumns(SCHEMA, rows, ordered, zoned=zoned)
