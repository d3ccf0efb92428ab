"""CSV and TSV files as records: types found over the whole file, then read again by those types."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from typing import ClassVar, Final

from ...errors import SchemaError
from ...progress import Progress
from .base import Options, RawBatch, Source, Unit, column_names
from .cell_types import NUMBER, CellEvidence
from .convert import converted, text_converter
from .csv_arrow import arrow_block
from .overrides import apply_overrides
from .text_blocks import BlockPlace, count_lines, csv_blocks, read_block, text_start

__all__ = ["CsvTable"]

_CHUNK_ROWS: Final = 4096
_CHUNK_BYTES: Final = 8_000_000
_TABS: Final = (".tsv", ".tab")


class CsvTable(Source):
    """A text file of comma, semicolon, tab or bar separated values whose first line names the columns.

    Empty cells are null. A column is int64, uint64, float64 or bool when all its cells are, else string.
    """

    kind: ClassVar[str] = "csv"
    about: ClassVar[str] = "a CSV or TSV file"
    reads: ClassVar[str] = "a file"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the file once to find its types."""
        total = self.input.size()
        header, start, line = self._read_header()
        names, notes = column_names(header, self.path)
        self.notes += notes
        self._width = len(names)
        evidence = [CellEvidence() for _ in names]
        self.units = []
        row, place = 0, BlockPlace(start, None, line, 0)
        for block in csv_blocks(self.input, start, self._delimiter):
            place = BlockPlace(block.offset, len(block.data), line, row)
            row += self._look_at(block.data, line, evidence)
            line += block.lines
            self.units.append(Unit(self.path, place, row - place.row))
            if progress is not None:
                progress(place.offset + len(block.data), total)
        last = Unit(self.path, place._replace(size=None), row - place.row)
        self.units = [*self.units[:-1], last]
        if not row:
            self.notes.append("there is no line below the header, so every type is string")
        found = {name: column.type() for name, column in zip(names, evidence, strict=True)}
        self.schema = apply_overrides(found, options.overrides)

    def _look_at(self, data: bytes, line: int, evidence: list[CellEvidence]) -> int:
        """Take a block into account, and return how many rows it has."""
        block = arrow_block(data, self._width, self._delimiter)
        if block is not None:
            block.add_to(evidence)
            return block.rows
        many = 0
        for rows in self._chunks(data, line):
            many += len(rows)
            for column, cells in zip(evidence, zip(*rows, strict=True), strict=True):
                column.add(cells)
        return many

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a block of lines by the types found."""
        first_row = unit.place.row
        convert = [text_converter(c) for c in self.schema]
        data = read_block(self.input, unit.place)
        block = arrow_block(data, self._width, self._delimiter)
        if block is not None:
            columns = {}
            for i, column in enumerate(self.schema):
                values = block.values(i, column)
                columns[column.name] = (
                    converted(
                        block.texts(i), convert[i], column, first_row, self.path, keep=self.keeps_misfits
                    )
                    if values is None
                    else values
                )
            if block.rows:
                yield RawBatch(columns, block.rows)
            return
        for rows in self._chunks(data, unit.place.line):
            cells = zip(*rows, strict=True)
            columns = {
                c.name: converted(values, f, c, first_row, self.path, keep=self.keeps_misfits)
                for c, f, values in zip(self.schema, convert, cells, strict=True)
            }
            first_row += len(rows)
            yield RawBatch(columns, len(rows))

    def _read_header(self) -> tuple[list[str], int, int]:
        """Return the names, and where the rows begin: the offset, and the lines before it."""
        self._delimiter = "\t"
        start = text_start(self.input)
        if self.input.suffix not in _TABS:
            line = self._first_line(start)
            counts = {d: len(next(csv.reader([line], delimiter=d))) for d in ",;\t|"}
            self._delimiter = max(counts, key=lambda d: counts[d])
        data = self._header_bytes(start)
        header = next(row for row in csv.reader(_text(data, self.path), delimiter=self._delimiter) if row)
        for name in header:
            if NUMBER.fullmatch(name):
                raise SchemaError(
                    f"{self.path}: the first line should name the columns, but holds the number {name.strip()!r}; "
                    f"add a header line"
                )
        return header, start + len(data), count_lines(data)

    def _first_line(self, start: int) -> str:
        with self.input.open() as file:
            file.seek(start)
            text = TextIOWrapper(file, encoding="utf-8", newline="")
            try:
                return next(line for line in text if line.strip("\r\n"))
            except StopIteration:
                raise self._empty() from None
            except UnicodeDecodeError as error:
                raise _not_utf8(self.path, error) from None

    def _header_bytes(self, start: int) -> bytes:
        """Return the bytes of the record that names the columns, with empty lines before it."""
        taken: list[str] = []
        with self.input.open() as file:
            file.seek(start)
            text = TextIOWrapper(file, encoding="latin-1", newline="")  # a character a byte
            reader = csv.reader(_noted(text, taken), delimiter=self._delimiter)
            try:
                if next((row for row in reader if row), None) is None:
                    raise self._empty()
            except csv.Error as error:
                raise SchemaError(f"{self.path}, the header: {error}") from None
        return "".join(taken).encode("latin-1")

    def _empty(self) -> SchemaError:
        return SchemaError(f"{self.path} is empty: a CSV file starts with a line that names the columns")

    def _chunks(self, data: bytes, lines_before: int) -> Iterator[list[list[str]]]:
        """Yield some rows at a time of a block of whole records."""
        rows: list[list[str]] = []
        size = 0
        reader = csv.reader(_text(data, self.path), delimiter=self._delimiter, strict=True)
        where = f"{self.path}, line"
        try:
            for row in reader:
                if len(row) != self._width:
                    if not row:  # an empty line
                        continue
                    raise SchemaError(
                        f"{where} {lines_before + reader.line_num}: {len(row)} values, but the header names "
                        f"{self._width} columns; quote values that hold {self._delimiter!r}"
                    )
                rows.append(row)
                size += sum(map(len, row))
                if len(rows) >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
                    yield rows
                    rows, size = [], 0
        except csv.Error as error:
            raise SchemaError(f"{where} {lines_before + reader.line_num}: {error}") from None
        if rows:
            yield rows


def _text(data: bytes, path: str) -> TextIOWrapper:
    """UTF-8 bytes as lines of text."""
    csv.field_size_limit(sys.maxsize)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    return TextIOWrapper(BytesIO(data), encoding="utf-8", newline="")


def _noted(lines: TextIOWrapper, taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line


def _not_utf8(path: str, error: UnicodeDecodeError) -> SchemaError:
    byte = error.object[error.start]
    return SchemaError(
        f"{path} is not UTF-8 (byte 0x{byte:02x}); convert it first, e.g. iconv -f latin1 -t utf8"
    )
