"""JSON Lines, arrays of JSON, and the text of either."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple

import msgpack
import numpy as np

from ...core import JsonKind, JsonRows, ObjectShapes, read_json_lines
from ...errors import SchemaError
from ...format.column import Column
from ...format.nested import Nested, nested_of_shape
from ...format.schema import Schema
from ...format.values import PackedStrings, Texts
from ...format.values.objects import PackedObject, pack_object
from ...progress import Progress
from ...writing.inference import LONG_TEXT, ColumnEvidence
from .input_path import InputPath
from .overrides import apply_overrides
from .source import Misfit, NoRowsError, Options, Partitions, RawBatch, RowPlace, Source, Unit, made_ahead
from .text_files import BlockPlace, line_blocks, line_places, open_ended, read_block
from .text_values import (
    LONGEST_MOMENT,
    InexactError,
    TextTimes,
    converted,
    json_converter,
    numbers,
    parse_json,
    utf8,
)

__all__ = [
    "JsonLines",
    "column_values",
    "json_object",
    "json_values",
]


# A JSON file that lists the pieces of a dataset: read within a bound, an object or an error that names it.


def json_object(file: InputPath, most: int = 1_000_000_000, what: str = "list of files") -> dict[str, Any]:
    """Return the object that a file holds; `SchemaError` says why there is none, also where that is too large."""
    text = file.content(most, what)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{file.name} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise SchemaError(f"{file.name} holds {type(found).__name__}, not an object")
    return found


# Blocks of lines as the C core takes them apart: the same values as `parse_json` gives, only faster.


_EXACT: Final = 1 << 53  # up to it a float is the whole number that is written
_LOGICAL: Final = frozenset((JsonKind.FALSE, JsonKind.TRUE))
_NESTED: Final = frozenset((JsonKind.NUMBERS, JsonKind.OBJECT))
# Of which kinds all values are that a column takes without a look at each.
_TAKEN: Final = {
    **dict.fromkeys(
        ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), frozenset((JsonKind.INTEGER,))
    ),
    "float64": {JsonKind.REAL, JsonKind.INTEGER},
    "string": {JsonKind.TEXT},
    "text": {JsonKind.TEXT},
    "bool": _LOGICAL,
    "object": _NESTED,
}


def column_values(found: JsonRows, key: str, column: Column) -> Any:
    """Return the values of a key as `Writer.write_batch` takes them for the column.

    None where each needs a look: `json_values` has them then, as `parse_json` makes them.
    """
    if key not in found.cells:
        return [None] * found.rows
    values, sizes, kinds = (found.cells[key][name] for name in ("value", "bytes", "kind"))
    counts = np.bincount(kinds, minlength=len(JsonKind))
    present = {kind for kind in JsonKind if kind > JsonKind.NULL and counts[kind]}
    absent = kinds <= JsonKind.NULL
    has_nulls = bool(absent.any())
    if (
        column.is_array
        or column.meaning is not None  # a number may say another value than it stores: 20 in decimals
        or (has_nulls and not column.nullable)
        or column.type not in _TAKEN
        or not present <= _TAKEN[column.type]
    ):
        return None
    if column.type in ("string", "text"):
        joined, lengths = found.texts(key)
        return Texts(PackedStrings.of_sizes(joined, lengths), ~absent if has_nulls else None)
    if column.type == "object":
        nested = column.nested
        if nested is not None and not _all_are(found, key, nested):
            return None
        content, starts = found.content, values.tolist()
        pieces = zip(starts, (values + sizes).tolist(), absent.tolist(), strict=True)
        return [None if null else PackedObject(content[start:end], nested) for start, end, null in pieces]
    numbers: Any
    if column.type == "bool":
        numbers = kinds == JsonKind.TRUE
    elif column.type != "float64":
        numbers = values
    else:
        numbers = values.view(np.float64)
        if JsonKind.INTEGER in present:
            whole = kinds == JsonKind.INTEGER
            if ((values > _EXACT) | (values < -_EXACT))[whole].any():
                return None
            numbers = np.where(whole, values.astype(np.float64), numbers)
    return (
        np.ma.MaskedArray(np.where(absent, numbers.dtype.type(0), numbers), absent) if has_nulls else numbers
    )


def _add_shapes(found: JsonRows, key: str, shapes: ObjectShapes) -> None:
    cells = found.cells[key]
    some = cells[cells["kind"] >= JsonKind.NUMBERS]
    if len(some):
        shapes.add(found.content, some["value"].astype(np.uint64), some["bytes"].astype(np.uint64))


def _all_are(found: JsonRows, key: str, nested: Nested) -> bool:
    shapes = ObjectShapes()
    _add_shapes(found, key, shapes)
    whole = shapes.whole()
    return whole is not None and nested.takes(whole)


def json_values(found: JsonRows, key: str, rows: Any = slice(None)) -> list[Any]:
    """Return the values of a key, or those of some rows, as `parse_json` makes them; None where it is missing."""
    if key not in found.cells:
        return [None] * found.rows
    cells, content = found.cells[key][rows], found.content
    values: list[Any] = cells["value"].tolist()
    reals = cells["value"].view(np.float64)
    for i, (kind, size) in enumerate(zip(cells["kind"].tolist(), cells["bytes"].tolist(), strict=True)):
        if kind == JsonKind.REAL:
            values[i] = float(reals[i])
        elif kind == JsonKind.NATURAL:
            values[i] += 1 << 64
        elif kind == JsonKind.TEXT:
            values[i] = content[values[i] : values[i] + size].decode()
        elif kind in _NESTED:
            values[i] = msgpack.unpackb(
                content[values[i] : values[i] + size], raw=False, strict_map_key=False
            )
        elif kind != JsonKind.INTEGER:
            values[i] = None if kind <= JsonKind.NULL else kind == JsonKind.TRUE
    return values


def _deciding(found: JsonRows, key: str) -> list[int]:
    """The rows whose values decide a key's type, beside null: the first of each kind, extremes, lists of numbers."""
    cells = found.cells[key]
    kinds, values = cells["kind"], cells["value"]
    rows = {int(first) for first in np.unique(kinds, return_index=True)[1] if kinds[first] > JsonKind.NULL}
    for kind, as_type in ((JsonKind.INTEGER, np.int64), (JsonKind.NATURAL, np.uint64)):
        of_kind = np.flatnonzero(kinds == kind)
        if len(of_kind):
            whole = values[of_kind].view(as_type)
            rows |= {int(of_kind[whole.argmin()]), int(of_kind[whole.argmax()])}
    reals = np.flatnonzero(kinds == JsonKind.REAL)
    missing = np.isnan(values.view(np.float64)[reals])
    for some in (reals[missing], reals[~missing]):
        rows |= set(some[:1].tolist())
    # Only whether a text has more characters than a name decides anything, and it has no more than bytes.
    for row in np.flatnonzero((kinds == JsonKind.TEXT) & (cells["bytes"] > LONG_TEXT)).tolist():
        if len(json_values(found, key, [row])[0]) > LONG_TEXT:
            rows.add(row)
            break
    return sorted(rows | set(np.flatnonzero(kinds == JsonKind.NUMBERS).tolist()))


