"""CSV and TSV files as records: types found over the whole file, then read again by those types."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from typing import BinaryIO, ClassVar, Final, TextIO

from ...errors import SchemaError
from ...progress import Progress
from .base import Options, RawBatch, Source, column_names
from .convert import converted, text_converter
from .input_path import InputPath
from .overrides import apply_overrides

__all__ = ["CsvTable"]

_CHUNK_ROWS: Final = 4096
_CHUNK_BYTES: Final = 8_000_000
_LONG_TEXT: Final = 4096
# Cells are tested joined by a character that cannot be part of a number: one match per column and chunk.
_JOIN: Final = "\x1f"
_WHOLE: Final = r"[-+]?(?:0|[1-9][0-9]*)"  # no leading zeros: 007 is a name
_REAL: Final = (
    rf"{_WHOLE}(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|[-+]?\.[0-9]+(?:e[-+]?[0-9]+)?|[-+]?inf(?:inity)?|nan"
)
# One way only to match blanks, or a long run of them that is no number takes quadratic time.
_INTS: Final = re.compile(rf"(?:(?: *(?:{_WHOLE}) *)?{_JOIN})*")
_REALS: Final = re.compile(rf"(?:(?: *(?:{_REAL}) *)?{_JOIN})*", re.IGNORECASE)
_BOOLS: Final = re.compile(rf"(?:(?:true|false)?{_JOIN})*", re.IGNORECASE)
_NUMBER: Final = re.compile(rf" *(?:{_REAL}) *", re.IGNORECASE)
_BIG: Final = re.compile(r"[0-9]{19}")
_MAX_DIGITS: Final = 30  # a whole number that is written longer is beyond 64 bits


class CsvTable(Source):
    """A text file of comma, semicolon, tab or bar separated values whose first line names the columns.

    Empty cells are null. A column is int64, uint64, float64 or bool when all its cells are, else string.
    """

    kind: ClassVar[str] = "csv"
    about: ClassVar[str] = "a CSV or TSV file"
    reads: ClassVar[str] = "a file"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the name."""
        return not source.is_folder and source.suffix in cls.suffixes

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Any file."""
        return not source.is_folder

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the file once to find its types."""
        self._total = self.input.size()
        self._delimiter = ","
        self.rows = 0
        header = self._read_header()
        names, notes = column_names(header, self.path)
        self.notes += notes
        evidence = [_CellEvidence() for _ in names]
        for rows, done in self._chunks(len(names)):
            self.rows += len(rows)
            for column, cells in zip(evidence, zip(*rows, strict=True), strict=True):
                column.add(cells)
            if progress is not None:
                progress(done, self._total)
        if not self.rows:
            self.notes.append("there is no line below the header, so every type is string")
        found = {name: column.type() for name, column in zip(names, evidence, strict=True)}
        self.schema = apply_overrides(found, options.overrides)

    def read(self, position: int) -> Iterator[RawBatch]:
        """Yield the rows by the types found; a position is a number of rows."""
        first_row = 0
        convert = [text_converter(c) for c in self.schema]
        for rows, _ in self._chunks(len(self.schema)):
            if first_row + len(rows) <= position:
                first_row += len(rows)
                continue
            cells = zip(*rows, strict=True)
            columns = {
                c.name: converted(values, f, c, first_row, self.path)
                for c, f, values in zip(self.schema, convert, cells, strict=True)
            }
            first_row += len(rows)
            yield RawBatch(columns, len(rows), first_row)

    def _read_header(self) -> list[str]:
        with _open_text(self.input) as (text, _):
            try:
                line = text.readline()
                while line and not line.strip("\r\n"):
                    line = text.readline()
            except UnicodeDecodeError as error:
                raise _not_utf8(self.path, error) from None
            if not line:
                raise SchemaError(
                    f"{self.path} is empty: a CSV file starts with a line that names the columns"
                )
            if self.input.suffix in (".tsv", ".tab"):
                self._delimiter = "\t"
            else:
                counts = {d: len(next(csv.reader([line], delimiter=d))) for d in ",;\t|"}
                self._delimiter = max(counts, key=lambda d: counts[d])
        with _open_text(self.input) as (text, _):
            header = self._first_row(csv.reader(text, delimiter=self._delimiter))
        for name in header:
            if _NUMBER.fullmatch(name):
                raise SchemaError(
                    f"{self.path}: the first line should name the columns, but holds the number {name.strip()!r}; "
                    f"add a header line"
                )
        return header

    def _first_row(self, reader: Iterator[list[str]]) -> list[str]:
        try:
            return next((row for row in reader if row), [])
        except UnicodeDecodeError as error:
            raise _not_utf8(self.path, error) from None
        except csv.Error as error:
            raise SchemaError(f"{self.path}, the header: {error}") from None

    def _chunks(self, width: int) -> Iterator[tuple[list[list[str]], int]]:
        """Yield some rows at a time, below the header, and how many bytes have been read."""
        rows: list[list[str]] = []
        with _open_text(self.input) as (text, raw):
            reader = csv.reader(text, delimiter=self._delimiter, strict=True)
            read = 0
            try:
                next((row for row in reader if row), None)
                for row in reader:
                    if len(row) != width:
                        if not row:  # an empty line
                            continue
                        raise SchemaError(
                            f"{self.path}, line {reader.line_num}: {len(row)} values, but the header names {width} "
                            f"columns; quote values that hold {self._delimiter!r}"
                        )
                    rows.append(row)
                    if len(rows) >= _CHUNK_ROWS or raw.tell() - read >= _CHUNK_BYTES:
                        read = raw.tell()
                        yield rows, read
                        rows = []
            except UnicodeDecodeError as error:
                raise _not_utf8(self.path, error) from None
            except csv.Error as error:
                raise SchemaError(f"{self.path}, line {reader.line_num}: {error}") from None
        if rows:
            yield rows, self._total


