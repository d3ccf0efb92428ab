"""What a program gives as records: map-style datasets, iterables and generators; columns, and tables in memory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar, Final

import numpy as np

from ...dataset.dataset import UniRecordDataset
from ...dataset.draws import as_written
from ...errors import MissingError, SchemaError
from ...format.logical import MOST_DIGITS, WORD_DIGITS
from ...format.schema import Schema
from ...format.values.batch import column_length
from ...format.values.tensors import array_of, is_torch_tensor, memory_of
from ...loading.streams import StreamData
from ...progress import Progress
from ...sizes import many
from ...writing.inference import ColumnEvidence, infer_schema
from .arrow_columns import choose_columns, features_of, holds_files, is_text, raw_batches
from .folder_walk import UnreadableError, read_regular_file
from .foreign_libraries import foreign_call, needed
from .input_path import InputPath
from .overrides import apply_overrides
from .source import (
    LeftOut,
    Options,
    RawBatch,
    Source,
    Unit,
    WrongSourceError,
    reduced,
    row_batches,
)

__all__ = [
    "OF_TUPLES",
    "GivenColumns",
    "GivenRecords",
    "GivenTable",
    "is_table",
]


# Records that a program gives: map-style datasets, iterables and generators of dicts, tuples or named tuples.


_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")  # module:function
OF_TUPLES: Final = "names= is for items that are tuples; rename= gives columns other names"
_UNIT_ROWS: Final = 256
_SAMPLE_ROWS: Final = 1_000
_SAMPLE_BYTES: Final = 32 << 20
_BATCH_ROWS: Final = 4_096
_PLAIN_TYPES: Final = {int, float, str, bool, bytes, type(None)}
_TABLE_UNIT_ROWS: Final = 16_384
_UNIT_BYTES: Final = 8_000_000  # of columns, or a row


class GivenRecords(Source):
    """A map-style dataset (``len`` and ``[i]``), read by ranges of its items, or an iterable, read once.

    A path names one, or a generator function: it is imported as ``python -c`` in this folder would. Types are those of
    the first items. An item that is no dict is a tuple: ``names`` are those of its values. Tensors become arrays, and
    PIL pictures uint8 arrays of their pixels.
    """

    kind: ClassVar[str] = "python"
    about: ClassVar[str] = "records of a program (module:function)"
    item: ClassVar[str] = "record"
    reads: ClassVar[str] = "module:function"
    reads_files: ClassVar[bool] = False

    def __init__(
        self,
        given: Any,
        options: Options,
        progress: Progress | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        """``given``: the dataset, iterable or generator function, or the `InputPath` that names one."""
        path = given if isinstance(given, InputPath) else None
        given = given if path is None else _named(path.name)
        if callable(given) and not hasattr(given, "__getitem__") and not hasattr(given, "__iter__"):
            given = given()
        samples = as_written(given)
        self._given = given if samples is None else samples
        self._field_names = None if names is None else tuple(names)
        self._stored_types = {} if samples is None else _stored_types(samples)
        super().__init__(path or InputPath(f"the {type(given).__name__}", ""), options, progress)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """A name with a colon that is no file's."""
        return _NAME.fullmatch(source.name) is not None and not os.path.exists(source.path)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Find the types of the first items."""
        given = self._given
        self._rest: Iterator[Any] | None = None
        if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not isinstance(given, Mapping):
            rows = len(given)
            items = self._items()
            first = self._first(items[i] for i in range(rows))
            self.units: Sequence[Unit] = [
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
        known = {**self._stored_types, **options.overrides}
        if not first and isinstance(given, UniRecordDataset) and given.transform is None:
            known = {**_stored_types(given), **known}
        if not first and not known:
            raise SchemaError(f"{self.path} gives no records, so there are no types to find; pass schema=")
        self.schema: Schema = apply_overrides(_types(first, known), options.overrides)
        classes = getattr(given, "classes", None)  # torchvision
        if isinstance(classes, list | tuple) and all(isinstance(c, str) for c in classes):
            self.metadata: dict[str, Any] | None = {"classes": list(classes)}
            self._name_classes(list(classes))

    def _name_classes(self, classes: list[str]) -> None:
        """Say the names of its integers where it has one column of them, and nothing is said of that."""
        integers = [column for column in self.schema if not column.is_blob and "int" in column.type]
        if len(integers) != 1 or integers[0].packed_annotations:
            return
        label = integers[0]
        named = {label.name: self.classes_type(label.name, label.spec, classes)}
        self.schema = Schema.parse({**self.schema.to_spec(), **named})

    def _items(self) -> Any:
        """The dataset, for one look: one of ours would say of a second one that its order is the same again."""
        return self._given.view() if isinstance(self._given, UniRecordDataset) else self._given

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
        if self._field_names is not None and (isinstance(item, Mapping) or hasattr(item, "_asdict")):
            raise TypeError(OF_TUPLES)
        if isinstance(item, Mapping):
            record = {str(name): _plain(value) for name, value in item.items()}
            for name, spec in self._stored_types.items():
                record[name] = record[name].astype(spec["type"])
            return record
        if hasattr(item, "_asdict"):
            return {name: _plain(value) for name, value in item._asdict().items()}
        if not isinstance(item, tuple | list):
            item = (item,)
        names = self._field_names or tuple(f"column_{i}" for i in range(len(item)))
        if len(names) != len(item):
            raise SchemaError(
                f"{self.path}, item {row}: {many(len(item), 'value')}, but names are {', '.join(names)}"
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
            items = self._items()
            records = (self._record(items[i], i) for i in range(start, start + (unit.rows or 0)))
        rows = (self._row(record, row) for row, record in enumerate(records, start))
        yield from row_batches(self.schema.names, rows, most_rows=_BATCH_ROWS)

    def _row(self, record: dict[str, Any], row: int) -> tuple[list[Any], int]:
        names = self.schema.names
        if len(record) != len(names) or any(name not in record for name in names):
            raise SchemaError(
                f"{self.path}, item {row} has the fields {', '.join(record)}, not {', '.join(names)}"
            )
        return [record[name] for name in names], sum(map(memory_of, record.values()))


def _named(name: str) -> Any:
    """What ``module:name`` stands for."""
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise MissingError(
            f"{name}: there is no module {error.name!r} in this folder or in Python's path"
        ) from None
    if not hasattr(module, attribute):
        raise WrongSourceError(f"{name}: the module {module_name} has no {attribute!r}")
    return getattr(module, attribute)


def _stored_types(samples: UniRecordDataset) -> dict[str, Any]:
    """The types of a dataset's columns, by name; of windows and packed samples those that take least room."""
    data = samples.read_cursor.plan.data
    least = data.least_types if isinstance(data, StreamData) else {}
    types = Schema(column for _, column in data.columns).to_spec()
    return {
        name: {**_spec(spec), **({"type": least[name].name} if name in least else {})}
        for name, spec in types.items()
    }