_CHUNK_ROWS: Final = 4096
_KEPT_BYTES: Final = 256 << 20  # of the first look, so that they need not be parsed twice
_ELEMENTS: Final = {"b": "bool", "i": "int64", "f": "float64"}  # what `numbers` makes


class JsonLines(Source):
    """Files with one JSON object a line. A key that is missing means null, as ``null`` does."""

    kind: ClassVar[str] = "jsonl"
    about: ClassVar[str] = "JSON Lines files"
    values_are_text: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".jsonlines")
    any_names: ClassVar[bool] = True
    takes_folders: ClassVar[bool] = True
    reads: ClassVar[str] = "a file, or a folder of them"

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the name; a folder or a pattern by the names of all its files."""
        return source.holds_only(cls.suffixes)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the files once to find their types."""
        path, fixed = self.path, options.overrides
        self._files = self.files_to_read()
        self._kept: dict[tuple[int, int], tuple[int, JsonRows]] = {}
        self._keeps = _KEPT_BYTES if options.threads == 1 else 0  # other processes would not have it
        evidence: dict[str, _KeyEvidence] = {}
        self.units: Sequence[Unit] = []
        row, self._unread = 0, 0
        for number, _ in self.each_file(self._files, progress):
            row += self._look_through_file(number, row, evidence, options)
        if not evidence:
            raise NoRowsError(f"{path} holds no records: a JSON Lines file has one object a line")
        self._keys = list(evidence)
        self._partitions = Partitions(self.input, self._files, self._keys, options)
        self.left_out.extend(self._partitions.changed)
        names = self._partitions.own_names
        types: dict[str, Any] = {}
        for name, column in zip(names, evidence.values(), strict=True):
            column.missing = column.missing or column.seen < row - self._unread
            try:
                types[name] = fixed[name] if name in fixed else column.spec(path)
                self.notes.extend(column.untyped if types[name] == "object" and options.wants(name) else ())
            except SchemaError:
                if options.wants(name):
                    raise
                types[name] = "object"
        types |= self._partitions.types
        self.schema: Schema = options.schema(types)
        every_type = apply_overrides(types, fixed)
        self._of_keys = Schema(every_type[name] for name in names)

    def _look_through_file(
        self,
        number: int,
        before: int,
        evidence: dict[str, _KeyEvidence],
        options: Options,
    ) -> int:
        """Take the rows of a file into account, add its units, and return how many rows it has."""
        file, fixed = self._files[number], options.overrides
        units: list[Unit] = []
        row = line = 0
        for block, found in made_ahead(
            lambda one: read_json_lines(one.data), line_blocks(file), options.threads
        ):
            place = BlockPlace(block.offset, len(block.data), line, row)
            if found is not None:
                self._take_in(found, file.name, line + 1, evidence, fixed)
                self._keep(number, place, found)
                row += found.rows
            else:
                for rows, lines, misfits in _chunks(block.data, place, file.name):
                    options.refuse(misfits)
                    if rows:
                        self._look_at(rows, [_Line(file.name, i) for i in lines], evidence, fixed)
                    row += len(rows) + len(misfits)
                    self._unread += len(misfits)
            line += block.lines
            units.append(Unit(file.name, (number, place), row - place.row))
        self.units = [*self.units, *open_ended(units)]
        return row

    def _keep(self, number: int, place: BlockPlace, found: JsonRows) -> None:
        """Keep the values of a block for the first time that it is read."""
        if found.nbytes <= self._keeps:
            self._kept[number, place.offset] = (place.size or 0, found)
            self._keeps -= found.nbytes

    def __getstate__(self) -> dict[str, Any]:
        """All but values that were kept."""
        return {**self.__dict__, "_kept": {}}

    def _look_at(
        self,
        rows: list[dict[str, Any]],
        lines: Sequence[_Line],
        evidence: dict[str, _KeyEvidence],
        fixed: Mapping[str, Any],
    ) -> None:
        """Take some records into account, key by key where all have the same ones."""
        keys = rows[0].keys()
        alike = all(record.keys() == keys for record in rows)
        for key in dict.fromkeys(key for record in ((rows[0],) if alike else rows) for key in record):
            column = evidence.setdefault(key, _KeyEvidence(key))
            column.seen += len(rows) if alike else sum(key in record for record in rows)
            if key in fixed:
                continue
            if alike:
                places = lines
                values = [record[key] for record in rows]
            else:
                there = [(at, record[key]) for at, record in zip(lines, rows, strict=True) if key in record]
                places, values = [at for at, _ in there], [value for _, value in there]
            column.times.add(value for value in values if isinstance(value, str))
            column.add_shapes(value for value in values if isinstance(value, dict | list))
            self._add(column, values, places)

    def _take_in(
        self,
        found: JsonRows,
        name: str,
        first: int,
        evidence: dict[str, _KeyEvidence],
        fixed: Mapping[str, Any],
    ) -> None:
        """Take a block into account that the C core has taken apart, of which ``first`` is the first line."""
        for key, cells in found.cells.items():
            column = evidence.setdefault(key, _KeyEvidence(key))
            column.seen += int(np.count_nonzero(cells["kind"] != JsonKind.ABSENT))
            if key in fixed:
                continue
            column.missing = column.missing or bool((cells["kind"] == JsonKind.NULL).any())
            self._take_times(found, key, column)
            _add_shapes(found, key, column.shapes)
            rows = _deciding(found, key)
            lines = [_Line(name, first + line) for line in found.numbers[rows].tolist()]
            self._add(column, json_values(found, key, rows), lines)

    def _take_times(self, found: JsonRows, key: str, column: _KeyEvidence) -> None:
        cells = found.cells[key]
        texts = np.flatnonzero(cells["kind"] == JsonKind.TEXT)
        for some in (texts[:1], texts[1:]):  # most texts are no times, and the first one says so
            if not column.times.is_possible:
                return
            if (cells["bytes"][some] > LONGEST_MOMENT).any():
                some = some[cells["bytes"][some] > LONGEST_MOMENT][:1]
            column.times.add(json_values(found, key, some))

    def _add(self, column: _KeyEvidence, values: list[Any], lines: Sequence[_Line]) -> None:
        try:
            column.add_all(values, lines)
        except SchemaError as error:
            raise SchemaError(f"{self.path}: {error}, such as --schema {column.name}=string") from None

    def places_of(self, unit: Unit, rows: Sequence[int]) -> list[RowPlace]:
        """The file and the lines, by reading the block again."""
        number, place = unit.place
        data = read_block(self._files[number], place)
        lines = [line for _, some, _ in _chunks(data, place, unit.name) for line in some]
        return line_places(unit.name, lines, rows)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a block of lines by the types found."""
        for batch in self._read(unit):
            batch.columns.update(self._partitions.columns(unit.place[0], batch.rows))
            yield batch

    def _read(self, unit: Unit) -> Iterator[RawBatch]:
        number, place = unit.place
        file = self._files[number]
        size, found = self._kept.get((number, place.offset), (None, None))
        data = b""
        if found is None or place.size is None:
            data = read_block(file, place)
            if found is None or size != len(data):
                found = read_json_lines(data)
        pairs = [(key, c) for key, c in zip(self._keys, self._of_keys, strict=True) if c.name in self.schema]
        convert = [json_converter(column) for _, column in pairs]
        columns: dict[str, Any] = {}
        wrong: dict[int, str] = {}
        if found is not None:
            there = (found.numbers.astype(np.int64) + (place.line + 1)).tolist()
            for (key, column), function in zip(pairs, convert, strict=True):
                values = column_values(found, key, column)
                if values is None:
                    values = converted(json_values(found, key), function, column, there, wrong)
                columns[column.name] = values
            yield RawBatch(columns, found.rows, misfits=_in_rows(file.name, wrong))
            # Who only looks at the first rows does not come to this.
            self._kept.pop((number, place.offset), None)
            return
        for rows, lines, misfits in _chunks(data, place, file.name):
            columns, wrong = {}, {}
            for (key, column), function in zip(pairs, convert, strict=True):
                columns[column.name] = converted(
                    [record.get(key) for record in rows], function, column, lines, wrong
                )
            yield RawBatch(columns, len(rows), misfits=(*misfits, *_in_rows(file.name, wrong)))


def _in_rows(name: str, wrong: Mapping[int, str]) -> tuple[Misfit, ...]:
    return tuple(Misfit(name, wrong[row], row) for row in sorted(wrong))


def _chunks(
    data: bytes, place: BlockPlace, name: str
) -> Iterator[tuple[list[dict[str, Any]], list[int], list[Misfit]]]:
    """Yield the objects of a block of lines, some at a time, the lines they are, and the lines that are none."""
    lines = ((i, line) for i, line in enumerate(data.split(b"\n"), place.line + 1) if line.strip())
    while some := list(islice(lines, _CHUNK_ROWS)):
        rows: list[dict[str, Any]] = []
        numbers: list[int] = []
        misfits: list[Misfit] = []
        for i, line in some:
            try:
                rows.append(_parse_line(line, f"line {i}"))
                numbers.append(i)
            except SchemaError as error:
                misfits.append(Misfit(name, str(error)))
        yield rows, numbers, misfits


class _Line(NamedTuple):
    """A line of a file, as messages call it: one is made of each row, and few are shown."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.number}"


