"""Records that a program gives: map-style datasets, iterables and generators of dicts, tuples or named tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...format.values.tensors import array_of, is_torch_tensor, memory_of
from ...progress import Progress
from ...writing.inference import infer_schema
from .base import Options, RawBatch, Source, Unit
from .input_path import InputPath
from .media_types import annotated
from .overrides import apply_overrides

__all__ = ["GivenRecords"]

_UNIT_ROWS: Final = 256
_SAMPLE_ROWS: Final = 1_000
_SAMPLE_BYTES: Final = 32 << 20
_BATCH_BYTES: Final = 8_000_000


class GivenRecords(Source):
    """A map-style dataset (``len`` and ``[i]``), read by ranges of its items, or an iterable, read once.

    Types are those of the first items. An item that is no dict is a tuple: ``names`` are those of its values. Tensors
    become arrays, and PIL pictures uint8 arrays of their pixels.
    """

    units: Sequence[Unit]
    schema: Schema
    metadata: dict[str, Any] | None

    kind: ClassVar[str] = "records"
    about: ClassVar[str] = "records of a program"

    def __init__(
        self, given: Any, options: Options, names: Sequence[str] | None = None, name: str | None = None
    ) -> None:
        """``given``: the dataset, iterable or generator function."""
        if callable(given) and not hasattr(given, "__getitem__") and not hasattr(given, "__iter__"):
            given = given()
        self._given = given
        self._field_names = None if names is None else tuple(names)
        super().__init__(InputPath(name or f"the {type(given).__name__}", ""), options)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Find the types of the first items."""
        given = self._given
        self._rest: Iterator[Any] | None = None
        if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not isinstance(given, Mapping):
            rows = len(given)
            first = self._first(given[i] for i in range(rows))
            self.units = [
                Unit(f"{self.path}, items from {start}", start, min(_UNIT_ROWS, rows - start))
                for start in range(0, rows, _UNIT_ROWS)
            ]
        elif isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes):
            items = iter(given)
            first = self._first(items)
            self._head, self._rest = first, items
            self.read_once = True
            self.units = [Unit(self.path, None, None)]
        else:
            raise SchemaError(
                f"{self.path} is no dataset with len() and [i], no iterable of records, no DataFrame or table"
                + _way_out(given)
            )
        if not first and not options.overrides:
            raise SchemaError(f"{self.path} gives no records, so there are no types to find; pass schema=")
        found = infer_schema(first).to_spec() if first else dict(options.overrides)
        self.schema = apply_overrides(found, options.overrides)
        classes = getattr(given, "classes", None)  # torchvision
        if isinstance(classes, list | tuple) and all(isinstance(c, str) for c in classes):
            self.metadata = {"classes": list(classes)}
            self.schema = _with_classes(self.schema, list(classes))

    def _first(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        size = 0
        for item in items:
            found.append(self._record(item, len(found)))
            size += sum(memory_of(value) for value in found[-1].values())
            if len(found) >= _SAMPLE_ROWS or size >= _SAMPLE_BYTES:
                break
        return found

    def _record(self, item: Any, row: int) -> dict[str, Any]:
        if isinstance(item, Mapping):
            return {str(name): _plain(value) for name, value in item.items()}
        if hasattr(item, "_asdict"):
            return {name: _plain(value) for name, value in item._asdict().items()}
        if not isinstance(item, tuple | list):
            item = (item,)
        names = self._field_names or tuple(f"column_{i}" for i in range(len(item)))
        if len(names) != len(item):
            raise SchemaError(
                f"{self.path}, item {row}: {len(item)} values, but names are {', '.join(names)}"
            )
        return {name: _plain(value) for name, value in zip(names, item, strict=True)}

    def __getstate__(self) -> dict[str, Any]:
        """All of a map-style dataset; an iterator stays with the process that made it."""
        if self._rest is not None:
            raise TypeError(f"{self.path} is read once, by one process; give a dataset with len() and [i]")
        return dict(self.__dict__)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the items of a range, or all there are."""
        if self._rest is not None:
            head, self._head = self._head, []
            taken = len(head)
            records: Iterator[dict[str, Any]] = chain(
                head, (self._record(item, row) for row, item in enumerate(self._rest, taken))
            )
            start = 0
        else:
            start = unit.place
            records = (self._record(self._given[i], i) for i in range(start, start + (unit.rows or 0)))
        while rows := list(_some(records)):
            yield RawBatch(self._columns(rows, start), len(rows))
            start += len(rows)

    def _columns(self, rows: list[dict[str, Any]], first_row: int) -> dict[str, list[Any]]:
        for row, record in enumerate(rows, first_row):
            if len(record) != len(self.schema.names) or any(name not in record for name in self.schema.names):
                raise SchemaError(
                    f"{self.path}, item {row} has the fields {', '.join(record)}, not {', '.join(self.schema.names)}"
                )
        return {name: [record[name] for record in rows] for name in self.schema.names}


def _some(records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    size = 0
    for record in islice(records, 4096):
        yield record
        size += sum(memory_of(value) for value in record.values())
        if size >= _BATCH_BYTES:
            return


def _plain(value: Any) -> Any:
    """A tensor or picture as an array; anything else as it is, and so what no array of numpy's stands for."""
    if is_torch_tensor(value):
        try:
            array, name = array_of(value)
        except ValueError:  # refused with its column and row where it is encoded
            return value
        return value if name != array.dtype.name else array[()]
    if hasattr(value, "getbands") and hasattr(value, "tobytes"):  # a PIL picture
        return np.asarray(value)
    return value


def _with_classes(schema: Schema, classes: list[str]) -> Schema:
    """The schema, in which the names are said of its integers when it has one column of them."""
    integers = [column.name for column in schema if not column.is_blob and "int" in column.type]
    if len(integers) != 1 or schema[integers[0]].annotations:
        return schema
    return Schema.parse(
        {
            name: annotated(spec, classes=classes) if name in integers else spec
            for name, spec in schema.to_spec().items()
        }
    )


def _way_out(given: Any) -> str:
    if isinstance(given, Mapping):
        return "; of columns DataFrame makes one, of datasets write each"
    return "; collect() makes a DataFrame of it" if hasattr(given, "collect") else ""
