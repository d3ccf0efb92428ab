"""CSV and TSV files as records: types found over all of them, then read again by those types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ...core import ColumnLook, look_through_csv
from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .ahead import made_ahead
from .base import Options, RawBatch, Unit, column_names
from .cell_types import CellEvidence
from .convert import converted, text_converter
from .csv_arrow import arrow_block
from .csv_file import CsvFile
from .overrides import apply_overrides
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
        names, changed = column_names(self._files[0].header, self.path)
        self.left_out += changed
        if not rows:
            self.notes.append("there is no line below the header, so every type is string")
        found = {name: column.type() for name, column in zip(names, evidence, strict=True)}
        self.schema = apply_overrides(found, options.overrides)

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
        for rows, left_out in table.chunks(data, line, len(evidence), leaves_out=self._leaves_out):
            many += len(rows) + len(left_out)
            for column, cells in zip(evidence, zip(*rows, strict=True), strict=True):
                column.add(cells)
        return many

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows of a block of lines by the types found, a few first: that is all that a sample takes."""
        number, place = unit.place
        table, row = self._files[number], place.row
        first, rest = first_records(read_block(table.file, place), table.delimiter)
        for batch in self._read(table, first, place.line, row):
            row += batch.rows
            yield batch
        if rest:
            yield from self._read(table, rest, place.line + count_lines(first), row)

    def _read(self, table: CsvFile, data: bytes, line: int, first_row: int) -> Iterator[RawBatch]:
        """Yield the rows of whole records; lines and rows before them are for messages."""
        convert = [text_converter(c) for c in self.schema]
        width = len(table.header)
        block = arrow_block(data, self.schema, table.delimiter)
        if block is not None:
            columns = {}
            for i, column in enumerate(self.schema):
                values = block.values(i, column)
                columns[column.name] = (
                    converted(
                        block.texts(i), convert[i], column, first_row, table.name, keep=self.keeps_misfits
                    )
                    if values is None
                    else values
                )
            if block.rows:
                yield RawBatch(columns, block.rows)
            return
        for rows, left_out in table.chunks(data, line, width, leaves_out=self._leaves_out):
            cells = zip(*rows, strict=True) if rows else iter([()] * width)
            columns = {
                c.name: converted(values, f, c, first_row, table.name, keep=self.keeps_misfits)
                for c, f, values in zip(self.schema, convert, cells, strict=True)
            }
            first_row += len(rows) + len(left_out)
            yield RawBatch(columns, len(rows), left_out)