class _KeyEvidence:
    """What the values of one key seen so far allow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scalars = ColumnEvidence(name)
        self.times = TextTimes()
        self.kinds: dict[str, _Line] = {}  # "scalar", "array" or "object" → the first line with it
        self.missing = False
        self.seen = 0
        self._element: str | None = None
        self._shape: tuple[int, ...] | None = None
        self._one_rank = True
        self.shapes = ObjectShapes()  # of lists and objects
        self.untyped: list[str] = []  # why objects have no type, once `spec` has found none

    def add_all(self, values: list[Any], lines: Sequence[_Line]) -> None:
        """Take values into account; of plain ones of one type those that decide."""
        kinds = set(map(type, values))
        if len(values) > 1 and len(kinds) == 1 and kinds <= {int, float, str, bool}:
            key = len if kinds == {str} else None
            first, last = values[0], max(values, key=key)
            for value in (first, min(values), last) if kinds == {int} else (first, last):
                self.add(value, lines[0])
            return
        for value, line in zip(values, lines, strict=True):
            self.add(value, line)

    def add(self, value: Any, line: _Line) -> None:
        """Take one more value into account."""
        if value is None:
            self.missing = True
        elif isinstance(value, dict | list):
            array = numbers(value)
            if array is not None and array.ndim <= 32:
                self.kinds.setdefault("array", line)
                self._add_array(array)
            else:
                self.kinds.setdefault("object", line)
        else:
            self.kinds.setdefault("scalar", line)
            self.scalars.add(value, line)

    def add_shapes(self, values: Iterable[Any]) -> None:
        """Take what lists and objects are made of into account."""
        for value in values:
            # a value that no object holds is refused when it is read
            with suppress(SchemaError):
                packed = pack_object(value, self.name)
                self.shapes.add(packed, np.zeros(1, np.uint64), np.full(1, len(packed), np.uint64))

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
                f"{where}: {self.name!r} is a single value in {self.kinds['scalar']} and a list or object in "
                f"{self.kinds[other]}; --schema {self.name}=object takes both"
            )
        if not kinds:
            return "string?"  # never anything but null
        if kinds == {"scalar"}:
            self.scalars.null_row = 0 if self.missing else None
            return self._scalar_spec(where)
        if kinds == {"array"} and self._one_rank and self._element:
            null = "?" if self.missing else ""
            return {"type": self._element + null, "shape": [d if d > 0 else -1 for d in self._shape or ()]}
        try:
            nested = nested_of_shape(self.shapes.whole(), self.name)
        except ValueError as error:
            self.untyped = [f"{self.name} has no nested type: {error}"]
            return "object"
        return {"type": "object", "logical": {"type": "nested", "of": str(nested)}}

    def _scalar_spec(self, where: str) -> Any:
        try:
            spec = self.scalars.spec()
            times = self.times.type() if self.scalars.type == "string" else None
            return spec if times is None else times + "?" * self.missing
        except SchemaError as error:
            raise SchemaError(f"{where}: {error}") from None


def _parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = parse_json(utf8(line), around=1)  # the line's object is no level of a value
    except InexactError as error:
        raise SchemaError(f"{where}{_key_of(line)}: {error}") from None
    except json.JSONDecodeError as error:
        raise SchemaError(f"{where}: not valid JSON ({error})") from None
    except ValueError as error:
        raise SchemaError(f"{where}: {error}") from None
    if not isinstance(record, dict):
        raise SchemaError(
            f'{where}: a line holds an object, such as {{"label": 3}}, got {type(record).__name__}'
        )
    return record


def _key_of(line: bytes) -> str:
    """Return ``, field 'a'`` for the first field of the line that holds a number beyond float64."""
    try:
        record = json.loads(line, parse_float=lambda text: _HUGE if math.isinf(float(text)) else 0.0)
        fields = record.items() if isinstance(record, dict) else ()
        return next((f", field {key!r}" for key, value in fields if _holds_huge(value)), "")
    except (ValueError, RecursionError):  # the rest of the line is wrong, too
        return ""


_HUGE: Final = object()


def _holds_huge(value: Any) -> bool:
    if isinstance(value, list | dict):
        return any(map(_holds_huge, value.values() if isinstance(value, dict) else value))
    return value is _HUGE
