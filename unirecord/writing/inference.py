"""The schema that fits given records: what each column's values have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np

from ..errors import SchemaError
from ..format.logical import MOST_DIGITS, WORD_DIGITS, ZONE
from ..format.schema import Schema
from ..format.values.cell import is_missing
from ..format.values.tensors import array_of

__all__ = ["LONG_TEXT", "ColumnEvidence", "infer_schema", "schema_from_evidence", "text_type"]

# A longer string is a document, not a name: it goes to the blob pages and not into the index.
LONG_TEXT: Final = 4096
_UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
_SIGNED: Final = ("int8", "int16", "int32", "int64")
_FLOATS: Final = ("float16", "float32", "float64")
_ELEMENTS: Final = ("bool", *_SIGNED, *_UNSIGNED, *_FLOATS, "bfloat16", "complex64", "complex128")
_INT64: Final = range(-(1 << 63), 1 << 63)
_UNITS: Final = ("s", "ms", "us", "ns")
# Of numpy's units of time those that are whole numbers of one of ours; what is coarser than a day is a date.
_OF_NUMPY: Final = {
    **{unit: unit for unit in _UNITS},
    "m": "s",
    "h": "s",
    "D": "D",
    "W": "D",
    "M": "D",
    "Y": "D",
}
_INT_MAX: Final = (1 << 64) - 1


def text_type(longest: int) -> str:
    """The type of texts of which the longest has so many characters, or bytes."""
    return "text" if longest > LONG_TEXT else "string"


def infer_schema(records: Sequence[Mapping[str, Any]]) -> Schema:
    """Return the schema that all ``records`` fit, columns in the order they are first seen.

    int → int64, float → float64 (also for a mix of both), numpy scalars and arrays → their dtype, str and UUID →
    string (text when any is over 4 KiB), bytes-like → bytes, dict and list → object; datetime, date, time, timedelta
    and Decimal, and numpy's and pandas' times → logical types; None makes a column nullable, but
    one of objects, which hold None themselves; a dimension that differs between arrays is free. Raises `SchemaError`
    when values conflict, naming the column and both rows.
    """
    if not records:
        raise SchemaError(
            "there are no records to infer a schema from; give one, such as schema={'label': 'int32'}"
        )
    evidence: dict[str, ColumnEvidence] = {}
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise SchemaError(f"row {row}: a record is a dict of column values, got {type(record).__name__}")
        for name, value in record.items():
            if name not in evidence:
                if row:
                    raise SchemaError(
                        f"row {row} has the field {name!r}, which row 0 has not; use None for no value"
                    )
                evidence[name] = ColumnEvidence(name)
            evidence[name].add(value, row)
        if len(record) != len(evidence):
            missing = next(n for n in evidence if n not in record)
            raise SchemaError(
                f"row {row}: column {missing!r} is missing, which row 0 has; use None for no value"
            )
    return schema_from_evidence(evidence.values())


@dataclass
class ColumnEvidence:
    """What the values of one column seen so far allow."""

    name: str
    type: str | None = None  # None until a value that is not None was seen
    shape: tuple[int, ...] | None = None
    row: object = 0  # the first row with this type
    null_row: object = None
    nan_row: object = None
    low: int = 0
    high: int = 0
    longest: int = 0
    unit: str = "s"  # the finest of times
    zones: set[str] = field(default_factory=set)
    digits: tuple[int, int] = (0, 0)  # of decimals, before and behind the point
    _seen: dict[Any, str] = field(default_factory=dict)

    def add(self, value: Any, row: object) -> None:
        """Take one more value into account; ``row`` is its number, or whatever names its place."""
        if is_missing(value):
            if isinstance(value, float):  # in a column of strings or bools it is pandas' null
                self.nan_row = row if self.nan_row is None else self.nan_row
                return
            if not isinstance(value, np.floating):
                self.null_row = row if self.null_row is None else self.null_row
                return
        type_name, shape = self._type_of(value, row)
        if type_name in _LOGICAL:
            self._add_meant(value, type_name, row)
        if isinstance(value, int) and type_name == "int64":
            self.low, self.high = min(self.low, value), max(self.high, value)
        elif type_name == "string":
            self.longest = max(self.longest, len(str(value)))
        if self.type is None:
            self.type, self.shape, self.row = type_name, shape, row
        elif (type_name, shape) != (self.type, self.shape):
            self._merge(type_name, shape, row)

    def _type_of(self, value: Any, row: object) -> tuple[str, tuple[int, ...] | None]:
        known = self._seen.get(type(value))
        if known is not None:
            return known, None
        shape = getattr(value, "shape", None)
        if isinstance(value, np.generic) or (shape is not None and hasattr(value, "__array__")):
            return self._array_type(value, row)
        if isinstance(value, datetime) and value.tzinfo is not None:
            return "zoned timestamp", None
        for kind, name in _PYTHON_TYPES:
            if isinstance(value, kind):
                if name != "timestamp":  # with a zone, or without
                    self._seen[type(value)] = name
                return name, None
        raise SchemaError(
            f"column {self.name!r}, {_place(row)}: no column type holds a {type(value).__name__}; "
            f"convert it to a number, str, bytes, numpy array, dict or list"
        )

    def _array_type(self, value: Any, row: object) -> tuple[str, tuple[int, ...] | None]:
        if isinstance(value, np.str_ | np.bytes_):
            return ("string" if isinstance(value, np.str_) else "bytes"), None
        try:
            array, name = array_of(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise SchemaError(f"column {self.name!r}, {_place(row)}: {error}") from None
        if array.dtype.kind in "mM" and not array.shape:
            return self._time_type(array.dtype, row), None
        if name not in _ELEMENTS:
            raise SchemaError(
                f"column {self.name!r}, {_place(row)}: no column type holds numpy {array.dtype} values"
            )
        if name == "bfloat16" and not array.shape:
            raise SchemaError(
                f"column {self.name!r}, {_place(row)}: no column type holds one bfloat16 number; make it a float32"
            )
        return name, tuple(array.shape) or None

    def _time_type(self, dtype: np.dtype[Any], row: object) -> str:
        unit = _OF_NUMPY.get(np.datetime_data(dtype)[0])
        if unit is None or (unit == "D" and dtype.kind == "m" and np.datetime_data(dtype)[0] in "MY"):
            raise SchemaError(
                f"column {self.name!r}, {_place(row)}: no column type holds numpy {dtype}; convert it to one of "
                f"{', '.join(_UNITS)}, or days"
            )
        return "duration" if dtype.kind == "m" else "date" if unit == "D" else "timestamp"

    def _add_meant(self, value: Any, kind: str, row: object) -> None:
        """Take in what a value says of the parameters of its logical type."""
        if kind == "decimal":
            _, digits, exponent = value.as_tuple()
            if not isinstance(exponent, int):
                raise SchemaError(
                    f"column {self.name!r}, {_place(row)}: {value} is no number; use None for no value"
                )
            behind = max(0, -exponent)
            before = max(0, len(digits) + exponent) if any(digits) else 0
            self.digits = max(self.digits[0], before), max(self.digits[1], behind)
            return
        if isinstance(value, np.datetime64 | np.timedelta64):
            unit = _OF_NUMPY[np.datetime_data(value.dtype)[0]]
        else:
            unit = getattr(value, "unit", "us")  # of pandas' times
        if unit in _UNITS:
            self.unit = max(self.unit, unit, key=_UNITS.index)
        if isinstance(value, datetime) and value.tzinfo is not None:
            self.zones.add(_zone_name(value))

    def _merge(self, type_name: str, shape: tuple[int, ...] | None, row: object) -> None:
        assert self.type is not None
        if shape is not None and self.shape is not None and type_name == self.type:
            if len(shape) == len(self.shape):
                pairs = zip(shape, self.shape, strict=True)
                self.shape = tuple(a if a == b else -1 for a, b in pairs)
                return
        elif shape is None and self.shape is None:
            common = _common(self.type, type_name)
            if common is not None:
                self.type = common
                return
        before, now = _spelled(self.type, self.shape), _spelled(type_name, shape)
        raise SchemaError(
            f"column {self.name!r}: {_place(self.row)} holds {before} and {_place(row)} holds {now}; "
            f"convert one of them, or give a schema"
        )

    def spec(self) -> str | dict[str, object]:
        """Return the column's type in the user's form."""
        self._settle_nan()
        if self.type is None:
            raise SchemaError(f"column {self.name!r} holds only None, so its type is unknown; give a schema")
        null = "" if self.null_row is None else "?"
        if self.shape is not None:
            return {"type": self.type + null, "shape": [d if d > 0 else -1 for d in self.shape]}
        if self.type in _LOGICAL:
            return self._logical_spec(null)
        name = self._scalar_type(self.type)
        return name if name == "object" else name + null

    def _logical_spec(self, null: str) -> dict[str, object]:
        stored: str = "int64"
        logical: dict[str, Any] = {"type": self.type}
        if self.type == "zoned timestamp":  # of several zones the points in time
            zone = self.zones.pop() if len(self.zones) == 1 else "UTC"
            logical = {"type": "timestamp", "unit": self.unit, "zone": zone}
        elif self.type == "date":
            stored = "int32"
        elif self.type == "decimal":
            before, behind = self.digits
            precision = max(1, before + behind)
            if precision > MOST_DIGITS:
                raise SchemaError(
                    f"column {self.name!r}: its decimals need {precision} digits, and {MOST_DIGITS} can be had; store "
                    "them as strings"
                )
            logical |= {
                "precision": WORD_DIGITS if precision <= WORD_DIGITS else MOST_DIGITS,
                "scale": behind,
            }
            if precision > WORD_DIGITS:
                return {"type": stored + null, "shape": [2], "logical": logical}
        else:
            logical |= {"unit": self.unit}
            if self.type == "time" and self.unit in ("s", "ms"):
                stored = "int32"
        return {"type": stored + null, "logical": logical}

    def _settle_nan(self) -> None:
        if self.nan_row is None:
            return
        if self.shape is None and self.type in ("string", "bool", *_LOGICAL):
            self.null_row = self.nan_row if self.null_row is None else self.null_row
        elif self.type is None:
            self.type, self.row = "float64", self.nan_row
        elif (self.type, self.shape) != ("float64", None):
            self._merge("float64", None, self.nan_row)

    def _scalar_type(self, name: str) -> str:
        if name == "string":
            return text_type(self.longest)
        if name == "int64" and self.high not in _INT64:
            if self.low < 0 or self.high > _INT_MAX:
                raise SchemaError(
                    f"column {self.name!r}: its integers need more than 64 bits; store them as strings"
                )
            return "uint64"
        if name == "int64" and self.low not in _INT64:
            raise SchemaError(
                f"column {self.name!r}: its integers need more than 64 bits; store them as strings"
            )
        return name


_PYTHON_TYPES: Final[tuple[tuple[Any, str], ...]] = (
    (bool, "bool"),
    (int, "int64"),
    (float, "float64"),
    (str, "string"),
    (UUID, "string"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((dict, list, tuple), "object"),
    (datetime, "timestamp"),
    (date, "date"),
    (time, "time"),
    (timedelta, "duration"),
    (Decimal, "decimal"),
)
_LOGICAL: Final = ("timestamp", "zoned timestamp", "date", "time", "duration", "decimal")


def _zone_name(value: datetime) -> str:
    """The name of a time zone, or of its distance from UTC; "UTC" where the format has no name for it."""
    known = getattr(value.tzinfo, "key", None) or getattr(value.tzinfo, "zone", None)
    ahead = value.utcoffset() or timedelta()
    minutes, rest = divmod(abs(ahead), timedelta(minutes=1))
    if known is not None and ZONE.fullmatch(known):
        return str(known)
    if rest or not ahead or not isinstance(value.tzinfo, timezone):
        return "UTC"
    return f"{'-' if ahead < timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"


def schema_from_evidence(columns: Any) -> Schema:
    """Return the schema of columns given as `ColumnEvidence`."""
    return Schema.parse({c.name: c.spec() for c in columns})


def _place(row: object) -> str:
    """What messages call a row: by its number, or as whoever gave it calls it."""
    return f"row {row}" if isinstance(row, int) else str(row)


def _common(a: str, b: str) -> str | None:
    """Return the least type that holds the scalars of both, or None."""
    for family in (_SIGNED, _UNSIGNED, _FLOATS):
        if a in family and b in family:
            return max(a, b, key=family.index)
    integers = (*_SIGNED, *_UNSIGNED)
    if a in integers and b in integers:
        return "int64"
    if a in (*integers, *_FLOATS) and b in (*integers, *_FLOATS):
        return "float64"
    return None


def _spelled(name: str, shape: tuple[int, ...] | None) -> str:
    return name if shape is None else f"{name} array of shape {list(shape)}"