def _spec(spec: Any) -> dict[str, Any]:
    return spec if isinstance(spec, dict) else {"type": spec}


def _types(records: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> dict[str, Any]:
    """The types of columns by name: those that are known, and of the others what the values are."""
    others = [{name: value for name, value in one.items() if name not in known} for one in records]
    found = infer_schema(others).to_spec() if any(others) else {}
    return {name: found.get(name, known.get(name)) for name in (records[0] if records else known)}


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


def _way_out(given: Any) -> str:
    if isinstance(given, Mapping):
        return "; a dict of columns is given to unirecord.write_dataset(columns, path)"
    return "; collect() makes a DataFrame of it" if hasattr(given, "collect") else ""


# Columns in memory: a dict of arrays and lists, and what of it Arrow has a form for.


class GivenColumns(Source):
    """A dict of columns of one length: arrays, masked arrays, tensors, lists; and columns of other libraries' tables.

    Those of pandas, Polars and Arrow, and lists of lists and dicts, have the types that a table of theirs would have.
    All others are as `Writer.write_batch` takes them; the types of lists are those of all their values.
    """

    kind: ClassVar[str] = "columns"
    about: ClassVar[str] = "a dict of columns"

    def __init__(self, given: Mapping[Any, Any], options: Options) -> None:
        """``given``: the columns by name."""
        self._given = given
        super().__init__(InputPath(f"the {type(given).__name__}", ""), options)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Find the types of the columns."""
        rows = _common_length(self.path, self._given)
        found: dict[str, Any] = {}
        tabular: dict[str, Any] = {}
        self._columns: dict[str, Any] = {}
        for name in options.needed(self._given):
            values, asked = _sliceable(self._given[name]), options.overrides.get(name)
            if _is_tabular(values, asked):
                tabular[name] = values
            else:
                self._columns[name] = values
                found[name] = _column_spec(name, values) if asked is None else asked
        self._table = _table_of(tabular, options) if tabular else None
        if self._table is not None:
            found |= self._table.schema.to_spec()
            self.metadata = self._table.metadata
            self.notes += self._table.notes
            self.left_out += self._table.left_out
        self.schema = options.schema({name: found[name] for name in self._given if name in found})
        row_bytes = sum(memory_of(_plain(values[0])) for values in self._columns.values() if rows)
        step = max(1, min(_TABLE_UNIT_ROWS, _UNIT_BYTES // max(row_bytes, 1)))
        self.units = [
            Unit(f"{self.path}, rows from {start}", start, min(step, rows - start))
            for start in range(0, rows, step)
        ]
        del self._given

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a range."""
        start, rows = unit.place, unit.rows or 0
        pieces = iter([RawBatch({}, rows)]) if self._table is None else self._table.read(unit)
        for piece in pieces:
            stop = start + piece.rows
            own = {name: _slice(values, start, stop) for name, values in self._columns.items()}
            yield RawBatch({**own, **piece.columns}, piece.rows, piece.left_out, piece.misfits)
            start = stop


def _common_length(path: str, given: Mapping[Any, Any]) -> int:
    """How many rows columns have; SchemaError where it is not the same, or where they are no columns."""
    if not given:
        raise SchemaError(f"{path} has no columns")
    for name, values in given.items():
        if not isinstance(name, str):
            raise SchemaError(f"{path}: the column {name!r} is not named by a str; rename it")
        if hasattr(values, "columns") or _is_arrow(values) or _is_hugging_face(values):
            raise SchemaError(
                f"{path} has a {type(values).__name__} called {name!r}, and each table is a dataset: write them one by "
                "one, Hugging Face's splits into a folder by unirecord.hf.write_splits"
            )
        if isinstance(values, Mapping | str | bytes) or not hasattr(values, "__len__"):
            raise SchemaError(
                f"{path}: a column is a list or an array of its values, and {name!r} is of type "
                f"{type(values).__name__}; a record, of one value each, is given in a list: [record]"
            )
    lengths = {name: column_length(name, values) for name, values in given.items()}
    usual = max(lengths.values(), key=list(lengths.values()).count)
    if others := [f"{name!r} has {length:,}" for name, length in lengths.items() if length != usual]:
        alike = ", ".join(repr(name) for name, length in lengths.items() if length == usual)
        raise SchemaError(
            f"{path}: columns are of one length, but {' and '.join(others)} and {alike} {many(usual, 'row')}"
        )
    return usual


def _sliceable(values: Any) -> Any:
    """A column as an array, a tensor, a list, or what pandas, Polars or Arrow has for it."""
    if isinstance(values, list) or _is_of_table(values):
        return values
    values = _plain(values)
    if not hasattr(values, "__array__"):
        return list(values)
    values = values if is_torch_tensor(values) else np.asanyarray(values)
    return list(values) if isinstance(values, np.ndarray) and values.dtype.kind in "OT" else values


def _is_of_table(values: Any) -> bool:
    """Whether it is a column of pandas, Polars or Arrow."""
    return any(hasattr(values, name) for name in ("isna", "__arrow_c_array__", "__arrow_c_stream__"))


def _is_tabular(values: Any, asked: Any) -> bool:
    """Whether a column gets the type that a table of Arrow's has for it, and is read of one."""
    if not isinstance(values, list):
        return _is_of_table(values)
    is_object = asked is not None and Schema.parse({"x": asked})["x"].type == "object"
    return not is_object and any(isinstance(value, list | tuple | dict) for value in values)


def _table_of(columns: Mapping[str, Any], options: Options) -> GivenTable:
    pa = needed("pyarrow", "columns of pandas, Polars or Arrow, and of lists and dicts")
    said: list[LeftOut] = []
    made = {name: _as_arrow(pa, name, values, said) for name, values in columns.items()}
    asked = {name: spec for name, spec in options.overrides.items() if name in columns}
    table = GivenTable(pa.table(made), Options(asked, on_error=options.on_error))
    table.left_out += said
    return table


def _as_arrow(pa: Any, name: str, values: Any, said: list[LeftOut]) -> Any:
    if hasattr(values, "isna"):
        return _series(pa, name, values.to_series() if hasattr(values, "to_series") else values, said)
    if hasattr(values, "to_arrow"):
        return _polars_column(name, values)
    try:
        return pa.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"column {name!r}: its values have no common type that is exact ({error}); schema={{{name!r}: 'object'}} "
            "keeps them as they are"
        ) from None


