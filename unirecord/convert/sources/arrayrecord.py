"""ArrayRecord files as records, by the array_record package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

from ...errors import SchemaError
from ...progress import Progress
from ...sizes import many
from .foreign_libraries import foreign_call, needed
from .input_path import InputPath
from .source import TRUST, AskedOption, Options, RawBatch, RowPlace, Source, Unit
from .tfrecord import Examples, Record

__all__ = ["ArrayRecordFiles"]

_UNIT_BYTES: Final = 16_000_000
_MOST_ROWS: Final = 4_096
_MARKS: Final = (".arrayrecord", ".array_record")
_TAIL: Final = 64 << 10  # ArrayRecord ends with a block of this size


class ArrayRecordFiles(Source):
    """ArrayRecord files, as Grain and TFDS write them. A row per record."""

    kind: ClassVar[str] = "arrayrecord"
    about: ClassVar[str] = "ArrayRecord files"
    suffixes: ClassVar[tuple[str, ...]] = _MARKS
    options: ClassVar[tuple[AskedOption, ...]] = (TRUST,)
    libraries: ClassVar[tuple[str, ...]] = ("array_record.python.array_record_module",)

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the names (``x.arrayrecord``, ``x.array_record-00000-of-00010``)."""
        return any(mark in name for name in source.peek for mark in _MARKS)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Find the records of the files that are ArrayRecord files by their names."""
        self._files = [
            file
            for file in self.input.files(("",))
            if self.input.is_file or any(mark in os.path.basename(file.name).lower() for mark in _MARKS)
        ]
        self._examples = Examples(self, self._files, self._walk, self._records, options, progress)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the records of a range."""
        return self._examples.batches(self.schema, self._records(unit))

    def _walk(self, number: int, file: InputPath) -> Iterator[Unit]:
        """Cut a file's records into ranges of about as many bytes."""
        with self._opened(file) as reader:
            many, size = reader.num_records(), file.size()
        step = max(1, min(_MOST_ROWS, many * _UNIT_BYTES // max(size, 1)))
        for first in range(0, many, step):
            rows = min(step, many - first)
            yield Unit(f"{file.name}, records from {first}", (number, first), rows)

    def _records(self, unit: Unit) -> Iterator[Record]:
        """Yield the records of a range."""
        number, first = unit.place
        file, rows = self._files[number], unit.rows or 0
        with self._opened(file) as reader:
            found = reader.read(first, first + rows)
        if len(found) != rows:
            raise SchemaError(f"{unit.name}: {len(found):,} of {many(rows, 'record')} can be read")
        for i, record in enumerate(found, first):
            yield RowPlace(file.name, f"record {i}"), record

    @contextmanager
    def _opened(self, file: InputPath) -> Iterator[Any]:
        module = needed("array_record.python.array_record_module", "an ArrayRecord file", "array-record")
        if file.size() < _TAIL:
            raise SchemaError(
                f"{file.name} is no ArrayRecord file, or is cut off: it has {many(file.size(), 'byte')}"
            )
        with foreign_call("array_record", file.name):
            reader = module.ArrayRecordReader(file.local_path(), "readahead_buffer_size:0")
        try:
            with foreign_call("array_record", file.name):
                if not reader.ok():
                    raise SchemaError(f"{file.name} is no ArrayRecord file, or is damaged")
                yield reader
        finally:
            with suppress(RuntimeError):  # of what was damaged it says so once more
                reader.close()
