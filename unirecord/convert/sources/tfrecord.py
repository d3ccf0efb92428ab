"""TFRecord files as records: tf.train.Example and SequenceExample, every checksum checked; TensorFlow is not needed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Final

from ...core import crc32c
from ...errors import SchemaError
from ...progress import Progress
from .base import Options, RawBatch, Source, Unit, column_names
from .input_path import InputPath
from .overrides import apply_overrides
from .protobuf import WireError
from .splits import refuse_split_files
from .tf_example import FeatureEvidence, feature_value, parse_example

__all__ = ["TFRecordFiles", "masked_crc32c"]

_HEADER: Final = struct.Struct("<QI")
_UNIT_BYTES: Final = 32_000_000
_BATCH_BYTES: Final = 8_000_000
_BATCH_ROWS: Final = 4_096
_SAMPLE_RECORDS: Final = 2_000
_SAMPLE_BYTES: Final = 64_000_000
_RAW: Final = "record"


def masked_crc32c(data: Any) -> int:
    """Return the checksum that TFRecord keeps: CRC-32C, rotated and moved so that one of it differs."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class TFRecordFiles(Source):
    """TFRecord files. A feature with one value in every record is a scalar, one with several an array.

    Types are those of the first records of each file. Records that are no Example become one column of bytes.
    """

    kind: ClassVar[str] = "tfrecord"
    about: ClassVar[str] = "TFRecord files"
    suffixes: ClassVar[tuple[str, ...]] = (".tfrecord", ".tfrecords", ".tfr")

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the names (``x.tfrecord``, ``x.tfrecord-00000-of-00010``), or by the checksum of the first length."""
        if source.holds(cls.suffixes) or any(".tfrecord" in name for name in source.peek):
            return True
        head = source.head(_HEADER.size)
        if len(head) < _HEADER.size:
            return False
        _, crc = _HEADER.unpack(head)
        return bool(masked_crc32c(head[:8]) == crc)

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Files, and folders of them."""
        return source.is_file or any(".tfr" in name for name in source.peek)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Go through the lengths of all records, and the content of some."""
        self._files = [f for f in self.input.files(("",)) if len(f.name) and _is_record_file(f, self.input)]
        refuse_split_files(self.path, [file.name for file in self._files])
        self.units = []
        evidence: dict[str, FeatureEvidence] = {}
        seen = row = 0
        self._raw = False
        sampled = False
        for number, file in enumerate(self._files):
            file.packed = file.packed or _is_packed(file)
            units = list(self._walk(number, file, row))
            self.units += units
            rows = sum(unit.rows or 0 for unit in units)
            row += rows
            seen_here = self._look(units, evidence, seen)
            seen += seen_here
            sampled = sampled or seen_here < rows
            file.release()
            if progress is not None:
                progress(number + 1, len(self._files))
        if not row:
            raise SchemaError(f"{self.path} holds no records")
        found = {_RAW: "bytes"} if self._raw else self._types(evidence, seen)
        if sampled:
            self.notes.append(f"the types are those of {seen:,} records; --schema replaces them")
        self.schema = apply_overrides(found, options.overrides)

    def _types(self, evidence: dict[str, FeatureEvidence], seen: int) -> dict[str, Any]:
        if not evidence:
            raise SchemaError(f"{self.path}: its records have no features")
        names, notes = column_names(sorted(evidence), self.path)
        self.notes += notes
        self._features = dict(zip(names, sorted(evidence), strict=True))
        return {name: evidence[feature].spec(seen) for name, feature in self._features.items()}

    def _walk(self, number: int, file: InputPath, row: int) -> Iterator[Unit]:
        """Yield the units of a file by its lengths alone."""
        first, rows, start = row, 0, 0
        with file.open() as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            at = 0
            while at < size:
                length = _length(stream, f"{file.name}, record {row - first}")
                at += _HEADER.size + length + 4
                if at > size:
                    raise SchemaError(
                        f"{file.name} is cut off in record {row - first}, by {at - size:,} bytes"
                    )
                stream.seek(at)
                rows, row = rows + 1, row + 1
                if at - start >= _UNIT_BYTES or at == size:
                    yield Unit(file.name, (number, start, at - start, row - rows, row - rows - first), rows)
                    rows, start = 0, at

    def _look(self, units: list[Unit], evidence: dict[str, FeatureEvidence], seen_before: int) -> int:
        """Take the first records of a file into account, and return how many."""
        seen = size = 0
        for unit in units:
            for where, data in self._records(unit):
                if seen >= _SAMPLE_RECORDS or size >= _SAMPLE_BYTES:
                    return seen
                seen, size = seen + 1, size + len(data)
                if self._raw:
                    continue
                try:
                    features = parse_example(data)
                except WireError as error:
                    if seen_before + seen > 1:
                        raise SchemaError(
                            f"{where} is no tf.train.Example, as those before it are: {error}"
                        ) from None
                    self._raw = True
                    self.notes.append("its records are no tf.train.Example, so they are written as they are")
                    continue
                for name, value in features.items():
                    evidence.setdefault(name, FeatureEvidence(name)).add(value, where)
        return seen

    def _records(self, unit: Unit) -> Iterator[tuple[str, memoryview]]:
        """Yield what a message calls each record, and its bytes, checked."""
        number, offset, size, _, record = unit.place
        file = self._files[number]
        with file.open() as stream:
            stream.seek(offset)
            data = memoryview(stream.read(size))
        at = 0
        while at < size:
            where = f"{file.name}, record {record}"
            if at + _HEADER.size > len(data):
                raise SchemaError(f"{where}: the file has become shorter")
            length, crc = _HEADER.unpack_from(data, at)
            at += _HEADER.size
            content = data[at : at + length]
            if masked_crc32c(data[at - _HEADER.size : at - 4]) != crc or at + length + 4 > len(data):
                raise SchemaError(f"{where}: its length is damaged (its checksum differs)")
            if masked_crc32c(content) != int.from_bytes(data[at + length : at + length + 4], "little"):
                raise SchemaError(f"{where} is damaged: its checksum differs")
            yield where, content
            at += length + 4
            record += 1

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the records of a part of a file."""
        columns: dict[str, list[Any]] = {name: [] for name in self.schema.names}
        rows = size = 0
        for where, data in self._records(unit):
            if self._raw:
                columns[_RAW].append(data)
            else:
                self._add(columns, where, data)
            rows, size = rows + 1, size + len(data)
            if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield RawBatch(columns, rows)
                columns, rows, size = {name: [] for name in self.schema.names}, 0, 0
        if rows:
            yield RawBatch(columns, rows)

    def _add(self, columns: dict[str, list[Any]], where: str, data: memoryview) -> None:
        try:
            features = parse_example(data)
        except WireError as error:
            raise SchemaError(f"{where} is no tf.train.Example: {error}") from None
        for column in self.schema:
            name = self._features[column.name]
            try:
                columns[column.name].append(feature_value(features.pop(name, None), column))
            except ValueError as error:
                raise SchemaError(f"{where}, feature {name!r}: {error}") from None
        if features:
            raise SchemaError(
                f"{where} has the feature {next(iter(features))!r}, which the records that were looked at have not"
            )


def _length(stream: BinaryIO, where: str) -> int:
    head = stream.read(_HEADER.size)
    if len(head) < _HEADER.size:
        raise SchemaError(f"{where}: the file is cut off in its length")
    length, crc = _HEADER.unpack(head)
    if masked_crc32c(head[:8]) != crc:
        raise SchemaError(
            f"{where}: its length is damaged (its checksum differs), or this is no TFRecord file"
        )
    return int(length)


def _is_packed(file: InputPath) -> bool:
    """Whether the file is compressed as a whole, which its name need not say."""
    return file.head(2) == b"\x1f\x8b"


def _is_record_file(file: InputPath, given: InputPath) -> bool:
    return given.is_file or ".tfr" in file.name.rpartition("/")[2].lower()