def _column_spec(name: str, values: Any) -> Any:
    """The type of a column that is an array, a tensor or a list."""
    evidence = ColumnEvidence(name)
    if isinstance(values, list):
        for row, value in _telling(values):
            evidence.add(_plain(value), row)
        return evidence.spec()
    if not isinstance(values, np.ndarray):  # a tensor of bfloat16
        if len(values):
            evidence.add(values[0], 0)
        return evidence.spec()
    present: Any = np.ma.getdata(values)
    absent: Any = np.ma.getmask(values)
    if values.ndim == 1 and values.dtype.kind in "mM":
        absent = absent | np.isnat(present)
    if np.any(absent):
        absent = absent.any(axis=tuple(range(1, absent.ndim)))
        evidence.add(None, int(absent.argmax()))
        present = present[~absent]
    if values.dtype.kind == "U":  # long ones are text
        evidence.add(max(present.tolist(), key=len, default=""), 0)
    else:  # a dtype says it, of no values too
        evidence.add(present[0] if len(present) else np.zeros(values.shape[1:], values.dtype)[()], 0)
    return evidence.spec()


def _telling(values: list[Any]) -> Iterable[tuple[int, Any]]:
    """Values that say as much of a column's type as all do, with their rows: few where all are of one plain type."""
    kinds = set(map(type, values))
    if kinds == {int}:
        values = [min(values), max(values)]
    elif kinds == {str}:
        values = [max(values, key=len)]
    elif kinds == {float}:
        values = values[:1]
    return enumerate(values)


