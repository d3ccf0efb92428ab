"""CSV and TSV files as records: types found over all of them, then read again by those types."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from io import BytesIO, TextIOWrapper
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from ...core import ColumnLook, look_through_csv
from ...errors import SchemaError
from ...format.column import Column
from ...format.schema import Schema
from ...format.values.batch import numbers_of, texts_of
from ...progress import Progress
from ...sizes import many
from .input_path import InputPath
from .source import (
    AskedOption,
    Misfit,
    NoRowsError,
    Options,
    Partitions,
    RawBatch,
    RowPlace,
    Source,
    Unit,
    WrongSourceError,
    column_name,
    made_ahead,
)
from .text_files import (
    Block,
    BlockPlace,
    CsvDialect,
    count_lines,
    csv_blocks,
    csv_records,
    first_records,
    line_places,
    open_ended,
    quotes_are_plain,
    read_block,
    text_start,
)
from .text_values import (
    NUMBER,
    CellEvidence,
    converted,
    exact_float,
    takes_moments,
    text_converter,
    times_of_texts,
)

__all__ = [
    "CSV_OPTIONS",
    "ArrowBlock",
    "CsvFile",
    "CsvTable",
    "arrow_block",
]


# How a file is written, where that is asked.


CSV_OPTIONS: Final = (
    AskedOption(
        "delimiter", "the character between values (default: found in the first line; \\t is a tab)", "C"
    ),
    AskedOption("names", "the names of the columns of files that have no header line", "A,B"),
    AskedOption("quoting", "none: quotes are characters like others, and enclose nothing", "none"),
)


class CsvFormat(NamedTuple):
    """What was asked about how the files are written. None: it is found."""

    delimiter: str | None = None
    names: tuple[str, ...] | None = None
    quotes: bool = True

    @classmethod
    def of(cls, options: Options) -> CsvFormat:
        """Raises `WrongSourceError` for what no file can be written as."""
        return cls(_delimiter(options.get("delimiter")), _names(options.get("names")), _quotes(options))

    def ways(self) -> str:
        """What else a file that does not fit may be, which was not asked for; with a comma before it."""
        ways = [] if self.delimiter else ["--delimiter C"]
        ways += [] if self.names else ["--names A,B (there is no header line)"]
        ways += ["--quoting none (quotes enclose nothing)"] if self.quotes else []
        return f", or say how it is written: {', '.join(ways)}" if ways else ""


def _delimiter(asked: Any) -> str | None:
    if asked is None:
        return None
    found = {"\\t": "\t"}.get(asked, asked)
    if not isinstance(found, str) or len(found) != 1 or not found.isascii() or found in '"\r\n\0':
        raise WrongSourceError(
            f"--delimiter is one ASCII character that is no quote and no line break, such as '|', got {asked!r}"
        )
    return found


def _names(asked: Any) -> tuple[str, ...] | None:
    if asked is None:
        return None
    found = tuple(name.strip() for name in asked.split(",")) if isinstance(asked, str) else tuple(asked)
    if not found or not all(isinstance(name, str) and name for name in found):
        raise WrongSourceError(f"--names is a name for each column, as id,text, got {asked!r}")
    return found


def _quotes(options: Options) -> bool:
    asked = options.get("quoting", "minimal")
    if asked not in ("minimal", "none"):
        raise WrongSourceError(
            f"--quoting is none (quotes are characters like others) or minimal (they may enclose values), got {asked!r}"
        )
    return bool(asked == "minimal")


# One CSV file: what separates its values, the line that names its columns, and its records by lines.


_CHUNK_ROWS: Final = 4096
_CHUNK_BYTES: Final = 8_000_000
_MOST_HEADER_BYTES: Final = 64_000_000
_TABS: Final = (".tsv", ".tab")


class CsvFile:
    """A CSV or TSV file, with a header line or names in its place.

    Attributes:
        file: where it lies.
        name: what messages call it.
        dialect: what separates and encloses its values.
        header: the names of the columns.
        start: where the rows begin, in bytes.
        lines: how many lines stand before them.
    """

    def __init__(self, file: InputPath, asked: CsvFormat) -> None:
        """Read the header. Raises `SchemaError` where there is none."""
        self.file, self.name, self.asked = file, file.name, asked
        try:
            self.header, self.start, self.lines = self._read_header()
        except csv.Error as error:
            raise SchemaError(f"{self.name}, the header: {error}{self._quoting_advice()}") from None

    def _read_header(self) -> tuple[list[str], int, int]:
        """Return the names, and where the rows begin: the offset, and the lines before it."""
        start = text_start(self.file)
        self.dialect: CsvDialect = CsvDialect(
            self.asked.delimiter or self._delimiter(start), self.asked.quotes
        )
        if self.asked.names is not None:
            self._refuse_named_twice(start, self.asked.names)
            return list(self.asked.names), start, 0
        data = self._header_bytes(start)
        header = next(row for row in csv_records(_text(data, self.name), self.dialect) if row)
        for name in header:
            if NUMBER.fullmatch(name):
                raise SchemaError(
                    f"{self.name}: the first line should name the columns, but holds the number {name.strip()!r}; "
                    f"add a header line, or name them: --names A,B"
                )
        return header, start + len(data), count_lines(data)

    def _delimiter(self, start: int) -> str:
        """The character that parts the first line into the most values."""
        if self.file.suffix in _TABS:
            return "\t"
        line = self._first_line(start)
        counts = {d: len(next(csv_records([line], CsvDialect(d, self.asked.quotes)))) for d in ",;\t|"}
        return max(counts, key=lambda d: counts[d])

    def _refuse_named_twice(self, start: int, names: tuple[str, ...]) -> None:
        """Refuse names for a file whose first line has them already: it would be a row."""
        if tuple(next(csv_records([self._first_line(start)], self.dialect))) == names:
            raise SchemaError(f"{self.name}: the first line has these names already; leave out --names")

    def _quoting_advice(self) -> str:
        return (
            "; where quotes enclose nothing, --quoting none reads them as they stand"
            if self.dialect.quotes
            else ""
        )

    def _first_line(self, start: int) -> str:
        with self.file.open() as file:
            file.seek(start)
            text = TextIOWrapper(file, encoding="utf-8", newline="")
            try:
                return next(line for line in text if line.strip("\r\n"))
            except StopIteration:
                if self.asked.names is not None:
                    return ""
                raise self._empty() from None
            except UnicodeDecodeError as error:
                raise _not_utf8(self.name, error) from None

    def _header_bytes(self, start: int) -> bytes:
        """Return the bytes of the record that names the columns, with empty lines before it."""
        taken: list[str] = []
        with self.file.open() as file:
            file.seek(start)
            text = TextIOWrapper(file, encoding="latin-1", newline="")  # a character a byte
            reader = csv_records(self._noted(text, taken), self.dialect, strict=True)
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
                    f"a quote may be open{self._quoting_advice()}"
                )
            taken.append(line)
            yield line

    def _empty(self) -> SchemaError:
        return NoRowsError(f"{self.name} is empty: a CSV file starts with a line that names the columns")

    def chunks(
        self, data: bytes, lines_before: int, width: int
    ) -> Iterator[tuple[list[list[str]], list[int], list[Misfit]]]:
        """Yield some rows at a time of a block of whole records, the line that each ends with, and what is no row."""
        rows: list[list[str]] = []
        lines: list[int] = []
        misfits: list[Misfit] = []
        size = 0
        ended: SchemaError | None = None
        reader = csv_records(_text(data, self.name), self.dialect, strict=True)
        try:
            for row in reader:
                if len(row) != width:
                    if not row:  # an empty line
                        continue
                    reason = f"line {lines_before + reader.line_num}: {self._ragged(len(row), width)}"
                    misfits.append(Misfit(self.name, reason))
                    continue
                rows.append(row)
                lines.append(lines_before + reader.line_num)
                size += sum(map(len, row))
                if len(rows) >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
                    yield rows, lines, misfits
                    rows, lines, misfits, size = [], [], [], 0
        except csv.Error as error:
            ended = SchemaError(
                f"{self.name}, line {lines_before + reader.line_num}: {error}{self._quoting_advice()}"
            )
        if rows or misfits:
            yield rows, lines, misfits
        if ended is not None:
            raise ended

    def _ragged(self, values: int, width: int) -> str:
        """What is wrong with a record of another number of values, and what it may be instead."""
        whose = "the header names" if self.asked.names is None else "--names has"
        way = "quote values that hold" if self.dialect.quotes else "values are parted at every"
        delimiter = repr(self.dialect.delimiter)
        return f"{many(values, 'value')}, but {whose} {many(width, 'column')}; {way} {delimiter}{self.asked.ways()}"


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


# Blocks of CSV by pyarrow where it is installed: the same cells, types and values as without it, only faster.


_MOST_BYTES: Final = 1 << 30
_HEAD: Final = 64


class ArrowBlock:
    """The cells of a block, column by column: as text, or as the values that the columns hold."""

    def __init__(self, pa: Any, compute: Any, columns: list[Any], rows: int) -> None:
        self._pa, self._compute = pa, compute
        self._columns, self.rows = columns, rows

    def values(self, number: int, column: Column) -> Any:
        """Return the values of a column; None where they have to be converted one by one."""
        cells, pa, compute = self._columns[number], self._pa, self._compute
        if column.is_array or column.type in ("bytes", "object"):
            return None
        if cells.type != pa.string():
            return numbers_of(cells)
        if column.meaning is not None and not takes_moments(column):
            return None
        if column.nullable:
            cells = compute.if_else(
                compute.equal(compute.binary_length(cells), 0), pa.scalar(None, cells.type), cells
            )
        if takes_moments(column):
            return times_of_texts(cells, column)
        if column.type in ("string", "text"):
            return texts_of(cells) if column.type == "string" else cells.to_pylist()
        values = self._cast(cells, pa.type_for_alias(_kind(column)))
        return None if values is None or not _is_finite(pa, compute, values) else numbers_of(values)

    def fits(self, schema: Schema) -> bool:
        """Whether the values are what each cell says: no null where the column has none, no number that overflowed."""
        for cells, column in zip(self._columns, schema, strict=True):
            if cells.null_count and not column.nullable:
                return False
            if not _is_finite(self._pa, self._compute, cells):
                return False
        return True

    def _cast(self, cells: Any, kind: Any) -> Any:
        pa, compute = self._pa, self._compute
        if (
            pa.types.is_integer(kind)
            and compute.any(compute.match_substring(cells, "x", ignore_case=True)).as_py()
        ):
            return None  # Arrow takes 0x1F for a number
        try:
            cells[:_HEAD].cast(kind)  # Arrow is slow to fail: it words an error for every cell
            return cells.cast(kind)
        except pa.ArrowException:
            return None

    def texts(self, number: int) -> list[str]:
        """The cells of a column, which is not of plain values."""
        return list(self._columns[number].to_pylist())


def arrow_block(data: bytes, schema: Schema, dialect: CsvDialect) -> ArrowBlock | None:
    """Return the cells of a block; None where pyarrow is not installed, or might read it otherwise than `csv` does."""
    if not data or len(data) > _MOST_BYTES or b"\0" in data:
        return None
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return None
    try:
        pa, reader, compute = map(import_module, ("pyarrow", "pyarrow.csv", "pyarrow.compute"))
    except ImportError:
        return None
    quoted = dialect.quotes and b'"' in data
    if quoted and (data.count(b'"') % 2 or not quotes_are_plain(data, dialect.delimiter)):
        return None

    def parsed(kinds: Sequence[str], nulls: list[str]) -> ArrowBlock | None:
        names = [f"{i}" for i in range(len(kinds))]
        types = {name: pa.type_for_alias(kind) for name, kind in zip(names, kinds, strict=True)}
        try:
            table = reader.read_csv(
                pa.BufferReader(data),
                reader.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
                reader.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char='"' if dialect.quotes else False,
                    newlines_in_values=quoted,
                ),
                reader.ConvertOptions(column_types=types, null_values=nulls),
            )
        except pa.ArrowException:
            return None
        return ArrowBlock(pa, compute, [column.combine_chunks() for column in table.columns], table.num_rows)

    kinds = [_kind(column) for column in schema]
    if set(kinds) != {"string"} and not _has_hexadecimal(data):
        block = parsed(kinds, [""])
        if block is not None and block.fits(schema):
            return block
    return parsed(["string"] * len(kinds), [])


def _has_hexadecimal(data: bytes) -> bool:
    """Whether there is a 0x or 0X; a search for two characters takes ten times as long where one is everywhere."""
    if b"x" not in data and b"X" not in data:
        return False
    found = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero((found | 0x20) == ord("x"))
    return bool((found[marks[marks > 0] - 1] == ord("0")).any())


def _kind(column: Column) -> str:
    """The Arrow type by which the cells of a column are read."""
    if column.dtype is None or column.is_array or column.meaning is not None:
        return "string"
    return {"b": "bool", "i": "int64", "u": "uint64", "f": "float64"}.get(column.dtype.kind, "string")


def _is_finite(pa: Any, compute: Any, values: Any) -> bool:
    """Whether no number is infinite: it may have been written as a finite one."""
    return not pa.types.is_floating(values.type) or bool(compute.all(compute.is_finite(values)).as_py())


class CsvTable(Source):
    """Text files of comma, semicolon, tab or bar separated values, whose first line, or who asks, names the columns.

    Empty cells are null. A column is int64, uint64, float64, bool, date or timestamp when all its cells are; else it
    is string.
    """

    kind: ClassVar[str] = "csv"
    about: ClassVar[str] = "CSV or TSV files"
    values_are_text: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")
    any_names: ClassVar[bool] = True
    takes_folders: ClassVar[bool] = True
    reads: ClassVar[str] = "a file, or a folder of them"
    options: ClassVar[tuple[AskedOption, ...]] = CSV_OPTIONS

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """By the name; a folder or a pattern by the names of all its files."""
        return source.holds_only(cls.suffixes)

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the files once to find their types."""
        asked = CsvFormat.of(options)
        self._files: list[CsvFile] = []
        # Of each file, in which of its cells each column of the first file is; None where it has not that column.
        self._places: list[list[int | None]] = []
        self.units: Sequence[Unit] = []
        evidence: list[CellEvidence] = []
        rows = 0
        for number, file in self.each_file(self.files_to_read(), progress):
            table = CsvFile(file, asked)
            self._files.append(table)
            self._places.append(self._places_in(table, options))
            evidence = evidence or [CellEvidence() for _ in table.header]
            rows += self._look_through_file(number, evidence, options)
        files = [one.file for one in self._files]
        self._partitions = Partitions(self.input, files, self._files[0].header, options)
        self.left_out.extend(self._partitions.changed)
        names = self._partitions.own_names
        if not rows:
            self.notes.append("there is no line below the header, so every type is string")
        found = {name: column.type() for name, column in zip(names, evidence, strict=True)}
        found |= self._partitions.types
        self._exact = frozenset(
            name
            for name, column in zip(names, evidence, strict=True)
            if column.inexact
            and column.type() in ("float64", "float64?")
            and name not in options.overrides
            and options.wants(name)
        )
        self.schema: Schema = options.schema(found)
        columns = {column.name: column for column in self.schema}
        self._of_cells = [columns.get(name) for name in names]
        if self._exact:  # a whole number that is rounded is refused before anything is written
            options.refuse(one for unit in self.units for batch in self.read(unit) for one in batch.misfits)

    def _places_in(self, table: CsvFile, options: Options) -> list[int | None]:
        """Where the columns of the first file are in another, which has the same, or those that are wanted."""
        first = self._files[0].header
        wanted = [name for i, name in enumerate(first) if options.wants(column_name(name, i))]
        if table.header != first and (options.wanted is None or not set(wanted) <= set(table.header)):
            raise SchemaError(
                f"{table.name} has the columns {', '.join(table.header)}, but {self._files[0].name} has "
                f"{', '.join(first)}; write them to datasets of their own"
            )
        if table.header == first:
            return list(range(len(first)))
        return [table.header.index(name) if name in table.header else None for name in first]

    def _look_through_file(self, number: int, evidence: list[CellEvidence], options: Options) -> int:
        """Take the rows of a file into account, add its units, and return how many rows it has."""
        table, places = self._files[number], self._places[number]
        width = len(table.header)
        line, row = table.lines, 0
        units = [Unit(table.name, (number, BlockPlace(table.start, None, line, 0)), 0)]

        def look(block: Block) -> tuple[int, list[ColumnLook]] | None:
            if b'"' in block.data and not table.dialect.quotes:
                return None
            return look_through_csv(block.data, table.dialect.delimiter, width)

        blocks = csv_blocks(table.file, table.start, table.dialect)
        for i, (block, found) in enumerate(made_ahead(look, blocks, options.threads)):
            place = BlockPlace(block.offset, len(block.data), line, row)
            if found is None:
                row += self._look_at(number, block.data, line, evidence, options)
            else:
                row += found[0]
                for column, at in zip(evidence, places, strict=True):
                    if at is not None:
                        column.take(found[1][at])
            line += block.lines
            units[i:] = [Unit(table.name, (number, place), row - place.row)]
        self.units = [*self.units, *open_ended(units)]
        return row

    def _look_at(
        self, number: int, data: bytes, line: int, evidence: list[CellEvidence], options: Options
    ) -> int:
        """Take a block into account cell by cell, and return how many rows it has."""
        many = 0
        table, places = self._files[number], self._places[number]
        for rows, _, misfits in table.chunks(data, line, len(table.header)):
            options.refuse(misfits)
            many += len(rows) + len(misfits)
            cells = list(zip(*rows, strict=True))
            for column, at in zip(evidence, places, strict=True):
                if at is not None and cells:
                    column.add(cells[at])
        return many

    def places_of(self, unit: Unit, rows: Sequence[int]) -> list[RowPlace]:
        """The file and the lines, by reading the block again."""
        number, place = unit.place
        table = self._files[number]
        data = read_block(table.file, place)
        chunks = table.chunks(data, place.line, len(table.header))
        lines = [line for _, some, _ in chunks for line in some]
        return line_places(table.name, lines, rows)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a block of lines by the types found, a few first: that is all that a sample takes."""
        number, place = unit.place
        table = self._files[number]
        first, rest = first_records(read_block(table.file, place), table.dialect)
        places = [(first, place.line), (rest, place.line + count_lines(first))]
        for data, line in places if rest else places[:1]:
            for batch in self._read(number, data, line):
                batch.columns.update(self._partitions.columns(number, batch.rows))
                yield batch

    def _read(self, number: int, data: bytes, line: int) -> Iterator[RawBatch]:
        """Yield the rows of whole records; lines before them are for messages."""
        table = self._files[number]
        needed = [
            (at, column, exact_float(column) if column.name in self._exact else text_converter(column))
            for at, column in zip(self._places[number], self._of_cells, strict=True)
            if column is not None and at is not None
        ]
        block = self._block(table, data, needed)
        if block is not None:
            if block.rows:
                yield block
            return
        width = len(table.header)
        for rows, lines, misfits in table.chunks(data, line, width):
            cells = list(zip(*rows, strict=True)) if rows else [()] * width
            wrong: dict[int, str] = {}
            columns = {c.name: converted(cells[at], f, c, lines, wrong) for at, c, f in needed}
            misfits += [Misfit(table.name, wrong[row], row) for row in sorted(wrong)]
            yield RawBatch(columns, len(rows), misfits=tuple(misfits))

    def _block(
        self, table: CsvFile, data: bytes, needed: Sequence[tuple[int, Column, Callable[[Any], Any]]]
    ) -> RawBatch | None:
        """The rows by pyarrow; None where it does not read them, or where the line of a cell is to be named."""
        types: dict[int, Any] = dict.fromkeys(range(len(table.header)), "string")
        for at, column, _ in needed:
            exact = "string?" if column.nullable else "string"
            types[at] = exact if column.name in self._exact else column.spec
        block = arrow_block(data, Schema.parse({f"c{at}": kind for at, kind in types.items()}), table.dialect)
        if block is None:
            return None
        columns, wrong = {}, dict[int, str]()
        for at, column, convert in needed:
            values = None if column.name in self._exact else block.values(at, column)
            if values is None:
                values = converted(block.texts(at), convert, column, range(block.rows), wrong)
            if wrong:
                return None
            columns[column.name] = values
        return RawBatch(columns, block.rows)
