"""tf.train.Example and SequenceExample: what a record holds by feature, and the columns that fit all records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from .arrow_types import nullable
from .protobuf import WireError, fields, floats, integers

__all__ = ["FeatureEvidence", "feature_value", "parse_example"]

_KINDS: Final = {1: "bytes", 2: "float32", 3: "int64"}
_LONG_TEXT: Final = 4096

Feature = tuple[str, Any]  # kind and values: a list of views, or an array
Steps = list[Feature | None]


def parse_example(data: memoryview) -> dict[str, Feature | Steps | None]:
    """Return a record's features by name; those of a SequenceExample's lists are lists of features, step by step.

    Raises `WireError` when the bytes are no such message.
    """
    found: dict[str, Feature | Steps | None] = {}
    for number, kind, value in fields(data):
        if kind != 2 or number not in (1, 2):
            raise WireError("it is no tf.train.Example or SequenceExample")
        for inner, inner_kind, entry in fields(value):
            if inner != 1 or inner_kind != 2:
                raise WireError("it is no tf.train.Example or SequenceExample")
            name, content = _entry(entry)
            if name in found and number == 2:
                raise WireError(f"the feature {name!r} is in the context and in the lists")
            found[name] = _feature(content) if number == 1 else _steps(content)
    return found


def _entry(data: memoryview) -> tuple[str, memoryview]:
    """The key and value of a map's entry."""
    name, content = "", memoryview(b"")
    for number, kind, value in fields(data):
        if kind != 2:
            raise WireError("it is no tf.train.Example or SequenceExample")
        if number == 1:
            try:
                name = str(value, "utf-8")
            except UnicodeDecodeError:
                raise WireError("a feature's name is not UTF-8") from None
        elif number == 2:
            content = value
    return name, content


def _feature(data: memoryview) -> Feature | None:
    found: Feature | None = None
    for number, kind, value in fields(data):
        if kind != 2 or number not in _KINDS:
            raise WireError("a feature is no list of bytes, floats or integers")
        if number == 1:
            found = "bytes", [cell for n, k, cell in fields(value) if n == 1 and k == 2]
        else:
            found = _KINDS[number], floats(value) if number == 2 else integers(value)
    return found


def _steps(data: memoryview) -> Steps:
    found: Steps = []
    for number, kind, value in fields(data):
        if number != 1 or kind != 2:
            raise WireError("a list of features holds something else")
        found.append(_feature(value))
    return found


@dataclass
class FeatureEvidence:
    """What the values of one feature seen so far allow."""

    name: str
    kind: str | None = None
    first: str = ""  # the record that has the kind
    steps: bool = False
    text: bool = True
    longest: int = 0
    seen: int = 0
    sizes: set[int] = field(default_factory=set)
    inner: set[int] = field(default_factory=set)

    def add(self, value: Feature | Steps | None, record: str) -> None:
        """Take in the value of one record."""
        if isinstance(value, list):
            self.steps = True
            _few(self.sizes, len(value))
            self.seen += 1
            for step in value:
                self._add(step, record, self.inner)
        elif value is not None:
            self.seen += 1
            self._add(value, record, self.sizes)

    def _add(self, value: Feature | None, record: str, sizes: set[int]) -> None:
        if value is None:
            _few(sizes, 0)
            return
        kind, values = value
        if not len(values):
            pass  # a list of nothing is one of any kind
        elif self.kind is None:
            self.kind, self.first = kind, record
        elif self.kind != kind:
            raise SchemaError(
                f"{record}: the feature {self.name!r} holds {kind}, but {self.kind} in {self.first}; "
                f"write such records to datasets of their own"
            )
        _few(sizes, len(values))
        if kind == "bytes":
            self.text = self.text and all(_is_text(cell) for cell in values)
            self.longest = max(self.longest, max(map(len, values), default=0))

    def spec(self, records: int) -> Any:
        """The column's type in the user's form, where ``records`` have been seen."""
        missing = self.seen < records or (self.sizes <= {0, 1} and len(self.sizes) == 2)
        if self.steps:
            return self._spec_of_steps(missing)
        if self.kind is None:
            return "string?"
        if self.sizes <= {0, 1}:
            return self._scalar(missing or self.sizes == {0})
        if self.kind == "bytes":
            return "object"
        size = next(iter(self.sizes)) if len(self.sizes) == 1 and self.seen == records else -1
        return {"type": self.kind, "shape": [size]}

    def _scalar(self, missing: bool) -> str:
        name = self.kind or "string"
        if name == "bytes" and self.text:
            name = (
                "text"
                if self.longest > _LONG_TEXT and not (missing and nullable("text") is None)
                else "string"
            )
        return (nullable(name) or name) if missing else name

    def _spec_of_steps(self, missing: bool) -> Any:
        if missing or self.kind in (None, "bytes") or len(self.inner) > 1:
            return "object"
        inner = next(iter(self.inner), 1)
        size = next(iter(self.sizes)) if len(self.sizes) == 1 else -1
        return {"type": self.kind, "shape": [size or -1] if inner == 1 else [size or -1, inner or -1]}


def _few(sizes: set[int], size: int) -> None:
    """Remember that there are two sizes, and not all of them."""
    if len(sizes) < 3:
        sizes.add(size)


def _is_text(cell: memoryview) -> bool:
    try:
        text = str(cell, "utf-8")
    except UnicodeDecodeError:
        return False
    return text.isprintable() or not any(ord(c) < 32 and c not in "\t\n\r\f" for c in text)


def feature_value(value: Feature | Steps | None, column: Column) -> Any:
    """Return a record's value for a column; ``ValueError`` says why there is none."""
    if value is None:
        return _nothing(column)
    if isinstance(value, list):
        return _step_values(value, column)
    kind, values = value
    if column.is_array:
        return values if len(values) else _nothing(column)
    if column.type == "object":
        return [bytes(v) for v in values] if kind == "bytes" else values.tolist()
    if len(values) != 1:
        if not len(values) and column.nullable:
            return None
        raise ValueError(f"{len(values)} values; --schema {column.name}={_list_type(kind)} takes any number")
    if kind != "bytes":
        return values[0]
    if column.type in ("string", "text"):
        try:
            return str(values[0], "utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"bytes that are not UTF-8; --schema {column.name}=bytes takes them") from None
    return values[0]


def _nothing(column: Column) -> Any:
    """What stands for a feature that a record lacks: null, or an empty array."""
    if column.nullable or column.type == "object":
        return None
    if column.is_array and -1 in (column.shape or ()):
        return np.zeros([0 if d == -1 else d for d in column.shape or ()], column.dtype)
    raise ValueError("the feature is missing")


def _list_type(kind: str) -> str:
    return "object" if kind == "bytes" else f"{kind}[-1]"


def _step_values(steps: Steps, column: Column) -> Any:
    rows: list[Any] = [[] if step is None else step[1] for step in steps]
    if not column.is_array:
        return [
            [
                bytes(v) if isinstance(v, memoryview) else v
                for v in (row if isinstance(row, list) else row.tolist())
            ]
            for row in rows
        ]
    shape = column.shape or ()
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"steps of different lengths; --schema {column.name}=object takes them")
    if not rows:
        return np.zeros([0 if d == -1 else d for d in shape], column.dtype)
    stacked = np.stack(rows)
    return stacked.reshape(-1) if len(shape) == 1 and stacked.shape[1] == 1 else stacked
