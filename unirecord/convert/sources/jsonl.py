"""JSON Lines, arrays of JSON, and the text of either."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, islice
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...format.values.batch import numbers_of, texts_of
from ...format.values.objects import MAX_DEPTH
from ...progress import Progress
from ...writing.inference import ColumnEvidence
from .input_path import InputPath
from .overrides import apply_overrides
from .source import Misfit, Options, Partitions, RawBatch, RowPlace, Source, Unit, made_ahead
from .text_files import BlockPlace, line_blocks, line_places, open_ended, read_block
from .text_values import InexactError, converted, json_converter, numbers, parse_json

__all__ = [
    "ArrowLines",
    "JsonLines",
    "arrow_kind",
    "arrow_lines",
    "flat_records",
    "json_object",
]


# A JSON file that lists the pieces of a dataset: read within a bound, an object or an error that names it.


_MOST_BYTES: Final = 1_000_000_000


def json_object(file: InputPath) -> dict[str, Any]:
    """Return the object that a file holds; `SchemaError` says why there is none."""
    with file.open() as stream:
        text = stream.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise SchemaError(f"{file.name} is larger than 1 GB, which is no list of files")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{file.name} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise SchemaError(f"{file.name} holds {type(found).__name__}, not an object")
    return found


# Lines of flat JSON objects by orjson where it is installed: the same values as `parse_json` gives, only faster.


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


# Blocks of flat JSON objects by pyarrow where it is installed: columns of the values that `parse_json` gives.


_EXACT: Final = float(1 << 53)  # beyond it a float may be a rounded whole number
_NAMES: Final = {"double": "float64"}  # of types, where Arrow's own are others
_INTS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def arrow_kind(column: Column) -> str | None:
    """Return the Arrow type by which values of a column are read as they are; None where each needs a look."""
    if column.is_array:
        return None
    if column.type in _INTS:
        return "int64"
    return column.type if column.type in ("float64", "string", "bool") else None


class ArrowLines:
    """The values of a block, column by column."""

    rows: int

    def __init__(self, compute: Any, columns: dict[str, Any], rows: int) -> None:
        self._compute, self._columns, self.rows = compute, columns, rows

    @property
    def kinds(self) -> dict[str, str]:
        """Return the Arrow type of each key, as `arrow_kind` names it."""
        return {key: _NAMES.get(str(c.type), str(c.type)) for key, c in self._columns.items()}

    @property
    def nbytes(self) -> int:
        """Return how much memory it takes."""
        return sum(column.nbytes for column in self._columns.values())

    @property
    def keys(self) -> list[str]:
        """Return the keys, in the order of the first line."""
        return list(self._columns)

    def deciding(self, key: str) -> list[Any]:
        """Return the values of a key that decide its type: the least and greatest integer, the longest text, or one."""
        column = self._columns[key].drop_null()
        if not len(column):
            return []
        kind = str(column.type)
        if kind == "int64":
            return list(self._compute.min_max(column).as_py().values())
        place = numbers_of(self._compute.utf8_length(column)).argmax() if kind == "string" else 0
        return [column[int(place)].as_py()]

    def nulls(self, key: str) -> int:
        """Return in how many rows the key is null."""
        return int(self._columns[key].null_count)

    def values(self, key: str) -> Any:
        """Return the values of a key as `Writer.write_batch` takes them."""
        column = self._columns[key]
        texts = texts_of(column)
        if texts is not None:
            return texts
        return numbers_of(column)


def arrow_lines(data: bytes, kinds: Mapping[str, str | None]) -> ArrowLines | None:
    """Return the values of a block whose every line is an object with these keys, of these Arrow types or null.

    None where pyarrow is not installed, or where it might read something else than `parse_json`: what is nested or
    escaped, keys that are missing or there twice, numbers that a float would round.
    """
    if None in kinds.values() or not _is_plain(data):
        return None
    try:
        pa, reader, compute = map(import_module, ("pyarrow", "pyarrow.json", "pyarrow.compute"))
    except ImportError:
        return None
    schema = pa.schema([(key, pa.type_for_alias(kind)) for key, kind in kinds.items()])
    try:
        table = reader.read_json(
            pa.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
            reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
    except pa.ArrowException:
        return None
    rows = table.num_rows
    columns = {key: table.column(key).combine_chunks() for key in kinds}
    texts = sum(len(c) - c.null_count for c in columns.values() if str(c.type) == "string")
    # A key that is missing or there twice, and a quote within a text, leave fewer or more quotes than that.
    if _many(data, "{") != rows or _many(data, '"') != 2 * (rows * len(columns) + texts):
        return None
    exact = all(_are_exact(numbers_of(c.drop_null())) for c in columns.values() if str(c.type) == "double")
    return ArrowLines(compute, columns, rows) if exact and _are_utf8(columns) else None


def _is_plain(data: bytes) -> bool:
    """Whether each line has one opening brace at its start and one closing brace at its end, and nothing is escaped."""
    if not data or len(data) >= 1 << 30 or b"\\" in data or b"[" in data or data[:1] != b"{":
        return False
    found = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(found == ord("\n"))
    inner = breaks[breaks < len(data) - 1]
    return (
        np.count_nonzero(found < 0x20) == len(breaks)
        and _many(data, "{") == len(inner) + 1 == _many(data, "}")
        and bool((found[inner - 1] == ord("}")).all() and (found[inner + 1] == ord("{")).all())
        and data.endswith((b"}", b"}\n"))
    )


def _many(data: bytes, character: str) -> int:
    """How often a character is there; bytes.count takes ten times as long where it is everywhere."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(character)))


