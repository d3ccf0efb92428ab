"""CSV and TSV files as records: types found over all of them, then read again by those types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from ...core import ColumnLook, look_through_csv
from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .ahead import made_ahead
from .base import Options, RawBatch, Unit, column_names
from .cell_types import CellEvidence, is_rounded
from .convert import converted, exact_float, rounding_advice, text_converter
from .csv_arrow import arrow_block
from .csv_file import CsvFile
from .overrides import apply_overrides
from .partitions import Partitions
from .text_blocks import Block, BlockPlace, count_lines, csv_blocks, first_records, read_block
from .text_files import TextFiles

__all__ = ["CsvTable"]


class CsvTable(TextFiles):
    """Text files of comma, semicolon, tab or bar separated values, whose first line names the columns of all.

    Empty cells are null. A column is int64, uint64, float64 or bool when all its cells are, else string.
    """

    units: Sequence[Unit]
    schema: Schema

    notes: list[str]

    kind: ClassVar[str] = "csv"
    about: ClassVar[str] = "CSV or TSV files"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Read the files once to find their types."""
        self._leaves_out = options.leaves_out
        self._files: list[CsvFile] = []
        self.units = []
        evidence: list[CellEvidence] = []
        rows = 0
        for file, tell in self.each_file(progress):
            table = CsvFile(file)
            if self._files and table.header != self._files[0].header:
                raise SchemaError(
                    f"{table.name} has the columns {', '.join(table.header)}, but {self._files[0].name} has "
                    f"{', '.join(self._files[0].header)}; write them to datasets of their own"
                )
            evidence = evidence or [CellEvidence() for _ in table.header]
            self._files.append(table)
            rows += self._look_through_file(len(self._files) - 1, evidence, options.threads, tell)
        self._partitions = Partitions(self.input, [one.file for one in self._files], self._files[0].header)
        header = [*self._files[0].header, *self._partitions.types]
        every, changed = column_names(header, self.path)
        names = every[: len(self._files[0].header)]
        self._said_elsewhere = dict(zip(header[len(names) :], every[len(names) :], strict=True))
        self.left_out += changed
        if not rows:
            self.notes.append("there is no line below the header, so every type is string")
        found = {name: column.type() for name, column in zip(names, evidence, strict=True)}
        found |= {self._said_elsewhere[name]: kind for name, kind in self._partitions.types.items()}
        self._exact = frozenset(
            name
            for name, column in zip(names, evidence, strict=True)
            if column.inexact and column.type() in ("float64", "float64?") and name not in options.overrides
        )
        if self._exact and not self._leaves_out:
            self._refuse_rounded([i for i, name in enumerate(names) if name in self._exact], names)
        self.schema = apply_overrides(found, options.overrides)
        self._of_cells = Schema(self.schema[name] for name in names)

    def _look_through_file(
        self, number: int, evidence: list[CellEvidence], threads: int, progress: Progress | None
    ) -> int:
        """Take the rows of a file into account, add its units, and return how many rows it has."""
        table, width = self._files[number], len(evidence)
        total, line, row = table.file.size(), table.lines, 0
        units = [Unit(table.name, (number, BlockPlace(table.start, None, line, 0)), 0)]

        def look(block: Block) -> tuple[int, list[ColumnLook]] | None:
            return look_through_csv(block.data, table.delimiter, width)

        blocks = csv_blocks(table.file, table.start, table.delimiter)
        for i, (block, found) in enumerate(made_ahead(look, blocks, threads)):
            place = BlockPlace(block.offset, len(block.data), line, row)
            if found is None:
                row += self._look_at(table, block.data, line, evidence)
            else:
                row += found[0]
                for column, cells in zip(evidence, found[1], strict=True):
                    column.take(cells)
            line += block.lines
            units[i:] = [Unit(table.name, (number, place), row - place.row)]
            if progress is not None:
                progress(place.offset + len(block.data), total)
        self.add_units(units)
        return row

    def _look_at(self, table: CsvFile, data: bytes, line: int, evidence: list[CellEvidence]) -> int:
        """Take a block into account cell by cell, and return how many rows it has."""
        many = 0
        for rows, _, left_out in table.chunks(data, line, len(evidence), leaves_out=self._leaves_out):
            many += len(rows) + len(left_out)
            for column, cells in zip(evidence, zip(*rows, strict=True), strict=True):
                column.add(cells)
        return many

    def _refuse_rounded(self, columns: Sequence[int], names: Sequence[str]) -> None:
        """Raise `SchemaError` about the first whole number of these columns of float64 that would be rounded."""
        for unit in self.units:
            number, place = unit.place
            table = self._files[number]
            for rows, lines, _ in table.chunks(read_block(table.file, place), place.line, len(names)):
                for row, line in zip(rows, lines, strict=True):
                    for i in columns:
                        if is_rounded(row[i]):
                            raise SchemaError(
                                f"{table.name}, line {line}, column {names[i]!r}: {row[i].strip()[:60]} is a whole "
                                f"number, and {rounding_advice(names[i])}"
                            )

    def place_of(self, unit: Unit, row: int) -> str:
        """The file and the line, by reading the block again."""
        number, place = unit.place
        table = self._files[number]
        before = 0
        data = read_block(table.file, place)
        for rows, lines, _ in table.chunks(data, place.line, len(table.header), leaves_out=self._leaves_out):
            if row < before + len(rows):
                return f"{table.name}, line {lines[row - before]}"
            before += len(rows)
        return super().place_of(unit, row)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a block of lines by the types found, a few first: that is all that a sample takes."""
        number, place = unit.place
        table = self._files[number]
        first, rest = first_records(read_block(table.file, place), table.delimiter)
        places = [(first, place.line), (rest, place.line + count_lines(first))]
        for data, line in places if rest else places[:1]:
            for batch in self._read(table, data, line):
                batch.columns.update(self._partitions.columns(number, batch.rows, self._said_elsewhere))
                yield batch

    def _read(self, table: CsvFile, data: bytes, line: int) -> Iterator[RawBatch]:
        """Yield the rows of whole records; lines before them are for messages."""
        cells_of = self._of_cells
        convert = [exact_float(c) if c.name in self._exact else text_converter(c) for c in cells_of]
        width = len(table.header)
        block = self._block(table, data, convert)
        if block is not None:
            if block.rows:
                yield block
            return
        for rows, lines, left_out in table.chunks(data, line, width, leaves_out=self._leaves_out):
            cells = zip(*rows, strict=True) if rows else iter([()] * width)
            columns = {
                c.name: converted(values, f, c, lines, table.name, keep=self.keeps_misfits)
                for c, f, values in zip(cells_of, convert, cells, strict=True)
            }
            yield RawBatch(columns, len(rows), left_out)

    def _block(self, table: CsvFile, data: bytes, convert: Sequence[Callable[[Any], Any]]) -> RawBatch | None:
        """The rows by pyarrow; None where it does not read them, or where the line of a cell is to be named."""
        texts = {name: "string?" if self.schema[name].nullable else "string" for name in self._exact}
        block = arrow_block(data, Schema.parse({**self._of_cells.to_spec(), **texts}), table.delimiter)
        if block is None:
            return None
        columns = {}
        for i, column in enumerate(self._of_cells):
            values = None if column.name in self._exact else block.values(i, column)
            if values is None:
                try:
                    values = converted(block.texts(i), convert[i], column, range(block.rows), table.name)
                except SchemaError:
                    return None
            columns[column.name] = values
        return RawBatch(columns, block.rows)
