"""Bagz files as records: `.bag`, and `.bagz` whose records are compressed one by one; the package is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Final

import numpy as np

from ...errors import SchemaError
from ...progress import Progress
from .foreign_libraries import needed
from .input_path import InputPath
from .source import Options, RawBatch, RowPlace, Source, Unit, ranges
from .tfrecord import Examples, Record

__all__ = ["BagzFiles"]

_UNIT_BYTES: Final = 16_000_000
_MOST_BYTES: Final = 2_000_000_000  # of one record, decompressed
_MAGIC: Final = b"\x28\xb5\x2f\xfd"


class BagzFiles(Source):
    """Bagz files: the records, one after the other, then where each ends. A row per record."""

    kind: ClassVar[str] = "bagz"
    about: ClassVar[str] = "Bagz files"
    suffixes: ClassVar[tuple[str, ...]] = (".bag", ".bagz")
    takes_folders: ClassVar[bool] = True

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Find the records of the files of such a name, in natural order."""
        self._files = self.input.files(self.suffixes)
        self._examples = Examples(self, self._files, self._walk, self._records, options, progress)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the records of a range."""
        return self._examples.batches(self.schema, self._records(unit))

    def _walk(self, number: int, file: InputPath) -> Iterator[Unit]:
        """Cut a file's records into ranges."""
        with file.open() as stream:
            ends = self._ends(stream, file.name)
        for first, stop in ranges(ends, _UNIT_BYTES):
            yield Unit(f"{file.name}, records from {first}", (number, first, stop), stop - first)

    def _ends(self, stream: BinaryIO, name: str) -> Any:
        """Where each record begins, and where the last ends (int64)."""
        size = stream.seek(0, 2)
        if not size:
            return np.zeros(1, np.int64)
        stream.seek(max(size - 8, 0))
        start = int.from_bytes(stream.read(8), "little")
        if size < 8 or start > size - 8 or (size - start) % 8:
            raise SchemaError(
                f"{name} is no Bagz file, or is cut off: its last bytes do not say where its records end "
                f"(files whose limits are kept apart are not read)"
            )
        stream.seek(start)
        ends = np.frombuffer(stream.read(size - start), "<u8")
        ends = np.concatenate((np.zeros(1, np.int64), np.minimum(ends, np.uint64(1 << 62)).astype(np.int64)))
        if (np.diff(ends) < 0).any() or ends[-1] != start:
            raise SchemaError(f"{name} is damaged: its records do not follow each other")
        return ends

    def _records(self, unit: Unit) -> Iterator[Record]:
        """Yield the records of a range, decompressed."""
        number, first, stop = unit.place
        file = self._files[number]
        with file.open() as stream:
            ends = self._ends(stream, file.name)
            stream.seek(int(ends[first]))
            data = memoryview(stream.read(int(ends[stop] - ends[first])))
        places = (ends[first : stop + 1] - ends[first]).tolist()
        packed = file.suffix == ".bagz"
        for i in range(stop - first):
            where, record = RowPlace(file.name, f"record {first + i}"), data[places[i] : places[i + 1]]
            yield where, _unpacked(record, where) if packed and len(record) else record


def _unpacked(record: memoryview, where: RowPlace) -> bytes:
    zstd = needed("zstandard", "a .bagz file")
    if bytes(record[:4]) != _MAGIC:
        raise SchemaError(f"{where} is damaged: it is no Zstandard frame")
    try:
        pieces, size = [], 0
        stream = zstd.ZstdDecompressor().stream_reader(record, read_across_frames=True)
        while piece := stream.read(1 << 20):
            size += len(piece)
            if size > _MOST_BYTES:
                raise SchemaError(f"{where} decompresses to more than {_MOST_BYTES:,} bytes")
            pieces.append(piece)
        whole = zstd.frame_content_size(record)
    except zstd.ZstdError as error:
        raise SchemaError(f"{where} is damaged: {error}") from None
    if whole >= 0 and whole > size:
        raise SchemaError(f"{where} is damaged: it is cut off")
    return b"".join(pieces)