def _slice(values: Any, start: int, stop: int) -> Any:
    found = values[start:stop]
    if not isinstance(found, list) or set(map(type, found)) <= _PLAIN_TYPES:
        return found
    return list(map(_plain, found))


# Tables in memory as records: pandas and polars DataFrames, Arrow tables, and Hugging Face datasets.


_MOST_WORDS: Final = 65_536  # of an ordered dictionary that are names of classes
_NEEDS: Final = "a table"


def is_table(given: Any) -> bool:
    """Whether it is a DataFrame, an Arrow table or record batch, or a Hugging Face dataset; none is imported for it."""
    if _is_hugging_face(given):  # with_transform makes items of rows as they are read: those are records
        return (getattr(given, "format", None) or {}).get("type") != "custom"
    return _is_arrow(given) or _is_frame(given) or _gives_arrow(given)


def _is_arrow(given: Any) -> bool:
    return hasattr(given, "schema") and hasattr(given, "num_rows") and hasattr(given, "slice")


def _gives_arrow(given: Any) -> bool:
    """Whether it gives Arrow's columns by the interface of its PyCapsules, whole: a query of DuckDB, say.

    A dataset gives its samples, transformed and in their order.
    """
    if isinstance(given, UniRecordDataset):
        return False
    return hasattr(given, "__arrow_c_stream__") and not hasattr(given, "read_next_batch")


def _is_frame(given: Any) -> bool:
    return hasattr(given, "columns") and (hasattr(given, "iloc") or hasattr(given, "get_columns"))


def _is_hugging_face(given: Any) -> bool:
    return hasattr(given, "features") and hasattr(given, "with_format") and hasattr(given, "num_rows")