def _are_exact(values: Any) -> bool:
    """Whether they are what is written: not whole numbers that were rounded, nor -0, which is a whole number."""
    return bool((np.abs(values) < _EXACT).all() and not (np.signbit(values) & (values == 0)).any())


def _are_utf8(columns: Mapping[str, Any]) -> bool:
    try:
        for column in columns.values():
            texts_of(column)
    except ValueError:
        return False
    return True


_CHUNK_ROWS: Final = 4096
_KEPT_BYTES: Final = 256 << 20  # of the first look, so that they need not be parsed twice
_PLAIN: Final = {bool: "bool", int: "int64", float: "float64", str: "string"}
_ELEMENTS: Final = {"b": "bool", "i": "int64", "f": "float64"}  # what `numbers` makes


class JsonLines(Source):
    """Files with one JSON object a line. A key that is missing means null, as ``null`` does."""

    kind: ClassVar[str] = "jsonl"
    about: ClassVar[str] = "JSON Lines files"
    values_are_text: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".jsonlines")
    any_names: ClassVar[bool] = True
    reads: ClassVar[str] = "a file, or a folder of them"

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the name; a folder or a pattern by the names of all its files."""
        return source.holds_only(cls.suffixes)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Files, and folders of them."""
        return source.is_file or source.holds(cls.suffixes)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the files once to find their types."""
        path, fixed = self.path, options.overrides
        self._files = self.files_to_read()
        self._kept: dict[tuple[int, int], ArrowLines] = {}
        self._keeps = _KEPT_BYTES if options.threads == 1 else 0  # other processes would not have it
        evidence: dict[str, _KeyEvidence] = {}
        self.units: Sequence[Unit] = []
        row, self._unread = 0, 0
        for number, _ in self.each_file(self._files, progress):
            row += self._look_through_file(number, row, evidence, options)
        if not evidence:
            raise SchemaError(f"{path} holds no records: a JSON Lines file has one object a line")
        self._keys = list(evidence)
        self._partitions = Partitions(self.input, self._files, self._keys, options)
        self.left_out.extend(self._partitions.changed)
        names = self._partitions.own_names
        types: dict[str, Any] = {}
        for name, column in zip(names, evidence.values(), strict=True):
            column.missing = column.missing or column.seen < row - self._unread
            try:
                types[name] = fixed[name] if name in fixed else column.spec(path)
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
        blocks = ((block, _kinds(block.data, evidence)) for block in line_blocks(file))
        for (block, _), found in made_ahead(
            lambda one: arrow_lines(one[0].data, one[1]), blocks, options.threads
        ):
            place = BlockPlace(block.offset, len(block.data), line, row)
            if found is not None:
                _take_in(found, _Line(file.name, line + 1), evidence, fixed)
                self._keep(number, block.offset, found)
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

    def _keep(self, number: int, offset: int, found: ArrowLines) -> None:
        """Keep the values of a block for the first time that it is read."""
        if found.nbytes <= self._keeps:
            self._kept[number, offset] = found
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
            if key in fixed:
                column.seen += sum(key in record for record in rows)
                continue
            if alike:
                places = lines
                values = [record[key] for record in rows]
            else:
                there = [(at, record[key]) for at, record in zip(lines, rows, strict=True) if key in record]
                places, values = [at for at, _ in there], [value for _, value in there]
            try:
                column.add_all(values, places)
            except SchemaError as error:
                raise SchemaError(f"{self.path}: {error}, such as --schema {key}=string") from None

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
        data = read_block(file, place)
        columns: dict[str, Any] = {}
        kinds = {key: arrow_kind(column) for key, column in zip(self._keys, self._of_keys, strict=True)}
        found = self._kept.pop((number, place.offset), None)
        if found is None or found.kinds != kinds or place.size is None:
            found = arrow_lines(data, kinds)
        pairs = [(key, c) for key, c in zip(self._keys, self._of_keys, strict=True) if c.name in self.schema]
        if found is not None and all(column.nullable or not found.nulls(key) for key, column in pairs):
            yield RawBatch({column.name: found.values(key) for key, column in pairs}, found.rows)
            return
        convert = [json_converter(column) for _, column in pairs]
        for rows, lines, misfits in _chunks(data, place, file.name):
            columns, wrong = {}, dict[int, str]()
            for (key, column), function in zip(pairs, convert, strict=True):
                values = [record.get(key) for record in rows]
                columns[column.name] = converted(values, function, column, lines, wrong)
            misfits += [Misfit(file.name, wrong[row], row) for row in sorted(wrong)]
            yield RawBatch(columns, len(rows), misfits=tuple(misfits))


def _chunks(
    data: bytes, place: BlockPlace, name: str
) -> Iterator[tuple[list[dict[str, Any]], list[int], list[Misfit]]]:
    """Yield the objects of a block of lines, some at a time, the lines they are, and the lines that are none."""
    lines = ((i, line) for i, line in enumerate(data.split(b"\n"), place.line + 1) if line.strip())
    while some := list(islice(lines, _CHUNK_ROWS)):
        rows = flat_records([line for _, line in some])
        numbers = [i for i, _ in some]
        misfits: list[Misfit] = []
        if rows is None:
            rows, numbers = [], []
            for i, line in some:
                try:
                    rows.append(_parse_line(line, f"line {i}"))
                    numbers.append(i)
                except SchemaError as error:
                    misfits.append(Misfit(name, str(error)))
        yield rows, numbers, misfits


def _kinds(data: bytes, evidence: Mapping[str, _KeyEvidence]) -> dict[str, str | None]:
    """The Arrow types of the keys of a block's first line, by what was seen before, or else by their values there."""
    try:
        first = parse_json(data[: data.find(b"\n") + 1].decode())
    except ValueError:
        return {"": None}
    if not isinstance(first, dict) or not first:
        return {"": None}
    kinds: dict[str, str | None] = {}
    for key, value in first.items():
        known = evidence[key].scalars.type if key in evidence else None
        kinds[key] = known if known in _PLAIN.values() else _PLAIN.get(type(value))
    return kinds