@dataclass
class _CellEvidence:
    """What the cells of one column seen so far allow."""

    whole: bool = True
    real: bool = True
    logical: bool = True
    empty: bool = False
    filled: bool = False
    low: int = 0
    high: int = 0
    longest: int = 0

    def add(self, cells: Sequence[str]) -> None:
        """Take more cells into account."""
        self.empty = self.empty or "" in cells
        self.filled = self.filled or any(cells)
        if self.whole or self.real or self.logical:
            joined = _JOIN.join(cells) + _JOIN
            if joined.count(_JOIN) != len(cells):  # a cell holds it, which no number does
                joined = "x"
            self.whole = self.whole and _INTS.fullmatch(joined) is not None
            self.real = self.real and (self.whole or _REALS.fullmatch(joined) is not None)
            self.logical = self.logical and _BOOLS.fullmatch(joined) is not None
            if self.whole and _BIG.search(joined):
                values = [_whole(cell) for cell in cells if cell.strip()]
                self.low, self.high = min(self.low, *values), max(self.high, *values)
        self.longest = max(self.longest, max(map(len, cells)))

    def type(self) -> str:
        """Return the type's name, with ``?`` when a cell was empty."""
        name = self._base() if self.filled else "string"
        if name == "string" and self.longest > _LONG_TEXT and not self.empty:
            return "text"
        return name + "?" if self.empty else name

    def _base(self) -> str:
        if self.whole:
            if self.high < 1 << 63 and self.low >= -(1 << 63):
                return "int64"
            return "uint64" if self.low >= 0 and self.high < 1 << 64 else "string"
        if self.real:
            return "float64"
        return "bool" if self.logical else "string"


def _whole(cell: str) -> int:
    """Return the number, or one that is as far beyond 64 bits."""
    text = cell.strip()
    if len(text) <= _MAX_DIGITS:
        return int(text)
    return -(1 << 64) if text.startswith("-") else 1 << 64


@contextmanager
def _open_text(source: InputPath) -> Iterator[tuple[TextIO, BinaryIO]]:
    """Open a UTF-8 file as text, with the binary file below it, whose position tells the progress."""
    csv.field_size_limit(sys.maxsize)
    with source.open() as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        yield text, raw


def _not_utf8(path: str, error: UnicodeDecodeError) -> SchemaError:
    byte = error.object[error.start]
    return SchemaError(
        f"{path} is not UTF-8 (byte 0x{byte:02x}); convert it first, e.g. iconv -f latin1 -t utf8"
    )
