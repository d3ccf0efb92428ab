"""Text files: blocks of whole records, several files as one dataset, and as records themselves, a row per line."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .input_path import InputPath
from .overrides import apply_overrides
from .source import NoRowsError, Options, RawBatch, RowPlace, Source, Unit

if TYPE_CHECKING:
    from _csv import Reader as CsvRecords

__all__ = [
    "BLOCK_BYTES",
    "Block",
    "BlockPlace",
    "CsvDialect",
    "FIRST_BYTES",
    "TextLines",
    "count_lines",
    "csv_blocks",
    "csv_records",
    "first_records",
    "line_blocks",
    "line_places",
    "open_ended",
    "quotes_are_plain",
    "read_block",
    "text_start",
]


# A text file in blocks of whole records: lines, or CSV records, which may hold line breaks in quotes.


BLOCK_BYTES: Final = 8_000_000
FIRST_BYTES: Final = 500_000  # about, of a block that is much larger
_BOM: Final = b"\xef\xbb\xbf"


class CsvDialect(NamedTuple):
    """How CSV is written: the character between values, and whether quotes enclose values or are characters."""

    delimiter: str
    quotes: bool = True


def csv_records(lines: Iterable[str], dialect: CsvDialect, *, strict: bool = False) -> CsvRecords:
    """Return the records of lines, whose values may have any length: Python's own limit is for the whole process."""
    csv.field_size_limit(sys.maxsize)
    if not dialect.quotes:
        return csv.reader(lines, delimiter=dialect.delimiter, quoting=csv.QUOTE_NONE, strict=strict)
    return csv.reader(lines, delimiter=dialect.delimiter, strict=strict)


class BlockPlace(NamedTuple):
    """Where a block lies, and what stands before it."""

    offset: int
    size: int | None  # None: to the end of the file, so that lines added since are seen
    line: int  # lines before it
    row: int  # rows before it


class Block(NamedTuple):
    """Bytes of whole records, and where they lie."""

    offset: int
    data: bytes
    lines: int


def line_places(name: str, lines: Sequence[int], rows: Sequence[int]) -> list[RowPlace]:
    """Where rows of a block are whose rows are at ``lines``; of rows that it has no longer, their numbers."""
    return [RowPlace(name, f"line {lines[row]}" if row < len(lines) else f"row {row}") for row in rows]


def read_block(source: InputPath, place: BlockPlace) -> bytes:
    """The bytes of a block that was found before."""
    with source.open() as file:
        file.seek(place.offset)
        return file.read() if place.size is None else file.read(place.size)


def line_blocks(source: InputPath) -> Iterator[Block]:
    """Yield a file in blocks of whole lines; a mark of UTF-8 at its start belongs to none."""
    return _blocks(source, text_start(source), lambda data: data.rfind(b"\n") + 1)


def csv_blocks(source: InputPath, start: int, dialect: CsvDialect) -> Iterator[Block]:
    """Yield a file from an offset on in blocks of whole CSV records."""
    return _blocks(source, start, lambda data: _whole_records(data, dialect))


def first_records(data: bytes, dialect: CsvDialect) -> tuple[bytes, bytes]:
    """Return some CSV records at the start of a block, and the rest, which is empty where there is little."""
    if len(data) < 4 * FIRST_BYTES:
        return data, b""
    first = data[: _whole_records(data[:FIRST_BYTES], dialect)]
    return (first, data[len(first) :]) if first.endswith((b"\n", b"\r")) else (data, b"")


def text_start(source: InputPath) -> int:
    """Return how many bytes the mark of UTF-8 at the start takes, 0 or 3."""
    with source.open() as file:
        return len(_BOM) if file.read(len(_BOM)) == _BOM else 0


def quotes_are_plain(data: bytes, delimiter: str) -> bool:
    """Whether quotes only begin and end values (or are doubled in them), as RFC 4180 says.

    Then a line break stands in a value if the number of quotes before it is odd, and any reader of CSV agrees.
    """
    found = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(found == ord('"'))
    edges = np.zeros(256, np.bool_)
    edges[[ord(delimiter), 10, 13, ord('"')]] = True
    starts, ends = quotes[0::2], quotes[1::2]
    before = found[starts[starts > 0] - 1]
    after = found[ends[ends + 1 < len(found)] + 1]
    if not (edges[before].all() and edges[after].all()):
        return False
    # A value that starts after a quote goes on after a doubled one.
    doubled = found[np.maximum(starts, 1) - 1] == ord('"')
    doubled &= starts > 0
    previous = np.concatenate(([-2], ends))[: len(starts)]
    return bool((previous[doubled] + 1 == starts[doubled]).all())


