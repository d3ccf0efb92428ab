"""Text files as records: a row per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .base import Options, RawBatch, Unit
from .input_path import InputPath
from .overrides import apply_overrides
from .text_blocks import BlockPlace, line_blocks, read_block
from .text_files import TextFiles

__all__ = ["TextLines"]


class TextLines(TextFiles):
    """UTF-8 text, a row per line without its end; empty lines are rows, too. Folders are read so when that is asked."""

    units: Sequence[Unit]
    schema: Schema

    kind: ClassVar[str] = "text"
    about: ClassVar[str] = "a text file (a row per line)"
    item: ClassVar[str] = "line"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text")

    @classmethod
    def recognises(cls, source: InputPath) -> bool:
        """A file, by its name; a folder of texts has a row per file."""
        return source.is_file and source.suffix in cls.suffixes

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Count the lines."""
        self._files: list[InputPath] = []
        self.units = []
        for file, tell in self.each_file(progress):
            self._files.append(file)
            self._look_through_file(file, len(self._files) - 1, tell)
        if not self.units:
            raise SchemaError(f"{self.path} is empty")
        self.schema = apply_overrides({"text": "text"}, options.overrides)

    def _look_through_file(self, file: InputPath, number: int, progress: Progress | None) -> None:
        total, line = file.size(), 0
        units: list[Unit] = []
        for block in line_blocks(file):
            lines = len(_lines(block.data))
            place = BlockPlace(block.offset, len(block.data), line, line)
            units.append(Unit(file.name, (number, place), lines))
            line += lines
            if progress is not None:
                progress(block.offset + len(block.data), total)
        self.add_units(units)

    def place_of(self, unit: Unit, row: int) -> str:
        """The file and the line."""
        return f"{unit.name}, line {unit.place[1].line + row + 1}"

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
