"""One opened part: what it is, and the flat arrays of its index as views, each checked where it is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import NativePart, cached_property
from ..errors import CorruptionError, FormatError
from ..format import layout, metadata
from ..format.metadata import Metadata, Statistics
from ..format.schema import Schema

__all__ = ["JoinedPart", "Part", "decode_metadata"]

Array = NDArray[Any]
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
    return FormatError(f"{path}.idx: {error}; run `unirecord repair {path}` to rebuild it from the data file")


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
                f"run `unirecord verify {self.path}`",
                path=f"{self.path}.idx",
            )
        return found

    @cached_property
    def stored_schema(self) -> Schema:
        """The schema with the codecs of this part; FormatError when the column table is not its own."""
        try:
            stored = self._stored.with_codecs(self._native.table())
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

    def vector(self, kind: int, column: int = -1) -> tuple[Array, Callable[[int, int], None]] | None:
        """A section of the index, unchecked, and the check of its elements [start, stop); None when there is none.

        Integers by their width, values and zones in the column's dtype; groups [n, 4], zones [n, 2].
        """
        section = self._native.section(kind, column)
        if section is None:
            return None
        array = self._native.array(section, self._dtype(kind, column, section.width))
        if kind in (layout.SECTION_GROUPS, layout.SECTION_ZONES):
            array = array.reshape(section.count, 4 if kind == layout.SECTION_GROUPS else 2)
        width = section.width

        def check(start: int, stop: int) -> None:
            self._native.check(section, start * width, max(stop - start, 0) * width)

        return array, check

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
        return array

    def _dtype(self, kind: int, column: int, width: int) -> np.dtype[Any]:
        if kind == layout.SECTION_GROUPS:
            return _INTEGERS[8]
        if kind in (layout.SECTION_VALUES, layout.SECTION_ZONES):
            dtype = self.schema[column].dtype
            return _INTEGERS[width // 2] if dtype is None else np.dtype(dtype)
        return _INTEGERS[width]

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

    def vector(self, kind: int, column: int = -1) -> tuple[Array, Callable[[int, int], None]] | None:
        """A section of an index, unchecked, and the check of its elements [start, stop); None when there is none."""
        part, place = self._places[column] if column >= 0 else (self._places[0][0], column)
        return part.vector(kind, place)

    def zone_rows(self, column: int) -> int:
        """Rows of a zone of this column; 0 when it has no zones."""
        part, place = self._places[column]
        return part.zone_rows(place)

    def locate(self, row: int, column: int) -> tuple[int, int]:
        """Offset in its data file, and size, of a blob; its digest is not checked."""
        part, place = self._places[column]
        return part.locate(row, place)
