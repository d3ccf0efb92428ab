"""Records of ``tf.train.Example``: TFRecord files, and what other files of such records share."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, starmap
from typing import Any, ClassVar, Final

import numpy as np

from ...core import BAD_CONTENT, BAD_LENGTH, crc32c, find_records
from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...progress import Progress
from ...sizes import many
from ...writing.inference import text_type
from .compression import ZLIB_MARKS
from .input_path import InputPath
from .source import (
    FileReadahead,
    Misfit,
    NoRowsError,
    Options,
    RawBatch,
    RowPlace,
    Source,
    Unit,
    column_names,
    row_batches,
)
from .text_values import value_of_none

__all__ = [
    "Examples",
    "FeatureEvidence",
    "Record",
    "TFRecordFiles",
    "WireError",
    "feature_value",
    "fields",
    "floats",
    "integers",
    "masked_crc32c",
    "parse_example",
]


# The wire format of Protocol Buffers, as far as tf.train.Example needs it: fields of a message, packed numbers.


_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MOST_BYTES: Final = 10  # of a varint
_FEW: Final = 24  # bytes of varints that are faster read one by one


class WireError(ValueError):
    """The bytes are no message."""


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift >= 7 * _MOST_BYTES:
                raise WireError("a number has more than 64 bits")
    except IndexError:
        raise WireError("it is cut off within a number") from None


def fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield the number, wire type and value of each field: a view for bytes, an int for a varint, 4 or 8 bytes."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        if key < 0x80:
            at += 1
        else:
            key, at = _varint(data, at)
        kind = key & 7
        if kind == _LENGTH:
            size = data[at] if at < end else 0x80
            if size < 0x80:
                at += 1
            else:
                size, at = _varint(data, at)
            value: Any = data[at : at + size]
            at += size
        elif kind == _VARINT:
            value, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            value = data[at : at + size]
            at += size
        else:
            raise WireError(f"a field has the wire type {kind}, which is none")
        if at > end:
            raise WireError("it is cut off within a field")
        if not key >> 3:
            raise WireError("a field has the number 0")
        yield key >> 3, kind, value


def floats(data: memoryview) -> Any:
    """Return the float32 values of a FloatList, packed or not."""
    found = []
    for number, kind, value in fields(data):
        if number != 1:
            continue
        if kind not in (_LENGTH, _FIXED32) or len(value) % 4:
            raise WireError("a list of floats holds something else")
        found.append(np.frombuffer(value, "<f4"))
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.zeros(0, np.float32)


def integers(data: memoryview) -> Any:
    """Return the int64 values of an Int64List, packed or not."""
    found: list[Any] = []
    for number, kind, value in fields(data):
        if number != 1:
            continue
        if kind == _VARINT:
            found.append(np.array([_signed(value)], np.int64))
        elif kind == _LENGTH:
            found.append(_packed(value))
        else:
            raise WireError("a list of integers holds something else")
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _packed(data: memoryview) -> Any:
    if len(data) <= _FEW:
        values, at = [], 0
        while at < len(data):
            value, at = _varint(data, at)
            values.append(_signed(value))
        return np.array(values, np.int64)
    raw = np.frombuffer(data, np.uint8)
    last = raw < 0x80
    if not last[-1]:
        raise WireError("it is cut off within a number")
    if last.all():
        return raw.astype(np.int64)
    ends = np.flatnonzero(last)
    starts = np.concatenate(([0], ends[:-1] + 1))
    if (ends - starts >= _MOST_BYTES).any():
        raise WireError("a number has more than 64 bits")
    place = np.arange(len(raw)) - np.repeat(starts, ends - starts + 1)
    pieces = (raw & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(pieces, starts).view(np.int64)


_KINDS: Final = {1: "bytes", 2: "float32", 3: "int64"}

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
            name = text_type(self.longest)
        return name + "?" * missing

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
        return value_of_none(column, "feature")
    if isinstance(value, list):
        return _step_values(value, column)
    kind, values = value
    if column.is_array:
        return values if len(values) else value_of_none(column, "feature")
    if column.type == "object":
        return [bytes(v) for v in values] if kind == "bytes" else values.tolist()
    if len(values) != 1:
        if not len(values) and column.nullable:
            return None
        raise ValueError(
            f"{many(len(values), 'value')}; --schema {column.name}={_list_type(kind)} takes any number"
        )
    if kind != "bytes":
        return values[0]
    if column.type in ("string", "text"):
        try:
            return str(values[0], "utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"bytes that are not UTF-8; --schema {column.name}=bytes takes them") from None
    return values[0]


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


# What sources of records of bytes share: tf.train.Examples become columns, anything else one column of bytes.


_BATCH_BYTES: Final = 8_000_000
_BATCH_ROWS: Final = 4_096
_SAMPLE_RECORDS: Final = 2_000
_SAMPLE_BYTES: Final = 64_000_000
_RAW: Final = "record"

Record = tuple[RowPlace, Any]  # where it is, and its bytes, checked


class Examples:
    """What the records of files hold: features, each a column, or bytes as they are.

    A feature with one value in every record is a scalar, one with several an array. Types are those of the first
    records of each file. ``--schema record=bytes`` keeps Examples as they are, too.
    """

    def __init__(
        self,
        source: Source,
        files: Sequence[InputPath],
        walk: Callable[[int, InputPath], Iterable[Unit]],
        records: Callable[[Unit], Iterable[Record]],
        options: Options,
        progress: Progress | None,
    ) -> None:
        """Find where all records lie, and look at some: sets the units and the schema of ``source``.

        ``walk`` gives the units of a file, by its number; ``records`` those of a unit.
        """
        self._takes_all = options.wanted is None
        self._raw = False
        evidence: dict[str, FeatureEvidence] = {}
        units: list[Unit] = []
        seen = 0
        asked_raw = set(options.overrides) == {_RAW}
        sampled = False
        for number, file in source.each_file(files, progress):
            found = list(walk(number, file))
            units += found
            seen_here = self._look(chain.from_iterable(map(records, found)), evidence, asked_raw)
            seen += seen_here
            sampled = sampled or seen_here < sum(unit.rows or 0 for unit in found)
        source.units = units
        if not units:
            raise NoRowsError(f"{source.path} holds no records")
        self._raw = self._raw or not evidence or (asked_raw and _RAW not in evidence)
        features = [] if self._raw else sorted(evidence)
        names, changed = column_names(features, source.path, options)
        source.left_out.extend(changed)
        self._features = dict(zip(names, features, strict=True))
        if self._raw:
            source.notes.append("its records are no tf.train.Example, so they are written as they are")
        elif sampled:
            source.notes.append(f"the types are those of {many(seen, 'record')}; --schema replaces them")
        types: dict[str, Any] = {
            name: evidence[feature].spec(seen) for name, feature in self._features.items()
        }
        source.schema = options.schema(types or {_RAW: "bytes"})

    def _look(self, records: Iterable[Record], evidence: dict[str, FeatureEvidence], asked_raw: bool) -> int:
        """Take the first records of a file into account, and return how many."""
        seen = size = 0
        for where, data in records:
            if seen >= _SAMPLE_RECORDS or size >= _SAMPLE_BYTES:
                return seen
            seen, size = seen + 1, size + len(data)
            if self._raw:
                continue
            try:
                features = parse_example(memoryview(data))
            except WireError as error:
                if evidence and not asked_raw:
                    raise SchemaError(
                        f"{where} is no tf.train.Example, as those before it are: {error}; "
                        f"--schema {_RAW}=bytes keeps all as they are"
                    ) from None
                self._raw = True
                continue
            for name, value in features.items():
                evidence.setdefault(name, FeatureEvidence(name)).add(value, str(where))
        return seen

    def batches(self, schema: Schema, records: Iterable[Record]) -> Iterator[RawBatch]:
        """Yield records as rows of ``schema``."""

        def row(where: RowPlace, data: Any) -> tuple[list[Any], int] | Misfit:
            try:
                return [data] if self._raw else self._values(schema, memoryview(data)), len(data)
            except WireError as error:
                return Misfit(where.name, f"{where.at}{error}")

        return row_batches(schema.names, starmap(row, records), _BATCH_BYTES, _BATCH_ROWS)

    def _values(self, schema: Schema, data: memoryview) -> list[Any]:
        """The values of a record; `WireError` says, behind its place, why it has none."""
        try:
            features = parse_example(data)
        except WireError as error:
            raise WireError(f" is no tf.train.Example: {error}") from None
        values = []
        for column in schema:
            name = self._features[column.name]
            try:
                values.append(feature_value(features.pop(name, None), column))
            except ValueError as error:
                raise WireError(f", feature {name!r}: {error}") from None
        unknown = features.keys() - set(self._features.values()) if self._takes_all else ()
        if unknown:
            raise WireError(
                f" has the feature {min(unknown)!r}, which the records that were looked at have not"
            )
        return values


# TFRecord files as records: tf.train.Example and SequenceExample, every checksum checked; TensorFlow is not
# needed.


_HEADER: Final = struct.Struct("<QI")
_UNIT_BYTES: Final = 32_000_000
_LOOK_BYTES: Final = 4_096  # read at a time, where only lengths are looked at
_PIECE_BYTES: Final = (
    4 << 20
)  # read at a time: so few are still in the processor's caches when they are checked


def masked_crc32c(data: Any) -> int:
    """Return the checksum that TFRecord keeps: CRC-32C, rotated and moved so that one of it differs."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class TFRecordFiles(Source):
    """TFRecord files, also compressed as a whole."""

    kind: ClassVar[str] = "tfrecord"
    reads_ahead = True
    about: ClassVar[str] = "TFRecord files"
    any_names: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".tfrecord", ".tfrecords", ".tfr")

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the names (``x.tfrecord``, ``x.tfrecord-00000-of-00010``), or by the checksum of the first length."""
        if source.holds(cls.suffixes) or any(".tfrecord" in name for name in source.peek):
            return True
        return _begins(source.head(_HEADER.size))

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Files, and folders of them."""
        return source.is_file or any(".tfr" in name for name in source.peek)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Find the records of the files that are called so; compressed ones are known by their first bytes."""
        files = [file for file in self.input.files(("",)) if _is_record_file(file, self.input)]
        self._files = files or self.input.all_files()
        for file in self._files:
            file.packed = file.packed or _is_packed(file)
        self._examples = Examples(self, self._files, self._walk, self._records, options, progress)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the records of a part of a file."""
        return self._examples.batches(self.schema, self._records(unit))

    def _walk(self, number: int, file: InputPath) -> Iterator[Unit]:
        """Yield the units of a file by its lengths alone."""
        row = rows = start = 0
        with file.open() as stream:
            ahead = FileReadahead(stream, _LOOK_BYTES)
            at, size = 0, ahead.size
            while at < size:
                length = _length(ahead.at(at, _HEADER.size), f"{file.name}, record {row}")
                at += _HEADER.size + length + 4
                if at > size:
                    raise SchemaError(f"{file.name} is cut off in record {row}, by {many(at - size, 'byte')}")
                rows, row = rows + 1, row + 1
                if at - start >= _UNIT_BYTES or at == size:
                    yield Unit(file.name, (number, start, at - start, row - rows), rows)
                    rows, start = 0, at

    def _records(self, unit: Unit) -> Iterator[Record]:
        """Yield the records of a unit, checked."""
        number, offset, size, record = unit.place
        file = self._files[number]
        with file.open() as stream:
            done, most = 0, _PIECE_BYTES
            while done < size:
                stream.seek(offset + done)
                asked = min(most, size - done)
                data = memoryview(stream.read(asked))
                found = find_records(data)
                for start, length in zip(found.starts, found.lengths, strict=True):
                    yield RowPlace(file.name, f"record {record}"), data[start : start + length]
                    record += 1
                where, left = f"{file.name}, record {record}", size - done - found.used
                if found.stop == BAD_CONTENT:
                    raise SchemaError(f"{where} is damaged: its checksum differs")
                if len(data) < asked:
                    raise SchemaError(f"{where}: the file has become shorter")
                if found.stop == BAD_LENGTH or (left and found.wanted > left):
                    raise SchemaError(f"{where}: its length is damaged (its checksum differs)")
                done += found.used
                most = max(
                    _PIECE_BYTES, found.wanted
                )  # the rest is in the next piece, which begins with this record


def _length(head: memoryview, where: str) -> int:
    if len(head) < _HEADER.size:
        raise SchemaError(f"{where}: the file is cut off in its length")
    length, crc = _HEADER.unpack(head)
    if masked_crc32c(head[:8]) != crc:
        raise SchemaError(
            f"{where}: its length is damaged (its checksum differs), or this is no TFRecord file"
        )
    return int(length)


def _begins(head: bytes) -> bool:
    """Whether these bytes are a length and its checksum."""
    return len(head) == _HEADER.size and bool(masked_crc32c(head[:8]) == _HEADER.unpack(head)[1])


def _is_packed(file: InputPath) -> bool:
    """Whether the file is compressed as a whole, which its name need not say; a length can look like that."""
    head = file.head(_HEADER.size)
    return head.startswith((b"\x1f\x8b", *ZLIB_MARKS)) and not _begins(head)


def _is_record_file(file: InputPath, given: InputPath) -> bool:
    return given.is_file or ".tfr" in file.name.rpartition("/")[2].lower()
