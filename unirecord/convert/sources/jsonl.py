"""JSON Lines files as records: one object a line, nested values as objects, lists of numbers as arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...writing.inference import ColumnEvidence
from .base import Batch, Scan, Source, column_names
from .convert import converted, json_converter, numbers
from .overrides import apply_overrides

__all__ = ["JsonLines"]

_CHUNK_ROWS: Final = 1024
_CHUNK_BYTES: Final = 8_000_000
_ELEMENTS: Final = {"b": "bool", "i": "int64", "f": "float64"}  # what `numbers` makes


class JsonLines(Source):
    """A file with one JSON object a line. A key that is missing means null, as ``null`` does."""

    kind: ClassVar[str] = "jsonl"

    def __init__(
        self, path: str, overrides: Mapping[str, Any] | None = None, scan: Scan | None = None
    ) -> None:
        """Read the file once to find its types; ``overrides`` replaces some, ``scan`` is told about progress."""
        super().__init__()
        self.path = path
        self._total = os.path.getsize(path)
        self.rows = 0
        fixed = overrides or {}
        evidence: dict[str, _KeyEvidence] = {}
        for rows, done in self._chunks():
            for record in rows:
                self._look_at(record, evidence, fixed)
            if scan is not None:
                scan(done, self._total)
        if not evidence:
            raise SchemaError(f"{path} holds no records: a JSON Lines file has one object a line")
        self._keys = list(evidence)
        names, notes = column_names(self._keys, path)
        self.notes += notes
        found: dict[str, Any] = {}
        for name, column in zip(names, evidence.values(), strict=True):
            column.missing = column.missing or column.seen < self.rows
            found[name] = fixed[name] if name in fixed else column.spec(path)
        self.schema = apply_overrides(found, fixed)

    def _look_at(
        self, record: dict[str, Any], evidence: dict[str, _KeyEvidence], fixed: Mapping[str, Any]
    ) -> None:
        for key, value in record.items():
            column = evidence.get(key)
            if column is None:
                column = evidence[key] = _KeyEvidence(key)
            if key in fixed:
                continue
            try:
                column.add(value, self.rows)
            except SchemaError as error:
                raise SchemaError(f"{self.path}: {error}, such as --schema {key}=string") from None
        self.rows += 1

    def batches(self) -> Iterator[Batch]:
        """Yield the rows by the types found."""
        first_row = 0
        convert = [json_converter(c) for c in self.schema]
        for rows, _ in self._chunks():
            columns = {}
            for key, column, function in zip(self._keys, self.schema, convert, strict=True):
                values = [record.get(key) for record in rows]
                columns[column.name] = converted(values, function, column, first_row, self.path)
            yield Batch(columns, len(rows))
            first_row += len(rows)

    def _chunks(self) -> Iterator[tuple[list[dict[str, Any]], int]]:
        """Yield some parsed lines at a time, and how many bytes have been read."""
        rows: list[dict[str, Any]] = []
        done = flushed = 0
        with open(self.path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                done += len(line)
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    rows.append(_parse_line(line, f"{self.path}, line {number}"))
                if len(rows) >= _CHUNK_ROWS or (rows and done - flushed >= _CHUNK_BYTES):
                    yield rows, done
                    rows, flushed = [], done
        if rows:
            yield rows, done


class _KeyEvidence:
    """What the values of one key seen so far allow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scalars = ColumnEvidence(name)
        self.kinds: dict[str, int] = {}  # "scalar", "array" or "object" → the first row with it
        self.missing = False
        self.seen = 0
        self._element: str | None = None
        self._shape: tuple[int, ...] | None = None
        self._one_rank = True

    def add(self, value: Any, row: int) -> None:
        """Take one more value into account."""
        self.seen += 1
        if value is None:
            self.missing = True
        elif isinstance(value, dict | list):
            array = numbers(value)
            if array is not None and array.ndim <= 32:
                self.kinds.setdefault("array", row)
                self._add_array(array)
            else:
                self.kinds.setdefault("object", row)
        else:
            self.kinds.setdefault("scalar", row)
            self.scalars.add(value, row)

    def _add_array(self, array: np.ndarray[Any, Any]) -> None:
        if array.size:
            name = _ELEMENTS[array.dtype.kind]
            if self._element not in (None, name):
                self._one_rank = self._one_rank and "bool" not in (self._element, name)
                name = "float64"
            self._element = name
        if self._shape is None:
            self._shape = array.shape
        elif len(self._shape) == len(array.shape):
            pairs = zip(self._shape, array.shape, strict=True)
            self._shape = tuple(a if a == b else -1 for a, b in pairs)
        else:
            self._one_rank = False

    def spec(self, where: str) -> Any:
        """Return the column's type in the user's form."""
        kinds = set(self.kinds)
        if "scalar" in kinds and len(kinds) > 1:
            other = next(k for k in kinds if k != "scalar")
            raise SchemaError(
                f"{where}: {self.name!r} is a single value in row {self.kinds['scalar']} and a list or object in row "
                f"{self.kinds[other]}; --schema {self.name}=object takes both"
            )
        if not kinds:
            return "string?"  # never anything but null
        if kinds == {"scalar"}:
            self.scalars.null_row = 0 if self.missing else None
            return self._scalar_spec(where)
        if kinds == {"array"} and self._one_rank and self._element and not self.missing:
            return {"type": self._element, "shape": [d if d > 0 else -1 for d in self._shape or ()]}
        return "object"

    def _scalar_spec(self, where: str) -> Any:
        try:
            return self.scalars.spec()
        except SchemaError as error:
            raise SchemaError(f"{where}: {error}") from None


def _parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line.decode())  # given bytes, loads guesses their encoding
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"{where}: not valid JSON ({error})") from None
    except RecursionError:
        raise SchemaError(f"{where}: nested too deep") from None
    if not isinstance(record, dict):
        raise SchemaError(
            f'{where}: a line holds an object, such as {{"label": 3}}, got {type(record).__name__}'
        )
    return record