class GivenTable(Source):
    """A table that a program holds, or tables that it gives one after the other, which are read once.

    A pandas index is no column; a float NaN stays NaN and is no null. Columns and types of several tables are those of
    the first; what its types do not hold exactly in another is an error.
    """

    kind: ClassVar[str] = "table"
    about: ClassVar[str] = "a DataFrame, an Arrow table or a Hugging Face dataset"

    def __init__(
        self, given: Any, options: Options, name: str | None = None, rest: Iterator[Any] | None = None
    ) -> None:
        """``given``: the table; ``rest``: those behind it, such as the batches of a reader."""
        self._given, self._rest = given, rest
        super().__init__(InputPath(name or f"the {type(given).__name__}", ""), options)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Bring the columns into Arrow's form, a Hugging Face dataset's when they are read."""
        self._rows_as_arrow = None
        features: dict[str, Any] = {}
        nulls: dict[str, bool | None] = {}
        if self._rest is None and _is_hugging_face(self._given):
            chosen = (getattr(self._given, "format", None) or {}).get("columns")  # by set_format
            self._rows_as_arrow = self._given.with_format("arrow", columns=chosen)
            features = _features(self._given)
            self._has_inner_files = any(map(holds_files, features.values()))
            rows = self._given.num_rows
            sample = self._piece(0, min(1000, rows))
            nulls |= {name: self._has_nulls(name) for name in sample.schema.names}
        else:
            self._table, said = _arrow_table(self._given)
            self.left_out.extend(said)
            if self._rest is None:
                features = _ordered_words(self._table)
            sample, rows = self._table, self._table.num_rows
            for i, field in enumerate(sample.schema):
                more = self._rest is not None and _may_be_null(field)
                nulls[field.name] = bool(self._table.column(i).null_count) or more
        self.read_once: bool = self._rest is not None
        self.units: Sequence[Unit] = [
            Unit(f"{self.path}, rows from {start}", start, min(_TABLE_UNIT_ROWS, rows - start))
            for start in range(0, rows, _TABLE_UNIT_ROWS)
        ]
        if self._rest is not None:
            self.units = [Unit(self.path, None, None)]
        self._names = choose_columns(self, sample.schema, sample, nulls, options, said=features)

    def _has_nulls(self, name: str) -> bool | None:
        """Of the whole table below a Hugging Face dataset, from which rows may have been chosen."""
        try:
            return bool(self._given.data.column(name).null_count)
        except (AttributeError, KeyError):
            return None

    def __getstate__(self) -> dict[str, Any]:
        """All of one table; several stay with the process that has them."""
        if self._rest is not None:
            raise TypeError(f"{self.path} is read once, by one process; give one table, or a path")
        return super().__getstate__()

    def _piece(self, start: int, rows: int) -> Any:
        if self._rows_as_arrow is not None:
            piece = self._rows_as_arrow[start : start + rows]
            if self._has_inner_files:  # which may only be named
                piece = import_module("datasets.table").embed_table_storage(piece)
            return piece
        return self._table.slice(start, rows)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a range, or of all tables."""
        if self._rest is None:
            read_file = None if self._rows_as_arrow is None else _read_file
            table = self._piece(unit.place, unit.rows or 0)
            yield from raw_batches(table, self.schema, self._names, self.path, unit.place, read_file)
            return
        row = 0
        for number, given in enumerate(chain([self._table], self._rest)):
            where = f"{self.path}, table {number}"
            table = given if number == 0 else self._as_first(given, where)
            yield from raw_batches(table, self.schema, self._names, where, row)
            row += table.num_rows

    def _as_first(self, given: Any, where: str) -> Any:
        pa, wanted = needed("pyarrow", _NEEDS), self._table.schema
        if not is_table(given):
            raise SchemaError(f"{where}: it is a {type(given).__name__}, and the first is a table")
        table, _ = _arrow_table(given)
        if table.schema.names != wanted.names:
            raise SchemaError(
                f"{where} has the columns {', '.join(table.schema.names)}, but the first {', '.join(wanted.names)}"
            )
        columns = []
        for field in wanted:
            with foreign_call(
                "pyarrow", f"{where}, column {field.name!r}, which is {field.type} in the first table,"
            ):
                columns.append(table.column(field.name).cast(field.type))
        return pa.table(columns, names=wanted.names)


