"""Text files as records: a row per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ...errors import SchemaError
from ...format.schema import Schema
from ...progress import Progress
from .base import Options, RawBatch, Source, Unit
from .overrides import apply_overrides
from .text_blocks import BlockPlace, line_blocks, read_block

__all__ = ["TextLines"]


class TextLines(Source):
    """UTF-8 text, a row per line without its end; empty lines are rows, too."""

    units: Sequence[Unit]
    schema: Schema

    kind: ClassVar[str] = "text"
    about: ClassVar[str] = "a text file (a row per line)"
    item: ClassVar[str] = "line"
    reads: ClassVar[str] = "a file"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text")

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Count the lines."""
        total = self.input.size()
        units: list[Unit] = []
        line = 0
        for block in line_blocks(self.input):
            lines = len(_lines(block.data))
            units.append(Unit(self.path, BlockPlace(block.offset, len(block.data), line, line), lines))
            line += lines
            if progress is not None:
                progress(block.offset + len(block.data), total)
        if not units:
            raise SchemaError(f"{self.path} is empty")
        last = units[-1]
        self.units = [*units[:-1], Unit(self.path, last.place._replace(size=None), last.rows)]
        self.schema = apply_overrides({"text": "text"}, options.overrides)

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the lines of a block."""
        lines = _lines(read_block(self.input, unit.place))
        found: list[bytes | str] = list(lines)
        if self.schema["text"].type != "bytes":
            for i, line in enumerate(lines):
                try:
                    found[i] = line.decode()
                except UnicodeDecodeError as error:
                    raise SchemaError(
                        f"{self.path}, line {unit.place.line + i + 1} is not UTF-8 ({error.reason} at byte "
                        f"{error.start}); --schema text=bytes takes it"
                    ) from None
        yield RawBatch({"text": found}, len(found))


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]