def _blocks(source: InputPath, start: int, whole: Callable[[bytes], int]) -> Iterator[Block]:
    rest, offset, want = b"", start, BLOCK_BYTES
    with source.open() as file:
        file.seek(offset)
        while piece := file.read(max(want - len(rest), 1)):
            data = rest + piece
            cut = whole(data)
            if not cut:  # one record is longer than a block
                rest, want = data, 2 * len(data)
                continue
            yield _block(offset, data[:cut])
            offset += cut
            rest, want = data[cut:], BLOCK_BYTES
    if rest:
        yield _block(offset, rest)


def _block(offset: int, data: bytes) -> Block:
    return Block(offset, data, count_lines(data))


def count_lines(data: bytes) -> int:
    """Return how many line breaks there are: LF, CR, or both together."""
    lines = int(np.count_nonzero(np.frombuffer(data, np.uint8) == 10))  # ten times as fast as bytes.count
    return lines + data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else lines


def _whole_records(data: bytes, dialect: CsvDialect) -> int:
    """Return how many bytes at the start of ``data`` are whole records."""
    end = data.rfind(b"\n") + 1
    if not end:
        end = data.rfind(b"\r", 0, len(data) - 1) + 1
    if not dialect.quotes or b'"' not in data:
        return end
    if not quotes_are_plain(data, dialect.delimiter):
        return _parsed_records(data, dialect)
    if data.count(b'"', 0, end) % 2 == 0:
        return end
    found = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(found == (10 if b"\n" in data else 13))
    outside = breaks[np.searchsorted(np.flatnonzero(found == ord('"')), breaks) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def _parsed_records(data: bytes, dialect: CsvDialect) -> int:
    """The same by reading every record, where quotes stand in odd places."""
    taken = done = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        with io.TextIOWrapper(io.BytesIO(data), encoding="latin-1", newline="") as text:
            for line in text:
                taken += len(line)
                if not line.endswith(("\n", "\r")) or (line.endswith("\r") and taken == len(data)):
                    return  # it may go on in the next block
                yield line

    try:
        for _ in csv_records(lines(), dialect, strict=True):
            done = taken
    except csv.Error as error:
        if "unexpected end" not in str(error):
            return len(data)  # whoever reads it says what is wrong
    return done


# The units of text files: the number of the file, and a `BlockPlace`.


def open_ended(units: list[Unit]) -> list[Unit]:
    """The units of a file, of which the last reaches to its end, so that lines that come to be there are noticed."""
    if not units:
        return []
    number, place = units[-1].place
    return [*units[:-1], Unit(units[-1].name, (number, place._replace(size=None)), units[-1].rows)]


# Text files as records: a row per line.


class TextLines(Source):
    """UTF-8 text, a row per line without its end; empty lines are rows, too. Folders are read so when that is asked."""

    kind: ClassVar[str] = "text"
    about: ClassVar[str] = "a text file (a row per line)"
    item: ClassVar[str] = "line"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text")
    any_names: ClassVar[bool] = True
    reads: ClassVar[str] = "a file, or a folder of them"

    @classmethod
    def can_read(cls, source: InputPath) -> bool:
        """Files, and folders of them; what nobody asked to read so is a folder of texts, with a row per file."""
        return source.is_file or source.holds(cls.suffixes)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Count the lines."""
        self._files = self.files_to_read()
        self.units: Sequence[Unit] = []
        for number, file in self.each_file(self._files, progress):
            self._look_through_file(file, number)
        if not self.units:
            raise NoRowsError(f"{self.path} is empty")
        self.schema: Schema = apply_overrides({"text": "text"}, options.overrides)

    def _look_through_file(self, file: InputPath, number: int) -> None:
        line = 0
        units: list[Unit] = []
        for block in line_blocks(file):
            lines = len(_lines(block.data))
            place = BlockPlace(block.offset, len(block.data), line, line)
            units.append(Unit(file.name, (number, place), lines))
            line += lines
        self.units = [*self.units, *open_ended(units)]

    def places_of(self, unit: Unit, rows: Sequence[int]) -> list[RowPlace]:
        """The file and the lines."""
        return [RowPlace(unit.name, f"line {unit.place[1].line + row + 1}") for row in rows]

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the lines of a block."""
        number, place = unit.place
        lines = _lines(read_block(self._files[number], place))
        found: list[bytes | str] = list(lines)
        if self.schema["text"].type != "bytes":
            for i, line in enumerate(lines):
                try:
                    found[i] = line.decode()
                except UnicodeDecodeError as error:
                    raise SchemaError(
                        f"{unit.name}, line {place.line + i + 1} is not UTF-8 ({error.reason} at byte "
                        f"{error.start}); --schema text=bytes takes it"
                    ) from None
        yield RawBatch({"text": found}, len(found))


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]