def _may_be_null(field: Any) -> bool:
    return bool(field.nullable and not needed("pyarrow", _NEEDS).types.is_nested(field.type))


def _ordered_words(table: Any) -> dict[str, Any]:
    """The words of ordered dictionaries, as Hugging Face says classes: who orders them has a scale of all there are."""
    found: dict[str, Any] = {}
    for i, field in enumerate(table.schema):
        if not getattr(field.type, "ordered", False) or not table.num_rows:
            continue
        words = table.column(i).unify_dictionaries().chunk(0).dictionary
        if (
            is_text(needed("pyarrow", _NEEDS), words.type)
            and len(words) <= _MOST_WORDS
            and not words.null_count
        ):
            found[field.name] = {"_type": "ClassLabel", "names": words.to_pylist()}
    return found


def _features(given: Any) -> dict[str, Any]:
    """The features of a Hugging Face dataset."""
    found = features_of(getattr(given.data, "schema", None) and given.data.schema.metadata)
    with suppress(AttributeError):
        found |= given.features.to_dict()
    return found


def _read_file(path: str) -> bytes:
    try:
        return read_regular_file(path)
    except (UnreadableError, FileNotFoundError) as error:
        raise SchemaError(f"{path} cannot be read: {error}") from None


def _arrow_table(given: Any) -> tuple[Any, list[LeftOut]]:
    """The table as a `pyarrow.Table`, and what of it that has not."""
    pa = needed("pyarrow", _NEEDS)
    if not _is_arrow(given) and not _is_frame(given):
        given = pa.table(given)
    names = list(given.schema.names if _is_arrow(given) else given.columns)
    for name in names:
        if not isinstance(name, str):
            raise SchemaError(f"the table's column {name!r} is not named by a str; rename it")
        if names.count(name) > 1:
            raise SchemaError(f"the table has several columns called {name!r}; rename them")
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given]), []
    if isinstance(given, pa.Table):
        return given, []
    said: list[LeftOut] = []
    if hasattr(given, "to_arrow"):  # polars
        columns = {name: _polars_column(name, given.get_column(name)) for name in names}
    else:
        columns = {name: _series(pa, name, given[name], said) for name in names}
    return pa.table(columns), said


def _polars_column(name: str, series: Any) -> Any:
    if str(series.dtype) == "Object":  # of which it gives the addresses
        raise SchemaError(
            f"column {name!r} is of Polars' type Object, which holds anything: cast it, or give "
            f"series.to_list() in a dict of columns"
        )
    try:
        return series.to_arrow()
    except (
        Exception
    ) as error:  # Polars has errors of its own, and one of Arrow's for types that Arrow has not
        raise SchemaError(f"column {name!r}: Arrow has no {series.dtype} ({error}); cast it") from None


def _series(pa: Any, name: str, series: Any, said: list[LeftOut]) -> Any:
    kind = str(series.dtype)
    if kind.startswith("Sparse["):
        series = series.sparse.to_dense()
    elif kind.startswith("period["):
        said.append(reduced(f"column {name!r}", f"{kind} is written as text, such as '2024-01'", column=name))
        series = series.astype("string")
    elif kind.startswith("interval["):
        said.append(reduced(f"column {name!r}", f"of {kind} the closed side is left out", column=name))
    values = series.to_numpy() if isinstance(series.dtype, np.dtype) else series
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind != "O":
            return pa.array(values, from_pandas=values.dtype.kind in "mM")
        if isinstance(values, np.ndarray) and any(getattr(v, "ndim", 0) > 1 for v in values):
            values = [v.tolist() if hasattr(v, "tolist") else v for v in values]
        found = pa.array(values, from_pandas=True)
        if isinstance(series.dtype, np.dtype) and pa.types.is_decimal128(found.type):
            # Objects say no more than the digits that they have: rows to come may have more.
            digits = WORD_DIGITS if found.type.precision <= WORD_DIGITS else MOST_DIGITS
            found = found.cast(pa.decimal128(digits, found.type.scale))
        return found
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"column {name!r}: its values have no common type that is exact ({error})"
        ) from None
