"""One CSV file: what separates its values, the line that names its columns, and its records by lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from typing import Final

from ...errors import SchemaError
from .base import LeftOut
from .cell_types import NUMBER
from .input_path import InputPath
from .text_blocks import count_lines, csv_records, text_start

__all__ = ["CsvFile"]

_CHUNK_ROWS: Final = 4096
_CHUNK_BYTES: Final = 8_000_000
_MOST_HEADER_BYTES: Final = 64_000_000
_TABS: Final = (".tsv", ".tab")


class CsvFile:
    """A CSV or TSV file with a header.

    Attributes:
        file: where it lies.
        name: what messages call it.
        delimiter: the character between values.
        header: the names of the columns.
        start: where the rows begin, in bytes.
        lines: how many lines stand before them.
    """

    file: InputPath
    name: str
    header: list[str]
    start: int
    lines: int
    delimiter: str

    def __init__(self, file: InputPath) -> None:
        """Read the header. Raises `SchemaError` where there is none."""
        self.file, self.name = file, file.name
        try:
            self.header, self.start, self.lines = self._read_header()
        except csv.Error as error:
            raise SchemaError(f"{self.name}, the header: {error}") from None

    def _read_header(self) -> tuple[list[str], int, int]:
        """Return the names, and where the rows begin: the offset, and the lines before it."""
        self.delimiter = "\t"
        start = text_start(self.file)
        if self.file.suffix not in _TABS:
            line = self._first_line(start)
            counts = {d: len(next(csv_records([line], d))) for d in ",;\t|"}
            self.delimiter = max(counts, key=lambda d: counts[d])
        data = self._header_bytes(start)
        header = next(row for row in csv_records(_text(data, self.name), self.delimiter) if row)
        for name in header:
            if NUMBER.fullmatch(name):
                raise SchemaError(
                    f"{self.name}: the first line should name the columns, but holds the number {name.strip()!r}; "
                    f"add a header line"
                )
        return header, start + len(data), count_lines(data)

    def _first_line(self, start: int) -> str:
        with self.file.open() as file:
            file.seek(start)
            text = TextIOWrapper(file, encoding="utf-8", newline="")
            try:
                return next(line for line in text if line.strip("\r\n"))
            except StopIteration:
                raise self._empty() from None
            except UnicodeDecodeError as error:
                raise _not_utf8(self.name, error) from None

    def _header_bytes(self, start: int) -> bytes:
        """Return the bytes of the record that names the columns, with empty lines before it."""
        taken: list[str] = []
        with self.file.open() as file:
            file.seek(start)
            text = TextIOWrapper(file, encoding="latin-1", newline="")  # a character a byte
            reader = csv_records(self._noted(text, taken), self.delimiter, strict=True)
            if next((row for row in reader if row), None) is None:
                raise self._empty()
        return "".join(taken).encode("latin-1")

    def _noted(self, lines: TextIOWrapper, taken: list[str]) -> Iterator[str]:
        size = 0
        for line in lines:
            size += len(line)
            if size > _MOST_HEADER_BYTES:
                raise SchemaError(
                    f"{self.name}, the header: it does not end within {_MOST_HEADER_BYTES:,} bytes; "
                    f"a quote may be open"
                )
            taken.append(line)
            yield line

    def _empty(self) -> SchemaError:
        return SchemaError(f"{self.name} is empty: a CSV file starts with a line that names the columns")

    def chunks(
        self, data: bytes, lines_before: int, width: int, *, leaves_out: bool = False
    ) -> Iterator[tuple[list[list[str]], list[int], tuple[LeftOut, ...]]]:
        """Yield some rows at a time of a block of whole records, the line that each ends with, and what is left out."""
        rows: list[list[str]] = []
        lines: list[int] = []
        left_out: list[LeftOut] = []
        size = 0
        reader = csv_records(_text(data, self.name), self.delimiter, strict=True)
        try:
            for row in reader:
                if len(row) != width:
                    if not row:  # an empty line
                        continue
                    reason = (
                        f"line {lines_before + reader.line_num}: {len(row)} values, but the header names "
                        f"{width} columns; quote values that hold {self.delimiter!r}"
                    )
                    if not leaves_out:
                        raise SchemaError(f"{self.name}, {reason}")
                    left_out.append(LeftOut(self.name, reason))
                    continue
                rows.append(row)
                lines.append(lines_before + reader.line_num)
                size += sum(map(len, row))
                if len(rows) >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
                    yield rows, lines, tuple(left_out)
                    rows, lines, left_out, size = [], [], [], 0
        except csv.Error as error:
            raise SchemaError(f"{self.name}, line {lines_before + reader.line_num}: {error}") from None
        if rows or left_out:
            yield rows, lines, tuple(left_out)


def _text(data: bytes, path: str) -> TextIOWrapper:
    """UTF-8 bytes as lines of text."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    return TextIOWrapper(BytesIO(data), encoding="utf-8", newline="")


def _not_utf8(path: str, error: UnicodeDecodeError) -> SchemaError:
    byte = error.object[error.start]
    return SchemaError(
        f"{path} is not UTF-8 (byte 0x{byte:02x}); convert it first, e.g. iconv -f latin1 -t utf8"
    )
