"""TFRecord files as records: tf.train.Example and SequenceExample, every checksum checked; TensorFlow is not needed."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from ...core import BAD_CONTENT, BAD_LENGTH, crc32c, find_records
from ...errors import SchemaError
from ...sizes import many
from .base import Unit
from .compression import ZLIB_MARKS
from .input_path import InputPath
from .tf_example import ExampleRecords

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

    def record_files(self) -> list[InputPath]:
        """The files that are TFRecord files by their names; compressed ones are known by their first bytes."""
        files = [file for file in self.input.files(("",)) if _is_record_file(file, self.input)]
        files = files or self.input.all_files()
        for file in files:
            file.packed = file.packed or _is_packed(file)
        return files

    def walk(self, number: int, file: InputPath, row: int) -> Iterator[Unit]:
        """Yield the units of a file by its lengths alone."""
        first, rows, start = row, 0, 0
        with file.open() as stream:
            size, descriptor = stream.seek(0, 2), stream.fileno()
            at = 0
            while at < size:
                head = os.pread(descriptor, _HEADER.size, at)
                length = _length(head, f"{file.name}, record {row - first}")
                at += _HEADER.size + length + 4
                if at > size:
                    raise SchemaError(
                        f"{file.name} is cut off in record {row - first}, by {many(at - size, 'byte')}"
                    )
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
                found = find_records(data)
                for start, length in zip(found.starts, found.lengths, strict=True):
                    yield f"{file.name}, record {record}", data[start : start + length]
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


def _length(head: bytes, where: str) -> int:
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