def _take_in(
    found: ArrowLines, line: _Line, evidence: dict[str, _KeyEvidence], fixed: Mapping[str, Any]
) -> None:
    """Take a block of plain values into account."""
    for key in found.keys:
        column = evidence.setdefault(key, _KeyEvidence(key))
        column.seen += found.rows
        if key in fixed:
            continue
        column.missing = column.missing or found.nulls(key) > 0
        for value in found.deciding(key):
            column.add(value, line)
            column.seen -= 1


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
        self.kinds: dict[str, _Line] = {}  # "scalar", "array" or "object" → the first line with it
        self.missing = False
        self.seen = 0
        self._element: str | None = None
        self._shape: tuple[int, ...] | None = None
        self._one_rank = True

    def add_all(self, values: list[Any], lines: Sequence[_Line]) -> None:
        """Take values into account; of plain ones of one type those that decide."""
        kinds = set(map(type, values))
        if len(values) > 1 and len(kinds) == 1 and kinds <= {int, float, str, bool}:
            key = len if kinds == {str} else None
            first, last = values[0], max(values, key=key)
            for value in (first, min(values), last) if kinds == {int} else (first, last):
                self.add(value, lines[0])
            self.seen += len(values) - (3 if kinds == {int} else 2)
            return
        for value, line in zip(values, lines, strict=True):
            self.add(value, line)

    def add(self, value: Any, line: _Line) -> None:
        """Take one more value into account."""
        self.seen += 1
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
        return "object"

    def _scalar_spec(self, where: str) -> Any:
        try:
            return self.scalars.spec()
        except SchemaError as error:
            raise SchemaError(f"{where}: {error}") from None


def _parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = parse_json(line.decode(), around=1)  # the line's object is no level of a value
    except InexactError as error:
        raise SchemaError(f"{where}{_key_of(line)}: {error}") from None
    except json.JSONDecodeError as error:
        raise SchemaError(f"{where}: not valid JSON ({error})") from None
    except UnicodeDecodeError as error:
        raise SchemaError(f"{where}: not UTF-8 ({error.reason} at byte {error.start})") from None
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
