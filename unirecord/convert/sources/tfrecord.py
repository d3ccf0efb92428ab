"""TFRecord files as records: tf.train.Example and SequenceExample, every checksum checked; TensorFlow is not needed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Final

from ...core import crc32c
from ...errors import SchemaError
from .base import Unit
from .example_records import ExampleRecords
from .input_path import InputPath

__all__ = ["TFRecordFiles", "masked_crc32c"]

_HEADER: Final = struct.Struct("<QI")
_UNIT_BYTES: Final = 32_000_000
_PIECE_BYTES: Final = (
    4 << 20
)  # read at a time: so few are still in the processor's caches when they are checked


def masked_crc32c(data: Any) -> int:
    """Return the checksum that TFRecord keeps: CRC-32C, rotated and moved so that one of it differs."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class TFRecordFiles(ExampleRecords):
    """TFRecord files, also compressed as a whole."""

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

    def record_files(self) -> list[InputPath]:
        """The files that are TFRecord files by their names; compressed ones are known by their first bytes."""
        files = [file for file in self.input.files(("",)) if _is_record_file(file, self.input)]
        for file in files:
            file.packed = file.packed or _is_packed(file)
        return files

    def walk(self, number: int, file: InputPath, row: int) -> Iterator[Unit]:
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

    def records(self, unit: Unit) -> Iterator[tuple[str, memoryview]]:
        """Yield what a message calls each record, and its bytes, checked."""
        number, offset, size, _, record = unit.place
        file = self._files[number]
        with file.open() as stream:
            done, most = 0, _PIECE_BYTES
            while done < size:
                stream.seek(offset + done)
                asked = min(most, size - done)
                data = memoryview(stream.read(asked))
                at, most = 0, _PIECE_BYTES
                while at + _HEADER.size <= len(data):
                    where = f"{file.name}, record {record}"
                    length, crc = _HEADER.unpack_from(data, at)
                    start, end = at + _HEADER.size, at + _HEADER.size + length
                    if masked_crc32c(data[at : at + 8]) != crc or end + 4 > size - done:
                        raise SchemaError(f"{where}: its length is damaged (its checksum differs)")
                    if end + 4 > len(data):  # the rest is in the next piece, which begins with this record
                        most = max(most, end + 4 - at)
                        break
                    content = data[start:end]
                    if masked_crc32c(content) != int.from_bytes(data[end : end + 4], "little"):
                        raise SchemaError(f"{where} is damaged: its checksum differs")
                    yield where, content
                    at = end + 4
                    record += 1
                if len(data) < asked or (not at and asked == size - done):
                    raise SchemaError(f"{file.name}, record {record}: the file has become shorter")
                done += at


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
