"""One opened part: what it is, and the flat arrays of its index as views, each checked where it is touched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from ..core import CodedArray, NativePart, PackedArray, cached_property
from ..errors import CorruptionError, FormatError, MissingError, UniRecordError
from ..format import layout, metadata
from ..format.metadata import Metadata, Statistics
from ..format.schema import Schema
from ..storage.schemes import location_of
from .data_file import DataFile
from .manifest import PartEntry

__all__ = [
    "JoinedPart",
    "NEW",
    "Part",
    "PartFiles",
    "data_identity",
    "decode_metadata",
    "find_files",
    "index_identity",
    "is_whole",
    "no_part",
]


# Which part a data file and an index belong to, as far as their heads and ends tell.


def is_whole(folder: str, entry: PartEntry) -> bool:
    """Whether both files of a part are there, as they were written: by their lengths, heads and ends."""
    path = os.path.join(folder, entry.name)
    wanted = entry.id, bytes.fromhex(entry.content), entry.rows
    try:
        sizes = location_of(path).size(path), location_of(path).size(path + ".idx")
    except OSError:
        return False
    same = data_identity(path) == wanted == index_identity(path + ".idx")
    return same and sizes == (entry.bytes, entry.index_bytes)


def data_identity(path: str) -> tuple[bytes, bytes, int] | None:
    """Id, content digest and rows of a data file; None when it has none."""
    try:
        with DataFile(path) as file:
            head = file.head()
            end = file.end_page(head)
            return head.header.id, end.content_digest, end.rows
    except (OSError, UniRecordError):
        return None


def index_identity(path: str) -> tuple[bytes, bytes, int] | None:
    """The same of an index: of the part and the content that it belongs to."""
    try:
        with DataFile(path) as file:
            header = layout.unpack_index_header(file.read(0, layout.INDEX_HEADER_BYTES))
            return header.id, header.content_digest, header.rows
    except (OSError, UniRecordError):
        return None


# The two files of a part, where they lie on no file system: their names and sizes.


NEW: Final = ".new"  # of an index that was being published when its writer died


@dataclass(frozen=True)
class PartFiles:
    """The two files of a part, and their sizes."""

    data: str
    index: str
    data_bytes: int
    index_bytes: int


class PathsIn(Sequence[str]):
    """The paths of files in one folder, whose path ends with what divides it from names; each made when asked for."""

    __slots__ = ("folder", "names")

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self.folder, self.names = folder, names

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[str]: ...
    def __getitem__(self, number: int | slice) -> str | Sequence[str]:
        if isinstance(number, slice):
            return PathsIn(self.folder, self.names[number])
        return self.folder + self.names[number]

    def __iter__(self) -> Iterator[str]:
        return map(self.folder.__add__, self.names)


def no_part(path: str) -> MissingError:
    """What is said where there is no data file."""
    return MissingError(f"{path}: this part does not exist; check the path")


def find_files(path: str) -> PartFiles:
    """Looks for the files of the part at ``path``. MissingError."""
    names = [path, path + ".idx", path + ".idx" + NEW]
    data, index, new = location_of(path).find_each(names)
    if data is None:
        raise no_part(path)
    found = index or new
    if found is None:
        raise MissingError(
            f"{names[1]}: this index is missing; copy it beside the part, whose rows are found by it"
        )
    return PartFiles(path, names[1] if index is not None else names[2], data.size, found.size)


Array = NDArray[Any]
Elements = Array | PackedArray | CodedArray
"""The elements of a section: as they lie, or what unpacks them."""
_INTEGERS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}


def decode_metadata(raw: bytes, path: str) -> Metadata:
    """The metadata in the index of the part at ``path``; FormatError names the file."""
    try:
        return metadata.decode(raw)
    except FormatError as error:
        raise _about_index(path, error) from error


def _about_index(path: str, error: FormatError) -> FormatError:
    return FormatError(
        f"{path}.idx: {error}; run `unirecord repair {quote(path)}` to rebuild it from the data file"
    )


class Part:
    """One opened part: what it is, and its index's arrays as read-only views that keep it open.

    ``schema``: the columns that its set has. ``stored``: what the file was written with, and ``columns`` where in it
    these are; None: they are all there is.
    """

    def __init__(
        self,
        native: NativePart,
        path: str,
        schema: Schema,
        stored: Schema | None = None,
        columns: Sequence[int] | None = None,
    ) -> None:
        self._native = native
        self.path = path
        self.schema = schema
        self._stored = schema if stored is None else stored
        self._columns = range(len(schema)) if columns is None else columns
        self.info: Any = native.info  # ur_part_info of csrc/unirecord.h
        self.id: bytes = native.id
        self.content_digest: bytes = native.content_digest
        self.rows: int = native.info.rows

    @cached_property
    def content(self) -> Metadata:
        """Schema, index columns and user metadata, as its file has them.

        FormatError when they cannot be read, CorruptionError when the schema is another than the dataset's.
        """
        found = decode_metadata(self._native.metadata(), self.path)
        if found.schema != self._stored:
            raise CorruptionError(
                f"{self.path}.idx: the schema in its metadata is not the dataset's; "
                f"run `unirecord verify {quote(self.path)}`",
                path=f"{self.path}.idx",
            )
        return found

    @cached_property
    def stored_schema(self) -> Schema:
        """The schema with the codecs of this part; FormatError when the column table is not its own."""
        try:
            stored = self._stored.with_codecs(self._native.table(), chunks_of_another=True)
        except FormatError as error:
            raise _about_index(self.path, error) from error
        return Schema(
            replace(column, codec=stored[place].codec)
            for column, place in zip(self.schema, self._columns, strict=True)
        )

    @cached_property
    def statistics(self) -> Statistics:
        """Nulls, distinct, least and greatest value of each scalar column; FormatError when they cannot be read."""
        section = self.section(layout.SECTION_STATISTICS)
        try:
            found = metadata.decode_statistics(b"" if section is None else section.tobytes(), self._stored)
        except FormatError as error:
            raise _about_index(self.path, error) from error
        return tuple(found[place] for place in self._columns)

    def vector(self, kind: int, column: int = -1) -> tuple[Elements, Callable[[int, int], None]] | None:
        """A section of the index, unchecked, and the check of its elements [start, stop); None when there is none.

        Integers by their width, values and zones in the column's dtype; groups [n, 4], zones [n, 2]. Values of fixed
        width may come from a dictionary, which is checked at once.
        """
        section = self._native.section(kind, column)
        if section is None:
            return self._coded(column) if kind == layout.SECTION_VALUES else None
        if section.bits:
            return self._packed(section, self._dtype(kind, column, section.width))
        array = self._native.array(section, self._dtype(kind, column, section.width))
        if kind in (layout.SECTION_GROUPS, layout.SECTION_ZONES):
            array = array.reshape(section.count, 4 if kind == layout.SECTION_GROUPS else 2)
        width = section.width

        def check(start: int, stop: int) -> None:
            self._native.check(section, start * width, max(stop - start, 0) * width)

        return array, check

    def _coded(self, column: int) -> tuple[CodedArray, Callable[[int, int], None]] | None:
        codes = self.vector(layout.SECTION_CODES, column)
        dtype = self.schema[column].dtype
        if codes is None or dtype is None:
            return None
        entries = self._native.section(layout.SECTION_DICTIONARY_ENTRIES, column)
        assert entries is not None
        self._native.check(entries, 0, entries.bytes)
        array, check = codes
        assert not isinstance(array, CodedArray)
        return CodedArray(array, self._native.array(entries, dtype), f"{self.path}.idx"), check

    def _packed(self, section: Any, dtype: np.dtype[Any]) -> tuple[PackedArray, Callable[[int, int], None]]:
        content, bits = self._native.array(section, np.dtype(np.uint8)), int(section.bits)

        def check(start: int, stop: int) -> None:
            if start < stop:  # eight bytes are loaded for each
                first = start * bits // 8
                self._native.check(section, first, (stop - 1) * bits // 8 + 8 - first)

        return PackedArray(content, dtype, section.count, bits, section.extra), check

    def zone_rows(self, column: int) -> int:
        """Rows of a zone of this column; 0 when it has no zones."""
        section = self._native.section(layout.SECTION_ZONE_FLAGS, column)
        return 0 if section is None else int(section.extra)

    def section(self, kind: int, column: int = -1) -> Array | None:
        """A whole section, checked."""
        found = self.vector(kind, column)
        if found is None:
            return None
        array, check = found
        check(0, len(array))
        return array if isinstance(array, np.ndarray) else array.span(0, len(array))

    def _dtype(self, kind: int, column: int, width: int) -> np.dtype[Any]:
        if kind == layout.SECTION_GROUPS:
            return _INTEGERS[8]
        if kind in (layout.SECTION_VALUES, layout.SECTION_ZONES):
            dtype = self.schema[column].dtype
            return _INTEGERS[width // 2] if dtype is None else np.dtype(dtype)
        return _INTEGERS[width]

    @property
    def index_bytes(self) -> int:
        """Of its index."""
        return int(self.info.index_bytes)

    def bring(self) -> None:
        """Checks all of the index that has not been checked; where it is fetched, that comes in few requests."""
        self._native.bring()

    def locate(self, row: int, column: int) -> tuple[int, int]:
        """Offset in the data file, and size, of a blob; its digest is not checked."""
        return self._native.locate(row, column)


class JoinedPart(Part):
    """One part whose columns lie in several files: what it is says its first file, its columns each their own.

    ``places``: for each column of the schema, the file and the number of the column there.
    """

    def __init__(self, path: str, schema: Schema, places: Sequence[tuple[Part, int]]) -> None:
        first = places[0][0]
        super().__init__(first._native, path, schema)
        self._places = places
        self._files = list({id(part): part for part, _ in places}.values())

    @property
    def content(self) -> Metadata:
        """Schema, index columns and user metadata, as its first file has them."""
        return self._places[0][0].content

    @cached_property
    def stored_schema(self) -> Schema:
        """The schema with the codecs of its files."""
        return Schema(part.stored_schema[column] for part, column in self._places)

    @cached_property
    def statistics(self) -> Statistics:
        """Nulls, distinct, least and greatest value of each scalar column."""
        return tuple(part.statistics[column] for part, column in self._places)

    def vector(self, kind: int, column: int = -1) -> tuple[Elements, Callable[[int, int], None]] | None:
        """A section of an index, unchecked, and the check of its elements [start, stop); None when there is none."""
        part, place = self._places[column] if column >= 0 else (self._places[0][0], column)
        return part.vector(kind, place)

    def zone_rows(self, column: int) -> int:
        """Rows of a zone of this column; 0 when it has no zones."""
        part, place = self._places[column]
        return part.zone_rows(place)

    @property
    def index_bytes(self) -> int:
        """Of the indexes of its files."""
        return sum(part.index_bytes for part in self._files)

    def bring(self) -> None:
        """The same of each of its files."""
        for part in self._files:
            part.bring()

    def locate(self, row: int, column: int) -> tuple[int, int]:
        """Offset in its data file, and size, of a blob; its digest is not checked."""
        part, place = self._places[column]
        return part.locate(row, place)
